/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the sender's kernel writes directly into the receiver's buffer, over a connection
 * between two GPUs of one process that NVLink joins (dev_conn.put). No slot is filled, and the
 * receiver copies nothing. A message, or one channel's part of it, takes one step of its
 * connection:
 *
 *	receiver: offer   its buffer's address -> dev_send_mem.put; fence (release, system); head =
 *	                  step + 1
 *	sender: take      waits until head >= step + 1; adds DEV_PUT_TAKEN to the word, which
 *	                  returns the address; barrier
 *	sender: put       dev_reduce_copy by all threads; barrier
 *	sender: post      fence (release, system); tail = step + 1
 *	receiver: done    waits until tail >= step + 1; barrier
 *
 * An address belongs to the step that the head shows. Only these messages move the head of a
 * connection beyond its sender's step, and the receiver offers the next buffer when the previous
 * message is there. The sender therefore never finds the address of another message. The head also
 * gives the step's credit, which the protocols with slots take on the same connection.
 *
 * The program may free the buffer of a receiver whose kernel is aborted. No sender may then write
 * into it, so the receiver withdraws the address: it adds DEV_PUT_WITHDRAWN to the word. The rank
 * whose addition is second sees the first one. A sender that was first does not wait until it
 * posts. The receiver waits for that, at most PRIM_PUT_LEAVE_NS, because the sender's GPU may be
 * dead. A sender that was second writes nothing, and waits for its own abort.
 *
 * Called by send_recv.h, by all threads of a group. Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_PUT_H
#define CORE_DEVICE_PRIMS_PUT_H

#include "core/device/prims/prim.h"

#define PRIM_PUT_LEAVE_NS 1000000000ull

DEV_FN shared_u64 *prim_put_word(const struct dev_conn *c)
{
	return &((struct dev_send_mem *)(void *)c->head)->put;
}

/* The address, shared by the threads of the group. */
DEV_FN uint64_t *prim_put_of(const struct prim *p, const struct dev_conn *c)
{
	ASSERT(c >= p->block->pair && c < p->block->pair + DEV_MAX_WARPS);
	return &p->block->put[c - p->block->pair];
}

/* ---- the sender ------------------------------------------------------------------------------ */

DEV_FN struct wait prim_put_wait(const struct prim *p)
{
	struct wait w = prim_conn_wait(p->send, p->send->head, p->send_step + 1, p->send_step);

	w.why = "send: receive buffer";
	w.from.object = "kernel that offers the buffer";
	return w;
}

#if DEV_CHECK_FIFO
DEV_FN void prim_check_put_head(struct prim *p)
{
	uint64_t head = dev_peek_u64(p->d, p->send->head);

	prim_check(p, p->send, head == p->send_step + 1,
		   "send: the head is not that of the buffer that was offered", p->send_step, head);
}

DEV_FN void prim_check_put(struct prim *p, uint64_t word)
{
	prim_check(p, p->send, word && !(word & DEV_PUT_TAKEN),
		   "send: the receiver shows a buffer, and its address is not there", p->send_step,
		   word);
}
#else
#define prim_check_put_head(p)  ((void)0)
#define prim_check_put(p, word) ((void)(word))
#endif

/* Takes the address out of the word. `w`: the wait that has ended. Returns 0 if the launch was
 * aborted. */
DEV_FN uint64_t prim_put_claim(struct prim *p, struct wait *w)
{
	uint64_t word = dev_add_u64(p->d, prim_put_word(p->send), DEV_PUT_TAKEN, SHARED_RELAXED,
				    SHARED_SYSTEM);

	prim_check_put(p, word);
	if (!(word & DEV_PUT_WITHDRAWN))
		return word;
	w->want = ~0ull; /* a value that no step reaches */
	w->why = "send: receive buffer, which an abort withdrew";
	(void)dev_wait(p->d, w, NULL);
	return 0;
}

/* Called by one thread. Returns 0 if the launch was aborted. */
DEV_FN uint64_t prim_put_take(struct prim *p)
{
	struct wait w = prim_put_wait(p);

	if (!dev_wait(p->d, &w, NULL))
		return 0;
	prim_check_put_head(p);
	return prim_put_claim(p, &w);
}

/* Moves the whole message to the address that the group has. */
DEV_FN bool prim_put_move(struct prim *p, uint64_t bytes)
{
	const void *src = p->input;
	void *dst = (void *)(uintptr_t)*prim_put_of(p, p->send);

	dev_reduce_copy(p->d, p->thread, p->threads, &src, 1, &dst, 1, bytes, DEV_U8, DEV_SUM, 0,
			false);
	return prim_barrier(p);
}

DEV_FN bool prim_put_send(struct prim *p, uint64_t bytes)
{
	if (p->thread == 0) {
		uint64_t to = prim_put_take(p);

		*prim_put_of(p, p->send) = to;
		p->stopped = !to;
	}
	if (!prim_barrier(p) || !prim_put_move(p, bytes))
		return false;
	if (p->thread == prim_poster(p))
		prim_post(p, PRIM_SEND, 0);
	p->send_step++;
	return true;
}

/* ---- the receiver ---------------------------------------------------------------------------- */

/* The fence orders this rank's earlier accesses to the buffer and to the slots before the head. */
DEV_FN void prim_put_offer(struct prim *p)
{
	ASSERT((uintptr_t)p->output < DEV_PUT_RELEASED); /* the word's other bits are free */
	dev_store_u64(p->d, prim_put_word(p->recv), (uintptr_t)p->output, SHARED_RELAXED,
		      SHARED_SYSTEM);
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	dev_store_u64(p->d, p->recv->head, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
}

/* Withdraws the address after an abort: no sender writes into the buffer afterwards. `w`: the wait
 * that the abort ended. */
DEV_FN void prim_put_withdraw(struct prim *p, struct wait *w)
{
	uint64_t word = dev_add_u64(p->d, prim_put_word(p->recv), DEV_PUT_WITHDRAWN, SHARED_RELAXED,
				    SHARED_SYSTEM);

	if (!(word & DEV_PUT_TAKEN))
		return;
	w->deadline_ns = dev_now_ns(p->d) + PRIM_PUT_LEAVE_NS;
	dev_set_abort(p->d, NULL);
	(void)dev_wait(p->d, w, NULL);
	dev_set_abort(p->d, p->block->comm.abort);
}

/* Called by one thread. Returns false if the launch was aborted. */
DEV_FN bool prim_put_wait_data(struct prim *p)
{
	struct wait w = prim_recv_wait(p);

	w.why = "recv: data in buffer";
	w.from.object = "kernel that fills the buffer";
	if (!dev_wait(p->d, &w, NULL)) {
		prim_put_withdraw(p, &w);
		return false;
	}
	prim_check_recv(p);
	prim_show(p, false);
	return true;
}

DEV_FN bool prim_put_recv(struct prim *p)
{
	if (p->thread == 0) {
		prim_put_offer(p);
		p->stopped = !prim_put_wait_data(p);
	}
	p->recv_step++;
	return prim_barrier(p);
}

#endif
