/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary program for tests/sim/programs/guest_test.sh: program WHAT. Uses CUDA and NCCL alone.
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GPUS 2

static ncclComm_t comm[GPUS];
static cudaStream_t stream[GPUS];
static void *data[GPUS];

static void need(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "program: %s failed\n", what);
	exit(9);
}

static void begin(void)
{
	const int gpu[GPUS] = {0, 1};

	for (int i = 0; i < GPUS; i++) {
		need(!cudaSetDevice(i), "cudaSetDevice");
		need(!cudaMalloc(&data[i], 4096), "cudaMalloc");
		need(!cudaStreamCreate(&stream[i]), "cudaStreamCreate");
	}
	need(!ncclCommInitAll(comm, GPUS, gpu), "ncclCommInitAll");
}

static void reduce_on(int i)
{
	need(!cudaSetDevice(i), "cudaSetDevice");
	need(!ncclAllReduce(data[i], data[i], 1024, ncclFloat, ncclSum, comm[i], stream[i]),
	     "ncclAllReduce");
}

static void end(void)
{
	for (int i = 0; i < GPUS; i++) {
		need(!ncclCommDestroy(comm[i]), "ncclCommDestroy");
		need(!cudaSetDevice(i), "cudaSetDevice");
		need(!cudaStreamDestroy(stream[i]), "cudaStreamDestroy");
		need(!cudaFree(data[i]), "cudaFree");
	}
}

/* ---- kinds of programs --------------------------------------------------------------------- */

static int nothing(void)
{
	return 0;
}

static int all_reduce(void)
{
	begin();
	need(!ncclGroupStart(), "ncclGroupStart");
	for (int i = 0; i < GPUS; i++)
		reduce_on(i);
	need(!ncclGroupEnd(), "ncclGroupEnd");
	for (int i = 0; i < GPUS; i++)
		need(!cudaStreamSynchronize(stream[i]), "cudaStreamSynchronize");
	end();
	return 0;
}

static int no_destroy(void)
{
	begin();
	return 0;
}

static int one_rank_alone(void)
{
	begin();
	reduce_on(0);
	return cudaStreamSynchronize(stream[0]);
}

static int one_rank_alone_at_exit(void)
{
	begin();
	reduce_on(0);
	return 0;
}

static int leak(void)
{
	need(!cudaMalloc(&data[0], 100), "cudaMalloc");
	return 0;
}

static void free_late(void)
{
	printf("freed late: %d\n", cudaFree(data[0]));
}

static int free_at_exit(void)
{
	atexit(free_late);
	return leak();
}

static int own_status(void)
{
	return leak() + 5;
}

static int misuse(void)
{
	(void)leak();
	need(!cudaFree(data[0]), "cudaFree");
	(void)cudaFree(data[0]);
	return 0;
}

static int dereference(void)
{
	(void)leak();
	return *(volatile int *)data[0];
}

/* The variable is set before the first call, by the program itself. */
static int environment(void)
{
	setenv("NCCL_DEBUG", "VERSION", 1);
	return all_reduce();
}

static int nccl_first(void)
{
	ncclUniqueId id;
	ncclComm_t one;

	need(!ncclGetUniqueId(&id), "ncclGetUniqueId");
	need(!ncclCommInitRank(&one, 1, id, 0), "ncclCommInitRank");
	need(!ncclCommDestroy(one), "ncclCommDestroy");
	return 0;
}

static void *count_gpus(void *arg)
{
	int n;

	printf("thread: %d\n", cudaGetDeviceCount(&n));
	return arg;
}

static void *make_id(void *arg)
{
	ncclUniqueId id;

	printf("thread: %d\n", ncclGetUniqueId(&id));
	return arg;
}

static int thread(void *(*fn)(void *))
{
	pthread_t t;

	(void)count_gpus(NULL);
	need(!pthread_create(&t, NULL, fn, NULL), "pthread_create");
	need(!pthread_join(t, NULL), "pthread_join");
	return 0;
}

