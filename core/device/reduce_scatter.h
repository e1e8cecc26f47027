/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter: what one block does for one channel's share of a work. Called by the kernel
 * (run_work.h); the steps over a ring are NCCL 2.28's (docs/device.md).
 *
 * The input holds one block per rank, in order of ranks. A loop moves one chunk of each block once
 * round the ring, from the rank after its owner to its owner, and collects each rank's input on the
 * way. A rank at position i of n does
 *
 *   send               the block of position i-1
 *   recv_reduce_send   the blocks of positions i-2, i-3 ... i-(n-1)
 *   recv_reduce_copy   its own block, complete here
 *
 * all modulo n: n-1 chunks sent, as many received.
 *
 * In one shot: every rank sends block r to rank r for all r, and reduces its own block.
 */
#ifndef CORE_DEVICE_REDUCE_SCATTER_H
#define CORE_DEVICE_REDUCE_SCATTER_H

#include "core/device/prims.h"

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
	return prim_direct_end(p);
}

DEV_FN bool reduce_scatter_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, reduce_scatter_one_shot_chunk);
}

#endif
