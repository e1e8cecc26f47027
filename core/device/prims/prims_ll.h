/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol LL: a chunk crosses a connection in one slot, as lines of 16 bytes that hold 8 bytes of
 * data and the step's flag twice (work.h). For each chunk:
 *
 *	credit    One thread waits for the slot (head + DEV_STEPS >= step + 1). Toward a proxy it
 *	          writes the slot's size.
 *	barrier   The other threads learn of it. An aborted launch ends here, for all of them.
 *	lines     A warp moves 32 lines at a time. Each thread waits until both flags of a line are
 *	          the step's, reduces its data with the user's, and stores the next rank's line and
 *	          the result.
 *	barrier   All lines are read.
 *	post      The last warp stores the head for the previous rank.
 *
 * A chunk that is only received has no first barrier, and one that is only sent has no second one.
 * There is no fence: a flag is in the same word as its data, and the head is stored after all lines
 * were read.
 *
 * An empty chunk has no lines. Toward a proxy its size is 0; a receiver does not wait for it.
 *
 * Abort: a thread whose wait for a line is aborted moves nothing more and continues to the barrier,
 * where all threads end.
 *
 * Included by prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_LL_H
#define CORE_DEVICE_PRIMS_LL_H

#include "core/device/prims/prim.h"

/* The lines that a thread moves together. They are adjacent in the slot and in the user's
 * buffers. */
struct prim_lines {
	uint64_t first; /* number of the first line in the slot */
	uint32_t n, bytes;
	uint64_t data[DEV_LANE_LINES];
	struct v16 line[DEV_LANE_LINES];
};

/* Constant 1 on GPUs: an array that is indexed by a variable would be in memory. */
DEV_FN uint32_t prim_lines_n(const struct prim_lines *l)
{
	return DEV_LANE_LINES == 1 ? 1 : l->n;
}

DEV_FN uint64_t prim_ll_count(const struct prim *p, uint64_t count)
{
	return DIV_UP(count * p->type_bytes, DEV_LINE_DATA);
}

/* ---- credit --------------------------------------------------------------------------------- */

DEV_FN bool prim_ll_cleans(const struct prim *p)
{
	return (p->send_step & DEV_LINE_CLEAN_MASK) == DEV_LINE_CLEAN_MASK;
}

/* Stores the bytes of lines in the slot, for a proxy. It comes before the lines, whose flags show
 * the proxy when they are there. */
DEV_FN void prim_ll_fill_fifo(struct prim *p, uint64_t count)
{
	const struct dev_conn *c = p->send;
	struct dev_fifo_slot *f = c->fifo + p->send_step % DEV_STEPS;
	uint64_t bytes = prim_ll_cleans(p) ? c->step_bytes[DEV_LL]
					   : prim_ll_count(p, count) * DEV_LINE_BYTES;

	ASSERT(bytes <= c->step_bytes[DEV_LL]);
	prim_check_slot(p, c, f);
	dev_store_u32(p->d, &f->size, (uint32_t)bytes, SHARED_RELAXED, SHARED_SYSTEM);
}

/* Waits until the slot is free. Returns false on all threads if the launch was aborted. */
DEV_FN bool prim_ll_credit(struct prim *p, uint64_t count)
{
	if (p->thread == prim_send_waiter(p)) {
		if (!prim_wait_send(p))
			p->stopped = true;
		else if (p->send->fifo)
			prim_ll_fill_fifo(p, count);
	}
	return prim_barrier(p);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Returns false if the launch was aborted. */
DEV_FN bool prim_ll_recv(struct prim *p, struct prim_lines *l)
{
	const struct dev_conn *c = p->recv;
	struct wait w;

	ASSERT((l->first + prim_lines_n(l)) * DEV_LINE_BYTES <= c->step_bytes[DEV_LL]);
	w.on = prim_slot(c, DEV_LL, p->recv_step) + l->first * DEV_LINE_BYTES;
	w.want = DEV_LINE_FLAG(p->recv_step);
	w.mask = l->first; /* the line's number, for reports */
	w.kind = WAIT_LINE16;
	w.bytes = 0;
	w.why = c->index ? "recv: line of slot" : "ring recv: line of slot";
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)p->recv_step;
	w.from.object = "kernel or proxy that fills the line";
	w.deadline_ns = 0;
	w.idle = false;
	return dev_wait_lines(p->d, &w, l->line, prim_lines_n(l));
}

DEV_FN void prim_ll_send(struct prim *p, struct prim_lines *l)
{
	const uint64_t flag = (uint64_t)DEV_LINE_FLAG(p->send_step) << 32;

	ASSERT((l->first + prim_lines_n(l)) * DEV_LINE_BYTES <= p->send->step_bytes[DEV_LL]);
	for (uint32_t i = 0; i < prim_lines_n(l); i++) {
		l->line[i].lo = (uint32_t)l->data[i] | flag;
		l->line[i].hi = l->data[i] >> 32 | flag;
	}
	dev_store_lines(p->d, prim_slot(p->send, DEV_LL, p->send_step) + l->first * DEV_LINE_BYTES,
			l->line, prim_lines_n(l));
}

