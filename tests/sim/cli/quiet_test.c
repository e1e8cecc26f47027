/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion fails on a rank whose program does not query its communicator for a while. The other
 * end of the connection receives the error nevertheless.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/engine/sim.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

enum { QUIET_SEEDS = 30 };

static const char *const quiet_env[] = {"NCCL_MAX_CTAS=2", "NCCL_ALGO=Ring", "NCCL_PROTO=Simple",
					NULL};
static const char *const quiet_socket_env[] = {"NCCL_MAX_CTAS=2", "NCCL_NET=Socket",
					       "NCCL_ALGO=Ring", "NCCL_PROTO=Simple", NULL};

static struct lab_result quiet_run_env(uint64_t seed, uint32_t gpus, uint32_t quiet,
				       const char *plan, const char *const *env)
{
	struct lab_config c;
	struct lab_result r;

	lab_config_default(&c);
	c.hosts = 2;
	c.gpus = gpus;
	c.machine = "pcie-4gpu"; /* its GPUs need flushes */
	c.env = env;
	c.bytes_min = c.bytes_max = 65536;
	c.errors_allowed = true;
	c.quiet = quiet;
	c.sim.seed = seed;
	c.sim.fault_plan = plan;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	return r;
}

static struct lab_result quiet_run_ranks(uint64_t seed, uint32_t gpus, uint32_t quiet,
					 const char *plan)
{
	return quiet_run_env(seed, gpus, quiet, plan, quiet_env);
}

static struct lab_result quiet_run(uint64_t seed, uint32_t quiet, const char *plan)
{
	return quiet_run_ranks(seed, 2, quiet, plan);
}

/* Seeds 4, 7 and 14 send the notice in pieces. The mutant remote_error_not_told, which sends no
 * notice, fails this check. */
START_TEST(the_other_end_learns_of_a_failure_though_nobody_asks)
{
	for (uint64_t seed = 1; seed <= QUIET_SEEDS; seed++) {
		struct lab_result r =
			quiet_run(seed, 1, "verbs.cqe rank=0 nth=2 error status=GENERAL_ERR\n");

		ck_assert_msg(r.verdict == SIM_PASS, "seed %d: %s: %s", (int)seed, r.failure.kind,
			      r.failure.message);
		ck_assert_int_ne(r.error, ncclSuccess);
		ck_assert_uint_eq(r.fired, 1);
	}
}
END_TEST

/* The receiver's flush fails after the sender's last write has completed: the sender has no further
 * work on this connection, but its kernel waits for a message that the receiver will never send. */
START_TEST(an_end_that_is_done_learns_of_a_failure_too)
{
	uint32_t fired = 0;

	for (uint32_t nth = 1; nth <= 24; nth++) {
		char plan[64];
		struct lab_result r;

		snprintf(plan, sizeof plan, "verbs.cqe rank=0 nth=%u error\n", nth);
		r = quiet_run_ranks(nth, 1, 1, plan);
		ck_assert_msg(r.verdict == SIM_PASS, "nth=%d: %s: %s", (int)nth, r.failure.kind,
			      r.failure.message);
		ck_assert_uint_lt(r.virtual_ns, 60000000000ull);
		fired += (uint32_t)r.fired;
	}
	ck_assert_uint_ge(fired, 12);
}
END_TEST

/* A socket between hosts fails at the quiet rank alone, or breaks: in the middle of a message,
 * between two, or with nothing under way. */
START_TEST(the_other_end_of_a_socket_learns_of_a_failure_too)
{
	uint32_t fired = 0;

	for (uint32_t nth = 1; nth <= 40; nth++) {
		char plan[64];
		struct lab_result r;

		snprintf(plan, sizeof plan, "os.socket rank=0 channel=0 nth=%u %s\n", nth,
			 _i ? "fail" : "reset");
		r = quiet_run_env(nth, 1 + nth % 2, 1, plan, quiet_socket_env);
		ck_assert_msg(r.verdict == SIM_PASS, "nth=%d: %s: %s", (int)nth, r.failure.kind,
			      r.failure.message);
		fired += (uint32_t)r.fired;
	}
	ck_assert_uint_ge(fired, 12);
}
END_TEST

/* The call fails, so there is no completion, and the queue pair itself is well. */
static const char *const quiet_calls[] = {"verbs.poll_cq", "verbs.post_send", "verbs.post_recv"};

START_TEST(the_other_end_learns_of_a_verbs_call_that_fails)
{
	uint32_t fired = 0;

	for (uint32_t nth = 1; nth <= 24; nth++) {
		char plan[64];
		struct lab_result r;

		snprintf(plan, sizeof plan, "%s rank=0 nth=%u fail\n", quiet_calls[_i], nth);
		r = quiet_run_ranks(nth, 1, 1, plan);
		ck_assert_msg(r.verdict == SIM_PASS, "nth=%d: %s: %s", (int)nth, r.failure.kind,
			      r.failure.message);
		ck_assert_uint_lt(r.virtual_ns, 60000000000ull);
		fired += (uint32_t)r.fired;
	}
	ck_assert_uint_ge(fired, 12);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("a quiet rank");
	TCase *t = tcase_create("lab runs");

	tcase_add_test(t, the_other_end_learns_of_a_failure_though_nobody_asks);
	tcase_add_test(t, an_end_that_is_done_learns_of_a_failure_too);
	tcase_add_loop_test(t, the_other_end_of_a_socket_learns_of_a_failure_too, 0, 2);
	tcase_add_loop_test(t, the_other_end_learns_of_a_verbs_call_that_fails, 0,
			    (int)(sizeof quiet_calls / sizeof quiet_calls[0]));
	suite_add_tcase(s, t);
	return suite_run(s);
}
