/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel verbs-run: a program that somebody else wrote, on HCA doubles (docs/drop-in.md). */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cli/options.h"
#include "sim/cli/verbs_run.h"
#include "sim/engine/sim.h"

/* As env(1) has it. */
#define VERBS_CANNOT_RUN 126
#define VERBS_NOT_FOUND  127

enum { VERBS_LEAKS = 256, VERBS_BARE };

static const struct argp_option verbs_argp_options[] = {
	{"machine", 'm', "NAME|FILE", 0, "machine with the HCAs (default: workstation-2hca)", 0},
	{"host", 'H', "0..3", 0, "which of the machine's hosts the program lives on (default: 0)",
	 0},
	{"fabric", 'n', "NAME", 0, "programs with one name reach each other (default: default)", 0},
	{"faults", 'F', "PLAN", 0, "inject faults by this plan; 'doppel faults' explains", 0},
	{"seed", 's', "N", 0, "for what is drawn (default: 1)", 0},
	{"trace", 't', "FILE", 0, "write a trace for ui.perfetto.dev", 0},
	{"leaks", VERBS_LEAKS, NULL, 0, "say what the program leaves open", 0},
	{"bare", VERBS_BARE, NULL, 0, "the library only: leave /dev and /sys as they are", 0},
	{0},
};

static error_t verbs_parse(int key, char *arg, struct argp_state *state)
{
	struct verbs_run *r = state->input;
	const struct {
		int key;
		const char **to;
	} texts[] = {{'m', &r->machine}, {'H', &r->host}, {'n', &r->fabric},
		     {'F', &r->faults},  {'s', &r->seed}, {'t', &r->trace}};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		if (texts[i].key != key)
			continue;
		*texts[i].to = arg;
		return 0;
	}
	switch (key) {
	case VERBS_LEAKS:
		r->leaks = true;
		return 0;
	case VERBS_BARE:
		r->bare = true;
		return 0;
	case ARGP_KEY_ARG: /* the program: the rest is its own */
		r->program = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!r->program)
			argp_error(state, "expected a program");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The names that programs load libibverbs by, where they are told. */
static void verbs_environment_library(const char *dir)
{
	static const char *const names[] = {"NCCL_IBVERBS_LIB", "MSCCLPP_IBV_SO", "UCCL_IBV_SO"};
	const char *before = getenv("LD_LIBRARY_PATH");
	char path[2 * CLI_SELF_BYTES];

	snprintf(path, sizeof path, "%s/libibverbs.so.1", dir);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		setenv(names[i], path, 0);
	snprintf(path, sizeof path, "%s%s%s", dir, before && *before ? ":" : "",
		 before ? before : "");
	setenv("LD_LIBRARY_PATH", path, 1);
}

static void verbs_environment(const struct verbs_run *r, const char *dir)
{
	const struct {
		const char *name, *value;
	} given[] = {{"DOPPEL_MACHINE", r->machine},
		     {"DOPPEL_HOST", r->host},
		     {"DOPPEL_FABRIC", r->fabric},
		     {"DOPPEL_FAULTS", r->faults},
		     {"DOPPEL_SEED", r->seed},
		     {"DOPPEL_TRACE", r->trace},
		     {"DOPPEL_LEAKS", r->leaks ? "1" : NULL}};

	for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
		if (given[i].value)
			setenv(given[i].name, given[i].value, 1);
	verbs_environment_library(dir);
}

/* Where the library is: beside this program, in verbs/. */
static bool verbs_library_dir(char out[CLI_SELF_BYTES + 16])
{
	char self[CLI_SELF_BYTES], library[CLI_SELF_BYTES + 32];

	if (!cli_self(self))
		return false;
	*strrchr(self, '/') = '\0';
	snprintf(out, CLI_SELF_BYTES + 16, "%s/verbs", self);
	snprintf(library, sizeof library, "%s/libibverbs.so.1", out);
	if (access(library, R_OK) == 0)
		return true;
	fprintf(stderr, "doppel verbs-run: %s: %s\n", library, strerror(errno));
	return false;
}

/* The loader ignores LD_LIBRARY_PATH for these. */
static void verbs_warn_setuid(const char *program)
{
	struct stat st;

	if (strchr(program, '/') && stat(program, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)))
		fprintf(stderr, "doppel verbs-run: %s is setuid: it gets the system's libibverbs\n",
			program);
}

int cli_verbs_run(int argc, char **argv)
{
	static const struct argp argp = {
		verbs_argp_options,
		verbs_parse,
		"PROGRAM [ARGUMENTS...]",
		"Runs an ordinary verbs program on HCA doubles. It gets our libibverbs, and in a "
		"private namespace /dev/infiniband and /sys/class/infiniband. Programs started so "
		"by one user reach each other through shared memory, as HCAs of one network. The "
		"exit code is the program's.",
		NULL,
		NULL,
		NULL};
	struct verbs_run r = {0};
	char dir[CLI_SELF_BYTES + 16];

	cli_parse(&argp, ARGP_IN_ORDER, argc, argv, &r);
	if (!verbs_library_dir(dir))
		return SIM_USAGE;
	verbs_environment(&r, dir);
	if (!r.bare)
		verbs_space_enter(&r);
	verbs_warn_setuid(r.program[0]);
	execvp(r.program[0], r.program);
	fprintf(stderr, "doppel verbs-run: %s: %s\n", r.program[0], strerror(errno));
	return errno == ENOENT ? VERBS_NOT_FOUND : VERBS_CANNOT_RUN;
}
