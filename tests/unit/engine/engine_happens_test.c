/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The happens-before check: for each way to order two accesses a program that does it right, which
 * must run in silence under every seed, and programs that leave something out, which must be
 * reported under every seed that reaches the second access, whatever the schedule.
 */
#include "tests/unit/engine/engine_happens_run.h"

static struct os_mutex mutex;

/* ---- message passing between host threads --------------------------------------------------- */

static void pass_send(void *arg)
{
	(void)arg;
	shared_write(data, "hello", 6);
	if (now->release_fence)
		shared_fence(SHARED_RELEASE);
	shared_store_u32(&flag, 1, now->store);
}

static void pass_receive(void *arg)
{
	(void)arg;
	while (!shared_load_u32(&flag, now->load))
		os_poll_miss("flag");
	if (now->acquire_fence)
		shared_fence(SHARED_ACQUIRE);
	shared_read(copy, data, 6);
}

static void pass_wait(void *arg)
{
	const struct wait w = {.on = &flag,
			       .want = 1,
			       .mask = WAIT_MASK_ALL,
			       .kind = WAIT_EQ,
			       .bytes = 4,
			       .why = "flag"};

	(void)arg;
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	shared_read(copy, data, 6);
}

static void pass_main(void *arg)
{
	(void)arg;
	both(pass_send, pass_receive);
}

static void pass_wait_main(void *arg)
{
	(void)arg;
	both(pass_send, pass_wait);
}

/* A third task updates the flag in between, and the order passes through it or ends. */
static void pass_middle_add(void *arg)
{
	(void)arg;
	while (!shared_load_u32(&flag, SHARED_RELAXED))
		os_poll_miss("flag");
	shared_add_u32(&flag, 1, SHARED_RELAXED);
}

static void pass_middle_store(void *arg)
{
	(void)arg;
	while (!shared_load_u32(&flag, SHARED_RELAXED))
		os_poll_miss("flag");
	shared_store_u32(&flag, 2, SHARED_RELAXED);
}

static void pass_receive_two(void *arg)
{
	(void)arg;
	while (shared_load_u32(&flag, SHARED_RELAXED) != 2)
		os_poll_miss("flag");
	(void)shared_load_u32(&flag, SHARED_ACQUIRE);
	shared_read(copy, data, 6);
}

static void pass_three(void (*middle)(void *))
{
	struct os_thread *t[3] = {start("producer", pass_send), start("middle", middle),
				  start("consumer", pass_receive_two)};

	for (int i = 0; i < 3; i++)
		os_thread_join(t[i]);
}

static void pass_add_main(void *arg)
{
	(void)arg;
	pass_three(pass_middle_add);
}

static void pass_store_main(void *arg)
{
	(void)arg;
	pass_three(pass_middle_store);
}

static const struct variant pass[] = {
	{GOOD("release and acquire", pass_main), RA},
	{GOOD("fences", pass_main), RELAXED, .release_fence = true, .acquire_fence = true},
	{GOOD("fence and acquire", pass_main), .load = SHARED_ACQUIRE, .release_fence = true},
	{GOOD("release and a wait", pass_wait_main), .store = SHARED_RELEASE},
	{GOOD("release, update, acquire", pass_add_main), RA},
	{BAD("no acquire", pass_main, "missing: an acquire"), .store = SHARED_RELEASE},
	{BAD("no release", pass_main, "missing: a release"), .load = SHARED_ACQUIRE},
	{BAD("no acquire after a fence", pass_main, "missing: an acquire"), .release_fence = true},
	{BAD("neither", pass_main, NULL), RELAXED},
	{BAD("no release before a wait", pass_wait_main, "missing: a release"), RELAXED},
	{BAD("another's store in between", pass_store_main, NULL), RA},
};

START_TEST(message_passing_needs_release_and_acquire)
{
	check_variant(&pass[_i]);
}
END_TEST

/* ---- locks, threads, counts ----------------------------------------------------------------- */

static void lock_write(void *arg)
{
	(void)arg;
	if (now->release_fence)
		os_mutex_lock(&mutex);
	shared_write(data, "a", 2);
	if (now->release_fence)
		os_mutex_unlock(&mutex);
}

static void lock_main(void *arg)
{
	(void)arg;
	both(lock_write, lock_write);
}

static void child_write(void *arg)
{
	(void)arg;
	shared_write(data, "b", 2);
	shared_store_u32(&flag, 1, SHARED_RELAXED);
}

