/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of communicators: the state of a rank of tests/ranks.h with a communicator, and an
 * all-reduce that is checked. A failing check aborts.
 */
#ifndef TESTS_SIM_COMM_RANK_H
#define TESTS_SIM_COMM_RANK_H

#include <cuda_runtime_api.h>

#include "tests/ranks.h"

static inline uint32_t comm_device(int32_t rank)
{
	const struct ranks_config *c = ranks_self()->all->config;
	return (uint32_t)rank % MAX_OF(c->per_host, 1u);
}

static inline ncclComm_t comm_open(int32_t rank, int32_t nranks, ncclUniqueId id)
{
	ncclComm_t comm;

	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&comm, nranks, id, rank));
	return comm;
}

static inline void comm_buffers(int32_t rank, void **mem, cudaStream_t *stream, size_t bytes)
{
	EXPECT(cudaSetDevice((int)comm_device(rank)) == cudaSuccess);
	EXPECT(cudaMalloc(mem, bytes) == cudaSuccess);
	EXPECT(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking) == cudaSuccess);
}

static inline void comm_buffers_free(void *mem, cudaStream_t stream)
{
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
	EXPECT(cudaFree(mem) == cudaSuccess);
}

/* The sum of 1 + rank over the ranks, in place, in int32. */
static inline void comm_sum(ncclComm_t comm, int32_t rank, int32_t nranks, int32_t *mem,
			    cudaStream_t stream, size_t count)
{
	int32_t host[1000];
	ASSERT(count <= ARRAY_LEN(host));
	for (size_t i = 0; i < count; i++)
		host[i] = 1 + rank;
	EXPECT(cudaMemcpyAsync(mem, host, count * 4, cudaMemcpyHostToDevice, stream) ==
	       cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclAllReduce(mem, mem, count, ncclInt32, ncclSum, comm, stream));
	EXPECT(cudaMemcpyAsync(host, mem, count * 4, cudaMemcpyDeviceToHost, stream) ==
	       cudaSuccess);
	EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
	for (size_t i = 0; i < count; i++)
		EXPECT(host[i] == nranks * (nranks + 1) / 2);
}

#endif
