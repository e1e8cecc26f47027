/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring's kernels by themselves, on the rings of tests/collectives/device_ring.h with the buffers that
 * connections have: an all-reduce of float sums by all ranks at the same time, time over size and protocol.
 * On real GPUs; with fewer GPUs than ranks several ranks run on one, which shows what the kernels cost and
 * not what a link does. Usage: device_ring_bench
 */
#define CHANNELS             16
#define MAX_BYTES            (64u << 20)
#define WHOLE_LINES(channel) 1
enum { STEP_SIMPLE = 512 << 10, STEP_LL = 64 << 10, STEP_LL128 = 600 << 10 };

#include "tests/collectives/device_ring.h"

#include "core/device/names.h"

#ifdef DOPPEL_FAKECUDA
int main(void)
{
	fprintf(stderr, "device_ring_bench measures real GPUs: build it with the preset gpu\n");
	return 77;
}
#else
enum { BENCH_RANKS = 2, BENCH_WARPS = 16, BENCH_CHANNEL_BYTES = 32 << 10 };

static double bench_us(struct ring *g, const struct dev_work *w, int channels, int times)
{
	const uint64_t mask = (1ull << channels) - 1;
	cudaEvent_t begin, end;
	float ms;

	CUDA_OK(cudaSetDevice(device_of_rank(g->run, 0)));
	CUDA_OK(cudaEventCreate(&begin));
	CUDA_OK(cudaEventCreate(&end));
	ring_launch(g, w, 1, mask, BENCH_WARPS, false);
	CUDA_OK(cudaSetDevice(device_of_rank(g->run, 0)));
	CUDA_OK(cudaEventRecord(begin, g->rank[0].stream));
	for (int i = 0; i < times; i++)
		ring_launch(g, w, 1, mask, BENCH_WARPS, false);
	CUDA_OK(cudaSetDevice(device_of_rank(g->run, 0)));
	CUDA_OK(cudaEventRecord(end, g->rank[0].stream));
	CUDA_OK(cudaEventSynchronize(end));
	CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
	CUDA_OK(cudaEventDestroy(begin));
	CUDA_OK(cudaEventDestroy(end));
	return (double)ms * 1000 / times;
}

static void bench_row(struct ring *g, uint64_t bytes)
{
	uint64_t wanted = MAX_OF(bytes / BENCH_CHANNEL_BYTES, (uint64_t)1);
	int channels = (int)MIN_OF(wanted, (uint64_t)CHANNELS);

	printf("%10llu %9d", (unsigned long long)bytes, channels);
	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		struct dev_work w =
			ring_work((enum dev_proto)p, bytes / 4, DEV_F32, DEV_SUM, 0, channels - 1);
		double us = bench_us(g, &w, channels, bytes < 1 << 20 ? 200 : 20);

		printf(" %10.1f %9.1f", us, (double)bytes / us / 1000);
	}
	printf("\n");
}

static void bench_body(const struct device_run *run)
{
	static struct ring g;

	device_peers_enable(run, device_ranks(run, BENCH_RANKS));
	ring_alloc(&g, run, BENCH_RANKS);
	ring_connect(&g);
	printf("# %d ranks on %d GPUs, %d threads a block; us and GB/s of the buffer\n#%9s %9s",
	       BENCH_RANKS, MIN_OF(run->gpus, BENCH_RANKS), BENCH_WARPS * run->width, "bytes",
	       "channels");
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		printf(" %10s %9s",
		       dev_proto_name(
			       ring_work((enum dev_proto)p, 1, DEV_F32, DEV_SUM, 0, 0).program),
		       "GB/s");
	printf("\n");
	for (uint64_t bytes = 8; bytes <= MAX_BYTES; bytes *= 8)
		bench_row(&g, bytes);
	for (int i = 0; i < g.n; i++)
		CUDA_OK(cudaStreamSynchronize(g.rank[i].stream));
	ring_free(&g);
}

int main(void)
{
	return device_harness(bench_body, 1);
}
#endif
