/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of a job. Shared by job.c and the replacements of libc's functions: program_calls.c
 * (exit, sleep, threads, getopt) and program_env.c (the program's environment).
 */
#ifndef SIM_WORLD_JOB_INTERNAL_H
#define SIM_WORLD_JOB_INTERNAL_H

#include <setjmp.h>

#include "sim/world/program/program.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

struct job_process {
	struct program program;
	struct os_proc *proc;
	struct sim_task *task; /* task that runs the program's main */
	uint32_t rank;         /* rank of this process in the job */
	int argc;
	char **argv; /* private copy: getopt reorders it */
	char **env;  /* the program's `environ`; NULL-terminated */
	int status;
	shared_u32 over_word; /* 1: the main task has ended or was killed */
	bool left;            /* the program ended the process; false: it was killed */
	bool finishing;       /* main has returned: exit handlers run, or are skipped */
	jmp_buf over;         /* jump target in the main task that ends the program */
};

/* Returns the process of the calling task. NULL: the caller is not part of the job (a child made by
 * fork, or a thread that the job did not start). */
struct job_process *job_self(void);
/* Ends the program from any of its tasks. `handlers`: run the exit handlers, as exit does and _exit
 * does not. */
void job_exit(struct job_process *p, int status, bool handlers) __attribute__((noreturn));

/* program_env.c: builds the environment of this process, with the variables that launchers set.
 * Returns 0 or ENOMEM. */
int job_env_make(struct job_process *p, uint32_t ranks, uint32_t per_host);
void job_env_publish(const struct job_process *p); /* stores p->env in the program's `environ` */
const char *job_env_get(const struct job_process *p, const char *name);
/* Sets a variable; value NULL removes it. Returns 0, ENOMEM, or EINVAL, which it has explained. */
int job_env_set(struct job_process *p, const char *name, const char *value);

/* program_calls.c: job_getopt_start resets the getopt variables of a new copy, whatever state libc
 * has. job_getopt_release lets other copies use getopt after this one has ended. */
void job_getopt_start(const struct job_process *p);
void job_getopt_release(const struct job_process *p);

#pragma GCC visibility pop
#endif
