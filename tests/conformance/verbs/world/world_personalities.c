/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitions, and behaviour of the double's personalities that differs from the specification. */
#include "tests/conformance/verbs/harness/world.h"

/* ---- partitions ----------------------------------------------------------------------------- */

#define PKEYS "DOPPEL_HCA_PKEYS=0xffff,0x8001,0x0001,0x8002"

/* Connects the ends with P_Key entry `a` of end 0 and `b` of end 1, and expects a WRITE to arrive
 * or to be lost. */
static void expect_through(struct vs_pair *h, uint16_t a, uint16_t b, bool through)
{
	struct ibv_port_attr before, after;
	struct vs_wr w;

	CHECK_EQ(ibv_query_port(h->end[1].ctx, 1, &before), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = vs_attr(h, i);

		attr.pkey_index = i ? b : a;
		attr.timeout = 8;
		attr.retry_cnt = 1;
		vs_set_state(h->end[i].qp, IBV_QPS_RESET);
		vs_raise(h->end[i].qp, &attr, IBV_QPS_RTS);
	}
	vs_fill(&w, h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	CHECK_EQ(vs_post(h->end[0].qp, &w.wr), 0);
	vs_expect(h->end[0].send_cq, 1, through ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, NULL);
	CHECK_EQ(ibv_query_port(h->end[1].ctx, 1, &after), 0);
	CHECK_EQ(after.bad_pkey_cntr > before.bad_pkey_cntr, !through);
}

CASE(only_members_of_a_partition_hear_each_other, .engine = "sim", .world = VW_ENV(PKEYS))
{
	struct vs_pair h;
	__be16 key;

	vs_make(&h, &vw_defaults);
	CHECK_EQ(ibv_query_pkey(h.end[0].ctx, 1, 2, &key), 0);
	CHECK_EQ(be16toh(key), 0x0001);
	CHECK_EQ(ibv_get_pkey_index(h.end[0].ctx, 1, htobe16(0x8002)), 3);
	CHECK_EQ(ibv_get_pkey_index(h.end[0].ctx, 1, htobe16(0x8003)), -1);
	expect_through(&h, 0, 0, true);
	expect_through(&h, 1, 1, true);
	expect_through(&h, 1, 2, true); /* full and limited */
	expect_through(&h, 2, 1, true);
	expect_through(&h, 2, 2, false); /* two limited members */
	expect_through(&h, 1, 3, false); /* another partition */
	expect_through(&h, 0, 5, false); /* no key there */
	vs_free(&h);
}

/* ---- personalities -------------------------------------------------------------------------- */

/* mlx5: requests that are posted before RTS start in RTS. */
CASE(posts_before_rts_wait_on_mlx5, .engine = "sim", .world = VW_ENV("DOPPEL_HCA_PERSONALITY=mlx5"))
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	vs_send(&h, 0, IBV_WR_SEND, 1, 0, 100);
	vs_recv(&h, 1, 2, 0, 100);
	vs_expect_none(h.end[0].send_cq);
	vs_connect(&h, 0, IBV_QPS_RTR);
	vs_send(&h, 0, IBV_WR_SEND, 3, 0, 100);
	vs_recv(&h, 1, 4, 0, 100);
	vs_connect(&h, 1, IBV_QPS_RTS);
	os_sleep_ns(VS_SECOND / 100);
	vs_expect_none(h.end[0].send_cq);
	struct ibv_qp_attr a = vs_attr(&h, 0);

	a.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, VW_RTS_MASK), 0);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[1].recv_cq, 4, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

CASE(wrong_opcode_is_a_completion_on_mlx5, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=mlx5"))
{
	struct vs_pair h;

	struct vs_options o = vw_defaults;

	o.type = IBV_QPT_UC;
	vs_pair(&h, &o);
	vs_send(&h, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_LOC_QP_OP_ERR, NULL);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_SQE);
	vs_free(&h);
}

