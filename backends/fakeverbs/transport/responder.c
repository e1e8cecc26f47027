/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder half of a queue pair. It takes request packets in PSN order, reads or places bytes
 * after every check, and answers. A packet before the expected PSN is a duplicate: it is
 * acknowledged again. A duplicate atomic receives its logged answer; only a READ is executed again.
 * A packet after the expected PSN shows a loss: one NAK, then silence until the expected one
 * arrives. An error of the requester moves this queue pair to ERR. An asynchronous event reports
 * it, because no receive can.
 */
#include "backends/fakeverbs/transport/transport.h"

static void hca_answer(struct hca_qp *qp, enum hca_packet_kind kind, uint32_t psn, enum hca_nak nak)
{
	ASSERT(kind == HCA_ACK || kind == HCA_NAK);
	if (!hca_qp_type_acked((enum ibv_qp_type)qp->type))
		return; /* the peer expects no answer */
	struct hca_packet *p = hca_packet_new(qp, kind, 0);

	p->psn = psn;
	p->packets = 1;
	p->nak = nak;
	p->rnr_timer = qp->min_rnr_timer;
	hca_packet_send(qp, p);
}

/* Sends a NAK for an error of the requester, and moves this queue pair to ERR. */
static void hca_responder_refuse(struct hca_qp *qp, const struct hca_packet *p, enum hca_nak nak)
{
	enum ibv_event_type event =
		nak == HCA_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;

	ASSERT(nak != HCA_NAK_SEQUENCE && nak != HCA_NAK_RNR); /* these request a resend */
	if (nak == HCA_NAK_ACCESS)
		hca_count(qp->port, HCA_ACCESSES_REFUSED);
	hca_answer(qp, HCA_NAK, p->psn, nak);
	if (hca_personality(qp->port)->reports_connections)
		hca_event_post(qp->context, event, qp->item.index, qp->item.generation);
	hca_qp_to_error(qp);
}

void hca_responder_fail_recv(struct hca_qp *qp, const struct hca_packet *p,
			     enum ibv_wc_status status, enum hca_nak nak)
{
	ASSERT(status != IBV_WC_SUCCESS);
	hca_answer(qp, HCA_NAK, p->psn, nak);
	hca_recv_complete(qp, status, NULL, 0);
	hca_qp_to_error(qp);
}

/* Class J of the specification (9.9.6.3): no NAK. The requester notices when its retries are
 * spent. */
void hca_responder_fail_invalidate(struct hca_qp *qp)
{
	hca_recv_complete(qp, IBV_WC_REM_INV_REQ_ERR, NULL, 0);
	hca_qp_to_error(qp);
}

/* Refuses a key that does not allow a write. has_recv: the receive for this packet is posted. */
static void hca_responder_refuse_key(struct hca_qp *qp, const struct hca_packet *p, bool has_recv)
{
	enum ibv_wc_status status = hca_personality(qp->port)->refused_imm_status;

	hca_check_remote_key(qp, p, IBV_ACCESS_REMOTE_WRITE);
	if (has_recv && status != IBV_WC_SUCCESS)
		hca_responder_fail_recv(qp, p, status, HCA_NAK_ACCESS);
	else
		hca_responder_refuse(qp, p, HCA_NAK_ACCESS);
}

static void hca_responder_not_ready(struct hca_qp *qp, const struct hca_packet *p)
{
	hca_count(qp->port, HCA_NO_RECEIVES);
	hca_count(qp->port, HCA_RNR_NAKS_SENT);
	qp->resp.nak_sent = 1;
	hca_answer(qp, HCA_NAK, p->psn, HCA_NAK_RNR);
}

static bool hca_responder_no_receive(struct hca_qp *qp, const struct hca_packet *p)
{
	if (qp->rq.done != qp->rq.head || (qp->srq && hca_srq_take(qp)))
		return false;
	hca_responder_not_ready(qp, p);
	return true;
}

static void hca_responder_done(struct hca_qp *qp, const struct hca_packet *p)
{
	ASSERT(hca_psn_diff(p->psn, qp->resp.psn) ==
	       0); /* in order: overtaken packets wait for it */
	qp->resp.psn = hca_psn_add(p->psn, p->packets);
	qp->resp.nak_sent = 0;
	if (p->flags & HCA_ACK_REQUEST) {
		if (!hca_world()->ack_shows_nothing)
			mem_release(NULL); /* acknowledged data is in memory */
		hca_answer(qp, HCA_ACK, hca_psn_add(qp->resp.psn, HCA_PSN_MASK), HCA_NAK_SEQUENCE);
	}
}

bool hca_responder_received(struct hca_qp *qp, const struct hca_packet *p, uint64_t bytes)
{
	struct os_fault f;

	if (hca_fault("verbs.recv_cqe", (const void *)(uintptr_t)qp->item.handle, qp->port, -1,
		      &f)) {
		if (f.kind != OS_FAULT_LATE) {
			hca_responder_fail_recv(
				qp, p, f.arg ? (enum ibv_wc_status)f.arg : IBV_WC_GENERAL_ERR,
				HCA_NAK_OPERATION);
			return false;
		}
		hca_cq_hold(hca_slab_at(&hca_world()->cq, qp->recv_cq), UINT32_MAX, f.arg);
	}
	hca_recv_complete(qp, IBV_WC_SUCCESS, p, bytes);
	return true;
}

