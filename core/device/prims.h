/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives that collective programs are made of, protocol SIMPLE: each moves one chunk between
 * the user's buffers and the connections to the neighbours in the ring. All threads of the group
 * that works on a collective call the same primitive with the same arguments.
 *
 *   prim_send                   input -> next
 *   prim_copy_send              input -> output and next
 *   prim_recv                   previous -> output
 *   prim_recv_copy_send         previous -> output and next
 *   prim_recv_reduce_send       previous op input -> next
 *   prim_recv_reduce_copy       previous op input -> output
 *   prim_recv_reduce_copy_send  previous op input -> output and next
 *
 * Offsets are elements of the user's input and output buffers. A chunk is the program's chunk
 * steps, in slices of its slice steps (programs.h). For each slice:
 *
 *   wait      one thread waits for data (tail >= step + slice), one for credit
 *             (head + DEV_STEPS >= step + slice);
 *   barrier   the other threads learn of it; a launch that was aborted ends here, for all of them;
 *   move      dev_reduce_copy by all threads;
 *   barrier   everything is read and written;
 *   post      the last warp: fence (release, system), then head to the previous rank and tail to
 *             the next; before the tail, toward a proxy, the slot's size and offset.
 *
 * Slices that are empty still wait and post: both ends count the same steps (steps.h). With one
 * warp its first lane does all three jobs; with width 1 a group may be a single thread.
 *
 * Errors: false when the launch was aborted; the caller returns immediately, and nothing more moves.
 */
#ifndef CORE_DEVICE_PRIMS_H
#define CORE_DEVICE_PRIMS_H

#include "core/device/shim.h"
#include "core/device/steps.h"

/* The block's shared memory. */
struct dev_block {
	struct dev_comm comm;
	struct dev_channel channel;
	struct dev_conn ring_recv, ring_send;  /* copies; their steps are current between works */
	struct dev_conn pair[DEV_MAX_WARPS];   /* copies, of the groups of a batch of messages */
	struct dev_work work[DEV_BATCH_WORKS]; /* copies: those that run, and the next ones */
	uint32_t at[DEV_BATCH_WORKS];          /* where the launch has each (struct dev_works) */
	struct dev_share share;                /* of the FIFO's numbers */
	uint32_t aborted[DEV_MAX_WARPS]; /* of each group; a collective's group is the first */
};

/* One thread's view of the collective that its group works on. */
struct prim {
	struct dev *d;
	struct dev_block *block;
	uint32_t thread, threads; /* in the group */
	uint32_t barrier;         /* the group's, if it is not the whole block; 0: it is one warp */
	uint32_t *aborted;        /* the group's */
	uint32_t chunk_steps, slice_steps;
	int32_t root;
	const struct dev_conn *recv, *send;
	uint64_t recv_step, send_step;
	uint64_t tail_seen, head_seen; /* of what must hold of a FIFO */
	const uint8_t *input;
	uint8_t *output;
	enum dev_type type;
	enum dev_op op;
	uint32_t type_bytes;
	uint32_t shown; /* what the trace has of this work: 1 << sent */
	uint64_t scale;
	uint64_t count; /* elements of a rank's block: dev_work's count */
};

/* What one primitive does with a chunk. */
enum prim_flag {
	PRIM_RECV = 1,
	PRIM_SEND = 2,
	PRIM_INPUT = 4,  /* the user's input takes part */
	PRIM_OUTPUT = 8, /* the user's output is written */
	PRIM_LAST = 16,  /* the reduction ends here: divide, if the operation needs it */
};

/* One chunk: `count` elements, `in` and `out` elements from the start of the user's buffers. */
struct prim_move {
	uint32_t flags;
	uint32_t pad0;
	uint64_t in, out, count;
};

/* ---- what must hold of a FIFO -----------------------------------------------------------------
 *
 * Where DEV_CHECK_FIFO says so: the doubles always, hardware with -DDEV_CHECK_FIFO=1. Looked at once a
 * wait has held, by the thread that waited; no access that anybody sees. What breaks it: a peer or a
 * proxy that counts wrong, gives credit early, or forgets to take back a slot.
 *
 *	receiving	step + slice <= tail <= step + DEV_STEPS: nobody has more credit; only rises
 *	sending		step + slice - DEV_STEPS <= head <= step: nobody takes what was not sent; only rises
 *	toward a proxy	a slot that is filled was taken back before: its size is DEV_FIFO_SIZE_NONE
 */
#if DEV_CHECK_FIFO
DEV_FN void prim_check(struct prim *p, const struct dev_conn *c, bool holds, const char *what,
		       uint64_t step, uint64_t value)
{
	/* a launch that was aborted has left its steps where they were, and those behind it are too */
	if (!holds && !dev_peek_u32(p->d, p->block->comm.abort))
		dev_fifo_broken(p->d, p->block->comm.rank, c->channel, c->peer, what, step, value);
}

