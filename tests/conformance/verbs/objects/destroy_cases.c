/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking things away while they are in use. */
#include "tests/conformance/verbs/suite.h"

CASE(a_queue_pair_with_requests_outstanding)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.rnr_retry = 7;
	vs_pair(&p, &o);
	for (uint64_t i = 0; i < 8; i++) {
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 1000);
		vs_recv(&p, 0, i, 4096, 100);
	}
	CHECK_EQ(ibv_destroy_qp(p.end[0].qp), 0);
	p.end[0].qp = NULL;
	vs_sleep_ns(20 * VS_MS);
	vs_free(&p);
}

CASE(a_queue_pair_in_the_middle_of_a_long_message)
{
	struct vs_pair p;

	for (int side = 0; side < 2; side++) {
		vs_pair(&p, &vs_defaults);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 1 << 20);
		CHECK_EQ(ibv_destroy_qp(p.end[side].qp), 0);
		p.end[side].qp = NULL;
		vs_free(&p);
	}
}

/* Its completions are not those of the next queue pair. */
CASE(completions_of_a_queue_pair_that_is_gone)
{
	struct vs_pair p;
	struct ibv_wc wc;

	vs_pair(&p, &vs_defaults);
	uint32_t old = p.end[0].qp->qp_num;

	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 8);
	vs_sleep_ns(50 * VS_MS);
	for (int s = 0; s < 2; s++) {
		CHECK_EQ(ibv_destroy_qp(p.end[s].qp), 0);
		p.end[s].qp = vs_qp(&p, s);
	}
	for (int s = 0; s < 2; s++)
		vs_connect(&p, s, IBV_QPS_RTS);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 2, 0, 8);
	do {
		CHECK(vs_wait(p.end[0].send_cq, &wc, VS_LONG));
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id == 2 || wc.qp_num == old); /* an old one may still be there */
	} while (wc.wr_id != 2);
	CHECK_EQ(wc.qp_num, p.end[0].qp->qp_num);
	vs_free(&p);
}

CASE(a_region_under_a_request)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;
	struct vs_wr w;

	o.rnr_retry = 7;
	vs_pair(&p, &o);
	struct ibv_mr *mr = ibv_reg_mr(p.end[0].pd, p.end[0].buffer, 4096, 0);

	CHECK(mr);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 8); /* waits for a receive */
	w.sge.lkey = mr->lkey;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_set_state(p.end[0].qp, IBV_QPS_ERR);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0); /* complete: nothing holds it */
	vs_free(&p);
}

CASE(the_peers_region_goes_away)
{
	struct vs_pair p;
	struct vs_wr w;

	vs_pair(&p, &vs_defaults);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	uint32_t rkey = p.end[1].mr->rkey;
	struct ibv_mr gone = *p.end[1].mr;

	CHECK_EQ(ibv_dereg_mr(p.end[1].mr), 0);
	p.end[1].mr = &gone;
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 2, 0, 100);
	CHECK_EQ(w.wr.wr.rdma.rkey, rkey);
	vs_expect_failure(&p, &w, IBV_WC_REM_ACCESS_ERR);
	p.end[1].mr = NULL;
	vs_free(&p);
}

/* Any order that the rules of use allow. */
CASE(queue_pairs_first_then_anything)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (int s = 0; s < 2; s++) {
		struct vs_end *e = &p.end[s];

		CHECK_EQ(ibv_destroy_qp(e->qp), 0);
		CHECK_EQ(ibv_destroy_cq(e->send_cq), 0);
		CHECK_EQ(ibv_dereg_mr(e->mr), 0);
		CHECK_EQ(ibv_dealloc_pd(e->pd), 0);
		CHECK_EQ(ibv_destroy_cq(e->recv_cq), 0);
		CHECK_EQ(ibv_close_device(e->ctx), 0);
		vs_release(e->buffer);
	}
}

/* Everything made and unmade many times: nothing runs out. */
CASE(thirty_lives)
{
	struct vs_options o = vs_defaults;
	struct vs_pair p;

	o.buffer_bytes = 8192;
	for (int i = 0; i < 30; i++) {
		vs_pair(&p, &o);
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, (uint64_t)i, 0, 4096);
		vs_expect(p.end[0].send_cq, (uint64_t)i, IBV_WC_SUCCESS, NULL);
		vs_free(&p);
	}
}
