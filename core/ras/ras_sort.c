/* SPDX-License-Identifier: BSD-3-Clause */
/* Heap sort: unlike the C library's sort it allocates nothing. */
#include <string.h>

#include "core/ras/ras_job.h"

/* Exchanges two elements. */
static void sort_swap(char *a, char *b, size_t size)
{
	char piece[64];

	for (size_t at = 0, n; at < size; at += n) {
		n = MIN_OF(size - at, sizeof piece);
		memcpy(piece, a + at, n);
		memcpy(a + at, b + at, n);
		memcpy(b + at, piece, n);
	}
}

/* Moves the element at `at` down, until no child is larger. */
static void sort_sink(char *base, size_t at, size_t n, size_t size,
		      int (*order)(const void *a, const void *b))
{
	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && order(base + child * size, base + (child + 1) * size) < 0)
			child++;
		if (order(base + at * size, base + child * size) >= 0)
			return;
		sort_swap(base + at * size, base + child * size, size);
	}
}

void ras_sort(void *array, size_t n, size_t size, int (*order)(const void *a, const void *b))
{
	for (size_t i = n / 2; i-- > 0;)
		sort_sink(array, i, n, size, order);
	for (size_t i = n; i-- > 1;) {
		sort_swap(array, (char *)array + i * size, size);
		sort_sink(array, 0, i, size, order);
	}
}
