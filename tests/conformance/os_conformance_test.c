/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads, waiting, time and choices as os.h defines them, on every pair of halves. */
#include "tests/conformance/os_pairs.h"

/* ---- threads -------------------------------------------------------------------------------- */

struct family {
	shared_u32 count;
	uint32_t id[4];
	struct os_proc *proc[4];
	char name[4][16];
};

static void thread_of_family(void *arg)
{
	struct family *f = arg;
	uint32_t i = shared_add_u32(&f->count, 1, SHARED_ACQ_REL);
	f->id[i] = os_self()->id;
	f->proc[i] = os_proc();
	snprintf(f->name[i], sizeof f->name[i], "%s", os_self()->name);
	ck_assert_ptr_eq(os_self()->slot[OS_SLOT_TEST], NULL);
	os_self()->slot[OS_SLOT_TEST] = f;
}

static void threads_have_identity_and_are_joined(void)
{
	struct family f = {0};
	struct os_thread *t[4];
	for (int i = 0; i < 4; i++)
		t[i] = start("child", thread_of_family, &f);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	ck_assert_uint_eq(shared_load_u32(&f.count, SHARED_ACQUIRE), 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_ptr_eq(f.proc[i], os_proc());
		ck_assert_str_eq(f.name[i], "child");
		ck_assert_uint_ne(f.id[i], os_self()->id);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(f.id[i], f.id[j]);
	}
	ck_assert_uint_eq(os_proc()->id, 0);
}

static void thread_counts(void *count)
{
	shared_add_u32(count, 1, SHARED_ACQ_REL);
}

