/* SPDX-License-Identifier: BSD-3-Clause */
/* The payload check: passes what is right, counts what is wrong, and names the rank. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/check/payload.h"
#include "tests/suite.h"

enum { COUNT = 3000, RANKS = 16 };

static const ncclDataType_t all_types[] = {
	ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,      ncclUint64,
	ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2,
};

static uint8_t want[COUNT * 8], got[COUNT * 8];

START_TEST(right_results_pass_for_every_type_and_operation)
{
	struct payload p = {.type = all_types[_i], .nranks = RANKS, .salt = 7};
	for (int op = ncclSum; op <= ncclAvg; op++) {
		size_t where = 0;
		p.op = (ncclRedOp_t)op;
		payload_expect(&p, 0, COUNT, want);
		memcpy(got, want, sizeof got);
		ck_assert_uint_eq(payload_compare(&p, 0, COUNT, got, want, &where), 0);
	}
}
END_TEST

START_TEST(every_flipped_bit_is_wrong_and_located)
{
	struct payload p = {.type = all_types[_i], .op = ncclSum, .nranks = RANKS, .salt = 3};
	size_t width = payload_type_bytes(p.type), where = 0;
	payload_expect(&p, 100, COUNT, want);
	memcpy(got, want, sizeof got);
	got[1234 * width] ^= 1;
	got[2000 * width + width - 1] ^= 0x40;
	ck_assert_uint_eq(payload_compare(&p, 100, COUNT, got, want, &where), 2);
	ck_assert_uint_eq(where, 100 + 1234);
}
END_TEST

/* The reduction as the stack would do it when rank `odd` took part `times` times: from the inputs,
 * in int64, independent of payload_expect. */
static void reduce_inputs(const struct payload *p, int odd, int times)
{
	static int64_t input[COUNT];
	int64_t *out = (int64_t *)got;
	memset(got, 0, sizeof got);
	for (int r = 0; r < p->nranks; r++) {
		payload_fill(p, r, 0, COUNT, input);
		for (int t = 0; t < (r == odd ? times : 1); t++)
			for (int i = 0; i < COUNT; i++)
				out[i] += input[i];
	}
}

START_TEST(expectation_is_the_sum_of_the_inputs)
{
	struct payload p = {.type = ncclInt64, .op = ncclSum, .nranks = RANKS, .salt = 11};
	size_t where = 0;
	reduce_inputs(&p, -1, 1);
	payload_expect(&p, 0, COUNT, want);
	ck_assert_uint_eq(payload_compare(&p, 0, COUNT, got, want, &where), 0);
}
END_TEST

/* The elements of a stack that divides or multiplies wrongly, from the inputs, independent of
 * payload_expect. */
static const struct factor_case {
	ncclRedOp_t op;
	int divisions, factors;
	bool each;
	const char *words;
} factor_cases[] = {
	{ncclAvg, 0, 0, false, "the sum was not divided by the number of ranks"},
	{ncclAvg, 2, 0, false, "the sum was divided by the number of ranks twice"},
	{ncclAvg, 0, 0, true, "each input was divided, and not their sum"},
	{PAYLOAD_MULSUM, 0, 0, false, "the inputs were not pre-multiplied"},
	{PAYLOAD_MULSUM, 0, 2, false, "the inputs were pre-multiplied twice"},
};

START_TEST(a_wrong_factor_is_named)
{
	const struct factor_case *c = &factor_cases[_i];
	struct payload p = {.type = ncclInt64, .op = c->op, .nranks = 7, .salt = 5};
	static int64_t input[COUNT];
	int64_t *out = (int64_t *)got, factor = 1;
	char why[256];

	memset(got, 0, sizeof got);
	for (int r = 0; r < p.nranks; r++) {
		payload_fill(&p, r, 0, COUNT, input);
		if (c->op == PAYLOAD_MULSUM)
			payload_factor(&p, r, &factor);
		for (int i = 0; i < COUNT; i++) {
			int64_t v = c->each ? input[i] / p.nranks : input[i];

			for (int k = 0; k < c->factors; k++)
				v *= factor;
			out[i] += v;
		}
	}
	for (int i = 0; i < COUNT; i++)
		for (int k = 0; k < c->divisions; k++)
			out[i] /= p.nranks;
	payload_explain(&p, 0, COUNT, got, why, sizeof why);
	ck_assert_msg(strstr(why, c->words) != NULL, "'%s' does not have '%s'", why, c->words);
}
END_TEST

