/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests and completions in their rings, and the meaning of their operation codes.
 */
#ifndef BACKENDS_FAKEVERBS_REQUESTS_H
#define BACKENDS_FAKEVERBS_REQUESTS_H

#include <infiniband/verbs.h>

#include "backends/fakeverbs/objects/objects.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

static inline struct hca_wqe *hca_wqe_at(const struct hca_queue *q, uint32_t counter)
{
	return (struct hca_wqe *)((char *)world_arena_at(q->ring) +
				  (uint64_t)(counter & (q->size - 1)) * q->stride);
}
/* True if the queue has a slot for another request. */
static inline bool hca_queue_has_slot(const struct hca_queue *q)
{
	return q->head - __atomic_load_n(&q->polled, __ATOMIC_ACQUIRE) < q->size;
}
static inline struct ibv_sge *hca_wqe_sges(struct hca_wqe *w)
{
	return (struct ibv_sge *)(w + 1);
}
static inline struct hca_cqe *hca_cqe_at(const struct hca_cq *cq, uint32_t counter)
{
	return (struct hca_cqe *)world_arena_at(cq->ring) + (counter & (cq->size - 1));
}
/* True if the queue pair still exists with this generation. Under its lock. */
static inline bool hca_qp_is(const struct hca_qp *qp, uint32_t generation)
{
	return qp->sq.ring && __atomic_load_n(&qp->item.generation, __ATOMIC_ACQUIRE) == generation;
}
static inline uint64_t hca_qp_id(const struct hca_qp *qp)
{
	return (uint64_t)qp->port << 24 | qp->number;
}
/* True if the request sends no packet. */
static inline bool hca_wqe_is_local(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_BIND_MW || e->opcode == IBV_WR_LOCAL_INV;
}
/* True if the other end answers: not for unreliable connections and datagrams. */
static inline bool hca_qp_type_acked(enum ibv_qp_type type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}
/* True if the request has an answer of its own: a READ or an atomic. */
static inline bool hca_wqe_is_answered(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_RDMA_READ || e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || e->opcode == IBV_WR_ATOMIC_WRITE;
}
/* True if the request returns a value, computed from operands. */
static inline bool hca_wqe_is_atomic(const struct hca_wqe *e)
{
	return e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
/* True if the request reads enough memory that its provider may want to know of the end. */
static inline bool hca_wqe_frees_pages(const struct hca_wqe *e)
{
	return e->bytes >= 4096 && !(e->flags & IBV_SEND_INLINE) && !hca_wqe_is_answered(e) &&
	       !hca_wqe_is_local(e);
}

#pragma GCC visibility pop

#endif
