/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected faults: lost and late messages, which the protocol repairs, and calls and completions
 * that fail. */

#include "core/base/macros.h"
#include "tests/conformance/verbs/harness/world.h"

/* WRITE, READ and SEND in both directions, three times. All bytes must be correct. */
static void traffic(const struct vs_options *o)
{
	struct vs_pair h;

	vs_pair(&h, o);
	for (uint32_t round = 0; round < 3; round++) {
		memset(h.end[1].buffer, 0, 600000);
		vs_pattern(h.end[0].buffer, 300000, round);
		vs_pattern(h.end[1].buffer + 700000, 250000, round + 10);
		vs_recv(&h, 1, 30, 0, 0);
		vs_recv(&h, 1, 31, 310000, 100000);
		vs_recv(&h, 0, 32, 0, 0);
		vs_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 300000);
		vs_send(&h, 0, IBV_WR_RDMA_READ, 2, 700000, 250000);
		vs_send(&h, 0, IBV_WR_SEND, 3, 0, 100000);
		vs_send(&h, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 600000, 1000);
		vs_send(&h, 0, IBV_WR_RDMA_READ, 5, 700000, 4);
		vs_expect(h.end[1].recv_cq, 30, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(h.end[1].buffer, 300000, round);
		vs_expect(h.end[1].recv_cq, 31, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(h.end[1].buffer + 310000, 100000, round);
		vs_expect(h.end[0].recv_cq, 32, IBV_WC_SUCCESS, NULL);
		for (uint64_t id = 1; id <= 5; id += id == 3 ? 2 : 1)
			vs_expect(h.end[0].send_cq, id, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(h.end[0].buffer + 700000, 250000, round + 10);
		vs_expect(h.end[1].send_cq, 4, IBV_WC_SUCCESS, NULL);
		vs_expect_none(h.end[1].recv_cq); /* nothing was executed twice */
		vs_expect_none(h.end[0].send_cq);
	}
	CHECK(sim_faults_fired() > 0);
	vs_free(&h);
}

static struct vs_options patient(void)
{
	struct vs_options o = vw_defaults;

	o.retry_count = 7;
	o.rnr_retry = 7;
	o.timeout = 8; /* 1 ms */
	return o;
}

CASE(one_message_in_eight_lost_is_repaired, .faults = "fabric.packet prob=1/8 drop\n")
{
	struct vs_options o = patient();

	traffic(&o);
}

CASE(one_message_in_eight_lost_is_repaired_with_one_read_at_a_time,
     .faults = "fabric.packet prob=1/8 drop\n")
{
	struct vs_options o = patient();

	o.rd_atomic = o.dest_rd_atomic = 1;
	o.mtu = IBV_MTU_4096;
	traffic(&o);
}

/* Messages later than the acknowledge timeout: the peer responds twice. */
CASE(late_messages_are_duplicates_and_harmless, .faults = "fabric.packet prob=1/10 delay by=3ms\n")
{
	struct vs_options o = patient();

	traffic(&o);
}

static void patient_traffic(void)
{
	struct vs_options o = patient();

	traffic(&o);
}

/* The n-th message is lost, for every n: each request, acknowledge and response once. */
CASE(whichever_message_is_lost_the_bytes_arrive, .engine = "sim", .worlds = true, .count = 70)
{
	char plan[64];

	snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", vs_param + 1);
	vw_run(SIM_ENGINE_SIM, 1, plan, 1, patient_traffic);
}

CASE(a_registration_that_fails_by_plan_leaves_nothing,
     .faults = "verbs.reg_mr nth=3 fail errno=EFAULT\n")
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults); /* two registrations */
	errno = 0;
	CHECK(!ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 100, 0));
	CHECK_EQ(errno, EFAULT);
	struct ibv_mr *mr = ibv_reg_mr(h.end[0].pd, h.end[0].buffer, 100, 0);

	CHECK(mr);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

CASE(a_transition_that_times_out_by_plan_changes_nothing, .faults = "verbs.modify_qp nth=2 fail\n")
{
	struct vs_pair h;

	vs_make(&h, &vw_defaults);
	struct ibv_qp_attr a = vs_attr(&h, 0);

	vs_raise(h.end[0].qp, &a, IBV_QPS_INIT);
	a.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, VW_RTR_MASK), ETIMEDOUT);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_INIT);
	CHECK_EQ(ibv_modify_qp(h.end[0].qp, &a, VW_RTR_MASK), 0);
	vs_free(&h);
}

/* ---- what the fabric does, and reliable connections repair ----------------------------------- */

/* Faults of the wire between the two devices of one host. Ports 0 and 1 are the ends. */
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

CASE(what_the_wire_does_is_repaired, .engine = "sim", .worlds = true, .count = ARRAY_LEN(repaired))
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		vw_run(SIM_ENGINE_SIM, seed, repaired[vs_param], 1, patient_traffic);
}

CASE(what_the_wire_does_is_repaired_with_threads, .engine = "threads", .worlds = true,
     .count = ARRAY_LEN(repaired))
{
	if (!strstr(repaired[vs_param],
		    "heal")) /* "heal" counts real time, and may come before the first message */
		vw_run(SIM_ENGINE_THREADS, 1, repaired[vs_param], 1, patient_traffic);
}

/* ---- what ends a queue pair ------------------------------------------------------------------ */

