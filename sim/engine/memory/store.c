/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory-order adversary of memory.h: docs/sim/memory-order.md describes what it models.
 *
 * A kept store is a record, with its bytes, in its agent's list; memory has the old bytes. It
 * becomes visible (store_show) when its time has passed or when an action forces it. Forcing
 * actions: an access to it by its own agent, or by an agent that a release of narrower scope
 * reached; a release; the end of its task. Showing a record early is always allowed: every store
 * that had to become visible before this one was already shown at the fence between them. An agent
 * that no release reached may write the same bytes meanwhile. The two writes are not ordered, and
 * the kept one wins.
 *
 * 	      kept
 * 	  OWN --------- barrier, release.block --> BLOCK -- release.gpu --> GPU
 * 	   |                                         |                       |
 * 	   +------- release.system, its time, ... ---+-----------------------+--> visible
 *
 * From a written range some pieces are kept. mem_wrote() saves the pieces' new bytes and puts the
 * old ones back. The old bytes were saved when the write was announced (an intent). Another agent's
 * write to them in between ends the intent.
 *
 * Draws: 0 is always the tame value (nothing kept, the shortest delay), to which shrinking leads.
 * Nothing depends on addresses: lists are in the order of the stores.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/store_internal.h"

struct store_state store;

static bool store_order_releases(enum shared_order o)
{
	return o == SHARED_RELEASE || o == SHARED_ACQ_REL || o == SHARED_SEQ_CST;
}

/* ---- keeping -------------------------------------------------------------------------------- */

/* True if a store of this agent may be kept now. A host task reuses its stack frames without
 * notice, so stores to them are never kept. A poller's write between fruitless looks must not
 * appear later as a change, see waits_wrote. */
static bool store_may_keep(const struct mem_agent *me, const void *addr)
{
	if (!me->task)
		return me->object != NULL;
	if (me->task->poll_row >= POLL_FREE)
		return false;
	return me->is_warp || !fiber_on_stack(addr);
}

/* Stores a word through the adversary; true: kept. `bytes` begins with the low bytes of a word on
 * little-endian machines, the only ones supported. */
bool store_keep(struct mem_agent *me, const struct mem_access *a, const void *bytes)
{
	if (store_order_releases(a->order))
		store_release(me, a->scope);
	store_show_range(a->addr, a->bytes, me);
	if (a->order == SHARED_SEQ_CST ||
	    choice_draw(store.word, store.keep_of) < store.keep_from ||
	    !store_may_keep(me, a->addr)) {
		store_disturb((uintptr_t)a->addr, a->bytes);
		return false;
	}
	store_add(me, (uintptr_t)a->addr, a->wake ? a->wake : a->addr, bytes, a->bytes);
	return true;
}

/* ---- ranges --------------------------------------------------------------------------------- */

static struct store_intent **store_intent_slot(struct store_part *part, uintptr_t at, size_t bytes)
{
	for (int i = 0; i < STORE_INTENTS; i++)
		if (part->intent[i] && part->intent[i]->at == at && part->intent[i]->bytes == bytes)
			return &part->intent[i];
	return NULL;
}

static void store_intent_end(struct store_intent **slot)
{
	struct store_intent *i = *slot, **at = &store.intents;

	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	i->next = store.intent_pool;
	store.intent_pool = i;
	*slot = NULL;
}

/* Draws a piece: some grains from anywhere in the range. Grains are aligned, because the bus moves
 * them whole. Host memory is at malloc's addresses. Only the alignment that malloc guarantees may
 * influence a draw, or runs would differ. */
static void store_piece_draw(struct store_intent *i, size_t grain, bool device)
{
	size_t skew = i->at & (device ? grain - 1 : MIN_OF(grain, (size_t)16) - 1);
	size_t grains = (skew + i->bytes + grain - 1) / grain;
	size_t span = grain << choice_draw(store.piece, STORE_SPAN_POWERS);
	size_t lo = grain * choice_draw(store.piece, (uint32_t)MIN_OF(grains, UINT32_MAX));
	size_t hi = MIN_OF(lo + span, skew + i->bytes) - skew;

	lo = lo > skew ? lo - skew : 0;
	ASSERT(i->pieces < STORE_PIECES && lo < hi && hi - lo <= STORE_PIECE_MAX);
	i->piece[i->pieces].off = lo;
	i->piece[i->pieces].bytes = hi - lo;
	memcpy(i->piece[i->pieces].old, (const void *)(i->at + lo), hi - lo);
	i->pieces++;
}

static void store_range_announce(struct mem_agent *me, const struct mem_access *a)
{
	struct store_part *part = store_part_of(me);
	struct store_intent **slot = store_intent_slot(part, (uintptr_t)a->addr, a->bytes);
	struct store_intent *i;

	if (slot)
		store_intent_end(slot);
	for (int k = 0; k < STORE_INTENTS && !slot; k++)
		slot = part->intent[k] ? NULL : &part->intent[k];
	if (!slot)
		return;
	uint32_t pieces = 1 + choice_draw(store.piece, STORE_PIECES);
	i = store.intent_pool;
	if (i)
		store.intent_pool = i->next;
	else
		i = malloc(sizeof *i);
	ASSERT(i);
	i->at = (uintptr_t)a->addr;
	i->bytes = a->bytes;
	i->pieces = 0;
	i->next = store.intents;
	store.intents = *slot = i;
	while (i->pieces < pieces)
		store_piece_draw(i, me->object ? STORE_GRAIN_HCA : STORE_GRAIN_TASK,
				 a->wake && a->wake != a->addr);
}

