/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of choices: text, for people and for shrinking.
 *
 * 	doppel-choices 2
 * 	seed 0x2a
 * 	strategy portfolio
 * 	memory on
 * 	site engine.run 14
 * 	4:2 -12 3:1
 *
 * The line "memory" exists if the configuration set the adversary on or off; otherwise the seed
 * draws it. A quiet choice is written as "-", a row of COUNT quiet ones as "-COUNT".
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/order/choice_internal.h"
#include "sim/engine/base/output.h"
#include "sim/engine/base/text.h"

enum { CHOICE_PER_LINE = 20, CHOICE_VERSION = 2 };

static const char *const choice_strategy_name[] = {
	[SIM_PORTFOLIO] = "portfolio", [SIM_UNIFORM] = "uniform", [SIM_PCT] = "pct",
	[SIM_STARVE] = "starve",       [SIM_FIFO] = "fifo",
};

static char *choice_put(char *to, const struct choice *c, uint32_t row)
{
	if (!row) {
		to = text_put_u64(to, c->n);
		*to++ = ':';
		return text_put_u64(to, c->value);
	}
	*to++ = '-';
	return row > 1 ? text_put_u64(to, row) : to;
}

static void choice_write_site(const struct choice_site *s, FILE *f)
{
	char text[4096], *at = text;
	uint32_t words = 0, row;

	fprintf(f, "site %s %u", s->name, s->made_n);
	for (uint32_t i = 0; i < s->made_n; i += MAX_OF(row, 1u)) {
		const struct choice *c = &s->made[i];

		for (row = 0; i + row < s->made_n && !c[row].n; row++)
			;
		*at++ = words++ % CHOICE_PER_LINE ? ' ' : '\n';
		at = choice_put(at, c, row);
		if (text + sizeof text - at < 2 * TEXT_U64_MAX + 2) {
			fwrite(text, 1, (size_t)(at - text), f);
			at = text;
		}
	}
	*at++ = '\n';
	fwrite(text, 1, (size_t)(at - text), f);
}

int choice_write(const char *path)
{
	FILE *f = output_open("choices", path);

	if (!f)
		return EIO;
	fprintf(f, "doppel-choices %d\nseed 0x%" PRIx64 "\nstrategy %s\n", CHOICE_VERSION, eng.seed,
		choice_strategy_name[eng.config.strategy]);
	if (eng.config.memory_order != SIM_MEMORY_DRAW)
		fprintf(f, "memory %s\n", eng.config.memory_order == SIM_MEMORY_ON ? "on" : "off");
	for (const struct choice_site *s = choice_first(); s; s = s->next) {
		if (s->made_n)
			choice_write_site(s, f);
	}
	return output_close(f, "choices", path);
}

/* A file that is being read; its text ends with a 0. */
struct choice_file {
	const char *path;
	char *text;
	const char *at, *end;
	const char *mark; /* start of the current word, for messages */
};

__attribute__((format(printf, 2, 3))) static int choice_bad(const struct choice_file *f,
							    const char *fmt, ...)
{
	unsigned line = 1, column = 1;
	va_list ap;

	for (const char *p = f->text; p < f->mark; p++) {
		line += *p == '\n';
		column = *p == '\n' ? 1 : column + 1;
	}
	fprintf(stderr, "choices: %s:%u:%u: ", f->path, line, column);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EINVAL;
}

static bool choice_is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void choice_skip(struct choice_file *f)
{
	while (choice_is_space(*f->at))
		f->at++;
}

static bool choice_word_ends(const struct choice_file *f)
{
	return !*f->at || choice_is_space(*f->at);
}

/* Copies the next word, cut to the room; "" at the end of the file. */
static void choice_word(struct choice_file *f, char *word, size_t room)
{
	size_t n = 0;

	choice_skip(f);
	for (; !choice_word_ends(f); f->at++)
		if (n + 1 < room)
			word[n++] = *f->at;
	word[n] = 0;
}

/* Reads decimal digits; true if there are some and the value fits 32 bits. */
static bool choice_number(struct choice_file *f, uint32_t *value)
{
	const char *first = f->at;
	uint64_t v = 0;

	for (; *f->at >= '0' && *f->at <= '9' && v <= UINT32_MAX; f->at++)
		v = 10 * v + (uint32_t)(*f->at - '0');
	*value = (uint32_t)v;
	return f->at > first && v <= UINT32_MAX;
}

/* Reads one word: "4:2", "-" or "-12". Returns the number of choices that it stands for, or 0 if it
 * is wrong. Quiet choices need no store: c[] is zeroed. */
