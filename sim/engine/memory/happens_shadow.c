/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shadow: which agent accessed which bytes last. Memory is cut into pages of 64 KiB, found by
 * address. A page holds segments, sorted and disjoint, for accesses to ranges, and the words of 4
 * and 8 bytes by their place. A large range costs one segment per page, whatever its length.
 * Neighbours with the same accesses become one segment.
 *
 * A range is checked against ranges and words, a word against ranges only. A segment keeps its last
 * write and up to four reads that are not ordered after each other. A word keeps four of both. If
 * there are more, the oldest is forgotten, and a race with it is missed.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens_pages.h"

/* Adds an access to a set. Earlier accesses that the agent knows of are dropped: its own replaces
 * them. */
static uint32_t seen_add(const struct happens_part *p, struct happens_seen *set, uint32_t n,
			 uint32_t room, const struct happens_seen *me)
{
	uint32_t kept = 0;

	ASSERT(n <= room);
	for (uint32_t i = 0; i < n; i++)
		if (!happens_ordered(p, &set[i]))
			set[kept++] = set[i];
	if (kept == room) {
		memmove(set, set + 1, (room - 1) * sizeof *set);
		kept--;
	}
	set[kept++] = *me;
	return kept;
}

/* ---- segments ------------------------------------------------------------------------------- */

