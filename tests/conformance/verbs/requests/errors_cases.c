/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that do not answer or are not ready, and what becomes of everything else in the queues. */
#include "tests/conformance/verbs/suite.h"

/* ---- no answer ------------------------------------------------------------------------------ */

enum silence { NO_SUCH_QP, IN_RESET, IN_INIT, IN_ERR, DESTROYED, AHEAD, SILENCES };
static const char *const silence_name[] = {"no_such_queue_pair", "peer_in_reset", "peer_in_init",
					   "peer_in_error",      "destroyed",     "packet_numbers"};
static const char *silence_label(int param)
{
	return silence_name[param];
}

static void silent_peer(struct vs_pair *p, const struct vs_options *o, enum silence s)
{
	vs_make(p, o);
	struct ibv_qp_attr a = vs_attr(p, 0);

	if (s == NO_SUCH_QP) {
		struct ibv_qp *gone = vs_qp(p, 1);

		a.dest_qp_num = gone->qp_num;
		CHECK_EQ(ibv_destroy_qp(gone), 0);
	}
	if (s == AHEAD)
		a.sq_psn = (a.sq_psn + 1000) & 0xffffff;
	if (s == IN_INIT)
		vs_connect(p, 1, IBV_QPS_INIT);
	if (s == IN_ERR || s == DESTROYED || s == AHEAD)
		vs_connect(p, 1, IBV_QPS_RTS);
	if (s == IN_ERR)
		vs_set_state(p->end[1].qp, IBV_QPS_ERR);
	vs_raise(p->end[0].qp, &a, IBV_QPS_RTS);
	if (s == DESTROYED) {
		CHECK_EQ(ibv_destroy_qp(p->end[1].qp), 0);
		p->end[1].qp = NULL;
	}
}

CASE(a_peer_that_does_not_answer_is_retry_exc, .count = SILENCES, .label = silence_label)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w = {0};

	o.retry_count = 1;
	silent_peer(&p, &o, vs_param);
	struct ibv_qp *peer = p.end[1].qp, no_peer = {.qp_num = 0};

	if (!peer)
		p.end[1].qp = &no_peer;
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	p.end[1].qp = peer;
	vs_expect_failure(&p, &w, IBV_WC_RETRY_EXC_ERR);
	vs_expect_bytes(p.end[1].buffer, 100, 0);
	if (peer && vs_param != IN_ERR)
		CHECK_EQ(vs_state(peer), vs_param == IN_RESET  ? IBV_QPS_RESET
					 : vs_param == IN_INIT ? IBV_QPS_INIT
							       : vs_state(peer));
	vs_free(&p);
}

/* The acknowledge timeout is 4.096 us << timeout; detection takes one to four of them. soft-RoCE
 * counts them in ticks of the kernel: it begins within a tick, and in a VM on a busy machine ticks
 * come late and then together. */
#define VS_TICK_NS 10000000ull

CASE(giving_up_takes_its_time, .count = 3)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;
	const int retries[] = {0, 1, 3};

	o.retry_count = retries[vs_param];
	silent_peer(&p, &o, IN_RESET);
	uint64_t one_ns = 4096ull << vs_attr(&p, 0).timeout, late_ns = vs_tick_late_ns();
	uint64_t from_ns = vs_now_ns();

	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_RETRY_EXC_ERR);
	uint64_t took_ns = vs_now_ns() - from_ns, tries = (uint64_t)retries[vs_param] + 1;

	/* each try begins when a tick may be as late again */
	CHECK_MSG(took_ns + tries * late_ns + 2 * VS_TICK_NS >= tries * one_ns * 9 / 10,
		  "%llu ns for %llu times %llu ns; the last tick was %llu ns before",
		  (unsigned long long)took_ns, (unsigned long long)tries,
		  (unsigned long long)one_ns, (unsigned long long)late_ns);
	CHECK_MSG(took_ns <= tries * one_ns * 4 + VS_SECOND, "%llu ns for %llu times %llu ns",
		  (unsigned long long)took_ns, (unsigned long long)tries,
		  (unsigned long long)one_ns);
	vs_free(&p);
}

CASE(timeout_0_waits_for_ever)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;
	struct ibv_wc wc;

	o.timeout = 0;
	silent_peer(&p, &o, IN_RESET);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	CHECK(!vs_wait(p.end[0].send_cq, &wc, VS_SECOND / 2));
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&p);
}

