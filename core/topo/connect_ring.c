/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's rings to the rings of the communicator (connect.c). What does not chain up to one
 * ring over all ranks is an error that names rank and channel.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/connect.h"

struct topo_connect_ring {
	struct topo_hosts hosts;
	int32_t nchannels;
	bool swaps;       /* paired channels change places on odd hosts */
	int32_t *enter;   /* [hosts.count]: rank where this channel's ring enters */
	int32_t *ring;    /* [nranks]: this channel, as the hosts come */
	int32_t *seen_in; /* [nranks]: last channel + 1 in which the rank was placed */
	int32_t *first;   /* [2 * nranks]: for topo_hosts_find */
};

/* ---- paired channels ------------------------------------------------------------------------
 *
 * Where rings leave a host by another NIC than the one of entry (cross_nic 2), channels come in pairs: each
 * enters by the NIC by which the other leaves. When odd hosts exchange the two, a ring that leaves an even
 * host by NIC k enters the odd one by NIC k, and the other way round: both ends are on one rail. With an odd
 * number of hosts one crossing joins two even hosts, and stays as it is. All hosts must have such pairs, or
 * none swaps. */

static bool topo_ring_swaps(const struct topo_hosts *h, int32_t nchannels)
{
	bool swaps = h->count > 1 && nchannels % 2 == 0;

	for (int32_t r = 0; r < h->nranks && swaps; r++)
		swaps = h->all[r].graph[TOPO_RING].cross_nic == 2;
	return swaps;
}

/* The channel of the host's graph that a channel's ring goes through. */
static int32_t topo_ring_from(const struct topo_connect_ring *c, int32_t host, int32_t channel)
{
	return c->swaps && host % 2 ? channel ^ 1 : channel;
}

static int32_t topo_ring_prev(const struct topo_connect_ring *c, int32_t rank, int32_t channel)
{
	return c->hosts.all[rank].ring.prev[topo_ring_from(c, c->hosts.of_rank[rank], channel)];
}

static int32_t topo_ring_next(const struct topo_connect_ring *c, int32_t rank, int32_t channel)
{
	return c->hosts.all[rank].ring.next[topo_ring_from(c, c->hosts.of_rank[rank], channel)];
}

/* ---- the ring of a channel ------------------------------------------------------------------ */

/* Where the channel's ring enters each host: the rank without a predecessor. On a single host the
 * ring may be given closed; then it is cut open at its smallest rank. */
static ncclResult_t topo_ring_find_enter(struct topo_connect_ring *c, int32_t channel)
{
	for (int32_t h = 0; h < c->hosts.count; h++)
		c->enter[h] = -1;
	for (int32_t r = 0; r < c->hosts.nranks; r++) {
		int32_t *enter = &c->enter[c->hosts.of_rank[r]];
		if (topo_ring_prev(c, r, channel) >= 0)
			continue;
		if (*enter >= 0) {
			WARN("channel %d: the ring enters one host at rank %d and at rank %d, "
			     "expected "
			     "one of them to have a predecessor",
			     channel, *enter, r);
			return ncclInternalError;
		}
		*enter = r;
	}
	if (c->hosts.count == 1 && c->enter[0] < 0)
		c->enter[0] = 0;
	for (int32_t r = 0; r < c->hosts.nranks; r++)
		if (c->enter[c->hosts.of_rank[r]] < 0) {
			WARN("channel %d: the ring does not enter the host of rank %d", channel, r);
			return ncclInternalError;
		}
	return ncclSuccess;
}

/* Follows the ring through one host. */
static ncclResult_t topo_ring_walk_host(struct topo_connect_ring *c, int32_t channel, int32_t host,
					int32_t *at)
{
	int32_t r = c->enter[host];
	while (r >= 0) {
		if (r >= c->hosts.nranks || c->hosts.of_rank[r] != host || *at >= c->hosts.nranks ||
		    c->seen_in[r] == channel + 1) {
			WARN("channel %d: the ring leads to rank %d again, or off its host, after "
			     "%d of "
			     "%d ranks",
			     channel, r, *at, c->hosts.nranks);
			return ncclInternalError;
		}
		c->seen_in[r] = channel + 1;
		c->ring[(*at)++] = r;
		int32_t next = topo_ring_next(c, r, channel);
		if (c->hosts.count == 1 && next == c->enter[host])
			return ncclSuccess;
		if (next >= 0 && next < c->hosts.nranks && topo_ring_prev(c, next, channel) != r) {
			WARN("channel %d: rank %d sends to rank %d, which expects rank %d", channel,
			     r, next, topo_ring_prev(c, next, channel));
			return ncclInternalError;
		}
		r = next;
	}
	return ncclSuccess;
}

