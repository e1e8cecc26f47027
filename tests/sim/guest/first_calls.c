/* SPDX-License-Identifier: BSD-3-Clause */
/* The first CUDA and NCCL calls of a program come from many threads at one time: a thread allocates
 * by NCCL, finds the GPUs, or creates an id and a communicator of one rank. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 12

static pthread_barrier_t go;

static void need(int ok, long thread, const char *what)
{
	if (ok)
		return;
	printf("thread %ld: not so: %s\n", thread, what);
	exit(1);
}

static void buffer(long thread)
{
	void *p = NULL;

	need(ncclMemAlloc(&p, 4096) == ncclSuccess && p, thread, "memory of NCCL's");
	need(ncclMemFree(p) == ncclSuccess, thread, "and its end");
}

static void memory(long thread)
{
	int count = 0;
	void *p = NULL;

	need(cudaGetDeviceCount(&count) == cudaSuccess && count > 0, thread, "GPUs");
	need(cudaSetDevice((int)thread % count) == cudaSuccess, thread, "a device");
	need(cudaMalloc(&p, 4096) == cudaSuccess && p, thread, "memory");
	need(cudaMemset(p, 1, 4096) == cudaSuccess && cudaFree(p) == cudaSuccess, thread,
	     "which is usable");
}

static void communicator(long thread)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	need(ncclGetUniqueId(&id) == ncclSuccess, thread, "an id");
	need(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess && comm, thread, "a communicator");
	need(ncclCommDestroy(comm) == ncclSuccess, thread, "and its end");
}

static void *one(void *arg)
{
	long thread = (long)arg;

	pthread_barrier_wait(&go);
	if (thread % 3 == 0)
		buffer(thread);
	else if (thread % 3 == 1)
		memory(thread);
	else
		communicator(thread);
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];

	pthread_barrier_init(&go, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, one, (void *)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 0;
}
