/* SPDX-License-Identifier: BSD-3-Clause */
/* core/base/param_known: the variables of NCCL that the stack does not read, and what is logged of
 * them. nccl_2_32_variables.txt lists the variables of NCCL 2.32.3. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/param.h"
#include "core/os/os.h"
#include "tests/suite.h"

static enum param_use use_of(const char *name)
{
	return param_use_of(name, strlen(name));
}

START_TEST(each_variable_of_nccl_has_an_effect_or_is_known)
{
	FILE *f = fopen(DOPPEL_SOURCE_DIR "/tests/unit/golden/nccl_2_32_variables.txt", "r");
	char name[128];
	int count = 0, read = 0;

	ck_assert_ptr_nonnull(f);
	for (; fscanf(f, "%127s", name) == 1; count++) {
		enum param_use use = use_of(name);

		ck_assert_msg(use == PARAM_READ || use == PARAM_NO_EFFECT, "%s: use %d", name,
			      (int)use);
		read += use == PARAM_READ;
	}
	fclose(f);
	ck_assert_int_eq(count, 278);
	ck_assert_int_gt(read, 75);
}
END_TEST

START_TEST(known_names_are_sorted_and_in_no_other_table)
{
	const char *name;
	int i = 0;

	for (; (name = param_known_at(i)); i++) {
		ck_assert_msg(!i || strcmp(param_known_at(i - 1), name) < 0, "%s is not after %s",
			      name, param_known_at(i - (i > 0)));
		ck_assert_msg(param_find(name, strlen(name)) < 0, "%s has a reader", name);
		ck_assert_int_ne(use_of(name), PARAM_READ);
		ck_assert_int_ne(use_of(name), PARAM_UNKNOWN);
	}
	ck_assert_int_gt(i, 150);
}
END_TEST

START_TEST(a_name_has_one_use)
{
	ck_assert_int_eq(use_of("NCCL_IB_TIMEOUT"), PARAM_READ);
	ck_assert_int_eq(use_of("NCCL_MIN_NRINGS"), PARAM_READ);
	ck_assert_int_eq(use_of("NCCL_NVLS_ENABLE"), PARAM_NO_EFFECT);
	ck_assert_int_eq(use_of("NCCL_VERSION"), PARAM_OF_OTHERS);
	ck_assert_int_eq(use_of("NCCL_NVLS_ENABL"), PARAM_UNKNOWN);
	ck_assert_int_eq(use_of("NCCL_NVLS_ENABLED"), PARAM_UNKNOWN);
	ck_assert_int_eq(use_of("NCCL_PARAM_TYPE_I8"), PARAM_UNKNOWN); /* a word, no variable */
}
END_TEST

/* Returns the log of param_report_unread. */
static const char *logged(void)
{
	static char text[4096];
	int real = dup(2);
	FILE *file = tmpfile();

	dup2(fileno(file), 2);
	param_report_unread();
	dup2(real, 2);
	close(real);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static const struct {
	const char *name, *line;
} lines[] = {
	{"NCCL_NVLS_ENABLE", "NCCL WARN NCCL_NVLS_ENABLE has no effect: this version has no "
			     "reductions in NVSwitches (NVLS)\n"},
	{"NCCL_SHM_MEMCPY_MODE", "NCCL WARN NCCL_SHM_MEMCPY_MODE has no effect: this version has "
				 "no such setting, and neither has NCCL 2.32\n"},
	{"NCCL_IB_TIMOUT", "NCCL WARN NCCL_IB_TIMOUT is not a variable of NCCL 2.32 or of this "
			   "version; nearest: NCCL_IB_TIMEOUT\n"},
	{"NCCL_NVLS_ENABEL", "nearest: NCCL_NVLS_ENABLE\n"}, /* a known one without effect */
	{"NCCL_VERSION", "NCCL INFO NCCL_VERSION is a variable of other programs\n"},
	{"NCCL_IB_TIMEOUT", NULL},
	{"NCCL_MAX_NRINGS", NULL},
	{"NVCC_NVLS_ENABLE", NULL},
};

START_TEST(a_variable_that_is_not_read_is_one_line)
{
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv(lines[_i].name, "1", 1);
	const char *log = logged(), *at = strstr(log, lines[_i].name);
	ck_assert_int_eq(at != NULL, lines[_i].line != NULL);
	if (at) {
		ck_assert_msg(strstr(log, lines[_i].line) != NULL, "%s", log);
		ck_assert_ptr_null(strstr(strchr(at, '\n'), lines[_i].name));
	}
	ck_assert_str_eq(logged(), "");
}
END_TEST

START_TEST(an_unread_variable_is_silent_without_a_log)
{
	setenv("NCCL_NVLS_ENABLE", "1", 1);
	unsetenv("NCCL_DEBUG");
	ck_assert_str_eq(logged(), "");
}
END_TEST

START_TEST(an_unread_variable_of_a_file_has_its_place)
{
	char path[] = "/tmp/doppel_known_XXXXXX", expected[256];
	int fd = mkstemp(path);
	static const char text[] = "\nNCCL_NVLS_ENABLE=0\nNCCL_ALGOS=ring\n";

	ck_assert_int_eq(write(fd, text, sizeof text - 1), (int)sizeof text - 1);
	close(fd);
	setenv("NCCL_DEBUG", "WARN", 1);
	setenv("NCCL_CONF_FILE", path, 1);
	const char *log = logged();
	snprintf(expected, sizeof expected, "%s:2: NCCL_NVLS_ENABLE has no effect", path);
	ck_assert_ptr_nonnull(strstr(log, expected));
	snprintf(expected, sizeof expected, "%s:3: NCCL_ALGOS is not a variable", path);
	ck_assert_ptr_nonnull(strstr(log, expected));
	unlink(path);
}
END_TEST

START_TEST(an_older_name_sets_the_variable_and_the_newer_decides)
{
	setenv("NCCL_MIN_NRINGS", "3", 1);
	setenv("NCCL_MAX_NRINGS", "5", 1);
	setenv("NCCL_MAX_NCHANNELS", "7", 1);
	ck_assert_int_eq(param_i64(PARAM_MIN_NCHANNELS), 3);
	ck_assert_int_eq(param_i64(PARAM_MAX_NCHANNELS), 7);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("param_known");
	TCase *tc = tcase_create("param_known");

	tcase_add_test(tc, each_variable_of_nccl_has_an_effect_or_is_known);
	tcase_add_test(tc, known_names_are_sorted_and_in_no_other_table);
	tcase_add_test(tc, a_name_has_one_use);
	tcase_add_loop_test(tc, a_variable_that_is_not_read_is_one_line, 0,
			    (int)(sizeof lines / sizeof lines[0]));
	tcase_add_test(tc, an_unread_variable_is_silent_without_a_log);
	tcase_add_test(tc, an_unread_variable_of_a_file_has_its_place);
	tcase_add_test(tc, an_older_name_sets_the_variable_and_the_newer_decides);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
