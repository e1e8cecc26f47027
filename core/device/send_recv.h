/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between pairs of ranks: what one group of threads does for one end of one
 * work, on one channel. Called by the kernel (run_messages.h), which gives every end a group of its
 * own, so that ranks that send to each other in a circle never wait for a block that is busy with
 * its other end.
 *
 * Bytes move in chunks of one step. Both ends derive the same chunks from the same number of bytes
 * and protocol. In SIMPLE a message is one step where it goes straight into the receiver's buffer:
 * over a connection with `put` always (prims_put.h), between processes where the sender's one has
 * the buffer (prims_mapped.h).
 */
#ifndef CORE_DEVICE_SEND_RECV_H
#define CORE_DEVICE_SEND_RECV_H

#include "core/device/prims.h"
#include "core/device/prims_mapped.h"

DEV_FN bool send_recv_send(struct prim *p, const struct dev_send_recv *m)
{
	uint64_t chunk = steps_data_bytes(p->proto, p->send->step_bytes[p->proto]);
	bool done = false;

	if (p->proto == DEV_SIMPLE && p->send->put)
		return prim_put_send(p, m->send_bytes);
	if (p->proto == DEV_SIMPLE && (m->shown & DEV_SHOWN_SEND) &&
	    (!prim_mapped_send(p, m->send_bytes, &done) || done))
		return done;
	for (uint64_t at = 0; at < m->send_bytes; at += chunk)
		if (!prim_send(p, at, MIN_OF(chunk, m->send_bytes - at)))
			return false;
	return true;
}

DEV_FN bool send_recv_recv(struct prim *p, const struct dev_send_recv *m)
{
	uint64_t chunk = steps_data_bytes(p->proto, p->recv->step_bytes[p->proto]);
	bool done = false;

	if (p->proto == DEV_SIMPLE && p->recv->put)
		return prim_put_recv(p);
	if (p->proto == DEV_SIMPLE && (m->shown & DEV_SHOWN_RECV) &&
	    (!prim_mapped_recv(p, m->recv_mapped, &done) || done))
		return done;
	for (uint64_t at = 0; at < m->recv_bytes; at += chunk)
		if (!prim_recv(p, at, MIN_OF(chunk, m->recv_bytes - at)))
			return false;
	return true;
}

#endif
