/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine `sim`: what a wait waits for, what wakes it, and polls that find nothing. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_tasks.h"

/* ---- waits ---------------------------------------------------------------------------------- */

static void waits_main(void *arg)
{
	static shared_u32 word, abort_word;
	static shared_u64 wide;
	static uint32_t line[4] __attribute__((aligned(16)));
	static int object;
	struct wait w = wait_test_word(&word, WAIT_GE, 1), two[3];
	const struct wait *list[3] = {&two[0], &two[1], &two[2]};
	int index = -1;

	/* a deadline passes in virtual time, exactly then */
	w.deadline_ns = os_now_ns() + 5000;
	ck_assert_int_eq(os_wait_one(&w, NULL), ETIMEDOUT);
	ck_assert_uint_eq(os_now_ns(), w.deadline_ns);
	/* abort comes before a wait that is true */
	shared_store_u32(&word, 1, SHARED_RELEASE);
	shared_store_u32(&abort_word, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, &abort_word), ECANCELED);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_int_eq(os_wait(NULL, 0, &abort_word, NULL), ECANCELED);
	/* the first true one of the array; masks; 64 bits; lines; objects */
	shared_store_u64(&wide, 0xff00000000000000ull, SHARED_RELEASE);
	two[0] = wait_test_word(&word, WAIT_NE, 1);
	two[1] = (struct wait){.on = &wide,
			       .want = 0xf000000000000000ull,
			       .mask = 0xf000000000000000ull,
			       .kind = WAIT_EQ,
			       .bytes = 8,
			       .why = "wide"};
	two[2] = wait_test_word(&word, WAIT_EQ, 1);
	ck_assert_int_eq(os_wait(list, 3, NULL, &index), 0);
	ck_assert_int_eq(index, 1);
	/* a counter that has overflowed is beyond the wanted value; one before it is not */
	w = wait_test_word(&word, WAIT_GE_CYCLIC, UINT32_MAX - 1);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	w.want = 2;
	w.deadline_ns = os_now_ns() + 10;
	ck_assert_int_eq(os_wait_one(&w, NULL), ETIMEDOUT);
	line[1] = line[3] = 9;
	const struct wait l = {
		.on = line, .want = 9, .mask = WAIT_MASK_ALL, .kind = WAIT_LINE16, .why = "line"};
	ck_assert_int_eq(os_wait_one(&l, NULL), 0);
	const struct wait o = {
		.on = &object, .want = os_event_seq(&object), .kind = WAIT_OBJECT, .why = "object"};
	os_event_post(&object);
	ck_assert_int_eq(os_wait_one(&o, NULL), 0);
}

START_TEST(waits_follow_their_contract)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, waits_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

static struct {
	shared_u32 abort;
	char range[1 << 16];
	int woken;
} wakes;

static void wake_by_abort(void *arg)
{
	static shared_u32 never;
	struct wait w = wait_test_word(&never, WAIT_EQ, 1);

	ck_assert_int_eq(os_wait_one(&w, &wakes.abort), ECANCELED);
	wakes.woken++;
}

static void wake_by_range(void *arg)
{
	struct wait w = wait_test_word((shared_u32 *)(void *)&wakes.range[(uintptr_t)arg * 4096],
				       WAIT_EQ, 0x01010101);

	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	wakes.woken++;
}

static void wakes_main(void *arg)
{
	struct os_thread *t[10];

	t[0] = spawn("by abort", 0, wake_by_abort, NULL);
	for (int i = 1; i < 10; i++)
		t[i] = spawn("by range", i, wake_by_range, (void *)(uintptr_t)i);
	os_sleep_ns(100);
	ck_assert_int_eq(wakes.woken, 0);
	shared_store_u32(&wakes.abort, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_thread_join(t[0]), 0);
	ck_assert_int_eq(wakes.woken, 1);
	memset(wakes.range, 1, sizeof wakes.range);
	sim_wrote(wakes.range, sizeof wakes.range);
	for (int i = 1; i < 10; i++)
		ck_assert_int_eq(os_thread_join(t[i]), 0);
	ck_assert_int_eq(wakes.woken, 10);
}