static void store_range_write(struct mem_agent *me, const struct mem_access *a)
{
	store_show_range(a->addr, a->bytes, me);
	store_disturb((uintptr_t)a->addr, a->bytes);
	if (!a->bytes || a->order != SHARED_RELAXED ||
	    choice_draw(store.range, store.keep_of) < store.keep_from ||
	    !store_may_keep(me, a->addr))
		return;
	store_range_announce(me, a);
}

/* Saves all new bytes before it puts any old ones back: pieces may overlap. */
void store_wrote(struct mem_agent *me, const struct mem_access *a)
{
	struct store_intent **slot =
		me->store ? store_intent_slot(me->store, (uintptr_t)a->addr, a->bytes) : NULL;

	if (!slot)
		return;
	struct store_intent *i = *slot;
	const uint8_t *wake = a->wake ? a->wake : a->addr;
	for (uint32_t k = 0; k < i->pieces; k++) {
		size_t off = i->piece[k].off;
		const uint8_t *fresh = (const uint8_t *)a->addr + off;

		store_add(me, (uintptr_t)fresh, wake + off, fresh, i->piece[k].bytes);
	}
	for (uint32_t k = 0; k < i->pieces; k++)
		memcpy((void *)(i->at + i->piece[k].off), i->piece[k].old, i->piece[k].bytes);
	store_intent_end(slot);
}

void store_access(struct mem_agent *me, const struct mem_access *a)
{
	switch (a->op) {
	case SHARED_LOAD:
	case SHARED_RANGE_READ:
		store_show_range(a->addr, a->bytes, me);
		break;
	case SHARED_RMW:
		if (store_order_releases(a->order))
			store_release(me, a->scope);
		store_show_range(a->addr, a->bytes, me);
		store_disturb((uintptr_t)a->addr, a->bytes);
		break;
	case SHARED_FENCE:
		if (store_order_releases(a->order))
			store_release(me, a->scope);
		break;
	case SHARED_RANGE_WRITE:
		store_range_write(me, a);
		break;
	case SHARED_STORE:
		ASSERT(!"a store goes through store_keep");
		break;
	case SHARED_LINES:
		ASSERT(!"a note, not an access");
	}
}

void store_drain(struct mem_agent *me)
{
	if (me->store || (me->is_warp && store.wide))
		store_release(me, SHARED_SYSTEM);
}

void store_barrier(struct mem_agent *me)
{
	store_release(me, SHARED_BLOCK);
}

void store_fresh(const void *addr, size_t bytes)
{
	struct store_record *r = store_find((uintptr_t)addr, bytes, NULL), *next;

	for (; r; r = next) {
		next = r->found_next;
		store_drop(r);
	}
	if (bytes)
		store_disturb((uintptr_t)addr, bytes);
}

void store_agent_ended(struct mem_agent *me)
{
	struct store_part *part = me->store;

	if (!part)
		return;
	while (part->first) {
		if (eng.phase == ENGINE_RUNNING)
			store_show(part->first); /* NOLINT: unlinks what it frees */
		else
			store_drop(part->first); /* NOLINT: unlinks what it frees */
	}
	for (int i = 0; i < STORE_INTENTS; i++)
		if (part->intent[i])
			store_intent_end(&part->intent[i]);
	free(part);
	me->store = NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Draws the seed's knobs: how much is kept, and for how long. */
static void store_draw_knobs(void)
{
	static const struct {
		uint8_t of, from;
	} keep[] = {{2, 1}, {4, 1}, {8, 7}};
	static const uint8_t powers[] = {6, 10, 14};
	struct sim_rng rng;

	sim_rng_init(&rng, "store.knobs");
	uint64_t one = sim_rng_below(&rng, ARRAY_LEN(keep));
	store.keep_of = keep[one].of;
	store.keep_from = keep[one].from;
	store.delay_powers = powers[sim_rng_below(&rng, ARRAY_LEN(powers))];
}

bool store_start(void)
{
	enum sim_memory_order order = eng.config.memory_order;

	if (!strategy_exploring() || order == SIM_MEMORY_OFF ||
	    (order == SIM_MEMORY_DRAW && !strategy_memory()))
		return false;
	memset(&store, 0, sizeof store);
	store.word = choice_site_get("store.word");
	store.range = choice_site_get("store.range");
	store.delay = choice_site_get("store.delay");
	store.piece = choice_site_get("store.piece");
	store_draw_knobs();
	return true;
}

void store_stop(void)
{
	ASSERT(!store.records && !store.intents);
	while (store.intent_pool) {
		struct store_intent *i = store.intent_pool;

		store.intent_pool = i->next;
		free(i);
	}
}
