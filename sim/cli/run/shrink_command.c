/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel shrink: reduces a failing run's folder to a small one and shows the two stacks whose order
 * matters. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/cli/options.h"
#include "sim/lab/search/shrink.h"

struct shrink_options {
	struct shrink_config config;
	bool no_stacks;
};

enum shrink_key { SHRINK_TIME = 0x200, SHRINK_SEEDS, SHRINK_LIMIT, SHRINK_FORCE, SHRINK_NO_STACKS };

static const struct argp_option shrink_argp_options[] = {
	{"time", SHRINK_TIME, "SECONDS", 0, "budget of CPU time: 60s (default), 10m, 1h", 0},
	{"seeds", SHRINK_SEEDS, "N", 0, "tried for a world with fewer ranks (default 100)", 0},
	{"run-limit", SHRINK_LIMIT, "SECONDS", 0, "CPU time for one run (default 10)", 0},
	{"force", SHRINK_FORCE, NULL, 0, "accept a recording of another build or machine", 0},
	{"no-stacks", SHRINK_NO_STACKS, NULL, 0, "no stacks from gdb", 0},
	{0},
};

static uint64_t shrink_seconds(struct argp_state *state, const char *option, const char *arg)
{
	uint64_t ns = 0;

	if (!cli_parse_seconds(arg, &ns))
		argp_error(state, "%s %s: expected " CLI_SECONDS, option, arg);
	return ns;
}

static error_t shrink_parse(int key, char *arg, struct argp_state *state)
{
	struct shrink_options *o = state->input;
	uint64_t v;

	cli_take(state, shrink_argp_options, NULL, key, arg);
	switch (key) {
	case SHRINK_TIME:
		o->config.time_ns = shrink_seconds(state, "--time", arg);
		return 0;
	case SHRINK_LIMIT:
		o->config.run_limit_ns = shrink_seconds(state, "--run-limit", arg);
		return 0;
	case SHRINK_SEEDS:
		if (!cli_parse_u64(arg, &v) || !v || v > UINT32_MAX)
			argp_error(state, "--seeds %s: expected a number from 1 to %u", arg,
				   UINT32_MAX);
		o->config.seeds = (uint32_t)v;
		return 0;
	case SHRINK_FORCE:
		o->config.force = true;
		return 0;
	case SHRINK_NO_STACKS:
		o->no_stacks = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->config.dir)
			argp_error(state, "one run at a time; '%s' is too much", arg);
		o->config.dir = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->config.dir)
			argp_error(state, "which run? a folder such as fail/2a-1f3c");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the two stacks ------------------------------------------------------------------------- */

static void shrink_print_stacks(const char *self, const struct shrink_result *r)
{
	const struct sim_choice_made *m = &r->pair;
	char go[160], first[64], second[64], commands[PATH_MAX];
	const char *args[32];
	size_t k = 0;

	if (!cli_gdb_commands(commands))
		return;

	/* a choice between tasks precedes the step; any other is made within it */
	if (m->other >= 0)
		snprintf(go, sizeof go, "sim goto %" PRIu64, m->step);
	else
		snprintf(go, sizeof go, "sim trap step>=%" PRIu64 " task=%d trace=%s", m->step,
			 m->task, m->site);
	snprintf(first, sizeof first, "task apply %d bt 12", m->task);
	snprintf(second, sizeof second, "task apply %d bt 12", m->other);
	const char *const start[] = {"gdb",
				     "-q",
				     "-batch",
				     "-iex",
				     "set debuginfod enabled off",
				     "-iex",
				     "set width 0",
				     "-iex",
				     "set print thread-events off",
				     "-iex",
				     "set breakpoint pending on",
				     "-x",
				     commands,
				     "-ex",
				     "break sim_run",
				     "-ex",
				     "run",
				     "-ex",
				     "delete",
				     "-ex",
				     go,
				     "-ex",
				     first,
				     "-ex",
				     m->other >= 0 ? second : "echo",
				     "--args",
				     self,
				     "replay",
				     "--force",
				     "-q",
				     r->dir};
	DOPPEL_STATIC_CHECK(ARRAY_LEN(start) < ARRAY_LEN(args), "room for the NULL");
	for (size_t i = 0; i < ARRAY_LEN(start); i++)
		args[k++] = start[i];
	args[k] = NULL;
	fflush(NULL);
	execvp("gdb", (char **)args);
	_exit(SIM_USAGE);
}

/* Copies gdb's output without gdb's own lines: from the first task on. */
static void shrink_copy_stacks(FILE *from)
{
	char line[1024];
	bool on = false;

	while (fgets(line, sizeof line, from)) {
		on = on || strncmp(line, "Task ", 5) == 0;
		if (on && strncmp(line, "A debugging session", 19) == 0)
			break;
		if (on && line[0] != '\n')
			fputs(line, stdout);
	}
	if (!on)
		printf("  (no stacks: gdb is needed)\n");
}

static void shrink_stacks(const struct shrink_result *r)
{
	char self[CLI_SELF_BYTES];
	int pipes[2], status;

	ASSERT(r->has_pair && r->pair.task >= 0); /* a task made the choice */
	if (!cli_self(self) || pipe(pipes))
		return;
	if (r->pair.other >= 0)
		printf("the two stacks whose order matters: task %d ran, task %d would have gone "
		       "on\n",
		       r->pair.task, r->pair.other);
	else
		printf("the stack on which that choice was made:\n");
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		shrink_print_stacks(self, r);
	}
	close(pipes[1]);
	FILE *f = fdopen(pipes[0], "r");
	if (f)
		shrink_copy_stacks(f);
	if (f)
		fclose(f);
	else
		close(pipes[0]);
	if (child > 0)
		waitpid(child, &status, 0);
}

static int shrink_and_show(const struct shrink_config *config, bool stacks)
{
	static struct shrink_result r;

	if (shrink_run(config, &r))
		return SIM_USAGE;
	shrink_print(&r, stdout);
	if (r.has_pair && r.pair.task >= 0 && stacks)
		shrink_stacks(&r);
	fflush(stdout);
	fail_print(stdout, &r.after, &r.failure, r.dir);
	return SIM_PASS;
}

int cli_shrink_dir(const char *dir)
{
	const struct shrink_config config = {
		.dir = dir, .progress = stderr, .terminal = isatty(STDERR_FILENO)};

	return shrink_and_show(&config, true);
}

int cli_shrink(int argc, char **argv)
{
	static const struct argp argp = {
		.options = shrink_argp_options,
		.parser = shrink_parse,
		.args_doc = "DIR",
		.doc = "From a failing run's folder (config and choices) to a small run that fails "
		       "in "
		       "the same way: fewer ranks, bytes, settings and faults, and as few choices "
		       "as "
		       "can be that are not quiet. The result is DIR-min, for doppel replay.\v"
		       "Exit status: 0 when it was shrunk; 1 when it does not fail again, or is of "
		       "another build.",
	};
	static struct shrink_options o;

	o.config.progress = stderr;
	o.config.terminal = isatty(STDERR_FILENO);
	cli_parse(&argp, 0, argc, argv, &o);
	if (!cli_has_both_doubles()) {
		fprintf(stderr, "doppel shrink: needs both doubles\n");
		return SIM_USAGE;
	}
	return shrink_and_show(&o.config, !o.no_stacks);
}
