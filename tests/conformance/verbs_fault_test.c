/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected faults: lost and late messages that the protocol repairs, and calls and completions that
 * fail by plan. */
#include "tests/conformance/verbs_harness.h"

#include "core/base/macros.h"

/* Everything together, both ways, twice over; the bytes must come out right. */
static void traffic(const struct vh_options *o)
{
	struct vh h;

	vh_pair(&h, o);
	for (uint32_t round = 0; round < 3; round++) {
		memset(h.end[1].buffer, 0, 600000);
		vh_pattern(h.end[0].buffer, 300000, round);
		vh_pattern(h.end[1].buffer + 700000, 250000, round + 10);
		vh_recv(&h, 1, 30, 0, 0);
		vh_recv(&h, 1, 31, 310000, 100000);
		vh_recv(&h, 0, 32, 0, 0);
		vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 300000);
		vh_send(&h, 0, IBV_WR_RDMA_READ, 2, 700000, 250000);
		vh_send(&h, 0, IBV_WR_SEND, 3, 0, 100000);
		vh_send(&h, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 600000, 1000);
		vh_send(&h, 0, IBV_WR_RDMA_READ, 5, 700000, 4);
		vh_expect(h.end[1].recv_cq, 30, IBV_WC_SUCCESS, NULL);
		vh_expect_pattern(h.end[1].buffer, 300000, round);
		vh_expect(h.end[1].recv_cq, 31, IBV_WC_SUCCESS, NULL);
		vh_expect_pattern(h.end[1].buffer + 310000, 100000, round);
		vh_expect(h.end[0].recv_cq, 32, IBV_WC_SUCCESS, NULL);
		for (uint64_t id = 1; id <= 5; id += id == 3 ? 2 : 1)
			vh_expect(h.end[0].send_cq, id, IBV_WC_SUCCESS, NULL);
		vh_expect_pattern(h.end[0].buffer + 700000, 250000, round + 10);
		vh_expect(h.end[1].send_cq, 4, IBV_WC_SUCCESS, NULL);
		vh_expect_none(h.end[1].recv_cq); /* nothing twice */
		vh_expect_none(h.end[0].send_cq);
	}
	ck_assert_uint_gt(sim_faults_fired(), 0);
	vh_free(&h);
}

static struct vh_options patient(void)
{
	struct vh_options o = vh_defaults;

	o.retry_count = 7;
	o.rnr_retry = 7;
	o.timeout = 8; /* 1 ms */
	return o;
}

VH_TEST_PLAN(one_message_in_eight_lost_is_repaired, "fabric.packet prob=1/8 drop\n")
{
	struct vh_options o = patient();

	traffic(&o);
}

VH_TEST_PLAN(one_message_in_eight_lost_is_repaired_with_one_read_at_a_time,
	     "fabric.packet prob=1/8 drop\n")
{
	struct vh_options o = patient();

	o.rd_atomic = o.dest_rd_atomic = 1;
	o.mtu = IBV_MTU_4096;
	traffic(&o);
}

/* Later than the acknowledge timeout: answered twice. */
VH_TEST_PLAN(late_messages_are_duplicates_and_harmless, "fabric.packet prob=1/10 delay by=3ms\n")
{
	struct vh_options o = patient();

	traffic(&o);
}

static void patient_traffic(void)
{
	struct vh_options o = patient();

	traffic(&o);
}

/* The n-th message lost, for every n: request, acknowledge, response, each in its turn. */
START_TEST(whichever_message_is_lost_the_bytes_arrive)
{
	char plan[64];

	snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", _i + 1);
	vh_run_once(SIM_ENGINE_SIM, 1, plan, 1, patient_traffic);
}
END_TEST

VH_TEST_PLAN(a_completion_that_fails_by_plan_ends_the_queue_pair,
	     "verbs.cqe nth=2 error status=REM_OP_ERR\n")
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 4; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
	vh_expect(h.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_REM_OP_ERR, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	vh_expect(h.end[0].send_cq, 3, IBV_WC_WR_FLUSH_ERR, NULL);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_ERR);
	vh_free(&h);
}

VH_TEST_PLAN(a_registration_that_fails_by_plan_leaves_nothing,
	     "verbs.reg_mr nth=3 fail errno=EFAULT\n")
{
	struct vh h;

	vh_make(&h, &vh_defaults); /* two registrations */
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 100, 0));
	ck_assert_int_eq(errno, EFAULT);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 100, 0);

	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

