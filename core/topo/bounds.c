/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can fit at all, so that tries of which nothing better can come are not made. Bounds do not change what
 * a search finds, only how soon it knows.
 *
 * A cut is a switch or a CPU with all that hangs below, where there are GPUs in use both inside and
 * outside. A channel crosses every cut, so the links that leave it bound the number of channels; so do a
 * GPU's own. A link counts from the path type on that allows its use.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/search.h"

static int32_t topo_bounds_link_level(const struct topo_system *sys, const struct topo_link *link)
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

static bool topo_bounds_is_below(const struct topo_system *sys, int32_t node, int32_t top)
{
	while (node != top && node != TOPO_NO_NODE)
		node = sys->node[node].parent;
	return node == top;
}

static bool topo_bounds_cut_fill(const struct topo_system *sys, int32_t top, bool both,
				 uint64_t cut[TOPO_PATH_NET])
{
	int32_t inside = 0;
	for (int32_t pos = 0; pos < sys->ngpus; pos++)
		inside += topo_bounds_is_below(sys, sys->end_node[pos], top);
	if (inside == 0 || inside == sys->ngpus)
		return false;
	memset(cut, 0, sizeof(uint64_t) * TOPO_PATH_NET);
	for (int32_t i = 0; i < sys->nlinks; i++) {
		const struct topo_link *link = &sys->link[i];
		bool from = topo_bounds_is_below(sys, link->from, top);
		bool to = topo_bounds_is_below(sys, link->to, top);
		if (from != to && (from || both))
			cut[topo_bounds_link_level(sys, link)] += link->bw_mbps;
	}
	for (int32_t t = 1; t < TOPO_PATH_NET; t++)
		cut[t] += cut[t - 1];
	return true;
}

ncclResult_t topo_bounds_make(struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	s->cut = os_alloc((size_t)sys->nnodes * sizeof *s->cut, "topology search");
	if (!s->cut) {
		WARN("out of memory for a search over %d nodes", sys->nnodes);
		return ncclSystemError;
	}
	for (int32_t i = 0; i < sys->nnodes; i++) {
		uint8_t type = sys->node[i].type;
		/* a ring within a host crosses both ways, a chain in either */
		bool both = s->inter || s->rules->shape != TOPO_SHAPE_RING;
		if ((type == TOPO_NODE_PCI || type == TOPO_NODE_CPU) &&
		    topo_bounds_cut_fill(sys, i, both, s->cut[s->cuts]))
			s->cuts++;
	}
	return ncclSuccess;
}

/* Channels that may leave the GPU, each over one link whole, or, with `both`, come to it. */
static uint64_t topo_bounds_gpu(const struct topo_search *s, int32_t pos, int32_t type, uint32_t bw,
				bool both)
{
	const struct topo_system *sys = s->sys;
	const struct topo_node *gpu = topo_gpu_node(sys, pos);
	uint64_t sum = 0;

	for (int32_t i = gpu->first_link; i < gpu->first_link + gpu->link_count; i++) {
		const struct topo_link *link = &sys->link[i];

		if (topo_bounds_link_level(sys, link) > type)
			continue;
		sum += link->bw_mbps / bw;
		if (both && link->back != TOPO_NO_LINK)
			sum += sys->link[link->back].bw_mbps / bw;
	}
	return sum;
}

/* A star's legs are shares of a channel. */
int32_t topo_bounds_channels(const struct topo_search *s)
{
	const struct topo_system *sys = s->sys;
	int32_t type = s->inter ? MAX_OF(s->now.type_intra, s->now.type_inter) : s->now.type_intra;
	uint32_t bw = MIN_OF(s->now.bw_intra_mbps, s->now.bw_inter_mbps);
	uint64_t bound = (uint64_t)s->max_channels, nets = 0;

	ASSERT(type < TOPO_PATH_NET && bw > 0);
	if (s->shape->star)
		return s->max_channels;
	for (int32_t i = 0; i < s->cuts; i++)
		bound = MIN_OF(bound, s->cut[i][type] / bw);
	bool both = s->now.shape != TOPO_SHAPE_RING;
	for (int32_t g = 0; g < s->n && s->n > 1 && !(both && sys->one_way_links); g++)
		bound = MIN_OF(bound, topo_bounds_gpu(s, g, type, bw, both));
	if (!s->inter)
		return (int32_t)bound;
	for (int32_t i = 0; i < sys->nnets; i++)
		nets += topo_net_node(sys, i)->net.bw_mbps / s->now.bw_inter_mbps;
	return (int32_t)MIN_OF(bound, nets);
}

/* The shortest path to or from any GPU that is near enough; 0: none. */
static int32_t topo_bounds_shortest(const struct topo_search *s, int32_t end, int32_t first,
				    int32_t count, int32_t type)
{
	int32_t least = INT32_MAX;

	for (int32_t i = first; i < first + count; i++) {
		const struct topo_path *p = topo_path_at(s->sys, end, i);

		if (i != end && p->type <= type)
			least = MIN_OF(least, p->length);
	}
	return least == INT32_MAX ? 0 : least;
}

/* Every GPU but one sends to another one; within a host, in a ring, that one too. */
int32_t topo_bounds_hops(const struct topo_search *s)
{
	int32_t sum = 0, most = 0;

	if (s->shape->star)
		return 0;
	for (int32_t g = 0; g < s->n && s->n > 1; g++) {
		int32_t hops = topo_bounds_shortest(s, g, 0, s->n, s->now.type_intra);

		sum += hops;
		most = MAX_OF(most, hops);
	}
	if (!s->inter)
		return s->shape->closes ? sum : sum - most;
	int32_t nets = topo_end_net(s->sys, 0), in = INT32_MAX, out = INT32_MAX;
	for (int32_t i = 0; i < s->sys->nnets; i++)
		in = MIN_OF(in, topo_bounds_shortest(s, nets + i, 0, s->n, s->now.type_inter));
	for (int32_t g = 0; g < s->n; g++)
		out = MIN_OF(out,
			     topo_bounds_shortest(s, g, nets, s->sys->nnets, s->now.type_inter));
	return sum - most + in + out * (s->shape->halves && s->n > 1 ? 2 : 1);
}
