/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/topo/view.h"

#include <stdio.h>
#include <string.h>

#include "core/topo/search/search.h"

int32_t topo_element_count(const struct topo_system *sys)
{
	return sys->nnodes;
}

static int32_t topo_element_number(const struct topo_system *sys, int32_t index)
{
	const struct topo_node *n = &sys->node[index];

	if (n->type == TOPO_NODE_GPU)
		return n->gpu.local;
	for (int32_t i = 0; i < sys->nnets; i++)
		if (sys->end_node[topo_end_net(sys, i)] == index)
			return i;
	return n->type == TOPO_NODE_CPU ? n->dev : 0;
}

static uint32_t topo_element_up(const struct topo_system *sys, const struct topo_node *n)
{
	for (int32_t i = n->first_link; i < n->first_link + n->link_count; i++)
		if (sys->link[i].to == n->parent && sys->link[i].type == TOPO_LINK_PCI)
			return sys->link[i].bw_mbps;
	return 0;
}

static void topo_element_kind(const struct topo_node *n, struct topo_element *e)
{
	static const char vendor[][8] = {"Intel", "AMD", "Zhaoxin", "other"};
	static const char arch[][8] = {"x86_64", "ppc64", "arm64", "other"};

	switch (n->type) {
	case TOPO_NODE_GPU:
		e->sm = n->gpu.sm;
		e->gdr = n->gpu.gdr;
		e->gcn = n->gpu.gcn;
		e->lost = n->gpu.lost;
		e->half = n->gpu.half;
		break;
	case TOPO_NODE_NET:
		e->gdr = n->net.gdr;
		e->mbps = n->net.bw_mbps;
		e->guid = n->net.guid;
		e->port = n->net.port;
		break;
	case TOPO_NODE_CPU:
		e->arch = arch[n->cpu.arch];
		e->vendor = vendor[n->cpu.vendor];
		e->family = n->cpu.family;
		e->model = n->cpu.model;
		break;
	default:
		break;
	}
}

void topo_element_get(const struct topo_system *sys, int32_t index, struct topo_element *e)
{
	ASSERT(index >= 0 && index < sys->nnodes);
	const struct topo_node *n = &sys->node[index];

	*e = (struct topo_element){
		.type = n->type,
		.name = n->name,
		.parent = n->parent,
		.line = n->line,
		.host = n->host,
		.number = topo_element_number(sys, index),
		.lanes = n->lanes,
		.milli_gts = n->milli_gts,
		.up_mbps = topo_element_up(sys, n),
		.pci_id = n->pci_id,
		.dev = n->dev,
		.arch = "",
		.vendor = "",
	};
	topo_element_kind(n, e);
}

const char *topo_element_text(const struct topo_element *e, char text[TOPO_ELEMENT_TEXT])
{
	switch (e->type) {
	case TOPO_NODE_GPU:
		snprintf(text, TOPO_ELEMENT_TEXT, "GPU %d", e->number);
		break;
	case TOPO_NODE_CPU:
		snprintf(text, TOPO_ELEMENT_TEXT, "CPU %d", e->number);
		break;
	case TOPO_NODE_PCI:
		snprintf(text, TOPO_ELEMENT_TEXT, "PCI %s", e->name);
		break;
	case TOPO_NODE_NIC:
		snprintf(text, TOPO_ELEMENT_TEXT, "NIC %s", e->name);
		break;
	default:
		snprintf(text, TOPO_ELEMENT_TEXT, "%s", e->name);
	}
	return text;
}

int32_t topo_element_of_gpu(const struct topo_system *sys, int32_t gpu)
{
	ASSERT(gpu >= 0 && gpu < sys->ngpus);
	return sys->end_node[sys->local_to_pos[gpu]];
}

int32_t topo_element_of_nic(const struct topo_system *sys, int32_t nic)
{
	ASSERT(nic >= 0 && nic < sys->nnets);
	return sys->end_node[topo_end_net(sys, nic)];
}

int32_t topo_edge_count(const struct topo_system *sys)
{
	return sys->nlinks;
}

void topo_edge_get(const struct topo_system *sys, int32_t index, struct topo_edge *edge)
{
	ASSERT(index >= 0 && index < sys->nlinks);
	const struct topo_link *link = &sys->link[index];

	*edge = (struct topo_edge){.from = link->from,
				   .to = link->to,
				   .mbps = link->bw_mbps,
				   .type = (enum topo_path_type)link->type};
}

const char *topo_gbps(uint32_t mbps, char text[TOPO_GBPS_TEXT])
{
	int n = snprintf(text, TOPO_GBPS_TEXT, "%u.%03u", mbps / 1000, mbps % 1000);

	while (n > 0 && text[n - 1] == '0')
		text[--n] = '\0';
	if (n > 0 && text[n - 1] == '.')
		text[--n] = '\0';
	return text;
}

const char *topo_pci_text(const struct topo_element *e, char text[TOPO_PCI_TEXT])
{
	char gts[TOPO_GBPS_TEXT];
	int n = 0;

	text[0] = '\0';
	if (e->lanes)
		n = snprintf(text, TOPO_PCI_TEXT, "x%d", e->lanes);
	if (e->milli_gts)
		snprintf(text + n, TOPO_PCI_TEXT - (size_t)n, "%s%s GT/s", n ? " " : "",
			 topo_gbps((uint32_t)e->milli_gts, gts));
	return text;
}

uint32_t topo_speed_least(const struct topo_system *sys, bool inter)
{
	uint32_t speed[TOPO_MAX_SPEEDS];
	int32_t slow;

	int32_t count = topo_speeds(sys, inter, speed, &slow);

	return speed[count - slow - 1];
}
