/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/topo/search/graph_file.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/xml.h"
#include "core/topo/topo_internal.h"

/* Most channels of a graph in a file: half of DEV_MAX_CHANNELS, because connecting doubles them. */
#define TOPO_FILE_CHANNELS (DEV_MAX_CHANNELS / 2)

/* ---- reading -------------------------------------------------------------------------------- */

static ncclResult_t topo_file_speed(const struct xml_node *x, const char *name, uint32_t *mbps)
{
	struct xml_error error;
	int64_t milli;

	if (xml_attr_milli(x, name, NULL, 0, &milli, &error)) {
		WARN("%s", error.text);
		return ncclInvalidUsage;
	}
	if (milli < 0 || milli > TOPO_LOC_BW_MBPS)
		return topo_input_refuse(x, "%s=\"%s\", expected 0 to %u", name, xml_attr(x, name),
					 TOPO_LOC_BW_MBPS / 1000);
	*mbps = (uint32_t)milli;
	return ncclSuccess;
}

static ncclResult_t topo_file_type(const struct xml_node *x, const char *name, int32_t *type)
{
	const char *text = xml_attr(x, name);

	for (*type = TOPO_PATH_LOC; text && *type <= TOPO_PATH_DIS; (*type)++)
		if (strcmp(text, topo_path_name((enum topo_path_type) * type)) == 0)
			return ncclSuccess;
	return topo_input_refuse(x, "%s=\"%.32s\", expected a type of path: LOC, NVL, ... SYS",
				 name, text ? text : "");
}

static ncclResult_t topo_file_channel_read(const struct xml_node *x, struct topo_file_channel *c)
{
	ncclResult_t rc = ncclSuccess;

	c->line = x->line;
	c->column = x->column;
	c->count = 0;
	for (struct xml_node *h = xml_child(x, NULL); h && !rc; h = xml_next(h, NULL)) {
		bool net = strcmp(h->name, "net") == 0;

		if (!net && strcmp(h->name, "gpu") != 0)
			continue;
		if (c->count == TOPO_FILE_HOPS)
			return topo_input_refuse(x, "has more than %d elements", TOPO_FILE_HOPS);
		c->hop[c->count].net = net;
		if (!xml_attr(h, "dev"))
			return topo_input_refuse(h, "has no dev, expected the number of a device");
		rc = topo_input_int(h, "dev", 0, 0, INT32_MAX, &c->hop[c->count].dev);
		if (!rc)
			rc = topo_input_int(h, "host", -1, -1, TOPO_MAX_HOSTS - 1,
					    &c->hop[c->count].host);
		if (!rc)
			rc = topo_input_int(h, "mlopart", -1, -1, TOPO_MAX_HALVES - 1,
					    &c->hop[c->count].half);
		c->hop[c->count++].half++;
	}
	return rc;
}

static ncclResult_t topo_file_channels(const struct xml_node *x, struct topo_file_graph *g)
{
	ncclResult_t rc = ncclSuccess;
	int32_t n = 0;

	for (struct xml_node *c = xml_child(x, "channel"); c; c = xml_next(c, "channel"))
		n++;
	if (n != g->nchannels)
		return topo_input_refuse(x, "nchannels=\"%d\", expected %d, as many as it has",
					 g->nchannels, n);
	if (!n)
		return ncclSuccess;
	g->channel = os_alloc((size_t)n * sizeof *g->channel, "channels of a graph file");
	if (!g->channel) {
		WARN("out of memory for %d channels of a graph file", n);
		return ncclSystemError;
	}
	n = 0;
	for (struct xml_node *c = xml_child(x, "channel"); c && !rc; c = xml_next(c, "channel"))
		rc = topo_file_channel_read(c, &g->channel[n++]);
	return rc;
}

