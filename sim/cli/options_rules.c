/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a run that exclude or need each other, and what this build can run. */
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/options.h"
#include "sim/world/world.h"

/* An option without an effect, or with two meanings, is refused instead of ignored. */
static const struct cli_rule options_rules[] = {
	{CLI_EXCLUDES, OPTION_DEVICES, {OPTION_GPUS}, NULL},
	{CLI_EXCLUDES, OPTION_GPU_LIST, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_MACHINE_LIST, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_MAP, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, 'f', {'i'}, NULL},
	{CLI_EXCLUDES,
	 'g',
	 {OPTION_GPUS, OPTION_DEVICES, OPTION_RANKS_PER_PROC, OPTION_DRIVE},
	 NULL},
	{CLI_EXCLUDES,
	 't',
	 {OPTION_GPUS, OPTION_DEVICES, OPTION_RANKS_PER_PROC, OPTION_DRIVE},
	 NULL},
	{CLI_EXCLUDES, 'm', {OPTION_GROUP, OPTION_STREAMS, OPTION_COMMS}, NULL},
	{CLI_EXCLUDES, 'z', {'G'}, NULL},
	{CLI_EXCLUDES, OPTION_PER_ITERATION, {OPTION_STREAMS, 'G', 'm'}, NULL},
	{CLI_EXCLUDES,
	 OPTION_THREADS,
	 {OPTION_STRATEGY, OPTION_MEMORY_ORDER, OPTION_RACES, OPTION_RECORD, OPTION_REPLAY,
	  OPTION_QUIET},
	 NULL},
	{CLI_EXCLUDES, OPTION_TRANSIENT, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_IDLE, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_EXCLUDES, OPTION_INIT_FAILS, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_LEAVES, {OPTION_FAULTS}, NULL},
	{CLI_EXCLUDES, OPTION_ENV_ODD, {OPTION_PROCESSES, OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_WORKERS, {OPTION_THREADS, OPTION_PROCS}, NULL},
	{CLI_NEEDS, OPTION_RECOVER, {OPTION_FAULTS}, NULL},
	{CLI_NEEDS, OPTION_MUST_FIRE, {OPTION_FAULTS}, NULL},
	{CLI_EXCLUDES,
	 OPTION_MUST_FIRE,
	 {OPTION_RANDOM_FAULTS, OPTION_PROCESSES, OPTION_RANK},
	 NULL},
	{CLI_NEEDS, OPTION_QUIET, {OPTION_FAULTS}, NULL},
	{CLI_NEEDS, OPTION_ID_FD, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_ROOT, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_RANKS, {OPTION_RANK}, NULL},
	{CLI_NEEDS, OPTION_RANK, {OPTION_RANKS}, NULL},
	{CLI_NEEDS, OPTION_LIMIT, {OPTION_RANK, OPTION_PROCESSES, OPTION_PROCS}, NULL},
	{CLI_NEEDS, OPTION_JOB_PLACE, {OPTION_PROCS}, NULL},
	{CLI_EXCLUDES,
	 OPTION_PROCS,
	 {OPTION_PROCESSES, OPTION_RANK, OPTION_GPU_LIST, OPTION_MACHINE_LIST, OPTION_MAP,
	  OPTION_DEVICES},
	 NULL},
	{CLI_EXCLUDES,
	 OPTION_PROCS,
	 {OPTION_TRANSIENT, OPTION_IDLE, OPTION_INIT_FAILS, OPTION_ENV_ODD, OPTION_MUST_FIRE,
	  OPTION_COMMS},
	 NULL},
	{CLI_EXCLUDES,
	 OPTION_PROCS,
	 {OPTION_STRATEGY, OPTION_MEMORY_ORDER, OPTION_RACES, OPTION_RECORD, OPTION_REPLAY,
	  OPTION_QUIET},
	 NULL},
	{CLI_EXCLUDES,
	 OPTION_PROCS,
	 {OPTION_RECOVER, OPTION_TRACE, OPTION_TRACE_DETAIL, OPTION_FAIL_DIR, OPTION_SIM},
	 NULL},
	{CLI_EXCLUDES, OPTION_PROCESSES, {OPTION_ROOT, OPTION_HOSTS}, NULL},
	{CLI_EXCLUDES, OPTION_RANK, {OPTION_HOSTS}, NULL},
	{CLI_EXCLUDES, OPTION_ROOT, {OPTION_ID_FD}, NULL},
};

static const struct argp_option options_words[] = {
	{"gpus G0,G1,...", OPTION_GPU_LIST, NULL, 0, NULL, 0},
	{"machine A,B,...", OPTION_MACHINE_LIST, NULL, 0, NULL, 0},
	{"engine threads", OPTION_THREADS, NULL, 0, NULL, 0},
	{"engine sim", OPTION_SIM, NULL, 0, NULL, 0},
	{"faults random", OPTION_RANDOM_FAULTS, NULL, 0, NULL, 0},
	{NULL, OPTION_FIXED, NULL, 0, "a collective or an option of the world", 0},
	{0},
};

static bool options_go_together(const char *command, const struct cli_options *o,
				const struct cli_rule *rules, size_t n,
				const struct argp_option *own)
{
	const struct argp_option *const names[] = {cli_options_argp.options, options_words, own,
						   NULL};

	return cli_rules_hold(command, rules, n, &o->given, names) &&
	       cli_rules_hold(command, options_rules, ARRAY_LEN(options_rules), &o->given, names);
}

bool cli_options_check(const char *command, struct cli_options *o, const struct cli_rule *rules,
		       size_t n, const struct argp_option *own)
{
	for (uint32_t i = 0; i < o->scenario.env_count; i++)
		if (world_env_check(o->scenario.env[i]))
			return false;
	if (o->scenario.lab.sim.engine == SIM_ENGINE_THREADS)
		cli_give(&o->given, OPTION_THREADS);
	else if (cli_is_given(&o->given, OPTION_ENGINE))
		cli_give(&o->given, OPTION_SIM);
	if (!options_go_together(command, o, rules, n, own) || !cli_collective_check(command, o))
		return false;
	/* one of several processes reads its variables after its own settings */
	if (cli_has_both_doubles() && cli_is_given(&o->given, OPTION_FIXED) &&
	    !cli_is_given(&o->given, OPTION_RANK) && !o->place.by &&
	    !cli_machines_fit(o->scenario.machine))
		return false;
	if (cli_has_both_doubles() || o->scenario.lab.sim.engine != SIM_ENGINE_SIM)
		return true;
	fprintf(stderr, "doppel: --engine sim needs both doubles: real GPUs and HCAs keep "
			"their own time. Use --engine threads, or the preset `fake`.\n");
	return false;
}
