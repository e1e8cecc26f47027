/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More programs for verbs_check_test.c, its only user: datagrams, extended completion queues and
 * queue pairs. Each does it wrong where `bad` is set, and right otherwise; end 0 and end 1 are
 * those of verbs_harness.h.
 */
#ifndef TESTS_CONFORMANCE_VERBS_CHECK_MORE_H
#define TESTS_CONFORMANCE_VERBS_CHECK_MORE_H

#include "tests/conformance/verbs_harness.h"
#include "tests/conformance/verbs_ud.h"

static bool bad; /* does the program do it wrong? */

/* ---- datagrams ------------------------------------------------------------------------------ */

static void end_an_address_in_use(void)
{
	struct ud u;
	struct ibv_wc wc;

	ud_make(&u);
	ud_recv(&u, UD_GRH + 64);
	ud_post(&u, 64, UD_QKEY);
	if (!bad)
		vh_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_destroy_ah(u.ah), 0);
	u.ah = NULL;
	if (bad)
		ck_assert(vh_wait(u.h.end[0].send_cq, &wc, VH_SECOND_NS));
	ud_free(&u);
}

static void receive_without_room_for_a_header(void)
{
	struct ud u;

	ud_make(&u);
	ud_recv(&u, bad ? UD_GRH - 1 : UD_GRH);
	if (!bad) {
		ud_post(&u, 0, UD_QKEY);
		vh_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vh_expect(u.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	}
	ud_free(&u);
}

static void send_a_long_datagram(void)
{
	struct ud u;
	struct ibv_wc wc;

	ud_make(&u);
	ud_recv(&u, UD_GRH + UD_MTU);
	ud_post(&u, bad ? UD_MTU + 1 : UD_MTU, UD_QKEY);
	ck_assert(vh_wait(u.h.end[0].send_cq, &wc, VH_SECOND_NS)); /* HCAs differ in how it ends */
	ud_free(&u);
}

static void send_with_another_qkey(void)
{
	struct ud u;

	ud_make(&u);
	ud_recv(&u, UD_GRH + 64);
	ud_post(&u, 64, bad ? UD_QKEY + 1 : UD_QKEY);
	vh_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	os_sleep_ns(VH_SECOND_NS / 100);
	if (bad)
		vh_expect_none(u.h.end[1].recv_cq);
	else
		vh_expect(u.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	ud_free(&u);
}

/* ---- extended completion queues ------------------------------------------------------------- */

/* A connection of which end 0 completes both its sides on an extended queue. */
struct ex {
	struct vh h;
	struct ibv_cq_ex *cq;
};

static void ex_make(struct ex *x, uint64_t fields, uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 64,
					.wc_flags = fields,
					.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					.flags = flags};
	struct vh_end *e = &x->h.end[0];

	vh_make(&x->h, &vh_defaults);
	x->cq = ibv_create_cq_ex(e->ctx, &a);
	ck_assert_ptr_nonnull(x->cq);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(x->cq);
	struct ibv_qp_init_attr init = vh_init_attr(&x->h.options, cq, cq);

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	vh_connect_end(&x->h, 0, IBV_QPS_RTS);
	vh_connect_end(&x->h, 1, IBV_QPS_RTS);
}

/* Leaves end 0 with queues of the plain kind, for vh_free. */
static void ex_free(struct ex *x)
{
	struct vh_end *e = &x->h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&x->h.options, e->send_cq, e->recv_cq);

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq)), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	vh_free(&x->h);
}

/* Waits for a completion, which is the current one then. */
static void ex_start(struct ex *x)
{
	struct ibv_poll_cq_attr a = {0};

	for (int i = 0; ibv_start_poll(x->cq, &a); i++) {
		ck_assert_int_lt(i, 10000);
		os_sleep_ns(1000);
	}
}

