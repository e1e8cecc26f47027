/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared queues of extended reliable connections, by number (entry/ibv_xrc.c has a picture of the
 * connections). */
#include "backends/fakeverbs/queues/queues.h"

/* A number is the index and the low bits of the generation, so that numbers are reused late. */
#define HCA_SRQN_INDEX_BITS 15

uint32_t hca_srq_number(const struct hca_srq *srq)
{
	return ((srq->item.generation << HCA_SRQN_INDEX_BITS) | (srq->item.index + 1)) &
	       HCA_PSN_MASK;
}

bool hca_xrc_bind(struct hca_qp *qp, uint32_t number)
{
	struct hca_world *w = hca_world();
	uint32_t index = (number & ((1u << HCA_SRQN_INDEX_BITS) - 1)) - 1;

	ASSERT(qp->type == IBV_QPT_XRC_RECV); /* others keep the queue of their creation */
	if (index >= __atomic_load_n(&w->srq.count, __ATOMIC_ACQUIRE))
		return false;
	struct hca_srq *srq = hca_slab_at(&w->srq, index);

	hca_srq_lock(srq);
	bool good = srq->rq.ring && srq->xrcd && srq->xrcd == qp->xrcd && srq->port == qp->port &&
		    hca_srq_number(srq) == number;

	if (good) {
		qp->srq = index + 1;
		qp->srq_generation = srq->item.generation;
		qp->pd = qp->recv_pd = srq->pd;
		qp->recv_cq = srq->cq;
	}
	hca_unlock(&srq->item.lock);
	return good;
}

/* Receives that target halves took from the queue no longer complete: their message fails at its
 * next packet. */
void hca_xrc_forget_srq(const struct hca_srq *srq)
{
	uint32_t at = 0;
	struct hca_qp *qp;

	while ((qp = hca_slab_next(&hca_world()->qp, UINT32_MAX, &at))) {
		hca_qp_lock(qp);
		if (qp->sq.ring && qp->type == IBV_QPT_XRC_RECV && qp->srq == srq->item.index + 1) {
			hca_account_drop(&qp->rq, "receive");
			qp->rq.done = qp->rq.head;
			qp->resp.receiving = 0;
			qp->srq = 0;
			qp->pd = qp->recv_pd = qp->recv_cq = HCA_NONE;
		}
		hca_unlock(&qp->item.lock);
	}
}
