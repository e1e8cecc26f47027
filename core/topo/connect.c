/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From every host's rings to the rings of the communicator. Every rank runs this on the same
 * gathered data and must come to the same answer, so it uses nothing else: hosts in order of their
 * smallest rank, the fewest channels of all, the slowest speed of all. What does not chain up to
 * one ring over all ranks is an error that names rank and channel.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/topo/topo.h"

struct connect {
	const struct topo_rank_info *all;
	int32_t nranks, nhosts, nchannels;
	int32_t *host_of; /* [nranks]: index of the host, in order of smallest rank */
	int32_t *enter;   /* [nhosts]: rank where this channel's ring enters */
	int32_t *ring;    /* [nranks]: this channel, as the hosts come */
	int32_t *seen_in; /* [nranks]: last channel + 1 in which the rank was placed */
	int32_t *first;   /* [2 * nranks]: hash table of the hosts' smallest ranks, + 1 */
};

/* The smallest rank of each host is found in a hash table: every rank does this for all ranks. */
static void connect_hosts(struct connect *c)
{
	uint64_t room = 2 * (uint64_t)c->nranks;

	for (int32_t r = 0; r < c->nranks; r++) {
		uint64_t at = hash64_combine(c->all[r].host_hash, 0) % room;

		while (c->first[at] && c->all[c->first[at] - 1].host_hash != c->all[r].host_hash)
			at = (at + 1) % room;
		c->host_of[r] = c->first[at] ? c->host_of[c->first[at] - 1] : c->nhosts++;
		if (!c->first[at])
			c->first[at] = r + 1;
	}
}

static int32_t connect_channels(const struct connect *c)
{
	int32_t n = DEV_MAX_CHANNELS;
	for (int32_t r = 0; r < c->nranks; r++)
		n = MIN_OF(n, c->all[r].nchannels);
	return n;
}

/* Where the channel's ring enters each host: the rank without a predecessor. On a single host the
 * ring may be given closed; then it is cut open at its smallest rank. */
