/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that disagree: all make a communicator and call a collective, which one of them calls
 * otherwise. The later one of two ranks that differ gets ncclInvalidUsage from its call, and all
 * abort then. A world compares what its ranks call (core/plan/agree.c).
 */
#include <cuda_runtime_api.h>

#include "sim/lab/program/refused.h"

#define DISAGREE_COUNT 64u
#define DISAGREE_NS    10000000000ull /* by then a rank has reported it */

_Static_assert(DISAGREE_COUNT * sizeof(int32_t) <= LAB_SMALL_BYTES, "a receive buffer has room");

enum disagree { DISAGREE_COUNTS, DISAGREE_TYPES, DISAGREE_OPS, DISAGREE_ROOTS, DISAGREE_KINDS };

static ncclResult_t disagree_call(struct lab_rank *me, enum disagree how, bool differs,
				  ncclComm_t comm)
{
	uint8_t *mem = me->recv + LAB_GUARD_BYTES;
	cudaStream_t stream = (cudaStream_t)me->stream;
	size_t count = DISAGREE_COUNT - (how == DISAGREE_COUNTS && differs);
	ncclDataType_t type = how == DISAGREE_TYPES && differs ? ncclFloat32 : ncclInt32;
	ncclRedOp_t op = how == DISAGREE_OPS && differs ? ncclMax : ncclSum;

	ASSERT(me->run->nranks > 1); /* one is the other rank, and a root */
	if (how == DISAGREE_ROOTS)
		return ncclBcast(mem, count, type, differs ? 1 : 0, comm, stream);
	if (how == DISAGREE_KINDS && differs)
		return ncclReduce(mem, mem, count, type, op, 0, comm, stream);
	return ncclAllReduce(mem, mem, count, type, op, comm, stream);
}

/* Until a rank has reported the disagreement. */
static void disagree_wait(struct lab_rank *me, uint64_t round)
{
	struct wait w = {
		.on = &me->run->disagreed,
		.bytes = 8,
		.kind = WAIT_GE,
		.mask = WAIT_MASK_ALL,
		.want = round + 1,
		.why = "harness: a rank that reports a disagreement",
		.from = {.rank = -1, .channel = -1, .step = -1},
		.deadline_ns = os_now_ns() + DISAGREE_NS,
	};

	if (os_wait_one(&w, NULL))
		lab_refused_report(me, "a collective", "that another rank calls otherwise",
				   "was refused on no rank");
}

void lab_disagree(struct lab_rank *me, uint64_t round, bool differs, struct sim_rng *rng,
		  ncclUniqueId id)
{
	enum disagree how = (enum disagree)sim_rng_below(rng, DISAGREE_KINDS + 1);
	ncclComm_t comm = NULL;
	ncclResult_t r = ncclCommInitRank(&comm, me->run->nranks, id, me->rank);

	lab_refused_judge(me, "ncclCommInitRank", "ranks that will disagree", r, ncclSuccess);
	/* an abort would end the init of a rank that is later */
	if (r || !lab_barrier(me))
		return;
	r = disagree_call(me, how, differs, comm);
	if (r == ncclInvalidUsage)
		shared_store_u64(&me->run->disagreed, round + 1, SHARED_RELEASE);
	else
		lab_refused_judge(me, "a collective", "that another rank calls otherwise", r,
				  ncclSuccess);
	disagree_wait(me, round);
	lab_refused_judge(me, "ncclCommAbort", "ranks that disagree", ncclCommAbort(comm),
			  ncclSuccess);
	(void)lab_rank_check_cuda(me, cudaStreamSynchronize((cudaStream_t)me->stream),
				  "cudaStreamSynchronize after ncclCommAbort");
}
