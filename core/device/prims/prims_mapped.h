/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the sender's kernel writes directly into a buffer of another process. The receiver
 * has registered the buffer, and the sender's process has mapped it (core/transport/registered.h).
 * The connection has slots as well; the sender chooses for each message. The receiver shows the
 * address of the buffer, or 0. A message that is put, or one channel's part of it, takes one step:
 *
 *	receiver: show   the buffer's address in the sender's process, or 0 -> dev_send_mem.put;
 *	                 fence (release, system); shown = step + 1
 *	sender: take     waits until shown >= step + 1; replaces an address by DEV_PUT_TAKEN; with 0
 *	                 it uses slots
 *	sender: put      dev_reduce_copy by all threads; barrier
 *	sender: post     dev_recv_mem.put = step + 1; fence (release, system); tail = step + 1
 *	receiver: done   waits until tail >= step + 1; if put == step + 1, then head = step + 1;
 *	                 else it reads slots
 *
 * Both ranks know the number of the first message for which the receiver shows. A launch of the
 * sender that was made before its rank knew that number does not look, and fills slots. The
 * receiver therefore reads in its own memory how a message came, and no rank waits for an action
 * that the other one does not take. The receiver shows the next message when all of this one is
 * there, so the sender never finds the address of another message.
 *
 * Abort: as in prims_put.h.
 *
 * Called by send_recv.h, by all threads of a group. Errors: as in prims.h.
 */
#ifndef CORE_DEVICE_PRIMS_MAPPED_H
#define CORE_DEVICE_PRIMS_MAPPED_H

#include "core/device/prims/prims_put.h"

/* ---- the sender ------------------------------------------------------------------------------ */

DEV_FN struct wait prim_mapped_wait(const struct prim *p)
{
	const struct dev_send_mem *mem = (const struct dev_send_mem *)(const void *)p->send->head;
	struct wait w = prim_conn_wait(p->send, &mem->shown, p->send_step + 1, p->send_step);

	w.why = "send: receive buffer, or that no buffer is shown";
	w.from.object = "kernel that shows its buffer";
	return w;
}

/* Called by one thread. *to: the address; 0: the message goes through slots. Returns false if the
 * launch was aborted. */
DEV_FN bool prim_mapped_take(struct prim *p, uint64_t *to)
{
	struct wait w = prim_mapped_wait(p);

	ASSERT(p->send_step == p->send->step); /* the message's first step */
	*to = 0;
	if (!dev_wait(p->d, &w, NULL))
		return false;
	if (!dev_load_u64(p->d, prim_put_word(p->send), SHARED_RELAXED, SHARED_SYSTEM))
		return true;
	*to = prim_put_claim(p, &w);
	return *to != 0;
}

/* Called by one thread, after the barrier that ends the move. */
DEV_FN void prim_mapped_post(struct prim *p)
{
	struct dev_recv_mem *mem = (struct dev_recv_mem *)(void *)p->send->tail;

	dev_store_u64(p->d, &mem->put, p->send_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
	prim_post(p, PRIM_SEND, 0);
}

/* *done: the message is sent; otherwise it goes through slots. Returns false if the launch was
 * aborted. */
DEV_FN bool prim_mapped_send(struct prim *p, uint64_t bytes, bool *done)
{
	if (p->thread == 0 && !prim_mapped_take(p, prim_put_of(p, p->send)))
		p->stopped = true;
	if (!prim_barrier(p))
		return false;
	*done = *prim_put_of(p, p->send) != 0;
	if (!*done)
		return true;
	if (!prim_put_move(p, bytes))
		return false;
	if (p->thread == prim_poster(p))
		prim_mapped_post(p);
	p->send_step++;
	return true;
}

/* ---- the receiver ---------------------------------------------------------------------------- */

/* The fence orders this rank's earlier accesses to the buffer before the step. */
DEV_FN void prim_mapped_show(struct prim *p, uint64_t address)
{
	struct dev_send_mem *mem = (struct dev_send_mem *)(void *)p->recv->head;

	ASSERT(address < DEV_PUT_RELEASED && p->recv_step == p->recv->step);
	dev_store_u64(p->d, &mem->put, address, SHARED_RELAXED, SHARED_SYSTEM);
	dev_fence(p->d, SHARED_RELEASE, SHARED_SYSTEM);
	dev_store_u64(p->d, &mem->shown, p->recv_step + 1, SHARED_RELAXED, SHARED_SYSTEM);
}

/* Called by one thread, after it has shown an address. *put: the message is in the buffer. Returns
 * false if the launch was aborted. */
DEV_FN bool prim_mapped_wait_data(struct prim *p, uint64_t *put)
{
	const struct dev_recv_mem *mem = (const struct dev_recv_mem *)(const void *)p->recv->tail;
	struct wait w = prim_recv_wait(p);

	*put = 0;
	w.why = "recv: data in buffer or slot";
	w.from.object = "kernel that fills the buffer or the slot";
	if (!dev_wait(p->d, &w, NULL)) {
		prim_put_withdraw(p, &w);
		return false;
	}
	prim_check_recv(p);
	prim_show(p, false);
	*put = dev_load_u64(p->d, &mem->put, SHARED_RELAXED, SHARED_SYSTEM) == p->recv_step + 1;
	return true;
}

/* `address`: of the buffer in the sender's process; 0: not mapped there. *done: the message is
 * there; otherwise it comes through slots. Returns false if the launch was aborted. */
DEV_FN bool prim_mapped_recv(struct prim *p, uint64_t address, bool *done)
{
	*done = false;
	if (p->thread == 0)
		prim_mapped_show(p, address);
	if (!address)
		return true;
	if (p->thread == 0 && !prim_mapped_wait_data(p, prim_put_of(p, p->recv)))
		p->stopped = true;
	if (!prim_barrier(p))
		return false;
	*done = *prim_put_of(p, p->recv) != 0;
	if (!*done)
		return true;
	if (p->thread == prim_poster(p))
		prim_post(p, PRIM_RECV, 0);
	p->recv_step++;
	return true;
}

#endif
