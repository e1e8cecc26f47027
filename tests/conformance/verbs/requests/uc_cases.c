/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable connections: writes and sends without an acknowledge, and what becomes of errors at
 * either end. */
#include "tests/conformance/verbs/suite.h"

#define QUIET_NS (50 * VS_MS) /* long enough for anything that is under way */

static struct vs_options uc_options(void)
{
	struct vs_options o = vs_defaults;

	o.type = IBV_QPT_UC;
	o.access = IBV_ACCESS_REMOTE_WRITE;
	return o;
}

static void uc_pair(struct vs_pair *p)
{
	struct vs_options o = uc_options();

	vs_pair(p, &o);
}

CASE(write_moves_bytes_and_completes, .needs = NEED(UC))
{
	struct vs_pair p;
	struct ibv_wc wc;

	uc_pair(&p);
	vs_pattern(p.end[0].buffer, 300000, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 7, 0, 300000);
	vs_expect(p.end[0].send_cq, 7, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQ(wc.qp_num, p.end[0].qp->qp_num);
	/* the completion means that it left, not that it came: a later message with a receive
	 * does */
	vs_recv(&p, 1, 8, 400000, 8);
	vs_send(&p, 0, IBV_WR_SEND, 8, 400000, 8);
	vs_expect(p.end[1].recv_cq, 8, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 300000, 1);
	vs_free(&p);
}

CASE(send_with_imm_fills_a_receive, .needs = NEED(UC))
{
	struct vs_pair p;
	struct ibv_wc wc;

	uc_pair(&p);
	vs_recv(&p, 1, 1, 0, 5000);
	vs_pattern(p.end[0].buffer, 4000, 2);
	vs_send(&p, 0, IBV_WR_SEND_WITH_IMM, 2, 0, 4000);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, 4000);
	CHECK_EQ(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 2);
	vs_expect_pattern(p.end[1].buffer, 4000, 2);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(write_with_imm_takes_a_receive, .needs = NEED(UC))
{
	struct vs_pair p;
	struct ibv_wc wc;

	uc_pair(&p);
	vs_recv(&p, 1, 1, 0, 0);
	vs_pattern(p.end[0].buffer, 100000, 3);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 100000);
	vs_expect(p.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.byte_len, 100000);
	CHECK_EQ(be32toh(wc.imm_data), 2);
	vs_expect_pattern(p.end[1].buffer, 100000, 3);
	vs_free(&p);
}

CASE(no_access_flag_drops_the_write, .needs = NEED(UC))
{
	struct vs_pair p;
	struct vs_options o = uc_options();

	o.access = 0;
	vs_pair(&p, &o);
	vs_pattern(p.end[0].buffer, 100, 1);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	/* what comes after it is taken: nothing is wrong with either end */
	vs_recv(&p, 1, 2, 4096, 100);
	vs_send(&p, 0, IBV_WR_SEND, 2, 4096, 100);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 100, 0);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	CHECK_EQ(vs_state(p.end[1].qp), IBV_QPS_RTS);
	vs_free(&p);
}

CASE(wrong_rkey_drops_the_write, .needs = NEED(UC))
{
	struct vs_pair p;
	struct vs_wr w;

	uc_pair(&p);
	vs_fill(&w, &p, 0, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	w.wr.wr.rdma.rkey ^= 0x55;
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_recv(&p, 1, 2, 8192, 100);
	vs_send(&p, 0, IBV_WR_SEND, 2, 8192, 100);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_bytes(p.end[1].buffer, 5000, 0);
	vs_free(&p);
}

CASE(send_without_a_receive_is_lost, .needs = NEED(UC))
{
	struct vs_pair p;

	uc_pair(&p);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 3000);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_sleep_ns(QUIET_NS);
	vs_recv(&p, 1, 2, 0, 3000);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[1].recv_cq);
	vs_pattern(p.end[0].buffer, 3000, 9);
	vs_send(&p, 0, IBV_WR_SEND, 2, 0, 3000);
	vs_expect(p.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[1].buffer, 3000, 9);
	vs_free(&p);
}

static const enum ibv_wr_opcode answered[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
					      IBV_WR_ATOMIC_FETCH_AND_ADD};

