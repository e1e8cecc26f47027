/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester half of a queue pair: the packets that leave it. Send requests start in order. Each
 * becomes bursts of packets from the current PSN on. Replies (replies.c) advance psn_una:
 *
 *     done ........ next ........ head          (send queue, by request)
 *     psn_una ..... psn_next ... psn_max        (by packet)
 *
 * A request with a local error fails only when it is the oldest, so that completions stay in order.
 * A READ requests one burst at a time, so that its answers respect the window like WRITEs.
 */
#include "backends/fakeverbs/transport/transport.h"

/* ---- completion ----------------------------------------------------------------------------- */

void hca_send_fail(struct hca_qp *qp, enum ibv_wc_status status)
{
	ASSERT(status != IBV_WC_SUCCESS);
	hca_send_complete(qp, status);
	if (hca_qp_type_acked((enum ibv_qp_type)qp->type) ||
	    !hca_personality(qp->port)->send_error_is_sqe)
		hca_qp_to_error(qp);
	else
		hca_qp_to_sqe(qp);
}

/* Completes the oldest request with success, unless a fault changes it. */
static void hca_send_succeed_one(struct hca_qp *qp)
{
	const struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);
	struct os_fault f;

	if (!hca_fault("verbs.cqe", (const void *)(uintptr_t)qp->item.handle, qp->port, e->step,
		       &f)) {
		hca_send_complete(qp, IBV_WC_SUCCESS);
	} else if (f.kind == OS_FAULT_LATE) {
		hca_cq_hold(hca_slab_at(&hca_world()->cq, qp->send_cq), UINT32_MAX, f.arg);
		hca_send_complete(qp, IBV_WC_SUCCESS);
	} else {
		hca_send_fail(qp, f.arg ? (enum ibv_wc_status)f.arg : IBV_WC_GENERAL_ERR);
	}
}

/* Completes the oldest request, and the executed requests after it that needed no packets. */
void hca_send_succeed(struct hca_qp *qp)
{
	const struct hca_wqe *e;

	do {
		hca_send_succeed_one(qp);
		if (qp->state == IBV_QPS_ERR || qp->sq.done == qp->sq.next)
			return;
		e = hca_wqe_at(&qp->sq, qp->sq.done);
	} while (e->started && hca_wqe_is_local(e) && !e->status);
}

/* ---- transmitting --------------------------------------------------------------------------- */

static uint32_t hca_wqe_packets(const struct hca_qp *qp, const struct hca_wqe *e)
{
	return e->bytes ? (uint32_t)DIV_UP(e->bytes, qp->mtu_bytes) : 1;
}

enum ibv_wc_status hca_bad_request(const struct hca_qp *qp, struct hca_wqe *e)
{
	if (!hca_personality(qp->port)->bad_key_malformed || e->opcode == IBV_WR_RDMA_READ ||
	    hca_wqe_is_atomic(e))
		return IBV_WC_LOC_PROT_ERR;
	for (uint32_t i = 0; i < e->sge_count; i++)
		if (!hca_key_live(qp->pd, hca_wqe_sges(e)[i].lkey))
			return IBV_WC_LOC_QP_OP_ERR;
	return IBV_WC_LOC_PROT_ERR;
}

enum ibv_wc_status hca_bad_receive(const struct hca_qp *qp)
{
	return hca_personality(qp->port)->bad_receive_malformed ? IBV_WC_LOC_QP_OP_ERR
								: IBV_WC_LOC_PROT_ERR;
}

/* Finds local errors of a request before its first packet leaves. */
static enum ibv_wc_status hca_wqe_local_status(const struct hca_qp *qp, struct hca_wqe *e)
{
	if (e->bytes > hca_personality(qp->port)->max_message_bytes &&
	    hca_personality(qp->port)->length_checked)
		return IBV_WC_LOC_LEN_ERR;
	if (!hca_opcode_fits((enum ibv_qp_type)qp->type, e->opcode) ||
	    (hca_wqe_is_answered(e) && !qp->max_rd_atomic))
		return IBV_WC_LOC_QP_OP_ERR;
	if (qp->type == IBV_QPT_UD && hca_ud_status(qp, e))
		return hca_ud_status(qp, e);
	if (hca_wqe_is_answered(e) && e->opcode != IBV_WR_RDMA_READ &&
	    e->bytes != sizeof e->operand[0])
		return IBV_WC_LOC_LEN_ERR;
	if (e->flags & IBV_SEND_INLINE)
		return IBV_WC_SUCCESS;
	bool fetches = e->opcode == IBV_WR_RDMA_READ || hca_wqe_is_atomic(e);
	uint32_t access = fetches ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (!hca_sges_check(qp->pd, hca_wqe_sges(e), e->sge_count, access))
		return IBV_WC_SUCCESS;
	hca_check_local_keys(qp, qp->pd, e, access, "send");
	if (hca_wqe_is_atomic(e) && !hca_personality(qp->port)->atomic_result_checked)
		/* executed at the peer; the answer then fails for lack of a buffer */
		return IBV_WC_SUCCESS;
	return hca_bad_request(qp, e);
}

