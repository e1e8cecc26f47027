/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CollNet: in each channel the ranks of a host are a chain, and the heads of all hosts are members
 * of a group of a network that reduces (core/transport/collnet). NCCL's algorithm CollNetChain. All
 * channels have chains if core/comm has connected the groups; the summary has the chains' graph
 * only then.
 */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

enum { COLLNET_EDGES = 2 }; /* up and down */

static uint32_t collnet_edges(int32_t nranks)
{
	(void)nranks;
	return COLLNET_EDGES;
}

/* The network has no rank. Toward it, a head has the head of the next host as its peer, and from it
 * that of the previous host: the two compare their settings when they connect, and a wait for the
 * network names one of the ranks that it waits for. */
static struct algo_peer collnet_peer(const struct ncclComm *comm, const struct channel *ch,
				     uint32_t edge, bool is_send)
{
	const struct channel_chain *c = &ch->chain;

	(void)comm;
	if (edge == 0 && c->is_head)
		return (struct algo_peer){is_send ? c->next_head : c->prev_head, c->nic};
	return (struct algo_peer){edge == 0 ? c->up : c->down, -1};
}

static bool collnet_can(const struct topo_summary *s)
{
	return s->graph[TOPO_COLLNET_CHAIN].nchannels > 0;
}

/* ---- cost ----------------------------------------------------------------------------------- */

/* NCCL's constants have no part for the kernel. A channel has a thread for each 512 bytes. */
enum { COLLNET_THREAD_BYTES = 512 };

static void collnet_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
			 enum dev_func func, enum dev_proto proto)
{
	const struct cost_latency *l = &cost_latencies[DEV_COLLNET_CHAIN][proto];
	uint64_t chain = (uint64_t)(s->nranks / s->nhosts - 1);

	(void)nchannels;
	(void)func;
	cost->latency_ns =
		2 * chain * l->hop_ns[cost_hop_intra(s, TOPO_COLLNET_CHAIN)] + l->hop_ns[HOP_NET];
	cost->thread_bytes = COLLNET_THREAD_BYTES;
}

/* The data crosses each link of the chain twice. */
static uint64_t collnet_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			     enum dev_proto proto)
{
	(void)channels;
	(void)func;
	(void)proto;
	return MAX_OF(cost_graph_mbps(s, TOPO_COLLNET_CHAIN) / 2, 1ull);
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* A chunk is halved down to `least` while the channel has less than so many chunks for each rank of
 * the chain. */
static const struct collnet_halving {
	uint64_t chunks, least;
} collnet_halvings[] = {{64, 128 << 10}, {8, 64 << 10}, {1, 32 << 10}};
enum { COLLNET_CHUNK_BYTES = 256 << 10 };

/* A longer chain needs more chunks until all its links and the network are busy. */
static uint64_t collnet_chunk(const struct dev_work *w, const struct algo_place *at,
			      int32_t nchannels, uint64_t bytes, uint64_t chunk_bytes)
{
	uint64_t depth = (uint64_t)(at->nranks / at->nhosts), chunk = chunk_bytes;

	(void)w;
	chunk = MIN_OF(chunk, (uint64_t)COLLNET_CHUNK_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(collnet_halvings); i++)
		while (chunk > collnet_halvings[i].least &&
		       bytes / ((uint64_t)nchannels * chunk) < depth * collnet_halvings[i].chunks)
			chunk = chunk / 2 / 16 * 16;
	return chunk;
}

const struct algo algo_collnet = {
	.index = CONN_COLLNET,
	.graph = TOPO_COLLNET_CHAIN,
	.channels = DEV_MAX_CHANNELS,
	.edges = collnet_edges,
	.peer = collnet_peer,
	.can = collnet_can,
	.needs = "several hosts, a net plugin with a collective network that reduces the type with "
		 "the operation, and NCCL_COLLNET_ENABLE=1",
	.cost = collnet_cost,
	.mbps = collnet_mbps,
	.chunk = collnet_chunk,
};
