/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of trace.json is a record: "B" and "E" begin and end a slice, "X" is a whole slice, "i" an
 * instant, "M" the name of a track. */
#include "sim/cli/report/report_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report_json.h"

enum { TRACE_TRACKS_MOST = 1 << 20, TRACE_NESTED_MOST = 64 };

struct trace_reader {
	struct report_trace *t;
	struct json j;
	const char *path;
	size_t line;
	char *to; /* end of the details in use */
	struct {
		int32_t n;
		size_t slice[TRACE_NESTED_MOST];
	} * open; /* by tid: the slices that have begun */
};

static int trace_fail(const struct trace_reader *r, const char *expected)
{
	fprintf(stderr, "doppel report: %s:%zu: expected %s; the file is damaged or cut off\n",
		r->path, r->line, expected);
	return EINVAL;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Microseconds with up to three decimals, in ns. */
static uint64_t trace_ns(const struct json *j, const char *name)
{
	const struct json_node *m = json_member(j, &j->node[0], name);
	char *end;

	if (!m || m->kind != JSON_NUMBER || m->text[0] == '-')
		return 0;
	unsigned long long us = strtoull(m->text, &end, 10);
	uint64_t ns = us > UINT64_MAX / 4000 ? UINT64_MAX / 4 : us * 1000;
	uint64_t unit = 100;

	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9' && unit; end++, unit /= 10)
			ns += (uint64_t)(*end - '0') * unit;
	return ns;
}

int64_t report_detail(const struct report_slice *s, const char *name, int64_t otherwise)
{
	size_t n = strlen(name);

	for (const char *at = s->details; at; at = strstr(at, ", "), at = at ? at + 2 : NULL)
		if (!strncmp(at, name, n) && at[n] == ' ') {
			char *end;
			long long value = strtoll(at + n + 1, &end, 10);

			return end == at + n + 1 ? otherwise : value;
		}
	return otherwise;
}

/* ---- tracks --------------------------------------------------------------------------------- */

static int trace_track_room(struct trace_reader *r, int32_t tid)
{
	struct report_trace *t = r->t;

	if (tid < t->tracks)
		return 0;
	size_t room = MAX_OF((size_t)tid + 1, 2 * (size_t)t->tracks);
	struct report_track *track = realloc(t->track, room * sizeof *track);
	if (track)
		t->track = track;
	void *open = realloc(r->open, room * sizeof *r->open);
	if (open)
		r->open = open;
	if (!track || !open) {
		fprintf(stderr, "doppel report: %s\n", strerror(ENOMEM));
		return ENOMEM;
	}
	for (size_t i = (size_t)t->tracks; i < room; i++) {
		t->track[i] = (struct report_track){REPORT_RUN, -1, NULL};
		r->open[i].n = 0;
	}
	t->tracks = (int32_t)room;
	return 0;
}

static void trace_name_track(struct trace_reader *r, int32_t tid, const char *what)
{
	const struct json_node *args = json_member(&r->j, &r->j.node[0], "args");
	const char *name = json_text(&r->j, args, "name", "");
	struct report_track *track = &r->t->track[tid];

	if (!strcmp(what, "thread_name")) {
		track->name = name;
	} else if (!strcmp(what, "process_name") && !strncmp(name, "rank ", 5)) {
		track->group = REPORT_RANK;
		track->number = (int32_t)strtol(name + 5, NULL, 10);
	} else if (!strcmp(what, "process_name") && !strncmp(name, "host ", 5)) {
		track->group = REPORT_HOST;
		track->number = (int32_t)strtol(name + 5, NULL, 10);
	}
}

bool report_is_gpu(const struct report_track *t)
{
	return t->name && !strncmp(t->name, "gpu ", 4);
}

int32_t report_slice_rank(const struct report_trace *t, const struct report_slice *s)
{
	return t->track[s->track].group == REPORT_RANK ? t->track[s->track].number : -1;
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Details are shorter than the JSON that they come from, so the room suffices. */
static const char *trace_details(struct trace_reader *r)
{
	const struct json_node *args = json_member(&r->j, &r->j.node[0], "args");
	char *begin = r->to, *to = r->to;

	for (const struct json_node *m = json_first(&r->j, args); m; m = json_next(&r->j, m)) {
		size_t n = m->kind == JSON_NUMBER ? strspn(m->text, "+-.0123456789eE")
						  : strlen(m->text);

		if (to != begin)
			to = stpcpy(to, ", ");
		to = stpcpy(stpcpy(to, m->name ? m->name : ""), " ");
		memcpy(to, m->text, n);
		to += n;
	}
	if (to == begin)
		return "";
	*to = '\0';
	r->to = to + 1;
	return begin;
}

static enum report_kind trace_kind_of_instant(const char *name)
{
	static const char *const fault[] = {"fault",     "faults heal", "proc.kill",  "task.killed",
					    "port.down", "port.up",     "packet.lost"};

	for (size_t i = 0; i < ARRAY_LEN(fault); i++)
		if (!strcmp(name, fault[i]))
			return REPORT_FAULT;
	return REPORT_STATE;
}

static enum report_kind trace_kind(const struct report_track *track, char phase, const char *name)
{
	if (phase == 'i')
		return trace_kind_of_instant(name);
	if (track->group == REPORT_HOST)
		return REPORT_LINK;
	if (report_is_gpu(track))
		return !strcmp(name, "copy") || !strcmp(name, "set") ? REPORT_COPY
		       : !strncmp(name, "first slot", 10)            ? REPORT_SLOT
		       : !strncmp(name, "dev_", 4)                   ? REPORT_KERNEL
								     : REPORT_COLLECTIVE;
	if (phase == 'B')
		return REPORT_CALL;
	if (!strcmp(name, "plan"))
		return REPORT_PLAN;
	if (!strcmp(name, "send") || !strcmp(name, "received"))
		return REPORT_PROXY;
	return !strncmp(name, "first slot", 10) ? REPORT_SLOT : REPORT_WAIT;
}

static int trace_add(struct trace_reader *r, int32_t tid, char phase, const char *name)
{
	struct report_trace *t = r->t;

	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 1024;
		struct report_slice *more = realloc(t->slice, room * sizeof *more);

		if (!more) {
			fprintf(stderr, "doppel report: %s\n", strerror(ENOMEM));
			return ENOMEM;
		}
		t->slice = more;
		t->room = room;
	}
	struct report_slice s = {
		.at_ns = trace_ns(&r->j, "ts"),
		.ns = phase == 'X' ? trace_ns(&r->j, "dur") : 0,
		.order = t->n,
		.track = tid,
		.kind = trace_kind(&t->track[tid], phase, name),
		.open = phase == 'B',
		.name = name,
		.details = trace_details(r),
	};
	if (phase == 'B' && r->open[tid].n < TRACE_NESTED_MOST)
		r->open[tid].slice[r->open[tid].n++] = t->n;
	t->end_ns = MAX_OF(t->end_ns, s.at_ns + s.ns);
	t->slice[t->n++] = s;
	return 0;
}

/* Adds what the end of a slice has to its beginning. An end whose beginning was cut off is lost. */
static void trace_close(struct trace_reader *r, int32_t tid)
{
	struct report_trace *t = r->t;
	uint64_t at_ns = trace_ns(&r->j, "ts");
	const char *details = trace_details(r);

	t->end_ns = MAX_OF(t->end_ns, at_ns);
	if (!r->open[tid].n) {
		t->began_late = true;
		return;
	}
	struct report_slice *s = &t->slice[r->open[tid].slice[--r->open[tid].n]];
	s->ns = at_ns > s->at_ns ? at_ns - s->at_ns : 0;
	s->open = false;
	if (!s->details[0])
		s->details = details;
}

static int trace_record(struct trace_reader *r)
{
	const struct json_node *record = &r->j.node[0];
	const char *phase = json_text(&r->j, record, "ph", "");
	const char *name = json_text(&r->j, record, "name", "");
	int64_t tid = json_number(&r->j, record, "tid", -1);

	if (record->kind != JSON_OBJECT || !phase[0] || phase[1])
		return trace_fail(r, "a record with a phase");
	if (tid < 0 || tid >= TRACE_TRACKS_MOST)
		return trace_fail(r, "the number of a track");
	int rc = trace_track_room(r, (int32_t)tid);
	if (rc)
		return rc;
	switch (phase[0]) {
	case 'M':
		trace_name_track(r, (int32_t)tid, name);
		return 0;
	case 'B':
	case 'X':
	case 'i':
		return trace_add(r, (int32_t)tid, phase[0], name);
	case 'E':
		trace_close(r, (int32_t)tid);
		return 0;
	default:
		return 0;
	}
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Cuts off the line at `at` and its comma. Returns the beginning of the next one. */
static char *trace_line(char *at)
{
	size_t n = strcspn(at, "\n");
	char *next = at[n] ? at + n + 1 : at + n;

	at[n] = '\0';
	if (n && at[n - 1] == ',')
		at[n - 1] = '\0';
	return next;
}

/* The file is "[", records, "]". A run that dies writes its last line, too. */
static int trace_lines(struct trace_reader *r)
{
	char *at = r->t->text, *next;
	bool begun = false, ended = false;

	for (; *at; at = next) {
		r->line++;
		next = trace_line(at);
		if (!begun && strcmp(at, "[") != 0)
			return trace_fail(r, "\"[\"");
		ended = begun && !strcmp(at, "]");
		if (begun && !ended && *at) {
			int rc = json_read(&r->j, at);

			if (!rc)
				rc = trace_record(r);
			else
				rc = rc == EINVAL ? trace_fail(r, r->j.wrong) : rc;
			if (rc)
				return rc;
		}
		begun = true;
	}
	return ended ? 0 : trace_fail(r, "\"]\" at the end");
}

static int trace_compare(const void *left, const void *right)
{
	const struct report_slice *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if (a->ns != b->ns) /* the outer one first */
		return a->ns > b->ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static void trace_end_open(struct report_trace *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->slice[i].open)
			t->slice[i].ns = t->end_ns - t->slice[i].at_ns;
}

int report_trace_read(struct report_trace *t, char *text, size_t bytes, const char *path)
{
	*t = (struct report_trace){.text = text, .details = malloc(bytes + 1)};
	struct trace_reader r = {.t = t, .path = path, .to = t->details};

	if (!t->details) {
		fprintf(stderr, "doppel report: %s\n", strerror(ENOMEM));
		return ENOMEM;
	}
	int rc = strlen(text) == bytes ? trace_lines(&r) : trace_fail(&r, "a text without NUL");
	json_free(&r.j);
	free(r.open);
	if (rc)
		return rc;
	trace_end_open(t);
	if (t->n)
		qsort(t->slice, t->n, sizeof *t->slice, trace_compare);
	return 0;
}

void report_trace_free(struct report_trace *t)
{
	free(t->text);
	free(t->details);
	free(t->track);
	free(t->slice);
	*t = (struct report_trace){0};
}
