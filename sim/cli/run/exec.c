/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel exec: runs a program that does not know of worlds on GPU doubles (docs/using.md). */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/environment.h"
#include "sim/cli/run/exec_program.h"
#include "sim/cli/options.h"
#include "sim/engine/sim.h"
#include "sim/world/program/world_guest.h"
#include "sim/world/machine/installed.h"
#include "sim/world/program/job.h"
#include "sim/world/world.h"

#define EXEC_MACHINE "h100-8nic"

enum {
	EXEC_HOSTS = 0x200,
	EXEC_PROCESSES_PER_HOST,
	EXEC_PROCS,
	EXEC_ENGINE,
	EXEC_SEED,
	EXEC_FAULTS,
	EXEC_TRACE,
	EXEC_ENV,
	EXEC_LEAKS,
	EXEC_RAS_DUMP,
	EXEC_GDB,
	EXEC_SYS
};

static const struct argp_option exec_argp_options[] = {
	{"machine", OPTION_MACHINE, "XML", 0,
	 "a machine that comes with Doppel, or a topology file (default: DOPPEL_MACHINE, "
	 "else " EXEC_MACHINE ")",
	 0},
	{"hosts", EXEC_HOSTS, "N", 0,
	 "start the program on N hosts of that machine, with the variables of mpirun and torchrun "
	 "(RANK, WORLD_SIZE, LOCAL_RANK, OMPI_COMM_WORLD_*) and NCCL_COMM_ID (default: 1)",
	 0},
	{"processes-per-host", EXEC_PROCESSES_PER_HOST, "P", 0,
	 "start it P times on each host (default: 1)", 0},
	{"procs", EXEC_PROCS, "N", 0,
	 "start N real processes of the program, N divided by --hosts on each host, in engine "
	 "threads (default: all programs are in one real process)",
	 0},
	{"engine", EXEC_ENGINE, "sim|threads", 0,
	 "virtual time and one seeded order, or real time and threads of the program's own "
	 "(default: sim)",
	 0},
	{"seed", EXEC_SEED, "S", 0, "seed (default: 1)", 0},
	{"faults", EXEC_FAULTS, "PLAN", 0,
	 "a fault plan's file, or 'random' for one drawn from the seed ('doppel faults')", 0},
	{"trace", EXEC_TRACE, "FILE", 0, "write a timeline for ui.perfetto.dev", 0},
	{"env", EXEC_ENV, "NAME=VALUE", 0,
	 "a variable of the program; repeatable (NCCL_DEBUG is WARN unless it is set)", 0},
	{"leaks", EXEC_LEAKS, "note|error", 0,
	 "objects that remain at the exit (memory, communicators) are printed, or fail the run "
	 "with 13 (default: note)",
	 0},
	{"ras-dump", EXEC_RAS_DUMP, "S", 0,
	 "S seconds after the start print what the ranks wait for (the answer of RAS to DUMP)", 0},
	{"sys", EXEC_SYS, NULL, 0,
	 "show the HCAs of the machine to the program in /dev and /sys, in a namespace of its own; "
	 "programs that use verbs themselves, as NCCL does, look there",
	 0},
	{"gdb", EXEC_GDB, NULL, 0, "start the program under gdb, with Doppel's commands loaded", 0},
	{0},
};

struct exec {
	char **program; /* with its arguments; NULL-terminated */
	uint32_t hosts, per_host;
	uint32_t procs; /* 0: one real process */
	bool sim;       /* --engine sim was given */
	bool gdb;
	bool ras_dump;
	bool sys;
};

/* Sets a variable that the program's libraries read: options are passed to them as variables. */
static void exec_set(const char *name, const char *value, struct argp_state *state)
{
	if (setenv(name, value, 1))
		argp_failure(state, SIM_USAGE, errno, "%s", name);
}

/* Sets a variable to an absolute path: the program may change its folder before its first call. */
static void exec_set_path(const char *name, const char *path, struct argp_state *state)
{
	char full[PATH_MAX];

	exec_set(name, realpath(path, full) ? full : path, state);
}

/* Distinguishes files from names of machines by the same rule as world_machine_load. */
static void exec_set_machine(const char *machine, struct argp_state *state)
{
	size_t n = strlen(machine);

	if (strchr(machine, '/') || (n > 4 && strcmp(machine + n - 4, ".xml") == 0))
		exec_set_path("DOPPEL_MACHINE", machine, state);
	else
		exec_set("DOPPEL_MACHINE", machine, state);
}

