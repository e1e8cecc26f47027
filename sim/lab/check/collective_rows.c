/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of collectives, and their names. */
#include "sim/lab/check/collective.h"

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

	if (row->config)
		return ncclAllReduceConfig(a->send, a->recv, a->count, row->payload.type, row->op,
					   a->comm, a->stream, row->config);
	return ncclAllReduce(a->send, a->recv, a->count, row->payload.type, row->op, a->comm,
			     a->stream);
}

static ncclResult_t collective_all_gather(const struct lab_call_args *a)
{
	ncclDataType_t type = a->row->payload.type;

	if (a->row->config)
		return ncclAllGatherConfig(a->send, a->recv, a->count, type, a->comm, a->stream,
					   a->row->config);
	return ncclAllGather(a->send, a->recv, a->count, type, a->comm, a->stream);
}

static ncclResult_t collective_reduce_scatter(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	if (row->config)
		return ncclReduceScatterConfig(a->send, a->recv, a->count, row->payload.type,
					       row->op, a->comm, a->stream, row->config);
	return ncclReduceScatter(a->send, a->recv, a->count, row->payload.type, row->op, a->comm,
				 a->stream);
}

static ncclResult_t collective_reduce(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	if (row->config)
		return ncclReduceConfig(a->send, a->recv, a->count, row->payload.type, row->op,
					row->root, a->comm, a->stream, row->config);
	return ncclReduce(a->send, a->recv, a->count, row->payload.type, row->op, row->root,
			  a->comm, a->stream);
}

/* ncclBcast has no options. */
static ncclResult_t collective_broadcast(const struct lab_call_args *a)
{
	ncclDataType_t type = a->row->payload.type;

	if (a->row->config)
		return ncclBroadcastConfig(a->row->in_place ? a->recv : a->send, a->recv, a->count,
					   type, a->row->root, a->comm, a->stream, a->row->config);
	if (a->row->in_place)
		return ncclBcast(a->recv, a->count, type, a->row->root, a->comm, a->stream);
	return ncclBroadcast(a->send, a->recv, a->count, type, a->row->root, a->comm, a->stream);
}

static ncclResult_t collective_all_to_all(const struct lab_call_args *a)
{
	ncclDataType_t type = a->row->payload.type;

	if (a->row->config)
		return ncclAlltoAllConfig(a->send, a->recv, a->count, type, a->comm, a->stream,
					  a->row->config);
	return ncclAlltoAll(a->send, a->recv, a->count, type, a->comm, a->stream);
}

static ncclResult_t collective_gather(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	if (row->config)
		return ncclGatherConfig(a->send, a->recv, a->count, row->payload.type, row->root,
					a->comm, a->stream, row->config);
	return ncclGather(a->send, a->recv, a->count, row->payload.type, row->root, a->comm,
			  a->stream);
}

static ncclResult_t collective_scatter(const struct lab_call_args *a)
{
	const struct lab_row *row = a->row;

	if (row->config)
		return ncclScatterConfig(a->send, a->recv, a->count, row->payload.type, row->root,
					 a->comm, a->stream, row->config);
	return ncclScatter(a->send, a->recv, a->count, row->payload.type, row->root, a->comm,
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
