/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/engine/base/token.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/macros.h"

int token_error(const struct token_line *line, const char *at, const char *fmt, ...)
{
	va_list ap;

	ASSERT(at >= line->begin); /* the word is in that line */
	fprintf(stderr, "%s%s:%u:%zu: ", line->what, line->name, line->number,
		(size_t)(at - line->begin) + 1);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EINVAL;
}

static bool token_is_between(char c, const char *between)
{
	return c && strchr(between, c);
}

bool token_next(struct token *rest, const char *between, struct token *word)
{
	while (rest->n && token_is_between(*rest->at, between))
		rest->at++, rest->n--;
	*word = (struct token){rest->at, 0};
	while (word->n < rest->n && !token_is_between(word->at[word->n], between))
		word->n++;
	rest->at += word->n;
	rest->n -= word->n;
	return word->n != 0;
}

bool token_is(struct token t, const char *name)
{
	return strlen(name) == t.n && memcmp(t.at, name, t.n) == 0;
}

bool token_split(struct token t, struct token *key, struct token *value)
{
	const char *eq = memchr(t.at, '=', t.n);

	if (!eq)
		return false;
	*key = (struct token){t.at, (size_t)(eq - t.at)};
	*value = (struct token){eq + 1, t.n - key->n - 1};
	return true;
}

bool token_digits(struct token t, uint64_t *value, struct token *rest)
{
	uint64_t v = 0;
	size_t i = 0;

	*value = 0;
	*rest = t;
	for (; i < t.n && isdigit((unsigned char)t.at[i]); i++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(t.at[i] - '0');
	}
	*value = v;
	*rest = (struct token){t.at + i, t.n - i};
	return i > 0;
}

bool token_number(struct token t, uint64_t *value)
{
	char copy[32] = "";
	char *end;

	*value = 0;
	if (t.n == 0 || t.n >= sizeof copy || !isdigit((unsigned char)t.at[0]))
		return false;
	memcpy(copy, t.at, t.n);
	errno = 0;
	*value = strtoull(copy, &end, 0);
	return !errno && end == copy + t.n;
}
