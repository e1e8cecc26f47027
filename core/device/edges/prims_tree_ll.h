/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol LL over the links of a tree: lines whose flags show that they are filled (prims_ll.h).
 * For each chunk:
 *
 *	credit    For each link that is sent over, a thread waits for the slot. Toward a proxy it
 *	          writes the slot's size.
 *	barrier   The other threads learn of it. An aborted launch ends here.
 *	lines     For each of its lines, a thread waits link after link, reduces, stores the line
 *	          for each link, and the result.
 *	barrier   All lines are read.
 *	post      The last warp stores the head of each link that was received over.
 *
 * A chunk that is only received has no first barrier, and one that is only sent has no second one.
 *
 * Included by prims_tree.h.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_LL_H
#define CORE_DEVICE_PRIMS_TREE_LL_H

#include "core/device/prims/prims_ll.h"
#include "core/device/edges/prims_tree_simple.h"

/* ---- credit --------------------------------------------------------------------------------- */

/* Waits until all slots are free. Returns false on all threads if the launch was aborted. */
DEV_FN bool prim_tree_ll_credit(struct prim *p, const struct prim_tree *t, uint64_t count)
{
	for (uint32_t k = p->thread; k < DEV_TREE_LINKS; k += p->threads) {
		if (!prim_tree_has(t->to, k) || p->stopped)
			continue;
		prim_tree_to(p, t, k);
		p->stopped = !prim_wait_send(p);
		if (!p->stopped && p->send->fifo)
			prim_ll_fill_fifo(p, count);
	}
	return prim_barrier(p);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Combines the data of one link's lines with l->data. */
DEV_FN void prim_tree_ll_combine(struct prim *p, struct prim_lines *l, bool reduces, enum dev_op op,
				 bool last)
{
	uint64_t received[DEV_LANE_LINES];

	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		received[i] = (uint32_t)l->line[i].lo | l->line[i].hi << 32;
	if (reduces)
		dev_reduce_data(p->d, l->data, received, l->bytes, p->type, op, p->scale, last,
				p->known);
	else
		for (uint32_t i = 0; i < prim_lines_n(l); i++)
			l->data[i] = received[i];
}

/* Reduces the data of the links with this rank's input, if that takes part. Returns false if the
 * launch was aborted. */
DEV_FN bool prim_tree_ll_gather(struct prim *p, const struct prim_tree *t,
				const struct prim_move *m, struct prim_lines *l)
{
	const bool input = (m->flags & PRIM_INPUT) != 0, last = (m->flags & PRIM_LAST) != 0;
	enum dev_op op = p->op;

	PRIM_TREE_EACH (k, t->from) {
		prim_tree_from(p, t, k);
		if (!prim_ll_recv(p, l))
			return false;
		if (p->thread == 0)
			prim_show(p, false);
		prim_tree_ll_combine(p, l, input, op,
				     last && prim_tree_next(t->from, k + 1) == DEV_TREE_LINKS);
		op = prim_tree_op(p);
	}
	if (input && !t->from)
		dev_reduce_data(p->d, l->data, NULL, l->bytes, p->type, op, p->scale, last,
				p->known);
	return true;
}

/* Returns false if the launch was aborted. */
DEV_FN bool prim_tree_ll_move(struct prim *p, const struct prim_tree *t, const struct prim_move *m,
			      struct prim_lines *l)
{
	const uint64_t at = l->first * DEV_LINE_DATA;

	l->data[prim_lines_n(l) - 1] = 0; /* the last one may be short */
	if (m->flags & PRIM_INPUT)
		dev_get_data(p->d, l->data, p->input + m->in * p->type_bytes + at, l->bytes,
			     p->type_bytes);
	if (!prim_tree_ll_gather(p, t, m, l))
		return false;
	PRIM_TREE_EACH (k, t->to) {
		prim_tree_to(p, t, k);
		if (p->thread == 0)
			prim_show(p, true); /* before the receiver can see the line */
		prim_ll_send(p, l);
	}
	if (m->flags & PRIM_OUTPUT)
		dev_put_data(p->d, p->output + m->out * p->type_bytes + l->first * DEV_LINE_DATA,
			     l->data, l->bytes, p->type_bytes);
	return true;
}

DEV_FN void prim_tree_ll_lines(struct prim *p, const struct prim_tree *t, const struct prim_move *m)
{
	uint64_t bytes = m->count * p->type_bytes, end = prim_ll_count(p, m->count);
	struct prim_lines l;

	for (l.first = prim_ll_first(p, 0); l.first < end && !p->stopped;
	     l.first += prim_ll_stride(p)) {
		l.n = (uint32_t)MIN_OF(end - l.first, (uint64_t)DEV_LANE_LINES);
		l.bytes = (uint32_t)MIN_OF(bytes - l.first * DEV_LINE_DATA,
					   (uint64_t)(l.n * DEV_LINE_DATA));
		p->stopped = !prim_tree_ll_move(p, t, m, &l);
	}
}

/* ---- the chunk ------------------------------------------------------------------------------ */

/* Called by the threads that read the lines, before one of them gives the slots back. */
DEV_FN bool prim_tree_ll_post(struct prim *p, const struct prim_tree *t)
{
	if (!prim_barrier(p))
		return false;
	if (p->thread != prim_poster(p))
		return true;
	PRIM_TREE_EACH (k, t->from) {
		prim_tree_from(p, t, k);
		dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	}
	return true;
}

DEV_FN bool prim_tree_ll_chunk(struct prim *p, const struct prim_tree *t, const struct prim_move *m)
{
	if (t->to && !prim_tree_ll_credit(p, t, m->count))
		return false;
	prim_tree_ll_lines(p, t, m);
	PRIM_TREE_EACH (k, t->to) {
		prim_tree_to(p, t, k);
		if (prim_ll_cleans(p))
			prim_ll_clean(p, m->count);
	}
	return !t->from || prim_tree_ll_post(p, t);
}

#endif
