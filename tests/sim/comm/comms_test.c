/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several communicators of the same ranks: in turns and from one group, in one stream and in
 * several; what a rank that fails in one of them means for the others.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/run/runner.h"
#include "tests/suite.h"

static const char *const env[] = {"NCCL_MAX_NCHANNELS=2", "NCCL_BUFFSIZE=65536", NULL};

static void comms_config(struct lab_config *c, uint64_t seed)
{
	lab_config_default(c);
	c->hosts = 1 + seed % 2;
	c->gpus = 2;
	c->ranks_per_proc = seed % 4 < 2 ? 1 : LAB_ALL_RANKS;
	c->env = env;
	c->bytes_min = c->bytes_max = 4000 + 4 * seed;
	c->comms = 2 + (uint32_t)(seed / 2 % 2);
	c->sim.seed = seed;
}

START_TEST(communicators_take_turns_and_run_at_the_same_time)
{
	static const uint32_t groups[] = {0, 2, 6}, streams[] = {0, 2, 3};

	for (uint64_t seed = 1; seed <= 36; seed++) {
		struct lab_config c;
		struct lab_result r;

		comms_config(&c, seed);
		c.group = groups[seed % 3];
		c.streams = streams[seed / 3 % 3];
		c.iterations = 1 + (uint32_t)(seed / 9 % 2);
		c.hasty = seed % 5 == 0;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_msg(r.verdict == SIM_PASS && !r.failed && r.error == ncclSuccess,
			      "seed %d: %s", (int)seed, r.failure.message);
		ck_assert_uint_eq(r.operations, 2);
	}
}
END_TEST

/* One rank sleeps in its inits, for longer than the watches of the others wait between two
 * looks. */
START_TEST(an_init_that_takes_long_is_no_failure)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct lab_config c;
		struct lab_result r;
		char plan[96];

		comms_config(&c, seed);
		c.group = seed % 3 ? 0 : 4;
		snprintf(plan, sizeof plan, "os.task rank=1 nth=%d starve by=30ms\n",
			 (int)(16 * seed));
		c.sim.fault_plan = plan;
		c.sim.fault_plan_name = "test";
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_msg(r.verdict == SIM_PASS && !r.failed && r.error == ncclSuccess,
			      "seed %d: %s", (int)seed, r.failure.message);
		ck_assert_uint_eq(r.operations, 2);
	}
}
END_TEST

/* Wherever a rank dies or fails, all of its communicators end, and a new one can be made. */
START_TEST(a_rank_that_fails_ends_all_of_its_communicators)
{
	uint32_t fired = 0, recovered = 0;

	for (uint64_t seed = 1; seed <= 48; seed++) {
		struct lab_config c;
		struct lab_result r;
		char plan[96];

		comms_config(&c, seed);
		c.group = seed % 3 ? 0 : 4;
		snprintf(plan, sizeof plan, "%s nth=%d %s\n",
			 seed % 2 ? "os.task rank=1" : "cuda.any rank=0", (int)(7 * seed),
			 seed % 2 ? "kill" : "fail");
		c.errors_allowed = c.recover = true;
		c.sim.fault_plan = plan;
		c.sim.fault_plan_name = "test";
		c.sim.heal_ns = 100000000;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_msg(r.verdict == SIM_PASS && !r.failed, "seed %d: %s", (int)seed,
			      r.failure.message);
		fired += r.fired > 0;
		recovered += r.recovered;
	}
	ck_assert_uint_gt(fired, 20);
	ck_assert_uint_gt(recovered, 20);
}
END_TEST

/* A rank that is dead before its group's inits: the root of each id goes, not only the last
 * one's. */
START_TEST(a_group_that_fails_keeps_no_root)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct lab_config c;
		struct lab_result r;

		comms_config(&c, seed);
		c.hosts = 1;
		c.ranks_per_proc = 1;
		c.group = 5;
		c.sim.fault_plan = "os.task rank=1 after=1us kill\n";
		c.sim.fault_plan_name = "test";
		c.errors_allowed = true;
		ck_assert_int_eq(lab_run(&c, &r), 0);
		ck_assert_msg(r.verdict == SIM_PASS && r.leaks == 0 && r.fired == 1,
			      "seed %d: %d leaks, %d fired: %s", (int)seed, (int)r.leaks,
			      (int)r.fired, r.failure.message);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("several communicators");
	TCase *t = tcase_create("comms");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, communicators_take_turns_and_run_at_the_same_time);
	tcase_add_test(t, an_init_that_takes_long_is_no_failure);
	tcase_add_test(t, a_rank_that_fails_ends_all_of_its_communicators);
	tcase_add_test(t, a_group_that_fails_keeps_no_root);
	suite_add_tcase(s, t);
	return suite_run(s);
}
