/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce bandwidth of any library with NCCL's ABI, on real GPUs: one process, one thread, one
 * communicator per GPU, grouped calls, as nccl-tests runs with -g. The library is opened by path,
 * so that ours and NCCL's are measured by the same program:
 *
 *   nccl_abi GPUS BYTES_MIN BYTES_MAX LIB [LIB2]
 *
 * prints size, time and bus bandwidth of each, their ratio, and checks every result. Sizes double.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/include/nccl.h"

#define BENCH_MAX_GPUS 16

enum { WRONG_RESULT = 11 }; /* SIM_WRONG_RESULT, which a program for real GPUs cannot include */

struct bench_lib {
	const char *path;
	void *handle;
	ncclResult_t (*init_all)(ncclComm_t *, int, const int *);
	ncclResult_t (*destroy)(ncclComm_t);
	ncclResult_t (*group_start)(void);
	ncclResult_t (*group_end)(void);
	ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
				   ncclComm_t, cudaStream_t);
	const char *(*error)(ncclResult_t);
	ncclComm_t comm[BENCH_MAX_GPUS];
};

static int bench_gpus;
static cudaStream_t bench_stream[BENCH_MAX_GPUS];
static float *bench_send[BENCH_MAX_GPUS], *bench_recv[BENCH_MAX_GPUS];
static float *bench_host;

static void bench_cuda(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
	exit(1);
}

