/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that define a run: shared by `doppel run` and by sweeps with fixed options. */
#include "sim/cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/environment.h"
#include "sim/world/world.h"

/* The options that are no dimension of a scenario, and the heads of the groups. */
static const struct argp_option options_own[] = {
	{NULL, 0, NULL, 0, "The world:", 1},
	{NULL, 0, NULL, 0, "The collective (as nccl-tests):", 2},
	{"parallel_init", 'p', "0|1", 0,
	 "ranks initialise at the same time: the default; 0 is refused", 2},
	{"ngpus", 'g', "G", 0,
	 "G ranks of a host in one process (default: as the options that it sets), whose single "
	 "task makes their calls: sets --gpus, --ranks-per-process and --drive process",
	 2},
	{"nthreads", 't', "T", 0,
	 "T ranks of a host in one process, with a task for each rank: sets --gpus and "
	 "--ranks-per-process (default: theirs)",
	 2},
	{"report_cputime", 'C', "0|1", 0, "the time of a row is that of a rank's calls (default 0)",
	 2},
	{"timeout", 'T', "S", OPTION_HIDDEN, NULL, 2},
	{"stream_null", 'y', "0|1", OPTION_HIDDEN, NULL, 2},
	{"report_timestamps", 'S', "0|1", OPTION_HIDDEN, NULL, 2},
	{"output_file", 'J', "FILE", OPTION_HIDDEN, NULL, 2},
	{"cta_policy", 'x', "0|1|2", OPTION_HIDDEN, NULL, 2},
	{"device_implementation", 'D', "N", OPTION_HIDDEN, NULL, 2},
	{"device_cta_count", 'V', "N", OPTION_HIDDEN, NULL, 2},
	{"memory_report", 'M', "0|1", OPTION_HIDDEN, NULL, 2},
	{NULL, 0, NULL, 0, "The engine:", 3},
	{"faults-must-fire", OPTION_MUST_FIRE, NULL, 0,
	 "a run that passes ends with 1 when a line of the plan never fired; a sweep, when none "
	 "did in "
	 "any seed",
	 3},
	{"trace", OPTION_TRACE, "FILE", 0, "write a timeline for ui.perfetto.dev (default: none)",
	 3},
	{"trace-detail", OPTION_TRACE_DETAIL, "FILE", 0,
	 "--trace with a track for each warp, and every record (default: none)", 3},
	{"record", OPTION_RECORD, "FILE", 0, "write the choices made (default: none)", 3},
	{"replay", OPTION_REPLAY, "FILE", 0,
	 "make the choices of a recorded run (default: draw them)", 3},
	{"fail-dir", OPTION_FAIL_DIR, "DIR", 0,
	 "folder for a failing run's choices, waits and a core with every task as a thread "
	 "(default: run none, sweep fail)",
	 3},
	{"workers", OPTION_WORKERS, "N", 0,
	 "threads engine: workers that run warps (default: one per CPU)", 3},
	{"gdb", OPTION_GDB, NULL, 0, "start under gdb, with Doppel's commands loaded", 3},
	{NULL, 0, NULL, 0,
	 "Real processes; those of several computers with a real HCA (presets soft-roce, "
	 "hardware):",
	 4},
	{"processes", OPTION_PROCESSES, "P", 0,
	 "start P processes on this computer, with --gpus ranks each (default 1)", 4},
	{"procs", OPTION_PROCS, NULL, 0,
	 "each process of a world of doubles is a real one, in engine threads: hosts, GPUs and "
	 "HCAs "
	 "are shared; started by mpirun, torchrun or srun, this process is one of them (default: "
	 "one real process has the whole world)",
	 4},
	{"rank", OPTION_RANK, "R", 0, "run one of them, whose first rank is R (default: start all)",
	 4},
	{"ranks", OPTION_RANKS, "N", 0, "ranks of all processes (default: needed with --rank)", 4},
	{"root", OPTION_ROOT, "HOST:PORT", 0,
	 "address at which rank 0's process accepts the others; start it first (default: needed "
	 "with --rank)",
	 4},
	{"limit", OPTION_LIMIT, "SECONDS", 0,
	 "a process that takes longer prints which task waits for which and ends with 10 (default: "
	 "no limit)",
	 4},
	{"id-fd", OPTION_ID_FD, "FD", OPTION_HIDDEN, "the launcher's, instead of --root", 4},
	{"job-place", OPTION_JOB_PLACE, "I/N/RANKS/JOB", OPTION_HIDDEN, "a process of --procs", 4},
};

