/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's trees to the trees of the communicator (topo_connect.c). In a host a tree is a
 * chain: each GPU of the graph's order is the parent of the next one. The hosts form a binary tree,
 * in NCCL's two shapes:
 *
 *	first    host 0 is the root and has one child. Any other host with lowest bit b has its
 *	         children at a distance of b/2 below and above it, so odd hosts are leaves.
 *	         For 8 hosts:
 *
 *	                  0 - 4
 *	                     / \
 *	                    2   6
 *	                   / \ / \
 *	                   1 3 5 7
 *
 *	second   the same with other numbers: host h is at n-1-h if n is even, at h-1 (modulo n) if
 *	         n is odd. Hosts that are leaves in one tree have children in the other, so all
 *	         hosts send about as much.
 *
 * The link from the parent host ends at the first GPU of the order. The graph's shape defines from
 * which GPUs the links to child hosts begin.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/topo/connect/topo_connect.h"

/* ---- the tree of hosts ---------------------------------------------------------------------- */

/* Returns the host above `at` at the largest existing distance of step, step/2, ...; -1: no such
 * host. */
static int32_t topo_tree_above(int32_t at, int32_t step, int32_t n)
{
	while (step && at + step >= n)
		step /= 2;
	return step ? at + step : -1;
}

static struct topo_tree_host topo_tree_first(int32_t at, int32_t n)
{
	struct topo_tree_host t = {-1, {-1, -1}, 0};
	int32_t bit = 1;

	while (at ? !(at & bit) : bit < n)
		bit *= 2;
	t.down[1] = topo_tree_above(at, bit / 2, n);
	if (!at)
		return t;
	if (bit > 1)
		t.down[0] = at - bit / 2;
	t.up = (at & ~bit) | bit * 2;
	if (t.up >= n)
		t.up = at & ~bit;
	t.child = at > t.up;
	return t;
}

/* Converts the number of a host to its place in the second tree or, with `back`, the place to the
 * number. */
static int32_t topo_tree_renumber(int32_t host, int32_t n, bool back)
{
	if (host < 0)
		return -1;
	if (n % 2 == 0)
		return n - 1 - host;
	return (host + (back ? 1 : n - 1)) % n;
}

struct topo_tree_host topo_tree_of(int32_t host, int32_t n, bool second)
{
	struct topo_tree_host t;

	if (!second)
		return topo_tree_first(host, n);
	t = topo_tree_first(topo_tree_renumber(host, n, false), n);
	t.up = topo_tree_renumber(t.up, n, true);
	for (int i = 0; i < 2; i++)
		t.down[i] = topo_tree_renumber(t.down[i], n, true);
	return t;
}

/* ---- the chains ----------------------------------------------------------------------------- */

/* One channel of the hosts' graphs. */
struct topo_connect_tree {
	const struct topo_hosts *hosts;
	const int32_t *first; /* [hosts->count + 1]: where each host begins in `chain` */
	int32_t *chain;       /* [nranks]: the ranks, host after host, in order */
};

static struct topo_connect_tree topo_tree_at(const struct topo_all_trees *a,
					     const struct topo_hosts *hosts, int32_t channel)
{
	return (struct topo_connect_tree){.hosts = hosts,
					  .first = a->first,
					  .chain = a->chain +
						   (size_t)channel * (size_t)hosts->nranks};
}

static int32_t topo_tree_host_ranks(const struct topo_connect_tree *c, int32_t host)
{
	return c->first[host + 1] - c->first[host];
}

/* Puts all ranks at their places in one channel of the hosts' graphs. */
static ncclResult_t topo_tree_chain(const struct topo_connect_tree *c, int32_t channel)
{
	const struct topo_hosts *h = c->hosts;

	memset(c->chain, 0xff, (size_t)h->nranks * sizeof *c->chain);
	for (int32_t r = 0; r < h->nranks; r++) {
		int32_t place = h->all[r].tree.place[channel], host = h->of_rank[r];
		int32_t n = topo_tree_host_ranks(c, host);

		if (place < 0 || place >= n || c->chain[c->first[host] + place] >= 0) {
			WARN("channel %d: rank %d is at place %d of its host's tree, expected one "
			     "of 0 to "
			     "%d that no other rank has: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and "
			     "NCCL_TOPO_FILE must be the same on all ranks of a host, and "
			     "all must find its NICs",
			     channel, r, place, n - 1);
			return ncclInvalidUsage;
		}
		c->chain[c->first[host] + place] = r;
	}
	return ncclSuccess;
}

