/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the payload: payload.c (numbers that are exact in any order, bits that are
 * moved, explanations) and payload_any.c (any floats). Pure functions.
 */
#ifndef SIM_LAB_PAYLOAD_INTERNAL_H
#define SIM_LAB_PAYLOAD_INTERNAL_H

#include <string.h>

#include "sim/lab/check/payload.h"

/* Floating-point formats by their fields. max_exact: integers up to here are exact. */
struct payload_format {
	uint8_t bytes;
	bool is_float, is_signed;
	uint8_t exponent_bits, mantissa_bits;
	uint64_t max_exact;
};

const struct payload_format *payload_format_of(ncclDataType_t type);
uint64_t payload_mix(uint64_t x);
int64_t payload_factor_of(const struct payload *p, int32_t rank);
/* Rounds to nearest even. The result is undefined for numbers outside the range. */
uint64_t payload_encode_float(const struct payload_format *f, double v);
double payload_decode_float(const struct payload_format *f, uint64_t bits);
static inline void payload_put(const struct payload_format *f, void *out, size_t at, uint64_t bits)
{
	uint8_t *to = (uint8_t *)out + at * f->bytes;

	switch (f->bytes) { /* little-endian hosts */
	case 4:
		memcpy(to, &bits, 4);
		break;
	case 8:
		memcpy(to, &bits, 8);
		break;
	default:
		memcpy(to, &bits, f->bytes);
	}
}

/* payload.c: numbers of inputs, and results */
void payload_numbers(const struct payload *p, int32_t rank, size_t first, size_t n, int64_t *out);
uint64_t payload_get(const struct payload_format *f, const void *in, size_t at);
uint64_t payload_finish_int(const struct payload *p, const struct payload_format *f, uint64_t v);
uint64_t payload_finish(const struct payload *p, uint64_t acc);
uint64_t payload_reduce(const struct payload *p, size_t i, int32_t odd, int odd_times);
bool payload_same(const struct payload *p, uint64_t got, uint64_t want);

/* payload_any.c */
bool payload_is_any(const struct payload *p);
uint64_t payload_round(const struct payload_format *f, double v);
void payload_any_fill(const struct payload *p, int32_t rank, uint64_t first, size_t n, void *out);
void payload_any_expect(const struct payload *p, uint64_t first, size_t n, void *out);
/* Is `got` right as element `element`, whose nearest result is `want`? */
bool payload_any_is_right(const struct payload *p, uint64_t element, uint64_t got, uint64_t want);

#endif