/* All of them: filled by options_fill, ends with {0}. */
static struct argp_option options_argp_options[DIMENSIONS_MAX + ARRAY_LEN(options_own) + 1];

static void options_fill(void)
{
	struct argp_option *to = options_argp_options;

	ASSERT(dimensions_n <= DIMENSIONS_MAX);

	for (size_t i = 0; i < ARRAY_LEN(options_own); i++)
		*to++ = options_own[i];
	for (uint32_t i = 0; i < dimensions_n; i++)
		if (dimensions[i].option.name)
			*to++ = (struct argp_option){.name = dimensions[i].option.name,
						     .key = dimensions[i].option.key,
						     .arg = dimensions[i].option.arg,
						     .doc = dimensions[i].option.help,
						     .group = dimensions[i].option.group};
	ASSERT(to < options_argp_options + ARRAY_LEN(options_argp_options));
	*to = (struct argp_option){0};
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *arg, uint64_t least,
		    uint64_t most)
{
	uint64_t v;
	if (!cli_parse_u64(arg, &v) || v < least || v > most)
		argp_error(state, "%s %s: expected a number from %" PRIu64 " to %" PRIu64, option,
			   *arg ? arg : "''", least, most);
	return v;
}

uint64_t cli_size(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t v = 0;
	if (!cli_parse_size(arg, &v))
		argp_error(state, "%s %s: expected a size such as 8, 64K, 16M or 1G", option, arg);
	return v;
}

/* Joins names as "sim or threads", "slot, node or seed". */
static const char *options_names(const char *const *names, char out[128])
{
	size_t n = 0;

	for (; *names && n < 128; names++)
		n += (size_t)snprintf(out + n, 128 - n, "%s%s",
				      !n         ? ""
				      : names[1] ? ", "
						 : " or ",
				      *names);
	return out;
}

static uint64_t options_name(const struct dimension *d, const char *option, const char *arg,
			     struct argp_state *state)
{
	char list[128];

	for (uint64_t i = 0; d->names[i]; i++)
		if (!strcmp(arg, d->names[i]))
			return i;
	argp_error(state, "%s %s: expected %s", option, arg, options_names(d->names, list));
	return 0;
}

static void options_text(const struct dimension *d, const char *option, const char *arg,
			 struct argp_state *state, struct scenario *s)
{
	ASSERT(d->bytes > 0 && d->offset + d->bytes <= sizeof *s); /* a field of the scenario */
	if (strlen(arg) >= d->bytes)
		argp_error(state, "%s: longer than %zu characters", option, d->bytes - 1);
	snprintf((char *)s + d->offset, d->bytes, "%s", arg);
}

/* Parses the value of a dimension's option, unless it has a case of its own. */
static bool options_parse_dimension(const struct dimension *d, const char *arg,
				    struct argp_state *state, struct cli_options *o)
{
	struct scenario *s = &o->scenario;
	char option[64];

	if (d->option.by_case)
		return false;
	ASSERT(d->kind == DIMENSION_FLAG || arg); /* only a flag has no argument */
	if (d->option.key < 128)
		snprintf(option, sizeof option, "-%c", d->option.key);
	else
		snprintf(option, sizeof option, "--%s", d->option.name);
	switch (d->kind) {
	case DIMENSION_FLAG:
		dimension_set(d, s, 1);
		return true;
	case DIMENSION_NAME:
		dimension_set(d, s, options_name(d, option, arg, state));
		return true;
	case DIMENSION_SIZE:
		dimension_set(d, s, cli_size(state, option, arg));
		return true;
	case DIMENSION_TEXT:
		options_text(d, option, arg, state, s);
		return true;
	default:
		ASSERT(d->kind == DIMENSION_NUMBER || d->kind == DIMENSION_HEX);
		dimension_set(
			d, s,
			cli_number(state, option, arg, MAX_OF(d->option.least, d->min), d->max));
		return true;
	}
}

