/* SPDX-License-Identifier: BSD-3-Clause */
/* What needs faults, or a world of its own, to be seen: loss under unreliable transports,
 * partitions, personalities, and statuses that only a plan brings about. The rest is in the suite
 * (verbs/). */
#include "tests/conformance/verbs_env.h"

/* ---- loss ----------------------------------------------------------------------------------- */

/* Replaces the ends' queue pairs by ones of this type, in RTS. */
static void retype(struct vh *h, enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++) {
		struct vh_end *e = &h->end[i];
		struct ibv_qp_init_attr init = vh_init_attr(&h->options, e->send_cq, e->recv_cq);

		ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
		init.qp_type = type;
		e->qp = ibv_create_qp(e->pd, &init);
		ck_assert_ptr_nonnull(e->qp);
	}
	bool uc = type == IBV_QPT_UC;
	int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(uc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
	int rtr_mask = IBV_QP_STATE |
		       (uc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN : 0);

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = vh_attr_of(h, i);

		a.qkey = 0x11;
		a.qp_state = IBV_QPS_INIT;
		ck_assert_int_eq(ibv_modify_qp(h->end[i].qp, &a, init_mask), 0);
		a.qp_state = IBV_QPS_RTR;
		ck_assert_int_eq(ibv_modify_qp(h->end[i].qp, &a, rtr_mask), 0);
		a.qp_state = IBV_QPS_RTS;
		ck_assert_int_eq(ibv_modify_qp(h->end[i].qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	}
}

static void uc_pair(struct vh *h)
{
	struct vh_options o = vh_defaults;

	o.access = IBV_ACCESS_REMOTE_WRITE;
	vh_make(h, &o);
	retype(h, IBV_QPT_UC);
}

#define MESSAGE_BYTES 300000u /* five messages of the fabric */

/* Whichever part of a message is lost: it is not received, into nothing; the next one is whole. */
static void uc_one_part_lost(void)
{
	struct vh h;
	struct ibv_wc wc;

	uc_pair(&h);
	vh_recv(&h, 1, 1, 0, MESSAGE_BYTES);
	for (uint32_t i = 0; i < 2; i++) {
		vh_pattern(h.end[0].buffer, MESSAGE_BYTES, i);
		vh_send(&h, 0, IBV_WR_SEND, i, 0, MESSAGE_BYTES);
		vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vh_expect(h.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	ck_assert_uint_eq(wc.byte_len, MESSAGE_BYTES);
	vh_expect_pattern(h.end[1].buffer, MESSAGE_BYTES, 1);
	vh_expect_none(h.end[1].recv_cq);
	vh_free(&h);
}

START_TEST(a_message_with_a_gap_is_dropped_and_the_next_is_whole)
{
	char plan[64];

	snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", _i + 1);
	vh_run_plan(0, plan, uc_one_part_lost);
}
END_TEST

/* Of many small messages some are lost, none comes twice or torn, and no task waits for them. */
VH_TEST_PLAN(small_messages_come_once_or_not_at_all, "fabric.packet prob=1/4 drop\n")
{
	struct vh h;
	struct ibv_wc wc;
	uint32_t came = 0, next = 0;

	uc_pair(&h);
	for (uint32_t round = 0; round < 10; round++) {
		for (uint32_t i = 0; i < 8; i++)
			vh_recv(&h, 1, i, 0, 64);
		for (uint32_t i = 0; i < 8; i++) {
			vh_send(&h, 0, IBV_WR_SEND_WITH_IMM, round * 8 + i, 0, 64);
			vh_expect(h.end[0].send_cq, round * 8 + i, IBV_WC_SUCCESS, NULL);
		}
		while (vh_wait(h.end[1].recv_cq, &wc, VH_SECOND_NS / 100)) {
			ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
			ck_assert_uint_ge(be32toh(wc.imm_data), next);
			next = be32toh(wc.imm_data) + 1;
			came++;
		}
		vh_to_state(h.end[1].qp, IBV_QPS_RESET); /* takes the receives that are left */
		vh_to_state(h.end[0].qp, IBV_QPS_RESET);
		retype(&h, IBV_QPT_UC);
	}
	ck_assert_uint_gt(came, 20);
	ck_assert_uint_lt(came, 80);
	vh_free(&h);
}

/* ---- partitions ----------------------------------------------------------------------------- */

#define PKEYS "DOPPEL_HCA_PKEYS=0xffff,0x8001,0x0001,0x8002"

/* From entry `a` of one end to entry `b` of the other: does a WRITE get through? */
static void expect_through(struct vh *h, uint16_t a, uint16_t b, bool through)
{
	struct ibv_port_attr before, after;
	struct vh_wr w;

	ck_assert_int_eq(ibv_query_port(h->end[1].ctx, 1, &before), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = vh_attr_of(h, i);

		attr.pkey_index = i ? b : a;
		attr.timeout = 8;
		attr.retry_cnt = 1;
		vh_to_state(h->end[i].qp, IBV_QPS_RESET);
		vh_connect(h->end[i].qp, &attr, IBV_QPS_RTS);
	}
	vh_wr_fill(&w, h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	ck_assert_int_eq(vh_post(h->end[0].qp, &w.wr), 0);
	vh_expect(h->end[0].send_cq, 1, through ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, NULL);
	ck_assert_int_eq(ibv_query_port(h->end[1].ctx, 1, &after), 0);
	ck_assert_int_eq(after.bad_pkey_cntr > before.bad_pkey_cntr, !through);
}

ENV_TEST(only_members_of_a_partition_hear_each_other, PKEYS)
{
	struct vh h;
	__be16 key;

	vh_make(&h, &vh_defaults);
	ck_assert_int_eq(ibv_query_pkey(h.end[0].ctx, 1, 2, &key), 0);
	ck_assert_uint_eq(be16toh(key), 0x0001);
	ck_assert_int_eq(ibv_get_pkey_index(h.end[0].ctx, 1, htobe16(0x8002)), 3);
	ck_assert_int_eq(ibv_get_pkey_index(h.end[0].ctx, 1, htobe16(0x8003)), -1);
	expect_through(&h, 0, 0, true);
	expect_through(&h, 1, 1, true);
	expect_through(&h, 1, 2, true); /* full and limited */
	expect_through(&h, 2, 1, true);
	expect_through(&h, 2, 2, false); /* two limited members */
	expect_through(&h, 1, 3, false); /* another partition */
	expect_through(&h, 0, 5, false); /* no key there */
	vh_free(&h);
}

/* ---- personalities -------------------------------------------------------------------------- */

/* mlx5: what is posted before RTS waits for it. */
ENV_TEST(posts_before_rts_wait_on_mlx5, "DOPPEL_HCA_PERSONALITY=mlx5")
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	vh_send(&h, 0, IBV_WR_SEND, 1, 0, 100);
	vh_recv(&h, 1, 2, 0, 100);
	vh_expect_none(h.end[0].send_cq);
	vh_connect_end(&h, 0, IBV_QPS_RTR);
	vh_send(&h, 0, IBV_WR_SEND, 3, 0, 100);
	vh_recv(&h, 1, 4, 0, 100);
	vh_connect_end(&h, 1, IBV_QPS_RTS);
	os_sleep_ns(VH_SECOND_NS / 100);
	vh_expect_none(h.end[0].send_cq);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	a.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, VH_RTS_MASK), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 3, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 4, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

ENV_TEST(wrong_opcode_is_a_completion_on_mlx5, "DOPPEL_HCA_PERSONALITY=mlx5")
{
	struct vh h;

	uc_pair(&h);
	vh_send(&h, 0, IBV_WR_RDMA_READ, 1, 0, 100);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_LOC_QP_OP_ERR, NULL);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_SQE);
	vh_free(&h);
}

/* rxe: v2 alone, small messages, completions survive a reset, and 7 retries are no number. */
ENV_TEST(rxe_has_its_own_limits, "DOPPEL_HCA_PERSONALITY=rxe")
{
	struct ibv_device_attr d;
	struct ibv_port_attr port;
	struct ibv_gid_entry e;

	struct ibv_context *ctx = vh_open(0);

	ck_assert_int_eq(ibv_query_device(ctx, &d), 0);
	ck_assert_int_eq(ibv_query_port(ctx, 1, &port), 0);
	ck_assert_int_eq(d.max_sge, 32);
	ck_assert_uint_eq(port.max_msg_sz, 8u << 20);
	ck_assert_int_eq(port.active_mtu, IBV_MTU_1024);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, i, &e, 0), 0);
		ck_assert_uint_eq(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	}
	ck_assert_int_eq(ibv_query_gid_ex(ctx, 1, 2, &e, 0), ENODATA);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
}

