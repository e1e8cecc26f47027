/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of a life share: life.c (a rank's whole life), life_stage.c (the
 * calls between its collectives). */
#ifndef SIM_LAB_LIFE_INTERNAL_H
#define SIM_LAB_LIFE_INTERNAL_H

#include "core/include/nccl_device.h"
#include "sim/lab/life/life.h"
#include "sim/lab/run/runner_internal.h"

/* Shared by a rank's main task and its watch. */
struct lab_life_self {
	struct lab_life *life;
	struct lab_life_rank *out;
	struct os_thread *watch;
	shared_u32 done;    /* the main task has left the communicator */
	shared_u32 aborted; /* the watch has aborted `ended` */
	ncclComm_t ended;   /* written before `aborted` */
	/* A stage makes it. A non-blocking call may write it until its parent has ended. */
	ncclComm_t child;
	ncclWindow_t window;
	ncclDevComm_t device;
	/* The rank's place in its present communicator, and the size of that. */
	int32_t index, n;
	uint64_t points;
};

/* Keeps the first error. True: the call succeeded. */
bool life_check(struct lab_rank *me, ncclResult_t rc, const char *call);
/* A moment between two calls. False: here the program gives up by itself. */
bool life_point(struct lab_rank *me);
/* The state of the rank's present communicator. */
ncclResult_t life_poll(struct lab_rank *me);

/* A wait until a word of the harness is no longer 0; `from`: the rank that writes it, -1: any. And
 * the wait that goes beside others: until a launcher sees a death, or a program that failed. */
struct wait life_wait(const shared_u32 *word, const char *why, int32_t from);
struct wait life_wait_trouble(const struct lab_rank *me);

/* ---- life_stage.c ---------------------------------------------------------------------------- */

/* True if the rank has no communicator before the stage: it joins by ncclCommGrow. */
bool life_joins_later(const struct lab_rank *me);
/* Makes the calls of the stage. `first`: the rank's communicator, NULL: it joins later. True: all
 * succeeded, and *runs is false if the rank takes no further part. */
bool life_stage(struct lab_rank *me, ncclComm_t first, bool *runs);
/* Makes the calls of the stage after the last collective. */
bool life_stage_ends(struct lab_rank *me);

#endif
