/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: who gets a receive, limits and their event, resizing, slots, and what
 * happens to them when a queue pair dies. */
#include "tests/conformance/verbs_harness.h"

#define PAIRS 2

/* PAIRS connections from end 0 to end 1, whose queue pairs receive from one shared queue. */
struct shared {
	struct vh h;
	struct ibv_srq *srq;
	struct ibv_qp *qp[PAIRS][2];
};

static struct ibv_srq *srq_make(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge, .srq_limit = 3}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	ck_assert_ptr_nonnull(srq);
	ck_assert_uint_ge(a.attr.max_wr, wr);
	ck_assert_uint_ge(a.attr.max_sge, sge);
	return srq;
}

static struct ibv_qp *srq_qp(struct shared *s, int side)
{
	const struct vh_end *e = &s->h.end[side];
	struct ibv_qp_init_attr a = vh_init_attr(&s->h.options, e->send_cq, e->recv_cq);

	a.srq = side ? s->srq : NULL;
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

static void srq_connect(struct shared *s, int pair, int side)
{
	const struct vh_end *e = s->h.end;
	struct ibv_qp_attr a = vh_attr(&s->h.options, &e[!side].gid, s->qp[pair][!side]->qp_num,
				       e[side].psn, e[!side].psn);

	vh_connect(s->qp[pair][side], &a, IBV_QPS_RTS);
}

static void shared_make(struct shared *s, const struct vh_options *o, struct ibv_srq *srq)
{
	vh_make(&s->h, o);
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
			ck_assert_int_eq(ibv_destroy_qp(s->qp[i][side]), 0);
	ck_assert_int_eq(ibv_destroy_srq(s->srq), 0);
	vh_free(&s->h);
}

static int srq_recv_try(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vh_end *e = &s->h.end[1];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int rc = ibv_post_srq_recv(s->srq, &wr, &bad);

	ck_assert_ptr_eq(bad, rc ? &wr : NULL);
	return rc;
}

static void srq_recv(struct shared *s, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	ck_assert_int_eq(srq_recv_try(s, wr_id, offset, bytes), 0);
}

static void srq_send(struct shared *s, int pair, enum ibv_wr_opcode opcode, uint64_t wr_id,
		     uint64_t offset, uint32_t bytes)
{
	struct vh_wr w;

	vh_wr_fill(&w, &s->h, 0, opcode, wr_id, offset, bytes);
	w.wr.imm_data = htobe32((uint32_t)wr_id);
	ck_assert_int_eq(vh_post(s->qp[pair][0], &w.wr), 0);
}

static void srq_sent(struct shared *s, int pair, uint64_t wr_id)
{
	srq_send(s, pair, IBV_WR_SEND, wr_id, 0, 100);
	vh_expect(s->h.end[0].send_cq, wr_id, IBV_WC_SUCCESS, NULL);
}

static void expect_async(struct ibv_context *ctx, enum ibv_event_type type, const void *element)
{
	struct ibv_async_event e;

	ck_assert_int_eq(ibv_get_async_event(ctx, &e), 0);
	ck_assert_msg(e.event_type == type, "got \"%s\", expected \"%s\"",
		      ibv_event_type_str(e.event_type), ibv_event_type_str(type));
	ck_assert_ptr_eq(e.element.srq, element);
	ibv_ack_async_event(&e);
}

/* ---- receiving ------------------------------------------------------------------------------ */

VH_TEST(queue_pairs_take_the_receives_of_a_shared_queue_in_its_order)
{
	struct shared s;
	struct ibv_wc wc;

	shared_make(&s, &vh_defaults, NULL);
	vh_pattern(s.h.end[0].buffer, 3 * 4096, 7);
	for (uint64_t i = 0; i < 4; i++)
		srq_recv(&s, 100 + i, i * 4096, 4096);
	for (uint64_t i = 0; i < 3; i++) {
		srq_send(&s, i % 2, IBV_WR_SEND, i, i * 4096, 4096);
		vh_expect(s.h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vh_expect(s.h.end[1].recv_cq, 100 + i, IBV_WC_SUCCESS, &wc);
		ck_assert_uint_eq(wc.qp_num, s.qp[i % 2][1]->qp_num);
		ck_assert_uint_eq(wc.byte_len, 4096);
		ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
	}
	vh_expect_pattern(s.h.end[1].buffer, 3 * 4096, 7);
	shared_free(&s);
}

VH_TEST(a_write_with_immediate_takes_a_receive_of_the_shared_queue)
{
	struct shared s;
	struct ibv_wc wc;

	shared_make(&s, &vh_defaults, NULL);
	srq_recv(&s, 5, 0, 16);
	srq_send(&s, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 9, 0, 5000);
	vh_expect(s.h.end[0].send_cq, 9, IBV_WC_SUCCESS, NULL);
	vh_expect(s.h.end[1].recv_cq, 5, IBV_WC_SUCCESS, &wc);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ck_assert_uint_eq(be32toh(wc.imm_data), 9);
	ck_assert_uint_eq(wc.byte_len, 5000);
	shared_free(&s);
}

VH_TEST(an_empty_shared_queue_is_receiver_not_ready)
{
	struct vh_options o = vh_defaults;
	struct shared s;

	o.rnr_retry = 2;
	shared_make(&s, &o, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 100);
	vh_expect(s.h.end[0].send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	/* the other one still lives, and finds what is posted meanwhile */
	srq_recv(&s, 2, 0, 100);
	srq_sent(&s, 1, 3);
	vh_expect(s.h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

VH_TEST(a_sender_waits_for_a_shared_queue_that_fills_later)
{
	struct vh_options o = vh_defaults;
	struct shared s;

	o.rnr_retry = 7;
	shared_make(&s, &o, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 100);
	srq_send(&s, 1, IBV_WR_SEND, 2, 0, 100);
	os_sleep_ns(100000);
	vh_expect_none(s.h.end[0].send_cq);
	srq_recv(&s, 3, 0, 100);
	srq_recv(&s, 4, 0, 100);
	vh_expect(s.h.end[1].recv_cq, 3, IBV_WC_SUCCESS, NULL);
	vh_expect(s.h.end[1].recv_cq, 4, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

/* The keys of its receives are of the shared queue's domain, whatever the queue pair's. */
VH_TEST(the_shared_queues_domain_says_which_keys_are_good)
{
	struct shared s;
	struct vh_end other;

	vh_end_make(&other, 1, &vh_defaults); /* the same device through another context */
	memset(&s, 0, sizeof s);
	vh_make(&s.h, &vh_defaults);
	struct vh_end *e = &s.h.end[1];
	struct ibv_pd *pd = ibv_alloc_pd(e->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, e->buffer, VH_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);

	ck_assert_ptr_nonnull(mr);
	s.srq = srq_make(pd, 4, 1);
	for (int side = 0; side < 2; side++)
		s.qp[0][side] = srq_qp(&s, side);
	for (int side = 0; side < 2; side++)
		srq_connect(&s, 0, side);
	struct ibv_mr *mine = e->mr;

	e->mr = mr;
	srq_recv(&s, 1, 0, 100);
	e->mr = mine;
	srq_recv(&s, 2, 0, 100);
	srq_sent(&s, 0, 3);
	vh_expect(e->recv_cq, 1, IBV_WC_SUCCESS, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 4, 0, 100);
	vh_expect(s.h.end[0].send_cq, 4, IBV_WC_REM_OP_ERR, NULL);
	vh_expect(e->recv_cq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	for (int side = 0; side < 2; side++)
		ck_assert_int_eq(ibv_destroy_qp(s.qp[0][side]), 0);
	ck_assert_int_eq(ibv_destroy_srq(s.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	vh_free(&s.h);
	vh_end_free(&other);
}

/* ---- limits, sizes, slots ------------------------------------------------------------------- */

VH_TEST(the_limit_says_once_that_few_are_left)
{
	struct shared s;
	struct ibv_srq_attr a = {.srq_limit = 3};

	shared_make(&s, &vh_defaults, NULL);
	for (uint64_t i = 0; i < 8; i++)
		srq_recv(&s, i, 0, 100);
	ck_assert_int_eq(ibv_query_srq(s.srq, &a), 0);
	ck_assert_uint_eq(a.srq_limit, 0); /* what create was given is not looked at */
	ck_assert_uint_ge(a.max_wr, 16);
	a.srq_limit = 3;
	ck_assert_int_eq(ibv_modify_srq(s.srq, &a, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 0; i < 5; i++)
		srq_sent(&s, i % 2, i);
	ck_assert_int_eq(ibv_query_srq(s.srq, &a), 0);
	ck_assert_uint_eq(a.srq_limit, 3);
	srq_sent(&s, 0, 5); /* two are left */
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_LIMIT_REACHED, s.srq);
	ck_assert_int_eq(ibv_query_srq(s.srq, &a), 0);
	ck_assert_uint_eq(a.srq_limit, 0);
	srq_sent(&s, 0, 6); /* silence */
	a.srq_limit = 1;
	ck_assert_int_eq(ibv_modify_srq(s.srq, &a, IBV_SRQ_LIMIT), 0);
	srq_sent(&s, 0, 7);
	vh_link(1, false); /* what comes next is the second event, then this */
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_LIMIT_REACHED, s.srq);
	struct ibv_async_event port;

	ck_assert_int_eq(ibv_get_async_event(s.h.end[1].ctx, &port), 0);
	ck_assert_int_eq(port.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&port);
	shared_free(&s);
}

VH_TEST(wrong_attributes_of_a_shared_queue_change_nothing)
{
	struct ibv_context *ctx = vh_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_device_attr d;
	struct ibv_srq_attr a;

	ck_assert_int_eq(ibv_query_device(ctx, &d), 0);
	ck_assert_int_gt(d.max_srq, 0);
	const struct {
		uint32_t wr, sge;
	} bad[] = {{0, 1}, {(uint32_t)d.max_srq_wr + 1, 1}, {1, (uint32_t)d.max_srq_sge + 1}};

	for (int i = 0; i < 3; i++) {
		struct ibv_srq_init_attr init = {
			.attr = {.max_wr = bad[i].wr, .max_sge = bad[i].sge}};

		errno = 0;
		ck_assert_ptr_null(ibv_create_srq(pd, &init));
		ck_assert_int_eq(errno, EINVAL);
	}
	struct ibv_srq *srq = srq_make(pd, 8, 1);

	ck_assert_int_eq(ibv_query_srq(srq, &a), 0);
	uint32_t size = a.max_wr;

	a.srq_limit = size + 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL);
	a.srq_limit = 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT | 1 << 5), EINVAL);
	a.max_wr = (uint32_t)d.max_srq_wr + 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR), EINVAL);
	ck_assert_int_eq(ibv_query_srq(srq, &a), 0);
	ck_assert_uint_eq(a.max_wr, size);
	ck_assert_uint_eq(a.srq_limit, 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

VH_TEST(a_resized_shared_queue_keeps_what_was_posted)
{
	struct ibv_srq_attr a;
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	srq_recv(&s, 50, 0, 100);
	srq_sent(&s, 0, 0); /* so that the ring does not begin at its start */
	vh_expect(s.h.end[1].recv_cq, 50, IBV_WC_SUCCESS, NULL);
	for (uint64_t i = 0; i < 16; i++)
		srq_recv(&s, i, i * 128, 128);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 128), ENOMEM);
	a.max_wr = 8;
	ck_assert_int_eq(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), EINVAL);
	a.max_wr = 40;
	ck_assert_int_eq(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), 0);
	ck_assert_int_eq(ibv_query_srq(s.srq, &a), 0);
	ck_assert_uint_ge(a.max_wr, 40);
	for (uint64_t i = 16; i < 40; i++)
		srq_recv(&s, i, i * 128, 128);
	for (uint64_t i = 0; i < 40; i++) {
		srq_sent(&s, i % 2, i);
		vh_expect(s.h.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	a.max_wr = 1;
	ck_assert_int_eq(ibv_modify_srq(s.srq, &a, IBV_SRQ_MAX_WR), 0);
	srq_recv(&s, 60, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 61, 0, 100), ENOMEM);
	srq_sent(&s, 0, 1);
	vh_expect(s.h.end[1].recv_cq, 60, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

/* As of the other queues: only the program's poll frees a slot. */
VH_TEST(a_slot_of_a_shared_queue_is_free_when_its_completion_was_polled)
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	for (uint64_t i = 0; i < 16; i++)
		srq_recv(&s, i, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	srq_sent(&s, 0, 1);
	srq_sent(&s, 1, 2);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	vh_expect(s.h.end[1].recv_cq, 0, IBV_WC_SUCCESS, NULL);
	srq_recv(&s, 16, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	/* a queue pair that is reset forgets its completions: the slots are free all the same */
	vh_to_state(s.qp[1][1], IBV_QPS_RESET);
	vh_expect_none(s.h.end[1].recv_cq);
	srq_recv(&s, 17, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 99, 0, 100), ENOMEM);
	shared_free(&s);
}

/* ---- errors --------------------------------------------------------------------------------- */

VH_TEST(a_queue_pair_that_dies_leaves_the_shared_queue_alone)
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	for (uint64_t i = 0; i < 4; i++)
		srq_recv(&s, i, 0, 100);
	vh_to_state(s.qp[0][1], IBV_QPS_ERR);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	vh_to_state(s.qp[0][1], IBV_QPS_ERR); /* it was there: no second event */
	vh_expect_none(s.h.end[1].recv_cq);
	for (uint64_t i = 0; i < 4; i++) {
		srq_sent(&s, 1, i);
		vh_expect(s.h.end[1].recv_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vh_to_state(s.qp[1][1], IBV_QPS_ERR);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[1][1]);
	shared_free(&s);
}

VH_TEST(a_message_that_is_too_long_fails_the_receive_it_took)
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	srq_recv(&s, 1, 0, 50);
	srq_recv(&s, 2, 0, 500);
	srq_send(&s, 0, IBV_WR_SEND, 9, 0, 100);
	vh_expect(s.h.end[0].send_cq, 9, IBV_WC_REM_INV_REQ_ERR, NULL);
	vh_expect(s.h.end[1].recv_cq, 1, IBV_WC_LOC_LEN_ERR, NULL);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	vh_expect_none(s.h.end[1].recv_cq);
	srq_sent(&s, 1, 10);
	vh_expect(s.h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	shared_free(&s);
}

VH_TEST_PLAN(a_shared_queue_that_fails_takes_its_queue_pairs_along, "verbs.srq nth=2 fatal\n")
{
	struct shared s;

	shared_make(&s, &vh_defaults, NULL);
	srq_recv(&s, 1, 0, 100);
	ck_assert_int_eq(srq_recv_try(&s, 2, 0, 100), EINVAL);
	expect_async(s.h.end[1].ctx, IBV_EVENT_SRQ_ERR, s.srq);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[0][1]);
	expect_async(s.h.end[1].ctx, IBV_EVENT_QP_LAST_WQE_REACHED, s.qp[1][1]);
	ck_assert_int_eq(vh_state(s.qp[0][1]), IBV_QPS_ERR);
	ck_assert_int_eq(vh_state(s.qp[1][1]), IBV_QPS_ERR);
	shared_free(&s);
}

VH_TEST(a_shared_queue_in_use_is_busy_and_has_no_other_way_in)
{
	struct shared s;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

	shared_make(&s, &vh_defaults, NULL);
	ck_assert_int_eq(ibv_destroy_srq(s.srq), EBUSY);
	ck_assert_int_eq(ibv_post_recv(s.qp[0][1], &wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr);
	ck_assert_ptr_eq(s.qp[0][1]->srq, s.srq);
	ck_assert_int_eq(ibv_query_qp(s.qp[0][1], &attr, IBV_QP_CAP, &init), 0);
	ck_assert_ptr_eq(init.srq, s.srq);
	ck_assert_uint_eq(attr.cap.max_recv_wr, 0);
	ck_assert_int_eq(ibv_query_qp(s.qp[0][0], &attr, IBV_QP_CAP, &init), 0);
	ck_assert_ptr_null(init.srq);
	ck_assert_uint_ge(attr.cap.max_recv_wr, (uint32_t)s.h.options.recv_wr);
	shared_free(&s);
}

VH_TEST(too_many_entries_end_a_chain_at_the_bad_one)
{
	struct shared s;
	struct ibv_sge sge[3] = {{.length = 0}};
	struct ibv_recv_wr wr[3] = {{.wr_id = 1, .next = &wr[1], .sg_list = sge, .num_sge = 1},
				    {.wr_id = 2, .next = &wr[2], .sg_list = sge, .num_sge = 3},
				    {.wr_id = 3, .sg_list = sge, .num_sge = 1}},
			   *bad = NULL;

	shared_make(&s, &vh_defaults, NULL);
	ck_assert_int_eq(ibv_post_srq_recv(s.srq, wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr[1]);
	srq_send(&s, 0, IBV_WR_SEND, 1, 0, 0);
	vh_expect(s.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	srq_send(&s, 0, IBV_WR_SEND, 2, 0, 0); /* nothing behind it was posted */
	vh_expect(s.h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(s.h.end[0].send_cq, 2, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	shared_free(&s);
}

VH_TEST(extended_creation_knows_basic_queues)
{
	struct ibv_context *ctx = vh_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq_init_attr_ex a = {.srq_context = &pd,
					 .attr = {.max_wr = 4, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					 .srq_type = IBV_SRQT_BASIC,
					 .pd = pd};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &a);

	ck_assert_ptr_nonnull(srq);
	ck_assert_ptr_eq(srq->srq_context, &pd);
	ck_assert_ptr_eq(srq->pd, pd);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	/* through the context's own call */
	struct ibv_srq *(*create)(struct ibv_context *, struct ibv_srq_init_attr_ex *) =
		verbs_get_ctx(ctx)->create_srq_ex;

	ck_assert_ptr_nonnull(create);
	srq = create(ctx, &a);
	ck_assert_ptr_nonnull(srq);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	a.srq_type = IBV_SRQT_TM;
	errno = 0;
	ck_assert_ptr_null(ibv_create_srq_ex(ctx, &a));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	a.comp_mask = 1u << 20;
	ck_assert_ptr_null(ibv_create_srq_ex(ctx, &a));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

int main(void)
{
	TCase *t = tcase_create("srq");

	VH_ADD(t, queue_pairs_take_the_receives_of_a_shared_queue_in_its_order);
	VH_ADD(t, a_write_with_immediate_takes_a_receive_of_the_shared_queue);
	VH_ADD(t, an_empty_shared_queue_is_receiver_not_ready);
	VH_ADD(t, a_sender_waits_for_a_shared_queue_that_fills_later);
	VH_ADD(t, the_shared_queues_domain_says_which_keys_are_good);
	VH_ADD(t, the_limit_says_once_that_few_are_left);
	VH_ADD(t, wrong_attributes_of_a_shared_queue_change_nothing);
	VH_ADD(t, a_resized_shared_queue_keeps_what_was_posted);
	VH_ADD(t, a_slot_of_a_shared_queue_is_free_when_its_completion_was_polled);
	VH_ADD(t, a_queue_pair_that_dies_leaves_the_shared_queue_alone);
	VH_ADD(t, a_message_that_is_too_long_fails_the_receive_it_took);
	VH_ADD(t, a_shared_queue_that_fails_takes_its_queue_pairs_along);
	VH_ADD(t, a_shared_queue_in_use_is_busy_and_has_no_other_way_in);
	VH_ADD(t, too_many_entries_end_a_chain_at_the_bad_one);
	VH_ADD(t, extended_creation_knows_basic_queues);
	return vh_suite_run("verbs srq", t);
}