/* As vh_pair, where the IPv4 address is the second GID. */
static void rxe_pair(struct vh *h, const struct vh_options *o)
{
	vh_make(h, o);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_query_gid(h->end[i].ctx, 1, 1, &h->end[i].gid), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = vh_attr_of(h, i);

		a.ah_attr.grh.sgid_index = 1;
		vh_connect(h->end[i].qp, &a, IBV_QPS_RTS);
	}
}

ENV_TEST(completions_survive_a_reset_on_rxe, "DOPPEL_HCA_PERSONALITY=rxe")
{
	struct vh h;

	rxe_pair(&h, &vh_defaults);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	os_sleep_ns(VH_SECOND_NS / 100);
	vh_to_state(h.end[0].qp, IBV_QPS_RESET);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect_none(h.end[0].send_cq);
	vh_free(&h);
}

/* The peer is gone. Six retries end; seven do not. */
ENV_TEST(seven_retries_are_for_ever_on_rxe, "DOPPEL_HCA_PERSONALITY=rxe")
{
	struct vh_options o = vh_defaults;
	struct ibv_wc wc;
	struct vh h;

	o.retry_count = 6;
	rxe_pair(&h, &o);
	vh_to_state(h.end[1].qp, IBV_QPS_RESET);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR, NULL);
	vh_free(&h);
	o.retry_count = 7;
	rxe_pair(&h, &o);
	vh_to_state(h.end[1].qp, IBV_QPS_RESET);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	ck_assert(!vh_wait(h.end[0].send_cq, &wc, 10 * VH_SECOND_NS));
	vh_free(&h);
}

