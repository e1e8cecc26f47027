/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring reduce to a root: what one block does for one channel's share of a work. Called by the kernel
 * (kernels.c); the steps are NCCL 2.28's (docs/device.md).
 *
 * Chunks flow along the ring, from the rank after the root to the root, and collect each rank's
 * input on the way:
 *
 *   rank after the root   send
 *   ranks between         recv_reduce_send
 *   root                  recv_reduce_copy, complete here
 */
#ifndef CORE_DEVICE_REDUCE_H
#define CORE_DEVICE_REDUCE_H

#include "core/device/prims.h"

DEV_FN bool reduce_ring_chunk(struct prim *p, uint64_t at, uint64_t count)
{
	if (p->block->channel.ring.prev == p->root)
		return prim_send(p, at, count);
	if (p->block->comm.rank == p->root)
		return prim_recv_reduce_copy(p, at, at, count);
	return prim_recv_reduce_send(p, at, count);
}

DEV_FN bool reduce_ring(struct prim *p, const struct steps_part *part)
{
	for (uint64_t done = 0; done < part->count; done += part->chunk)
		if (!reduce_ring_chunk(p, part->offset + done,
				       MIN_OF(part->chunk, part->count - done)))
			return false;
	return true;
}

#endif
