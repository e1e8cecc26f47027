/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of a job, for job.c and for the functions in libc's place: program_calls.c (the end of
 * a program, sleep, threads, getopt) and program_env.c (its environment).
 */
#ifndef SIM_WORLD_JOB_INTERNAL_H
#define SIM_WORLD_JOB_INTERNAL_H

#include <setjmp.h>

#include "sim/world/program.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

struct job_process {
	struct program program;
	struct os_proc *proc;
	struct sim_task *task; /* its main */
	uint32_t rank;         /* of this process, in the job */
	int argc;
	char **argv; /* its own: getopt changes the order */
	char **env;  /* its `environ`; NULL-terminated */
	int status;
	shared_u32 over_word; /* 1: its main task has ended, or was killed */
	bool left;            /* it was not killed */
	bool finishing;       /* after main: exit's handlers are running, or are left out */
	jmp_buf over;         /* in its main task: the end of the program */
};

/* The process of the calling task; NULL: none (a child made by fork, a thread that is not the
 * job's). */
struct job_process *job_self(void);
/* The program ends, from any of its tasks. `handlers`: as exit, which calls them; not as _exit. */
void job_exit(struct job_process *p, int status, bool handlers) __attribute__((noreturn));

/* program_env.c: the environment of this process with the variables of launchers. ENOMEM. */
int job_env_make(struct job_process *p, uint32_t ranks, uint32_t per_host);
void job_env_publish(const struct job_process *p); /* to the program's `environ` */
const char *job_env_get(const struct job_process *p, const char *name);
/* value NULL: removes it. ENOMEM; EINVAL: explained. */
int job_env_set(struct job_process *p, const char *name, const char *value);

/* program_calls.c: a new copy has parsed no options, whatever libc has; one that has ended parses
 * no more. */
void job_getopt_start(const struct job_process *p);
void job_getopt_release(const struct job_process *p);

#pragma GCC visibility pop
#endif