/* Starts the transmission of sq.next, if its state, fence and limits allow it. */
bool hca_wqe_start(struct hca_qp *qp, struct hca_wqe *e)
{
	if (e->started)
		return !e->status;
	if (qp->state != IBV_QPS_RTS)
		return false;
	if ((e->flags & IBV_SEND_FENCE) && qp->req.reads)
		return false;
	if (hca_wqe_is_answered(e) && qp->req.reads >= qp->max_rd_atomic &&
	    (qp->max_rd_atomic || !hca_personality(qp->port)->no_reads_fail))
		return false;
	struct os_fault f;

	if (!e->status)
		e->status = hca_wqe_local_status(qp, e);
	if (!e->status && hca_fault("verbs.start", (const void *)(uintptr_t)qp->item.handle,
				    qp->port, e->step, &f))
		e->status = f.arg ? (uint32_t)f.arg : IBV_WC_LOC_PROT_ERR;
	if (e->status) {
		if (qp->sq.done == qp->sq.next)
			hca_send_fail(qp, (enum ibv_wc_status)e->status);
		return false;
	}
	ASSERT(qp->req.psn_next == qp->req.psn_max && qp->req.offset == 0);
	e->started = 1;
	e->psn = qp->req.psn_next;
	e->packets = hca_wqe_is_local(e) ? 0 : hca_wqe_packets(qp, e);
	if (hca_wqe_is_local(e))
		e->status = hca_wqe_do_locally(qp, e);
	if (hca_wqe_is_answered(e)) {
		ASSERT(qp->req.reads < qp->max_rd_atomic);
		qp->req.reads++;
	}
	return true;
}

struct hca_packet *hca_burst_make(struct hca_qp *qp, struct hca_wqe *e, uint32_t bytes)
{
	static const uint32_t kind[] = {[IBV_WR_RDMA_WRITE] = HCA_WRITE,
					[IBV_WR_RDMA_WRITE_WITH_IMM] = HCA_WRITE,
					[IBV_WR_SEND] = HCA_SEND,
					[IBV_WR_SEND_WITH_IMM] = HCA_SEND,
					[IBV_WR_SEND_WITH_INV] = HCA_SEND,
					[IBV_WR_RDMA_READ] = HCA_READ,
					[IBV_WR_ATOMIC_CMP_AND_SWP] = HCA_ATOMIC,
					[IBV_WR_ATOMIC_FETCH_AND_ADD] = HCA_ATOMIC,
					[IBV_WR_ATOMIC_WRITE] = HCA_ATOMIC};
	struct hca_requester *r = &qp->req;

	ASSERT(e->opcode < ARRAY_LEN(kind) && r->offset + bytes <= e->bytes);
	/* a burst ends between two packets, or with its message */
	ASSERT(!(bytes & (qp->mtu_bytes - 1)) || r->offset + bytes == e->bytes);
	struct hca_packet *p =
		hca_packet_new(qp, (enum hca_packet_kind)kind[e->opcode],
			       hca_wqe_is_atomic(e) ? (uint32_t)sizeof e->operand : bytes);

	p->psn = r->psn_next;
	p->packets = bytes ? DIV_UP(bytes, qp->mtu_bytes) : 1;
	p->offset = r->offset;
	p->total = e->bytes;
	p->remote_address = e->remote_address;
	p->rkey = e->rkey;
	p->imm = e->imm;
	p->srqn = e->srqn;
	p->operation = e->opcode;
	p->caller = e->caller;
	p->flow = e->flow;
	p->flags = HCA_ACK_REQUEST | (r->offset ? 0 : HCA_FIRST);
	if (r->offset + bytes == e->bytes) {
		bool imm = e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
			   e->opcode == IBV_WR_SEND_WITH_IMM;

		p->flags |= HCA_LAST | (imm ? HCA_IMM : 0) |
			    (e->opcode == IBV_WR_SEND_WITH_INV ? HCA_INVALIDATE : 0) |
			    (e->flags & IBV_SEND_SOLICITED ? HCA_SOLICITED : 0);
	}
	return p;
}

/* Copies the payload from the program's memory now: not at the post, and again when it is
 * resent. */
