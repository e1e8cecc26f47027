/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of PAT do besides moving chunks: the blocks that a step takes, over which levels
 * they come and go, where they are in a slot, which step of a connection that is, and the loop over
 * the chunks of a channel's share. The steps are in steps.h (BINOMIAL). Included by prims_pat.h,
 * and by tests/unit/base/programs_steps_test.c, whose primitives only count.
 */
#ifndef CORE_DEVICE_PRIMS_PAT_PART_H
#define CORE_DEVICE_PRIMS_PAT_PART_H

#include "core/device/prims_part.h"

/* One step of a loop: the same chunk of the blocks at the offsets first, first + stride... below
 * the number of ranks. */
struct prim_pat {
	struct steps_pat s;
	uint64_t at, count; /* the chunk, in each block */
	uint64_t loop;      /* loops before this one */
	uint32_t first, stride;
	uint32_t from, to; /* levels: a bit for each */
	uint32_t ends;     /* those of `from` whose slots are read for the last time */
	bool reduces;      /* the offsets of a loop are taken from the last one to the first */
};

/* The level of an offset that is not 0. */
DEV_FN uint32_t prim_pat_level(uint32_t offset)
{
	uint32_t level = 0;

	while (!(offset >> level & 1))
		level++;
	return level;
}

/* The levels below `level` over which an offset comes from or goes to other ranks: those whose bit
 * leads to another offset. They are the lowest ones. */
DEV_FN uint32_t prim_pat_below(const struct prim *p, uint32_t offset, uint32_t level)
{
	uint32_t levels = 0;

	for (uint32_t k = 0; k < level && offset + (1u << k) < (uint32_t)p->block->comm.nranks; k++)
		levels |= 1u << k;
	return levels;
}

/* The place of a block among those of a slot. An offset has it on the level that it goes over, and
 * on those that it comes from: the bit between the two offsets of a block does not count. */
DEV_FN uint32_t prim_pat_place(const struct prim_pat *t, uint32_t level, uint32_t offset)
{
	return offset >> MAX_OF(t->s.low, level + 1);
}

/* Blocks of the step's slot on a level that it sends over; those of an all-gather have one bit more
 * at the receiver. */
DEV_FN uint32_t prim_pat_blocks(const struct prim *p, const struct prim_pat *t, uint32_t level)
{
	uint32_t first = t->first + (t->reduces ? 0 : 1u << level);

	return ((uint32_t)p->block->comm.nranks - 1 - first) / t->stride + 1;
}

/* Steps of a level's connections in this work before this one. */
DEV_FN uint64_t prim_pat_done(const struct prim *p, const struct prim_pat *t, uint32_t level)
{
	uint32_t steps = steps_pat_of_loop(&t->s, p->block->comm.nranks, level);
	uint32_t nth = (t->first & ((1u << t->s.low) - 1)) >> (level + 1);

	return t->loop * steps + (t->reduces ? steps - 1 - nth : nth);
}

/* Offsets that do not all share a slot on their level: 1 up to it. */
DEV_FN uint32_t prim_pat_end(const struct prim *p, const struct prim_pat *t)
{
	return MIN_OF(1u << t->s.low, (uint32_t)p->block->comm.nranks);
}

/* Moves one chunk of all blocks. False: the launch was aborted. */
typedef bool prim_pat_fn(struct prim *p, struct prim_pat *t);

DEV_FN bool prim_pat_loops(struct prim *p, const struct steps_part *part, bool reduces,
			   prim_pat_fn *move)
{
	struct prim_pat t;

	t.s = steps_pat_of(part, p->block->comm.nranks);
	t.reduces = reduces;
	t.loop = 0;
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