START_TEST(a_missing_contribution_names_its_rank)
{
	struct payload p = {.type = ncclInt64, .op = ncclSum, .nranks = RANKS, .salt = 11};
	char why[256], expected[64];
	reduce_inputs(&p, _i, 0);
	payload_explain(&p, 0, COUNT, got, why, sizeof why);
	snprintf(expected, sizeof expected, "contribution of rank %d is missing", _i);
	ck_assert_msg(strstr(why, expected) != NULL, "'%s' does not say '%s'", why, expected);
}
END_TEST

START_TEST(a_doubled_contribution_names_its_rank)
{
	struct payload p = {.type = ncclInt64, .op = ncclSum, .nranks = RANKS, .salt = 11};
	char why[256], expected[64];
	reduce_inputs(&p, _i, 2);
	payload_explain(&p, 0, COUNT, got, why, sizeof why);
	snprintf(expected, sizeof expected, "contribution of rank %d is doubled", _i);
	ck_assert_msg(strstr(why, expected) != NULL, "'%s' does not say '%s'", why, expected);
}
END_TEST

START_TEST(own_input_alone_is_recognised)
{
	struct payload p = {.type = ncclFloat32, .op = ncclSum, .nranks = RANKS, .salt = 5};
	char why[256];
	payload_fill(&p, 3, 0, COUNT, got);
	payload_explain(&p, 0, COUNT, got, why, sizeof why);
	ck_assert_msg(strstr(why, "rank 3's input alone") != NULL, "%s", why);
}
END_TEST

START_TEST(garbage_is_blamed_on_nobody)
{
	struct payload p = {.type = ncclFloat32, .op = ncclSum, .nranks = RANKS, .salt = 5};
	char why[256];
	memset(got, 0xee, sizeof got);
	payload_explain(&p, 0, COUNT, got, why, sizeof why);
	ck_assert_msg(strstr(why, "no single rank") != NULL, "%s", why);
}
END_TEST

START_TEST(an_older_result_is_wrong)
{
	struct payload p = {.type = all_types[_i], .op = ncclSum, .nranks = 4, .salt = 1};
	size_t where = 0;
	payload_expect(&p, 0, COUNT, got);
	p.salt = 2;
	payload_expect(&p, 0, COUNT, want);
	ck_assert_uint_gt(payload_compare(&p, 0, COUNT, got, want, &where), COUNT / 4);
}
END_TEST

/* The sum in the order of the ranks, by the compiler's own arithmetic. */
static void add_floats(const struct payload *p, bool backwards, float *sum)
{
	static float input[COUNT];

	for (int i = 0; i < p->nranks; i++) {
		payload_fill(p, backwards ? p->nranks - 1 - i : i, 0, COUNT, input);
		for (int k = 0; k < COUNT; k++)
			sum[k] = i ? sum[k] + input[k] : input[k];
	}
	for (int k = 0; k < COUNT; k++) {
		static const uint32_t nan_bits = 0x7fffffff;

		if (p->nranks > 1 && sum[k] != sum[k])
			memcpy(&sum[k], &nan_bits, sizeof nan_bits);
	}
}

START_TEST(any_numbers_are_right_in_every_order)
{
	struct payload p = {
		.type = ncclFloat32, .op = ncclSum, .nranks = 1 + _i, .salt = 5, .any = true};
	size_t where = 0;

	for (int backwards = 0; backwards < 2; backwards++) {
		add_floats(&p, backwards, (float *)got);
		payload_expect(&p, 0, COUNT, want);
		ck_assert_uint_eq(payload_compare(&p, 0, COUNT, got, want, &where), 0);
	}
}
END_TEST

