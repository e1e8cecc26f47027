/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks by host, and the edges of rings and trees that carried data, by channel. The trace
 * has the edges: a kernel that fills another rank's slot, a proxy that sends. Units: pixels. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/report/report.h"
#include "sim/cli/report/report_escape.h"

enum {
	TOPOLOGY_COLUMN = 74,
	TOPOLOGY_ROW = 150,
	TOPOLOGY_LEFT = 110,
	TOPOLOGY_RADIUS = 17,
	TOPOLOGY_WIDEST = 16, /* ranks in a row */
	TOPOLOGY_RANKS_MOST = 256,
	TOPOLOGY_EDGES_MOST = 20000,
};

struct topology_place {
	int x, y;
};

struct topology {
	const struct report *r;
	struct topology_place *place; /* by rank */
	uint64_t *edge;               /* from << 40 | to << 20 | channel, each once */
	size_t edges;
	int width, height;
	int32_t channel; /* the one that is marked */
	FILE *out;
};

/* ---- edges ---------------------------------------------------------------------------------- */

static bool topology_edge(const struct report *r, const struct report_slice *s, uint64_t *edge)
{
	int64_t from = report_slice_rank(&r->trace, s), to = report_detail(s, "to", -1);
	int64_t channel = report_detail(s, "channel", -1);
	bool carries = !strcmp(s->name, "first slot filled") || !strcmp(s->name, "send");

	if (!carries || from < 0 || to < 0 || to >= r->ranks || from >= r->ranks || channel < 0 ||
	    channel >= 1 << 20)
		return false;
	*edge = (uint64_t)from << 40 | (uint64_t)to << 20 | (uint64_t)channel;
	return true;
}

static int topology_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* Collects the edges, sorted, each once. False: no memory. */
static bool topology_collect(struct topology *t)
{
	const struct report *r = t->r;
	size_t n = 0;

	t->edge = malloc((r->trace.n + 1) * sizeof *t->edge);
	if (!t->edge)
		return false;
	for (size_t i = 0; i < r->trace.n; i++)
		n += topology_edge(r, &r->trace.slice[i], &t->edge[n]);
	if (n)
		qsort(t->edge, n, sizeof *t->edge, topology_compare);
	for (size_t i = 0; i < n; i++)
		if (!i || t->edge[i] != t->edge[i - 1])
			t->edge[t->edges++] = t->edge[i];
	t->edges = MIN_OF(t->edges, (size_t)TOPOLOGY_EDGES_MOST);
	return true;
}

/* ---- places --------------------------------------------------------------------------------- */

/* Places the ranks of a host in rows. Returns the number of rows. */
static int topology_place_host(struct topology *t, int32_t host, int row)
{
	const struct report *r = t->r;
	int n = 0;

	for (int32_t i = 0; i < r->ranks; i++) {
		if (r->rank[i].host != host)
			continue;
		int x = TOPOLOGY_LEFT + n % TOPOLOGY_WIDEST * TOPOLOGY_COLUMN + TOPOLOGY_RADIUS;
		int y = (row + n / TOPOLOGY_WIDEST) * TOPOLOGY_ROW + TOPOLOGY_ROW / 2;

		t->place[i] = (struct topology_place){x, y};
		t->width = MAX_OF(t->width, x + TOPOLOGY_COLUMN);
		n++;
	}
	return (n + TOPOLOGY_WIDEST - 1) / TOPOLOGY_WIDEST;
}

