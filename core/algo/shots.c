/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank with every other one of a host, without a proxy. ONE_SHOT: one step, in which every
 * rank gets all that it needs. TWO_SHOT: two steps; every rank reduces its part, and sends the
 * result to all. Not NCCL's: a kernel, a step and the channels cost what they do with a ring.
 */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

/* Limits of one channel with LL, and the time by which the second step of TWO_SHOT is longer than a
 * ring's: it waits for all ranks. Fitted as COST_LL_RING_MBPS is (results/figures.md). */
enum {
	COST_LL_ONE_SHOT_MBPS = 4000,
	COST_LL_ONE_SHOT_PART_MBPS = 5000, /* where a rank has a part for each other one */
	COST_LL_TWO_SHOT_MBPS = 6000,
	COST_TWO_SHOT_NS = 1600,
};

#define SHOTS_NEEDS "2 to 8 ranks of one host with p2p between all of them"
DOPPEL_STATIC_CHECK(DEV_DIRECT_RANKS == 8, "the text has the number");

static uint32_t shots_edges(int32_t nranks)
{
	return (uint32_t)nranks - 1;
}

static struct algo_peer shots_peer(const struct ncclComm *comm, const struct channel *ch,
				   uint32_t edge, bool is_send)
{
	(void)ch;
	(void)is_send;
	return (struct algo_peer){(int32_t)edge + ((int32_t)edge >= comm->rank), -1};
}

static bool shots_can(const struct topo_summary *s)
{
	return s->direct >= 0 && s->nranks > 1 && s->nranks <= DEV_DIRECT_RANKS;
}

static uint64_t shots_hop_ns(const struct topo_summary *s, enum dev_proto proto)
{
	return cost_latencies[DEV_RING][proto]
		.hop_ns[s->direct == TOPO_PATH_NVL ? HOP_NVLINK : HOP_PCI];
}

static uint64_t shots_mbps(const struct topo_summary *s, int32_t channels, uint64_t channel_mbps,
			   uint64_t nths)
{
	uint64_t most = (uint64_t)MIN_OF(channels, DEV_DIRECT_CHANNELS) * channel_mbps;
	uint64_t bus = MIN_OF(cost_ring_mbps(s, DEV_LL), most);

	return MAX_OF(bus * (uint64_t)s->nranks / nths, 1ull);
}

/* ---- one step ------------------------------------------------------------------------------- */

static bool one_shot_has_parts(enum dev_func func)
{
	return func == DEV_ALL_GATHER || func == DEV_REDUCE_SCATTER;
}

static void one_shot_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
			  enum dev_func func, enum dev_proto proto)
{
	(void)nchannels;
	cost->latency_ns = cost_latencies[DEV_RING][proto].kernel_ns + shots_hop_ns(s, proto);
	/* a line for each thread, of what a rank sends to one other rank */
	cost->thread_bytes = DEV_LINE_DATA * (one_shot_has_parts(func) ? (uint32_t)s->nranks : 1);
}

/* Nths: what the busiest rank sends or receives of n bytes of the call. */
static uint64_t one_shot_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			      enum dev_proto proto)
{
	uint64_t n = (uint64_t)s->nranks;

	(void)proto;
	return one_shot_has_parts(func)
		       ? shots_mbps(s, channels, COST_LL_ONE_SHOT_PART_MBPS, n - 1)
		       : shots_mbps(s, channels, COST_LL_ONE_SHOT_MBPS, n * (n - 1));
}

const struct algo algo_one_shot = {
	.index = CONN_DIRECT,
	.graph = TOPO_RING,
	.channels = DEV_DIRECT_CHANNELS,
	.edges = shots_edges,
	.peer = shots_peer,
	.can = shots_can,
	.needs = SHOTS_NEEDS,
	.cost = one_shot_cost,
	.mbps = one_shot_mbps,
};

/* ---- two steps ------------------------------------------------------------------------------ */

static void two_shot_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
			  enum dev_func func, enum dev_proto proto)
{
	(void)nchannels;
	(void)func;
	cost->latency_ns = cost_latencies[DEV_RING][proto].kernel_ns + 2 * shots_hop_ns(s, proto) +
			   COST_TWO_SHOT_NS;
	cost->thread_bytes = DEV_LINE_DATA * (uint32_t)s->nranks;
}

static uint64_t two_shot_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			      enum dev_proto proto)
{
	(void)func;
	(void)proto;
	return shots_mbps(s, channels, COST_LL_TWO_SHOT_MBPS, 2 * ((uint64_t)s->nranks - 1));
}

const struct algo algo_two_shot = {
	.index = CONN_DIRECT,
	.graph = TOPO_RING,
	.channels = DEV_DIRECT_CHANNELS,
	.edges = shots_edges,
	.peer = shots_peer,
	.can = shots_can,
	.needs = SHOTS_NEEDS,
	.cost = two_shot_cost,
	.mbps = two_shot_mbps,
};
