/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scheduling points: what a task may miss between a look and the wait that follows it is missed in
 * some seed, and what is in the right order is missed in none.
 */
#include "core/os/os.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_child.h"

enum { SEEDS = 200 };

static bool there, count_first; /* not a shared word: only the count shows it */
static int started;

static void poster_main(void *arg)
{
	os_sleep_ns(100);
	there = true;
	os_event_post(&there);
}

static void waiter_main(void *arg)
{
	for (;;) {
		uint64_t seq = count_first ? os_event_seq(&there) : 0;

		if (there)
			return;
		if (!count_first)
			seq = os_event_seq(&there);
		const struct wait w = {
			.on = &there,
			.want = seq,
			.kind = WAIT_OBJECT,
			.why = "something to come",
			.from = {-1, -1, -1, NULL},
		};
		(void)os_wait_one(&w, NULL);
	}
}

static void lost_wake_main(void *arg)
{
	const struct os_thread_attr attr = {.name = "poster", .rank = -1};
	struct os_thread *t;

	if (os_thread_start(&t, &attr, poster_main, NULL))
		abort();
	os_sleep_ns(100);
	waiter_main(NULL);
	os_thread_join(t);
}

static void starter_main(void *arg)
{
	*(int *)arg = started;
}

/* The new task reads the word that its creator sets right after the start. */
static void start_main(void *arg)
{
	const struct os_thread_attr attr = {.name = "new", .rank = -1};
	struct os_thread *t;
	int seen = -1;

	started = 0;
	if (os_thread_start(&t, &attr, starter_main, &seen))
		abort();
	started = 1;
	os_thread_join(t);
	if (!seen)
		sim_fail(SIM_WRONG_RESULT, "the new task was first");
}

static int failures(void (*fn)(void *), int verdict)
{
	int n = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_config c = {.seed = seed, .strategy = SIM_UNIFORM};
		int rc = child_run(c, fn, NULL);

		ck_assert(rc == SIM_PASS || rc == verdict);
		n += rc != SIM_PASS;
	}
	return n;
}

START_TEST(a_count_that_is_taken_after_the_look_loses_a_wake_up)
{
	count_first = false;
	ck_assert_int_gt(failures(lost_wake_main, SIM_NO_PROGRESS), 0);
}
END_TEST

START_TEST(a_count_that_is_taken_before_the_look_loses_none)
{
	count_first = true;
	ck_assert_int_eq(failures(lost_wake_main, SIM_NO_PROGRESS), 0);
}
END_TEST

START_TEST(a_new_task_may_run_before_its_maker_goes_on)
{
	int n = failures(start_main, SIM_WRONG_RESULT);

	ck_assert_int_gt(n, 0);
	ck_assert_int_lt(n, SEEDS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_points");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_count_that_is_taken_after_the_look_loses_a_wake_up);
	tcase_add_test(t, a_count_that_is_taken_before_the_look_loses_none);
	tcase_add_test(t, a_new_task_may_run_before_its_maker_goes_on);
	suite_add_tcase(s, t);
	return suite_run(s);
}
