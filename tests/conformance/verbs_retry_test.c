/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a peer, where it takes a world to see it: links that go down, tables without room,
 * packet numbers before the right ones, exact times. The rest is in verbs/errors.c. */
#include "backends/fakeverbs/objects/objects.h"
#include "tests/conformance/verbs_harness.h"

/* ---- silence: the acknowledge timer --------------------------------------------------------- */

/* A request of end 0 that gets no answer. */
static void expect_retry_exceeded(struct vh *h)
{
	uint64_t timeout_ns = 4096ull << h->options.timeout;
	uint64_t least_ns = (uint64_t)(h->options.retry_count + 1) * timeout_ns;
	struct vh_wr w;
	uint64_t start_ns = os_now_ns();

	vh_wr_fill(&w, h, 0, IBV_WR_RDMA_WRITE, 77, 0, 100);
	vh_expect_failure(h, &w, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_ge(os_now_ns() - start_ns, least_ns);
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		ck_assert_uint_le(os_now_ns() - start_ns, 4 * least_ns);
}

/* Too many packets are on their way: those for which the tables have no room are lost, as on the
 * wire. */
VH_TEST(a_packet_without_room_is_lost_and_sent_again)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.timeout = 15;
	vh_pair(&h, &o);
	vh_pattern(h.end[0].buffer, 200000, 5);
	struct hca_slab *buffers = &fakeverbs.world->large;
	struct hca_slab was = *buffers;

	buffers->count = hca_slab_room(buffers);
	buffers->free_count = 0;
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 200000);
	os_sleep_ns(100000);
	if (sim_engine_kind() == SIM_ENGINE_SIM) /* `threads` may need no packets */
		vh_expect_none(h.end[0].send_cq);
	buffers->count = was.count;
	buffers->free_count = was.free_count;
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 200000, 5);
	vh_free(&h);
}

VH_TEST(a_stranger_is_not_heard)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *a = &h.end[0];
	struct ibv_qp_init_attr init = vh_init_attr(&h.options, a->send_cq, a->recv_cq);
	struct ibv_qp *stranger = ibv_create_qp(a->pd, &init);
	struct ibv_qp_attr attr = vh_attr_of(&h, 0);

	/* the right number, address and packet number; but end 1 is connected to another queue
	 * pair */
	vh_connect(stranger, &attr, IBV_QPS_RTS);
	memset(a->buffer, 1, 100);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 100);
	ck_assert_int_eq(vh_post(stranger, &w.wr), 0);
	vh_expect(a->send_cq, 1, IBV_WC_RETRY_EXC_ERR, NULL);
	vh_expect_zero(h.end[1].buffer, 100);
	ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	vh_expect(a->send_cq, 1, IBV_WC_SUCCESS, NULL);
	ck_assert_int_eq(ibv_destroy_qp(stranger), 0);
	vh_free(&h);
}

VH_TEST(packet_numbers_that_do_not_match_are_retried_and_given_up)
{
	static const int32_t off[] = {-1, 1, 1000, 0x400000};

	for (size_t i = 0; i < 4; i++) {
		struct vh h;

		vh_make(&h, &vh_defaults);
		struct ibv_qp_attr a = vh_attr_of(&h, 0);

		a.sq_psn = (a.sq_psn + (uint32_t)off[i]) & 0xffffff;
		vh_connect(h.end[0].qp, &a, IBV_QPS_RTS);
		vh_connect_end(&h, 1, IBV_QPS_RTS);
		struct vh_wr w;
		struct ibv_wc wc;

		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 7, 0, 100);
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
		ck_assert(vh_wait(h.end[0].send_cq, &wc, 60 * VH_SECOND_NS));
		/* before: taken for a duplicate and, if near, acknowledged; never written */
		ck_assert(wc.status == IBV_WC_RETRY_EXC_ERR || off[i] < 0);
		vh_expect_zero(h.end[1].buffer, 100);
		vh_free(&h);
	}
}

VH_TEST(a_link_that_is_down_is_retried_and_given_up)
{
	for (int device = 0; device < 2; device++) {
		struct vh h;

		vh_pair(&h, &vh_defaults);
		vh_recv(&h, 0, 1, 0, 10);
		vh_link(device, false);
		expect_retry_exceeded(&h);
		vh_expect(h.end[0].recv_cq, 1, IBV_WC_WR_FLUSH_ERR, NULL);
		ck_assert_int_eq(vh_state(h.end[1].qp), IBV_QPS_RTS); /* it knows nothing */
		vh_link(device, true);
		vh_free(&h);
	}
}

VH_TEST(a_link_that_comes_back_in_time_loses_nothing)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.retry_count = 7;
	vh_pair(&h, &o);
	vh_pattern(h.end[0].buffer, 400000, 6);
	vh_pattern(h.end[1].buffer + 500000, 400000, 7);
	vh_recv(&h, 1, 9, 0, 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 400000);
	vh_send(&h, 0, IBV_WR_RDMA_READ, 2, 500000, 400000);
	for (int i = 0; i < 3; i++) {
		os_sleep_ns(4000);
		vh_link(0, false);
		os_sleep_ns(3000);
		vh_link(0, true);
	}
	vh_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[1].buffer, 400000, 6);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(h.end[0].buffer + 500000, 400000, 7);
	vh_expect_none(h.end[1].recv_cq); /* once only */
	vh_free(&h);
}

