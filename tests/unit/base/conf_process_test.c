/* SPDX-License-Identifier: BSD-3-Clause */
/* core/os/os_conf: configuration files of this process, in the real file system. Each case runs in
 * a process of its own (the fork mode of Check), because a process reads them once. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/param.h"
#include "core/os/os_ops.h"
#include "tests/suite.h"

static char folder[] = "/tmp/doppel_conf_XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void set_path(const char *variable, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	setenv(variable, path, 1);
}

static void folder_make(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("HOME", folder, 1);
	set_path("DOPPEL_ETC_CONF", "etc");
	write_file("etc", "NCCL_IB_TIMEOUT=17\nNCCL_IB_SL=3\nTEST_CONF=plugin\n");
	write_file(".nccl.conf", "NCCL_IB_TIMEOUT=18\nwrong\nNCCL_IB_TC=400\n");
}

static void folder_remove(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}

/* Returns what report() writes to stderr. */
static const char *written(void (*report)(void))
{
	static char text[4096];
	int real = dup(2);
	FILE *file = tmpfile();

	dup2(fileno(file), 2);
	report();
	dup2(real, 2);
	close(real);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %s", part, text);
}

START_TEST(a_real_process_reads_its_files_once)
{
	folder_make();
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 18);
	ck_assert_int_eq(param_i64(PARAM_IB_SL), 3);
	ck_assert(param_is_set(PARAM_IB_SL));
	ck_assert_int_eq(param_i64(PARAM_IB_TC), 0);
	ck_assert_str_eq(getenv("TEST_CONF"), "plugin"); /* plugins read their own variables */
	ck_assert_str_eq(os_env("NCCL_IB_SL"), "3");
	write_file(".nccl.conf", "NCCL_IB_TIMEOUT=1\n");
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 18);
	folder_remove();
}
END_TEST

START_TEST(bad_lines_are_reported_once_at_any_log_level_with_file_and_line)
{
	char expected[1024];

	folder_make();
	snprintf(expected, sizeof expected,
		 "%s/.nccl.conf:2: 'wrong', expected NAME=VALUE or # COMMENT; the line has no "
		 "effect\n%s/.nccl.conf:3: NCCL_IB_TC is '400', expected an integer from 0 to 255; "
		 "the default 0 is used\n",
		 folder, folder);
	ck_assert_str_eq(written(param_report_malformed), expected);
	ck_assert_str_eq(written(param_report_malformed), "");
	folder_remove();
}
END_TEST

START_TEST(the_log_names_the_place_that_set_a_value)
{
	char expected[256];

	folder_make();
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_IB_SL", "4", 1);
	const char *log = written(param_report_set);
	snprintf(expected, sizeof expected, "NCCL_IB_TIMEOUT set by %s/.nccl.conf:1 to 18.",
		 folder);
	has(log, expected);
	has(log, "NCCL_IB_SL set by environment to 4.");
	snprintf(expected, sizeof expected,
		 "%s/etc:2: NCCL_IB_SL has no effect: the environment sets it", folder);
	has(log, expected);
	snprintf(expected, sizeof expected,
		 "%s/etc:1: NCCL_IB_TIMEOUT has no effect: %s/.nccl.conf sets it", folder, folder);
	has(log, expected);
	ck_assert_str_eq(written(param_report_set), "");
	folder_remove();
}
END_TEST

START_TEST(a_process_may_read_only_files_that_variables_name)
{
	folder_make();
	os_real_conf_named_only();
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 17);
	folder_remove();
}
END_TEST

/* A directory, a file that is too large, and one without permission. */
START_TEST(a_named_file_that_cannot_be_read_is_one_line)
{
	static const char *const reasons[] = {"Is a directory", "File too large",
					      "Permission denied"};
	char expected[256], path[128];

	folder_make();
	snprintf(path, sizeof path, "%s/x", folder);
	if (_i == 2 && geteuid() == 0)
		exit(0); /* root may read everything */
	if (_i == 0) {
		mkdir(path, 0700);
	} else {
		write_file("x", "NCCL_IB_SL=5\n");
		ck_assert_int_eq(truncate(path, _i == 1 ? 17 << 20 : 5), 0);
		ck_assert_int_eq(chmod(path, _i == 1 ? 0600 : 0), 0);
	}
	set_path("NCCL_CONF_FILE", "x");
	snprintf(expected, sizeof expected,
		 "%s: cannot be read: %s; expected a file of lines NAME=VALUE\n", path,
		 reasons[_i]);
	ck_assert_str_eq(written(param_report_malformed), expected);
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 17);
	folder_remove();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("conf_process");
	TCase *tc = tcase_create("conf_process");

	tcase_add_test(tc, a_real_process_reads_its_files_once);
	tcase_add_test(tc, bad_lines_are_reported_once_at_any_log_level_with_file_and_line);
	tcase_add_test(tc, the_log_names_the_place_that_set_a_value);
	tcase_add_test(tc, a_process_may_read_only_files_that_variables_name);
	tcase_add_loop_test(tc, a_named_file_that_cannot_be_read_is_one_line, 0, 3);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
