/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's NVLS and CollNet graphs to the heads of the communicator (heads.h,
 * topo_connect.c). The ranks of each channel are kept in the order of the graphs, host after host.
 * A host's head in a channel is its first rank there.
 */
#include "core/topo/connect/heads.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/topo/connect/topo_connect.h"

/* The heads of one pattern. */
struct topo_heads_graph {
	enum topo_pattern pattern;
	int32_t most;  /* most channels of any host */
	int32_t count; /* heads of each host; for the CollNet chain its channels */
	int32_t *of;   /* [hosts]: channels of each host's graph */
	/* [most * nranks]: the ranks, host after host, in order. -1: no such channel. */
	int32_t *chain;
	/* [nranks], for stars: index of the rank among its host's heads. -1: not a head. */
	int32_t *number;
	int32_t *rank; /* [most * hosts]: heads, by index and host */
	int32_t *from; /* [most * hosts]: first channel of each head */
};
struct topo_heads {
	struct topo_hosts hosts;
	const struct topo_heads_info *infos; /* [nranks] */
	int32_t *first;                      /* [hosts + 1]: where each host begins in `chain` */
	struct topo_heads_graph graph[TOPO_HEAD_PATTERNS];
	int32_t memory[];
};

void topo_heads_info_fill(struct topo_heads_info *info, const struct topo_system *sys,
			  struct topo_graph *const graph[TOPO_HEAD_PATTERNS], int32_t local_rank)
{
	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		info->graph[p].nchannels = graph[p]->nchannels;
		topo_tree_info_fill(&info->graph[p].order, graph[p], topo_gpu_count(sys),
				    local_rank);
	}
}

/* ---- the order of all ranks ----------------------------------------------------------------- */

static const struct topo_head_info *topo_heads_info_of(const struct topo_heads *h,
						       enum topo_pattern pattern, int32_t rank)
{
	return &h->infos[rank].graph[topo_head_index(pattern)];
}

static int32_t topo_heads_host_ranks(const struct topo_heads *h, int32_t host)
{
	return h->first[host + 1] - h->first[host];
}

static int32_t topo_heads_smallest(const struct topo_heads *h, int32_t host)
{
	int32_t rank = 0;

	while (h->hosts.of_rank[rank] != host)
		rank++;
	return rank;
}

/* Sets the number of channels of each host. All ranks of a host must have the same number. */
static ncclResult_t topo_heads_channels(const struct topo_heads *h, struct topo_heads_graph *g)
{
	memset(g->of, 0xff, (size_t)h->hosts.count * sizeof *g->of);
	for (int32_t r = 0; r < h->hosts.nranks; r++) {
		int32_t n = topo_heads_info_of(h, g->pattern, r)->nchannels;
		int32_t *of = &g->of[h->hosts.of_rank[r]];

		if (*of < 0)
			*of = n;
		if (n < 0 || n > DEV_MAX_CHANNELS || n != *of) {
			WARN("rank %d has %d channels of %s, expected %d as another rank of its "
			     "host, and 0 to %d: NCCL_TOPO_FILE must be the same on all ranks of a "
			     "host",
			     r, n, topo_pattern_name(g->pattern), *of, DEV_MAX_CHANNELS);
			return ncclInvalidUsage;
		}
		g->most = MAX_OF(g->most, n);
	}
	return ncclSuccess;
}

/* Puts all ranks at their places in one channel. */
static ncclResult_t topo_heads_places(const struct topo_heads *h, struct topo_heads_graph *g,
				      int32_t channel)
{
	int32_t *chain = g->chain + (size_t)channel * (size_t)h->hosts.nranks;

	memset(chain, 0xff, (size_t)h->hosts.nranks * sizeof *chain);
	for (int32_t r = 0; r < h->hosts.nranks; r++) {
		int32_t host = h->hosts.of_rank[r], n = topo_heads_host_ranks(h, host);
		int32_t place = topo_heads_info_of(h, g->pattern, r)->order.place[channel];

		if (channel >= g->of[host])
			continue;
		if (place < 0 || place >= n || chain[h->first[host] + place] >= 0) {
			WARN("%s, channel %d: rank %d is at place %d of its host, expected one of "
			     "0 to %d that no other rank has: NCCL_TOPO_FILE must be the same on "
			     "all ranks of a host",
			     topo_pattern_name(g->pattern), channel, r, place, n - 1);
			return ncclInvalidUsage;
		}
		chain[h->first[host] + place] = r;
	}
	return ncclSuccess;
}

/* ---- the heads of each host ----------------------------------------------------------------- */

static bool topo_heads_is_star(const struct topo_heads_graph *g)
{
	return g->pattern != TOPO_COLLNET_CHAIN;
}

/* Lists the heads of a host in the order of the channels; for a star each head once. Returns their
 * number. */