/* Combines the received data with the user's, if the primitive reduces. */
DEV_FN void prim_ll_combine(struct prim *p, const struct prim_move *m, struct prim_lines *l)
{
	uint64_t received[DEV_LANE_LINES];

	for (uint32_t i = 0; i < prim_lines_n(l); i++)
		received[i] = (uint32_t)l->line[i].lo | l->line[i].hi << 32;
	if (m->flags & PRIM_INPUT)
		dev_reduce_data(p->d, l->data, received, l->bytes, p->type, p->op, p->scale,
				(m->flags & PRIM_LAST) != 0, p->known);
	else
		for (uint32_t i = 0; i < prim_lines_n(l); i++)
			l->data[i] = received[i];
}

/* Returns false if the launch was aborted. */
DEV_FN bool prim_ll_move(struct prim *p, const struct prim_move *m, struct prim_lines *l)
{
	uint64_t at = l->first * DEV_LINE_DATA;

	l->data[prim_lines_n(l) - 1] = 0; /* the last one may be short */
	if (m->flags & PRIM_INPUT)
		dev_get_data(p->d, l->data, p->input + m->in * p->type_bytes + at, l->bytes,
			     p->type_bytes);
	if (m->flags & PRIM_RECV) {
		if (!prim_ll_recv(p, l))
			return false;
		if (p->thread == 0)
			prim_show(p, false);
		prim_ll_combine(p, m, l);
	} else {
		dev_reduce_data(p->d, l->data, NULL, l->bytes, p->type, p->op, p->scale,
				(m->flags & PRIM_LAST) != 0, p->known);
	}
	if ((m->flags & PRIM_SEND) && p->thread == 0)
		prim_show(p, true); /* before the receiver can see the line */
	if (m->flags & PRIM_SEND)
		prim_ll_send(p, l);
	if (m->flags & PRIM_OUTPUT)
		dev_put_data(p->d, p->output + m->out * p->type_bytes + at, l->data, l->bytes,
			     p->type_bytes);
	return true;
}

/* Each warp moves 32 lines at a time, and the warps alternate. Returns the thread's first line,
 * from line `from` on. prim_ll_stride is the distance to its next ones. */
DEV_FN uint64_t prim_ll_first(const struct prim *p, uint64_t from)
{
	return from + (uint64_t)p->thread * DEV_LANE_LINES;
}

DEV_FN uint64_t prim_ll_stride(const struct prim *p)
{
	return (uint64_t)p->threads * DEV_LANE_LINES;
}

DEV_FN void prim_ll_lines(struct prim *p, const struct prim_move *m)
{
	uint64_t bytes = m->count * p->type_bytes, end = prim_ll_count(p, m->count);
	struct prim_lines l;

	for (l.first = prim_ll_first(p, 0); l.first < end; l.first += prim_ll_stride(p)) {
		l.n = (uint32_t)MIN_OF(end - l.first, (uint64_t)DEV_LANE_LINES);
		l.bytes = (uint32_t)MIN_OF(bytes - l.first * DEV_LINE_DATA,
					   (uint64_t)(l.n * DEV_LINE_DATA));
		if (!prim_ll_move(p, m, &l)) {
			p->stopped = true;
			return;
		}
	}
}

/* Stores the step's flag into the rest of the slot: see DEV_LINE_CLEAN_MASK. */
DEV_FN void prim_ll_clean(struct prim *p, uint64_t count)
{
	uint64_t end = p->send->step_bytes[DEV_LL] / DEV_LINE_BYTES;
	struct prim_lines l;

	for (uint32_t i = 0; i < DEV_LANE_LINES; i++)
		l.data[i] = 0;
	for (l.first = prim_ll_first(p, prim_ll_count(p, count)); l.first < end;
	     l.first += prim_ll_stride(p)) {
		l.n = (uint32_t)MIN_OF(end - l.first, (uint64_t)DEV_LANE_LINES);
		prim_ll_send(p, &l);
	}
}

/* ---- the chunk ------------------------------------------------------------------------------ */

/* Called by the threads that read the lines, before one of them gives the slot back. */
DEV_FN bool prim_ll_post(struct prim *p)
{
	if (!prim_barrier(p))
		return false;
	if (p->thread == prim_poster(p))
		dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	return true;
}

DEV_FN bool prim_ll_chunk(struct prim *p, uint32_t flags, uint64_t in, uint64_t out, uint64_t count)
{
	const struct prim_move m = {flags, 0, in, out, count};

	if ((flags & PRIM_SEND) && !prim_ll_credit(p, count))
		return false;
	prim_ll_lines(p, &m);
	if ((flags & PRIM_SEND) && prim_ll_cleans(p))
		prim_ll_clean(p, count);
	if ((flags & PRIM_RECV) && !prim_ll_post(p))
		return false;
	p->recv_step += (flags & PRIM_RECV) != 0;
	p->send_step += (flags & PRIM_SEND) != 0;
	return true;
}

#endif
