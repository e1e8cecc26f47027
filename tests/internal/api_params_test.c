/* SPDX-License-Identifier: BSD-3-Clause */
/* ncclParam*: keys, handles and types of parameters, and invalid arguments. Each case runs in a
 * process of its own (the fork mode of Check), because a process reads its environment once. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/include/nccl.h"
#include "tests/suite.h"

static ncclParamHandle_t bind(const char *key)
{
	ncclParamHandle_t h = NULL;

	ck_assert_int_eq(ncclParamBind(&h, key), ncclSuccess);
	ck_assert_ptr_nonnull(h);
	return h;
}

static void error_is(const char *text)
{
	ck_assert_str_eq(log_last_error(), text);
}

static void error_begins(const char *text)
{
	ck_assert_msg(!strncmp(log_last_error(), text, strlen(text)), "%s", log_last_error());
}

START_TEST(a_value_is_read_as_its_type)
{
	int64_t number = 0;
	const char *text = NULL;

	setenv("NCCL_IB_TIMEOUT", "0x16", 1);
	setenv("NCCL_BUFFSIZE", "1M", 1);
	setenv("NCCL_IB_HCA", "mlx5_1", 1);
	ck_assert_int_eq(ncclParamGetI64(bind("NCCL_IB_TIMEOUT"), &number), ncclSuccess);
	ck_assert_int_eq(number, 22);
	ck_assert_int_eq(ncclParamGetI64(bind("NCCL_BUFFSIZE"), &number), ncclSuccess);
	ck_assert_int_eq(number, 1 << 20);
	ck_assert_int_eq(ncclParamGetStr(bind("NCCL_IB_HCA"), &text), ncclSuccess);
	ck_assert_str_eq(text, "mlx5_1");
	ck_assert_int_eq(ncclParamGetStr(bind("NCCL_ALGO"), &text), ncclSuccess);
	ck_assert_str_eq(text, "");
	error_is("");
}
END_TEST

START_TEST(bytes_of_a_value)
{
	unsigned char out[16];
	int64_t number;
	int len;

	setenv("NCCL_IB_HCA", "abc", 1);
	setenv("NCCL_P2P_DISABLE", "1", 1);
	memset(out, 0xaa, sizeof out);
	ck_assert_int_eq(ncclParamGet(bind("NCCL_IB_HCA"), out, 4, &len), ncclSuccess);
	ck_assert_int_eq(len, 4);
	ck_assert_str_eq((char *)out, "abc");
	ck_assert_uint_eq(out[4], 0xaa);
	ck_assert_int_eq(ncclParamGet(bind("NCCL_P2P_DISABLE"), out, 16, &len), ncclSuccess);
	ck_assert_int_eq(len, 1);
	ck_assert_uint_eq(out[0], 1);
	ck_assert_int_eq(ncclParamGet(bind("NCCL_IB_TIMEOUT"), &number, 8, &len), ncclSuccess);
	ck_assert_int_eq(len, 8);
	ck_assert_int_eq(number, 20);
	ck_assert_int_eq(ncclParamGet(bind("NCCL_IB_HCA"), out, 3, &len), ncclInvalidArgument);
	ck_assert_int_eq(len, 0);
	error_is("ncclParamGet: maxLen is 3, expected 4 or more for NCCL_IB_HCA");
	ck_assert_int_eq(ncclParamGet(bind("NCCL_IB_HCA"), out, -1, &len), ncclInvalidArgument);
}
END_TEST

static const struct {
	const char *key, *set, *text;
} texts[] = {
	{"NCCL_IB_TIMEOUT", "0x16", "22"},
	{"NCCL_IB_TIMEOUT", NULL, "20"},
	{"NCCL_IB_TIMEOUT", "99", "20"},
	{"NCCL_BUFFSIZE", "2k", "2048"},
	{"NCCL_P2P_DISABLE", "1", "TRUE"},
	{"NCCL_P2P_DISABLE", NULL, "FALSE"},
	{"NCCL_MIN_NCHANNELS", NULL, "-2"},
	{"NCCL_IB_HCA", "a,b", "a,b"},
	{"NCCL_IB_HCA", NULL, ""},
	{"NCCL_MIN_NRINGS", "3", "3"},
	{"DOPPEL_ETC_CONF", "/dev/null", "/dev/null"},
};

START_TEST(a_key_gives_a_text)
{
	const char *value = NULL, *again = NULL;
	int len = -1;

	if (texts[_i].set)
		setenv(texts[_i].key, texts[_i].set, 1);
	ck_assert_int_eq(ncclParamGetParameter(texts[_i].key, &value, &len), ncclSuccess);
	ck_assert_str_eq(value, texts[_i].text);
	ck_assert_int_eq(len, (int)strlen(texts[_i].text));
	ck_assert_int_eq(ncclParamGetParameter("NCCL_IB_SL", &again, &len), ncclSuccess);
	ck_assert_str_eq(value, texts[_i].text); /* it stays valid */
}
END_TEST

