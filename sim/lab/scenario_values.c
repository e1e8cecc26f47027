/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of a scenario's text form: numbers, names and texts, and what is wrong with them. */
#include <inttypes.h>
#include <string.h>

#include "core/base/word.h"
#include "sim/lab/scenario_internal.h"

/* ---- messages ------------------------------------------------------------------------------- */

const char *text_nearest(struct token t, const char *const *names)
{
	return word_nearest(t.at, t.n, names);
}

/* ---- values --------------------------------------------------------------------------------- */

static uint64_t text_field_get(const struct text_key *k, const struct scenario *s)
{
	const char *at = (const char *)s + k->offset;
	uint64_t v = 0;

	switch (k->bytes) {
	case 1:
		return *(const uint8_t *)at;
	case 4:
		return *(const uint32_t *)(const void *)at;
	default:
		memcpy(&v, at, sizeof v);
		return v;
	}
}

static void text_field_set(const struct text_key *k, struct scenario *s, uint64_t v)
{
	char *at = (char *)s + k->offset;
	uint32_t v32 = (uint32_t)v;
	uint8_t v8 = (uint8_t)v;

	if (k->bytes == 1)
		memcpy(at, &v8, 1);
	else if (k->bytes == 4)
		memcpy(at, &v32, 4);
	else
		memcpy(at, &v, 8);
}

void text_write_number(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fprintf(out, "%s %" PRIu64 "\n", k->name, text_field_get(k, s));
}

void text_write_hex(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fprintf(out, "%s 0x%" PRIx64 "\n", k->name, text_field_get(k, s));
}

int text_parse_number(const struct text_cursor *c, const struct text_key *k, struct token v,
		      struct scenario *s)
{
	uint64_t value;

	if (!token_number(v, &value) || value < k->min || value > k->max)
		return text_error(c, v.at,
				  "%s: expected a number from %" PRIu64 " to %" PRIu64
				  ", got \"%.*s\"",
				  k->name, k->min, k->max, (int)v.n, v.at);
	text_field_set(k, s, value);
	return 0;
}

void text_write_name(const struct text_key *k, const struct scenario *s, FILE *out)
{
	fprintf(out, "%s %s\n", k->name, k->names[text_field_get(k, s)]);
}

int text_parse_name(const struct text_cursor *c, const struct text_key *k, struct token v,
		    struct scenario *s)
{
	for (uint64_t i = 0; k->names[i]; i++)
		if (token_is(v, k->names[i])) {
			text_field_set(k, s, i);
			return 0;
		}
	return text_error(c, v.at, "%s: unknown value \"%.*s\"; nearest: %s", k->name, (int)v.n,
			  v.at, text_nearest(v, k->names));
}

void text_write_text(const struct text_key *k, const struct scenario *s, FILE *out)
{
	const char *text = (const char *)s + k->offset;

	if (*text)
		fprintf(out, "%s %s\n", k->name, text);
}

int text_parse_text(const struct text_cursor *c, const struct text_key *k, struct token v,
		    struct scenario *s)
{
	char *to = (char *)s + k->offset;

	if (v.n >= k->bytes)
		return text_error(c, v.at, "%s: expected at most %zu characters, got %zu", k->name,
				  k->bytes - 1, v.n);
	memcpy(to, v.at, v.n);
	to[v.n] = 0;
	return 0;
}

/* The next word of a value, split at spaces or commas; false at the end. */
bool text_word(struct token *v, struct token *word)
{
	return token_next(v, " \t,", word);
}
