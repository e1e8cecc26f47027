/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payloads of any floats (struct payload.any): elements that are rounded, that overflow or almost
 * do, subnormals, signed zeros, NaNs. At most elements two ranks have numbers of their own and the
 * others the neutral one, so that every order of the ranks has the same bits: one result, rounded
 * once. One element in eight is dense: all ranks have numbers of either sign, and the result is
 * only bounded, by half a unit for each rounding of a partial sum.
 *
 * A NaN that a rank puts in has any sign and payload. A NaN that comes out is the one of its type,
 * which docs/device.md has.
 */
#include <math.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/payload_internal.h"

enum {
	ANY_DENSE_ONE_IN = 8,
	ANY_MANTISSA = 52,
	ANY_SPAN = 4, /* powers of two between the numbers of an element */
};

enum any_kind {
	ANY_PAIR,
	ANY_DENSE,
	ANY_LARGE,
	ANY_TINY,
	ANY_ZERO,
	ANY_NAN,
	ANY_EDGE,
	ANY_INFINITE
};

/* One element: which ranks have what. */
struct any_element {
	enum any_kind kind;
	int32_t one, other; /* the ranks with numbers of their own */
	uint64_t bits;      /* further ones that are drawn */
};

bool payload_is_any(const struct payload *p)
{
	return p->any && !p->moved && p->nranks > 1 && payload_format_of(p->type)->is_float;
}

static bool any_adds(const struct payload *p)
{
	return p->op == ncclSum || p->op == ncclAvg || p->op == PAYLOAD_MULSUM;
}

/* The pattern of e4m3 that is an infinity elsewhere is a number. */
static bool any_has_infinity(const struct payload_format *f)
{
	return f->exponent_bits != 4;
}

static struct any_element any_element(const struct payload *p, uint64_t element)
{
	uint64_t h = payload_mix(element * 0x9e3779b97f4a7c15ull ^ payload_mix(p->salt + 1));
	uint64_t kind = h % 32;
	struct any_element e = {.kind = ANY_PAIR, .bits = payload_mix(h)};

	ASSERT(p->nranks > 1); /* payload_is_any: two of them have numbers of their own */
	h = payload_mix(h + 1);
	e.one = (int32_t)(h % (uint64_t)p->nranks);
	h = payload_mix(h);
	e.other = (int32_t)(((uint64_t)e.one + 1 + h % (uint64_t)(p->nranks - 1)) %
			    (uint64_t)p->nranks);
	if (kind < 32 / ANY_DENSE_ONE_IN && any_adds(p))
		e.kind = ANY_DENSE;
	else if (kind == 31)
		e.kind = ANY_NAN;
	else if (kind == 30)
		e.kind = ANY_ZERO;
	else if (kind >= 28)
		e.kind = ANY_LARGE;
	else if (kind >= 26)
		e.kind = any_has_infinity(payload_format_of(p->type)) ? ANY_INFINITE : ANY_LARGE;
	else if (kind >= 24)
		e.kind = ANY_TINY;
	else if (kind >= 18)
		e.kind = ANY_EDGE;
	return e;
}

/* ---- numbers of the type ------------------------------------------------------------------ */

/* The NaN that an operation gives. */
static uint64_t any_nan(const struct payload_format *f)
{
	return f->bytes == 8 ? 0x7ff8000000000000ull : (1ull << (8 * f->bytes - 1)) - 1;
}

/* A NaN of either sign and with any payload. */
static uint64_t any_nan_drawn(const struct payload_format *f, uint64_t bits)
{
	const uint64_t mantissa = (1ull << f->mantissa_bits) - 1;
	const uint64_t top = ((1ull << f->exponent_bits) - 1) << f->mantissa_bits;
	uint64_t payload = f->exponent_bits == 4 ? mantissa : bits & mantissa;

	return (bits >> 63 << (8 * f->bytes - 1)) | top | (payload ? payload : 1);
}

/* The bits of the number that is nearest to v, ties to even. A number that is too large becomes
 * infinite, in eight bits the largest finite number, as CUDA's conversions with saturation. */
uint64_t payload_round(const struct payload_format *f, double v)
{
	const int bias = (1 << (f->exponent_bits - 1)) - 1;
	const uint64_t sign = (uint64_t)(signbit(v) != 0) << (f->exponent_bits + f->mantissa_bits);
	const bool saturates = f->bytes == 1, e4m3 = f->exponent_bits == 4;
	uint64_t infinite = ((1ull << f->exponent_bits) - 1) << f->mantissa_bits, most, bits;

	if (isnan(v))
		return any_nan(f);
	if (f->bytes >= 4)
		return payload_encode_float(f, v);
	most = e4m3 ? infinite + 6 : infinite - 1;
	if (isinf(v) || fabs(v) >= ldexp(4, bias + 1))
		return sign | (saturates ? most : infinite);
	bits = payload_encode_float(f, fabs(v));
	if (bits > most)
		bits = saturates ? most : infinite;
	return sign | bits;
}

