/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that define a run, as an argp parser that commands have as a child: it fills a
 * scenario. What is wrong ends the program with SIM_USAGE, as argp does.
 */
#ifndef SIM_CLI_OPTIONS_H
#define SIM_CLI_OPTIONS_H

#include <argp.h>
#include <limits.h>

#include "sim/cli/cli.h"
#include "sim/cli/rules.h"
#include "sim/lab/collective.h"
#include "sim/lab/scenario.h"

/* Those of 0x1XX are options; sweeps have 0x2XX. */
enum cli_option_key {
	OPTION_MACHINE = 0x100,
	OPTION_HOSTS,
	OPTION_GPUS,
	OPTION_DEVICES,
	OPTION_RANKS_PER_PROC,
	OPTION_MAP,
	OPTION_DRIVE,
	OPTION_ENGINE,
	OPTION_SEED,
	OPTION_STRATEGY,
	OPTION_MEMORY_ORDER,
	OPTION_RACES,
	OPTION_FAULTS,
	OPTION_MUST_FIRE,
	OPTION_RECOVER,
	OPTION_QUIET,
	OPTION_HASTY,
	OPTION_BEFORE,
	OPTION_STREAMS,
	OPTION_GROUP,
	OPTION_COMMS,
	OPTION_PER_ITERATION,
	OPTION_TRANSIENT,
	OPTION_IDLE,
	OPTION_MIXED,
	OPTION_LATE,
	OPTION_FINALIZE,
	OPTION_NONBLOCKING,
	OPTION_POLLS,
	OPTION_REFUSED,
	OPTION_INIT_FAILS,
	OPTION_PAUSES,
	OPTION_LEAVES,
	OPTION_ENDS,
	OPTION_CONFIG_VERSION,
	OPTION_ENV_ODD,
	OPTION_ANY_NUMBERS,
	OPTION_SMS,
	OPTION_TRACE,
	OPTION_TRACE_DETAIL,
	OPTION_GDB,
	OPTION_WARP,
	OPTION_ENV,
	OPTION_RECORD,
	OPTION_REPLAY,
	OPTION_FAIL_DIR,
	OPTION_NO_STRICT,
	OPTION_PLACE,
	OPTION_BUDGET_EVENTS,
	OPTION_BUDGET_TIME,
	OPTION_WORKERS,
	OPTION_PROCESSES,
	OPTION_RANK,
	OPTION_RANKS,
	OPTION_ROOT,
	OPTION_ID_FD,
	OPTION_LIMIT,
	/* no options, but rules speak of them */
	OPTION_THREADS,       /* --engine threads */
	OPTION_GPU_LIST,      /* --gpus with a number for each host */
	OPTION_MACHINE_LIST,  /* --machine with several names */
	OPTION_RANDOM_FAULTS, /* --faults random */
	OPTION_FIXED,         /* a collective, or an option of the world or of the collective */
};

struct cli_options {
	struct scenario scenario;
	struct cli_given given;
	const char *fail_dir;
	bool gdb;
	bool must_fire; /* a fault of the plan that never fired is an error */
	/* those that were named; scenario.lab has the first */
	const struct lab_collective *collective[LAB_COLLECTIVES_MAX];
	uint32_t collectives;
	/* real processes (processes.c) */
	uint32_t processes; /* to start; 0: none, or this is one of them */
	int32_t rank;       /* the first one of this process; -1: a world of doubles */
	int32_t ranks;
	const char *root; /* HOST:PORT */
	int id_fd;        /* instead of root: the launcher's; -1: none */
	uint32_t limit_s; /* 0: none */
};

enum { CLI_MAX_PROCESSES = 256 };

extern const struct argp cli_options_argp; /* its input is a struct cli_options */

/* The defaults, and the caller's NCCL_* and DOPPEL_*. */
void cli_options_default(struct cli_options *o);
/* False, explained: the options do not go together, or this build cannot run them. `rules` are the
 * command's own, about its options `own` and the shared ones; NULL: it has none. */
bool cli_options_check(const char *command, struct cli_options *o, const struct cli_rule *rules,
		       size_t n, const struct argp_option *own);
bool cli_has_both_doubles(void);

/* Values of options; what is wrong is explained with what was expected, and ends the program. */
uint64_t cli_number(struct argp_state *state, const char *option, const char *arg, uint64_t least,
		    uint64_t most);
uint64_t cli_size(struct argp_state *state, const char *option, const char *arg);

/* options_programs.c: the options of a program that does more than its series. False: `key` is
 * none of them. */
bool cli_program_parse(int key, char *arg, struct argp_state *state, struct cli_options *o);

/* options_collective.c: the options about the collective, and its name as an argument. False: `key`
 * is none of them. */
bool cli_collective_parse(int key, char *arg, struct argp_state *state, struct cli_options *o);
/* By its name; ends the program with an error that begins with `option` if there is none. */
const struct lab_collective *cli_collective_find(const char *option, const char *arg,
						 struct argp_state *state);
void cli_collective_name(const char *arg, struct argp_state *state, struct cli_options *o);
void cli_collective_end(struct argp_state *state, const struct cli_options *o);
/* False, explained: an option has no effect on any of the collectives. */
bool cli_collective_check(const char *command, const struct cli_options *o);
/* A help filter: lists the collectives after what a command does. */
char *cli_collectives_help(int key, const char *text, void *input);

#define CLI_SELF_BYTES 4096
/* The path of this program; false: not known, which was logged. */
bool cli_self(char out[CLI_SELF_BYTES]);
/* Starts o->processes processes of the same command, and waits for them: the exit code. */
int cli_processes(int argc, char **argv, const struct cli_options *o);
/* Is one of them. */
int cli_process(struct cli_options *o);

/* Replaces this process by gdb around the same command without --gdb; `then` is what gdb does
 * first, then a NULL, or NULL. Returns only when it cannot. */
int cli_under_gdb(int argc, char **argv, const char *const *then);
/* The same around any program, with its arguments and then a NULL. */
int cli_gdb(char **program, const char *const *then);
/* The file that gdb reads Doppel's commands from; false: it is missing; the error was printed. */
bool cli_gdb_commands(char out[PATH_MAX]);

#endif
