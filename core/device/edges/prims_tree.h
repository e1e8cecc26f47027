/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives of programs over a tree (algorithm TREE). Each moves one chunk between the user's
 * buffers and up to four links, to the rank's parent and its children. All threads of the group
 * call the same primitive with the same arguments.
 *
 *	prim_tree_send                    input -> links
 *	prim_tree_copy_send               input -> output and links
 *	prim_tree_recv                    link -> output
 *	prim_tree_recv_copy_send          link -> output and links
 *	prim_tree_recv_reduce_send        input op links -> link
 *	prim_tree_recv_reduce_copy        input op links -> output
 *	prim_tree_recv_reduce_copy_send   input op links -> output and links
 *
 * A reduction takes this rank's input first, and then the data of the links in the order of their
 * numbers: the parent (in a reduce whose root is above), then each child.
 *
 * The protocol determines how a chunk crosses a link: prims_tree_simple.h, prims_tree_ll.h,
 * prims_tree_ll128.h. A chunk is one step. Each connection has its own step: that of the block's
 * copy plus the chunks that this work has moved.
 *
 * Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_H
#define CORE_DEVICE_PRIMS_TREE_H

#include "core/device/edges/prims_tree_ll.h"
#include "core/device/edges/prims_tree_ll128.h"
#include "core/device/edges/prims_tree_simple.h"

/* Returns the link toward the work's root. DEV_TREE_SELF: this rank is the root, or the work has no
 * root. */
DEV_FN uint32_t prim_tree_toward(const struct prim *p)
{
	if (p->root < 0)
		return DEV_TREE_SELF;
	ASSERT(p->block->channel.tree_toward); /* a work of a tree has a channel of one */
	return (uint32_t)dev_get_bits(p->d, p->block->channel.tree_toward + p->root, 1);
}

/* ---- two groups of threads ------------------------------------------------------------------ */

/* Returns the number of warps that go up. In SIMPLE it is half of them. In LL and LL128 it is seven
 * of ten, as in NCCL: to receive and reduce the lines of three children takes longer than to send
 * them the result. */
DEV_FN uint32_t prim_tree_up_warps(const struct prim *p)
{
	const uint32_t warps = p->threads / DEV_WARP_WIDTH;

	return p->proto == DEV_SIMPLE ? (warps + 1) / 2 : warps * 7 / 10;
}

/* Returns true if one group goes up and one goes down. In LL and LL128 that is not possible in
 * place: the result is written over the input, and lines do not order the two threads. Undivided,
 * one thread reads and writes the same lines of a chunk. In SIMPLE the tails and heads on the path
 * order the two. */
DEV_FN bool prim_tree_is_divided(const struct prim *p)
{
	return p->threads > DEV_WARP_WIDTH && (p->proto == DEV_SIMPLE || p->input != p->output);
}

/* Puts the thread into one of the two groups, and returns the directions of that group. The groups
 * use different connections, count their steps independently, and do not synchronize. A single warp
 * is not divided. */
DEV_FN uint32_t prim_tree_divide(struct prim *p)
{
	const uint32_t ups = prim_tree_up_warps(p) * DEV_WARP_WIDTH;

	if (!prim_tree_is_divided(p))
		return PRIM_TREE_UP | PRIM_TREE_DOWN;
	ASSERT(ups > 0 && ups < p->threads); /* two warps or more: each group has one */
	if (p->thread < ups) {
		prim_group_set(p, 0, ups, 1);
		return PRIM_TREE_UP;
	}
	prim_group_set(p, ups, p->threads - ups, 2);
	return PRIM_TREE_DOWN;
}

/* ---- the primitives ------------------------------------------------------------------------- */

/* Moves one chunk. The next chunk is one step further on each link. */
DEV_FN bool prim_tree_chunk(struct prim *p, struct prim_tree *t, uint32_t flags, uint64_t in,
			    uint64_t out, uint64_t count)
{
	const struct prim_move m = {flags, 0, in, out, count};
	bool ok;

	/* at the top the sum of the links goes back over all of them */
	ASSERT(!(t->from & t->to) || t->from == t->to);
	switch (p->proto) {
	case DEV_LL:
		ok = prim_tree_ll_chunk(p, t, &m);
		break;
	case DEV_LL128:
		ok = prim_tree_ll128_chunk(p, t, &m);
		break;
	default:
		ok = prim_tree_simple_chunk(p, t, &m);
		break;
	}
	t->done++;
	return ok;
}

DEV_FN bool prim_tree_send(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_INPUT, at, 0, count);
}

DEV_FN bool prim_tree_copy_send(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_INPUT | PRIM_OUTPUT, at, at, count);
}

DEV_FN bool prim_tree_recv(struct prim *p, struct prim_tree *t, uint64_t at, uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_OUTPUT, 0, at, count);
}

DEV_FN bool prim_tree_recv_copy_send(struct prim *p, struct prim_tree *t, uint64_t at,
				     uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_OUTPUT, 0, at, count);
}

DEV_FN bool prim_tree_recv_reduce_send(struct prim *p, struct prim_tree *t, uint64_t at,
				       uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_INPUT, at, 0, count);
}

DEV_FN bool prim_tree_recv_reduce_copy(struct prim *p, struct prim_tree *t, uint64_t at,
				       uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, at, at, count);
}

DEV_FN bool prim_tree_recv_reduce_copy_send(struct prim *p, struct prim_tree *t, uint64_t at,
					    uint64_t count)
{
	return prim_tree_chunk(p, t, PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, at, at, count);
}

#endif
