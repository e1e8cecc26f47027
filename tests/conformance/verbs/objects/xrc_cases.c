/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended reliable connections: domains, queues reached by their number, both halves. */
#include <fcntl.h>

#include "tests/conformance/verbs/suite.h"

/* End 0 initiates, end 1 is the target with two shared queues, each with a completion queue. */
struct xrc {
	struct vs_pair p;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[2];
	struct ibv_cq *cq[2];
	uint32_t number[2];
	struct ibv_qp *send, *recv;
};

static struct ibv_xrcd *xrcd_open(struct ibv_context *ctx, int fd, int flags)
{
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = flags};

	return ibv_open_xrcd(ctx, &a);
}

static struct ibv_srq *xrc_srq(const struct vs_end *e, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 8, .max_sge = 2},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						      IBV_SRQ_INIT_ATTR_XRCD |
						      IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
					 .srq_type = IBV_SRQT_XRC,
					 .pd = e->pd,
					 .xrcd = xrcd,
					 .cq = cq};
	struct ibv_srq *srq = ibv_create_srq_ex(e->ctx, &a);

	CHECK_MSG(srq, "ibv_create_srq_ex: %s", strerror(errno));
	return srq;
}

static struct ibv_qp *xrc_recv_qp(const struct vs_end *e, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &a);

	CHECK_MSG(qp, "ibv_create_qp_ex: %s", strerror(errno));
	return qp;
}

static void xrc_raise(const struct xrc *x, struct ibv_qp *qp, int side, uint32_t dest)
{
	struct ibv_qp_attr a = vs_attr_to(&x->p, side, dest);

	for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		a.qp_state = (enum ibv_qp_state)s;
		CHECK_EQ(ibv_modify_qp(qp, &a, vs_mask(qp->qp_type, a.qp_state)), 0);
	}
}

static void xrc_make(struct xrc *x)
{
	struct vs_end *e = x->p.end;

	vs_make(&x->p, &vs_defaults);
	x->xrcd = xrcd_open(e[1].ctx, -1, O_CREAT);
	CHECK_MSG(x->xrcd, "ibv_open_xrcd: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		x->cq[i] = ibv_create_cq(e[1].ctx, 16, NULL, NULL, 0);
		CHECK(x->cq[i]);
		x->srq[i] = xrc_srq(&e[1], x->xrcd, x->cq[i]);
		CHECK_EQ(ibv_get_srq_num(x->srq[i], &x->number[i]), 0);
	}
	CHECK(x->number[0] != x->number[1]);
	struct ibv_qp_init_attr init = vs_init_attr(&x->p, 0);

	init.qp_type = IBV_QPT_XRC_SEND;
	init.recv_cq = NULL;
	x->send = ibv_create_qp(e[0].pd, &init);
	CHECK_MSG(x->send, "ibv_create_qp: %s", strerror(errno));
	x->recv = xrc_recv_qp(&e[1], x->xrcd);
	xrc_raise(x, x->recv, 1, x->send->qp_num);
	xrc_raise(x, x->send, 0, x->recv->qp_num);
}

static void xrc_free(struct xrc *x)
{
	CHECK_EQ(ibv_destroy_qp(x->send), 0);
	if (x->recv)
		CHECK_EQ(ibv_destroy_qp(x->recv), 0);
	for (int i = 0; i < 2; i++) {
		if (x->srq[i])
			CHECK_EQ(ibv_destroy_srq(x->srq[i]), 0);
		CHECK_EQ(ibv_destroy_cq(x->cq[i]), 0);
	}
	CHECK_EQ(ibv_close_xrcd(x->xrcd), 0);
	vs_free(&x->p);
}

static void xrc_post_recv(struct xrc *x, int which, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	const struct vs_end *e = &x->p.end[1];
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_srq_recv(x->srq[which], &wr, &bad), 0);
}

static void xrc_post(struct xrc *x, uint32_t number, enum ibv_wr_opcode opcode, uint64_t wr_id,
		     uint64_t offset, uint32_t bytes)
{
	struct vs_wr w;

	vs_fill(&w, &x->p, 0, opcode, wr_id, offset, bytes);
	w.wr.qp_type.xrc.remote_srqn = number;
	CHECK_EQ(vs_post(x->send, &w.wr), 0);
}