/* One more bit than rounding has, in each element: all of those that are rounded once are wrong. */
START_TEST(any_numbers_that_are_cut_off_are_wrong)
{
	struct payload p = {
		.type = ncclBfloat16, .op = ncclSum, .nranks = 2, .salt = 5, .any = true};
	static uint16_t one[COUNT], two[COUNT];
	size_t where = 0;

	payload_fill(&p, 0, 0, COUNT, one);
	payload_fill(&p, 1, 0, COUNT, two);
	for (int k = 0; k < COUNT; k++) {
		uint32_t a = (uint32_t)one[k] << 16, b = (uint32_t)two[k] << 16;
		float x, y;

		memcpy(&x, &a, sizeof x);
		memcpy(&y, &b, sizeof y);
		x += y;
		memcpy(&a, &x, sizeof a);
		((uint16_t *)got)[k] = (uint16_t)(a >> 16);
	}
	payload_expect(&p, 0, COUNT, want);
	ck_assert_uint_gt(payload_compare(&p, 0, COUNT, got, want, &where), COUNT / 8);
}
END_TEST

/* 448 and nothing above it; 65504 and then infinity; NaN where one rank has one. */
START_TEST(any_numbers_leave_the_range_as_their_type_does)
{
	struct payload p = {.op = ncclSum, .nranks = 3, .salt = 9, .any = true};
	int largest = 0, infinite = 0, none = 0;

	p.type = ncclFloat8e4m3;
	payload_expect(&p, 0, COUNT, want);
	for (int k = 0; k < COUNT; k++) {
		largest += want[k] == 0x7e;
		none += want[k] == 0x7f;
	}
	ck_assert_int_gt(largest, COUNT / 40);
	ck_assert_int_gt(none, COUNT / 80);
	p.type = ncclFloat16;
	payload_expect(&p, 0, COUNT, want);
	for (int k = 0; k < COUNT; k++)
		infinite += ((uint16_t *)want)[k] == 0x7c00;
	ck_assert_int_gt(infinite, COUNT / 40);
}
END_TEST

START_TEST(any_numbers_off_by_a_bit_are_wrong)
{
	struct payload p = {.type = _i < 4   ? ncclFloat32
				    : _i < 8 ? ncclFloat64
					     : ncclFloat16,
			    .op = (ncclRedOp_t)(_i % 4),
			    .nranks = 5,
			    .salt = 2,
			    .any = true};
	size_t width = payload_type_bytes(p.type), where = 0;

	payload_expect(&p, 0, COUNT, want);
	memcpy(got, want, sizeof got);
	for (int k = 0; k < COUNT; k++)
		got[(size_t)k * width] ^= 1;
	/* sums of all ranks have a bound */
	ck_assert_uint_gt(payload_compare(&p, 0, COUNT, got, want, &where), COUNT * 7 / 10);
}
END_TEST

/* NaNs with payloads go in, and the one of the type comes out: another sign is wrong. */
START_TEST(a_nan_other_than_the_one_of_its_type_is_wrong)
{
	static const struct {
		ncclDataType_t type;
		uint64_t nan;
	} rows[] = {{ncclFloat8e4m3, 0x7f},    {ncclFloat8e5m2, 0x7f},
		    {ncclFloat16, 0x7fff},     {ncclBfloat16, 0x7fff},
		    {ncclFloat32, 0x7fffffff}, {ncclFloat64, 0x7ff8000000000000}};
	const struct payload p = {
		.type = rows[_i].type, .op = ncclSum, .nranks = 2, .salt = 9, .any = true};
	size_t width = payload_type_bytes(p.type), where = 0, nans = 0;

	payload_expect(&p, 0, COUNT, want);
	memcpy(got, want, sizeof got);
	for (size_t k = 0; k < COUNT; k++) {
		bool is = memcmp(&want[k * width], &rows[_i].nan, width) == 0;

		nans += is;
		if (is)
			got[k * width + width - 1] ^= 0x80;
	}
	ck_assert_uint_gt(nans, COUNT / 80);
	ck_assert_uint_eq(payload_compare(&p, 0, COUNT, got, want, &where), nans);
}
END_TEST

/* Bits of a type of floats: those of the exponent, and those of the number without its sign. */
static const struct float_case {
	ncclDataType_t type;
	uint64_t top, magnitude;
	bool infinite;
} float_cases[] = {
	{ncclFloat8e4m3, 0x78, 0x7f, false},
	{ncclFloat8e5m2, 0x7c, 0x7f, true},
	{ncclFloat16, 0x7c00, 0x7fff, true},
	{ncclBfloat16, 0x7f80, 0x7fff, true},
	{ncclFloat32, 0x7f800000, 0x7fffffff, true},
	{ncclFloat64, 0x7ff0000000000000, 0x7fffffffffffffff, true},
};

