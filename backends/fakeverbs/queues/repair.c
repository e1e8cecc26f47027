/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repair of objects that a process was changing when it died inside a lock (members.h). The task
 * that finds the lock's holder dead takes over the lock. It repairs the guarded object before any
 * other task sees it:
 *
 *   queue pair      the dead process was its peer, and was placing a message or flushing. A
 *                   completion is pushed first, and its request is counted as done afterwards.
 *                   Pushed completions are valid; the remaining requests complete later, flushed
 *                   or not. A flush that had begun is finished.
 *   shared queue    a receive leaves it (`done`) and enters a queue pair (`head`): both or neither.
 *   completion      pushed completions become visible. If a task was to be woken, it is woken (a
 *   queue           poll shows whether the wake was needed).
 *
 * Lists of slabs, channels and contexts are repaired where they are kept. The dead process' own
 * queues need no repair: no process reads them, and they are freed.
 */
#include "backends/fakeverbs/queues/queues.h"

/* Makes each slot's account agree with the counters. */
static void hca_repair_account(struct hca_queue *q)
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

/* Returns the queue's `done` as the completion queue shows it. A slot of the completion queue's
 * ring keeps its contents, polled or not. The slot at `head` may be half written. */
static uint32_t hca_repair_pushed(struct hca_cq *cq, const struct hca_qp *qp, bool is_recv,
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

static void hca_repair_queue(struct hca_qp *qp, struct hca_queue *q, uint32_t cq)
{
	bool is_recv = q == &qp->rq;

	if (cq != HCA_NONE && q->done != q->head)
		q->done =
			hca_repair_pushed(hca_slab_at(&hca_world()->cq, cq), qp, is_recv, q->done);
	ASSERT(q->head - q->done <= q->size); /* only posted requests were completed */
	if (!is_recv && (int32_t)(q->next - q->done) < 0) {
		q->next = q->done;
		qp->req.offset = 0;
	}
	hca_repair_account(q);
}

void hca_qp_repair(struct hca_qp *qp)
{
	if (!qp->sq.ring) /* it was being created or destroyed */
		return;
	if (qp->srq) {
		struct hca_srq *srq = hca_slab_at(&hca_world()->srq, qp->srq - 1);

		hca_srq_lock(srq); /* finishes the move of a receive to this queue pair */
		hca_unlock(&srq->item.lock);
	}
	hca_repair_queue(qp, &qp->rq, qp->recv_cq);
	hca_repair_queue(qp, &qp->sq, qp->send_cq);
	if (qp->state == IBV_QPS_ERR && hca_is_alive(qp->item.proc))
		hca_qp_flush(qp);
}

void hca_srq_repair(struct hca_srq *srq)
{
	if (!srq->rq.ring)
		return;
	if (srq->taker && srq->rq.done != srq->taken) {
		struct hca_qp *qp = hca_slab_at(&hca_world()->qp, srq->taker - 1);

		ASSERT(srq->rq.done - srq->taken == 1);
		if (qp->rq.head == srq->taker_head)
			qp->rq.head++;
	}
	srq->taker = 0;
	hca_repair_account(&srq->rq);
}

void hca_cq_repair(struct hca_cq *cq)
{
	if (!cq->ring)
		return;
	if (!cq->held)
		hca_cq_show_until(cq, cq->head);
	if (cq->channel && cq->tail != cq->shown && hca_is_alive(cq->item.proc))
		hca_cq_signal(cq);
}
