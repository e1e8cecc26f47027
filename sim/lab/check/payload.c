/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/check/payload_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/base/type_name.h"

enum { PAYLOAD_BLOCK = 256 }; /* elements at a time, on fibers' stacks */

static const struct payload_format payload_formats[] = {
	[ncclInt8] = {1, false, true, 0, 0, 127},
	[ncclUint8] = {1, false, false, 0, 0, 255},
	[ncclInt32] = {4, false, true, 0, 0, INT32_MAX},
	[ncclUint32] = {4, false, false, 0, 0, UINT32_MAX},
	[ncclInt64] = {8, false, true, 0, 0, INT64_MAX},
	[ncclUint64] = {8, false, false, 0, 0, UINT64_MAX},
	[ncclFloat16] = {2, true, true, 5, 10, 2048},
	[ncclFloat32] = {4, true, true, 8, 23, 1u << 24},
	[ncclFloat64] = {8, true, true, 11, 52, 1ull << 53},
	[ncclBfloat16] = {2, true, true, 8, 7, 256},
	[ncclFloat8e4m3] = {1, true, true, 4, 3, 16},
	[ncclFloat8e5m2] = {1, true, true, 5, 2, 8},
};

const struct payload_format *payload_format_of(ncclDataType_t type)
{
	return &payload_formats[type];
}

size_t payload_type_bytes(ncclDataType_t type)
{
	ASSERT((unsigned)type < ARRAY_LEN(payload_formats) && payload_formats[type].bytes);
	return payload_formats[type].bytes;
}

const char *payload_type_name(ncclDataType_t type)
{
	return type_name((unsigned)type);
}

const char *payload_op_name(ncclRedOp_t op)
{
	static const char *const names[] = {"sum", "prod", "max", "min", "avg", "mulsum"};
	return (size_t)op < ARRAY_LEN(names) ? names[op] : "user";
}

/* splitmix64's finisher: every input bit reaches every output bit. */
uint64_t payload_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Factors of PAYLOAD_MULSUM: small, so that sums stay exact, and different for neighbours. */
enum { PAYLOAD_FACTORS = 2 };
int64_t payload_factor_of(const struct payload *p, int32_t rank)
{
	return p->op == PAYLOAD_MULSUM ? 1 + (int64_t)(((uint64_t)rank + p->salt) % PAYLOAD_FACTORS)
				       : 1;
}

/* How a payload's numbers are drawn: h * below / 2^32 + least, or, where that many ranks would not
 * add up exactly, 1 for one rank in `period` at each element, for another one at the next. */
struct payload_draw {
	uint32_t below, least;
	uint64_t period; /* 0: by hash */
	uint64_t salt;
};

static struct payload_draw payload_draw_of(const struct payload *p)
{
	const struct payload_format *f = &payload_formats[p->type];
	struct payload_draw d = {.least = 1, .salt = (p->salt << 32) ^ p->salt};
	uint64_t n = (uint64_t)p->nranks;

	ASSERT(n > 0);
	if (p->op == ncclProd) {
		d.below = 5;
		d.period = f->is_float ? DIV_UP(n, 4) : 0; /* an exponent of two */
		return d;
	}
	if (p->op == ncclMax || p->op == ncclMin) {
		d.below = (uint32_t)MIN_OF(f->max_exact, 1000ull);
		d.least = 0;
		return d;
	}
	/* sums and average: all ranks together stay within what is exact */
	uint64_t limit = MIN_OF(f->max_exact, 1ull << 20);
	n *= p->op == PAYLOAD_MULSUM ? PAYLOAD_FACTORS : 1;
	ASSERT(limit > 0);
	if (n > limit)
		d.period = DIV_UP(n, limit);
	else
		d.below = (uint32_t)(limit / n);
	return d;
}

/* Any bits: of an element that is moved. */
static struct payload_draw payload_draw_bits(const struct payload *p)
{
	return (struct payload_draw){.salt = (p->salt << 32) ^ p->salt};
}

