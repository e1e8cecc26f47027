/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel sweep: parses options, runs the campaign and reports its findings. */
#include <argp.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/options.h"
#include "sim/engine/base/output.h"
#include "sim/lab/explore/sweep.h"

struct sweep_options {
	struct cli_options run;
	struct sweep_config sweep;
	const char *json;
	bool counted, verbose, shrink;
};

enum { SWEEP_SHARDS_MOST = 10000 };

enum sweep_key {
	SWEEP_SEEDS = 0x200,
	SWEEP_COUNT,
	SWEEP_TIME,
	SWEEP_SEED_FROM,
	SWEEP_SWARM,
	SWEEP_SWARM_FAULTS,
	SWEEP_MAX_FAILURES,
	SWEEP_SEED_LIMIT,
	SWEEP_TWICE,
	SWEEP_JSON,
	SWEEP_CANARY,
	SWEEP_VERBOSE,
	SWEEP_SHRINK,
	SWEEP_SHARD,
};
DOPPEL_STATIC_CHECK((int)SWEEP_SHARD < CLI_KEYS, "rules name these keys");

static const struct argp_option sweep_argp_options[] = {
	{NULL, 0, NULL, 0, "The campaign:", 0},
	{"seeds", SWEEP_SEEDS, "A..B", 0, "these seeds (default 1..1000)", 0},
	{"count", SWEEP_COUNT, "N", 0, "that many seeds (default 1000; with --time: no limit)", 0},
	{"time", SWEEP_TIME, "SECONDS", 0,
	 "as many seeds as that time allows: 60s, 10m, 1h (default: no limit)", 0},
	{"seed-from", SWEEP_SEED_FROM, "COMMIT", 0,
	 "first seed: a number, or a commit's hash of 40 hexadecimal digits (default 1)", 0},
	{"shard", SWEEP_SHARD, "K/N", 0,
	 "only part K of N of the seeds; doppel sweep-merge adds up the N files of --json (default "
	 "1/1)",
	 0},
	{"jobs", 'j', "N", 0, "worker processes (default: one a CPU)", 0},
	{"swarm", SWEEP_SWARM, "default", 0,
	 "draw world, sizes and settings from each seed (the default when no collective and no "
	 "option of the world is given)",
	 0},
	{"swarm-faults", SWEEP_SWARM_FAULTS, "some|none|always", 0,
	 "seeds of the swarm with drawn fault plans: one in eight (default), none, all", 0},
	{"max-failures", SWEEP_MAX_FAILURES, "N", 0, "stop after N (default 20; 0: never)", 0},
	{"seed-limit", SWEEP_SEED_LIMIT, "SECONDS", 0, "CPU time for one seed (default 30)", 0},
	{"twice", SWEEP_TWICE, "N", 0,
	 "run one seed in N twice and compare the hashes (default 20; 0: none)", 0},
	{"json", SWEEP_JSON, "FILE", 0, "write the summary and the failures (default: none)", 0},
	{"canary", SWEEP_CANARY, NULL, 0,
	 "plant a failure in one seed of 100; they must be found, and nothing else", 0},
	{"shrink", SWEEP_SHRINK, NULL, 0, "shrink the failure to investigate first (doppel shrink)",
	 0},
	{"verbose", SWEEP_VERBOSE, NULL, 0, "show what runs print", 0},
	{0},
};

/* Rules between options of a single run and options of a sweep: a sweep refuses some options of
 * `doppel run`. Options of the swarm exclude fixed runs. Some options of a fixed run need one. */
#define SWEEP_ONE_RUN "a sweep starts its own processes; expected `doppel run`"
#define SWEEP_LEFT                                                                                 \
	"is for one run; expected `doppel run`, or `doppel replay` with a failure's folder"