static void topology_place(struct topology *t)
{
	int32_t hosts = 0;
	int row = 0;

	for (int32_t i = 0; i < t->r->ranks; i++)
		hosts = MAX_OF(hosts, t->r->rank[i].host + 1);
	for (int32_t h = 0; h < MIN_OF(hosts, TOPOLOGY_RANKS_MOST); h++)
		row += topology_place_host(t, h, row);
	t->height = row * TOPOLOGY_ROW;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* Draws an edge as a curve, so that both directions are visible and neighbours are not crossed. */
static void topology_draw_edge(const struct topology *t, uint64_t edge)
{
	int32_t from = (int32_t)(edge >> 40), to = (int32_t)(edge >> 20 & 0xfffff);
	int32_t channel = (int32_t)(edge & 0xfffff);
	struct topology_place a = t->place[from], b = t->place[to];
	int dx = b.x - a.x, dy = b.y - a.y;
	int far = (dx < 0 ? -dx : dx) / TOPOLOGY_COLUMN;
	int bend = dy ? 18 : 10 + MIN_OF(far, 16) * 4;
	int x = (a.x + b.x) / 2 + (dy > 0 ? bend : dy < 0 ? -bend : 0);
	int y = (a.y + b.y) / 2 + (dy ? 0 : dx > 0 ? -bend : bend);

	fprintf(t->out,
		"<g class=\"edge%s\" data-c=\"%d\"><title>rank %d to rank %d, channel %d</title>"
		"<path d=\"M%d %d Q%d %d %d %d\"/><path class=\"head\" d=\"M-5 -5 L7 0 L-5 5z\" "
		"transform=\"translate(%d %d) rotate(%.0f)\"/></g>\n",
		channel == t->channel ? " on" : "", channel, from, to, channel, a.x, a.y, x, y, b.x,
		b.y, (a.x + b.x + 2 * x) / 4, (a.y + b.y + 2 * y) / 4, atan2(dy, dx) * 180 / M_PI);
}

static const char *topology_class(const struct report *r, int32_t rank)
{
	if (rank == r->late && report_is_hang(r))
		return "rank late";
	if (rank == r->scenario.found.rank)
		return "rank late";
	return r->waits.n && !r->rank[rank].tasks ? "rank gone" : "rank";
}

static void topology_draw_ranks(const struct topology *t)
{
	const struct report *r = t->r;
	int32_t host = -1;

	for (int32_t i = 0; i < r->ranks; i++) {
		struct topology_place p = t->place[i];

		if (r->rank[i].host != host)
			fprintf(t->out, "<text class=\"host\" x=\"8\" y=\"%d\">host %d</text>\n",
				p.y + 5, r->rank[i].host);
		host = r->rank[i].host;
		fprintf(t->out, "<g class=\"%s\"><title>", topology_class(r, i));
		html_print(t->out, "rank %d %s: %u tasks alive, %u calls", i, r->rank[i].process,
			   r->rank[i].tasks, r->rank[i].calls);
		fprintf(t->out,
			"</title><circle cx=\"%d\" cy=\"%d\" r=\"%d\"/><text x=\"%d\" "
			"y=\"%d\">%d</text></g>\n",
			p.x, p.y, TOPOLOGY_RADIUS, p.x, p.y + 5, i);
	}
}

static void topology_caption(const struct topology *t)
{
	const struct report *r = t->r;
	const struct report_rank *rank = NULL;

	for (int32_t i = 0; i < r->ranks && !rank; i++)
		if (r->rank[i].plan)
			rank = &r->rank[i];
	fprintf(t->out, "<p>Edges that carried data; channel %d is drawn bold%s. ", t->channel,
		r->channel >= 0 ? ": the run is stuck on it" : "");
	if (r->late >= 0 && report_is_hang(r))
		fprintf(t->out, "The chain of waits ends at the marked rank %d. ", r->late);
	if (rank) {
		fputs("The last plan: ", t->out);
		html_text(t->out, rank->plan->details);
		fputs(". ", t->out);
	}
	fputs("<span id=\"channels\"></span></p>\n", t->out);
}

static void topology_draw(struct topology *t)
{
	topology_place(t);
	topology_caption(t);
	fprintf(t->out,
		"<svg id=\"map\" role=\"img\" aria-label=\"ranks and edges\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\">\n",
		t->width, t->height, t->width, t->height);
	for (int marked = 0; marked < 2; marked++) /* the marked ones on top */
		for (size_t i = 0; i < t->edges; i++)
			if (((int32_t)(t->edge[i] & 0xfffff) == t->channel) == marked)
				topology_draw_edge(t, t->edge[i]);
	topology_draw_ranks(t);
	fputs("</svg>\n", t->out);
}

void report_topology(const struct report *r, FILE *out)
{
	struct topology t = {.r = r, .channel = MAX_OF(r->channel, 0), .out = out};

	if (!r->ranks || r->ranks > TOPOLOGY_RANKS_MOST) {
		fprintf(out, "<p>Drawn for 1 to %d ranks; this run has %d.</p>\n",
			TOPOLOGY_RANKS_MOST, r->ranks);
		return;
	}
	t.place = calloc((size_t)r->ranks, sizeof *t.place);
	if (t.place && topology_collect(&t))
		topology_draw(&t);
	else
		fputs("<p>No memory.</p>\n", out);
	free(t.place);
	free(t.edge);
}