/* No SQE there: a datagram that fails takes the whole queue pair. */
ENV_TEST(failed_sends_are_fatal_on_rxe, "DOPPEL_HCA_PERSONALITY=rxe")
{
	struct vh_options o = vh_defaults;
	struct vh_wr w;
	struct vh h;

	o.access = IBV_ACCESS_REMOTE_WRITE;
	rxe_pair(&h, &o);
	struct vh_end *e = &h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&h.options, e->send_cq, e->recv_cq);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	ck_assert_int_eq(ibv_destroy_qp(e->qp), 0);
	init.qp_type = IBV_QPT_UC;
	e->qp = ibv_create_qp(e->pd, &init);
	ck_assert_ptr_nonnull(e->qp);
	a.ah_attr.grh.sgid_index = 1;
	a.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(e->qp, &a, VH_INIT_MASK), 0);
	a.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(e->qp, &a,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
			 0);
	a.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	vh_wr_fill(&w, &h, 0, IBV_WR_SEND, 1, 0, 64);
	w.sge.lkey ^= 0x55;
	vh_expect_failure(&h, &w, IBV_WC_LOC_QP_OP_ERR); /* and no LOC_PROT_ERR */
	vh_send(&h, 0, IBV_WR_SEND, 2, 0, 64);
	vh_expect(e->send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	vh_recv(&h, 0, 3, 0, 64); /* too late to be flushed */
	os_sleep_ns(VH_SECOND_NS / 100);
	vh_expect_none(e->recv_cq);
	vh_free(&h);
}

/* The result's key is wrong: rxe finds out when the peer has done the atomic. */
ENV_TEST(an_atomic_whose_result_has_no_place_is_done_on_rxe, "DOPPEL_HCA_PERSONALITY=rxe")
{
	struct vh_options o = vh_defaults;
	struct vh_wr w;
	struct vh h;

	o.access |= IBV_ACCESS_REMOTE_ATOMIC;
	rxe_pair(&h, &o);
	struct vh_end *b = &h.end[1];
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->buffer, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	ck_assert_ptr_nonnull(mr);
	memset(h.end[0].buffer, 7, 8);
	vh_wr_fill(&w, &h, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 8);
	w.wr.wr.atomic.remote_addr = (uintptr_t)b->buffer;
	w.wr.wr.atomic.rkey = mr->rkey;
	w.wr.wr.atomic.compare_add = 1;
	w.sge.lkey ^= 0x5a;
	vh_expect_failure(&h, &w, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_eq(*(volatile uint64_t *)(void *)b->buffer, 1);
	ck_assert_uint_eq(h.end[0].buffer[0], 7);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

/* A list is for the ports in turn. */
ENV_TEST(the_first_ports_differ, "DOPPEL_HCA_PERSONALITY=mlx5-ib,rxe")
{
	struct ibv_port_attr a, b;
	struct ibv_context *first = vh_open(0), *second = vh_open(1);

	ck_assert_int_eq(ibv_query_port(first, 1, &a), 0);
	ck_assert_int_eq(ibv_query_port(second, 1, &b), 0);
	ck_assert_int_eq(a.link_layer, IBV_LINK_LAYER_INFINIBAND);
	ck_assert_uint_ne(a.lid, 0);
	ck_assert_int_eq(a.flags & IBV_QPF_GRH_REQUIRED, 0);
	ck_assert_int_eq(b.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_uint_eq(b.lid, 0);
	ck_assert_int_eq(ibv_close_device(first), 0);
	ck_assert_int_eq(ibv_close_device(second), 0);
}

/* InfiniBand: a LID will do for an address. */
ENV_TEST(a_lid_is_an_address_on_infiniband, "DOPPEL_HCA_PERSONALITY=mlx5-ib")
{
	struct ibv_port_attr port;
	struct vh h;

	vh_make(&h, &vh_defaults);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = vh_attr_of(&h, i);

		ck_assert_int_eq(ibv_query_port(h.end[!i].ctx, 1, &port), 0);
		a.ah_attr = (struct ibv_ah_attr){.dlid = port.lid, .port_num = 1};
		vh_connect(h.end[i].qp, &a, IBV_QPS_RTS);
	}
	vh_pattern(h.end[0].buffer, 5000, 3);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 5000);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 5000, 3);
	vh_free(&h);
}

