/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are lost on unreliable connections, and statuses that only a plan of faults causes.
 * Other cases without a plan are in the suite (uc_cases.c, errors_cases.c). */
#include "tests/conformance/verbs/harness/world.h"

/* ---- loss ----------------------------------------------------------------------------------- */

static void uc_pair(struct vs_pair *h)
{
	struct vs_options o = vw_defaults;

	o.type = IBV_QPT_UC;
	o.access = IBV_ACCESS_REMOTE_WRITE;
	vs_pair(h, &o);
}

#define MESSAGE_BYTES 300000u /* five messages of the fabric */

/* One part of a message is lost: the receive is not completed. The next message is complete. */
static void uc_one_part_lost(void)
{
	struct vs_pair h;
	struct ibv_wc wc;

	uc_pair(&h);
	vs_recv(&h, 1, 1, 0, MESSAGE_BYTES);
	for (uint32_t i = 0; i < 2; i++) {
		vs_pattern(h.end[0].buffer, MESSAGE_BYTES, i);
		vs_send(&h, 0, IBV_WR_SEND, i, 0, MESSAGE_BYTES);
		vs_expect(h.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	}
	vs_expect(h.end[1].recv_cq, 1, IBV_WC_SUCCESS, &wc);
	CHECK_EQ(wc.byte_len, MESSAGE_BYTES);
	vs_expect_pattern(h.end[1].buffer, MESSAGE_BYTES, 1);
	vs_expect_none(h.end[1].recv_cq);
	vs_free(&h);
}

CASE(a_message_with_a_gap_is_dropped_and_the_next_is_whole, .engine = "sim", .worlds = true,
     .count = 5)
{
	char plan[64];

	snprintf(plan, sizeof plan, "fabric.packet nth=%d drop\n", vs_param + 1);
	vw_run_seeds(plan, uc_one_part_lost);
}

/* Some of many small messages are lost. No message comes twice or in parts, and no task waits for
 * one. */
CASE(small_messages_come_once_or_not_at_all, .faults = "fabric.packet prob=1/4 drop\n")
{
	struct vs_pair h;
	struct ibv_wc wc;
	uint32_t came = 0, next = 0;

	uc_pair(&h);
	for (uint32_t round = 0; round < 10; round++) {
		for (uint32_t i = 0; i < 8; i++)
			vs_recv(&h, 1, i, 0, 64);
		for (uint32_t i = 0; i < 8; i++) {
			vs_send(&h, 0, IBV_WR_SEND_WITH_IMM, round * 8 + i, 0, 64);
			vs_expect(h.end[0].send_cq, round * 8 + i, IBV_WC_SUCCESS, NULL);
		}
		while (vs_wait(h.end[1].recv_cq, &wc, VS_SECOND / 100)) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_GE(be32toh(wc.imm_data), next);
			next = be32toh(wc.imm_data) + 1;
			came++;
		}
		vw_again(&h); /* takes the receives that are left */
	}
	CHECK(came > 20);
	CHECK(came < 80);
	vs_free(&h);
}

/* ---- statuses ------------------------------------------------------------------------------- */

/* More READs at a time than the responder has resources for. */
CASE(more_reads_than_the_peer_takes_are_an_invalid_request)
{
	struct vs_options o = vw_defaults;
	struct ibv_wc wc;
	struct vs_pair h;

	if (sim_engine_kind() != SIM_ENGINE_SIM)
		return; /* messages take no time under this engine */
	o.rd_atomic = 8;
	o.dest_rd_atomic = 2;
	vs_pair(&h, &o);
	for (uint32_t i = 0; i < 8; i++)
		vs_send(&h, 0, IBV_WR_RDMA_READ, i, 0, 60000);
	enum ibv_wc_status first = IBV_WC_SUCCESS;

	for (uint32_t i = 0; i < 8; i++) {
		CHECK(vs_wait(h.end[0].send_cq, &wc, 60 * VS_SECOND));
		CHECK_EQ(wc.wr_id, i);
		if (first == IBV_WC_SUCCESS)
			first = wc.status;
	}
	CHECK_EQ(first, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(vs_state(h.end[1].qp), IBV_QPS_ERR);
	vs_free(&h);
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
	struct vs_wr w;
	struct vs_pair h;

	vs_pair(&h, &vw_defaults);
	vs_fill(&w, &h, 0, IBV_WR_RDMA_READ, 5, 0, 1000);
	vw_expect_failure(&h, &w, statuses[status_now].status);
	vs_free(&h);
}

CASE(every_status_comes_by_plan, .engine = "sim", .worlds = true, .count = STATUSES)
{
	char plan[96];

	status_now = vs_param;
	snprintf(plan, sizeof plan, "verbs.response nth=1 error status=%s\n",
		 statuses[vs_param].name);
	vw_run_seeds(plan, a_read_with_a_bad_answer);
}
