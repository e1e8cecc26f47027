/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of tasks, background tasks, a debugger, rare paths. */
#include "tests/unit/engine/engine_ping.h"

/* ---- kill ----------------------------------------------------------------------------------- */

static void kill_waits(void *arg)
{
	static shared_u32 never;
	struct wait w = wait_test_word(&never, WAIT_EQ, 1);

	os_wait_one(&w, NULL);
	ck_abort_msg("a killed task ran");
}

static void kill_sleeps(void *arg)
{
	os_sleep_ns(1000);
	ck_abort_msg("a killed task ran");
}

static void kill_polls(void *arg)
{
	for (int i = 0; i < 1000; i++)
		os_poll_miss("nothing");
	ck_abort_msg("a killed task ran");
}

static void kill_never_ran(void *arg)
{
	ck_abort_msg("a killed task ran");
}

static void kill_main(void *arg)
{
	static struct os_proc victim = {.id = 1, .name = "victim"};
	static void (*const fn[])(void *) = {kill_waits, kill_sleeps, kill_polls, kill_never_ran};
	struct sim_task *t[4];

	for (int i = 0; i < 4; i++) {
		const struct sim_task_attr a = {.name = "victim", .proc = &victim, .rank = 1};

		if (i == 3)
			os_sleep_ns(500);
		ck_assert_int_eq(sim_task_spawn(&t[i], &a, fn[i], NULL), 0);
	}
	sim_kill_proc(&victim);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(t[i]->state, SIM_TASK_KILLED);
		ck_assert_int_eq(os_thread_join((struct os_thread *)t[i]), 0);
	}
	os_sleep_ns(100000);
}

START_TEST(killed_tasks_run_no_more)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, kill_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

/* ---- background ----------------------------------------------------------------------------- */

static void background_beats(void *arg)
{
	for (;;)
		os_sleep_ns(1000);
}

static void background_main(void *arg)
{
	const struct os_thread_attr a = {.name = "beat", .rank = -1, .background = true};
	struct os_thread *t;

	ck_assert_int_eq(os_thread_start(&t, &a, background_beats, NULL), 0);
	os_sleep_ns(10000);
}

START_TEST(background_tasks_do_not_keep_a_run_alive)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, background_main, NULL), SIM_PASS);
	ck_assert_uint_eq(sim_now_ns(), 10000);
	sim_stop();
}
END_TEST

static void orphan(void *arg)
{
	os_sleep_ns(70000);
	*(bool *)arg = true;
}

static void orphans_main(void *arg)
{
	spawn("orphan", 0, orphan, arg);
}

START_TEST(run_waits_for_all_foreground_tasks)
{
	struct sim_config c = fifo();
	bool ran = false;

	ck_assert_int_eq(run_with(&c, orphans_main, &ran), SIM_PASS);
	ck_assert(ran);
	sim_stop();
}
END_TEST

/* ---- gdb ------------------------------------------------------------------------------------ */

START_TEST(limits_of_a_debugger_do_not_change_the_run)
{
	for (uint64_t seed = 1; seed < 10; seed++) {
		uint64_t hash = ping_hash(SIM_PORTFOLIO, seed), steps = 0;

		for (uint64_t at = 1; at < 400; at += 37) {
			sim_gdb_step_limit = at;
			ck_assert_uint_eq(ping_hash(SIM_PORTFOLIO, seed), hash);
			ck_assert_uint_eq(sim_gdb_step_limit, 0); /* it did stop there */
			sim_gdb_until_ns = at * 10;
			ck_assert_uint_eq(ping_hash(SIM_PORTFOLIO, seed), hash);
			ck_assert(!steps || sim_gdb_steps == steps);
			steps = sim_gdb_steps;
		}
	}
}
END_TEST

/* ---- buggify and the spurious compare-and-swap ------------------------------------------------
 */

static void rare_main(void *arg)
{
	uint32_t *count = arg, expect = 0;
	static shared_u32 word;

	for (int i = 0; i < 400; i++) {
		count[0] += OS_BUGGIFY("test.rare", "of this test");
		shared_store_u32(&word, 0, SHARED_RELEASE);
		expect = 0;
		count[1] += !shared_cas_weak_u32(&word, &expect, 1, SHARED_ACQ_REL);
	}
}

static struct sim_buggify_stat rare_stat(void)
{
	const struct sim_buggify_stat *stats;
	uint32_t n = sim_buggify_stats(&stats);

	for (uint32_t i = 0; i < n; i++)
		if (strcmp(stats[i].name, "test.rare") == 0)
			return stats[i];
	return (struct sim_buggify_stat){0};
}

START_TEST(rare_paths_are_taken_in_some_seeds_and_never_under_fifo)
{
	struct sim_config c = fifo();
	uint32_t seeds[2] = {0, 0}, count[2] = {0, 0};

	ck_assert_int_eq(run_with(&c, rare_main, count), SIM_PASS);
	sim_stop();
	ck_assert_uint_eq(count[0] + count[1], 0);
	ck_assert_uint_eq(rare_stat().visits, 0);
	for (c.seed = 0; c.seed < 40; c.seed++) {
		memset(count, 0, sizeof count);
		c.strategy = SIM_PORTFOLIO;
		ck_assert_int_eq(run_with(&c, rare_main, count), SIM_PASS);
		sim_stop();
		ck_assert_uint_eq(rare_stat().visits, 400);
		ck_assert_uint_eq(rare_stat().hits, count[0]);
		seeds[0] += count[0] != 0;
		seeds[1] += count[1] != 0;
	}
	ck_assert_uint_ge(seeds[0], 3);
	ck_assert_uint_le(seeds[0], 25);
	ck_assert_uint_ge(seeds[1], 15);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_sim");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, killed_tasks_run_no_more);
	tcase_add_test(t, background_tasks_do_not_keep_a_run_alive);
	tcase_add_test(t, run_waits_for_all_foreground_tasks);
	tcase_add_test(t, limits_of_a_debugger_do_not_change_the_run);
	tcase_add_test(t, rare_paths_are_taken_in_some_seeds_and_never_under_fifo);
	suite_add_tcase(s, t);
	return suite_run(s);
}
