/* SPDX-License-Identifier: BSD-3-Clause */
/* Kept stores: store_records.c keeps and shows them, store.c decides which stores are kept. */
#ifndef SIM_ENGINE_MEMORY_STORE_INTERNAL_H
#define SIM_ENGINE_MEMORY_STORE_INTERNAL_H

#include "sim/engine/memory/memory_internal.h"

#pragma GCC visibility push(hidden)

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
DOPPEL_STATIC_CHECK(STORE_PIECE_MAX <= 1 << STORE_PAGE_SHIFT, "a record spans two pages at most");
DOPPEL_STATIC_CHECK(STORE_GRAIN_HCA << (STORE_SPAN_POWERS - 1) <= STORE_PIECE_MAX,
		    "the longest span of the largest grain is a piece");

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

struct store_state {
	struct choice_site *word, *range, *delay, *piece;
	uint32_t keep_of, keep_from; /* kept when a draw of keep_of is at least keep_from */
	uint32_t delay_powers;
	struct store_record *wide;
	uint32_t records;
	uint64_t seq;
	struct store_intent *intents, *intent_pool;
};
extern struct store_state store;

struct store_part *store_part_of(struct mem_agent *me);
/* Keeps a store: adds a record to the agent's list. */
void store_add(struct mem_agent *me, uintptr_t at, const void *wake, const void *data,
	       size_t bytes);
/* Makes a record visible to all agents and frees it. */
void store_show(struct store_record *r);
/* Frees a record without showing it. */
void store_drop(struct store_record *r);
/* Returns the records that overlap the range and that `reader` sees (NULL: all), oldest first,
 * linked by found_next. */
struct store_record *store_find(uintptr_t at, size_t bytes, const struct mem_agent *reader);
void store_show_range(const void *addr, size_t bytes, const struct mem_agent *reader);
/* Performs a release of the running agent. It is cumulative: it releases the agent's own stores and
 * those that the agent saw by a barrier or by an acquire of its scope. */
void store_release(struct mem_agent *me, enum shared_scope scope);
/* Cancels announced writes whose saved old bytes are no longer current. */
void store_disturb(uintptr_t at, size_t bytes);

#pragma GCC visibility pop
#endif
