/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparisons of many bytes. Check records the place of every assertion with a system call, so a
 * loop of assertions over a buffer takes seconds, and minutes under a sanitizer. These functions
 * compare first and assert once.
 */
#ifndef TESTS_BYTES_H
#define TESTS_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* The index of the first of the `n` bytes that is not `value`; `n` when all are. */
static inline size_t bytes_until_not(const void *bytes, uint8_t value, size_t n)
{
	const uint8_t *p = bytes;
	size_t i = 0;
	while (i < n && p[i] == value)
		i++;
	return i;
}

#endif
