/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a run's table as two panels: bus bandwidth and time over size. All axes are logarithmic.
 * Each line is one type, operation, root and place; its label is at its end. A row that a
 * logarithmic axis cannot show (no bytes, no bandwidth) is counted in a note below the panel.
 *
 *	+--------------------------------+
 *	| title                          |
 *	| +-------------------+          |
 *	| | lines             | labels   |   one panel
 *	| +-------------------+          |
 *	|   size (bytes)                 |
 *	| +-------------------+          |
 *	...
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/cli/run/rows.h"
#include "sim/cli/svg.h"
#include "sim/lab/check/payload.h"

enum {
	PLOT_WIDTH = 1000,
	PLOT_LEFT = 100,
	PLOT_RIGHT = 740, /* right end of the axes; labels are to the right of it */
	PLOT_TITLE = 60,
	PLOT_AXES = 330, /* minimum height */
	PLOT_BELOW = 90, /* room for ticks, the axis' name, the note */
	PLOT_LABEL = 20, /* distance between labels */
	PLOT_TICKS = 9,
};
DOPPEL_STATIC_CHECK(PLOT_LEFT < PLOT_RIGHT && PLOT_RIGHT < PLOT_WIDTH,
		    "labels are to the right of the axes");

struct plot_axis {
	double least, most; /* smallest and largest value shown; 0: no value is shown */
};

struct plot_panel {
	const struct cli_rows *rows;
	double (*value)(const struct cli_row *row);
	const char *name;
	struct plot_axis x, y;
	int top, height;
	FILE *out;
};

static double plot_time(const struct cli_row *row)
{
	return row->result.time_us;
}

static double plot_busbw(const struct cli_row *row)
{
	return row->result.busbw_gbps;
}

/* ---- axes ----------------------------------------------------------------------------------- */

static bool plot_is_shown(const struct plot_panel *p, const struct cli_row *row)
{
	return row->row.bytes > 0 && p->value(row) > 0;
}

static void plot_axis_add(struct plot_axis *a, double value)
{
	ASSERT(value > 0); /* the axis is logarithmic: plot_is_shown leaves the others out */
	a->least = a->most > 0 ? fmin(a->least, value) : value;
	a->most = fmax(a->most, value);
}

/* Widens a narrow range, so that a single value is in the middle. */
static void plot_axis_end(struct plot_axis *a, double factor)
{
	if (a->most <= 0)
		a->least = a->most = 1;
	if (a->most / a->least < factor) {
		a->least /= factor;
		a->most *= factor;
	}
	ASSERT(a->least > 0 && a->least < a->most);
}

/* Returns the largest of 1, 2 and 5 times a power of ten that is at most `value`. `up`: the
 * smallest that is at least `value`. */
static double plot_round(double value, bool up)
{
	static const double factor[] = {1, 2, 5, 10};
	double power = pow(10, floor(log10(value)));
	int f = up ? 0 : 3;

	ASSERT(value > 0);

	while (up && factor[f] * power < value * 0.999)
		f++;
	while (!up && factor[f] * power > value * 1.001)
		f--;
	ASSERT(f >= 0 && (size_t)f < ARRAY_LEN(factor));
	return factor[f] * power;
}

static double plot_part(const struct plot_axis *a, double value)
{
	ASSERT(value > 0 && a->least < a->most);
	return log(value / a->least) / log(a->most / a->least);
}

static double plot_x(const struct plot_panel *p, double bytes)
{
	return PLOT_LEFT + 12 + plot_part(&p->x, bytes) * (PLOT_RIGHT - PLOT_LEFT - 24);
}

static double plot_y(const struct plot_panel *p, double value)
{
	return p->top + p->height - 12 - plot_part(&p->y, value) * (p->height - 24);
}

static void plot_text_bytes(double bytes, char out[24])
{
	static const char *const unit[] = {"", " Ki", " Mi", " Gi", " Ti"};
	int u = 0;

	for (; bytes >= 1024 && u < 4; u++)
		bytes /= 1024;
	snprintf(out, 24, "%.4g%s", bytes, unit[u]);
}

