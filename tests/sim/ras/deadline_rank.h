/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of deadlines: a rank of a communicator that has run one collective, a call that hangs,
 * and the error by which the hang ends. The world does not compare calls, as in a real job.
 */
#ifndef TESTS_SIM_RAS_DEADLINE_RANK_H
#define TESTS_SIM_RAS_DEADLINE_RANK_H

#include <stdio.h>

#include "tests/sim/comm/comm_rank.h"

#define DEADLINE_COUNT   64
#define DEADLINE_LIMIT_S 30 /* within which each rank must have its error */

struct deadline_rank {
	ncclComm_t comm;
	cudaStream_t stream;
	int32_t *mem;
	int32_t rank, nranks;
};

/* One way in which ranks do not fit together. */
struct deadline_case {
	void (*call)(struct deadline_rank *r); /* what each rank calls after the first collective */
	ncclResult_t error;                    /* that all ranks get */
	const char *said[3];                   /* parts of the log line of each rank */
};

static inline void deadline_open(struct deadline_rank *r, int32_t rank, int32_t nranks)
{
	r->rank = rank;
	r->nranks = nranks;
	comm_buffers(rank, (void **)&r->mem, &r->stream, DEADLINE_COUNT * 4);
	r->comm = comm_open(rank, nranks, ranks_id());
	comm_sum(r->comm, rank, nranks, r->mem, r->stream, DEADLINE_COUNT);
	ranks_barrier();
}

static inline void deadline_sum(struct deadline_rank *r, size_t count)
{
	EXPECT_NCCL(ncclSuccess,
		    ncclAllReduce(r->mem, r->mem, count, ncclInt32, ncclSum, r->comm, r->stream));
}

static inline void deadline_broadcast(struct deadline_rank *r, int root)
{
	EXPECT_NCCL(ncclSuccess, ncclBroadcast(r->mem, r->mem, DEADLINE_COUNT, ncclInt32, root,
					       r->comm, r->stream));
}

/* Polls until the communicator has an error, and returns it. */
static inline ncclResult_t deadline_poll(struct deadline_rank *r)
{
	const uint64_t until_ns = os_now_ns() + DEADLINE_LIMIT_S * 1000000000ull;
	ncclResult_t error = ncclSuccess;

	while (!error) {
		EXPECT_NCCL(ncclSuccess, ncclCommGetAsyncError(r->comm, &error));
		EXPECT(os_now_ns() < until_ns);
		os_sleep_ns(1000000);
	}
	return error;
}

/* The kernels end without an abort by the program. */
static inline void deadline_close(struct deadline_rank *r)
{
	EXPECT(cudaStreamSynchronize(r->stream) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(r->comm));
	comm_buffers_free(r->mem, r->stream);
}

static inline void deadline_rank_main(int32_t rank, int32_t nranks, void *arg)
{
	const struct deadline_case *c = arg;
	struct deadline_rank r = {.rank = rank};

	deadline_open(&r, rank, nranks);
	c->call(&r);
	EXPECT_NCCL(c->error, deadline_poll(&r));
	for (size_t i = 0; i < ARRAY_LEN(c->said) && c->said[i]; i++)
		EXPECT_ERROR_SAYS(c->said[i]);
	ranks_barrier();
	deadline_close(&r);
}

/* Runs the case in both engines, on one host and on two. Time is virtual in `sim`. */
static inline void deadline_run(const struct deadline_case *c, const char *const *sim_env,
				const char *const *threads_env)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct ranks_config w = {.hosts = 1 + i % 2,
					 .per_host = i % 2 ? 2 : 4,
					 .seed = 3,
					 .env = i < 2 ? sim_env : threads_env,
					 .uncompared = true,
					 .engine = i < 2 ? SIM_ENGINE_SIM : SIM_ENGINE_THREADS};

		ranks_run(&w, deadline_rank_main, (void *)(uintptr_t)c);
	}
}

#endif
