/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory-order adversary of memory.h: docs/memory-order.md describes what it models.
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

#include "sim/engine/memory/memory_internal.h"
#include "sim/engine/memory/memory.h"
#include "sim/engine/memory/regions.h"

enum {
	STORE_BUCKET_BITS = 12,
	STORE_LINE_BUCKET_BITS = 16,
	/* page of the index; larger than a record, which therefore spans at most two */
	STORE_PAGE_SHIFT = 13,
	/* line of the index of words: in protocol LL a page has many words */
	STORE_LINE_SHIFT = 6,
	STORE_PIECE_MAX = 8192,
	STORE_PIECES = 3,      /* pieces of a range, at most */
	STORE_SPAN_POWERS = 7, /* a piece is up to 2^6 grains long */
	STORE_INTENTS = 4,
	STORE_GRAIN_TASK = 8,
	STORE_GRAIN_HCA = 128,
	STORE_DELAY_NS = 32,
};

/* The agents that may see a record. */
enum store_reach { STORE_OWN, STORE_BLOCK, STORE_GPU };

/* A record's entry in the index of pages, or in that of lines if it is a word. */
struct store_entry {
	struct store_entry *next, **link;
	struct store_record *record;
};

struct store_record {
	struct store_record *next, *prev; /* of its agent, oldest first */
	/* links all records with more reach than OWN */
	struct store_record *wide_next, **wide_link;
	struct store_record *found_next; /* store_find */
	struct store_entry entry[2];
	struct mem_agent *agent;
	struct sim_event *event;
	uint64_t seq;
	uintptr_t at;
	const void *wake;
	uint32_t bytes;
	uint8_t reach; /* enum store_reach */
	uint8_t data[];
};

/* A write to a range that was announced and not yet done. */
struct store_intent {
	struct store_intent *next; /* links all intents */
	uintptr_t at;
	size_t bytes;
	uint32_t pieces; /* 0: cancelled */
	struct {
		size_t off, bytes;
		uint8_t old[STORE_PIECE_MAX];
	} piece[STORE_PIECES];
};

struct store_part {
	struct store_record *first, *last;
	struct store_intent *intent[STORE_INTENTS];
};

static struct {
	struct choice_site *word, *range, *delay, *piece;
	uint32_t keep_of, keep_from; /* kept when a draw of keep_of is at least keep_from */
	uint32_t delay_powers;
	struct store_record *wide;
	uint32_t records;
	uint64_t seq;
	struct store_intent *intents, *intent_pool;
} store;

/* The index. It is empty between two runs. */
static struct {
	struct store_entry *page[1 << STORE_BUCKET_BITS], *line[1 << STORE_LINE_BUCKET_BITS];
	uint32_t words[1 << STORE_BUCKET_BITS]; /* by page: number of its words in `line` */
	/* regions of records, each counted at its first and its last byte */
	struct regions regions;
} store_by;

/* ---- records -------------------------------------------------------------------------------- */

static uint32_t store_hash(uintptr_t page_or_line, uint32_t bits)
{
	return (uint32_t)((page_or_line * 0x9e3779b97f4a7c15ull) >> (64 - bits));
}

static struct store_entry **store_page(uintptr_t page)
{
	return &store_by.page[store_hash(page, STORE_BUCKET_BITS)];
}

static struct store_entry **store_line(uintptr_t line)
{
	return &store_by.line[store_hash(line, STORE_LINE_BUCKET_BITS)];
}

static uint32_t *store_words(uintptr_t page)
{
	return &store_by.words[store_hash(page, STORE_BUCKET_BITS)];
}

static void store_enter(struct store_record *r, struct store_entry *e, struct store_entry **bucket)
{
	*e = (struct store_entry){.next = *bucket, .link = bucket, .record = r};
	if (*bucket)
		(*bucket)->link = &e->next;
	*bucket = e;
}

/* True for at most 8 bytes within one line. */
static bool store_is_word(const struct store_record *r)
{
	return r->bytes <= 8 &&
	       r->at >> STORE_LINE_SHIFT == (r->at + r->bytes - 1) >> STORE_LINE_SHIFT;
}