static void plot_x_tick(const struct plot_panel *p, double bytes)
{
	double x = plot_x(p, bytes);
	char text[24];

	plot_text_bytes(bytes, text);
	fprintf(p->out,
		"<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
		"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		x, p->top, x, p->top + p->height, x, p->top + p->height + 22, text);
}

static void plot_y_tick(const struct plot_panel *p, double value)
{
	double y = plot_y(p, value);

	fprintf(p->out,
		"<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
		"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n",
		PLOT_LEFT, y, PLOT_RIGHT, y, PLOT_LEFT - 8, y + 6, value);
}

/* Draws ticks at powers of two, far enough apart for their labels. */
static void plot_x_ticks(const struct plot_panel *p)
{
	int first = (int)ceil(log2(p->x.least) - 1e-9), last = (int)floor(log2(p->x.most) + 1e-9);
	int step = 1;

	while ((last - first) / step >= PLOT_TICKS)
		step++;
	for (int e = first; e <= last; e += step)
		plot_x_tick(p, ldexp(1, e));
}

/* Draws ticks at powers of ten; if they are few, also at 2 and 5 times each. */
static void plot_y_ticks(const struct plot_panel *p)
{
	static const double factor[] = {1, 2, 5};
	int first = (int)floor(log10(p->y.least)), last = (int)ceil(log10(p->y.most));
	int step = 1, each = log10(p->y.most / p->y.least) < 2.5 ? 3 : 1;

	while ((last - first) / step >= PLOT_TICKS)
		step++;
	for (int e = first; e <= last; e += step)
		for (int f = 0; f < each; f++) {
			double value = factor[f] * pow(10, e);

			if (value >= p->y.least * 0.999 && value <= p->y.most * 1.001)
				plot_y_tick(p, value);
		}
}

static void plot_frame(const struct plot_panel *p)
{
	int middle = p->top + p->height / 2;

	plot_x_ticks(p);
	plot_y_ticks(p);
	fprintf(p->out,
		"<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n"
		"<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">size "
		"(bytes)</text>\n"
		"<text class=\"name\" x=\"24\" y=\"%d\" text-anchor=\"middle\" "
		"transform=\"rotate(-90 24 %d)\">%s</text>\n",
		PLOT_LEFT, p->top, PLOT_RIGHT - PLOT_LEFT, p->height, (PLOT_LEFT + PLOT_RIGHT) / 2,
		p->top + p->height + 48, middle, middle, p->name);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool plot_same_line(const struct lab_row *a, const struct lab_row *b)
{
	return a->payload.type == b->payload.type && a->payload.op == b->payload.op &&
	       a->root == b->root && a->in_place == b->in_place;
}

/* True if row i is the first of a new line. */
static bool plot_is_first(const struct cli_rows *rows, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (plot_same_line(&rows->row[k].row, &rows->row[i].row))
			return false;
	return true;
}

static uint32_t plot_lines(const struct cli_rows *rows)
{
	uint32_t n = 0;

	for (size_t i = 0; i < rows->n; i++)
		n += plot_is_first(rows, i);
	return n;
}

/* Writes a label from the properties that differ between lines. */
static void plot_label(const struct cli_rows *rows, const struct lab_row *row, char out[64])
{
	bool types = false, ops = false, roots = false;
	int n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		const struct lab_row *r = &rows->row[i].row;

		types |= r->payload.type != row->payload.type;
		ops |= r->payload.op != row->payload.op;
		roots |= r->root != row->root;
	}
	if (types)
		n += snprintf(out + n, 64 - (size_t)n, "%s ", payload_type_name(row->payload.type));
	if (ops)
		n += snprintf(out + n, 64 - (size_t)n, "%s ", lab_row_op(row));
	if (roots)
		n += snprintf(out + n, 64 - (size_t)n, "root %d ", row->root);
	ASSERT(n < 64);
	snprintf(out + n, 64 - (size_t)n, "%s", row->in_place ? "in place" : "out of place");
}

struct plot_end {
	double x, y, label_y;
	const char *color;
	char label[64];
};

static int plot_end_compare(const void *a, const void *b)
{
	double d = ((const struct plot_end *)a)->y - ((const struct plot_end *)b)->y;

	return d < 0 ? -1 : d > 0;
}

/* Spreads labels: downwards from the top one, each at least PLOT_LABEL below its predecessor, then
 * upwards from the bottom. */
static void plot_spread(const struct plot_panel *p, struct plot_end *end, uint32_t n)
{
	double bottom = p->top + p->height;

	ASSERT(p->height >= (int)n * PLOT_LABEL); /* cli_plot made room for each label */
	for (uint32_t i = 0; i < n; i++)
		end[i].label_y = i ? fmax(end[i].y, end[i - 1].label_y + PLOT_LABEL) : end[i].y;
	for (uint32_t i = n; i-- > 0; bottom = end[i].label_y - PLOT_LABEL)
		end[i].label_y = fmin(end[i].label_y, bottom);
}

static void plot_line(const struct plot_panel *p, const struct lab_row *line, uint32_t number,
		      struct plot_end *end)
{
	const struct cli_rows *rows = p->rows;
	const struct lab_config *c = &rows->scenario->lab;
	const char *dash = line->in_place ? " stroke-dasharray=\"7 4\"" : "";
	uint32_t color = c->in_place && c->out_of_place ? number / 2 : number;

	*end = (struct plot_end){.color = svg_color(color)};
	plot_label(rows, line, end->label);
	fprintf(p->out, "<polyline stroke=\"%s\"%s points=\"", end->color, dash);
	for (size_t i = 0; i < rows->n; i++)
		if (plot_same_line(&rows->row[i].row, line) && plot_is_shown(p, &rows->row[i])) {
			end->x = plot_x(p, (double)rows->row[i].row.bytes);
			end->y = plot_y(p, p->value(&rows->row[i]));
			fprintf(p->out, "%.1f,%.1f ", end->x, end->y);
		}
	fputs("\"/>\n", p->out);
	for (size_t i = 0; i < rows->n; i++)
		if (plot_same_line(&rows->row[i].row, line) && plot_is_shown(p, &rows->row[i]))
			fprintf(p->out,
				"<circle fill=\"%s\" stroke=\"%s\" cx=\"%.1f\" cy=\"%.1f\" "
				"r=\"%s\"/>\n",
				line->in_place ? "none" : end->color, end->color,
				plot_x(p, (double)rows->row[i].row.bytes),
				plot_y(p, p->value(&rows->row[i])), line->in_place ? "6" : "4");
}

static void plot_draw_lines(const struct plot_panel *p, uint32_t lines)
{
	struct plot_end *end = calloc(MAX_OF(lines, 1u), sizeof *end);
	uint32_t n = 0, number = 0;

	for (size_t i = 0; end && i < p->rows->n; i++)
		if (plot_is_first(p->rows, i)) {
			ASSERT(number < lines);
			plot_line(p, &p->rows->row[i].row, number++, &end[n]);
			n += end[n].x > 0;
		}
	if (end)
		qsort(end, n, sizeof *end, plot_end_compare);
	if (end)
		plot_spread(p, end, n);
	for (uint32_t i = 0; end && i < n; i++)
		fprintf(p->out,
			"<line stroke=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
			"<text class=\"label\" fill=\"%s\" x=\"%d\" y=\"%.1f\">%s</text>\n",
			end[i].color, end[i].x, end[i].y, PLOT_RIGHT + 24, end[i].label_y,
			end[i].color, PLOT_RIGHT + 30, end[i].label_y + 6, end[i].label);
	free(end);
}

/* ---- the picture ---------------------------------------------------------------------------- */

static void plot_draw_panel(struct plot_panel *p, uint32_t lines)
{
	size_t left_out = 0;

	for (size_t i = 0; i < p->rows->n; i++) {
		const struct cli_row *row = &p->rows->row[i];

		left_out += !plot_is_shown(p, row);
		if (!plot_is_shown(p, row))
			continue;
		plot_axis_add(&p->x, (double)row->row.bytes);
		plot_axis_add(&p->y, p->value(row));
	}
	plot_axis_end(&p->x, 2);
	plot_axis_end(&p->y, 1.5);
	p->y.least = plot_round(p->y.least, false);
	p->y.most = plot_round(p->y.most, true);
	ASSERT(p->y.least < p->y.most); /* both were rounded outwards */
	plot_frame(p);
	plot_draw_lines(p, lines);
	if (left_out)
		fprintf(p->out,
			"<text x=\"%d\" y=\"%d\">%zu rows are not shown: they have no value on a "
			"logarithmic axis</text>\n",
			PLOT_LEFT, p->top + p->height + 72, left_out);
}

static void plot_title(const struct cli_rows *rows, const struct lab_result *r, FILE *out)
{
	const struct scenario *s = rows->scenario;
	/* of a list, all names unchanged */
	const char *base = strchr(s->machine, ',') ? NULL : strrchr(s->machine, '/');
	const struct lab_row *row = rows->n ? &rows->row[0].row : NULL;
	bool virtual_time = s->lab.sim.engine == SIM_ENGINE_SIM;

	fprintf(out, "<text class=\"title\" x=\"24\" y=\"34\">%s", s->lab.collective->name);
	if (row && s->lab.type_count == 1)
		fprintf(out, ", %s", payload_type_name(row->payload.type));
	if (row && s->lab.collective->reduces && s->lab.op_count == 1)
		fprintf(out, " %s", lab_row_op(row));
	fprintf(out, ": %d ranks on %u %s of ", r->nranks, s->lab.hosts,
		s->lab.hosts == 1 ? "host" : "hosts");
	svg_text(base ? base + 1 : s->machine, out);
	fprintf(out, ", %s time</text>\n", virtual_time ? "virtual" : "real");
}

void cli_plot(const struct cli_rows *rows, const struct lab_result *r, FILE *out)
{
	uint32_t lines = plot_lines(rows);
	int height = MAX_OF(PLOT_AXES, (int)lines * PLOT_LABEL);
	struct plot_panel panel[] = {
		{.value = plot_busbw, .name = "bus bandwidth (GB/s)"},
		{.value = plot_time, .name = "time (microseconds)"},
	};
	int all = PLOT_TITLE + (int)ARRAY_LEN(panel) * (height + PLOT_BELOW);

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"16\">\n"
		"<style>.grid{stroke:#ddd} .frame{fill:none;stroke:#444} .name{font-size:18px} "
		".title{font-size:20px} polyline{fill:none;stroke-width:2}</style>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
		PLOT_WIDTH, all, PLOT_WIDTH, all, PLOT_WIDTH, all);
	plot_title(rows, r, out);
	for (size_t i = 0; i < ARRAY_LEN(panel); i++) {
		panel[i].rows = rows;
		panel[i].out = out;
		panel[i].height = height;
		panel[i].top = PLOT_TITLE + (int)i * (height + PLOT_BELOW);
		plot_draw_panel(&panel[i], lines);
	}
	fputs("</svg>\n", out);
}
