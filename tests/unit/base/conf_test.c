/* SPDX-License-Identifier: BSD-3-Clause */
/* core/os/os_conf: configuration files of a process that the test makes up. conf_process_test.c has
 * those of this process. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os_conf.h"
#include "tests/suite.h"

/* ---- a process of the test ------------------------------------------------------------------- */

static struct {
	const char *path[2], *text[2]; /* its files */
	int rc[2];                     /* errors of their reads */
	char set[64][64];              /* its environment: name, value, name, value ... */
	int count, reads;
	struct conf *conf;
} p;

static const char *process_env(const void *ctx, const char *name)
{
	for (int i = 0; i < p.count; i += 2)
		if (strcmp(p.set[i], name) == 0)
			return p.set[i + 1];
	return NULL;
}

static int process_add(void *ctx, const char *name, const char *value)
{
	ck_assert_int_lt(p.count, 62);
	ck_assert_ptr_null(process_env(NULL, name));
	snprintf(p.set[p.count++], 64, "%s", name);
	snprintf(p.set[p.count++], 64, "%s", value);
	return 0;
}

static int process_read(void *ctx, const char *path, char **data, size_t *bytes)
{
	for (int i = 0; i < 2; i++) {
		if (!p.path[i] || strcmp(p.path[i], path) != 0)
			continue;
		p.reads++;
		*data = strdup(p.text[i] ? p.text[i] : "");
		*bytes = strlen(*data);
		if (p.rc[i])
			free(*data);
		return p.rc[i];
	}
	return ENOENT;
}

static const struct conf_process process = {
	.env = process_env,
	.read = process_read,
	.free = free,
	.add = process_add,
	.home = "/home/u",
};

static void load(void)
{
	ck_assert_int_eq(conf_load(&process, &p.conf), 0);
}

static void parse(const char *text, size_t bytes)
{
	p.conf = calloc(1, sizeof *p.conf);
	ck_assert_int_eq(conf_parse(p.conf, &process, "f", text, bytes), 0);
}

static void value_is(const char *name, const char *value)
{
	ck_assert_pstr_eq(process_env(NULL, name), value);
}

static void bad_is(uint32_t i, uint32_t number, const char *text)
{
	ck_assert_uint_lt(i, p.conf->bad_count);
	ck_assert_uint_eq(p.conf->bad[i].number, number);
	ck_assert_str_eq(p.conf->bad[i].text, text);
}

/* ---- lines ----------------------------------------------------------------------------------- */

START_TEST(a_line_is_a_name_and_the_rest_of_the_line)
{
	static const char text[] = "NCCL_A=1\n"
				   "# NCCL_B=2\n"
				   "\t # indented\n"
				   "\n"
				   "   \n"
				   "NCCL_C= 3 # not a comment \n"
				   "NCCL_D=\"quoted\"\r\n"
				   "NCCL_E=a=b\n"
				   "NCCL_F=\n"
				   "FI_PROVIDER=efa\n"
				   "NCCL_LAST=no newline";

	parse(text, sizeof text - 1);
	value_is("NCCL_A", "1");
	value_is("NCCL_B", NULL);
	value_is("NCCL_C", " 3 # not a comment ");
	value_is("NCCL_D", "\"quoted\"");
	value_is("NCCL_E", "a=b");
	value_is("NCCL_F", "");
	value_is("FI_PROVIDER", "efa");
	value_is("NCCL_LAST", "no newline");
	ck_assert_uint_eq(p.conf->bad_count, 0);
	ck_assert_uint_eq(conf_find(p.conf, "NCCL_E=", 6)->number, 8);
	ck_assert_ptr_null(conf_find(p.conf, "NCCL_", 5));
	ck_assert_ptr_null(conf_find(NULL, "NCCL_A", 6));
	conf_free(p.conf);
}
END_TEST

