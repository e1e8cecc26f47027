/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding and invalidating between writes that get lost: what needs no packet is done once, in its
 * place, however often its neighbours are resent. What windows are is in verbs/windows.c. */
#include "tests/conformance/verbs_harness.h"

#define ROUNDS 6

static void bind_between_writes(void)
{
	struct vh_options o = vh_defaults;
	struct vh h;
	struct vh_wr w;
	struct ibv_wc wc;

	o.retry_count = 7;
	o.send_wr = 32;
	vh_pair(&h, &o);
	struct vh_end *a = &h.end[0];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buffer, VH_BUFFER_BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a->pd, IBV_MW_TYPE_2);

	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_nonnull(mw);
	uint32_t rkey = mw->rkey;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr bind = {
			.wr_id = i * 4,
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = {.mw = mw,
				    .rkey = rkey = ibv_inc_rkey(rkey),
				    .bind_info = {.mr = mr,
						  .addr = (uintptr_t)a->buffer,
						  .length = 64,
						  .mw_access_flags = IBV_ACCESS_REMOTE_READ}}};
		struct ibv_send_wr inv = {.wr_id = i * 4 + 2,
					  .opcode = IBV_WR_LOCAL_INV,
					  .send_flags = IBV_SEND_SIGNALED,
					  .invalidate_rkey = rkey};

		ck_assert_int_eq(vh_post(a->qp, &bind), 0);
		vh_pattern(a->buffer + i * 4096, 3000, (uint32_t)i);
		vh_send(&h, 0, IBV_WR_RDMA_WRITE, i * 4 + 1, i * 4096, 3000);
		ck_assert_int_eq(vh_post(a->qp, &inv), 0);
		vh_wr_fill(&w, &h, 0, IBV_WR_RDMA_READ, i * 4 + 3, 1 << 19, 64);
		ck_assert_int_eq(vh_post(a->qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < ROUNDS * 4; i++)
		vh_expect(a->send_cq, i, IBV_WC_SUCCESS, &wc);
	for (uint64_t i = 0; i < ROUNDS; i++)
		vh_expect_pattern(h.end[1].buffer + i * 4096, 3000, (uint32_t)i);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	vh_free(&h);
}

START_TEST(each_message_is_lost_once)
{
	char plan[64];

	for (int nth = 1; nth <= 24; nth++) {
		snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", nth);
		vh_run_once(SIM_ENGINE_SIM, 1, plan, 1, bind_between_writes);
	}
}
END_TEST

START_TEST(messages_are_lost_doubled_and_late)
{
	static const char plan[] = "fabric.packet prob=1/8 forever duplicate by=20us\n"
				   "fabric.packet prob=1/12 forever drop\n"
				   "fabric.packet prob=1/8 forever reorder by=20us\n";

	for (uint64_t seed = 1; seed <= 24; seed++)
		vh_run_once(SIM_ENGINE_SIM, seed, plan, 1, bind_between_writes);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("windows");

	tcase_add_test(t, each_message_is_lost_once);
	tcase_add_test(t, messages_are_lost_doubled_and_late);
	return vh_suite_run("verbs windows", t);
}
