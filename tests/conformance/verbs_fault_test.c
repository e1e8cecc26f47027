/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected faults: lost and late messages that the protocol repairs, and calls and completions that
 * fail by plan. */
#include "tests/conformance/verbs_harness.h"

/* Everything at once, both ways, twice over; the bytes must come out right. */
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
	return vh_suite_run("verbs faults", t);
}
