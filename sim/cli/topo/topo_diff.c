/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doppel topo diff: compares two machines element by element, or two graph files channel by
 * channel. A line names a difference and shows both sides:
 *
 *	GPU 3 (line 31 | 33): PCI link x16 32 GT/s | x8 32 GT/s
 *
 * Elements with the same name are the same element: GPUs by rank, network devices by name, CPUs by
 * NUMA node, others by bus id.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/os/os_ops.h"
#include "core/topo/search/graph_file.h"
#include "sim/cli/topo/topo.h"

enum { DIFF_TEXT = 160 };

struct diff {
	const struct topo_system *sys[2];
	int differences;
};

__attribute__((format(printf, 2, 3))) static void diff_line(struct diff *d, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	d->differences++;
}

/* ---- elements ------------------------------------------------------------------------------- */

/* Writes one compared property of an element as text; "": it has no such property. */
static void diff_parent(const struct topo_system *sys, const struct topo_element *e, char *text)
{
	char name[TOPO_ELEMENT_TEXT];
	struct topo_element up;

	if (e->parent < 0)
		return;
	topo_element_get(sys, e->parent, &up);
	snprintf(text, DIFF_TEXT, "below %s", topo_element_text(&up, name));
}

static void diff_address(const struct topo_system *sys, const struct topo_element *e, char *text)
{
	(void)sys;
	if (e->type == TOPO_NODE_GPU)
		snprintf(text, DIFF_TEXT, "%s dev %d", e->name, e->dev);
}

static void diff_pci(const struct topo_system *sys, const struct topo_element *e, char *text)
{
	char pci[TOPO_PCI_TEXT], gbps[TOPO_GBPS_TEXT];

	(void)sys;
	topo_pci_text(e, pci);
	if (e->up_mbps)
		snprintf(text, DIFF_TEXT, "PCI link %s%s%s GB/s", pci, pci[0] ? ", " : "",
			 topo_gbps(e->up_mbps, gbps));
}

static void diff_id(const struct topo_system *sys, const struct topo_element *e, char *text)
{
	(void)sys;
	if (e->pci_id)
		snprintf(text, DIFF_TEXT, "PCI id %04x:%04x", (unsigned)(e->pci_id >> 48),
			 (unsigned)(e->pci_id >> 32 & 0xffff));
}

static void diff_kind(const struct topo_system *sys, const struct topo_element *e, char *text)
{
	char gbps[TOPO_GBPS_TEXT];

	(void)sys;
	if (e->type == TOPO_NODE_GPU)
		snprintf(text, DIFF_TEXT, e->gcn ? "gfx%x%s" : "sm %d%s",
			 e->gcn ? (unsigned)e->gcn : (unsigned)e->sm, e->gdr ? " gdr" : "");
	if (e->type == TOPO_NODE_NET)
		snprintf(text, DIFF_TEXT, "NIC %d, %s GB/s%s", e->number, topo_gbps(e->mbps, gbps),
			 e->gdr ? " gdr" : "");
	if (e->type == TOPO_NODE_CPU)
		snprintf(text, DIFF_TEXT, "%s %s family %d model %d", e->arch, e->vendor, e->family,
			 e->model);
}

static void (*const diff_fields[])(const struct topo_system *sys, const struct topo_element *e,
				   char *text) = {diff_parent, diff_address, diff_pci, diff_id,
						  diff_kind};

/* Returns the element with the same name in the other machine; -1: none. */
static int32_t diff_find(const struct topo_system *sys, const struct topo_element *like)
{
	char name[TOPO_ELEMENT_TEXT], other[TOPO_ELEMENT_TEXT];
	struct topo_element e;

	topo_element_text(like, name);
	for (int32_t i = 0; i < topo_element_count(sys); i++) {
		topo_element_get(sys, i, &e);
		if (e.type == like->type && strcmp(topo_element_text(&e, other), name) == 0)
			return i;
	}
	return -1;
}

