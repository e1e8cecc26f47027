/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: which queue pair gets a receive, limits and their event, resizing, slots,
 * and what happens to them when a queue pair dies. */
#include "tests/conformance/verbs/suite.h"

#define PAIRS 2

/* PAIRS connections from end 0 to end 1, whose queue pairs receive from one shared queue. */
struct shared {
	struct vs_pair h;
	struct ibv_srq *srq;
	struct ibv_qp *qp[PAIRS][2];
};

static struct ibv_srq *srq_make(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	CHECK(srq);
	CHECK_GE(a.attr.max_wr, wr);
	CHECK_GE(a.attr.max_sge, sge);
	return srq;
}

static struct ibv_qp *srq_qp(struct shared *s, int side)
{
	const struct vs_end *e = &s->h.end[side];
	struct ibv_qp_init_attr a = vs_init_attr(&s->h, side);

	a.srq = side ? s->srq : NULL;
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	CHECK(qp);
	return qp;
}

static void srq_connect(struct shared *s, int pair, int side)
{
	struct ibv_qp_attr a = vs_attr_to(&s->h, side, s->qp[pair][!side]->qp_num);

	vs_raise(s->qp[pair][side], &a, IBV_QPS_RTS);
}

static void shared_make(struct shared *s, const struct vs_options *o, struct ibv_srq *srq)
{
	vs_make(&s->h, o);
	s->srq = srq ? srq : srq_make(s->h.end[1].pd, 16, 2);
	for (int i = 0; i < PAIRS; i++) {
		for (int side = 0; side < 2; side++)
			s->qp[i][side] = srq_qp(s, side);
		for (int side = 0; side < 2; side++)
			srq_connect(s, i, side);
	}
}

static void shared_free(struct shared *s)
{
	for (int i = 0; i < PAIRS; i++)
		for (int side = 0; side < 2; side++)
			CHECK_EQ(ibv_destroy_qp(s->qp[i][side]), 0);
	CHECK_EQ(ibv_destroy_srq(s->srq), 0);
	vs_free(&s->h);
}

static int srq_recv_try(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vs_end *e = &s->h.end[1];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int rc = ibv_post_srq_recv(s->srq, &wr, &bad);

	CHECK((bad) == (rc ? &wr : NULL));
	return rc;
}

static void srq_recv(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	CHECK_EQ(srq_recv_try(s, wr_id, offset, bytes), 0);
}

static void srq_send(struct shared *s, int pair, enum ibv_wr_opcode opcode, uint64_t wr_id,
		     uint64_t offset, uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, &s->h, 0, opcode, wr_id, offset, bytes);
	w.wr.imm_data = htobe32((uint32_t)wr_id);
	CHECK_EQ(vs_post(s->qp[pair][0], &w.wr), 0);
}

