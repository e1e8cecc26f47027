/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of dimensions: how numbers, names and texts are written, parsed, cut and drawn. */
#include "sim/lab/search/dimension.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "core/base/word.h"

const char *text_nearest(struct token t, const char *const *names)
{
	return word_nearest(t.at, t.n, names);
}

bool text_word(struct token *v, struct token *word)
{
	return token_next(v, " \t,", word);
}

/* ---- fields --------------------------------------------------------------------------------- */

_Static_assert(sizeof(bool) == 1, "a flag is a number of one byte");

uint64_t dimension_get(const struct dimension *d, const struct scenario *s)
{
	const char *at = (const char *)s + d->offset;
	uint64_t v = 0;

	switch (d->bytes) {
	case 1:
		return *(const uint8_t *)at;
	case 4:
		return *(const uint32_t *)(const void *)at;
	default:
		ASSERT(d->bytes == sizeof v);
		memcpy(&v, at, sizeof v);
		return v;
	}
}

void dimension_set(const struct dimension *d, struct scenario *s, uint64_t v)
{
	char *at = (char *)s + d->offset;
	uint32_t v32 = (uint32_t)v;
	uint8_t v8 = (uint8_t)v;

	ASSERT(d->bytes == 1 || d->bytes == 4 || d->bytes == 8);
	ASSERT(d->bytes == 8 || v >> 8 * d->bytes == 0); /* min and max bound it to its field */
	if (d->bytes == 1)
		memcpy(at, &v8, 1);
	else if (d->bytes == 4)
		memcpy(at, &v32, 4);
	else
		memcpy(at, &v, 8);
}

/* The name of the field's value. A value without a name is of an enum that has grown without its
 * list. */
static const char *dimension_name(const struct dimension *d, const struct scenario *s)
{
	const uint64_t value = dimension_get(d, s);

	for (uint64_t i = 0; i <= value; i++)
		ASSERT(d->names[i]);
	return d->names[value];
}

/* ---- the text form -------------------------------------------------------------------------- */

void dimension_write_number(const struct dimension *d, const struct scenario *s, FILE *out)
{
	fprintf(out, "%s %" PRIu64 "\n", d->key, dimension_get(d, s));
}

void dimension_write(const struct dimension *d, const struct scenario *s, FILE *out)
{
	const char *text = (const char *)s + d->offset;

	if (!d->key || (d->found && !s->found.kind[0]))
		return;
	if (d->write)
		d->write(d, s, out);
	else if (d->kind == DIMENSION_HEX)
		fprintf(out, "%s 0x%" PRIx64 "\n", d->key, dimension_get(d, s));
	else if (d->kind == DIMENSION_NAME)
		fprintf(out, "%s %s\n", d->key, dimension_name(d, s));
	else if (d->kind != DIMENSION_TEXT)
		dimension_write_number(d, s, out);
	else if (*text)
		fprintf(out, "%s %s\n", d->key, text);
}

int dimension_parse_number(const struct text_cursor *c, const struct dimension *d, struct token v,
			   struct scenario *s)
{
	uint64_t value, max = d->kind == DIMENSION_FLAG ? 1 : d->max;

	if (!token_number(v, &value) || value < d->min || value > max)
		return text_error(c, v.at,
				  "%s: expected a number from %" PRIu64 " to %" PRIu64
				  ", got \"%.*s\"",
				  d->key, d->min, max, (int)v.n, v.at);
	dimension_set(d, s, value);
	return 0;
}

static int dimension_parse_name(const struct text_cursor *c, const struct dimension *d,
				struct token v, struct scenario *s)
{
	for (uint64_t i = 0; d->names[i]; i++)
		if (token_is(v, d->names[i])) {
			dimension_set(d, s, i);
			return 0;
		}
	return text_error(c, v.at, "%s: unknown value \"%.*s\"; nearest: %s", d->key, (int)v.n,
			  v.at, text_nearest(v, d->names));
}

static int dimension_parse_text(const struct text_cursor *c, const struct dimension *d,
				struct token v, struct scenario *s)
{
	char *to = (char *)s + d->offset;