DEV_FN void prim_check_recv(struct prim *p)
{
	const struct dev_conn *c = p->recv;
	uint64_t tail = dev_peek_u64(p->d, c->tail);

	prim_check(p, c, tail >= p->recv_step + p->slice_steps && tail >= p->tail_seen,
		   "recv: the tail went back", p->recv_step, tail);
	prim_check(p, c, tail <= p->recv_step + DEV_STEPS,
		   "recv: the tail is beyond the credit that was given", p->recv_step, tail);
	p->tail_seen = tail;
}

DEV_FN void prim_check_send(struct prim *p)
{
	const struct dev_conn *c = p->send;
	uint64_t head = dev_peek_u64(p->d, c->head);

	prim_check(p, c, head + DEV_STEPS >= p->send_step + p->slice_steps && head >= p->head_seen,
		   "send: the head went back", p->send_step, head);
	prim_check(p, c, head <= p->send_step, "send: the head is beyond what was sent",
		   p->send_step, head);
	p->head_seen = head;
}

DEV_FN void prim_check_slot(struct prim *p, const struct dev_conn *c, const struct dev_fifo_slot *f)
{
	uint32_t size = dev_peek_u32(p->d, &f->size);

	prim_check(p, c, size == DEV_FIFO_SIZE_NONE, "send: the proxy has not taken back the slot",
		   p->send_step, size);
}
#else
#define prim_check_recv(p)       ((void)0)
#define prim_check_send(p)       ((void)0)
#define prim_check_slot(p, c, f) ((void)0)
#endif

/* ---- in the trace ------------------------------------------------------------------------------
 *
 * On the doubles: the first slot that a work fills, and the first that it finds filled. */
#ifdef DEV_TRACE
DEV_FN void prim_show(struct prim *p, bool sent)
{
	if (p->shown & 1u << sent)
		return;
	p->shown |= 1u << sent;
	dev_slot_shown(p->d, &p->block->comm, sent ? p->send : p->recv,
		       sent ? p->send_step : p->recv_step, sent);
}
#else
#define prim_show(p, sent) ((void)0)
#endif

/* ---- waiting -------------------------------------------------------------------------------- */

DEV_FN void prim_barrier(struct prim *p)
{
	if (p->threads == dev_threads(p->d))
		dev_barrier(p->d);
	else if (p->barrier)
		dev_barrier_named(p->d, (int)p->barrier, (int)p->threads);
	else
		dev_warp_sync(p->d);
}

DEV_FN bool prim_wait_recv(struct prim *p)
{
	const struct dev_conn *c = p->recv;
	struct wait w;

	w.on = c->tail;
	w.want = p->recv_step + p->slice_steps;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = c->index ? "recv: data in slot" : "ring recv: data in slot";
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)p->recv_step;
	w.from.object = "kernel or proxy that fills the slot";
	w.deadline_ns = 0;
	if (!dev_wait(p->d, &w, NULL))
		return false;
	prim_check_recv(p);
	prim_show(p, false);
	return true;
}

DEV_FN bool prim_wait_send(struct prim *p)
{
	const struct dev_conn *c = p->send;
	uint64_t end = p->send_step + p->slice_steps;
	struct wait w;

	if (end <= DEV_STEPS)
		return true; /* the ring's first round: every slot is free */
	w.on = c->head;
	w.want = end - DEV_STEPS;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = c->index ? "send: free slot" : "ring send: free slot";
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)p->send_step;
	w.from.object = c->fifo ? "proxy that empties the slot" : "kernel that empties the slot";
	w.deadline_ns = 0;
	if (!dev_wait(p->d, &w, NULL))
		return false;
	prim_check_send(p);
	return true;
}

/* True when the slice's slots are ready on both sides. False on all threads alike. */
DEV_FN bool prim_wait_slots(struct prim *p, uint32_t flags)
{
	uint32_t send_waiter = p->threads > DEV_WARP_WIDTH ? DEV_WARP_WIDTH : 0;

	if ((flags & PRIM_RECV) && p->thread == 0 && !prim_wait_recv(p))
		*p->aborted = 1;
	if ((flags & PRIM_SEND) && p->thread == send_waiter && !prim_wait_send(p))
		*p->aborted = 1;
	prim_barrier(p);
	return !*p->aborted;
}

/* First byte of the slots that a slice occupies. Slices start at multiples of their steps and
 * DEV_STEPS is one, so a slice never wraps. */
DEV_FN uint8_t *prim_slot(const struct dev_conn *c, uint64_t step)
{
	return c->buffer[DEV_SIMPLE] + (step % DEV_STEPS) * c->step_bytes[DEV_SIMPLE];
}

