/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that arrive: every operation of a reliable connection, its completions and their order. */
#include "tests/conformance/verbs_harness.h"

VH_TEST(write_with_imm_takes_a_receive_and_carries_length_and_imm)
{
	struct vh h;
	struct ibv_wc wc;

	vh_pair(&h, &vh_defaults);
	vh_pattern(h.end[0].buffer, 300000, 2);
	vh_recv(&h, 1, 99, 0, 0);
	vh_send(&h, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0, 300000);
	vh_expect(h.end[1].recv_cq, 99, IBV_WC_SUCCESS, &wc);
	/* data of the write is there before its receive completion */
	vh_expect_pattern(h.end[1].buffer, 300000, 2);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ck_assert_uint_eq(wc.byte_len, 300000);
	ck_assert(wc.wc_flags & IBV_WC_WITH_IMM);
	ck_assert_uint_eq(be32toh(wc.imm_data), 8);
	ck_assert_uint_eq(wc.qp_num, h.end[1].qp->qp_num);
	vh_expect(h.end[0].send_cq, 8, IBV_WC_SUCCESS, &wc);
	ck_assert_int_eq(wc.opcode, IBV_WC_RDMA_WRITE);
	vh_free(&h);
}

VH_TEST(send_fills_the_receive_in_order_of_its_entries)
{
	struct vh h;
	struct ibv_wc wc;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];
	struct ibv_sge sge[3] = {
		{.addr = (uintptr_t)b->buffer + 9000, .length = 100, .lkey = b->mr->lkey},
		{.addr = (uintptr_t)b->buffer, .length = 5000, .lkey = b->mr->lkey},
		{.addr = (uintptr_t)b->buffer + 20000, .length = 5000, .lkey = b->mr->lkey}};
	struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = sge, .num_sge = 3}, *bad;

	ck_assert_int_eq(ibv_post_recv(b->qp, &wr, &bad), 0);
	vh_pattern(h.end[0].buffer, 6000, 9);
	vh_send(&h, 0, IBV_WR_SEND_WITH_IMM, 6, 0, 6000);
	vh_expect(b->recv_cq, 3, IBV_WC_SUCCESS, &wc);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
	ck_assert_uint_eq(wc.byte_len, 6000);
	ck_assert(wc.wc_flags & IBV_WC_WITH_IMM);
	vh_expect(h.end[0].send_cq, 6, IBV_WC_SUCCESS, &wc);
	ck_assert_int_eq(wc.opcode, IBV_WC_SEND);
	ck_assert_mem_eq(b->buffer + 9000, h.end[0].buffer, 100);
	ck_assert_mem_eq(b->buffer, h.end[0].buffer + 100, 5000);
	ck_assert_mem_eq(b->buffer + 20000, h.end[0].buffer + 5100, 900);
	vh_expect_zero(b->buffer + 20900, 100);
	vh_free(&h);
}

VH_TEST(unsignaled_requests_make_no_completion_and_come_in_order)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 8; i++) {
		h.end[0].buffer[100 * i] = (uint8_t)(i + 1);
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
		w.wr.send_flags = i == 7 ? IBV_SEND_SIGNALED : 0;
		ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	}
	vh_expect(h.end[0].send_cq, 7, IBV_WC_SUCCESS, NULL);
	vh_expect_none(h.end[0].send_cq);
	vh_free(&h);
}

VH_TEST(completions_keep_the_order_of_mixed_requests)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_SEND,       IBV_WR_RDMA_WRITE};
	struct vh h;

	vh_pair(&h, &vh_defaults);
	vh_recv(&h, 1, 50, 0, 0);
	vh_recv(&h, 1, 51, 900000, 1000);
	for (uint32_t i = 0; i < 6; i++)
		vh_send(&h, 0, op[i], i, 100000 * i, i % 2 ? 90000 : 1000);
	for (uint32_t i = 0; i < 6; i++)
		vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 50, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[1].recv_cq, 51, IBV_WC_SUCCESS, NULL);
	vh_free(&h);
}

VH_TEST(more_reads_than_max_rd_atomic_take_turns)
{
	struct vh_options o = vh_defaults;
	struct vh h;

	o.rd_atomic = 1;
	vh_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vh_pattern(h.end[1].buffer + 10000 * i, 10000, i);
	for (uint32_t i = 0; i < 8; i++)
		vh_send(&h, 0, IBV_WR_RDMA_READ, i, 10000 * i, 10000);
	for (uint32_t i = 0; i < 8; i++)
		vh_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	for (uint32_t i = 0; i < 8; i++)
		vh_expect_pattern(h.end[0].buffer + 10000 * i, 10000, i);
	vh_free(&h);
}

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

