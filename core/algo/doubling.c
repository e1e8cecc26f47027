/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: in step k each rank exchanges its sum with the rank whose number differs in
 * bit k, and adds what it gets. There are as many steps as the number of ranks has binary digits,
 * each with all bytes. Not NCCL's: a kernel and a step cost what they do over a tree. Two H200 of a
 * host take longer with it than with OneShot at all sizes in CUDA graphs, and from 128 KiB on
 * without graphs (results/gpus-two.md). Over a network no GPU has measured it. It runs only where
 * NCCL_ALGO allows no other algorithm.
 */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

static struct algo_peer doubling_peer(const struct ncclComm *comm, const struct channel *ch,
				      uint32_t edge, bool is_send)
{
	(void)ch;
	(void)is_send;
	return (struct algo_peer){comm->rank ^ (int32_t)(1u << edge), -1};
}

static bool doubling_can(const struct topo_summary *s)
{
	return (s->nranks & (s->nranks - 1)) == 0 && s->nranks <= 1 << DEV_EDGES_MOST;
}

static bool doubling_should(const struct topo_summary *s, bool anywhere)
{
	(void)s;
	(void)anywhere;
	return false;
}

static void doubling_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
			  enum dev_func func, enum dev_proto proto)
{
	const struct cost_latency *l = &cost_latencies[DEV_TREE][proto];
	uint64_t between = cost_host_levels(s);
	uint64_t inside = steps_pat_levels(s->nranks / s->nhosts);

	(void)nchannels;
	(void)func;
	cost->latency_ns = l->kernel_ns + inside * l->hop_ns[cost_hop_intra(s, TOPO_RING)] +
			   between * l->hop_ns[HOP_NET];
}

/* The ranks of a host share its links to other hosts. */
static uint64_t doubling_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			      enum dev_proto proto)
{
	uint64_t sharing = s->nhosts > 1 ? (uint64_t)(s->nranks / s->nhosts) : 1;

	(void)channels;
	(void)func;
	return MAX_OF(cost_ring_mbps(s, proto) / (steps_pat_levels(s->nranks) * sharing), 1ull);
}

const struct algo algo_doubling = {
	.index = CONN_DOUBLING,
	.graph = TOPO_RING,
	.channels = DEV_DIRECT_CHANNELS,
	.edges = steps_pat_levels,
	.peer = doubling_peer,
	.can = doubling_can,
	.needs = "a power of two of ranks",
	.should = doubling_should,
	.cost = doubling_cost,
	.mbps = doubling_mbps,
};
