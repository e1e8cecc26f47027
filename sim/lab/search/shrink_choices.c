/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of choices, read whole, made smaller, written again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/engine/base/output.h"
#include "sim/lab/search/shrink_internal.h"

enum { CHOICES_PER_LINE = 20, CHOICES_MOST = 1 << 28 };

static int choices_bad(const char *path, const char *what)
{
	fprintf(stderr, "doppel shrink: %s: %s\n", path, what);
	return EINVAL;
}

/* "4:2", "-" or "-12": how many choices, or 0. */
static uint32_t choices_word(const char *word, struct shrink_choice *c, uint32_t room)
{
	uint32_t row = 1;
	int end = 0;

	ASSERT(room > 0); /* for this word */
	if (word[0] != '-')
		return sscanf(word, "%" SCNu32 ":%" SCNu32 "%n", &c->n, &c->value, &end) == 2 &&
		       !word[end] && c->n;
	if (word[1] && (sscanf(word + 1, "%" SCNu32 "%n", &row, &end) != 1 || word[1 + end]))
		return 0;
	return row <= room ? row : 0;
}

static int choices_read_site(struct shrink_choices *c, FILE *f, const char *path)
{
	struct shrink_site *more = realloc(c->site, (c->sites + 1) * sizeof *more);
	char word[32];
	uint32_t n = 0;

	if (!more)
		return ENOMEM;
	c->site = more;
	struct shrink_site *s = &c->site[c->sites];
	memset(s, 0, sizeof *s);
	if (fscanf(f, "%63s %" SCNu32, s->name, &n) != 2 || n > CHOICES_MOST)
		return choices_bad(path, "expected \"site NAME COUNT\"");
	s->made = calloc(n ? n : 1, sizeof *s->made);
	if (!s->made)
		return ENOMEM;
	c->sites++;
	while (s->n < n) {
		uint32_t row = fscanf(f, " %31s", word) == 1
				       ? choices_word(word, &s->made[s->n], n - s->n)
				       : 0;
		if (!row)
			return choices_bad(path,
					   "a site has fewer choices than its line announces");
		s->n += row;
	}
	ASSERT(s->n == n); /* a row of quiet choices never passes the end of its site */
	return 0;
}

int shrink_choices_read(struct shrink_choices *c, const char *path)
{
	FILE *f = fopen(path, "r");
	char word[64], rest[160];
	size_t head = 0;
	int rc = 0;

	memset(c, 0, sizeof *c);
	if (!f)
		return choices_bad(path, strerror(errno));
	while (!rc && fscanf(f, " %63s", word) == 1) {
		if (strcmp(word, "site") == 0) {
			rc = choices_read_site(c, f, path);
			continue;
		}
		if (c->sites || !fgets(rest, sizeof rest, f) ||
		    head + strlen(word) + strlen(rest) >= sizeof c->head) {
			rc = choices_bad(path, "not a file of choices");
			break;
		}
		head += (size_t)snprintf(c->head + head, sizeof c->head - head, "%s%s", word, rest);
	}
	if (!rc && strncmp(c->head, "doppel-choices ", 15) != 0)
		rc = choices_bad(path, "not a file of choices");
	fclose(f);
	if (rc)
		shrink_choices_free(c);
	return rc;
}

static void choices_write_site(const struct shrink_site *s, FILE *f)
{
	uint32_t words = 0, row;

	ASSERT(s->n > 0); /* a site without choices has no line */
	fprintf(f, "site %s %" PRIu32, s->name, s->n);
	for (uint32_t i = 0; i < s->n; i += row) {
		const struct shrink_choice *c = &s->made[i];

		for (row = 0; i + row < s->n && !c[row].n; row++)
			;
		fputc(words++ % CHOICES_PER_LINE ? ' ' : '\n', f);
		if (row)
			fprintf(f, "-%" PRIu32, row);
		else
			fprintf(f, "%" PRIu32 ":%" PRIu32, c->n, c->value);
		row = MAX_OF(row, 1u);
	}
	fputc('\n', f);
}

int shrink_choices_write(const struct shrink_choices *c, const char *path)
{
	FILE *f = output_open("choices", path);

	if (!f)
		return EIO;
	fputs(c->head, f);
	for (uint32_t i = 0; i < c->sites; i++)
		if (c->site[i].n)
			choices_write_site(&c->site[i], f);
	return output_close(f, "choices", path);
}

