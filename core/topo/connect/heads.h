/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heads: GPUs that join their host to the other hosts in NVLS and CollNet. A head begins a channel
 * of the host's graph. NVLS and CollNet direct are stars: a head serves all GPUs of its host. The
 * heads of a host are the distinct GPUs that begin its channels, in the order of the channels.
 * CollNet chain has a chain for each channel, with the head at its beginning.
 *
 * A communicator with CollNet searches the chain's graph (core/comm/chains.c). None searches the
 * stars, because no program uses them; `doppel topo search` and tests do. Ranks are those of the
 * communicator; hosts are in the order of their smallest rank; channels are those of the hosts'
 * graphs. All functions return the same result on all ranks, computed from the contributions of all
 * ranks.
 */
#ifndef CORE_TOPO_HEADS_H
#define CORE_TOPO_HEADS_H

#include "core/topo/topo.h"

/* A rank's contribution: its place in each channel of its host's graphs. */
struct topo_head_info {
	int32_t nchannels; /* channels of the graph; 0: the host has no such graph */
	struct topo_tree_info order;
};
struct topo_heads_info {
	struct topo_head_info graph[TOPO_HEAD_PATTERNS]; /* index: topo_head_index */
};
DOPPEL_CHECK_SIZE(struct topo_heads_info, 204);
/* Fills the contribution of rank `local_rank` of this host. The index of `graph` is
 * topo_head_index. */
void topo_heads_info_fill(struct topo_heads_info *info, const struct topo_system *sys,
			  struct topo_graph *const graph[TOPO_HEAD_PATTERNS], int32_t local_rank);

/* The heads of all hosts; opaque. */
struct topo_heads;
/* Computes the heads. `all` and `infos` have nranks entries each. The caller keeps both; they must
 * live as long as the heads.
 *
 * ncclInvalidUsage, which names pattern, channel and rank: a rank's number of channels is not that
 * of its host, or its place is outside its host's order or is another rank's. A pattern has no
 * heads if a host has no such graph. Stars have no heads if hosts have different numbers of heads.
 * The log has the reason. O(ranks x channels). */
ncclResult_t topo_heads_connect(const struct topo_rank_info *all,
				const struct topo_heads_info *infos, int nranks,
				struct topo_heads **heads);
void topo_heads_free(struct topo_heads *h);

int32_t topo_heads_hosts(const struct topo_heads *h);
/* Returns the heads of each host; for the CollNet chain its channels. 0: no heads. */
int32_t topo_heads_count(const struct topo_heads *h, enum topo_pattern pattern);
/* Returns the rank that is head `head` of a host. */
int32_t topo_heads_rank(const struct topo_heads *h, enum topo_pattern pattern, int32_t head,
			int32_t host);
/* Adds a hash of each pattern that has heads to the digest, which ranks compare. */
void topo_heads_digest(const struct topo_heads *h, struct topo_digest *d);

/* A rank's part in a star. */
struct topo_head {
	int32_t head; /* index among the heads of its host; -1: not a head */
	int32_t from; /* first channel that it begins, whose NICs it uses; -1: not a head */
};
/* NVLS between hosts. The heads with one index form the double tree of the hosts
 * (core/topo/connect/connect_tree.c): one tree for even channels, the other for odd ones. -1: no
 * such rank. */
#define TOPO_HEAD_TREES 2
struct topo_nvls {
	struct topo_head own;
	int32_t up[TOPO_HEAD_TREES], down[TOPO_HEAD_TREES][2];
};
/* CollNet direct. Each rank sends a part to each head of its host. Each head sends its sum to the
 * network. */
struct topo_collnet_direct {
	struct topo_head own;
	int32_t ups, up[DEV_MAX_CHANNELS];   /* the heads of its host, except itself */
	int32_t downs, down[TOPO_MAX_LOCAL]; /* of a head: all other ranks of its host */
};
/* CollNet chain, by channel. */
struct topo_collnet_chain {
	int32_t up[DEV_MAX_CHANNELS];   /* nranks: the network; -1: no such channel */
	int32_t down[DEV_MAX_CHANNELS]; /* -1: the last rank, or no such channel */
};
/* Return the part of one rank, if the pattern has heads: O(channels + ranks of its host). */
void topo_nvls_get(const struct topo_heads *h, int32_t rank, struct topo_nvls *nvls);
void topo_collnet_direct_get(const struct topo_heads *h, int32_t rank,
			     struct topo_collnet_direct *direct);
void topo_collnet_chain_get(const struct topo_heads *h, int32_t rank,
			    struct topo_collnet_chain *chain);

#endif
