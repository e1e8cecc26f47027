/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel exhaust: parses options and calls exhaust_run. */
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/cli.h"
#include "sim/cli/environment.h"
#include "sim/cli/options.h"
#include "sim/cli/rules.h"
#include "sim/engine/sim.h"
#include "sim/lab/explore/exhaust.h"
#include "sim/world/world.h"

enum exhaust_key {
	EXHAUST_STRIDE = 0x200,
	EXHAUST_FIRST,
	EXHAUST_MOST,
	EXHAUST_RANK,
	EXHAUST_SITE,
	EXHAUST_SEED,
	EXHAUST_K,
	EXHAUST_HOSTS,
	EXHAUST_GPUS,
	EXHAUST_RANKS_PER_PROC,
	EXHAUST_ONCE,
	EXHAUST_FOR_EVER,
	EXHAUST_FIFO,
	EXHAUST_EXPLORING,
	EXHAUST_BLOCKING,
	EXHAUST_POLLING,
	EXHAUST_SPLIT,
	EXHAUST_STAGE,
	EXHAUST_COLLECTIVE,
	EXHAUST_TASK,
	EXHAUST_ENV,
};

static const struct argp_option exhaust_options[] = {
	{"stride", EXHAUST_STRIDE, "N", 0, "every N-th k (default 1: all)", 1},
	{"first", EXHAUST_FIRST, "K", 0, "first k (default 1)", 1},
	{"most", EXHAUST_MOST, "N", 0, "at most N runs per series", 1},
	{"rank", EXHAUST_RANK, "R", 0,
	 "calls of this rank only (default: any; kill, abort: each rank)", 1},
	{"site", EXHAUST_SITE, "SITE", 0, "this site only, or SITE.ACTION ('doppel faults')", 1},
	{"task", EXHAUST_TASK, "NAME", 0,
	 "abort at the steps of this task (default: each task of the rank's process)", 1},
	{"once", EXHAUST_ONCE, NULL, 0, "only the k-th call fails (default: both)", 1},
	{"for-ever", EXHAUST_FOR_EVER, NULL, 0,
	 "all calls from the k-th on fail; not kill, abort, sticky", 1},
	{"fifo", EXHAUST_FIFO, NULL, 0, "exact time, one order (default: both)", 1},
	{"exploring", EXHAUST_EXPLORING, NULL, 0, "an order drawn from seed + k", 1},
	{"blocking", EXHAUST_BLOCKING, NULL, 0,
	 "ncclCommInitRank blocks (default: in every other run)", 1},
	{"polling", EXHAUST_POLLING, NULL, 0, "ncclCommInitRank does not block, and is polled", 1},
	{"stage", EXHAUST_STAGE, "NAME", 0,
	 "calls of the ranks between two collectives, or at the end: split, shrink, grow, revoke, "
	 "suspend, window, finalize, abort",
	 1},
	{"split", EXHAUST_SPLIT, NULL, 0, "--stage split", 1},
	{"seed", EXHAUST_SEED, "S", 0, "seed of exploring runs (default 1)", 1},
	{"k", EXHAUST_K, "K", 0, "one run, in this process: prints its output, works under gdb", 1},
	{"collective", EXHAUST_COLLECTIVE, "NAME", 0,
	 "collective that the ranks run (default all_reduce)", 2},
	{"machine", OPTION_MACHINE, "XML[,XML...]", 0,
	 "one of Doppel's machines, or a topology file (default: DOPPEL_MACHINE, else h100-8nic); "
	 "host i has the i-th of several, cyclically",
	 2},
	{"hosts", EXHAUST_HOSTS, "N", 0, "hosts (default 2)", 2},
	{"gpus", EXHAUST_GPUS, "G", 0, "ranks per host (default 2)", 2},
	{"ranks-per-process", EXHAUST_RANKS_PER_PROC, "R", 0, "(default 1)", 2},
	{"env", EXHAUST_ENV, "NAME=VALUE", 0,
	 "for every process; up to 30 with the caller's NCCL_* and DOPPEL_*, which are passed as "
	 "well",
	 2},
	{0},
};

static struct cli_given exhaust_given;

