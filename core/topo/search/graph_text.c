/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes graphs in NCCL's XML to a stream or to memory. graph_file.c reads them. */
#include <stdarg.h>
#include <string.h>

#include "core/topo/topo_internal.h"

struct topo_text {
	FILE *out; /* NULL: writes to `text` */
	char *text;
	size_t room, bytes; /* room in `text`; bytes of the whole output, whether it fits or not */
};

static void topo_text_add(struct topo_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void topo_text_add(struct topo_text *t, const char *fmt, ...)
{
	char line[320];
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(line, sizeof line, fmt, args);
	va_end(args);
	ASSERT(n >= 0 && (size_t)n < sizeof line);
	if (t->out)
		fputs(line, t->out);
	else if (t->bytes + (size_t)n < t->room)
		memcpy(t->text + t->bytes, line, (size_t)n + 1);
	t->bytes += (size_t)n;
}

static void topo_text_host(struct topo_text *t, const struct topo_system *sys,
			   const struct topo_node *n)
{
	if (sys->nhosts > 1)
		topo_text_add(t, " host=\"%d\"", n->host);
}

static void topo_text_net(struct topo_text *t, const struct topo_system *sys, int32_t nic)
{
	if (nic < 0)
		return;
	topo_text_add(t, "      <net dev=\"%d\"", topo_net_node(sys, nic)->dev);
	topo_text_host(t, sys, topo_net_node(sys, nic));
	topo_text_add(t, "/>\n");
}

static void topo_text_channel(struct topo_text *t, const struct topo_system *sys,
			      const struct topo_graph *graph, int32_t c)
{
	int32_t gpus = graph->shape == TOPO_SHAPE_NVLS ? 1 : sys->ngpus;

	topo_text_add(t, "    <channel>\n");
	topo_text_net(t, sys, graph->nic[c][0]);
	for (int32_t i = 0; i < gpus; i++) {
		const struct topo_node *gpu =
			topo_gpu_node(sys, sys->local_to_pos[graph->order[c][i]]);

		topo_text_add(t, "      <gpu dev=\"%#x\"", (unsigned)gpu->dev);
		topo_text_host(t, sys, gpu);
		if (gpu->gpu.half)
			topo_text_add(t, " mlopart=\"%d\"", gpu->gpu.half - 1);
		topo_text_add(t, "/>\n");
	}
	topo_text_net(t, sys, graph->nic[c][1]);
	topo_text_add(t, "    </channel>\n");
}

static void topo_text_graph(struct topo_text *t, const struct topo_system *sys,
			    const struct topo_graph *graph)
{
	char intra[TOPO_GBPS_TEXT], inter[TOPO_GBPS_TEXT];

	topo_text_add(t,
		      "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%d\" "
		      "speedintra=\"%s\" speedinter=\"%s\" latencyinter=\"0\" typeintra=\"%s\" "
		      "typeinter=\"%s\" samechannels=\"%d\">\n",
		      graph->pattern, graph->shape, graph->cross_nic, graph->nchannels,
		      topo_gbps(graph->bw_intra_mbps, intra),
		      topo_gbps(graph->bw_inter_mbps, inter),
		      topo_path_name((enum topo_path_type)graph->type_intra),
		      topo_path_name((enum topo_path_type)graph->type_inter), graph->same_channels);
	for (int32_t c = 0; c < graph->nchannels; c++)
		topo_text_channel(t, sys, graph, c);
	topo_text_add(t, "  </graph>\n");
}

static void topo_text_graphs(struct topo_text *t, const struct topo_system *sys,
			     struct topo_graph *const *graph, int32_t count)
{
	topo_text_add(t, "<graphs version=\"1\">\n");
	for (int32_t i = 0; i < count; i++)
		topo_text_graph(t, sys, graph[i]);
	topo_text_add(t, "</graphs>\n");
}

void topo_graph_print_xml(const struct topo_system *sys, struct topo_graph *const *graph,
			  int32_t count, FILE *out)
{
	struct topo_text t = {.out = out};

	topo_text_graphs(&t, sys, graph, count);
}

size_t topo_graphs_xml(const struct topo_system *sys, struct topo_graph *const *graph,
		       int32_t count, char *text, size_t room)
{
	struct topo_text t = {.text = text, .room = room};

	topo_text_graphs(&t, sys, graph, count);
	return t.bytes;
}