static uint32_t choice_read_one(struct choice_file *f, struct choice *c, uint32_t room)
{
	uint32_t row = 1;

	choice_skip(f);
	f->mark = f->at;
	if (*f->at == '-') {
		f->at++;
		if (!choice_word_ends(f) && !choice_number(f, &row))
			return 0;
	} else {
		if (!choice_number(f, &c->n) || *f->at++ != ':' || !choice_number(f, &c->value) ||
		    !c->n)
			return 0;
	}
	return choice_word_ends(f) && row <= room ? row : 0;
}

static int choice_read_site(struct choice_file *f)
{
	char name[64];
	uint32_t n = 0;

	choice_word(f, name, sizeof name);
	choice_skip(f);
	if (!name[0] || !choice_number(f, &n) || !choice_word_ends(f) || n > 1u << 30)
		return choice_bad(f, "expected \"site NAME COUNT\"");
	struct choice_site *s = choice_site_find(name);
	free(s->given);
	s->given_n = 0;
	s->given = calloc(n ? n : 1, sizeof *s->given);
	if (!s->given)
		return ENOMEM;
	while (s->given_n < n) {
		uint32_t got = choice_read_one(f, &s->given[s->given_n], n - s->given_n);

		if (!got)
			return choice_bad(
				f,
				"site %s has %u of %u choices; expected ARITY:VALUE, - or "
				"-COUNT",
				name, s->given_n, n);
		s->given_n += got;
	}
	return 0;
}

static int choice_read_header(struct choice_file *f)
{
	char word[5][24], *end[2];

	for (uint32_t i = 0; i < 5; i++)
		choice_word(f, word[i], sizeof word[i]);
	unsigned long version = strtoul(word[1], &end[0], 10);
	uint64_t seed = strtoull(word[3], &end[1], 16);
	if (strcmp(word[0], "doppel-choices") || *end[0] || version != CHOICE_VERSION ||
	    strcmp(word[2], "seed") || !word[3][0] || *end[1] || strcmp(word[4], "strategy"))
		return choice_bad(f, "expected \"doppel-choices %d\", seed and strategy",
				  CHOICE_VERSION);
	choice_word(f, word[0], 16);
	for (uint32_t i = 0; i < ARRAY_LEN(choice_strategy_name); i++) {
		if (strcmp(choice_strategy_name[i], word[0]) == 0) {
			eng.config.strategy = (enum sim_strategy)i;
			eng.seed = seed;
			return 0;
		}
	}
	return choice_bad(f, "unknown strategy \"%s\"", word[0]);
}

static int choice_read_memory(struct choice_file *f)
{
	char word[5];

	choice_word(f, word, sizeof word);
	if (strcmp(word, "on") && strcmp(word, "off"))
		return choice_bad(f, "expected \"memory on\" or \"memory off\"");
	eng.config.memory_order = strcmp(word, "on") == 0 ? SIM_MEMORY_ON : SIM_MEMORY_OFF;
	return 0;
}

/* Reads the header first: seed and strategy must be known before any draw. The streams follow. */
static int choice_read_text(struct choice_file *f)
{
	char word[8];
	int rc = choice_read_header(f);

	while (!rc) {
		choice_skip(f);
		f->mark = f->at;
		if (f->at == f->end)
			break;
		choice_word(f, word, sizeof word);
		if (strcmp(word, "memory") == 0)
			rc = choice_read_memory(f);
		else if (strcmp(word, "site") == 0)
			rc = choice_read_site(f);
		else
			rc = choice_bad(f, "expected \"site\" or \"memory\", got \"%s\"", word);
	}
	return rc;
}

/* Returns the whole file with a 0 after it; the caller frees it. NULL with errno. */
static char *choice_load(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "r");
	size_t room = 1 << 16, n = 0;
	char *text = f ? calloc(1, room) : NULL;

	while (text && !feof(f) && !ferror(f)) {
		n += fread(text + n, 1, room - n - 1, f);
		if (n + 1 < room)
			continue;
		char *more = realloc(text, room *= 2);

		if (!more)
			free(text);
		text = more;
	}
	if (text && ferror(f)) {
		free(text);
		text = NULL;
	}
	if (text)
		text[n] = 0;
	*bytes = n;
	if (f) {
		int error = errno;

		fclose(f);
		errno = error;
	}
	return text;
}

int choice_read(const char *path)
{
	struct choice_file f = {.path = path};
	size_t bytes;
	int rc;

	f.text = choice_load(path, &bytes);
	if (!f.text) {
		rc = errno ? errno : EIO;
		fprintf(stderr, "choices: cannot read %s: %s\n", path, strerror(rc));
		return rc;
	}
	f.at = f.mark = f.text;
	f.end = f.text + bytes;
	rc = choice_read_text(&f);
	free(f.text);
	return rc;
}