static void srq_sent(struct shared *s, int pair, uint64_t wr_id)
{
	srq_send(s, pair, IBV_WR_SEND, wr_id, 0, 100);
	vs_expect(s->h.end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

static void expect_async(struct ibv_context *ctx, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event e;

	vs_expect_async(ctx, type, &e);
	CHECK((const void *)e.element.srq == element);
}

/* A queue pair has no receive queue of its own then: what it requests for one means nothing. */
static const char *ignored_label(int param)
{
	return param == 0 ? "recv_wr" : param == 1 ? "recv_wr_max" : "recv_sge";
}

CASE(what_a_queue_pair_requests_for_receives_is_ignored, .needs = NEED(SRQ), .count = 3,
     .label = ignored_label)
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_srq *srq = srq_make(p.end[0].pd, 8, 1);
	struct ibv_device_attr d = vs_device_attr(p.end[0].ctx);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	CHECK(srq);
	init.srq = srq;
	if (vs_param == 2)
		init.cap.max_recv_sge = (uint32_t)d.max_sge + 1;
	else
		init.cap.max_recv_wr = vs_param ? UINT32_MAX : (uint32_t)d.max_qp_wr + 1;
	struct ibv_qp *qp = ibv_create_qp(p.end[0].pd, &init);

	CHECK_MSG(qp, "%s", strerror(errno));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	vs_free(&p);
}

/* ---- receiving ------------------------------------------------------------------------------ */

CASE(queue_pairs_take_the_receives_of_a_shared_queue_in_its_order, .needs = NEED(SRQ))
{
	struct shared s;
	struct ibv_wc wc;

	shared_make(&s, &vs_defaults, NULL);
	vs_pattern(s.h.end[0].buffer, 3 * 4096, 7);
	for (uint64_t i = 0; i < 4; i++)
		srq_recv(&s, 100 + i, i * 4096, 4096);
	for (uint64_t i = 0; i < 3; i++) {
		srq_send(&s, i % 2, IBV_WR_SEND, i, i * 4096, 4096);
		vs_expect(s.h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(s.h.end[1].recv_cq, 100 + i, IBV_WC_SUCCESS, &wc);
		CHECK_EQ(wc.qp_num, s.qp[i % 2][1]->qp_num);
		CHECK_EQ(wc.byte_len, 4096);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
	}
	vs_expect_pattern(s.h.end[1].buffer, 3 * 4096, 7);
	shared_free(&s);
}

CASE(a_write_with_immediate_takes_a_receive_of_the_shared_queue, .needs = NEED(SRQ))
{
	struct shared s;
	struct ibv_wc wc;

	shared_make(&s, &vs_defaults, NULL);
	srq_recv(&s, 5, 0, 16);
	srq_send(&s, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 9, 0, 5000);
	vs_expect(s.h.end[0].send_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect(s.h.end[1].recv_cq, 5, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 9);
	CHECK_EQ(wc.byte_len, 5000);
	shared_free(&s);
}

CASE(an_empty_shared_queue_is_receiver_not_ready, .needs = NEED(SRQ))
{
	struct vs_options o = vs_defaults;
	struct shared s;

	o.rnr_retry = 2;
	shared_make(&s, &o, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 100);
	vs_expect(s.h.end[0].send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	/* the other one still lives, and finds what is posted meanwhile */
	srq_recv(&s, 2, 0, 100);
	srq_sent(&s, 1, 3);
	vs_expect(s.h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

CASE(a_sender_waits_for_a_shared_queue_that_fills_later, .needs = NEED(SRQ))
{
	struct vs_options o = vs_defaults;
	struct shared s;

	o.rnr_retry = 7;
	shared_make(&s, &o, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 100);
	srq_send(&s, 1, IBV_WR_SEND, 2, 0, 100);
	vs_sleep_ns(VS_MS);
	vs_expect_none(s.h.end[0].send_cq);
	srq_recv(&s, 3, 0, 100);
	srq_recv(&s, 4, 0, 100);
	vs_expect(s.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect(s.h.end[1].recv_cq, 4, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

/* ---- limits, sizes, slots ------------------------------------------------------------------- */

CASE(the_limit_says_once_that_few_are_left, .needs = NEED(SRQ))
{
	struct shared s;
	struct ibv_srq_attr a = {.srq_limit = 3};

	shared_make(&s, &vs_defaults, NULL);
	for (uint64_t i = 0; i < 8; i++)
		srq_recv(&s, i, 0, 100);
	CHECK_EQ(ibv_query_srq(s.srq, &a), 0);
	CHECK_EQ(a.srq_limit, 0);
	CHECK_GE(a.max_wr, 16);
	a.srq_limit = 3;
	CHECK_EQ(ibv_modify_srq(s.srq, &a, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 0; i < 5; i++)
		srq_sent(&s, i % 2, i);
	CHECK_EQ(ibv_query_srq(s.srq, &a), 0);
	CHECK_EQ(a.srq_limit, 3);
	srq_sent(&s, 0, 5); /* two are left */
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_LIMIT_REACHED, s.srq);
	CHECK_EQ(ibv_query_srq(s.srq, &a), 0);
	CHECK_EQ(a.srq_limit, 0);
	srq_sent(&s, 0, 6); /* silence */
	a.srq_limit = 1;
	CHECK_EQ(ibv_modify_srq(s.srq, &a, IBV_SRQ_LIMIT), 0);
	srq_sent(&s, 0, 7);
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_LIMIT_REACHED, s.srq);
	struct ibv_async_event more;

	CHECK(!vs_async(s.h.end[1].ctx, &more, 20 * VS_MS));
	shared_free(&s);
}

CASE(wrong_attributes_of_a_shared_queue_change_nothing, .needs = NEED(SRQ))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_device_attr d;
	struct ibv_srq_attr a;

	CHECK_EQ(ibv_query_device(ctx, &d), 0);
	CHECK_GE(d.max_srq, 1);
	const struct {
		uint32_t wr, sge;
	} bad[] = {{0, 1}, {(uint32_t)d.max_srq_wr + 1, 1}, {1, (uint32_t)d.max_srq_sge + 1}};

	for (int i = 0; i < 3; i++) {
		struct ibv_srq_init_attr init = {
			.attr = {.max_wr = bad[i].wr, .max_sge = bad[i].sge}};

		errno = 0;
		CHECK(!ibv_create_srq(pd, &init));
		CHECK_EQ(errno, EINVAL);
	}
	struct ibv_srq *srq = srq_make(pd, 8, 1);

	CHECK_EQ(ibv_query_srq(srq, &a), 0);
	uint32_t size = a.max_wr;

	a.srq_limit = size + 1;
	CHECK_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL);
	a.max_wr = (uint32_t)d.max_srq_wr + 1;
	CHECK_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR), EINVAL);
	CHECK_EQ(ibv_query_srq(srq, &a), 0);
	CHECK_EQ(a.max_wr, size);
	CHECK_EQ(a.srq_limit, 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(a_resized_shared_queue_keeps_what_was_posted, .needs = NEED(RESIZE_SRQ))
{
	struct ibv_srq_attr a;
	struct shared s;

	shared_make(&s, &vs_defaults, NULL);
	srq_recv(&s, 50, 0, 100);
	srq_sent(&s, 0, 0); /* so that the ring does not begin at its start */
	vs_expect(s.h.end[1].recv_cq, 50, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 16; i++)
		srq_recv(&s, i, i * 128, 128);
	a.max_wr = 8;
	CHECK_EQ(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), EINVAL);
	a.max_wr = 40;
	CHECK_EQ(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), 0);
	CHECK_EQ(ibv_query_srq(s.srq, &a), 0);
	CHECK_GE(a.max_wr, 40);
	for (uint64_t i = 16; i < 40; i++)
		srq_recv(&s, i, i * 128, 128);
	for (uint64_t i = 0; i < 40; i++) {
		srq_sent(&s, i % 2, i);
		vs_expect(s.h.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	a.max_wr = 1;
	CHECK_EQ(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), 0);
	srq_recv(&s, 60, 0, 100);
	srq_sent(&s, 0, 1);
	vs_expect(s.h.end[1].recv_cq, 60, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

/* ---- errors --------------------------------------------------------------------------------- */

CASE(a_queue_pair_that_dies_leaves_the_shared_queue_alone, .needs = NEED(SRQ))
{
	struct shared s;

	shared_make(&s, &vs_defaults, NULL);
	for (uint64_t i = 0; i < 4; i++)
		srq_recv(&s, i, 0, 100);
	vs_set_state(s.qp[0][1], IBV_QPS_ERR);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	vs_set_state(s.qp[0][1], IBV_QPS_ERR); /* it was there: no second event */
	vs_expect_none(s.h.end[1].recv_cq);
	for (uint64_t i = 0; i < 4; i++) {
		srq_sent(&s, 1, i);
		vs_expect(s.h.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_set_state(s.qp[1][1], IBV_QPS_ERR);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[1][1]);
	shared_free(&s);
}

CASE(a_shared_queue_in_use_is_busy, .needs = NEED(SRQ), .misuse = true)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct shared s;

	shared_make(&s, &vs_defaults, NULL);
	CHECK_CODE(ibv_destroy_srq(s.srq), EBUSY);
	CHECK(s.qp[0][1]->srq == s.srq);
	CHECK_EQ(ibv_query_qp(s.qp[0][1], &attr, IBV_QP_STATE, &init), 0);
	CHECK(init.srq == s.srq);
	shared_free(&s);
}

CASE(a_message_that_is_too_long_fails_the_receive_it_took, .needs = NEED(SRQ))
{
	struct shared s;

	shared_make(&s, &vs_defaults, NULL);
	srq_recv(&s, 1, 0, 50);
	srq_recv(&s, 2, 0, 500);
	srq_send(&s, 0, IBV_WR_SEND, 9, 0, 100);
	vs_expect(s.h.end[0].send_cq, 9, IBV_WC_REM_INV_REQ_ERR, NULL);
	vs_expect(s.h.end[1].recv_cq, 1, IBV_WC_LOC_LEN_ERR, NULL);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	vs_expect_none(s.h.end[1].recv_cq);
	srq_sent(&s, 1, 10);
	vs_expect(s.h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

CASE(too_many_entries_end_a_chain_at_the_bad_one, .needs = NEED(SRQ))
{
	struct shared s;
	struct ibv_sge sge[3] = {{.length = 0}};
	struct ibv_recv_wr wr[3] = {{.wr_id = 1, .next = &wr[1], .sg_list = sge, .num_sge = 1},
				    {.wr_id = 2, .next = &wr[2], .sg_list = sge, .num_sge = 3},
				    {.wr_id = 3, .sg_list = sge, .num_sge = 1}},
			   *bad = NULL;

	shared_make(&s, &vs_defaults, NULL);
	CHECK_EQ(ibv_post_srq_recv(s.srq, wr, &bad), EINVAL);
	CHECK((bad) == (&wr[1]));
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 0);
	vs_expect(s.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 2, 0, 0); /* nothing after it was posted */
	vs_expect(s.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(s.h.end[0].send_cq, 2, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	shared_free(&s);
}

CASE(extended_creation_knows_basic_queues, .needs = NEED(SRQ))
{
	struct ibv_context *ctx = vs_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq_init_attr_ex a = {.srq_context = &pd,
					 .attr = {.max_wr = 4, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					 .srq_type = IBV_SRQT_BASIC,
					 .pd = pd};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &a);

	CHECK(srq);
	CHECK((srq->srq_context) == (&pd));
	CHECK((srq->pd) == (pd));
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	/* through the context's own call */
	struct ibv_srq *(*create)(struct ibv_context *, struct ibv_srq_init_attr_ex *) =
		verbs_get_ctx(ctx)->create_srq_ex;

	CHECK(create);
	srq = create(ctx, &a);
	CHECK(srq);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	a.srq_type = IBV_SRQT_TM;
	errno = 0;
	CHECK(!ibv_create_srq_ex(ctx, &a));
	a.comp_mask = 1u << 20;
	CHECK(!ibv_create_srq_ex(ctx, &a));
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { MESSAGES = 100 };

static void srq_feed(void *arg)
{
	struct shared *s = arg;
	const struct vs_end *e = &s->h.end[1];

	for (uint64_t i = 0; i < MESSAGES;) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)e->buffer, .length = 100, .lkey = e->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad = NULL;

		if (ibv_post_srq_recv(s->srq, &wr, &bad))
			vs_sleep_ns(VS_MS / 10); /* full: until the other task drains */
		else
			i++;
	}
}

static void srq_drain(void *arg)
{
	struct shared *s = arg;
	struct ibv_wc wc;

	for (int i = 0; i < MESSAGES; i++) {
		CHECK(vs_wait(s->h.end[1].recv_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
}

CASE(threads_feed_use_and_drain_one_shared_queue, .needs = NEED(SRQ))
{
	struct vs_options o = vs_defaults;
	struct shared s;

	o.rnr_retry = 7;
	shared_make(&s, &o, NULL);
	struct vs_thread *feeder = vs_thread_start(srq_feed, &s);
	struct vs_thread *drainer = vs_thread_start(srq_drain, &s);

	for (uint64_t i = 0; i < MESSAGES; i++)
		srq_sent(&s, i % 2, i);
	vs_thread_join(feeder);
	vs_thread_join(drainer);
	shared_free(&s);
}
