/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core/device/reduce/reduce_copy.h against an independent reference: values are decoded to double
 * from the definition of each format, combined exactly, and rounded by counting multiples of the
 * last place. The 8-bit types are tried exhaustively, the others on edge values and a fixed random
 * sample.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "core/device/reduce/reduce_copy_host.h"
#include "tests/suite.h"

/* ---- formats -------------------------------------------------------------------------------- */

struct format {
	const char *name;
	enum dev_type type;
	int bits, mantissa, bias; /* mantissa 0: an integer */
	bool is_signed, saturates;
	uint64_t nan, max_finite;
};

static const struct format formats[DEV_TYPE_COUNT] = {
	{"i8", DEV_I8, 8, 0, 0, true, false, 0, 0},
	{"u8", DEV_U8, 8, 0, 0, false, false, 0, 0},
	{"i32", DEV_I32, 32, 0, 0, true, false, 0, 0},
	{"u32", DEV_U32, 32, 0, 0, false, false, 0, 0},
	{"i64", DEV_I64, 64, 0, 0, true, false, 0, 0},
	{"u64", DEV_U64, 64, 0, 0, false, false, 0, 0},
	{"f16", DEV_F16, 16, 10, 15, true, false, 0x7fff, 0x7bff},
	{"f32", DEV_F32, 32, 23, 127, true, false, 0x7fffffff, 0x7f7fffff},
	{"f64", DEV_F64, 64, 52, 1023, true, false, 0x7ff8000000000000, 0x7fefffffffffffff},
	{"bf16", DEV_BF16, 16, 7, 127, true, false, 0x7fff, 0x7f7f},
	{"f8e4m3", DEV_F8E4M3, 8, 3, 7, true, true, 0x7f, 0x7e},
	{"f8e5m2", DEV_F8E5M2, 8, 2, 15, true, true, 0x7f, 0x7b},
};

static uint64_t mask_of(const struct format *f)
{
	return f->bits == 64 ? ~0ull : (1ull << f->bits) - 1;
}

static double decode(const struct format *f, uint64_t u)
{
	uint64_t sign = u >> (f->bits - 1) & 1, magnitude = u & (mask_of(f) >> 1);
	uint64_t m = magnitude & ((1ull << f->mantissa) - 1);
	int e = (int)(magnitude >> f->mantissa);
	double x;

	/* all exponent bits: infinity and NaN; e4m3 has numbers there, and one NaN */
	if (f->type == DEV_F8E4M3 ? magnitude == 0x7f : magnitude > f->max_finite + 1)
		return NAN;
	if (f->type != DEV_F8E4M3 && magnitude > f->max_finite)
		x = INFINITY;
	else if (e == 0)
		x = ldexp((double)m, 1 - f->bias - f->mantissa);
	else
		x = ldexp((double)(m | 1ull << f->mantissa), e - f->bias - f->mantissa);
	return sign ? -x : x;
}

/* Rounds to nearest even. Works on magnitudes, whose codes are ordered as their values are. */
static uint64_t encode(const struct format *f, double x)
{
	uint64_t sign = signbit(x) ? 1ull << (f->bits - 1) : 0, code;
	double a = fabs(x), last;
	int e;

	if (isnan(x))
		return f->nan;
	if (f->type == DEV_F64) {
		memcpy(&code, &x, 8);
		return code;
	}
	if (x == 0)
		return sign;
	if (isinf(x))
		return sign | (f->saturates ? f->max_finite : f->max_finite + 1);
	frexp(a, &e); /* a in [2^(e-1), 2^e) */
	if (e - 1 < 1 - f->bias)
		e = 2 - f->bias;
	last = ldexp(1, e - 1 - f->mantissa);
	a = nearbyint(a / last); /* places: exact, then one rounding */
	code = (uint64_t)a + ((uint64_t)(e - 1 + f->bias - 1) << f->mantissa);
	if (code > f->max_finite)
		code = f->saturates ? f->max_finite : f->max_finite + 1;
	return sign | code;
}

/* ---- the reference operation ---------------------------------------------------------------- */

static int64_t sign_extend(const struct format *f, uint64_t u)
{
	return (int64_t)(u << (64 - f->bits)) >> (64 - f->bits);
}

static uint64_t integer_op(const struct format *f, enum dev_op op, uint64_t a, uint64_t b)
{
	bool less = f->is_signed ? sign_extend(f, a) < sign_extend(f, b) : a < b;

	switch (op) {
	case DEV_PROD:
		return (a * b) & mask_of(f);
	case DEV_MAX:
		return less ? b : a;
	case DEV_MIN:
		return less ? a : b;
	default:
		return (a + b) & mask_of(f);
	}
}

