/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of LL on the connections of device_ring.h, at steps whose flags old lines have: lines
 * that were last written 2^32 steps before.
 */
#include "tests/collectives/device_ring_check.h"
#include "tests/sample.h"

/* Every line has the flag that its slot will have next after the steps in which senders write whole
 * slots, as a line has that was last written 2^32 steps before. */
static void ring_fill_old_lines(const struct ring *g)
{
	static struct v16 lines[DIRECT_BYTES / DEV_LINE_BYTES];
	uint64_t after = g->first + 16;

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		uint64_t slot = i / (STEP_LL / DEV_LINE_BYTES);
		uint64_t half = (uint64_t)DEV_LINE_FLAG(after + slot) << 32 | 0xdeadbeef;

		lines[i] = (struct v16){half, half};
	}
	for (int i = 0; i < g->n; i++)
		for (unsigned c = 0; c < CHANNELS; c++)
			CUDA_OK(cudaMemcpy(g->rank[i].buffers + c * BUFFERS_BYTES +
						   buffer_at[DEV_LL],
					   lines, sizeof lines, cudaMemcpyHostToDevice));
	for (int i = 0; i < g->n; i++)
		for (int k = 0; k < OTHERS_CONNS; k++)
			CUDA_OK(cudaMemcpy(g->rank[i].direct_buffers + (size_t)k * DIRECT_BYTES,
					   lines, sizeof lines, cudaMemcpyHostToDevice));
	for (int i = 0; i < g->n; i++)
		for (size_t k = 0; k < PAT_CONNS; k++)
			CUDA_OK(cudaMemcpy(g->rank[i].doubling_buffers + k * DIRECT_BYTES, lines,
					   sizeof lines, cudaMemcpyHostToDevice));
	for (int i = 0; i < g->n; i++)
		for (size_t k = 0; k < TREE_CONNS; k++)
			CUDA_OK(cudaMemcpy(g->rank[i].tree_buffers + k * BUFFERS_BYTES +
						   buffer_at[DEV_LL],
					   lines, sizeof lines, cudaMemcpyHostToDevice));
}

static void tree_begin_late(struct ring *g, uint64_t first)
{
	static struct dev_recv_mem tail[TREE_CONNS];
	static struct dev_send_mem head[TREE_CONNS];

	for (int i = 0; i < TREE_CONNS; i++) {
		shared_store_u64(&tail[i].tail, first, SHARED_RELAXED);
		shared_store_u64(&head[i].head, first, SHARED_RELAXED);
	}
	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(g->rank[i].tree_recv_mem, tail, sizeof tail,
				   cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].tree_send_mem, head, sizeof head,
				   cudaMemcpyHostToDevice));
	}
}

static void pat_begin_late(struct ring *g, uint64_t first)
{
	static struct dev_recv_mem tail[PAT_CONNS];
	static struct dev_send_mem head[PAT_CONNS];

	for (int i = 0; i < PAT_CONNS; i++) {
		shared_store_u64(&tail[i].tail, first, SHARED_RELAXED);
		shared_store_u64(&head[i].head, first, SHARED_RELAXED);
	}
	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(g->rank[i].pat_recv_mem, tail, sizeof tail,
				   cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].pat_send_mem, head, sizeof head,
				   cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].doubling_send_mem, head, sizeof head,
				   cudaMemcpyHostToDevice));
	}
}

static void ring_begin_late(struct ring *g, uint64_t first)
{
	struct dev_recv_mem tail[CHANNELS] = {
		{.tail = {first}}, {.tail = {first}}, {.tail = {first}}};
	struct dev_send_mem head[CHANNELS] = {
		{.head = {first}}, {.head = {first}}, {.head = {first}}};
	static struct dev_send_mem direct_head[OTHERS_CONNS];

	g->first = first;
	tree_begin_late(g, first);
	pat_begin_late(g, first);
	for (int k = 0; k < OTHERS_CONNS; k++)
		shared_store_u64(&direct_head[k].head, first, SHARED_RELAXED);
	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(g->rank[i].direct_send_mem, direct_head, sizeof direct_head,
				   cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].recv_mem, tail, sizeof tail, cudaMemcpyHostToDevice));
		CUDA_OK(cudaMemcpy(g->rank[i].send_mem, head, sizeof head, cudaMemcpyHostToDevice));
		for (int k = 0; k < PAIRS_FIRST; k++)
			g->steps[i][k] = first;
	}
	ring_connect(g);
}

/* The step of a sending end; of a tree that to a child. */
static uint64_t ring_step(const struct ring *g, enum dev_program program)
{
	enum dev_algo algo = steps_program(program).algo;
	bool tree = algo == DEV_TREE;

	return g->steps[tree ? tree_root(g, 0) : 0][end_at(g, algo, 0, tree, true)];
}

/* Short chunks over the steps in which senders write whole slots, then long ones: those would take
 * the old lines for new ones. */
static void ring_old_flags_of(struct ring *g, enum dev_program program, uint64_t first)
{
	struct dev_work w = program_work(program, 1, DEV_I32, DEV_SUM, 0, 0);
	bool rooted = program_has_root(program);

	w.root = rooted ? g->n - 1 : -1;
	ring_begin_late(g, first);
	ring_fill_old_lines(g);
	while (ring_step(g, program) < first + 16)
		ring_once(g, w, 2, false, "short");
	w = program_work(program, 4000, DEV_I32, DEV_SUM, 0, 0);
	w.root = rooted ? 0 : -1;
	ring_once(g, w, 2, false, "old flags");
	ring_check_steps(g);
}

/* Runs each program of LL from one of the first steps. */
static void ring_old_flags(const struct device_run *run, struct ring *g, int n)
{
	static const uint64_t firsts[] = {0x7ffffff0ull, 0xfffffff0ull, 0x17ffffff0ull};
	size_t next = run->seed + (uint64_t)n;

	for (int program = 0; program < DEV_EDGE_PROGRAMS; program++) {
		struct dev_program_row row = steps_program(program);

		if (row.proto != DEV_LL || !program_runs(program, n) ||
		    ((row.algo == DEV_RING || row.algo == DEV_TREE) && program_has_root(program)))
			continue;
		ring_alloc(g, run, n);
		ring_old_flags_of(g, (enum dev_program)program, firsts[next++ % ARRAY_LEN(firsts)]);
		ring_free(g);
	}
}

static void flags_body(const struct device_run *run)
{
	static struct ring g;
	int most = device_ranks(run, MAX_RANKS);

	device_peers_enable(run, most);
	for (int n = 2; n <= most; n++)
		ring_old_flags(run, &g, n);
}

int main(void)
{
	return device_harness(flags_body, SAMPLE_THIN > 1 ? 1 : 3);
}
