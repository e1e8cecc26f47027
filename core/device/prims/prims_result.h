/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that go round a ring directly from output to output, in SIMPLE, over a connection between
 * two GPUs that NVLink joins (dev_conn.put). A result is data that its receiver has in its output
 * in the end: everything in an all-gather, and the second half of an all-reduce. The sender writes
 * a slice into the receiver's output instead of a slot, and the receiver sends it on from there.
 * Steps, credit and tail are those of slots. The rule is per connection: its two ends have the same
 * one, and other connections of the ring may use slots.
 *
 * The sender gets the address of the receiver's output once for each work:
 *
 *	receiver: offer   when its work begins: address + DEV_PUT_OFFERED -> dev_send_mem.put
 *	                  (release, system)
 *	sender: take      before its first result: waits for DEV_PUT_OFFERED, which becomes
 *	                  DEV_PUT_TAKEN
 *
 * Within a process the sender can use the address of every output. Between two processes the
 * receiver must have registered the output, and the sender's process must have mapped it
 * (core/transport/registered.h). Both ranks know the first collective for which the receiver offers
 * its output, with an address or 0, and for which the sender takes it (dev_work.offers, takes).
 * With 0 the results of the work go through slots. A sender may miss the first offers, so an offer
 * has a step:
 *
 *	receiver: offer   as above; then shown = step + 1 (release, system)
 *	sender: take      waits until shown >= step + 1; then as above
 *
 * The step is that of the connection before the work. dev_conn.put in the block's copies is for one
 * work: it is set before the work begins and cleared when it ends. A work without results therefore
 * costs nothing.
 *
 * A sender writes nothing before the receiver's kernel runs this work, and takes an address once.
 * The receiver offers the next address when all results of the work have come, so the sender has
 * taken this one.
 *
 * The program may free the output of a receiver whose kernel is aborted. No sender may then write
 * into it:
 *
 *	receiver: withdraw   adds DEV_PUT_WITHDRAWN. If the address was taken, it waits until the
 *	                     work's last step has come or the sender has released the output; at
 *	                     most PRIM_PUT_LEAVE_NS, because the sender's GPU may be dead.
 *	sender: release      A sender whose wait is long looks for DEV_PUT_WITHDRAWN, and stops. A
 *	                     sender that stops adds DEV_PUT_RELEASED. If the output was withdrawn,
 *	                     it waits for its own abort.
 *
 * Called by prims_simple.h and run_work.h. Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_RESULT_H
#define CORE_DEVICE_PRIMS_RESULT_H

#include "core/device/prims/prims_put.h"

/* Returns true if the received data is a result in this rank's output: received and not reduced. */
DEV_FN bool prim_result_received(const struct prim *p, uint32_t flags)
{
	return (flags & PRIM_RECV) && !(flags & PRIM_INPUT) && p->puts && p->recv->put;
}

#if DEV_CHECK_FIFO
DEV_FN void prim_check_taken(struct prim *p)
{
	uint64_t word = dev_peek_u64(p->d, prim_put_word(p->recv));

	prim_check(p, p->recv, (word & DEV_PUT_TAKEN) != 0,
		   "recv: a result came, and the output that was offered is not taken",
		   p->recv_step, word);
}
#else
#define prim_check_taken(p) ((void)0)
#endif

/* ---- the sender ------------------------------------------------------------------------------ */

DEV_FN struct wait prim_result_wait(const struct dev_conn *c)
{
	const struct dev_send_mem *mem = (const struct dev_send_mem *)(const void *)c->head;
	struct wait w = prim_conn_wait(c, &mem->shown, c->step + 1, c->step);

	ASSERT(c->put == DEV_PUT_ALWAYS || c->put == DEV_PUT_REGISTERED);
	if (c->put == DEV_PUT_ALWAYS) {
		w.on = &mem->put;
		w.want = w.mask = DEV_PUT_OFFERED;
		w.kind = WAIT_EQ;
	}
	w.why = "ring send: the next rank's output";
	w.from.object = "kernel that offers its output";
	return w;
}

/* Returns false if this launch or the next rank's was aborted. A real function: inlined, it would
 * take registers from the code that moves data. */
DEV_FN_ONCE bool prim_result_take_word(struct dev *d, struct dev_block *b)
{
	struct dev_conn *c = &b->ring[1];
	struct wait w = prim_result_wait(c);
	uint64_t word;

	if (!dev_wait(d, &w, NULL))
		return false;
	word = dev_add_u64(d, prim_put_word(c), DEV_PUT_TAKEN - DEV_PUT_OFFERED, SHARED_RELAXED,
			   SHARED_SYSTEM);
	if (word & DEV_PUT_WITHDRAWN)
		return false;
	b->result = word - DEV_PUT_OFFERED;
	if (!b->result)
		c->put = 0; /* the next rank gave no address */
	return true;
}

/* Takes the next rank's output before a work's first result is sent; later calls do nothing. Called
 * by all threads: the thread that waits for credit takes it, and the others learn of it at the next
 * barrier. */
