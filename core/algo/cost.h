/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of programs: what the files of the algorithms share. The constants are NCCL 2.28's.
 * Called by the rows of algo.h, and by core/tune, which chooses by the costs.
 *
 *	time = latency + bytes / bandwidth
 *
 * Units: ns; MB/s (1e6 bytes/s); bytes of the call's larger buffer. No errors.
 */
#ifndef CORE_ALGO_COST_H
#define CORE_ALGO_COST_H

#include "core/device/layout/work.h"
#include "core/topo/topo.h"

/* The cost of a program. `threads` and `thread_bytes` are for the rule of tune_shape_of. */
struct algo_cost {
	uint64_t bw_mbps;       /* 0: not on these machines */
	uint64_t latency_ns;    /* of a call without bytes */
	uint64_t plateau_bytes; /* from so many bytes on there is more latency; 0: never */
	uint64_t plateau_ns;    /* how much more */
	uint32_t threads;       /* of a channel at most: a multiple of 32 */
	uint32_t thread_bytes;  /* that make a thread worth while */
	int32_t channels;       /* at most; 0: as many as the communicator has */
	uint32_t corrected;     /* by which row of the table of trees, 1...; 0: by none */
};

/* The link that one step of an algorithm goes over. */
enum cost_hop { HOP_NVLINK, HOP_PCI, HOP_NET, HOPS };

/* Generations by compute capability: below 80, from 80, 90 and 100 on. */
enum { COST_GENERATIONS = 4, COST_SCALES = 3 };

/* Latencies: of a kernel, and of a step over each kind of hop. kernel_ns 0: no time of its own. */
struct cost_latency {
	uint32_t kernel_ns, hop_ns[HOPS];
};
extern const struct cost_latency cost_latencies[DEV_ALGO_COUNT][DEV_PROTO_COUNT];

/* MB/s, by generation, and by 1, 2 and more hosts. */
extern const struct cost_limits {
	uint32_t ll[COST_GENERATIONS][COST_SCALES]; /* all channels with LL together */
	uint32_t ring_ll128[COST_GENERATIONS];      /* a ring with LL128 */
	uint32_t tree_ll128[COST_GENERATIONS][COST_SCALES];
	uint32_t tree[COST_GENERATIONS][COST_SCALES]; /* a tree with the others */
} cost_limits;

int32_t cost_generation(const struct topo_summary *s);
/* Index of the columns for 1, 2 and more hosts. */
int32_t cost_scale(const struct topo_summary *s);
/* The limit of all channels with LL together. */
uint64_t cost_ll_mbps(const struct topo_summary *s);
enum cost_hop cost_hop_intra(const struct topo_summary *s, enum topo_pattern pattern);
/* Levels of a binary tree of the hosts below its root. */
uint64_t cost_host_levels(const struct topo_summary *s);
/* All channels of the pattern's graph together, for the bytes that cross a link. */
uint64_t cost_graph_mbps(const struct topo_summary *s, enum topo_pattern pattern);
/* A ring's channels together, for the bytes that cross a link. */
uint64_t cost_ring_mbps(const struct topo_summary *s, enum dev_proto proto);
/* Threads of a channel, by protocol. */
void cost_threads_fill(struct algo_cost *cost, enum dev_proto proto);
/* Fills in all of the cost of a program. Two ranks at least. */
void algo_cost_fill(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		    enum dev_func func, enum dev_algo algo, enum dev_proto proto);
/* Bandwidth of a cost at a size. */
uint64_t algo_cost_mbps(const struct algo_cost *cost, uint64_t bytes);

#endif
