/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the host's cost of a call, of one or two libraries with NCCL's ABI on the same GPUs.
 * That is the time until ncclAllReduce, or the ncclGroupEnd of a send and a receive, returns with
 * its launch queued. It is also the number of mutexes that the calling thread locks meanwhile
 * (POSIX mutexes, which this program counts). One thread per GPU; 8 bytes. After every 8 calls it
 * waits for the stream, outside the measured time, so that the stream's queue never fills.
 *
 *   nccl_launch [-g GPUS] LIB [LIB]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/nccl_lib.h"

enum { MOST_GPUS = 16, ROUNDS = 250, BATCH = 8, SAMPLES = ROUNDS * BATCH, WARM_UP = 50 };
enum bench_call { CALL_ALL_REDUCE, CALL_SEND_RECV, CALLS };
static const char *const call_names[CALLS] = {"ncclAllReduce", "send and receive"};

struct rank {
	int number;
	pthread_t thread;
	double us[CALLS][SAMPLES];
	double locks[CALLS];
};

static struct rank ranks[MOST_GPUS];
static struct nccl_lib lib;
static ncclUniqueId id;
static int gpus = 2;
static pthread_barrier_t barrier;

/* ---- locks ---------------------------------------------------------------------------------- */

static _Thread_local uint64_t locks;
static int (*real_lock)(pthread_mutex_t *);

/* Replaces the C library's function for all loaded libraries, and counts the calls. */
int pthread_mutex_lock(pthread_mutex_t *m)
{
	if (!real_lock)
		*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks++;
	return real_lock(m);
}

/* ---- one library ---------------------------------------------------------------------------- */

static void ok(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "nccl_launch: %s: %s: %d\n", lib.path, what, rc);
	_exit(1);
}

static void call(enum bench_call c, int rank, float *mem, ncclComm_t comm, cudaStream_t stream)
{
	if (c == CALL_ALL_REDUCE) {
		ok(lib.all_reduce(mem, mem + 2, 2, ncclFloat32, ncclSum, comm, stream),
		   "all-reduce");
		return;
	}
	ok(lib.group_start(), "ncclGroupStart");
	ok(lib.send(mem, 2, ncclFloat32, (rank + 1) % gpus, comm, stream), "ncclSend");
	ok(lib.recv(mem + 2, 2, ncclFloat32, (rank + gpus - 1) % gpus, comm, stream), "ncclRecv");
	ok(lib.group_end(), "ncclGroupEnd");
}

static void measure(struct rank *r, enum bench_call c, float *mem, ncclComm_t comm,
		    cudaStream_t stream)
{
	for (int i = 0; i < WARM_UP; i++)
		call(c, r->number, mem, comm, stream);
	ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	pthread_barrier_wait(&barrier);
	uint64_t before = locks;

	for (int i = 0; i < SAMPLES; i++) {
		double start = nccl_lib_now_us();

		call(c, r->number, mem, comm, stream);
		r->us[c][i] = nccl_lib_now_us() - start;
		if (i % BATCH < BATCH - 1)
			continue;
		uint64_t waited = locks;
		ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		before += locks - waited;
	}
	r->locks[c] = (double)(locks - before) / SAMPLES;
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	cudaStream_t stream;
	ncclComm_t comm;
	void *mem;

	ok(cudaSetDevice(r->number), "cudaSetDevice");
	ok(cudaStreamCreate(&stream), "cudaStreamCreate");
	ok(cudaMalloc(&mem, 4 * sizeof(float)), "cudaMalloc");
	ok(lib.init_rank(&comm, gpus, id, r->number), "ncclCommInitRank");
	for (int c = 0; c < CALLS; c++)
		measure(r, (enum bench_call)c, mem, comm, stream);
	ok(lib.destroy(comm), "ncclCommDestroy");
	ok(cudaFree(mem), "cudaFree");
	ok(cudaStreamDestroy(stream), "cudaStreamDestroy");
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(void)
{
	for (int c = 0; c < CALLS; c++)
		for (int g = 0; g < gpus; g++) {
			double *us = ranks[g].us[c];

			qsort(us, SAMPLES, sizeof *us, by_time);
			printf("%-18s rank %d %8.2f us, a tenth below %.2f and above %.2f %8.1f "
			       "locks   %s\n",
			       call_names[c], g, us[SAMPLES / 2], us[SAMPLES / 10],
			       us[SAMPLES - SAMPLES / 10], ranks[g].locks[c], lib.path);
		}
}

int main(int argc, char **argv)
{
	int first = 1;

	if (argc > 2 && !strcmp(argv[1], "-g")) {
		gpus = atoi(argv[2]);
		first = 3;
	}
	if (first >= argc || gpus < 1 || gpus > MOST_GPUS) {
		fprintf(stderr, "usage: %s [-g GPUS] LIB [LIB]\n", argv[0]);
		return 1;
	}
	ok(pthread_barrier_init(&barrier, NULL, (unsigned)gpus), "pthread_barrier_init");
	for (int l = first; l < argc; l++) {
		lib.path = argv[l];
		nccl_lib_open(&lib);
		ok(lib.get_id(&id), "ncclGetUniqueId");
		for (int g = 0; g < gpus; g++) {
			ranks[g].number = g;
			ok(pthread_create(&ranks[g].thread, NULL, rank_main, &ranks[g]),
			   "pthread_create");
		}
		for (int g = 0; g < gpus; g++)
			pthread_join(ranks[g].thread, NULL);
		report();
	}
	return 0;
}
