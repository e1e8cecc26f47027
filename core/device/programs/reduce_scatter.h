/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter: the part of one block, for one channel's share of a work. Called by the kernel
 * (run_work.h). The steps over a ring are NCCL 2.28's (docs/device.md).
 *
 * The input holds one block for each rank, in the order of the ranks. A loop moves one chunk of
 * each block once round the ring, from the rank after the block's owner to the owner, and collects
 * each rank's input. The rank at position i of n calls
 *
 *	send               for the block of position i-1
 *	recv_reduce_send   for the blocks of positions i-2, i-3 ... i-(n-1)
 *	recv_reduce_copy   for its own block, which is complete here
 *
 * with positions modulo n. It sends n-1 chunks and receives n-1.
 *
 * In one shot: every rank sends block r to rank r for all r, and reduces its own block.
 *
 * With PAT (steps.h, BINOMIAL): rank r has rank r+o's block with offset o. It reduces its own input
 * and the sums that it receives over all lower levels, and sends the result over the level of o's
 * lowest bit. Its own block, offset 0, is complete with the sums of all levels. Offsets whose
 * blocks share slots come last: the sums that they receive from lower levels stay in the slots
 * until the rank's own block is complete.
 */
#ifndef CORE_DEVICE_REDUCE_SCATTER_H
#define CORE_DEVICE_REDUCE_SCATTER_H

#include "core/device/edges/prims_direct.h"
#include "core/device/edges/prims_pat.h"
#include "core/device/prims/prims.h"

DEV_FN bool reduce_scatter_ring_loop(struct prim *p, uint64_t at, uint64_t count)
{
	int n = p->block->comm.nranks, i = p->block->channel.ring.index + n;

	if (!prim_send(p, prim_block_at(p, i - 1, at), count))
		return false;
	for (int j = 2; j < n; j++)
		if (!prim_recv_reduce_send(p, prim_block_at(p, i - j, at), count))
			return false;
	return prim_recv_reduce_copy(p, prim_block_at(p, i, at), at, count);
}

DEV_FN bool reduce_scatter_ring(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, reduce_scatter_ring_loop);
}

/* ---- between every two ranks ---------------------------------------------------------------- */

DEV_FN bool reduce_scatter_one_shot_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	uint64_t own = (uint64_t)p->block->comm.rank * p->count + at;

	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_send(p, k, (uint64_t)prim_other_rank(p, k) * p->count + at, count);
	prim_direct_reduce(p, 0, own, at, count);
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool reduce_scatter_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, reduce_scatter_one_shot_chunk);
}

/* ---- parallel aggregated trees -------------------------------------------------------------- */

/* Takes each offset down to 1, then each level whose blocks share a slot, then the rank's own
 * block. */
DEV_FN void reduce_scatter_pat_step(const struct prim *p, struct prim_pat *t, uint32_t step)
{
	const uint32_t alone = prim_pat_end(p, t) - 1, shared = t->s.levels - t->s.low;

	if (step < alone) {
		t->first = alone - step;
		t->stride = 1u << t->s.low;
	} else if (step < alone + shared) {
		t->first = 1u << (t->s.low + step - alone);
		t->stride = 2 * t->first;
	} else {
		t->first = 0;
		t->stride = 1u << t->s.levels;
	}
	t->from = prim_pat_below(p, t->first, t->first ? prim_pat_level(t->first) : t->s.levels);
	t->to = t->first & (0u - t->first);
	t->ends = step < alone || !t->first ? t->from : 0;
}

DEV_FN bool reduce_scatter_pat_loop(struct prim *p, struct prim_pat *t)
{
	const uint32_t steps = prim_pat_end(p, t) + t->s.levels - t->s.low;

	for (uint32_t step = 0; step < steps; step++) {
		reduce_scatter_pat_step(p, t, step);
		if (!prim_pat_reduce(p, t))
			return false;
	}
	return true;
}

DEV_FN bool reduce_scatter_pat(struct prim *p, const struct steps_part *part)
{
	return prim_pat_loops(p, part, true, reduce_scatter_pat_loop);
}

#endif
