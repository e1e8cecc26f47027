/* SPDX-License-Identifier: BSD-3-Clause */
/* Every completion status that a connection or a datagram can have, as a plan of faults injects it,
 * also those that only broken hardware gives (not those of reliable datagrams, which no HCA has).
 * The completions of the other requests do not depend on the status. */
#include "tests/conformance/verbs/suite.h"

static const struct {
	const char *name;
	enum ibv_wc_status status;
} statuses[] = {
#define STATUS(name)                                                                               \
	{                                                                                          \
#name, IBV_WC_##name                                                               \
	}
	STATUS(LOC_LEN_ERR),    STATUS(LOC_QP_OP_ERR),   STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR),   STATUS(MW_BIND_ERR),     STATUS(BAD_RESP_ERR),
	STATUS(LOC_ACCESS_ERR), STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR),
	STATUS(REM_OP_ERR),     STATUS(RETRY_EXC_ERR),   STATUS(RNR_RETRY_EXC_ERR),
	STATUS(REM_ABORT_ERR),  STATUS(FATAL_ERR),       STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR),
#undef STATUS
};
#define STATUSES (int)(sizeof statuses / sizeof statuses[0])

static const char *status_label(int param)
{
	return statuses[param].name;
}

static const char *plan_line(const char *site, int param)
{
	static char text[100];

	snprintf(text, sizeof text, "%s nth=3 error status=%s\n", site, statuses[param].name);
	return text;
}

static const char *start_plan(int param)
{
	return plan_line("verbs.start", param);
}

static const char *cqe_plan(int param)
{
	return plan_line("verbs.cqe", param);
}

static const char *recv_plan(int param)
{
	return plan_line("verbs.recv_cqe", param);
}

/* The third of five sends has the status; two before it succeed, two after it are flushed. */
static void third_of_five(enum ibv_wc_status status)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	vs_recv(&p, 0, 9, 0, 100);
	for (uint64_t i = 0; i < 5; i++)
		vs_send(&p, 0, IBV_WR_RDMA_WRITE, i, 100 * i, 100);
	for (uint64_t i = 0; i < 2; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
	vs_expect(p.end[0].send_cq, 2, status, NULL);
	for (uint64_t i = 3; i < 5; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect(p.end[0].recv_cq, 9, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect_none(p.end[0].send_cq);
	vs_await_state(p.end[0].qp, IBV_QPS_ERR);
	vs_free(&p);
}

CASE(a_send_that_fails_before_it_leaves, .needs = NEED(FAULTS), .plan = start_plan,
     .count = STATUSES, .label = status_label)
{
	third_of_five(statuses[vs_param].status);
}

CASE(a_send_that_fails_when_all_is_done, .needs = NEED(FAULTS), .plan = cqe_plan, .count = STATUSES,
     .label = status_label)
{
	third_of_five(statuses[vs_param].status);
}

/* The third of five receives has it: its sender is refused, both ends flush the rest. */
CASE(a_receive_that_fails, .needs = NEED(FAULTS), .plan = recv_plan, .count = STATUSES,
     .label = status_label)
{
	struct vs_pair p;

	vs_pair(&p, &vs_defaults);
	for (uint64_t i = 0; i < 5; i++)
		vs_recv(&p, 1, 10 + i, 100 * i, 100);
	for (uint64_t i = 0; i < 5; i++)
		vs_send(&p, 0, IBV_WR_SEND, i, 0, 100);
	for (uint64_t i = 0; i < 2; i++) {
		vs_expect(p.end[0].send_cq, i, IBV_WC_SUCCESS, NULL);
		vs_expect(p.end[1].recv_cq, 10 + i, IBV_WC_SUCCESS, NULL);
	}
	vs_expect(p.end[1].recv_cq, 12, statuses[vs_param].status, NULL);
	for (uint64_t i = 3; i < 5; i++)
		vs_expect(p.end[1].recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_expect(p.end[0].send_cq, 2, IBV_WC_REM_OP_ERR, NULL);
	for (uint64_t i = 3; i < 5; i++)
		vs_expect(p.end[0].send_cq, i, IBV_WC_WR_FLUSH_ERR, NULL);
	vs_await_state(p.end[1].qp, IBV_QPS_ERR);
	vs_free(&p);
}