VH_TEST(timeout_zero_waits_for_ever)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.timeout = 0;
	vh_pair(&h, &o);
	vh_link(0, false);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 1, 0, 10);
	os_sleep_ns(sim_engine_kind() == SIM_ENGINE_SIM ? 600 * VH_SECOND_NS : VH_SECOND_NS / 10);
	vh_expect_none(h.end[0].send_cq);
	ck_assert_int_eq(vh_state(h.end[0].qp), IBV_QPS_RTS);
	vh_link(0, true);
	/* the next request shows the gap, and the lost one is sent again */
	vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 0, 10);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

/* ---- receiver not ready --------------------------------------------------------------------- */

VH_TEST(a_receiver_that_becomes_ready_is_reached)
{
	static const uint32_t bytes[] = {0, 100, 300000};
	static const enum ibv_wr_opcode op[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};

	for (int i = 0; i < 6; i++) {
		struct vh_options o = vh_defaults;
		struct vh h;
		uint32_t n = bytes[i % 3];

		o.rnr_retry = 7; /* for ever */
		vh_pair(&h, &o);
		vh_pattern(h.end[0].buffer, n, 3);
		vh_send(&h, 0, op[i / 3], 1, 0, n);
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, 2, 400000, 100);
		os_sleep_ns(VH_SECOND_NS / 200); /* five hundred waits of 10 us */
		vh_expect_none(h.end[0].send_cq);
		vh_recv(&h, 1, 9, 0, n ? n : 1);
		vh_expect(h.end[1].recv_cq, 9, IBV_WC_SUCCESS, NULL);
		vh_expect_pattern(h.end[1].buffer, n, 3);
		vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
		vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
		vh_free(&h);
	}
}

VH_TEST(the_receiver_says_how_long_to_wait)
{
	static const struct {
		int timer;
		uint64_t ns;
	} cases[] = {{1, 10000}, {12, 640000}, {18, 5120000}, {31, 491520000}, {0, 655360000}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct vh_options o = vh_defaults;
		struct vh h;
		struct vh_wr w;

		if (sim_engine_kind() == SIM_ENGINE_THREADS && cases[i].ns > 100000000)
			continue; /* real time */
		o.min_rnr_timer = cases[i].timer;
		o.rnr_retry = 2;
		vh_pair(&h, &o);
		uint64_t start_ns = os_now_ns();

		vh_wr_fill(&w, &h, 0, IBV_WR_SEND, 5, 0, 100);
		vh_expect_failure(&h, &w, IBV_WC_RNR_RETRY_EXC_ERR);
		uint64_t took_ns = os_now_ns() - start_ns;

		ck_assert_uint_ge(took_ns, 2 * cases[i].ns);
		if (sim_engine_kind() == SIM_ENGINE_SIM)
			ck_assert_uint_le(took_ns, 2 * cases[i].ns + 1000000);
		vh_free(&h);
	}
}

/* ---- READs that wait for each other ---------------------------------------------------------- */

/* Eight READs of a few bytes, under exact charges; how long they take. */
static uint64_t reads_took_ns[2];

static void reads_in_turns_body(void)
{
	for (int all = 0; all < 2; all++) {
		struct vh_options o = vh_defaults;
		struct vh h;

		o.rd_atomic = o.dest_rd_atomic = all ? 8 : 1;
		vh_pair(&h, &o);
		uint64_t start_ns = os_now_ns();

		for (uint32_t i = 0; i < 8; i++)
			vh_send(&h, 0, IBV_WR_RDMA_READ, i, 100 * i, 100);
		for (uint32_t i = 0; i < 8; i++)
			vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		reads_took_ns[all] = os_now_ns() - start_ns;
		vh_free(&h);
	}
}

START_TEST(reads_beyond_max_rd_atomic_wait_for_the_ones_before)
{
	const struct sim_config config = {.strategy = SIM_FIFO};
	const struct world_config world = {
		.hosts = 1, .machine = VH_MACHINE, .fabric_latency_ns = 10000};
	struct vh_run run = {reads_in_turns_body};

	ck_assert_int_eq(sim_start(&config), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(vh_main, &run), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
	ck_assert_uint_ge(reads_took_ns[0], 8 * 2 * 10000);
	ck_assert_uint_le(reads_took_ns[1], 2 * 2 * 10000);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("retries");

	VH_ADD(t, a_packet_without_room_is_lost_and_sent_again);
	VH_ADD(t, a_stranger_is_not_heard);
	VH_ADD(t, packet_numbers_that_do_not_match_are_retried_and_given_up);
	VH_ADD(t, a_link_that_is_down_is_retried_and_given_up);
	VH_ADD(t, a_link_that_comes_back_in_time_loses_nothing);
	VH_ADD(t, timeout_zero_waits_for_ever);
	VH_ADD(t, a_receiver_that_becomes_ready_is_reached);
	VH_ADD(t, the_receiver_says_how_long_to_wait);
	tcase_add_test(t, reads_beyond_max_rd_atomic_wait_for_the_ones_before);
	return vh_suite_run("verbs retries", t);
}
