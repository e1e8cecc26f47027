/* SPDX-License-Identifier: BSD-3-Clause */
/* The last steps of the tasks that matter: those of the chain of waits, of the late rank and of the
 * rank that failed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

enum { TASKS_STEPS = 50, TASKS_MOST = 24 };

static bool tasks_in_chain(const struct report *r, const char *name)
{
	const struct json_node *hops = json_member(&r->waits, report_cause(r), "hops");

	for (const struct json_node *h = json_first(&r->waits, hops); h;
	     h = json_next(&r->waits, h)) {
		int64_t id = json_number(&r->waits, h, "task", -1);

		if (!strcmp(json_text(&r->waits, report_task(r, id), "name", ""), name))
			return true;
	}
	return false;
}

/* True for tasks of the chain, for one that failed, and for the tasks of ranks that matter. */
static bool tasks_matter(const struct report *r, const struct report_track *t)
{
	const struct sim_failure *f = &r->scenario.found;

	if (!t->name || t->group == REPORT_HOST)
		return false;
	if (tasks_in_chain(r, t->name) || !strcmp(t->name, f->task))
		return true;
	return t->group == REPORT_RANK && t->number >= 0 &&
	       (t->number == r->late || t->number == r->peer || t->number == f->rank);
}

static void tasks_row(const struct report_slice *s, FILE *out)
{
	char at[32], ns[32];

	sim_format_ns(at, s->at_ns);
	sim_format_ns(ns, s->ns);
	fprintf(out, "<tr><td class=\"n\">%s<td class=\"n\">%s%s<td>", at, ns,
		s->open ? ", not ended" : "");
	html_text(out, s->name);
	fputs("<td>", out);
	html_text(out, s->details);
	fputc('\n', out);
}

/* Prints the task's wait at the end, which the trace does not have: it has not ended. */
static void tasks_pending(const struct report *r, const char *name, FILE *out)
{
	const struct json *j = &r->waits;
	const struct json_node *tasks = j->n ? json_member(j, &j->node[0], "tasks") : NULL;

	for (const struct json_node *t = json_first(j, tasks); t; t = json_next(j, t)) {
		const struct json_node *w = json_first(j, json_member(j, t, "waits"));

		if (strcmp(json_text(j, t, "name", ""), name) != 0)
			continue;
		for (; w; w = json_next(j, w)) {
			fputs("<li>waits for &quot;", out);
			html_text(out, json_text(j, w, "why", ""));
			fputs("&quot;", out);
			int64_t from = json_number(j, json_member(j, w, "from"), "rank", -1);
			if (from >= 0)
				fprintf(out, " from rank %" PRId64, from);
			fputc('\n', out);
		}
	}
}

static void tasks_print(const struct report *r, int32_t track, FILE *out)
{
	const struct report_slice *last[TASKS_STEPS];
	const char *name = r->trace.track[track].name;
	size_t n = 0;

	for (size_t i = r->trace.n; i-- && n < TASKS_STEPS;)
		if (r->trace.slice[i].track == track)
			last[n++] = &r->trace.slice[i];
	fputs("<details><summary>", out);
	html_text(out, name);
	fprintf(out, ": the last %zu steps</summary><ul>", n);
	tasks_pending(r, name, out);
	fputs("</ul><table><thead><tr><th>at<th>for<th>step<th>details</thead><tbody>\n", out);
	while (n--)
		tasks_row(last[n], out);
	fputs("</tbody></table></details>\n", out);
}

void report_tasks(const struct report *r, FILE *out)
{
	int printed = 0;

	for (int32_t i = 0; i < r->trace.tracks && printed < TASKS_MOST; i++)
		if (tasks_matter(r, &r->trace.track[i])) {
			tasks_print(r, i, out);
			printed++;
		}
	if (!printed)
		fputs("<p>No task has a timeline.</p>\n", out);
}
