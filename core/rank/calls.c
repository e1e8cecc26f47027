/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/calls.h"

#include "core/base/hash.h"

enum { CALL_COUNT, CALL_CHAIN, CALL_CALLER, CALL_ORDER, CALL_STREAM, CALL_REST };

static uint64_t call_rest(const struct rank_call *c)
{
	return (uint64_t)(uint32_t)c->root << 32 | (uint64_t)c->op << 16 | (uint64_t)c->type << 8 |
	       c->func;
}

static shared_u64 *call_word(struct rank_calls *r, uint64_t number, int word)
{
	return &r->slot[number % RANK_CALLS].word[word];
}

static uint64_t call_load(const struct rank_calls *r, uint64_t number, int word)
{
	return shared_load_u64(&r->slot[number % RANK_CALLS].word[word], SHARED_ACQUIRE);
}

/* Each word is released: a reader that finds one of the new call finds its `next` afterwards, too,
 * and rejects the slot's former call. */
void rank_calls_add(struct rank_calls *r, const struct rank_call *c)
{
	uint64_t n = shared_load_u64(&r->next, SHARED_RELAXED);
	uint64_t before = n ? call_load(r, n - 1, CALL_CHAIN) : 0;
	const uint64_t hashed[] = {before, call_rest(c), c->count};

	ASSERT(c->number == n);
	shared_store_u64(call_word(r, n, CALL_COUNT), c->count, SHARED_RELEASE);
	shared_store_u64(call_word(r, n, CALL_CHAIN), hash64(hashed, sizeof hashed),
			 SHARED_RELEASE);
	shared_store_u64(call_word(r, n, CALL_CALLER), c->caller, SHARED_RELEASE);
	shared_store_u64(call_word(r, n, CALL_ORDER), c->order, SHARED_RELEASE);
	shared_store_u64(call_word(r, n, CALL_STREAM), c->stream, SHARED_RELEASE);
	shared_store_u64(call_word(r, n, CALL_REST), call_rest(c), SHARED_RELEASE);
	shared_store_u64(&r->next, n + 1, SHARED_RELEASE);
}

void rank_calls_drop(struct rank_calls *r, uint64_t number)
{
	if (shared_load_u64(&r->next, SHARED_RELAXED) > number)
		shared_store_u64(&r->next, number, SHARED_RELEASE);
}

uint64_t rank_calls_next(const struct rank_calls *r)
{
	return shared_load_u64(&r->next, SHARED_ACQUIRE);
}

/* True if the slot of `number` has its call and is not being written. */
static bool call_is_kept(const struct rank_calls *r, uint64_t number)
{
	uint64_t next = rank_calls_next(r);

	return number < next && next - number < RANK_CALLS;
}

bool rank_calls_read(const struct rank_calls *r, uint64_t number, struct rank_call *c)
{
	uint64_t rest;

	*c = (struct rank_call){.number = 0};
	if (!call_is_kept(r, number))
		return false;
	rest = call_load(r, number, CALL_REST);
	*c = (struct rank_call){
		.number = number,
		.count = call_load(r, number, CALL_COUNT),
		.chain = call_load(r, number, CALL_CHAIN),
		.caller = call_load(r, number, CALL_CALLER),
		.order = call_load(r, number, CALL_ORDER),
		.stream = call_load(r, number, CALL_STREAM),
		.root = (int32_t)(rest >> 32),
		.op = (uint8_t)(rest >> 16),
		.type = (uint8_t)(rest >> 8),
		.func = (uint8_t)rest,
	};
	if (call_is_kept(r, number))
		return true;
	*c = (struct rank_call){.number = 0};
	return false;
}
