/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between pairs of ranks: the part of one group of threads, for one end of a
 * work on one channel. Called by the kernel (run_messages.h), which gives every end its own group.
 * Ranks that send to each other in a circle then never wait for a block that is busy with its other
 * end.
 *
 * Bytes move in chunks of one step. Both ends derive the same chunks from the same number of bytes
 * and protocol. In SIMPLE a message that goes directly into the receiver's buffer takes one step:
 * always over a connection with `put` (prims_put.h), and between processes if the sender's process
 * has mapped the buffer (prims_mapped.h).
 */
#ifndef CORE_DEVICE_SEND_RECV_H
#define CORE_DEVICE_SEND_RECV_H

#include "core/device/prims/prims.h"
#include "core/device/prims/prims_mapped.h"

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
