/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "core/topo/topo_internal.h"

static void topo_print_element(const struct topo_system *sys, const struct topo_element *e,
			       FILE *out)
{
	char name[TOPO_ELEMENT_TEXT], gbps[TOPO_GBPS_TEXT], pci[TOPO_PCI_TEXT];

	fprintf(out, "%s", topo_element_text(e, name));
	if (e->type == TOPO_NODE_CPU && sys->nhosts > 1)
		fprintf(out, " of host %d", e->host);
	if (e->type == TOPO_NODE_CPU)
		fprintf(out, ", %s %s", e->arch, e->vendor);
	if (e->type == TOPO_NODE_CPU && (e->family || e->model))
		fprintf(out, " family %d model %d", e->family, e->model);
	if (e->type == TOPO_NODE_GPU)
		fprintf(out, ", dev %d, %s, sm %d", e->dev, e->name, e->sm);
	if (e->half)
		fprintf(out, ", half %d", e->half - 1);
	if (e->gcn)
		fprintf(out, ", gfx%x", (unsigned)e->gcn);
	if (e->type == TOPO_NODE_NET)
		fprintf(out, ", NIC %d, %s GB/s", e->number, topo_gbps(e->mbps, gbps));
	if (e->gdr)
		fprintf(out, ", gdr");
	topo_pci_text(e, pci);
	if (e->up_mbps)
		fprintf(out, ", %s%s%s GB/s up", pci, pci[0] ? ", " : "",
			topo_gbps(e->up_mbps, gbps));
	fprintf(out, "\n");
}

/* True if the tree does not show this link. */
static bool topo_print_is_side(const struct topo_edge *edge)
{
	return edge->type != TOPO_PATH_PIX && edge->type != TOPO_PATH_NET;
}

/* Prints all links of one kind and speed in one line: "NVL 80 GB/s to GPU 1, GPU 2". */
static void topo_print_alike(const struct topo_system *sys, int32_t first, int32_t last, int depth,
			     FILE *out)
{
	char name[TOPO_ELEMENT_TEXT], gbps[TOPO_GBPS_TEXT];
	struct topo_edge edge, other;
	const char *before = "";

	topo_edge_get(sys, first, &edge);
	fprintf(out, "%*s%s %s GB/s to ", 2 * depth + 2, "", topo_path_name(edge.type),
		topo_gbps(edge.mbps, gbps));
	for (int32_t i = first; i < last; i++) {
		struct topo_element to;

		topo_edge_get(sys, i, &other);
		if (other.type != edge.type || other.mbps != edge.mbps)
			continue;
		topo_element_get(sys, other.to, &to);
		fprintf(out, "%s%s", before, topo_element_text(&to, name));
		before = ", ";
	}
	fprintf(out, "\n");
}

/* Prints the links of a node, with those of one kind and speed in one line. */
static void topo_print_links(const struct topo_system *sys, int32_t node, int depth, FILE *out)
{
	const struct topo_node *n = &sys->node[node];
	int32_t last = n->first_link + n->link_count;

	for (int32_t i = n->first_link; i < last; i++) {
		struct topo_edge edge, other = {.type = TOPO_PATH_DIS};
		bool again = false;

		topo_edge_get(sys, i, &edge);
		for (int32_t k = n->first_link; k < i; k++) {
			topo_edge_get(sys, k, &other);
			again |= other.type == edge.type && other.mbps == edge.mbps;
		}
		if (topo_print_is_side(&edge) && !again)
			topo_print_alike(sys, i, last, depth, out);
	}
}

static void topo_print_tree(const struct topo_system *sys, int32_t node, int depth, FILE *out)
{
	struct topo_element e;

	topo_element_get(sys, node, &e);
	fprintf(out, "%*s", 2 * depth, "");
	topo_print_element(sys, &e, out);
	topo_print_links(sys, node, depth, out);
	if (e.lost)
		fprintf(out, "%*s%d NVLink%s to a function that is not in the file: not used\n",
			2 * depth + 2, "", e.lost, e.lost == 1 ? "" : "s");
	for (int32_t i = 0; i < sys->nnodes; i++)
		if (sys->node[i].parent == node)
			topo_print_tree(sys, i, depth + 1, out);
}

