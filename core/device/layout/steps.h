/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The derivation of steps from a channel's share of a collective. The kernel (core/device), the
 * proxy's operations and the host's plan (core/plan) all use it. Pure functions, C17 and C++17,
 * host and device. The steps are NCCL 2.28's (docs/device.md). Numbers are elements, unless a name
 * has "bytes" in it.
 *
 * A channel runs its share in loops. A loop moves a fixed number of chunks over each connection, by
 * the program's pattern (programs.h), whether the chunks are full, short or empty. Each chunk takes
 * the program's chunk steps of the connection. For n ranks:
 *
 *	pattern        a loop covers chunks per loop loops
 *	RING_TWICE     n chunks 2(n-1) on both ceil(share / (n * chunk))
 *	RING_ONCE      1 chunk n-1 on both ceil(share / chunk)
 *	PIPELINE_*     1 chunk 1 on each that is used ceil(share / chunk)
 *	EXCHANGE       1 chunk 1 on all ceil(share / chunk)
 *	EXCHANGE_TWICE n chunks        1 on all ceil(share / (n * chunk))
 *	TREE_*         1 chunk 1 on each that is used ceil(share / chunk)
 *	BINOMIAL       1 chunk below below
 *
 * A message between two ranks is cut into chunks of one step's bytes; each takes one step. A
 * message that is put directly into the receiver's buffer (prims_put.h) has one step.
 *
 * The last loop of a ring that goes round twice splits the rest into n chunks of alignUp(ceil(rest
 * / n), 16 bytes).
 *
 * BINOMIAL (algorithm PAT). Every rank has a connection to the rank 2^k after it and one from the
 * rank 2^k before it, for each level k = 0...levels - 1, where levels = ceil(log2(n)). At a rank, a
 * block has an offset from 0 to n-1: the distance to the rank that owns it. Offset o > 0 crosses
 * the connections of the level of o's lowest bit. In an all-gather a loop takes the offsets in this
 * order, in a reduce-scatter in the opposite one:
 *
 *	level k = levels-1...low        offsets 2^k, 3*2^k, 5*2^k... below n in one slot
 *	s = 1...min(2^low, n) - 1       offsets s, s + 2^low, s + 2*2^low... < n in one slot
 *
 * A slot of a loop then has at most ceil((n-1) / 2^low) blocks. A level k < low takes as many slots
 * of a loop as there are odd multiples of 2^k below min(2^low, n); the other levels take one. `low`
 * is the least number from 1 to `levels` for which the slot's blocks fit a chunk of the work. low =
 * 1 gives `levels` steps, low = levels gives n - 1 steps. Only with low = levels may a share have
 * several loops.
 */
#ifndef CORE_DEVICE_STEPS_H
#define CORE_DEVICE_STEPS_H

#include <stdbool.h>

#include "core/device/layout/work.h"

#ifdef __CUDACC__
#define STEPS_FN static inline __host__ __device__
#else
#define STEPS_FN static inline
#endif

/* A slice starts at a multiple of its steps, and never wraps round the slots. A chunk of lines is
 * one slice: one slot, or the two slots of two exchanges. */
