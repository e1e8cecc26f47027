/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of requests: the CQE in its completion queue, and the request's slot, which is done.
 * cq.c has polling. Called with the queue pair locked; this file locks the completion queue.
 *
 * Every message runs this code, and function calls would cost as much as their bodies: hence
 * always_inline.
 */
#include "backends/fakeverbs/queues/queues.h"

/* ---- a place in the completion queue -------------------------------------------------------- */

/* Returns the name of one completion for the memory model. It is not an address, so it cannot equal
 * another object's. */
static uint64_t hca_cqe_token(const struct hca_cq *cq)
{
	return 1ull << 63 | (uint64_t)cq->item.index << 32 | (cq->head + 1);
}

/* Moves every queue pair of an overrun completion queue to ERR. Runs as an engine event, because
 * the caller that noticed holds a queue pair's lock. */
static void hca_cq_overran(void *object, uint64_t generation)
{
	struct hca_cq *cq = object;
	struct hca_world *w = hca_world();
	uint32_t index = cq->item.index, at = 0;
	struct hca_qp *qp;

	if (__atomic_load_n(&cq->item.generation, __ATOMIC_ACQUIRE) != (uint32_t)generation)
		return;
	while ((qp = hca_slab_next(&w->qp, UINT32_MAX, &at))) {
		hca_qp_lock(qp);
		if (qp->sq.ring && hca_personality(qp->port)->overrun_kills &&
		    (qp->send_cq == index || qp->recv_cq == index) && qp->state != IBV_QPS_RESET &&
		    qp->state != IBV_QPS_ERR) {
			hca_event_post(qp->context, IBV_EVENT_QP_FATAL, qp->item.index,
				       qp->item.generation);
			hca_qp_to_error(qp);
		}
		hca_unlock(&qp->item.lock);
	}
}

static __attribute__((noinline)) void hca_cq_overrun(struct hca_cq *cq, bool planned)
{
	const struct sim_event_attr attr = {.name = "cq.overrun", .kind = SIM_EVENT_WORK};
	struct hca_site made;

	if (cq->overrun)
		return;
	cq->overrun = 1;
	if (planned)
		hca_log("completion queue %u of %u entries ran over: completions are lost, its "
			"queue pairs go to ERR",
			cq->item.index, cq->size);
	else
		hca_check(
			HCA_RULE_CQ_OVERRUN, cq->item.made,
			"completion queue %u of %u entries, made at %s, ran over: completions are "
			"lost, its queue pairs go to ERR",
			cq->item.index, cq->size, hca_site(cq->item.proc, cq->item.made, &made));
	hca_event_post(cq->context, IBV_EVENT_CQ_ERR, cq->item.index, cq->item.generation);
	sim_event_post(&attr, hca_cq_overran, cq, cq->item.generation, NULL);
}

/* Drops the oldest completion. The next one of the same work queue frees its slots as well. */
static __attribute__((noinline)) void hca_cq_overwrite(struct hca_cq *cq)
{
	ASSERT(cq->ignore_overrun && cq->head - cq->tail == cq->size);
	mem_forget((const void *)(uintptr_t)hca_cqe_at(cq, cq->tail)->token);
	if (cq->shown == cq->tail)
		hca_cq_show_until(cq, cq->shown + 1);
	hca_cq_taken_until(cq, cq->tail + 1);
}

static uint64_t hca_cq_stamp(struct hca_cq *cq)
{
	if (!cq->stamps)
		return 0;
	cq->stamped = MAX_OF(cq->stamped, sim_now_ns());
	return cq->stamped;
}

/* Unlocks the queue, and wakes the tasks of this process that wait for it; other processes poll. */
static inline __attribute__((always_inline)) void hca_cq_unlock_changed(struct hca_cq *cq)
{
	const void *handle = (const void *)(uintptr_t)cq->item.handle;
	bool waited = sim_posts_matter() && hca_is_here(cq->item.proc);

	hca_unlock(&cq->item.lock);
	if (waited)
		os_event_post(handle);
	if (!sim_is_plain())
		os_progress();
}

/* Locks the queue and returns the slot to fill. NULL: the queue overran, the completion is lost,
 * and the queue is not locked. */
