/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job: one program on several hosts of one world, started as mpirun or torchrun start it. Each
 * process of the world runs a copy of the program (program.h). The copy's `main` is the first task
 * of the process. The environment configures the engine, the seed, the machine, the plan and the
 * trace file, as for a guest (world_guest.h).
 *
 * If a program exits with a status other than 0, the job ends with that status. Otherwise the job
 * is judged when all programs have exited.
 *
 * `doppel exec` is the caller, once in the life of a process.
 */
#ifndef SIM_WORLD_JOB_H
#define SIM_WORLD_JOB_H

#include <stdint.h>

#define WORLD_JOB_PROCESSES 256 /* maximum number of processes of a job */

struct world_job {
	uint32_t hosts, per_host; /* processes per host */
	char **argv;              /* arguments of the program; NULL-terminated */
};

/* Runs the job. Does not return once the job has started. Otherwise returns a positive errno if the
 * program cannot run, or -1 if the environment is wrong. Both are explained on stderr. */
int world_job_run(const struct world_job *job);

#endif