int hca_burst_fill(struct hca_qp *qp, struct hca_wqe *e, struct hca_packet *p)
{
	if (p->kind == HCA_READ || !p->bytes)
		return 0;
	if (hca_wqe_is_atomic(e)) {
		ASSERT(p->bytes == sizeof e->operand);
		memcpy(hca_packet_data(p), e->operand, sizeof e->operand);
		return 0;
	}
	if (e->flags & IBV_SEND_INLINE) {
		ASSERT(p->offset + p->bytes <= qp->sq.inline_max);
		memcpy(hca_packet_data(p), (uint8_t *)(e + 1) + p->offset, p->bytes);
		return 0;
	}
	return hca_sges_read(qp->pd, hca_wqe_sges(e), e->sge_count, p->offset, hca_packet_data(p),
			     p->bytes);
}

/* Finishes a request that was executed at its start. It completes when all earlier ones have
 * completed. False: it failed. */
bool hca_local_done(struct hca_qp *qp, const struct hca_wqe *e)
{
	bool first = qp->sq.done == qp->sq.next;

	ASSERT(e->started && hca_wqe_is_local(e));

	if (e->status) {
		if (first)
			hca_send_fail(qp, (enum ibv_wc_status)e->status);
		return false;
	}
	qp->sq.next++;
	if (first)
		hca_send_succeed(qp);
	return true;
}

/* Sends one burst of sq.next; false: nothing can be sent now. */
static bool hca_requester_burst(struct hca_qp *qp, uint64_t *wire_bytes)
{
	struct hca_requester *r = &qp->req;
	uint32_t window = HCA_WINDOW_BURSTS * (HCA_BURST_BYTES / qp->mtu_bytes);

	if (qp->sq.next == qp->sq.head || r->rnr_wait ||
	    hca_psn_diff(r->psn_next, r->psn_una) >= (int32_t)window)
		return false;
	struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.next);

	if (!hca_wqe_start(qp, e))
		return false;
	if (hca_wqe_is_local(e))
		return hca_local_done(qp, e);
	mem_acquire(e);
	uint32_t bytes = (uint32_t)MIN_OF(e->bytes - r->offset, (uint64_t)hca_burst_most(qp));
	struct hca_packet *p = hca_burst_make(qp, e, bytes);

	if (hca_burst_fill(qp, e, p)) {
		/* the region was deregistered meanwhile; this request fails when it is the
		 * oldest */
		hca_packet_free(p);
		e->status = hca_bad_request(qp, e);
		if (qp->sq.done == qp->sq.next)
			hca_send_fail(qp, hca_bad_request(qp, e));
		return false;
	}
	if (!hca_requester_outstanding(qp))
		r->progress_ns = sim_now_ns();
	if (hca_psn_diff(r->psn_next, r->psn_max) < 0)
		r->resent += p->packets;
	r->psn_next = hca_psn_add(r->psn_next, p->packets);
	if (hca_psn_diff(r->psn_next, r->psn_max) > 0)
		r->psn_max = r->psn_next;
	ASSERT(hca_psn_diff(r->psn_una, r->psn_next) < 0); /* the picture above */
	r->offset += bytes;
	if (p->flags & HCA_LAST) {
		qp->sq.next++;
		r->offset = 0;
	}
	mem_release(p);
	*wire_bytes = p->kind == HCA_READ ? HCA_HEADER_BYTES + HCA_RETH_BYTES : p->bytes;
	hca_packet_send(qp, p);
	hca_ack_timer_start(qp);
	return true;
}

void hca_qp_transmit(void *object, uint64_t generation)
{
	struct hca_qp *qp =
		hca_requester_event(object, generation, (uint32_t)generation, hca_qp_transmit);
	uint64_t bytes = 0;

	if (!qp)
		return;
	ASSERT(qp->req.scheduled); /* the one pending event, which is this one */
	mem_as(hca_qp_requester(qp));
	qp->req.scheduled = 0;
	if ((qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	    (hca_qp_type_acked((enum ibv_qp_type)qp->type) ? hca_requester_burst(qp, &bytes)
							   : hca_unacked_burst(qp, &bytes)))
		hca_qp_kick(qp, hca_wire_ns(qp->port, bytes));
	hca_unlock(&qp->item.lock);
}

void hca_qp_kick(struct hca_qp *qp, uint64_t delay_ns)
{
	const struct sim_event_attr attr = {
		.name = "qp.transmit", .kind = SIM_EVENT_WORK, .delay_ns = delay_ns};

	if (qp->req.scheduled || qp->sq.next == qp->sq.head)
		return;
	qp->req.scheduled = 1;
	sim_event_post(&attr, hca_qp_transmit, qp, qp->item.generation, NULL);
}
