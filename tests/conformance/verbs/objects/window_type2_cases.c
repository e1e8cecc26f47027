/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows of type 2: their keys, their queue pair, and invalidation. */
#include "tests/conformance/verbs/objects/window.h"

CASE(type_2_takes_the_key_that_it_is_given, .needs = NEED(MW2))
{
	struct window t;
	struct ibv_send_wr wr;

	window_make(&t, IBV_MW_TYPE_2);
	bind_fill(&t, &wr, 0, 64, READ_WRITE);
	wr.bind_mw.rkey = (t.mw->rkey & ~0xffu) | 0xa5;
	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	vs_expect(t.p.end[1].send_cq, 50, IBV_WC_SUCCESS, NULL);
	window_use(&t, IBV_WR_RDMA_WRITE, wr.bind_mw.rkey, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	window_use(&t, IBV_WR_RDMA_WRITE, wr.bind_mw.rkey ^ 1, window_at(&t, 0), 64,
		   IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(type_2_has_its_own_index, .needs = NEED(MW2))
{
	struct window t;
	struct ibv_send_wr wr;

	window_make(&t, IBV_MW_TYPE_2);
	bind_fill(&t, &wr, 0, 64, READ_WRITE);
	wr.bind_mw.rkey += 0x100;
	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	vs_expect(t.p.end[1].send_cq, 50, IBV_WC_MW_BIND_ERR, NULL);
	window_free(&t);
}

CASE(type_2_is_not_bound_twice, .needs = NEED(MW2))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_2);
	t.mw->rkey = window_bind(&t, 0, 64, READ_WRITE);
	window_bind_as(&t, 0, 64, READ_WRITE, IBV_WC_MW_BIND_ERR);
	window_free(&t);
}

CASE(type_2_is_not_bound_to_nothing, .needs = NEED(MW2))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_2);
	window_bind_as(&t, 0, 0, READ_WRITE, IBV_WC_MW_BIND_ERR);
	window_free(&t);
}

CASE(type_2_may_begin_at_0, .needs = NEED(MW2))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_2);
	uint32_t rkey = window_bind(&t, 4096, 1000, READ_WRITE | IBV_ACCESS_ZERO_BASED);

	vs_pattern(t.p.end[0].buffer, 100, 1);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, 900, 100, IBV_WC_SUCCESS);
	vs_expect_pattern(t.p.end[1].buffer + 4096 + 900, 100, 1);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, 901, 100, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(type_2_is_for_the_queue_pair_that_bound_it, .needs = NEED(MW2))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_2);
	struct ibv_qp *own = t.p.end[1].qp, *other = vs_qp(&t.p, 1);
	struct ibv_qp_attr a = vs_attr_to(&t.p, 1, t.p.end[0].qp->qp_num);

	vs_raise(other, &a, IBV_QPS_RTS);
	t.p.end[1].qp = other;
	uint32_t rkey = window_bind(&t, 0, 1000, READ_WRITE);

	t.p.end[1].qp = own;
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_destroy_qp(other), 0);
	CHECK_EQ(ibv_dereg_mr(t.mr), 0); /* the window went with the queue pair */
	t.mr = ibv_reg_mr(t.p.end[1].pd, t.p.end[1].buffer, 64, 0);
	window_free(&t);
}

