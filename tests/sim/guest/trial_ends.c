/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: programs that end without what they should have
 * called first: trial_ends WHAT. On several hosts it has one rank in each process. */
#include <unistd.h>

#include "trial.h"

static ncclComm_t comm;
static cudaStream_t stream;
static float *data;

static void begin(void)
{
	ncclUniqueId id;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
	need(!cudaStreamCreate(&stream), "cudaStreamCreate");
	need(!cudaMalloc((void **)&data, 4096), "cudaMalloc");
}

static ncclResult_t sum(void)
{
	return ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, comm, stream);
}

static ncclResult_t watched_sum(void)
{
	ncclResult_t error = sum();

	while (error == ncclSuccess && cudaStreamQuery(stream) == cudaErrorNotReady)
		need(!ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
	return error;
}

/* Nothing is destroyed, nothing is freed. A process that exits may take the end of the other's sum
 * with it. */
static void forgets(void)
{
	ncclResult_t error;

	begin();
	error = watched_sum();
	need(error == ncclSuccess || error == ncclRemoteError, "the sum");
	printf("rank %d: done\n", rank);
}

static void forgets_memory(void)
{
	need(!cudaMalloc((void **)&data, 100), "cudaMalloc");
}

/* The kernel of a rank whose peer makes no call is still there at the exit. */
static void running(void)
{
	ncclComm_t both[2];

	need(!ncclCommInitAll(both, 2, NULL), "ncclCommInitAll");
	need(!cudaSetDevice(0) && !cudaMalloc((void **)&data, 4096), "cudaMalloc");
	need(!ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, both[0], NULL), "the call");
	printf("left\n");
}

static void unused_id(void)
{
	ncclUniqueId id;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
}

/* The last rank exits when its own part of a collective is over; the others watch their
 * communicator as programs do, in that collective, of which some parts may still have been on their
 * way, or in the next one. */
static void leaves(void)
{
	ncclResult_t error;

	begin();
	error = watched_sum();
	if (rank == ranks - 1)
		return;
	if (error == ncclSuccess)
		error = watched_sum();
	printf("rank %d: %s\n", rank, ncclGetErrorString(error));
	need(!ncclCommAbort(comm), "ncclCommAbort");
}

/* The same, and the others wait in a call that no error ends. */
static void leaves_waiters(void)
{
	begin();
	need(!sum() && !cudaStreamSynchronize(stream), "the sum");
	if (rank == ranks - 1)
		return;
	(void)sum();
	(void)cudaStreamSynchronize(stream);
	ncclResult_t error = ncclSuccess;

	need(!ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
	printf("rank %d: %s\n", rank, ncclGetErrorString(error));
}

static void nothing(void)
{
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {{"forgets", forgets}, {"forgets_memory", forgets_memory},
					   {"running", running}, {"unused_id", unused_id},
					   {"leaves", leaves},   {"leaves_waiters", leaves_waiters},
					   {"nothing", nothing}, {0}};

	return trial_main(argc, argv, all);
}