static void hca_responder_write(struct hca_qp *qp, const struct hca_packet *p)
{
	if (!(qp->access & IBV_ACCESS_REMOTE_WRITE)) {
		hca_check_remote_flags(qp, p, IBV_ACCESS_REMOTE_WRITE);
		hca_responder_refuse(qp, p, HCA_NAK_INVALID);
		return;
	}
	bool needs_recv = (p->flags & HCA_LAST) && (p->flags & HCA_IMM);

	if (needs_recv && hca_responder_no_receive(qp, p))
		return;
	if (p->total) { /* the key of a write of 0 bytes is not checked */
		uint64_t at = p->remote_address;
		struct hca_mr *mr =
			hca_remote_hold(qp, p->rkey, &at, p->total, IBV_ACCESS_REMOTE_WRITE);

		if (!mr) {
			hca_responder_refuse_key(qp, p, needs_recv);
			return;
		}
		int rc = hca_overtake_landed(qp, p)
				 ? 0
				 : hca_mr_write(mr, at + p->offset, hca_packet_data(p), p->bytes);

		hca_mr_release(mr);
		if (rc) {
			hca_responder_refuse(qp, p, HCA_NAK_OPERATION);
			return;
		}
		os_trace_bytes("write.place", hca_qp_id(qp), hca_packet_data(p), p->bytes);
	}
	if (needs_recv && !hca_responder_received(qp, p, p->total))
		return;
	hca_responder_done(qp, p);
}

bool hca_responder_place(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	struct hca_wqe *e = hca_wqe_at(&qp->rq, qp->rq.done);

	ASSERT(qp->rq.done != qp->rq.head); /* a message keeps its receive until it ends */
	mem_acquire(e);
	if (r->received + p->bytes > e->bytes) {
		hca_recv_too_small(qp, p);
		return false;
	}
	if (p->bytes && hca_sges_write(qp->recv_pd, hca_wqe_sges(e), e->sge_count, r->received,
				       hca_packet_data(p), p->bytes)) {
		hca_check_local_keys(qp, qp->recv_pd, e, IBV_ACCESS_LOCAL_WRITE, "receive");
		hca_responder_fail_recv(qp, p, hca_bad_receive(qp), HCA_NAK_OPERATION);
		return false;
	}
	os_trace_bytes("send.place", hca_qp_id(qp), hca_packet_data(p), p->bytes);
	r->received += p->bytes;
	if ((p->flags & HCA_INVALIDATE) && !hca_window_invalidate(qp, p->imm)) {
		hca_responder_fail_invalidate(qp);
		return false;
	}
	if (!(p->flags & HCA_LAST))
		return true;
	r->receiving = 0;
	return hca_responder_received(qp, p, r->received);
}

static void hca_responder_send(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;

	if ((p->flags & HCA_FIRST) && !r->receiving) {
		if (hca_responder_no_receive(qp, p))
			return;
		r->receiving = 1;
		r->received = 0;
	}
	if (!r->receiving || r->received != p->offset) {
		hca_responder_refuse(qp, p, HCA_NAK_INVALID);
		return;
	}
	if (hca_responder_place(qp, p))
		hca_responder_done(qp, p);
}

/* Executes a READ. Also for a duplicate, which returns the memory's current contents. */
static void hca_responder_read(struct hca_qp *qp, const struct hca_packet *p, bool duplicate)
{
	bool one_more = !duplicate && (p->flags & HCA_FIRST);

	if (!(qp->access & IBV_ACCESS_REMOTE_READ) || !qp->max_dest_rd_atomic ||
	    (one_more && hca_answers_spent(qp))) {
		if (!(qp->access & IBV_ACCESS_REMOTE_READ))
			hca_check_remote_flags(qp, p, IBV_ACCESS_REMOTE_READ);
		else
			hca_check_remote_reads(qp, p);
		hca_responder_refuse(qp, p, HCA_NAK_INVALID);
		return;
	}
	struct hca_packet *answer = hca_packet_new(qp, HCA_RESPONSE, p->bytes);
	enum hca_nak nak = HCA_NAK_ACCESS;
	int rc = 0;

	if (p->total) {
		uint64_t at = p->remote_address;
		struct hca_mr *mr =
			hca_remote_hold(qp, p->rkey, &at, p->total, IBV_ACCESS_REMOTE_READ);

		if (!mr) {
			hca_check_remote_key(qp, p, IBV_ACCESS_REMOTE_READ);
			goto err;
		}
		rc = hca_mr_read(mr, at + p->offset, hca_packet_data(answer), p->bytes);
		hca_mr_release(mr);
		nak = HCA_NAK_OPERATION;
	}
	if (rc)
		goto err;
	answer->psn = p->psn;
	answer->packets = p->packets;
	mem_release(answer);
	hca_packet_send(qp, answer);
	if (!duplicate) {
		if (p->flags & HCA_FIRST)
			hca_answer_note(qp, p->psn, false, 0);
		hca_answer_bytes(qp, p->bytes);
		qp->resp.psn = hca_psn_add(p->psn, p->packets);
		qp->resp.nak_sent = 0;
	}
	return;
err:
	hca_packet_free(answer);
	hca_responder_refuse(qp, p, nak);
}