/* Returns the index of the first segment that ends after `lo`. */
static uint32_t seg_first(const struct page *p, uint32_t lo)
{
	uint32_t a = 0, b = p->segs;

	while (a < b) {
		uint32_t mid = (a + b) / 2;

		if (p->seg[mid].hi <= lo)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

static bool seen_equal(const struct happens_seen *a, const struct happens_seen *b)
{
	return a->slot == b->slot && a->epoch == b->epoch;
}

static bool seg_alike(const struct happens_seg *a, const struct happens_seg *b)
{
	if (a->hi != b->lo || a->reads != b->reads || !seen_equal(&a->write, &b->write))
		return false;
	for (uint32_t i = 0; i < a->reads; i++)
		if (!seen_equal(&a->read[i], &b->read[i]))
			return false;
	return true;
}

static void out_add(const struct happens_seg *s, uint32_t lo, uint32_t hi)
{
	if (lo >= hi)
		return;
	/* sorted and disjoint */
	ASSERT(hi <= PAGE_BYTES && (!shadow.outs || shadow.out[shadow.outs - 1].hi <= lo));
	if (shadow.outs == shadow.out_room) {
		shadow.out_room = shadow.out_room ? 2 * shadow.out_room : 64;
		shadow.out = realloc(shadow.out, shadow.out_room * sizeof shadow.out[0]);
		ASSERT(shadow.out);
	}
	struct happens_seg *o = &shadow.out[shadow.outs];

	*o = *s;
	o->lo = lo;
	o->hi = hi;
	if (shadow.outs && seg_alike(o - 1, o))
		o[-1].hi = hi;
	else
		shadow.outs++;
}

/* Replaces the segments [first, end) of the page by those in `out`. */
static void seg_splice(struct page *p, uint32_t first, uint32_t end)
{
	uint32_t n = p->segs - (end - first) + shadow.outs;

	ASSERT(first <= end && end <= p->segs);
	if (n > p->room) {
		uint32_t room = MAX_OF(2 * p->room, MAX_OF(n, 4u));

		p->seg = realloc(p->seg, room * sizeof p->seg[0]);
		ASSERT(p->seg);
		shadow.bytes += (room - p->room) * sizeof p->seg[0];
		p->room = room;
	}
	if (end < p->segs)
		memmove(&p->seg[first + shadow.outs], &p->seg[end],
			(p->segs - end) * sizeof p->seg[0]);
	if (shadow.outs)
		memcpy(&p->seg[first], shadow.out, shadow.outs * sizeof p->seg[0]);
	p->segs = n;
}

/* Begins a rebuild with the left neighbour; out_end ends it with the right one. New segments then
 * merge with equal neighbours. */
static uint32_t out_begin(const struct page *pg, uint32_t first)
{
	shadow.outs = 0;
	if (!first)
		return 0;
	out_add(&pg->seg[first - 1], pg->seg[first - 1].lo, pg->seg[first - 1].hi);
	return first - 1;
}

static void out_end(struct page *pg, uint32_t from, uint32_t end)
{
	if (end < pg->segs) {
		out_add(&pg->seg[end], pg->seg[end].lo, pg->seg[end].hi);
		end++;
	}
	seg_splice(pg, from, end);
}

static void seg_check(struct happens_part *p, const struct mem_access *a,
		      const struct happens_seg *s, bool write)
{
	if (s->write.slot != HAPPENS_NONE && !happens_ordered(p, &s->write))
		report_race(p, a, &s->write, true);
	for (uint32_t i = 0; write && i < s->reads; i++)
		if (!happens_ordered(p, &s->read[i]))
			report_race(p, a, &s->read[i], false);
}

/* Writes the range [lo, hi): it becomes one segment. Parts of old segments outside it remain. */
static void page_write(struct happens_part *p, struct page *pg, const struct mem_access *a,
		       uint32_t lo, uint32_t hi, const struct happens_seen *me)
{
	uint32_t first = seg_first(pg, lo), i = first;
	struct happens_seg now = {.write = *me};

	for (; i < pg->segs && pg->seg[i].lo < hi; i++)
		seg_check(p, a, &pg->seg[i], true);
	uint32_t from = out_begin(pg, first);
	if (first < i)
		out_add(&pg->seg[first], pg->seg[first].lo, MIN_OF(lo, pg->seg[first].hi));
	out_add(&now, lo, hi);
	if (first < i)
		out_add(&pg->seg[i - 1], MAX_OF(hi, pg->seg[i - 1].lo), pg->seg[i - 1].hi);
	out_end(pg, from, i);
}

static void page_read(struct happens_part *p, struct page *pg, const struct mem_access *a,
		      uint32_t lo, uint32_t hi, const struct happens_seen *me)
{
	uint32_t first = seg_first(pg, lo), i = first, at = lo;
	const struct happens_seg fresh = {
		.write = {.slot = HAPPENS_NONE}, .reads = 1, .read = {*me}};

	uint32_t from = out_begin(pg, first);
	for (; i < pg->segs && pg->seg[i].lo < hi; i++) {
		struct happens_seg s = pg->seg[i];

		seg_check(p, a, &s, false);
		out_add(&fresh, at, s.lo);
		out_add(&s, s.lo, MIN_OF(lo, s.hi));
		at = MIN_OF(s.hi, hi);
		struct happens_seg mine = s;
		mine.reads = seen_add(p, mine.read, s.reads, HAPPENS_SEG_READS, me);
		out_add(&mine, MAX_OF(s.lo, lo), at);
		out_add(&s, at, s.hi);
	}
	out_add(&fresh, at, hi);
	out_end(pg, from, i);
}

/* ---- ranges against words ------------------------------------------------------------------- */

static void range_check_word(struct happens_part *p, const struct mem_access *a, bool write,
			     struct happens_word *w)
{
	for (uint32_t i = 0; i < w->writes; i++)
		if (!happens_ordered(p, &w->write[i]))
			report_race(p, a, &w->write[i], true);
	for (uint32_t i = 0; write && i < w->reads; i++)
		if (!happens_ordered(p, &w->read[i]))
			report_race(p, a, &w->read[i], false);
}

/* Visits the words in [lo, hi) of the page, including those that only reach into it. Checks them
 * against the access, and drops them with `drop` or if a range overwrites them. */
static void page_words(struct happens_part *p, struct page *pg, const struct mem_access *a,
		       uint32_t lo, uint32_t hi, bool write, bool drop)
{
	uint32_t g = lo / 4, end = DIV_UP(hi, 4u);

	if (!pg->words)
		return;
	if (!drop && g % 2) {
		const struct happens_word *w = shadow_word_at(pg, 4 * (g - 1));
		g -= w && w->bytes == 8;
	}
	while (g < end && pg->words) {
		struct word_block *b = pg->block[g / BLOCK_WORDS];
		uint64_t used = b ? b->used >> g % BLOCK_WORDS : 0;

		if (!used) {
			g = (g / BLOCK_WORDS + 1) * BLOCK_WORDS;
			continue;
		}
		g += (uint32_t)__builtin_ctzll(used);
		if (g >= end)
			break;
		if (p)
			range_check_word(p, a, write, b->word[g % BLOCK_WORDS]);
		/* an overwritten word is not a word until an agent uses it as one again */
		if (drop || write)
			shadow_word_drop(pg, b, g % BLOCK_WORDS);
		g++;
	}
}

void shadow_range(struct happens_part *p, const struct mem_access *a, bool write,
		  const struct happens_seen *me)
{
	uintptr_t at = (uintptr_t)a->addr, end = at + a->bytes;

	if (UNLIKELY(shadow.bytes > SHADOW_CAP))
		shadow_forget_ranges();
	while (at < end) {
		uintptr_t stop = MIN_OF(end, (at | (PAGE_BYTES - 1)) + 1);
		struct page *pg = shadow_page_get(at >> PAGE_SHIFT);
		uint32_t lo = (uint32_t)(at % PAGE_BYTES), hi = lo + (uint32_t)(stop - at);

		page_words(p, pg, a, lo, hi, write, false);
		if (write)
			page_write(p, pg, a, lo, hi, me);
		else
			page_read(p, pg, a, lo, hi, me);
		at = stop;
	}
}

void shadow_word(struct happens_part *p, const struct mem_access *a, uintptr_t addr, uint32_t bytes,
		 bool write, const struct happens_seen *me, struct happens_word *word[2], int *n)
{
	struct page *pg = shadow_page_get(addr >> PAGE_SHIFT);
	uint32_t lo = (uint32_t)(addr % PAGE_BYTES), hi = lo + bytes;

	ASSERT(lo % bytes == 0); /* so a word is in one page */
	for (uint32_t i = seg_first(pg, lo); i < pg->segs && pg->seg[i].lo < hi; i++)
		seg_check(p, a, &pg->seg[i], write);
	*n = shadow_word_get(pg, lo, bytes, word);
	for (int i = 0; i < *n; i++) {
		struct happens_word *w = word[i];

		if (write)
			w->writes =
				(uint8_t)seen_add(p, w->write, w->writes, HAPPENS_WORD_SEEN, me);
		if (a->op != SHARED_STORE && a->op != SHARED_RANGE_WRITE)
			w->reads = (uint8_t)seen_add(p, w->read, w->reads, HAPPENS_WORD_SEEN, me);
	}
}

bool shadow_loaded(const struct happens_part *p, uintptr_t addr, size_t bytes)
{
	const struct page *pg = shadow_page_find(addr >> PAGE_SHIFT);
	const struct happens_word *w =
		pg ? shadow_word_at(pg, (uint32_t)(addr % PAGE_BYTES)) : NULL;

	if (!w || !w->settled || w->bytes != bytes || w->addr != addr)
		return false;
	ASSERT(w->reads > 0); /* a load settles a word */
	const struct happens_seen *last = &w->read[w->reads - 1];

	return last->slot == p->slot && last->epoch == p->epoch && report_is_young(last->record);
}

void shadow_fresh(uintptr_t addr, size_t bytes)
{
	uintptr_t at = addr, end = addr + bytes;

	while (at < end) {
		if (!*region_of(&shadow.regions, at)) {
			at = region_end(at);
			continue;
		}
		uintptr_t stop = MIN_OF(end, (at | (PAGE_BYTES - 1)) + 1);
		struct page *pg = shadow_page_find(at >> PAGE_SHIFT);
		uint32_t lo = (uint32_t)(at % PAGE_BYTES), hi = lo + (uint32_t)(stop - at);

		at = stop;
		if (!pg)
			continue;
		page_words(NULL, pg, NULL, lo, hi, false, true);
		uint32_t first = seg_first(pg, lo), i = first;
		while (i < pg->segs && pg->seg[i].lo < hi)
			i++;
		if (first == i)
			continue;
		shadow.outs = 0;
		out_add(&pg->seg[first], pg->seg[first].lo, MIN_OF(lo, pg->seg[first].hi));
		out_add(&pg->seg[i - 1], MAX_OF(hi, pg->seg[i - 1].lo), pg->seg[i - 1].hi);
		seg_splice(pg, first, i);
	}
}

/* ---- life ----------------------------------------------------------------------------------- */

int shadow_start(void)
{
	shadow.table_size = PAGE_TABLE_FIRST;
	shadow.table = calloc(shadow.table_size, sizeof(struct page *));
	return shadow.table ? 0 : ENOMEM;
}

void shadow_stop(void)
{
	for (uint32_t i = 0; i < shadow.table_size; i++) {
		struct page *p = shadow.table[i];

		if (!p)
			continue;
		if (p->words)
			page_words(NULL, p, NULL, 0, PAGE_BYTES, false, true);
		for (uint32_t b = 0; p->block && b < PAGE_BLOCKS; b++)
			free(p->block[b]);
		free(p->block);
		free(p->seg);
		free(p);
	}
	while (shadow.chunks) {
		struct word_chunk *c = shadow.chunks;

		shadow.chunks = c->next;
		free(c);
	}
	free(shadow.table);
	free(shadow.out);
	memset(&shadow, 0, sizeof shadow);
}
