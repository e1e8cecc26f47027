/* SPDX-License-Identifier: BSD-3-Clause */
/* Binds and invalidations between writes that are lost. A request without packets is executed once
 * and in order, even if the requests around it are sent again. Windows are tested in
 * windows_cases.c. */
#include "tests/conformance/verbs/harness/world.h"

#define ROUNDS 6

static void bind_between_writes(void)
{
	struct vs_options o = vw_defaults;
	struct vs_pair h;
	struct vs_wr w;
	struct ibv_wc wc;

	o.retry_count = 7;
	o.send_wr = 32;
	vs_pair(&h, &o);
	struct vs_end *a = &h.end[0];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buffer, VW_BUFFER_BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a->pd, IBV_MW_TYPE_2);

	CHECK(mr);
	CHECK(mw);
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

		CHECK_EQ(vs_post(a->qp, &bind), 0);
		vs_pattern(a->buffer + i * 4096, 3000, (uint32_t)i);
		vs_send(&h, 0, IBV_WR_RDMA_WRITE, i * 4 + 1, i * 4096, 3000);
		CHECK_EQ(vs_post(a->qp, &inv), 0);
		vs_fill(&w, &h, 0, IBV_WR_RDMA_READ, i * 4 + 3, 1 << 19, 64);
		CHECK_EQ(vs_post(a->qp, &w.wr), 0);
	}
	for (uint64_t i = 0; i < ROUNDS * 4; i++)
		vs_expect(a->send_cq, i, IBV_WC_SUCCESS, &wc);
	for (uint64_t i = 0; i < ROUNDS; i++)
		vs_expect_pattern(h.end[1].buffer + i * 4096, 3000, (uint32_t)i);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	vs_free(&h);
}

CASE(each_message_is_lost_once, .engine = "sim", .worlds = true)
{
	char plan[64];

	for (int nth = 1; nth <= 24; nth++) {
		snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", nth);
		vw_run(SIM_ENGINE_SIM, 1, plan, 1, bind_between_writes);
	}
}

CASE(messages_are_lost_doubled_and_late, .engine = "sim", .worlds = true)
{
	static const char plan[] = "fabric.packet prob=1/8 forever duplicate by=20us\n"
				   "fabric.packet prob=1/12 forever drop\n"
				   "fabric.packet prob=1/8 forever reorder by=20us\n";

	for (uint64_t seed = 1; seed <= 24; seed++)
		vw_run(SIM_ENGINE_SIM, seed, plan, 1, bind_between_writes);
}