static void diff_element(struct diff *d, const struct topo_element *a, const struct topo_element *b)
{
	char name[TOPO_ELEMENT_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(diff_fields); i++) {
		char text[2][DIFF_TEXT] = {"", ""};

		diff_fields[i](d->sys[0], a, text[0]);
		diff_fields[i](d->sys[1], b, text[1]);
		if (strcmp(text[0], text[1]) != 0)
			diff_line(d, "%s (line %d | %d): %s | %s", topo_element_text(a, name),
				  a->line, b->line, text[0][0] ? text[0] : "none",
				  text[1][0] ? text[1] : "none");
	}
}

static void diff_only(struct diff *d, int which)
{
	char name[TOPO_ELEMENT_TEXT];
	struct topo_element e;

	for (int32_t i = 0; i < topo_element_count(d->sys[which]); i++) {
		topo_element_get(d->sys[which], i, &e);
		if (diff_find(d->sys[!which], &e) < 0)
			diff_line(d, "%s (line %d): only in the %s", topo_element_text(&e, name),
				  e.line, which ? "second" : "first");
	}
}

static void diff_elements(struct diff *d)
{
	struct topo_element a, b;

	diff_only(d, 0);
	diff_only(d, 1);
	for (int32_t i = 0; i < topo_element_count(d->sys[0]); i++) {
		topo_element_get(d->sys[0], i, &a);
		int32_t k = diff_find(d->sys[1], &a);

		if (k < 0)
			continue;
		topo_element_get(d->sys[1], k, &b);
		diff_element(d, &a, &b);
	}
}

/* ---- links and paths ------------------------------------------------------------------------ */

static uint32_t diff_mbps(const struct topo_system *sys, int32_t from, int32_t to,
			  enum topo_path_type type)
{
	struct topo_edge edge;

	for (int32_t i = 0; from >= 0 && to >= 0 && i < topo_edge_count(sys); i++) {
		topo_edge_get(sys, i, &edge);
		if (edge.from == from && edge.to == to && edge.type == type)
			return edge.mbps;
	}
	return 0;
}

static const char *diff_gbps(uint32_t mbps, char text[TOPO_GBPS_TEXT])
{
	return mbps ? topo_gbps(mbps, text) : "none";
}

/* Reports links of machine `which` that the other lacks or has at another speed. Skips the PCI
 * tree's links, which diff_element compares. */
static void diff_links(struct diff *d, int which)
{
	char name[2][TOPO_ELEMENT_TEXT], gbps[2][TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < topo_edge_count(d->sys[which]); i++) {
		struct topo_edge edge;
		struct topo_element from, to;

		topo_edge_get(d->sys[which], i, &edge);
		if (edge.type == TOPO_PATH_PIX || edge.type == TOPO_PATH_NET)
			continue;
		topo_element_get(d->sys[which], edge.from, &from);
		topo_element_get(d->sys[which], edge.to, &to);
		int32_t a = diff_find(d->sys[!which], &from), b = diff_find(d->sys[!which], &to);
		uint32_t other = diff_mbps(d->sys[!which], a, b, edge.type);

		/* a link that both machines have is reported in the first pass only */
		if (a < 0 || b < 0 || other == edge.mbps || (which && other))
			continue;
		diff_line(d, "%s to %s: %s %s | %s", topo_element_text(&from, name[0]),
			  topo_element_text(&to, name[1]), topo_path_name(edge.type),
			  diff_gbps(which ? other : edge.mbps, gbps[0]),
			  diff_gbps(which ? edge.mbps : other, gbps[1]));
	}
}