/* Returns the place of the GPU from which the host's tree goes to a child host. */
static int32_t topo_tree_leaves_at(const struct topo_connect_tree *c, int32_t host, int32_t child)
{
	const struct topo_rank_info *info = &c->hosts->all[c->chain[c->first[host]]];
	int32_t shape = info->graph[TOPO_TREE].shape;
	bool second =
		shape == TOPO_SHAPE_SPLIT_TREE || (shape == TOPO_SHAPE_BALANCED_TREE && child == 0);

	return second && topo_tree_host_ranks(c, host) > 1;
}

/* Returns the rank at a place of a host; -1: no such host. */
static int32_t topo_tree_rank_to(const struct topo_connect_tree *c, int32_t host, int32_t place)
{
	return host < 0 ? -1 : c->chain[c->first[host] + place];
}

static int32_t topo_tree_parent(const struct topo_connect_tree *c, int32_t host, int32_t place,
				const struct topo_tree_host *t)
{
	if (place)
		return topo_tree_rank_to(c, host, place - 1);
	return t->up < 0 ? -1
			 : topo_tree_rank_to(c, t->up, topo_tree_leaves_at(c, t->up, t->child));
}

/* ---- a rank's links ------------------------------------------------------------------------- */

static void topo_tree_add(struct topo_trees *trees, int32_t channel, int32_t *n, int32_t rank,
			  int32_t nic)
{
	if (rank < 0)
		return;
	ASSERT(*n < TOPO_TREE_DOWN);
	trees->down[channel][*n] = rank;
	trees->nic_down[channel][(*n)++] = (int8_t)nic;
}

static void topo_tree_put(const struct topo_connect_tree *c, int32_t channel, int32_t from,
			  int32_t rank, struct topo_trees *trees, const struct topo_tree_host *t)
{
	const struct topo_rank_info *info = &c->hosts->all[rank];
	int32_t host = c->hosts->of_rank[rank], place = info->tree.place[from], n = 0;

	trees->up[channel] = topo_tree_parent(c, host, place, t);
	trees->from[channel] = from;
	trees->nic_up[channel] = place || t->up < 0 ? -1 : 0;
	for (int i = 0; i < TOPO_TREE_DOWN; i++) {
		trees->down[channel][i] = -1;
		trees->nic_down[channel][i] = -1;
	}
	if (place + 1 < topo_tree_host_ranks(c, host))
		topo_tree_add(trees, channel, &n, c->chain[c->first[host] + place + 1], -1);
	for (int32_t child = 0; child < 2; child++)
		if (topo_tree_leaves_at(c, host, child) == place)
			topo_tree_add(trees, channel, &n, topo_tree_rank_to(c, t->down[child], 0),
				      place);
}

/* ---- all channels --------------------------------------------------------------------------- */

/* Returns the place of a host: in the first tree for the first half of the channels, in the second
 * tree for the others. */
static struct topo_tree_host topo_tree_of_host(const struct topo_all_trees *a,
					       const struct topo_hosts *h, int32_t host,
					       int32_t channel)
{
	return topo_tree_of(host, h->count, channel >= a->graph_channels);
}

/* Fills parent, [nranks], of one channel. */
static void topo_tree_parents(const struct topo_all_trees *a, const struct topo_connect_tree *c,
			      int32_t channel, int32_t *parent)
{
	for (int32_t host = 0; host < c->hosts->count; host++) {
		struct topo_tree_host t = topo_tree_of_host(a, c->hosts, host, channel);

		for (int32_t place = 0; place < topo_tree_host_ranks(c, host); place++)
			parent[topo_tree_rank_to(c, host, place)] =
				topo_tree_parent(c, host, place, &t);
	}
}

ncclResult_t topo_trees_make(struct topo_all_trees *a, const struct topo_hosts *hosts,
			     int32_t *parent, int32_t *memory)
{
	ncclResult_t rc = ncclSuccess;

	*a = (struct topo_all_trees){.graph_channels = topo_connect_channels(hosts),
				     .first = memory,
				     .chain = memory + hosts->nranks + 1};
	if (a->graph_channels < 1) {
		WARN("a rank has no channel, expected 1 to %d", DEV_MAX_CHANNELS);
		return ncclInternalError;
	}
	a->distinct = MIN_OF(2 * a->graph_channels, DEV_MAX_CHANNELS);
	topo_hosts_first(hosts, memory);
	for (int32_t i = 0; i < a->distinct && !rc; i++) {
		int32_t from = i % a->graph_channels;
		struct topo_connect_tree c = topo_tree_at(a, hosts, from);

		if (i < a->graph_channels)
			rc = topo_tree_chain(&c, from);
		if (!rc)
			topo_tree_parents(a, &c, i, parent + (size_t)i * (size_t)hosts->nranks);
	}
	return rc;
}