DEV_FN void prim_move_slice(struct prim *p, const struct prim_move *m)
{
	const void *srcs[2] = {NULL, NULL};
	void *dsts[2] = {NULL, NULL};
	int nsrc = 0, ndst = 0;

	if (m->flags & PRIM_INPUT)
		srcs[nsrc++] = p->input + m->in * p->type_bytes;
	if (m->flags & PRIM_RECV)
		srcs[nsrc++] = prim_slot(p->recv, p->recv_step);
	if (m->flags & PRIM_OUTPUT)
		dsts[ndst++] = p->output + m->out * p->type_bytes;
	if (m->flags & PRIM_SEND)
		dsts[ndst++] = prim_slot(p->send, p->send_step);
	/* Without this rank's input it is a copy of what others reduced. */
	dev_reduce_copy(p->d, p->thread, p->threads, srcs, nsrc, dsts, ndst, m->count, p->type,
			(m->flags & PRIM_INPUT) ? p->op : DEV_SUM, p->scale,
			(m->flags & PRIM_LAST) != 0);
}

/* Toward a proxy: what the slice's slots hold. */
DEV_FN void prim_fill_fifo(struct prim *p, const struct dev_conn *c, uint32_t bytes)
{
	uint32_t slot = (uint32_t)(p->send_step % DEV_STEPS);
	struct dev_fifo_slot *f = c->fifo + slot;

	prim_check_slot(p, c, f);
	dev_store_u32(p->d, &f->offset, slot * c->step_bytes[DEV_SIMPLE], SHARED_RELAXED,
		      SHARED_SYSTEM);
	dev_store_u32(p->d, &f->size, bytes, SHARED_RELAXED, SHARED_SYSTEM);
}

/* One thread, after the barrier that ends the move. */
DEV_FN void prim_post(struct prim *p, uint32_t flags, uint32_t bytes)
{
	if (flags & PRIM_SEND)
		prim_show(p, true);
	if ((flags & PRIM_SEND) && p->send->fifo)
		prim_fill_fifo(p, p->send, bytes);
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	if (flags & PRIM_RECV)
		dev_store_u64(p->d, p->recv->head, p->recv_step + p->slice_steps, SHARED_RELAXED,
			      SHARED_SYSTEM);
	if (flags & PRIM_SEND)
		dev_store_u64(p->d, p->send->tail, p->send_step + p->slice_steps, SHARED_RELAXED,
			      SHARED_SYSTEM);
}

DEV_FN bool prim_chunk(struct prim *p, uint32_t flags, uint64_t in, uint64_t out, uint64_t count)
{
	const struct dev_conn *c = (flags & PRIM_SEND) ? p->send : p->recv;
	uint64_t slice = steps_slice(count, c->step_bytes[DEV_SIMPLE] / p->type_bytes,
				     p->chunk_steps, p->slice_steps);
	uint32_t poster = (p->threads - 1) / DEV_WARP_WIDTH * DEV_WARP_WIDTH;
	struct prim_move m = {flags, 0, in, out, 0};

	for (uint32_t s = 0; s < p->chunk_steps; s += p->slice_steps) {
		m.count = MIN_OF(slice, count);
		if (!prim_wait_slots(p, flags))
			return false;
		if (m.count)
			prim_move_slice(p, &m);
		prim_barrier(p);
		if (p->thread == poster)
			prim_post(p, flags, (uint32_t)(m.count * p->type_bytes));
		p->recv_step += (flags & PRIM_RECV) ? p->slice_steps : 0;
		p->send_step += (flags & PRIM_SEND) ? p->slice_steps : 0;
		m.in += m.count;
		m.out += m.count;
		count -= m.count;
	}
	return true;
}

/* Element `at` of the block that belongs to the rank at `position` of the ring, modulo its length:
 * its offset in a buffer of one block per rank. */
DEV_FN uint64_t prim_block_at(struct prim *p, int position, uint64_t at)
{
	int32_t rank =
		dev_get_i32(p->d, p->block->channel.ring.ranks + position % p->block->comm.nranks);

	return (uint64_t)rank * p->count + at;
}

DEV_FN bool prim_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_chunk(p, PRIM_SEND | PRIM_INPUT, in, 0, count);
}

DEV_FN bool prim_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_SEND | PRIM_INPUT | PRIM_OUTPUT, in, out, count);
}

DEV_FN bool prim_recv(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_OUTPUT, 0, out, count);
}

DEV_FN bool prim_recv_copy_send(struct prim *p, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_OUTPUT, 0, out, count);
}

DEV_FN bool prim_recv_reduce_send(struct prim *p, uint64_t in, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_INPUT, in, 0, count);
}

DEV_FN bool prim_recv_reduce_copy(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, in, out, count);
}

DEV_FN bool prim_recv_reduce_copy_send(struct prim *p, uint64_t in, uint64_t out, uint64_t count)
{
	return prim_chunk(p, PRIM_RECV | PRIM_SEND | PRIM_INPUT | PRIM_OUTPUT | PRIM_LAST, in, out,
			  count);
}

#endif
