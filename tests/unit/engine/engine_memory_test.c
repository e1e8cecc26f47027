/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory-order adversary, by litmus tests: each shape runs under many seeds; the outcome that
 * the order used forbids is never seen, and the one that it allows is seen in some. Between host
 * threads; those of warps are in engine_memory_warps_test.c.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/shared.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/sim.h"
#include "tests/suite.h"
#include "tests/unit/engine/engine_litmus.h"

/* ---- message passing between host threads --------------------------------------------------- */

static void mp_writer(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	if (how.fence != SHARED_RELAXED)
		shared_fence(how.fence);
	if (how.rmw)
		shared_add_u64(&m.flag, 1, how.store);
	else
		shared_store_u64(&m.flag, 1, how.store);
	linger();
}

static void mp_reader(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	m.bad = shared_load_u64(&m.x, SHARED_RELAXED) != 1;
}

static void mp(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", mp_writer), *r = host("reader", mp_reader);

	os_thread_join(w);
	os_thread_join(r);
	if (shared_load_u64(&m.x, SHARED_RELAXED) != 1 || m.flag.v_ != 1)
		m.bad = true; /* the end of a task shows what it stored */
}

START_TEST(message_passing_breaks_without_release_only)
{
	how.store = SHARED_RELAXED;
	expect_some(mp);
	how.rmw = true;
	expect_some(mp);
	how.store = SHARED_ACQUIRE;
	expect_some(mp);
	how.fence = SHARED_ACQUIRE;
	expect_some(mp);
	how.fence = SHARED_RELEASE;
	expect_never(mp);
	how.rmw = false;
	how.store = SHARED_RELAXED;
	expect_never(mp);
	how.fence = SHARED_RELAXED;
	how.store = SHARED_RELEASE;
	expect_never(mp);
	how.rmw = true;
	expect_never(mp);
}
END_TEST

START_TEST(off_and_fifo_keep_nothing)
{
	how.store = SHARED_RELAXED;
	ck_assert_uint_eq(bad_seeds(SIM_MEMORY_OFF, SIM_PORTFOLIO, mp), 0);
	ck_assert_uint_eq(bad_seeds(SIM_MEMORY_ON, SIM_FIFO, mp), 0);
}
END_TEST

static uint32_t drawn_on;

static void count_on(void *arg)
{
	(void)arg;
	drawn_on += sim_memory_order_on();
}

START_TEST(half_of_the_seeds_draw_it)
{
	bad_seeds(SIM_MEMORY_DRAW, SIM_PORTFOLIO, count_on);
	ck_assert_uint_gt(drawn_on, SEEDS * 2 / 5);
	ck_assert_uint_lt(drawn_on, SEEDS * 3 / 5);
	drawn_on = 0;
	bad_seeds(SIM_MEMORY_DRAW, SIM_FIFO, count_on);
	ck_assert_uint_eq(drawn_on, 0);
}
END_TEST

/* ---- store buffering ------------------------------------------------------------------------ */

static void sb_one(shared_u64 *mine, shared_u64 *other, uint64_t *saw)
{
	shared_store_u64(mine, 1, how.store);
	if (how.fence != SHARED_RELAXED)
		shared_fence(how.fence);
	*saw = shared_load_u64(other, how.load);
	linger();
}

static void sb_left(void *arg)
{
	(void)arg;
	sb_one(&m.x, &m.y, &m.saw[0]);
}

static void sb_right(void *arg)
{
	(void)arg;
	sb_one(&m.y, &m.x, &m.saw[1]);
}

static void sb(void *arg)
{
	(void)arg;
	struct os_thread *l = host("left", sb_left), *r = host("right", sb_right);

	os_thread_join(l);
	os_thread_join(r);
	m.bad = !m.saw[0] && !m.saw[1];
}

START_TEST(store_buffering_needs_seq_cst)
{
	how.store = SHARED_RELEASE;
	how.load = SHARED_ACQUIRE;
	expect_some(sb);
	how.fence = SHARED_SEQ_CST;
	expect_never(sb);
	how.fence = SHARED_RELAXED;
	how.store = how.load = SHARED_SEQ_CST;
	expect_never(sb);
}
END_TEST

/* ---- one location --------------------------------------------------------------------------- */

static void coherence_writer(void *arg)
{
	(void)arg;
	for (uint64_t i = 1; i <= 20; i++) {
		shared_store_u64(&m.x, i, SHARED_RELAXED);
		if (shared_load_u64(&m.x, SHARED_RELAXED) != i)
			m.bad = true; /* its own */
	}
	shared_store_u64(&m.flag, 1, SHARED_RELAXED);
}

static void coherence_reader(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	while (last < 20) {
		uint64_t now = shared_load_u64(&m.x, SHARED_RELAXED);

		if (now < last)
			m.bad = true;
		last = now;
		os_charge(OS_COST_NS, 50);
	}
}

static void coherence(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", coherence_writer);
	struct os_thread *r = host("reader", coherence_reader);

	os_thread_join(w);
	os_thread_join(r);
}

START_TEST(one_location_never_goes_back)
{
	expect_never(coherence);
}
END_TEST

static void overwrite_first(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	shared_store_u64(&m.flag, 1, how.store);
	linger();
}

static void overwrite_second(void *arg)
{
	(void)arg;
	wait_for(&m.flag, 1);
	shared_store_u64(&m.x, 2, SHARED_RELAXED);
}

