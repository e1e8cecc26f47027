/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ras/ras_wire.h"

#include <ctype.h>
#include <string.h>

#include "core/include/nccl.h"
#include "core/rank/calls.h"

DOPPEL_STATIC_CHECK(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

/* True if a message of this kind can have arrays of these lengths. */
static bool wire_lengths_fit(const struct ras_head *h)
{
	switch ((enum ras_wire_kind)h->kind) {
	case RAS_WIRE_REPORT:
	case RAS_WIRE_DUMP:
	case RAS_WIRE_CALLS:
		return !h->ranks && !h->members && !h->calls && !h->pairs && !h->text && !h->why;
	case RAS_WIRE_FAIL:
		return h->hashes == RAS_FAIL_WORDS && !h->ranks && !h->members && !h->calls &&
		       !h->pairs && !h->why && h->text <= RAS_FAIL_TEXT_MAX;
	case RAS_WIRE_ANSWER:
		return !h->hashes;
	}
	return false;
}

size_t ras_wire_bytes(const struct ras_head *head)
{
	uint64_t bytes = sizeof *head + 8ull * head->hashes +
			 (uint64_t)sizeof(struct ras_rank) * head->ranks +
			 (uint64_t)sizeof(struct ras_member) * head->members +
			 (uint64_t)sizeof(struct ras_call) * head->calls +
			 (uint64_t)sizeof(struct ras_pair) * head->pairs + head->text + head->why;

	if (head->magic != RAS_WIRE_MAGIC || head->version != RAS_WIRE_VERSION)
		return 0;
	return wire_lengths_fit(head) && bytes <= RAS_WIRE_MAX ? bytes : 0;
}

static bool wire_device_is_good(int32_t dev)
{
	return dev >= -1 && dev < 64;
}

/* A name of a function, or empty. */
static bool wire_name_is_good(const char name[RAS_CALL_BYTES])
{
	size_t n = strnlen(name, RAS_CALL_BYTES);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]))
			return false;
	return n < RAS_CALL_BYTES;
}

static bool wire_rank_is_good(const struct ras_rank *r)
{
	return r->nranks > 0 && r->nranks <= RAS_WIRE_RANKS_MAX && r->rank >= 0 &&
	       r->rank < r->nranks && wire_device_is_good(r->cuda_dev) &&
	       wire_device_is_good(r->nvml_dev) && r->init_state < ncclNumResults &&
	       r->async_error < ncclNumResults && r->finalized <= 1 && r->destroyed <= 1 &&
	       r->aborted <= 1 && r->busy <= 1 && r->awaited >= -1 && r->awaited < r->nranks &&
	       wire_name_is_good(r->call);
}

static bool wire_member_is_good(const struct ras_member *m)
{
	return m->rank >= 0 && m->rank < RAS_WIRE_RANKS_MAX && wire_device_is_good(m->cuda_dev) &&
	       wire_device_is_good(m->nvml_dev) &&
	       (m->addr.port == 0 || m->addr.family == 4 || m->addr.family == 6);
}

static bool wire_call_is_good(const struct ras_call *c)
{
	return c->rank >= 0 && c->rank < RAS_WIRE_RANKS_MAX && c->func < RAS_FUNCS &&
	       c->type < ncclNumTypes && (c->op < ncclNumOps || c->op >= RANK_CALL_OP_MADE) &&
	       c->root >= -1 && c->root < RAS_WIRE_RANKS_MAX;
}

static bool wire_pair_is_good(const struct ras_pair *p)
{
	return p->rank >= 0 && p->rank < RAS_WIRE_RANKS_MAX && p->peer >= 0 &&
	       p->peer < RAS_WIRE_RANKS_MAX && p->is_send <= 1 && p->type < ncclNumTypes &&
	       p->called && wire_name_is_good(p->call);
}

static bool wire_fail_is_good(const struct ras_message *m)
{
	uint64_t error = m->hash[RAS_FAIL_ERROR];

	return m->hash[RAS_FAIL_PHASE] <= RAS_COMMIT &&
	       (error == ncclTimeout || error == ncclInvalidUsage);
}

