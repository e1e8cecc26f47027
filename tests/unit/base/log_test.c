/* SPDX-License-Identifier: BSD-3-Clause */
/* core/base/log: levels, subsystems, line shape, last error. Each case is a process of its own
 * (Check's fork mode) with its own environment; lines go to a file by NCCL_DEBUG_FILE. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/os/os.h"
#include "tests/suite.h"

static char log_path[64];

static void log_to_file(const char *level, const char *subsys)
{
	snprintf(log_path, sizeof log_path, "/tmp/doppel-log-%d", (int)getpid());
	setenv("NCCL_DEBUG_FILE", "/tmp/doppel-log-%p", 1);
	if (level)
		setenv("NCCL_DEBUG", level, 1);
	if (subsys)
		setenv("NCCL_DEBUG_SUBSYS", subsys, 1);
}

/* The logged text; "" if nothing was logged. */
static const char *logged(void)
{
	static char text[8192];
	int fd = open(log_path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	unlink(log_path);
	return text;
}

START_TEST(nothing_is_logged_by_default_but_the_error_is_kept)
{
	log_to_file(NULL, NULL);
	WARN("queue pair %d failed", 7);
	INFO(LOG_INIT, "hello");
	ck_assert_str_eq(log_last_error(), "queue pair 7 failed");
	ck_assert_str_eq(logged(), "");
}
END_TEST

START_TEST(a_warning_has_host_pid_place_and_text)
{
	log_to_file("WARN", NULL);
	int line = __LINE__ + 1;
	WARN("queue pair %d failed", 7);
	INFO(LOG_INIT, "hello");
	char host[64], expected[256];
	os_host_name(host, sizeof host);
	snprintf(expected, sizeof expected,
		 "%s:%d:%u log_test.c:%d NCCL WARN queue pair 7 failed\n", host, (int)getpid(),
		 os_self()->id, line);
	ck_assert_str_eq(logged(), expected);
}
END_TEST

START_TEST(info_shows_the_device_and_keeps_to_its_subsystems)
{
	log_to_file("INFO", NULL);
	log_set_device(3);
	INFO(LOG_INIT, "one");
	INFO(LOG_NET, "two");
	INFO(LOG_NET | LOG_ENV, "three");
	TRACE(LOG_INIT, "four");
	log_set_device(-1);
	INFO(LOG_INIT, "five");
	const char *text = logged();
	ck_assert_ptr_nonnull(strstr(text, " [3] NCCL INFO one\n"));
	ck_assert_ptr_null(strstr(text, "two"));
	ck_assert_ptr_nonnull(strstr(text, "three"));
	ck_assert_ptr_null(strstr(text, "four"));
	ck_assert_ptr_null(strstr(text, "] NCCL INFO five"));
	ck_assert_ptr_nonnull(strstr(text, " NCCL INFO five"));
}
END_TEST

START_TEST(a_caret_means_all_but_these)
{
	log_to_file("trace", "^net,GRAPH");
	ck_assert(log_wanted(LOG_LEVEL_TRACE, LOG_INIT));
	ck_assert(!log_wanted(LOG_LEVEL_INFO, LOG_NET));
	ck_assert(!log_wanted(LOG_LEVEL_INFO, LOG_GRAPH | LOG_NET));
	ck_assert(log_wanted(LOG_LEVEL_WARN, LOG_NET));
	logged();
}
END_TEST

/* ATTN is NCCL's level of notices, which this version does not log. */
START_TEST(attn_includes_warnings)
{
	log_to_file("ATTN", "DESTROY,ALLOC_HOST");
	ck_assert(log_wanted(LOG_LEVEL_WARN, LOG_NET));
	ck_assert(!log_wanted(LOG_LEVEL_INFO, LOG_ALL));
	ck_assert_str_eq(log_last_error(), "");
	logged();
}
END_TEST

static int formatted;

static int format_me(void)
{
	return ++formatted;
}

START_TEST(nothing_is_formatted_unless_wanted)
{
	log_to_file("WARN", NULL);
	INFO(LOG_INIT, "%d", format_me());
	ck_assert_int_eq(formatted, 0);
	WARN("%d", format_me());
	ck_assert_int_eq(formatted, 1);
	logged();
}
END_TEST

START_TEST(the_last_errors_stay_readable)
{
	log_to_file(NULL, NULL);
	WARN("first");
	const char *first = log_last_error();
	for (int i = 1; i < LOG_LAST_KEPT; i++) {
		WARN("error %d", i);
		ck_assert_str_eq(first, "first");
	}
	ck_assert_str_eq(log_last_error(), "error 15");
}
END_TEST

static void warn_of_another_task(void *arg)
{
	WARN("%s", (const char *)arg);
}

static void another_task_warns(void)
{
	static char text[] = "of another task";
	struct os_thread_attr attr = {.name = "other", .rank = -1};
	struct os_thread *thread;

	ck_assert_int_eq(os_thread_start(&thread, &attr, warn_of_another_task, text), 0);
	os_thread_join(thread);
}

START_TEST(the_last_error_of_a_task_is_its_own)
{
	log_to_file(NULL, NULL);
	ck_assert_str_eq(log_task_error(), "");
	WARN("of this task");
	another_task_warns();
	ck_assert_str_eq(log_last_error(), "of another task");
	ck_assert_str_eq(log_task_error(), "of this task");
	for (int i = 1; i < LOG_LAST_KEPT; i++)
		another_task_warns();
	ck_assert_str_eq(log_task_error(), "");
}
END_TEST

START_TEST(a_long_text_is_cut_not_overrun)
{
	log_to_file("WARN", NULL);
	char text[2000];
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	WARN("%s", text);
	ck_assert_uint_eq(strlen(log_last_error()), 511);
	const char *line = logged();
	ck_assert_uint_lt(strlen(line), 1100);
	ck_assert_int_eq(line[strlen(line) - 1], '\n');
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("log");
	TCase *tc = tcase_create("log");
	tcase_add_test(tc, nothing_is_logged_by_default_but_the_error_is_kept);
	tcase_add_test(tc, a_warning_has_host_pid_place_and_text);
	tcase_add_test(tc, info_shows_the_device_and_keeps_to_its_subsystems);
	tcase_add_test(tc, a_caret_means_all_but_these);
	tcase_add_test(tc, attn_includes_warnings);
	tcase_add_test(tc, nothing_is_formatted_unless_wanted);
	tcase_add_test(tc, the_last_errors_stay_readable);
	tcase_add_test(tc, the_last_error_of_a_task_is_its_own);
	tcase_add_test(tc, a_long_text_is_cut_not_overrun);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
