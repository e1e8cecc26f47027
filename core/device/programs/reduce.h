/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce to a root: the part of one block, for one channel's share of a work. Called by the kernel
 * (run_work.h). The steps over a ring are NCCL 2.28's (docs/device.md).
 *
 * Chunks flow along the ring, from the rank after the root to the root, and collect each rank's
 * input. The ranks call
 *
 *	rank after the root   send
 *	ranks in between      recv_reduce_send
 *	root                  recv_reduce_copy; the chunk is complete here
 *
 * Over a tree: every rank reduces the chunks of all links except the one that leads to the root,
 * and sends the result over that link. It is the tree of an all-reduce, seen from another root.
 *
 * In one shot: every rank sends its elements to the root, which reduces them.
 */
#ifndef CORE_DEVICE_REDUCE_H
#define CORE_DEVICE_REDUCE_H

#include "core/device/edges/prims_direct.h"
#include "core/device/edges/prims_tree_part.h"
#include "core/device/prims/prims.h"

DEV_FN bool reduce_ring_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	ASSERT(p->root >= 0 && p->root < p->block->comm.nranks);
	if (p->block->channel.ring.prev == p->root)
		return prim_send(p, at, count);
	if (p->block->comm.rank == p->root)
		return prim_recv_reduce_copy(p, at, at, count);
	return prim_recv_reduce_send(p, at, count);
}

DEV_FN bool reduce_ring(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, reduce_ring_chunk);
}

/* ---- between every two ranks ---------------------------------------------------------------- */

DEV_FN bool reduce_one_shot_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_send(p, k, at, prim_other_rank(p, k) == p->root ? count : 0);
	if (p->block->comm.rank == p->root)
		prim_direct_reduce(p, 0, at, at, count);
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool reduce_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, reduce_one_shot_chunk);
}

/* ---- over a tree ---------------------------------------------------------------------------- */

DEV_FN bool reduce_tree(struct prim *p, const struct steps_part *part)
{
	const uint32_t links = prim_tree_links(p), toward = prim_tree_toward(p);
	const uint32_t to = toward == DEV_TREE_SELF ? 0 : 1u << toward;

	ASSERT(!(to & ~links));
	return prim_tree_chunks(p, part, links & ~to, to, prim_tree_reduce);
}

#endif
