/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the kernels alone, on the connections of tests/collectives/device_ring.h with buffers of
 * the real sizes: an all-reduce of float sums by all ranks at the same time, and a message from
 * each rank to the next one; time over size, per program and protocol. On real GPUs. With fewer
 * GPUs than ranks several ranks share a GPU, and the figures show the cost of the kernels, not of a
 * link. Usage: device_ring_bench [RANKS], with 2 to 4 ranks.
 */
#define CHANNELS             16
#define MAX_BYTES            (64u << 20)
#define WHOLE_LINES(channel) 1
enum { STEP_SIMPLE = 512 << 10, STEP_LL = 64 << 10, STEP_LL128 = 600 << 10 };

#include "tests/collectives/device_ring_launch.h"

#include "core/device/layout/names.h"

#ifdef DOPPEL_FAKECUDA
int main(void)
{
	fprintf(stderr, "device_ring_bench measures real GPUs: build it with the preset gpu\n");
	return 77;
}
#else
enum { BENCH_WARPS = 16 };
#define BENCH_TIMES(bytes) ((bytes) < 1 << 20 ? 200 : 20)
static int bench_ranks = 2;

/* Follows the model's rule (core/tune): fewer channels, then half the threads, while a thread has
 * less than a minimum of bytes. */
struct bench_shape {
	int channels, warps;
};

static struct bench_shape bench_shape_of(const struct ring *g, enum dev_program program,
					 uint64_t bytes)
{
	struct dev_program_row row = steps_program((int)program);
	uint64_t line = row.algo == DEV_ONE_SHOT ? 8 : 8 * (uint64_t)g->n;
	uint64_t each = row.proto == DEV_SIMPLE ? 64 : row.proto == DEV_LL ? line : 8;
	struct bench_shape s = {CHANNELS, BENCH_WARPS};

	each *= (uint64_t)g->run->width;
	while (s.channels > 1 && bytes < (uint64_t)(s.channels * s.warps) * each)
		s.channels--;
	while (s.warps > 2 && bytes < (uint64_t)(s.channels * s.warps) * each)
		s.warps /= 2;
	return s;
}

/* Captures all ranks' launches in one graph, in sequence on each rank, so that the time excludes
 * the host's calls. */
static cudaGraphExec_t bench_graph(struct ring *g, const struct dev_work *w, int warps, int times)
{
	const uint64_t mask = (2ull << w->channel_hi) - 1;
	cudaEvent_t fork, join[MAX_RANKS];
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA_OK(cudaEventCreate(&fork));
	CUDA_OK(cudaStreamBeginCapture(g->rank[0].stream, cudaStreamCaptureModeGlobal));
	CUDA_OK(cudaEventRecord(fork, g->rank[0].stream));
	for (int r = 1; r < g->n; r++)
		CUDA_OK(cudaStreamWaitEvent(g->rank[r].stream, fork, 0));
	for (int i = 0; i < times; i++)
		ring_launch(g, w, 1, mask, warps, false);
	for (int r = 1; r < g->n; r++) {
		CUDA_OK(cudaSetDevice(device_of_rank(g->run, r)));
		CUDA_OK(cudaEventCreate(&join[r]));
		CUDA_OK(cudaEventRecord(join[r], g->rank[r].stream));
		CUDA_OK(cudaStreamWaitEvent(g->rank[0].stream, join[r], 0));
	}
	CUDA_OK(cudaSetDevice(device_of_rank(g->run, 0)));
	CUDA_OK(cudaStreamEndCapture(g->rank[0].stream, &graph));
	CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
	CUDA_OK(cudaGraphDestroy(graph));
	CUDA_OK(cudaEventDestroy(fork));
	for (int r = 1; r < g->n; r++)
		CUDA_OK(cudaEventDestroy(join[r]));
	return exec;
}