/* The peer gets ready while the sender still tries. */
CASE(a_retry_finds_a_peer_that_got_ready)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.retry_count = 6;
	o.timeout = 12;
	vs_make(&p, &o);
	vs_connect(&p, 1, IBV_QPS_INIT);
	vs_connect(&p, 0, IBV_QPS_RTS);
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_sleep_ns(4096ull << vs_attr(&p, 0).timeout);
	struct ibv_qp_attr a = vs_attr(&p, 1);

	a.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(p.end[1].qp, &a, vs_mask(IBV_QPT_RC, IBV_QPS_RTR)), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 100, 1);
	vs_free(&p);
}

/* ---- receiver not ready --------------------------------------------------------------------- */

static const char *rnr_label(int param)
{
	static const char *const name[] = {"send", "send_imm", "write_imm"};

	return name[param];
}
static const enum ibv_wr_opcode rnr_opcode[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						IBV_WR_RDMA_WRITE_WITH_IMM};

CASE(no_receive_is_rnr_retry_exc, .count = 3, .label = rnr_label)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.rnr_retry = 1;
	vs_pair(&p, &o);
	vs_fill(&w, &p, 0, rnr_opcode[vs_param], 1, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQ(vs_state(p.end[1].qp), IBV_QPS_RTS); /* it did nothing wrong */
	vs_free(&p);
}

CASE(rnr_retry_0_gives_up_at_the_first_nak)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.rnr_retry = 0;
	o.min_rnr_timer = 31; /* 492 ms, which it would wait */
	vs_pair(&p, &o);
	uint64_t from_ns = vs_now_ns();

	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK(vs_now_ns() - from_ns < 450 * VS_MS);
	vs_free(&p);
}

CASE(each_rnr_retry_waits_as_long_as_the_receiver_says)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.rnr_retry = 2;
	o.min_rnr_timer = 25; /* 61.44 ms */
	vs_pair(&p, &o);
	uint64_t from_ns = vs_now_ns();

	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 100);
	vs_expect_failure(&p, &w, IBV_WC_RNR_RETRY_EXC_ERR);
	uint64_t took_ns = vs_now_ns() - from_ns;

	CHECK_MSG(took_ns >= 110 * VS_MS, "%llu ns", (unsigned long long)took_ns);
	vs_free(&p);
}

CASE(rnr_retry_7_waits_for_ever)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_wc wc;

	o.rnr_retry = 7;
	o.min_rnr_timer = 14; /* 1.28 ms */
	vs_pair(&p, &o);
	vs_pattern(p.end[0].buffer, 5000, 1);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 5000);
	CHECK(!vs_wait(p.end[0].send_cq, &wc, 200 * VS_MS)); /* more than a hundred times */
	vs_recv(&p, 1, 9, 0, 5000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 5000, 1);
	vs_free(&p);
}

CASE(requests_behind_one_that_waits_keep_their_order)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.rnr_retry = 7;
	vs_pair(&p, &o);
	vs_pattern(p.end[0].buffer, 4000, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	vs_send(&p, 0, IBV_WR_SEND, 2, 1000, 1000);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 3, 2000, 1000);
	vs_send(&p, 0, IBV_WR_SEND, 4, 3000, 1000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(5 * VS_MS);
	vs_expect_none(p.end[0].send_cq);
	vs_recv(&p, 1, 11, 1000, 1000);
	vs_recv(&p, 1, 12, 3000, 1000);
	for (uint64_t i = 2; i <= 4; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 11, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 12, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 4000, 1);
	vs_free(&p);
}

/* ---- flushing ------------------------------------------------------------------------------- */

CASE(what_was_before_succeeds_what_is_behind_is_flushed_in_order)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 3; i++)
		vs_recv(&p, 0, 100 + i, 0, 10);
	for (uint64_t i = 0; i < 7; i++) {
		vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
		if (i == 1 || i == 4)
			w.wr.send_flags = 0;
		if (i == 3)
			w.wr.wr.rdma.rkey ^= 0x5a;
		CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	}
	vs_expect(p.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL); /* 1 in silence */
	vs_expect(p.end[0].send_cq, 3, IBV_WC_REM_ACCESS_ERR, NULL);
	for (uint64_t i = 4; i < 7; i++) /* 4 too, though not signaled */
		vs_expect(p.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	for (uint64_t i = 0; i < 3; i++)
		vs_expect(p.end[0].recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect_none(p.end[0].send_cq);
	vs_expect_none(p.end[0].recv_cq);
	vs_free(&p);
}

CASE(a_queue_pair_put_into_error_flushes_both_queues)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct ibv_wc wc;

	o.rnr_retry = 7;
	o.min_rnr_timer = 26;
	vs_pair(&p, &o);
	for (uint64_t i = 0; i < 4; i++) {
		vs_recv(&p, 0, 100 + i, 0, 10);
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 10); /* no receive is posted */
	}
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 4; i++) {
		vs_expect(p.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, &wc);
		CHECK_EQ(wc.qp_num, p.end[0].qp->qp_num);
		vs_expect(p.end[0].recv_cq, 100 + i, IBV_WC_WR_FLUSH_ERR, &wc);
		CHECK_EQ(wc.qp_num, p.end[0].qp->qp_num);
	}
	vs_expect_none(p.end[0].send_cq);
	vs_expect_none(p.end[0].recv_cq);
	vs_free(&p);
}