static uint64_t extreme(const struct format *f, bool want_max, uint64_t a, uint64_t b)
{
	double x = decode(f, a), y = decode(f, b);
	bool a_less;

	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y) ? f->nan : encode(f, isnan(x) ? y : x);
	a_less = x < y || (x == y && signbit(x) > signbit(y));
	return encode(f, a_less == want_max ? y : x);
}

static uint64_t float_op(const struct format *f, enum dev_op op, uint64_t a, uint64_t b)
{
	double x = decode(f, a), y = decode(f, b);

	switch (op) {
	case DEV_PROD:
		return encode(f, x * y);
	case DEV_MAX:
		return extreme(f, true, a, b);
	case DEV_MIN:
		return extreme(f, false, a, b);
	default:
		return encode(f, x + y);
	}
}

static uint64_t reference(const struct format *f, enum dev_op op, uint64_t a, uint64_t b,
			  uint64_t scale, int nsrc, bool post)
{
	uint64_t r = a;

	if (op == DEV_PREMUL_SUM)
		r = f->mantissa ? float_op(f, DEV_PROD, r, scale)
				: integer_op(f, DEV_PROD, r, scale);
	if (nsrc == 2)
		r = f->mantissa ? float_op(f, op, r, b) : integer_op(f, op, r, b);
	if (op == DEV_SUM_POSTDIV && post) {
		if (f->is_signed)
			r = (uint64_t)(sign_extend(f, r) / (int64_t)scale) & mask_of(f);
		else
			r /= scale;
	}
	return r;
}

/* ---- samples -------------------------------------------------------------------------------- */

static uint64_t rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Random bits half of the time; else edges, and numbers near each other so that sums cancel. */
static uint64_t sample(const struct format *f)
{
	uint64_t r = rng(), top = 1ull << (f->bits - 1);
	const uint64_t edges[] = {0,
				  1,
				  2,
				  3,
				  top,
				  top - 1,
				  top + 1,
				  mask_of(f),
				  f->nan,
				  f->max_finite,
				  f->max_finite + 1,
				  1ull << f->mantissa,
				  (1ull << f->mantissa) - 1,
				  top | f->max_finite,
				  top | (f->max_finite + 1)};

	switch (r % 4) {
	case 0:
		return edges[rng() % ARRAY_LEN(edges)] & mask_of(f);
	case 1:
		if (f->mantissa)
			return ((uint64_t)f->bias << f->mantissa |
				(r >> 8 & ((4ull << f->mantissa) - 1)) |
				(r >> 7 & 1) << (f->bits - 1)) &
			       mask_of(f);
		return (r >> 8 & 0xff) & mask_of(f);
	default:
		return rng() & mask_of(f);
	}
}

#define SAMPLE_MAX 65536

struct samples {
	uint64_t a[SAMPLE_MAX], b[SAMPLE_MAX];
	uint8_t raw_a[SAMPLE_MAX * 8], raw_b[SAMPLE_MAX * 8], raw_x[SAMPLE_MAX * 8],
		raw_y[SAMPLE_MAX * 8];
	uint64_t n;
};

static struct samples s;

static void samples_make(const struct format *f)
{
	size_t size = (size_t)f->bits / 8;

	rng_state = 1;
	s.n = SAMPLE_MAX;
	for (uint64_t i = 0; i < s.n; i++) {
		s.a[i] = f->bits == 8 ? i & 0xff : sample(f);
		s.b[i] = f->bits == 8 ? i >> 8 : sample(f);
		memcpy(s.raw_a + i * size, &s.a[i], size);
		memcpy(s.raw_b + i * size, &s.b[i], size);
	}
}

static uint64_t get(const struct format *f, const uint8_t *raw, uint64_t i)
{
	uint64_t u = 0;
	memcpy(&u, raw + i * (size_t)f->bits / 8, (size_t)f->bits / 8);
	return u;
}

static void run(const struct format *f, enum dev_op op, int nsrc, uint64_t scale, bool post)
{
	struct rc_job job = {
		{s.raw_a, s.raw_b}, {s.raw_x, s.raw_y}, nsrc, 2, s.n, f->type, op, scale, post};

	rc_reduce_copy(&job);
	for (uint64_t i = 0; i < s.n; i++) {
		uint64_t want = reference(f, op, s.a[i], s.b[i], scale, nsrc, post);
		uint64_t x = get(f, s.raw_x, i), y = get(f, s.raw_y, i);

		if (x != want || y != want)
			ck_abort_msg("%s op %d nsrc %d scale %#lx: %#lx, %#lx gives %#lx and %#lx, "
				     "expected %#lx",
				     f->name, op, nsrc, scale, s.a[i], s.b[i], x, y, want);
	}
}

