/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heads: the GPUs of a host that join it to the others where NVLS or CollNet reduces. A head begins
 * a channel of the host's graph. NVLS and CollNet direct are stars: a head serves all GPUs of its
 * host, and the heads of a host are the distinct GPUs that begin its channels, in the order of the
 * channels. CollNet chain is a chain for each channel, with the head at its beginning.
 *
 * No communicator searches these graphs, because no program uses them. Called by `doppel topo
 * search` and by tests. Ranks are those of the communicator, hosts are in the order of their
 * smallest rank, channels are those of the hosts' graphs. All functions give the same result on all
 * ranks, from what all ranks contributed.
 */
#ifndef CORE_TOPO_HEADS_H
#define CORE_TOPO_HEADS_H

#include "core/topo/topo.h"

/* What a rank contributes: its place in each channel of its host's graphs. */
struct topo_head_info {
	int32_t nchannels; /* of the graph; 0: the host has none */
	struct topo_tree_info order;
};
struct topo_heads_info {
	struct topo_head_info graph[TOPO_HEAD_PATTERNS]; /* by topo_head_index */
};
DOPPEL_CHECK_SIZE(struct topo_heads_info, 396);
/* Of rank `local_rank` of this host. `graph` is by topo_head_index. */
void topo_heads_info_fill(struct topo_heads_info *info, const struct topo_system *sys,
			  struct topo_graph *const graph[TOPO_HEAD_PATTERNS], int32_t local_rank);

/* The heads of all hosts; opaque. */
struct topo_heads;
/* `all` and `infos` have nranks entries each; both stay the caller's, and must live as long as the
 * heads. A rank whose number of channels is not that of its host, or whose place is not one of its
 * host's order or is that of another rank, is ncclInvalidUsage, which names pattern, channel and
 * rank. A pattern has no heads where a host has no such graph, and stars have none where hosts
 * differ in the number of heads: the log has the reason. O(ranks x channels). */
ncclResult_t topo_heads_connect(const struct topo_rank_info *all,
				const struct topo_heads_info *infos, int nranks,
				struct topo_heads **heads);
void topo_heads_free(struct topo_heads *h);

int32_t topo_heads_hosts(const struct topo_heads *h);
/* Heads of each host; of the CollNet chain channels. 0: there are none. */
int32_t topo_heads_count(const struct topo_heads *h, enum topo_pattern pattern);
/* The rank that is head `head` of a host. */
int32_t topo_heads_rank(const struct topo_heads *h, enum topo_pattern pattern, int32_t head,
			int32_t host);
/* What ranks must agree on, into the digest that they compare: a hash for each pattern that has
 * heads. */
void topo_heads_digest(const struct topo_heads *h, struct topo_digest *d);

/* A rank's part in a star. */
struct topo_head {
	int32_t head; /* its number among the heads of its host; -1: it is none */
	int32_t from; /* the first channel that it begins, whose NICs it uses; -1: it is no head */
};
/* NVLS between hosts: the heads with one number are the double tree of the hosts
 * (core/topo/connect_tree.c), one tree for even channels, the other for odd ones. -1: there is no
 * such rank. */
#define TOPO_HEAD_TREES 2
struct topo_nvls {
	struct topo_head own;
	int32_t up[TOPO_HEAD_TREES], down[TOPO_HEAD_TREES][2];
};
/* CollNet direct: each rank sends a part to each head of its host, and each head its sum to the
 * network. */
struct topo_collnet_direct {
	struct topo_head own;
	int32_t ups, up[DEV_MAX_CHANNELS];   /* the heads of its host, without itself */
	int32_t downs, down[TOPO_MAX_LOCAL]; /* of a head: all other ranks of its host */
};
/* CollNet chain: per channel. */
struct topo_collnet_chain {
	int32_t up[DEV_MAX_CHANNELS];   /* nranks: the network; -1: there is no such channel */
	int32_t down[DEV_MAX_CHANNELS]; /* -1: it is the last, or there is no such channel */
};
/* Of one rank, where the pattern has heads: O(channels + ranks of its host). */
void topo_nvls_get(const struct topo_heads *h, int32_t rank, struct topo_nvls *nvls);
void topo_collnet_direct_get(const struct topo_heads *h, int32_t rank,
			     struct topo_collnet_direct *direct);
void topo_collnet_chain_get(const struct topo_heads *h, int32_t rank,
			    struct topo_collnet_chain *chain);

#endif