VH_TEST_PLAN(a_transition_that_times_out_by_plan_changes_nothing, "verbs.modify_qp nth=2 fail\n")
{
	struct vh h;

	vh_make(&h, &vh_defaults);
	struct ibv_qp_attr a = vh_attr_of(&h, 0);

	vh_connect(h.end[0].qp, &a, IBV_QPS_INIT);
	a.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, VH_RTR_MASK), ETIMEDOUT);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_INIT);
	ck_assert_int_eq(ibv_modify_qp(h.end[0].qp, &a, VH_RTR_MASK), 0);
	vh_free(&h);
}

/* ---- what the fabric does, and reliable connections repair
 * -------------------------------------- */

/* Two hosts' worth of wire between the two devices of one; ports 0 and 1 are the ends. */
static const char *const repaired[] = {
	"fabric.packet prob=1/6 corrupt\n",
	"fabric.packet prob=1/6 reorder by=20us\n",
	"fabric.packet prob=1/6 reorder by=3ms\n",
	"fabric.packet prob=1/4 duplicate\n",
	"fabric.packet prob=1/4 duplicate by=2ms\n",
	"fabric.packet prob=1/6 delay by=50us\n",
	"fabric.link port=0 nth=4 clog for=300us\n",
	"fabric.link port=1 nth=4 clog for=4ms\n",
	"fabric.path port=0 peer_port=1 nth=5 clog for=5ms\n",
	"fabric.path port=0 peer_port=1 nth=3 partition for=3ms\n",
	"fabric.path port=1 peer_port=0 nth=3 partition for=3ms\n",
	"fabric.path port=0 nth=3 partition\nheal after=3ms\n",
	"fabric.link port=0 nth=3 clog\nheal after=3ms\n",
	"fabric.link port=0 nth=2 flap times=3 each=300us\n",
	"fabric.link nth=3 down\nheal after=3ms\n",
	"fabric.link port=0 slow factor=50\n",
	"fabric.link port=0 nth=2 mtu bytes=512 for=2ms\n",
	"verbs.request nth=4 not_ready for=300us\n",
	"verbs.cqe prob=1/3 late by=30us\n",
	"verbs.recv_cqe prob=1/2 late by=30us\n",
	"verbs.poll_cq prob=1/3 short n=1 by=5us\n",
	"verbs.poll_cq prob=1/3 empty by=5us\n",
};

START_TEST(what_the_wire_does_is_repaired)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		vh_run_once(SIM_ENGINE_SIM, seed, repaired[_i], 1, patient_traffic);
}
END_TEST

START_TEST(what_the_wire_does_is_repaired_with_threads)
{
	if (!strstr(repaired[_i], "heal")) /* by real time: perhaps before anything was sent */
		vh_run_once(SIM_ENGINE_THREADS, 1, repaired[_i], 1, patient_traffic);
}
END_TEST

/* ---- what ends a queue pair
 * ------------------------------------------------------------------- */

struct ending {
	const char *plan;
	enum ibv_wc_status first; /* of the send that fails, the second of four */
	int event;                /* async event at end 0; -1: none */
	int peer_event;
};

static const struct ending endings[] = {
	{"verbs.start nth=2 error\n", IBV_WC_LOC_PROT_ERR, -1, -1},
	{"verbs.start nth=2 error status=LOC_LEN_ERR\n", IBV_WC_LOC_LEN_ERR, -1, -1},
	{"verbs.cqe nth=2 error status=LOC_QP_OP_ERR\n", IBV_WC_LOC_QP_OP_ERR, -1, -1},
	{"verbs.cqe nth=2 error status=WR_FLUSH_ERR\n", IBV_WC_WR_FLUSH_ERR, -1, -1},
	{"verbs.cqe nth=2 error status=FATAL_ERR\n", IBV_WC_FATAL_ERR, -1, -1},
	{"verbs.request nth=2 refuse why=ACCESS\n", IBV_WC_REM_ACCESS_ERR, -1,
	 IBV_EVENT_QP_ACCESS_ERR},
	{"verbs.request nth=2 refuse why=INVALID\n", IBV_WC_REM_INV_REQ_ERR, -1,
	 IBV_EVENT_QP_REQ_ERR},
	{"verbs.request nth=2 refuse why=OPERATION\n", IBV_WC_REM_OP_ERR, -1, IBV_EVENT_QP_REQ_ERR},
	{"verbs.request nth=2 not_ready\n", IBV_WC_RNR_RETRY_EXC_ERR, -1, -1},
	{"fabric.path port=0 peer_port=1 nth=2 partition\n", IBV_WC_RETRY_EXC_ERR, -1, -1},
	{"fabric.link port=0 nth=2 mtu bytes=64\n", IBV_WC_RETRY_EXC_ERR, -1, -1},
	{"verbs.qp nth=2 flush\n", IBV_WC_WR_FLUSH_ERR, -1, -1},
	{"verbs.qp nth=2 fatal\n", IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_FATAL, -1},
	{"verbs.device port=0 nth=11 fatal\n", IBV_WC_WR_FLUSH_ERR, IBV_EVENT_DEVICE_FATAL, -1},
};