/* Checks the elements of all arrays. */
static bool wire_arrays_are_good(const struct ras_message *m)
{
	bool good = m->head.kind != RAS_WIRE_FAIL || wire_fail_is_good(m);

	for (uint32_t i = 0; i < m->head.ranks; i++)
		good = good && wire_rank_is_good(&m->rank[i]);
	for (uint32_t i = 0; i < m->head.members; i++)
		good = good && wire_member_is_good(&m->member[i]);
	for (uint32_t i = 0; i < m->head.calls; i++)
		good = good && wire_call_is_good(&m->call[i]);
	for (uint32_t i = 0; i < m->head.pairs; i++)
		good = good && wire_pair_is_good(&m->pair[i]);
	return good && !memchr(m->text, '\0', (size_t)m->head.text + m->head.why);
}

bool ras_wire_read(const void *data, size_t bytes, struct ras_message *m)
{
	const char *at = (const char *)data + sizeof m->head;

	ASSERT((uintptr_t)data % 8 == 0);
	*m = (struct ras_message){.hash = NULL};
	if (bytes < sizeof m->head)
		return false;
	memcpy(&m->head, data, sizeof m->head);
	if (!ras_wire_bytes(&m->head) || ras_wire_bytes(&m->head) != bytes)
		goto err_malformed;
	m->hash = (const uint64_t *)(const void *)at;
	at += 8ull * m->head.hashes;
	m->rank = (const struct ras_rank *)(const void *)at;
	at += sizeof *m->rank * m->head.ranks;
	m->member = (const struct ras_member *)(const void *)at;
	at += sizeof *m->member * m->head.members;
	m->call = (const struct ras_call *)(const void *)at;
	at += sizeof *m->call * m->head.calls;
	m->pair = (const struct ras_pair *)(const void *)at;
	m->text = at + sizeof *m->pair * m->head.pairs;
	m->why = m->text + m->head.text;
	if (wire_arrays_are_good(m))
		return true;
err_malformed:
	*m = (struct ras_message){.hash = NULL};
	return false;
}

void ras_wire_request(struct ras_text *out, enum ras_wire_kind kind, const uint64_t *hash,
		      uint32_t hashes, const struct ras_text *text)
{
	const struct ras_head head = {.magic = RAS_WIRE_MAGIC,
				      .version = RAS_WIRE_VERSION,
				      .kind = kind,
				      .hashes = hashes,
				      .text = text ? (uint32_t)text->bytes : 0};

	ras_text_bytes(out, &head, sizeof head);
	ras_text_bytes(out, hash, 8ul * hashes);
	if (text)
		ras_text_bytes(out, text->at, text->bytes);
}

static bool wire_knows(const struct ras_message *request, uint64_t comm)
{
	for (uint32_t i = 0; i < request->head.hashes; i++)
		if (request->hash[i] == comm)
			return true;
	return false;
}

void ras_wire_answer(struct ras_text *out, const struct ras_message *request,
		     const struct ras_view *v, const struct ras_text *text,
		     const struct ras_text *why)
{
	struct ras_head head = {.magic = RAS_WIRE_MAGIC,
				.version = RAS_WIRE_VERSION,
				.kind = RAS_WIRE_ANSWER,
				.ranks = v->ranks,
				.calls = v->calls,
				.pairs = v->pairs,
				.text = (uint32_t)text->bytes,
				.why = (uint32_t)why->bytes};

	for (uint32_t i = 0; i < v->members; i++)
		head.members += !wire_knows(request, v->member[i].comm);
	ras_text_bytes(out, &head, sizeof head);
	ras_text_bytes(out, v->rank, sizeof *v->rank * v->ranks);
	for (uint32_t i = 0; i < v->members; i++)
		if (!wire_knows(request, v->member[i].comm))
			ras_text_bytes(out, &v->member[i], sizeof v->member[i]);
	ras_text_bytes(out, v->call, sizeof *v->call * v->calls);
	ras_text_bytes(out, v->pair, sizeof *v->pair * v->pairs);
	ras_text_bytes(out, text->at, text->bytes);
	ras_text_bytes(out, why->at, why->bytes);
}