/* Reads what the child wrote: after the join, or only after its relaxed flag. */
static void join_main(void *arg)
{
	(void)arg;
	shared_write(data, "a", 2); /* before the start: ordered */
	struct os_thread *t = start("child", child_write);

	if (now->acquire_fence)
		os_thread_join(t);
	else
		while (!shared_load_u32(&flag, SHARED_ACQUIRE))
			os_poll_miss("flag");
	shared_read(copy, data, 2);
	if (!now->acquire_fence)
		os_thread_join(t);
}

static void count_post(void *arg)
{
	(void)arg;
	shared_write(data, "c", 2);
	os_event_post(&flag2);
}

static void count_main(void *arg)
{
	(void)arg;
	uint64_t before = os_event_seq(&flag2);
	struct os_thread *t = start("poster", count_post);
	while (os_event_seq(&flag2) == before)
		os_poll_miss("count");
	shared_read(copy, data, 2);
	os_thread_join(t);
}

static const struct variant locks[] = {
	{GOOD("mutex", lock_main), .release_fence = true},
	{BAD("no mutex", lock_main, "both of them writes"), RELAXED},
	{GOOD("join", join_main), .acquire_fence = true},
	{BAD("no join", join_main, "child"), RELAXED},
	{GOOD("event count", count_main), RELAXED},
};

START_TEST(locks_threads_and_counts_order)
{
	check_variant(&locks[_i]);
}
END_TEST

/* ---- ranges and words ----------------------------------------------------------------------- */

static void low_half(void *arg)
{
	(void)arg;
	shared_write(data, copy, 100);
}

static void high_half(void *arg)
{
	(void)arg;
	shared_write(data + 100, copy, 100);
}

static void one_byte_over(void *arg)
{
	(void)arg;
	shared_write(data + 99, copy, 100);
}

static void read_all(void *arg)
{
	(void)arg;
	shared_read(copy, data, 200);
}

static void word_store(void *arg)
{
	(void)arg;
	shared_store_u32(&flag, 1, SHARED_RELAXED);
}

static void word_load(void *arg)
{
	(void)arg;
	(void)shared_load_u32(&flag, SHARED_RELAXED);
}

static void word_range_write(void *arg)
{
	uint32_t one = 1;

	(void)arg;
	shared_write(&flag, &one, sizeof one);
}

static void word_range_read(void *arg)
{
	(void)arg;
	shared_read(copy, &flag, sizeof flag);
}

#define BOTH(name, a, b)                                                                           \
	static void name(void *arg)                                                                \
	{                                                                                          \
		(void)arg;                                                                         \
		both(a, b);                                                                        \
	}
BOTH(halves_main, low_half, high_half)
BOTH(overlap_main, low_half, one_byte_over)
BOTH(readers_main, read_all, read_all)
BOTH(read_write_main, read_all, high_half)
BOTH(words_main, word_store, word_load)
BOTH(word_and_write_main, word_range_write, word_load)
BOTH(word_and_read_main, word_store, word_range_read)

/* As a device's small write, which lands word by word. */
static void land(size_t at, size_t bytes)
{
	const struct mem_access a = {.addr = data + at,
				     .bytes = bytes,
				     .op = SHARED_RANGE_WRITE,
				     .order = SHARED_RELEASE,
				     .scope = SHARED_SYSTEM};

	mem_access(&a);
	memset(data + at, 7, bytes);
	mem_wrote(&a);
}

static void land_low(void *arg)
{
	(void)arg;
	land(0, 13);
}

static void land_high(void *arg)
{
	(void)arg;
	land(13, 26);
}

static void land_one_over(void *arg)
{
	(void)arg;
	land(12, 26);
}

static void read_low(void *arg)
{
	(void)arg;
	shared_read(copy, data, 13);
}

static void land_from_4(void *arg)
{
	(void)arg;
	land(4, 8);
}

static void read_4(void *arg)
{
	(void)arg;
	shared_read(copy, data, 4);
}
BOTH(landings_main, land_low, land_high)
BOTH(landing_and_read_main, read_low, land_high)
BOTH(landings_overlap_main, read_low, land_one_over)

/* A word of 8 bytes, of which one agent then writes the high half, while another reads the low
 * one. */
static void half_words_main(void *arg)
{
	(void)arg;
	land(0, 8);
	both(land_from_4, read_4);
}

/* The same bytes, given out anew. */
static void fresh_writer(void *arg)
{
	(void)arg;
	mem_fresh(data, sizeof data);
	shared_write(data, copy, 100);
}
BOTH(fresh_main, fresh_writer, fresh_writer)

