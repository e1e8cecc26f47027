/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank on the GPU of its number, and an all-reduce whose result it checks. Used by tests of
 * transports.
 */
#ifndef TESTS_INTERNAL_SUM_H
#define TESTS_INTERNAL_SUM_H

#include "core/rank/rank.h"
#include "tests/ranks.h"

enum { SUM_COUNT = 50000 };

static inline ncclResult_t sum_init(int32_t rank, int32_t nranks, ncclComm_t *comm)
{
	ncclUniqueId id = ranks_id();

	*comm = NULL;
	EXPECT(cudaSetDevice(rank) == cudaSuccess);
	return ncclCommInitRank(comm, nranks, id, rank);
}

static inline void sum_is_right(struct ncclComm *comm)
{
	int32_t *host = calloc(SUM_COUNT, sizeof *host), *mem, n = comm->nranks;
	const size_t bytes = SUM_COUNT * sizeof *mem;
	cudaStream_t s;

	EXPECT(host != NULL);
	for (int32_t i = 0; i < SUM_COUNT; i++)
		host[i] = comm->rank * 7 + i;
	EXPECT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
	EXPECT(cudaMalloc((void **)&mem, bytes) == cudaSuccess);
	EXPECT(cudaMemcpy(mem, host, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, SUM_COUNT, ncclInt32, ncclSum, comm, s));
	EXPECT(cudaStreamSynchronize(s) == cudaSuccess);
	EXPECT(cudaMemcpy(host, mem, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
	for (int32_t i = 0; i < SUM_COUNT; i++)
		EXPECT(host[i] == 7 * n * (n - 1) / 2 + n * i);
	EXPECT(cudaFree(mem) == cudaSuccess);
	EXPECT(cudaStreamDestroy(s) == cudaSuccess);
	free(host);
}

#endif
