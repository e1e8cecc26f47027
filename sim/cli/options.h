/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that say what a run is, as an argp parser that commands have as a child: it fills a
 * scenario. What is wrong ends the program with SIM_USAGE, as argp does.
 */
#ifndef SIM_CLI_OPTIONS_H
#define SIM_CLI_OPTIONS_H

#include <argp.h>

#include "sim/cli/cli.h"
#include "sim/lab/scenario.h"

struct cli_options {
	struct scenario scenario;
	const char *fail_dir;
	bool gdb;
	bool collective; /* one was named */
	bool any;        /* that, or an option of the world or of the collective */
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
/* False, explained: this build cannot run it. */
bool cli_options_check(const struct cli_options *o);
bool cli_has_both_doubles(void);

#define CLI_SELF_BYTES 4096
/* The path of this program; false: not known, which was said. */
bool cli_self(char out[CLI_SELF_BYTES]);
/* Starts o->processes processes of the same command, and waits for them: the exit code. */
int cli_processes(int argc, char **argv, const struct cli_options *o);
/* Is one of them. */
int cli_process(struct cli_options *o);

/* Replaces this process by gdb around the same command without --gdb; `then` is what gdb does
 * first, a NULL behind it, or NULL. Returns only when it cannot. */
int cli_under_gdb(int argc, char **argv, const char *const *then);

#endif