static void hca_responder_atomic_first(struct hca_qp *qp, const struct hca_packet *p)
{
	enum hca_nak nak = HCA_NAK_INVALID;

	bool spent = hca_answers_spent(qp);

	if (spent || !hca_responder_atomic(qp, p, &nak)) {
		if (spent)
			hca_check_remote_reads(qp, p);
		else if (nak == HCA_NAK_ACCESS)
			hca_check_remote_key(qp, p, IBV_ACCESS_REMOTE_ATOMIC);
		else if (!(qp->access & IBV_ACCESS_REMOTE_ATOMIC))
			hca_check_remote_flags(qp, p, IBV_ACCESS_REMOTE_ATOMIC);
		hca_responder_refuse(qp, p, nak);
		return;
	}
	qp->resp.psn = hca_psn_add(p->psn, 1);
	qp->resp.nak_sent = 0;
}

/* Lets a fault refuse the request, or put it off. True: it did. */
static bool hca_responder_fault(struct hca_qp *qp, const struct hca_packet *p)
{
	struct os_fault f;

	if (!hca_fault("verbs.request", (const void *)(uintptr_t)qp->item.handle, qp->port, -1, &f))
		return false;
	if (f.kind == OS_FAULT_NOT_READY) {
		hca_responder_not_ready(qp, p);
	} else {
		hca_responder_refuse(qp, p,
				     f.arg >= HCA_NAK_INVALID && f.arg < HCA_NAK_RNR
					     ? (enum hca_nak)f.arg
					     : HCA_NAK_ACCESS);
	}
	return true;
}

void hca_responder_established(struct hca_qp *qp)
{
	if (qp->state != IBV_QPS_RTR || qp->resp.established)
		return;
	qp->resp.established = 1;
	if (!hca_personality(qp->port)->reports_connections)
		return;
	hca_event_post(qp->context, IBV_EVENT_COMM_EST, qp->item.index, qp->item.generation);
}

void hca_request_count(struct hca_qp *qp, const struct hca_packet *p)
{
	static const uint32_t counter[] = {[HCA_WRITE] = HCA_RECEIVED_WRITES,
					   [HCA_READ] = HCA_RECEIVED_READS,
					   [HCA_ATOMIC] = HCA_RECEIVED_ATOMICS};

	if (p->kind != HCA_SEND)
		hca_qp_count(qp, (enum hca_counter)counter[p->kind], 1);
}

/* Handles a packet after the expected PSN: an earlier one was lost, or is late. */
static void hca_responder_ahead(struct hca_qp *qp, const struct hca_packet *p)
{
	if (hca_overtake_take(qp, p))
		return;
	hca_count(qp->port, HCA_OUT_OF_SEQUENCE);
	if (qp->resp.nak_sent)
		return;
	qp->resp.nak_sent = 1;
	hca_answer(qp, HCA_NAK, qp->resp.psn, HCA_NAK_SEQUENCE);
}

void hca_responder_request(struct hca_qp *qp, const struct hca_packet *p)
{
	int32_t ahead = hca_psn_diff(p->psn, qp->resp.psn);

	hca_responder_established(qp);
	OS_PROBE("hca.request_missing", "a request comes before one that was lost or is late",
		 ahead > 0);
	OS_PROBE("hca.request_again", "a write or send comes that is already done",
		 ahead < 0 && p->kind != HCA_READ && p->kind != HCA_ATOMIC);
	OS_PROBE("hca.read_again", "an RDMA read is requested again",
		 ahead < 0 && p->kind == HCA_READ);
	if (ahead > 0) {
		hca_responder_ahead(qp, p);
		return;
	}
	if (ahead < 0)
		hca_count(qp->port, HCA_DUPLICATES);
	else if (p->flags & HCA_FIRST)
		hca_request_count(qp, p);
	hca_atomic_settle(qp);
	if (ahead < 0 && p->kind == HCA_ATOMIC) {
		hca_responder_atomic_again(qp, p);
		return;
	}
	if (ahead < 0 && p->kind != HCA_READ) {
		hca_answer(qp, HCA_ACK, hca_psn_add(qp->resp.psn, HCA_PSN_MASK), HCA_NAK_SEQUENCE);
		return;
	}
	if (qp->type == IBV_QPT_XRC_RECV && !hca_xrc_bind(qp, p->srqn)) {
		hca_responder_refuse(qp, p, HCA_NAK_INVALID);
		return;
	}
	if (ahead == 0 && hca_responder_fault(qp, p))
		return;
	switch (p->kind) {
	case HCA_WRITE:
		hca_responder_write(qp, p);
		break;
	case HCA_SEND:
		hca_responder_send(qp, p);
		break;
	case HCA_ATOMIC:
		hca_responder_atomic_first(qp, p);
		break;
	default:
		hca_responder_read(qp, p, ahead < 0);
		break;
	}
}
