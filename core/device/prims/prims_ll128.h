/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol LL128: a chunk crosses a connection in one slot, as pairs of lines of 128 bytes, in
 * which 15 of 16 words are data (work.h). It has the latency of LL if lines arrive whole, as a warp
 * stored them: then the flag of a line is valid for all of it. For each chunk:
 *
 *	ready     One thread waits for the slot (head + DEV_STEPS >= step + 1). If lines may be
 *	          torn, another one waits for the tail.
 *	barrier   The other threads learn of it. An aborted launch ends here, for all of them.
 *	lines     A warp moves 8 pairs at a time. It waits until all flags are the step's, reduces
 *	          the data with the user's, and stores the next rank's lines and the result.
 *	barrier   All lines are read and written.
 *	post      The last warp stores the head for the previous rank. If lines may be torn, and
 *	          toward a proxy, it first makes a fence, and then stores the tail too, as in
 *	          SIMPLE.
 *
 * Lines are whole between GPUs that NVLink connects (p2p.c). They may be torn over
 * PCIe, in host memory, and over a network. A chunk that is only received in whole lines has no
 * first barrier, and one that is only sent in whole lines has no second one.
 *
 * Abort: a warp whose wait for lines is aborted moves nothing more and continues to the barrier,
 * where all threads end.
 *
 * Included by prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_LL128_H
#define CORE_DEVICE_PRIMS_LL128_H

#include "core/device/prims/prim.h"

/* The pairs that a warp moves together, with this lane's words of their data. They are adjacent in
 * the slot and in the user's buffers. */
struct prim_pairs {
	uint32_t number; /* index among the equal parts of the slot */
	uint32_t bytes;  /* of data in the pairs */
	uint64_t data[DEV_LANE_WORDS];
};

/* Returns true if the sender's tail shows which slots are filled: lines may be torn. */
DEV_FN bool prim_ll128_has_tail(const struct dev_conn *c)
{
	return !c->whole_lines || c->fifo;
}

/* ---- ready ---------------------------------------------------------------------------------- */

/* Waits until the slots are ready on both sides. Returns false on all threads if the launch was
 * aborted. */
DEV_FN bool prim_ll128_ready(struct prim *p, uint32_t flags)
{
	bool waits_recv = (flags & PRIM_RECV) && !p->recv->whole_lines;

	if (!(flags & PRIM_SEND) && !waits_recv)
		return true;
	if (waits_recv && p->thread == 0 && !prim_wait_recv(p))
		p->stopped = true;
	if ((flags & PRIM_SEND) && p->thread == prim_send_waiter(p) && !prim_wait_send(p))
		p->stopped = true;
	return prim_barrier(p);
}

/* ---- lines ---------------------------------------------------------------------------------- */

DEV_FN uint8_t *prim_ll128_at(const struct dev_conn *c, uint64_t step, const struct prim_pairs *l)
{
	ASSERT(l->number * (DEV_WARP_PAIRS * DEV_PAIR_BYTES) +
		       DIV_UP(l->bytes, DEV_PAIR_DATA) * DEV_PAIR_BYTES <=
	       c->step_bytes[DEV_LL128]);
	return prim_slot(c, DEV_LL128, step) + l->number * (DEV_WARP_PAIRS * DEV_PAIR_BYTES);
}

/* Returns false on all lanes if the launch was aborted. */
DEV_FN bool prim_ll128_recv(struct prim *p, const struct prim_pairs *l, uint64_t *received)
{
	const struct dev_conn *c = p->recv;
	struct wait w;

	w.on = prim_ll128_at(c, p->recv_step, l);
	w.want = DEV_LINE128_FLAG(p->recv_step);
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_EQ;
	w.bytes = 8;
	w.why = c->index ? "recv: line of slot" : "ring recv: line of slot";
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)p->recv_step;
	w.from.object = "kernel or proxy that fills the line";
	w.deadline_ns = 0;
	w.idle = false;
	return dev_wait_pairs(p->d, &w, received, l->bytes);
}

/* Computes the lane's words of the result from the user's input and the received words. Each call
 * has constant flags: on a GPU both arrays therefore stay in registers. Returns false on all lanes
 * if the launch was aborted. */
