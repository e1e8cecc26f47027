/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of nccl_compare: its options, and the tasks that measure.
 *
 *   nccl_compare.c               the command line; modes: the threads and processes of a run
 *   nccl_compare_task.c          a task: communicators, buffers, calls, times, results
 *   nccl_compare_collectives.c   the collectives, and the results that each rank must hold
 */
#ifndef TESTS_BENCH_NCCL_COMPARE_H
#define TESTS_BENCH_NCCL_COMPARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/bench/nccl_compare_wait.h"

#define MOST_GPUS 16
#define MOST_LIBS 2

/* SIM_WRONG_RESULT, whose header a program for real GPUs cannot include */
enum { WRONG_RESULT = 11 };

/* Data that the tasks of all processes share. */
struct shared {
	pthread_barrier_t barrier;
	ncclUniqueId id;
	double us[MOST_GPUS];
	uint64_t wrong[MOST_GPUS];
};

/* Set before the first task begins. */
extern int gpus;
extern size_t bytes_min, bytes_max, factor;
extern const char *collectives; /* separated by commas; NULL: all */
extern struct nccl_lib lib[MOST_LIBS];
extern int libs, tasks;
extern struct shared *shared;
extern bool registered;
extern enum wait_kind wait_kind;

/* Returns true if the list, separated by commas, contains `name`. */
bool listed(const char *list, const char *name);

/* ---- nccl_compare_task.c -------------------------------------------------------------------- */

/* Runs a task that drives `ranks` GPUs from `number` on. Returns 0 or WRONG_RESULT. */
int task_main(const char *mode, int number, int ranks);

#endif