CASE(one_connection_reaches_each_queue_by_its_number, .needs = NEED(XRC))
{
	struct ibv_cq *send_cq;
	struct ibv_wc wc;
	struct xrc x;

	xrc_make(&x);
	send_cq = x.p.end[0].send_cq;
	vs_pattern(x.p.end[0].buffer, 10000, 5);
	xrc_post_recv(&x, 0, 10, 0, 5000);
	xrc_post_recv(&x, 1, 20, 5000, 5000);
	xrc_post(&x, x.number[1], IBV_WR_SEND, 1, 5000, 5000);
	xrc_post(&x, x.number[0], IBV_WR_SEND_WITH_IMM, 2, 0, 5000);
	vs_expect(send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(x.cq[1], 20, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, 5000);
	vs_expect(x.cq[0], 10, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(be32toh(wc.imm_data), 2);
	vs_expect_pattern(x.p.end[1].buffer, 10000, 5);
	xrc_free(&x);
}

CASE(writes_and_reads_use_the_keys_of_the_named_queues_domain, .needs = NEED(XRC))
{
	struct ibv_cq *send_cq;
	struct ibv_wc wc;
	struct xrc x;

	xrc_make(&x);
	send_cq = x.p.end[0].send_cq;
	vs_pattern(x.p.end[0].buffer, 5000, 5);
	xrc_post_recv(&x, 0, 10, 20000, 16);
	xrc_post(&x, x.number[1], IBV_WR_RDMA_WRITE, 1, 0, 5000);
	xrc_post(&x, x.number[0], IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 100);
	vs_expect(send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(x.cq[0], 10, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	vs_expect_pattern(x.p.end[1].buffer, 5000, 5);
	vs_pattern(x.p.end[1].buffer + 30000, 3000, 6);
	xrc_post(&x, x.number[0], IBV_WR_RDMA_READ, 3, 30000, 3000);
	vs_expect(send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(x.p.end[0].buffer + 30000, 3000, 6);
	xrc_free(&x);
}

CASE(a_queue_that_is_not_there_is_an_invalid_request, .needs = NEED(XRC))
{
	struct xrc x;

	xrc_make(&x);
	xrc_post_recv(&x, 0, 10, 0, 100);
	xrc_post(&x, x.number[0] ^ 0x400000, IBV_WR_SEND, 1, 0, 10);
	vs_expect(x.p.end[0].send_cq, 1, IBV_WC_REM_INV_REQ_ERR, NULL);
	vs_await_state(x.recv, IBV_QPS_ERR);
	vs_expect_none(x.cq[0]); /* no queue took it */
	xrc_free(&x);
}

CASE(a_queue_that_was_destroyed_is_no_longer_reached, .needs = NEED(XRC))
{
	struct xrc x;

	xrc_make(&x);
	xrc_post_recv(&x, 0, 10, 0, 100);
	xrc_post(&x, x.number[0], IBV_WR_SEND, 1, 0, 10);
	vs_expect(x.p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(x.cq[0], 10, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_srq(x.srq[0]), 0);
	x.srq[0] = NULL;
	xrc_post_recv(&x, 1, 20, 0, 100);
	xrc_post(&x, x.number[1], IBV_WR_SEND, 2, 0, 10);
	vs_expect(x.p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(x.cq[1], 20, IBV_WC_SUCCESS, NULL);
	xrc_post(&x, x.number[0], IBV_WR_SEND, 3, 0, 10);
	vs_expect(x.p.end[0].send_cq, 3, IBV_WC_REM_INV_REQ_ERR, NULL);
	xrc_free(&x);
}

CASE(an_empty_extended_queue_is_receiver_not_ready, .needs = NEED(XRC))
{
	struct xrc x;

	xrc_make(&x);
	xrc_post_recv(&x, 1, 20, 0, 100); /* another queue's receive is no help */
	xrc_post(&x, x.number[0], IBV_WR_SEND, 1, 0, 10);
	vs_expect(x.p.end[0].send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	vs_expect_none(x.cq[1]);
	xrc_free(&x);
}

CASE(the_halves_post_only_what_they_have, .needs = NEED(XRC))
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct vs_wr w;
	struct xrc x;

	xrc_make(&x);
	vs_fill(&w, &x.p, 1, IBV_WR_SEND, 1, 0, 10);
	CHECK_REFUSED(vs_post(x.recv, &w.wr));
	CHECK_REFUSED(ibv_post_recv(x.send, &wr, &bad));
	CHECK(bad == &wr);
	uint32_t number;

	struct ibv_srq_init_attr plain = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(x.p.end[1].pd, &plain);

	CHECK(srq);
	CHECK_REFUSED(ibv_get_srq_num(srq, &number));
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	xrc_free(&x);
}

/* perftest connects both halves as if they were RC. */
CASE(attributes_of_the_other_half_do_not_count, .needs = NEED(XRC))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_xrcd *xrcd = xrcd_open(p.end[1].ctx, -1, O_CREAT);
	struct ibv_qp_init_attr init = vs_init_attr(&p, 0);

	CHECK(xrcd);
	init.qp_type = IBV_QPT_XRC_SEND;
	struct ibv_qp *qp[2] = {ibv_create_qp(p.end[0].pd, &init), xrc_recv_qp(&p.end[1], xrcd)};

	CHECK(qp[0]);
	for (int side = 0; side < 2; side++) {
		struct ibv_qp_attr a = vs_attr_to(&p, side, qp[!side]->qp_num);

		for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
			a.qp_state = (enum ibv_qp_state)s;
			CHECK_EQ(ibv_modify_qp(qp[side], &a, vs_mask(IBV_QPT_RC, a.qp_state)), 0);
		}
	}
	for (int side = 0; side < 2; side++)
		CHECK_EQ(ibv_destroy_qp(qp[side]), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	vs_free(&p);
}

CASE(a_domain_in_use_is_busy, .needs = NEED(XRC), .misuse = true)
{
	struct xrc x;

	xrc_make(&x);
	CHECK_CODE(ibv_close_xrcd(x.xrcd), EBUSY);
	CHECK_CODE(ibv_destroy_cq(x.cq[0]), EBUSY);
	xrc_free(&x);
}

CASE(a_file_names_a_domain, .needs = NEED(XRC))
{
	char name[] = "/tmp/verbs_xrcd_XXXXXX";
	int fd = mkstemp(name);
	struct ibv_context *ctx = vs_open(0), *again = vs_open(0);

	CHECK_GE(fd, 0);
	CHECK_NULL(xrcd_open(ctx, fd, 0), EAGAIN); /* no domain exists yet */
	struct ibv_xrcd *a = xrcd_open(ctx, fd, O_CREAT), *b;

	CHECK(a);
	b = xrcd_open(again, fd, O_CREAT);
	CHECK(b);
	CHECK_EQ(ibv_close_xrcd(b), 0);
	b = xrcd_open(again, fd, 0);
	CHECK(b);
	CHECK_NULL(xrcd_open(ctx, fd, O_CREAT | O_EXCL), EINVAL);
	CHECK_NULL(xrcd_open(ctx, 9999, O_CREAT), EBADF);
	CHECK_EQ(ibv_close_xrcd(a), 0);
	CHECK_EQ(ibv_close_xrcd(b), 0);
	CHECK_NULL(xrcd_open(ctx, fd, 0), EAGAIN);
	CHECK_EQ(ibv_close_device(again), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
	CHECK_EQ(remove(name), 0);
}

CASE(a_target_half_that_was_opened_outlives_its_maker, .needs = NEED(XRC))
{
	struct xrc x;

	xrc_make(&x);
	struct ibv_qp_open_attr a = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						  IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
				     .qp_num = x.recv->qp_num,
				     .xrcd = x.xrcd,
				     .qp_context = &x,
				     .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp *other = ibv_open_qp(x.p.end[1].ctx, &a);

	CHECK_MSG(other, "ibv_open_qp: %s", strerror(errno));
	CHECK_EQ(other->qp_num, x.recv->qp_num);
	CHECK(other->qp_context == &x);
	CHECK_EQ(ibv_destroy_qp(x.recv), 0);
	x.recv = NULL;
	CHECK_EQ(vs_state(other), IBV_QPS_RTS);
	xrc_post_recv(&x, 0, 10, 0, 100);
	xrc_post(&x, x.number[0], IBV_WR_SEND, 1, 0, 10);
	vs_expect(x.p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(x.cq[0], 10, IBV_WC_SUCCESS, NULL);
	uint32_t number = other->qp_num;

	CHECK_EQ(ibv_destroy_qp(other), 0);
	a.qp_num = number;
	CHECK_NULL(ibv_open_qp(x.p.end[1].ctx, &a), EINVAL);
	a.qp_num = x.p.end[1].qp->qp_num; /* not of this type */
	CHECK_NULL(ibv_open_qp(x.p.end[1].ctx, &a), EINVAL);
	xrc_free(&x);
}

CASE(what_an_extended_queue_needs_is_asked_for, .needs = NEED(XRC))
{
	struct vs_pair p;

	vs_make(&p, &vs_defaults);
	struct ibv_xrcd *xrcd = xrcd_open(p.end[1].ctx, -1, O_CREAT);
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 8, .max_sge = 2},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					 .srq_type = IBV_SRQT_XRC,
					 .pd = p.end[1].pd,
					 .xrcd = xrcd,
					 .cq = p.end[1].recv_cq};
	struct ibv_qp_init_attr_ex q = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = p.end[1].pd};

	CHECK(xrcd);
	CHECK_NULL(ibv_create_srq_ex(p.end[1].ctx, &a), EINVAL);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	CHECK_NULL(ibv_create_srq_ex(p.end[1].ctx, &a), EINVAL);
	CHECK_NULL(ibv_create_qp_ex(p.end[1].ctx, &q), EINVAL);
	q.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	CHECK_NULL(ibv_create_qp_ex(p.end[1].ctx, &q), EINVAL);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	vs_free(&p);
}
