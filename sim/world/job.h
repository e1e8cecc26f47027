/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job: one program on several hosts of one world, as mpirun or torchrun start it. Each process of
 * the world runs a copy of the program (program.h), whose `main` is the process' first task. The
 * engine, the seed, the machine, the plan and the trace file come from the environment, as a
 * guest's do (guest.h).
 *
 * A program that ends with another status than 0 ends the job with that status. The job is judged
 * when all programs have ended.
 *
 * Called by `doppel exec`, once in a process' life.
 */
#ifndef SIM_WORLD_JOB_H
#define SIM_WORLD_JOB_H

#include <stdint.h>

#define WORLD_JOB_PROCESSES 256 /* at most */

struct world_job {
	uint32_t hosts, per_host; /* processes of each host */
	char **argv;              /* of the program; NULL-terminated */
};

/* Does not return when the job began. Otherwise: the program cannot run (a positive errno;
 * explained), or -1: the environment is wrong (explained). */
int world_job_run(const struct world_job *job);

#endif
