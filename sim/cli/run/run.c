/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel run: parses options, runs once and reports the result. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "sim/cli/options.h"
#include "sim/cli/run/job_place.h"
#include "sim/cli/run/rows.h"
#include "sim/lab/search/fail.h"

struct run_options {
	struct cli_options run;
	struct cli_rows rows;
	const char *report;
};

enum run_key { RUN_JSON = 0x200, RUN_PLOT, RUN_REPORT };

#ifdef DOPPEL_FAKECUDA
enum { RUN_GPU_DOUBLE = 1 };
#else
enum { RUN_GPU_DOUBLE = 0 };
#endif

static const struct argp_option run_argp_options[] = {
	{NULL, 0, NULL, 0, "Output:", 0},
	{"average", 'a', "0|1|2|3", 0,
	 "the time of a row: rank 0's, the ranks' mean (default 1), least or most", 0},
	{"json", RUN_JSON, "FILE", 0, "write the table and the verdict (default: none)", 0},
	{"plot", RUN_PLOT, "FILE", 0,
	 "draw bus bandwidth and time over size, as SVG (default: none)", 0},
	{"report", RUN_REPORT, "FILE", 0,
	 "if the run fails, make a page of it: doppel report (with --fail-dir; default: none)", 0},
	{0},
};

static const struct cli_rule run_rules[] = {
	{CLI_EXCLUDES, RUN_JSON, {OPTION_PROCESSES, OPTION_RANK, OPTION_PROCS}, NULL},
	{CLI_NEEDS, RUN_REPORT, {OPTION_FAIL_DIR}, NULL},
	{CLI_EXCLUDES, RUN_REPORT, {OPTION_PROCESSES, OPTION_RANK, OPTION_PROCS, OPTION_GDB}, NULL},
	{CLI_EXCLUDES, RUN_PLOT, {OPTION_PROCESSES, OPTION_RANK, OPTION_PROCS}, NULL},
};

static enum lab_average run_average(const char *arg, struct argp_state *state)
{
	return (enum lab_average)cli_number(state, "-a", arg, LAB_FIRST_RANK, LAB_MOST);
}

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
	struct run_options *o = state->input;

	cli_take(state, run_argp_options, &o->run.given, key, arg);
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->run;
		return 0;
	case 'a':
		o->run.scenario.lab.average = run_average(arg, state);
		return 0;
	case RUN_JSON:
		o->rows.json = arg;
		return 0;
	case RUN_PLOT:
		o->rows.plot = arg;
		return 0;
	case RUN_REPORT:
		o->report = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (o->run.collectives != 1)
			argp_error(state, "%s; expected one of: %s",
				   o->run.collectives ? "one collective at a time"
						      : "which collective?",
				   lab_collective_names());
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int run_report(const struct cli_options *o, const struct lab_result *r)
{
	bool sim = o->scenario.lab.sim.engine == SIM_ENGINE_SIM;

	printf("# seed %" PRIu64 " strategy %s engine %s\n", r->seed, r->strategy,
	       sim ? "sim" : "threads");
	if (sim)
		printf("# trace hash 0x%016" PRIx64 "\n", r->hash);
	else
		printf("# trace hash none (real time)\n");
	if (r->recovered)
		printf("# the survivors made a second communicator; ranks killed: %u\n", r->killed);
	fflush(stdout);
	int code = (int)lab_outcome(&o->scenario.lab, r);

	if (r->failed)
		return code;
	sim_fault_print_unfired(stderr);
	if (code || !o->must_fire || !sim_faults_unfired())
		return code;
	fprintf(stderr, "doppel run: --faults-must-fire: %u lines of the plan never fired\n",
		sim_faults_unfired());
	return SIM_USAGE;
}

/* In a sweep, faults excuse errors: it looks for wrong results and hangs. In a single run an error
 * is the result, unless the run checks the recovery after faults. */
static void run_expect_success(struct cli_options *o)
{
	struct scenario *s = &o->scenario;

	if (s->expect == SCENARIO_EXPECT_AUTO && scenario_has_faults(s) && !s->lab.recover)
		s->expect = SCENARIO_EXPECT_SUCCESS;
}

