/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective between its entry point and the plan: one row of a table for each call
 * (collective.c), which the argument checks (arguments.c) go by.
 *
 * A buffer holds `count` elements, or `count` elements for each rank. In place, the smaller buffer
 * is this rank's block of the larger one; buffers of one size are the same.
 */
#ifndef CORE_API_COLLECTIVE_H
#define CORE_API_COLLECTIVE_H

#include "core/api/api.h"
#include "core/plan/plan.h"

/* How a call uses one of its buffers. */
struct api_buffer {
	const char *name; /* of the argument */
	bool per_rank;    /* holds count elements for each rank, in order of ranks */
	bool root_only;   /* of no use on other ranks: may be anything there, NULL as well */
};

struct api_coll_row {
	const char *call; /* "ncclAllGather" */
	enum dev_func func;
	const char *count; /* the argument's name */
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

/* ---- arguments.c: one WARN for what is wrong ------------------------------------------------ */

/* Type, operation, root and count; fills in which buffers this rank has, and their bytes. */
ncclResult_t api_coll_check_values(struct api_coll *c);
/* The buffers, after the values. */
ncclResult_t api_coll_check_buffers(const struct api_coll *c);

#endif
