/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring all-reduce: what one block does for one channel's share of a work. Called
 * by the kernel (kernels.c); the steps are NCCL 2.28's (docs/device.md).
 *
 * The share is cut in loops of one chunk a rank. Within a loop chunk c travels the ring twice:
 * first collecting every rank's input on its way to rank c's position, which completes it, then as
 * the result on to everyone else. A rank at position i (ranks i-1 and i+1 beside it) does
 *
 *   send                    chunk i-1
 *   recv_reduce_send        chunks i-2, i-3 ... i-(n-1)
 *   recv_reduce_copy_send   chunk i, complete here
 *   recv_copy_send          chunks i-1, i-2 ... i-(n-2)
 *   recv                    chunk i+1
 *
 * all modulo n: 2(n-1) chunks sent, as many received. Chunks past the end of the share are short or
 * empty, and take their steps all the same.
 */
#ifndef CORE_DEVICE_ALL_REDUCE_H
#define CORE_DEVICE_ALL_REDUCE_H

#include "core/device/prims.h"

/* One loop: `left` elements from `base` on, in chunks of `chunk`. */
struct all_reduce_loop {
	uint64_t base, left, chunk;
	int nranks;
};

DEV_FN uint64_t all_reduce_chunk_at(const struct all_reduce_loop *l, int c, uint64_t *count)
{
	uint64_t at = (uint64_t)(c % l->nranks) * l->chunk;

	*count = at < l->left ? MIN_OF(l->chunk, l->left - at) : 0;
	return l->base + at;
}

DEV_FN bool all_reduce_ring_loop(struct prim *p, const struct all_reduce_loop *l)
{
	int n = l->nranks, i = p->block->channel.ring.index + n;
	uint64_t count, at;

	at = all_reduce_chunk_at(l, i - 1, &count);
	if (!prim_send(p, at, count))
		return false;
	for (int j = 2; j < n; j++) {
		at = all_reduce_chunk_at(l, i - j, &count);
		if (!prim_recv_reduce_send(p, at, count))
			return false;
	}
	at = all_reduce_chunk_at(l, i, &count);
	if (!prim_recv_reduce_copy_send(p, at, at, count))
		return false;
	for (int j = 1; j < n - 1; j++) {
		at = all_reduce_chunk_at(l, i - j, &count);
		if (!prim_recv_copy_send(p, at, count))
			return false;
	}
	at = all_reduce_chunk_at(l, i + 1, &count);
	return prim_recv(p, at, count);
}

DEV_FN bool all_reduce_ring(struct prim *p, const struct steps_part *part)
{
	int nranks = p->block->comm.nranks;
	uint64_t loop = (uint64_t)nranks * part->chunk;
	struct all_reduce_loop l;

	l.nranks = nranks;
	for (uint64_t done = 0; done < part->count; done += loop) {
		l.base = part->offset + done;
		l.left = part->count - done;
		l.chunk = steps_ring_chunk(l.left, part->chunk, nranks, p->type_bytes);
		if (!all_reduce_ring_loop(p, &l))
			return false;
	}
	return true;
}

#endif
