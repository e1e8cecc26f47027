/* SPDX-License-Identifier: BSD-3-Clause */
/* Retries that need a world: links that go down, full tables, wrong packet numbers, exact times.
 * Other retries are tested in errors_cases.c. */
#include "backends/fakeverbs/objects/objects.h"
#include "tests/conformance/verbs/harness/world.h"

/* ---- silence: the acknowledge timer --------------------------------------------------------- */

/* Posts a request of end 0 to which the peer does not respond. */
static void expect_retry_exceeded(struct vs_pair *h)
{
	uint64_t timeout_ns = 4096ull << h->options.timeout;
	uint64_t least_ns = (uint64_t)(h->options.retry_count + 1) * timeout_ns;
	struct vs_wr w;
	uint64_t start_ns = os_now_ns();

	vs_fill(&w, h, 0, IBV_WR_RDMA_WRITE, 77, 0, 100);
	vw_expect_failure(h, &w, IBV_WC_RETRY_EXC_ERR);
	CHECK_GE(os_now_ns() - start_ns, least_ns);
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		CHECK(os_now_ns() - start_ns <= 4 * least_ns);
}

/* More packets are in the network than the tables have room for. The others are lost, as on a
 * wire. */
CASE(a_packet_without_room_is_lost_and_sent_again)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.timeout = 15;
	vs_pair(&h, &o);
	vs_pattern(h.end[0].buffer, 200000, 5);
	struct hca_slab *buffers = &fakeverbs.world->large;
	struct hca_slab was = *buffers;

	buffers->count = hca_slab_room(buffers);
	buffers->free_count = 0;
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 200000);
	os_sleep_ns(100000);
	if (sim_engine_kind() == SIM_ENGINE_SIM) /* `threads` may need no packets */
		vs_expect_none(h.end[0].send_cq);
	buffers->count = was.count;
	buffers->free_count = was.free_count;
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(h.end[1].buffer, 200000, 5);
	vs_free(&h);
}

CASE(a_stranger_is_not_heard)
{
	struct vs_pair h;
	struct vs_wr w;

	vs_pair(&h, &vw_defaults);
	struct vs_end *a = &h.end[0];
	struct ibv_qp_init_attr init = vw_init_attr(&h.options, a->send_cq, a->recv_cq);
	struct ibv_qp *stranger = ibv_create_qp(a->pd, &init);
	struct ibv_qp_attr attr = vs_attr(&h, 0);

	/* the queue pair number, address and packet number are correct; end 1 is connected to
	 * another queue pair */
	vs_raise(stranger, &attr, IBV_QPS_RTS);
	memset(a->buffer, 1, 100);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	CHECK_EQ(vs_post(stranger, &w.wr), 0);
	vs_expect(a->send_cq, 1, IBV_WC_RETRY_EXC_ERR, NULL);
	vs_expect_bytes(h.end[1].buffer, 100, 0);
	CHECK_EQ(vs_post(a->qp, &w.wr), 0);
	vs_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	CHECK_EQ(ibv_destroy_qp(stranger), 0);
	vs_free(&h);
}

CASE(packet_numbers_that_do_not_match_are_retried_and_given_up)
{
	static const int32_t off[] = {-1, 1, 1000, 0x400000};

	for (size_t i = 0; i < 4; i++) {
		struct vs_pair h;

		vs_make(&h, &vw_defaults);
		struct ibv_qp_attr a = vs_attr(&h, 0);

		a.sq_psn = (a.sq_psn + (uint32_t)off[i]) & 0xffffff;
		vs_raise(h.end[0].qp, &a, IBV_QPS_RTS);
		vs_connect(&h, 1, IBV_QPS_RTS);
		struct vs_wr w;
		struct ibv_wc wc;

		vs_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
		CHECK_EQ(vs_post(h.end[0].qp, &w.wr), 0);
		CHECK(vs_wait(h.end[0].send_cq, &wc, 60 * VS_SECOND));
		/* an earlier number is a duplicate, which is acknowledged if it is near, and never
		 * written */
		CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || off[i] < 0);
		vs_expect_bytes(h.end[1].buffer, 100, 0);
		vs_free(&h);
	}
}

