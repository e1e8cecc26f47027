/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that people write: how far one is from another. */
#ifndef CORE_BASE_WORD_H
#define CORE_BASE_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/macros.h"

enum { WORD_DISTANCE_BYTES = 64 }; /* of longer names the beginning counts */

/* Edit distance: insertions, deletions and replacements of a character. */
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

/* The one of `names`, which end with NULL, that is nearest to what was written; the first of several. */
static inline const char *word_nearest(const char *at, size_t n, const char *const *names)
{
	const char *best = names[0];
	uint32_t least = UINT32_MAX;

	for (; *names; names++) {
		uint32_t d = word_distance(at, n, *names);

		if (d < least)
			best = *names;
		least = MIN_OF(least, d);
	}
	return best;
}

#endif
