/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repair of what a process left half done when it died inside a lock (far.h). The task that finds
 * the lock's holder dead takes the lock, and makes whole what it guards, before any other task
 * looks:
 *
 *   queue pair      the dead one was its peer, placing a message or flushing. A completion is pushed
 *                   first, and its request counted as done after it: what was pushed counts, and the
 *                   rest completes later, flushed or not. A flush that was begun is finished.
 *   shared queue    a receive leaves it (`done`) and enters a queue pair (`head`): both or neither.
 *   completion      what was pushed is shown; if it was to wake a task, it does (a poll shows
 *   queue           whether the wake was needed).
 *
 * Lists of slabs, channels and contexts are mended where they are kept. What a dead process did to
 * queues of its own does not matter: no process looks at them, and they go.
 */
#include "backends/fakeverbs/queues/queues.h"

/* Each slot agrees with the counters. */
static void hca_mend_account(struct hca_queue *q)
{
	for (uint32_t i = 0; q->ring && i < q->size; i++) {
		struct hca_wqe *e = hca_wqe_at(q, i);
		bool waits = ((i - q->done) & (q->size - 1)) < q->head - q->done;

		if (waits)
			e->account = HCA_ACCOUNT_POSTED;
		else if (e->account == HCA_ACCOUNT_POSTED)
			e->account = HCA_ACCOUNT_ENDED;
	}
	q->posted = q->ended + (q->head - q->done);
}

/* How far the queue's completions go, by what lies in the completion queue: polled or not, a slot
 * of its ring keeps what it held. The one at `head` may be half written. */
static uint32_t hca_mend_pushed(struct hca_cq *cq, const struct hca_qp *qp, bool is_recv,
				uint32_t done)
{
	hca_cq_lock(cq);
	uint32_t n = cq->ring ? MIN_OF(cq->head, cq->size - 1) : 0;

	for (uint32_t i = 1; i <= n; i++) {
		const struct hca_cqe *e = hca_cqe_at(cq, cq->head - i);

		if (e->qp == qp->item.index && e->generation == qp->item.generation &&
		    (bool)e->is_recv == is_recv && e->slot - done == 1)
			done = e->slot;
	}
	hca_unlock(&cq->item.lock);
	return done;
}

static void hca_mend_queue(struct hca_qp *qp, struct hca_queue *q, uint32_t cq)
{
	bool is_recv = q == &qp->rq;

	if (cq != HCA_NONE && q->done != q->head)
		q->done = hca_mend_pushed(hca_slab_at(&hca_world()->cq, cq), qp, is_recv, q->done);
	if (!is_recv && (int32_t)(q->next - q->done) < 0) {
		q->next = q->done;
		qp->req.offset = 0;
	}
	hca_mend_account(q);
}

void hca_qp_mend(struct hca_qp *qp)
{
	if (!qp->sq.ring) /* it was being made or ended */
		return;
	if (qp->srq) {
		struct hca_srq *srq = hca_slab_at(&hca_world()->srq, qp->srq - 1);

		hca_srq_lock(srq); /* the receive that was on its way to this one has come */
		hca_unlock(&srq->item.lock);
	}
	hca_mend_queue(qp, &qp->rq, qp->recv_cq);
	hca_mend_queue(qp, &qp->sq, qp->send_cq);
	if (qp->state == IBV_QPS_ERR && hca_is_alive(qp->item.proc))
		hca_qp_flush(qp);
}

void hca_srq_mend(struct hca_srq *srq)
{
	if (!srq->rq.ring)
		return;
	if (srq->taker && srq->rq.done != srq->taken) {
		struct hca_qp *qp = hca_slab_at(&hca_world()->qp, srq->taker - 1);

		if (qp->rq.head == srq->taker_head)
			qp->rq.head++;
	}
	srq->taker = 0;
	hca_mend_account(&srq->rq);
}

void hca_cq_mend(struct hca_cq *cq)
{
	if (!cq->ring)
		return;
	if (!cq->held)
		hca_cq_show_until(cq, cq->head);
	if (cq->channel && cq->tail != cq->shown && hca_is_alive(cq->item.proc))
		hca_cq_signal(cq);
}
