/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The expected results of a launch on the rings of device_ring.h: the same reductions, done on the
 * host in the order of the program and compared bit by bit; the steps of all connections; and the
 * words by which blocks free the FIFO of works.
 */
#ifndef TESTS_COLLECTIVES_DEVICE_RING_CHECK_H
#define TESTS_COLLECTIVES_DEVICE_RING_CHECK_H

#include "tests/collectives/device_ring_launch.h"

/* ---- the reference -------------------------------------------------------------------------- */

static inline uint8_t *input_at(const struct ring *g, const struct dev_work *w, int rank,
				uint64_t at)
{
	return g->rank[rank].host_input + offset_of(w->send) + at * steps_type_bytes(w->type);
}

static inline uint8_t *want_at(const struct ring *g, const struct dev_work *w, uint64_t at)
{
	return g->want + offset_of(w->recv) + at * steps_type_bytes(w->type);
}

/* `count` elements from `at` on, reduced along the ring so that `last` completes them: the position
 * after it sends first, each next one adds its own input. */
static inline void reference_fold(const struct ring *g, const struct dev_work *w, int channel,
				  int last, uint64_t at, uint64_t count)
{
	uint8_t *result = want_at(g, w, at);

	for (int k = 1; k <= g->n; k++) {
		int rank = ring_rank_at(g, channel, last + k);
		struct rc_job job = {.src = {input_at(g, w, rank, at), result},
				     .dst = {result},
				     .nsrc = k == 1 ? 1 : 2,
				     .ndst = 1,
				     .count = count,
				     .type = (enum dev_type)w->type,
				     .op = (enum dev_op)w->op,
				     .scale = w->scale,
				     .post = k == g->n};
		rc_reduce_copy(&job);
	}
}

/* Without a ring: in the order of ranks. */
static inline void reference_fold_ranks(const struct ring *g, const struct dev_work *w, uint64_t at,
					uint64_t count)
{
	reference_fold(g, w, 0, g->n - 1, at, count);
}

/* Computes in `to` the elements that a rank sends toward `root` over a tree: its own, then those of
 * its other links in the order of their numbers. */
static inline void reference_tree(const struct ring *g, const struct dev_work *w, int channel,
				  int rank, int root, uint64_t at, uint64_t count, uint8_t *to)
{
	const uint32_t toward = tree_toward(g, channel, rank, root);
	size_t bytes = (count + 1) * steps_type_bytes(w->type);
	uint8_t *below = malloc(bytes);
	int links = 0, seen = 0;
	struct rc_job job = {.src = {input_at(g, w, rank, at), below},
			     .dst = {to},
			     .nsrc = 1,
			     .ndst = 1,
			     .count = count,
			     .type = (enum dev_type)w->type,
			     .op = (enum dev_op)w->op,
			     .scale = w->scale};

	for (uint32_t k = 0; k < DEV_TREE_LINKS; k++)
		links += k != toward && tree_peer(g, channel, rank, (int)k) >= 0;
	if (!links)
		rc_reduce_copy(&job);
	for (uint32_t k = 0; k < DEV_TREE_LINKS; k++) {
		int peer = tree_peer(g, channel, rank, (int)k);

		if (k == toward || peer < 0)
			continue;
		reference_tree(g, w, channel, peer, root, at, count, below);
		job.nsrc = 2;
		job.post = rank == root && ++seen == links;
		rc_reduce_copy(&job);
		job.src[0] = to;
		if (job.op == DEV_PREMUL_SUM)
			job.op = DEV_SUM;
	}
	free(below);
}

/* Computes in `to` a rank's partial sum of the block at an offset from it, in a reduce-scatter of
 * PAT: its own elements, then those that arrive over the levels below the offset's lowest bit, from
 * the lowest on. */
static inline void reference_pat(const struct ring *g, const struct dev_work *w, int rank,
				 int offset, uint64_t at, uint64_t count, uint8_t *to)
{
	int end = offset ? offset & -offset : g->n;
	uint8_t *below = malloc((count + 1) * steps_type_bytes(w->type));
	struct rc_job job = {.src = {input_at(g, w, rank, at), below},
			     .dst = {to},
			     .nsrc = 1,
			     .ndst = 1,
			     .count = count,
			     .type = (enum dev_type)w->type,
			     .op = (enum dev_op)w->op,
			     .scale = w->scale};

	if (end == 1 || offset + 1 >= g->n)
		rc_reduce_copy(&job);
	for (int far = 1; far < end && offset + far < g->n; far *= 2) {
		reference_pat(g, w, (rank + g->n - far) % g->n, offset + far, at, count, below);
		job.nsrc = 2;
		job.post = !offset && 2 * far >= g->n;
		rc_reduce_copy(&job);
		job.src[0] = to;
		if (job.op == DEV_PREMUL_SUM)
			job.op = DEV_SUM;
	}
	free(below);
}

/* Computes in `to` the sum of the ranks first...first + ranks - 1, as DOUBLING forms it: the sum of
 * the lower half, then that of the upper half. */
