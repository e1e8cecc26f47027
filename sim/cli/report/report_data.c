/* SPDX-License-Identifier: BSD-3-Clause */
/* The page's data as JSON, for the timeline: report.js describes it. Texts are in one table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

enum { DATA_SLICES_MOST = 60000 };

/* Texts that occur in slices, each once. `slot` is a hash table of indices plus 1. */
struct data_texts {
	const char **text;
	uint32_t *slot;
	uint32_t n, slots; /* a power of two, at least twice the texts */
};

static uint32_t data_hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static bool data_texts_start(struct data_texts *t, size_t slices)
{
	*t = (struct data_texts){.slots = 64};
	while (t->slots < 4 * slices + 4)
		t->slots *= 2;
	t->text = calloc(t->slots / 2, sizeof *t->text);
	t->slot = calloc(t->slots, sizeof *t->slot);
	return t->text && t->slot;
}

/* Returns the index of a text, which is new or not. */
static uint32_t data_text(struct data_texts *t, const char *s)
{
	uint32_t at = data_hash(s) & (t->slots - 1);

	for (; t->slot[at]; at = (at + 1) & (t->slots - 1))
		if (!strcmp(t->text[t->slot[at] - 1], s))
			return t->slot[at] - 1;
	ASSERT(t->n < t->slots / 2);
	t->text[t->n] = s;
	t->slot[at] = ++t->n;
	return t->n - 1;
}

/* Leaves out the most frequent kinds of a long run, then its beginning. */
static bool data_is_kept(const struct report *r, size_t i)
{
	const struct report_slice *s = &r->trace.slice[i];
	bool frequent = s->kind == REPORT_SLOT || s->kind == REPORT_COPY ||
			s->kind == REPORT_STATE || s->kind == REPORT_COLLECTIVE;

	if (s->kind == REPORT_FAULT)
		return true;
	if (r->trace.n <= DATA_SLICES_MOST)
		return true;
	return !frequent && r->trace.n - i <= 4 * (size_t)DATA_SLICES_MOST;
}

static size_t data_count(const struct report *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->trace.n; i++)
		n += data_is_kept(r, i);
	return n;
}

static void data_slices(const struct report *r, struct data_texts *t, FILE *out)
{
	size_t kept = data_count(r), skip = kept > DATA_SLICES_MOST ? kept - DATA_SLICES_MOST : 0;
	bool first = true;

	fprintf(out, "\"dropped\":%zu,\"slices\":[", r->trace.n - kept + skip);
	for (size_t i = 0; i < r->trace.n; i++) {
		const struct report_slice *s = &r->trace.slice[i];

		if (!data_is_kept(r, i))
			continue;
		if (skip && skip--)
			continue;
		fprintf(out, "%s[%d,%d,%" PRIu64 ",%" PRIu64 ",%u,%u]", first ? "\n" : ",\n",
			s->track, s->kind, s->at_ns, s->ns, data_text(t, s->name),
			data_text(t, s->details));
		first = false;
	}
	fputs("],\n", out);
}

static void data_tracks(const struct report *r, FILE *out)
{
	static const char *const group[] = {
		[REPORT_RUN] = "run", [REPORT_RANK] = "rank", [REPORT_HOST] = "host"};

	fputs("\"tracks\":[", out);
	for (int32_t i = 0; i < r->trace.tracks; i++) {
		const struct report_track *t = &r->trace.track[i];

		fprintf(out, "%s[\"%s\",%d,", i ? ",\n" : "\n", group[t->group], t->number);
		html_json(out, t->name ? t->name : "");
		fputc(']', out);
	}
	fputs("],\n", out);
}

/* Waits that had not ended, by the names of their tasks. */
static void data_pending(const struct report *r, FILE *out)
{
	const struct json *j = &r->waits;
	const struct json_node *tasks = j->n ? json_member(j, &j->node[0], "tasks") : NULL;
	bool first = true;

	fputs("\"pending\":[", out);
	for (const struct json_node *t = json_first(j, tasks); t; t = json_next(j, t)) {
		const struct json_node *w = json_first(j, json_member(j, t, "waits"));
		int64_t since = json_number(j, t, "since_ns", -1);

		if (!w || since < 0)
			continue;
		fprintf(out, "%s[%" PRId64 ",", first ? "\n" : ",\n", since);
		html_json(out, json_text(j, t, "name", ""));
		fputc(',', out);
		html_json(out, json_text(j, w, "why", ""));
		fputc(']', out);
		first = false;
	}
	fputs("],\n", out);
}

static void data_answers(const struct report *r, FILE *out)
{
	fputs("\"answers\":{", out);
	for (size_t i = 0; i < report_questions_n; i++) {
		char *answer = report_answer(r, &report_questions[i]);

		fprintf(out, "%s\"%s\":", i ? ",\n" : "\n", report_questions[i].key);
		html_json(out, answer ? answer : "");
		free(answer);
	}
	fputs("},\n", out);
}

static void data_texts_write(const struct data_texts *t, FILE *out)
{
	fputs("\"texts\":[", out);
	for (uint32_t i = 0; i < t->n; i++) {
		fputs(i ? ",\n" : "\n", out);
		html_json(out, t->text[i]);
	}
	fputs("]", out);
}

void report_data(const struct report *r, FILE *out)
{
	struct data_texts t;

	fprintf(out,
		"{\"version\":1,\"end\":%" PRIu64 ",\"failure\":%" PRIu64
		",\"late\":%d,\"channel\":%d,\"progress\":%" PRIu64 ",\"fault\":",
		r->end_ns, r->fail_ns, r->late, r->channel,
		r->progress ? r->progress->at_ns + r->progress->ns : 0);
	if (r->fault)
		fprintf(out, "%" PRIu64 ",\n", r->fault->at_ns);
	else
		fputs("null,\n", out);
	data_answers(r, out);
	data_pending(r, out);
	data_tracks(r, out);
	if (data_texts_start(&t, r->trace.n)) {
		data_slices(r, &t, out);
		data_texts_write(&t, out);
	} else {
		fputs("\"dropped\":0,\"slices\":[],\"texts\":[]", out);
	}
	fputs("}", out);
	free(t.text);
	free(t.slot);
}