static void bench_nccl(const struct bench_lib *l, ncclResult_t r, const char *what)
{
	if (r == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s: %s\n", l->path, what, l->error(r));
	exit(1);
}

static void *bench_symbol(const struct bench_lib *l, const char *name)
{
	void *p = dlsym(l->handle, name);
	if (!p) {
		fprintf(stderr, "%s has no %s\n", l->path, name);
		exit(1);
	}
	return p;
}

static void bench_open(struct bench_lib *l, const char *path)
{
	l->path = path;
	l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&l->init_all = bench_symbol(l, "ncclCommInitAll");
	*(void **)&l->destroy = bench_symbol(l, "ncclCommDestroy");
	*(void **)&l->group_start = bench_symbol(l, "ncclGroupStart");
	*(void **)&l->group_end = bench_symbol(l, "ncclGroupEnd");
	*(void **)&l->all_reduce = bench_symbol(l, "ncclAllReduce");
	*(void **)&l->error = bench_symbol(l, "ncclGetErrorString");
	bench_nccl(l, l->init_all(l->comm, bench_gpus, NULL), "ncclCommInitAll");
}

static double bench_now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void bench_once(struct bench_lib *l, size_t count)
{
	bench_nccl(l, l->group_start(), "ncclGroupStart");
	for (int g = 0; g < bench_gpus; g++)
		bench_nccl(l,
			   l->all_reduce(bench_send[g], bench_recv[g], count, ncclFloat32, ncclSum,
					 l->comm[g], bench_stream[g]),
			   "ncclAllReduce");
	bench_nccl(l, l->group_end(), "ncclGroupEnd");
}

static void bench_sync(void)
{
	for (int g = 0; g < bench_gpus; g++) {
		bench_cuda(cudaSetDevice(g), "cudaSetDevice");
		bench_cuda(cudaStreamSynchronize(bench_stream[g]), "cudaStreamSynchronize");
	}
}

/* Every GPU's result must be the sum of (g + 1) * ((i % 61) + 1). */
static uint64_t bench_check(size_t count)
{
	uint64_t wrong = 0;
	int factor = bench_gpus * (bench_gpus + 1) / 2;
	for (int g = 0; g < bench_gpus; g++) {
		bench_cuda(cudaSetDevice(g), "cudaSetDevice");
		bench_cuda(cudaMemcpy(bench_host, bench_recv[g], count * sizeof(float),
				      cudaMemcpyDeviceToHost),
			   "cudaMemcpy");
		for (size_t i = 0; i < count; i++)
			wrong += bench_host[i] != (float)(factor * (int)(i % 61 + 1));
	}
	return wrong;
}

static double bench_size(struct bench_lib *l, size_t bytes, uint64_t *wrong)
{
	size_t count = bytes / sizeof(float);
	int iterations = bytes <= 1 << 20 ? 200 : bytes <= 64 << 20 ? 50 : 20;
	for (int g = 0; g < bench_gpus; g++) {
		bench_cuda(cudaSetDevice(g), "cudaSetDevice");
		bench_cuda(cudaMemset(bench_recv[g], 0xff, bytes), "cudaMemset");
	}
	for (int i = 0; i < 5; i++)
		bench_once(l, count);
	bench_sync();
	double start = bench_now_us();
	for (int i = 0; i < iterations; i++)
		bench_once(l, count);
	bench_sync();
	double us = (bench_now_us() - start) / iterations;
	*wrong = bench_check(count);
	return us;
}

static void bench_buffers(size_t bytes)
{
	bench_host = malloc(bytes);
	for (int g = 0; g < bench_gpus; g++) {
		bench_cuda(cudaSetDevice(g), "cudaSetDevice");
		bench_cuda(cudaMalloc((void **)&bench_send[g], bytes), "cudaMalloc");
		bench_cuda(cudaMalloc((void **)&bench_recv[g], bytes), "cudaMalloc");
		for (size_t i = 0; i < bytes / sizeof(float); i++)
			bench_host[i] = (float)((g + 1) * (int)(i % 61 + 1));
		bench_cuda(cudaMemcpy(bench_send[g], bench_host, bytes, cudaMemcpyHostToDevice),
			   "cudaMemcpy");
		bench_cuda(cudaStreamCreateWithFlags(&bench_stream[g], cudaStreamNonBlocking),
			   "cudaStream");
	}
}

int main(int argc, char **argv)
{
	struct bench_lib lib[2] = {0};
	if (argc < 5) {
		fprintf(stderr, "usage: %s GPUS BYTES_MIN BYTES_MAX LIB [LIB2]\n", argv[0]);
		return 1;
	}
	bench_gpus = atoi(argv[1]);
	size_t min = strtoull(argv[2], NULL, 0), max = strtoull(argv[3], NULL, 0);
	int libs = argc > 5 ? 2 : 1;
	if (bench_gpus < 1 || bench_gpus > BENCH_MAX_GPUS || min < 4 || max < min) {
		fprintf(stderr, "GPUS 1..%d, 4 <= BYTES_MIN <= BYTES_MAX\n", BENCH_MAX_GPUS);
		return 1;
	}
	bench_buffers(max);
	for (int i = 0; i < libs; i++)
		bench_open(&lib[i], argv[4 + i]);
	printf("# all_reduce float sum, %d GPUs, out of place; times in us, bus bandwidth in "
	       "GB/s\n",
	       bench_gpus);
	printf("# A = %s, B = %s\n", argv[4], libs > 1 ? argv[5] : "-");
	printf("#%11s %10s %8s %8s %10s %8s %8s %6s\n", "size", "A time", "A busbw", "A wrong",
	       "B time", "B busbw", "B wrong", "A/B");
	uint64_t all_wrong = 0;
	for (size_t bytes = min; bytes <= max; bytes *= 2) {
		double us[2] = {0}, bw[2] = {0};
		uint64_t wrong[2] = {0};
		for (int i = 0; i < libs; i++) {
			us[i] = bench_size(&lib[i], bytes, &wrong[i]);
			bw[i] = (double)bytes / us[i] / 1e3 * 2 * (bench_gpus - 1) / bench_gpus;
			all_wrong += wrong[i];
		}
		printf("%12zu %10.2f %8.2f %8" PRIu64 " %10.2f %8.2f %8" PRIu64 " %6.3f\n", bytes,
		       us[0], bw[0], wrong[0], us[1], bw[1], wrong[1],
		       bw[1] > 0 ? bw[0] / bw[1] : 0);
		fflush(stdout);
	}
	for (int i = 0; i < libs; i++)
		for (int g = 0; g < bench_gpus; g++)
			bench_nccl(&lib[i], lib[i].destroy(lib[i].comm[g]), "ncclCommDestroy");
	return all_wrong ? WRONG_RESULT : 0;
}
