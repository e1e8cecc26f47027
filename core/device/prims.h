/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitives that collective programs are made of, protocol SIMPLE: move one chunk between the
 * user's buffers and the connections to the ring's neighbours. All threads of the group that works
 * on a collective call the same primitive with the same arguments.
 *
 *   prim_send                   input -> next
 *   prim_recv                   previous -> output
 *   prim_recv_copy_send         previous -> output and next
 *   prim_recv_reduce_send       previous op input -> next
 *   prim_recv_reduce_copy_send  previous op input -> output and next
 *
 * A chunk is DEV_CHUNK_STEPS steps in slices of DEV_SLICE_STEPS. For each slice:
 *
 *   wait      one thread waits for data (tail >= step + slice), one for credit
 *             (head + DEV_STEPS >= step + slice);
 *   barrier   tells the others; a launch that was aborted ends here, for all of them;
 *   move      dev_reduce_copy by all threads;
 *   barrier   all of it was read and written;
 *   post      the last warp: fence (release, system), then head to the previous rank and tail to
 *             the next; before the tail, toward a proxy, the slot's size and offset.
 *
 * Slices that are empty still wait and post: both ends count the same steps (steps.h). With one
 * warp its first lane does all three jobs; with width 1 a group may be a single thread.
 *
 * Errors: false when the launch was aborted; the caller returns at once, and nothing more moves.
 */
#ifndef CORE_DEVICE_PRIMS_H
#define CORE_DEVICE_PRIMS_H

#include "core/device/shim.h"
#include "core/device/steps.h"

/* The block's shared memory. */
struct dev_block {
	struct dev_comm comm;
	struct dev_channel channel; /* steps in here are current between works */
	uint32_t aborted;
	uint32_t pad0;
};

/* One thread's view of the collective that its group works on. */
struct prim {
	struct dev *d;
	struct dev_block *block;
	uint32_t thread, threads; /* in the group */
	uint64_t recv_step, send_step;
	uint64_t tail_seen, head_seen; /* of what must hold of a FIFO */
	const uint8_t *input;
	uint8_t *output;
	enum dev_type type;
	enum dev_op op;
	uint32_t type_bytes;
	uint32_t pad0;
	uint64_t scale;
};

/* What one primitive does with a chunk. */
struct prim_move {
	bool recv, send;
	bool reduce; /* the user's input takes part */
	bool store;  /* the user's output is written */
	bool last;   /* the reduction ends here: divide, if the operation says so */
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
	if (!holds && !dev_peek_u32(p->d, (const void *)(uintptr_t)p->block->comm.abort))
		dev_fifo_broken(p->d, p->block->comm.rank, c->channel, c->peer, what, step, value);
}

DEV_FN void prim_check_recv(struct prim *p)
{
	const struct dev_conn *c = &p->block->channel.ring_recv;
	uint64_t tail = dev_peek_u64(p->d, (const void *)(uintptr_t)c->tail);

	prim_check(p, c, tail >= p->recv_step + DEV_SLICE_STEPS && tail >= p->tail_seen,
		   "recv: the tail went back", p->recv_step, tail);
	prim_check(p, c, tail <= p->recv_step + DEV_STEPS,
		   "recv: the tail is beyond the credit that was given", p->recv_step, tail);
	p->tail_seen = tail;
}

DEV_FN void prim_check_send(struct prim *p)
{
	const struct dev_conn *c = &p->block->channel.ring_send;
	uint64_t head = dev_peek_u64(p->d, (const void *)(uintptr_t)c->head);

	prim_check(p, c, head + DEV_STEPS >= p->send_step + DEV_SLICE_STEPS && head >= p->head_seen,
		   "send: the head went back", p->send_step, head);
	prim_check(p, c, head <= p->send_step, "send: the head is beyond what was sent",
		   p->send_step, head);
	p->head_seen = head;
}

DEV_FN void prim_check_slot(struct prim *p, const struct dev_conn *c, const struct dev_fifo_slot *f)
{
	uint32_t size = dev_peek_u32(p->d, (const void *)&f->size);

	prim_check(p, c, size == DEV_FIFO_SIZE_NONE, "send: the proxy has not taken back the slot",
		   p->send_step, size);
}
#else
#define prim_check_recv(p)       ((void)0)
#define prim_check_send(p)       ((void)0)
#define prim_check_slot(p, c, f) ((void)0)
#endif

/* ---- waiting -------------------------------------------------------------------------------- */

DEV_FN void prim_barrier(struct prim *p)
{
	if (p->threads == dev_threads(p->d))
		dev_barrier(p->d);
	else
		dev_barrier_named(p->d, 1, (int)p->threads);
}

DEV_FN bool prim_wait_recv(struct prim *p)
{
	const struct dev_conn *c = &p->block->channel.ring_recv;
	struct wait w;

	w.on = (const void *)c->tail;
	w.want = p->recv_step + DEV_SLICE_STEPS;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = "ring recv: data in slot";
	w.from.rank = c->peer;
	w.from.channel = c->channel;
	w.from.step = (int64_t)p->recv_step;
	w.from.object = "kernel or proxy that fills the slot";
	w.deadline_ns = 0;
	if (!dev_wait(p->d, &w, NULL))
		return false;
	prim_check_recv(p);
	return true;
}