static ncclResult_t topo_ring_walk(struct topo_connect_ring *c, int32_t channel)
{
	int32_t at = 0;
	ncclResult_t rc = topo_ring_find_enter(c, channel);
	for (int32_t h = 0; h < c->hosts.count && !rc; h++)
		rc = topo_ring_walk_host(c, channel, h, &at);
	if (!rc && at != c->hosts.nranks) {
		WARN("channel %d: the ring has %d ranks, expected %d", channel, at,
		     c->hosts.nranks);
		rc = ncclInternalError;
	}
	return rc;
}

static void topo_ring_put(const struct topo_connect_ring *c, int32_t channel, int32_t rank,
			  struct topo_rings *rings, int32_t *order)
{
	int32_t zero = 0, mine = 0, n = c->hosts.nranks;
	for (int32_t i = 0; i < n; i++) {
		if (c->ring[i] == 0)
			zero = i;
		if (c->ring[i] == rank)
			mine = i;
	}
	ASSERT(c->ring[zero] == 0 && c->ring[mine] == rank);
	rings->prev[channel] = c->ring[(mine + n - 1) % n];
	rings->next[channel] = c->ring[(mine + 1) % n];
	rings->index[channel] = (mine - zero + n) % n;
	rings->from[channel] = topo_ring_from(c, c->hosts.of_rank[rank], channel);
	for (int32_t i = 0; order && i < n; i++)
		order[(size_t)channel * (size_t)n + (size_t)i] = c->ring[(zero + i) % n];
}

static ncclResult_t topo_ring_agree(struct topo_connect_ring *c, int32_t rank,
				    struct topo_rings *rings, int32_t *order)
{
	topo_hosts_find(&c->hosts, c->first);
	c->nchannels = topo_connect_channels(&c->hosts);
	if (c->nchannels < 1) {
		WARN("a rank has no channel, expected 1 to %d", DEV_MAX_CHANNELS);
		return ncclInternalError;
	}
	c->swaps = topo_ring_swaps(&c->hosts, c->nchannels);
	for (int32_t channel = 0; channel < c->nchannels; channel++) {
		ncclResult_t rc = topo_ring_walk(c, channel);
		if (rc)
			return rc;
		topo_ring_put(c, channel, rank, rings, order);
	}
	rings->distinct = c->nchannels;
	rings->nchannels = topo_connect_double(&c->hosts, TOPO_RING, c->nchannels);
	for (int32_t k = c->nchannels; k < rings->nchannels; k++) {
		rings->prev[k] = rings->prev[k % c->nchannels];
		rings->next[k] = rings->next[k % c->nchannels];
		rings->index[k] = rings->index[k % c->nchannels];
		rings->from[k] = rings->from[k % c->nchannels];
	}
	return ncclSuccess;
}

void topo_ring_info_fill(struct topo_ring_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank, const int32_t *local_to_rank)
{
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++) {
		info->prev[c] = info->next[c] = -1;
		for (int32_t i = 0; i < n && c < graph->nchannels; i++) {
			if (graph->order[c][i] != local_rank)
				continue;
			if (i > 0)
				info->prev[c] = local_to_rank[graph->order[c][i - 1]];
			if (i < n - 1)
				info->next[c] = local_to_rank[graph->order[c][i + 1]];
		}
	}
}

ncclResult_t topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_rings *rings, int32_t *order)
{
	ASSERT(nranks >= 1 && rank >= 0 && rank < nranks);
	size_t n = (size_t)nranks;
	int32_t *memory = os_alloc(6 * n * sizeof *memory, "ring connect");
	if (!memory) {
		WARN("out of memory for connecting the rings of %d ranks", nranks);
		return ncclSystemError;
	}
	struct topo_connect_ring c = {.hosts = {.all = all, .nranks = nranks, .of_rank = memory},
				      .enter = memory + n,
				      .ring = memory + 2 * n,
				      .seen_in = memory + 3 * n,
				      .first = memory + 4 * n};
	memset(rings, 0, sizeof *rings);
	ncclResult_t rc = topo_ring_agree(&c, rank, rings, order);
	os_free(memory);
	return rc;
}