START_TEST(another_type_is_refused_with_the_right_function)
{
	ncclParamHandle_t integer = bind("NCCL_IB_TIMEOUT"), flag = bind("NCCL_P2P_DISABLE");
	int32_t i32 = 7;
	int64_t i64 = 7;
	uint8_t u8 = 7;
	const char *text = "x";

	ck_assert_int_eq(ncclParamGetI32(integer, &i32), ncclInvalidArgument);
	ck_assert_int_eq(i32, 0);
	error_is("ncclParamGetI32: NCCL_IB_TIMEOUT is of type int, expected ncclParamGetI64 or "
		 "ncclParamGetParameter");
	ck_assert_int_eq(ncclParamGetU8(integer, &u8), ncclInvalidArgument);
	ck_assert_int_eq(u8, 0);
	ck_assert_int_eq(ncclParamGetStr(integer, &text), ncclInvalidArgument);
	ck_assert_ptr_null(text);
	ck_assert_int_eq(ncclParamGetI64(flag, &i64), ncclInvalidArgument);
	ck_assert_int_eq(i64, 0);
	error_is("ncclParamGetI64: NCCL_P2P_DISABLE is of type bool, expected ncclParamGet or "
		 "ncclParamGetParameter");
	ck_assert_int_eq(ncclParamGetI64(bind("NCCL_ALGO"), &i64), ncclInvalidArgument);
	error_is("ncclParamGetI64: NCCL_ALGO is of type string, expected ncclParamGetStr or "
		 "ncclParamGetParameter");
}
END_TEST

/* Each call that reads a number, with a handle of NULL and one that is no handle. */
START_TEST(an_invalid_handle_is_refused)
{
	ncclParamHandle_t h = _i ? (ncclParamHandle_t)(uintptr_t)(param_count() + 1) : NULL;
	char out[8];
	int len = 7;
	const char *text;

	ck_assert_int_eq(ncclParamGetI8(h, (int8_t *)out), ncclInvalidArgument);
	error_begins("ncclParamGetI8: h is ");
	ck_assert_int_eq(ncclParamGetI16(h, (int16_t *)out), ncclInvalidArgument);
	error_begins("ncclParamGetI16: h is ");
	ck_assert_int_eq(ncclParamGetU16(h, (uint16_t *)out), ncclInvalidArgument);
	error_begins("ncclParamGetU16: h is ");
	ck_assert_int_eq(ncclParamGetU32(h, (uint32_t *)out), ncclInvalidArgument);
	error_begins("ncclParamGetU32: h is ");
	ck_assert_int_eq(ncclParamGetU64(h, (uint64_t *)out), ncclInvalidArgument);
	error_begins("ncclParamGetU64: h is ");
	ck_assert_int_eq(ncclParamGetStr(h, &text), ncclInvalidArgument);
	error_begins("ncclParamGetStr: h is ");
	ck_assert_int_eq(ncclParamGet(h, out, 8, &len), ncclInvalidArgument);
	error_begins("ncclParamGet: h is ");
	ck_assert_int_eq(len, 0);
}
END_TEST

START_TEST(null_outputs_are_named)
{
	ncclParamHandle_t h = bind("NCCL_IB_TIMEOUT");
	const char *value, **table;
	char out[8];
	int len;

	ck_assert_int_eq(ncclParamBind(NULL, "NCCL_ALGO"), ncclInvalidArgument);
	error_is("ncclParamBind: out is NULL");
	ck_assert_int_eq(ncclParamGetI64(h, NULL), ncclInvalidArgument);
	error_is("ncclParamGetI64: out is NULL");
	ck_assert_int_eq(ncclParamGetStr(h, NULL), ncclInvalidArgument);
	error_is("ncclParamGetStr: out is NULL");
	ck_assert_int_eq(ncclParamGet(h, NULL, 8, &len), ncclInvalidArgument);
	error_is("ncclParamGet: out is NULL");
	ck_assert_int_eq(ncclParamGet(h, out, 8, NULL), ncclInvalidArgument);
	error_is("ncclParamGet: len is NULL");
	ck_assert_int_eq(ncclParamGetParameter("NCCL_ALGO", NULL, &len), ncclInvalidArgument);
	error_is("ncclParamGetParameter: value is NULL");
	ck_assert_int_eq(ncclParamGetParameter("NCCL_ALGO", &value, NULL), ncclInvalidArgument);
	error_is("ncclParamGetParameter: valueLen is NULL");
	ck_assert_int_eq(ncclParamGetAllParameterKeys(NULL, &len), ncclInvalidArgument);
	error_is("ncclParamGetAllParameterKeys: table is NULL");
	ck_assert_int_eq(ncclParamGetAllParameterKeys(&table, NULL), ncclInvalidArgument);
	error_is("ncclParamGetAllParameterKeys: tableLen is NULL");
}
END_TEST

