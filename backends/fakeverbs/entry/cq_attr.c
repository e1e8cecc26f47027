/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a completion queue: its size, and its moderation of events.
 *
 * Moderation holds an event back until `count` completions arrived, or until `period` us passed
 * since the first of them. A 0 in either, or a count of 1, means no moderation. It delays events,
 * not completions. It counts only completions for which an armed queue would send an event
 * (queues/cq.c).
 */
#include <errno.h>

#include "backends/fakeverbs/entry/entry.h"

int hca_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *a)
{
	int bad = hca_enter_control(ibv, HCA_KIND_CQ, "ibv_modify_cq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_cq *cq = hca_cq_of(ibv)->hca;
	int rc = hca_command_fault("verbs.modify_cq", ibv, cq->port, -1);

	if (rc)
		return hca_result(rc);
	if (a->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return hca_result(EOPNOTSUPP);
	if (!(a->attr_mask & IBV_CQ_ATTR_MODERATE))
		return hca_result(EINVAL);
	bool on = a->moderate.cq_count > 1 && a->moderate.cq_period;

	hca_cq_lock(cq);
	cq->moderate_count = on ? a->moderate.cq_count : 0;
	cq->moderate_period_us = on ? a->moderate.cq_period : 0;
	if (cq->moderated && !on) /* no event is held back from now on */
		hca_cq_signal(cq);
	hca_unlock(&cq->item.lock);
	sim_events_drain();
	return 0;
}

/* ---- size ----------------------------------------------------------------------------------- */

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	int bad = hca_enter_control(ibv, HCA_KIND_CQ, "ibv_resize_cq", HCA_CALLER());

	if (bad)
		return bad;
	struct hca_cq *cq = hca_cq_of(ibv)->hca;
	int rc = hca_command_fault("verbs.resize_cq", ibv, cq->port, -1);
	uint32_t size = 1;

	if (rc)
		return hca_result(rc);
	if (cqe < 1 || (uint32_t)cqe > hca_personality(cq->port)->max_cqe)
		return hca_result(EINVAL);
	while (size < (uint32_t)cqe)
		size *= 2;
	uint64_t ring = hca_ring_alloc(&hca_world()->rings, size * sizeof(struct hca_cqe)), old;

	if (!ring)
		return hca_result(ENOMEM);
	hca_cq_lock(cq);
	uint32_t used = cq->head - cq->tail;

	old = ring;
	if (used <= (uint32_t)cqe && !cq->overrun) {
		struct hca_cqe *to = world_arena_at(ring);

		for (uint32_t i = cq->tail; i != cq->head; i++)
			to[i & (size - 1)] = *hca_cqe_at(cq, i);
		old = cq->ring;
		cq->ring = ring;
		cq->size = size;
		__atomic_store_n(&ibv->cqe, (int)size, __ATOMIC_RELAXED);
	} else {
		rc = EINVAL;
	}
	hca_unlock(&cq->item.lock);
	hca_ring_free(&hca_world()->rings, old);
	return hca_result(rc);
}