enum { FLOAT_TYPES = sizeof float_cases / sizeof float_cases[0] };

/* Inputs of each type and operation have either infinity, NaNs, subnormals, and numbers
 * of the exponents at the end of the range. */
START_TEST(any_numbers_have_each_kind_of_float)
{
	const struct float_case *f = &float_cases[_i];
	const size_t width = payload_type_bytes(f->type);

	for (int op = ncclSum; op <= ncclAvg; op++) {
		struct payload p = {.type = f->type,
				    .op = (ncclRedOp_t)op,
				    .nranks = 2,
				    .salt = 9,
				    .any = true};
		int infinite[2] = {0}, none = 0, small = 0, large = 0;

		payload_fill(&p, 1, 0, COUNT, got);
		for (size_t k = 0; k < COUNT; k++) {
			uint64_t bits = 0;

			memcpy(&bits, &got[k * width], width);
			const uint64_t of = bits & f->magnitude;
			const bool highest = f->infinite && (of & f->top) == f->top;

			infinite[bits != of] += highest && of == f->top;
			none += highest ? of != f->top : !f->infinite && of == f->magnitude;
			small += of && !(of & f->top);
			large += !highest && of >= f->top - f->top / 8;
		}
		ck_assert_int_eq(infinite[0] > COUNT / 400, f->infinite);
		ck_assert_int_eq(infinite[1] > COUNT / 400, f->infinite);
		ck_assert_int_gt(none, COUNT / 200);
		ck_assert_int_gt(small, COUNT / 200);
		ck_assert(op == ncclProd || large > COUNT / 40);
	}
}
END_TEST

/* A stack that reads an infinity as the number after the largest one has a finite average. */
START_TEST(an_infinity_stays_one_in_an_average)
{
	struct payload p = {
		.type = ncclFloat16, .op = ncclAvg, .nranks = 3, .salt = 9, .any = true};
	size_t where = 0, infinite = 0;

	payload_expect(&p, 0, COUNT, want);
	memcpy(got, want, sizeof got);
	for (size_t k = 0; k < COUNT; k++) {
		uint16_t *h = (uint16_t *)got + k;

		if ((*h & 0x7fff) != 0x7c00)
			continue;
		infinite++;
		*h = (uint16_t)((*h & 0x8000) | 0x7555); /* 65536 / 3 */
	}
	ck_assert_uint_gt(infinite, COUNT / 80);
	ck_assert_uint_eq(payload_compare(&p, 0, COUNT, got, want, &where), infinite);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("payload");
	TCase *c = tcase_create("payload");
	tcase_add_loop_test(c, right_results_pass_for_every_type_and_operation, 0, 12);
	tcase_add_loop_test(c, every_flipped_bit_is_wrong_and_located, 0, 12);
	tcase_add_test(c, expectation_is_the_sum_of_the_inputs);
	tcase_add_loop_test(c, a_wrong_factor_is_named, 0,
			    (int)(sizeof factor_cases / sizeof factor_cases[0]));
	tcase_add_loop_test(c, a_missing_contribution_names_its_rank, 0, RANKS);
	tcase_add_loop_test(c, a_doubled_contribution_names_its_rank, 0, RANKS);
	tcase_add_test(c, own_input_alone_is_recognised);
	tcase_add_test(c, garbage_is_blamed_on_nobody);
	tcase_add_loop_test(c, an_older_result_is_wrong, 0, 12);
	tcase_add_loop_test(c, any_numbers_are_right_in_every_order, 0, RANKS);
	tcase_add_test(c, any_numbers_that_are_cut_off_are_wrong);
	tcase_add_test(c, any_numbers_leave_the_range_as_their_type_does);
	tcase_add_loop_test(c, any_numbers_off_by_a_bit_are_wrong, 0, 12);
	tcase_add_loop_test(c, any_numbers_have_each_kind_of_float, 0, FLOAT_TYPES);
	tcase_add_test(c, an_infinity_stays_one_in_an_average);
	tcase_add_loop_test(c, a_nan_other_than_the_one_of_its_type_is_wrong, 0, 6);
	suite_add_tcase(s, c);
	return suite_run(s);
}