static inline void reference_doubling(const struct ring *g, const struct dev_work *w, int first,
				      int ranks, uint64_t at, uint64_t count, uint8_t *to)
{
	uint8_t *upper = malloc((count + 1) * steps_type_bytes(w->type));
	struct rc_job job = {.src = {ranks > 1 ? to : input_at(g, w, first, at), upper},
			     .dst = {to},
			     .nsrc = ranks > 1 ? 2 : 1,
			     .ndst = 1,
			     .count = count,
			     .type = (enum dev_type)w->type,
			     .op = (enum dev_op)w->op,
			     .scale = w->scale,
			     .post = ranks == g->n};

	if (ranks > 1) {
		reference_doubling(g, w, first, ranks / 2, at, count, to);
		reference_doubling(g, w, first + ranks / 2, ranks / 2, at, count, upper);
		if (job.op == DEV_PREMUL_SUM)
			job.op = DEV_SUM;
	}
	rc_reduce_copy(&job);
	free(upper);
}

static inline int tree_root(const struct ring *g, int channel)
{
	int root = 0;

	while (tree_parent(g, channel, root) >= 0)
		root++;
	return root;
}

/* The place of an element in the loop decides which rank completes it in an all-reduce. */
static inline void reference_all_reduce(const struct ring *g, const struct dev_work *w, int channel,
					const struct steps_part *part)
{
	uint32_t size = steps_type_bytes(w->type);
	uint64_t loop = (uint64_t)part->chunk * (uint64_t)g->n;

	for (uint64_t done = 0; done < part->count; done += loop) {
		uint64_t left = part->count - done;
		uint64_t chunk = steps_ring_chunk(left, part->chunk, g->n, size);

		for (int c = 0; c < g->n; c++) {
			uint64_t at = (uint64_t)c * chunk;
			uint64_t n = at < left ? MIN_OF(chunk, left - at) : 0;

			reference_fold(g, w, channel, c, part->offset + done + at, n);
		}
	}
}

static inline void reference_part(const struct ring *g, const struct dev_work *w, int channel,
				  const struct steps_part *part)
{
	size_t bytes = part->count * steps_type_bytes(w->type);
	bool ring = steps_program(w->program).algo == DEV_RING;
	bool tree = steps_program(w->program).algo == DEV_TREE;
	bool pat = steps_program(w->program).algo == DEV_PAT;

	switch (steps_program(w->program).func) {
	case DEV_ALL_REDUCE:
		if (ring)
			reference_all_reduce(g, w, channel, part);
		else if (tree)
			reference_tree(g, w, channel, tree_root(g, channel), tree_root(g, channel),
				       part->offset, part->count, want_at(g, w, part->offset));
		else if (steps_program(w->program).algo == DEV_DOUBLING)
			reference_doubling(g, w, 0, g->n, part->offset, part->count,
					   want_at(g, w, part->offset));
		else
			reference_fold_ranks(g, w, part->offset, part->count);
		return;
	case DEV_REDUCE:
		if (ring)
			reference_fold(g, w, channel, ring_position_of(g, channel, w->root),
				       part->offset, part->count);
		else if (tree)
			reference_tree(g, w, channel, w->root, w->root, part->offset, part->count,
				       want_at(g, w, part->offset));
		else
			reference_fold_ranks(g, w, part->offset, part->count);
		return;
	case DEV_BROADCAST:
		memcpy(want_at(g, w, part->offset), input_at(g, w, w->root, part->offset), bytes);
		return;
	case DEV_ALL_GATHER:
		for (int r = 0; r < g->n; r++)
			memcpy(want_at(g, w, (uint64_t)r * w->count + part->offset),
			       input_at(g, w, r, part->offset), bytes);
		return;
	case DEV_REDUCE_SCATTER:
		for (int r = 0; r < g->n && pat; r++)
			reference_pat(g, w, r, 0, (uint64_t)r * w->count + part->offset,
				      part->count,
				      want_at(g, w, (uint64_t)r * w->count + part->offset));
		for (int r = 0; r < g->n && !pat; r++)
			reference_fold(g, w, ring ? channel : 0,
				       ring ? ring_position_of(g, channel, r) : g->n - 1,
				       (uint64_t)r * w->count + part->offset, part->count);
		return;
	default:
		CHECK(false, "program %d has no reference", w->program);
	}
}

/* Each end rounds its step up to the chunk, unless the work leaves the connection alone. */
static inline void reference_step(uint64_t *step, uint64_t n, uint32_t chunk)
{
	if (n)
		*step = ALIGN_UP(*step, chunk) + n;
}

static inline void reference_steps_of(struct ring *g, const struct dev_work *w, int channel, int r)
{
	struct dev_program_row row = steps_program(w->program);
	struct steps_part part = steps_part_of(w, channel);
	int i = ring_position_of(g, channel, r);
	struct steps_place at = {.rank = r,
				 .nranks = g->n,
				 .root = w->root,
				 .prev = ring_rank_at(g, channel, i + g->n - 1),
				 .next = ring_rank_at(g, channel, i + 1),
				 .toward = w->root < 0 ? DEV_TREE_SELF
						       : tree_toward(g, channel, r, w->root)};
	struct dev_edges edges[DEV_EDGE_SETS];

	edges_fill(g, edges);
	for (int k = 0; k < edges[steps_edges(row.algo)].count / 2; k++) {
		struct steps_count n = steps_of_edge(&row, &part, &at, (uint32_t)k);
		uint64_t *steps = &g->steps[r][end_at(g, row.algo, channel, k, false)];

		reference_step(&steps[0], n.recv, row.chunk_steps);
		reference_step(&steps[1], n.send, row.chunk_steps);
	}
}

