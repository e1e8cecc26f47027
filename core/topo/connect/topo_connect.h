/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's graphs to the communicator's. topo_connect.c and one file per pattern
 * (connect_ring.c, connect_tree.c, connect_heads.c) share it; no other file includes it.
 */
#ifndef CORE_TOPO_CONNECT_H
#define CORE_TOPO_CONNECT_H

#include "core/topo/topo.h"

/* The gathered data, and the hosts in it. The caller owns the memory. */
struct topo_hosts {
	const struct topo_rank_info *all; /* [nranks] */
	int32_t nranks, count;
	/* [nranks]: index of the rank's host. Hosts are in order of their smallest rank. */
	int32_t *of_rank;
};

/* Fills count and of_rank. `first` is [2 * nranks], zeroed: a hash table of the hosts' smallest
 * ranks. */
void topo_hosts_find(struct topo_hosts *h, int32_t *first);
/* Fills first, [count + 1]: where each host begins in an array of all ranks, host after host. */
void topo_hosts_first(const struct topo_hosts *h, int32_t *first);
/* Returns the fewest channels of any rank and pattern, because a channel has a ring and trees. A
 * tree search that finds nothing leaves one channel, however many rings there are. */
int32_t topo_connect_channels(const struct topo_hosts *h);
/* Returns the number of channels to use if searches found `n`. */
int32_t topo_connect_double(const struct topo_hosts *h, enum topo_pattern pattern, int32_t n);

/* connect_ring.c: the rings of all ranks. */
struct topo_all_rings {
	int32_t nchannels, distinct; /* as in struct topo_rings */
	bool swaps;                  /* paired channels swap on odd hosts */
	const int32_t *order;        /* [distinct * nranks]: ranks by position, rank 0 first */
};
/* Fills *a and order. `scratch` is [TOPO_RINGS_SCRATCH * nranks + 1]. */
enum { TOPO_RINGS_SCRATCH = 5 };
ncclResult_t topo_rings_make(struct topo_all_rings *a, const struct topo_hosts *hosts,
			     int32_t *order, int32_t *scratch);
/* Fills index, [nranks * distinct] by rank: every rank's position in each ring. */
void topo_rings_index(const struct topo_all_rings *a, int32_t nranks, int32_t *index);
/* Fills the rings of one rank. `index` has its positions. */
void topo_rings_of(const struct topo_all_rings *a, const struct topo_hosts *hosts, int32_t rank,
		   const int32_t *index, struct topo_rings *rings);

/* connect_tree.c: the place of a host in one of the two trees of `n` hosts. */
struct topo_tree_host {
	int32_t up, down[2]; /* hosts; -1: no host */
	int32_t child;       /* its index among its parent's children */
};
struct topo_tree_host topo_tree_of(int32_t host, int32_t n, bool second);

/* connect_tree.c: the trees of all ranks. */
struct topo_all_trees {
	int32_t graph_channels; /* the fewest of all hosts */
	int32_t distinct;       /* as in struct topo_trees */
	int32_t *first;         /* [hosts + 1]: where each host begins in a channel's `chain` */
	/* [graph_channels * nranks]: the ranks, host after host, in the order of the host's
	 * chain. */
	int32_t *chain;
};
/* Returns the number of int32_t that topo_trees_make needs for that many channels of the hosts'
 * graphs. */
static inline size_t topo_trees_memory(int32_t nranks, size_t graph_channels)
{
	return (size_t)nranks * (graph_channels + 1) + 1;
}
/* Fills *a, in the caller's memory, and parent, [distinct * nranks]. */
ncclResult_t topo_trees_make(struct topo_all_trees *a, const struct topo_hosts *hosts,
			     int32_t *parent, int32_t *memory);
void topo_trees_of(const struct topo_all_trees *a, const struct topo_hosts *hosts, int32_t rank,
		   struct topo_trees *trees);

/* connect_ring.c: fills the rank's place in its host's rings of `n` GPUs. */
void topo_ring_info_fill(struct topo_ring_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank);
/* connect_tree.c: fills the rank's place in its host's trees of `n` GPUs. */
void topo_tree_info_fill(struct topo_tree_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank);

#endif