static void exec_set_leaks(const char *text, struct argp_state *state)
{
	if (strcmp(text, "note") && strcmp(text, "error"))
		argp_error(state, "--leaks %s: expected note or error", text);
	exec_set("DOPPEL_LEAKS", strcmp(text, "error") ? "0" : "1", state);
}

/* Sets RAS up: its client expects the default address. */
static void exec_set_ras_dump(const char *text, struct exec *e, struct argp_state *state)
{
	(void)cli_number(state, "--ras-dump", text, 1, 86400);
	e->ras_dump = true;
	exec_set("DOPPEL_RAS_DUMP", text, state);
	exec_set("NCCL_RAS_ENABLE", "1", state);
	unsetenv("NCCL_RAS_ADDR");
}

/* Real processes keep their own time and order, and gdb has one of them. */
static void exec_check_procs(const struct exec *e, struct argp_state *state)
{
	if (e->procs % e->hosts)
		argp_error(state, "--procs %u with %u hosts: expected a multiple of the hosts",
			   e->procs, e->hosts);
	if (e->per_host > 1 || e->gdb || e->sim || e->ras_dump)
		argp_error(state, "--procs excludes %s",
			   e->ras_dump ? "--ras-dump; expected 'doppel ras --dump', which reaches "
					 "real processes"
			   : e->gdb    ? "--gdb; attach to a process by its pid"
			   : e->sim    ? "--engine sim"
				       : "--processes-per-host");
}

