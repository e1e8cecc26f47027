/* SPDX-License-Identifier: BSD-3-Clause */
/* Misspelled names: the distance between two names, and the known names nearest to one. */
#ifndef CORE_BASE_WORD_H
#define CORE_BASE_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/macros.h"

enum { WORD_DISTANCE_BYTES = 64 }; /* only that many first bytes of a name count */

/* Returns the edit distance: insertions, deletions and replacements of a character. */
static inline uint32_t word_distance(const char *a, size_t na, const char *b)
{
	uint32_t row[WORD_DISTANCE_BYTES + 1];
	size_t nb = strlen(b);

	na = MIN_OF(na, (size_t)WORD_DISTANCE_BYTES);
	nb = MIN_OF(nb, (size_t)WORD_DISTANCE_BYTES);
	for (uint32_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		uint32_t diagonal = row[0];
		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= nb; j++) {
			uint32_t replace = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = MIN_OF(replace, MIN_OF(row[j], row[j - 1]) + 1);
		}
	}
	return row[nb];
}

/* The known names nearest to a given one: up to three, the nearest first. Among equally near names
 * the one that was tried first precedes. Initially zeroed. */
enum { WORD_NEAREST_MOST = 3, WORD_NEAREST_SLACK = 2 };

struct word_nearest {
	const char *name[WORD_NEAREST_MOST];
	uint32_t distance[WORD_NEAREST_MOST];
	char text[160]; /* result of word_nearest_text */
};

static inline void word_nearest_try(struct word_nearest *best, const char *at, size_t n,
				    const char *name)
{
	uint32_t d = word_distance(at, n, name);
	int place = WORD_NEAREST_MOST;

	while (place > 0 && (!best->name[place - 1] || d < best->distance[place - 1]))
		place--;
	for (int i = WORD_NEAREST_MOST - 1; i > place; i--) {
		best->name[i] = best->name[i - 1];
		best->distance[i] = best->distance[i - 1];
	}
	if (place < WORD_NEAREST_MOST) {
		best->name[place] = name;
		best->distance[place] = d;
	}
}

/* Returns "a, b": the names that are about as near as the nearest. */
static inline const char *word_nearest_text(struct word_nearest *best)
{
	size_t n = 0;

	for (int i = 0; i < WORD_NEAREST_MOST && best->name[i]; i++) {
		if (best->distance[i] > best->distance[0] + WORD_NEAREST_SLACK ||
		    n >= sizeof best->text)
			break;
		n += (size_t)snprintf(best->text + n, sizeof best->text - n, "%s%s", i ? ", " : "",
				      best->name[i]);
	}
	return best->text;
}

/* Returns the nearest of `names`, an array that ends with NULL. */
static inline const char *word_nearest(const char *at, size_t n, const char *const *names)
{
	struct word_nearest best = {.name = {NULL}};

	for (; *names; names++)
		word_nearest_try(&best, at, n, *names);
	return best.name[0];
}

#endif