static void read_fields_of_an_error(void)
{
	struct ex x;

	ex_make(&x, IBV_WC_EX_WITH_BYTE_LEN, 0);
	vh_recv(&x.h, 0, 7, 0, 64);
	vh_to_state(x.h.end[0].qp, IBV_QPS_ERR);
	ex_start(&x);
	ck_assert_int_eq(x.cq->status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(x.cq->wr_id, 7);
	ck_assert_uint_ne(ibv_wc_read_vendor_err(x.cq), 0);
	if (bad)
		(void)ibv_wc_read_opcode(x.cq);
	ibv_end_poll(x.cq);
	ex_free(&x);
}

static void read_a_field_that_is_not_there(void)
{
	struct ex x;

	ex_make(&x, bad ? 0 : IBV_WC_EX_WITH_BYTE_LEN, 0);
	vh_recv(&x.h, 0, 7, 0, 64);
	vh_send(&x.h, 1, IBV_WR_SEND, 1, 0, 48);
	ex_start(&x);
	ck_assert_int_eq(x.cq->status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(ibv_wc_read_byte_len(x.cq), 48);
	ibv_end_poll(x.cq);
	ex_free(&x);
}

static void read_immediate_data_unchecked(void)
{
	struct ex x;

	ex_make(&x, IBV_WC_EX_WITH_IMM, 0);
	vh_recv(&x.h, 0, 7, 0, 64);
	vh_send(&x.h, 1, bad ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 1, 0, 48);
	ex_start(&x);
	ck_assert_int_eq(x.cq->status, IBV_WC_SUCCESS);
	(void)ibv_wc_read_imm_data(x.cq);
	ibv_end_poll(x.cq);
	ex_free(&x);
}

static void poll_it_once(void *x)
{
	struct ibv_poll_cq_attr a = {0};
	struct ibv_cq_ex *cq = ((struct ex *)x)->cq;

	if (ibv_start_poll(cq, &a) == 0)
		ibv_end_poll(cq);
}

static void poll_from_two_threads(void)
{
	const struct os_thread_attr attr = {.name = "the other one", .rank = -1};
	struct os_thread *other;
	struct ex x;

	ex_make(&x, 0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	vh_send(&x.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	ex_start(&x);
	if (!bad)
		ibv_end_poll(x.cq);
	ck_assert_int_eq(os_thread_start(&other, &attr, poll_it_once, &x), 0);
	ck_assert_int_eq(os_thread_join(other), 0);
	if (bad)
		ibv_end_poll(x.cq);
	ex_free(&x);
}

/* ---- handles: all of them are in verbs_handle_test.c
 * ------------------------------------------ */

static void destroy_it_twice(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_cq *cq = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	if (bad)
		ck_assert_int_eq(ibv_destroy_cq(cq), EINVAL);
	vh_free(&h);
}

static void use_a_queue_of_another_context(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_context *again = vh_open(0);
	struct ibv_cq *cq = ibv_create_cq(bad ? again : h.end[0].ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = vh_init_attr(&h.options, cq, h.end[0].recv_cq);

	init.cap.max_recv_wr = 1;
	errno = 0;
	struct ibv_qp *qp = ibv_create_qp(h.end[0].pd, &init);

	ck_assert_int_eq(!qp, bad);
	ck_assert_int_eq(errno, bad ? EINVAL : 0);
	if (qp)
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_close_device(again), 0);
	vh_free(&h);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void make_a_request_outside(void)
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct vh_end *e = &h.end[0];
	struct ibv_qp_init_attr_ex init = {.send_cq = e->send_cq,
					   .recv_cq = e->recv_cq,
					   .cap = {8, 8, 1, 1, 0},
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = e->pd,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp_ex(e->ctx, &init);
	ck_assert_ptr_nonnull(e->qp);
	vh_connect_end(&h, 0, IBV_QPS_RTS);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);

	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (!bad)
		ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, h.end[1].mr->rkey, (uintptr_t)h.end[1].buffer);
	ibv_wr_set_sge(ex, e->mr->lkey, (uintptr_t)e->buffer, 8);
	ck_assert_int_eq(ibv_wr_complete(ex), bad ? EINVAL : 0);
	if (!bad)
		vh_expect(e->send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

/* Waits for a completion, for ever if need be. */
static void wait_for_a_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (;;) {
		const struct wait w = {.on = cq,
				       .want = os_event_seq(cq),
				       .kind = WAIT_OBJECT,
				       .mask = WAIT_MASK_ALL,
				       .why = "a completion (test)",
				       .from = {-1, -1, -1, "HCA"}};

		if (ibv_poll_cq(cq, 1, &wc))
			return;
		os_wait_one(&w, NULL);
	}
}

/* One entry more than the queue pair takes: refused, and the program does not look. */
static void ignore_that_a_post_failed(void)
{
	struct vh h;
	struct vh_wr w;
	struct ibv_sge sge[5];

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	for (int i = 0; i < 5; i++)
		sge[i] = w.sge;
	w.wr.sg_list = sge;
	w.wr.num_sge = bad ? 5 : 4;
	(void)vh_post(h.end[0].qp, &w.wr);
	wait_for_a_completion(h.end[0].send_cq);
	vh_free(&h);
}

/* Refused, mended, posted again; then it waits for what never comes. */
static void mend_a_refused_post_and_hang(void)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.num_sge = 5;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), EINVAL);
	w.wr.num_sge = 1;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	wait_for_a_completion(h.end[0].send_cq);
	wait_for_a_completion(h.end[0].recv_cq);
	vh_free(&h);
}

#endif
