/* SPDX-License-Identifier: BSD-3-Clause */
/* The boxes of a picture of a machine: CPUs, switches, GPUs, NICs, and the links between them. */
#include <ctype.h>
#include <string.h>

#include "sim/cli/svg.h"
#include "sim/cli/topo/topo_plot.h"
#include "sim/engine/base/output.h"

/* ---- boxes ---------------------------------------------------------------------------------- */

void picture_label(const struct picture *p, int x, int y, const char *class, const char *text)
{
	fprintf(p->out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
	svg_text(text, p->out);
	fputs("</text>\n", p->out);
}

/* Returns "17:00.0": omits a domain of 0. */
static const char *picture_short(const char *bus)
{
	return strncmp(bus, "0000:", 5) == 0 ? bus + 5 : bus;
}

/* Shortens a text to at most `most` letters, the room in a box. */
static void picture_cut(const char *text, size_t most, char out[64])
{
	ASSERT(most > 2 && most < 64);
	if (strlen(text) > most)
		snprintf(out, 64, "%.*s..", (int)most - 2, text);
	else
		snprintf(out, 64, "%.63s", text);
}

/* Returns the first network device of a NIC. *ports: number of its network devices. */
static int32_t picture_net(const struct picture *p, int32_t nic, int *ports)
{
	int32_t first = PICTURE_NONE;

	*ports = 0;
	for (int32_t i = 0; i < p->n; i++)
		if (p->e[i].type == TOPO_NODE_NET && p->e[i].parent == nic) {
			first = first == PICTURE_NONE ? i : first;
			(*ports)++;
		}
	return first;
}

/* Writes "mlx5_0+1" for a merged NIC "mlx5_0+mlx5_1", because boxes are narrow. */
void picture_nic_name(const char *name, char out[TOPO_NIC_NAME])
{
	size_t first = strcspn(name, "+"), at = first;

	snprintf(out, TOPO_NIC_NAME, "%.*s", (int)first, name);
	for (const char *part = name + first; *part; part += 1 + strcspn(part + 1, "+")) {
		size_t same = 0, n = strcspn(part + 1, "+");

		while (same < n && same < first && part[1 + same] == name[same])
			same++;
		while (same && isdigit((unsigned char)name[same - 1]))
			same--;
		at += (size_t)snprintf(out + at, TOPO_NIC_NAME - at, "+%.*s", (int)(n - same),
				       part + 1 + same);
		ASSERT(at < TOPO_NIC_NAME); /* parts lose letters, and gain none */
	}
}

static void picture_leaf_text(const struct picture *p, int32_t node, char upper[64], char lower[64])
{
	const struct topo_element *e = &p->e[node];
	char name[TOPO_ELEMENT_TEXT], gbps[TOPO_GBPS_TEXT];
	int ports;

	picture_cut(picture_short(e->name), 10, lower);
	if (e->type == TOPO_NODE_GPU) {
		snprintf(upper, 64, "%s", topo_element_text(e, name));
		return;
	}
	int32_t net = picture_net(p, node, &ports);

	snprintf(upper, 64, "NIC");
	if (net == PICTURE_NONE)
		return;
	picture_nic_name(p->e[net].name, name);
	picture_cut(name, ports > 1 ? 7 : 10, upper);
	if (ports > 1)
		snprintf(upper + strlen(upper), 64 - strlen(upper), " +%d", ports - 1);
	snprintf(lower, 64, "%s GB/s", topo_gbps(p->e[net].mbps, gbps));
}

/* Draws the link from the bar above down to `y`, with its speed. */
static void picture_up(const struct picture *p, int32_t node, int x, int y)
{
	const struct topo_element *e = &p->e[node];
	char gbps[TOPO_GBPS_TEXT], text[64];
	int top = picture_bar_y(p, e->parent) + PICTURE_BAR;

	ASSERT(e->parent >= 0); /* only CPUs have no bar above them */

	fprintf(p->out, "<line class=\"pci\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", x, top,
		x, y);
	if (!e->up_mbps || e->up_mbps > 1000000) /* a NIC directly below a CPU has no link */
		return;
	picture_label(p, x + 4, top + 14, "speed", topo_gbps(e->up_mbps, gbps));
	if (e->lanes) {
		snprintf(text, sizeof text, "x%d", e->lanes);
		picture_label(p, x + 4, top + 27, "speed", text);
	}
}

static void picture_leaf(const struct picture *p, int32_t node)
{
	int x = picture_x(p->column[node]);
	char upper[64], lower[64];

	picture_up(p, node, x, p->leaves_y);
	picture_leaf_text(p, node, upper, lower);
	fprintf(p->out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
		p->e[node].type == TOPO_NODE_GPU ? "gpu" : "nic", x - PICTURE_COLUMN / 2 + 4,
		p->leaves_y, PICTURE_COLUMN - 8, PICTURE_BOX);
	picture_label(p, x, p->leaves_y + 19, "name", upper);
	picture_label(p, x, p->leaves_y + 36, "small", lower);
}

static void picture_bar_text(const struct topo_element *e, char text[96])
{
	char name[TOPO_ELEMENT_TEXT];

	if (e->type == TOPO_NODE_CPU)
		snprintf(text, 96, "%s, %s %s", topo_element_text(e, name), e->arch, e->vendor);
	else
		snprintf(text, 96, "PCI %s", picture_short(e->name));
}

static void picture_bar(const struct picture *p, int32_t node)
{
	const struct topo_element *e = &p->e[node];
	int left = PICTURE_LEFT + p->first[node] * PICTURE_COLUMN + 4;
	int right = PICTURE_LEFT + (p->last[node] + 1) * PICTURE_COLUMN - 4;
	int y = picture_bar_y(p, node), middle = (left + right) / 2;
	char text[96], cut[64];

	ASSERT(p->first[node] <= p->last[node]); /* the bar covers the columns of all below it */
	if (e->type == TOPO_NODE_PCI)
		picture_up(p, node, middle, y);
	fprintf(p->out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
		e->type == TOPO_NODE_CPU ? "cpu" : "switch", left, y, right - left, PICTURE_BAR);
	picture_bar_text(e, text);
	picture_cut(text, (size_t)MIN_OF((right - left) / 7, 62), cut);
	picture_label(p, middle, y + 18, e->type == TOPO_NODE_CPU ? "name" : "small", cut);
}

void picture_boxes(const struct picture *p)
{
	for (int32_t i = 0; i < p->n; i++)
		if (p->column[i] != PICTURE_NONE)
			picture_leaf(p, i);
		else if (p->first[i] != PICTURE_NONE)
			picture_bar(p, i);
}

/* ---- NVLinks and links between CPUs ---------------------------------------------------------- */

void picture_switch(const struct picture *p)
{
	int32_t first = INT32_MAX, last = PICTURE_NONE;
	char gbps[TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < topo_edge_count(p->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(p->sys, i, &edge);
		if (edge.type != TOPO_PATH_NVL || p->e[edge.to].type != TOPO_NODE_NVS ||
		    p->column[edge.from] == PICTURE_NONE)
			continue;
		int x = picture_x(p->column[edge.from]);

		first = MIN_OF(first, p->column[edge.from]);
		last = MAX_OF(last, p->column[edge.from]);
		fprintf(p->out,
			"<line class=\"nvlink\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", x,
			p->fabric_y, x, p->fabric_y + 28);
		picture_label(p, x + 4, p->fabric_y + 18, "speed", topo_gbps(edge.mbps, gbps));
	}
	if (last == PICTURE_NONE)
		return;
	int left = picture_x(first) - PICTURE_COLUMN / 2 + 4;
	int right = picture_x(last) + PICTURE_COLUMN / 2 - 4;

	fprintf(p->out, "<rect class=\"nvs\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
		left, p->fabric_y + 28, right - left, PICTURE_BAR);
	picture_label(p, (left + right) / 2, p->fabric_y + 46, "name", "NVSwitch");
}

/* Draws each direct link once; a higher bandwidth is wider. */
void picture_mesh(const struct picture *p)
{
	for (int32_t i = 0; i < topo_edge_count(p->sys); i++) {
		struct topo_edge edge;
		char name[2][TOPO_ELEMENT_TEXT], gbps[TOPO_GBPS_TEXT];

		topo_edge_get(p->sys, i, &edge);
		int32_t a = p->column[edge.from], b = p->column[edge.to];

		if (edge.type != TOPO_PATH_NVL || p->e[edge.to].type != TOPO_NODE_GPU || a >= b)
			continue;
		int depth = 14 + 46 * (b - a) / MAX_OF(p->columns - 1, 1);

		fprintf(p->out,
			"<path class=\"nvlink\" stroke-width=\"%d\" d=\"M%d %d C%d %d %d %d %d "
			"%d\">"
			"<title>%s to %s: NVL %s GB/s</title></path>\n",
			edge.mbps >= 60000 ? 3 : 2, picture_x(a), p->fabric_y, picture_x(a),
			p->fabric_y + depth, picture_x(b), p->fabric_y + depth, picture_x(b),
			p->fabric_y, topo_element_text(&p->e[edge.from], name[0]),
			topo_element_text(&p->e[edge.to], name[1]), topo_gbps(edge.mbps, gbps));
	}
}

void picture_cpus(const struct picture *p)
{
	int32_t before = PICTURE_NONE;
	char text[32], gbps[TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < p->n; i++) {
		if (p->e[i].type != TOPO_NODE_CPU)
			continue;
		int left = PICTURE_LEFT + p->first[i] * PICTURE_COLUMN;

		for (int32_t k = 0; before != PICTURE_NONE && k < topo_edge_count(p->sys); k++) {
			struct topo_edge edge;

			topo_edge_get(p->sys, k, &edge);
			if (edge.from != before || edge.to != i)
				continue;
			fprintf(p->out,
				"<line class=\"sys\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
				left - 4, PICTURE_TOP + PICTURE_BAR / 2, left + 4,
				PICTURE_TOP + PICTURE_BAR / 2);
			snprintf(text, sizeof text, "SYS %s", topo_gbps(edge.mbps, gbps));
			picture_label(p, left, PICTURE_TOP - 6, "small", text);
		}
		before = i;
	}
}

/* Prints the bandwidths of direct links as text: arcs have no room for labels. */
void picture_mesh_label(const struct picture *p)
{
	uint32_t least = UINT32_MAX, most = 0;
	char text[96], low[TOPO_GBPS_TEXT], high[TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < topo_edge_count(p->sys); i++) {
		struct topo_edge edge;

		topo_edge_get(p->sys, i, &edge);
		if (edge.type != TOPO_PATH_NVL || p->e[edge.to].type != TOPO_NODE_GPU)
			continue;
		least = MIN_OF(least, edge.mbps);
		most = MAX_OF(most, edge.mbps);
	}
	ASSERT(least <= most); /* picture_place_all has found such a link */
	picture_label(p, 20, p->fabric_y + 18, "lane", "NVLinks,");
	if (least == most)
		snprintf(text, sizeof text, "%s GB/s a pair", topo_gbps(most, high));
	else
		snprintf(text, sizeof text, "%s to %s GB/s", topo_gbps(least, low),
			 topo_gbps(most, high));
	picture_label(p, 20, p->fabric_y + 36, "lane", text);
}
