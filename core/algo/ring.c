/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank with the next one: as many steps as there are ranks, or twice that. */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

/* The part of a ring's bandwidth that is left in a reduce-scatter with SIMPLE: fitted to times
 * between two and between four H200 (results/figures.md), where LL128 is faster at all sizes. */
enum { COST_SIMPLE_SCATTER_PERCENT = 90 };

/* The least time that a step over the network costs the sender. */
enum { NET_OVERHEAD_NS = 1000, NET_OVERHEAD_AMD_NS = 2000, NET_OVERHEAD_SIMPLE = 3 };

/* A large all-reduce with SIMPLE over several hosts: bytes of a channel for each rank from which on
 * it has more latency, and how much, in tenths. */
enum { PLATEAU_BYTES = 64, PLATEAU_TENTHS = 4, PLATEAU_TENTHS_BEFORE_SM80 = 9 };

static uint32_t ring_edges(int32_t nranks)
{
	(void)nranks;
	return 1;
}

static struct algo_peer ring_peer(const struct ncclComm *comm, const struct channel *ch,
				  uint32_t edge, bool is_send)
{
	(void)comm;
	ASSERT(!edge);
	return is_send ? (struct algo_peer){ch->ring_next, ch->nic_out}
		       : (struct algo_peer){ch->ring_prev, ch->nic_in};
}

/* ---- cost ----------------------------------------------------------------------------------- */

/* Steps that follow each other. */
static uint64_t ring_steps(const struct topo_summary *s, enum dev_func func)
{
	uint64_t n = (uint64_t)s->nranks;

	switch (func) {
	case DEV_ALL_REDUCE:
		return 2 * (n - 1);
	case DEV_ALL_GATHER:
	case DEV_REDUCE_SCATTER:
		return n - 1;
	default:
		return n;
	}
}

/* Steps that go from host to host. */
static uint64_t ring_steps_between(const struct topo_summary *s, enum dev_func func)
{
	uint64_t between = (uint64_t)s->nhosts - 1;

	return func == DEV_ALL_REDUCE ? 2 * between : between;
}

static uint64_t ring_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			  enum dev_proto proto)
{
	uint64_t bus = cost_ring_mbps(s, proto);

	(void)channels;
	if (func == DEV_REDUCE_SCATTER && proto == DEV_SIMPLE && s->nhosts == 1 &&
	    s->sm_least >= 90 && s->graph[TOPO_RING].type_intra == TOPO_PATH_NVL)
		bus = bus * COST_SIMPLE_SCATTER_PERCENT / 100;
	return MAX_OF(bus * (uint64_t)s->nranks / ring_steps(s, func), 1ull);
}

/* A block goes through all steps, one after the other. */
static uint64_t ring_steps_ns(const struct topo_summary *s, enum dev_func func,
			      enum dev_proto proto)
{
	bool alone = s->nranks == s->nhosts;
	uint64_t between = ring_steps_between(s, func);
	uint64_t intra = cost_latencies[DEV_RING][proto].hop_ns[cost_hop_intra(s, TOPO_RING)];
	uint64_t inter = cost_latencies[alone ? DEV_TREE : DEV_RING][proto].hop_ns[HOP_NET];
	uint64_t overhead = s->nhosts == 1             ? 0
			    : s->amd_cpus == s->nranks ? NET_OVERHEAD_AMD_NS
						       : NET_OVERHEAD_NS;

	if (proto == DEV_SIMPLE)
		overhead *= NET_OVERHEAD_SIMPLE;
	return (ring_steps(s, func) - between) * MAX_OF(intra, overhead) + between * inter;
}

/* A chunk follows the other: with equal channels one step is seen, otherwise all. */
static uint64_t ring_pipeline_ns(const struct topo_summary *s, enum dev_func func,
				 enum dev_proto proto)
{
	enum cost_hop hop = s->nhosts > 1 ? HOP_NET : cost_hop_intra(s, TOPO_RING);
	enum dev_algo of = proto == DEV_SIMPLE ? DEV_TREE : DEV_RING;

	if (s->graph[TOPO_RING].same_channels)
		return cost_latencies[DEV_RING][proto].hop_ns[hop];
	return ring_steps(s, func) * cost_latencies[of][proto].hop_ns[hop];
}

static void ring_plateau(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels)
{
	uint64_t tenths = s->sm_least < 80 ? PLATEAU_TENTHS_BEFORE_SM80 : PLATEAU_TENTHS;

	cost->plateau_bytes = (uint64_t)PLATEAU_BYTES * (uint64_t)nchannels * (uint64_t)s->nranks;
	cost->plateau_ns = cost->latency_ns * tenths / 10;
}

static void ring_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		      enum dev_func func, enum dev_proto proto)
{
	bool pipeline = func == DEV_BROADCAST || func == DEV_REDUCE;

	cost->latency_ns =
		cost_latencies[DEV_RING][proto].kernel_ns +
		(pipeline ? ring_pipeline_ns(s, func, proto) : ring_steps_ns(s, func, proto));
	if (proto == DEV_LL) /* its bytes are for each rank of the ring */
		cost->thread_bytes *= (uint32_t)s->nranks;
	if (s->nhosts > 1 && func == DEV_ALL_REDUCE && proto == DEV_SIMPLE)
		ring_plateau(cost, s, nchannels);
}

const struct algo algo_ring = {
	.index = CONN_COLLECTIVE,
	.graph = TOPO_RING,
	.channels = DEV_MAX_CHANNELS,
	.always = true,
	.edges = ring_edges,
	.peer = ring_peer,
	.cost = ring_cost,
	.mbps = ring_mbps,
};
