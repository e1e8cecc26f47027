/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo plot: draws the machine. GPUs and NICs are columns, in the order of the file. Each
 * switch and CPU is a bar over its columns. The NVSwitch, or arcs for direct NVLinks, are below the
 * GPUs. Each distinct ring or tree has a lane below them with the same columns. A circle is a GPU
 * with its position in the ring. A square is the NIC through which the ring enters (in) or leaves
 * (out). For a tree, the position is that in its host's chain. Arrows point from parent to child. A
 * NIC leads to the parent host (up) or to child hosts (down).
 *
 *	+-----------------------+--------------------+
 *	| CPU 0                 - SYS 22 - CPU 1     |
 *	| +-- PCI --+ +-- PCI --+ ...                |
 *	| GPU 0  mlx5_0  GPU 1  mlx5_1               |
 *	| ====== NVSwitch ======                     |
 *	|  channels 0-7   1 -> 2 ...                 |  a lane
 *	+--------------------------------------------+
 *
 * All numbers are integers: the same machine yields the same file everywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cli/svg.h"
#include "sim/cli/topo/topo_plot.h"
#include "sim/engine/base/output.h"

/* ---- places --------------------------------------------------------------------------------- */

bool picture_is_leaf(const struct topo_element *e)
{
	return e->type == TOPO_NODE_GPU || e->type == TOPO_NODE_NIC;
}

static void picture_place(struct picture *p, int32_t node, int32_t depth)
{
	p->depth[node] = depth;
	p->column[node] = p->first[node] = p->last[node] = PICTURE_NONE;
	if (picture_is_leaf(&p->e[node])) {
		ASSERT(p->columns < p->n); /* each element is placed once */
		p->column[node] = p->first[node] = p->last[node] = p->columns++;
		return;
	}
	p->deepest = MAX_OF(p->deepest, depth);
	for (int32_t i = 0; i < p->n; i++) {
		if (p->e[i].parent != node)
			continue;
		picture_place(p, i, depth + 1);
		if (p->first[node] == PICTURE_NONE)
			p->first[node] = p->first[i];
		if (p->last[i] != PICTURE_NONE)
			p->last[node] = p->last[i];
	}
	ASSERT((p->first[node] == PICTURE_NONE) == (p->last[node] == PICTURE_NONE));
}