/* rxe: only RoCE v2, and messages of 8 MiB at most. */
CASE(rxe_has_its_own_limits, .engine = "sim", .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	struct ibv_device_attr d;
	struct ibv_port_attr port;
	struct ibv_gid_entry e;

	struct ibv_context *ctx = vs_open(0);

	CHECK_EQ(ibv_query_device(ctx, &d), 0);
	CHECK_EQ(ibv_query_port(ctx, 1, &port), 0);
	CHECK_EQ(d.max_sge, 32);
	CHECK_EQ(port.max_msg_sz, 8u << 20);
	CHECK_EQ(port.active_mtu, IBV_MTU_1024);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_EQ(ibv_query_gid_ex(ctx, 1, i, &e, 0), 0);
		CHECK_EQ(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	}
	CHECK_EQ(ibv_query_gid_ex(ctx, 1, 2, &e, 0), ENODATA);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

CASE(completions_survive_a_reset_on_rxe, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	os_sleep_ns(VS_SECOND / 100);
	vs_set_state(h.end[0].qp, IBV_QPS_RESET);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_none(h.end[0].send_cq);
	vs_free(&h);
}

/* The peer does not respond. A retry count of 6 ends; 7 retries without end. */
CASE(seven_retries_are_for_ever_on_rxe, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	struct vs_options o = vw_defaults;
	struct ibv_wc wc;
	struct vs_pair h;

	o.retry_count = 6;
	vs_pair(&h, &o);
	vs_set_state(h.end[1].qp, IBV_QPS_RESET);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR, NULL);
	vs_free(&h);
	o.retry_count = 7;
	vs_pair(&h, &o);
	vs_set_state(h.end[1].qp, IBV_QPS_RESET);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	CHECK(!vs_wait(h.end[0].send_cq, &wc, 10 * VS_SECOND));
	vs_free(&h);
}

/* rxe has no state SQE: a send that fails puts the whole queue pair into ERR. */
CASE(failed_sends_are_fatal_on_rxe, .engine = "sim", .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	struct vs_options o = vw_defaults;
	struct vs_wr w;
	struct vs_pair h;

	o.type = IBV_QPT_UC;
	o.access = IBV_ACCESS_REMOTE_WRITE;
	vs_pair(&h, &o);
	struct vs_end *e = &h.end[0];

	vs_fill(&w, &h, 0, IBV_WR_SEND, 1, 0, 64);
	w.sge.lkey ^= 0x55;
	vw_expect_failure(&h, &w, IBV_WC_LOC_QP_OP_ERR); /* the specification has LOC_PROT_ERR */
	vs_send(&h, 0, IBV_WR_SEND, 2, 0, 64);
	vs_expect(e->send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_recv(&h, 0, 3, 0, 64); /* too late to be flushed */
	os_sleep_ns(VS_SECOND / 100);
	vs_expect_none(e->recv_cq);
	vs_free(&h);
}

/* The result's key is wrong. rxe checks it after the peer has executed the atomic. */
CASE(an_atomic_whose_result_has_no_place_is_done_on_rxe, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=rxe"))
{
	struct vs_options o = vw_defaults;
	struct vs_wr w;
	struct vs_pair h;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	vs_pair(&h, &o);
	struct vs_end *b = &h.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr);
	memset(h.end[0].buffer, 7, 8);
	vs_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)b->buffer;
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	w.sge.lkey ^= 0x5a;
	vw_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(*(volatile uint64_t *)(void *)b->buffer, 1);
	CHECK_EQ(h.end[0].buffer[0], 7);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

/* Each element of the list is for one port. */
CASE(the_first_ports_differ, .engine = "sim", .world = VW_ENV("DOPPEL_HCA_PERSONALITY=mlx5-ib,rxe"))
{
	struct ibv_port_attr a, b;
	struct ibv_context *first = vs_open(0), *second = vs_open(1);

	CHECK_EQ(ibv_query_port(first, 1, &a), 0);
	CHECK_EQ(ibv_query_port(second, 1, &b), 0);
	CHECK_EQ(a.link_layer, IBV_LINK_LAYER_INFINIBAND);
	CHECK(a.lid != 0);
	CHECK_EQ(a.flags & IBV_QPF_GRH_REQUIRED, 0);
	CHECK_EQ(b.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(b.lid, 0);
	CHECK_EQ(ibv_close_device(first), 0);
	CHECK_EQ(ibv_close_device(second), 0);
}

/* InfiniBand: a LID is a complete address. */
CASE(a_lid_is_an_address_on_infiniband, .engine = "sim",
     .world = VW_ENV("DOPPEL_HCA_PERSONALITY=mlx5-ib"))
{
	struct ibv_port_attr port;
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = vs_attr(&h, i);

		CHECK_EQ(ibv_query_port(h.end[!i].ctx, 1, &port), 0);
		a.ah_attr = (struct ibv_ah_attr){.dlid = port.lid, .port_num = 1};
		vs_raise(h.end[i].qp, &a, IBV_QPS_RTS);
	}
	vs_pattern(h.end[0].buffer, 5000, 3);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(h.end[1].buffer, 5000, 3);
	vs_free(&h);
}
