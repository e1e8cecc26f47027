/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's graphs to the communicator's: what connect.c and one file per pattern
 * (connect_ring.c, connect_tree.c, connect_heads.c) share; no other file includes this.
 */
#ifndef CORE_TOPO_CONNECT_H
#define CORE_TOPO_CONNECT_H

#include "core/topo/topo.h"

/* The gathered data, and the hosts in it. Memory is the caller's. */
struct topo_hosts {
	const struct topo_rank_info *all; /* [nranks] */
	int32_t nranks, count;
	int32_t *of_rank; /* [nranks]: index of the host, in order of smallest rank */
};

/* Fills count and of_rank. `first` is [2 * nranks], zero: a hash table of the hosts' smallest
 * ranks. */
void topo_hosts_find(struct topo_hosts *h, int32_t *first);
/* first: [count + 1]: where a host begins in an array of all ranks, host after host. */
void topo_hosts_first(const struct topo_hosts *h, int32_t *first);
/* The fewest channels of any rank, of any pattern: a channel has a ring and trees. A tree search
 * that finds nothing leaves one channel, however many rings there are. */
int32_t topo_connect_channels(const struct topo_hosts *h);
/* The same where a rank may say anything: none is 0. */
static inline size_t topo_connect_room(const struct topo_hosts *h)
{
	return (size_t)MAX_OF(topo_connect_channels(h), 0);
}
/* How many to use when `n` were searched for. */
int32_t topo_connect_double(const struct topo_hosts *h, enum topo_pattern pattern, int32_t n);

/* connect_ring.c: the rings of all ranks. */
struct topo_all_rings {
	int32_t nchannels, distinct; /* as in struct topo_rings */
	bool swaps;                  /* paired channels change places on odd hosts */
	const int32_t *order;        /* [distinct * nranks]: the ranks by position, rank 0 first */
};
/* Fills *a and order. `scratch` is [3 * nranks]. */
ncclResult_t topo_rings_make(struct topo_all_rings *a, const struct topo_hosts *hosts,
			     int32_t *order, int32_t *scratch);
/* Every rank's position in each ring: index is [nranks * distinct], by rank. */
void topo_rings_index(const struct topo_all_rings *a, int32_t nranks, int32_t *index);
/* One rank's, of which `index` has the positions. */
void topo_rings_of(const struct topo_all_rings *a, const struct topo_hosts *hosts, int32_t rank,
		   const int32_t *index, struct topo_rings *rings);

/* connect_tree.c: a host in one of the two trees of `n` hosts. */
struct topo_tree_host {
	int32_t up, down[2]; /* hosts; -1: none */
	int32_t child;       /* which of its parent's children it is */
};
struct topo_tree_host topo_tree_of(int32_t host, int32_t n, bool second);

/* connect_tree.c: the trees of all ranks. */
struct topo_all_trees {
	int32_t graph_channels; /* the fewest of all hosts */
	int32_t distinct;       /* as in struct topo_trees */
	int32_t *first;         /* [hosts + 1]: where a host's chain begins in that of all hosts */
	int32_t *chain; /* [graph_channels * nranks]: the ranks, host after host, in order */
};
/* int32_t that topo_trees_make needs for as many channels of the hosts' graphs. */
static inline size_t topo_trees_memory(int32_t nranks, size_t graph_channels)
{
	return (size_t)nranks * (graph_channels + 1) + 1;
}
/* Fills *a, in memory of the caller's, and parent: [distinct * nranks]. */
ncclResult_t topo_trees_make(struct topo_all_trees *a, const struct topo_hosts *hosts,
			     int32_t *parent, int32_t *memory);
void topo_trees_of(const struct topo_all_trees *a, const struct topo_hosts *hosts, int32_t rank,
		   struct topo_trees *trees);

/* connect_ring.c: the rank's place in its host's rings of `n` GPUs. */
void topo_ring_info_fill(struct topo_ring_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank, const int32_t *local_to_rank);
/* connect_tree.c: the same for trees. */
void topo_tree_info_fill(struct topo_tree_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank);

#endif