/* One multiplication, both halves: the rank's number spreads over all bits. */
static inline uint64_t payload_spread(uint64_t own, size_t at)
{
	__extension__ unsigned __int128 m = own ^ at;

	m *= 0x9e3779b97f4a7c15ull;
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Any integers: sums and products wrap, and the largest of unsigned ones has the highest bit. */
static bool payload_is_any_int(const struct payload *p)
{
	return p->any && !p->moved && p->nranks > 1 && !payload_formats[p->type].is_float;
}

/* One in eight is all ones, or the highest bit alone. */
static int64_t payload_any_int(const struct payload_format *f, uint64_t bits)
{
	const unsigned shift = 64 - 8u * f->bytes;
	uint64_t kind = bits % 16;

	if (kind < 2)
		bits = kind ? ~0ull : 1ull << 63;
	else
		bits <<= shift;
	return f->is_signed ? (int64_t)bits >> shift : (int64_t)(bits >> shift);
}

static inline int64_t payload_small(const struct payload_draw *d, uint32_t drawn)
{
	return (int64_t)((uint64_t)drawn * d->below >> 32) + d->least;
}

/* One product gives the numbers of elements 2 i and 2 i + 1. */
static void payload_smalls(const struct payload_draw *d, uint64_t own, size_t first, size_t n,
			   int64_t *out)
{
	size_t k = first % 2;

	if (k && n)
		out[0] = payload_small(d, (uint32_t)(payload_spread(own, first / 2) >> 32));
	for (; k < n; k += 2) {
		uint64_t two = payload_spread(own, (first + k) / 2);

		out[k] = payload_small(d, (uint32_t)two);
		if (k + 1 < n)
			out[k + 1] = payload_small(d, (uint32_t)(two >> 32));
	}
}

/* The contributions of a rank as integers; for a product they are exponents of two for floats. */
void payload_numbers(const struct payload *p, int32_t rank, size_t first, size_t n, int64_t *out)
{
	const bool any = payload_is_any_int(p);
	const struct payload_draw d = p->moved || any ? payload_draw_bits(p) : payload_draw_of(p);
	uint64_t own = payload_mix(((uint64_t)rank << 48) ^ d.salt);

	ASSERT(rank >= 0 && rank < p->nranks);

	if (d.period)
		for (size_t k = 0; k < n; k++)
			out[k] = ((uint64_t)rank + first + k + p->salt) % d.period == 0;
	else if (p->moved)
		for (size_t k = 0; k < n; k++)
			out[k] = (int64_t)payload_spread(own, first + k);
	else if (any)
		for (size_t k = 0; k < n; k++)
			out[k] = payload_any_int(&payload_formats[p->type],
						 payload_spread(own, first + k));
	else
		payload_smalls(&d, own, first, n, out);
}

/* Exact for every value that payload_numbers makes; rounds to nearest even otherwise. */
uint64_t payload_encode_float(const struct payload_format *f, double v)
{
	ASSERT(f->is_float);
	if (f->bytes == 8) {
		uint64_t bits;
		memcpy(&bits, &v, 8);
		return bits;
	}
	if (f->bytes == 4) {
		float single = (float)v;
		uint32_t bits;
		memcpy(&bits, &single, 4);
		return bits;
	}
	uint64_t bits;
	int bias = (1 << (f->exponent_bits - 1)) - 1, e;
	memcpy(&bits, &v, 8);
	uint64_t sign = bits >> 63 << (f->exponent_bits + f->mantissa_bits);
	if (v == 0)
		return sign;
	/* nearly always: a normal number without a bit too many */
	int normal = (int)(bits >> 52 & 0x7ff) - 1023 + bias, surplus = 52 - f->mantissa_bits;
	if (normal > 0 && normal < (1 << f->exponent_bits) - 1 && !(bits & ((1ull << surplus) - 1)))
		return sign | (uint64_t)normal << f->mantissa_bits | (bits << 12 >> (12 + surplus));
	double m = frexp(fabs(v), &e); /* v = m * 2^e, 0.5 <= m < 1 */
	int exponent = MAX_OF(e - 1, 1 - bias);
	uint64_t mantissa = (uint64_t)nearbyint(ldexp(m, e - exponent + f->mantissa_bits));
	uint64_t biased = (uint64_t)(exponent + bias);
	/* the hidden one: present above the subnormals, and a carry moves it up by itself */
	return sign | (((biased - 1) << f->mantissa_bits) + mantissa);
}

double payload_decode_float(const struct payload_format *f, uint64_t bits)
{
	double v;
	ASSERT(f->is_float);
	if (f->bytes == 8) {
		memcpy(&v, &bits, 8);
		return v;
	}
	int bias = (1 << (f->exponent_bits - 1)) - 1;
	uint64_t mantissa = bits & ((1ull << f->mantissa_bits) - 1);
	int biased = (int)((bits >> f->mantissa_bits) & ((1u << f->exponent_bits) - 1));
	bool negative = (bits >> (f->exponent_bits + f->mantissa_bits)) & 1;
	bool e4m3 = f->exponent_bits == 4;
	if (biased == (1 << f->exponent_bits) - 1 && (!e4m3 || mantissa == 7))
		v = mantissa && (e4m3 || mantissa) ? NAN : INFINITY;
	else if (biased == 0)
		v = ldexp((double)mantissa, 1 - bias - f->mantissa_bits);
	else
		v = ldexp((double)(mantissa | (1ull << f->mantissa_bits)),
			  biased - bias - f->mantissa_bits);
	return negative ? -v : v;
}

static inline double payload_power(int64_t exponent)
{
	uint64_t bits = (uint64_t)(exponent + 1023) << 52;
	double v;

	ASSERT(exponent > -1023 && exponent < 1024);
	memcpy(&v, &bits, 8);
	return v;
}

uint64_t payload_get(const struct payload_format *f, const void *in, size_t at)
{
	uint64_t bits = 0;
	memcpy(&bits, (const uint8_t *)in + at * f->bytes, f->bytes);
	return bits;
}

/* Does the same as payload_encode_float, without a decision per element: most runs have this
 * type. */
static void payload_put_floats(const int64_t *v, size_t n, uint8_t *out)
{
	for (size_t k = 0; k < n; k++) {
		float single = (float)(double)v[k];

		memcpy(out + k * sizeof single, &single, sizeof single);
	}
}

void payload_factor(const struct payload *p, int32_t rank, void *out)
{
	const struct payload_format *f = &payload_formats[p->type];
	int64_t factor = payload_factor_of(p, rank);

	payload_put(f, out, 0,
		    f->is_float ? payload_encode_float(f, (double)factor) : (uint64_t)factor);
}

static void payload_fill_block(const struct payload *p, int32_t rank, size_t first, size_t n,
			       void *out)
{
	const struct payload_format *f = &payload_formats[p->type];
	int64_t v[PAYLOAD_BLOCK];

	payload_numbers(p, rank, first, n, v);
	for (size_t k = 0; p->moved && k < n; k++)
		payload_put(f, out, k, (uint64_t)v[k]);
	if (p->moved)
		return;
	if (f->is_float && f->bytes == 4 && p->op != ncclProd) {
		payload_put_floats(v, n, out);
		return;
	}
	for (size_t k = 0; k < n; k++) {
		if (!f->is_float)
			payload_put(f, out, k, (uint64_t)v[k]);
		else if (p->op == ncclProd)
			payload_put(f, out, k, payload_encode_float(f, payload_power(v[k])));
		else
			payload_put(f, out, k, payload_encode_float(f, (double)v[k]));
	}
}

void payload_fill(const struct payload *p, int32_t rank, size_t first, size_t n, void *out)
{
	if (payload_is_any(p)) {
		payload_any_fill(p, rank, first, n, out);
		return;
	}
	for (size_t at = 0; at < n; at += PAYLOAD_BLOCK)
		payload_fill_block(p, rank, first + at, MIN_OF(n - at, (size_t)PAYLOAD_BLOCK),
				   (uint8_t *)out + at * payload_type_bytes(p->type));
}

/* Integers reduce modulo 2^bits; an average divides the wrapped sum, signed or not. */
uint64_t payload_finish_int(const struct payload *p, const struct payload_format *f, uint64_t v)
{
	unsigned shift = 64 - 8u * f->bytes;
	if (p->op != ncclAvg)
		return v;
	if (f->is_signed)
		return (uint64_t)(((int64_t)(v << shift) >> shift) / p->nranks);
	return ((v << shift) >> shift) / (uint64_t)p->nranks;
}

static void payload_accumulate(const struct payload *p, size_t n, const int64_t *v, bool any,
			       uint64_t *acc)
{
	const struct payload_format *f = &payload_formats[p->type];

	if (!any && (p->op == ncclMax || p->op == ncclMin))
		memcpy(acc, v, n * sizeof *acc);
	else if (p->op == ncclMax && !f->is_float && !f->is_signed)
		for (size_t k = 0; k < n; k++)
			acc[k] = MAX_OF(acc[k], (uint64_t)v[k]);
	else if (p->op == ncclMin && !f->is_float && !f->is_signed)
		for (size_t k = 0; k < n; k++)
			acc[k] = MIN_OF(acc[k], (uint64_t)v[k]);
	else if (p->op == ncclMax)
		for (size_t k = 0; k < n; k++)
			acc[k] = (uint64_t)MAX_OF((int64_t)acc[k], v[k]);
	else if (p->op == ncclMin)
		for (size_t k = 0; k < n; k++)
			acc[k] = (uint64_t)MIN_OF((int64_t)acc[k], v[k]);
	else if (p->op == ncclProd && !f->is_float)
		for (size_t k = 0; k < n; k++)
			acc[k] *= (uint64_t)v[k];
	else /* a float's product adds exponents */
		for (size_t k = 0; k < n; k++)
			acc[k] += (uint64_t)v[k];
}

uint64_t payload_finish(const struct payload *p, uint64_t acc)
{
	const struct payload_format *f = &payload_formats[p->type];

	if (!f->is_float)
		return payload_finish_int(p, f, acc);
	if (p->op == ncclProd)
		return payload_encode_float(f, payload_power((int64_t)acc));
	double v = (double)(int64_t)acc;
	return payload_encode_float(f, p->op == ncclAvg ? v / p->nranks : v);
}

/* The results from element `first` on when rank r takes part times(r) times: 1, or 0 or 2 for
 * `odd`. */
static void payload_reduce_block(const struct payload *p, size_t first, size_t n, int32_t odd,
				 int odd_times, uint64_t *acc)
{
	int64_t v[PAYLOAD_BLOCK];
	bool any = false;

	ASSERT(n <= PAYLOAD_BLOCK);
	for (size_t k = 0; k < n; k++)
		acc[k] = p->op == ncclProd && !payload_formats[p->type].is_float;
	for (int32_t r = 0; r < p->nranks; r++) {
		int times = r == odd ? odd_times : 1;

		payload_numbers(p, r, first, n, v);
		for (size_t k = 0; p->op == PAYLOAD_MULSUM && k < n; k++)
			v[k] = (int64_t)((uint64_t)v[k] *
					 (uint64_t)payload_factor_of(p, r)); /* wraps */
		for (int t = 0; t < times; t++, any = true)
			payload_accumulate(p, n, v, any, acc);
	}
	for (size_t k = 0; k < n; k++)
		acc[k] = payload_finish(p, acc[k]);
}

uint64_t payload_reduce(const struct payload *p, size_t i, int32_t odd, int odd_times)
{
	uint64_t result;

	payload_reduce_block(p, i, 1, odd, odd_times, &result);
	return result;
}

void payload_expect(const struct payload *p, size_t first, size_t n, void *out)
{
	const struct payload_format *f = &payload_formats[p->type];
	uint64_t result[PAYLOAD_BLOCK];

	if (payload_is_any(p)) {
		payload_any_expect(p, first, n, out);
		return;
	}
	for (size_t at = 0; at < n; at += PAYLOAD_BLOCK) {
		size_t some = MIN_OF(n - at, (size_t)PAYLOAD_BLOCK);

		payload_reduce_block(p, first + at, some, -1, 1, result);
		for (size_t k = 0; k < some; k++)
			payload_put(f, out, at + k, result[k]);
	}
}

/* Averages of floats scale each input first, so rounding differs unless 1/n is exact. */
static bool payload_is_inexact(const struct payload *p)
{
	return !p->moved && p->op == ncclAvg && payload_formats[p->type].is_float &&
	       (p->nranks & (p->nranks - 1)) != 0;
}

bool payload_same(const struct payload *p, uint64_t got, uint64_t want)
{
	const struct payload_format *f = &payload_formats[p->type];
	uint64_t mask = f->bytes == 8 ? ~0ull : (1ull << (8 * f->bytes)) - 1;
	if (((got ^ want) & mask) == 0)
		return true;
	if (!payload_is_inexact(p))
		return false;
	double a = payload_decode_float(f, got & mask), b = payload_decode_float(f, want & mask);
	/* half a unit for the scale and one for each rounding of a product and a sum */
	return fabs(a - b) <= ldexp(fabs(b), -f->mantissa_bits - 1) * (2 * p->nranks + 1);
}

size_t payload_compare(const struct payload *p, size_t first, size_t n, const void *got,
		       const void *want, size_t *where)
{
	const struct payload_format *f = &payload_formats[p->type];
	size_t wrong = 0;
	if (memcmp(got, want, n * f->bytes) == 0)
		return 0;
	for (size_t k = 0; k < n; k++) {
		uint64_t g = payload_get(f, got, k), w = payload_get(f, want, k);

		if (payload_is_any(p) ? payload_any_is_right(p, first + k, g, w)
				      : payload_same(p, g, w))
			continue;
		if (wrong++ == 0)
			*where = first + k;
	}
	return wrong;
}