static double bench_us(struct ring *g, const struct dev_work *w, int warps, int times)
{
	cudaEvent_t begin, end;
	cudaGraphExec_t exec;
	float ms;

	CUDA_OK(cudaSetDevice(device_of_rank(g->run, 0)));
	exec = bench_graph(g, w, warps, times);
	CUDA_OK(cudaEventCreate(&begin));
	CUDA_OK(cudaEventCreate(&end));
	CUDA_OK(cudaGraphLaunch(exec, g->rank[0].stream));
	CUDA_OK(cudaEventRecord(begin, g->rank[0].stream));
	CUDA_OK(cudaGraphLaunch(exec, g->rank[0].stream));
	CUDA_OK(cudaEventRecord(end, g->rank[0].stream));
	CUDA_OK(cudaEventSynchronize(end));
	CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
	CUDA_OK(cudaEventDestroy(begin));
	CUDA_OK(cudaEventDestroy(end));
	CUDA_OK(cudaGraphExecDestroy(exec));
	return (double)ms * 1000 / times;
}

static void bench_show(double us, uint64_t bytes)
{
	printf(" %14.1f %7.1f", us, (double)bytes / us / 1000);
}

/* A message uses two channels, as in the plan. */
static void bench_messages(struct ring *g, uint64_t bytes, enum dev_proto proto)
{
	uint64_t each = ALIGN_UP(DIV_UP(bytes, 2), 4096);
	struct dev_work w = message_work(bytes, proto, proto, 0, 0);

	w.channel_hi = bytes > each;
	w.pair.send_each = w.pair.recv_each = each;
	bench_show(bench_us(g, &w, BENCH_WARPS, BENCH_TIMES(bytes)), bytes);
}

static void bench_row(struct ring *g, uint64_t bytes)
{
	printf("%10llu", (unsigned long long)bytes);
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		enum dev_program program = (enum dev_program)p;
		struct bench_shape s = bench_shape_of(g, program, bytes);
		struct dev_work w =
			program_work(program, bytes / 4, DEV_F32, DEV_SUM, 0, s.channels - 1);

		if (steps_program(p).func == DEV_ALL_REDUCE && program_runs(p, g->n))
			bench_show(bench_us(g, &w, s.warps, BENCH_TIMES(bytes)), bytes);
	}
	bench_messages(g, bytes, DEV_SIMPLE);
	bench_messages(g, bytes, DEV_LL);
	printf("\n");
}

static void bench_body(const struct device_run *run)
{
	static struct ring g;
	char name[32];

	device_peers_enable(run, device_ranks(run, bench_ranks));
	ring_alloc(&g, run, bench_ranks);
	ring_connect(&g);
	ring_pairs_copy(&g, false);
	g.in_args = true;
	printf("# %d ranks on %d GPUs, up to %d threads a block; us and GB/s of the buffer\n#%9s",
	       bench_ranks, MIN_OF(run->gpus, bench_ranks), BENCH_WARPS * run->width, "bytes");
	for (unsigned p = 0; p < DEV_PROGRAM_COUNT; p++) {
		if (steps_program((int)p).func != DEV_ALL_REDUCE ||
		    !program_runs((int)p, bench_ranks))
			continue;
		snprintf(name, sizeof name, "%s/%s", dev_algo_name(p), dev_proto_name(p));
		printf(" %14s %7s", name, "GB/s");
	}
	printf(" %14s %7s %14s %7s", "message/SIMPLE", "GB/s", "message/LL", "GB/s");
	printf("\n");
	for (uint64_t bytes = 8; bytes <= MAX_BYTES; bytes *= 8)
		bench_row(&g, bytes);
	for (int i = 0; i < g.n; i++)
		CUDA_OK(cudaStreamSynchronize(g.rank[i].stream));
	ring_free(&g);
}

int main(int argc, char **argv)
{
	bench_ranks = argc > 1 ? atoi(argv[1]) : 2;
	if (argc > 2 || bench_ranks < 2 || bench_ranks > MAX_RANKS) {
		fprintf(stderr, "usage: device_ring_bench [RANKS], 2 to %d of them\n", MAX_RANKS);
		return 2;
	}
	return device_harness(bench_body, 1);
}
#endif
