/* SPDX-License-Identifier: BSD-3-Clause */
/* core/os, the posix and real halves: what the conformance suite cannot ask of every pair. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "core/os/os_ops.h"
#include "tests/suite.h"

static void *foreign(void *arg)
{
	struct os_self *self = os_self();
	ck_assert_ptr_nonnull(self);
	ck_assert_ptr_eq(os_self(), self);
	ck_assert_ptr_eq(self->proc, arg);
	ck_assert_int_eq(self->rank, -1);
	for (int i = 0; i < 200; i++)
		os_poll_miss("test");
	os_poll_hit();
	return (void *)(uintptr_t)self->id;
}

START_TEST(a_foreign_thread_is_adopted)
{
	pthread_t t[2];
	void *id[2];
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, foreign, os_proc()), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(t[i], &id[i]), 0);
	ck_assert_ptr_ne(id[0], id[1]);
	ck_assert_uint_ne((uintptr_t)id[0], os_self()->id);
}
END_TEST

START_TEST(memory_that_is_left_is_counted)
{
	const char *first = "";
	ck_assert_uint_eq(os_real_alloc_count(&first), 0);
	ck_assert_ptr_null(first);
	void *a = os_alloc(10, "older"), *b = os_alloc(10, "newer");
	ck_assert_uint_eq(os_real_alloc_count(&first), 2);
	ck_assert_str_eq(first, "older");
	os_free(a);
	ck_assert_uint_eq(os_real_alloc_count(&first), 1);
	ck_assert_str_eq(first, "newer");
	os_free(b);
}
END_TEST

START_TEST(nothing_is_drawn_in_the_real_world)
{
	struct os_fault f;
	const struct os_label label = {"thing", 0, 0, 0, 0};
	ck_assert_uint_eq(os_choose("site", 100), 0);
	ck_assert(!os_fault("os.alloc", NULL, &f));
	ck_assert(!os_buggify("rare"));
	os_label(&f, &label);
	os_trace("kind", 1, 2, 3);
	os_trace_bytes("kind", 1, "abc", 3);
	os_trace_begin("interval", 0, 0);
	os_trace_end("interval");
	os_progress();
	os_unlabel(&f);
}
END_TEST

START_TEST(a_directory_or_a_huge_file_is_an_error)
{
	char *data = NULL;
	size_t bytes = 0;
	ck_assert_int_eq(os_file_read("/tmp", &data, &bytes), EIO);
	ck_assert_int_eq(os_file_read("/dev/zero", &data, &bytes), EFBIG);
	ck_assert_int_eq(os_file_read("/dev/null/x", &data, &bytes), ENOENT);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(os_file_read("/dev/null", &data, &bytes), 0);
	ck_assert_uint_eq(bytes, 0);
	ck_assert_int_eq(data[0], 0);
	os_free(data);
}
END_TEST

START_TEST(a_failed_assertion_aborts)
{
	ASSERT(1 + 1 == 2);
	ck_assert_int_eq(ALWAYS(1), 1);
	ck_assert_int_eq(NEVER(0), 0);
	ASSERT(1 + 1 == 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("posix");
	TCase *tc = tcase_create("posix");
	tcase_add_test(tc, a_foreign_thread_is_adopted);
	tcase_add_test(tc, memory_that_is_left_is_counted);
	tcase_add_test(tc, nothing_is_drawn_in_the_real_world);
	tcase_add_test(tc, a_directory_or_a_huge_file_is_an_error);
	tcase_add_test_raise_signal(tc, a_failed_assertion_aborts, SIGABRT);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
