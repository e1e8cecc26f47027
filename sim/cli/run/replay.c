/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel replay: runs a failed run again, from the files that it wrote. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cli/options.h"
#include "sim/lab/search/fail.h"
#include "sim/lab/check/found.h"

struct replay_options {
	const char *dir, *trace;
	uint64_t until;
	bool gdb, force, from_seed, quiet;
};

/* State that replay_last_words needs when a signal ends the program. */
static struct replay {
	struct replay_options options;
	struct scenario scenario;
	struct sim_failure recorded;
	char to_step[48]; /* gdb command: "sim goto STEP" */
} replay;

enum replay_key { REPLAY_UNTIL = 0x100, REPLAY_GDB, REPLAY_TRACE, REPLAY_STRATEGY, REPLAY_FORCE };

static const struct argp_option replay_argp_options[] = {
	{"until", REPLAY_UNTIL, "STEP", 0,
	 "stop at that step, or at the next point between two tasks, and print which task waits "
	 "for what; "
	 "under gdb, stop there",
	 0},
	{"gdb", REPLAY_GDB, NULL, 0, "under gdb, with Doppel's commands loaded", 0},
	{"trace", REPLAY_TRACE, "FILE", 0, "write a timeline for ui.perfetto.dev", 0},
	{"strategy", REPLAY_STRATEGY, "recorded|seed", 0,
	 "make the recorded choices (default), or draw them from the seed again", 0},
	{"force", REPLAY_FORCE, NULL, 0, "replay even if the build or the machine file differs", 0},
	{"quiet", 'q', NULL, 0, "do not print the configuration", 0},
	{0},
};

static error_t replay_parse(int key, char *arg, struct argp_state *state)
{
	struct replay_options *o = state->input;

	cli_take(state, replay_argp_options, NULL, key, arg);
	switch (key) {
	case REPLAY_UNTIL:
		if (!cli_parse_u64(arg, &o->until) || !o->until)
			argp_error(state, "--until %s: expected a step, from 1", arg);
		return 0;
	case REPLAY_GDB:
		o->gdb = true;
		return 0;
	case REPLAY_TRACE:
		o->trace = arg;
		return 0;
	case REPLAY_STRATEGY:
		o->from_seed = !strcmp(arg, "seed");
		if (!o->from_seed && strcmp(arg, "recorded"))
			argp_error(state, "--strategy %s: expected recorded or seed", arg);
		return 0;
	case REPLAY_FORCE:
		o->force = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->dir)
			argp_error(state, "one run at a time; '%s' is too much", arg);
		o->dir = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->dir)
			argp_error(state,
				   "which run? a folder such as fail/2a-1f3c, or its config");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Reads the folder's files, or a config alone. */