static ncclResult_t topo_file_graph_read(const struct xml_node *x, struct topo_file_graph *g)
{
	ncclResult_t rc = topo_input_int(x, "id", 0, 0, 64, &g->id);

	g->line = x->line;
	g->column = x->column;
	if (!rc)
		rc = topo_input_int(x, "pattern", 0, 0, 64, &g->pattern);
	if (!rc)
		rc = topo_input_int(x, "crossnic", 0, 0, 2, &g->cross_nic);
	if (!rc)
		rc = topo_input_int(x, "nchannels", 0, 0, DEV_MAX_CHANNELS, &g->nchannels);
	if (!rc)
		rc = topo_input_int(x, "samechannels", 0, 0, 1, &g->same_channels);
	if (!rc)
		rc = topo_file_speed(x, "speedintra", &g->bw_intra_mbps);
	if (!rc)
		rc = topo_file_speed(x, "speedinter", &g->bw_inter_mbps);
	if (!rc)
		rc = topo_file_type(x, "typeintra", &g->type_intra);
	if (!rc)
		rc = topo_file_type(x, "typeinter", &g->type_inter);
	return rc ? rc : topo_file_channels(x, g);
}

static ncclResult_t topo_file_read_root(const struct xml_node *root, struct topo_graph_file *file)
{
	int32_t version;
	ncclResult_t rc;

	if (strcmp(root->name, "graphs") != 0)
		return topo_input_refuse(root, "is the root element, expected <graphs>");
	rc = topo_input_int(root, "version", 1, 1, 1, &version);
	for (struct xml_node *x = xml_child(root, "graph"); x && !rc; x = xml_next(x, "graph")) {
		if (file->count == TOPO_FILE_GRAPHS)
			return topo_input_refuse(x, "is one too many, expected at most %d",
						 TOPO_FILE_GRAPHS);
		rc = topo_file_graph_read(x, &file->graph[file->count++]);
	}
	return rc;
}

ncclResult_t topo_graph_file_read(const char *xml, size_t bytes, const char *source,
				  struct topo_graph_file **out)
{
	struct topo_graph_file *file = os_alloc(sizeof *file, "graph file");
	struct xml_doc *doc;
	struct xml_error error;
	ncclResult_t rc;

	if (!file) {
		WARN("%s: out of memory", source);
		return ncclSystemError;
	}
	memset(file, 0, sizeof *file);
	snprintf(file->source, sizeof file->source, "%s", source);
	if (xml_parse(xml, bytes, source, &doc, &error)) {
		WARN("%s", error.text);
		topo_graph_file_free(file);
		return ncclInvalidUsage;
	}
	rc = topo_file_read_root(xml_root(doc), file);
	xml_free(doc);
	if (rc)
		topo_graph_file_free(file);
	else
		*out = file;
	return rc;
}

void topo_graph_file_free(struct topo_graph_file *file)
{
	if (!file)
		return;
	for (int32_t i = 0; i < file->count; i++)
		os_free(file->graph[i].channel);
	os_free(file);
}

/* ---- matching with a machine ---------------------------------------------------------------- */

struct topo_match {
	const struct topo_graph_file *file;
	const struct topo_system *sys;
	bool inter;
	struct topo_graph *graph;
};

static bool topo_match_node(const struct topo_node *n, const struct topo_file_hop *hop)
{
	return n->dev == hop->dev && (hop->host < 0 || n->host == hop->host);
}

static int32_t topo_match_gpu(const struct topo_system *sys, const struct topo_file_hop *hop)
{
	for (int32_t pos = 0; pos < sys->ngpus; pos++) {
		const struct topo_node *gpu = topo_gpu_node(sys, pos);

		if (topo_match_node(gpu, hop) && (!hop->half || gpu->gpu.half == hop->half))
			return sys->pos_to_local[pos];
	}
	return -1;
}

static int32_t topo_match_net(const struct topo_system *sys, const struct topo_file_hop *hop)
{
	for (int32_t net = 0; net < sys->nnets; net++)
		if (topo_match_node(topo_net_node(sys, net), hop))
			return net;
	return -1;
}

static ncclResult_t topo_match_refuse(const struct topo_match *m, const struct topo_file_channel *c,
				      const char *what, int32_t number, const char *expected)
{
	WARN("%s:%d:%d: <channel> %s %d, expected %s", m->file->source, c->line, c->column, what,
	     number, expected);
	return ncclInvalidUsage;
}

/* Copies a channel. It must have each GPU in use once, and nets only before the first GPU and after
 * the last. */