static ncclResult_t connect_find_enter(struct connect *c, int32_t channel)
{
	for (int32_t h = 0; h < c->nhosts; h++)
		c->enter[h] = -1;
	for (int32_t r = 0; r < c->nranks; r++) {
		int32_t *enter = &c->enter[c->host_of[r]];
		if (c->all[r].ring_prev[channel] >= 0)
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
	if (c->nhosts == 1 && c->enter[0] < 0)
		c->enter[0] = 0;
	for (int32_t r = 0; r < c->nranks; r++)
		if (c->enter[c->host_of[r]] < 0) {
			WARN("channel %d: the ring does not enter the host of rank %d", channel, r);
			return ncclInternalError;
		}
	return ncclSuccess;
}

/* Follows the ring through one host. */
static ncclResult_t connect_walk_host(struct connect *c, int32_t channel, int32_t host, int32_t *at)
{
	int32_t r = c->enter[host];
	while (r >= 0) {
		if (r >= c->nranks || c->host_of[r] != host || *at >= c->nranks ||
		    c->seen_in[r] == channel + 1) {
			WARN("channel %d: the ring leads to rank %d again, or off its host, after "
			     "%d of "
			     "%d ranks",
			     channel, r, *at, c->nranks);
			return ncclInternalError;
		}
		c->seen_in[r] = channel + 1;
		c->ring[(*at)++] = r;
		int32_t next = c->all[r].ring_next[channel];
		if (c->nhosts == 1 && next == c->enter[host])
			return ncclSuccess;
		if (next >= 0 && next < c->nranks && c->all[next].ring_prev[channel] != r) {
			WARN("channel %d: rank %d sends to rank %d, which expects rank %d", channel,
			     r, next, c->all[next].ring_prev[channel]);
			return ncclInternalError;
		}
		r = next;
	}
	return ncclSuccess;
}

static ncclResult_t connect_walk(struct connect *c, int32_t channel)
{
	int32_t at = 0;
	ncclResult_t rc = connect_find_enter(c, channel);
	for (int32_t h = 0; h < c->nhosts && !rc; h++)
		rc = connect_walk_host(c, channel, h, &at);
	if (!rc && at != c->nranks) {
		WARN("channel %d: the ring has %d ranks, expected %d", channel, at, c->nranks);
		rc = ncclInternalError;
	}
	return rc;
}

static void connect_place(const struct connect *c, int32_t channel, int32_t rank,
			  struct topo_rings *rings, int32_t *order)
{
	int32_t zero = 0, mine = 0, n = c->nranks;
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
	for (int32_t i = 0; order && i < n; i++)
		order[(size_t)channel * (size_t)n + (size_t)i] = c->ring[(zero + i) % n];
}

/* Twice as many channels as were searched for, twice again for fast GPUs over several hosts with
 * few channels: two blocks keep a ring's link busier than one. */
static int32_t connect_double(const struct connect *c, int32_t n)
{
	int32_t sm = INT32_MAX;
	uint32_t bw = UINT32_MAX;
	for (int32_t r = 0; r < c->nranks; r++) {
		sm = MIN_OF(sm, c->all[r].sm);
		bw = MIN_OF(bw, c->all[r].bw_intra_mbps);
	}
	n = MIN_OF(2 * n, DEV_MAX_CHANNELS);
	if (sm >= 90 && c->nhosts > 1 && bw > 45000 && n < 16)
		n *= 2;
	return n;
}

static ncclResult_t connect_run(struct connect *c, int32_t rank, struct topo_rings *rings,
				int32_t *order)
{
	connect_hosts(c);
	c->nchannels = connect_channels(c);
	if (c->nchannels < 1) {
		WARN("a rank has no channel, expected 1 to %d", DEV_MAX_CHANNELS);
		return ncclInternalError;
	}
	for (int32_t channel = 0; channel < c->nchannels; channel++) {
		ncclResult_t rc = connect_walk(c, channel);
		if (rc)
			return rc;
		connect_place(c, channel, rank, rings, order);
	}
	rings->distinct = c->nchannels;
	rings->nchannels = connect_double(c, c->nchannels);
	for (int32_t k = c->nchannels; k < rings->nchannels; k++) {
		rings->prev[k] = rings->prev[k % c->nchannels];
		rings->next[k] = rings->next[k % c->nchannels];
		rings->index[k] = rings->index[k % c->nchannels];
	}
	return ncclSuccess;
}

void topo_rank_info_fill(struct topo_rank_info *info, const struct topo_system *sys,
			 const struct topo_graph *graph, uint64_t host_hash, int32_t local_rank,
			 const int32_t *local_to_rank)
{
	int32_t n = topo_gpu_count(sys);
	memset(info, 0, sizeof *info);
	info->host_hash = host_hash;
	info->local_rank = local_rank;
	info->nchannels = graph->nchannels;
	info->bw_intra_mbps = graph->bw_intra_mbps;
	info->bw_inter_mbps = graph->bw_inter_mbps;
	info->type_intra = graph->type_intra;
	info->type_inter = graph->type_inter;
	info->sm = topo_gpu_sm(sys, local_rank);
	memcpy(info->nic, graph->nic, sizeof info->nic);
	for (int32_t c = 0; c < DEV_MAX_CHANNELS; c++) {
		info->ring_prev[c] = info->ring_next[c] = -1;
		for (int32_t i = 0; i < n && c < graph->nchannels; i++) {
			if (graph->order[c][i] != local_rank)
				continue;
			if (i > 0)
				info->ring_prev[c] = local_to_rank[graph->order[c][i - 1]];
			if (i < n - 1)
				info->ring_next[c] = local_to_rank[graph->order[c][i + 1]];
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
	struct connect c = {.all = all,
			    .nranks = nranks,
			    .host_of = memory,
			    .enter = memory + n,
			    .ring = memory + 2 * n,
			    .seen_in = memory + 3 * n,
			    .first = memory + 4 * n};
	memset(rings, 0, sizeof *rings);
	ncclResult_t rc = connect_run(&c, rank, rings, order);
	os_free(memory);
	return rc;
}