struct ending {
	const char *plan;
	enum ibv_wc_status first; /* of the second of four sends, which fails */
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

static void ending_event(struct vs_pair *h, int side, int type)
{
	struct ibv_async_event e;

	if (type < 0)
		return;
	do { /* COMM_EST and the port's events may come before it */
		CHECK_EQ(ibv_get_async_event(h->end[side].ctx, &e), 0);
		ibv_ack_async_event(&e);
	} while ((int)e.event_type != type);
}

/* One send at a time, so that the second send has the fault. */
static void ending_body(void)
{
	struct ibv_wc wc;
	struct vs_pair h;
	int failed = 0;

	vs_pair(&h, &vw_defaults);
	for (uint32_t i = 0; i < 4; i++) {
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
		CHECK(vs_wait(h.end[0].send_cq, &wc, 60 * VS_SECOND));
		CHECK_EQ(wc.wr_id, i);
		if (wc.status == IBV_WC_SUCCESS) {
			CHECK_EQ(failed, 0);
			continue;
		}
		if (!failed++)
			CHECK_MSG(wc.status == ending->first, "%s: got %s, expected %s",
				  ending->plan, ibv_wc_status_str(wc.status),
				  ibv_wc_status_str(ending->first));
		else
			CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	CHECK_GE(failed, 2);
	ending_event(&h, 0, ending->event);
	ending_event(&h, 1, ending->peer_event);
	CHECK(sim_faults_fired() > 0);
	sim_faults_heal();
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_ERR);
	vw_again(&h);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 9, 0, 100); /* the fault is healed */
	vs_expect(h.end[0].send_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

CASE(a_fault_ends_the_queue_pair_as_hardware_would, .engine = "sim", .worlds = true,
     .count = ARRAY_LEN(endings))
{
	ending = &endings[vs_param];
	for (uint64_t seed = 1; seed <= 3; seed++)
		vw_run(SIM_ENGINE_SIM, seed, ending->plan, 1, ending_body);
	vw_run(SIM_ENGINE_THREADS, 1, ending->plan, 1, ending_body);
}

CASE(a_receive_that_fails_by_plan_tells_the_sender,
     .faults = "verbs.recv_cqe nth=2 error status=LOC_PROT_ERR\n")
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	for (uint32_t i = 0; i < 3; i++)
		vs_recv(&h, 1, 20 + i, 0, 0);
	for (uint32_t i = 0; i < 2; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, i, 0, 100);
	vs_expect(h.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_REM_OP_ERR, NULL);
	vs_expect(h.end[1].recv_cq, 20, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[1].recv_cq, 21, IBV_WC_LOC_PROT_ERR, NULL);
	vs_expect(h.end[1].recv_cq, 22, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_free(&h);
}

CASE(an_overrun_by_plan_kills_the_queue_pairs, .faults = "verbs.cq nth=2 overrun\n")
{
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	for (uint32_t i = 0; i < 3; i++)
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i, 0, 100);
	ending_event(&h, 0, IBV_EVENT_CQ_ERR);
	ending_event(&h, 0, IBV_EVENT_QP_FATAL);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_ERR);
	vs_free(&h);
}

CASE(a_corruption_that_nothing_detects_arrives,
     .faults = "fabric.packet port=0 corrupt undetected=1\n")
{
	struct vs_pair h;
	uint32_t differ = 0;

	vs_pair(&h, &vw_defaults);
	vs_pattern(h.end[0].buffer, 1000, 1);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 1000);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	for (int i = 0; i < 1000; i++)
		differ += h.end[0].buffer[i] != h.end[1].buffer[i];
	CHECK_EQ(differ, 1);
	vs_free(&h);
}

CASE(inline_data_may_be_limited, .faults = "verbs.inline limit bytes=32\n")
{
	struct vs_pair h;

	struct vs_options o = vw_defaults;

	o.inline_bytes = 32;
	vs_make(&h, &o);
	struct ibv_qp_init_attr init =
		vw_init_attr(&vw_defaults, h.end[0].send_cq, h.end[0].recv_cq);

	errno = 0;
	CHECK(!ibv_create_qp(h.end[0].pd, &init));
	CHECK_EQ(errno, EINVAL);
	vs_free(&h);
}

/* ---- every call fails, and nothing is left --------------------------------------------------- */

/* Makes one object of each kind and destroys it. True: no call failed. */
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
	struct ibv_qp_init_attr init = vw_init_attr(&vw_defaults, cq, cq);
	struct ibv_qp *qp = cq && !ibv_req_notify_cq(cq, 0) ? ibv_create_qp(pd, &init) : NULL;

	ok = qp != NULL;
	if (ok) {
		attr = vw_attr(&vw_defaults, &gid, qp->qp_num, 0, 0);
		attr.qp_state = IBV_QPS_INIT;
		ok = !ibv_modify_qp(qp, &attr, VW_INIT_MASK) && !ibv_post_recv(qp, &recv, &bad) &&
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

	CHECK_EQ(ok, sim_faults_fired() == 0);
	calls_bad += !ok;
}

/* The loop ends with a run in which no call failed: every call has failed once before. */
CASE(whichever_call_fails_nothing_is_left, .engine = "sim", .worlds = true)
{
	char plan[64];
	uint32_t before = UINT32_MAX;

	calls_bad = 0;
	for (int k = 1; before != calls_bad; k++) {
		before = calls_bad;
		snprintf(plan, sizeof plan, "verbs.any nth=%d fail\n", k);
		vw_run(SIM_ENGINE_SIM, 1, plan, 1, calls_body);
	}
	CHECK_EQ(calls_bad, 22);
}
