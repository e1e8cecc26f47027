/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies to a requester, and their absence: acknowledges, answers of READs and atomics, NAKs,
 * silence. Loss shows in one of three ways: a NAK with the PSN that the responder expects, a gap in
 * READ responses, or silence for the acknowledge timeout. The reaction is the same: the requester
 * goes back to psn_una and transmits again from there (psn_next <= psn_max), which spends a retry.
 * Any acknowledge restores the retries. requester.c has the picture of these numbers.
 */
#include "backends/fakeverbs/transport/transport.h"

#define HCA_STOPPED_NS 10000000u

struct hca_qp *hca_requester_event(struct hca_qp *qp, uint64_t arg, uint32_t generation,
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

/* ---- replies -------------------------------------------------------------------------------- */

/* Continues transmission from psn_una, which is in the oldest request if that has started. */
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

	ASSERT(hca_psn_diff(psn_una, r->psn_una) >= 0); /* an acknowledge is never taken back */
	r->psn_una = psn_una;
	r->progress_ns = sim_now_ns();
	r->retries = qp->retry_count;
	r->rnr_retries = qp->rnr_retry;
	r->rnr_row = 0;
	r->gap_seen = 0;
}

/* Completes the requests before `limit`, which the responder has. Stops at a READ or atomic, which
 * only its answer completes. False: it stopped early. */
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

/* Acts on an advanced psn_una. Skips packets that need no resend, fails a request with a local
 * error that is now the oldest, and sends into the open window. */
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

/* Resends from psn_una after a loss, unless the retries are spent. Under `threads` a packet out of
 * order was overtaken by a packet that another thread carried. Such a loss spends no retry:
 * otherwise two threads could fail a connection with a healthy peer. */
static void hca_requester_go_back(struct hca_qp *qp, bool silence)
{
	struct hca_requester *r = &qp->req;

	if (!hca_requester_outstanding(qp))
		return;
	if (!silence && sim_engine_kind() == SIM_ENGINE_THREADS) {
		hca_count(qp->port, HCA_RESENDS);
		hca_requester_seek(qp);
		hca_qp_kick(qp, 0);
		return;
	}
	OS_PROBE("hca.resend", "a sender goes back to what is not acknowledged", r->retries != 0);
	OS_PROBE("hca.retries_spent", "a sender gives up", r->retries == 0);
	if (r->retries == 0) {
		hca_count(qp->port, HCA_RETRIES_SPENT);
		hca_send_fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	hca_count(qp->port, HCA_RESENDS);
	if (silence)
		hca_count(qp->port, HCA_TIMEOUTS);
	if (qp->retry_count != 7 || !hca_personality(qp->port)->retry_7_forever)
		r->retries--;
	r->progress_ns = sim_now_ns();
	os_trace("qp.resend", hca_qp_id(qp), r->psn_una, r->retries);
	hca_requester_seek(qp);
	hca_qp_kick(qp, 0);
}

/* True if an answer for this PSN is still expected. */
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
	hca_count(qp->port, HCA_GAPS_IN_ANSWERS);
	hca_requester_go_back(qp, false);
}

void hca_requester_ack(struct hca_qp *qp, const struct hca_packet *p)
{
	if (!hca_requester_expects(qp, p->psn))
		return;
	bool whole = hca_requester_advance(qp, hca_psn_add(p->psn, 1));

	hca_requester_settle(qp);
	if (!whole && qp->state != IBV_QPS_ERR)
		hca_requester_gap(qp); /* an answer of a READ or an atomic before this was lost */
}

/* Fails the oldest request if a fault turns the answer into a bad response. */
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
	ASSERT(qp->sq.done != qp->sq.head); /* the PSN is of a packet without an acknowledge */
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
	ASSERT(qp->sq.done != qp->sq.head);
	hca_count(qp->port, HCA_RNR_NAKS);
	hca_check_not_ready(qp, hca_wqe_at(&qp->sq, qp->sq.done));
	if (qp->rnr_retry != 7) { /* 7 means without end */
		OS_PROBE_IDLE("hca.not_ready_for_good",
			      "a receiver stays without a receive until retries are spent",
			      "the stack's HCAs retry without end (rnr_retry 7)",
			      r->rnr_retries == 0);
		if (r->rnr_retries == 0) {
			hca_count(qp->port, HCA_RNR_RETRIES_SPENT);
			hca_send_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries--;
	}
	OS_PROBE("hca.receiver_not_ready", "a sender waits because of RNR", true);
	hca_count(qp->port, HCA_RNR_RETRIES);
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
		hca_count(qp->port, HCA_SEQUENCE_NAKS);
		hca_requester_go_back(qp, false);
		break;
	case HCA_NAK_RNR:
		hca_requester_rnr(qp, p);
		break;
	default:
		ASSERT(p->nak >= HCA_NAK_INVALID && p->nak < ARRAY_LEN(status));
		hca_send_fail(qp, status[p->nak]);
		break;
	}
}

/* ---- timers --------------------------------------------------------------------------------- */

/* Returns the time of silence after which it is noticed. */
static uint64_t hca_ack_timeout_ns(const struct hca_qp *qp)
{
	return qp->timeout ? (1024ull << qp->timeout) * hca_world()->port[qp->port].ack_quarters
			   : 0;
}

/* Posts the queue pair's only timer, unless it is pending. The timer checks progress_ns when it
 * fires, so that the data path cancels nothing. */
static void hca_timer_start(struct hca_qp *qp, uint64_t delay_ns)
{
	const struct sim_event_attr attr = {
		.name = "qp.ack_timeout", .kind = SIM_EVENT_TIMER, .delay_ns = delay_ns};

	if (!qp->timeout || qp->req.timer)
		return;
	qp->req.timer = 1;
	sim_event_post(&attr, hca_qp_timer, qp, qp->item.generation, NULL);
}

void hca_ack_timer_start(struct hca_qp *qp)
{
	hca_timer_start(qp, hca_ack_timeout_ns(qp));
}

void hca_qp_timer(void *object, uint64_t generation)
{
	struct hca_qp *qp =
		hca_requester_event(object, generation, (uint32_t)generation, hca_qp_timer);

	if (!qp)
		return;
	ASSERT(qp->req.timer); /* the one pending timer, which is this one */
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
		hca_ack_timer_start(qp);
	}
	hca_unlock(&qp->item.lock);
}
