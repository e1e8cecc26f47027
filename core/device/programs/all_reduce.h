/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce: the part of one block, for one channel's share of a work. Called by the kernel
 * (run_work.h).
 *
 * Over a ring, in NCCL 2.28's steps (docs/device.md). The share is cut into loops of one chunk for
 * each rank. In a loop chunk c goes round the ring twice. First it collects the input of every
 * rank, and is complete at position c. Then the result goes to all other ranks. The rank at
 * position i, between positions i-1 and i+1, calls
 *
 *	send                    for chunk i-1
 *	recv_reduce_send        for chunks i-2, i-3 ... i-(n-1)
 *	recv_reduce_copy_send   for chunk i, which is complete here
 *	recv_copy_send          for chunks i-1, i-2 ... i-(n-2)
 *	recv                    for chunk i+1
 *
 * with positions modulo n. It sends 2(n-1) chunks and receives 2(n-1). Chunks beyond the end of the
 * share are short or empty, and take the same steps.
 *
 * In one shot: every rank sends its elements to all others, and reduces those of all ranks.
 *
 * Over a tree: every rank reduces its children's chunks with its own and sends the result to its
 * parent. The root of the tree completes a chunk, and the result goes back over the same links.
 * Both directions are used at the same time, each by a group of threads (prim_tree_both). The root
 * has one group: all its threads reduce a chunk and send the result down.
 *
 * In two shots, in loops as over a ring: every rank sends chunk r to rank r for all r, reduces its
 * own chunk, and sends the result to all others.
 *
 * Over a chain whose head has a network that reduces: as a rank of a tree that has a parent. The
 * head sends the sum of its chain to the network and gets the sum of all ranks (prims_collnet.h).
 *
 * With recursive doubling: in step k ranks whose numbers differ in bit k exchange their sums
 * (prims_doubling.h).
 */
#ifndef CORE_DEVICE_ALL_REDUCE_H
#define CORE_DEVICE_ALL_REDUCE_H

#include "core/device/edges/prims_collnet.h"
#include "core/device/edges/prims_direct.h"
#include "core/device/edges/prims_doubling.h"
#include "core/device/edges/prims_tree_part.h"
#include "core/device/prims/prims.h"

/* One loop: `left` elements from `base` on, in chunks of `chunk`. */
struct all_reduce_loop {
	uint64_t base, left, chunk;
	int nranks;
};

DEV_FN uint64_t all_reduce_chunk_at(const struct all_reduce_loop *l, int c, uint64_t *count)
{
	uint64_t at = (uint64_t)(c % l->nranks) * l->chunk;

	ASSERT(c >= 0); /* callers add the number of ranks to a position */
	*count = at < l->left ? MIN_OF(l->chunk, l->left - at) : 0;
	return l->base + at;
}

DEV_FN void all_reduce_first(struct prim *p, const struct steps_part *part,
			     struct all_reduce_loop *l)
{
	l->nranks = p->block->comm.nranks;
	l->base = part->offset;
	l->left = part->count;
	l->chunk = steps_ring_chunk(l->left, part->chunk, l->nranks, p->type_bytes);
}

DEV_FN void all_reduce_next(struct prim *p, const struct steps_part *part,
			    struct all_reduce_loop *l)
{
	uint64_t done = MIN_OF(l->left, (uint64_t)l->nranks * part->chunk);

	l->base += done;
	l->left -= done;
	l->chunk = steps_ring_chunk(l->left, part->chunk, l->nranks, p->type_bytes);
}

DEV_FN bool all_reduce_ring_loop(struct prim *p, const struct all_reduce_loop *l)
{
	int n = l->nranks, i = p->block->channel.ring.index + n;
	uint64_t count, at;

	at = all_reduce_chunk_at(l, i - 1, &count);
	if (!prim_send(p, at, count))
		return false;
	for (int j = 2; j < n; j++) {
		at = all_reduce_chunk_at(l, i - j, &count);
		if (!prim_recv_reduce_send(p, at, count))
			return false;
	}
	at = all_reduce_chunk_at(l, i, &count);
	prim_result_take(p);
	if (!prim_recv_reduce_copy_send(p, at, at, count))
		return false;
	for (int j = 1; j < n - 1; j++) {
		at = all_reduce_chunk_at(l, i - j, &count);
		if (!prim_recv_copy_send(p, at, count))
			return false;
	}
	at = all_reduce_chunk_at(l, i + 1, &count);
	return prim_recv(p, at, count);
}

DEV_FN bool all_reduce_ring(struct prim *p, const struct steps_part *part)
{
	struct all_reduce_loop l;

	for (all_reduce_first(p, part, &l); l.left; all_reduce_next(p, part, &l))
		if (!all_reduce_ring_loop(p, &l))
			return false;
	return true;
}

/* ---- between every two ranks ---------------------------------------------------------------- */

/* Sends the elements to all ranks, receives theirs, and reduces. */
DEV_FN bool all_reduce_one_shot_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++)
		prim_direct_send(p, k, at, count);
	prim_direct_reduce(p, 0, at, at, count);
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool all_reduce_one_shot(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, all_reduce_one_shot_chunk);
}

/* Rank r reduces chunk r of the loop. */
DEV_FN bool all_reduce_two_shot_loop(struct prim *p, const struct all_reduce_loop *l)
{
	uint64_t count, mine, at = all_reduce_chunk_at(l, p->block->comm.rank, &mine), to;

	if (!prim_direct_begin(p))
		return false;
	for (int k = 0; k < prim_others(p); k++) {
		to = all_reduce_chunk_at(l, prim_other_rank(p, k), &count);
		prim_direct_send(p, k, to, count);
	}
	prim_direct_reduce(p, PRIM_SEND, at, at, mine);
	prim_direct_next(p, mine);
	for (int k = 0; k < prim_others(p); k++) {
		to = all_reduce_chunk_at(l, prim_other_rank(p, k), &count);
		prim_direct_recv(p, k, to, count);
	}
	return prim_direct_end(p, prim_others(p));
}

DEV_FN bool all_reduce_two_shot(struct prim *p, const struct steps_part *part)
{
	struct all_reduce_loop l;

	for (all_reduce_first(p, part, &l); l.left; all_reduce_next(p, part, &l))
		if (!all_reduce_two_shot_loop(p, &l))
			return false;
	return true;
}

/* ---- recursive doubling --------------------------------------------------------------------- */

DEV_FN bool all_reduce_doubling_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	if (!prim_doubling_begin(p, count))
		return false;
	prim_doubling_sum(p, at, count);
	return prim_direct_end(p, prim_doubling_edges(p));
}

DEV_FN bool all_reduce_doubling(struct prim *p, const struct steps_part *part)
{
	return prim_chunks(p, part, all_reduce_doubling_chunk);
}

/* ---- over a tree ---------------------------------------------------------------------------- */

DEV_FN bool all_reduce_tree(struct prim *p, const struct steps_part *part)
{
	const uint32_t links = prim_tree_links(p), up = links & 1, down = links & ~1u;

	return up ? prim_tree_both(p, part, up, down, false)
		  : prim_tree_chunks(p, part, down, down, prim_tree_recv_reduce_copy_send);
}

/* ---- over a chain and its network ----------------------------------------------------------- */

DEV_FN bool all_reduce_collnet(struct prim *p, const struct steps_part *part)
{
	return prim_tree_both(p, part, PRIM_COLLNET_UP, prim_collnet_down(p),
			      prim_collnet_is_head(p));
}

#endif
