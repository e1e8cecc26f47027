/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester half of a queue pair. Send requests start in order; each becomes bursts of packets
 * from the current PSN on; what comes back moves psn_una:
 *
 *     done ........ next ........ head          (send queue, by request)
 *     psn_una ..... psn_next ... psn_max        (by packet)
 *
 * Loss shows as a NAK with the PSN that the responder expects, as a gap in READ responses, or as
 * silence for the acknowledge timeout; the answer to each is to go back to psn_una and transmit
 * again from there (psn_next <= psn_max), which spends a retry; an acknowledge of anything gives
 * the retries back. A request that cannot be done locally fails in its place in the order, so that
 * completions stay in order. A READ requests one burst at a time, so that its answers keep to the
 * window as WRITEs do.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_STOPPED_NS 10000000u

/* ---- completion ----------------------------------------------------------------------------- */

void hca_send_fail(struct hca_qp *qp, enum ibv_wc_status status)
{
	hca_send_complete(qp, status);
	if (hca_qp_type_acked((enum ibv_qp_type)qp->type) ||
	    !hca_personality(qp->port)->send_error_is_sqe)
		hca_qp_to_error(qp);
	else
		hca_qp_to_sqe(qp);
}

/* Success, unless a fault changes it. */
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

/* The requests after it that needed no packets are done, too, if they have been. */
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

/* ---- timers --------------------------------------------------------------------------------- */

/* How long silence lasts until it is noticed. */
static uint64_t hca_ack_timeout_ns(const struct hca_qp *qp)
{
	return qp->timeout ? (1024ull << qp->timeout) * hca_world()->port[qp->port].ack_quarters
			   : 0;
}

static bool hca_requester_outstanding(const struct hca_qp *qp)
{
	return qp->req.psn_una != qp->req.psn_max;
}

/* One timer per queue pair, posted when there is none and checked against progress_ns when it fires:
 * nothing to cancel in the data path. */
static void hca_timer_start(struct hca_qp *qp, uint64_t delay_ns)
{
	const struct sim_event_attr attr = {
		.name = "qp.ack_timeout", .kind = SIM_EVENT_TIMER, .delay_ns = delay_ns};

	if (!qp->timeout || qp->req.timer)
		return;
	qp->req.timer = 1;
	sim_event_post(&attr, hca_qp_timer, qp, qp->item.generation, NULL);
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

/* What can be wrong here, found before the first packet leaves. */
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
	return hca_bad_request(qp, e);
}

/* Takes sq.next into transmission, if its turn has come. */
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
	if (hca_wqe_is_answered(e))
		qp->req.reads++;
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

/* The payload leaves the program's memory now: not at the post, and again when it is resent. */
int hca_burst_fill(struct hca_qp *qp, struct hca_wqe *e, struct hca_packet *p)
{
	if (p->kind == HCA_READ || !p->bytes)
		return 0;
	if (hca_wqe_is_atomic(e)) {
		memcpy(hca_packet_data(p), e->operand, sizeof e->operand);
		return 0;
	}
	if (e->flags & IBV_SEND_INLINE) {
		memcpy(hca_packet_data(p), (uint8_t *)(e + 1) + p->offset, p->bytes);
		return 0;
	}
	return hca_sges_read(qp->pd, hca_wqe_sges(e), e->sge_count, p->offset, hca_packet_data(p),
			     p->bytes);
}