static inline void reference(struct ring *g, const struct dev_work *w)
{
	for (int channel = w->channel_lo; channel <= w->channel_hi; channel++) {
		struct steps_part part = steps_part_of(w, channel);

		reference_part(g, w, channel, &part);
		for (int r = 0; r < g->n; r++)
			reference_steps_of(g, w, channel, r);
	}
}

/* ---- checks --------------------------------------------------------------------------------- */

/* At the end of a reduce only the root has an output. */
static inline bool has_result(const struct dev_work *w, int rank)
{
	return steps_program(w->program).func != DEV_REDUCE || rank == w->root;
}

/* Each block of the last launch, which was in the FIFO, has freed its works. */
static inline void ring_check_consumed(const struct ring *g, uint64_t mask)
{
	for (int i = 0; i < g->n; i++)
		for (int c = 0; c < CHANNELS; c++) {
			const shared_u64 *word = &g->rank[i].piece->consumed[c];

			CHECK(!(mask >> c & 1) ||
				      shared_load_u64(word, SHARED_ACQUIRE) == g->launches,
			      "%s: rank %d channel %d has not freed the FIFO", g->run->where, i, c);
		}
}

static inline void ring_check(struct ring *g, const struct dev_work *w, bool in_place,
			      const char *what)
{
	uint32_t size = steps_type_bytes(w->type);
	uint64_t count = w->count * blocks_out(g, w);

	for (int i = 0; i < g->n; i++) {
		uint64_t mine = own_block(blocks_in(g, w), w, i);
		const uint8_t *want = g->want + offset_of(w->recv) + mine;

		if (!has_result(w, i))
			continue;
		CUDA_OK(cudaMemcpy(g->got,
				   g->rank[i].output + offset_of(w->recv) + (in_place ? mine : 0),
				   count * size, cudaMemcpyDeviceToHost));
		for (uint64_t at = 0; at < count; at++)
			CHECK(!memcmp(g->got + at * size, want + at * size, size),
			      "%s, %s: program %d root %d: %d ranks, rank %d, type %d op %d count "
			      "%llu, channels %d-%d%s: element %llu differs",
			      g->run->where, what, w->program, w->root, g->n, i, w->type, w->op,
			      (unsigned long long)w->count, w->channel_lo, w->channel_hi,
			      in_place ? ", in place" : "", (unsigned long long)at);
	}
}

/* Both ends of every connection stand at the step that steps.h derives. */
static inline void ring_check_steps(struct ring *g)
{
	static struct dev_conn conns[PAIRS_FIRST];

	for (int i = 0; i < g->n; i++) {
		CUDA_OK(cudaMemcpy(conns, g->rank[i].conns, sizeof conns, cudaMemcpyDeviceToHost));
		for (int k = 0; k < PAIRS_FIRST; k++)
			CHECK(conns[k].peer < 0 || conns[k].step == g->steps[i][k],
			      "%s: rank %d channel %d, end %d at %llu, expected %llu",
			      g->run->where, i, conns[k].channel, k,
			      (unsigned long long)conns[k].step,
			      (unsigned long long)g->steps[i][k]);
	}
}

static inline uint64_t scale_of(enum dev_type type, enum dev_op op, int n)
{
	if (op == DEV_SUM_POSTDIV)
		return (uint64_t)n;
	switch (type) {
	case DEV_F16:
		return rc_f16_of_f32(1.0f / (float)n);
	case DEV_BF16:
		return rc_bf16_of_f32(1.0f / (float)n);
	case DEV_F8E4M3:
		return rc_f8e4m3_of_f32(1.0f / (float)n);
	case DEV_F8E5M2:
		return rc_f8e5m2_of_f32(1.0f / (float)n);
	case DEV_F32:
		return rc_bits_of_f32(1.0f / (float)n);
	case DEV_F64:
		return rc_bits_of_f64(1.0 / n);
	default:
		return (uint64_t)n;
	}
}

static inline void ring_once(struct ring *g, struct dev_work w, int warps, bool in_place,
			     const char *what)
{
	uint32_t size = steps_type_bytes(w.type);
	uint64_t mask = 0;

	w.scale = scale_of((enum dev_type)w.type, (enum dev_op)w.op, g->n);
	for (int c = w.channel_lo; c <= w.channel_hi; c++)
		mask |= 1ull << c;
	ring_fill(g, &w, ALIGN_UP(offset_of(w.send) + w.count * blocks_in(g, &w) * size, 8),
		  in_place);
	reference(g, &w);
	ring_launch(g, &w, 1, mask, warps, in_place);
	ring_sync(g);
	ring_check(g, &w, in_place, what);
	if (g->was_in_fifo)
		ring_check_consumed(g, mask);
}

#endif