void shrink_choices_free(struct shrink_choices *c)
{
	for (uint32_t i = 0; i < c->sites; i++)
		free(c->site[i].made);
	free(c->site);
	memset(c, 0, sizeof *c);
}

uint32_t shrink_site_special(const struct shrink_site *s)
{
	uint32_t special = 0;

	for (uint32_t i = 0; i < s->n; i++)
		special += s->made[i].n != 0;
	return special;
}

void shrink_choices_count(const struct shrink_choices *c, uint64_t *all, uint64_t *special)
{
	*all = *special = 0;
	for (uint32_t i = 0; i < c->sites; i++) {
		*all += c->site[i].n;
		*special += shrink_site_special(&c->site[i]);
	}
	ASSERT(*special <= *all);
}

void shrink_site_quieten(struct shrink_site *s, uint32_t first, uint32_t count)
{
	uint32_t at = 0;

	ASSERT(first <= UINT32_MAX - count); /* the end of the range does not wrap */
	for (uint32_t i = 0; i < s->n && at < first + count; i++) {
		if (!s->made[i].n)
			continue;
		if (at++ >= first)
			s->made[i] = (struct shrink_choice){0};
	}
}

/* ---- the pair ------------------------------------------------------------------------------- */

enum { SHRINK_PAIR_TRIES = 12 };

static bool shrink_is_scheduling(const struct sim_choice_made *m)
{
	return strcmp(m->site, "engine.run") == 0 || strcmp(m->site, "engine.preempt") == 0 ||
	       strcmp(m->site, "engine.sleep") == 0 || strcmp(m->site, "engine.event") == 0;
}

/* How many special choices its site has before it. */
static uint32_t shrink_ordinal(const struct sim_choice_log *log, uint32_t at)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < at; i++)
		n += strcmp(log->made[i].site, log->made[at].site) == 0;
	return n;
}

/* Without changing the best: does it pass without that choice? */
static int shrink_passes_without(struct shrink *s, const struct sim_choice_log *log, uint32_t at,
				 bool *passes)
{
	struct shrink_choices choices;
	struct shrink_outcome out;
	int rc = shrink_choices_read(&choices, s->best);

	ASSERT(at < log->n && at < log->cap);
	*passes = false;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < choices.sites; i++)
		if (strcmp(choices.site[i].name, log->made[at].site) == 0)
			shrink_site_quieten(&choices.site[i], shrink_ordinal(log, at), 1);
	rc = shrink_choices_write(&choices, s->given);
	shrink_choices_free(&choices);
	if (rc)
		return rc;
	s->candidate = s->r->after;
	rc = shrink_try(&s->candidate, s->given, s->tried, s->limit_ns, NULL, NULL, &out);
	s->r->candidates++;
	*passes = !rc && !shrink_same(s, &out);
	return rc;
}

/* Between two tasks, of the scheduler otherwise, any other: an order explains most. */
static uint32_t shrink_rank_of(const struct sim_choice_made *m)
{
	return m->other >= 0 ? 0 : shrink_is_scheduling(m) ? 1 : 2;
}

/* The last choice without which it does not fail. */
int shrink_find_pair(struct shrink *s)
{
	struct sim_choice_log *log = shrink_log_make();
	struct shrink_outcome out;
	bool passes = false;

	if (!log)
		return ENOMEM;
	s->candidate = s->r->after;
	int rc = shrink_try(&s->candidate, s->best, s->tried, s->limit_ns, log, NULL, &out);
	uint32_t n = MIN_OF(log->n, log->cap);
	for (uint32_t rank = 0; rank < 3 && !rc && !passes; rank++) {
		uint32_t tries = 0;

		for (uint32_t i = n; i > 0 && !rc && !passes && tries < SHRINK_PAIR_TRIES; i--) {
			if (shrink_rank_of(&log->made[i - 1]) != rank)
				continue;
			tries++;
			rc = shrink_passes_without(s, log, i - 1, &passes);
			if (passes)
				s->r->pair = log->made[i - 1];
		}
	}
	s->r->has_pair = passes;
	shrink_log_free(log);
	return rc;
}