/* It was executed when it was started; it completes when all before it have. False: it failed. */
bool hca_local_done(struct hca_qp *qp, const struct hca_wqe *e)
{
	bool first = qp->sq.done == qp->sq.next;

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

/* One burst of sq.next; false: nothing can be sent now. */
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
	uint32_t bytes = (uint32_t)MIN_OF(e->bytes - r->offset, (uint64_t)HCA_BURST_BYTES);
	struct hca_packet *p = hca_burst_make(qp, e, bytes);

	if (hca_burst_fill(qp, e, p)) {
		/* the region went away meanwhile; this request fails when its turn comes */
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
	r->offset += bytes;
	if (p->flags & HCA_LAST) {
		qp->sq.next++;
		r->offset = 0;
	}
	mem_release(p);
	*wire_bytes = p->kind == HCA_READ ? HCA_HEADER_BYTES + HCA_RETH_BYTES : p->bytes;
	hca_packet_send(qp, p);
	hca_timer_start(qp, hca_ack_timeout_ns(qp));
	return true;
}

/* The queue pair, locked, for one of its events; NULL: it is gone, or a stopped process holds it: then
 * the event comes again. */
static struct hca_qp *hca_requester_event(struct hca_qp *qp, uint64_t arg, uint32_t generation,
					  void (*step)(void *qp, uint64_t arg))
{
	const struct sim_event_attr again = {
		.name = "qp.stopped", .kind = SIM_EVENT_TIMER, .delay_ns = HCA_STOPPED_NS};

	if (!hca_qp_lock_unless_stopped(qp)) {
		sim_event_post(&again, step, qp, arg, NULL);
		return NULL;
	}
	if (hca_qp_is(qp, generation))
		return qp;
	hca_unlock(&qp->item.lock);
	return NULL;
}

void hca_qp_transmit(void *object, uint64_t generation)
{
	struct hca_qp *qp =
		hca_requester_event(object, generation, (uint32_t)generation, hca_qp_transmit);
	uint64_t bytes = 0;

	if (!qp)
		return;
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

/* ---- what comes back ------------------------------------------------------------------------ */

/* Transmission goes on from psn_una, which is in the oldest request if that has started. */
static void hca_requester_seek(struct hca_qp *qp)
{
	struct hca_requester *r = &qp->req;

	qp->sq.next = qp->sq.done;
	r->psn_next = r->psn_una;
	r->offset = 0;
	if (qp->sq.done == qp->sq.head)
		return;
	const struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);

	if (e->started && !hca_wqe_is_local(e)) {
		int32_t packets = hca_psn_diff(r->psn_una, e->psn);

		ASSERT(packets >= 0 && (uint32_t)packets < e->packets);
		r->offset = (uint64_t)(uint32_t)packets * qp->mtu_bytes;
	}
}

static void hca_requester_progress(struct hca_qp *qp, uint32_t psn_una)
{
	struct hca_requester *r = &qp->req;

	r->psn_una = psn_una;
	r->progress_ns = sim_now_ns();
	r->retries = qp->retry_count;
	r->rnr_retries = qp->rnr_retry;
	r->rnr_row = 0;
	r->gap_seen = 0;
}

/* The responder has everything before `limit`. Stops at a READ or atomic: only its answer completes
 * it.
 * False: it stopped early. */
static bool hca_requester_advance(struct hca_qp *qp, uint32_t limit)
{
	struct hca_requester *r = &qp->req;

	while (qp->sq.done != qp->sq.head && hca_psn_diff(limit, r->psn_una) > 0) {
		struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);
		uint32_t end = hca_psn_add(e->psn, e->packets);

		if (!e->started)
			break;
		if (hca_wqe_is_answered(e))
			return false;
		if (hca_psn_diff(limit, end) < 0) {
			hca_requester_progress(qp, limit);
			break;
		}
		hca_requester_progress(qp, end);
		hca_send_succeed(qp);
		if (qp->state == IBV_QPS_ERR)
			return true;
	}
	return true;
}

/* After psn_una moved: what was resent needlessly is skipped, a request that waits for its turn to
 * fail may have got it, and the window is open again. */
static void hca_requester_settle(struct hca_qp *qp)
{
	struct hca_requester *r = &qp->req;

	if (qp->state == IBV_QPS_ERR)
		return;
	if (hca_psn_diff(r->psn_una, r->psn_next) > 0)
		hca_requester_seek(qp);
	if (qp->sq.done != qp->sq.head) {
		struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);

		if (e->status) {
			hca_send_fail(qp, (enum ibv_wc_status)e->status);
			return;
		}
	}
	if (qp->state == IBV_QPS_SQD)
		hca_requester_drained(qp);
	hca_qp_kick(qp, 0);
}

