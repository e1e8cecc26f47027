/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conditions that the heads of any hosts meet, checked against the ranks' contributions alone:
 * heads begin the channels of their host, trees over heads are spanning and symmetric, chains and
 * stars have every rank of a host.
 */
#ifndef TESTS_UNIT_TOPO_HEADS_CHECK_H
#define TESTS_UNIT_TOPO_HEADS_CHECK_H

#include "core/topo/connect/heads.h"
#include "tests/unit/topo/topo_util.h"

struct heads_world {
	int ranks;
	const struct topo_rank_info *all;
	const struct topo_heads_info *infos;
	const struct topo_heads *heads;
};

static inline bool heads_same_host(const struct heads_world *w, int a, int b)
{
	return w->all[a].host_hash == w->all[b].host_hash;
}

static inline int heads_on_host(const struct heads_world *w, int rank)
{
	int n = 0;

	for (int r = 0; r < w->ranks; r++)
		n += heads_same_host(w, r, rank);
	return n;
}

static inline const struct topo_head_info *heads_info(const struct heads_world *w,
						      enum topo_pattern pattern, int rank)
{
	return &w->infos[rank].graph[topo_head_index(pattern)];
}

/* The first channel that the rank begins; -1: none. */
static inline int heads_first(const struct heads_world *w, enum topo_pattern pattern, int rank)
{
	const struct topo_head_info *info = heads_info(w, pattern, rank);

	for (int c = 0; c < info->nchannels; c++)
		if (info->order.place[c] == 0)
			return c;
	return -1;
}

/* How many ranks of the host begin a channel before `channel`. */
static inline int heads_before(const struct heads_world *w, enum topo_pattern pattern, int rank,
			       int channel)
{
	int n = 0;

	for (int r = 0; r < w->ranks; r++) {
		int first = heads_same_host(w, r, rank) ? heads_first(w, pattern, r) : -1;

		n += first >= 0 && first < channel;
	}
	return n;
}

/* How many heads the graph of a rank's host has; of a chain, channels. */
static inline int heads_of_graph(const struct heads_world *w, enum topo_pattern pattern, int rank)
{
	return pattern == TOPO_COLLNET_CHAIN ? heads_info(w, pattern, rank)->nchannels
					     : heads_before(w, pattern, rank, DEV_MAX_CHANNELS);
}

/* How many heads all hosts have. */
static inline int heads_expected(const struct heads_world *w, enum topo_pattern pattern)
{
	int count = heads_of_graph(w, pattern, 0);

	for (int r = 1; r < w->ranks; r++) {
		int n = heads_of_graph(w, pattern, r);

		if (pattern == TOPO_COLLNET_CHAIN)
			count = MIN_OF(count, n);
		else if (n != count)
			return 0;
	}
	return count;
}

/* A head's number and channel are those of its graph, and it is the only one of its host with this
 * number. Others have none. */
static inline void heads_check_own(const struct heads_world *w, enum topo_pattern pattern, int rank,
				   struct topo_head own)
{
	int first = heads_first(w, pattern, rank), here = 0;

	UTIL_EXPECT(own.from == first);
	if (first < 0) {
		UTIL_EXPECT(own.head == -1);
		return;
	}
	UTIL_EXPECT(own.head == heads_before(w, pattern, rank, first));
	for (int host = 0; host < topo_heads_hosts(w->heads); host++) {
		int r = topo_heads_rank(w->heads, pattern, own.head, host);

		UTIL_EXPECT(r >= 0 && r < w->ranks);
		UTIL_EXPECT(heads_same_host(w, r, rank) == (r == rank));
		here += r == rank;
	}
	UTIL_EXPECT(here == 1);
}

/* ---- NVLS ----------------------------------------------------------------------------------- */

static inline bool heads_has_child(const struct topo_nvls *n, int t, int child)
{
	return (n->down[t][0] == child) + (n->down[t][1] == child) == 1;
}

/* Parents and children have each other once, on other hosts, and have one number. */
static inline void heads_check_nvls_links(const struct heads_world *w, int rank, int t)
{
	struct topo_nvls own, other;
	int links[3], up;

	topo_nvls_get(w->heads, rank, &own);
	up = links[0] = own.up[t];
	links[1] = own.down[t][0];
	links[2] = own.down[t][1];
	for (int i = 0; i < 3; i++) {
		if (links[i] < 0)
			continue;
		UTIL_EXPECT(own.own.head >= 0 && links[i] < w->ranks);
		UTIL_EXPECT(!heads_same_host(w, rank, links[i]));
		topo_nvls_get(w->heads, links[i], &other);
		UTIL_EXPECT(other.own.head == own.own.head);
		UTIL_EXPECT(links[i] == up ? heads_has_child(&other, t, rank)
					   : other.up[t] == rank);
	}
}