	if (v.n >= d->bytes)
		return text_error(c, v.at, "%s: expected at most %zu characters, got %zu", d->key,
				  d->bytes - 1, v.n);
	memcpy(to, v.at, v.n);
	to[v.n] = 0;
	return 0;
}

int dimension_parse(const struct text_cursor *c, const struct dimension *d, struct token v,
		    struct scenario *s)
{
	if (d->parse)
		return d->parse(c, d, v, s);
	if (d->kind == DIMENSION_NAME)
		return dimension_parse_name(c, d, v, s);
	if (d->kind == DIMENSION_TEXT)
		return dimension_parse_text(c, d, v, s);
	return dimension_parse_number(c, d, v, s);
}

/* ---- cuts ----------------------------------------------------------------------------------- */

/* The k-th smaller value that a cut tries. */
static uint64_t dimension_smaller(const struct dimension *d, uint32_t k)
{
	const uint64_t power = 1ull << MIN_OF(k ? k - 1 : 0, 32u);

	ASSERT(d->cut.how != CUT_NOT);
	if (d->cut.how == CUT_OFF)
		return k ? UINT64_MAX : 0;
	if (d->cut.how == CUT_POWERS)
		return k ? power : 0;
	if (d->cut.how == CUT_COUNT)
		return k < 4 ? k + 1 : power;
	return k;
}

bool dimension_cut(const struct dimension *d, const struct scenario *s, uint32_t k,
		   struct scenario *to)
{
	const uint64_t smaller = dimension_smaller(d, k);

	if (d->cut.how == CUT_OWN)
		return d->cut.make(s, k, to);
	ASSERT(d->kind != DIMENSION_TEXT || d->cut.how == CUT_OFF); /* a text becomes empty */
	if (d->kind == DIMENSION_TEXT && (k || !((const char *)s)[d->offset]))
		return false;
	if (d->kind != DIMENSION_TEXT && smaller >= dimension_get(d, s))
		return false;
	*to = *s;
	if (d->kind == DIMENSION_TEXT)
		((char *)to)[d->offset] = 0;
	else
		dimension_set(d, to, smaller);
	return true;
}

void dimension_print(const struct dimension *d, const struct scenario *s,
		     char out[SHRINK_VALUE_BYTES])
{
	const char *text = (const char *)s + d->offset;

	if (d->cut.how == CUT_OWN) {
		d->cut.print(s, out);
		return;
	}
	if (d->kind == DIMENSION_NAME)
		text = dimension_name(d, s);
	else if (d->kind == DIMENSION_FLAG)
		text = dimension_get(d, s) ? "yes" : "no";
	else if (d->kind == DIMENSION_TEXT)
		text = *text ? text : "none";
	else
		text = NULL;
	if (text)
		snprintf(out, SHRINK_VALUE_BYTES, "%.*s", SHRINK_VALUE_BYTES - 1, text);
	else
		snprintf(out, SHRINK_VALUE_BYTES, "%" PRIu64,
			 MAX_OF(dimension_get(d, s), (uint64_t)(d->cut.how == CUT_COUNT)));
}

/* ---- draws ---------------------------------------------------------------------------------- */

void dimensions_draw(struct scenario *s, uint64_t seed, enum dimension_seeds seeds)
{
	char stream[64];
	struct sim_rng rng;

	for (uint32_t i = 0; i < dimensions_n; i++) {
		const struct dimension *d = &dimensions[i];
		const struct dimension_draw *draw = seeds == DIMENSION_ANY    ? &d->any
						    : seeds == DIMENSION_CALM ? &d->calm
									      : &d->faulty;

		if (!draw->one_of)
			continue;
		ASSERT(d->key && draw->least <= draw->most);
		/* a seed draws what the command line accepts, too */
		ASSERT(d->kind != DIMENSION_NUMBER || draw->most <= d->max);
		snprintf(stream, sizeof stream, "swarm.%s", d->key);
		sim_rng_seed(&rng, seed, stream);
		if (sim_rng_below(&rng, draw->one_of) == 0)
			dimension_set(d, s,
				      draw->least +
					      sim_rng_below(&rng, draw->most - draw->least + 1));
	}
}
