/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather and reduce-scatter of PAT by themselves, for 2 to 16 ranks, on the connections of
 * device_ring.h: counts that make every number of blocks share a slot, and several loops; all types
 * and operations, random bits, in place and out of place, buffers that are aligned to their type
 * and no more. Sums are compared bit by bit with those of the order that docs/device.md declares.
 * Then launches that are aborted.
 */
#define MAX_RANKS 16

#include "tests/collectives/device_ring_check.h"

/* Elements of four bytes: a slot has 128. */
static const uint64_t pat_counts[] = {1, 3, 7, 16, 17, 33, 63, 64, 65, 127, 128, 129, 300, 1001};

static struct dev_work pat_work(enum dev_program program, uint64_t count, enum dev_type type,
				enum dev_op op, int turn)
{
	struct dev_work w = program_work(program, count, type, op, 0, turn % CHANNELS);
	uintptr_t odd = (uintptr_t)(turn % 5) * steps_type_bytes(type);

	w.send = (const void *)odd;
	w.recv = (void *)odd;
	return w;
}

/* The buffers' first bytes are random too: the works begin after them. */
static void pat_once(struct ring *g, struct dev_work w, int turn, const char *what)
{
	uint32_t size = steps_type_bytes(w.type);
	bool in_place = turn % 2;
	uint64_t mask = (1ull << (w.channel_hi + 1)) - 1;

	w.scale = scale_of((enum dev_type)w.type, (enum dev_op)w.op, g->n);
	ring_fill(g, &w,
		  ALIGN_UP(w.count * blocks_in(g, &w) * size + offset_of(w.send), (uint64_t)8),
		  in_place);
	reference(g, &w);
	ring_launch(g, &w, 1, mask, 1 + turn % 4, in_place);
	ring_sync(g);
	ring_check(g, &w, in_place, what);
}

static void pat_counts_run(struct ring *g)
{
	int turn = g->n;

	for (size_t c = 0; c < ARRAY_LEN(pat_counts); c++, turn++) {
		pat_once(g,
			 pat_work(DEV_ALL_GATHER_PAT_SIMPLE, pat_counts[c], DEV_I32, DEV_SUM, turn),
			 turn, "counts");
		pat_once(g,
			 pat_work(DEV_REDUCE_SCATTER_PAT_SIMPLE, pat_counts[c], DEV_F32, DEV_SUM,
				  turn),
			 turn + 1, "counts");
	}
}

static void pat_types(struct ring *g)
{
	static const uint64_t counts[] = {5, 70, 400};
	int turn = g->n;

	for (int type = 0; type < DEV_TYPE_COUNT; type++)
		for (int op = 0; op < DEV_OP_COUNT; op++, turn++)
			if (op != DEV_SUM_POSTDIV || type <= DEV_U64)
				pat_once(g,
					 pat_work(DEV_REDUCE_SCATTER_PAT_SIMPLE, counts[turn % 3],
						  (enum dev_type)type, (enum dev_op)op, turn),
					 turn, "types");
}

static void pat_slots(const struct ring *g, int rank, uint8_t out[PAT_CONNS * PAT_BYTES])
{
	CUDA_OK(cudaMemcpy(out, g->rank[rank].pat_buffers, PAT_CONNS * PAT_BYTES,
			   cudaMemcpyDeviceToHost));
}

static void pat_launch_alone(struct ring *g, const struct dev_work *w)
{
	int n = g->n;

	g->n = 1;
	ring_launch(g, w, 1, 3, 2, false);
	g->n = n;
}

/* Rank 0 starts alone: its kernel waits for the others until the abort word is set. The next kernel
 * moves nothing: an HCA may still transfer the slots. */
static void pat_abort(struct ring *g, enum dev_program program)
{
	static uint8_t before[PAT_CONNS * PAT_BYTES], after[PAT_CONNS * PAT_BYTES];
	struct dev_work w = program_work(program, 4000, DEV_U8, DEV_SUM, 0, 1);

	pat_launch_alone(g, &w);
	os_sleep_ns(1000000);
	shared_store_u32(g->abort, 1, SHARED_RELEASE);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	pat_slots(g, 1, before);
	CUDA_OK(cudaSetDevice(0));
	CUDA_OK(cudaMemset(g->rank[0].input, 0x5a, 1000));
	CUDA_OK(cudaMemset(g->rank[0].output, 0x5a, 1000));
	CUDA_OK(cudaDeviceSynchronize());
	pat_launch_alone(g, &w);
	CUDA_OK(cudaStreamSynchronize(g->rank[0].stream));
	pat_slots(g, 1, after);
	CHECK(memcmp(before, after, sizeof after) == 0,
	      "a launch behind an aborted one moved data");
}

static void pat_body(const struct device_run *run)
{
	static struct ring g;
	int most = run->light ? 3 : MAX_RANKS;

	device_peers_enable(run, most);
	for (int n = 2; n <= most; n += run->width > 1 && !run->real && n >= 5 ? 3 : 1) {
		ring_alloc(&g, run, n);
		ring_connect(&g);
		pat_counts_run(&g);
		if (n <= 9)
			pat_types(&g);
		ring_check_steps(&g);
		pat_abort(&g, n % 2 ? DEV_ALL_GATHER_PAT_SIMPLE : DEV_REDUCE_SCATTER_PAT_SIMPLE);
		ring_free(&g);
	}
}

int main(void)
{
	return device_harness(pat_body, 1);
}