static inline __attribute__((always_inline)) struct hca_cqe *hca_cq_begin(struct hca_cq *cq)
{
	struct os_fault f;

	mem_release(NULL); /* a task that finds the completion sees everything before it */
	hca_cq_lock(cq);
	/* a queue pair keeps its completion queues */
	ASSERT(cq->ring && cq->head - cq->tail <= cq->size);
	if (cq->ignore_overrun && cq->head - cq->tail == cq->size)
		hca_cq_overwrite(cq);
	bool full = cq->overrun || cq->head - cq->tail == cq->size;
	bool planned = !full && hca_fault("verbs.cq", (const void *)(uintptr_t)cq->item.handle,
					  cq->port, -1, &f);
	if (LIKELY(!full && !planned))
		return hca_cqe_at(cq, cq->head);
	hca_cq_overrun(cq, planned);
	hca_cq_unlock_changed(cq);
	return NULL;
}

/* Pushes the completion, whose slot is filled except token and time, and unlocks the queue. */
static inline __attribute__((always_inline)) void hca_cq_end(struct hca_cq *cq, struct hca_cqe *e,
							     bool solicited)
{
	e->token = hca_cqe_token(cq);
	e->timestamp = hca_cq_stamp(cq);
	__atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELEASE);
	mem_release((const void *)(uintptr_t)e->token);
	hca_trace("cqe", (uint64_t)cq->port << 24 | e->qpn, e->status, e->bytes);
	if (!cq->held)
		hca_cq_show_until(cq, cq->head);
	if (cq->arm == HCA_ARM_ANY || (cq->arm == HCA_ARM_SOLICITED && (solicited || e->status)))
		hca_cq_notify(cq);
	hca_cq_unlock_changed(cq);
}

/* Contents of the vendor's error register. The numbers are our own, so that reports can be
 * distinguished. */
enum hca_vendor_error {
	HCA_VENDOR_FLUSH = 0xf9,
	HCA_VENDOR_RETRY = 0x81,
	HCA_VENDOR_RNR = 0x82,
	HCA_VENDOR_REMOTE = 0x88,
	HCA_VENDOR_LOCAL = 0x33,
};

static uint32_t hca_vendor_error(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return HCA_VENDOR_FLUSH;
	case IBV_WC_RETRY_EXC_ERR:
		return HCA_VENDOR_RETRY;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return HCA_VENDOR_RNR;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return HCA_VENDOR_REMOTE;
	default:
		return HCA_VENDOR_LOCAL;
	}
}

/* ---- sends and receives --------------------------------------------------------------------- */

