/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's rings to the rings of the communicator (topo_connect.c). If they do not form
 * one ring over all ranks, the error names rank and channel.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/topo/connect/topo_connect.h"

struct topo_connect_ring {
	struct topo_hosts hosts;
	int32_t nchannels;
	bool swaps;       /* paired channels swap on odd hosts */
	int32_t *enter;   /* [hosts.count]: rank where this channel's ring enters */
	int32_t *ring;    /* [nranks]: ranks of this channel, host after host */
	int32_t *seen_in; /* [nranks]: last channel + 1 in which the rank was placed */
	int32_t *first;   /* [hosts.count + 1]: where each host begins in `member` */
	int32_t *member;  /* [nranks]: ranks by host and local rank */
};

/* Finds the ranks of each host by their local ranks. */
static ncclResult_t topo_ring_members(struct topo_connect_ring *c)
{
	topo_hosts_first(&c->hosts, c->first);
	memset(c->member, 0xff, (size_t)c->hosts.nranks * sizeof *c->member);
	for (int32_t r = 0; r < c->hosts.nranks; r++) {
		int32_t host = c->hosts.of_rank[r], n = c->first[host + 1] - c->first[host];
		int32_t local = c->hosts.all[r].local_rank;

		if (local < 0 || local >= n || c->member[c->first[host] + local] >= 0) {
			WARN("rank %d is local rank %d of its host, expected one of 0 to %d that "
			     "no other rank is",
			     r, local, n - 1);
			return ncclInternalError;
		}
		c->member[c->first[host] + local] = r;
	}
	return ncclSuccess;
}

/* Returns the rank that is local rank `local` of the host. -1: `local` is negative; nranks: there
 * is no such rank. */
static int32_t topo_ring_member(const struct topo_connect_ring *c, int32_t host, int32_t local)
{
	if (local < 0)
		return -1;
	return local < c->first[host + 1] - c->first[host] ? c->member[c->first[host] + local]
							   : c->hosts.nranks;
}

/* ---- paired channels --------------------------------------------------------------------------
 *
 * If rings leave a host by another NIC than the one of entry (cross_nic 2), channels are paired:
 * each enters by the NIC by which the other leaves. Odd hosts swap the two channels. A ring that
 * leaves an even host by NIC k then enters the odd host by NIC k, and vice versa: both ends are on
 * one rail. With an odd number of hosts one crossing joins two even hosts and changes rails. The
 * channels are swapped only if all hosts have such pairs. */

static bool topo_ring_swaps(const struct topo_hosts *h, int32_t nchannels)
{
	bool swaps = h->count > 1 && nchannels % 2 == 0;

	for (int32_t r = 0; r < h->nranks && swaps; r++)
		swaps = h->all[r].graph[TOPO_RING].cross_nic == 2;
	return swaps;
}

/* Returns the channel of the host's graph that a channel's ring uses. */
static int32_t topo_ring_from(bool swaps, int32_t host, int32_t channel)
{
	return swaps && host % 2 ? channel ^ 1 : channel;
}

static int32_t topo_ring_prev(const struct topo_connect_ring *c, int32_t rank, int32_t channel)
{
	int32_t host = c->hosts.of_rank[rank], from = topo_ring_from(c->swaps, host, channel);

	return topo_ring_member(c, host, c->hosts.all[rank].ring.prev[from]);
}

static int32_t topo_ring_next(const struct topo_connect_ring *c, int32_t rank, int32_t channel)
{
	int32_t host = c->hosts.of_rank[rank], from = topo_ring_from(c->swaps, host, channel);

	return topo_ring_member(c, host, c->hosts.all[rank].ring.next[from]);
}

/* ---- the ring of a channel ------------------------------------------------------------------ */

/* Finds the rank where the channel's ring enters each host: the rank without a predecessor. On a
 * single host the ring may be closed; it then begins at its smallest rank. */
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

/* Rotates the ring so that position 0 holds rank 0. */
static void topo_ring_turn(const struct topo_connect_ring *c, int32_t *order)
{
	int32_t zero = 0, n = c->hosts.nranks;

	while (c->ring[zero] != 0 && zero + 1 < n)
		zero++;
	ASSERT(c->ring[zero] == 0);
	memcpy(order, c->ring + zero, (size_t)(n - zero) * sizeof *order);
	memcpy(order + n - zero, c->ring, (size_t)zero * sizeof *order);
}