static double any_number(const struct payload_format *f, double v)
{
	return payload_decode_float(f, payload_round(f, v));
}

/* A number of the type: 1.m * 2^exponent, of either sign if `two`. */
static double any_draw(const struct payload_format *f, uint64_t h, int exponent, bool two)
{
	double m = 1 + ldexp((double)(h >> (64 - ANY_MANTISSA)), -ANY_MANTISSA);
	double v = any_number(f, ldexp(m, exponent));

	return two && h & 1 ? -v : v;
}

/* The neutral number of the operation. */
static double any_neutral(const struct payload *p)
{
	if (p->op == ncclProd)
		return 1;
	if (p->op == ncclMax)
		return -2;
	return p->op == ncclMin ? 2 : 0;
}

static double any_large(const struct payload *p, uint64_t h)
{
	const struct payload_format *f = payload_format_of(p->type);
	const int top = (1 << (f->exponent_bits - 1)) - 1;

	/* two of them leave the range, whatever they are multiplied with or added to */
	if (p->op == ncclProd)
		return any_draw(f, h, top / 2 + 2, false);
	return payload_decode_float(
		f, payload_round(
			   f, ldexp(1.75, f->bytes == 1 && f->exponent_bits == 4 ? top + 1 : top)));
}

/* The exponent of the largest numbers. The one of e4m3 that stands for infinity elsewhere has
 * numbers. */
static int any_top(const struct payload_format *f)
{
	return (1 << (f->exponent_bits - 1)) - 1 + (f->bytes == 1 && f->exponent_bits == 4);
}

/* Two of them are about as large as the largest number: the result is rounded to it, or leaves
 * the range, or neither. */
static double any_edge(const struct payload *p, const struct any_element *e, uint64_t h, bool one)
{
	const struct payload_format *f = payload_format_of(p->type);
	int top = any_top(f), less = (int)(h / 2 % (uint64_t)(f->mantissa_bits + 3));
	double v;

	if (p->op == ncclProd)
		return any_draw(f, h, one ? top / 2 : top - top / 2 - (int)(h / 2 % 2), true);
	v = any_draw(f, h, one ? top : top - less, false);
	return e->bits & 1 ? -v : v;
}

/* The exponent of a subnormal number, or of one of the smallest normal ones. */
static int any_tiny_exponent(const struct payload_format *f, uint64_t h)
{
	const int least = 2 - (1 << (f->exponent_bits - 1));

	return least + 2 - (int)(h / 2 % (uint64_t)(f->mantissa_bits + 3));
}

/* One rank has an infinity; the other one a number, the infinity of the other sign, or a number of
 * that sign that is as large as any. Eight bits read an infinity as the largest number after the
 * first addition or multiplication: there the other one has the same sign and is no less than 1,
 * for the same result in every order. */
static double any_infinite(const struct payload *p, const struct any_element *e, uint64_t h,
			   bool one)
{
	const struct payload_format *f = payload_format_of(p->type);
	const double sign = e->bits & 1 ? -1 : 1;

	if (one)
		return sign * INFINITY;
	if (f->bytes == 1)
		return p->op == ncclProd ? any_draw(f, h, (int)(h % ANY_SPAN), true)
					 : sign * any_draw(f, h, (int)(h % ANY_SPAN), false);
	if (e->bits >> 1 & 1)
		return any_draw(f, h, (int)(h % ANY_SPAN), true);
	return e->bits >> 2 & 1 ? -sign * INFINITY : -sign * any_large(p, h);
}