/* Options of a dimension, or an alias of several. */
static const struct dimension *options_dimension(int key)
{
	for (uint32_t i = 0; i < dimensions_n; i++)
		if (dimensions[i].option.name && dimensions[i].option.key == key)
			return &dimensions[i];
	return NULL;
}

/* Options of a run that are no dimension. */
static bool options_parse_run(int key, char *arg, struct argp_state *state, struct cli_options *o)
{
	struct sim_config *s = &o->scenario.lab.sim;

	switch (key) {
	case OPTION_MUST_FIRE:
		o->must_fire = true;
		return true;
	case OPTION_TRACE:
	case OPTION_TRACE_DETAIL:
		s->trace_path = arg;
		s->trace_detail = key == OPTION_TRACE_DETAIL;
		return true;
	case OPTION_RECORD:
		s->choices_out = arg;
		return true;
	case OPTION_REPLAY:
		s->choices_in = arg;
		return true;
	case OPTION_FAIL_DIR:
		o->fail_dir = arg;
		return true;
	case OPTION_WORKERS:
		s->workers = (uint32_t)cli_number(state, "--workers", arg, 1, 1024);
		return true;
	case OPTION_GDB:
		o->gdb = true;
		return true;
	default:
		return false;
	}
}

/* Checks "HOST:PORT" or "[ADDRESS]:PORT". */
static const char *options_root(const char *arg, struct argp_state *state)
{
	const char *colon = strrchr(arg, ':');
	uint64_t port;

	if (!colon || colon == arg || !cli_parse_u64(colon + 1, &port) || !port || port > 65535)
		argp_error(state, "--root %s: expected HOST:PORT, such as 10.0.0.1:7500", arg);
	return arg;
}

static void options_place(const char *arg, struct argp_state *state, struct cli_place *p)
{
	if (sscanf(arg, "%u/%u/%u/%23[a-z0-9-]", &p->process, &p->processes, &p->each, p->job) !=
		    4 ||
	    p->process >= p->processes || !p->each)
		argp_error(state, "--job-place %s: expected I/N/RANKS/JOB", arg);
	p->by = "doppel";
	p->local = p->process;
	p->here = p->processes;
}

static bool options_parse_processes(int key, char *arg, struct argp_state *state,
				    struct cli_options *o)
{
	switch (key) {
	case OPTION_PROCESSES:
		o->processes =
			(uint32_t)cli_number(state, "--processes", arg, 1, CLI_MAX_PROCESSES);
		return true;
	case OPTION_RANK:
		o->rank = (int32_t)cli_number(state, "--rank", arg, 0, 1u << 20);
		return true;
	case OPTION_RANKS:
		o->ranks = (int32_t)cli_number(state, "--ranks", arg, 1, 1u << 20);
		return true;
	case OPTION_ROOT:
		o->root = options_root(arg, state);
		return true;
	case OPTION_ID_FD:
		o->id_fd = (int)cli_number(state, "--id-fd", arg, 0, INT32_MAX);
		return true;
	case OPTION_PROCS:
		o->procs = true;
		return true;
	case OPTION_JOB_PLACE:
		options_place(arg, state, &o->place);
		return true;
	case OPTION_LIMIT:
		o->limit_s = (uint32_t)cli_number(state, "--limit", arg, 1, 1u << 30);
		return true;
	default:
		return false;
	}
}

static void options_end_machines(struct cli_options *o, struct argp_state *state)
{
	uint32_t n = lab_machines_count(o->scenario.machine);

	if (n == 1)
		return;
	cli_give(&o->given, OPTION_MACHINE_LIST);
	if (!cli_is_given(&o->given, OPTION_HOSTS))
		o->scenario.lab.hosts = n;
	if (n > o->scenario.lab.hosts)
		argp_error(state,
			   "--machine with %u machines, --hosts %u: expected at most one "
			   "for each host",
			   n, o->scenario.lab.hosts);
}