CASE(receives_of_a_queue_pair_in_init_are_flushed)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	vs_connect(&p, 0, IBV_QPS_INIT);
	vs_recv(&p, 0, 1, 0, 10);
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	vs_expect(p.end[0].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&p);
}

CASE(what_is_posted_in_error_is_flushed)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 20; i++) {
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 0, 10);
		vs_recv(&p, 0, i, 0, 10);
		vs_expect(p.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
		vs_expect(p.end[0].recv_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	}
	vs_free(&p);
}

CASE(a_reset_forgets_what_was_queued)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.rnr_retry = 7;
	o.min_rnr_timer = 26;
	vs_pair(&p, &o);
	for (uint64_t i = 0; i < 4; i++) {
		vs_recv(&p, 0, 100 + i, 0, 10);
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 10);
	}
	for (int s = 0; s < 2; s++)
		vs_set_state(p.end[s].qp, IBV_QPS_RESET);
	vs_sleep_ns(20 * VS_MS);
	vs_expect_none(p.end[0].send_cq);
	vs_expect_none(p.end[0].recv_cq);
	for (int s = 0; s < 2; s++)
		vs_connect(&p, s, IBV_QPS_RTS);
	vs_recv(&p, 1, 9, 0, 10);
	vs_send(&p, 0, IBV_WR_SEND, 8, 0, 10);
	vs_expect(p.end[0].send_cq, 8, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(an_error_of_one_queue_pair_is_no_business_of_another)
{
	struct vs_pair p;
	struct ibv_qp *qp[2];
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	for (int s = 0; s < 2; s++)
		qp[s] = vs_qp(&p, s);
	for (int s = 0; s < 2; s++) {
		struct ibv_qp_attr a = vs_attr_to(&p, s, qp[!s]->qp_num);

		vs_raise(qp[s], &a, IBV_QPS_RTS);
	}
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	w.wr.wr.rdma.rkey ^= 0x5a;
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	CHECK_EQ(vs_post(qp[0], &w.wr), 0);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	for (int s = 0; s < 2; s++) {
		CHECK_EQ(vs_state(qp[s]), IBV_QPS_RTS);
		CHECK_EQ(ibv_destroy_qp(qp[s]), 0);
	}
	vs_free(&p);
}

/* The peer goes into error in the middle: the sender learns by silence. */
CASE(a_peer_that_dies_in_between)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.retry_count = 1;
	vs_pair(&p, &o);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_set_state(p.end[1].qp, IBV_QPS_ERR);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	vs_expect_failure(&p, &w, IBV_WC_RETRY_EXC_ERR);
	vs_free(&p);
}

/* ---- a requester without resources ---------------------------------------------------------- */

CASE(a_read_without_read_resources_is_loc_qp_op)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.rd_atomic = 0;
	vs_pair(&p, &o);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	int rc = vs_post(p.end[0].qp, &w.wr);

	CHECK(rc == 0 || rc == EINVAL);
	if (!rc)
		vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_QP_OP_ERR, NULL);
	vs_free(&p);
}

/* ---- draining ------------------------------------------------------------------------------- */

CASE(a_drained_queue_says_so, .needs = NEED(SQD))
{
	struct vs_pair p;
	struct ibv_async_event e;

	vs_pair(&p, &vs_defaults);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100000);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	CHECK_EQ(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	vs_expect_async(p.end[0].ctx, IBV_EVENT_SQ_DRAINED, &e);
	CHECK(e.element.qp == p.end[0].qp);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_SQD);
	vs_set_state(p.end[0].qp, IBV_QPS_RTS); /* if it had not begun, it does now */
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(what_is_posted_while_draining_waits, .needs = NEED(SQD))
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	vs_set_state(p.end[0].qp, IBV_QPS_SQD);
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_recv(&p, 0, 9, 4096, 100); /* receiving goes on */
	vs_send(&p, 1, IBV_WR_SEND, 2, 8192, 100);
	vs_expect(p.end[0].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(20 * VS_MS);
	vs_expect_none(p.end[0].send_cq);
	vs_expect_bytes(p.end[1].buffer, 100, 0);
	vs_set_state(p.end[0].qp, IBV_QPS_RTS);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 100, 1);
	vs_free(&p);
}