/* A line that something wrote which reports no write, as a system call does. */
static uint64_t wake_line[2] __attribute__((aligned(16)));

static void wake_by_line(void *arg)
{
	const struct wait w = {.on = wake_line, .want = 7, .kind = WAIT_LINE16, .why = "line"};

	(void)arg;
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static void wake_line_main(void *arg)
{
	struct os_thread *t = spawn("by line", 0, wake_by_line, NULL);

	os_sleep_ns(100);
	wake_line[0] = wake_line[1] = 7ull << 32;
	ck_assert_uint_eq(shared_lines_ready(wake_line, 1, 7), 1);
	ck_assert_uint_eq(shared_lines_ready(wake_line, 1, 8), 0);
	wake_line[1] = 6ull << 32;
	ck_assert_uint_eq(shared_lines_ready(wake_line, 1, 7), 0);
	wake_line[1] = 7ull << 32;
	shared_lines_wrote(wake_line, sizeof wake_line);
	ck_assert_int_eq(os_thread_join(t), 0);
}

START_TEST(lines_that_came_unreported_wake_when_they_are_reported)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, wake_line_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

START_TEST(abort_words_and_ranges_wake)
{
	struct sim_config c = fifo();

	ck_assert_int_eq(run_with(&c, wakes_main, NULL), SIM_PASS);
	sim_stop();
}
END_TEST

/* ---- polls ---------------------------------------------------------------------------------- */

static void poll_setter(void *arg)
{
	shared_u32 *flag = arg;

	os_sleep_ns(50000000);
	shared_store_u32(flag, 1, SHARED_RELEASE);
}

static void poll_main(void *arg)
{
	static shared_u32 flag;
	struct os_thread *t = spawn("setter", 0, poll_setter, &flag);
	int misses = 0;

	while (!shared_load_u32(&flag, SHARED_ACQUIRE)) {
		os_poll_miss("flag");
		misses++;
	}
	os_poll_hit();
	/* asleep while nothing changed: a handful of polls, not thousands */
	ck_assert_int_le(misses, 20);
	ck_assert_int_eq(os_thread_join(t), 0);
}

START_TEST(fruitless_polls_wait_for_a_change)
{
	static const enum sim_strategy all[] = {SIM_FIFO, SIM_PORTFOLIO, SIM_UNIFORM, SIM_PCT,
						SIM_STARVE};

	for (size_t s = 0; s < ARRAY_LEN(all); s++) {
		struct sim_config c = fifo();

		c.strategy = all[s];
		ck_assert_int_eq(run_with(&c, poll_main, NULL), SIM_PASS);
		sim_stop();
	}
}
END_TEST

static void turns_setter(void *arg)
{
	shared_u32 *word = arg;

	for (uint32_t i = 1; i <= 2; i++) { /* of no interest, but changes: each ends one miss */
		os_sleep_ns(25000000);
		shared_store_u32(&word[0], i, SHARED_RELEASE);
	}
	os_sleep_ns(50000);
	shared_store_u32(&word[1], 1, SHARED_RELEASE);
}

/* Until it is no longer needed, in steps of `ns`, by a sleep or by a wait. */
struct turns {
	uint64_t ns;
	bool waits;
	shared_u32 word[2], done;
};

static void turns_sleeper(void *arg)
{
	struct turns *c = arg;
	struct wait w = wait_test_word(&c->done, WAIT_EQ, 1);

	while (!shared_load_u32(&c->done, SHARED_ACQUIRE)) {
		w.deadline_ns = os_now_ns() + c->ns;
		if (c->waits)
			(void)os_wait_one(&w, NULL);
		else
			os_sleep_ns(c->ns);
	}
}

static void turns_main(void *arg)
{
	struct turns *c = arg;
	struct os_thread *setter = spawn("setter", 0, turns_setter, c->word);
	struct os_thread *sleeper = spawn("sleeper", 0, turns_sleeper, c);

	while (!shared_load_u32(&c->word[1], SHARED_ACQUIRE)) {
		os_sleep_ns(100000); /* it changes here, after the look and before the miss */
		os_poll_miss("the word");
		os_poll_miss("something else");
	}
	os_poll_hit();
	ck_assert_uint_lt(os_now_ns(), 1000000000);
	shared_store_u32(&c->done, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_thread_join(setter), 0);
	ck_assert_int_eq(os_thread_join(sleeper), 0);
}

START_TEST(a_poller_of_two_things_looks_again_before_much_time_passes)
{
	/* in one step, and in many that are each too short for a look */
	static const uint64_t ns[] = {10000000000, 50000000, 1000000};
	struct sim_config c = fifo();
	struct turns turns = {.ns = ns[_i / 2], .waits = _i % 2};

	ck_assert_int_eq(run_with(&c, turns_main, &turns), SIM_PASS);
	sim_stop();
}
END_TEST

/* A program's loop, with a limit of its own. Other tasks wait without end, as those of a
 * communicator do. */
static void program_waits(void *arg)
{
	struct wait w = wait_test_word(arg, WAIT_EQ, 1);

	(void)os_wait_one(&w, NULL);
}

static void program_counts(void *arg)
{
	static shared_u32 word;
	struct os_thread *t = spawn("waits", 0, program_waits, &word);

	(void)arg;
	for (int i = 0; i < 20000; i++)
		os_poll_miss("nothing");
	ck_assert_uint_gt(os_now_ns(), 1000000000); /* the later polls are far apart */
	shared_store_u32(&word, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_thread_join(t), 0);
}

static void program_reads_clock(void *arg)
{
	uint64_t end = os_now_ns() + 10000000000, n = 0;

	(void)arg;
	while (os_now_ns() < end)
		os_poll_miss("nothing");
	end = os_now_ns() + 1000000000;
	while (sim_clock_read() < end)
		n++;
	ck_assert_uint_lt(n, 200000);
}

static void program_sleeps(void *arg)
{
	uint64_t begin = os_now_ns();

	(void)arg;
	for (int i = 0; i < 7200; i++) {
		os_poll_miss("nothing");
		os_sleep_ns(1000000000);
	}
	/* no poll has added to its pauses */
	ck_assert_uint_lt(os_now_ns() - begin, 7201000000000);
}

static void program_polls_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		os_poll_miss("nothing");
}

