/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol SIMPLE over the links of a tree, and what the protocols share there. For each chunk,
 * which is one slot of each link:
 *
 *   wait      for each link a thread: for its data, or for its credit;
 *   barrier   the other movers learn of it;
 *   move      dev_reduce_copy by the movers, which takes two sources and two destinations, as often as it takes. In
 *             between the sum is in the slot that was read last: it is this rank's own memory, and its sender gets
 *             it back only with the head;
 *   barrier   of all threads: everything is read and written; a launch that was aborted ends here;
 *   post      the last warp: sizes toward proxies, one fence, heads and tails of all links.
 *
 * As in prims_simple.h the last warp of three or more moves nothing: its fence is on its way while
 * the movers move the next chunk. Included by prims_tree.h.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_SIMPLE_H
#define CORE_DEVICE_PRIMS_TREE_SIMPLE_H

#include "core/device/prims_part.h"
#include "core/device/prims_simple.h"

/* ---- one link of several -------------------------------------------------------------------- */

DEV_FN void prim_tree_from(struct prim *p, const struct prim_tree *t, uint32_t link)
{
	p->recv = prim_edge_recv(p, link);
	p->recv_step = p->recv->step + t->done;
	p->other = link;
	p->tail_seen = 0;
}

DEV_FN void prim_tree_to(struct prim *p, const struct prim_tree *t, uint32_t link)
{
	p->send = prim_edge_send(p, link);
	p->send_step = p->send->step + t->done;
	p->other = link;
	p->head_seen = 0;
}

DEV_FN bool prim_tree_has(uint32_t links, uint32_t link)
{
	return links >> link & 1;
}

/* The first link from `link` on that is one of them; DEV_TREE_LINKS: none is. */
DEV_FN uint32_t prim_tree_next(uint32_t links, uint32_t link)
{
	while (link < DEV_TREE_LINKS && !prim_tree_has(links, link))
		link++;
	return link;
}

#define PRIM_TREE_EACH(link, links)                                                                \
	for (uint32_t link = prim_tree_next(links, 0); link < DEV_TREE_LINKS;                      \
	     link = prim_tree_next(links, link + 1))

/* Waits for the credit of those links that are the thread's: of so many threads it takes every
 * threads-th. */
DEV_FN void prim_tree_wait_send(struct prim *p, const struct prim_tree *t, uint32_t threads)
{
	for (uint32_t k = p->thread; k < DEV_TREE_LINKS; k += threads) {
		if (!prim_tree_has(t->to, k) || p->stopped)
			continue;
		prim_tree_to(p, t, k);
		p->stopped = !prim_wait_send(p);
	}
}

/* And for their data: the threads after those, if there are more. */
DEV_FN void prim_tree_wait_recv(struct prim *p, const struct prim_tree *t, uint32_t threads)
{
	uint32_t first = threads > DEV_TREE_LINKS ? DEV_TREE_LINKS : 0;

	if (p->thread < first)
		return;
	for (uint32_t k = p->thread - first; k < DEV_TREE_LINKS; k += threads - first) {
		if (!prim_tree_has(t->from, k) || p->stopped)
			continue;
		prim_tree_from(p, t, k);
		p->stopped = !prim_wait_recv(p);
	}
}

/* One thread, behind the barrier that ends the move. `tails`: the links whose tail shows what is
 * filled. */
