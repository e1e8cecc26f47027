/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol SIMPLE: a chunk crosses a connection in slices of whole slots. For each slice:
 *
 *	wait      One thread waits for data (tail >= step + slice), one for credit (head + DEV_STEPS
 *	          >= step + slice).
 *	barrier   The other movers learn of it.
 *	move      dev_reduce_copy by the movers.
 *	barrier   All threads: everything is read and written. An aborted launch ends here.
 *	post      The last warp makes a fence (release, system), then stores the head for the
 *	          previous rank and the tail for the next one. Toward a proxy it first stores the
 *	          slot's size and offset.
 *
 * In a group of three warps or more the last warp moves nothing. Its fence lasts until the stores
 * of all movers have arrived; meanwhile they move the next slice. In a smaller group all threads
 * move.
 *
 * If the connection allows it, a result goes directly into the next rank's output instead of a slot
 * (prims_result.h). It takes the same steps, with the same waits and posts.
 *
 * Empty slices also wait and post. In a group of one warp its first lane does all three; with width
 * 1 a group may be a single thread. Included by prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_SIMPLE_H
#define CORE_DEVICE_PRIMS_SIMPLE_H

#include "core/device/prims/prim.h"
#include "core/device/prims/prims_result.h"

/* The number of the movers' named barrier is so much above that of their group. Groups of three
 * warps or more have the first five barriers. */
#define PRIM_MOVERS_BARRIER 8
DOPPEL_STATIC_CHECK(DEV_MAX_WARPS / 3 + PRIM_MOVERS_BARRIER <= 15,
		    "the movers' barriers are among the 15 that have a name");
DOPPEL_STATIC_CHECK(DEV_MAX_WARPS / 2 <= PRIM_MOVERS_BARRIER,
		    "the barriers of groups of two warps are below the movers'");

/* Returns the number of movers. They are the first threads of the group. */
DEV_FN uint32_t prim_movers(const struct prim *p)
{
	return p->threads >= 3 * DEV_WARP_WIDTH ? p->threads - DEV_WARP_WIDTH : p->threads;
}

DEV_FN bool prim_movers_barrier(struct prim *p)
{
	uint32_t movers = prim_movers(p);

	if (movers == p->threads)
		return prim_barrier(p);
	ASSERT(p->thread < movers && p->barrier > 0); /* a group of several warps */
	p->stopped = dev_barrier_named_any(p->d, (int)p->barrier + PRIM_MOVERS_BARRIER, (int)movers,
					   p->stopped);
	return !p->stopped;
}

/* Waits until the slice's slots are ready on both sides. Called by the movers. Returns false on all
 * of them if the launch was aborted. */
DEV_FN bool prim_wait_slots(struct prim *p, uint32_t flags)
{
	if ((flags & PRIM_RECV) && p->thread == 0 && !prim_wait_recv_of(p, p->send))
		p->stopped = true;
	if ((flags & PRIM_SEND) && p->thread == prim_send_waiter(p) &&
	    !prim_wait_send_of(p, p->send))
		p->stopped = true;
	return prim_movers_barrier(p);
}

/* A result that was received is in this rank's output already, if the connection allows that. */
DEV_FN void prim_move_slice(struct prim *p, const struct prim_move *m)
{
	const bool sends = (m->flags & PRIM_SEND) != 0, writes = (m->flags & PRIM_OUTPUT) != 0;
	const bool here = prim_result_received(p, m->flags);
	uint8_t *out = p->output + m->out * p->type_bytes;
	uint8_t *to = sends ? prim_send_to(p, m->flags, m->out) : NULL;
	const void *srcs[2] = {NULL, NULL};
	void *dsts[2] = {writes && !here ? out : to, to};
	int nsrc = 0, ndst = sends + (writes && !here);

	if (here && p->thread == 0)
		prim_check_taken(p);
	if (!ndst)
		return;
	if (m->flags & PRIM_INPUT)
		srcs[nsrc++] = p->input + m->in * p->type_bytes;
	if (m->flags & PRIM_RECV)
		srcs[nsrc++] = here ? out : prim_slot(p->recv, DEV_SIMPLE, p->recv_step);
	/* Without this rank's input it is a copy of reduced data. */
	dev_reduce_copy(p->d, p->thread, prim_movers(p), srcs, nsrc, dsts, ndst, m->count, p->type,
			(m->flags & PRIM_INPUT) ? p->op : DEV_SUM, p->scale,
			(m->flags & PRIM_LAST) != 0);
}

DEV_FN bool prim_simple_chunk(struct prim *p, uint32_t flags, uint64_t in, uint64_t out,
			      uint64_t count)
{
	const struct dev_conn *c = (flags & PRIM_SEND) ? p->send : p->recv;
	uint64_t slice = steps_slice(count, c->step_bytes[DEV_SIMPLE] / p->type_bytes,
				     p->chunk_steps, p->slice_steps);
	struct prim_move m = {flags, 0, in, out, 0};

	ASSERT(!(flags & PRIM_RECV) || p->recv_step % p->chunk_steps == 0);
	ASSERT(!(flags & PRIM_SEND) || p->send_step % p->chunk_steps == 0);
	for (uint32_t s = 0; s < p->chunk_steps; s += p->slice_steps) {
		m.count = MIN_OF(slice, count);
		if (p->thread < prim_movers(p) && prim_wait_slots(p, flags) && m.count)
			prim_move_slice(p, &m);
		if (!prim_barrier(p))
			return false;
		if (p->thread == prim_poster(p))
			prim_post(p, flags, (uint32_t)(m.count * p->type_bytes));
		p->recv_step += (flags & PRIM_RECV) ? p->slice_steps : 0;
		p->send_step += (flags & PRIM_SEND) ? p->slice_steps : 0;
		m.in += m.count;
		m.out += m.count;
		count -= m.count;
	}
	ASSERT(count == 0); /* the last slice took the rest */
	return true;
}

#endif
