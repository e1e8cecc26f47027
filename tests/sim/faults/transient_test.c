/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank fails or dies while its process makes and uses communicators of some of the ranks; and one
 * task that drives all ranks of a process aborts them all after a failure, one after the other.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/run/runner.h"
#include "tests/sample.h"
#include "tests/suite.h"

static const char *const env[] = {"NCCL_MAX_NCHANNELS=2", "NCCL_BUFFSIZE=65536", NULL};

struct outcomes {
	uint32_t fired, recovered;
};

static struct lab_config world_of(uint64_t seed)
{
	struct lab_config c;

	lab_config_default(&c);
	c.hosts = 2;
	c.gpus = 2;
	c.env = env;
	c.bytes_min = c.bytes_max = 4000 + 4 * seed;
	c.errors_allowed = c.recover = true;
	c.sim.seed = seed;
	c.sim.heal_ns = 100000000;
	return c;
}

static void run_with(struct lab_config *c, const char *plan, struct outcomes *sum)
{
	struct lab_result r;

	c->sim.fault_plan = plan;
	c->sim.fault_plan_name = "test";
	ck_assert_int_eq(lab_run(c, &r), 0);
	ck_assert_msg(r.verdict == SIM_PASS && !r.failed, "seed %d, %s: %s", (int)c->sim.seed, plan,
		      r.failure.message);
	sum->fired += r.fired > 0;
	sum->recovered += r.recovered;
}

START_TEST(a_rank_that_fails_leaves_no_rank_in_a_transient_communicator)
{
	static const char *const what[] = {"os.task rank=1 nth=%d kill\n",
					   "cuda.any rank=0 nth=%d fail\n",
					   "verbs.cqe rank=2 nth=%d error\n"};
	struct outcomes sum = {0};

	for (uint64_t seed = 1; seed <= 24; seed += SAMPLE_THIN) {
		struct lab_config c = world_of(seed);
		char plan[96];

		c.transient = 2;
		snprintf(plan, sizeof plan, what[seed % 3],
			 (int)(seed % 3 == 0 ? 500 + 60 * seed : 2 + 2 * seed));
		run_with(&c, plan, &sum);
	}
	ck_assert_uint_ge(sum.fired, 12 / SAMPLE_THIN);
	ck_assert_uint_ge(sum.recovered, 12 / SAMPLE_THIN);
}
END_TEST

START_TEST(one_task_aborts_all_ranks_of_its_process)
{
	struct outcomes sum = {0};

	for (uint64_t seed = 1; seed <= 24; seed += SAMPLE_THIN) {
		struct lab_config c = world_of(seed);
		char plan[96];

		c.gpus = 3;
		c.drive = LAB_DRIVE_PROCESS;
		c.ranks_per_proc = 3;
		c.comms = 1 + seed % 2;
		snprintf(plan, sizeof plan, "cuda.any rank=%d nth=%d fail\n", (int)(seed % 6),
			 (int)(1 + 4 * seed));
		run_with(&c, plan, &sum);
	}
	ck_assert_uint_ge(sum.fired, 12 / SAMPLE_THIN);
	ck_assert_uint_ge(sum.recovered, 12 / SAMPLE_THIN);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transient");
	TCase *t = tcase_create("transient");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_rank_that_fails_leaves_no_rank_in_a_transient_communicator);
	tcase_add_test(t, one_task_aborts_all_ranks_of_its_process);
	suite_add_tcase(s, t);
	return suite_run(s);
}