static const struct {
	const char *line, *text;
} bad_lines[] = {
	{"NCCL_X", "'NCCL_X', expected NAME=VALUE or # COMMENT"},
	{"=1", "'=1', expected letters, digits and _ before =, and no space"},
	{"NCCL_X =1", "'NCCL_X =1', expected letters, digits and _ before =, and no space"},
	{" NCCL_X=1", "' NCCL_X=1', expected letters, digits and _ before =, and no space"},
	{"export NCCL_X=1",
	 "'export NCCL_X=1', expected letters, digits and _ before =, and no space"},
	{"9X=1", "'9X=1', expected letters, digits and _ before =, and no space"},
	{"\xef\xbb\xbfNCCL_X=1",
	 "'???NCCL_X=1', expected letters, digits and _ before =, and no space"},
	{"NCCL_BEFORE=2", "NCCL_BEFORE again, expected each name once: line 1 counts"},
	{"DOPPEL_ETC_CONF=x", "'DOPPEL_ETC_CONF=x', expected a variable that is not Doppel's: set "
			      "it in the environment"},
	{"this line is much longer than a message can be, and has no sign",
	 "'this line is much longer than a message ...', expected NAME=VALUE or # COMMENT"},
};

START_TEST(a_bad_line_is_kept_with_its_number_and_loses_no_other)
{
	char text[256];
	int n = snprintf(text, sizeof text, "NCCL_BEFORE=1\n%s\nNCCL_AFTER=3\n",
			 bad_lines[_i].line);

	parse(text, (size_t)n);
	ck_assert_uint_eq(p.conf->bad_count, 1);
	bad_is(0, 2, bad_lines[_i].text);
	value_is("NCCL_BEFORE", "1");
	value_is("NCCL_AFTER", "3");
	value_is("NCCL_X", NULL);
	ck_assert_int_eq(p.count, 4);
	conf_free(p.conf);
}
END_TEST

START_TEST(a_nul_byte_spoils_its_line_only)
{
	static const char text[] = "NCCL_A=1\0"
				   "2\nNCCL_B\0=1\nNCCL_C=3\n\0\n";

	parse(text, sizeof text - 1);
	ck_assert_uint_eq(p.conf->bad_count, 3);
	bad_is(0, 1, "'NCCL_A=1?2' has a NUL byte, expected text");
	bad_is(1, 2, "'NCCL_B?=1' has a NUL byte, expected text");
	bad_is(2, 4, "'?' has a NUL byte, expected text");
	value_is("NCCL_A", NULL);
	value_is("NCCL_C", "3");
	conf_free(p.conf);
}
END_TEST

/* A line of 10 MB, in each place where a line can be long. */
START_TEST(a_long_line_is_refused_and_the_next_one_counts)
{
	static const char *const begin[] = {"NCCL_A=", "", "N", "=", "#", " "};
	static const char fill[] = {'x', 'x', '_', '=', '#', ' '};
	const size_t n = 10 << 20, k = strlen(begin[_i]);
	char *text = malloc(n + 16);

	memset(text, fill[_i], n);
	memcpy(text, begin[_i], k);
	if (_i == 2) /* a long name */
		text[n - 2] = '=';
	strcpy(text + n, "\nNCCL_B=2");
	parse(text, n + 9);
	ck_assert_uint_eq(p.conf->bad_count, _i < 4);
	if (_i == 0)
		bad_is(0, 1,
		       "'NCCL_A=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' has 10485760 bytes, "
		       "expected at most 1023 before and after =");
	value_is("NCCL_B", "2");
	ck_assert_int_eq(p.count, 2);
	conf_free(p.conf);
	free(text);
}
END_TEST