static ncclResult_t topo_match_hops(const struct topo_match *m, const struct topo_file_channel *c,
				    int32_t channel)
{
	bool seen[TOPO_MAX_LOCAL] = {false};
	int32_t gpus = 0, nets = 0;

	for (int32_t i = 0; i < c->count; i++) {
		int32_t dev = c->hop[i].dev;
		int32_t at = c->hop[i].net ? topo_match_net(m->sys, &c->hop[i])
					   : topo_match_gpu(m->sys, &c->hop[i]);

		if (c->hop[i].net && (at < 0 || gpus != nets * m->sys->ngpus || nets == 2))
			return topo_match_refuse(m, c, "has <net> dev", dev,
						 "a NIC of this host before and after the GPUs");
		if (!c->hop[i].net && (at < 0 || seen[at]))
			return topo_match_refuse(m, c, "has <gpu> dev", dev,
						 "each GPU in use once");
		if (c->hop[i].net)
			m->graph->nic[channel][nets++] = (int16_t)at;
		else
			m->graph->order[channel][gpus++] = (int16_t)at;
		if (!c->hop[i].net)
			seen[at] = true;
	}
	if (gpus != m->sys->ngpus)
		return topo_match_refuse(m, c, "has GPUs:", gpus, "each GPU in use once");
	return nets == (m->inter ? 2 : 0)
		       ? ncclSuccess
		       : topo_match_refuse(m, c, "has NICs:", nets,
					   m->inter ? "2" : "none, as the ring is of one host");
}

/* Checks the shape: a ring's graph has rings, a tree's has trees. */
static ncclResult_t topo_match_shape(const struct topo_match *m, const struct topo_file_graph *g)
{
	bool ring = m->graph->pattern == TOPO_RING;
	int32_t least = ring ? TOPO_SHAPE_RING : TOPO_SHAPE_BALANCED_TREE;
	int32_t most = ring ? TOPO_SHAPE_RING : TOPO_SHAPE_TREE;

	m->graph->shape = g->pattern;
	if (g->pattern >= least && g->pattern <= most)
		return ncclSuccess;
	WARN("%s:%d:%d: <graph> id=\"%d\" has pattern=\"%d\", expected %s", m->file->source,
	     g->line, g->column, g->id, g->pattern, ring ? "4, a ring" : "1 to 3, a tree");
	return ncclInvalidUsage;
}

static ncclResult_t topo_match_graph(const struct topo_match *m, const struct topo_file_graph *g)
{
	ncclResult_t rc = topo_match_shape(m, g);

	if (rc)
		return rc;
	if (g->nchannels > TOPO_FILE_CHANNELS || !g->bw_intra_mbps || !g->bw_inter_mbps) {
		WARN("%s:%d:%d: <graph> has %d channels of %u/%u MB/s; expected at most %d, of "
		     "more than 0",
		     m->file->source, g->line, g->column, g->nchannels, g->bw_intra_mbps,
		     g->bw_inter_mbps, TOPO_FILE_CHANNELS);
		return ncclInvalidUsage;
	}
	m->graph->nchannels = g->nchannels;
	m->graph->bw_intra_mbps = g->bw_intra_mbps;
	m->graph->bw_inter_mbps = g->bw_inter_mbps;
	m->graph->type_intra = g->type_intra;
	m->graph->type_inter = g->type_inter;
	m->graph->same_channels = g->same_channels;
	m->graph->cross_nic = g->cross_nic;
	for (int32_t c = 0; c < g->nchannels && !rc; c++)
		rc = topo_match_hops(m, &g->channel[c], c);
	return rc;
}

ncclResult_t topo_graph_file_match(const struct topo_graph_file *file,
				   const struct topo_system *sys, enum topo_pattern pattern,
				   bool inter, struct topo_graph *graph, bool *found)
{
	struct topo_match m = {.file = file, .sys = sys, .inter = inter, .graph = graph};

	ASSERT(pattern <= TOPO_COLLNET_CHAIN); /* stars are not read from files */
	memset(graph, 0, sizeof *graph);
	memset(graph->nic, -1, sizeof graph->nic);
	graph->pattern = pattern;
	*found = false;
	for (int32_t i = 0; i < file->count; i++) {
		const struct topo_file_graph *g = &file->graph[i];

		if (g->id != (int32_t)pattern || !g->nchannels)
			continue;
		*found = true;
		return topo_match_graph(&m, g);
	}
	return ncclSuccess;
}