DEV_FN bool prim_wait_send(struct prim *p)
{
	const struct dev_conn *c = &p->block->channel.ring_send;
	uint64_t end = p->send_step + DEV_SLICE_STEPS;
	struct wait w;

	if (end <= DEV_STEPS)
		return true; /* the ring's first round: every slot is free */
	w.on = (const void *)c->head;
	w.want = end - DEV_STEPS;
	w.mask = WAIT_MASK_ALL;
	w.kind = WAIT_GE;
	w.bytes = 8;
	w.why = "ring send: free slot";
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
DEV_FN bool prim_wait_slots(struct prim *p, bool recv, bool send)
{
	uint32_t send_waiter = p->threads > DEV_WARP_WIDTH ? DEV_WARP_WIDTH : 0;

	if (recv && p->thread == 0 && !prim_wait_recv(p))
		p->block->aborted = 1;
	if (send && p->thread == send_waiter && !prim_wait_send(p))
		p->block->aborted = 1;
	prim_barrier(p);
	return !p->block->aborted;
}

/* First byte of the slots that a slice occupies. Slices start at multiples of their steps and
 * DEV_STEPS is one, so a slice never wraps. */
DEV_FN uint8_t *prim_slot(const struct dev_conn *c, uint64_t step)
{
	return (uint8_t *)(uintptr_t)c->buffer + (step % DEV_STEPS) * c->step_bytes;
}

/* Element `offset` of the user's buffers is where the slice's `count` elements lie. */
DEV_FN void prim_move_slice(struct prim *p, struct prim_move m, uint64_t offset, uint64_t count)
{
	const void *srcs[2] = {NULL, NULL};
	void *dsts[2] = {NULL, NULL};
	int nsrc = 0, ndst = 0;

	if (m.reduce)
		srcs[nsrc++] = p->input + offset * p->type_bytes;
	if (m.recv)
		srcs[nsrc++] = prim_slot(&p->block->channel.ring_recv, p->recv_step);
	if (m.store)
		dsts[ndst++] = p->output + offset * p->type_bytes;
	if (m.send)
		dsts[ndst++] = prim_slot(&p->block->channel.ring_send, p->send_step);
	/* Without this rank's input it is a copy of what others reduced. */
	dev_reduce_copy(p->d, p->thread, p->threads, srcs, nsrc, dsts, ndst, count, p->type,
			m.reduce ? p->op : DEV_SUM, p->scale, m.last);
}

/* Toward a proxy: what the slice's slots hold. */
DEV_FN void prim_fill_fifo(struct prim *p, const struct dev_conn *c, uint32_t bytes)
{
	uint32_t slot = (uint32_t)(p->send_step % DEV_STEPS);
	struct dev_fifo_slot *f = (struct dev_fifo_slot *)(uintptr_t)c->fifo + slot;

	prim_check_slot(p, c, f);
	dev_store_u32(p->d, &f->offset, slot * c->step_bytes, SHARED_RELAXED, SHARED_SYSTEM);
	dev_store_u32(p->d, &f->size, bytes, SHARED_RELAXED, SHARED_SYSTEM);
}

/* One thread, after the barrier that ends the move. */
DEV_FN void prim_post(struct prim *p, bool recv, bool send, uint32_t bytes)
{
	const struct dev_conn *from = &p->block->channel.ring_recv;
	const struct dev_conn *to = &p->block->channel.ring_send;

	if (send && to->fifo)
		prim_fill_fifo(p, to, bytes);
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	if (recv)
		dev_store_u64(p->d, (shared_u64 *)(uintptr_t)from->head,
			      p->recv_step + DEV_SLICE_STEPS, SHARED_RELAXED, SHARED_SYSTEM);
	if (send)
		dev_store_u64(p->d, (shared_u64 *)(uintptr_t)to->tail,
			      p->send_step + DEV_SLICE_STEPS, SHARED_RELAXED, SHARED_SYSTEM);
}

/* One chunk of `count` elements at `offset`. */
DEV_FN bool prim_chunk(struct prim *p, struct prim_move m, uint64_t offset, uint64_t count)
{
	const struct dev_conn *c =
		m.send ? &p->block->channel.ring_send : &p->block->channel.ring_recv;
	uint64_t slice = steps_slice(count, c->step_bytes / p->type_bytes);
	uint32_t poster = (p->threads - 1) / DEV_WARP_WIDTH * DEV_WARP_WIDTH;

	for (int s = 0; s < DEV_CHUNK_STEPS / DEV_SLICE_STEPS; s++) {
		uint64_t n = MIN_OF(slice, count);

		if (!prim_wait_slots(p, m.recv, m.send))
			return false;
		if (n)
			prim_move_slice(p, m, offset, n);
		prim_barrier(p);
		if (p->thread == poster)
			prim_post(p, m.recv, m.send, (uint32_t)(n * p->type_bytes));
		p->recv_step += m.recv ? DEV_SLICE_STEPS : 0;
		p->send_step += m.send ? DEV_SLICE_STEPS : 0;
		offset += n;
		count -= n;
	}
	return true;
}

DEV_FN bool prim_send(struct prim *p, uint64_t offset, uint64_t count)
{
	struct prim_move m = {false, true, true, false, false};
	return prim_chunk(p, m, offset, count);
}

DEV_FN bool prim_recv(struct prim *p, uint64_t offset, uint64_t count)
{
	struct prim_move m = {true, false, false, true, false};
	return prim_chunk(p, m, offset, count);
}

DEV_FN bool prim_recv_copy_send(struct prim *p, uint64_t offset, uint64_t count)
{
	struct prim_move m = {true, true, false, true, false};
	return prim_chunk(p, m, offset, count);
}

DEV_FN bool prim_recv_reduce_send(struct prim *p, uint64_t offset, uint64_t count)
{
	struct prim_move m = {true, true, true, false, false};
	return prim_chunk(p, m, offset, count);
}

DEV_FN bool prim_recv_reduce_copy_send(struct prim *p, uint64_t offset, uint64_t count)
{
	struct prim_move m = {true, true, true, true, true};
	return prim_chunk(p, m, offset, count);
}

#endif