START_TEST(bad_lines_beyond_those_that_are_kept_are_counted)
{
	char text[3 * 100 + 16];

	for (size_t i = 0; i < 100; i++)
		memcpy(text + 3 * i, "ab\n", 4);
	strcat(text, "NCCL_A=1\n");
	parse(text, strlen(text));
	ck_assert_uint_eq(p.conf->bad_count, 100);
	bad_is(CONF_BAD_MOST - 1, CONF_BAD_MOST, "'ab', expected NAME=VALUE or # COMMENT");
	value_is("NCCL_A", "1");
	conf_free(p.conf);
}
END_TEST

static int add_any(void *ctx, const char *name, const char *value)
{
	return 0;
}

/* Without a bound, a large file would cost the square of its lines. */
START_TEST(a_file_has_a_most_of_variables)
{
	struct conf_process other = process;
	char *text = malloc(16 * (CONF_LINES_MOST + 2)), last[64];
	size_t n = 0;

	other.add = add_any;
	for (int i = 0; i < CONF_LINES_MOST + 2; i++)
		n += (size_t)sprintf(text + n, "NCCL_%d=\n", i);
	p.conf = calloc(1, sizeof *p.conf);
	ck_assert_int_eq(conf_parse(p.conf, &other, "f", text, n), 0);
	ck_assert_uint_eq(p.conf->count, CONF_LINES_MOST);
	ck_assert_uint_eq(p.conf->bad_count, 2);
	snprintf(last, sizeof last, "expected at most %d variables", CONF_LINES_MOST);
	bad_is(1, CONF_LINES_MOST + 2, last);
	conf_free(p.conf);
	free(text);
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

static void two_files(const char *user, const char *etc)
{
	p.path[0] = "/home/u/.nccl.conf";
	p.path[1] = "/etc/nccl.conf";
	p.text[0] = user;
	p.text[1] = etc;
}

START_TEST(environment_before_the_users_file_before_that_of_the_host)
{
	two_files("NCCL_A=user\nNCCL_B=user\n", "NCCL_A=etc\nNCCL_B=etc\nNCCL_C=etc\nNCCL_D=etc\n");
	process_add(NULL, "NCCL_A", "environment");
	process_add(NULL, "NCCL_D", "");
	load();
	value_is("NCCL_A", "environment");
	value_is("NCCL_B", "user");
	value_is("NCCL_C", "etc");
	value_is("NCCL_D", "");
	ck_assert_ptr_null(conf_find(p.conf, "NCCL_A", 6));
	ck_assert_str_eq(conf_find(p.conf, "NCCL_B", 6)->path, p.path[0]);
	ck_assert_str_eq(conf_find(p.conf, "NCCL_C", 6)->path, p.path[1]);
	ck_assert_ptr_null(conf_find(p.conf, "NCCL_D", 6));
	ck_assert_uint_eq(p.conf->bad_count, 0);
	conf_free(p.conf);
}
END_TEST

START_TEST(nccl_conf_file_replaces_the_users_file_even_if_it_is_absent)
{
	two_files("NCCL_A=mine\n", "NCCL_B=etc\n");
	process_add(NULL, "NCCL_CONF_FILE", _i ? "/no/such" : "/other");
	if (!_i)
		p.path[0] = "/other";
	load();
	value_is("NCCL_A", _i ? NULL : "mine");
	value_is("NCCL_B", "etc");
	ck_assert_uint_eq(p.conf->bad_count, _i);
	if (_i)
		bad_is(0, 0,
		       "cannot be read: No such file or directory; expected a file of lines "
		       "NAME=VALUE");
	conf_free(p.conf);
}
END_TEST

START_TEST(the_hosts_file_is_read_once_if_it_is_the_users_file_too)
{
	two_files(NULL, "NCCL_A=etc\nbad\n");
	process_add(NULL, "NCCL_CONF_FILE", "/etc/nccl.conf");
	load();
	value_is("NCCL_A", "etc");
	ck_assert_int_eq(p.reads, 1);
	ck_assert_uint_eq(p.conf->bad_count, 1);
	conf_free(p.conf);
}
END_TEST

START_TEST(an_empty_nccl_conf_file_counts_as_unset)
{
	two_files("NCCL_A=user\n", NULL);
	process_add(NULL, "NCCL_CONF_FILE", "");
	load();
	value_is("NCCL_A", "user");
	conf_free(p.conf);
}
END_TEST

START_TEST(doppel_etc_conf_replaces_the_hosts_file)
{
	two_files("NCCL_A=user\n", "NCCL_B=other\n");
	p.path[1] = "/other";
	process_add(NULL, "DOPPEL_ETC_CONF", "/other");
	load();
	value_is("NCCL_A", "user");
	value_is("NCCL_B", "other");
	conf_free(p.conf);
}
END_TEST

START_TEST(a_process_without_a_home_has_no_users_file)
{
	struct conf_process other = process;

	two_files("NCCL_A=user\n", "NCCL_B=etc\n");
	p.path[0] = CONF_USER_NAME;
	other.home = _i ? NULL : "";
	ck_assert_int_eq(conf_load(&other, &p.conf), 0);
	value_is("NCCL_A", NULL);
	value_is("NCCL_B", _i ? NULL : "etc");
	ck_assert_int_eq(p.reads, !_i);
	conf_free(p.conf);
}
END_TEST

START_TEST(a_file_that_is_there_and_cannot_be_read_is_reported)
{
	static const int errors[] = {EACCES, EISDIR, EIO, EFBIG};
	char text[160];

	two_files(NULL, "NCCL_B=etc\n");
	p.rc[0] = errors[_i];
	load();
	snprintf(text, sizeof text, "cannot be read: %s; expected a file of lines NAME=VALUE",
		 strerror(errors[_i]));
	bad_is(0, 0, text);
	value_is("NCCL_B", "etc");
	conf_free(p.conf);
}
END_TEST

START_TEST(no_file_is_no_state)
{
	two_files(NULL, NULL);
	load();
	ck_assert_ptr_null(p.conf);
	conf_report_bad(NULL);
	conf_report_unused(NULL);
	p.rc[0] = ENOMEM;
	ck_assert_int_eq(conf_load(&process, &p.conf), ENOMEM);
	ck_assert_ptr_null(p.conf);
}
END_TEST

static TCase *lines_case(void)
{
	TCase *tc = tcase_create("lines");

	tcase_add_test(tc, a_line_is_a_name_and_the_rest_of_the_line);
	tcase_add_loop_test(tc, a_bad_line_is_kept_with_its_number_and_loses_no_other, 0,
			    (int)(sizeof bad_lines / sizeof bad_lines[0]));
	tcase_add_test(tc, a_nul_byte_spoils_its_line_only);
	tcase_add_loop_test(tc, a_long_line_is_refused_and_the_next_one_counts, 0, 6);
	tcase_add_test(tc, bad_lines_beyond_those_that_are_kept_are_counted);
	tcase_add_test(tc, a_file_has_a_most_of_variables);
	return tc;
}

static TCase *files_case(void)
{
	TCase *tc = tcase_create("files");

	tcase_add_test(tc, environment_before_the_users_file_before_that_of_the_host);
	tcase_add_loop_test(tc, nccl_conf_file_replaces_the_users_file_even_if_it_is_absent, 0, 2);
	tcase_add_test(tc, the_hosts_file_is_read_once_if_it_is_the_users_file_too);
	tcase_add_test(tc, an_empty_nccl_conf_file_counts_as_unset);
	tcase_add_test(tc, doppel_etc_conf_replaces_the_hosts_file);
	tcase_add_loop_test(tc, a_process_without_a_home_has_no_users_file, 0, 2);
	tcase_add_loop_test(tc, a_file_that_is_there_and_cannot_be_read_is_reported, 0, 4);
	tcase_add_test(tc, no_file_is_no_state);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("conf");

	suite_add_tcase(suite, lines_case());
	suite_add_tcase(suite, files_case());
	return suite_run(suite);
}