void hca_requester_drained(struct hca_qp *qp)
{
	if (qp->drained ||
	    (qp->sq.done != qp->sq.head && hca_wqe_at(&qp->sq, qp->sq.done)->started))
		return;
	qp->drained = 1;
	if (qp->drain_notify)
		hca_event_post(qp->context, IBV_EVENT_SQ_DRAINED, qp->item.index,
			       qp->item.generation);
}

/* Something was lost: again from psn_una, unless the retries are spent. Under `threads` what is out
 * of order was overtaken, by a packet that another thread carried: that costs no retry, or two
 * threads would make a connection fail whose peer is well. */
static void hca_requester_go_back(struct hca_qp *qp, bool silence)
{
	struct hca_requester *r = &qp->req;

	if (!hca_requester_outstanding(qp))
		return;
	if (!silence && sim_engine_kind() == SIM_ENGINE_THREADS) {
		hca_requester_seek(qp);
		hca_qp_kick(qp, 0);
		return;
	}
	OS_PROBE("hca.resend", "a sender goes back to what is not acknowledged", r->retries != 0);
	OS_PROBE("hca.retries_spent", "a sender gives up", r->retries == 0);
	if (r->retries == 0) {
		hca_send_fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	if (qp->retry_count != 7 || !hca_personality(qp->port)->retry_7_forever)
		r->retries--;
	r->progress_ns = sim_now_ns();
	os_trace("qp.resend", hca_qp_id(qp), r->psn_una, r->retries);
	hca_requester_seek(qp);
	hca_qp_kick(qp, 0);
}

/* Is an answer for this PSN still expected? */
static bool hca_requester_expects(const struct hca_qp *qp, uint32_t psn)
{
	return qp->state != IBV_QPS_RTR && hca_psn_diff(psn, qp->req.psn_una) >= 0 &&
	       hca_psn_diff(psn, qp->req.psn_max) < 0;
}

static void hca_requester_gap(struct hca_qp *qp)
{
	if (qp->req.gap_seen)
		return;
	qp->req.gap_seen = 1;
	hca_requester_go_back(qp, false);
}

void hca_requester_ack(struct hca_qp *qp, const struct hca_packet *p)
{
	if (!hca_requester_expects(qp, p->psn))
		return;
	bool whole = hca_requester_advance(qp, hca_psn_add(p->psn, 1));

	hca_requester_settle(qp);
	if (!whole && qp->state != IBV_QPS_ERR)
		hca_requester_gap(qp); /* a READ's data, or an atomic's, went missing before this */
}

/* A fault may make it something that the oldest request cannot take for an answer. */
static bool hca_requester_response_fault(struct hca_qp *qp)
{
	struct os_fault f;

	if (!hca_fault("verbs.response", (const void *)(uintptr_t)qp->item.handle, qp->port, -1,
		       &f))
		return false;
	hca_send_fail(qp, f.arg ? (enum ibv_wc_status)f.arg : IBV_WC_BAD_RESP_ERR);
	return true;
}

void hca_requester_response(struct hca_qp *qp, const struct hca_packet *p)
{
	if (!hca_requester_expects(qp, p->psn))
		return;
	bool whole = hca_requester_advance(qp, p->psn);

	if (qp->state == IBV_QPS_ERR || hca_requester_response_fault(qp))
		return;
	struct hca_wqe *e = hca_wqe_at(&qp->sq, qp->sq.done);

	if (!whole || p->psn != qp->req.psn_una || !hca_wqe_is_answered(e)) {
		hca_requester_settle(qp);
		if (qp->state != IBV_QPS_ERR)
			hca_requester_gap(qp);
		return;
	}
	uint64_t offset = (uint64_t)(uint32_t)hca_psn_diff(p->psn, e->psn) * qp->mtu_bytes;

	if (p->bytes && hca_sges_write(qp->pd, hca_wqe_sges(e), e->sge_count, offset,
				       hca_packet_data(p), p->bytes)) {
		hca_send_fail(qp, hca_bad_request(qp, e));
		return;
	}
	os_trace_bytes("read.place", hca_qp_id(qp), hca_packet_data(p), p->bytes);
	hca_requester_progress(qp, hca_psn_add(p->psn, p->packets));
	if (qp->req.psn_una == hca_psn_add(e->psn, e->packets))
		hca_send_succeed(qp);
	hca_requester_settle(qp);
}

static void hca_requester_rnr(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_requester *r = &qp->req;
	const struct sim_event_attr attr = {.name = "qp.rnr_timer",
					    .kind = SIM_EVENT_TIMER,
					    .delay_ns = hca_rnr_ns(p->rnr_timer)};

	if (r->rnr_wait)
		return;
	hca_check_not_ready(qp, hca_wqe_at(&qp->sq, qp->sq.done));
	if (qp->rnr_retry != 7) { /* seven is for ever */
		OS_PROBE_IDLE("hca.not_ready_for_good",
			      "a receiver stays without a receive until retries are spent",
			      "the stack has its HCAs retry for ever (rnr_retry 7)",
			      r->rnr_retries == 0);
		if (r->rnr_retries == 0) {
			hca_send_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries--;
	}
	OS_PROBE("hca.receiver_not_ready", "a sender waits because of RNR", true);
	hca_requester_seek(qp);
	r->rnr_wait = ++r->rnr_waits;
	os_trace("qp.rnr", hca_qp_id(qp), r->psn_una, p->rnr_timer);
	sim_event_post(&attr, hca_qp_rnr_over, qp,
		       (uint64_t)qp->item.generation << 32 | r->rnr_wait, NULL);
}

void hca_requester_nak(struct hca_qp *qp, const struct hca_packet *p)
{
	static const enum ibv_wc_status status[] = {
		[HCA_NAK_INVALID] = IBV_WC_REM_INV_REQ_ERR,
		[HCA_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[HCA_NAK_OPERATION] = IBV_WC_REM_OP_ERR,
	};

	if (!hca_requester_expects(qp, p->psn))
		return;
	bool whole = hca_requester_advance(qp, p->psn);

	hca_requester_settle(qp);
	if (qp->state == IBV_QPS_ERR)
		return;
	if (!whole) {
		hca_requester_gap(qp);
		return;
	}
	switch (p->nak) {
	case HCA_NAK_SEQUENCE:
		hca_requester_go_back(qp, false);
		break;
	case HCA_NAK_RNR:
		hca_requester_rnr(qp, p);
		break;
	default:
		hca_send_fail(qp, status[p->nak]);
		break;
	}
}

/* ---- timers fire ---------------------------------------------------------------------------- */

void hca_qp_timer(void *object, uint64_t generation)
{
	struct hca_qp *qp =
		hca_requester_event(object, generation, (uint32_t)generation, hca_qp_timer);

	if (!qp)
		return;
	mem_as(hca_qp_requester(qp));
	uint64_t timeout_ns = hca_ack_timeout_ns(qp), now_ns = sim_now_ns();

	qp->req.timer = 0;
	if ((qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) && !qp->req.rnr_wait &&
	    timeout_ns && hca_requester_outstanding(qp)) {
		uint64_t silent_ns = now_ns - qp->req.progress_ns;

		if (silent_ns < timeout_ns) {
			hca_timer_start(qp, timeout_ns - silent_ns);
		} else {
			qp->req.gap_seen = 0;
			hca_requester_go_back(qp, true);
			if (qp->state != IBV_QPS_ERR)
				hca_timer_start(qp, timeout_ns);
		}
	}
	hca_unlock(&qp->item.lock);
}

void hca_qp_rnr_over(void *object, uint64_t wait)
{
	struct hca_qp *qp =
		hca_requester_event(object, wait, (uint32_t)(wait >> 32), hca_qp_rnr_over);

	if (!qp)
		return;
	mem_as(hca_qp_requester(qp));
	if (qp->req.rnr_wait == (uint32_t)wait) {
		qp->req.rnr_wait = 0;
		qp->req.progress_ns = sim_now_ns();
		hca_qp_kick(qp, 0);
		hca_timer_start(qp, hca_ack_timeout_ns(qp));
	}
	hca_unlock(&qp->item.lock);
}