/* ---- statuses ------------------------------------------------------------------------------- */

/* More READs at a time than the responder has resources for. */
VH_TEST(more_reads_than_the_peer_takes_are_an_invalid_request)
{
	struct vh_options o = vh_defaults;
	struct ibv_wc wc;
	struct vh h;

	if (sim_engine_kind() != SIM_ENGINE_SIM)
		return; /* there is no time on the wire */
	o.rd_atomic = 8;
	o.dest_rd_atomic = 2;
	vh_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_READ, i, 0, 60000);
	enum ibv_wc_status first = IBV_WC_SUCCESS;

	for (uint32_t i = 0; i < 8; i++) {
		ck_assert(vh_wait(h.end[0].send_cq, &wc, 60 * VH_SECOND_NS));
		ck_assert_uint_eq(wc.wr_id, i);
		if (first == IBV_WC_SUCCESS)
			first = wc.status;
	}
	ck_assert_int_eq(first, IBV_WC_REM_INV_REQ_ERR);
	ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_ERR);
	vh_free(&h);
}

static const struct {
	const char *name;
	enum ibv_wc_status status;
} statuses[] = {
	{"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
	{"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
	{"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
	{"MW_BIND_ERR", IBV_WC_MW_BIND_ERR},
	{"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
	{"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
	{"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
	{"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
	{"REM_OP_ERR", IBV_WC_REM_OP_ERR},
	{"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
	{"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
	{"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
	{"FATAL_ERR", IBV_WC_FATAL_ERR},
	{"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
	{"GENERAL_ERR", IBV_WC_GENERAL_ERR},
};
#define STATUSES (int)(sizeof statuses / sizeof statuses[0])

static int status_now;

static void a_read_with_a_bad_answer(void)
{
	struct vh_wr w;
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, 5, 0, 1000);
	vh_expect_failure(&h, &w, statuses[status_now].status);
	vh_free(&h);
}

static void a_receive_that_fails(void)
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_recv(&h, 1, 1, 0, 1000);
	vh_send(&h, 0, IBV_WR_SEND, 2, 0, 1000);
	vh_expect(h.end[1].recv_cq, 1, statuses[status_now].status, NULL);
	ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_ERR);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_REM_OP_ERR, NULL);
	vh_free(&h);
}

START_TEST(every_status_comes_by_plan)
{
	char plan[96];

	status_now = _i;
	snprintf(plan, sizeof plan, "verbs.response nth=1 error status=%s\n", statuses[_i].name);
	vh_run_plan(0, plan, a_read_with_a_bad_answer);
	snprintf(plan, sizeof plan, "verbs.recv_cqe nth=1 error status=%s\n", statuses[_i].name);
	vh_run_plan(0, plan, a_receive_that_fails);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("unacknowledged");

	tcase_add_loop_test(t, a_message_with_a_gap_is_dropped_and_the_next_is_whole, 0, 5);
	VH_ADD(t, small_messages_come_once_or_not_at_all);
	tcase_add_test(t, only_members_of_a_partition_hear_each_other);
	tcase_add_test(t, posts_before_rts_wait_on_mlx5);
	tcase_add_test(t, wrong_opcode_is_a_completion_on_mlx5);
	tcase_add_test(t, rxe_has_its_own_limits);
	tcase_add_test(t, completions_survive_a_reset_on_rxe);
	tcase_add_test(t, seven_retries_are_for_ever_on_rxe);
	tcase_add_test(t, failed_sends_are_fatal_on_rxe);
	tcase_add_test(t, an_atomic_whose_result_has_no_place_is_done_on_rxe);
	tcase_add_test(t, the_first_ports_differ);
	tcase_add_test(t, a_lid_is_an_address_on_infiniband);
	VH_ADD(t, more_reads_than_the_peer_takes_are_an_invalid_request);
	tcase_add_loop_test(t, every_status_comes_by_plan, 0, STATUSES);
	return vh_suite_run("verbs without acknowledgement, and personalities", t);
}
