/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/algo/algo.h"

/* ---- constants ------------------------------------------------------------------------------ */

/* A ring whose hosts have one rank each has a tree's latencies over the network. The kernel's
 * latency of a ring in LL128 is fitted as COST_LL_RING_MBPS is: NCCL's is 14000. */
/* clang-format off */
const struct cost_latency cost_latencies[DEV_ALGO_COUNT][DEV_PROTO_COUNT] = {
	/*                        kernel   NVLINK   PCI    NET */
	[DEV_RING] = {[DEV_LL]     = { 6600, {   600,  1000,  2700}},
		      [DEV_LL128]  = { 8300, {  1900,  2500,  4000}},
		      [DEV_SIMPLE] = { 8400, {  3400,  5700, 14000}}},
	[DEV_TREE] = {[DEV_LL]     = { 6800, {   600,  1000,  5000}},
		      [DEV_LL128]  = {14000, {  1250,  1900,  8500}},
		      [DEV_SIMPLE] = { 8400, {  4000,  4000, 14000}}},
	[DEV_PAT]  = {[DEV_SIMPLE] = { 8000, {  4000,  4000, 14000}}},
	[DEV_COLLNET_CHAIN] = {[DEV_SIMPLE] = {0, {2800, 2800, 30000}}},
};
/* clang-format on */

/* Over several hosts LL depends on the CPUs: the first row, or the second if there are AMD's among
 * them. */
const struct cost_limits cost_limits = {
	.ll = {{39000, 39000, 20400},
	       {87700, 22500, 19000},
	       {141000, 45000, 35000},
	       {282000, 90000, 70000}},
	.ring_ll128 = {20000, 20000, 36700, 73400},
	.tree_ll128 = {{20000, 20000, 20000},
		       {20000, 20000, 20000},
		       {36700, 36700, 29000},
		       {55600, 31670, 20000}},
	.tree = {{26500, 18500, 10000},
		 {24000, 23600, 17800},
		 {38700, 41400, 36000},
		 {70000, 42800, 24000}},
};

/* Limits of one channel of a ring with LL: the channels of a ring's graph are doubled. Fitted to
 * times between two H100 and between four H200 (results/figures.md), so that the choice changes
 * where the measured times cross: NCCL's constants are those of its own kernels. */
enum { COST_LL_RING_OF_TWO_MBPS = 7500, COST_LL_RING_MBPS = 9500 };

/* Threads of a channel at most, and the bytes that make one of them worth while. */
static const struct cost_thread_limits {
	uint32_t threads, thread_bytes;
} cost_threads[DEV_PROTO_COUNT] = {
	[DEV_LL] = {512, 8},
	[DEV_LL128] = {640, 8},
	[DEV_SIMPLE] = {512, 64},
};

/* The part of a tree's bandwidth that is left, in percent, at 64 bytes, 128, 256 and so on. */
enum { CORRECTIONS = 23, CORRECTION_LEAST = 64 };
static const uint8_t cost_corrections[DEV_PROTO_COUNT][CORRECTIONS] = {
	[DEV_LL] = {100, 100, 100, 100, 90, 80, 70, 70,  70,  70,  60, 50,
		    40,  40,  50,  60,  70, 80, 90, 100, 100, 100, 100},
	[DEV_LL128] = {100, 100, 100, 100, 100, 90, 80, 80, 80, 70,  60, 60,
		       60,  60,  60,  60,  80,  90, 90, 90, 90, 100, 100},
	[DEV_SIMPLE] = {90, 90, 90, 90, 90, 90, 90, 80, 70, 60, 60, 50,
			50, 50, 50, 60, 70, 80, 70, 70, 80, 90, 90},
};

/* ---- what the tables have ------------------------------------------------------------------- */

int32_t cost_generation(const struct topo_summary *s)
{
	return s->sm_least >= 100 ? 3 : s->sm_least >= 90 ? 2 : s->sm_least >= 80 ? 1 : 0;
}

int32_t cost_scale(const struct topo_summary *s)
{
	return MIN_OF(s->nhosts, COST_SCALES) - 1;
}

uint64_t cost_ll_mbps(const struct topo_summary *s)
{
	return cost_limits.ll[s->nhosts > 1 ? s->amd_cpus > 0 : cost_generation(s)][cost_scale(s)];
}

enum cost_hop cost_hop_intra(const struct topo_summary *s, enum topo_pattern pattern)
{
	return s->graph[pattern].type_intra == TOPO_PATH_NVL ? HOP_NVLINK : HOP_PCI;
}

uint64_t cost_host_levels(const struct topo_summary *s)
{
	uint64_t levels = 0;

	while (2 << levels <= s->nhosts)
		levels++;
	return levels;
}

uint64_t cost_graph_mbps(const struct topo_summary *s, enum topo_pattern pattern)
{
	const struct topo_graph_summary *g = &s->graph[pattern];

	return (uint64_t)g->nchannels * (s->nhosts <= 2 ? g->bw_intra_mbps : g->bw_inter_mbps);
}

uint64_t cost_ring_mbps(const struct topo_summary *s, enum dev_proto proto)
{
	uint64_t channels = (uint64_t)s->graph[TOPO_RING].nchannels;
	uint64_t bus = cost_graph_mbps(s, TOPO_RING);

	if (proto == DEV_LL128)
		return MIN_OF(bus * 92 / 100,
			      channels * cost_limits.ring_ll128[cost_generation(s)]);
	if (proto != DEV_LL)
		return bus;
	bus = MIN_OF(bus / 2,
		     channels * (s->nranks > 2 ? COST_LL_RING_MBPS : COST_LL_RING_OF_TWO_MBPS));
	return MIN_OF(bus, cost_ll_mbps(s));
}

void cost_threads_fill(struct algo_cost *cost, enum dev_proto proto)
{
	cost->threads = cost_threads[proto].threads;
	cost->thread_bytes = cost_threads[proto].thread_bytes;
}

void algo_cost_fill(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		    enum dev_func func, enum dev_algo algo, enum dev_proto proto)
{
	const struct algo *a = algos[algo];

	ASSERT(s->nranks > 1 && s->nhosts > 0 && s->nhosts <= s->nranks && nchannels > 0);
	*cost = (struct algo_cost){.bw_mbps = 0};
	cost_threads_fill(cost, proto);
	if (a->channels < DEV_MAX_CHANNELS)
		cost->channels = MIN_OF(nchannels, a->channels);
	a->cost(cost, s, nchannels, func, proto);
	ASSERT(cost->latency_ns);
	if (algo_can(a, s) && algo_proto_fits(s, a->graph, proto))
		cost->bw_mbps = a->mbps(s, nchannels, func, proto);
}

uint64_t algo_cost_mbps(const struct algo_cost *cost, uint64_t bytes)
{
	uint32_t column = 0;

	if (!cost->corrected || bytes < CORRECTION_LEAST)
		return cost->bw_mbps;
	while (column < CORRECTIONS && bytes / CORRECTION_LEAST >> column > 1)
		column++;
	if (column == CORRECTIONS)
		return cost->bw_mbps;
	return MAX_OF(cost->bw_mbps * cost_corrections[cost->corrected - 1][column] / 100, 1ull);
}
