/* SPDX-License-Identifier: BSD-3-Clause */
/* One row: its buffers, its parts, and the results that its ranks must have. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/check/collective.h"

/* ---- rows ------------------------------------------------------------------------------- */

static uint64_t row_blocks(const struct lab_row *row, enum lab_side side)
{
	const struct lab_collective *c = row->collective;
	bool per_rank = side == LAB_SEND ? c->send_per_rank : c->recv_per_rank;

	return per_rank ? (uint64_t)row->payload.nranks : 1;
}

static uint64_t row_most_blocks(const struct lab_row *row)
{
	return MAX_OF(row_blocks(row, LAB_SEND), row_blocks(row, LAB_RECV));
}

struct lab_row lab_row_make(const struct lab_collective *c, const struct payload *p, int32_t root,
			    uint64_t bytes, uint32_t parts)
{
	struct lab_row row = {
		.collective = c,
		.payload = *p,
		.root = lab_collective_has_root(c) ? root : -1,
		.parts = MAX_OF(parts, 1u),
		.op = p->op,
	};
	uint64_t width = payload_type_bytes(p->type);

	ASSERT(p->nranks > 0 && root < p->nranks);
	row.payload.moved = !c->reduces;
	row.count = bytes / width / row_most_blocks(&row);
	row.bytes = lab_row_most(&row) * width;
	ASSERT(row.bytes <= bytes);
	return row;
}

const char *lab_row_op(const struct lab_row *row)
{
	return row->collective->reduces ? payload_op_name(row->payload.op) : "none";
}

void lab_row_text(const struct lab_row *row, char out[LAB_ROW_TEXT])
{
	const struct lab_collective *c = row->collective;
	int n = snprintf(out, LAB_ROW_TEXT, "%s, %" PRIu64 " B %s", c->name, row->bytes,
			 payload_type_name(row->payload.type));

	if (c->reduces)
		n += snprintf(out + n, LAB_ROW_TEXT - (size_t)n, " %s", lab_row_op(row));
	if (row->root >= 0)
		n += snprintf(out + n, LAB_ROW_TEXT - (size_t)n, " root %d", row->root);
	snprintf(out + n, LAB_ROW_TEXT - (size_t)n, "%s", row->in_place ? " in place" : "");
}

uint64_t lab_row_elements(const struct lab_row *row, enum lab_side side)
{
	return row->count * row_blocks(row, side);
}

uint64_t lab_row_most(const struct lab_row *row)
{
	return row->count * row_most_blocks(row);
}

/* ---- parts ------------------------------------------------------------------------------ */

/* Elements of a block. */
struct row_part {
	uint64_t first, n;
};

static struct row_part row_part(const struct lab_row *row, uint32_t part)
{
	uint64_t first = row->count * part / row->parts;
	uint64_t end = row->count * (part + 1) / row->parts;

	ASSERT(part < row->parts && first <= end);
	return (struct row_part){first, end - first};
}

/* The part that element `at` of a block belongs to. */
static struct row_part row_part_of(const struct lab_row *row, uint64_t at)
{
	uint32_t part = (uint32_t)(at * row->parts / row->count);
	struct row_part p = row_part(row, part);

	ASSERT(at < row->count);
	while (at >= p.first + p.n)
		p = row_part(row, ++part);
	return p;
}

/* In place, a rank's block in the buffer that has a block for each rank. */
static bool row_is_within(const struct lab_row *row, enum lab_side side)
{
	return row->in_place && row_blocks(row, side) < row_most_blocks(row);
}

/* Returns the first element of the part's buffer, counted from the start of its memory. */
static uint64_t row_part_at(const struct lab_row *row, enum lab_side side, int32_t rank,
			    const struct row_part *p)
{
	ASSERT(rank >= 0 && rank < row->payload.nranks);
	if (row_is_within(row, side))
		return p->first * row_most_blocks(row) + p->n * (uint64_t)rank;
	return p->first * row_blocks(row, side);
}

bool lab_row_span(const struct lab_row *row, enum lab_side side, int32_t rank, uint32_t k,
		  struct lab_span *span)
{
	if (!row_is_within(row, side)) {
		*span = (struct lab_span){0, 0, lab_row_elements(row, side)};
		return k == 0;
	}
	if (k >= row->parts)
		return false;
	struct row_part p = row_part(row, k);
	*span = (struct lab_span){p.first, row_part_at(row, side, rank, &p), p.n};
	return true;
}

struct lab_span lab_row_part_memory(const struct lab_row *row, enum lab_side side, uint32_t part)
{
	struct row_part p = row_part(row, part);
	uint64_t blocks = row->in_place ? row_most_blocks(row) : row_blocks(row, side);

	return (struct lab_span){p.first * blocks, p.first * blocks, p.n * blocks};
}