CASE(a_local_invalidation_closes_a_window, .needs = NEED(MW2) | NEED(LOCAL_INV))
{
	struct window t;
	struct ibv_wc wc;

	window_make(&t, IBV_MW_TYPE_2);
	uint32_t rkey = window_bind(&t, 0, 1000, READ_WRITE);
	struct ibv_send_wr wr = {.wr_id = 51,
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey};

	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	vs_expect(t.p.end[1].send_cq, 51, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_LOCAL_INV);
	CHECK_EQ(ibv_dereg_mr(t.mr), 0);
	t.mr = ibv_reg_mr(t.p.end[1].pd, t.p.end[1].buffer, 4096,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(t.mr);
	t.mw->rkey = rkey;
	uint32_t again = window_bind(&t, 0, 64, READ_WRITE); /* it is free */

	window_use(&t, IBV_WR_RDMA_WRITE, again, window_at(&t, 0), 64, IBV_WC_SUCCESS);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

CASE(a_key_of_a_region_is_not_invalidated, .needs = NEED(LOCAL_INV))
{
	struct window t;

	window_make(&t, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 51,
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = t.mr->rkey};

	CHECK_EQ(vs_post(t.p.end[1].qp, &wr), 0);
	vs_expect(t.p.end[1].send_cq, 51, IBV_WC_MW_BIND_ERR, NULL);
	window_free(&t);
}

CASE(a_send_invalidates_at_the_other_end, .needs = NEED(MW2) | NEED(LOCAL_INV))
{
	struct window t;
	struct vs_wr w;
	struct ibv_wc wc;

	window_make(&t, IBV_MW_TYPE_2);
	uint32_t rkey = window_bind(&t, 0, 1000, READ_WRITE);

	vs_recv(&t.p, 1, 3, 8192, 5000);
	vs_pattern(t.p.end[0].buffer, 5000, 1);
	vs_fill(&w, &t.p, 0, IBV_WR_SEND_WITH_INV, 4, 0, 5000);
	w.wr.invalidate_rkey = rkey;
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[1].recv_cq, 3, IBV_WC_SUCCESS, &wc);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV);
	CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM));
	CHECK_EQ(wc.invalidated_rkey, rkey);
	vs_expect_pattern(t.p.end[1].buffer + 8192, 5000, 1);
	vs_expect(t.p.end[0].send_cq, 4, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	window_use(&t, IBV_WR_RDMA_WRITE, rkey, window_at(&t, 0), 64, IBV_WC_REM_ACCESS_ERR);
	window_free(&t);
}

/* No NAK: the sender's retries come to an end in ERR. */
CASE(a_send_that_invalidates_nothing_fails, .needs = NEED(MW2) | NEED(LOCAL_INV))
{
	struct window t;
	struct vs_wr w;
	struct ibv_wc wc;

	window_make(&t, IBV_MW_TYPE_2);
	vs_recv(&t.p, 1, 3, 8192, 100);
	vs_fill(&w, &t.p, 0, IBV_WR_SEND_WITH_INV, 4, 0, 64);
	w.wr.invalidate_rkey = t.mr->rkey;
	vs_expect_failure(&t.p, &w, IBV_WC_RETRY_EXC_ERR);
	CHECK(vs_wait(t.p.end[1].recv_cq, &wc, VS_LONG));
	CHECK(wc.wr_id == 3 && wc.status != IBV_WC_SUCCESS);
	CHECK_EQ(vs_state(t.p.end[1].qp), IBV_QPS_ERR);
	window_free(&t);
}

CASE(a_window_opens_for_unreliable_connections, .needs = NEED(UC) | NEED(MW2) | NEED(LOCAL_INV))
{
	struct vs_options o = vs_defaults;
	struct window t;
	struct vs_wr w;
	struct ibv_wc wc;

	o.type = IBV_QPT_UC;
	o.access = IBV_ACCESS_REMOTE_WRITE;
	vs_pair(&t.p, &o);
	t.mr = ibv_reg_mr(t.p.end[1].pd, t.p.end[1].buffer, 4096,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	t.mw = ibv_alloc_mw(t.p.end[1].pd, IBV_MW_TYPE_2);
	CHECK(t.mr && t.mw);
	uint32_t rkey = window_bind(&t, 0, 1000, IBV_ACCESS_REMOTE_WRITE);

	vs_recv(&t.p, 1, 3, 8192, 0);
	vs_pattern(t.p.end[0].buffer, 500, 1);
	vs_fill(&w, &t.p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 0, 500);
	w.wr.wr.rdma.rkey = rkey;
	w.wr.wr.rdma.remote_addr = window_at(&t, 0);
	CHECK_EQ(vs_post(t.p.end[0].qp, &w.wr), 0);
	vs_expect(t.p.end[1].recv_cq, 3, IBV_WC_SUCCESS, &wc);
	vs_expect_pattern(t.p.end[1].buffer, 500, 1);
	vs_expect(t.p.end[0].send_cq, 4, IBV_WC_SUCCESS, NULL);
	window_free(&t);
}
