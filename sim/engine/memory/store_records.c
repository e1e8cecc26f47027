/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of kept stores, their index, and how they become visible. */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/regions.h"
#include "sim/engine/memory/store_internal.h"

/* The index. It is empty between two runs. */
static struct {
	struct store_entry *page[1 << STORE_BUCKET_BITS], *line[1 << STORE_LINE_BUCKET_BITS];
	uint32_t words[1 << STORE_BUCKET_BITS]; /* by page: number of its words in `line` */
	/* regions of records, each counted at its first and its last byte */
	struct regions regions;
} store_by;

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

struct store_part *store_part_of(struct mem_agent *me)
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

	ASSERT(store.records > 0);
	*(r->prev ? &r->prev->next : &part->first) = r->next;
	*(r->next ? &r->next->prev : &part->last) = r->prev;
	store_unindex(r);
	store_narrow(r);
	if (r->event)
		sim_event_cancel(r->event);
	store.records--;
}

void store_disturb(uintptr_t at, size_t bytes)
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

void store_show(struct store_record *r)
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

void store_add(struct mem_agent *me, uintptr_t at, const void *wake, const void *data, size_t bytes)
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

struct store_record *store_find(uintptr_t at, size_t bytes, const struct mem_agent *reader)
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

void store_show_range(const void *addr, size_t bytes, const struct mem_agent *reader)
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

void store_release(struct mem_agent *me, enum shared_scope scope)
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

void store_drop(struct store_record *r)
{
	store_unlink(r);
	free(r);
}