static const struct cli_rule exhaust_rules[] = {
	{CLI_EXCLUDES, EXHAUST_SPLIT, {EXHAUST_STAGE}, NULL},
	{CLI_EXCLUDES, EXHAUST_K, {EXHAUST_STRIDE, EXHAUST_FIRST, EXHAUST_MOST}, NULL},
};

static void exhaust_parse_class(struct exhaust_config *c, const char *arg, struct argp_state *state)
{
	DOPPEL_STATIC_CHECK(EXHAUST_CLASSES < 32, "a bit for each class");
	uint32_t classes = strcmp(arg, "all") ? 0 : (1u << EXHAUST_CLASSES) - 1;
	for (int i = 0; i < EXHAUST_CLASSES; i++)
		if (!strcmp(arg, exhaust_class_name[i]))
			classes |= 1u << i;
	if (!classes)
		argp_error(state,
			   "'%s': expected alloc, verbs, cuda, socket, shm, file, kill, abort or "
			   "all",
			   arg);
	c->classes = state->arg_num ? c->classes | classes : classes;
}

static void exhaust_parse_stage(struct exhaust_config *c, const char *arg, struct argp_state *state)
{
	for (int i = LAB_STAGE_NONE + 1; i < LAB_STAGES; i++)
		if (!strcmp(arg, lab_stage_name[i]))
			c->stage = (enum lab_stage)i;
	if (!c->stage || strcmp(arg, lab_stage_name[c->stage]))
		argp_error(state,
			   "--stage %s: expected split, shrink, grow, revoke, suspend, window, "
			   "finalize or abort",
			   arg);
}

/* False: too many variables. */
static bool exhaust_add_env(struct exhaust_config *c, const char *assignment)
{
	int n = 0;

	while (c->env[n])
		n++;
	ASSERT(n >= EXHAUST_ENV_OWN); /* the config begins with its own */
	if (n == EXHAUST_ENV_MOST)
		return false;
	if (world_env_check(assignment))
		exit(SIM_USAGE);
	c->env[n] = assignment;
	return true;
}

static void exhaust_parse_env(struct exhaust_config *c, const char *arg, struct argp_state *state)
{
	cli_env_option("--env", arg, state);
	if (!exhaust_add_env(c, arg))
		argp_error(state, "--env %s: expected at most %d variables", arg,
			   EXHAUST_ENV_MOST - EXHAUST_ENV_OWN);
}

/* Adds the caller's variables, which ranks inherit as in a run. --env follows and overrides
 * them. */
static void exhaust_inherit(struct exhaust_config *c)
{
	const char *machine = getenv("DOPPEL_MACHINE");

	if (machine && *machine)
		c->machine = machine;
	for (char **e = environ; *e; e++) {
		if (!cli_env_is_for_ranks(*e) || exhaust_add_env(c, *e))
			continue;
		fprintf(stderr,
			"doppel exhaust: %.40s... of the environment does not fit; expected at "
			"most %d variables\n",
			*e, EXHAUST_ENV_MOST - EXHAUST_ENV_OWN);
		exit(SIM_USAGE);
	}
}

static bool exhaust_parse_flag(int key, struct exhaust_config *c)
{
	bool *const flag = key == EXHAUST_ONCE        ? &c->once
			   : key == EXHAUST_FOR_EVER  ? &c->for_ever
			   : key == EXHAUST_FIFO      ? &c->fifo
			   : key == EXHAUST_EXPLORING ? &c->exploring
			   : key == EXHAUST_BLOCKING  ? &c->blocking
			   : key == EXHAUST_POLLING   ? &c->polling
						      : NULL;
	if (flag)
		*flag = true;
	return flag;
}

