/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of lines, which the happens-before check skips: a set of page numbers, chained by hash.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens.h"

enum { LINES_PAGE_SHIFT = 12, LINES_BITS_LEAST = 12 };

struct lines_page {
	struct lines_page *next;
	uintptr_t number;
};

static struct {
	uint32_t pages, bits;       /* bits: log2 of the number of buckets */
	struct lines_page **bucket; /* NULL: no page */
} lines;

static struct lines_page **lines_bucket(uintptr_t number)
{
	return &lines.bucket[(number * 0x9e3779b97f4a7c15ull) >> (64 - lines.bits)];
}

static struct lines_page **lines_find(uintptr_t number)
{
	struct lines_page **at = lines_bucket(number);

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

/* Called before a page is added. A bucket has one page on average. */
static void lines_grow(void)
{
	struct lines_page **old = lines.bucket;
	size_t buckets = old ? (size_t)1 << lines.bits : 0;

	if (lines.pages < buckets)
		return;
	lines.bits = old ? lines.bits + 1 : LINES_BITS_LEAST;
	lines.bucket = calloc((size_t)1 << lines.bits, sizeof *lines.bucket);
	ASSERT(lines.bucket);
	for (size_t i = 0; i < buckets; i++)
		while (old[i]) {
			struct lines_page *page = old[i], **at = lines_bucket(page->number);

			old[i] = page->next;
			page->next = *at;
			*at = page;
		}
	free(old);
}

bool lines_have(uintptr_t addr)
{
	return lines.pages && *lines_find(addr >> LINES_PAGE_SHIFT);
}

void lines_add(uintptr_t addr, size_t bytes)
{
	uintptr_t page = addr >> LINES_PAGE_SHIFT, end = (addr + bytes) >> LINES_PAGE_SHIFT;

	ASSERT((addr | bytes) % (1u << LINES_PAGE_SHIFT) == 0);
	for (; page < end; page++) {
		lines_grow();
		struct lines_page **at = lines_find(page);

		if (*at)
			continue;
		*at = calloc(1, sizeof **at);
		ASSERT(*at);
		(*at)->number = page;
		lines.pages++;
	}
}

void lines_remove(uintptr_t addr, size_t bytes)
{
	uintptr_t page = addr >> LINES_PAGE_SHIFT;
	uintptr_t end = DIV_UP(addr + bytes, (uintptr_t)1 << LINES_PAGE_SHIFT);

	for (; lines.pages && page < end; page++) {
		struct lines_page **at = lines_find(page), *gone = *at;

		if (!gone)
			continue;
		*at = gone->next;
		free(gone);
		lines.pages--;
	}
}

void lines_stop(void)
{
	for (size_t i = 0; lines.bucket && i < (size_t)1 << lines.bits; i++)
		while (lines.bucket[i]) {
			struct lines_page *gone = lines.bucket[i];

			lines.bucket[i] = gone->next;
			free(gone);
		}
	free(lines.bucket);
	memset(&lines, 0, sizeof lines);
}
