/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of waits as a picture: a box for each hop, an arrow to the task that it waits for. The
 * arrows of a cycle have a class of their own. Units: pixels. */
#include <inttypes.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

enum {
	GRAPH_WIDTH = 760,
	GRAPH_BOX = 52,
	GRAPH_STEP = 86,
	GRAPH_RIGHT = 70, /* room for the arrow back */
	GRAPH_LETTERS = 88,
	GRAPH_HOPS_MOST = 64,
};

/* Writes a line of text, cut off at the box's width; the whole text is in the box's title. */
static void graph_line(FILE *out, int y, const char *class, const char *text)
{
	size_t n = strlen(text);

	fprintf(out, "<text x=\"12\" y=\"%d\" class=\"%s\">", y, class);
	while (n > GRAPH_LETTERS && (text[GRAPH_LETTERS] & 0xc0) == 0x80)
		n--;
	html_bytes(out, text, MIN_OF(n, (size_t)GRAPH_LETTERS));
	fputs(n > GRAPH_LETTERS ? "&#8230;</text>" : "</text>", out);
}

/* Returns where to break a text that is longer than a line: at a blank. */
static size_t graph_break(const char *text)
{
	size_t n = MIN_OF(strlen(text), (size_t)GRAPH_LETTERS);

	if (!text[n])
		return n;
	while (n && text[n] != ' ')
		n--;
	return n ? n : GRAPH_LETTERS;
}

static void graph_box(FILE *out, int y, const char *class, const char *first, const char *second)
{
	fprintf(out, "<g class=\"%s\"><title>", class);
	html_print(out, "%s: %s", first, second);
	fprintf(out, "</title><rect x=\"2\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>", y,
		GRAPH_WIDTH, GRAPH_BOX);
	graph_line(out, y + 21, "name", first);
	graph_line(out, y + 41, "why", second);
	fputs("</g>\n", out);
}

/* The box of the object that is the cause: its text in two lines. */
static void graph_object(FILE *out, int i, const char *object)
{
	char first[GRAPH_LETTERS + 1];
	size_t n = graph_break(object);

	snprintf(first, sizeof first, "%.*s", (int)n, object);
	graph_box(out, i * GRAPH_STEP + 2, "box object", first,
		  object + n + strspn(object + n, " "));
}

static void graph_hop(const struct report *r, const struct json_node *h, int i, const char *class,
		      FILE *out)
{
	const struct json *j = &r->waits;
	const char *why = json_text(j, h, "why", NULL);
	int64_t channel = json_number(j, h, "channel", -1), step = json_number(j, h, "step", -1);
	int64_t from = json_number(j, h, "from", -1);
	char first[128], second[256], place[64] = "";

	snprintf(first, sizeof first, "rank %" PRId64 ": %s", json_number(j, h, "rank", -1),
		 json_text(j, report_task(r, json_number(j, h, "task", -1)), "name", "task"));
	if (channel >= 0 && step >= 0)
		snprintf(place, sizeof place, ", channel %" PRId64 ", step %" PRId64, channel,
			 step);
	else if (channel >= 0)
		snprintf(place, sizeof place, ", channel %" PRId64, channel);
	if (!why)
		snprintf(second, sizeof second, "waits for no other task");
	else if (from < 0)
		snprintf(second, sizeof second, "waits for \"%s\"%s", why, place);
	else
		snprintf(second, sizeof second, "waits for \"%s\" from rank %" PRId64 "%s", why,
			 from, place);
	graph_box(out, i * GRAPH_STEP + 2, class, first, second);
}

static void graph_arrow(FILE *out, int i, const char *class)
{
	int y = i * GRAPH_STEP + 2 + GRAPH_BOX;

	fprintf(out, "<path class=\"%s\" marker-end=\"url(#head)\" d=\"M60 %d V%d\"/>\n", class, y,
		y + GRAPH_STEP - GRAPH_BOX - 6);
}

/* Draws the arrow from the last hop back to hop `to`. */
static void graph_back(FILE *out, int from, int to)
{
	int y = from * GRAPH_STEP + 2 + GRAPH_BOX / 2, top = to * GRAPH_STEP + 2 + GRAPH_BOX / 2;

	if (from == to) { /* a task that waits for itself */
		y += 14;
		top -= 14;
	}
	fprintf(out,
		"<path class=\"arrow cycle\" marker-end=\"url(#head)\" d=\"M%d %d h40 V%d "
		"h-36\"/>\n"
		"<text x=\"%d\" y=\"%d\" class=\"cycle\">cycle</text>\n",
		GRAPH_WIDTH + 2, y, top, GRAPH_WIDTH + 10, top - 8);
}

static int graph_count(const struct report *r, const struct json_node *first)
{
	int n = 0;

	for (const struct json_node *h = first; h && n < GRAPH_HOPS_MOST;
	     h = json_next(&r->waits, h))
		n++;
	return n;
}

static void graph_begin(FILE *out, int boxes)
{
	int height = boxes * GRAPH_STEP - (GRAPH_STEP - GRAPH_BOX) + 4;

	fprintf(out,
		"<svg id=\"graph\" role=\"img\" aria-label=\"wait-for graph\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
		"markerWidth=\"10\" markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" "
		"orient=\"auto\">"
		"<path class=\"head\" d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n",
		GRAPH_WIDTH + GRAPH_RIGHT, height, GRAPH_WIDTH + GRAPH_RIGHT, height);
}

void report_graph(const struct report *r, FILE *out)
{
	const struct json *j = &r->waits;
	const struct json_node *cause = report_cause(r);
	const struct json_node *first = json_first(j, json_member(j, cause, "hops"));
	int n = graph_count(r, first), i = 0;
	const char *object = json_text(j, report_last_hop(r), "object", "");
	bool cycle = !strcmp(json_text(j, cause, "end", ""), "cycle");
	int64_t again = cycle ? json_number(j, cause, "again", -1) : -1;

	if (!n)
		return;
	graph_begin(out, n + (object[0] != 0));
	for (const struct json_node *h = first; h && i < n; h = json_next(j, h), i++) {
		bool in = again >= 0 && i >= again;

		graph_hop(r, h, i, in ? "box cycle" : i == n - 1 ? "box last" : "box", out);
		if (i + 1 < n || object[0])
			graph_arrow(out, i, in ? "arrow cycle" : "arrow");
	}
	if (object[0])
		graph_object(out, i, object);
	if (again >= 0 && again < n)
		graph_back(out, n - 1, (int)again);
	fputs("</svg>\n", out);
}
