/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of world_check.c with datagrams, extended completion queues and extended queue pairs. */
#include "tests/conformance/verbs/world/world_check.h"
#include "tests/conformance/verbs/harness/world_ud.h"

/* ---- datagrams ------------------------------------------------------------------------------ */

void end_an_address_in_use(void)
{
	struct ud u;
	struct ibv_wc wc;

	ud_make(&u);
	ud_recv(&u, UD_GRH + 64);
	ud_post(&u, 64, UD_QKEY);
	if (!check_bad)
		vs_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_ah(u.ah), 0);
	u.ah = NULL;
	if (check_bad)
		CHECK(vs_wait(u.h.end[0].send_cq, &wc, VS_SECOND));
	ud_free(&u);
}

void receive_without_room_for_a_header(void)
{
	struct ud u;

	ud_make(&u);
	ud_recv(&u, check_bad ? UD_GRH - 1 : UD_GRH);
	if (!check_bad) {
		ud_post(&u, 0, UD_QKEY);
		vs_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vs_expect(u.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	}
	ud_free(&u);
}

void send_a_long_datagram(void)
{
	struct ud u;
	struct ibv_wc wc;

	ud_make(&u);
	ud_recv(&u, UD_GRH + UD_MTU);
	ud_post(&u, check_bad ? UD_MTU + 1 : UD_MTU, UD_QKEY);
	CHECK(vs_wait(u.h.end[0].send_cq, &wc, VS_SECOND)); /* the status differs between HCAs */
	ud_free(&u);
}

void send_with_another_qkey(void)
{
	struct ud u;

	ud_make(&u);
	ud_recv(&u, UD_GRH + 64);
	ud_post(&u, 64, check_bad ? UD_QKEY + 1 : UD_QKEY);
	vs_expect(u.h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	os_sleep_ns(VS_SECOND / 100);
	if (check_bad)
		vs_expect_none(u.h.end[1].recv_cq);
	else
		vs_expect(u.h.end[1].recv_cq, 1, IBV_WC_SUCCESS, NULL);
	ud_free(&u);
}

/* ---- extended completion queues ------------------------------------------------------------- */

/* A connection. End 0 has one extended completion queue for its sends and its receives. */
struct ex {
	struct vs_pair h;
	struct ibv_cq_ex *cq;
};

static void ex_make(struct ex *x, uint64_t fields, uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 64,
					.wc_flags = fields,
					.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					.flags = flags};
	struct vs_end *e = &x->h.end[0];

	vs_make(&x->h, &vw_defaults);
	x->cq = ibv_create_cq_ex(e->ctx, &a);
	CHECK(x->cq);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(x->cq);
	struct ibv_qp_init_attr init = vw_init_attr(&x->h.options, cq, cq);

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp);
	vs_connect(&x->h, 0, IBV_QPS_RTS);
	vs_connect(&x->h, 1, IBV_QPS_RTS);
}

/* Gives end 0 plain queues again, for vs_free. */
static void ex_free(struct ex *x)
{
	struct vs_end *e = &x->h.end[0];
	struct ibv_qp_init_attr init = vw_init_attr(&x->h.options, e->send_cq, e->recv_cq);

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cq)), 0);
	e->qp = ibv_create_qp(e->pd, &init);
	CHECK(e->qp);
	vs_free(&x->h);
}

/* Waits for a completion, and makes it the current one. */
static void ex_start(struct ex *x)
{
	struct ibv_poll_cq_attr a = {0};

	for (int i = 0; ibv_start_poll(x->cq, &a); i++) {
		CHECK(i < 10000);
		os_sleep_ns(1000);
	}
}