void topo_trees_of(const struct topo_all_trees *a, const struct topo_hosts *hosts, int32_t rank,
		   struct topo_trees *trees)
{
	memset(trees, 0, sizeof *trees);
	trees->distinct = a->distinct;
	for (int32_t i = 0; i < a->distinct; i++) {
		int32_t from = i % a->graph_channels;
		struct topo_connect_tree c = topo_tree_at(a, hosts, from);
		struct topo_tree_host t = topo_tree_of_host(a, hosts, hosts->of_rank[rank], i);

		topo_tree_put(&c, i, from, rank, trees, &t);
	}
	for (int32_t i = a->distinct; i < DEV_MAX_CHANNELS; i++) {
		int32_t as = i % a->distinct;

		trees->from[i] = trees->from[as];
		trees->up[i] = trees->up[as];
		trees->nic_up[i] = trees->nic_up[as];
		memcpy(trees->down[i], trees->down[as], sizeof trees->down[i]);
		memcpy(trees->nic_down[i], trees->nic_down[as], sizeof trees->nic_down[i]);
	}
}

ncclResult_t topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_trees *trees, int32_t *parent)
{
	size_t n = (size_t)nranks;
	struct topo_hosts hosts = {.all = all, .nranks = nranks};
	size_t count = 3 * n + topo_trees_memory(nranks, (size_t)topo_connect_fewest(all, nranks));
	int32_t *memory = os_alloc(count * sizeof *memory, "tree connect");
	struct topo_all_trees a;

	ASSERT(nranks >= 1 && rank >= 0 && rank < nranks);
	memset(trees, 0, sizeof *trees);
	if (!memory) {
		WARN("out of memory for connecting the trees of %d ranks", nranks);
		return ncclSystemError;
	}
	hosts.of_rank = memory;
	topo_hosts_find(&hosts, memory + n);
	ncclResult_t rc = topo_trees_make(&a, &hosts, parent, memory + 3 * n);

	if (!rc)
		topo_trees_of(&a, &hosts, rank, trees);
	os_free(memory);
	return rc;
}

/* ---- links towards a rank ------------------------------------------------------------------- */

/* Returns the index of the link to child `below`, or 0, the parent's, if `below` is not a child. */
static uint8_t topo_tree_link(const int32_t down[TOPO_TREE_DOWN], int32_t below)
{
	for (int i = 0; i < TOPO_TREE_DOWN; i++)
		if (below >= 0 && down[i] == below)
			return (uint8_t)(1 + i);
	return 0;
}

/* Fills toward[] by walking up from each rank to one that is filled, and copies its value to all
 * ranks below. Each rank is visited at most twice. */
#define TOPO_TREE_UNKNOWN 0xfeu
void topo_tree_toward(const int32_t *parent, int nranks, int rank,
		      const int32_t down[TOPO_TREE_DOWN], uint8_t *toward)
{
	memset(toward, TOPO_TREE_UNKNOWN, (size_t)nranks);
	toward[rank] = TOPO_TREE_SELF;
	for (int32_t r = 0; r < nranks; r++) {
		int32_t below = -1, at = r, hops = 0;
		uint8_t link;

		while (at >= 0 && toward[at] == TOPO_TREE_UNKNOWN) {
			below = at;
			at = parent[at];
			hops++;
			ASSERT(hops < nranks);
		}
		link = at < 0 ? 0 : at == rank ? topo_tree_link(down, below) : toward[at];
		for (at = r; at >= 0 && toward[at] == TOPO_TREE_UNKNOWN; at = parent[at])
			toward[at] = link;
	}
}

const char *topo_tree_text(const struct topo_trees *trees, int32_t channel, int rank,
			   char text[TOPO_TREE_TEXT])
{
	const int32_t *down = trees->down[channel];

	DOPPEL_STATIC_CHECK(TOPO_TREE_DOWN == 3, "as many as the text has");
	snprintf(text, TOPO_TREE_TEXT, "%d/%d/%d->%d->%d", down[0], down[1], down[2], rank,
		 trees->up[channel]);
	return text;
}

void topo_trees_log(const struct topo_trees *trees, int32_t nchannels, int rank)
{
	char text[768], tree[TOPO_TREE_TEXT];
	size_t at = 0;

	if (!log_wanted(LOG_LEVEL_INFO, LOG_GRAPH | LOG_INIT))
		return;
	text[0] = '\0';
	for (int32_t c = 0; c < nchannels && at + 80 < sizeof text; c++)
		at += (size_t)snprintf(text + at, sizeof text - at, " [%d] %s", c,
				       topo_tree_text(trees, c, rank, tree));
	INFO(LOG_GRAPH | LOG_INIT, "Trees%s", text);
}

void topo_tree_info_fill(struct topo_tree_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank)
{
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++) {
		info->place[c] = -1;
		for (int32_t i = 0; i < n && c < graph->nchannels; i++)
			if (graph->order[c][i] == local_rank)
				info->place[c] = (int8_t)i;
	}
}
