/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives between pairs of ranks: what one group of threads does for one end of one work,
 * on one channel. Called by the kernel (run_messages.h), which gives every end a group of its own, so that
 * ranks that send to each other in a circle never wait for a block that is busy with its other end.
 *
 * Bytes move in chunks of one step. Both ends derive the same chunks from the same number of bytes and
 * protocol. In SIMPLE over a connection with `put` the message is one step (prims_put.h).
 */
#ifndef CORE_DEVICE_SEND_RECV_H
#define CORE_DEVICE_SEND_RECV_H

#include "core/device/prims.h"
#include "core/device/prims_put.h"

DEV_FN bool send_recv_send(struct prim *p, uint64_t bytes)
{
	uint64_t chunk = steps_data_bytes(p->proto, p->send->step_bytes[p->proto]);

	if (p->proto == DEV_SIMPLE && p->send->put)
		return prim_put_send(p, bytes);
	for (uint64_t done = 0; done < bytes; done += chunk)
		if (!prim_send(p, done, MIN_OF(chunk, bytes - done)))
			return false;
	return true;
}

DEV_FN bool send_recv_recv(struct prim *p, uint64_t bytes)
{
	uint64_t chunk = steps_data_bytes(p->proto, p->recv->step_bytes[p->proto]);

	if (p->proto == DEV_SIMPLE && p->recv->put)
		return prim_put_recv(p);
	for (uint64_t done = 0; done < bytes; done += chunk)
		if (!prim_recv(p, done, MIN_OF(chunk, bytes - done)))
			return false;
	return true;
}

#endif
