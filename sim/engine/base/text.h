/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers and words as text, faster than printf: traces and files of choices write hundreds of
 * thousands of short records a second. Each function writes without a terminating 0 and returns the
 * end of the text. The caller provides the room.
 */
#ifndef SIM_ENGINE_BASE_TEXT_H
#define SIM_ENGINE_BASE_TEXT_H

#include <stdint.h>
#include <string.h>

enum { TEXT_U64_MAX = 20 };

static inline char *text_put_u64(char *to, uint64_t v)
{
	char digits[TEXT_U64_MAX];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*to++ = digits[--n];
	return to;
}

static inline char *text_put(char *to, const char *s)
{
	size_t n = strlen(s);

	memcpy(to, s, n); /* NOLINT(bugprone-not-null-terminated-result): more follows */
	return to + n;
}

/* Writes ns as microseconds with three decimals. A viewer reads a double, multiplies by 1,000 and
 * truncates or rounds. If truncation would lose a nanosecond, this adds a fifth of one, which
 * rounding removes. */
static inline char *text_put_us(char *to, uint64_t ns)
{
	to = text_put_u64(to, ns / 1000);
	*to++ = '.';
	*to++ = (char)('0' + ns % 1000 / 100);
	*to++ = (char)('0' + ns % 100 / 10);
	*to++ = (char)('0' + ns % 10);
	if ((uint64_t)((double)ns / 1000.0 * 1000.0) != ns)
		*to++ = '2';
	return to;
}

#endif
