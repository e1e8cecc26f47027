/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the speed at which the blocks of a launch move data: dev_reduce_copy in slices, as
 * protocol SIMPLE calls it, for the shapes of an all-reduce's primitives. A pass whose data stays
 * in the GPU must be much faster than NVLink, because the link is idle meanwhile. With a second GPU
 * it also writes to that GPU's memory: alone, and together with this GPU's, as the root of a
 * broadcast does.
 *
 *   nvcc -I. -Ibackends/cuda/include -fmad=false -O3 -arch=sm_90 -D_GNU_SOURCE \
 *        tests/bench/reduce_copy_bench.cu -o reduce_copy_bench && ./reduce_copy_bench
 *
 * prints GB/s of results (bytes of one destination) by blocks of 512 threads. With clusters of
 * NCCL_CGA_CLUSTER_SIZE blocks the GPU places a cluster's blocks together, as in the stack's
 * launches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/shim/shim.h"

#define BENCH_BYTES   (256ull << 20)
#define BENCH_SLICE   (1ull << 20)
#define BENCH_THREADS 512
#define BENCH_ROUNDS  10

struct bench_args {
	uint8_t *buffer[4]; /* two sources, two destinations */
	int nsrc, ndst;
};

extern "C" void doppel_assert_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

static __global__ void __launch_bounds__(BENCH_THREADS, 1) bench_kernel(struct bench_args a)
{
	uint64_t share = BENCH_BYTES / gridDim.x / BENCH_SLICE * BENCH_SLICE;
	struct dev d;

	d.abort = NULL;
	for (uint64_t done = 0; done < share; done += BENCH_SLICE) {
		uint64_t at = blockIdx.x * share + done;
		const void *srcs[2] = {a.buffer[0] + at, a.buffer[1] + at};
		void *dsts[2] = {a.buffer[2] + at, a.buffer[3] + at};

		dev_reduce_copy(&d, threadIdx.x, blockDim.x, srcs, a.nsrc, dsts, a.ndst,
				BENCH_SLICE / 4, DEV_F32, DEV_SUM, 0, false);
		__syncthreads();
	}
}

static void bench_ok(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
	exit(1);
}

/* Moves the last buffer to a second GPU. Returns false if this GPU can reach no other. */
static bool bench_peer(struct bench_args *a)
{
	int reaches = 0, devices = 0;

	bench_ok(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	if (devices > 1)
		bench_ok(cudaDeviceCanAccessPeer(&reaches, 0, 1), "cudaDeviceCanAccessPeer");
	if (!reaches)
		return false;
	bench_ok(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
	bench_ok(cudaFree(a->buffer[3]), "cudaFree");
	bench_ok(cudaSetDevice(1), "cudaSetDevice");
	bench_ok(cudaMalloc(&a->buffer[3], BENCH_BYTES), "cudaMalloc on the second GPU");
	bench_ok(cudaSetDevice(0), "cudaSetDevice");
	return true;
}

static const int bench_blocks[] = {1, 8, 12, 16, 20, 24, 28, 32, 48, 64};

static void bench_launch(const struct bench_args *a, int blocks, int cluster)
{
	cudaLaunchAttribute together;
	cudaLaunchConfig_t config = {};

	together.id = cudaLaunchAttributeClusterDimension;
	together.val.clusterDim.x = (unsigned)cluster;
	together.val.clusterDim.y = together.val.clusterDim.z = 1;
	config.gridDim = (unsigned)blocks;
	config.blockDim = BENCH_THREADS;
	config.attrs = &together;
	config.numAttrs = cluster > 1;
	bench_ok(cudaLaunchKernelEx(&config, bench_kernel, *a), "cudaLaunchKernelEx");
}

static double bench_gbps(const struct bench_args *a, int blocks, int cluster)
{
	uint64_t moved =
		BENCH_BYTES / (uint64_t)blocks / BENCH_SLICE * BENCH_SLICE * (uint64_t)blocks;
	cudaEvent_t from, to;
	float ms;

	bench_ok(cudaEventCreate(&from), "cudaEventCreate");
	bench_ok(cudaEventCreate(&to), "cudaEventCreate");
	bench_launch(a, blocks, cluster);
	bench_ok(cudaEventRecord(from), "cudaEventRecord");
	for (int i = 0; i < BENCH_ROUNDS; i++)
		bench_launch(a, blocks, cluster);
	bench_ok(cudaEventRecord(to), "cudaEventRecord");
	bench_ok(cudaEventSynchronize(to), "the kernels");
	bench_ok(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
	return (double)moved * BENCH_ROUNDS / ms / 1e6;
}

static void bench_row(const char *name, struct bench_args *a, int nsrc, int ndst)
{
	a->nsrc = nsrc;
	a->ndst = ndst;
	for (int cluster = 1; cluster <= 4; cluster += 3) {
		printf("%-27s %8d", name, cluster);
		for (int b : bench_blocks)
			if (b % cluster)
				printf("       -");
			else
				printf(" %7.1f", bench_gbps(a, b, cluster));
		printf("\n");
	}
}

int main(void)
{
	struct bench_args a;

	for (int i = 0; i < 4; i++) {
		bench_ok(cudaMalloc(&a.buffer[i], BENCH_BYTES), "cudaMalloc");
		bench_ok(cudaMemset(a.buffer[i], 0, BENCH_BYTES), "cudaMemset");
	}
	printf("%-27s %8s", "# GB/s, blocks", "cluster");
	for (int b : bench_blocks)
		printf(" %7d", b);
	printf("\n");
	bench_row("send, recv", &a, 1, 1);
	bench_row("recv_copy_send", &a, 1, 2);
	bench_row("recv_reduce_send", &a, 2, 1);
	bench_row("recv_reduce_copy_send", &a, 2, 2);
	if (!bench_peer(&a))
		return 0;
	bench_row("copy_send to a peer", &a, 1, 2);
	bench_row("reduce_copy_send to a peer", &a, 2, 2);
	a.buffer[2] = a.buffer[3];
	bench_row("send to a peer", &a, 1, 1);
	bench_row("reduce_send to a peer", &a, 2, 1);
	return 0;
}