static void store_index(struct store_record *r)
{
	uintptr_t first = r->at >> STORE_PAGE_SHIFT;
	uintptr_t last = (r->at + r->bytes - 1) >> STORE_PAGE_SHIFT;

	++*region_of(&store_by.regions, r->at);
	++*region_of(&store_by.regions, r->at + r->bytes - 1);
	if (store_is_word(r)) {
		++*store_words(first);
		store_enter(r, r->entry, store_line(r->at >> STORE_LINE_SHIFT));
		return;
	}
	ASSERT(last - first < ARRAY_LEN(r->entry));
	for (uintptr_t page = first; page <= last; page++)
		store_enter(r, &r->entry[page - first], store_page(page));
}

static void store_unindex(struct store_record *r)
{
	--*region_of(&store_by.regions, r->at);
	--*region_of(&store_by.regions, r->at + r->bytes - 1);
	if (store_is_word(r))
		--*store_words(r->at >> STORE_PAGE_SHIFT);
	for (uint32_t i = 0; i < ARRAY_LEN(r->entry) && r->entry[i].link; i++) {
		struct store_entry *e = &r->entry[i];

		*e->link = e->next;
		if (e->next)
			e->next->link = e->link;
	}
}

static bool store_overlaps(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static struct store_part *store_part_of(struct mem_agent *me)
{
	if (!me->store) {
		me->store = calloc(1, sizeof *me->store);
		ASSERT(me->store);
	}
	return me->store;
}

static void store_narrow(struct store_record *r)
{
	if (!r->wide_link)
		return;
	*r->wide_link = r->wide_next;
	if (r->wide_next)
		r->wide_next->wide_link = r->wide_link;
	r->wide_next = NULL;
	r->wide_link = NULL;
}

static void store_widen(struct store_record *r, enum store_reach reach)
{
	if (r->reach < reach)
		r->reach = (uint8_t)reach;
	if (r->wide_link || r->reach == STORE_OWN)
		return;
	r->wide_next = store.wide;
	r->wide_link = &store.wide;
	if (store.wide)
		store.wide->wide_link = &r->wide_next;
	store.wide = r;
}

static void store_unlink(struct store_record *r)
{
	struct store_part *part = r->agent->store;

	*(r->prev ? &r->prev->next : &part->first) = r->next;
	*(r->next ? &r->next->prev : &part->last) = r->prev;
	store_unindex(r);
	store_narrow(r);
	if (r->event)
		sim_event_cancel(r->event);
	store.records--;
}

/* Cancels announced writes whose saved old bytes are no longer current. */
static void store_disturb(uintptr_t at, size_t bytes)
{
	for (struct store_intent *i = store.intents; i; i = i->next)
		if (store_overlaps(i->at, i->bytes, at, bytes))
			i->pieces = 0;
}

static void store_put(uintptr_t at, const void *data, size_t bytes)
{
	uint32_t word;
	uint64_t twice;

	if (bytes == sizeof word && at % sizeof word == 0) {
		memcpy(&word, data, sizeof word);
		__atomic_store_n((uint32_t *)at, word, __ATOMIC_RELEASE);
	} else if (bytes == sizeof twice && at % sizeof twice == 0) {
		memcpy(&twice, data, sizeof twice);
		__atomic_store_n((uint64_t *)at, twice, __ATOMIC_RELEASE);
	} else {
		memcpy((void *)at, data, bytes);
	}
}

/* Makes a record visible to all agents. */
static void store_show(struct store_record *r)
{
	store_unlink(r);
	store_disturb(r->at, r->bytes);
	store_put(r->at, r->data, r->bytes);
	trace_record("store.visible", r->agent->id, r->bytes, r->reach);
	waits_wrote(r->wake, r->bytes);
	free(r);
}

static void store_due(void *object, uint64_t arg)
{
	struct store_record *r = object;

	(void)arg;
	r->event = NULL;
	store_show(r);
}

static uint64_t store_delay_ns(void)
{
	return (uint64_t)STORE_DELAY_NS << choice_draw(store.delay, store.delay_powers);
}

static void store_add(struct mem_agent *me, uintptr_t at, const void *wake, const void *data,
		      size_t bytes)
{
	struct store_part *part = store_part_of(me);
	struct store_record *r = malloc(sizeof *r + bytes);
	struct sim_event_attr attr = {.name = "store.visible", .kind = SIM_EVENT_TIMER};

	ASSERT(r && bytes && bytes <= STORE_PIECE_MAX);
	*r = (struct store_record){.prev = part->last,
				   .agent = me,
				   .seq = ++store.seq,
				   .at = at,
				   .wake = wake,
				   .bytes = (uint32_t)bytes};
	memcpy(r->data, data, bytes);
	*(part->last ? &part->last->next : &part->first) = r;
	part->last = r;
	store_index(r);
	store.records++;
	attr.delay_ns = store_delay_ns();
	sim_event_post(&attr, store_due, r, 0, &r->event);
}

static bool store_reaches(const struct store_record *r, const struct mem_agent *reader)
{
	const struct mem_agent *by = r->agent;

	if (by == reader)
		return true;
	/* a read by an HCA follows earlier writes of HCAs on the bus */
	if (by->object)
		return reader->object != NULL;
	if (r->reach == STORE_OWN || !reader->is_warp || reader->device != by->device)
		return false;
	return r->reach == STORE_GPU || reader->block == by->block;
}

/* The arguments of store_find, and its result. */
struct store_search {
	uintptr_t at;
	size_t bytes;
	const struct mem_agent *reader;
	struct store_record *found;
};

static void store_search_bucket(struct store_search *s, const struct store_entry *e)
{
	for (; e; e = e->next) {
		struct store_record *r = e->record, **to = &s->found;

		if (!store_overlaps(r->at, r->bytes, s->at, s->bytes) ||
		    (s->reader && !store_reaches(r, s->reader)))
			continue;
		while (*to && (*to)->seq < r->seq)
			to = &(*to)->found_next;
		if (*to == r)
			continue;
		r->found_next = *to;
		*to = r;
	}
}

/* Searches the words of the range that are in the page. */
static void store_search_words(struct store_search *s, uintptr_t page)
{
	uintptr_t from = MAX_OF(s->at, page << STORE_PAGE_SHIFT);
	uintptr_t last = MIN_OF(s->at + s->bytes, (page + 1) << STORE_PAGE_SHIFT) - 1;

	if (!*store_words(page))
		return;
	for (uintptr_t line = from >> STORE_LINE_SHIFT; line <= last >> STORE_LINE_SHIFT; line++)
		store_search_bucket(s, *store_line(line));
}

/* Returns the records that overlap the range and that `reader` sees (NULL: all), oldest first,
 * linked by found_next. */
static struct store_record *store_find(uintptr_t at, size_t bytes, const struct mem_agent *reader)
{
	struct store_search s = {at, bytes, reader, NULL};

	if (!store.records || !bytes)
		return NULL;
	for (uintptr_t a = at, end = at + bytes; a < end;) {
		if (!*region_of(&store_by.regions, a)) {
			a = region_end(a);
			continue;
		}
		store_search_bucket(&s, *store_page(a >> STORE_PAGE_SHIFT));
		store_search_words(&s, a >> STORE_PAGE_SHIFT);
		a = ((a >> STORE_PAGE_SHIFT) + 1) << STORE_PAGE_SHIFT;
	}
	return s.found;
}

static void store_show_range(const void *addr, size_t bytes, const struct mem_agent *reader)
{
	struct store_record *r = store_find((uintptr_t)addr, bytes, reader), *next;

	for (; r; r = next) {
		next = r->found_next;
		store_show(r);
	}
}

/* Shows all records of the agent, oldest first. */
static void store_show_own(struct mem_agent *me)
{
	while (me->store && me->store->first)
		store_show(me->store->first); /* NOLINT: unlinks what it frees */
}

/* Performs a release of the running agent. It is cumulative: it releases the agent's own stores and
 * those that the agent saw by a barrier or by an acquire of its scope. */
static void store_release(struct mem_agent *me, enum shared_scope scope)
{
	struct store_record *r, *next;

	if (!me->is_warp) { /* releases of warps to their block or GPU do not reach it */
		store_show_own(me);
		return;
	}
	if (scope == SHARED_SYSTEM) {
		store_show_own(me);
		for (r = store.wide; r; r = next) {
			next = r->wide_next;
			if (store_reaches(r, me))
				store_show(r);
		}
		return;
	}
	for (r = me->store ? me->store->first : NULL; r; r = r->next)
		store_widen(r, scope == SHARED_GPU ? STORE_GPU : STORE_BLOCK);
	if (scope == SHARED_BLOCK)
		return;
	for (r = store.wide; r; r = r->wide_next)
		if (store_reaches(r, me))
			store_widen(r, STORE_GPU);
}

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

static void store_drop(struct store_record *r)
{
	store_unlink(r);
	free(r);
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
