/* SPDX-License-Identifier: BSD-3-Clause */
/* Parallel aggregated trees: each rank with the ranks 1, 2, 4... after it and before it. */
#include "core/algo/algo.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

/* NCCL's: of a step between hosts 2/7 are seen, and each rank has a part of its own. */
enum { PAT_HOPS_SEEN = 2, PAT_HOPS_OF = 7, PAT_RANK_NS = 2800, PAT_PERCENT = 75 };

/* Chunks: halves of a slot, but not below the least bytes, until the call has so many of them for
 * each channel: NCCL 2.28's numbers. They stay multiples of the grain. */
enum {
	PAT_CHUNK_LEAST_BYTES = 64 << 10,
	PAT_GATHER_CHUNKS = 32,
	PAT_SCATTER_CHUNKS = 16,
	PAT_CHUNK_GRAIN = 512,
};

static struct algo_peer pat_peer(const struct ncclComm *comm, const struct channel *ch,
				 uint32_t edge, bool is_send)
{
	int32_t n = comm->nranks, far = (int32_t)(1u << edge);

	(void)ch;
	return (struct algo_peer){(comm->rank + (is_send ? far : n - far)) % n, -1};
}

static bool pat_can(const struct topo_summary *s)
{
	return s->nranks <= 1 << DEV_PAT_LEVELS;
}

/* NCCL has the same rule. */
static bool pat_should(const struct topo_summary *s, bool anywhere)
{
	return anywhere || s->nranks == s->nhosts;
}

static void pat_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		     enum dev_func func, enum dev_proto proto)
{
	const struct cost_latency *l = &cost_latencies[DEV_PAT][proto];

	(void)nchannels;
	(void)func;
	cost->latency_ns = l->kernel_ns +
			   cost_host_levels(s) * l->hop_ns[HOP_NET] * PAT_HOPS_SEEN / PAT_HOPS_OF +
			   (uint64_t)s->nranks * PAT_RANK_NS;
}

static uint64_t pat_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			 enum dev_proto proto)
{
	(void)channels;
	(void)func;
	(void)proto;
	return MAX_OF(cost_graph_mbps(s, TOPO_TREE) * PAT_PERCENT / 100, 1ull);
}

/* A block that does not share a slot with others goes in smaller chunks, as in NCCL, so that the
 * steps of one overlap those of the next. */
static uint64_t pat_chunk(const struct dev_work *w, const struct algo_place *at, int32_t nchannels,
			  uint64_t bytes, uint64_t chunk_bytes)
{
	struct steps_part part = steps_part_of(w, w->channel_lo);
	struct steps_pat s = steps_pat_of(&part, at->nranks);
	bool gathers = steps_program(w->program).func == DEV_ALL_GATHER;
	uint64_t chunks = (uint64_t)nchannels * (gathers ? PAT_GATHER_CHUNKS : PAT_SCATTER_CHUNKS);

	while (s.low == s.levels && chunk_bytes > PAT_CHUNK_LEAST_BYTES &&
	       chunk_bytes * chunks > bytes)
		chunk_bytes = chunk_bytes / 2 / PAT_CHUNK_GRAIN * PAT_CHUNK_GRAIN;
	return chunk_bytes;
}

const struct algo algo_pat = {
	.index = CONN_PAT,
	.graph = TOPO_TREE,
	.channels = DEV_PAT_CHANNELS,
	.edges = steps_pat_levels,
	.peer = pat_peer,
	.can = pat_can,
	.needs = "65536 ranks at most",
	.should = pat_should,
	.cost = pat_cost,
	.mbps = pat_mbps,
	.chunk = pat_chunk,
};
