/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that nccl_compare measures, and their results. */
#include "tests/bench/nccl_compare_collectives.h"

#include <string.h>

#define BLOCK (256 * PERIOD) /* number of elements that one call fills or compares */

static void content_block(struct content c, float *block)
{
	for (size_t i = 0; i < BLOCK; i++)
		block[i] = (float)(c.scale * (int)((c.first + i) % PERIOD + 1));
}

void content_fill(struct content c, float *data, size_t n)
{
	static _Thread_local float block[BLOCK];

	content_block(c, block);
	for (size_t i = 0; i < n; i += BLOCK)
		memcpy(data + i, block, (n - i < BLOCK ? n - i : BLOCK) * FLOAT);
}

uint64_t content_wrong(struct content c, const float *data, size_t n)
{
	static _Thread_local float block[BLOCK];
	uint64_t wrong = 0;

	content_block(c, block);
	for (size_t i = 0; i < n; i += BLOCK) {
		size_t here = n - i < BLOCK ? n - i : BLOCK;

		if (!memcmp(data + i, block, here * FLOAT))
			continue;
		for (size_t k = 0; k < here; k++)
			wrong += data[i + k] != block[k];
	}
	return wrong;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static ncclResult_t all_reduce(const struct nccl_lib *l, const struct call *c)
{
	return l->all_reduce(c->send, c->recv, c->n, ncclFloat32, ncclSum, c->comm, c->stream);
}

static ncclResult_t all_gather(const struct nccl_lib *l, const struct call *c)
{
	return l->all_gather(c->send, c->recv, c->n / (size_t)c->ranks, ncclFloat32, c->comm,
			     c->stream);
}

static ncclResult_t reduce_scatter(const struct nccl_lib *l, const struct call *c)
{
	return l->reduce_scatter(c->send, c->recv, c->n / (size_t)c->ranks, ncclFloat32, ncclSum,
				 c->comm, c->stream);
}

static ncclResult_t broadcast(const struct nccl_lib *l, const struct call *c)
{
	return l->broadcast(c->send, c->recv, c->n, ncclFloat32, 0, c->comm, c->stream);
}

static ncclResult_t all_to_all(const struct nccl_lib *l, const struct call *c)
{
	size_t part = c->n / (size_t)c->ranks;
	ncclResult_t rc = l->group_start();

	for (int p = 0; p < c->ranks && !rc; p++) {
		rc = l->send(c->send + (size_t)p * part, part, ncclFloat32, p, c->comm, c->stream);
		if (!rc)
			rc = l->recv(c->recv + (size_t)p * part, part, ncclFloat32, p, c->comm,
				     c->stream);
	}
	return rc ? rc : l->group_end();
}

static ncclResult_t send_recv(const struct nccl_lib *l, const struct call *c)
{
	ncclResult_t rc = l->group_start();

	if (!rc)
		rc = l->send(c->send, c->n, ncclFloat32, (c->rank + 1) % c->ranks, c->comm,
			     c->stream);
	if (!rc)
		rc = l->recv(c->recv, c->n, ncclFloat32, (c->rank + c->ranks - 1) % c->ranks,
			     c->comm, c->stream);
	return rc ? rc : l->group_end();
}

/* ---- expected results: of a rank, or its part from rank `part` ------------------------------ */

struct content input_of(int rank)
{
	return (struct content){.scale = rank + 1};
}

static struct content all_reduce_want(const struct call *c, int part)
{
	(void)part;
	return (struct content){.scale = c->ranks * (c->ranks + 1) / 2};
}

static struct content all_gather_want(const struct call *c, int part)
{
	(void)c;
	return input_of(part);
}

static struct content reduce_scatter_want(const struct call *c, int part)
{
	struct content sum = all_reduce_want(c, part);

	sum.first = (size_t)c->rank * (c->n / (size_t)c->ranks);
	return sum;
}

static struct content broadcast_want(const struct call *c, int part)
{
	(void)c;
	(void)part;
	return input_of(0);
}

static struct content all_to_all_want(const struct call *c, int part)
{
	struct content from = input_of(part);

	from.first = (size_t)c->rank * (c->n / (size_t)c->ranks);
	return from;
}

static struct content send_recv_want(const struct call *c, int part)
{
	(void)part;
	return input_of((c->rank + c->ranks - 1) % c->ranks);
}

const struct collective collective[COLLECTIVES] = {
	{"all_reduce", all_reduce, all_reduce_want, 2, false, false},
	{"all_gather", all_gather, all_gather_want, 1, true, false},
	{"reduce_scatter", reduce_scatter, reduce_scatter_want, 1, true, true},
	{"broadcast", broadcast, broadcast_want, 0, false, false},
	{"all_to_all", all_to_all, all_to_all_want, 1, true, false},
	{"send_recv", send_recv, send_recv_want, 0, false, false},
};