#define STEPS_CHECK_ROW(id, function, func, algo, proto, pattern, chunk, slice)                    \
	DOPPEL_STATIC_CHECK(DEV_STEPS % (chunk) == 0 && (chunk) % (slice) == 0, "steps of " #id);  \
	DOPPEL_STATIC_CHECK(DEV_##proto == DEV_SIMPLE ||                                           \
				    (chunk) == (DEV_##pattern == DEV_EXCHANGE_TWICE ? 2 : 1),      \
			    "slots of a chunk of lines of " #id);                                  \
	DOPPEL_STATIC_CHECK((DEV_##algo == DEV_RING) == (DEV_##pattern <= DEV_PIPELINE_TO) &&      \
				    (DEV_##algo == DEV_TREE || DEV_##algo == DEV_COLLNET_CHAIN) == \
					    (DEV_##pattern >= DEV_TREE_BOTH &&                     \
					     DEV_##pattern <= DEV_TREE_TO) &&                      \
				    (DEV_##algo == DEV_PAT) == (DEV_##pattern == DEV_BINOMIAL) &&  \
				    (DEV_##algo == DEV_SYMMETRIC) ==                               \
					    (DEV_##pattern == DEV_NO_EDGES),                       \
			    "the pattern of " #id " is one of its algorithm's connections");
DEV_PROGRAMS(STEPS_CHECK_ROW)
#undef STEPS_CHECK_ROW

/* A channel's share of one work. */
struct steps_part {
	uint64_t offset, count; /* in the user's buffers */
	uint32_t chunk;
	uint32_t pad0;
};

STEPS_FN uint32_t steps_type_bytes(int type)
{
	switch (type) {
	case DEV_I8:
	case DEV_U8:
	case DEV_F8E4M3:
	case DEV_F8E5M2:
		return 1;
	case DEV_F16:
	case DEV_BF16:
		return 2;
	case DEV_I32:
	case DEV_U32:
	case DEV_F32:
		return 4;
	default:
		return 8;
	}
}

/* Returns the share of `channel`, which is in channel_lo..channel_hi. */
STEPS_FN struct steps_part steps_part_of(const struct dev_work *w, int channel)
{
	struct steps_part p;

	ASSERT(channel >= w->channel_lo && channel <= w->channel_hi);
	p.pad0 = 0;
	if (channel == w->channel_lo) {
		p.offset = 0;
		p.count = w->count_lo;
		p.chunk = w->chunk_lo;
	} else if (channel == w->channel_hi) {
		p.offset = w->count - w->count_hi;
		p.count = w->count_hi;
		p.chunk = w->chunk_hi;
	} else {
		p.offset = w->count_lo + (uint64_t)(channel - w->channel_lo - 1) * w->count_mid;
		p.count = w->count_mid;
		p.chunk = w->chunk_mid;
	}
	ASSERT(p.offset + p.count <= w->count); /* the channels share the elements */
	return p;
}

STEPS_FN struct dev_program_row steps_program(int program)
{
	struct dev_program_row row = {};

	switch (program) {
#define STEPS_PROGRAM_ROW(id, function, f, a, p, pat, chunk, slice)                                \
	case DEV_##id:                                                                             \
		row.func = DEV_##f;                                                                \
		row.algo = DEV_##a;                                                                \
		row.proto = DEV_##p;                                                               \
		row.pattern = DEV_##pat;                                                           \
		row.chunk_steps = chunk;                                                           \
		row.slice_steps = slice;                                                           \
		break;
		DEV_PROGRAMS(STEPS_PROGRAM_ROW)
#undef STEPS_PROGRAM_ROW
	default:
		break;
	}
	return row;
}

/* Returns the set of ends of an algorithm: the index of its ends in `edges`. Both shots have one
 * set, which leaves a number free. */
STEPS_FN uint32_t steps_edges(enum dev_algo algo)
{
	switch (algo) {
	case DEV_TWO_SHOT:
		return DEV_ONE_SHOT;
	case DEV_COLLNET_CHAIN:
		return DEV_TWO_SHOT;
	case DEV_SYMMETRIC:
		return DEV_EDGE_SETS; /* no set */
	default:
		return (uint32_t)algo;
	}
}

/* Returns the bytes of which a channel's share is a multiple. */
STEPS_FN uint32_t steps_grain_bytes(int proto)
{
	switch (proto) {
#define STEPS_GRAIN(id, buffer, grain, data)                                                       \
	case DEV_##id:                                                                             \
		return grain;
		DEV_PROTOS(STEPS_GRAIN)
#undef STEPS_GRAIN
	default:
		return 1;
	}
}

/* Returns the bytes of data in a slot of `step_bytes` bytes. */
STEPS_FN uint32_t steps_data_bytes(int proto, uint32_t step_bytes)
{
	switch (proto) {
#define STEPS_DATA(id, buffer, grain, data)                                                        \
	case DEV_##id:                                                                             \
		return step_bytes / 16 * data;
		DEV_PROTOS(STEPS_DATA)
#undef STEPS_DATA
	default:
		return 0;
	}
}

STEPS_FN const char *steps_func_name(int func)
{
	switch (func) {
#define STEPS_FUNC_NAME(id, name)                                                                  \
	case DEV_##id:                                                                             \
		return name;
		DEV_FUNCS(STEPS_FUNC_NAME)
#undef STEPS_FUNC_NAME
	default:
		return "unknown";
	}
}

/* Returns the largest number of bytes of data in a chunk. A chunk of two exchanges has the data of
 * each in one slot. */
STEPS_FN uint32_t steps_chunk_bytes(const struct dev_program_row *row, uint32_t step_bytes)
{
	return steps_data_bytes((int)row->proto, step_bytes) *
	       (row->pattern == DEV_EXCHANGE_TWICE ? 1 : row->chunk_steps);
}

/* Returns the chunk of the loop that starts when `left` elements of the share remain. */
STEPS_FN uint64_t steps_ring_chunk(uint64_t left, uint32_t chunk, int nranks, uint32_t type_bytes)
{
	if (left >= (uint64_t)nranks * chunk)
		return chunk;
	uint64_t grain = 16 / type_bytes, each;

	if (left < 1u << 31) /* a GPU divides 32 bits in far less time */
		each = ((uint32_t)left + (uint32_t)nranks - 1) / (uint32_t)nranks;
	else
		each = (left + (uint64_t)nranks - 1) / (uint64_t)nranks;
	each = (each + grain - 1) / grain * grain;
	ASSERT(each <= chunk); /* a full chunk is whole grains, too (dev_chunk_check) */
	return each;
}

STEPS_FN uint64_t steps_loops(enum dev_pattern pattern, uint64_t count, uint32_t chunk, int nranks)
{
	uint64_t loop = chunk;

	if (pattern == DEV_RING_TWICE || pattern == DEV_EXCHANGE_TWICE)
		loop *= (uint64_t)nranks;
	return loop ? (count + loop - 1) / loop : 0;
}

/* The way in which PAT moves a channel's share. */
struct steps_pat {
	uint64_t chunk;  /* largest number of elements of each block in a loop */
	uint32_t levels; /* connections in each direction */
	uint32_t low;    /* levels whose offsets do not all share one slot */
};

STEPS_FN uint32_t steps_pat_levels(int nranks)
{
	uint32_t levels = 0;

	while (1u << levels < (uint32_t)nranks)
		levels++;
	return levels;
}

STEPS_FN struct steps_pat steps_pat_of(const struct steps_part *part, int nranks)
{
	struct steps_pat s;

	s.levels = steps_pat_levels(nranks);
	s.low = 1;
	while (s.low < s.levels &&
	       part->count > part->chunk / ((((uint32_t)nranks - 2) >> s.low) + 1))
		s.low++;
	s.chunk = part->count < part->chunk ? part->count : part->chunk;
	/* only blocks that do not share slots have several loops */
	ASSERT(s.low >= s.levels || part->count == s.chunk);
	return s;
}

/* Returns the steps of one loop on the connections of a level. */
STEPS_FN uint32_t steps_pat_of_loop(const struct steps_pat *s, int nranks, uint32_t level)
{
	uint32_t end = 1u << s->low;

	ASSERT(level < s->levels);
	if (level >= s->low)
		return 1;
	if (end > (uint32_t)nranks)
		end = (uint32_t)nranks;
	return (end - 1 + (1u << level)) >> (level + 1);
}

/* Returns the steps of a work of PAT on each of the two connections of one level. */
STEPS_FN uint64_t steps_of_level(const struct steps_part *part, int nranks, uint32_t level)
{
	struct steps_pat s = steps_pat_of(part, nranks);

	return steps_loops(DEV_BINOMIAL, part->count, (uint32_t)s.chunk, nranks) *
	       steps_pat_of_loop(&s, nranks, level);
}

/* Steps of a work on the two connections of an edge. */
struct steps_count {
	uint64_t recv, send;
};

/* The facts about a rank's place on a channel that steps depend on. */
struct steps_place {
	int32_t rank, nranks;
	int32_t root;       /* of the work; -1: no root */
	int32_t prev, next; /* in the ring */
	uint32_t toward;    /* the tree's link to the root; DEV_TREE_SELF: this rank is the root */
};

STEPS_FN struct steps_count steps_of_edge(const struct dev_program_row *row,
					  const struct steps_part *part,
					  const struct steps_place *at, uint32_t edge)
{
	uint64_t each =
		steps_loops(row->pattern, part->count, part->chunk, at->nranks) * row->chunk_steps;
	bool to_root = edge == at->toward;
	struct steps_count n;

	ASSERT(row->algo != DEV_RING || edge == 0); /* a ring has one edge */
	n.recv = n.send = each;
	switch (row->pattern) {
	case DEV_RING_TWICE:
		n.recv = n.send = each * 2 * (uint64_t)(at->nranks - 1);
		break;
	case DEV_RING_ONCE:
		n.recv = n.send = each * (uint64_t)(at->nranks - 1);
		break;
	case DEV_PIPELINE_FROM:
		n.recv = at->rank == at->root ? 0 : each;
		n.send = at->next == at->root ? 0 : each;
		break;
	case DEV_PIPELINE_TO:
		n.recv = at->prev == at->root ? 0 : each;
		n.send = at->rank == at->root ? 0 : each;
		break;
	case DEV_EXCHANGE:
	case DEV_EXCHANGE_TWICE:
	case DEV_TREE_BOTH:
		break;
	case DEV_TREE_FROM:
		n.recv = to_root ? each : 0;
		n.send = to_root ? 0 : each;
		break;
	case DEV_TREE_TO:
		n.recv = to_root ? 0 : each;
		n.send = to_root ? each : 0;
		break;
	case DEV_BINOMIAL:
		n.recv = n.send = steps_of_level(part, at->nranks, edge);
		break;
	case DEV_NO_EDGES:
		n.recv = n.send = 0;
		break;
	}
	return n;
}

/* Returns the protocol of a channel's part of a message: LL for at most `ll` bytes, LL128 for at
 * most `ll128`, otherwise SIMPLE. */
STEPS_FN enum dev_proto steps_message_proto(uint64_t bytes, uint32_t ll, uint32_t ll128)
{
	return bytes <= ll ? DEV_LL : bytes <= ll128 ? DEV_LL128 : DEV_SIMPLE;
}

/* Returns the steps of a message, or of one channel's part of it, on its connection: a chunk is one
 * step. */
STEPS_FN uint64_t steps_of_message(uint64_t bytes, enum dev_proto proto, uint32_t step_bytes)
{
	uint64_t chunk = steps_data_bytes(proto, step_bytes);

	ASSERT(chunk > 0); /* both ends chose a protocol that has slots there */
	return (bytes + chunk - 1) / chunk;
}

/* Returns the step of a connection after a work that began at the rounded step and ended at `end`.
 * A work that did not use the connection leaves the step unchanged: the other end, and a proxy, do
 * not round the step of a work in which they have no part. */
STEPS_FN uint64_t steps_kept(uint64_t step, uint64_t end, uint32_t chunk_steps)
{
	ASSERT(end >= step); /* steps only rise */
	return end == ALIGN_UP(step, chunk_steps) ? step : end;
}

/* Returns the elements in each slice of a chunk of `count` elements; the last slice gets the rest,
 * maybe nothing. A slice has at least a 32nd of a full one, so that short chunks are not cut up. */
STEPS_FN uint64_t steps_slice(uint64_t count, uint32_t step_elements, uint32_t chunk_steps,
			      uint32_t slice_steps)
{
	const uint64_t slices = chunk_steps / slice_steps;
	uint64_t even = (count + 16 * slices - 1) / (16 * slices) * 16;
	uint64_t least = (uint64_t)step_elements * slice_steps / 32;

	ASSERT(even * slices >= count && even % 16 == 0);
	return even > least ? even : least;
}

#endif
