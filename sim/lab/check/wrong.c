/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a result is wrong: whose contribution is missing or doubled, or what a block holds
 * instead. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"

enum { WRONG_WINDOW = 4096 }; /* elements: enough to distinguish ranks */

/* A stretch of a buffer: `got` and `want` hold it, `other` is for a guess. */
struct wrong_stretch {
	const struct lab_row *row;
	struct lab_source from;
	uint64_t first, n;
	const uint8_t *got;
	uint8_t *want, *other;
};

/* Is every wrong element what `other` has there? */
static bool wrong_is_other(const struct wrong_stretch *s)
{
	size_t width = payload_type_bytes(s->row->payload.type);

	for (uint64_t k = 0; k < s->n; k++) {
		const uint8_t *got = s->got + k * width;

		if (memcmp(got, s->want + k * width, width) != 0 &&
		    memcmp(got, s->other + k * width, width) != 0)
			return false;
	}
	return true;
}

static bool wrong_is_unwritten(const struct wrong_stretch *s)
{
	memset(s->other, LAB_UNWRITTEN, s->n * payload_type_bytes(s->row->payload.type));
	return wrong_is_other(s);
}

static bool wrong_is_input_of(const struct wrong_stretch *s, int32_t rank)
{
	payload_fill(&s->row->payload, rank, s->from.element, s->n, s->other);
	return wrong_is_other(s);
}

/* A block of inputs, in the buffer of `rank`. */
static void wrong_moved(const struct wrong_stretch *s, int32_t rank, char *out, size_t out_bytes)
{
	const struct payload *p = &s->row->payload;
	size_t n = payload_difference(p, s->first, s->got, s->want, out, out_bytes);

	n += (size_t)snprintf(out + n, out_bytes - n, "block of rank %d ", s->from.rank);
	n = MIN_OF(n, out_bytes - 1);
	if (wrong_is_unwritten(s)) {
		snprintf(out + n, out_bytes - n, "was never written");
		return;
	}
	for (int32_t r = 0; r < p->nranks; r++)
		if (r != s->from.rank && wrong_is_input_of(s, r)) {
			snprintf(out + n, out_bytes - n, "holds rank %d's input%s", r,
				 r == rank ? ", its own" : "");
			return;
		}
	snprintf(out + n, out_bytes - n, "holds no rank's input (stale, or out of place)");
}

/* A rank's block of a reduced result: is it another rank's? */
static bool wrong_is_result_of(const struct wrong_stretch *s, int32_t rank)
{
	uint64_t shift = s->from.element - s->from.block_first;
	uint64_t block = s->from.block_first - (uint64_t)s->from.rank * s->from.block_n +
			 (uint64_t)rank * s->from.block_n;

	payload_expect(&s->row->payload, block + shift, s->n, s->other);
	return wrong_is_other(s);
}

static void wrong_reduced(const struct wrong_stretch *s, char *out, size_t out_bytes)
{
	const struct payload *p = &s->row->payload;
	size_t n;

	if (!s->row->collective->send_per_rank) {
		payload_explain(p, s->from.element, s->n, s->got, out, out_bytes);
		return;
	}
	for (int32_t r = 0; r < p->nranks; r++)
		if (r != s->from.rank && wrong_is_result_of(s, r)) {
			n = payload_difference(p, s->first, s->got, s->want, out, out_bytes);
			snprintf(out + n, out_bytes - n,
				 "block of rank %d holds the result of rank %d's block",
				 s->from.rank, r);
			return;
		}
	n = (size_t)snprintf(out, out_bytes,
			     "the block begins at element %" PRIu64 " of the send buffers; ",
			     s->from.block_first);
	payload_explain(p, s->from.element, s->n, s->got, out + n, out_bytes - n);
}

static void wrong_stretch_explain(const struct wrong_stretch *s, int32_t rank, char *out,
				  size_t out_bytes)
{
	size_t width = payload_type_bytes(s->row->payload.type);

	switch (s->from.kind) {
	case LAB_REDUCED:
		payload_expect(&s->row->payload, s->from.element, s->n, s->want);
		wrong_reduced(s, out, out_bytes);
		return;
	case LAB_INPUT:
		payload_fill(&s->row->payload, s->from.rank, s->from.element, s->n, s->want);
		wrong_moved(s, rank, out, out_bytes);
		return;
	case LAB_KEPT:
	case LAB_UNTOUCHED:
		break;
	}
	memset(s->want, LAB_UNWRITTEN, s->n * width);
	if (s->from.kind == LAB_KEPT)
		payload_fill(&s->row->payload, s->from.rank, s->from.element, s->n, s->want);
	size_t n = payload_difference(&s->row->payload, s->first, s->got, s->want, out, out_bytes);
	if (s->row->collective->share) {
		snprintf(out + n, out_bytes - n,
			 "rank %d sends less than that, but the buffer was written", s->from.rank);
		return;
	}
	snprintf(out + n, out_bytes - n, "rank %d is not the root, %d, but its buffer was written",
		 rank, s->row->root);
}

void lab_row_explain(const struct lab_row *row, int32_t rank, uint64_t first, uint64_t n,
		     const void *got, char *out, size_t out_bytes)
{
	size_t bytes = WRONG_WINDOW * payload_type_bytes(row->payload.type);
	struct wrong_stretch s = {
		.row = row,
		.from = lab_row_source(row, rank, first),
		.first = first,
		.got = got,
		.want = malloc(2 * bytes),
	};

	snprintf(out, out_bytes, "element %" PRIu64 " is wrong", first);
	if (!s.want)
		return;
	s.n = MIN_OF(MIN_OF(n, s.from.n), (uint64_t)WRONG_WINDOW);
	s.other = s.want + bytes;
	wrong_stretch_explain(&s, rank, out, out_bytes);
	free(s.want);
}