static uint32_t hca_send_wc_opcode(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return IBV_WC_SEND;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

/* Counts the oldest request as done, after its completion was pushed. If the process dies between
 * the two, the repair (repair.c) finds the pushed completion. */
static void hca_queue_done(struct hca_queue *q)
{
	__atomic_store_n(&q->done, q->done + 1, __ATOMIC_RELEASE);
}

/* Fills the slot field by field. This code runs often, and a struct literal would clear the whole
 * slot first. */
static inline void hca_send_fill(const struct hca_qp *qp, const struct hca_wqe *e,
				 enum ibv_wc_status status, struct hca_cqe *to)
{
	to->wr_id = e->wr_id;
	to->status = status;
	to->opcode = hca_send_wc_opcode(e->opcode);
	to->vendor_error = status == IBV_WC_SUCCESS ? 0 : hca_vendor_error(status);
	to->bytes = (uint32_t)e->bytes;
	to->imm = to->flags = 0;
	to->qpn = qp->number;
	to->qp = qp->item.index;
	to->generation = qp->item.generation;
	to->is_recv = 0;
	to->slot = qp->sq.done + 1;
	to->srq = to->srq_generation = 0;
	to->src_qpn = 0;
	to->slid = to->sl = to->pkey_index = to->pad1 = 0;
}

static void hca_send_count_failed(const struct hca_qp *qp, enum ibv_wc_status status)
{
	hca_count(qp->port, HCA_SENDS_FAILED);
	if (status == IBV_WC_WR_FLUSH_ERR)
		hca_count(qp->port, HCA_SENDS_FLUSHED);
	else if (status == IBV_WC_REM_INV_REQ_ERR)
		hca_count(qp->port, HCA_REFUSED_REQUESTS);
	else if (status == IBV_WC_REM_ACCESS_ERR)
		hca_count(qp->port, HCA_REFUSED_ACCESSES);
}

static void hca_recv_count(struct hca_qp *qp, enum ibv_wc_status status)
{
	if (LIKELY(status == IBV_WC_SUCCESS)) {
		hca_qp_count(qp, HCA_COMPLETED_RECEIVES, 1);
		return;
	}
	hca_count(qp->port, HCA_RECEIVES_FAILED);
	if (status == IBV_WC_WR_FLUSH_ERR)
		hca_count(qp->port, HCA_RECEIVES_FLUSHED);
	else if (status == IBV_WC_LOC_LEN_ERR)
		hca_count(qp->port, HCA_RECEIVES_TOO_SMALL);
}

static void hca_send_failed(const struct hca_qp *qp, const struct hca_wqe *e,
			    enum ibv_wc_status status)
{
	const struct peermem_ops *gpu = peermem();

	hca_send_count_failed(qp, status);
	if (e->opcode == IBV_WR_RDMA_READ && gpu && gpu->landed)
		gpu->landed(qp->port);
}

void hca_send_complete(struct hca_qp *qp, enum ibv_wc_status status)
{
	struct hca_queue *q = &qp->sq;
	struct hca_wqe *e = hca_wqe_at(q, q->done);

	ASSERT(q->done != q->head);
	ASSERT(q->next - q->done <= q->head - q->done);
	hca_account_end(q, e, "send");
	if (e->check_noted && status == IBV_WC_SUCCESS)
		hca_check_sent(qp, e);
	if (status == IBV_WC_SUCCESS && hca_wqe_frees_pages(e))
		hca_sges_sent(qp->pd, hca_wqe_sges(e), e->sge_count);
	mem_acquire(e);
	if (q->next == q->done) {
		q->next++;
		qp->req.offset = 0;
	}
	if (e->started && hca_wqe_is_answered(e)) {
		ASSERT(qp->req.reads > 0);
		qp->req.reads--;
	}
	if (LIKELY(status == IBV_WC_SUCCESS))
		hca_qp_count(qp, HCA_COMPLETED_SENDS, hca_send_wc_opcode(e->opcode) == IBV_WC_SEND);
	else
		hca_send_failed(qp, e, status);
	if (status == IBV_WC_SUCCESS && !qp->signal_all && !(e->flags & IBV_SEND_SIGNALED)) {
		q->done++;
		return;
	}
	ASSERT(qp->send_cq != HCA_NONE); /* an XRC target, which has none, refuses posts */
	struct hca_cq *cq = hca_slab_at(&hca_world()->cq, qp->send_cq);
	struct hca_cqe *to = hca_cq_begin(cq);

	if (LIKELY(to != NULL)) {
		hca_send_fill(qp, e, status, to);
		hca_cq_end(cq, to, false);
	}
	hca_queue_done(q);
}

void hca_recv_complete(struct hca_qp *qp, enum ibv_wc_status status, const struct hca_packet *p,
		       uint64_t bytes)
{
	struct hca_queue *q = &qp->rq;
	struct hca_wqe *e = hca_wqe_at(q, q->done);

	ASSERT(q->done != q->head);
	hca_account_end(q, e, "receive");
	hca_recv_count(qp, status);
	mem_acquire(e);
	struct hca_cqe cqe = {.wr_id = e->wr_id,
			      .status = status,
			      .vendor_error = hca_vendor_error(status),
			      .bytes = (uint32_t)bytes,
			      .qpn = qp->number,
			      .qp = qp->item.index,
			      .generation = qp->item.generation,
			      .is_recv = 1,
			      .slot = q->done + 1,
			      .srq = qp->srq};

	if (qp->srq)
		cqe.srq_generation = qp->srq_generation;
	if (p) {
		cqe.opcode = p->kind == HCA_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
		cqe.imm = p->flags & (HCA_IMM | HCA_INVALIDATE) ? p->imm : 0;
		cqe.flags = p->flags & HCA_IMM ? IBV_WC_WITH_IMM : 0;
		if (qp->type == IBV_QPT_UD) {
			cqe.flags |= p->route.global ? IBV_WC_GRH : 0;
			cqe.src_qpn = p->from_qpn;
			cqe.slid = p->route.slid;
			cqe.sl = hca_route_sl(&p->route);
			cqe.pkey_index = (uint16_t)qp->pkey_index;
		}
		cqe.flags |= p->flags & HCA_INVALIDATE ? IBV_WC_WITH_INV : 0;
	}
	ASSERT(qp->recv_cq != HCA_NONE); /* the receive of an XRC target binds it (xrc.c) */
	struct hca_cq *cq = hca_slab_at(&hca_world()->cq, qp->recv_cq);
	struct hca_cqe *to = hca_cq_begin(cq);

	if (LIKELY(to != NULL)) {
		*to = cqe;
		hca_cq_end(cq, to, p && (p->flags & HCA_SOLICITED));
	}
	hca_queue_done(q);
}
