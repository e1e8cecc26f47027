/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs on windows (NCCL's symmetric kernels): for ranks of one host, with both buffers in
 * windows that were registered with NCCL_WIN_COLL_SYMMETRIC. core/plan excludes them for all other
 * calls. There are no connections. A kernel has a work, the abort word, and the addresses of all
 * ranks' buffers and memory in its arguments, and loads nothing except one line of its own memory.
 *
 *	LL       Each rank stores lines of data and flag to all ranks, and reduces locally. The flag
 *	         is a step that counts across launches, in each rank's own memory, so that a CUDA
 *	         graph needs no new arguments. Two banks of slots need neither clearing, nor credit,
 *	         nor a barrier at the end. The windows' buffers are accessed only by their own rank.
 *	SIMPLE   A barrier of the ranks; loads from all inputs, or stores to all outputs; a barrier.
 *	         No copies through slots. The offset of a buffer in its window is the same on all
 *	         ranks, so a rank computes the addresses of all of them.
 *
 * Device side: core/device/edges/prims_sym.h, core/device/programs/symmetric.h; memory:
 * core/transport/registered/windows_memory.c. Costs are a first estimate from times of OneShot and
 * rings between two H200 (results/gpus-two.md); no GPU has measured these programs.
 */
#include "core/algo/algo.h"
#include "core/transport/transport.h"

/* A call of LL between two H200 takes 5.1 us with OneShot, 1.1 us of it for loads of channel,
 * connections and work, and for the credit. SIMPLE has two barriers of the ranks more than a
 * kernel has. */
enum {
	COST_SYM_LL_NS = 5500,
	COST_SYM_SIMPLE_NS = 6600,
	COST_SYM_BARRIER_NS = 1500,
	COST_SYM_LL_BLOCK_MBPS = 4000,
	COST_SYM_BLOCK_MBPS = 20000,
};

static bool symmetric_can(const struct topo_summary *s)
{
	return s->nhosts == 1 && s->direct >= 0 && s->nranks > 1 && s->nranks <= DEV_SYM_RANKS;
}

static bool symmetric_has_parts(enum dev_func func)
{
	return func != DEV_ALL_REDUCE;
}

static void symmetric_cost(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
			   enum dev_func func, enum dev_proto proto)
{
	const struct cost_latency *l = &cost_latencies[DEV_RING][DEV_LL];
	const uint64_t hop = l->hop_ns[s->direct == TOPO_PATH_NVL ? HOP_NVLINK : HOP_PCI];

	(void)nchannels;
	if (proto == DEV_LL) {
		cost->latency_ns = COST_SYM_LL_NS + hop;
		cost->thread_bytes =
			DEV_LINE_DATA * (symmetric_has_parts(func) ? (uint32_t)s->nranks : 1);
		return;
	}
	cost->latency_ns = COST_SYM_SIMPLE_NS + 2 * COST_SYM_BARRIER_NS + hop;
	cost->thread_bytes = 32;
}

/* LL: the busiest link carries what a rank sends, twice its bytes. SIMPLE: each link carries in
 * each direction n-1 nths of the bytes, twice in an all-reduce; loads leave a tenth of it. */
static uint64_t symmetric_mbps(const struct topo_summary *s, int32_t channels, enum dev_func func,
			       enum dev_proto proto)
{
	const uint64_t n = (uint64_t)s->nranks, blocks = (uint64_t)MIN_OF(channels, DEV_SYM_BLOCKS);
	uint64_t bus = cost_graph_mbps(s, TOPO_RING) * 9 / 10, nths = n - 1;

	if (proto == DEV_LL)
		bus = MIN_OF(cost_ring_mbps(s, DEV_LL), blocks * COST_SYM_LL_BLOCK_MBPS);
	else
		bus = MIN_OF(bus, blocks * COST_SYM_BLOCK_MBPS);
	if (!symmetric_has_parts(func))
		nths *= proto == DEV_LL ? n : 2;
	return MAX_OF(bus * n / nths, 1ull);
}

const struct algo algo_symmetric = {
	.index = CONN_INDEX_COUNT, /* no connections */
	.graph = TOPO_RING,
	.channels = DEV_SYM_BLOCKS,
	.can = symmetric_can,
	.needs = "2 to 8 ranks of one host with p2p between all of them",
	.cost = symmetric_cost,
	.mbps = symmetric_mbps,
};
DOPPEL_STATIC_CHECK(DEV_SYM_RANKS == 8, "the text has the number");