static void detached_threads_run_and_are_not_joined(void)
{
	const struct os_thread_attr attr = {.name = "child", .rank = -1, .detached = true};
	static shared_u32 count; /* outlives the threads */

	shared_store_u32(&count, 0, SHARED_RELEASE);
	for (uint32_t i = 1; i <= 20; i++) {
		const struct wait w = word_wait(&count, WAIT_EQ, i);

		ck_assert_int_eq(os_thread_start(NULL, &attr, thread_counts, &count), 0);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
}

struct locked {
	struct os_mutex mutex;
	uint64_t value; /* under the mutex */
};

static void thread_adds_under_lock(void *arg)
{
	struct locked *l = arg;
	for (int i = 0; i < 50; i++) {
		os_mutex_lock(&l->mutex);
		uint64_t v = l->value;
		if (i % 10 == 0)
			os_sleep_ns(1 * US);
		l->value = v + 1;
		os_mutex_unlock(&l->mutex);
	}
}

static void mutex_excludes(void)
{
	struct locked l = {0};
	struct os_thread *t[4];
	for (int i = 0; i < 4; i++)
		t[i] = start("adder", thread_adds_under_lock, &l);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	ck_assert_uint_eq(l.value, 200);
}

/* ---- waiting -------------------------------------------------------------------------------- */

struct words {
	shared_u32 a, b, abort;
	shared_u64 wide;
};

static void thread_writes_words(void *arg)
{
	struct words *w = arg;
	os_sleep_ns(100 * US);
	shared_store_u32(&w->b, 5, SHARED_RELEASE);
	os_sleep_ns(100 * US);
	shared_store_u64(&w->wide, 0xab00000000ull, SHARED_RELEASE);
}

static void wait_names_the_first_that_is_true(void)
{
	struct words w = {0};
	struct os_thread *t = start("writer", thread_writes_words, &w);
	const struct wait wa = word_wait(&w.a, WAIT_NE, 0);
	const struct wait wb = word_wait(&w.b, WAIT_GE, 5);
	const struct wait *both[] = {&wa, &wb};
	int index = -1;
	ck_assert_int_eq(os_wait(both, 2, NULL, &index), 0);
	ck_assert_int_eq(index, 1);
	shared_store_u32(&w.a, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait(both, 2, &w.abort, &index), 0);
	ck_assert_int_eq(index, 0);
	struct wait wide = word_wait(NULL, WAIT_EQ, 0xab00000000ull);
	wide.on = &w.wide;
	wide.bytes = 8;
	wide.mask = 0xff00000000ull;
	ck_assert_int_eq(os_wait_one(&wide, NULL), 0);
	ck_assert_uint_eq(shared_load_u64(&w.wide, SHARED_ACQUIRE), 0xab00000000ull);
	join(t);
}

static void wait_times_out_at_its_deadline(void)
{
	shared_u32 never = {0};
	struct wait w = word_wait(&never, WAIT_NE, 0);
	uint64_t start_ns = os_now_ns();
	w.deadline_ns = start_ns + 2 * MS;
	int index = 77;
	const struct wait *list = &w;
	ck_assert_int_eq(os_wait(&list, 1, NULL, &index), ETIMEDOUT);
	ck_assert_int_eq(index, 77);
	ck_assert_uint_ge(os_now_ns(), start_ns + 2 * MS);
	/* one that is true is true, however late */
	shared_store_u32(&never, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
}

static void thread_aborts(void *arg)
{
	os_sleep_ns(100 * US);
	shared_store_u32(arg, 1, SHARED_RELEASE);
}

static void abort_ends_a_wait_and_goes_first(void)
{
	shared_u32 never = {0}, stop = {0};
	const struct wait w = word_wait(&never, WAIT_NE, 0);
	struct os_thread *t = start("aborter", thread_aborts, &stop);
	ck_assert_int_eq(os_wait_one(&w, &stop), ECANCELED);
	join(t);
	shared_store_u32(&never, 1, SHARED_RELEASE);
	ck_assert_int_eq(os_wait_one(&w, &stop), ECANCELED);
	/* no waits at all, only an abort */
	ck_assert_int_eq(os_wait(NULL, 0, &stop, NULL), ECANCELED);
}

struct line {
	shared_u32 word[4];
} __attribute__((aligned(16)));

static void thread_writes_line(void *arg)
{
	struct line *l = arg;
	os_sleep_ns(50 * US);
	shared_store_u32(&l->word[1], 7, SHARED_RELEASE); /* half of it is not enough */
	os_sleep_ns(50 * US);
	shared_store_u32(&l->word[0], 11, SHARED_RELAXED);
	shared_store_u32(&l->word[2], 22, SHARED_RELAXED);
	shared_store_u32(&l->word[3], 7, SHARED_RELEASE);
}

static void line_wait_needs_both_flags(void)
{
	struct line l = {0};
	struct os_thread *t = start("line", thread_writes_line, &l);
	struct wait w = word_wait(NULL, WAIT_LINE16, 7);
	w.on = &l;
	ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	ck_assert_uint_eq(shared_load_u32(&l.word[0], SHARED_ACQUIRE), 11);
	ck_assert_uint_eq(shared_load_u32(&l.word[2], SHARED_ACQUIRE), 22);
	join(t);
}

struct mailbox {
	shared_u32 letters;
};

static void thread_posts(void *arg)
{
	struct mailbox *m = arg;
	for (int i = 0; i < 20; i++) {
		if (i % 5 == 0)
			os_sleep_ns(20 * US);
		shared_add_u32(&m->letters, 1, SHARED_ACQ_REL);
		os_event_post(m);
	}
}

static void no_event_is_lost_between_poll_and_wait(void)
{
	struct mailbox m = {0};
	struct os_thread *t = start("poster", thread_posts, &m);
	for (;;) {
		uint64_t seq = os_event_seq(&m);
		if (shared_load_u32(&m.letters, SHARED_ACQUIRE) == 20)
			break;
		const struct wait w = object_wait(&m, seq);
		ck_assert_int_eq(os_wait_one(&w, NULL), 0);
	}
	join(t);
	uint64_t seq = os_event_seq(&m);
	os_event_post(&m);
	ck_assert_uint_ne(os_event_seq(&m), seq);
}

static void thread_polled(void *arg)
{
	os_sleep_ns(300 * US);
	shared_store_u32(arg, 1, SHARED_RELEASE);
}

static void polling_gets_there(void)
{
	shared_u32 ready = {0};
	struct os_thread *t = start("polled", thread_polled, &ready);
	while (!shared_load_u32(&ready, SHARED_ACQUIRE))
		os_poll_miss("test");
	os_poll_hit();
	join(t);
}

static void time_moves_forward(void)
{
	uint64_t before = os_now_ns();
	os_sleep_ns(1 * MS);
	uint64_t after = os_now_ns();
	ck_assert_uint_ge(after, before + 1 * MS);
	os_charge(OS_COST_CALL, 3);
	os_charge(OS_COST_NS, 100);
	os_sleep_ns(0);
	ck_assert_uint_ge(os_now_ns(), after);
	/* 2020 to 2100, in ns since 1970 */
	ck_assert_uint_gt(os_date_ns(), 1577836800ull * 1000000000);
	ck_assert_uint_lt(os_date_ns(), 4102444800ull * 1000000000);
}

static void choices_are_in_range(void)
{
	for (uint32_t n = 1; n < 20; n++) {
		uint32_t got = os_choose("test.choice", n);
		ck_assert_uint_lt(got, n);
	}
	ck_assert_uint_eq(os_choose("test.one", 1), 0);
}

/* ---- the table of cases --------------------------------------------------------------------- */

#define CASES(X)                                                                                   \
	X(threads_have_identity_and_are_joined)                                                    \
	X(detached_threads_run_and_are_not_joined)                                                 \
	X(mutex_excludes)                                                                          \
	X(wait_names_the_first_that_is_true)                                                       \
	X(wait_times_out_at_its_deadline)                                                          \
	X(abort_ends_a_wait_and_goes_first)                                                        \
	X(line_wait_needs_both_flags)                                                              \
	X(no_event_is_lost_between_poll_and_wait)                                                  \
	X(polling_gets_there)                                                                      \
	X(time_moves_forward)                                                                      \
	X(choices_are_in_range)

static const struct os_case cases[] = {CASES(OS_CASE)};

int main(void)
{
	return os_suite_run("os", cases, (int)(sizeof cases / sizeof cases[0]));
}
