/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol SIMPLE over the links of a tree, and functions that all protocols use there. For each
 * chunk, which is one slot of each link:
 *
 *	wait      For each link a thread waits for its data or for its credit.
 *	barrier   The other movers learn of it.
 *	move      dev_reduce_copy by the movers. It takes two sources and two destinations, so it
 *	          may be called several times. In between, the sum is in the slot that was read
 *	          last. That slot is this rank's own memory, and its sender gets it back only with
 *	          the head.
 *	barrier   All threads: everything is read and written. An aborted launch ends here.
 *	post      The last warp stores sizes for proxies, makes one fence, and stores heads and
 *	          tails of all links.
 *
 * As in prims_simple.h the last warp of three or more moves nothing: during its fence the movers
 * move the next chunk. Included by prims_tree.h.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_SIMPLE_H
#define CORE_DEVICE_PRIMS_TREE_SIMPLE_H

#include "core/device/prims/prims_part.h"
#include "core/device/prims/prims_simple.h"

/* ---- one link of several -------------------------------------------------------------------- */

DEV_FN void prim_tree_from(struct prim *p, const struct prim_tree *t, uint32_t link)
{
	p->recv = prim_edge_recv(p, link);
	ASSERT(p->recv->peer >= 0); /* the rank has this link */
	p->recv_step = p->recv->step + t->done;
	p->other = link;
	p->tail_seen = 0;
}

DEV_FN void prim_tree_to(struct prim *p, const struct prim_tree *t, uint32_t link)
{
	p->send = prim_edge_send(p, link);
	ASSERT(p->send->peer >= 0);
	p->send_step = p->send->step + t->done;
	p->other = link;
	p->head_seen = 0;
}

DEV_FN bool prim_tree_has(uint32_t links, uint32_t link)
{
	return links >> link & 1;
}

/* Returns the first of the links from `link` on; DEV_TREE_LINKS: there is no further one. */
DEV_FN uint32_t prim_tree_next(uint32_t links, uint32_t link)
{
	while (link < DEV_TREE_LINKS && !prim_tree_has(links, link))
		link++;
	return link;
}

#define PRIM_TREE_EACH(link, links)                                                                \
	for (uint32_t link = prim_tree_next(links, 0); link < DEV_TREE_LINKS;                      \
	     link = prim_tree_next(links, link + 1))

/* Waits for the credit of this thread's links: of `threads` threads, each takes every threads-th
 * link. */
DEV_FN void prim_tree_wait_send(struct prim *p, const struct prim_tree *t, uint32_t threads)
{
	for (uint32_t k = p->thread; k < DEV_TREE_LINKS; k += threads) {
		if (!prim_tree_has(t->to, k) || p->stopped)
			continue;
		prim_tree_to(p, t, k);
		p->stopped = !prim_wait_send(p);
	}
}

/* Waits for the data of this thread's links. If there are enough threads, these are not the threads
 * that wait for credit. */
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

/* Called by one thread, after the barrier that ends the move. `tails`: links whose receiver needs
 * this rank's tail. */
DEV_FN void prim_tree_post(struct prim *p, const struct prim_tree *t, uint32_t tails,
			   uint32_t bytes)
{
	ASSERT(!(tails & ~t->to));
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

/* Returns the operation for all sources after the first one: a factor applies only to this rank's
 * input. */
DEV_FN enum dev_op prim_tree_op(const struct prim *p)
{
	return p->op == DEV_PREMUL_SUM ? DEV_SUM : p->op;
}

/* ---- SIMPLE --------------------------------------------------------------------------------- */

/* One pass of a move. A barrier must separate two passes: a thread may get other elements in the
 * next one. */
struct prim_tree_pass {
	const void *src[2];
	void *dst[2];
	int nsrc, ndst;
	enum dev_op op;
	bool last; /* the last pass of a reduction */
};

DEV_FN void prim_tree_pass(struct prim *p, const struct prim_tree_pass *s, uint64_t count)
{
	dev_reduce_copy(p->d, p->thread, prim_movers(p), s->src, s->nsrc, s->dst, s->ndst, count,
			p->type, s->op, p->scale, s->last);
}

/* Reduces all sources except the last one into s->src[0], and sets s->op for the next pass. */
DEV_FN void prim_tree_gather(struct prim *p, const struct prim_tree *t, const struct prim_move *m,
			     struct prim_tree_pass *s)
{
	const bool input = (m->flags & PRIM_INPUT) != 0;
	uint32_t links = t->from;

	s->op = input ? p->op : t->undivided && p->op == DEV_SUM_POSTDIV ? p->op : DEV_SUM;
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

/* Makes the output the source of later passes. In place, the input is overwritten by then. */
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

/* Does the last pass of the reduction, and as many copies as there are links. */
DEV_FN void prim_tree_scatter(struct prim *p, const struct prim_tree *t, const struct prim_move *m,
			      struct prim_tree_pass *s)
{
	s->ndst = 0;
	s->last = (m->flags & PRIM_LAST) || t->undivided;
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

/* Called by the movers. */
DEV_FN void prim_tree_simple_move(struct prim *p, const struct prim_tree *t,
				  const struct prim_move *m)
{
	struct prim_tree_pass s;

	ASSERT(p->chunk_steps == 1); /* a chunk has one slot of each link */
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