static bool run_env_sets(const struct scenario *s, const char *name)
{
	size_t n = strlen(name);

	for (uint32_t i = 0; i < s->env_count; i++)
		if (!strncmp(s->env[i], name, n) && s->env[i][n] == '=')
			return true;
	return false;
}

/* Limits the channels under engine threads. The blocks of the GPU double share the host's CPUs in
 * real time. More channels than CPUs per rank are not faster, and each costs blocks, waits and
 * steps. */
static int run_limit_channels(struct scenario *s)
{
	static const char *const set[] = {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
					  "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"};
	uint32_t cpus = s->lab.sim.workers, ranks, channels;
	char env[64];

	for (size_t i = 0; i < ARRAY_LEN(set); i++)
		if (run_env_sets(s, set[i]))
			return 0;
	if (!RUN_GPU_DOUBLE || s->lab.sim.engine != SIM_ENGINE_THREADS || scenario_ranks(s, &ranks))
		return 0;
	cpus = cpus ? cpus : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	channels = MIN_OF(MAX_OF(cpus / MAX_OF(ranks, 1u), 1u), 32u);
	snprintf(env, sizeof env, "NCCL_MAX_NCHANNELS=%u", channels);
	printf("# engine threads: %s, by default, for %u ranks on %u CPUs\n", env, ranks, cpus);
	return scenario_set_env(s, env);
}

static int run_run(struct run_options *o)
{
	struct scenario *s = &o->run.scenario;
	struct lab_result result;

	if (run_limit_channels(s))
		return SIM_USAGE;
	int code;
	if (o->report && !cli_report_after(s, o->run.fail_dir, o->report, &code))
		return code;
	s->lab.table = stdout;
	s->lab.progress = isatty(STDERR_FILENO);
	if (o->rows.json || o->rows.plot) {
		if (!cli_rows_check(&o->rows))
			return SIM_USAGE;
		o->rows.scenario = s;
		s->lab.on_row = cli_rows_add;
		s->lab.on_result = cli_rows_end;
		s->lab.on_row_arg = &o->rows;
	}
	int rc = o->run.fail_dir ? fail_run(s, o->run.fail_dir, &result, NULL)
				 : fail_run_plain(s, &result);
	cli_rows_free(&o->rows);
	if (rc)
		return SIM_USAGE;
	code = run_report(&o->run, &result);
	return code == SIM_PASS && o->rows.lost ? SIM_USAGE : code;
}

/* A process that mpirun or the like started is one of --procs. Options that start processes, or
 * that name a rank, take precedence. */
static bool run_find_launcher(struct cli_options *o)
{
	if (o->place.by || o->processes || o->rank >= 0)
		return true;
	if (!cli_launch_find(&o->place))
		return false;
	if (!o->place.by)
		return true;
	o->procs = true;
	cli_give(&o->given, OPTION_PROCS);
	return true;
}

int cli_run(int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_options_argp, 0, NULL, 1}, {0}};
	static const struct argp argp = {
		.options = run_argp_options,
		.parser = run_parse,
		.children = children,
		.help_filter = cli_collectives_help,
		.args_doc = "COLLECTIVE",
		.doc = "Runs a collective over all GPUs of a world of hosts, through the whole "
		       "stack, and checks the result.\vExit status: 0 pass, 1 usage, 2 a call "
		       "returned an error, 10 no progress, 11 wrong result, 13 leak, 14 misuse; a "
		       "crash "
		       "ends by its signal.",
	};
	static struct run_options o;

	o.rows = (struct cli_rows){0};
	cli_options_default(&o.run);
	cli_parse(&argp, 0, argc, argv, &o);
	if (!run_find_launcher(&o.run))
		return SIM_USAGE;
	if (!cli_options_check("run", &o.run, run_rules, ARRAY_LEN(run_rules), run_argp_options))
		return SIM_USAGE;
	if (o.run.gdb)
		return cli_under_gdb(argc, argv, NULL);
	run_expect_success(&o.run);
	if (o.run.place.by)
		return cli_procs_one(&o.run);
	if (o.run.procs)
		return cli_procs(argc, argv, &o.run);
	if (o.run.rank >= 0)
		return cli_process(&o.run);
	if (o.run.processes)
		return cli_processes(argc, argv, &o.run);
	return run_run(&o);
}