/* Refused at the post, or, where the library does not look, by the HCA. */
CASE(reads_and_atomics_are_refused, .needs = NEED(UC), .count = 3)
{
	struct vs_pair p;
	struct vs_wr w;

	uc_pair(&p);
	vs_fill(&w, &p, 0, answered[vs_param], 1, 0, 8);
	int rc = vs_post(p.end[0].qp, &w.wr);

	CHECK_MSG(rc == 0 || rc == EINVAL || rc == EOPNOTSUPP, "ibv_post_send: %d", rc);
	if (!rc)
		vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_QP_OP_ERR, NULL);
	vs_free(&p);
}

CASE(failed_send_stops_the_send_queue_alone, .needs = NEED(UC))
{
	struct vs_pair p;
	struct vs_wr w;

	uc_pair(&p);
	vs_recv(&p, 0, 10, 4096, 1000);
	vs_fill(&w, &p, 0, IBV_WR_SEND, 1, 0, 1000);
	w.sge.lkey ^= 0x55;
	w.wr.send_flags = 0; /* errors always complete */
	CHECK_EQ(vs_post(p.end[0].qp, &w.wr), 0);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_PROT_ERR, NULL);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_SQE);
	/* what is posted now is flushed */
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 2, 0, 1000);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	/* it goes on receiving */
	vs_pattern(p.end[1].buffer + 4096, 1000, 5);
	vs_send(&p, 1, IBV_WR_SEND, 3, 4096, 1000);
	vs_expect(p.end[0].recv_cq, 10, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(p.end[0].buffer + 4096, 1000, 5);
	/* and sends again from RTS */
	vs_set_state(p.end[0].qp, IBV_QPS_RTS);
	vs_recv(&p, 1, 11, 0, 1000);
	vs_send(&p, 0, IBV_WR_SEND, 4, 0, 1000);
	vs_expect(p.end[1].recv_cq, 11, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 4, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(failed_send_flushes_what_is_behind_it, .needs = NEED(UC))
{
	struct vs_pair p;
	struct vs_wr w[4];

	uc_pair(&p);
	for (uint32_t i = 0; i < 4; i++) {
		vs_fill(&w[i], &p, 0, IBV_WR_RDMA_WRITE, i, 0, 1000);
		w[i].wr.next = i < 3 ? &w[i + 1].wr : NULL;
	}
	w[1].sge.lkey ^= 0x55;
	w[2].wr.send_flags = 0;
	CHECK_EQ(vs_post(p.end[0].qp, &w[0].wr), 0);
	vs_expect(p.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_LOC_PROT_ERR, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect(p.end[0].send_cq, 3, IBV_WC_WR_FLUSH_ERR, NULL);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_SQE);
	vs_free(&p);
}

CASE(bad_receive_buffer_is_an_error_of_the_receiver, .needs = NEED(UC))
{
	struct vs_pair p;

	uc_pair(&p);
	struct ibv_sge sge = {.addr = (uintptr_t)p.end[1].buffer,
			      .length = 1000,
			      .lkey = p.end[1].mr->lkey ^ 0x55};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(ibv_post_recv(p.end[1].qp, &wr, &bad), 0);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 1000);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_LOC_PROT_ERR, NULL);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	vs_free(&p);
}

CASE(receive_that_is_too_small_is_an_error_of_the_receiver, .needs = NEED(UC))
{
	struct vs_pair p;

	uc_pair(&p);
	vs_recv(&p, 1, 9, 0, 999);
	vs_send(&p, 0, IBV_WR_SEND, 1, 0, 1000);
	vs_expect(p.end[1].recv_cq, 9, IBV_WC_LOC_LEN_ERR, NULL);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}

CASE(peer_in_reset_costs_the_sender_nothing, .needs = NEED(UC))
{
	struct vs_pair p;

	uc_pair(&p);
	vs_set_state(p.end[1].qp, IBV_QPS_RESET);
	for (uint64_t i = 0; i < 50; i++) {
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 0, 1000);
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	CHECK_EQ(vs_state(p.end[0].qp), IBV_QPS_RTS);
	vs_expect_bytes(p.end[1].buffer, 1000, 0);
	vs_free(&p);
}

CASE(sqd_holds_new_requests_until_rts, .needs = NEED(UC) | NEED(SQD))
{
	struct vs_pair p;
	struct ibv_async_event event;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	uc_pair(&p);
	CHECK_EQ(ibv_modify_qp(p.end[0].qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	vs_expect_async(p.end[0].ctx, IBV_EVENT_SQ_DRAINED, &event);
	vs_send(&p, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_sleep_ns(QUIET_NS);
	vs_expect_none(p.end[0].send_cq);
	vs_set_state(p.end[0].qp, IBV_QPS_RTS);
	vs_expect(p.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_free(&p);
}
