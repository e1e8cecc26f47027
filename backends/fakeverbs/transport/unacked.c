/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs without acknowledges: unreliable connections (UC), and the sending side of datagrams
 * (ud.c has the rest of those).
 *
 * A send is complete when its last packet has left. Nothing is kept for a resend, so there is no
 * window and no timer. A failed send stops only the send queue: SQE, from which modify_qp leads
 * back to RTS. Receives continue. Nothing is answered: a UC drops a message silently if a packet is
 * missing or the operation is not allowed. The next message starts afresh, in the receive that was
 * not used.
 */
#include "backends/fakeverbs/transport/transport.h"

bool hca_opcode_fits(enum ibv_qp_type type, uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return type != IBV_QPT_UD;
	case IBV_WR_TSO:
		return type == IBV_QPT_UD;
	default:
		return hca_qp_type_acked(type);
	}
}

/* ---- requester ------------------------------------------------------------------------------ */

void hca_qp_to_sqe(struct hca_qp *qp)
{
	ASSERT(!hca_qp_type_acked((enum ibv_qp_type)qp->type));
	ASSERT(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD); /* only these transmit */
	OS_PROBE_IDLE("hca.send_queue_error", "a send that fails leaves the receive side alone",
		      "the stack's connections are reliable", true);
	hca_qp_set_state(qp, IBV_QPS_SQE);
	hca_send_flush(qp);
}

/* Counts the packet as sent; it needs no acknowledge. */
static void hca_unacked_advance(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_requester *r = &qp->req;

	ASSERT(!hca_requester_outstanding(qp));
	r->psn_next = hca_psn_add(r->psn_next, p->packets);
	r->psn_una = r->psn_max = r->psn_next;
	r->offset += p->bytes;
	if (p->flags & HCA_LAST) {
		qp->sq.next++;
		r->offset = 0;
	}
}

bool hca_unacked_burst(struct hca_qp *qp, uint64_t *wire_bytes)
{
	if (qp->sq.next == qp->sq.head)
		return false;
	struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.next);

	if (!hca_wqe_start(qp, e))
		return false;
	if (hca_wqe_is_local(e))
		return hca_local_done(qp, e);
	mem_acquire(e);
	bool datagram = qp->type == IBV_QPT_UD;
	uint32_t bytes = (uint32_t)MIN_OF(e->bytes - qp->req.offset, (uint64_t)HCA_BURST_BYTES);

	if (datagram && e->bytes > qp->mtu_bytes) {
		/* personalities with datagram_too_long false drop it: no packet, and no error */
		*wire_bytes = 0;
		qp->sq.next++;
		hca_send_succeed(qp);
		return true;
	}
	struct hca_packet *p = hca_burst_make(qp, e, bytes);

	if (hca_burst_fill(qp, e, p)) {
		hca_packet_free(p);
		hca_send_fail(qp, hca_bad_request(qp, e));
		return false;
	}
	bool last = p->flags & HCA_LAST;

	hca_unacked_advance(qp, p);
	*wire_bytes = p->bytes;
	mem_release(p);
	if (datagram)
		hca_ud_send(qp, e, p);
	else
		hca_packet_send(qp, p);
	if (last)
		hca_send_succeed(qp);
	if (qp->state == IBV_QPS_SQD)
		hca_requester_drained(qp);
	return true;
}

/* ---- responder of a UC ---------------------------------------------------------------------- */

static void hca_uc_drop(struct hca_qp *qp)
{
	OS_PROBE_IDLE("hca.message_dropped",
		      "a message of an unreliable transport is dropped half way",
		      "the stack's connections are reliable", true);
	qp->resp.receiving = 0;
	qp->resp.writing = 0;
}

/* True if this packet may start or continue a message. */
static bool hca_uc_in_order(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	bool gap = p->psn != r->psn;

	if (gap)
		hca_count(qp->port, HCA_OUT_OF_SEQUENCE);
	uint32_t *mine = p->kind == HCA_SEND ? &r->receiving : &r->writing;

	r->psn = hca_psn_add(p->psn, p->packets);
	if (gap || (p->flags & HCA_FIRST)) {
		if (r->receiving || r->writing || !(p->flags & HCA_FIRST))
			hca_uc_drop(qp);
		r->received = 0;
		return p->flags & HCA_FIRST;
	}
	return *mine && r->received == p->offset;
}

static bool hca_uc_has_receive(struct hca_qp *qp)
{
	if (qp->rq.done != qp->rq.head || (qp->srq && hca_srq_take(qp)))
		return true;
	hca_count(qp->port, HCA_NO_RECEIVES);
	return false;
}

static void hca_uc_write(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	bool needs_recv = (p->flags & HCA_LAST) && (p->flags & HCA_IMM);
	int rc = qp->access & IBV_ACCESS_REMOTE_WRITE ? 0 : EACCES;

	if (!rc && p->total) { /* the key of a write of 0 bytes is not checked */
		uint64_t at = p->remote_address;
		struct hca_mr *mr =
			hca_remote_hold(qp, p->rkey, &at, p->total, IBV_ACCESS_REMOTE_WRITE);

		rc = mr ? hca_mr_write(mr, at + p->offset, hca_packet_data(p), p->bytes) : EACCES;
		if (mr)
			hca_mr_release(mr);
	}
	if (rc || (needs_recv && !hca_uc_has_receive(qp))) {
		if (!rc)
			hca_check(HCA_RULE_IMM_NO_RECV, p->caller,
				  "qp 0x%x: a WRITE with immediate data came, and no receive is "
				  "posted: on this unreliable connection no completion reports it",
				  qp->number);
		hca_uc_drop(qp);
		return;
	}
	if (p->total)
		os_trace_bytes("write.place", hca_qp_id(qp), hca_packet_data(p), p->bytes);
	r->received += p->bytes;
	r->writing = !(p->flags & HCA_LAST);
	if (needs_recv)
		hca_responder_received(qp, p, p->total);
}

static void hca_uc_send(struct hca_qp *qp, const struct hca_packet *p)
{
	if ((p->flags & HCA_FIRST) && !hca_uc_has_receive(qp)) {
		hca_uc_drop(qp);
		return;
	}
	qp->resp.receiving = 1;
	(void)hca_responder_place(qp, p); /* this side sends no answer */
}

void hca_recv_too_small(struct hca_qp *qp, const struct hca_packet *p)
{
	bool malformed = hca_personality(qp->port)->bad_receive_malformed;

	qp->resp.receiving = 0;
	hca_responder_fail_recv(qp, p, malformed ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR,
				malformed ? HCA_NAK_OPERATION : HCA_NAK_INVALID);
}

void hca_uc_request(struct hca_qp *qp, const struct hca_packet *p)
{
	hca_responder_established(qp);
	if (!hca_uc_in_order(qp, p))
		return;
	if (p->flags & HCA_FIRST)
		hca_request_count(qp, p);
	if (p->kind == HCA_WRITE)
		hca_uc_write(qp, p);
	else if (p->kind == HCA_SEND)
		hca_uc_send(qp, p);
}