static void overwrite(void *arg)
{
	(void)arg;
	struct os_thread *a = host("first", overwrite_first), *b = host("second", overwrite_second);

	os_thread_join(a);
	os_thread_join(b);
	m.bad = m.x.v_ != 2;
}

START_TEST(a_late_store_lands_on_a_newer_one_unless_released)
{
	how.store = SHARED_RELAXED;
	expect_some(overwrite);
	how.store = SHARED_RELEASE;
	expect_never(overwrite);
}
END_TEST

/* ---- ranges --------------------------------------------------------------------------------- */

static void range_writer(void *arg)
{
	uint8_t ones[DATA_BYTES];

	(void)arg;
	memset(ones, 1, sizeof ones);
	shared_write(m.range, ones, sizeof ones);
	shared_store_u64(&m.flag, 1, how.store);
	linger();
}

/* Bad is a mixture of old and new; what is torn is a multiple of 8 bytes. */
static void range_reader(void *arg)
{
	uint8_t got[DATA_BYTES];
	uint32_t fresh = 0;

	(void)arg;
	wait_for(&m.flag, 1);
	shared_read(got, m.range, sizeof got);
	for (uint32_t i = 0; i < sizeof got; i++)
		fresh += got[i];
	ck_assert_uint_eq(fresh % 8, 0);
	m.bad = how.store == SHARED_RELEASE ? fresh != DATA_BYTES : fresh && fresh < DATA_BYTES;
}

static void range(void *arg)
{
	(void)arg;
	struct os_thread *w = host("writer", range_writer), *r = host("reader", range_reader);

	os_thread_join(w);
	os_thread_join(r);
}

START_TEST(a_range_is_seen_in_pieces_unless_released)
{
	how.store = SHARED_RELAXED;
	expect_some(range);
	how.store = SHARED_RELEASE;
	expect_never(range);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

static struct os_proc victim = {.name = "victim", .id = 7};

static void victim_main(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	m.saw[0] = 1;
	wait_for(&m.flag, 1); /* without end */
}

static void kill_it(void *arg)
{
	const struct sim_task_attr a = {.name = "victim",
					.kind = SIM_TASK_HOST,
					.proc = &victim,
					.rank = -1,
					.background = true,
					.device = -1};
	struct sim_task *t;

	(void)arg;
	ck_assert_int_eq(sim_task_spawn(&t, &a, victim_main, NULL), 0);
	while (!m.saw[0])
		os_sleep_ns(10);
	m.saw[1] = m.x.v_;
	sim_kill_proc(&victim);
	m.bad = m.x.v_ != 1;
	m.saw[2] += !m.saw[1];
}

START_TEST(what_a_killed_process_stored_is_stored)
{
	expect_never(kill_it);
}
END_TEST

static void fresh(void *arg)
{
	(void)arg;
	shared_store_u64(&m.x, 1, SHARED_RELAXED);
	mem_fresh(&m.x, sizeof m.x); /* freed, and allocated again for another owner */
	uint64_t was = m.x.v_;
	os_sleep_ns(1000000000);
	m.bad = m.x.v_ != was;
}

START_TEST(nothing_lands_in_memory_that_was_freed)
{
	expect_never(fresh);
}
END_TEST

static void stack_word(void *arg)
{
	shared_u64 here = {0};

	(void)arg;
	shared_store_u64(&here, 1, SHARED_RELAXED);
	m.bad = *(volatile uint64_t *)&here.v_ != 1;
}

START_TEST(words_on_stacks_are_not_kept)
{
	expect_never(stack_word);
}
END_TEST

static uint64_t run_recorded(uint64_t seed, const char *in, const char *out,
			     enum sim_memory_order order)
{
	const struct sim_config c = {
		.seed = seed, .choices_in = in, .choices_out = out, .memory_order = order};

	memset(&m, 0, sizeof m);
	ck_assert_int_eq(sim_start(&c), 0);
	ck_assert_int_eq(sim_run(mp, NULL), SIM_PASS);
	uint64_t hash = sim_hash();
	sim_stop();
	return hash;
}

START_TEST(a_replay_repeats_what_was_kept)
{
	char path[] = "/tmp/doppel-memory-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	how.store = SHARED_RELAXED;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t hash = run_recorded(seed, NULL, path, SIM_MEMORY_ON);
		bool bad = m.bad;

		/* the file records that it was on */
		ck_assert_uint_eq(run_recorded(0, path, NULL, SIM_MEMORY_DRAW), hash);
		ck_assert_int_eq(m.bad, bad);
	}
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory order");
	TCase *t = tcase_create("litmus");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, reset, NULL);
	tcase_add_test(t, message_passing_breaks_without_release_only);
	tcase_add_test(t, off_and_fifo_keep_nothing);
	tcase_add_test(t, half_of_the_seeds_draw_it);
	tcase_add_test(t, store_buffering_needs_seq_cst);
	tcase_add_test(t, one_location_never_goes_back);
	tcase_add_test(t, a_late_store_lands_on_a_newer_one_unless_released);
	tcase_add_test(t, a_range_is_seen_in_pieces_unless_released);
	tcase_add_test(t, what_a_killed_process_stored_is_stored);
	tcase_add_test(t, nothing_lands_in_memory_that_was_freed);
	tcase_add_test(t, words_on_stacks_are_not_kept);
	tcase_add_test(t, a_replay_repeats_what_was_kept);
	suite_add_tcase(s, t);
	return suite_run(s);
}