static error_t exec_parse(int key, char *arg, struct argp_state *state)
{
	struct exec *e = state->input;

	cli_take(state, exec_argp_options, NULL, key, arg);
	switch (key) {
	case OPTION_MACHINE:
		exec_set_machine(arg, state);
		return 0;
	case EXEC_HOSTS:
		e->hosts = (uint32_t)cli_number(state, "--hosts", arg, 1, WORLD_JOB_PROCESSES);
		return 0;
	case EXEC_PROCESSES_PER_HOST:
		e->per_host = (uint32_t)cli_number(state, "--processes-per-host", arg, 1,
						   WORLD_JOB_PROCESSES);
		return 0;
	case EXEC_PROCS:
		e->procs = (uint32_t)cli_number(state, "--procs", arg, 1, WORLD_JOB_PROCESSES);
		return 0;
	case EXEC_ENGINE:
		e->sim = strcmp(arg, "sim") == 0;
		exec_set("DOPPEL_ENGINE", arg, state);
		return 0;
	case EXEC_SEED:
		exec_set("DOPPEL_SEED", arg, state);
		return 0;
	case EXEC_FAULTS:
		if (strcmp(arg, "random") == 0)
			exec_set("DOPPEL_FAULTS", arg, state);
		else
			exec_set_path("DOPPEL_FAULTS", arg, state);
		return 0;
	case EXEC_TRACE:
		exec_set("DOPPEL_TRACE", arg, state);
		return 0;
	case EXEC_ENV:
		cli_env_check("--env", arg, state);
		if (putenv(arg))
			argp_failure(state, SIM_USAGE, errno, "--env %s", arg);
		return 0;
	case EXEC_LEAKS:
		exec_set_leaks(arg, state);
		return 0;
	case EXEC_RAS_DUMP:
		exec_set_ras_dump(arg, e, state);
		return 0;
	case EXEC_GDB:
		e->gdb = true;
		return 0;
	case EXEC_SYS:
		e->sys = true;
		return 0;
	case ARGP_KEY_ARG: /* the program and its arguments */
		e->program = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!e->program)
			argp_error(state, "expected a program");
		if (e->hosts * e->per_host > WORLD_JOB_PROCESSES)
			argp_error(state,
				   "%u hosts with %u processes each; expected at most %d processes",
				   e->hosts, e->per_host, WORLD_JOB_PROCESSES);
		if (e->sys && !e->procs && e->hosts * e->per_host > 1)
			argp_error(state, "--sys with several programs; expected --procs, too");
		if (e->procs)
			exec_check_procs(e, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Adds the folder of libnccl.so.2, and that of NVML and verbs, to LD_LIBRARY_PATH: a program that
 * was linked without a path to the first, or that loads the others, finds them. */
static bool exec_library_path(void)
{
	char dir[PATH_MAX];

	if (!world_installed(WORLD_NCCL, dir)) {
		fprintf(stderr, "doppel exec: libnccl.so.2 is not built; expected it beside the "
				"other libraries: cmake --build BUILD_FOLDER --target products\n");
		return false;
	}
	ASSERT(dir[0] == '/'); /* world_installed returns an absolute path */
	*strrchr(dir, '/') = '\0';
	if (!cli_library_path(dir) || !world_installed(WORLD_DRIVER, dir))
		return false;
	*strrchr(dir, '/') = '\0';
	return cli_library_path(dir);
}

void exec_hcas_show(uint32_t host)
{
#if DOPPEL_FAKEVERBS
	cli_hcas_show(host);
#else
	(void)host; /* cli_exec has refused the build */
#endif
}

/* Starts gdb around this command without its --gdb: the programs of a job run in this process. */
static int exec_job_gdb(int argc, char **argv, const struct exec *e)
{
	char self[CLI_SELF_BYTES];
	char **words = calloc((size_t)argc + 2, sizeof *words);
	int rc = SIM_USAGE, n = 1;

	if (words && cli_self(self)) {
		words[0] = self;
		for (int i = 0; i < argc; i++)
			if (argv + i >= e->program || strcmp(argv[i], "--gdb"))
				words[n++] = argv[i];
		ASSERT(n <= argc + 1 && !words[n]); /* NULL ends the list */
		rc = cli_gdb(words, NULL);
	}
	free(words);
	return rc;
}

static int exec_job(int argc, char **argv, const struct exec *e)
{
	const struct world_job job = {
		.hosts = e->hosts, .per_host = e->per_host, .argv = e->program};

	ASSERT(e->hosts * e->per_host <= WORLD_JOB_PROCESSES); /* exec_parse refuses more */
	if (e->gdb)
		return exec_job_gdb(argc, argv, e);
	world_env_warn_unknown((const char *const *)environ);
	int rc = world_job_run(&job);

	return rc < 0 ? SIM_USAGE : rc == ENOENT ? EXEC_NOT_FOUND : EXEC_CANNOT_RUN;
}

int cli_exec(int argc, char **argv)
{
	static const struct argp argp = {
		.options = exec_argp_options,
		.parser = exec_parse,
		.help_filter = cli_machine_help,
		.args_doc = "PROGRAM [ARGUMENTS...]",
		.doc = "Runs a program that is linked with libnccl.so.2 and libcudart.so of this "
		       "installation on the GPUs of a machine that need not exist. At its exit the "
		       "run is judged, on stderr.\vExit status: the program's; if that is 0, the "
		       "verdict of the run, as 'doppel run' has it. On several hosts the first "
		       "program that ends with another status than 0 ends the others.",
	};
	struct exec e = {.hosts = 1, .per_host = 1};

	cli_parse(&argp, ARGP_IN_ORDER, argc, argv, &e);
	if (!cli_has_both_doubles()) {
		fprintf(stderr,
			"doppel exec: this build has real GPUs or HCAs; expected a build of "
			"both doubles (preset fake); on real GPUs start the program itself\n");
		return SIM_USAGE;
	}
	setenv("DOPPEL_MACHINE", EXEC_MACHINE, 0);
	setenv("NCCL_DEBUG", "WARN", 0);
	if (!exec_check_program(e.program[0]))
		return SIM_USAGE;
	if (e.procs && !exec_library_path())
		return SIM_USAGE;
	if (e.procs)
		return exec_procs(e.procs, e.hosts, e.sys, e.program);
	if (e.hosts * e.per_host > 1)
		return exec_job(argc, argv, &e);
	if (!world_guest_check() || !exec_library_path())
		return SIM_USAGE;
	if (e.sys)
		exec_hcas_show(0);
	setenv("DOPPEL_EXEC", "1", 1); /* makes an idle program report itself */
	if (e.gdb)
		return cli_gdb(e.program, NULL);
	execvp(e.program[0], e.program);
	unsetenv("DOPPEL_EXEC");
	fprintf(stderr, "doppel exec: %s: %s\n", e.program[0], strerror(errno));
	return errno == ENOENT ? EXEC_NOT_FOUND : EXEC_CANNOT_RUN;
}