static const struct cli_rule sweep_rules[] = {
	{CLI_REFUSES, OPTION_GDB, {0}, SWEEP_LEFT},
	{CLI_REFUSES, OPTION_TRACE, {0}, SWEEP_LEFT},
	{CLI_REFUSES, OPTION_TRACE_DETAIL, {0}, SWEEP_LEFT},
	{CLI_REFUSES, OPTION_RECORD, {0}, SWEEP_LEFT},
	{CLI_REFUSES, OPTION_REPLAY, {0}, SWEEP_LEFT},
	{CLI_REFUSES, OPTION_SEED, {0}, "a sweep has many seeds; expected --seeds or --seed-from"},
	{CLI_REFUSES, OPTION_THREADS, {0}, "engine threads has no seeds; expected engine sim"},
	{CLI_REFUSES, OPTION_PROCESSES, {0}, SWEEP_ONE_RUN},
	{CLI_REFUSES, OPTION_RANK, {0}, SWEEP_ONE_RUN},
	{CLI_EXCLUDES, SWEEP_SEEDS, {SWEEP_COUNT, SWEEP_SEED_FROM}, NULL},
	{CLI_EXCLUDES, SWEEP_SWARM, {OPTION_FIXED}, NULL},
	{CLI_EXCLUDES, SWEEP_SWARM_FAULTS, {OPTION_FIXED, OPTION_FAULTS}, NULL},
	{CLI_NEEDS, OPTION_RANDOM_FAULTS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_RECOVER, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_QUIET, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_HASTY, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_BEFORE, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_STREAMS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_GROUP, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_COMMS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_TRANSIENT, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_IDLE, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_ANY_NUMBERS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_MIXED, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_LATE, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_FINALIZE, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_NONBLOCKING, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_POLLS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_REFUSED, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_INIT_FAILS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_PAUSES, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_LEAVES, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_ENDS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_CONFIG_VERSION, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_CONFIG_SOCKETS, {OPTION_FIXED}, NULL},
	{CLI_NEEDS, OPTION_ENV_ODD, {OPTION_FIXED}, NULL},
};

static uint64_t sweep_seconds(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t ns = 0;

	if (!cli_parse_seconds(arg, &ns))
		argp_error(state, "%s %s: expected " CLI_SECONDS, option, arg);
	return ns;
}

static void sweep_parse_seeds(struct sweep_options *o, const char *arg, struct argp_state *state)
{
	const char *dots = strstr(arg, "..");
	char first[32];
	uint64_t a = 0, b = 0;

	if (dots && (size_t)(dots - arg) < sizeof first) {
		snprintf(first, sizeof first, "%.*s", (int)(dots - arg), arg);
		dots = cli_parse_u64(first, &a) && cli_parse_u64(dots + 2, &b) ? dots : NULL;
	}
	if (!dots || b < a || b == UINT64_MAX)
		argp_error(state, "--seeds %s: expected A..B, such as 1..1000", arg);
	o->sweep.first = a;
	o->sweep.count = b - a + 1;
	o->counted = true;
}

static void sweep_parse_shard(struct sweep_options *o, const char *arg, struct argp_state *state)
{
	const char *slash = strchr(arg, '/');
	char first[16];
	uint64_t k = 0, n = 0;

	if (slash && (size_t)(slash - arg) < sizeof first) {
		snprintf(first, sizeof first, "%.*s", (int)(slash - arg), arg);
		slash = cli_parse_u64(first, &k) && cli_parse_u64(slash + 1, &n) ? slash : NULL;
	}
	if (!slash || !k || k > n || n > SWEEP_SHARDS_MOST)
		argp_error(state, "--shard %s: expected K/N, such as 1/8, with N of at most %d",
			   arg, SWEEP_SHARDS_MOST);
	o->sweep.shard = (uint32_t)k;
	o->sweep.shards = (uint32_t)n;
}

/* Converts a commit's hash to a seed: its first 60 bits, so that the following seeds do not
 * overflow. */
static void sweep_parse_seed_from(struct sweep_options *o, const char *arg,
				  struct argp_state *state)
{
	char digits[18] = "0x";

	DOPPEL_STATIC_CHECK(sizeof digits == 2 + 60 / 4 + 1, "60 bits as hexadecimal digits");
	if (strlen(arg) == 40 && strspn(arg, "0123456789abcdef") == 40) {
		memcpy(digits + 2, arg, 15);
		arg = digits;
	}
	o->sweep.first = cli_number(state, "--seed-from", arg, 0, UINT64_MAX >> 1);
}

