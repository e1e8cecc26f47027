/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather: the part of one block, for one channel's share of a work. Called by the kernel
 * (run_work.h). The steps over a ring are NCCL 2.28's (docs/device.md).
 *
 * The output holds one block for each rank, in the order of the ranks. A loop moves one chunk of
 * each block once round the ring, from the block's owner on. The rank at position i of n calls
 *
 *	copy_send        for its own block, or result_send if the block is in its place already
 *	recv_copy_send   for the blocks of positions i-1, i-2 ... i-(n-2)
 *	recv             for the block of position i+1
 *
 * with positions modulo n. It sends n-1 chunks and receives n-1.
 *
 * In one shot: every rank sends its block to all others.
 *
 * With PAT (steps.h, BINOMIAL): rank r receives the block of rank r-o with offset o, over the level
 * of o's lowest bit, and sends it over all lower levels. Offsets whose blocks share slots come
 * first, from the highest level on: the longest paths then have the fewest blocks. After that, a
 * rank sends each block as soon as it has received it.
 */
#ifndef CORE_DEVICE_ALL_GATHER_H
#define CORE_DEVICE_ALL_GATHER_H

#include "core/device/edges/prims_direct.h"
#include "core/device/edges/prims_pat.h"
#include "core/device/prims/prims.h"

DEV_FN bool all_gather_ring_loop(struct prim *p, uint64_t at, uint64_t count)
{
	int n = p->block->comm.nranks, i = p->block->channel.ring.index + n;
	uint64_t out = prim_block_at(p, i, at);
	bool in_place = p->input + at * p->type_bytes == p->output + out * p->type_bytes;

	prim_result_take(p);
	if (!(in_place ? prim_result_send(p, at, out, count) : prim_copy_send(p, at, out, count)))
		return false;
	for (int j = 1; j < n - 1; j++)
		if (!prim_recv_copy_send(p, prim_block_at(p, i - j, at), count))
			return false;
	return prim_recv(p, prim_block_at(p, i + 1, at), count);
}

DEV_FN bool all_gather_ring(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, all_gather_ring_loop);
}

/* ---- between every two ranks ---------------------------------------------------------------- */

DEV_FN bool all_gather_one_shot_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	uint64_t out = (uint64_t)p->block->comm.rank * p->count + at;

	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_send(p, k, at, count);
	prim_direct_copy(p, at, out, count);
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_recv(p, k, (uint64_t)prim_other_rank(p, k) * p->count + at, count);
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool all_gather_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, all_gather_one_shot_chunk);
}

/* ---- parallel aggregated trees -------------------------------------------------------------- */

/* On a level whose blocks share a slot, the blocks that the rank has are sent, and as many are
 * received. Below that level, a step receives a slot and sends it on. */
DEV_FN void all_gather_pat_step(const struct prim *p, struct prim_pat *t, uint32_t step)
{
	const uint32_t shared = 2 * (t->s.levels - t->s.low);

	if (step < shared) {
		uint32_t level = t->s.levels - 1 - step / 2;

		t->stride = 2u << level;
		t->first = t->from = step % 2 ? 1u << level : 0;
		t->to = step % 2 ? 0 : 1u << level;
	} else {
		t->stride = 1u << t->s.low;
		t->first = step - shared;
		t->from = t->first & (0u - t->first);
		t->to = prim_pat_below(p, t->first, t->first ? prim_pat_level(t->first) : t->s.low);
	}
	t->ends = t->from;
}

DEV_FN bool all_gather_pat_loop(struct prim *p, struct prim_pat *t)
{
	const uint32_t steps = 2 * (t->s.levels - t->s.low) + prim_pat_end(p, t);

	for (uint32_t step = 0; step < steps; step++) {
		all_gather_pat_step(p, t, step);
		if (!prim_pat_spread(p, t))
			return false;
	}
	return true;
}

DEV_FN bool all_gather_pat(struct prim *p, const struct steps_part *part)
{
	return prim_pat_loops(p, part, false, all_gather_pat_loop);
}

#endif
