/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of lines, which the happens-before check skips: a set of page numbers, chained by hash.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/engine/memory/happens.h"

enum { LINES_PAGE_SHIFT = 12, LINES_BUCKETS = 4096 };

struct lines_page {
	struct lines_page *next;
	uintptr_t number;
};

static struct {
	uint32_t pages;
	struct lines_page *bucket[LINES_BUCKETS];
} lines;

static struct lines_page **lines_find(uintptr_t number)
{
	struct lines_page **at = &lines.bucket[(number * 0x9e3779b97f4a7c15ull) >> 52];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
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
	for (int i = 0; i < LINES_BUCKETS; i++)
		while (lines.bucket[i]) {
			struct lines_page *gone = lines.bucket[i];

			lines.bucket[i] = gone->next;
			free(gone);
		}
	memset(&lines, 0, sizeof lines);
}