static const struct ending *ending;

static void ending_event(struct vh *h, int side, int type)
{
	struct ibv_async_event e;

	if (type < 0)
		return;
	do { /* COMM_EST and the port's may come before */
		ck_assert_int_eq(ibv_get_async_event(h->end[side].ctx, &e), 0);
		ibv_ack_async_event(&e);
	} while ((int)e.event_type != type);
}

/* One send at a time, so that the fault is the second one's. */
static void ending_body(void)
{
	struct ibv_wc wc;
	struct vh h;
	int failed = 0;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 4; i++) {
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
		ck_assert(vh_wait(h.end[0].send_cq, &wc, 60 * VH_SECOND_NS));
		ck_assert_uint_eq(wc.wr_id, i);
		if (wc.status == IBV_WC_SUCCESS) {
			ck_assert_int_eq(failed, 0);
			continue;
		}
		if (!failed++)
			ck_assert_msg(wc.status == ending->first, "%s: got %s, expected %s",
				      ending->plan, ibv_wc_status_str(wc.status),
				      ibv_wc_status_str(ending->first));
		else
			ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	ck_assert_int_ge(failed, 2);
	ending_event(&h, 0, ending->event);
	ending_event(&h, 1, ending->peer_event);
	ck_assert_uint_gt(sim_faults_fired(), 0);
	sim_faults_heal();
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_ERR);
	vh_again(&h);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 9, 0, 100); /* healed: it works again */
	vh_expect(h.end[0].send_cq, 9, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

START_TEST(a_fault_ends_the_queue_pair_as_hardware_would)
{
	ending = &endings[_i];
	for (uint64_t seed = 1; seed <= 3; seed++)
		vh_run_once(SIM_ENGINE_SIM, seed, ending->plan, 1, ending_body);
	vh_run_once(SIM_ENGINE_THREADS, 1, ending->plan, 1, ending_body);
}
END_TEST

VH_TEST_PLAN(a_receive_that_fails_by_plan_tells_the_sender,
	     "verbs.recv_cqe nth=2 error status=LOC_PROT_ERR\n")
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 3; i++)
		vh_recv(&h, 1, 20 + i, 0, 0);
	for (uint32_t i = 0; i < 2; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, i, 0, 100);
	vh_expect(h.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_REM_OP_ERR, NULL);
	vh_expect(h.end[1].recv_cq, 20, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 21, IBV_WC_LOC_PROT_ERR, NULL);
	vh_expect(h.end[1].recv_cq, 22, IBV_WC_WR_FLUSH_ERR, NULL);
	vh_free(&h);
}

VH_TEST_PLAN(an_overrun_by_plan_kills_the_queue_pairs, "verbs.cq nth=2 overrun\n")
{
	struct vh h;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 3; i++)
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
	ending_event(&h, 0, IBV_EVENT_CQ_ERR);
	ending_event(&h, 0, IBV_EVENT_QP_FATAL);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_ERR);
	vh_free(&h);
}

VH_TEST_PLAN(a_corruption_that_nothing_detects_arrives,
	     "fabric.packet port=0 corrupt undetected=1\n")
{
	struct vh h;
	uint32_t differ = 0;

	vh_pair(&h, &vh_defaults);
	vh_pattern(h.end[0].buffer, 1000, 1);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	for (int i = 0; i < 1000; i++)
		differ += h.end[0].buffer[i] != h.end[1].buffer[i];
	ck_assert_uint_eq(differ, 1);
	vh_free(&h);
}

VH_TEST_PLAN(inline_data_may_be_limited, "verbs.inline limit bytes=32\n")
{
	struct vh h;

	struct vh_options o = vh_defaults;

	o.inline_bytes = 32;
	vh_make(&h, &o);
	struct ibv_qp_init_attr init =
		vh_init_attr(&vh_defaults, h.end[0].send_cq, h.end[0].recv_cq);

	errno = 0;
	ck_assert_ptr_null(ibv_create_qp(h.end[0].pd, &init));
	ck_assert_int_eq(errno, EINVAL);
	vh_free(&h);
}