VH_TEST(a_chain_is_posted_up_to_the_first_bad_request)
{
	struct vh h;
	struct vh_wr w[3];
	struct ibv_send_wr *bad = NULL;

	vh_pair(&h, &vh_defaults);
	for (uint32_t i = 0; i < 3; i++) {
		vh_wr_fill(&w[i], &h, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
		w[i].wr.next = i < 2 ? &w[i + 1].wr : NULL;
	}
	w[1].wr.num_sge = 5; /* one too many */
	ck_assert_int_ne(ibv_post_send(h.end[0].qp, &w[0].wr, &bad), 0);
	ck_assert_ptr_eq(bad, &w[1].wr);
	vh_expect(h.end[0].send_cq, 0, IBV_WC_SUCCESS, NULL);
	vh_expect_none(h.end[0].send_cq);
	vh_free(&h);
}

VH_TEST(iova_and_zero_based_regions_address_by_their_own_numbers)
{
	struct vh h;
	struct vh_wr w;

	vh_pair(&h, &vh_defaults);
	struct vh_end *b = &h.end[1];
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const uint64_t page = (uintptr_t)b->buffer % 4096;
	struct ibv_mr *iova =
		ibv_reg_mr_iova2(b->pd, b->buffer + 4096, 4096, 0x7000 + page, access);
	struct ibv_mr *zero = ibv_reg_mr_iova2(b->pd, b->buffer + 8192, 4096, 0x9000 + page,
					       access | IBV_ACCESS_ZERO_BASED);

	ck_assert_ptr_nonnull(iova);
	ck_assert_ptr_nonnull(zero);
	vh_pattern(h.end[0].buffer, 64, 1);
	vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_WRITE, 1, 0, 64);
	w.wr.wr.rdma.rkey = iova->rkey;
	w.wr.wr.rdma.remote_addr = 0x7010 + page;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	w.wr.wr_id = 2;
	w.wr.wr.rdma.rkey = zero->rkey;
	w.wr.wr.rdma.remote_addr = 0x20;
	ck_assert_int_eq(vh_post(h.end[0].qp, &w.wr), 0);
	vh_expect(h.end[0].send_cq, 1, IBV_WC_SUCCESS, NULL);
	vh_expect(h.end[0].send_cq, 2, IBV_WC_SUCCESS, NULL);
	vh_expect_pattern(b->buffer + 4096 + 0x10, 64, 1);
	vh_expect_pattern(b->buffer + 8192 + 0x20, 64, 1);
	ck_assert_int_eq(ibv_dereg_mr(iova), 0);
	ck_assert_int_eq(ibv_dereg_mr(zero), 0);
	vh_free(&h);
}

/* A thousand small writes through a queue of sixteen: slots come free as completions are polled. */
VH_TEST(a_small_queue_carries_a_long_stream)
{
	struct vh h;
	struct ibv_wc wc;
	uint32_t posted = 0, done = 0;

	vh_pair(&h, &vh_defaults);
	vh_pattern(h.end[0].buffer, 1000 * 64, 4);
	while (done < 1000) {
		while (posted < 1000 && posted - done < 16) {
			vh_send(&h, 0, IBV_WR_RDMA_WRITE, posted, 64 * posted, 64);
			posted++;
		}
		ck_assert(vh_wait(h.end[0].send_cq, &wc, VH_SECOND_NS));
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, done++);
	}
	vh_expect_pattern(h.end[1].buffer, 1000 * 64, 4);
	vh_free(&h);
}

int main(void)
{
	TCase *t = tcase_create("data");

	VH_ADD(t, write_with_imm_takes_a_receive_and_carries_length_and_imm);
	VH_ADD(t, send_fills_the_receive_in_order_of_its_entries);
	VH_ADD(t, unsignaled_requests_make_no_completion_and_come_in_order);
	VH_ADD(t, completions_keep_the_order_of_mixed_requests);
	VH_ADD(t, more_reads_than_max_rd_atomic_take_turns);
	tcase_add_test(t, reads_beyond_max_rd_atomic_wait_for_the_ones_before);
	VH_ADD(t, a_chain_is_posted_up_to_the_first_bad_request);
	VH_ADD(t, iova_and_zero_based_regions_address_by_their_own_numbers);
	VH_ADD(t, a_small_queue_carries_a_long_stream);
	return vh_suite_run("verbs data", t);
}
