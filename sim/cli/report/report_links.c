/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports of HCAs, by the messages that occupied their links. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

static void links_add(struct report *r, int32_t track)
{
	const struct report_track *t = &r->trace.track[track];

	r->link[r->links++] =
		(struct report_link){.name = t->name, .host = t->number, .track = track};
}

static struct report_link *links_find(const struct report *r, int32_t track)
{
	for (uint32_t i = 0; i < r->links; i++)
		if (r->link[i].track == track)
			return &r->link[i];
	return NULL;
}

static int links_order(const void *left, const void *right)
{
	const struct report_link *a = left, *b = right;
	int by_name = strcmp(a->name, b->name);

	if (a->host != b->host)
		return a->host < b->host ? -1 : 1;
	return by_name ? by_name : a->track < b->track ? -1 : a->track > b->track;
}

int report_links(struct report *r)
{
	r->link = calloc((size_t)r->trace.tracks + 1, sizeof *r->link);
	if (!r->link) {
		fprintf(stderr, "doppel report: %s\n", strerror(ENOMEM));
		return ENOMEM;
	}
	for (int32_t i = 0; i < r->trace.tracks; i++)
		if (r->trace.track[i].group == REPORT_HOST && r->trace.track[i].name)
			links_add(r, i);
	if (r->links)
		qsort(r->link, r->links, sizeof *r->link, links_order);
	for (size_t i = 0; i < r->trace.n; i++) {
		const struct report_slice *s = &r->trace.slice[i];
		struct report_link *l = s->kind == REPORT_LINK ? links_find(r, s->track) : NULL;
		int64_t bytes = report_detail(s, "bytes", 0);

		if (!l)
			continue;
		l->messages++;
		l->bytes += bytes > 0 ? (uint64_t)bytes : 0;
		l->busy_ns += s->ns;
		l->last_ns = MAX_OF(l->last_ns, s->at_ns + s->ns);
	}
	return 0;
}

double report_gbps(const struct report_link *l)
{
	return l->busy_ns ? (double)l->bytes / (double)l->busy_ns : 0;
}

static int links_compare(const void *left, const void *right)
{
	const struct report_link *a = *(const struct report_link *const *)left;
	const struct report_link *b = *(const struct report_link *const *)right;
	double x = report_gbps(a), y = report_gbps(b);

	return x < y ? -1 : x > y ? 1 : a->track < b->track ? -1 : a->track > b->track;
}

const struct report_link *report_slowest(const struct report *r, double *others)
{
	const struct report_link **by_speed = calloc((size_t)r->links + 1, sizeof *by_speed);
	const struct report_link *slowest = NULL;
	uint32_t n = 0;

	*others = 0;
	for (uint32_t i = 0; by_speed && i < r->links; i++)
		if (r->link[i].messages && r->link[i].busy_ns)
			by_speed[n++] = &r->link[i];
	if (n) {
		qsort(by_speed, n, sizeof(*by_speed), links_compare);
		slowest = by_speed[0];
		*others = report_gbps(by_speed[n / 2]);
	}
	free(by_speed);
	return slowest;
}

void report_print_links(const struct report *r, FILE *out)
{
	fputs("<table class=\"links\"><thead><tr><th>port<th>messages<th>bytes<th>busy<th>GB/s "
	      "while "
	      "busy<th>last message ends at</thead><tbody>\n",
	      out);
	for (uint32_t i = 0; i < r->links; i++) {
		const struct report_link *l = &r->link[i];
		char busy[32], last[32];

		sim_format_ns(busy, l->busy_ns);
		sim_format_ns(last, l->last_ns);
		fputs("<tr><td>", out);
		html_text(out, l->name);
		fprintf(out,
			"<td class=\"n\">%llu<td class=\"n\">%llu<td class=\"n\">%s"
			"<td class=\"n\">%.2f<td class=\"n\">%s\n",
			(unsigned long long)l->messages, (unsigned long long)l->bytes, busy,
			report_gbps(l), last);
	}
	fputs("</tbody></table>\n", out);
}
