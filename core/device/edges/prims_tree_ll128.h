/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol LL128 over the links of a tree: pairs of lines of 128 bytes (prims_ll128.h). For each
 * chunk:
 *
 *	ready     For each link a thread waits for the slot, and for the tail if lines may be torn.
 *	barrier   The other threads learn of it. An aborted launch ends here.
 *	lines     A warp moves 8 pairs at a time: it waits link after link, reduces, stores the
 *	          lines for each link, and the result.
 *	barrier   All lines are read and written.
 *	post      The last warp stores the heads. If lines may be torn, and toward proxies, it first
 *	          makes a fence, and then stores tails too.
 *
 * Included by prims_tree.h.
 */
#ifndef CORE_DEVICE_PRIMS_TREE_LL128_H
#define CORE_DEVICE_PRIMS_TREE_LL128_H

#include "core/device/prims/prims_ll128.h"
#include "core/device/edges/prims_tree_simple.h"

/* Returns those of the links whose sender's tail shows which slots are filled. */
DEV_FN uint32_t prim_tree_torn(struct prim *p, uint32_t links)
{
	uint32_t torn = 0;

	PRIM_TREE_EACH (k, links)
		torn |= (uint32_t)!prim_edge_recv(p, k)->whole_lines << k;
	return torn;
}

/* Returns those of the links whose receiver needs this rank's tail. */
DEV_FN uint32_t prim_tree_tails(struct prim *p, uint32_t links)
{
	uint32_t tails = 0;

	PRIM_TREE_EACH (k, links)
		tails |= (uint32_t)prim_ll128_has_tail(prim_edge_send(p, k)) << k;
	return tails;
}

/* Waits until the slots are ready on all links. Returns false on all threads if the launch was
 * aborted. */
DEV_FN bool prim_tree_ll128_ready(struct prim *p, const struct prim_tree *t)
{
	const struct prim_tree torn = {prim_tree_torn(p, t->from), 0, t->done, false};

	if (!t->to && !torn.from)
		return true;
	prim_tree_wait_send(p, t, p->threads);
	prim_tree_wait_recv(p, &torn, p->threads);
	return prim_barrier(p);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Reduces the data of the links with this rank's input, if that takes part. Returns false on all
 * lanes if the launch was aborted. */
DEV_FN bool prim_tree_ll128_gather(struct prim *p, const struct prim_tree *t,
				   const struct prim_move *m, struct prim_pairs *l)
{
	const bool input = (m->flags & PRIM_INPUT) != 0, last = (m->flags & PRIM_LAST) != 0;
	enum dev_op op = p->op;

	PRIM_TREE_EACH (k, t->from) {
		prim_tree_from(p, t, k);
		DEV_LANE_ROOM(p->d, p->recv->whole_lines, received);
		if (!prim_ll128_recv(p, l, received))
			return false;
		if (input)
			dev_reduce_pairs(p->d, l->data, received, l->bytes, p->type, op, p->scale,
					 last && prim_tree_next(t->from, k + 1) == DEV_TREE_LINKS,
					 p->known);
		else
			for (uint32_t i = 0; i < DEV_LANE_WORDS; i++)
				l->data[i] = received[i];
		op = prim_tree_op(p);
	}
	if (input && !t->from)
		dev_reduce_pairs(p->d, l->data, NULL, l->bytes, p->type, op, p->scale, last,
				 p->known);
	return true;
}

/* Returns false on all lanes if the launch was aborted. */
DEV_FN bool prim_tree_ll128_move(struct prim *p, const struct prim_tree *t,
				 const struct prim_move *m, struct prim_pairs *l)
{
	const uint64_t at = l->number * DEV_WARP_DATA;

	if (m->flags & PRIM_INPUT)
		dev_get_pairs(p->d, l->data, p->input + m->in * p->type_bytes + at, l->bytes,
			      p->type_bytes);
	if (!prim_tree_ll128_gather(p, t, m, l))
		return false;
	PRIM_TREE_EACH (k, t->to) {
		prim_tree_to(p, t, k);
		dev_store_pairs(p->d, prim_ll128_at(p->send, p->send_step, l), l->data, l->bytes,
				DEV_LINE128_FLAG(p->send_step));
	}
	if (m->flags & PRIM_OUTPUT)
		dev_put_pairs(p->d, p->output + m->out * p->type_bytes + at, l->data, l->bytes,
			      p->type_bytes);
	return true;
}

/* Returns false if the launch was aborted. prim_ll128_lines_once has the reason for the copies. */
DEV_FN_ONCE bool prim_tree_ll128_lines(struct prim p, struct prim_tree t, struct prim_move m)
{
	const uint32_t bytes = (uint32_t)(m.count * p.type_bytes);
	const uint32_t parts = prim_ll128_parts(&p, m.count);
	struct prim_pairs l;

	for (l.number = p.thread / DEV_WARP_WIDTH; l.number < parts;
	     l.number += p.threads / DEV_WARP_WIDTH) {
		l.bytes = MIN_OF(bytes - l.number * DEV_WARP_DATA, DEV_WARP_DATA);
		if (!prim_tree_ll128_move(&p, &t, &m, &l))
			return false;
	}
	return true;
}

/* ---- the chunk ------------------------------------------------------------------------------ */

/* Called when everything received was read and everything sent was stored. */
DEV_FN bool prim_tree_ll128_post(struct prim *p, const struct prim_tree *t, uint64_t count)
{
	uint64_t pairs = DIV_UP(count * p->type_bytes, (uint64_t)DEV_PAIR_DATA);
	uint32_t tails = prim_tree_tails(p, t->to);

	if (!tails && !t->from)
		return true;
	if (!prim_barrier(p))
		return false;
	if (p->thread == prim_poster(p))
		prim_tree_post(p, t, tails, (uint32_t)(pairs * DEV_PAIR_BYTES));
	return true;
}

DEV_FN void prim_tree_ll128_show(struct prim *p, const struct prim_tree *t, bool sent)
{
	PRIM_TREE_EACH (k, sent ? t->to : t->from) {
		if (sent)
			prim_tree_to(p, t, k);
		else
			prim_tree_from(p, t, k);
		prim_show(p, sent);
	}
}

DEV_FN bool prim_tree_ll128_chunk(struct prim *p, const struct prim_tree *t,
				  const struct prim_move *m)
{
	if (!prim_tree_ll128_ready(p, t))
		return false;
	if (p->thread == 0 && m->count)
		prim_tree_ll128_show(p, t, true); /* before a receiver can see a line */
	if (p->thread / DEV_WARP_WIDTH < prim_ll128_parts(p, m->count) &&
	    !prim_tree_ll128_lines(*p, *t, *m))
		p->stopped = true;
	else if (p->thread == 0 && m->count)
		prim_tree_ll128_show(p, t, false);
	return prim_tree_ll128_post(p, t, m->count);
}

#endif