ncclResult_t topo_rings_make(struct topo_all_rings *a, const struct topo_hosts *hosts,
			     int32_t *order, int32_t *scratch)
{
	size_t n = (size_t)hosts->nranks;
	struct topo_connect_ring c = {.hosts = *hosts,
				      .nchannels = topo_connect_channels(hosts),
				      .enter = scratch,
				      .ring = scratch + n,
				      .seen_in = scratch + 2 * n,
				      .member = scratch + 3 * n,
				      .first = scratch + 4 * n};
	ncclResult_t rc;

	if (c.nchannels < 1) {
		WARN("a rank has no channel, expected 1 to %d", DEV_MAX_CHANNELS);
		return ncclInternalError;
	}
	rc = topo_ring_members(&c);
	if (rc)
		return rc;
	memset(c.seen_in, 0, n * sizeof *c.seen_in);
	c.swaps = topo_ring_swaps(hosts, c.nchannels);
	for (int32_t channel = 0; channel < c.nchannels; channel++) {
		rc = topo_ring_walk(&c, channel);
		if (rc)
			return rc;
		topo_ring_turn(&c, order + (size_t)channel * n);
	}
	*a = (struct topo_all_rings){.distinct = c.nchannels,
				     .nchannels =
					     topo_connect_double(hosts, TOPO_RING, c.nchannels),
				     .swaps = c.swaps,
				     .order = order};
	return ncclSuccess;
}

void topo_rings_index(const struct topo_all_rings *a, int32_t nranks, int32_t *index)
{
	for (int32_t c = 0; c < a->distinct; c++)
		for (int32_t i = 0; i < nranks; i++) {
			size_t rank = (size_t)a->order[(size_t)c * (size_t)nranks + (size_t)i];

			index[rank * (size_t)a->distinct + (size_t)c] = i;
		}
}

void topo_rings_of(const struct topo_all_rings *a, const struct topo_hosts *hosts, int32_t rank,
		   const int32_t *index, struct topo_rings *rings)
{
	int32_t n = hosts->nranks;

	memset(rings, 0, sizeof *rings);
	rings->distinct = a->distinct;
	rings->nchannels = a->nchannels;
	for (int32_t c = 0; c < a->nchannels; c++) {
		int32_t as = c % a->distinct, i = index[as];
		const int32_t *order = a->order + (size_t)as * (size_t)n;

		ASSERT(i >= 0 && i < n && order[i] == rank);
		rings->prev[c] = order[i ? i - 1 : n - 1];
		rings->next[c] = order[i + 1 < n ? i + 1 : 0];
		rings->index[c] = i;
		rings->from[c] = topo_ring_from(a->swaps, hosts->of_rank[rank], as);
	}
}

/* ---- one rank's rings ----------------------------------------------------------------------- */

/* Finds the rank's position in each ring. */
static void topo_rings_find(const struct topo_all_rings *a, int32_t nranks, int32_t rank,
			    int32_t index[DEV_MAX_CHANNELS])
{
	for (int32_t c = 0; c < a->distinct; c++) {
		const int32_t *order = a->order + (size_t)c * (size_t)nranks;

		index[c] = 0;
		while (order[index[c]] != rank)
			index[c]++;
	}
}

ncclResult_t topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_rings *rings, int32_t *order)
{
	struct topo_hosts hosts = {.all = all, .nranks = nranks};
	size_t n = (size_t)nranks, own = (1 + TOPO_RINGS_SCRATCH) * n + 1;
	size_t room = order ? 0 : n * (size_t)topo_connect_fewest(all, nranks);
	int32_t *memory = os_alloc((own + room) * sizeof *memory, "ring connect");
	int32_t index[DEV_MAX_CHANNELS] = {0};
	struct topo_all_rings a;

	ASSERT(nranks >= 1 && rank >= 0 && rank < nranks);
	memset(rings, 0, sizeof *rings);
	if (!memory) {
		WARN("out of memory for connecting the rings of %d ranks", nranks);
		return ncclSystemError;
	}
	hosts.of_rank = memory;
	topo_hosts_find(&hosts, memory + n);
	ncclResult_t rc = topo_rings_make(&a, &hosts, order ? order : memory + own, memory + n);

	if (!rc) {
		topo_rings_find(&a, nranks, rank, index);
		topo_rings_of(&a, &hosts, rank, index, rings);
	}
	os_free(memory);
	return rc;
}

void topo_ring_info_fill(struct topo_ring_info *info, const struct topo_graph *graph, int32_t n,
			 int32_t local_rank)
{
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++) {
		info->prev[c] = info->next[c] = -1;
		for (int32_t i = 0; i < n && c < graph->nchannels; i++) {
			if (graph->order[c][i] != local_rank)
				continue;
			if (i > 0)
				info->prev[c] = (int8_t)graph->order[c][i - 1];
			if (i < n - 1)
				info->next[c] = (int8_t)graph->order[c][i + 1];
		}
	}
}
