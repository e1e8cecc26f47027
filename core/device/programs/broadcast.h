/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast from a root: the part of one block, for one channel's share of a work. Called by the
 * kernel (run_work.h). The steps over a ring are NCCL 2.28's (docs/device.md).
 *
 * Chunks flow along the ring, from the root to the rank before it. They call
 *
 *	root                   copy_send, or send if its output is its input
 *	ranks in between       recv_copy_send
 *	rank before the root   recv
 *
 * Over a tree: every rank receives over the link that leads to the root, and sends over all its
 * other links. It is the tree of an all-reduce, seen from another root.
 *
 * In one shot: the root sends its elements to all others.
 */
#ifndef CORE_DEVICE_BROADCAST_H
#define CORE_DEVICE_BROADCAST_H

#include "core/device/edges/prims_direct.h"
#include "core/device/edges/prims_tree_part.h"
#include "core/device/prims/prims.h"

DEV_FN bool broadcast_ring_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	ASSERT(p->root >= 0 && p->root < p->block->comm.nranks);
	if (p->block->channel.ring.next == p->root)
		return prim_recv(p, at, count);
	if (p->block->comm.rank == p->root)
		return p->input == p->output ? prim_send(p, at, count)
					     : prim_copy_send(p, at, at, count);
	return prim_recv_copy_send(p, at, count);
}

DEV_FN bool broadcast_ring(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, broadcast_ring_chunk);
}

/* ---- between every two ranks ---------------------------------------------------------------- */

DEV_FN bool broadcast_one_shot_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	const bool root = p->block->comm.rank == p->root;

	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_send(p, k, at, root ? count : 0);
	if (root)
		prim_direct_copy(p, at, at, count);
	else
		prim_direct_recv(p, prim_other_of(p, p->root), at, count);
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool broadcast_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, broadcast_one_shot_chunk);
}

/* ---- over a tree ---------------------------------------------------------------------------- */

DEV_FN bool broadcast_tree_chunk(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	if (t->from)
		return prim_tree_spread(p, t, at, count);
	return p->input == p->output ? prim_tree_send(p, t, at, count)
				     : prim_tree_copy_send(p, t, at, count);
}

DEV_FN bool broadcast_tree(struct prim *p, const struct steps_part *part)
{
	const uint32_t links = prim_tree_links(p), toward = prim_tree_toward(p);
	const uint32_t from = toward == DEV_TREE_SELF ? 0 : 1u << toward;

	ASSERT(!(from & ~links)); /* a link leads to every root */
	return prim_tree_chunks(p, part, from, links & ~from, broadcast_tree_chunk);
}

#endif