static int32_t topo_heads_of_host(const struct topo_heads *h, struct topo_heads_graph *g,
				  int32_t host)
{
	int32_t count = 0;

	for (int32_t c = 0; c < g->of[host]; c++) {
		int32_t rank =
			g->chain[(size_t)c * (size_t)h->hosts.nranks + (size_t)h->first[host]];
		size_t at = (size_t)count * (size_t)h->hosts.count + (size_t)host;

		if (topo_heads_is_star(g) && g->number[rank] >= 0)
			continue;
		g->number[rank] = count++;
		g->rank[at] = rank;
		g->from[at] = c;
	}
	return count;
}

/* Returns the number of heads of each host. Stars have none unless all hosts have the same number.
 * The CollNet chain uses the channels that all hosts have. */
static int32_t topo_heads_agree(const struct topo_heads *h, struct topo_heads_graph *g)
{
	int32_t count = topo_heads_of_host(h, g, 0);

	for (int32_t host = 1; host < h->hosts.count; host++) {
		int32_t n = topo_heads_of_host(h, g, host);
		bool alike = topo_heads_is_star(g) ? n == count : (n == 0) == (count == 0);

		if (!alike) {
			INFO(LOG_GRAPH | LOG_INIT,
			     "%s is not connected: the host of rank 0 has %d heads, that of rank "
			     "%d has %d",
			     topo_pattern_name(g->pattern), count, topo_heads_smallest(h, host), n);
			return 0;
		}
		count = MIN_OF(count, n);
	}
	return count;
}

static ncclResult_t topo_heads_make(const struct topo_heads *h, struct topo_heads_graph *g)
{
	ncclResult_t rc = topo_heads_channels(h, g);

	for (int32_t c = 0; c < g->most && !rc; c++)
		rc = topo_heads_places(h, g, c);
	memset(g->number, 0xff, (size_t)h->hosts.nranks * sizeof *g->number);
	if (!rc && g->most)
		g->count = topo_heads_agree(h, g);
	return rc;
}

/* ---- all patterns --------------------------------------------------------------------------- */

/* Returns the number of channels that a pattern's arrays need room for. */
static size_t topo_heads_room(const struct topo_heads_info *infos, int nranks, int p)
{
	int32_t most = 0;

	for (int r = 0; r < nranks; r++)
		most = MAX_OF(most, MIN_OF(infos[r].graph[p].nchannels, DEV_MAX_CHANNELS));
	return (size_t)most;
}

/* Returns the int32_t that one pattern needs, for `n` ranks on at most `n` hosts. */
static size_t topo_heads_memory(size_t n, size_t channels)
{
	return n * (2 + 3 * channels);
}

static void topo_heads_place_arrays(struct topo_heads_graph *g, size_t n, size_t channels,
				    int32_t *memory)
{
	g->of = memory;
	g->number = g->of + n;
	g->chain = g->number + n;
	g->rank = g->chain + n * channels;
	g->from = g->rank + n * channels;
}

ncclResult_t topo_heads_connect(const struct topo_rank_info *all,
				const struct topo_heads_info *infos, int nranks,
				struct topo_heads **heads)
{
	size_t n = (size_t)nranks, channels[TOPO_HEAD_PATTERNS], count = 4 * n + 1;
	ncclResult_t rc = ncclSuccess;

	ASSERT(nranks >= 1);
	*heads = NULL;
	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		channels[p] = topo_heads_room(infos, nranks, p);
		count += topo_heads_memory(n, channels[p]);
	}
	struct topo_heads *h = os_alloc(sizeof *h + count * sizeof *h->memory, "heads of hosts");

	if (!h) {
		WARN("out of memory for connecting the heads of %d ranks", nranks);
		return ncclSystemError;
	}
	int32_t *memory = h->memory + 4 * n + 1;

	h->hosts = (struct topo_hosts){.all = all, .nranks = nranks, .of_rank = h->memory};
	h->infos = infos;
	h->first = h->memory + n;
	topo_hosts_find(&h->hosts, h->first + n + 1);
	topo_hosts_first(&h->hosts, h->first);
	for (int p = 0; p < TOPO_HEAD_PATTERNS && !rc; p++) {
		h->graph[p].pattern = (enum topo_pattern)(TOPO_PATTERNS + p);
		topo_heads_place_arrays(&h->graph[p], n, channels[p], memory);
		memory += topo_heads_memory(n, channels[p]);
		rc = topo_heads_make(h, &h->graph[p]);
	}
	if (rc)
		topo_heads_free(h);
	else
		*heads = h;
	return rc;
}

void topo_heads_free(struct topo_heads *h)
{
	os_free(h);
}

static const struct topo_heads_graph *topo_heads_graph_of(const struct topo_heads *h,
							  enum topo_pattern pattern)
{
	ASSERT(pattern >= TOPO_PATTERNS && pattern < TOPO_SEARCHED_PATTERNS);
	return &h->graph[topo_head_index(pattern)];
}