static void options_end_gpus(struct cli_options *o, struct argp_state *state)
{
	struct lab_config *c = &o->scenario.lab;

	if (!cli_is_given(&o->given, OPTION_HOSTS) && c->host_gpus_n)
		c->hosts = c->host_gpus_n;
	if (c->host_gpus_n && c->host_gpus_n != c->hosts)
		argp_error(state, "--gpus with %u numbers, --hosts %u: expected one for each host",
			   c->host_gpus_n, c->hosts);
}

/* Enables detection on real GPUs, unless a machine or a topology file is named. */
static void options_end_topology(struct cli_options *o)
{
#ifndef DOPPEL_FAKECUDA
	const char *machine = getenv("DOPPEL_MACHINE");
	bool named = cli_is_given(&o->given, OPTION_MACHINE) || (machine && *machine);

	for (uint32_t i = 0; i < o->scenario.env_count; i++)
		named |= strncmp(o->scenario.env[i], "NCCL_TOPO_FILE=", 15) == 0;
	if (!named)
		(void)scenario_set_env(&o->scenario, "NCCL_TOPO_FILE=");
#else
	(void)o;
#endif
}

static error_t options_parse(int key, char *arg, struct argp_state *state)
{
	struct cli_options *o = state->input;
	cli_take(state, options_argp_options, &o->given, key, arg);
	const struct dimension *d = options_dimension(key);

	if (options_parse_run(key, arg, state, o) || options_parse_processes(key, arg, state, o))
		return 0;
	if ((d && options_parse_dimension(d, arg, state, o)) ||
	    cli_case_parse(key, arg, state, o)) {
		if (!d || d->option.group != DIMENSION_ENGINE)
			cli_give(&o->given, OPTION_FIXED);
		return 0;
	}
	switch (key) {
	case ARGP_KEY_ARG:
		cli_collective_name(arg, state, o);
		cli_give(&o->given, OPTION_FIXED);
		return 0;
	case ARGP_KEY_END:
		options_end_machines(o, state);
		options_end_gpus(o, state);
		options_end_topology(o);
		cli_collective_end(state, o);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Shows warnings unless the caller's environment sets another level. The caller's NCCL_* and
 * DOPPEL_* variables are set in every rank. --env is applied later. The last assignment of a name
 * counts. */
static void options_inherit_env(struct scenario *s)
{
	scenario_set_env(s, "NCCL_DEBUG=WARN");
	for (char **e = environ; *e; e++)
		if ((!strncmp(*e, "NCCL_", 5) || !strncmp(*e, "DOPPEL_", 7)) &&
		    scenario_set_env(s, *e)) {
			fprintf(stderr,
				"doppel: %.40s... of the environment does not fit; expected at "
				"most %d variables of %d characters\n",
				*e, SCENARIO_MAX_ENV, SCENARIO_ENV_BYTES - 1);
			exit(SIM_USAGE);
		}
}

static void options_inherit_machine(struct cli_options *o)
{
	const char *machine = getenv("DOPPEL_MACHINE");

	if (!machine || !*machine)
		return;
	if ((size_t)snprintf(o->scenario.machine, sizeof o->scenario.machine, "%s", machine) >=
	    sizeof o->scenario.machine) {
		fprintf(stderr, "doppel: DOPPEL_MACHINE: expected at most %d characters\n",
			SCENARIO_PATH_BYTES - 1);
		exit(SIM_USAGE);
	}
	cli_give(&o->given, OPTION_FIXED);
}

bool cli_has_both_doubles(void)
{
#if defined(DOPPEL_FAKECUDA) && defined(DOPPEL_FAKEVERBS)
	return true;
#else
	return false;
#endif
}

void cli_options_default(struct cli_options *o)
{
	memset(o, 0, sizeof *o);
	options_fill();
	scenario_default(&o->scenario);
	o->rank = o->id_fd = -1;
	if (!cli_has_both_doubles())
		o->scenario.lab.sim.engine = SIM_ENGINE_THREADS;
	options_inherit_env(&o->scenario);
	options_inherit_machine(o);
}

char *cli_machine_help(int key, const char *text, void *input)
{
	(void)input;
	return key == OPTION_MACHINE && text ? cli_machines_help(text) : (char *)text;
}

const struct argp cli_options_argp = {
	.options = options_argp_options, .parser = options_parse, .help_filter = cli_machine_help};
