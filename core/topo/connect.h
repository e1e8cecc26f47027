/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's graphs to the communicator's: what connect.c and one file per pattern
 * (connect_ring.c, connect_tree.c) share; no other file includes this.
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

/* Fills count and of_rank. `first` is [2 * nranks], zero: a hash table of the hosts' smallest ranks. */
void topo_hosts_find(struct topo_hosts *h, int32_t *first);
/* The fewest channels of any rank, of any pattern: a channel has a ring and trees. A tree search that finds
 * nothing leaves one channel, however many rings there are. */
int32_t topo_connect_channels(const struct topo_hosts *h);
/* How many to use when `n` were searched for. */
int32_t topo_connect_double(const struct topo_hosts *h, enum topo_pattern pattern, int32_t n);

/* connect_ring.c: the rank's place in its host's rings of `n` GPUs. */
void topo_ring_info_fill(struct topo_ring_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank, const int32_t *local_to_rank);
/* connect_tree.c: the same for trees. */
void topo_tree_info_fill(struct topo_tree_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank);

#endif
