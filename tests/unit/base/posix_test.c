/* SPDX-License-Identifier: BSD-3-Clause */
/* core/os, the posix and real halves: behaviour that not every pair of halves has. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/os/os_ops.h"
#include "tests/sample.h"
#include "tests/suite.h"

static void *foreign(void *arg)
{
	struct os_self *self = os_self();
	ck_assert_ptr_nonnull(self);
	ck_assert_ptr_eq(os_self(), self);
	ck_assert_ptr_eq(self->proc, arg);
	ck_assert_int_eq(self->rank, -1);
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

START_TEST(a_fruitless_query_does_not_sleep)
{
	uint64_t before = suite_sleeps();

	for (int i = 0; i < 10000; i++)
		os_poll_miss("test");
	ck_assert_uint_lt(suite_sleeps() - before, 10);
	before = suite_sleeps();
	os_sleep_ns(1000000);
	ck_assert_uint_gt(suite_sleeps(), before); /* the figure shows a sleep */
}
END_TEST

/* More than the file system has: an error now, not a signal at the first write, and no file is
 * left. */
START_TEST(a_segment_that_does_not_fit_is_refused)
{
	struct statvfs fs;
	char name[64];
	void *mem = NULL;

	ck_assert_int_eq(statvfs(OS_SHM_DIR, &fs), 0);
	if (!fs.f_blocks) /* it has no limit: it would be the memory's */
		return;
	snprintf(name, sizeof name, "doppel-posix-test-%d", (int)getpid());
	ck_assert_int_eq(os_shm_create(name, ((size_t)fs.f_blocks + 1) * fs.f_frsize, &mem),
			 ENOSPC);
	ck_assert_ptr_null(mem);
	ck_assert_int_eq(os_shm_unlink(name), ENOENT);
}
END_TEST

/* The state of a process made by fork; its exit code. */
static int forked_child(uint64_t parents_space, bool other_space)
{
	const struct os_proc *me = os_proc();

	if (me->pid != (int32_t)getpid())
		return 1;
	if ((me->pid_space != parents_space) != other_space)
		return 2;
	return me->slot[OS_SLOT_CORE] ? 3 : 0;
}

static int fork_and_wait(bool other_space)
{
	const uint64_t space = os_proc()->pid_space;
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(forked_child(space, other_space));
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(a_forked_child_is_another_process)
{
	int anything;

	ck_assert_int_eq(os_proc()->pid, getpid());
	ck_assert_uint_ne(os_proc()->pid_space, 0);
	os_proc()->slot[OS_SLOT_CORE] = &anything; /* as a communicator of the parent */
	ck_assert_int_eq(fork_and_wait(false), 0);
	os_proc()->slot[OS_SLOT_CORE] = NULL;
}
END_TEST

/* The allocator of GCC 12's AddressSanitizer takes no lock around fork: the child may hang. */
#ifndef __SANITIZE_ADDRESS__
static shared_u32 allocating_over;

static void *allocate_until_over(void *arg)
{
	(void)arg;
	while (!shared_load_u32(&allocating_over, SHARED_ACQUIRE))
		os_free(os_alloc(16, "test"));
	return NULL;
}

/* A child that waits for a lock which a thread of its parent holds would wait without end. */
static void allocate_in_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		alarm(5);
		os_free(os_alloc(16, "child"));
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

START_TEST(a_child_forked_while_another_thread_allocates_allocates_too)
{
	pthread_t other;

	ck_assert_int_eq(pthread_create(&other, NULL, allocate_until_over, NULL), 0);
	for (int i = 0; i < 200 / SAMPLE_THIN; i++)
		allocate_in_child();
	shared_store_u32(&allocating_over, 1, SHARED_RELEASE);
	ck_assert_int_eq(pthread_join(other, NULL), 0);
}
END_TEST

#endif

/* In a process of its own: once the first of a pid namespace has ended, there are no others in it,
 * and LeakSanitizer wants one when the process exits. */
static int fork_in_another_space(void)
{
	(void)os_proc();
	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
		fprintf(stderr, "not tested: no new pid namespace: %s\n", strerror(errno));
		return 0;
	}
	return fork_and_wait(true);
}

START_TEST(a_child_in_another_pid_namespace_is_told_apart)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(fork_in_another_space());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
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
	ck_assert(!OS_BUGGIFY("test.rare", "never taken here"));
	os_label(&f, &label);
	os_trace("kind", 1, 2, 3);
	os_trace_bytes("kind", 1, "abc", 3);
	ck_assert(!os_tracing());
	os_trace_begin(&(struct os_trace_slice){.name = "interval"});
	os_trace_span(&(struct os_trace_slice){.name = "part"}, os_now_ns());
	os_trace_end(&(struct os_trace_slice){.name = "interval"});
	os_progress();
	os_unlabel(&f);
}
END_TEST

START_TEST(a_directory_or_a_huge_file_is_an_error)
{
	char *data = NULL;
	size_t bytes = 0;
	ck_assert_int_eq(os_file_read("/tmp", &data, &bytes), EISDIR);
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
	tcase_add_test(tc, a_fruitless_query_does_not_sleep);
	tcase_add_test(tc, a_segment_that_does_not_fit_is_refused);
	tcase_add_test(tc, a_forked_child_is_another_process);
#ifndef __SANITIZE_ADDRESS__
	tcase_add_test(tc, a_child_forked_while_another_thread_allocates_allocates_too);
#endif
	tcase_add_test(tc, a_child_in_another_pid_namespace_is_told_apart);
	tcase_add_test(tc, memory_that_is_left_is_counted);
	tcase_add_test(tc, nothing_is_drawn_in_the_real_world);
	tcase_add_test(tc, a_directory_or_a_huge_file_is_an_error);
	tcase_add_test_raise_signal(tc, a_failed_assertion_aborts, SIGABRT);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
