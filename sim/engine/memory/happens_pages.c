/* SPDX-License-Identifier: BSD-3-Clause */
/* The pages of the shadow, and the words in them. */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens_pages.h"

struct shadow_state shadow;

/* ---- pages ---------------------------------------------------------------------------------- */

static uint32_t page_hash(uintptr_t number)
{
	return (uint32_t)((number * 0x9e3779b97f4a7c15ull) >> 32) & (shadow.table_size - 1);
}

struct page *shadow_page_find(uintptr_t number)
{
	if (shadow.last && shadow.last->number == number)
		return shadow.last;
	for (uint32_t i = page_hash(number); shadow.table[i]; i = (i + 1) & (shadow.table_size - 1))
		if (shadow.table[i]->number == number)
			return shadow.last = shadow.table[i];
	return NULL;
}

static void page_put(struct page *p)
{
	uint32_t i = page_hash(p->number);

	while (shadow.table[i])
		i = (i + 1) & (shadow.table_size - 1);
	shadow.table[i] = p;
}

static void page_table_grow(void)
{
	struct page **old = shadow.table;
	uint32_t size = shadow.table_size;

	shadow.table_size = 2 * size;
	shadow.table = calloc(shadow.table_size, sizeof(struct page *));
	ASSERT(shadow.table);
	for (uint32_t i = 0; i < size; i++)
		if (old[i])
			page_put(old[i]);
	free(old);
}

/* Forgets all accesses to ranges when the shadow exceeds its bound. Races with them are missed; no
 * race is invented. */
void shadow_forget_ranges(void)
{
	report_cap(shadow.bytes);
	for (uint32_t i = 0; i < shadow.table_size; i++) {
		struct page *p = shadow.table[i];

		if (!p)
			continue;
		shadow.bytes -= p->room * sizeof p->seg[0];
		free(p->seg);
		p->seg = NULL;
		p->segs = p->room = 0;
	}
}

struct page *shadow_page_get(uintptr_t number)
{
	struct page *p = shadow_page_find(number);

	if (p)
		return p;
	if (2 * shadow.pages >= shadow.table_size)
		page_table_grow();
	p = calloc(1, sizeof *p);
	ASSERT(p);
	p->number = number;
	page_put(p);
	shadow.pages++;
	++*region_of(&shadow.regions, number << PAGE_SHIFT);
	shadow.bytes += sizeof *p;
	return shadow.last = p;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Returns the word that begins `at` bytes into the page, or NULL. */
struct happens_word *shadow_word_at(const struct page *p, uint32_t at)
{
	const struct word_block *b = p->block ? p->block[at / BLOCK_BYTES] : NULL;

	return b ? b->word[at % BLOCK_BYTES / 4] : NULL;
}

static struct word_block *word_block_get(struct page *p, uint32_t at)
{
	if (!p->block) {
		p->block = calloc(PAGE_BLOCKS, sizeof(struct word_block *));
		ASSERT(p->block);
		shadow.bytes += PAGE_BLOCKS * sizeof(struct word_block *);
	}
	struct word_block **b = &p->block[at / BLOCK_BYTES];

	if (!*b) {
		*b = calloc(1, sizeof **b);
		ASSERT(*b);
		shadow.bytes += sizeof **b;
	}
	return *b;
}

static void word_pool_grow(void)
{
	struct word_chunk *c = aligned_alloc(CACHE_LINE, ALIGN_UP(sizeof *c, (size_t)CACHE_LINE));

	ASSERT(c);
	c->next = shadow.chunks;
	shadow.chunks = c;
	shadow.bytes += sizeof *c;
	for (int i = 0; i < WORD_CHUNK; i++) {
		c->word[i].next = shadow.free_word;
		shadow.free_word = &c->word[i];
	}
}

static struct happens_word *word_make(struct page *p, uint32_t at, uint32_t bytes)
{
	struct word_block *b = word_block_get(p, at);
	uint32_t i = at % BLOCK_BYTES / 4;

	ASSERT(!b->word[i] && (bytes == 4 || bytes == 8));
	if (!shadow.free_word)
		word_pool_grow();
	struct happens_word *w = shadow.free_word;
	shadow.free_word = w->next;
	w->addr = (p->number << PAGE_SHIFT) + at;
	w->bytes = bytes;
	w->writes = w->reads = 0;
	w->settled = false;
	w->relaxed_record = 0;
	w->sync[0] = w->sync[1] = w->relaxed = (struct happens_stamp){.slot = HAPPENS_NONE};
	b->word[i] = w;
	b->used |= 1ull << i;
	p->words++;
	return w;
}

void shadow_word_drop(struct page *p, struct word_block *b, uint32_t i)
{
	struct happens_word *w = b->word[i];

	happens_stamp_clear(&w->sync[0]);
	happens_stamp_clear(&w->sync[1]);
	happens_stamp_clear(&w->relaxed);
	w->next = shadow.free_word;
	shadow.free_word = w;
	b->word[i] = NULL;
	b->used &= ~(1ull << i);
	p->words--;
}

/* Splits a word of 8 bytes into two of 4, which both inherit its accesses. */
static void word_split(struct page *p, uint32_t at, struct happens_word *w)
{
	struct happens_word *high = word_make(p, at + 4, 4);

	w->bytes = 4;
	high->writes = w->writes;
	high->reads = w->reads;
	memcpy(high->write, w->write, sizeof w->write);
	memcpy(high->read, w->read, sizeof w->read);
	happens_stamp_set(&high->sync[0], &w->sync[0]);
	happens_stamp_set(&high->sync[1], &w->sync[1]);
	happens_stamp_set(&high->relaxed, &w->relaxed);
	high->relaxed_record = w->relaxed_record;
}

/* Returns the words of an access of `bytes`, `at` bytes into the page: one, or two halves if agents
 * used one of them alone. */
int shadow_word_get(struct page *p, uint32_t at, uint32_t bytes, struct happens_word *out[2])
{
	struct happens_word *w = shadow_word_at(p, bytes == 4 ? at & ~7u : at);
	int n = 0;

	if (bytes == 4 && w && w->bytes == 8)
		word_split(p, at & ~7u, w);
	w = shadow_word_at(p, at);
	struct happens_word *high = bytes == 8 ? shadow_word_at(p, at + 4) : NULL;
	if (!w)
		w = word_make(p, at, high ? 4 : bytes);
	out[n++] = w;
	if (bytes == 8 && w->bytes == 4)
		out[n++] = high ? high : word_make(p, at + 4, 4);
	return n;
}
