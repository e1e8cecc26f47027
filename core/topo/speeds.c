/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/search.h"

/* NCCL's speeds to try: before sm 90, sm 90, sm 100; inside a host, between hosts. */
static const struct {
	int32_t count;
	uint32_t speed[20];
} search_speed_table[3][2] = {
	{{13,
	  {40000, 30000, 20000, 18000, 15000, 12000, 10000, 9000, 7000, 6000, 5000, 4000, 3000}},
	 {19,
	  {48000, 30000, 28000, 24000, 20000, 18000, 15000, 12000, 10000, 9000, 7000, 6000, 5000,
	   4000, 3000, 2400, 1200, 240, 120}}},
	{{11, {60000, 50000, 40000, 30000, 24000, 20000, 15000, 12000, 11000, 6000, 3000}},
	 {17,
	  {48000, 45000, 42000, 40000, 30000, 24000, 22000, 20000, 17500, 15000, 12000, 6000, 3000,
	   2400, 1200, 240, 120}}},
	{{11, {90000, 80000, 70000, 60000, 50000, 40000, 30000, 24000, 20000, 19000, 18000}},
	 {18,
	  {96000, 48000, 45100, 42000, 40000, 30000, 24000, 22000, 20000, 17500, 15000, 12000, 6000,
	   3000, 2400, 1200, 240, 120}}},
};

const uint32_t *topo_search_speeds(const struct topo_system *sys, bool inter, int32_t *count)
{
	int generation = sys->sm_min >= 100 ? 2 : sys->sm_min >= 90 ? 1 : 0;
	*count = search_speed_table[generation][inter].count;
	ASSERT(search_speed_table[generation][inter].speed[*count - 1] &&
	       !search_speed_table[generation][inter].speed[*count]);
	return search_speed_table[generation][inter].speed;
}

/* What a GPU can send: all of its NVLinks, or its PCI link. */
static uint64_t topo_search_gpu_total(const struct topo_system *sys, int32_t pos)
{
	const struct topo_node *gpu = topo_gpu_node(sys, pos);
	uint64_t nvlink = 0, pci = 0;
	for (int32_t i = 0; i < gpu->link_count; i++) {
		const struct topo_link *link = &sys->link[gpu->first_link + i];
		if (link->type == TOPO_LINK_NVL)
			nvlink += link->bw_mbps;
		else if (link->type == TOPO_LINK_PCI)
			pci = link->bw_mbps;
	}
	return MAX_OF(nvlink, pci);
}

void topo_search_limits(const struct topo_search *s, uint32_t *max_bw, uint64_t *total_bw)
{
	const struct topo_system *sys = s->sys;
	*max_bw = 0;
	*total_bw = 0;
	if (!s->inter && s->n == 1) {
		*max_bw = TOPO_LOC_BW_MBPS;
		*total_bw = TOPO_LOC_BW_MBPS;
		return;
	}
	for (int32_t a = 0; a < s->n; a++) {
		int32_t to = s->inter ? topo_end_net(sys, 0) : 0;
		int32_t end = to + (s->inter ? sys->nnets : s->n);
		uint64_t total = topo_search_gpu_total(sys, a);
		for (int32_t b = to; b < end; b++)
			if (b != a && topo_path_at(sys, a, b)->bw_mbps > *max_bw)
				*max_bw = topo_path_at(sys, a, b)->bw_mbps;
		*total_bw = MAX_OF(*total_bw, total);
	}
}

/* ---- cuts ----------------------------------------------------------------------------------- */

/*
 * A cut is a GPU, a switch or a CPU with all that hangs below, where there are GPUs in use both
 * inside and outside. A ring crosses every cut, so the links that leave it bound the number of
 * channels. A link counts from the path type on that allows its use. This does not change what a
 * search finds, only how soon it knows that nothing better is there.
 */
static int32_t topo_search_link_level(const struct topo_system *sys, const struct topo_link *link)
{
	uint8_t a = sys->node[link->from].type, b = sys->node[link->to].type;
	if (link->type == TOPO_LINK_NET)
		return TOPO_PATH_LOC;
	if (link->type != TOPO_LINK_PCI)
		return link->type;
	if (a == TOPO_NODE_CPU || b == TOPO_NODE_CPU)
		return TOPO_PATH_P2C;
	return a == TOPO_NODE_PCI && b == TOPO_NODE_PCI ? TOPO_PATH_PXB : TOPO_PATH_PIX;
}

static bool topo_search_is_below(const struct topo_system *sys, int32_t node, int32_t top)
{
	while (node != top && node != TOPO_NO_NODE)
		node = sys->node[node].parent;
	return node == top;
}

static bool topo_search_cut_fill(const struct topo_system *sys, int32_t top, bool both,
				 uint64_t cut[TOPO_PATH_NET])
{
	int32_t inside = 0;
	for (int32_t pos = 0; pos < sys->ngpus; pos++)
		inside += topo_search_is_below(sys, sys->end_node[pos], top);
	if (inside == 0 || inside == sys->ngpus)
		return false;
	memset(cut, 0, sizeof(uint64_t) * TOPO_PATH_NET);
	for (int32_t i = 0; i < sys->nlinks; i++) {
		const struct topo_link *link = &sys->link[i];
		bool from = topo_search_is_below(sys, link->from, top);
		bool to = topo_search_is_below(sys, link->to, top);
		if (from != to && (from || both))
			cut[topo_search_link_level(sys, link)] += link->bw_mbps;
	}
	for (int32_t t = 1; t < TOPO_PATH_NET; t++)
		cut[t] += cut[t - 1];
	return true;
}

ncclResult_t topo_search_cuts_make(struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	s->cut = os_alloc((size_t)sys->nnodes * sizeof *s->cut, "topology search");
	if (!s->cut) {
		WARN("out of memory for a ring search over %d nodes", sys->nnodes);
		return ncclSystemError;
	}
	for (int32_t i = 0; i < sys->nnodes; i++) {
		uint8_t type = sys->node[i].type;
		/* between hosts a ring may end inside, so either direction will do */
		bool both = s->inter && type != TOPO_NODE_GPU;
		if ((type == TOPO_NODE_GPU || type == TOPO_NODE_PCI || type == TOPO_NODE_CPU) &&
		    topo_search_cut_fill(sys, i, both, s->cut[s->cuts]))
			s->cuts++;
	}
	return ncclSuccess;
}

int32_t topo_search_channels_bound(const struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	int32_t type = MAX_OF(s->now.type_intra, s->now.type_inter);
	uint32_t bw = MIN_OF(s->now.bw_intra_mbps, s->now.bw_inter_mbps);
	uint64_t bound = (uint64_t)s->max_channels, nets = 0;
	if (!s->inter)
		type = s->now.type_intra;
	ASSERT(type < TOPO_PATH_NET && bw > 0);
	for (int32_t i = 0; i < s->cuts; i++)
		bound = MIN_OF(bound, s->cut[i][type] / bw);
	for (int32_t i = 0; i < sys->nnets && s->inter; i++)
		if (s->net_nearest[i] <= s->now.type_inter)
			nets += topo_net_node(sys, i)->net.bw_mbps / s->now.bw_inter_mbps;
	return (int32_t)(s->inter ? MIN_OF(bound, nets) : bound);
}
