/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plan: from the collectives that a group collected to kernel launches and proxy operations.
 *
 *   plan_enqueue   (ncclAllReduce, after checks) appends a task to the communicator's queue;
 *   plan_launch    (ncclGroupEnd) takes all tasks of one communicator: picks algorithm, protocol,
 *                  channels and chunks, writes dev_work, hands proxy_ops to the proxy, launches on
 *                  the user's stream. Kernel and proxy derive the same number of steps from the
 *                  same work; plan_steps is that one derivation.
 */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/comm/comm.h"

struct plan_task {
	enum dev_func func;
	const char *call;   /* "ncclAllReduce" */
	const char *name;   /* "all_reduce" */
	const void *caller; /* where the program called it */
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root; /* -1: has none */
	cudaStream_t stream;
	uint64_t op_count; /* given at the launch */
};

ncclResult_t plan_init(struct ncclComm *comm);
void plan_fini(struct ncclComm *comm);
ncclResult_t plan_enqueue(struct ncclComm *comm, const struct plan_task *task);
bool plan_pending(const struct ncclComm *comm);
/* The number that the next collective will have, if all that is queued is launched. */
uint64_t plan_next_op(const struct ncclComm *comm);
/* The name of a data type that exists. */
const char *plan_type_name(ncclDataType_t type);
/* Numbers what is queued, asks whether the other ranks launch the same, and launches. What was not
 * launched has no number: the next launch begins with it. A launch that fails half way, when the
 * proxy or the GPU has part of it, is an asynchronous error of the communicator. */
ncclResult_t plan_launch(struct ncclComm *comm);
/* Drops what was enqueued and not launched (a group that failed). */
void plan_discard(struct ncclComm *comm);

/* Steps that channel `channel` takes for this work, on each of its connections. */
uint32_t plan_steps(const struct dev_work *work, int channel, int nranks);

#endif
