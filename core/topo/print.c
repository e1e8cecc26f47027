/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "core/topo/topo_internal.h"

/* MB/s as GB/s without a needless fraction: 30000 -> "30", 20600 -> "20.6". */
static const char *topo_gbps(uint32_t mbps, char *text, size_t bytes)
{
	int n = snprintf(text, bytes, "%u.%03u", mbps / 1000, mbps % 1000);
	while (n > 0 && text[n - 1] == '0')
		text[--n] = '\0';
	if (n > 0 && text[n - 1] == '.')
		text[--n] = '\0';
	return text;
}

void topo_graph_print_xml(const struct topo_system *sys, const struct topo_graph *graph, FILE *out)
{
	char intra[16], inter[16];
	fprintf(out, "<graphs version=\"1\">\n");
	fprintf(out,
		"  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%d\" "
		"speedintra=\"%s\" "
		"speedinter=\"%s\" latencyinter=\"0\" typeintra=\"%s\" typeinter=\"%s\" "
		"samechannels=\"%d\">\n",
		graph->pattern, graph->shape, graph->cross_nic, graph->nchannels,
		topo_gbps(graph->bw_intra_mbps, intra, sizeof intra),
		topo_gbps(graph->bw_inter_mbps, inter, sizeof inter),
		topo_path_name((enum topo_path_type)graph->type_intra),
		topo_path_name((enum topo_path_type)graph->type_inter), graph->same_channels);
	for (int32_t c = 0; c < graph->nchannels; c++) {
		fprintf(out, "    <channel>\n");
		if (graph->nic[c][0] >= 0)
			fprintf(out, "      <net dev=\"%d\"/>\n",
				topo_net_node(sys, graph->nic[c][0])->dev);
		int32_t gpus = graph->shape == TOPO_SHAPE_NVLS ? 1 : sys->ngpus;
		for (int32_t i = 0; i < gpus; i++) {
			int32_t pos = sys->local_to_pos[graph->order[c][i]];
			fprintf(out, "      <gpu dev=\"%#x\"/>\n",
				(unsigned)topo_gpu_node(sys, pos)->dev);
		}
		if (graph->nic[c][1] >= 0)
			fprintf(out, "      <net dev=\"%d\"/>\n",
				topo_net_node(sys, graph->nic[c][1])->dev);
		fprintf(out, "    </channel>\n");
	}
	fprintf(out, "  </graph>\n</graphs>\n");
}

/* ---- the system ----------------------------------------------------------------------------- */

static void topo_print_node(const struct topo_system *sys, const struct topo_node *n, FILE *out)
{
	static const char vendor[][8] = {"Intel", "AMD", "Zhaoxin", "other"};
	static const char arch[][8] = {"x86_64", "ppc64", "arm64", "other"};
	char bw[16];
	switch (n->type) {
	case TOPO_NODE_CPU:
		fprintf(out, "CPU numa %d, %s %s", n->dev, arch[n->cpu.arch],
			vendor[n->cpu.vendor]);
		break;
	case TOPO_NODE_PCI:
		fprintf(out, "PCI %s", n->name);
		break;
	case TOPO_NODE_NIC:
		fprintf(out, "NIC %s", n->name);
		break;
	case TOPO_NODE_NET:
		fprintf(out, "NET %s, %s GB/s%s", n->name, topo_gbps(n->net.bw_mbps, bw, sizeof bw),
			n->net.gdr ? ", gdr" : "");
		break;
	case TOPO_NODE_GPU:
		fprintf(out, "GPU %d, dev %d, %s, sm %d%s", n->gpu.local, n->dev, n->name,
			n->gpu.sm, n->gpu.gdr ? ", gdr" : "");
		break;
	default:
		break;
	}
}

/* The links that are not the tree's: NVLink, C2C, to other CPUs. */
static void topo_print_links(const struct topo_system *sys, const struct topo_node *n, int depth,
			     FILE *out)
{
	char bw[16];
	for (int32_t i = n->first_link; i < n->first_link + n->link_count; i++) {
		const struct topo_link *link = &sys->link[i];
		const struct topo_node *to = &sys->node[link->to];
		if (link->type == TOPO_LINK_PCI || link->type == TOPO_LINK_NET)
			continue;
		fprintf(out, "%*s%s %s GB/s to ", 2 * depth + 2, "",
			topo_path_name((enum topo_path_type)link->type),
			topo_gbps(link->bw_mbps, bw, sizeof bw));
		if (to->type == TOPO_NODE_GPU)
			fprintf(out, "GPU %d\n", to->gpu.local);
		else if (to->type == TOPO_NODE_CPU)
			fprintf(out, "CPU numa %d\n", to->dev);
		else
			fprintf(out, "%s\n", to->name);
	}
}

static void topo_print_tree(const struct topo_system *sys, int32_t node, int depth, FILE *out)
{
	const struct topo_node *n = &sys->node[node];
	char bw[16];
	fprintf(out, "%*s", 2 * depth, "");
	topo_print_node(sys, n, out);
	for (int32_t i = n->first_link; i < n->first_link + n->link_count; i++)
		if (sys->link[i].to == n->parent && sys->link[i].type == TOPO_LINK_PCI)
			fprintf(out, " (%s GB/s up)",
				topo_gbps(sys->link[i].bw_mbps, bw, sizeof bw));
	fprintf(out, "\n");
	topo_print_links(sys, n, depth, out);
	for (int32_t i = 0; i < sys->nnodes; i++)
		if (sys->node[i].parent == node)
			topo_print_tree(sys, i, depth + 1, out);
}

static void topo_print_cell(const struct topo_path *p, FILE *out)
{
	char bw[16], cell[32];
	if (p->type == TOPO_PATH_LOC && p->count == 0)
		snprintf(cell, sizeof cell, "-");
	else
		snprintf(cell, sizeof cell, "%s %s", topo_path_name((enum topo_path_type)p->type),
			 topo_gbps(p->bw_mbps, bw, sizeof bw));
	fprintf(out, " %10s", cell);
}

/* Like `nvidia-smi topo -m`, with bandwidths. */
static void topo_print_matrix(const struct topo_system *sys, FILE *out)
{
	fprintf(out, "\n%7s", "");
	for (int32_t b = 0; b < sys->ngpus; b++)
		fprintf(out, "%*sGPU %d", b < 10 ? 6 : 5, "", b);
	for (int32_t b = 0; b < sys->nnets; b++)
		fprintf(out, " %10.10s", topo_nic_name(sys, b));
	fprintf(out, "\n");
	for (int32_t a = 0; a < sys->ngpus; a++) {
		int32_t from = sys->local_to_pos[a];
		fprintf(out, "GPU %-3d", a);
		for (int32_t b = 0; b < sys->ngpus; b++)
			topo_print_cell(topo_path_at(sys, from, sys->local_to_pos[b]), out);
		for (int32_t b = 0; b < sys->nnets; b++)
			topo_print_cell(topo_path_at(sys, from, topo_end_net(sys, b)), out);
		fprintf(out, "\n");
	}
}

void topo_system_print(const struct topo_system *sys, FILE *out)
{
	fprintf(out, "%d GPU%s, %d net%s, %d CPU%s; bandwidths in GB/s, one direction\n",
		sys->ngpus, sys->ngpus == 1 ? "" : "s", sys->nnets, sys->nnets == 1 ? "" : "s",
		sys->ncpus, sys->ncpus == 1 ? "" : "s");
	for (int32_t c = 0; c < sys->ncpus; c++)
		topo_print_tree(sys, sys->end_node[topo_end_cpu(sys, c)], 0, out);
	topo_print_matrix(sys, out);
}
