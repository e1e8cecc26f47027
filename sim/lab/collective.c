/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/collective.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/base/word.h"

/* ---- the rows --------------------------------------------------------------------------- */

static ncclResult_t collective_all_reduce(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	return ncclAllReduce(a->send, a->recv, a->count, row->payload.type, row->op, a->comm,
			     a->stream);
}

static ncclResult_t collective_all_gather(const struct lab_call_args *a)
{
	return ncclAllGather(a->send, a->recv, a->count, a->row->payload.type, a->comm, a->stream);
}

static ncclResult_t collective_reduce_scatter(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	return ncclReduceScatter(a->send, a->recv, a->count, row->payload.type, row->op, a->comm,
				 a->stream);
}

static ncclResult_t collective_reduce(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	return ncclReduce(a->send, a->recv, a->count, row->payload.type, row->op, row->root,
			  a->comm, a->stream);
}

static ncclResult_t collective_broadcast(const struct lab_call_args *a)
{
	ncclDataType_t type = a->row->payload.type;

	if (a->row->in_place)
		return ncclBcast(a->recv, a->count, type, a->row->root, a->comm, a->stream);
	return ncclBroadcast(a->send, a->recv, a->count, type, a->row->root, a->comm, a->stream);
}

static ncclResult_t collective_all_to_all(const struct lab_call_args *a)
{
	return ncclAlltoAll(a->send, a->recv, a->count, a->row->payload.type, a->comm, a->stream);
}

static ncclResult_t collective_gather(const struct lab_call_args *a)
{
	return ncclGather(a->send, a->recv, a->count, a->row->payload.type, a->row->root, a->comm,
			  a->stream);
}

static ncclResult_t collective_scatter(const struct lab_call_args *a)
{
	return ncclScatter(a->send, a->recv, a->count, a->row->payload.type, a->row->root, a->comm,
			   a->stream);
}

/* ---- rows of messages: programs that nccl-tests has -------------------------------------- */

/* A group ends, whatever its calls returned. */
static ncclResult_t collective_group_end(ncclResult_t rc)
{
	ncclResult_t end = ncclGroupEnd();

	return rc ? rc : end;
}

static int32_t collective_previous(int32_t rank, int32_t nranks)
{
	return (rank + nranks - 1) % nranks;
}

/* Round the ranks: each sends to the next one. */
static ncclResult_t collective_send_recv(const struct lab_call_args *a)
{
	int32_t nranks = a->row->payload.nranks;
	ncclDataType_t type = a->row->payload.type;
	ncclResult_t rc = ncclGroupStart();

	if (rc)
		return rc;
	rc = ncclSend(a->send, a->count, type, (a->rank + 1) % nranks, a->comm, a->stream);
	if (!rc)
		rc = ncclRecv(a->recv, a->count, type, collective_previous(a->rank, nranks),
			      a->comm, a->stream);
	return collective_group_end(rc);
}

/* The further rank `to` is after rank `from`, the more: none to itself, all to the one before
 * it. */
static uint64_t collective_distance_share(uint64_t n, int32_t from, int32_t to, int32_t nranks)
{
	uint64_t distance = (uint64_t)((to - from + nranks) % nranks);

	return nranks == 1 ? n : n * distance / (uint64_t)(nranks - 1);
}

static ncclResult_t collective_all_to_all_v(const struct lab_call_args *a)
{
	const struct payload *p = &a->row->payload;
	uint64_t block = a->count * payload_type_bytes(p->type);
	ncclResult_t rc = ncclGroupStart();

	if (rc)
		return rc;
	for (int32_t r = 0; r < p->nranks && !rc; r++) {
		uint64_t out = collective_distance_share(a->count, a->rank, r, p->nranks);
		uint64_t in = collective_distance_share(a->count, r, a->rank, p->nranks);

		rc = ncclSend((const uint8_t *)a->send + (uint64_t)r * block, out, p->type, r,
			      a->comm, a->stream);
		if (!rc)
			rc = ncclRecv((uint8_t *)a->recv + (uint64_t)r * block, in, p->type, r,
				      a->comm, a->stream);
	}
	return collective_group_end(rc);
}

/* Blocks first .. first+n-1 go to the peer, which has as many for this rank. */
static ncclResult_t collective_exchange(const struct lab_call_args *a, int32_t peer, int32_t mine,
					int32_t theirs, uint64_t n)
{
	const struct payload *p = &a->row->payload;
	uint64_t block = a->count * payload_type_bytes(p->type);
	uint8_t *recv = a->recv;
	ncclResult_t rc = ncclGroupStart();

	if (rc)
		return rc;
	rc = ncclSend(recv + (uint64_t)mine * block, n * a->count, p->type, peer, a->comm,
		      a->stream);
	if (!rc)
		rc = ncclRecv(recv + (uint64_t)theirs * block, n * a->count, p->type, peer, a->comm,
			      a->stream);
	return collective_group_end(rc);
}