static int replay_read(char choices[FAIL_DIR_BYTES])
{
	struct replay_options *o = &replay.options;
	struct scenario *s = &replay.scenario;
	char config[FAIL_DIR_BYTES];
	struct stat st;

	DOPPEL_STATIC_CHECK(FAIL_DIR_BYTES > SCENARIO_PATH_BYTES + sizeof "/choices",
			    "the longest folder, and a file in it");
	choices[0] = 0;
	if (strlen(o->dir) > SCENARIO_PATH_BYTES) {
		fprintf(stderr, "doppel replay: too long a name\n");
		return ENAMETOOLONG;
	}
	if (stat(o->dir, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(config, sizeof config, "%s/config", o->dir);
		snprintf(choices, FAIL_DIR_BYTES, "%s/choices", o->dir);
	} else {
		snprintf(config, sizeof config, "%s", o->dir);
	}
	int rc = scenario_read_file(s, config);
	if (rc)
		return rc;
	replay.recorded = s->found;
	if (o->from_seed || (choices[0] && access(choices, F_OK) != 0))
		choices[0] = 0;
	return 0;
}

static bool replay_same_build(void)
{
	const struct replay_options *o = &replay.options;
	int n = scenario_print_differences(&replay.scenario, stderr);

	if (!n)
		return true;
	fprintf(stderr, "doppel replay: %s was recorded by another build or machine%s\n", o->dir,
		o->force ? "" : "; --force replays it all the same");
	return o->force;
}

/* Prints whether the failure is the recorded one. Returns the exit code of the program. */
static int replay_judge(const struct sim_failure *f, enum sim_verdict outcome)
{
	if (replay.options.until && !replay.options.gdb)
		fprintf(stderr,
			"doppel replay: --until %" PRIu64 ": the run ended before that step\n",
			replay.options.until);
	const struct sim_failure *was = &replay.recorded;
	char *now = f ? (char *)f->kind : (char *)"none";

	if (!was->kind[0]) {
		printf("# nothing was recorded to compare with\n");
		return (int)outcome;
	}
	if (f && found_compare(was, f) == FOUND_SAME) {
		printf("# same failure: %s at step %" PRIu64 ", hash %016" PRIx64 "\n", f->kind,
		       f->step, f->hash);
		return (int)outcome;
	}
	fprintf(stderr,
		"doppel replay: not the same failure\n"
		"  recorded  %s at step %" PRIu64 ", hash %016" PRIx64 ": %s\n"
		"  now       %s at step %" PRIu64 ", hash %016" PRIx64 ": %s\n",
		was->kind, was->step, was->hash, was->message, now, f ? f->step : 0,
		f ? f->hash : 0, f ? f->message : "it passed");
	return SIM_NOT_DETERMINISTIC;
}

static void replay_last_words(void *arg)
{
	const struct sim_failure *f = sim_failure();
	int code = replay_judge(f, SIM_CRASH);

	(void)arg;
	fflush(stdout);
	if (f)
		fail_print(stderr, &replay.scenario, f, replay.options.dir);
	if (code != SIM_CRASH)
		_exit(code);
}

/* Reports the same failure: of a run that hung, only the real time is known. */
static void replay_hung(int sig)
{
	static const char same[] = "# same failure: hung\n";
	ssize_t n = write(STDOUT_FILENO, same, sizeof same - 1);

	(void)sig;
	(void)n;
	_exit(SIM_NO_PROGRESS);
}

static void replay_failed(const struct lab_result *r, void *arg)
{
	int code = replay_judge(&r->failure, r->verdict);

	(void)arg;
	fflush(stdout);
	sim_fault_print_plan(stderr);
	fail_print(stderr, &replay.scenario, &r->failure, replay.options.dir);
	sim_exit(code);
}

static int replay_run(const char *choices)
{
	const struct replay_options *o = &replay.options;
	struct scenario *s = &replay.scenario;
	struct sim_config *sim = &s->lab.sim;
	struct lab_result r;

	ASSERT(!choices[0] || !o->from_seed); /* replay_read: the seed draws them again */
	sim->choices_in = choices[0] ? choices : NULL;
	sim->trace_path = o->trace;
	sim->until_step = o->until;
	sim->last_words = replay_last_words;
	s->lab.on_failed = replay_failed;
	s->lab.table = o->quiet ? NULL : stdout;
	if (found_is_hung(&replay.recorded) && !sim_under_debugger()) {
		printf("# it hung: not finished after %u s of real time; this replay stops after "
		       "as long\n",
		       s->found_seconds);
		fflush(stdout);
		signal(SIGALRM, replay_hung);
		alarm(s->found_seconds + 1);
	}
	if (lab_run(scenario_lab(s), &r))
		return SIM_USAGE;
	if (r.verdict == SIM_SKIPPED) {
		printf("# stopped at step %" PRIu64 ", hash %016" PRIx64 "\n", r.steps, r.hash);
		return sim_output_lost() ? SIM_USAGE : SIM_PASS;
	}
	int code = replay_judge(r.failed ? &r.failure : NULL, lab_outcome(&s->lab, &r));
	fflush(stdout);
	if (r.failed) {
		sim_fault_print_plan(stderr);
		fail_print(stderr, s, &r.failure, o->dir);
	}
	return code;
}

/* Runs the program under gdb without --until. gdb stops at the step, even in the middle of a
 * task. */
static int replay_under_gdb(int argc, char **argv)
{
	const char **args = calloc((size_t)argc + 1, sizeof *args);
	const char *const then[] = {replay.to_step, NULL};
	int n = 0;

	if (!args) {
		fprintf(stderr, "doppel replay: %s\n", strerror(ENOMEM));
		return SIM_USAGE;
	}
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--until") == 0)
			i++;
		else if (strncmp(argv[i], "--until=", strlen("--until=")) != 0)
			args[n++] = argv[i];
	}
	snprintf(replay.to_step, sizeof replay.to_step, "sim goto %" PRIu64, replay.options.until);
	int rc = cli_under_gdb(n, (char **)args, replay.options.until ? then : NULL);
	free(args);
	return rc;
}

int cli_replay(int argc, char **argv)
{
	static const struct argp argp = {
		.options = replay_argp_options,
		.parser = replay_parse,
		.args_doc = "DIR",
		.doc = "Runs a failed run again, from its folder (config and choices), and reports "
		       "whether it fails in the same way at the same step.\vExit status: that of "
		       "the failure; 12 when it is another one or none; 1 when the folder is of "
		       "another build or machine.",
	};
	char choices[FAIL_DIR_BYTES];

	cli_parse(&argp, 0, argc, argv, &replay.options);
	if (replay_read(choices) || !replay_same_build())
		return SIM_USAGE;
	if (replay.options.gdb)
		return replay_under_gdb(argc, argv);
	if (!replay.options.quiet) {
		scenario_write(&replay.scenario, stdout);
		fflush(stdout);
	}
	return replay_run(choices);
}
