/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel run: options, then one run, then what came out. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "sim/cli/options.h"
#include "sim/lab/fail.h"

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
	const struct cli_options *o = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (o->collectives != 1)
			argp_error(state, "%s; expected one of: %s",
				   o->collectives ? "one collective at a time"
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
	if (!r->failed)
		sim_fault_print_unfired(stderr);
	return (int)lab_outcome(&o->scenario.lab, r);
}

/* Faults excuse errors in a sweep, which looks for wrong results and hangs. Of one run they are the
 * result, unless it is about what comes after them. */
static void run_expect_success(struct cli_options *o)
{
	struct scenario *s = &o->scenario;

	if (s->expect == SCENARIO_EXPECT_AUTO && scenario_has_faults(s) && !s->lab.recover)
		s->expect = SCENARIO_EXPECT_SUCCESS;
}

int cli_run(int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_options_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
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
	static struct cli_options o;
	struct lab_result result;

	cli_options_default(&o);
	cli_parse(&argp, 0, argc, argv, &o);
	if (!cli_options_check("run", &o, NULL, 0, NULL))
		return SIM_USAGE;
	if (o.gdb)
		return cli_under_gdb(argc, argv, NULL);
	run_expect_success(&o);
	if (o.rank >= 0)
		return cli_process(&o);
	if (o.processes)
		return cli_processes(argc, argv, &o);
	o.scenario.lab.table = stdout;
	o.scenario.lab.progress = isatty(STDERR_FILENO);
	int rc = o.fail_dir ? fail_run(&o.scenario, o.fail_dir, &result, NULL)
			    : fail_run_plain(&o.scenario, &result);
	return rc ? SIM_USAGE : run_report(&o, &result);
}
