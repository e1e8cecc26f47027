/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: communicators that are made from others, with a
 * rank in each process: trial_children KIND. */
#include <stdbool.h>
#include <unistd.h>

#include "trial.h"

enum { COUNT = 1024, LOST = 1 };

static cudaStream_t stream;
static float *data;

static void begin(void)
{
	need(!cudaSetDevice(device_of(0, 1)) && !cudaStreamCreate(&stream), "cudaStreamCreate");
	need(!cudaMalloc((void **)&data, COUNT * sizeof *data), "cudaMalloc");
}

static void end(void)
{
	need(!cudaStreamSynchronize(stream) && !cudaFree(data), "cudaFree");
	need(!cudaStreamDestroy(stream), "cudaStreamDestroy");
}

/* The sum of ones over the communicator. */
static int sum_of(ncclComm_t comm)
{
	float host[COUNT];

	for (int i = 0; i < COUNT; i++)
		host[i] = 1;
	need(!cudaMemcpyAsync(data, host, sizeof host, cudaMemcpyHostToDevice, stream), "copy");
	need(!ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
	need(!cudaMemcpyAsync(host, data, sizeof host, cudaMemcpyDeviceToHost, stream), "copy");
	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	for (int i = 1; i < COUNT; i++)
		need(host[i] == host[0], "equal elements");
	return (int)host[0];
}

static void ready(ncclComm_t comm, ncclResult_t state)
{
	while (state == ncclInProgress)
		need(!ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
	need(!state, "the communicator");
}

/* PyTorch does it in this way: non-blocking, a child for each half, the parent in use beside it. */
static void halves(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t parent, child = NULL;
	ncclUniqueId id;

	begin();
	config.blocking = 0;
	config.splitShare = 1;
	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	ready(parent, ncclCommInitRankConfig(&parent, ranks, id, rank, &config));
	ready(parent, ncclCommSplit(parent, rank < ranks / 2, rank, &child, &config));
	need(child != NULL, "ncclCommSplit");
	ready(child, ncclInProgress);
	printf("rank %d: %d of %d\n", rank, sum_of(child), sum_of(parent));
	need(!ncclCommDestroy(rank % 2 ? parent : child), "ncclCommDestroy");
	need(!ncclCommDestroy(rank % 2 ? child : parent), "ncclCommDestroy");
	end();
}

/* A process exits in the middle, or hangs for a long time. The others shrink the communicator
 * without it. */
static void without_it(bool exits)
{
	int lost = LOST;
	ncclResult_t error, async = ncclSuccess;
	ncclComm_t parent, child;

	begin();
	parent = make_comm();
	(void)sum_of(parent);
	sleep(1); /* all ranks have their sums: one that leaves earlier takes others' data along */
	if (rank == LOST && exits)
		_exit(0);
	if (rank == LOST) {
		sleep(5);
		_exit(0);
	}
	error = ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, parent, stream);
	while (exits && !error && !async)
		need(!ncclCommGetAsyncError(parent, &async), "ncclCommGetAsyncError");
	need(!ncclCommShrink(parent, &lost, 1, &child, NULL, NCCL_SHRINK_ABORT), "ncclCommShrink");
	printf("rank %d: %d of %d\n", rank, sum_of(child), ranks);
	need(!ncclCommDestroy(parent) && !ncclCommDestroy(child), "ncclCommDestroy");
	end();
}

static void survivors(void)
{
	without_it(true);
}

static void survivors_of_a_hang(void)
{
	without_it(false);
}

/* A rank does not make the call. All revoke, and make a child of all. */
static void revoked(void)
{
	ncclComm_t parent, child;

	begin();
	parent = make_comm();
	if (rank != LOST)
		need(!ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, parent, stream), "call");
	need(!ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT), "ncclCommRevoke");
	need(!ncclCommSplit(parent, 0, -rank, &child, NULL), "ncclCommSplit");
	printf("rank %d: %d of %d\n", rank, sum_of(child), ranks);
	need(!ncclCommDestroy(parent) && !ncclCommDestroy(child), "ncclCommDestroy");
	end();
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {
		{"halves", halves},
		{"survivors", survivors},
		{"survivors_of_a_hang", survivors_of_a_hang},
		{"revoked", revoked},
		{NULL, NULL},
	};

	return trial_main(argc, argv, all);
}