START_TEST(reduction_equals_the_reference)
{
	const struct format *f = &formats[_i];
	uint64_t third = f->mantissa ? encode(f, 1.0 / 3) : 3;

	samples_make(f);
	for (int op = DEV_SUM; op <= DEV_MIN; op++) {
		run(f, (enum dev_op)op, 2, 0, true);
		run(f, (enum dev_op)op, 1, 0, true);
	}
	run(f, DEV_PREMUL_SUM, 2, third, true);
	run(f, DEV_PREMUL_SUM, 1, third, false);
	if (f->mantissa)
		return;
	for (uint64_t n = 1; n < 100; n += 7) {
		run(f, DEV_SUM_POSTDIV, 2, n, true);
		run(f, DEV_SUM_POSTDIV, 1, n, true);
		run(f, DEV_SUM_POSTDIV, 2, n, false);
	}
}
END_TEST

/* Every code survives widening and narrowing, NaN and saturated infinities aside. */
START_TEST(narrow_floats_round_trip)
{
	for (uint32_t u = 0; u < 65536; u++) {
		float h = rc_f32_of_f16((uint16_t)u), b = rc_f32_of_bf16((uint16_t)u);

		/* not an assertion each: those that hold cost a system call */
		if (rc_f16_of_f32(h) != (h != h ? 0x7fff : u) ||
		    rc_bf16_of_f32(b) != (b != b ? 0x7fff : u) ||
		    (h == h && (double)h != decode(&formats[DEV_F16], u)))
			ck_abort_msg("code %#x: f16 %g and back %#x, bf16 %g and back %#x", u,
				     (double)h, rc_f16_of_f32(h), (double)b, rc_bf16_of_f32(b));
	}
	for (uint32_t u = 0; u < 256; u++) {
		float a = rc_f32_of_f8e4m3((uint8_t)u), c = rc_f32_of_f8e5m2((uint8_t)u);

		ck_assert(a != a ? rc_f8e4m3_of_f32(a) == 0x7f : rc_f8e4m3_of_f32(a) == u);
		if (c - c == 0)
			ck_assert_uint_eq(rc_f8e5m2_of_f32(c), u);
	}
	ck_assert_uint_eq(rc_f8e5m2_of_f32(INFINITY), 0x7b);
	ck_assert_uint_eq(rc_f8e4m3_of_f32(-INFINITY), 0xfe);
}
END_TEST

/* Rounding from all of f32: every exponent, with mantissas around each half way point. */
START_TEST(f32_narrows_to_nearest_even)
{
	const struct format *f = &formats[_i];

	rng_state = 2;
	for (uint32_t k = 0; k < 4000000; k++) {
		uint32_t u = (uint32_t)rng();
		if (k & 1)
			u = (u & 0xffff0000u) + (uint32_t)(k >> 1 & 3) - 1; /* close to a tie */
		if (k & 2)
			u ^= 1u << (k % 23);
		float x = rc_f32_of_bits(u);
		uint64_t got = f->type == DEV_F16      ? rc_f16_of_f32(x)
			       : f->type == DEV_BF16   ? rc_bf16_of_f32(x)
			       : f->type == DEV_F8E4M3 ? rc_f8e4m3_of_f32(x)
						       : rc_f8e5m2_of_f32(x);
		uint64_t want = encode(f, (double)x);

		if (got != want)
			ck_abort_msg("%s of f32 %#x: %#lx, expected %#lx", f->name, u, got, want);
	}
}
END_TEST

START_TEST(any_count_and_in_place)
{
	const struct format *f = &formats[DEV_F32];

	samples_make(f);
	for (uint64_t n = 0; n < 400; n += n < 140 ? 1 : 37) {
		memcpy(s.raw_x, s.raw_a, (n + 1) * 4);
		struct rc_job job = {{s.raw_x, s.raw_b},
				     {s.raw_x, s.raw_y},
				     2,
				     2,
				     n,
				     DEV_F32,
				     DEV_MIN,
				     0,
				     false};
		uint64_t before = get(f, s.raw_x, n), far = get(f, s.raw_y, n);

		rc_reduce_copy(&job);
		uint64_t right = 0;
		while (right < n && get(f, s.raw_x, right) == reference(f, DEV_MIN, s.a[right],
									s.b[right], 0, 2, false))
			right++;
		ck_assert_uint_eq(right, n);
		ck_assert_mem_eq(s.raw_x, s.raw_y, n * 4);
		ck_assert_uint_eq(get(f, s.raw_x, n), before);
		ck_assert_uint_eq(get(f, s.raw_y, n), far);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reduce");
	TCase *t = tcase_create("reduce_copy");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, reduction_equals_the_reference, 0, DEV_TYPE_COUNT);
	tcase_add_test(t, narrow_floats_round_trip);
	tcase_add_loop_test(t, f32_narrows_to_nearest_even, DEV_F16, DEV_F16 + 1);
	tcase_add_loop_test(t, f32_narrows_to_nearest_even, DEV_BF16, DEV_F8E5M2 + 1);
	tcase_add_test(t, any_count_and_in_place);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