/* One of two pages holds lines. */
static uint8_t pages[2][4096] __attribute__((aligned(4096)));

static void lines_write(void *arg)
{
	(void)arg;
	shared_write(pages[0], copy, 100);
}

static void beside_lines_write(void *arg)
{
	(void)arg;
	shared_write(pages[1], copy, 100);
}

static void lines_poll(void *arg)
{
	(void)arg;
	(void)shared_lines_ready(pages[0], 4, 1);
}

static void lines_main(void *arg)
{
	(void)arg;
	shared_note_lines(pages[0], sizeof pages[0]);
	both(lines_write, lines_poll);
}

static void beside_lines_main(void *arg)
{
	(void)arg;
	shared_note_lines(pages[0], sizeof pages[0]);
	both(beside_lines_write, beside_lines_write);
}

static void lines_freed_main(void *arg)
{
	(void)arg;
	shared_note_lines(pages[0], sizeof pages[0]);
	mem_fresh(pages[0], sizeof pages[0]);
	both(lines_write, lines_poll);
}

/* More words than the table of words begins with; a range meets the first one, which was in it
 * before it grew. */
static shared_u32 many[6000];

static void many_stores(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		shared_store_u32(&many[i], 1, SHARED_RELAXED);
}

static void many_first_read(void *arg)
{
	(void)arg;
	shared_read(copy, &many[0], sizeof many[0]);
}

static void many_joined_main(void *arg)
{
	struct os_thread *t = start("producer", many_stores);

	os_thread_join(t);
	many_first_read(arg);
}
BOTH(many_main, many_stores, many_first_read)

static const struct variant ranges[] = {
	{GOOD("two halves", halves_main), RELAXED},
	{BAD("one byte in common", overlap_main, "both of them writes"), RELAXED},
	{GOOD("two readers", readers_main), RELAXED},
	{BAD("reader and writer", read_write_main, NULL), RELAXED},
	{GOOD("two word accesses", words_main), RELAXED},
	{BAD("a range written, a word read", word_and_write_main, NULL), RELAXED},
	{BAD("a word written, a range read", word_and_read_main, NULL), RELAXED},
	{GOOD("memory given out anew", fresh_main), RELAXED},
	{GOOD("two landings that share a word", landings_main), RELAXED},
	{GOOD("a landing beside a range read", landing_and_read_main), RELAXED},
	{BAD("a landing one byte over a range read", landings_overlap_main, NULL), RELAXED},
	{GOOD("half of a word landed, the other half read", half_words_main), RELAXED},
	{GOOD("lines", lines_main), RELAXED},
	{BAD("memory beside lines", beside_lines_main, "both of them writes"), RELAXED},
	{GOOD("many words, joined", many_joined_main), RELAXED},
	{BAD("many words", many_main, NULL), RELAXED},
	{BAD("lines whose memory is given out anew", lines_freed_main, NULL), RELAXED},
};

START_TEST(ranges_are_exact_and_words_are_atomic)
{
	check_variant(&ranges[_i]);
}
END_TEST

/* ---- reports, and programs without a report ------------------------------------------------- */

START_TEST(the_report_names_both_sides)
{
	const char *const parts[] = {"producer wrote 6 bytes",
				     "consumer read 6 bytes",
				     "pass_send",
				     "pass_receive",
				     "at step",
				     "FAIL"};

	ck_assert_int_eq(run_seed(&pass[5], 3, true), SIM_WRONG_RESULT);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		ck_assert_msg(strstr(said, parts[i]), "no \"%s\" in:\n%s", parts[i], said);
}
END_TEST

START_TEST(the_hash_is_the_same_with_and_without)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		ck_assert_int_eq(run_seed(&pass[0], seed, false), 0);
		char *without = strdup(said);
		ck_assert_int_eq(run_seed(&pass[0], seed, true), 0);
		ck_assert_str_eq(without, said);
		free(without);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("engine_happens");
	TCase *t = tcase_create("happens");

#define LOOP(test, table) tcase_add_loop_test(t, test, 0, (int)(sizeof table / sizeof table[0]))
	tcase_set_timeout(t, 60);
	LOOP(message_passing_needs_release_and_acquire, pass);
	LOOP(locks_threads_and_counts_order, locks);
	LOOP(ranges_are_exact_and_words_are_atomic, ranges);
	tcase_add_test(t, the_report_names_both_sides);
	tcase_add_test(t, the_hash_is_the_same_with_and_without);
	suite_add_tcase(s, t);
	return suite_run(s);
}
