/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank with a parent and up to three children: as many steps as the tree is deep, or twice
 * that. */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

static uint32_t tree_edges(int32_t nranks)
{
	(void)nranks;
	return DEV_TREE_LINKS;
}

static struct algo_peer tree_peer(const struct ncclComm *comm, const struct channel *ch,
				  uint32_t edge, bool is_send)
{
	(void)comm;
	(void)is_send;
	return (struct algo_peer){ch->tree[edge].rank, ch->tree[edge].nic};
}

/* On one host a tree is a chain, which is slower than a ring; it would be connected for nothing. */
static bool tree_should(const struct topo_summary *s, bool anywhere)
{
	(void)anywhere;
	return s->nhosts > 1;
}

/* ---- cost ----------------------------------------------------------------------------------- */

/* All channels together, for the bytes that cross a link. */
static uint64_t tree_bus_mbps(const struct topo_summary *s, enum dev_proto proto)
{
	const struct topo_graph_summary *g = &s->graph[TOPO_TREE];
	uint64_t channels = (uint64_t)g->nchannels;
	int32_t row = cost_generation(s), scale = cost_scale(s);
	uint64_t bus = MIN_OF(cost_graph_mbps(s, TOPO_TREE) * 92 / 100,
			      channels * cost_limits.tree[row][scale]);

	if (proto == DEV_LL128) {
		bus = s->nhosts == 1 ? bus * 7 / 9 : bus * 120 / 128;
		bus = MIN_OF(bus, channels * cost_limits.tree_ll128[row][scale]);
	} else if (proto == DEV_LL) {
		bus = MIN_OF(bus * 10 / 38, cost_ll_mbps(s));
	}
	return g->shape == TOPO_SHAPE_TREE ? bus * 85 / 100 : bus;
}

static uint64_t tree_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			  enum dev_proto proto)
{
	uint64_t bus = tree_bus_mbps(s, proto);

	(void)channels;
	return MAX_OF(func == DEV_ALL_REDUCE ? bus / 2 : bus, 1ull);
}

/* From the deepest rank to the root. */
static uint64_t tree_way_ns(const struct topo_summary *s, enum dev_proto proto)
{
	const struct cost_latency *l = &cost_latencies[DEV_TREE][proto];
	uint64_t chain = (uint64_t)(s->nranks / s->nhosts - 1);

	return chain * l->hop_ns[cost_hop_intra(s, TOPO_TREE)] +
	       cost_host_levels(s) * l->hop_ns[HOP_NET];
}

/* An all-reduce is NCCL's, up and down. A reduce and a broadcast, which NCCL does not have over
 * trees, go one way. */
static void tree_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		      enum dev_func func, enum dev_proto proto)
{
	uint64_t ways = func == DEV_ALL_REDUCE ? 2 : 1;

	(void)nchannels;
	cost->latency_ns = cost_latencies[DEV_TREE][proto].kernel_ns + ways * tree_way_ns(s, proto);
	if (func == DEV_ALL_REDUCE)
		cost->corrected = (uint32_t)proto + 1;
}

const struct algo algo_tree = {
	.index = CONN_TREE,
	.graph = TOPO_TREE,
	.channels = DEV_MAX_CHANNELS,
	.edges = tree_edges,
	.peer = tree_peer,
	.should = tree_should,
	.cost = tree_cost,
	.mbps = tree_mbps,
};
