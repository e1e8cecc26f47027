/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that define a run: an argp parser that commands use as a child. It fills a scenario.
 * Invalid options end the program with SIM_USAGE, as in argp.
 */
#ifndef SIM_CLI_OPTIONS_H
#define SIM_CLI_OPTIONS_H

#include <argp.h>
#include <limits.h>

#include "sim/cli/cli.h"
#include "sim/cli/rules.h"
#include "sim/lab/check/collective.h"
#include "sim/lab/search/dimension.h"

/* Keys of 0x1XX are options of a run; commands have 0x2XX. The keys of dimensions come
 * first (sim/lab/search/dimension.h). */
enum cli_option_key {
	OPTION_MUST_FIRE = DIMENSION_OPTIONS,
	OPTION_TRACE,
	OPTION_TRACE_DETAIL,
	OPTION_GDB,
	OPTION_RECORD,
	OPTION_REPLAY,
	OPTION_FAIL_DIR,
	OPTION_WORKERS,
	OPTION_PROCESSES,
	OPTION_RANK,
	OPTION_RANKS,
	OPTION_ROOT,
	OPTION_ID_FD,
	OPTION_PROCS,
	OPTION_JOB_PLACE,
	OPTION_LIMIT,
	/* not options, but named in rules */
	OPTION_THREADS,       /* --engine threads */
	OPTION_SIM,           /* --engine sim, given */
	OPTION_GPU_LIST,      /* --gpus with a number per host */
	OPTION_MACHINE_LIST,  /* --machine with several names */
	OPTION_RANDOM_FAULTS, /* --faults random */
	OPTION_FIXED,         /* a collective, or an option of the world or of the collective */
};
DOPPEL_STATIC_CHECK((int)OPTION_FIXED < 0x200, "keys from 0x200 on are the commands' own");

/* The place of this process in a job of real processes (run/job_place.h). */
struct cli_place {
	const char *by; /* the launcher's name; NULL: none */
	uint32_t process, processes;
	uint32_t each;        /* ranks of a process; 0: as the options */
	uint32_t local, here; /* its number among the processes on this computer */
	char job[24];         /* the job's name, unique on this computer */
};
DOPPEL_STATIC_CHECK(sizeof((struct cli_place *)0)->job == 23 + 1, "options_place reads 23 letters");

struct cli_options {
	struct scenario scenario;
	struct cli_given given;
	const char *fail_dir;
	bool gdb;
	bool must_fire; /* a fault of the plan that did not fire is an error */
	/* collectives that were named; scenario.lab has the first */
	const struct lab_collective *collective[LAB_COLLECTIVES_MAX];
	uint32_t collectives;
	/* real processes (processes.c) */
	uint32_t processes; /* number to start; 0: none, or this is one of them */
	int32_t rank;       /* first rank of this process; -1: a world of doubles */
	int32_t ranks;
	const char *root; /* HOST:PORT */
	bool procs;       /* each process of the world is a real one */
	struct cli_place place;
	int id_fd;        /* inherited from the launcher, instead of root; -1: none */
	uint32_t limit_s; /* 0: no limit */
};

enum { CLI_MAX_PROCESSES = 256 };

extern const struct argp cli_options_argp; /* its input is a struct cli_options */

/* Sets the defaults and the caller's NCCL_* and DOPPEL_* variables. */
void cli_options_default(struct cli_options *o);
/* Checks that the options are compatible and that this build can run them. False: it has
 * explained why. `rules` are the command's rules about its options `own` and the shared ones;
 * NULL: no rules. */
bool cli_options_check(const char *command, struct cli_options *o, const struct cli_rule *rules,
		       size_t n, const struct argp_option *own);
bool cli_has_both_doubles(void);

/* Parse the value of an option. An invalid value ends the program with the expected form. */
uint64_t cli_number(struct argp_state *state, const char *option, const char *arg, uint64_t least,
		    uint64_t most);
uint64_t cli_size(struct argp_state *state, const char *option, const char *arg);

/* options_cases.c: an option of a dimension that has a value of its own. False: `key` is another
 * option. */
bool cli_case_parse(int key, char *arg, struct argp_state *state, struct cli_options *o);

/* options_collective.c: the options about the collective, and its name as an argument. False: `key`
 * is another option. */
bool cli_collective_parse(int key, char *arg, struct argp_state *state, struct cli_options *o);
/* Finds a collective by name. Ends the program with an error that begins with `option` if it does
 * not exist. */
const struct lab_collective *cli_collective_find(const char *option, const char *arg,
						 struct argp_state *state);
void cli_collective_name(const char *arg, struct argp_state *state, struct cli_options *o);
void cli_collective_end(struct argp_state *state, const struct cli_options *o);
/* False if an option has no effect on any of the collectives, which it has explained. */
bool cli_collective_check(const char *command, const struct cli_options *o);
/* Help filter: lists the collectives after the command's description. */
char *cli_collectives_help(int key, const char *text, void *input);

#define CLI_SELF_BYTES 4096
/* Stores the path of this program. False: unknown, which was logged. */
bool cli_self(char out[CLI_SELF_BYTES]);
/* Starts o->processes processes of the same command and waits for them. Returns the exit code. */
int cli_processes(int argc, char **argv, const struct cli_options *o);
/* Runs this process as one of them. Returns the exit code. */
int cli_process(struct cli_options *o);
/* run_procs.c: starts a real process for each process of the world, and waits for them. Returns the
 * exit code. */
int cli_procs(int argc, char **argv, struct cli_options *o);
/* Runs this process as one of them, or as one that another launcher started (o->place). */
int cli_procs_one(struct cli_options *o);

/* Replaces this process by gdb around the same command without --gdb. `then` lists gdb's first
 * commands and ends with NULL; it may be NULL. Returns only on failure. */
int cli_under_gdb(int argc, char **argv, const char *const *then);
/* Replaces this process by gdb around any program. `program` has its arguments and ends with
 * NULL. */
int cli_gdb(char **program, const char *const *then);
/* Stores the path of Doppel's gdb commands. False: the file is missing, which was logged. */
bool cli_gdb_commands(char out[PATH_MAX]);

#endif