static error_t sweep_parse(int key, char *arg, struct argp_state *state)
{
	struct sweep_options *o = state->input;
	struct sweep_config *c = &o->sweep;

	cli_take(state, sweep_argp_options, &o->run.given, key, arg);
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->run;
		return 0;
	case SWEEP_SEEDS:
		sweep_parse_seeds(o, arg, state);
		return 0;
	case SWEEP_COUNT:
		c->count = cli_number(state, "--count", arg, 1, 1ull << 40);
		o->counted = true;
		return 0;
	case SWEEP_TIME:
		c->time_ns = sweep_seconds(state, "--time", arg);
		return 0;
	case SWEEP_SHARD:
		sweep_parse_shard(o, arg, state);
		return 0;
	case SWEEP_SEED_FROM:
		sweep_parse_seed_from(o, arg, state);
		return 0;
	case 'j':
		c->jobs = (uint32_t)cli_number(state, "-j", arg, 1, 256);
		return 0;
	case SWEEP_SWARM:
		if (strcmp(arg, "default"))
			argp_error(state, "--swarm %s: expected default", arg);
		c->swarm = true;
		return 0;
	case SWEEP_SWARM_FAULTS:
		c->faults = !strcmp(arg, "none")     ? SCENARIO_FAULTS_NONE
			    : !strcmp(arg, "always") ? SCENARIO_FAULTS_ALWAYS
						     : SCENARIO_FAULTS_SOME;
		if (c->faults == SCENARIO_FAULTS_SOME && strcmp(arg, "some"))
			argp_error(state, "--swarm-faults %s: expected some, none or always", arg);
		return 0;
	case SWEEP_MAX_FAILURES:
		c->max_failures = (uint32_t)cli_number(state, "--max-failures", arg, 0, UINT32_MAX);
		return 0;
	case SWEEP_SEED_LIMIT:
		c->seed_limit_ns = sweep_seconds(state, "--seed-limit", arg);
		return 0;
	case SWEEP_TWICE:
		c->twice_one_of = (uint32_t)cli_number(state, "--twice", arg, 0, UINT32_MAX);
		return 0;
	case SWEEP_JSON:
		o->json = arg;
		return 0;
	case SWEEP_CANARY:
		c->canary = true;
		return 0;
	case SWEEP_SHRINK:
		o->shrink = true;
		return 0;
	case SWEEP_VERBOSE:
		c->show_output = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int sweep_write_json(const struct sweep_options *o, const struct sweep_result *r)
{
	FILE *f = output_open("doppel sweep: --json", o->json);

	if (!f)
		return SIM_USAGE;
	sweep_print_json(&o->sweep, r, f);
	return output_close(f, "doppel sweep: --json", o->json) ? SIM_USAGE : SIM_PASS;
}

/* Prints the lines of the failure to investigate first; they are the last output. */
static void sweep_last_lines(const struct sweep_options *o, const struct sweep_result *r)
{
	static struct scenario s;
	const struct sweep_seed *worst = &r->failure[0];

	if (!r->failure_n || worst->canary || worst->outcome == SIM_USAGE)
		return;
	sweep_scenario(&o->sweep, worst->seed, worst->side, &s);
	fflush(stdout);
	if (!r->signal && sweep_seed_code(worst) > SIM_BY_SIGNAL)
		fprintf(stderr, "doppel sweep: ends by signal %d (%s), as seed 0x%" PRIx64 " did\n",
			sweep_seed_code(worst) - SIM_BY_SIGNAL,
			strsignal(sweep_seed_code(worst) - SIM_BY_SIGNAL), worst->seed);
	fail_print(stderr, &s, &worst->failure, worst->kept ? worst->dir : NULL);
}

/* Reports a plan that did not fire in any seed. One plan applies to all seeds of a sweep. */
static int sweep_report_unfired(const struct sweep_options *o, const struct sweep_result *r)
{
	for (uint32_t i = 0; i < r->fault_n; i++)
		if (r->fault[i].hits)
			return SIM_PASS;
	if (!o->run.scenario.plan[0] || !r->seeds)
		return SIM_PASS;
	fprintf(stderr, "doppel sweep: no fault of %s fired in any of %" PRIu64 " seeds\n",
		o->run.scenario.lab.sim.fault_plan_name, r->seeds);
	return o->run.must_fire ? SIM_USAGE : SIM_PASS;
}

static bool sweep_can_run(const struct sweep_config *c)
{
	static struct scenario s;

	for (uint32_t i = 0; i < MAX_OF(c->collectives, 1u); i++) {
		sweep_scenario(c, i, 0, &s);
		if (lab_check(scenario_lab(&s)))
			return false;
	}
	return true;
}

/* Digest of all that the shards of a campaign have in common. */
static uint32_t sweep_campaign(const struct sweep_config *c)
{
	uint64_t part[] = {scenario_digest(&c->base),
			   c->swarm,
			   c->faults,
			   c->first,
			   c->count,
			   c->shards,
			   c->seed_limit_ns,
			   c->twice_one_of,
			   c->canary};
	uint32_t digest = 2166136261u;

	for (size_t i = 0; i < ARRAY_LEN(part); i++)
		digest = (digest ^ (uint32_t)(part[i] ^ part[i] >> 32)) * 16777619u;
	for (uint32_t i = 0; i < c->collectives; i++)
		digest = (digest ^ (uint32_t)(c->collective[i] - lab_collectives)) * 16777619u;
	return digest;
}

/* Takes this shard's part of the seeds. The parts follow each other, and differ by one seed at
 * most. */
static bool sweep_take_shard(struct sweep_config *c)
{
	c->campaign = sweep_campaign(c);
	if (c->shards == 1)
		return true;
	if (c->count < c->shards) {
		fprintf(stderr,
			"doppel sweep: --shard: %" PRIu64
			" seeds; expected at least %u, by --seeds "
			"or --count\n",
			c->count, c->shards);
		return false;
	}
	uint64_t each = c->count / c->shards, more = c->count % c->shards, k = c->shard - 1;

	c->first += k * each + MIN_OF(k, more);
	c->count = each + (k < more);
	return true;
}

int cli_sweep(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&cli_options_argp, 0, "Fixed options, as of `doppel run`:", 1}, {0}};
	static const struct argp argp = {
		.options = sweep_argp_options,
		.parser = sweep_parse,
		.children = children,
		.help_filter = cli_collectives_help,
		.args_doc = "[COLLECTIVE...]",
		.doc = "Runs many seeds, each a whole run in a world of its own, and lists those "
		       "that fail.\vWithout a collective and options of the world, each seed draws "
		       "its own (the default swarm). Exit status: that of the worst finding.",
	};
	static struct sweep_options o;
	struct sweep_result r;

	sweep_config_default(&o.sweep);
	cli_options_default(&o.run);
	cli_parse(&argp, 0, argc, argv, &o);
	if (!cli_options_check("sweep", &o.run, sweep_rules, ARRAY_LEN(sweep_rules),
			       sweep_argp_options))
		return SIM_USAGE;
	o.sweep.base = o.run.scenario;
	DOPPEL_STATIC_CHECK(sizeof o.sweep.collective == sizeof o.run.collective, "one list each");
	memcpy(o.sweep.collective, o.run.collective, sizeof o.sweep.collective);
	o.sweep.collectives = o.run.collectives;
	o.sweep.swarm = !cli_is_given(&o.run.given, OPTION_FIXED);
	o.sweep.fail_dir = o.run.fail_dir ? o.run.fail_dir : "fail";
	if (o.sweep.time_ns && !o.counted)
		o.sweep.count = 0;
	if (!sweep_take_shard(&o.sweep))
		return SIM_USAGE;
	o.sweep.again = CLI_SWEEP_AGAIN;
	o.sweep.progress = stderr;
	o.sweep.terminal = isatty(STDERR_FILENO);
	if (o.json && output_check("doppel sweep: --json", o.json))
		return SIM_USAGE;
	if (!o.sweep.swarm && !sweep_can_run(&o.sweep))
		return SIM_USAGE; /* each seed would fail without showing the reason */
	if (sweep_run(&o.sweep, &r))
		return SIM_USAGE;
	if (r.signal)
		printf("interrupted (%s); what has ended so far:\n", strsignal(r.signal));
	sweep_print(&o.sweep, &r, stdout);
	fflush(stdout);
	int unfired = sweep_report_unfired(&o, &r);
	sweep_last_lines(&o, &r);
	int code = r.signal ? SIM_BY_SIGNAL + r.signal : sweep_exit_code(&r);
	if (code == SIM_PASS)
		code = unfired;
	if (o.shrink && !r.signal && r.failure_n && r.failure[0].kept && !r.failure[0].canary)
		cli_shrink_dir(r.failure[0].dir);
	if (o.json && sweep_write_json(&o, &r) && code == SIM_PASS)
		code = SIM_USAGE;
	sweep_result_free(&r);
	return code;
}
