/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of nccl.h, one row each, for tests that call all of them. A new collective is a
 * row and a function of three lines here.
 */
#ifndef TESTS_COLLECTIVES_CALLS_H
#define TESTS_COLLECTIVES_CALLS_H

#include <stdbool.h>

#include "core/base/macros.h"
#include "core/include/nccl.h"

struct call_args {
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root;
	ncclComm_t comm;
	cudaStream_t stream;
};

struct call {
	const char *name, *agree; /* in messages; as plan_agree writes it */
	ncclResult_t (*fn)(const struct call_args *a);
	bool reduces, rooted;
	bool send_per_rank, recv_per_rank; /* a block of count elements for each rank */
	bool send_root_only, recv_root_only;
	const char *count; /* the argument's name */
};

/* The barrier for the compiler keeps the call site in the function. */
#define CALL_SITE(call)                                                                            \
	ncclResult_t rc = call;                                                                    \
	__asm__ volatile("");                                                                      \
	return rc

static ncclResult_t call_all_reduce(const struct call_args *a)
{
	CALL_SITE(ncclAllReduce(a->send, a->recv, a->count, a->type, a->op, a->comm, a->stream));
}

static ncclResult_t call_all_gather(const struct call_args *a)
{
	CALL_SITE(ncclAllGather(a->send, a->recv, a->count, a->type, a->comm, a->stream));
}

static ncclResult_t call_reduce_scatter(const struct call_args *a)
{
	CALL_SITE(
		ncclReduceScatter(a->send, a->recv, a->count, a->type, a->op, a->comm, a->stream));
}

static ncclResult_t call_reduce(const struct call_args *a)
{
	CALL_SITE(ncclReduce(a->send, a->recv, a->count, a->type, a->op, a->root, a->comm,
			     a->stream));
}

static ncclResult_t call_broadcast(const struct call_args *a)
{
	CALL_SITE(ncclBroadcast(a->send, a->recv, a->count, a->type, a->root, a->comm, a->stream));
}

static const struct call calls[] = {
	{.name = "ncclAllReduce",
	 .agree = "all_reduce",
	 .fn = call_all_reduce,
	 .reduces = true,
	 .count = "count"},
	{.name = "ncclAllGather",
	 .agree = "all_gather",
	 .fn = call_all_gather,
	 .recv_per_rank = true,
	 .count = "sendcount"},
	{.name = "ncclReduce",
	 .agree = "reduce",
	 .fn = call_reduce,
	 .reduces = true,
	 .rooted = true,
	 .recv_root_only = true,
	 .count = "count"},
	{.name = "ncclBroadcast",
	 .agree = "broadcast",
	 .fn = call_broadcast,
	 .rooted = true,
	 .send_root_only = true,
	 .count = "count"},
	{.name = "ncclReduceScatter",
	 .agree = "reduce_scatter",
	 .fn = call_reduce_scatter,
	 .reduces = true,
	 .send_per_rank = true,
	 .count = "recvcount"},
};
#define CALLS ((int)ARRAY_LEN(calls))

static inline int call_blocks(bool per_rank, int nranks)
{
	return per_rank ? nranks : 1;
}

/* The elements that rank `rank` has for itself in the larger buffer start here, in elements. */
static inline size_t call_place(const struct call *c, int rank, size_t count)
{
	return c->send_per_rank != c->recv_per_rank ? (size_t)rank * count : 0;
}

#endif