static const char *const no_keys[] = {"", "NCCL_IB_TIMOUT", "IB_TIMEOUT", "nccl_ib_timeout",
				      "NCCL_NVLS_ENABLE"};

START_TEST(an_unknown_key_is_named_with_the_nearest)
{
	ncclParamHandle_t h = bind("NCCL_ALGO");
	const char *value = "x";
	int len = 7;
	char expected[160];

	ck_assert_int_eq(ncclParamBind(&h, no_keys[_i]), ncclInvalidArgument);
	ck_assert_ptr_null(h);
	snprintf(expected, sizeof expected,
		 "ncclParamBind: key is '%s', which this version does not have; nearest: ",
		 no_keys[_i]);
	error_begins(expected);
	ck_assert_int_eq(ncclParamGetParameter(no_keys[_i], &value, &len), ncclInvalidArgument);
	ck_assert_ptr_null(value);
	ck_assert_int_eq(len, 0);
	ck_assert_int_eq(ncclParamBind(&h, NULL), ncclInvalidArgument);
	error_is("ncclParamBind: key is NULL");
	ck_assert_int_eq(ncclParamGetParameter(NULL, &value, &len), ncclInvalidArgument);
	error_is("ncclParamGetParameter: key is NULL");
}
END_TEST

static const struct {
	const char *set;
	bool all;
} dump_all[] = {{NULL, false},  {"FALSE", false}, {"0", false}, {"", false}, {"maybe", false},
		{"true", true}, {"TRUE", true},   {"1", true},  {"T", true}};

START_TEST(the_keys_are_those_of_nccl_or_all)
{
	const char **keys = NULL, **again, *value;
	int n = 0, k, ours = 0, len;

	if (dump_all[_i].set)
		setenv("NCCL_PARAM_DUMP_ALL", dump_all[_i].set, 1);
	ck_assert_int_eq(ncclParamGetAllParameterKeys(&keys, &n), ncclSuccess);
	for (int i = 0; i < n; i++) {
		ours += !strncmp(keys[i], "DOPPEL_", 7);
		ck_assert_int_eq(ncclParamGetParameter(keys[i], &value, &len), ncclSuccess);
	}
	ck_assert_int_eq(ours > 0, dump_all[_i].all);
	ck_assert_int_eq(n == param_count(), dump_all[_i].all);
	ck_assert_int_gt(n, 75);
	ck_assert_int_eq(ncclParamGetAllParameterKeys(&again, &k), ncclSuccess);
	ck_assert_ptr_eq(again, keys);
}
END_TEST

/* Returns what ncclParamDumpAll logs. */
static const char *dumped(void)
{
	static char text[64 << 10];
	int real = dup(2);
	FILE *file = tmpfile();

	dup2(fileno(file), 2);
	ncclParamDumpAll();
	dup2(real, 2);
	close(real);
	rewind(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

START_TEST(the_dump_has_value_place_default_and_form)
{
	setenv("NCCL_IB_TIMEOUT", "22", 1);
	unsetenv("NCCL_IB_SL");
	const char *text = dumped();
	ck_assert_ptr_nonnull(strstr(text, "\nNCCL_IB_TIMEOUT (int) local ACK timeout"));
	ck_assert_ptr_nonnull(strstr(text, "    Current value=22 set_by=environment default=20\n"
					   "    Accepted value: an integer from 0 to 31\n"));
	ck_assert_ptr_nonnull(strstr(text, "    Current value=0 set_by=default default=0\n"
					   "    Accepted value: an integer from 0 to 15\n"));
	ck_assert_ptr_null(strstr(text, "\nDOPPEL_"));
}
END_TEST

static TCase *params_case(void)
{
	TCase *tc = tcase_create("params");

	tcase_add_test(tc, a_value_is_read_as_its_type);
	tcase_add_test(tc, bytes_of_a_value);
	tcase_add_loop_test(tc, a_key_gives_a_text, 0, (int)(sizeof texts / sizeof texts[0]));
	tcase_add_test(tc, another_type_is_refused_with_the_right_function);
	tcase_add_loop_test(tc, an_invalid_handle_is_refused, 0, 2);
	tcase_add_test(tc, null_outputs_are_named);
	tcase_add_loop_test(tc, an_unknown_key_is_named_with_the_nearest, 0,
			    (int)(sizeof no_keys / sizeof no_keys[0]));
	tcase_add_loop_test(tc, the_keys_are_those_of_nccl_or_all, 0,
			    (int)(sizeof dump_all / sizeof dump_all[0]));
	tcase_add_test(tc, the_dump_has_value_place_default_and_form);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("api_params");

	suite_add_tcase(suite, params_case());
	return suite_run(suite);
}
