/* SPDX-License-Identifier: BSD-3-Clause */
/* Guesses at the cause of a wrong result, in words. */
#include "sim/lab/check/payload_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/macros.h"
#include "core/base/type_name.h"

/* How many wrong elements does "rank odd took part odd_times" explain, how many contradict it? */
static bool payload_hypothesis(const struct payload *p, size_t first, size_t n, const void *got,
			       int32_t odd, int times, size_t *explained)
{
	const struct payload_format *f = payload_format_of(p->type);
	*explained = 0;
	for (size_t k = 0; k < n; k++) {
		uint64_t g = payload_get(f, got, k);
		if (payload_same(p, g, payload_reduce(p, first + k, -1, 1)))
			continue;
		if (!payload_same(p, g, payload_reduce(p, first + k, odd, times)))
			return false;
		++*explained;
	}
	return *explained > 0;
}

/* Is every wrong element what `rank` put in, untouched by the others (never reduced)? */
static bool payload_untouched(const struct payload *p, size_t first, size_t n, const void *got,
			      int32_t rank)
{
	const struct payload_format *f = payload_format_of(p->type);
	uint64_t own;
	for (size_t k = 0; k < n; k++) {
		uint64_t g = payload_get(f, got, k);
		if (payload_same(p, g, payload_reduce(p, first + k, -1, 1)))
			continue;
		own = 0;
		payload_fill(p, rank, first + k, 1, &own);
		if (!payload_same(p, g, own))
			return false;
	}
	return true;
}

/* ---- wrong factors -------------------------------------------------------------------------- */

/* The error that all elements show together: a division or a factor of a rank's input, in the wrong
 * number. */
struct payload_twist {
	int divisions;     /* of an average; 1 is right */
	bool divided_each; /* each input, before the sum */
	int factors;       /* of a pre-multiplied sum, for each input; 1 is right */
	int32_t factor_of; /* that of this rank for all inputs; -1: each rank's own */
};

static uint64_t payload_twisted(const struct payload *p, size_t i, const struct payload_twist *t)
{
	const struct payload_format *f = payload_format_of(p->type);
	uint64_t acc = 0;

	for (int32_t r = 0; r < p->nranks; r++) {
		int64_t v;

		payload_numbers(p, r, i, 1, &v);
		for (int k = 0; p->op == PAYLOAD_MULSUM && k < t->factors; k++)
			v *= payload_factor_of(p, t->factor_of < 0 ? r : t->factor_of);
		if (t->divided_each)
			v = (int64_t)payload_finish_int(p, f, (uint64_t)v);
		acc += (uint64_t)v;
	}
	if (p->op != ncclAvg)
		return payload_finish(p, acc);
	if (f->is_float) {
		double v = (double)(int64_t)acc;

		for (int k = 0; k < t->divisions; k++)
			v /= p->nranks;
		return payload_encode_float(f, v);
	}
	for (int k = 0; k < t->divisions; k++)
		acc = payload_finish_int(p, f, acc);
	return acc;
}

/* Is every wrong element what the twist gives? */
static bool payload_is_twisted(const struct payload *p, size_t first, size_t n, const void *got,
			       const struct payload_twist *t)
{
	for (size_t k = 0; k < n; k++) {
		uint64_t g = payload_get(payload_format_of(p->type), got, k);

		if (!payload_same(p, g, payload_reduce(p, first + k, -1, 1)) &&
		    !payload_same(p, g, payload_twisted(p, first + k, t)))
			return false;
	}
	return true;
}

