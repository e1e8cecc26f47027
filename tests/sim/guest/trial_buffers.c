/* SPDX-License-Identifier: BSD-3-Clause */
/* A program for tests/sim/programs/trials_test.sh: buffers of every kind of memory, at odd
 * addresses, of no size, and sums of one rank: trial_buffers KIND. Each process drives one rank. */
#include "trial.h"

#define COUNT 1000

static ncclComm_t comm;
static cudaStream_t stream;

static void begin(void)
{
	comm = make_comm();
	need(!cudaStreamCreate(&stream), "cudaStreamCreate");
}

static void end(void)
{
	need(!ncclCommDestroy(comm) && !cudaStreamDestroy(stream), "ncclCommDestroy");
	printf("rank %d: right\n", rank);
}

/* Each rank has rank + 1 everywhere. */
static void sum(void *buffer)
{
	float host[COUNT];

	for (int i = 0; i < COUNT; i++)
		host[i] = (float)(rank + 1);
	need(!cudaMemcpy(buffer, host, sizeof host, cudaMemcpyDefault), "cudaMemcpy");
	need(!ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, comm, stream), "a sum");
	need(!cudaStreamSynchronize(stream), "the stream");
	need(!cudaMemcpy(host, buffer, sizeof host, cudaMemcpyDefault), "cudaMemcpy");
	for (int i = 0; i < COUNT; i++)
		need(host[i] == (float)(ranks * (ranks + 1)) / 2, "an element of the sum");
}

static void pinned(void)
{
	void *buffer;

	begin();
	need(!cudaMallocHost(&buffer, COUNT * sizeof(float)), "cudaMallocHost");
	sum(buffer);
	need(!cudaFreeHost(buffer), "cudaFreeHost");
	end();
}

static void of_nccl(void)
{
	void *buffer, *handle;

	begin();
	need(!ncclMemAlloc(&buffer, COUNT * sizeof(float)), "ncclMemAlloc");
	need(!ncclCommRegister(comm, buffer, COUNT * sizeof(float), &handle), "ncclCommRegister");
	sum(buffer);
	need(!ncclCommDeregister(comm, handle) && !ncclMemFree(buffer), "ncclMemFree");
	end();
}

static void of_no_size(void)
{
	void *buffer = NULL;

	begin();
	ncclResult_t rc = ncclMemAlloc(&buffer, 0);

	printf("rank %d: ncclMemAlloc of 0 bytes: %s\n", rank, ncclGetErrorString(rc));
	need(!ncclMemFree(rc ? NULL : buffer), "ncclMemFree");
	need(!ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, stream), "a sum of nothing");
	need(!cudaStreamSynchronize(stream), "the stream");
	end();
}

/* Calls that only move bytes take any address. */
static void odd(void)
{
	size_t bytes = COUNT * sizeof(float);
	unsigned char *from, *to, *host = malloc((size_t)ranks * bytes);

	begin();
	need(host && !cudaMalloc((void **)&from, bytes + 8) &&
		     !cudaMalloc((void **)&to, (size_t)ranks * bytes + 8),
	     "cudaMalloc");
	need(!cudaMemset(from, rank + 1, bytes + 8) &&
		     !cudaMemset(to, 0xee, (size_t)ranks * bytes + 8),
	     "cudaMemset");
	need(!cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	need(!ncclAllGather(from + 1, to + 3, COUNT, ncclFloat, comm, stream) &&
		     !cudaStreamSynchronize(stream),
	     "ncclAllGather");
	need(!cudaMemcpy(host, to + 3, (size_t)ranks * bytes, cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	for (size_t i = 0; i < (size_t)ranks * bytes; i++)
		need(host[i] == i / bytes + 1, "a byte of ncclAllGather");
	free(host);
	need(!cudaFree(from) && !cudaFree(to), "cudaFree");
	end();
}

/* A reduction of a process alone is a copy, bit by bit, at any count. */
static void alone(void)
{
	static const size_t counts[] = {0, 1, 7, 9, 255, 257, 4097, 65537};
	static const struct {
		ncclDataType_t type;
		size_t bytes;
	} types[] = {{ncclBfloat16, 2}, {ncclFloat32, 4}, {ncclInt8, 1}};
	ncclUniqueId id;

	need(!cudaSetDevice(device_of(0, 1)) && !cudaStreamCreate(&stream), "cudaStreamCreate");
	need(!unsetenv("NCCL_COMM_ID") && !ncclGetUniqueId(&id) &&
		     !ncclCommInitRank(&comm, 1, id, 0),
	     "ncclCommInitRank");
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			size_t bytes = counts[c] * types[t].bytes;
			unsigned char *from, *to, *sent = malloc(bytes + 16),
						  *got = malloc(bytes + 16);

			for (size_t i = 0; i < bytes + 16; i++)
				sent[i] = i % types[t].bytes == types[t].bytes - 1
						  ? 0x3f
						  : (unsigned char)(i * 7);
			need(!cudaMalloc((void **)&from, bytes + 16) &&
				     !cudaMalloc((void **)&to, bytes + 16),
			     "cudaMalloc");
			need(!cudaMemcpy(from, sent, bytes + 16, cudaMemcpyHostToDevice) &&
				     !cudaMemset(to, 0xee, bytes + 16),
			     "cudaMemcpy");
			need(!cudaDeviceSynchronize(), "cudaDeviceSynchronize");
			need(!ncclAllReduce(from, to, counts[c], types[t].type, ncclAvg, comm,
					    stream),
			     "ncclAllReduce");
			need(!cudaStreamSynchronize(stream), "the stream");
			need(!cudaMemcpy(got, to, bytes + 16, cudaMemcpyDeviceToHost),
			     "cudaMemcpy");
			need(!memcmp(sent, got, bytes), "an average of one rank");
			for (size_t i = bytes; i < bytes + 16; i++)
				need(got[i] == 0xee, "the bytes after the result");
			need(!cudaFree(from) && !cudaFree(to), "cudaFree");
			free(sent);
			free(got);
		}
	end();
}

int main(int argc, char **argv)
{
	static const struct trial all[] = {{"pinned", pinned},         {"of_nccl", of_nccl},
					   {"of_no_size", of_no_size}, {"odd", odd},
					   {"alone", alone},           {0}};

	return trial_main(argc, argv, all);
}
