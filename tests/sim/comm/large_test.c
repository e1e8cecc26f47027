/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that are too large to be kept whole: each rank reduces the pieces that it checks, and a
 * run that is in place alone has no send buffers. Here a result is large from 4,097 bytes on.
 */
#include <check.h>
#include <string.h>

#include "sim/lab/check/collective.h"
#include "sim/lab/run/runner.h"
#include "tests/suite.h"

static struct lab_config large(const char *collective)
{
	struct lab_config c;

	lab_config_default(&c);
	c.hosts = 2;
	c.gpus = 2;
	c.collective = lab_collective_find(collective, strlen(collective));
	c.bytes_min = c.bytes_max = 700001;
	c.types[0] = ncclInt8;
	c.whole_result_bytes = 4096;
	ck_assert_ptr_nonnull(c.collective);
	return c;
}

static const char *const large_reduced[] = {"all_reduce", "reduce_scatter", "reduce"};

START_TEST(large_results_are_right_in_either_place)
{
	struct lab_config c = large(large_reduced[_i / 2]);
	struct lab_result r;

	c.out_of_place = _i % 2;
	ck_assert_int_eq(lab_run(&c, &r), 0);
	ck_assert_int_eq(r.verdict, SIM_PASS);
	ck_assert_uint_eq(r.operations, 1 + c.out_of_place);
}
END_TEST

/* A byte changes in the network: a large result, which is checked in parts, has the same wrong
 * elements as one that is checked as a whole. */
START_TEST(a_wrong_element_of_a_large_result_is_found)
{
	struct lab_config c = large("all_reduce");
	struct lab_result pieces, whole;

	c.in_place = false;
	c.sim.strategy = SIM_FIFO;
	c.sim.fault_plan = "fabric.packet rank=2 peer=0 channel=0 nth=3 count=9 corrupt "
			   "undetected=1\n";
	c.sim.fault_plan_name = "test";
	ck_assert_int_eq(lab_run(&c, &pieces), 0);
	ck_assert_int_eq(pieces.verdict, SIM_WRONG_RESULT);
	ck_assert_uint_gt(pieces.wrong, 0);
	c.whole_result_bytes = 0;
	ck_assert_int_eq(lab_run(&c, &whole), 0);
	ck_assert_uint_eq(pieces.wrong, whole.wrong);
	ck_assert_str_eq(pieces.explanation, whole.explanation);
	ck_assert_uint_eq(pieces.hash, whole.hash);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("large");
	TCase *t = tcase_create("large");

	tcase_add_loop_test(t, large_results_are_right_in_either_place, 0,
			    2 * (int)(sizeof large_reduced / sizeof large_reduced[0]));
	tcase_add_test(t, a_wrong_element_of_a_large_result_is_found);
	suite_add_tcase(s, t);
	return suite_run(s);
}
