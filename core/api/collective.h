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
	/* "ncclAllGatherConfig"; NULL: there is no such call */
	const char *config_call;
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
	bool configured;                /* a call with options: ncclAllReduceConfig */
	const ncclCollConfig_t *config; /* NULL: the defaults */
	struct plan_task task;
	cudaEvent_t completion; /* to record after the launch; NULL: none */
};

enum api_coll_call {
	API_ALL_REDUCE,
	API_ALL_GATHER,
	API_REDUCE_SCATTER,
	API_REDUCE,
	API_BROADCAST,
	API_BCAST
};

/* Returns a call with its arguments, which have the order of ncclReduce. `root`: -1 if the call has
 * none. */
static inline struct api_coll api_coll_of(const void *send, void *recv, size_t count,
					  ncclDataType_t type, ncclRedOp_t op, int root,
					  ncclComm_t comm, cudaStream_t stream)
{
	return (struct api_coll){.comm = comm,
				 .task = {.send = send,
					  .recv = recv,
					  .count = count,
					  .type = type,
					  .op = op,
					  .root = root,
					  .stream = stream}};
}

/* Checks the call, then queues or launches it. `caller`: the return address of the entry point. */
ncclResult_t api_coll_call(struct api_coll *c, enum api_coll_call call, const void *caller);
/* The same for a call with options. `config`: NULL: the defaults. */
static inline ncclResult_t api_coll_call_config(struct api_coll *c, enum api_coll_call call,
						const void *caller, const ncclCollConfig_t *config)
{
	c->configured = true;
	c->config = config;
	return api_coll_call(c, call, caller);
}

/* ---- coll_options.c: one WARN for the first wrong option ------------------------------------ */

/* Sets the options of the task, whose values are checked, and c->completion. */
ncclResult_t api_options_of_coll(struct api_coll *c);
/* The same for a call that consists of messages. Options of programs and channels have no effect.
 * *tag: 0: none. */
ncclResult_t api_options_of_messages(const struct ncclComm *comm, const char *call,
				     const ncclCollConfig_t *config, uint64_t *tag,
				     cudaEvent_t *completion);

/* ---- arguments.c: one WARN for the first wrong argument ------------------------------------- */

/* Checks type, operation, root and count. Sets the task's buffers that this rank uses, and their
 * sizes. */
ncclResult_t api_coll_check_values(struct api_coll *c);
/* Checks the buffers; must follow api_coll_check_values. */
ncclResult_t api_coll_check_buffers(const struct api_coll *c);

#endif