static bool payload_explain_factors(const struct payload *p, size_t first, size_t n,
				    const void *got, char *out, size_t out_bytes)
{
	static const struct {
		ncclRedOp_t op;
		struct payload_twist twist;
		const char *words;
	} guess[] = {
		{ncclAvg, {0, false, 1, -1}, "the sum was not divided by the number of ranks"},
		{ncclAvg, {2, false, 1, -1}, "the sum was divided by the number of ranks twice"},
		{ncclAvg, {0, true, 1, -1}, "each input was divided, and not their sum"},
		{ncclAvg, {1, true, 1, -1}, "each input was divided, and their sum as well"},
		{PAYLOAD_MULSUM, {1, false, 0, -1}, "the inputs were not pre-multiplied"},
		{PAYLOAD_MULSUM, {1, false, 2, -1}, "the inputs were pre-multiplied twice"},
	};

	for (size_t i = 0; i < ARRAY_LEN(guess); i++)
		if (guess[i].op == p->op && payload_is_twisted(p, first, n, got, &guess[i].twist)) {
			snprintf(out, out_bytes, "%s", guess[i].words);
			return true;
		}
	for (int32_t r = 0; p->op == PAYLOAD_MULSUM && r < p->nranks; r++)
		if (payload_is_twisted(p, first, n, got, &(struct payload_twist){1, false, 1, r})) {
			snprintf(out, out_bytes,
				 "all inputs were pre-multiplied by rank %d's factor", r);
			return true;
		}
	return false;
}

/* ---- in words ------------------------------------------------------------------------------- */

size_t payload_difference(const struct payload *p, uint64_t element, const void *got,
			  const void *want, char *out, size_t out_bytes)
{
	const struct payload_format *f = payload_format_of(p->type);
	uint64_t g = payload_get(f, got, 0), w = payload_get(f, want, 0);
	int n;

	if (f->is_float && !p->moved)
		n = snprintf(out, out_bytes,
			     "element %" PRIu64 " is %.9g, expected %.9g: ", element,
			     payload_decode_float(f, g), payload_decode_float(f, w));
	else
		n = snprintf(out, out_bytes,
			     "element %" PRIu64 " is %#" PRIx64 ", expected %#" PRIx64 ": ",
			     element, g, w);
	return n < 0 ? 0 : MIN_OF((size_t)n, out_bytes - 1);
}

/* The first element of a wrong stretch is wrong. */
static void payload_any_explain(const struct payload *p, size_t first, const void *got, char *out,
				size_t out_bytes)
{
	uint64_t want = 0;
	size_t at;

	payload_any_expect(p, first, 1, &want);
	at = payload_difference(p, first, got, &want, out, out_bytes);
	snprintf(out + at, out_bytes - at, "rounded, added or limited in another way");
}

void payload_explain(const struct payload *p, size_t first, size_t n, const void *got, char *out,
		     size_t out_bytes)
{
	const struct payload_format *f = payload_format_of(p->type);
	size_t k = 0, explained;
	ASSERT(n > 0);
	if (payload_is_any(p)) {
		payload_any_explain(p, first, got, out, out_bytes);
		return;
	}
	n = MIN_OF(n, (size_t)4096); /* a window is enough to distinguish ranks */
	while (k + 1 < n &&
	       payload_same(p, payload_get(f, got, k), payload_reduce(p, first + k, -1, 1)))
		k++;
	uint64_t want = payload_reduce(p, first + k, -1, 1);
	size_t at = payload_difference(p, first + k, (const uint8_t *)got + k * f->bytes, &want,
				       out, out_bytes);
	out += at;
	out_bytes -= at;
	for (int32_t r = 0; r < p->nranks; r++) {
		if (payload_hypothesis(p, first, n, got, r, 0, &explained)) {
			snprintf(out, out_bytes, "contribution of rank %d is missing", r);
			return;
		}
		if (payload_hypothesis(p, first, n, got, r, 2, &explained)) {
			snprintf(out, out_bytes, "contribution of rank %d is doubled", r);
			return;
		}
	}
	if (payload_explain_factors(p, first, n, got, out, out_bytes))
		return;
	for (int32_t r = 0; r < p->nranks; r++)
		if (payload_untouched(p, first, n, got, r)) {
			snprintf(out, out_bytes, "holds rank %d's input alone", r);
			return;
		}
	snprintf(out, out_bytes, "no single rank explains it (stale or never written)");
}