static void topo_print_cell(const struct topo_path *p, int width, FILE *out)
{
	char bw[TOPO_GBPS_TEXT], cell[32] = "-";

	if (p->type == TOPO_PATH_DIS)
		snprintf(cell, sizeof cell, "none");
	else if (p->type != TOPO_PATH_LOC || p->count != 0)
		snprintf(cell, sizeof cell, "%s %s", topo_path_name((enum topo_path_type)p->type),
			 topo_gbps(p->bw_mbps, bw));
	fprintf(out, " %*s", width, cell);
}

static int topo_print_width(const struct topo_system *sys)
{
	size_t width = 9;

	for (int32_t i = 0; i < sys->nnets; i++)
		width = MAX_OF(width, strlen(topo_nic_name(sys, i)));
	return (int)width;
}

void topo_matrix_print(const struct topo_system *sys, FILE *out)
{
	int width = topo_print_width(sys);
	char name[TOPO_ELEMENT_TEXT];

	fprintf(out, "%7s", "");
	for (int32_t b = 0; b < sys->ngpus; b++) {
		snprintf(name, sizeof name, "GPU %d", b);
		fprintf(out, " %*s", width, name);
	}
	for (int32_t b = 0; b < sys->nnets; b++)
		fprintf(out, " %*s", width, topo_nic_name(sys, b));
	fprintf(out, "  CPU\n");
	for (int32_t a = 0; a < sys->ngpus; a++) {
		int32_t from = sys->local_to_pos[a];

		fprintf(out, "GPU %-3d", a);
		for (int32_t b = 0; b < sys->ngpus; b++)
			topo_print_cell(topo_path_at(sys, from, sys->local_to_pos[b]), width, out);
		for (int32_t b = 0; b < sys->nnets; b++)
			topo_print_cell(topo_path_at(sys, from, topo_end_net(sys, b)), width, out);
		fprintf(out, "  %3d\n", topo_cpu_node(sys, sys->gpu_cpu[from])->dev);
	}
}

/* Explains the path types of the matrix. */
static void topo_print_legend(const struct topo_system *sys, FILE *out)
{
	static const char *const meaning[TOPO_PATH_DIS] = {
		[TOPO_PATH_NVL] = "NVLink",
		[TOPO_PATH_NVB] = "NVLink by way of a GPU",
		[TOPO_PATH_C2C] = "C2C to the CPU",
		[TOPO_PATH_PIX] = "one PCI switch",
		[TOPO_PATH_PXB] = "several PCI switches",
		[TOPO_PATH_P2C] = "C2C, then PCI",
		[TOPO_PATH_PXN] = "NVLink to a GPU near the NIC",
		[TOPO_PATH_PHB] = "through the CPU",
		[TOPO_PATH_SYS] = "from CPU to CPU",
	};
	bool used[TOPO_PATH_DIS + 1] = {false};

	for (int32_t a = 0; a < sys->ngpus; a++)
		for (int32_t b = 0; b < sys->ngpus + sys->nnets; b++)
			used[topo_path_at(sys, a, b)->type] = true;
	for (int t = 0; t < TOPO_PATH_DIS; t++)
		if (used[t] && meaning[t])
			fprintf(out, "%s %s\n", topo_path_name((enum topo_path_type)t), meaning[t]);
}

void topo_system_print(const struct topo_system *sys, FILE *out)
{
	if (sys->nhosts > 1)
		fprintf(out, "%d hosts of one NVLink domain: ", sys->nhosts);
	fprintf(out, "%d GPU%s, %d NIC%s, %d CPU%s%s; bandwidths in GB/s, one direction\n",
		sys->ngpus, sys->ngpus == 1 ? "" : "s", sys->nnets, sys->nnets == 1 ? "" : "s",
		sys->ncpus, sys->ncpus == 1 ? "" : "s", sys->nnvs ? ", NVSwitch" : "");
	for (int32_t c = 0; c < sys->ncpus; c++)
		topo_print_tree(sys, sys->end_node[topo_end_cpu(sys, c)], 0, out);
	fprintf(out, "\n");
	topo_matrix_print(sys, out);
	fprintf(out, "\n");
	topo_print_legend(sys, out);
}