CASE(a_link_that_is_down_is_retried_and_given_up)
{
	for (int device = 0; device < 2; device++) {
		struct vs_pair h;

		vs_pair(&h, &vw_defaults);
		vs_recv(&h, 0, 1, 0, 10);
		vw_link(device, false);
		expect_retry_exceeded(&h);
		vs_expect(h.end[0].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
		CHECK_EQ(vs_state(h.end[1].qp), IBV_QPS_RTS); /* it received nothing */
		vw_link(device, true);
		vs_free(&h);
	}
}

CASE(a_link_that_comes_back_in_time_loses_nothing)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.retry_count = 7;
	vs_pair(&h, &o);
	vs_pattern(h.end[0].buffer, 400000, 6);
	vs_pattern(h.end[1].buffer + 500000, 400000, 7);
	vs_recv(&h, 1, 9, 0, 0);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 400000);
	vs_send(&h, 0, IBV_WR_RDMA_READ, 2, 500000, 400000);
	for (int i = 0; i < 3; i++) {
		os_sleep_ns(4000);
		vw_link(0, false);
		os_sleep_ns(3000);
		vw_link(0, true);
	}
	vs_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(h.end[1].buffer, 400000, 6);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_expect_pattern(h.end[0].buffer + 500000, 400000, 7);
	vs_expect_none(h.end[1].recv_cq); /* once only */
	vs_free(&h);
}

CASE(timeout_zero_waits_for_ever)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;

	o.timeout = 0;
	vs_pair(&h, &o);
	vw_link(0, false);
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	os_sleep_ns(sim_engine_kind() == SIM_ENGINE_SIM ? 600 * VS_SECOND : VS_SECOND / 10);
	vs_expect_none(h.end[0].send_cq);
	CHECK_EQ(vs_state(h.end[0].qp), IBV_QPS_RTS);
	vw_link(0, true);
	/* the next request reveals the gap, and the lost request is sent again */
	vs_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vs_free(&h);
}

/* ---- receiver not ready --------------------------------------------------------------------- */

CASE(a_receiver_that_becomes_ready_is_reached)
{
	static const uint32_t bytes[] = {0, 100, 300000};
	static const enum ibv_wr_opcode op[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

	for (int i = 0; i < 6; i++) {
		struct vs_options o = vw_defaults;
		struct vs_pair h;
		uint32_t n = bytes[i % 3];

		o.rnr_retry = 7; /* without end */
		vs_pair(&h, &o);
		vs_pattern(h.end[0].buffer, n, 3);
		vs_send(&h, 0, op[i / 3], 1, 0, n);
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 400000, 100);
		os_sleep_ns(VS_SECOND / 200); /* five hundred waits of 10 us */
		vs_expect_none(h.end[0].send_cq);
		vs_recv(&h, 1, 9, 0, n ? n : 1);
		vs_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
		vs_expect_pattern(h.end[1].buffer, n, 3);
		vs_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		vs_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vs_free(&h);
	}
}

CASE(the_receiver_says_how_long_to_wait)
{
	static const struct {
		int timer;
		uint64_t ns;
	} cases[] = {{1, 10000}, {12, 640000}, {18, 5120000}, {31, 491520000}, {0, 655360000}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct vs_options o = vw_defaults;
		struct vs_pair h;
		struct vs_wr w;

		if (sim_engine_kind() == SIM_ENGINE_THREADS && cases[i].ns > 100000000)
			continue; /* real time */
		o.min_rnr_timer = cases[i].timer;
		o.rnr_retry = 2;
		vs_pair(&h, &o);
		uint64_t start_ns = os_now_ns();

		vs_fill(&w, &h, 0, IBV_WR_SEND, 5, 0, 100);
		vw_expect_failure(&h, &w, IBV_WC_RNR_RETRY_EXC_ERR);
		uint64_t took_ns = os_now_ns() - start_ns;

		CHECK_GE(took_ns, 2 * cases[i].ns);
		if (sim_engine_kind() == SIM_ENGINE_SIM)
			CHECK(took_ns <= 2 * cases[i].ns + 1000000);
		vs_free(&h);
	}
}

/* ---- READs that wait for each other ---------------------------------------------------------- */

/* The time of eight small READs with exact charges: one at a time, and all at a time. */
static uint64_t reads_took_ns[2];

static void reads_in_turns_body(void)
{
	for (int all = 0; all < 2; all++) {
		struct vs_options o = vw_defaults;
		struct vs_pair h;

		o.rd_atomic = o.dest_rd_atomic = all ? 8 : 1;
		vs_pair(&h, &o);
		uint64_t start_ns = os_now_ns();

		for (uint32_t i = 0; i < 8; i++)
			vs_send(&h, 0, IBV_WR_RDMA_READ, i, 100 * i, 100);
		for (uint32_t i = 0; i < 8; i++)
			vs_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		reads_took_ns[all] = os_now_ns() - start_ns;
		vs_free(&h);
	}
}

CASE(reads_beyond_max_rd_atomic_wait_for_the_ones_before, .engine = "sim", .worlds = true)
{
	const struct vw_run r = {
		.sim = {.strategy = SIM_FIFO},
		.world = {.hosts = 1, .machine = VW_MACHINE, .fabric_latency_ns = 10000},
	};

	vw_run_with(&r, reads_in_turns_body);
	CHECK_GE(reads_took_ns[0], 8 * 2 * 10000);
	CHECK(reads_took_ns[1] <= 2 * 2 * 10000);
}