void read_fields_of_an_error(void)
{
	struct ex x;

	ex_make(&x, IBV_WC_EX_WITH_BYTE_LEN, 0);
	vs_recv(&x.h, 0, 7, 0, 64);
	vs_set_state(x.h.end[0].qp, IBV_QPS_ERR);
	ex_start(&x);
	CHECK_EQ(x.cq->status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(x.cq->wr_id, 7);
	CHECK(ibv_wc_read_vendor_err(x.cq) != 0);
	if (check_bad)
		(void)ibv_wc_read_opcode(x.cq);
	ibv_end_poll(x.cq);
	ex_free(&x);
}

void read_a_field_that_is_not_there(void)
{
	struct ex x;

	ex_make(&x, check_bad ? 0 : IBV_WC_EX_WITH_BYTE_LEN, 0);
	vs_recv(&x.h, 0, 7, 0, 64);
	vs_send(&x.h, 1, IBV_WR_SEND, 1, 0, 48);
	ex_start(&x);
	CHECK_EQ(x.cq->status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_wc_read_byte_len(x.cq), 48);
	ibv_end_poll(x.cq);
	ex_free(&x);
}

void read_immediate_data_unchecked(void)
{
	struct ex x;

	ex_make(&x, IBV_WC_EX_WITH_IMM, 0);
	vs_recv(&x.h, 0, 7, 0, 64);
	vs_send(&x.h, 1, check_bad ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 1, 0, 48);
	ex_start(&x);
	CHECK_EQ(x.cq->status, IBV_WC_SUCCESS);
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

void poll_from_two_threads(void)
{
	const struct os_thread_attr attr = {.name = "the other one", .rank = -1};
	struct os_thread *other;
	struct ex x;

	ex_make(&x, 0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	vs_send(&x.h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	ex_start(&x);
	if (!check_bad)
		ibv_end_poll(x.cq);
	CHECK_EQ(os_thread_start(&other, &attr, poll_it_once, &x), 0);
	CHECK_EQ(os_thread_join(other), 0);
	if (check_bad)
		ibv_end_poll(x.cq);
	ex_free(&x);
}

/* ---- handles (all of them: world_handles.c) -------------------------------------------------- */

void destroy_it_twice(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_cq *cq = ibv_create_cq(h.end[0].ctx, 4, NULL, NULL, 0);

	CHECK_EQ(ibv_destroy_cq(cq), 0);
	if (check_bad)
		CHECK_EQ(ibv_destroy_cq(cq), EINVAL);
	vs_free(&h);
}

void use_a_queue_of_another_context(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_context *again = vs_open(0);
	struct ibv_cq *cq = ibv_create_cq(check_bad ? again : h.end[0].ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = vw_init_attr(&h.options, cq, h.end[0].recv_cq);

	init.cap.max_recv_wr = 1;
	errno = 0;
	struct ibv_qp *qp = ibv_create_qp(h.end[0].pd, &init);

	CHECK_EQ(!qp, check_bad);
	CHECK_EQ(errno, check_bad ? EINVAL : 0);
	if (qp)
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_close_device(again), 0);
	vs_free(&h);
}

/* ---- requests ------------------------------------------------------------------------------- */

void make_a_request_outside(void)
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct vs_end *e = &h.end[0];
	struct ibv_qp_init_attr_ex init = {.send_cq = e->send_cq,
					   .recv_cq = e->recv_cq,
					   .cap = {8, 8, 1, 1, 0},
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = e->pd,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};

	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	e->qp = ibv_create_qp_ex(e->ctx, &init);
	CHECK(e->qp);
	vs_connect(&h, 0, IBV_QPS_RTS);
	vs_connect(&h, 1, IBV_QPS_RTS);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);

	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (!check_bad)
		ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, h.end[1].mr->rkey, (uintptr_t)h.end[1].buffer);
	ibv_wr_set_sge(ex, e->mr->lkey, (uintptr_t)e->buffer, 8);
	CHECK_EQ(ibv_wr_complete(ex), check_bad ? EINVAL : 0);
	if (!check_bad)
		vs_expect(e->send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

/* Waits for a completion without a deadline. */
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

/* Posts one entry more than the queue pair takes. The call fails, and the program ignores its
 * result. */
void ignore_that_a_post_failed(void)
{
	struct vs_pair h;
	struct vs_wr w;
	struct ibv_sge sge[5];

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	for (int i = 0; i < 5; i++)
		sge[i] = w.sge;
	w.wr.sg_list = sge;
	w.wr.num_sge = check_bad ? 5 : 4;
	(void)vs_post(h.end[0].qp, &w.wr);
	wait_for_a_completion(h.end[0].send_cq);
	vs_free(&h);
}

/* Posts a request that is refused, then a correct one, and waits for a completion that never
 * comes. */
void mend_a_refused_post_and_hang(void)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	w.wr.num_sge = 5;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), EINVAL);
	w.wr.num_sge = 1;
	CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
	wait_for_a_completion(h.end[0].send_cq);
	wait_for_a_completion(h.end[0].recv_cq);
	vs_free(&h);
}
