/* SPDX-License-Identifier: BSD-3-Clause */
/* The pages of the shadow, and the words in them (happens_shadow.c). */
#ifndef SIM_ENGINE_MEMORY_HAPPENS_PAGES_H
#define SIM_ENGINE_MEMORY_HAPPENS_PAGES_H

#include "sim/engine/memory/happens.h"
#include "sim/engine/memory/regions.h"

#pragma GCC visibility push(hidden)

enum {
	PAGE_SHIFT = 16,
	PAGE_BYTES = 1 << PAGE_SHIFT,
	PAGE_TABLE_FIRST = 1024,
	BLOCK_WORDS = 64, /* words of 4 bytes */
	BLOCK_BYTES = 4 * BLOCK_WORDS,
	PAGE_BLOCKS = PAGE_BYTES / BLOCK_BYTES,
	WORD_CHUNK = 256,
	CACHE_LINE = 64,
};
DOPPEL_STATIC_CHECK(BLOCK_WORDS == 64, "word_block.used has a bit for each word");
DOPPEL_STATIC_CHECK(PAGE_BYTES % BLOCK_BYTES == 0, "a page is whole blocks of words");
DOPPEL_STATIC_CHECK((PAGE_TABLE_FIRST & (PAGE_TABLE_FIRST - 1)) == 0, "page_hash uses a mask");

#define SHADOW_CAP ((size_t)768 << 20)

/* The words of BLOCK_BYTES, each at the index of its first byte. */
struct word_block {
	uint64_t used; /* bits of the indices in use */
	struct happens_word *word[BLOCK_WORDS];
};

struct page {
	uintptr_t number; /* address >> PAGE_SHIFT */
	struct happens_seg *seg;
	uint32_t segs, room, words;
	struct word_block **block; /* PAGE_BLOCKS of them; NULL: no words yet */
};

struct shadow_state {
	struct page **table; /* open addressing */
	uint32_t pages, table_size;
	struct page *last;      /* page of the latest look-up */
	struct regions regions; /* regions of pages */
	struct happens_word *free_word;
	struct word_chunk {
		struct happens_word word[WORD_CHUNK];
		struct word_chunk *next;
	} * chunks;
	struct happens_seg *out; /* scratch */
	uint32_t outs, out_room;
	size_t bytes;
};
extern struct shadow_state shadow;

struct page *shadow_page_find(uintptr_t number); /* NULL: no access in it is remembered */
struct page *shadow_page_get(uintptr_t number);
/* Forgets all accesses to ranges: the shadow exceeds its bound. Misses races, invents none. */
void shadow_forget_ranges(void);
/* Returns the word at that place of the page; NULL: none. */
struct happens_word *shadow_word_at(const struct page *p, uint32_t at);
/* Returns the words of an access of `bytes`, `at` bytes into the page: one, or two halves if agents
 * access the halves too. */
int shadow_word_get(struct page *p, uint32_t at, uint32_t bytes, struct happens_word *out[2]);
void shadow_word_drop(struct page *p, struct word_block *b, uint32_t i);

#pragma GCC visibility pop
#endif