DEV_FN bool prim_ll128_combine(struct prim *p, const struct prim_move *m, struct prim_pairs *l)
{
	const bool input = (m->flags & PRIM_INPUT) != 0, last = (m->flags & PRIM_LAST) != 0;
	if (input)
		dev_get_pairs(p->d, l->data,
			      p->input + m->in * p->type_bytes + l->number * DEV_WARP_DATA,
			      l->bytes, p->type_bytes);
	if (!(m->flags & PRIM_RECV)) {
		dev_reduce_pairs(p->d, l->data, NULL, l->bytes, p->type, p->op, p->scale, last,
				 p->known);
		return true;
	}
	DEV_LANE_ROOM(p->d, p->recv->whole_lines, received);
	if (!prim_ll128_recv(p, l, received))
		return false;
	if (input)
		dev_reduce_pairs(p->d, l->data, received, l->bytes, p->type, p->op, p->scale, last,
				 p->known);
	else
		for (uint32_t i = 0; i < DEV_LANE_WORDS; i++)
			l->data[i] = received[i];
	return true;
}

/* Returns false on all lanes if the launch was aborted. */
DEV_FN bool prim_ll128_move(struct prim *p, const struct prim_move *m, struct prim_pairs *l)
{
	if (!prim_ll128_combine(p, m, l))
		return false;
	if (m->flags & PRIM_SEND)
		dev_store_pairs(p->d, prim_ll128_at(p->send, p->send_step, l), l->data, l->bytes,
				DEV_LINE128_FLAG(p->send_step));
	if (m->flags & PRIM_OUTPUT)
		dev_put_pairs(p->d, p->output + m->out * p->type_bytes + l->number * DEV_WARP_DATA,
			      l->data, l->bytes, p->type_bytes);
	return true;
}

/* Returns the number of parts of a chunk. The warps alternate. */
DEV_FN uint32_t prim_ll128_parts(const struct prim *p, uint64_t count)
{
	ASSERT(count <= UINT32_MAX / p->type_bytes); /* a chunk is one slot */
	return DIV_UP((uint32_t)(count * p->type_bytes), DEV_WARP_DATA);
}

/* Returns false if the launch was aborted. */
DEV_FN bool prim_ll128_lines(struct prim *p, const struct prim_move *m)
{
	const uint32_t bytes = (uint32_t)(m->count * p->type_bytes);
	const uint32_t parts = prim_ll128_parts(p, m->count);
	struct prim_pairs l;

	for (l.number = p->thread / DEV_WARP_WIDTH; l.number < parts;
	     l.number += p->threads / DEV_WARP_WIDTH) {
		l.bytes = MIN_OF(bytes - l.number * DEV_WARP_DATA, DEV_WARP_DATA);
		if (!prim_ll128_move(p, m, &l))
			return false;
	}
	return true;
}

/* A real function on a GPU too: the code exists once. It gets a copy of *p, because nvcc keeps a
 * struct in memory if its address is passed on. The copy costs more time than a line, so a warp
 * without a part of the chunk does not call it. */
DEV_FN_ONCE bool prim_ll128_lines_once(struct prim p, struct prim_move m)
{
	return prim_ll128_lines(&p, &m);
}

/* ---- the chunk ------------------------------------------------------------------------------ */

/* Called when everything received was read and everything sent was stored. */
DEV_FN bool prim_ll128_post(struct prim *p, uint32_t flags, uint64_t count)
{
	uint64_t pairs = DIV_UP(count * p->type_bytes, (uint64_t)DEV_PAIR_DATA);

	if ((flags & PRIM_SEND) && !prim_ll128_has_tail(p->send))
		flags &= ~(uint32_t)PRIM_SEND;
	if (!(flags & (PRIM_SEND | PRIM_RECV)))
		return true;
	if (!prim_barrier(p))
		return false;
	if (p->thread != prim_poster(p))
		return true;
	if ((flags & PRIM_SEND) || !p->recv->whole_lines)
		prim_post(p, flags, (uint32_t)(pairs * DEV_PAIR_BYTES));
	else
		dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	return true;
}

DEV_FN bool prim_ll128_chunk(struct prim *p, uint32_t flags, uint64_t in, uint64_t out,
			     uint64_t count)
{
	const struct prim_move m = {flags, 0, in, out, count};

	if (!prim_ll128_ready(p, flags))
		return false;
	if ((flags & PRIM_SEND) && p->thread == 0 && count)
		prim_show(p, true); /* before the receiver can see a line */
	if (p->thread / DEV_WARP_WIDTH < prim_ll128_parts(p, count) &&
	    !(p->alone ? prim_ll128_lines(p, &m) : prim_ll128_lines_once(*p, m)))
		p->stopped = true;
	else if ((flags & PRIM_RECV) && p->thread == 0 && count)
		prim_show(p, false);
	if (!prim_ll128_post(p, flags, count))
		return false;
	p->recv_step += (flags & PRIM_RECV) != 0;
	p->send_step += (flags & PRIM_SEND) != 0;
	return true;
}

#endif
