/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of programs of PAT that move no data: the blocks of a step, the levels over which they
 * come and go, their places in a slot, the step of a connection, and the loop over the chunks of a
 * channel's share. steps.h has the order (BINOMIAL). Included by prims_pat.h, and by
 * tests/unit/base/programs_count.h, whose primitives only count.
 */
#ifndef CORE_DEVICE_PRIMS_PAT_PART_H
#define CORE_DEVICE_PRIMS_PAT_PART_H

#include "core/device/prims/prims_part.h"

/* One step of a loop: the same chunk of the blocks at the offsets first, first + stride... below
 * the number of ranks. */
struct prim_pat {
	struct steps_pat s;
	uint64_t at, count; /* the chunk, in each block */
	uint64_t loop;      /* number of loops before this one */
	uint32_t first, stride;
	uint32_t from, to; /* levels, one bit each */
	uint32_t ends;     /* levels of `from` whose slots are read for the last time */
	bool reduces;      /* true: a loop takes the offsets from the last one to the first */
};

/* Returns the level of an offset, which must not be 0. */
DEV_FN uint32_t prim_pat_level(uint32_t offset)
{
	uint32_t level = 0;

	ASSERT(offset > 0);
	while (!(offset >> level & 1))
		level++;
	return level;
}

/* Returns the levels below `level` over which other ranks have the offset: those whose bit leads to
 * an offset that exists. They are the lowest ones. */
DEV_FN uint32_t prim_pat_below(const struct prim *p, uint32_t offset, uint32_t level)
{
	uint32_t levels = 0;

	for (uint32_t k = 0; k < level && offset + (1u << k) < (uint32_t)p->block->comm.nranks; k++)
		levels |= 1u << k;
	return levels;
}

/* Returns the place of a block in a slot. It is the same at both ends: the bit in which the
 * sender's and the receiver's offset differ does not count. */
DEV_FN uint32_t prim_pat_place(const struct prim_pat *t, uint32_t level, uint32_t offset)
{
	return offset >> MAX_OF(t->s.low, level + 1);
}

/* Returns the number of blocks in the slot that the step sends over the level. In an all-gather the
 * offsets at the receiver have one more bit. */
DEV_FN uint32_t prim_pat_blocks(const struct prim *p, const struct prim_pat *t, uint32_t level)
{
	uint32_t first = t->first + (t->reduces ? 0 : 1u << level);

	ASSERT(first < (uint32_t)p->block->comm.nranks); /* a slot has one block or more */
	return ((uint32_t)p->block->comm.nranks - 1 - first) / t->stride + 1;
}

/* Returns the steps of the level's connections in this work before this step. */
DEV_FN uint64_t prim_pat_done(const struct prim *p, const struct prim_pat *t, uint32_t level)
{
	uint32_t steps = steps_pat_of_loop(&t->s, p->block->comm.nranks, level);
	uint32_t nth = (t->first & ((1u << t->s.low) - 1)) >> (level + 1);

	ASSERT(nth < steps); /* the loop has this step on the level */
	return t->loop * steps + (t->reduces ? steps - 1 - nth : nth);
}

/* Returns the end of the offsets, from 1 on, that do not all share a slot on their level. */
DEV_FN uint32_t prim_pat_end(const struct prim *p, const struct prim_pat *t)
{
	return MIN_OF(1u << t->s.low, (uint32_t)p->block->comm.nranks);
}

/* Moves one chunk of all blocks. Returns false if the launch was aborted. */
typedef bool prim_pat_fn(struct prim *p, struct prim_pat *t);

DEV_FN bool prim_pat_loops(struct prim *p, const struct steps_part *part, bool reduces,
			   prim_pat_fn *move)
{
	struct prim_pat t;

	t.s = steps_pat_of(part, p->block->comm.nranks);
	t.reduces = reduces;
	t.loop = 0;
	ASSERT(t.s.low >= 1 && t.s.low <= t.s.levels && t.s.levels <= DEV_PAT_LEVELS);
	for (uint64_t done = 0; done < part->count; done += t.s.chunk) {
		t.at = part->offset + done;
		t.count = MIN_OF(t.s.chunk, part->count - done);
		if (!move(p, &t))
			return false;
		t.loop++;
	}
	return true;
}

#endif
