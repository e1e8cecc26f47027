/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective between its entry point and the plan. Each call has one row in a table
 * (collective.c); the argument checks (arguments.c) use that row.
 *
 * A buffer holds `count` elements, or `count` elements for each rank. In place, the smaller buffer
 * is this rank's block of the larger one. Two buffers of the same size are identical in place.
 */
#ifndef CORE_API_COLLECTIVE_H
#define CORE_API_COLLECTIVE_H

#include "core/api/api.h"
#include "core/plan/plan.h"

/* Use of one buffer by a call. */
struct api_buffer {
	const char *name; /* name of the argument */
	bool per_rank;    /* holds count elements for each rank, in order of ranks */
	bool root_only;   /* ignored on other ranks: may be any value, also NULL */
};

struct api_coll_row {
	const char *call; /* "ncclAllGather" */
	enum dev_func func;
	const char *count; /* name of the count argument */
	bool reduces;      /* has an operation */
	bool rooted;       /* has a root */
	struct api_buffer send, recv;
};

/* A collective as the program called it. The checks complete the task. */
struct api_coll {
	const struct api_coll_row *row;
	struct ncclComm *comm;
	struct plan_task task;
};

/* ---- arguments.c: one WARN for the first wrong argument ------------------------------------- */

/* Checks type, operation, root and count. Sets the task's buffers that this rank uses, and their
 * sizes. */
ncclResult_t api_coll_check_values(struct api_coll *c);
/* Checks the buffers; must follow api_coll_check_values. */
ncclResult_t api_coll_check_buffers(const struct api_coll *c);

#endif
