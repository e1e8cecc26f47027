/* SPDX-License-Identifier: BSD-3-Clause */
/* doppel topo plot --dot: writes the machine in Graphviz' language, with a node per element and an
 * edge per link. */
#include <string.h>

#include "sim/cli/topo/topo.h"

/* Writes text for a quoted string. */
static void dot_text(const char *text, FILE *out)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc((uint8_t)*text < ' ' || (uint8_t)*text > '~' ? '?' : *text, out);
}

static void dot_node(const struct topo_system *sys, int32_t index, FILE *out)
{
	static const char *const shape[] = {
		[TOPO_NODE_GPU] = "box, style=filled, fillcolor=\"#d5ecd4\"",
		[TOPO_NODE_PCI] = "box, style=rounded",
		[TOPO_NODE_NVS] = "ellipse, style=filled, fillcolor=\"#e3f3d0\"",
		[TOPO_NODE_CPU] = "box, style=filled, fillcolor=\"#e8e8e8\"",
		[TOPO_NODE_NIC] = "box",
		[TOPO_NODE_C2C] = "ellipse",
		[TOPO_NODE_NET] = "box, style=filled, fillcolor=\"#d9e8f5\"",
	};
	char name[TOPO_ELEMENT_TEXT];
	struct topo_element e;

	topo_element_get(sys, index, &e);
	ASSERT((size_t)e.type < ARRAY_LEN(shape) && shape[e.type]); /* a shape for each type */
	fprintf(out, "\tn%d [label=\"", index);
	dot_text(topo_element_text(&e, name), out);
	if (e.type == TOPO_NODE_GPU) {
		fputs("\\n", out);
		dot_text(e.name, out);
	}
	fprintf(out, "\", shape=%s];\n", shape[e.type]);
}

static uint32_t dot_back(const struct topo_system *sys, const struct topo_edge *edge)
{
	struct topo_edge other;

	for (int32_t i = 0; i < topo_edge_count(sys); i++) {
		topo_edge_get(sys, i, &other);
		if (other.from == edge->to && other.to == edge->from && other.type == edge->type)
			return other.mbps;
	}
	return 0;
}

/* Writes a link. A link with equal bandwidth in both directions is one line without arrows. */
static void dot_edge(const struct topo_system *sys, const struct topo_edge *edge, FILE *out)
{
	bool both = dot_back(sys, edge) == edge->mbps;
	char gbps[TOPO_GBPS_TEXT];

	if (both && edge->from > edge->to)
		return;
	fprintf(out, "\tn%d -> n%d [label=\"%s %s\"%s%s];\n", edge->from, edge->to,
		topo_path_name(edge->type), topo_gbps(edge->mbps, gbps), both ? ", dir=none" : "",
		edge->type == TOPO_PATH_NVL ? ", color=\"#5a9a1f\", constraint=false" : "");
}

void cli_topo_dot(const struct topo_system *sys, const char *title, FILE *out)
{
	struct topo_edge edge;

	fputs("digraph machine {\n\tlabel=\"", out);
	dot_text(title, out);
	fputs("\";\n\tnode [fontname=\"sans-serif\"];\n", out);
	for (int32_t i = 0; i < topo_element_count(sys); i++)
		dot_node(sys, i, out);
	for (int32_t i = 0; i < topo_edge_count(sys); i++) {
		topo_edge_get(sys, i, &edge);
		dot_edge(sys, &edge, out);
	}
	fputs("}\n", out);
}
