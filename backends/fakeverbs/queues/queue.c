/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of work requests. */
#include <errno.h>

#include "backends/fakeverbs/queues/queues.h"

int hca_queue_make(struct hca_queue *q, uint32_t wr, uint32_t sge, uint32_t inline_bytes)
{
	uint32_t room = MAX_OF(sge * (uint32_t)sizeof(struct ibv_sge), inline_bytes);

	ASSERT(wr && sge); /* an empty queue has one entry, so that it has a place */
	memset(q, 0, sizeof *q);
	q->size = 1;
	while (q->size < wr)
		q->size *= 2;
	ASSERT(q->size && !(q->size & (q->size - 1))); /* counters wrap at 2^32, slots with them */
	q->sge_max = sge;
	q->inline_max = inline_bytes;
	q->stride = (uint32_t)(sizeof(struct hca_wqe) + ALIGN_UP(room, 16));
	q->ring = hca_ring_alloc(&hca_world()->rings, (uint64_t)q->size * q->stride);
	return q->ring ? 0 : ENOMEM;
}

void hca_queue_end(struct hca_queue *q)
{
	uint64_t ring = q->ring;

	q->ring = 0; /* first, so that the ring is not freed twice if the caller dies here */
	hca_ring_free(&hca_world()->rings, ring);
}
