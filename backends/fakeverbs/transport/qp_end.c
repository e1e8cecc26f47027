/* SPDX-License-Identifier: BSD-3-Clause */
/* Reset and end of queue pairs: removes their pending work and their completions. */
#include "backends/fakeverbs/transport/transport.h"

/* Removes the queue pair's completions that were not polled, if its HCA does that. A target half's
 * receive completions belong to the shared queues. */
static void hca_qp_purge(const struct hca_qp *qp)
{
	struct hca_world *w = hca_world();

	if (!hca_personality(qp->port)->reset_purges)
		return;
	if (qp->send_cq != HCA_NONE)
		hca_cq_purge(hca_slab_at(&w->cq, qp->send_cq), qp);
	if (qp->recv_cq != HCA_NONE && qp->type != IBV_QPT_XRC_RECV)
		hca_cq_purge(hca_slab_at(&w->cq, qp->recv_cq), qp);
}

void hca_qp_destroy(struct hca_qp *qp)
{
	struct hca_world *w = hca_world();

	hca_qp_leave(qp);
	hca_mcast_end(qp);
	hca_qp_lock(qp);
	os_trace("qp.destroy", hca_qp_id(qp), qp->state, 0);
	(void)hca_atomic_land(qp);
	hca_partial_drop(qp);
	hca_windows_forget_qp(qp);
	hca_qp_purge(qp);
	hca_event_purge(qp->context, HCA_ELEMENT_QP, qp->item.index, qp->item.generation);
	hca_srq_drop(qp);
	bool pending = qp->req.scheduled || qp->req.timer || qp->req.rnr_waits ||
		       qp->atomic.number || qp->partial_number;

	qp->state = IBV_QPS_RESET;
	hca_account_drop(&qp->sq, "send");
	hca_account_drop(&qp->rq, "receive");
	hca_queue_end(&qp->sq);
	hca_queue_end(&qp->rq);
	hca_counters_end(qp);
	qp->sq.head = qp->sq.done = qp->rq.head = qp->rq.done = 0;
	hca_unlock(&qp->item.lock);
	if (pending)
		sim_events_cancel_object(qp);
	mem_forget(hca_qp_requester(qp));
	mem_forget(hca_qp_responder(qp));
	hca_slab_free(&w->qp, qp);
}

/* ---- changing ------------------------------------------------------------------------------- */

/* Marks all slots as free. Takes the lock under which polls free slots, so that no poll is in
 * progress. */
static void hca_queue_all_free(struct hca_queue *q, uint32_t cq_index)
{
	struct hca_cq *cq = cq_index == HCA_NONE ? NULL : hca_slab_at(&hca_world()->cq, cq_index);

	if (cq)
		hca_cq_lock(cq);
	__atomic_store_n(&q->polled, q->head, __ATOMIC_RELEASE);
	if (cq)
		hca_unlock(&cq->item.lock);
}

void hca_qp_reset(struct hca_qp *qp)
{
	uint32_t rnr_waits = qp->req.rnr_waits, timer = qp->req.timer;
	uint32_t scheduled = qp->req.scheduled;

	(void)hca_atomic_land(qp);
	hca_partial_drop(qp);
	hca_qp_purge(qp);
	hca_srq_drop(qp);
	hca_account_drop(&qp->sq, "send");
	hca_account_drop(&qp->rq, "receive");
	qp->sq.next = qp->sq.done = qp->sq.head;
	qp->rq.done = qp->rq.head;
	hca_queue_all_free(&qp->sq, qp->send_cq);
	hca_queue_all_free(&qp->rq, qp->type == IBV_QPT_XRC_RECV ? HCA_NONE : qp->recv_cq);
	memset(&qp->req, 0, sizeof qp->req);
	memset(&qp->resp, 0, sizeof qp->resp);
	/* pending events still run, and find that they no longer apply */
	qp->req.rnr_waits = rnr_waits;
	qp->req.timer = timer;
	qp->req.scheduled = scheduled;
	qp->dest_port = HCA_NONE;
	qp->moves = 0;
	qp->drained = qp->drain_notify = 0;
	/* the queue pair accesses no memory after the caller's change */
	mem_join(hca_qp_requester(qp));
	mem_join(hca_qp_responder(qp));
	hca_qp_set_state(qp, IBV_QPS_RESET);
}