/* ---- every call fails, and nothing is left
 * ---------------------------------------------------- */

/* As much as can be made, taken down again. True: no call failed. */
static bool calls_pass(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	struct ibv_qp_attr attr;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad = NULL;
	union ibv_gid gid;
	static uint64_t word;
	__be16 pkey;
	bool ok = ctx && !ibv_query_device(ctx, &device) && !ibv_query_port(ctx, 1, &port) &&
		  !ibv_query_gid(ctx, 1, 3, &gid) && !ibv_query_gid_ex(ctx, 1, 3, &entry, 0) &&
		  !ibv_query_pkey(ctx, 1, 0, &pkey);
	struct ibv_pd *pd = ok ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, &word, 8, 0) : NULL;
	struct ibv_comp_channel *ch = mr ? ibv_create_comp_channel(ctx) : NULL;
	struct ibv_cq *cq = ch ? ibv_create_cq(ctx, 8, NULL, ch, 0) : NULL;
	struct ibv_qp_init_attr init = vh_init_attr(&vh_defaults, cq, cq);
	struct ibv_qp *qp = cq && !ibv_req_notify_cq(cq, 0) ? ibv_create_qp(pd, &init) : NULL;

	ok = qp != NULL;
	if (ok) {
		attr = vh_attr(&vh_defaults, &gid, qp->qp_num, 0, 0);
		attr.qp_state = IBV_QPS_INIT;
		ok = !ibv_modify_qp(qp, &attr, VH_INIT_MASK) && !ibv_post_recv(qp, &recv, &bad) &&
		     !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
	}
	ok &= !qp || !ibv_destroy_qp(qp);
	ok &= !cq || !ibv_destroy_cq(cq);
	ok &= !ch || !ibv_destroy_comp_channel(ch);
	ok &= !mr || !ibv_dereg_mr(mr);
	ok &= !pd || !ibv_dealloc_pd(pd);
	ok &= !ctx || !ibv_close_device(ctx);
	if (list)
		ibv_free_device_list(list);
	return ok;
}

static uint32_t calls_bad;

static void calls_body(void)
{
	bool ok = calls_pass();

	ck_assert_int_eq(ok, sim_faults_fired() == 0);
	calls_bad += !ok;
}

/* A clean pass means that the last of them was reached. */
START_TEST(whichever_call_fails_nothing_is_left)
{
	char plan[64];
	uint32_t before = UINT32_MAX;

	calls_bad = 0;
	for (int k = 1; before != calls_bad; k++) {
		before = calls_bad;
		snprintf(plan, sizeof plan, "verbs.any nth=%d fail\n", k);
		vh_run_once(SIM_ENGINE_SIM, 1, plan, 1, calls_body);
	}
	ck_assert_uint_eq(calls_bad, 22);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("faults");

	VH_ADD(t, one_message_in_eight_lost_is_repaired);
	VH_ADD(t, one_message_in_eight_lost_is_repaired_with_one_read_at_a_time);
	VH_ADD(t, late_messages_are_duplicates_and_harmless);
	tcase_add_loop_test(t, whichever_message_is_lost_the_bytes_arrive, 0, 70);
	VH_ADD(t, a_completion_that_fails_by_plan_ends_the_queue_pair);
	VH_ADD(t, a_registration_that_fails_by_plan_leaves_nothing);
	VH_ADD(t, a_transition_that_times_out_by_plan_changes_nothing);
	tcase_add_loop_test(t, what_the_wire_does_is_repaired, 0, ARRAY_LEN(repaired));
	tcase_add_loop_test(t, what_the_wire_does_is_repaired_with_threads, 0, ARRAY_LEN(repaired));
	tcase_add_loop_test(t, a_fault_ends_the_queue_pair_as_hardware_would, 0,
			    ARRAY_LEN(endings));
	VH_ADD(t, a_receive_that_fails_by_plan_tells_the_sender);
	VH_ADD(t, an_overrun_by_plan_kills_the_queue_pairs);
	VH_ADD(t, a_corruption_that_nothing_detects_arrives);
	VH_ADD(t, inline_data_may_be_limited);
	tcase_add_test(t, whichever_call_fails_nothing_is_left);
	return vh_suite_run("verbs faults", t);
}
