/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of programs over a tree that move no data: the links of a rank, the direction of a
 * chunk, and the loop over the chunks of a channel's share. Included by prims.h, and by
 * tests/unit/base/programs_count.h, whose primitives only count.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_PART_H
#define CORE_DEVICE_PRIMS_TREE_PART_H

#include "core/device/edges/prims_tree.h"

/* Returns the links that the rank has, one bit each. */
DEV_FN uint32_t prim_tree_links(const struct prim *p)
{
	uint32_t links = 0;

	for (uint32_t k = 0; k < DEV_TREE_LINKS; k++)
		links |= (uint32_t)(prim_edge_recv(p, k)->peer >= 0) << k;
	return links;
}

/* Reduces one chunk and sends it over the links `to`. A rank without such a link completes the
 * chunk. */
DEV_FN bool prim_tree_reduce(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	if (!t->to)
		return prim_tree_recv_reduce_copy(p, t, at, count);
	return t->from ? prim_tree_recv_reduce_send(p, t, at, count)
		       : prim_tree_send(p, t, at, count);
}

/* Sends one chunk of a result from the link `from` to all other links. */
DEV_FN bool prim_tree_spread(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	return t->to ? prim_tree_recv_copy_send(p, t, at, count) : prim_tree_recv(p, t, at, count);
}

typedef bool prim_tree_fn(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count);

/* Calls `move` for every chunk of the part, with these links. */
DEV_FN bool prim_tree_chunks(struct prim *p, const struct steps_part *part, uint32_t from,
			     uint32_t to, prim_tree_fn *move)
{
	struct prim_tree t = {from, to, 0, false};

	for (uint64_t done = 0; done < part->count; done += part->chunk)
		if (!move(p, &t, part->offset + done, MIN_OF(part->chunk, part->count - done)))
			return false;
	return true;
}

/* Moves the chunks of an all-reduce up and down at the same time, at a rank that has a parent. The
 * threads of a group go up, down, or alternate. A group that alternates waits for the first result
 * after it has sent DEV_STEPS chunks. It may not send more before that: the root takes no chunk
 * that it cannot send on, and the slots of both directions hold 2 * DEV_STEPS chunks. With more,
 * all ranks would wait forever. `undivided`: the results from above are sums of all ranks, which
 * this rank divides if the operation needs it. */
DEV_FN bool prim_tree_both(struct prim *p, const struct steps_part *part, uint32_t up,
			   uint32_t down, bool undivided)
{
	const uint32_t threads = p->threads;
	const uint32_t ways = prim_tree_divide(p);
	const bool turns = ways == (PRIM_TREE_UP | PRIM_TREE_DOWN);
	const uint64_t behind = turns ? (DEV_STEPS - 1ull) * part->chunk : 0;
	struct prim_tree to_root = {down, up, 0, false}, from_root = {up, down, 0, undivided};
	bool ok = true;

	ASSERT(up == 1 && !(down & up)); /* link 0 leads to the parent */
	for (uint64_t done = 0; ok && done < part->count + behind; done += part->chunk) {
		if ((ways & PRIM_TREE_UP) && done < part->count)
			ok = prim_tree_reduce(p, &to_root, part->offset + done,
					      MIN_OF(part->chunk, part->count - done));
		if ((ways & PRIM_TREE_DOWN) && ok && done >= behind)
			ok = prim_tree_spread(p, &from_root, part->offset + done - behind,
					      MIN_OF(part->chunk, part->count - (done - behind)));
	}
	prim_group_set(p, 0, threads, 1);
	return ok;
}

#endif