/* From each head the way leads up to one root, in fewer steps than there are hosts. */
static inline void heads_check_nvls_root(const struct heads_world *w, int head, int t)
{
	int root = -1, hosts = topo_heads_hosts(w->heads);
	struct topo_nvls n;

	for (int host = 0; host < hosts; host++) {
		int at = topo_heads_rank(w->heads, TOPO_NVLS, head, host), steps = 0;

		for (;;) {
			topo_nvls_get(w->heads, at, &n);
			if (n.up[t] < 0)
				break;
			at = n.up[t];
			UTIL_EXPECT(++steps < hosts);
		}
		UTIL_EXPECT(root < 0 || root == at);
		root = at;
	}
}

static inline void heads_check_nvls(const struct heads_world *w)
{
	struct topo_nvls n;

	for (int r = 0; r < w->ranks; r++) {
		topo_nvls_get(w->heads, r, &n);
		heads_check_own(w, TOPO_NVLS, r, n.own);
		for (int t = 0; t < TOPO_HEAD_TREES; t++)
			heads_check_nvls_links(w, r, t);
	}
	for (int h = 0; h < topo_heads_count(w->heads, TOPO_NVLS); h++)
		for (int t = 0; t < TOPO_HEAD_TREES; t++)
			heads_check_nvls_root(w, h, t);
}

/* ---- CollNet -------------------------------------------------------------------------------- */

/* Each rank sends to all heads of its host but itself, and each head receives from all others. */
static inline void heads_check_direct(const struct heads_world *w)
{
	struct topo_collnet_direct d;

	for (int r = 0; r < w->ranks; r++) {
		int heads = topo_heads_count(w->heads, TOPO_COLLNET_DIRECT);
		uint64_t seen = UINT64_C(1) << w->all[r].local_rank;

		topo_collnet_direct_get(w->heads, r, &d);
		heads_check_own(w, TOPO_COLLNET_DIRECT, r, d.own);
		UTIL_EXPECT(d.ups == heads - (d.own.head >= 0));
		for (int i = 0; i < d.ups; i++) {
			UTIL_EXPECT(d.up[i] != r && heads_same_host(w, r, d.up[i]));
			UTIL_EXPECT(heads_first(w, TOPO_COLLNET_DIRECT, d.up[i]) >= 0);
			for (int k = 0; k < i; k++)
				UTIL_EXPECT(d.up[k] != d.up[i]);
		}
		UTIL_EXPECT(d.downs == (d.own.head < 0 ? 0 : heads_on_host(w, r) - 1));
		for (int i = 0; i < d.downs; i++) {
			uint64_t bit = UINT64_C(1) << w->all[d.down[i]].local_rank;

			UTIL_EXPECT(heads_same_host(w, r, d.down[i]) && !(seen & bit));
			seen |= bit;
		}
	}
}

/* From each head a chain through all ranks of its host, and the same way back to the network. */
static inline void heads_check_chain(const struct heads_world *w, int c)
{
	struct topo_collnet_chain chain;
	int passed = 0;

	for (int host = 0; host < topo_heads_hosts(w->heads); host++) {
		int at = topo_heads_rank(w->heads, TOPO_COLLNET_CHAIN, c, host);
		int head = at, above = w->ranks;

		for (int n = 0; at >= 0; n++) {
			topo_collnet_chain_get(w->heads, at, &chain);
			UTIL_EXPECT(n < w->ranks && heads_same_host(w, at, head));
			UTIL_EXPECT(chain.up[c] == above);
			UTIL_EXPECT(heads_info(w, TOPO_COLLNET_CHAIN, at)->order.place[c] == n);
			above = at;
			at = chain.down[c];
			passed++;
		}
	}
	UTIL_EXPECT(passed == w->ranks);
}

/* ---- all ------------------------------------------------------------------------------------ */

/* The caller has connected w->heads. Returns how many patterns have heads. */
static inline int heads_check(const struct heads_world *w)
{
	int patterns = 0;

	for (int p = TOPO_PATTERNS; p < TOPO_SEARCHED_PATTERNS; p++) {
		enum topo_pattern pattern = (enum topo_pattern)p;

		ck_assert_int_eq(topo_heads_count(w->heads, pattern), heads_expected(w, pattern));
		patterns += topo_heads_count(w->heads, pattern) > 0;
	}
	if (topo_heads_count(w->heads, TOPO_NVLS))
		heads_check_nvls(w);
	if (topo_heads_count(w->heads, TOPO_COLLNET_DIRECT))
		heads_check_direct(w);
	for (int c = 0; c < topo_heads_count(w->heads, TOPO_COLLNET_CHAIN); c++)
		heads_check_chain(w, c);
	return patterns;
}

#endif