int32_t topo_heads_hosts(const struct topo_heads *h)
{
	return h->hosts.count;
}

int32_t topo_heads_count(const struct topo_heads *h, enum topo_pattern pattern)
{
	return topo_heads_graph_of(h, pattern)->count;
}

int32_t topo_heads_rank(const struct topo_heads *h, enum topo_pattern pattern, int32_t head,
			int32_t host)
{
	const struct topo_heads_graph *g = topo_heads_graph_of(h, pattern);

	ASSERT(head >= 0 && head < g->count && host >= 0 && host < h->hosts.count);
	return g->rank[(size_t)head * (size_t)h->hosts.count + (size_t)host];
}

void topo_heads_digest(const struct topo_heads *h, struct topo_digest *d)
{
	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++) {
		const struct topo_heads_graph *g = &h->graph[p];
		size_t heads = (size_t)g->count * (size_t)h->hosts.count;
		size_t places = (size_t)g->most * (size_t)h->hosts.nranks;
		uint64_t of = hash64_seeded(g->rank, heads * sizeof *g->rank, (uint64_t)g->count);

		d->heads[p] = g->count ? hash64_seeded(g->chain, places * sizeof *g->chain, of) : 0;
	}
}

/* ---- one rank's part ------------------------------------------------------------------------ */

static struct topo_head topo_head_of(const struct topo_heads *h, const struct topo_heads_graph *g,
				     int32_t rank)
{
	int32_t head = g->number[rank], host = h->hosts.of_rank[rank];
	size_t at = (size_t)MAX_OF(head, 0) * (size_t)h->hosts.count + (size_t)host;

	return (struct topo_head){.head = head, .from = head < 0 ? -1 : g->from[at]};
}

/* Returns the head's rank; -1: no such head, or no such host. */
static int32_t topo_heads_at(const struct topo_heads *h, enum topo_pattern pattern, int32_t head,
			     int32_t host)
{
	return head < 0 || host < 0 ? -1 : topo_heads_rank(h, pattern, head, host);
}

void topo_nvls_get(const struct topo_heads *h, int32_t rank, struct topo_nvls *nvls)
{
	const struct topo_heads_graph *g = topo_heads_graph_of(h, TOPO_NVLS);

	ASSERT(g->count > 0 && rank >= 0 && rank < h->hosts.nranks);
	nvls->own = topo_head_of(h, g, rank);
	for (int t = 0; t < TOPO_HEAD_TREES; t++) {
		struct topo_tree_host at =
			topo_tree_of(h->hosts.of_rank[rank], h->hosts.count, t > 0);

		nvls->up[t] = topo_heads_at(h, TOPO_NVLS, nvls->own.head, at.up);
		for (int i = 0; i < 2; i++)
			nvls->down[t][i] = topo_heads_at(h, TOPO_NVLS, nvls->own.head, at.down[i]);
	}
}

void topo_collnet_direct_get(const struct topo_heads *h, int32_t rank,
			     struct topo_collnet_direct *direct)
{
	const struct topo_heads_graph *g = topo_heads_graph_of(h, TOPO_COLLNET_DIRECT);

	ASSERT(g->count > 0 && rank >= 0 && rank < h->hosts.nranks);
	int32_t host = h->hosts.of_rank[rank], n = topo_heads_host_ranks(h, host);

	memset(direct, 0, sizeof *direct);
	direct->own = topo_head_of(h, g, rank);
	for (int32_t i = 0; i < g->count; i++) {
		int32_t head = topo_heads_rank(h, TOPO_COLLNET_DIRECT, i, host);

		if (head != rank)
			direct->up[direct->ups++] = head;
	}
	for (int32_t i = 1; i < n && direct->own.head >= 0; i++)
		direct->down[direct->downs++] =
			g->chain[(size_t)direct->own.from * (size_t)h->hosts.nranks +
				 (size_t)(h->first[host] + i)];
}

void topo_collnet_chain_get(const struct topo_heads *h, int32_t rank,
			    struct topo_collnet_chain *chain)
{
	const struct topo_heads_graph *g = topo_heads_graph_of(h, TOPO_COLLNET_CHAIN);

	ASSERT(g->count > 0 && rank >= 0 && rank < h->hosts.nranks);
	const struct topo_tree_info *order = &topo_heads_info_of(h, g->pattern, rank)->order;
	int32_t host = h->hosts.of_rank[rank], n = topo_heads_host_ranks(h, host);

	memset(chain, 0xff, sizeof *chain);
	for (int32_t c = 0; c < g->count; c++) {
		const int32_t *at = g->chain + (size_t)c * (size_t)h->hosts.nranks + h->first[host];
		int32_t place = order->place[c];

		chain->up[c] = place > 0 ? at[place - 1] : h->hosts.nranks;
		chain->down[c] = place + 1 < n ? at[place + 1] : -1;
	}
}