DEV_FN void prim_result_take(struct prim *p)
{
	if (p->puts && p->send->put && p->thread == prim_send_waiter(p) && !p->block->result &&
	    !prim_result_take_word(p->d, p->block))
		p->stopped = true;
}

/* Returns the destination of the movers: element `out` of the next rank's output, or the slot. */
DEV_FN uint8_t *prim_send_to(const struct prim *p, uint32_t flags, uint64_t out)
{
	const uint64_t result =
		p->puts && (flags & (PRIM_OUTPUT | PRIM_RESULT)) ? p->block->result : 0;

	return result ? (uint8_t *)(uintptr_t)result + out * p->type_bytes
		      : prim_slot(p->send, DEV_SIMPLE, p->send_step);
}

/* Called by one thread, when all threads have stopped. */
DEV_FN void prim_result_release(struct dev *d, const struct dev_conn *c)
{
	struct wait w = prim_result_wait(c);
	uint64_t word;

	dev_fence(d, SHARED_RELEASE, SHARED_SYSTEM);
	word = dev_add_u64(d, prim_put_word(c), DEV_PUT_RELEASED, SHARED_RELAXED, SHARED_SYSTEM);
	if (!(word & DEV_PUT_WITHDRAWN))
		return;
	w.on = c->head;
	w.want = w.mask = WAIT_MASK_ALL; /* a value that no step reaches */
	w.why = "ring send: the next rank's output, which an abort withdrew";
	(void)dev_wait(d, &w, NULL);
}

/* ---- the receiver ---------------------------------------------------------------------------- */

/* Offers the output. Called when a work begins. Release: this rank's earlier accesses to the buffer
 * come before the address. */
DEV_FN void prim_result_begin(struct prim *p)
{
	if (p->thread == prim_send_waiter(p))
		p->block->result = 0;
	if (p->recv->put == DEV_PUT_ALWAYS && p->thread == 0)
		dev_store_u64(p->d, prim_put_word(p->recv), (uintptr_t)p->output + DEV_PUT_OFFERED,
			      SHARED_RELEASE, SHARED_SYSTEM);
}

/* Sets dev_conn.put of the block's copies, for results between processes. Called by one thread,
 * before the work begins. */
DEV_FN void prim_result_open(struct dev *d, struct dev_block *b, const struct dev_work *w)
{
	const struct dev_ring *ring = &b->channel.ring;
	struct dev_conn *from = &b->ring[0], *to = &b->ring[1];
	struct dev_send_mem *mem = (struct dev_send_mem *)(void *)from->head;

	ASSERT(!((w->offers | w->takes) >> DEV_WORK_RANKS)); /* ranks without a number have none */
	if (to->put != DEV_PUT_ALWAYS && (w->takes >> ring->next_number & 1))
		to->put = DEV_PUT_REGISTERED;
	if (from->put == DEV_PUT_ALWAYS || !(w->offers >> ring->prev_number & 1))
		return;
	from->put = w->mapped[ring->prev_number] ? DEV_PUT_REGISTERED : 0;
	dev_store_u64(d, &mem->put, w->mapped[ring->prev_number] + DEV_PUT_OFFERED, SHARED_RELAXED,
		      SHARED_SYSTEM);
	dev_store_u64(d, &mem->shown, from->step + 1, SHARED_RELEASE, SHARED_SYSTEM);
}

/* Clears dev_conn.put again. Called when the work has ended. */
DEV_FN void prim_result_close(struct dev_block *b)
{
	struct dev_conn *from = &b->ring[0], *to = &b->ring[1];

	from->put = from->put == DEV_PUT_ALWAYS ? DEV_PUT_ALWAYS : 0;
	to->put = to->put == DEV_PUT_ALWAYS ? DEV_PUT_ALWAYS : 0;
}

/* Withdraws the output after an abort: no sender writes into it afterwards. Called by one thread,
 * when all threads have stopped. `end`: the step after the work's last one. */
DEV_FN void prim_result_withdraw(struct dev *d, const struct dev_block *b, uint64_t end)
{
	const struct dev_conn *c = &b->ring[0];
	uint64_t word =
		dev_add_u64(d, prim_put_word(c), DEV_PUT_WITHDRAWN, SHARED_RELAXED, SHARED_SYSTEM);
	struct wait w = prim_conn_wait(c, c->tail, end, c->step);

	ASSERT(end > c->step); /* a work that puts has bytes, and so steps */
	if (!(word & DEV_PUT_TAKEN))
		return;
	w.why = "ring recv: the last write into the output";
	w.from.object = "kernel that writes into the output";
	w.deadline_ns = dev_now_ns(d) + PRIM_PUT_LEAVE_NS;
	dev_set_abort(d, NULL);
	(void)dev_wait_unless(d, &w, c, DEV_PUT_RELEASED);
	dev_set_abort(d, b->comm.abort);
}

#endif
