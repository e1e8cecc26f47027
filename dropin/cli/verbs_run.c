/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel verbs-run: runs any verbs program on HCA doubles (docs/verbs/drop-in.md). */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dropin/ibverbs/dropin.h"
#include "sim/cli/options.h"
#include "dropin/cli/verbs_run.h"
#include "sim/engine/base/output.h"
#include "sim/engine/sim.h"
#include "sim/world/machine/installed.h"
#include "sim/world/world.h"

enum { VERBS_LEAKS = 256, VERBS_BARE, VERBS_PAIR };

static const struct argp_option verbs_argp_options[] = {
	{"machine", 'm', "NAME|FILE", 0, "machine with the HCAs (default: workstation-2hca)", 0},
	{"host", 'H', "0..3", 0, "host of the machine on which the program runs (default: 0)", 0},
	{"fabric", 'n', "NAME", 0,
	 "programs with the same fabric name reach each other (default: default)", 0},
	{"faults", 'F', "PLAN", 0, "inject faults by this plan; 'doppel faults' explains", 0},
	{"seed", 's', "N", 0, "seed of the random choices (default: 1)", 0},
	{"trace", 't', "FILE", 0, "write a trace for ui.perfetto.dev", 0},
	{"leaks", VERBS_LEAKS, NULL, 0, "report the objects that the program leaves open", 0},
	{"bare", VERBS_BARE, NULL, 0, "the library only: leave /dev and /sys as they are", 0},
	{"pair", VERBS_PAIR, NULL, 0,
	 "PROGRAM is a server; after -- comes its client, which starts when the server listens", 0},
	{0},
};

/* Splits the words of `--pair` into the server's, before `--`, and the client's, after it. */
static void verbs_split(struct verbs_run *r, struct argp_state *state)
{
	char **at = r->program;

	while (*at && strcmp(*at, "--"))
		at++;
	if (!*at || at == r->program || !at[1])
		argp_error(state,
			   "--pair: expected SERVER [ARGUMENTS...] -- CLIENT [ARGUMENTS...]");
	*at = NULL;
	r->client = at + 1;
}

/* Checks that the plan can be read: a folder can be opened but not read. */
static void verbs_check_plan(const struct verbs_run *r, struct argp_state *state)
{
	const char *path = r->faults ? r->faults : getenv("DOPPEL_FAULTS");

	if (!path || !*path)
		return;
	FILE *f = fopen(path, "r");
	int rc = f ? 0 : errno;

	if (f && fgetc(f) == EOF && ferror(f))
		rc = errno;
	if (f)
		fclose(f);
	if (rc)
		argp_error(state, "%s %s: %s", r->faults ? "--faults" : "DOPPEL_FAULTS", path,
			   strerror(rc));
}

/* Checks the options now: otherwise the program would fail at its first call. */
static void verbs_check(const struct verbs_run *r, struct argp_state *state)
{
	struct world_machine *m;
	uint64_t v;

	if (r->host && (!cli_parse_u64(r->host, &v) || v >= DROPIN_HOSTS))
		argp_error(state, "--host %s: expected a number from 0 to %d", r->host,
			   DROPIN_HOSTS - 1);
	if (r->seed && (!cli_parse_u64(r->seed, &v) || v > INT64_MAX))
		argp_error(state, "--seed %s: expected a number from 0 to %" PRId64, r->seed,
			   INT64_MAX);
	if (r->fabric && (!*r->fabric || strchr(r->fabric, '/')))
		argp_error(state, "--fabric '%s': expected a name without '/'", r->fabric);
	verbs_check_plan(r, state);
	const char *trace = r->trace ? r->trace : getenv("DOPPEL_TRACE");

	if (trace && *trace && output_check("trace", trace))
		exit(SIM_USAGE);
	const char *machine = r->machine ? r->machine : getenv("DOPPEL_MACHINE");

	if (machine && *machine && world_machine_load(machine, &m))
		exit(SIM_USAGE);
	if (machine && *machine)
		world_machine_free(m);
}

static error_t verbs_parse(int key, char *arg, struct argp_state *state)
{
	struct verbs_run *r = state->input;
	const struct {
		int key;
		const char **to;
	} texts[] = {{'m', &r->machine}, {'H', &r->host}, {'n', &r->fabric},
		     {'F', &r->faults},  {'s', &r->seed}, {'t', &r->trace}};

	cli_take(state, verbs_argp_options, NULL, key, arg);
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
	case VERBS_PAIR:
		r->pair = true;
		return 0;
	case ARGP_KEY_ARG: /* the program and its arguments */
		r->program = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!r->program)
			argp_error(state, "expected a program");
		verbs_check(r, state);
		if (r->pair)
			verbs_split(r, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Sets the variables by which programs find libibverbs. */
static void verbs_environment_library(const char *dir)
{
	static const char *const names[] = {"NCCL_IBVERBS_LIB", "MSCCLPP_IBV_SO", "UCCL_IBV_SO"};
	char path[2 * PATH_MAX];

	snprintf(path, sizeof path, "%s/libibverbs.so.1", dir);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		setenv(names[i], path, 0);
	cli_library_path(dir);
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

static bool verbs_library_dir(char out[PATH_MAX])
{
	if (!world_installed(WORLD_DROPIN, out)) {
		fprintf(stderr,
			"doppel verbs-run: libibverbs.so.1 of the HCA double is not built; "
			"expected "
			"it in the folder verbs beside the program: cmake --build BUILD_FOLDER "
			"--target dropin rdmacm\n");
		return false;
	}
	*strrchr(out, '/') = '\0';
	return true;
}

/* Warns of a setuid program: the loader ignores LD_LIBRARY_PATH for it. */
static void verbs_warn_setuid(const char *program)
{
	struct stat st;

	if (strchr(program, '/') && stat(program, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)))
		fprintf(stderr, "doppel verbs-run: %s is setuid: it gets the system's libibverbs\n",
			program);
}

int verbs_exec(char **program)
{
	verbs_warn_setuid(program[0]);
	execvp(program[0], program);
	fprintf(stderr, "doppel verbs-run: %s: %s\n", program[0], strerror(errno));
	return errno == ENOENT ? VERBS_NOT_FOUND : VERBS_CANNOT_RUN;
}

static char *verbs_help(int key, const char *text, void *input)
{
	(void)input;
	return key == 'm' && text ? cli_machines_help(text) : (char *)text;
}

int cli_verbs_run(int argc, char **argv)
{
	static const struct argp argp = {
		verbs_argp_options,
		verbs_parse,
		"PROGRAM [ARGUMENTS...]\n--pair SERVER [ARGUMENTS...] -- CLIENT [ARGUMENTS...]",
		"Runs an ordinary verbs program on HCA doubles. It gets our libibverbs, and in a "
		"private namespace /dev/infiniband and /sys/class/infiniband. Programs that one "
		"user starts this way reach each other through shared memory, as HCAs of one "
		"network. The exit code is the program's.",
		NULL,
		verbs_help,
		NULL};
	struct verbs_run r = {0};
	char dir[PATH_MAX];

	cli_parse(&argp, ARGP_IN_ORDER, argc, argv, &r);
	if (!verbs_library_dir(dir))
		return SIM_USAGE;
	verbs_environment(&r, dir);
	if (!r.bare)
		verbs_space_enter(&r);
	return r.pair ? verbs_pair_run(r.program, r.client) : verbs_exec(r.program);
}