ncclResult_t lab_row_start(const struct lab_row *row, uint32_t part, int32_t rank, uint8_t *send,
			   uint8_t *recv, ncclComm_t comm, void *stream)
{
	uint64_t width = payload_type_bytes(row->payload.type);
	struct row_part p = row_part(row, part);
	struct lab_call_args args = {
		.row = row,
		.rank = rank,
		.send = send + row_part_at(row, LAB_SEND, rank, &p) * width,
		.recv = recv + row_part_at(row, LAB_RECV, rank, &p) * width,
		.count = p.n,
		.comm = comm,
		.stream = stream,
	};

	ASSERT((send == recv) == row->in_place);
	return row->collective->start(&args);
}

/* ---- results ---------------------------------------------------------------------------- */

struct lab_source lab_row_source(const struct lab_row *row, int32_t rank, uint64_t at)
{
	const struct lab_collective *c = row->collective;
	uint64_t send_blocks = row_blocks(row, LAB_SEND), recv_blocks = row_blocks(row, LAB_RECV);
	struct row_part p = row_part_of(row, at / recv_blocks);

	ASSERT(p.n > 0); /* a part without elements has no element of the buffer */
	uint64_t in_part = at - p.first * recv_blocks;
	uint64_t block = in_part / p.n, in_block = in_part % p.n;
	struct lab_source s = {.n = p.n - in_block, .block_n = p.n};

	ASSERT(block < recv_blocks);
	s.kind = c->reduces ? LAB_REDUCED : LAB_INPUT;
	if (c->root_receives && rank != row->root)
		s.kind = row->in_place ? LAB_KEPT : LAB_UNTOUCHED;
	if (s.kind == LAB_KEPT && row_is_within(row, LAB_SEND) && block != (uint64_t)rank)
		s.kind = LAB_UNTOUCHED;
	/* a send buffer with a block for each rank: the one for this rank */
	s.block_first = p.first * send_blocks + (c->send_per_rank ? p.n * (uint64_t)rank : 0);
	s.element = s.block_first + in_block;
	s.rank = s.kind == LAB_KEPT ? rank
		 : c->root_sends    ? row->root
		 : c->from          ? c->from(rank, row->payload.nranks)
		 : c->recv_per_rank ? (int32_t)block
				    : rank;
	if (c->share) {
		uint64_t share = c->share(p.n, s.rank, rank, row->payload.nranks);

		s.n = (in_block < share ? share : p.n) - in_block;
		s.kind = in_block < share ? LAB_INPUT : LAB_UNTOUCHED;
	}
	return s;
}

void lab_row_reduce(const struct lab_row *row, void *out)
{
	ASSERT(row->collective->reduces);
	payload_expect(&row->payload, 0, lab_row_elements(row, LAB_SEND), out);
}

/* Returns the expected elements at .. at+n-1 of the receive buffer, all from one source. */
static const void *row_want(const struct lab_row *row, const struct lab_source *from, uint64_t n,
			    const void *reduced, void *scratch)
{
	uint64_t width = payload_type_bytes(row->payload.type);

	if (from->kind == LAB_REDUCED && reduced)
		return (const uint8_t *)reduced + from->element * width;
	if (from->kind == LAB_REDUCED)
		payload_expect(&row->payload, from->element, n, scratch);
	else if (from->kind == LAB_UNTOUCHED)
		memset(scratch, LAB_UNWRITTEN, n * width);
	else
		payload_fill(&row->payload, from->rank, from->element, n, scratch);
	return scratch;
}

uint64_t lab_row_compare(const struct lab_row *row, int32_t rank, uint64_t first, uint64_t n,
			 const void *got, const void *reduced, void *scratch, uint64_t *where)
{
	uint64_t width = payload_type_bytes(row->payload.type), wrong = 0, some;

	for (uint64_t at = first; at < first + n; at += some) {
		struct lab_source from = lab_row_source(row, rank, at);
		size_t here = 0, element;

		ASSERT(from.n > 0); /* a source has at least this element, so the loop ends */
		some = MIN_OF(from.n, first + n - at);
		element = from.kind == LAB_UNTOUCHED ? at : from.element;
		uint64_t bad = payload_compare(&row->payload, element, some,
					       (const uint8_t *)got + (at - first) * width,
					       row_want(row, &from, some, reduced, scratch), &here);
		if (bad && !wrong)
			*where = at + (here - element);
		wrong += bad;
	}
	return wrong;
}

uint64_t lab_row_wrong(const struct lab_row *row, int32_t rank, const void *got, void *memory,
		       uint64_t *where)
{
	if (row->collective->root_receives && rank != row->root)
		return 0;
	if (row->collective->reduces)
		lab_row_reduce(row, memory);
	return lab_row_compare(row, rank, 0, lab_row_elements(row, LAB_RECV), got, memory,
			       (uint8_t *)memory + row->bytes, where);
}