static double any_value(const struct payload *p, int32_t rank, uint64_t element)
{
	const struct payload_format *f = payload_format_of(p->type);
	const struct any_element e = any_element(p, element);
	uint64_t h = payload_mix(e.bits ^ payload_mix((uint64_t)rank + 1));
	bool takes_part = rank == e.one || rank == e.other;
	int exponent = (int)(h % ANY_SPAN) - ANY_SPAN / 2;

	switch (e.kind) {
	case ANY_DENSE:
		return any_draw(f, h, exponent, true);
	case ANY_ZERO:
		return p->op == ncclProd && !takes_part ? 1 : h & 1 ? -0.0 : 0.0;
	case ANY_NAN:
		if (rank == e.one)
			return NAN;
		break;
	case ANY_LARGE:
		if (takes_part)
			return any_large(p, h);
		break;
	case ANY_TINY:
		if (takes_part)
			return any_draw(f, h, any_tiny_exponent(f, h), true);
		break;
	case ANY_EDGE:
		if (takes_part)
			return any_edge(p, &e, h, rank == e.one);
		break;
	case ANY_INFINITE:
		if (takes_part)
			return any_infinite(p, &e, h, rank == e.one);
		break;
	case ANY_PAIR:
		break;
	}
	return takes_part ? any_draw(f, h, exponent, true) : any_neutral(p);
}

/* The bits that a rank puts in. No number is rounded to an infinity of eight bits, so that a rank
 * has one by its bits alone. */
static uint64_t any_bits(const struct payload *p, int32_t rank, uint64_t element)
{
	const struct payload_format *f = payload_format_of(p->type);
	const double v = any_value(p, rank, element);
	const uint64_t sign = (uint64_t)(signbit(v) != 0) << (8 * f->bytes - 1);

	if (isnan(v))
		return any_nan_drawn(f, any_element(p, element).bits);
	if (isinf(v) && any_has_infinity(f))
		return sign | ((1ull << f->exponent_bits) - 1) << f->mantissa_bits;
	return payload_round(f, v);
}

void payload_any_fill(const struct payload *p, int32_t rank, uint64_t first, size_t n, void *out)
{
	const struct payload_format *f = payload_format_of(p->type);

	for (size_t k = 0; k < n; k++)
		payload_put(f, out, k, any_bits(p, rank, first + k));
}

/* ---- results ------------------------------------------------------------------------------ */

/* The value with which a rank's element takes part in the sum. */
static double any_term(const struct payload *p, int32_t rank, uint64_t element)
{
	const struct payload_format *f = payload_format_of(p->type);
	double v = any_value(p, rank, element);

	if (p->op == PAYLOAD_MULSUM)
		return any_number(f, v * (double)payload_factor_of(p, rank));
	if (p->op != ncclAvg)
		return v;
	double inverse = f->bytes == 8 ? 1.0 / p->nranks : (double)(float)(1.0 / p->nranks);

	return any_number(f, v * any_number(f, inverse));
}

/* The number when the other is NaN, and -0 below +0. */
static double any_most(double a, double b, bool max)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	if (a == b)
		return (signbit(a) != 0) == max ? b : a;
	return (a > b) == max ? a : b;
}

static double any_combine(const struct payload *p, double a, double b)
{
	const struct payload_format *f = payload_format_of(p->type);

	if (p->op == ncclMax || p->op == ncclMin)
		return any_most(a, b, p->op == ncclMax);
	return any_number(f, p->op == ncclProd ? a * b : a + b);
}

static double any_result(const struct payload *p, uint64_t element)
{
	double v = any_term(p, 0, element);

	for (int32_t r = 1; r < p->nranks; r++)
		v = any_combine(p, v, any_term(p, r, element));
	return v;
}

void payload_any_expect(const struct payload *p, uint64_t first, size_t n, void *out)
{
	const struct payload_format *f = payload_format_of(p->type);

	for (size_t k = 0; k < n; k++)
		payload_put(f, out, k, payload_round(f, any_result(p, first + k)));
}

/* Sums of all ranks' numbers: in whatever order they are added, each addition but the first is
 * rounded once. */
static bool any_is_within(const struct payload *p, uint64_t element, double got)
{
	const struct payload_format *f = payload_format_of(p->type);
	double unit = ldexp(1, -f->mantissa_bits - 1);
	double least = ldexp(1, 2 - (1 << (f->exponent_bits - 1)) - f->mantissa_bits);
	long double sum = 0, all = 0;

	for (int32_t r = 0; r < p->nranks; r++) {
		double v = any_term(p, r, element);

		sum += v;
		all += fabs(v);
	}
	double bound = (double)all * unit * (p->nranks - 1) * (1 + p->nranks * unit);

	return !isnan(got) && fabs((double)(got - sum)) <= bound + (p->nranks - 1) * least / 2;
}

bool payload_any_is_right(const struct payload *p, uint64_t element, uint64_t got, uint64_t want)
{
	const struct payload_format *f = payload_format_of(p->type);

	if (got == want)
		return true;
	return any_element(p, element).kind == ANY_DENSE &&
	       any_is_within(p, element, payload_decode_float(f, got));
}