static void diff_paths(struct diff *d)
{
	int32_t gpus = MIN_OF(topo_gpu_count(d->sys[0]), topo_gpu_count(d->sys[1]));
	int different = 0, first = -1;
	char gbps[2][TOPO_GBPS_TEXT];

	for (int32_t i = 0; i < gpus * gpus; i++) {
		int32_t a = i / gpus, b = i % gpus;
		bool same = topo_gpu_path(d->sys[0], a, b) == topo_gpu_path(d->sys[1], a, b) &&
			    topo_gpu_bw_mbps(d->sys[0], a, b) == topo_gpu_bw_mbps(d->sys[1], a, b);

		different += !same;
		first = first < 0 && !same ? i : first;
	}
	if (first < 0)
		return;
	int32_t a = first / gpus, b = first % gpus;

	diff_line(d,
		  "paths from GPU to GPU: %d of %d differ, the first from GPU %d to GPU %d: %s %s "
		  "| %s %s",
		  different, gpus * gpus, a, b, topo_path_name(topo_gpu_path(d->sys[0], a, b)),
		  topo_gbps(topo_gpu_bw_mbps(d->sys[0], a, b), gbps[0]),
		  topo_path_name(topo_gpu_path(d->sys[1], a, b)),
		  topo_gbps(topo_gpu_bw_mbps(d->sys[1], a, b), gbps[1]));
}

static int diff_machines(struct diff *d, const struct topo_options *o)
{
	struct topo_machine m[2];
	int code = cli_topo_open(&m[0], o->input[0]);

	if (code)
		return code;
	code = cli_topo_open(&m[1], o->input[1]);
	if (!code) {
		d->sys[0] = m[0].sys;
		d->sys[1] = m[1].sys;
		diff_elements(d);
		diff_links(d, 0);
		diff_links(d, 1);
		diff_paths(d);
		cli_topo_close(&m[1]);
	}
	cli_topo_close(&m[0]);
	return code;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void diff_hops_text(const struct topo_file_channel *c, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int32_t i = 0; i < c->count && n + 24 < bytes; i++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s%d", i ? " " : "",
				      c->hop[i].net ? "nic " : "", c->hop[i].dev);
}

static void diff_channels(struct diff *d, const struct topo_file_graph *a,
			  const struct topo_file_graph *b)
{
	static char text[2][24 * TOPO_FILE_HOPS];

	for (int32_t c = 0; c < MIN_OF(a->nchannels, b->nchannels); c++) {
		diff_hops_text(&a->channel[c], text[0], sizeof text[0]);
		diff_hops_text(&b->channel[c], text[1], sizeof text[1]);
		if (strcmp(text[0], text[1]) != 0)
			diff_line(d, "%s, channel %d (line %d | %d): %s | %s",
				  topo_shape_name((enum topo_shape)a->pattern), c,
				  a->channel[c].line, b->channel[c].line, text[0], text[1]);
	}
}

static void diff_graph_figures(const struct topo_file_graph *g, char text[4][DIFF_TEXT])
{
	char intra[TOPO_GBPS_TEXT], inter[TOPO_GBPS_TEXT];

	snprintf(text[0], DIFF_TEXT, "%d channel%s", g->nchannels, g->nchannels == 1 ? "" : "s");
	snprintf(text[1], DIFF_TEXT, "%s/%s GB/s", topo_gbps(g->bw_intra_mbps, intra),
		 topo_gbps(g->bw_inter_mbps, inter));
	snprintf(text[2], DIFF_TEXT, "%s/%s", topo_path_name((enum topo_path_type)g->type_intra),
		 topo_path_name((enum topo_path_type)g->type_inter));
	snprintf(text[3], DIFF_TEXT, "cross-NIC %d, same channels %d", g->cross_nic,
		 g->same_channels);
}

static void diff_graph(struct diff *d, const struct topo_file_graph *a,
		       const struct topo_file_graph *b)
{
	char of_a[4][DIFF_TEXT], of_b[4][DIFF_TEXT];

	diff_graph_figures(a, of_a);
	diff_graph_figures(b, of_b);
	for (int i = 0; i < 4; i++)
		if (strcmp(of_a[i], of_b[i]) != 0)
			diff_line(d, "%s (line %d | %d): %s | %s",
				  topo_shape_name((enum topo_shape)a->pattern), a->line, b->line,
				  of_a[i], of_b[i]);
	diff_channels(d, a, b);
}