DEV_FN void prim_tree_post(struct prim *p, const struct prim_tree *t, uint32_t tails,
			   uint32_t bytes)
{
	PRIM_TREE_EACH (k, tails) {
		prim_tree_to(p, t, k);
		prim_show(p, true);
		if (p->send->fifo)
			prim_fill_fifo(p, p->send, bytes);
	}
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	PRIM_TREE_EACH (k, t->from) {
		prim_tree_from(p, t, k);
		dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	}
	PRIM_TREE_EACH (k, tails) {
		prim_tree_to(p, t, k);
		dev_store_u64(p->d, p->send->tail, p->send_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	}
}

/* The operation of a source behind the first one: a factor is that of this rank's input alone. */
DEV_FN enum dev_op prim_tree_op(const struct prim *p)
{
	return p->op == DEV_PREMUL_SUM ? DEV_SUM : p->op;
}

/* ---- SIMPLE --------------------------------------------------------------------------------- */

/* One pass of a move. A thread may get other elements in the next one: a barrier is between
 * them. */
struct prim_tree_pass {
	const void *src[2];
	void *dst[2];
	int nsrc, ndst;
	enum dev_op op;
	bool last; /* of a reduction */
};

DEV_FN void prim_tree_pass(struct prim *p, const struct prim_tree_pass *s, uint64_t count)
{
	dev_reduce_copy(p->d, p->thread, prim_movers(p), s->src, s->nsrc, s->dst, s->ndst, count,
			p->type, s->op, p->scale, s->last);
}

/* All sources but the last one are in s->src[0], and s->op is the next pass's. */
DEV_FN void prim_tree_gather(struct prim *p, const struct prim_tree *t, const struct prim_move *m,
			     struct prim_tree_pass *s)
{
	const bool input = (m->flags & PRIM_INPUT) != 0;
	uint32_t links = t->from;

	s->op = input ? p->op : DEV_SUM;
	s->nsrc = 0;
	if (input)
		s->src[s->nsrc++] = p->input + m->in * p->type_bytes;
	PRIM_TREE_EACH (k, links) {
		prim_tree_from(p, t, k);
		s->src[s->nsrc++] = prim_slot(p->recv, DEV_SIMPLE, p->recv_step);
		if (s->nsrc < 2 || prim_tree_next(links, k + 1) == DEV_TREE_LINKS)
			continue;
		s->dst[0] = (void *)s->src[1];
		s->ndst = 1;
		s->last = false;
		prim_tree_pass(p, s, m->count);
		(void)prim_movers_barrier(p);
		s->src[0] = s->dst[0];
		s->nsrc = 1;
		s->op = prim_tree_op(p);
	}
}

/* After a pass that has written the output, the others copy it: the input may be gone, in place. */
DEV_FN void prim_tree_from_output(const struct prim_move *m, struct prim_tree_pass *s)
{
	if (m->flags & PRIM_OUTPUT) {
		s->src[0] = s->dst[0];
		s->nsrc = 1;
		s->op = DEV_SUM;
		s->last = false;
	}
	s->ndst = 0;
}

/* The last pass of the reduction, and as many copies as there are links. */
DEV_FN void prim_tree_scatter(struct prim *p, const struct prim_tree *t, const struct prim_move *m,
			      struct prim_tree_pass *s)
{
	s->ndst = 0;
	s->last = (m->flags & PRIM_LAST) != 0;
	if (m->flags & PRIM_OUTPUT)
		s->dst[s->ndst++] = p->output + m->out * p->type_bytes;
	PRIM_TREE_EACH (k, t->to) {
		if (s->ndst == 2) {
			prim_tree_pass(p, s, m->count);
			(void)prim_movers_barrier(p);
			prim_tree_from_output(m, s);
		}
		prim_tree_to(p, t, k);
		s->dst[s->ndst++] = prim_slot(p->send, DEV_SIMPLE, p->send_step);
	}
	if (s->ndst)
		prim_tree_pass(p, s, m->count);
}

/* By the movers. */
DEV_FN void prim_tree_simple_move(struct prim *p, const struct prim_tree *t,
				  const struct prim_move *m)
{
	struct prim_tree_pass s;

	prim_tree_wait_send(p, t, prim_movers(p));
	prim_tree_wait_recv(p, t, prim_movers(p));
	if (!prim_movers_barrier(p) || !m->count)
		return;
	prim_tree_gather(p, t, m, &s);
	prim_tree_scatter(p, t, m, &s);
}

DEV_FN bool prim_tree_simple_chunk(struct prim *p, const struct prim_tree *t,
				   const struct prim_move *m)
{
	if (p->thread < prim_movers(p))
		prim_tree_simple_move(p, t, m);
	if (!prim_barrier(p))
		return false;
	if (p->thread == prim_poster(p))
		prim_tree_post(p, t, t->to, (uint32_t)(m->count * p->type_bytes));
	return true;
}

#endif
