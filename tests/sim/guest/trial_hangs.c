/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: hangs that end at the deadline of
 * DOPPEL_TIMEOUT_MS: trial_hangs WHAT. The program waits in CUDA, without a query of its own. */
#include <unistd.h>

#include "trial.h"

#define COUNT 1000

static ncclComm_t comm;
static float *x;
static cudaStream_t stream;

static void begin(void)
{
	comm = make_comm();
	need(!cudaMalloc((void **)&x, COUNT * sizeof *x), "cudaMalloc");
	need(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
}

static void sum(void)
{
	need(!ncclAllReduce(x, x, COUNT, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
}

static ncclResult_t state(void)
{
	ncclResult_t error = ncclInternalError;

	need(!ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
	return error;
}

static void end(void)
{
	ncclResult_t error;

	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	error = state();
	printf("rank %d: %s; %s\n", rank, ncclGetErrorString(error),
	       error ? ncclGetLastError(NULL) : "");
	need(!(error ? ncclCommAbort(comm) : ncclCommDestroy(comm)), "the end");
	need(!cudaStreamDestroy(stream) && !cudaFree(x), "cudaFree");
}

/* The last rank calls nothing after the first collective. */
static void absent(void)
{
	begin();
	sum();
	if (rank != ranks - 1)
		sum();
	else
		while (!state())
			usleep(10000);
	end();
}

/* The last rank calls later than the others, and in time. */
static void slow(void)
{
	begin();
	sum();
	if (rank == ranks - 1)
		usleep(200000);
	sum();
	end();
}

/* No rank calls anything for longer than the deadline. */
static void idle(void)
{
	begin();
	sum();
	need(!cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	sleep(3);
	sum();
	end();
}

/* The last rank does not call ncclCommInitRank. */
static void init(void)
{
	ncclUniqueId id;
	ncclResult_t r;

	need(!cudaSetDevice(device_of(0, 1)) && !ncclGetUniqueId(&id), "ncclGetUniqueId");
	if (rank == ranks - 1) {
		sleep(5);
		return;
	}
	r = ncclCommInitRank(&comm, ranks, id, rank);
	printf("rank %d: %s; %s\n", rank, ncclGetErrorString(r), ncclGetLastError(NULL));
}

static const struct trial trials[] = {
	{"absent", absent}, {"slow", slow}, {"idle", idle}, {"init", init}, {0},
};

int main(int argc, char **argv)
{
	return trial_main(argc, argv, trials);
}
