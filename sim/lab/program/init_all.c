/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that one task makes by ncclCommInitAll: of all ranks of its process, each with the
 * GPU that the rank has. They reduce once, and are destroyed one after the other.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "sim/lab/program/refused.h"

enum { INIT_ALL_BYTES = 64 };
_Static_assert(INIT_ALL_BYTES <= LAB_SMALL_BYTES, "a receive buffer has room");
_Static_assert(LAB_MAX_DEVICES <= INT8_MAX, "each rank adds 1 to an ncclInt8");

struct init_all {
	struct lab_rank *rank[LAB_MAX_DEVICES];
	ncclComm_t comm[LAB_MAX_DEVICES];
	int device[LAB_MAX_DEVICES];
	int n;
};

/* False: another rank of the process is its first. */
static bool init_all_find(struct lab_rank *me, struct init_all *all)
{
	for (int32_t r = 0; r < me->run->count; r++) {
		struct lab_rank *it = &me->run->rank[r];

		if (it->proc != me->proc)
			continue;
		ASSERT(all->n < LAB_MAX_DEVICES);
		all->rank[all->n] = it;
		all->device[all->n++] = it->device;
	}
	ASSERT(all->n > 0); /* this rank is one of its process */
	return all->rank[0] == me;
}

static bool init_all_ok(struct lab_rank *me, const char *call, ncclResult_t r)
{
	lab_refused_judge(me, call, "communicators of ncclCommInitAll", r, ncclSuccess);
	return r == ncclSuccess;
}

static bool init_all_reduce(struct lab_rank *me, const struct init_all *all)
{
	cudaError_t e = cudaSuccess;
	ncclResult_t r = ncclGroupStart(), end;

	for (int i = 0; i < all->n && !r && !e; i++) {
		uint8_t *mem = all->rank[i]->recv + LAB_GUARD_BYTES;
		cudaStream_t stream = (cudaStream_t)all->rank[i]->stream;

		e = cudaSetDevice(all->device[i]);
		if (!e)
			e = cudaMemsetAsync(mem, 1, INIT_ALL_BYTES, stream);
		r = e ? ncclUnhandledCudaError
		      : ncclAllReduce(mem, mem, INIT_ALL_BYTES, ncclInt8, ncclSum, all->comm[i],
				      stream);
	}
	end = ncclGroupEnd();
	return lab_rank_check_cuda(me, e, "cudaMemsetAsync") &&
	       init_all_ok(me, "ncclAllReduce", r) && init_all_ok(me, "ncclGroupEnd", end);
}

static bool init_all_check(struct lab_rank *me, const struct init_all *all)
{
	for (int i = 0; i < all->n; i++) {
		cudaStream_t stream = (cudaStream_t)all->rank[i]->stream;
		uint8_t got[INIT_ALL_BYTES];
		cudaError_t e = cudaSetDevice(all->device[i]);

		if (!e)
			e = cudaMemcpyAsync(got, all->rank[i]->recv + LAB_GUARD_BYTES, sizeof got,
					    cudaMemcpyDeviceToHost, stream);
		if (!e)
			e = cudaStreamSynchronize(stream);
		if (!lab_rank_check_cuda(me, e, "cudaStreamSynchronize"))
			return false;
		if (got[0] != (uint8_t)all->n || memcmp(got, got + 1, sizeof got - 1) != 0)
			lab_refused_report(me, "ncclAllReduce", "communicators of ncclCommInitAll",
					   "gave a wrong result");
	}
	return true;
}

static void init_all_live(struct lab_rank *me)
{
	struct init_all all = {.n = 0};

	if (!init_all_find(me, &all) ||
	    !init_all_ok(me, "ncclCommInitAll", ncclCommInitAll(all.comm, all.n, all.device)))
		return;
	for (int i = 0; i < all.n; i++) {
		int rank = -1, device = -1;

		(void)init_all_ok(me, "ncclCommUserRank", ncclCommUserRank(all.comm[i], &rank));
		(void)init_all_ok(me, "ncclCommCuDevice", ncclCommCuDevice(all.comm[i], &device));
		if (rank != i || device != all.device[i])
			lab_refused_report(me, "ncclCommInitAll", "its order",
					   "gave a rank another GPU");
	}
	if (init_all_reduce(me, &all))
		(void)init_all_check(me, &all);
	for (int i = 0; i < all.n; i++)
		(void)init_all_ok(me, "ncclCommDestroy", ncclCommDestroy(all.comm[i]));
	(void)lab_rank_check_cuda(me, cudaSetDevice(me->device), "cudaSetDevice");
}

/* The id is for a communicator of all ranks, since a root waits until its id is used. */
void lab_init_all(struct lab_rank *me, ncclUniqueId id)
{
	ncclComm_t comm;

	init_all_live(me);
	if (init_all_ok(me, "ncclCommInitRank",
			ncclCommInitRank(&comm, me->run->nranks, id, me->rank)))
		(void)init_all_ok(me, "ncclCommDestroy", ncclCommDestroy(comm));
}