START_TEST(a_program_polls_up_to_its_own_limit)
{
	static void (*const fn[])(void *) = {program_counts, program_reads_clock, program_sleeps};
	struct sim_config c = fifo();

	c.programs = true;
	ck_assert_int_eq(run_with(&c, fn[_i], NULL), SIM_PASS);
	sim_stop();
}
END_TEST

START_TEST(a_program_that_polls_for_ever_is_a_livelock)
{
	struct sim_config c = fifo();

	c.programs = true;
	ck_assert_int_eq(run_with(&c, program_polls_for_ever, NULL), SIM_NO_PROGRESS);
	ck_assert_str_eq(sim_failure()->kind, "livelock");
	sim_stop();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_waits");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, waits_follow_their_contract);
	tcase_add_test(t, abort_words_and_ranges_wake);
	tcase_add_test(t, lines_that_came_unreported_wake_when_they_are_reported);
	tcase_add_test(t, fruitless_polls_wait_for_a_change);
	tcase_add_loop_test(t, a_poller_of_two_things_looks_again_before_much_time_passes, 0, 6);
	tcase_add_loop_test(t, a_program_polls_up_to_its_own_limit, 0, 3);
	tcase_add_test(t, a_program_that_polls_for_ever_is_a_livelock);
	suite_add_tcase(s, t);
	return suite_run(s);
}
