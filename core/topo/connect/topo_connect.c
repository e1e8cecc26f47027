/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data that ranks exchange, and the facts that every pattern needs of it: which ranks are on
 * one host, and how many channels all of them have. Each pattern has a file of its own
 * (connect_ring.c, connect_tree.c).
 *
 * Every rank runs this code on the same gathered data and must compute the same result. It
 * therefore uses only the data: hosts in order of their smallest rank, the fewest channels and the
 * slowest speed of all.
 */
#include "core/topo/connect/topo_connect.h"
#include "core/topo/topo_internal.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"

/* Finds the smallest rank of each host in a hash table, because every rank does this for all
 * ranks. */
void topo_hosts_find(struct topo_hosts *h, int32_t *first)
{
	uint64_t room = 2 * (uint64_t)h->nranks;

	h->count = 0;
	for (int32_t r = 0; r < h->nranks; r++) {
		uint64_t at = hash64_combine(h->all[r].host_hash, 0) % room;

		while (first[at] && h->all[first[at] - 1].host_hash != h->all[r].host_hash)
			at = (at + 1) % room;
		h->of_rank[r] = first[at] ? h->of_rank[first[at] - 1] : h->count++;
		if (!first[at])
			first[at] = r + 1;
	}
}

void topo_hosts_first(const struct topo_hosts *h, int32_t *first)
{
	memset(first, 0, ((size_t)h->count + 1) * sizeof *first);
	for (int32_t r = 0; r < h->nranks; r++)
		first[h->of_rank[r] + 1]++;
	for (int32_t i = 0; i < h->count; i++)
		first[i + 1] += first[i];
}

int32_t topo_connect_channels(const struct topo_hosts *h)
{
	int32_t n = DEV_MAX_CHANNELS;

	for (int32_t r = 0; r < h->nranks; r++)
		for (int p = 0; p < TOPO_PATTERNS; p++)
			n = MIN_OF(n, h->all[r].graph[p].nchannels);
	return n;
}

int32_t topo_connect_fewest(const struct topo_rank_info *all, int nranks)
{
	const struct topo_hosts hosts = {.all = all, .nranks = nranks};

	return MAX_OF(topo_connect_channels(&hosts), 0);
}

/* Doubles the number of channels, and doubles it again for fast GPUs over several hosts with few
 * channels: two blocks keep a ring's link busier than one. */
int32_t topo_connect_double(const struct topo_hosts *h, enum topo_pattern pattern, int32_t n)
{
	int32_t sm = INT32_MAX;
	uint32_t bw = UINT32_MAX;

	for (int32_t r = 0; r < h->nranks; r++) {
		sm = MIN_OF(sm, h->all[r].sm);
		bw = MIN_OF(bw, h->all[r].graph[pattern].bw_intra_mbps);
	}
	n = MIN_OF(2 * n, DEV_MAX_CHANNELS);
	if (sm >= 90 && h->count > 1 && bw > 45000 && n < 16)
		n *= 2;
	return n;
}

static void topo_graph_info_fill(struct topo_graph_info *info, const struct topo_graph *graph)
{
	info->nchannels = (int8_t)graph->nchannels;
	info->bw_intra_mbps = graph->bw_intra_mbps;
	info->bw_inter_mbps = graph->bw_inter_mbps;
	info->type_intra = (int8_t)graph->type_intra;
	info->type_inter = (int8_t)graph->type_inter;
	info->same_channels = (int8_t)graph->same_channels;
	info->cross_nic = (int8_t)graph->cross_nic;
	info->shape = (int8_t)graph->shape;
}

static int32_t topo_direct_path(const struct topo_system *sys, int32_t gpu)
{
	int32_t farthest = TOPO_PATH_LOC;

	for (int32_t i = 0; i < topo_gpu_count(sys); i++) {
		if (!topo_p2p_ok(sys, gpu, i) || !topo_p2p_ok(sys, i, gpu))
			return -1;
		farthest = MAX_OF(farthest, (int32_t)topo_gpu_path(sys, gpu, i));
	}
	return farthest;
}

void topo_rank_info_fill(struct topo_rank_info *info, const struct topo_system *sys,
			 struct topo_graph *const graph[TOPO_PATTERNS], uint64_t host_hash,
			 int32_t local_rank)
{
	memset(info, 0, sizeof *info);
	info->host_hash = host_hash;
	info->local_rank = local_rank;
	info->sm = topo_gpu_sm(sys, local_rank);
	info->amd_cpu = topo_host_is_amd(sys);
	info->direct = topo_direct_path(sys, local_rank);
	info->nic = topo_nic_nearest(sys, local_rank);
	for (int p = 0; p < TOPO_PATTERNS; p++)
		topo_graph_info_fill(&info->graph[p], graph[p]);
	topo_ring_info_fill(&info->ring, graph[TOPO_RING], topo_gpu_count(sys), local_rank);
	topo_tree_info_fill(&info->tree, graph[TOPO_TREE], topo_gpu_count(sys), local_rank);
}

/* ---- all ranks together --------------------------------------------------------------------- */

struct topo_connected {
	struct topo_hosts hosts;
	struct topo_all_rings rings;
	struct topo_all_trees trees;
	int32_t *index; /* filled by topo_rings_index */
	int32_t memory[];
};

ncclResult_t topo_connect_all(const struct topo_rank_info *all, int nranks,
			      struct topo_connected **out)
{
	struct topo_hosts hosts = {.all = all, .nranks = nranks};
	size_t channels = (size_t)topo_connect_fewest(all, nranks), n = (size_t)nranks;
	size_t rings = channels * n, own = (1 + TOPO_RINGS_SCRATCH) * n + 1;
	size_t count = own + 4 * rings + topo_trees_memory(nranks, channels);
	struct topo_connected *c =
		os_alloc(sizeof *c + count * sizeof *c->memory, "rings and trees of all ranks");

	if (!c) {
		WARN("out of memory for connecting the rings and trees of %d ranks", nranks);
		return ncclSystemError;
	}
	int32_t *scratch = c->memory + n, *order = c->memory + own, *parent = order + rings;

	c->hosts = hosts;
	c->hosts.of_rank = c->memory;
	c->index = parent + 2 * rings;
	topo_hosts_find(&c->hosts, scratch);
	ncclResult_t rc = topo_rings_make(&c->rings, &c->hosts, order, scratch);

	if (!rc)
		rc = topo_trees_make(&c->trees, &c->hosts, parent, c->index + rings);
	if (rc) {
		os_free(c);
		return rc;
	}
	topo_rings_index(&c->rings, nranks, c->index);
	*out = c;
	return ncclSuccess;
}

void topo_connect_get(const struct topo_connected *c, int rank, struct topo_rings *rings,
		      struct topo_trees *trees)
{
	ASSERT(rank >= 0 && rank < c->hosts.nranks);
	topo_rings_of(&c->rings, &c->hosts, rank,
		      c->index + (size_t)rank * (size_t)c->rings.distinct, rings);
	topo_trees_of(&c->trees, &c->hosts, rank, trees);
}

void topo_connect_free(struct topo_connected *c)
{
	os_free(c);
}
