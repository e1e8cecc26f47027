/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of programs that move no data: the loop over the chunks of a channel's share, and the
 * ranks that a number stands for in a program between every two ranks. Included by prims_direct.h
 * and prims_tree_simple.h, and by tests/unit/base/programs_count.h, whose primitives only count.
 * Only block->comm of struct prim is used.
 */
#ifndef CORE_DEVICE_PRIMS_PART_H
#define CORE_DEVICE_PRIMS_PART_H

#include "core/device/prims/prim.h"

/* The links of a chunk in a tree, one bit for each number: it is received over some, and sent over
 * others. */
struct prim_tree {
	uint32_t from, to;
	uint64_t done;  /* chunks before it, over the same links */
	bool undivided; /* a sum of all ranks, which no rank has divided yet */
};

/* The directions of a group of threads in an all-reduce over a tree, one bit each: sums go up to
 * the root, results come down from it. */
enum prim_tree_way { PRIM_TREE_UP = 1, PRIM_TREE_DOWN = 2 };

/* Moves `count` elements, `at` elements from the start of the buffer. Returns false if the launch
 * was aborted. */
typedef bool prim_chunk_fn(struct prim *p, uint64_t at, uint64_t count);

/* Calls `move` for every chunk of the part. */
DEV_FN bool prim_chunks(struct prim *p, const struct steps_part *part, prim_chunk_fn *move)
{
	ASSERT(part->chunk > 0 || part->count == 0); /* otherwise the loop has no end */
	for (uint64_t done = 0; done < part->count; done += part->chunk)
		if (!move(p, part->offset + done, MIN_OF(part->chunk, part->count - done)))
			return false;
	return true;
}

/* Returns the k-th other rank. */
DEV_FN int32_t prim_other_rank(const struct prim *p, int k)
{
	ASSERT(k >= 0 && k + 1 < p->block->comm.nranks);
	return k < p->block->comm.rank ? k : k + 1;
}

/* Returns the k of another rank. */
DEV_FN int prim_other_of(const struct prim *p, int32_t rank)
{
	ASSERT(rank != p->block->comm.rank);
	return rank < p->block->comm.rank ? rank : rank - 1;
}

DEV_FN int prim_others(const struct prim *p)
{
	return p->block->comm.nranks - 1;
}

#endif