static const struct topo_file_graph *diff_graph_find(const struct topo_graph_file *file,
						     const struct topo_file_graph *like)
{
	for (int32_t i = 0; i < file->count; i++)
		if (file->graph[i].id == like->id && file->graph[i].pattern == like->pattern)
			return &file->graph[i];
	return NULL;
}

static void diff_files(struct diff *d, const struct topo_graph_file *a,
		       const struct topo_graph_file *b)
{
	for (int32_t i = 0; i < a->count; i++) {
		const struct topo_file_graph *other = diff_graph_find(b, &a->graph[i]);

		if (other)
			diff_graph(d, &a->graph[i], other);
		else
			diff_line(d, "%s, graph %d (line %d): only in the first",
				  topo_shape_name((enum topo_shape)a->graph[i].pattern),
				  a->graph[i].id, a->graph[i].line);
	}
	for (int32_t i = 0; i < b->count; i++)
		if (!diff_graph_find(a, &b->graph[i]))
			diff_line(d, "%s, graph %d (line %d): only in the second",
				  topo_shape_name((enum topo_shape)b->graph[i].pattern),
				  b->graph[i].id, b->graph[i].line);
}

/* ---- machines or graph files ----------------------------------------------------------------- */

struct diff_text {
	char *text; /* NULL: the file cannot be read */
	size_t bytes;
};

static struct diff_text diff_read(const char *name)
{
	struct diff_text t = {0};

	if (os_real_ops.file_read(name, &t.text, &t.bytes))
		t.text = NULL;
	return t;
}

/* True if the root element is <graphs>. A file that is not XML counts as a machine, whose reader
 * reports the error. */
static bool diff_has_graphs(const char *name)
{
	struct diff_text t = diff_read(name);
	struct xml_error error;
	struct xml_doc *doc;
	bool graphs = false;

	if (t.text && xml_parse(t.text, t.bytes, name, &doc, &error) == 0) {
		graphs = strcmp(xml_root(doc)->name, "graphs") == 0;
		xml_free(doc);
	}
	os_free(t.text);
	return graphs;
}

static int diff_open(const char *name, struct topo_graph_file **file)
{
	struct diff_text t = diff_read(name);
	ncclResult_t rc;

	if (!t.text) {
		fprintf(stderr, "doppel topo: %s: cannot be read\n", name);
		return SIM_USAGE;
	}
	rc = topo_graph_file_read(t.text, t.bytes, name, file);
	os_free(t.text);
	return rc ? cli_topo_refused() : SIM_PASS;
}

static int diff_graphs(struct diff *d, const struct topo_options *o)
{
	struct topo_graph_file *a, *b;
	int code = diff_open(o->input[0], &a);

	if (code)
		return code;
	code = diff_open(o->input[1], &b);
	if (!code) {
		diff_files(d, a, b);
		topo_graph_file_free(b);
	}
	topo_graph_file_free(a);
	return code;
}

int cli_topo_diff(const struct topo_options *o)
{
	bool first = diff_has_graphs(o->input[0]), second = diff_has_graphs(o->input[1]);
	struct diff d = {0};
	int code;

	if (first != second) {
		fprintf(stderr,
			"doppel topo diff: %s is a file of graphs and %s is not; expected two of a "
			"kind\n",
			o->input[second], o->input[first]);
		return SIM_USAGE;
	}
	code = first ? diff_graphs(&d, o) : diff_machines(&d, o);
	if (code)
		return code;
	printf("%d difference%s\n", d.differences, d.differences == 1 ? "" : "s");
	return d.differences ? SIM_ERROR : SIM_PASS;
}
