/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real processes that this one starts and waits for: those of `doppel run --processes` and --procs,
 * and of `doppel exec --procs`. None of them outlives this process, however it ends. Errors are
 * explained on stderr.
 */
#ifndef SIM_CLI_LAUNCHER_H
#define SIM_CLI_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "sim/cli/options.h"

/* Default of DOPPEL_TIMEOUT_MS, the deadline of inits and launches, for processes of doubles:
 * survivors of a killed process end. */
#define LAUNCHER_TIMEOUT_MS "20000"

struct launcher {
	uint32_t count;
	int32_t each;     /* ranks of a process, for messages; 0: unknown */
	FILE *out;        /* for a line about each process */
	uint32_t grace_s; /* processes that have not ended so long after a failure are killed */
	int code;         /* the most severe exit code so far */
	pid_t pid[CLI_MAX_PROCESSES]; /* 0: it has ended */
};

/* Starts process i. The child calls `child`, which executes a program and returns on failure. */
bool launcher_start(struct launcher *l, uint32_t i, void (*child)(uint32_t i, void *arg),
		    void *arg);
/* Returns DOPPEL_TIMEOUT_MS or its default. */
uint32_t launcher_timeout_ms(void);
/* Returns the time in s for survivors to end: their deadline, and time to agree on the error. */
uint32_t launcher_grace_s(void);
/* Executes this command again with `more` words, which end with NULL. Returns on failure, which it
 * explains. */
void launcher_exec_self(uint32_t i, int argc, char **argv, char *const *more);
/* WAITS until all processes have ended. Returns the code of the worst one, as for sim_exit. */
int launcher_wait(struct launcher *l);

#endif
