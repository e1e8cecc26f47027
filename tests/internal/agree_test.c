/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments in which all ranks of a communicator must agree, without those that the collectives'
 * tests check. */
#include <check.h>
#include <string.h>

#include "core/base/log.h"
#include "core/plan/plan_internal.h"
#include "sim/engine/sim.h"
#include "sim/world/world.h"
#include "tests/suite.h"

static void agree_main(void *arg)
{
	static struct ncclComm comm[2] = {{.id_hash = 0xabc, .rank = 0},
					  {.id_hash = 0xabc, .rank = 1}};
	struct plan_task t = {.call = "ncclBroadcast",
			      .name = "broadcast",
			      .caller = __builtin_return_address(0),
			      .count = 7,
			      .type = ncclFloat16,
			      .root = 3};
	(void)arg;
	ck_assert_int_eq(plan_agree(&comm[0], &t), ncclSuccess);
	ck_assert_int_eq(plan_agree(&comm[1], &t), ncclSuccess);
	t.root = 2;
	ck_assert_int_eq(plan_agree(&comm[1], &t), ncclInvalidUsage);
	const char *said = log_last_error();
	ck_assert_ptr_nonnull(strstr(said, "ranks 1 and 0 disagree on operation 0 of communicator "
					   "abc: rank 1 called broadcast count=7 type=half "
					   "root=2 at "));
	ck_assert_ptr_nonnull(strstr(said, "rank 0 called broadcast count=7 type=half root=3 at "));
	/* one takes back what it called: the other's stands; then nobody's does */
	t.root = 3;
	plan_agree_not(&comm[0], &t);
	t.root = 2;
	ck_assert_int_eq(plan_agree(&comm[0], &t), ncclInvalidUsage);
	ck_assert_ptr_nonnull(strstr(log_last_error(), "rank 1 called broadcast"));
	t.root = 3;
	plan_agree_not(&comm[1], &t);
	t.root = 2;
	ck_assert_int_eq(plan_agree(&comm[0], &t), ncclSuccess);
	ck_assert_int_eq(plan_agree(&comm[1], &t), ncclSuccess);
	/* the root of another operation, and of another communicator */
	t.op_count = 1;
	ck_assert_int_eq(plan_agree(&comm[1], &t), ncclSuccess);
	t.op_count = 0;
	comm[1].id_hash = 0xabd;
	ck_assert_int_eq(plan_agree(&comm[1], &t), ncclSuccess);
}

START_TEST(ranks_agree_on_the_root)
{
	const struct sim_config sim = {.seed = 1};
	const struct world_config world = {.hosts = 1, .machine = "h100-8nic"};
	ck_assert_int_eq(sim_start(&sim), 0);
	ck_assert_int_eq(world_create(&world), 0);
	ck_assert_int_eq(sim_run(agree_main, NULL), SIM_PASS);
	ck_assert_uint_eq(world_destroy(), 0);
	sim_stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agree");
	TCase *t = tcase_create("agree");
	tcase_add_test(t, ranks_agree_on_the_root);
	suite_add_tcase(s, t);
	return suite_run(s);
}