static int thread_cuda(void)
{
	return thread(count_gpus);
}

static int thread_nccl(void)
{
	return thread(make_id);
}

static ncclUniqueId shared_id;

/* One rank: a communicator, an all-reduce, the end. */
static void *rank_main(void *arg)
{
	int i = (int)(intptr_t)arg;

	need(!cudaSetDevice(i), "cudaSetDevice");
	need(!cudaMalloc(&data[i], 4096), "cudaMalloc");
	need(!cudaStreamCreate(&stream[i]), "cudaStreamCreate");
	need(!ncclCommInitRank(&comm[i], GPUS, shared_id, i), "ncclCommInitRank");
	reduce_on(i);
	need(!cudaStreamSynchronize(stream[i]), "cudaStreamSynchronize");
	need(!ncclCommDestroy(comm[i]), "ncclCommDestroy");
	need(!cudaStreamDestroy(stream[i]), "cudaStreamDestroy");
	need(!cudaFree(data[i]), "cudaFree");
	return NULL;
}

static int thread_per_gpu(void)
{
	pthread_t t[GPUS];

	need(!ncclGetUniqueId(&shared_id), "ncclGetUniqueId");
	for (int i = 0; i < GPUS; i++)
		need(!pthread_create(&t[i], NULL, rank_main, (void *)(intptr_t)i),
		     "pthread_create");
	for (int i = 0; i < GPUS; i++)
		need(!pthread_join(t[i], NULL), "pthread_join");
	return 0;
}

static int calls;

static void *call_for_ever(void *arg)
{
	void *p;

	for (;; __atomic_add_fetch(&calls, 1, __ATOMIC_RELEASE)) {
		need(!cudaMalloc(&p, 4096), "cudaMalloc");
		need(!cudaFree(p), "cudaFree");
		need(!cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
	return arg;
}

/* The program ends while other threads of it make calls. */
static int threads_at_exit(void)
{
	pthread_t t;

	(void)count_gpus(NULL);
	for (int i = 0; i < 4; i++)
		need(!pthread_create(&t, NULL, call_for_ever, NULL), "pthread_create");
	while (__atomic_load_n(&calls, __ATOMIC_ACQUIRE) < 100)
		sched_yield();
	return 0;
}

static int forks(void)
{
	int status = -1;

	(void)count_gpus(NULL);
	fflush(stdout);
	if (fork() == 0)
		exit((count_gpus(NULL), 7));
	need(wait(&status) > 0 && WIFEXITED(status), "wait");
	printf("child: %d\n", WEXITSTATUS(status));
	return 0;
}

static int forks_for_other_work(void)
{
	int status = -1;

	(void)count_gpus(NULL);
	fflush(stdout);
	if (fork() == 0)
		exit(7);
	need(wait(&status) > 0 && WIFEXITED(status), "wait");
	printf("child: %d\n", WEXITSTATUS(status));
	return 0;
}

static const struct {
	const char *what;
	int (*run)(void);
} all[] = {
	{"nothing", nothing},
	{"all_reduce", all_reduce},
	{"no_destroy", no_destroy},
	{"one_rank_alone", one_rank_alone},
	{"one_rank_alone_at_exit", one_rank_alone_at_exit},
	{"leak", leak},
	{"free_at_exit", free_at_exit},
	{"own_status", own_status},
	{"misuse", misuse},
	{"dereference", dereference},
	{"environment", environment},
	{"nccl_first", nccl_first},
	{"thread_cuda", thread_cuda},
	{"thread_nccl", thread_nccl},
	{"thread_per_gpu", thread_per_gpu},
	{"threads_at_exit", threads_at_exit},
	{"forks", forks},
	{"forks_for_other_work", forks_for_other_work},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof all / sizeof all[0]; i++)
		if (strcmp(argv[1], all[i].what) == 0)
			return all[i].run();
	fprintf(stderr, "usage: program WHAT\n");
	return 8;
}