static void picture_place_all(struct picture *p)
{
	int columns_least;

	for (int32_t i = 0; i < p->n; i++)
		p->column[i] = p->first[i] = p->last[i] = PICTURE_NONE;
	for (int32_t i = 0; i < p->n; i++)
		if (p->e[i].type == TOPO_NODE_CPU) {
			picture_place(p, i, 0);
			if (p->first[i] == PICTURE_NONE) /* a CPU without columns */
				p->first[i] = p->last[i] = p->columns++;
		}
	for (int32_t i = 0; i < topo_edge_count(p->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(p->sys, i, &edge);
		p->mesh |= edge.type == TOPO_PATH_NVL && p->e[edge.from].type == TOPO_NODE_GPU &&
			   p->e[edge.to].type == TOPO_NODE_GPU;
	}
	columns_least = PICTURE_LEFT + p->columns * PICTURE_COLUMN + PICTURE_RIGHT;
	p->width = MAX_OF(columns_least, (int)PICTURE_LEAST);
	p->leaves_y = PICTURE_TOP + (p->deepest + 1) * PICTURE_LEVEL;
	p->fabric_y = p->leaves_y + PICTURE_BOX;
	p->lanes_y = p->fabric_y + PICTURE_FABRIC;
}

int picture_x(int32_t column)
{
	ASSERT(column != PICTURE_NONE); /* only GPUs, NICs and bars above them have a place */
	return PICTURE_LEFT + column * PICTURE_COLUMN + PICTURE_COLUMN / 2;
}

int picture_bar_y(const struct picture *p, int32_t node)
{
	ASSERT(!picture_is_leaf(&p->e[node]) && p->depth[node] <= p->deepest);
	return PICTURE_TOP + p->depth[node] * PICTURE_LEVEL;
}

/* ---- rings and trees ------------------------------------------------------------------------ */

static bool picture_same_ring(const struct topo_graph *g, int32_t gpus, int32_t a, int32_t b)
{
	return memcmp(g->order[a], g->order[b], (size_t)gpus * sizeof g->order[a][0]) == 0 &&
	       g->nic[a][0] == g->nic[b][0] && g->nic[a][1] == g->nic[b][1];
}

static bool picture_is_first(const struct topo_graph *g, int32_t gpus, int32_t c)
{
	for (int32_t i = 0; i < c; i++)
		if (picture_same_ring(g, gpus, i, c))
			return false;
	return true;
}

/* Writes "channels 0, 2, 4" for the channels that are the same ring. */
static void picture_ring_label(const struct topo_graph *g, int32_t gpus, int32_t c,
			       char text[2][64])
{
	int n = 0, alike = 0;

	text[1][0] = '\0';
	for (int32_t i = c; i < g->nchannels; i++) {
		if (!picture_same_ring(g, gpus, c, i))
			continue;
		alike++;
		if (n < 12)
			n += snprintf(text[1] + n, 64 - (size_t)n, "%s%d", n ? ", " : "", i);
		else if (n < 16)
			n += snprintf(text[1] + n, 64 - (size_t)n, ", ...");
	}
	ASSERT(alike > 0); /* `c` itself */
	snprintf(text[0], 64, alike == 1 ? "channel" : "%d channels", alike);
}

/* Draws an arrow between columns: above the line to the right, below it to the left. */
static void picture_arrow(const struct picture *p, int32_t from, int32_t to, int y,
			  const char *color)
{
	int way = to > from ? -1 : 1, far = abs(to - from);
	int lift = way * (12 + 24 * far / MAX_OF(p->columns - 1, 1));
	int start = picture_x(from) - way * 7, end = picture_x(to) + way * 7;

	if (from == to)
		return;
	fprintf(p->out,
		"<path class=\"ring\" stroke=\"%s\" marker-end=\"url(#end)\" d=\"M%d %d C%d %d %d "
		"%d "
		"%d %d\"/>\n",
		color, start, y + way * 7, start - way * 10, y + lift + way * 7, end + way * 10,
		y + lift + way * 7, end, y + way * 10);
}

static int32_t picture_nic_column(const struct picture *p, int32_t nic)
{
	ASSERT(nic >= 0); /* the channel leaves the host */
	return p->column[p->e[topo_element_of_nic(p->sys, nic)].parent];
}

static void picture_ring_gpus(const struct picture *p, const struct topo_graph *g, int32_t c, int y,
			      const char *color)
{
	int32_t gpus = topo_gpu_count(p->sys);

	for (int32_t i = 0; i < gpus; i++) {
		int x = picture_x(p->column[topo_element_of_gpu(p->sys, g->order[c][i])]);
		char place[16];

		fprintf(p->out,
			"<circle cx=\"%d\" cy=\"%d\" r=\"10\" fill=\"#fff\" stroke=\"%s\"/>\n", x,
			y, color);
		snprintf(place, sizeof place, "%d", i);
		picture_label(p, x, y + 4, "place", place);
	}
}

/* Returns the GPUs of a tree's chain that connect to child hosts: bit 0 for the first, bit 1 for
 * the second one. */
static uint32_t picture_tree_leaves(const struct picture *p, const struct topo_graph *g)
{
	if (g->shape == TOPO_SHAPE_TREE || topo_gpu_count(p->sys) < 2)
		return 1;
	return g->shape == TOPO_SHAPE_SPLIT_TREE ? 2 : 3;
}

/* Returns the purpose of the NIC of a side; NULL: the channel does not use it. */
static const char *picture_nic_use(const struct picture *p, const struct topo_graph *g, int side,
				   bool both)
{
	uint32_t leaves = picture_tree_leaves(p, g);

	if (g->pattern == TOPO_RING)
		return both ? "in out" : side ? "out" : "in";
	if (side)
		return leaves & 2 ? "down" : NULL;
	return both || (leaves & 1) ? "up down" : "up";
}

static void picture_ring_nics(const struct picture *p, const struct topo_graph *g, int32_t c, int y,
			      const char *color)
{
	const int half = g->pattern == TOPO_RING ? 20 : 26;
	bool same = g->nic[c][0] == g->nic[c][1];

	for (int side = 0; side < (same ? 1 : 2); side++) {
		int x = picture_x(picture_nic_column(p, g->nic[c][side]));
		const char *use = picture_nic_use(p, g, side, same);

		if (!use)
			continue;

		fprintf(p->out,
			"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"18\" fill=\"#fff\" "
			"stroke=\"%s\"/>\n",
			x - half, y - 9, 2 * half, color);
		picture_label(p, x, y + 4, "place", use);
	}
}

/* Draws the arrows to child hosts, for a tree between hosts. */
static void picture_tree_way(const struct picture *p, const struct topo_graph *g, int32_t c,
			     const int32_t *column, int y, const char *color)
{
	for (int side = 0; side < 2 && g->nic[c][0] >= 0; side++)
		if (picture_tree_leaves(p, g) >> side & 1)
			picture_arrow(p, column[side], picture_nic_column(p, g->nic[c][side]), y,
				      color);
}

static void picture_ring_way(const struct picture *p, const struct topo_graph *g, int32_t c, int y,
			     const char *color)
{
	int32_t gpus = topo_gpu_count(p->sys), column[TOPO_MAX_LOCAL];

	ASSERT(gpus >= 1 && gpus <= TOPO_MAX_LOCAL);
	for (int32_t i = 0; i < gpus; i++)
		column[i] = p->column[topo_element_of_gpu(p->sys, g->order[c][i])];
	for (int32_t i = 0; i + 1 < gpus; i++)
		picture_arrow(p, column[i], column[i + 1], y, color);
	if (g->nic[c][0] >= 0)
		picture_arrow(p, picture_nic_column(p, g->nic[c][0]), column[0], y, color);
	if (g->pattern == TOPO_TREE)
		picture_tree_way(p, g, c, column, y, color);
	else if (g->nic[c][0] >= 0)
		picture_arrow(p, column[gpus - 1], picture_nic_column(p, g->nic[c][1]), y, color);
	else
		picture_arrow(p, column[gpus - 1], column[0], y, color);
}

static int picture_rings(const struct picture *p, const struct topo_graph *g)
{
	int32_t gpus = topo_gpu_count(p->sys);
	int y = p->lanes_y + PICTURE_LANE / 2;
	uint32_t number = 0;
	char text[2][64];

	for (int32_t c = 0; c < g->nchannels; c++) {
		if (!picture_is_first(g, gpus, c))
			continue;
		const char *color = svg_color(number++);

		picture_ring_label(g, gpus, c, text);
		picture_label(p, 20, y - 4, "lane", text[0]);
		picture_label(p, 20, y + 14, "lane", text[1]);
		picture_ring_way(p, g, c, y, color);
		picture_ring_gpus(p, g, c, y, color);
		if (g->nic[c][0] >= 0)
			picture_ring_nics(p, g, c, y, color);
		y += PICTURE_LANE;
	}
	return y;
}

/* ---- the picture ---------------------------------------------------------------------------- */

static int32_t picture_lanes(const struct picture *p, const struct topo_graph *g)
{
	int32_t n = 0;

	for (int32_t c = 0; c < g->nchannels; c++)
		n += picture_is_first(g, topo_gpu_count(p->sys), c);
	return n;
}

static void picture_begin(const struct picture *p, int height)
{
	fprintf(p->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n"
		"<style>rect{stroke:#444} .cpu{fill:#e8e8e8} .switch{fill:#f6f6f6} "
		".gpu{fill:#d5ecd4} .nic{fill:#d9e8f5} .nvs{fill:#e3f3d0} line,path{fill:none} "
		".pci{stroke:#444} .sys{stroke:#444;stroke-width:4} .nvlink{stroke:#5a9a1f;"
		"stroke-width:2} .guide{stroke:#ddd;stroke-dasharray:2 4} .ring{stroke-width:2} "
		"text{text-anchor:middle} .title{font-size:18px} .title,.speed,.lane{text-anchor:"
		"start} .small{font-size:11px} .speed{font-size:10px;fill:#555} "
		".place{font-size:11px}</style>\n"
		"<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
		"markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
		"style=\"fill:#333\"/></marker></defs>\n"
		"<rect width=\"%d\" height=\"%d\" style=\"fill:#fff;stroke:none\"/>\n",
		p->width, height, p->width, height, p->width, height);
}

static void picture_title(const struct picture *p, const char *path, const struct topo_graph *g,
			  uint32_t hosts)
{
	const char *base = strrchr(path, '/');
	const char *what = g->pattern == TOPO_TREE ? "trees" : "rings";
	char text[256], intra[TOPO_GBPS_TEXT], inter[TOPO_GBPS_TEXT];

	snprintf(text, sizeof text, "%.100s: %d GPUs, %d NICs", base ? base + 1 : path,
		 topo_gpu_count(p->sys), topo_nic_count(p->sys));
	picture_label(p, 20, 26, "title", text);
	if (hosts > 1)
		snprintf(text, sizeof text,
			 "%s over %u hosts: %d channels of %s GB/s inside (%s), %s between (%s)",
			 what, hosts, g->nchannels, topo_gbps(g->bw_intra_mbps, intra),
			 topo_path_name((enum topo_path_type)g->type_intra),
			 topo_gbps(g->bw_inter_mbps, inter),
			 topo_path_name((enum topo_path_type)g->type_inter));
	else
		snprintf(text, sizeof text, "%s within the host: %d channels of %s GB/s (%s)", what,
			 g->nchannels, topo_gbps(g->bw_intra_mbps, intra),
			 topo_path_name((enum topo_path_type)g->type_intra));
	picture_label(p, 20, 46, "lane", text);
}

static void picture_draw(struct picture *p, const char *path, const struct topo_graph *g,
			 uint32_t hosts)
{
	int height = p->lanes_y + picture_lanes(p, g) * PICTURE_LANE + 20;

	picture_begin(p, height);
	picture_title(p, path, g, hosts);
	for (int32_t i = 0; i < p->n; i++)
		if (p->column[i] != PICTURE_NONE)
			fprintf(p->out,
				"<line class=\"guide\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
				picture_x(p->column[i]), p->fabric_y, picture_x(p->column[i]),
				height - 20);
	picture_boxes(p);
	picture_cpus(p);
	picture_switch(p);
	if (p->mesh) {
		picture_mesh(p);
		picture_mesh_label(p);
	}
	picture_rings(p, g);
	fputs("</svg>\n", p->out);
}

static int picture_machine(const struct topo_options *o, const struct topo_machine *m, FILE *out)
{
	static struct topo_job job;
	struct picture p = {.sys = m->sys, .n = topo_element_count(m->sys), .out = out};
	struct topo_element *e = calloc((size_t)p.n, sizeof *e);
	int32_t *places = calloc(4 * (size_t)p.n, sizeof *places);
	int code = SIM_USAGE;

	if (!e || !places) {
		fprintf(stderr, "doppel topo: no memory for %d elements\n", p.n);
		goto out_free;
	}
	for (int32_t i = 0; i < p.n; i++)
		topo_element_get(m->sys, i, &e[i]);
	p.e = e;
	p.column = places;
	p.first = places + p.n;
	p.last = places + 2 * p.n;
	p.depth = places + 3 * p.n;
	code = cli_topo_job_make(&job, m->sys, o->hosts);
	if (!code) {
		picture_place_all(&p);
		picture_draw(&p, m->file->path, o->trees ? &job.tree : &job.graph, o->hosts);
		cli_topo_job_free(&job);
	}
out_free:
	free(e);
	free(places);
	return code;
}

static int picture_open_and_draw(const struct topo_options *o, const struct topo_machine *m)
{
	FILE *out = o->out ? output_open("doppel topo plot", o->out) : stdout;
	int code = SIM_PASS;

	if (!out)
		return SIM_USAGE;
	if (o->dot)
		cli_topo_dot(m->sys, m->file->path, out);
	else
		code = picture_machine(o, m, out);
	if (o->out && output_close(out, "doppel topo plot", o->out))
		code = SIM_USAGE;
	return code;
}

int cli_topo_plot(const struct topo_options *o)
{
	struct topo_machine m;
	int code = cli_topo_open(&m, o->input[0]);

	if (code)
		return code;
	code = picture_open_and_draw(o, &m);
	cli_topo_close(&m);
	return code;
}