/* An all-gather: the ranks exchange what they have with the one at distance 1, then 2, 4, ... */
static ncclResult_t collective_hypercube(const struct lab_call_args *a)
{
	uint64_t block = a->count * payload_type_bytes(a->row->payload.type);
	uint8_t *own = (uint8_t *)a->recv + (uint64_t)a->rank * block;
	ncclResult_t rc = ncclSuccess;

	if (own != a->send && cudaMemcpyAsync(own, a->send, block, cudaMemcpyDeviceToDevice,
					      a->stream) != cudaSuccess)
		return ncclUnhandledCudaError;
	for (int32_t mask = 1; mask < a->row->payload.nranks && !rc; mask *= 2) {
		int32_t mine = a->rank & ~(mask - 1);

		rc = collective_exchange(a, a->rank ^ mask, mine, mine ^ mask, (uint64_t)mask);
	}
	return rc;
}

const struct lab_collective lab_collectives[] = {
	{
		.name = "all_reduce",
		.call = "ncclAllReduce",
		.start = collective_all_reduce,
		.reduces = true,
		.tours = 2,
		.own_share_stays = true,
	},
	{
		.name = "all_gather",
		.call = "ncclAllGather",
		.start = collective_all_gather,
		.recv_per_rank = true,
		.tours = 1,
		.own_share_stays = true,
	},
	{
		.name = "reduce_scatter",
		.call = "ncclReduceScatter",
		.start = collective_reduce_scatter,
		.reduces = true,
		.send_per_rank = true,
		.tours = 1,
		.own_share_stays = true,
	},
	{
		.name = "reduce",
		.call = "ncclReduce",
		.start = collective_reduce,
		.reduces = true,
		.root_receives = true,
		.tours = 1,
	},
	{
		.name = "broadcast",
		.call = "ncclBroadcast",
		.start = collective_broadcast,
		.root_sends = true,
		.tours = 1,
	},
	{
		.name = "all_to_all",
		.call = "ncclAlltoAll",
		.start = collective_all_to_all,
		.send_per_rank = true,
		.recv_per_rank = true,
		.tours = 1,
		.own_share_stays = true,
		.connects = true,
	},
	{
		.name = "gather",
		.call = "ncclGather",
		.start = collective_gather,
		.recv_per_rank = true,
		.root_receives = true,
		.tours = 1,
		.own_share_stays = true,
		.connects = true,
	},
	{
		.name = "scatter",
		.call = "ncclScatter",
		.start = collective_scatter,
		.send_per_rank = true,
		.root_sends = true,
		.tours = 1,
		.own_share_stays = true,
		.connects = true,
	},
	{
		.name = "send_recv",
		.call = "ncclSend and ncclRecv",
		.start = collective_send_recv,
		.from = collective_previous,
		.tours = 1,
		.never_in_place = true,
		.connects = true,
	},
	{
		.name = "all_to_all_v",
		.call = "ncclSend and ncclRecv",
		.start = collective_all_to_all_v,
		.share = collective_distance_share,
		.send_per_rank = true,
		.recv_per_rank = true,
		.tours = 1,
		.never_in_place = true,
		.connects = true,
	},
	{
		.name = "hypercube",
		.call = "ncclSend and ncclRecv",
		.start = collective_hypercube,
		.recv_per_rank = true,
		.tours = 1,
		.own_share_stays = true,
		.connects = true,
		.chained = true,
	},
};
const uint32_t lab_collectives_n = ARRAY_LEN(lab_collectives);
_Static_assert(ARRAY_LEN(lab_collectives) <= LAB_COLLECTIVES_MAX, "more rows than allowed");

/* ---- names ------------------------------------------------------------------------------ */

/* Names of nccl-tests' programs, where ours is another one. */
static const struct {
	const char *theirs, *ours;
} collective_aliases[] = {
	{"sendrecv", "send_recv"},
	{"alltoall", "all_to_all"},
	{"alltoallv", "all_to_all_v"},
};

static bool collective_name_is(const char *is, const char *name, size_t bytes)
{
	return strlen(is) == bytes && memcmp(is, name, bytes) == 0;
}

const struct lab_collective *lab_collective_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(collective_aliases); i++)
		if (collective_name_is(collective_aliases[i].theirs, name, bytes)) {
			name = collective_aliases[i].ours;
			bytes = strlen(name);
			break;
		}
	for (uint32_t i = 0; i < lab_collectives_n; i++)
		if (collective_name_is(lab_collectives[i].name, name, bytes))
			return &lab_collectives[i];
	return NULL;
}

const char *lab_collective_nearest(const char *name, size_t bytes)
{
	const char *names[LAB_COLLECTIVES_MAX + 1] = {NULL};

	for (uint32_t i = 0; i < lab_collectives_n; i++)
		names[i] = lab_collectives[i].name;
	return word_nearest(name, bytes, names);
}

const char *lab_collective_names(void)
{
	static char names[LAB_COLLECTIVES_MAX * 24];
	size_t n = 0;

	for (uint32_t i = 0; i < lab_collectives_n && n < sizeof names; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
				      lab_collectives[i].name);
	return names;
}

double lab_collective_bus_factor(const struct lab_collective *c, int32_t nranks)
{
	if (c->share)
		return 0.5; /* of the blocks, and none of it stays */
	return c->own_share_stays ? (double)c->tours * (nranks - 1) / nranks : c->tours;
}

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
	uint64_t in_part = at - p.first * recv_blocks;
	uint64_t block = in_part / p.n, in_block = in_part % p.n;
	struct lab_source s = {.n = p.n - in_block, .block_n = p.n};

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
