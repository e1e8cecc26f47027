/* SPDX-License-Identifier: BSD-3-Clause */
/* core/base/param: one table, parsed once per process, malformed values named. Each case runs in a
 * process of its own (Check's fork mode), so it sets the real environment before the first read. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "sim/world/params.h"
#include "tests/suite.h"

START_TEST(unset_gives_the_default)
{
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 20);
	ck_assert_int_eq(param_i64(PARAM_IB_RETRY_CNT), 7);
	ck_assert_int_eq(param_i64(PARAM_MIN_NCHANNELS), PARAM_UNSET);
	ck_assert_int_eq(param_i64(PARAM_BUFFSIZE), 4 << 20);
	ck_assert(!param_bool(PARAM_P2P_DISABLE));
	ck_assert_ptr_null(param_str(PARAM_IB_HCA));
	ck_assert(!param_is_set(PARAM_IB_HCA));
	ck_assert_str_eq(log_last_error(), "");
}
END_TEST

START_TEST(values_are_parsed)
{
	setenv("NCCL_IB_TIMEOUT", "0x16", 1);
	setenv("NCCL_BUFFSIZE", "1M", 1);
	setenv("NCCL_P2P_DISABLE", "1", 1);
	setenv("NCCL_IB_HCA", "mlx5", 1);
	setenv("NCCL_SOCKET_IFNAME", "", 1);
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 22);
	ck_assert_int_eq(param_i64(PARAM_BUFFSIZE), 1 << 20);
	ck_assert(param_bool(PARAM_P2P_DISABLE));
	ck_assert_str_eq(param_str(PARAM_IB_HCA), "mlx5");
	ck_assert(param_is_set(PARAM_SOCKET_IFNAME));
	ck_assert_ptr_null(param_str(PARAM_SOCKET_IFNAME));
	ck_assert_str_eq(param_name(PARAM_IB_TIMEOUT), "NCCL_IB_TIMEOUT");
	ck_assert_str_eq(log_last_error(), "");
}
END_TEST

static const struct {
	const char *value;
	bool ok;
} malformed[] = {
	{"abc", false},
	{"5x", false},
	{"32", false},
	{"-1", false},
	{"99999999999999999999", false},
	{"1k", false},
	{" 5", true},
	{"31", true},
	{"0", true},
	{"1.5", false},
};

START_TEST(malformed_is_named_once_and_the_default_used)
{
	setenv("NCCL_IB_TIMEOUT", malformed[_i].value, 1);
	int64_t v = param_i64(PARAM_IB_TIMEOUT);
	if (malformed[_i].ok) {
		ck_assert_str_eq(log_last_error(), "");
		return;
	}
	ck_assert_int_eq(v, 20);
	char expected[160];
	snprintf(
		expected, sizeof expected,
		"NCCL_IB_TIMEOUT is '%s', expected an integer from 0 to 31; the default 20 is used",
		malformed[_i].value);
	ck_assert_str_eq(log_last_error(), expected);
	const char *before = log_last_error();
	ck_assert_int_eq(param_i64(PARAM_IB_TIMEOUT), 20);
	ck_assert_ptr_eq(log_last_error(), before);
}
END_TEST

START_TEST(bytes_take_a_unit)
{
	static const struct {
		const char *text;
		int64_t value;
	} rows[] = {{"64k", 65536},           {"2G", 2ll << 30}, {"2GB", 4 << 20},
		    {"9999999999G", 4 << 20}, {"0", 4 << 20},    {"123", 123}};
	setenv("NCCL_BUFFSIZE", rows[_i].text, 1);
	ck_assert_int_eq(param_i64(PARAM_BUFFSIZE), rows[_i].value);
}
END_TEST

START_TEST(a_malformed_value_is_reported_at_any_log_level_and_is_as_if_unset)
{
	char said[2048];
	int real = dup(2);
	FILE *file = tmpfile();
	setenv("DOPPEL_HCA_PERSONALITY", "foo", 1);
	setenv("NCCL_DEBUG", "FOO", 1);
	setenv("NCCL_IB_HCA", "foo", 1); /* any text is right */
	dup2(fileno(file), 2);
	param_report_malformed();
	param_report_malformed();
	dup2(real, 2);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = '\0';
	fclose(file);
	ck_assert_str_eq(said,
			 "NCCL_DEBUG is 'FOO', expected NONE, VERSION, WARN, ATTN, INFO, ABORT or "
			 "TRACE; the default (unset) is used\n"
			 "DOPPEL_HCA_PERSONALITY is 'foo', expected a list of spec, mlx5, "
			 "mlx5-ib or rxe; the default spec is used\n");
	ck_assert_str_eq(param_str(PARAM_DOPPEL_HCA_PERSONALITY), "spec");
	ck_assert_ptr_null(param_str(PARAM_DEBUG));
}
END_TEST

START_TEST(a_name_is_found_or_has_a_nearest_one)
{
	ck_assert_int_eq(param_find("NCCL_IB_TC", 10), PARAM_IB_TC);
	ck_assert_int_eq(param_find("NCCL_IB_T", 9), -1);
	ck_assert_int_eq(param_find("DOPPEL_MACHINE", 14), PARAM_DOPPEL_MACHINE);
	ck_assert_str_eq(param_nearest("DOPPEL_MASCHINE", 15), "DOPPEL_MACHINE");
}
END_TEST

START_TEST(the_table_prints_every_row)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	setenv("NCCL_IB_SL", "3", 1);
	param_print(out);
	fclose(out);
	for (int p = 0; p < param_count(); p++)
		ck_assert_msg(strstr(text, param_name(p)) != NULL, "%s is missing", param_name(p));
	ck_assert_ptr_nonnull(strstr(text, "[now: 3]"));
	ck_assert_ptr_nonnull(strstr(text, "unset"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("param");
	TCase *tc = tcase_create("param");
	tcase_add_test(tc, unset_gives_the_default);
	tcase_add_test(tc, values_are_parsed);
	tcase_add_loop_test(tc, malformed_is_named_once_and_the_default_used, 0,
			    (int)(sizeof malformed / sizeof malformed[0]));
	tcase_add_loop_test(tc, bytes_take_a_unit, 0, 6);
	tcase_add_test(tc, a_malformed_value_is_reported_at_any_log_level_and_is_as_if_unset);
	tcase_add_test(tc, a_name_is_found_or_has_a_nearest_one);
	tcase_add_test(tc, the_table_prints_every_row);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