static error_t exhaust_parse(int key, char *arg, struct argp_state *state)
{
	struct exhaust_config *c = state->input;
	cli_take(state, exhaust_options, &exhaust_given, key, arg);
	if (exhaust_parse_flag(key, c))
		return 0;
	switch (key) {
	case EXHAUST_SPLIT:
		c->stage = LAB_STAGE_SPLIT;
		return 0;
	case EXHAUST_STAGE:
		exhaust_parse_stage(c, arg, state);
		return 0;
	case EXHAUST_STRIDE:
		c->stride = cli_number(state, "--stride", arg, 1, 1u << 30);
		return 0;
	case EXHAUST_K:
		c->in_process = true;
		c->first = cli_number(state, "--k", arg, 1, UINT64_MAX);
		return 0;
	case EXHAUST_FIRST:
		c->first = cli_number(state, "--first", arg, 1, UINT64_MAX);
		return 0;
	case EXHAUST_MOST:
		c->most = cli_number(state, "--most", arg, 1, UINT64_MAX);
		return 0;
	case EXHAUST_RANK:
		c->rank = (int32_t)cli_number(state, "--rank", arg, 0, 63);
		return 0;
	case EXHAUST_COLLECTIVE:
		c->collective = cli_collective_find("--collective: ", arg, state);
		return 0;
	case EXHAUST_ENV:
		exhaust_parse_env(c, arg, state);
		return 0;
	case EXHAUST_SITE:
		c->site = arg;
		return 0;
	case EXHAUST_TASK:
		c->task = arg;
		return 0;
	case EXHAUST_SEED:
		c->seed = cli_number(state, "--seed", arg, 0, UINT64_MAX);
		return 0;
	case OPTION_MACHINE:
		c->machine = arg;
		return 0;
	case EXHAUST_HOSTS:
		c->hosts = (uint32_t)cli_number(state, "--hosts", arg, 1, 8);
		return 0;
	case EXHAUST_GPUS:
		c->gpus = (uint32_t)cli_number(state, "--gpus", arg, 1, 8);
		return 0;
	case EXHAUST_RANKS_PER_PROC:
		c->ranks_per_proc = (uint32_t)cli_number(state, "--ranks-per-process", arg, 1, 8);
		return 0;
	case ARGP_KEY_ARG:
		exhaust_parse_class(c, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool exhaust_check(const struct exhaust_config *c)
{
	static const struct argp_option *const names[] = {exhaust_options, NULL};

	if (c->rank >= 0 && (uint32_t)c->rank >= c->hosts * c->gpus) {
		fprintf(stderr, "doppel exhaust: --rank %d: expected a rank from 0 to %u\n",
			c->rank, c->hosts * c->gpus - 1);
		return false;
	}
	if (c->task && !(c->classes & 1u << EXHAUST_ABORT)) {
		fprintf(stderr, "doppel exhaust: --task has no effect without the class abort\n");
		return false;
	}
	return cli_rules_hold("exhaust", exhaust_rules, ARRAY_LEN(exhaust_rules), &exhaust_given,
			      names) &&
	       cli_machines_fit(c->machine);
}

int cli_exhaust(int argc, char **argv)
{
	static const struct argp argp = {
		.options = exhaust_options,
		.parser = exhaust_parse,
		.help_filter = cli_machine_help,
		.args_doc = "[alloc|verbs|cuda|socket|shm|file|kill|abort|all...]",
		.doc = "Fails the k-th call of each kind, for every k until there are no more: the "
		       "k-th call alone, and all calls from the k-th on. Kills and aborts each "
		       "rank at every moment. Expects that all survivors return, that nothing "
		       "leaks, and that they can create a new communicator.\vExit status: that of "
		       "the worst finding; 0 without findings.",
	};
	struct exhaust_config c;
	struct exhaust_result r;

	exhaust_config_default(&c);
	exhaust_inherit(&c);
	c.progress = isatty(STDERR_FILENO) ? stderr : NULL;
	cli_parse(&argp, 0, argc, argv, &c);
	if (!exhaust_check(&c))
		return SIM_USAGE;
	if (exhaust_run(&c, &r))
		return SIM_USAGE;
	printf("exhaust: %" PRIu64 " series, %" PRIu64 " runs, %" PRIu64 " with the fault, %" PRIu64
	       " second communicators, aborted by the launcher %" PRIu64 ", bad %" PRIu64 "\n",
	       r.series, r.runs, r.fired, r.second, r.launcher_aborted, r.bad);
	if (r.bad)
		printf("first: %s\n", r.first_bad);
	return (int)r.worst;
}
