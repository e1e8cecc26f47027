/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes this rank's channels from the host's topology, with the agreement of all ranks. */
#include <stdio.h>
#include <string.h>

#include "core/algo/algo.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/proxy/proxy.h"
#include "core/transport/nets.h"
#include "core/transport/transport.h"
#include "core/tune/model.h"

/* Channels of other messages per channel of a rank's messages to itself. With as many channels for
 * each, NVLink waits for these copies in an all-to-all from 32 MiB on (results/figures.md). */
#define SELF_SHARE 2

static int32_t channels_most(const struct ncclComm *comm)
{
	int32_t most = DEV_MAX_CHANNELS;

	for (int32_t r = 0; r < comm->nranks; r++)
		most = MIN_OF(most, comm->peers[r].max_channels);
	return most;
}

/* Returns the number of channels: that of the rings, within the limits of every rank's
 * configuration. */
static int32_t channels_count(const struct ncclComm *comm, int32_t rings)
{
	int32_t least = tune_channels_least(comm->topo, comm->nranks, comm->local_ranks);

	for (int32_t r = 0; r < comm->nranks; r++)
		least = MAX_OF(least, comm->peers[r].min_channels);
	return MIN_OF(MAX_OF(rings, least), channels_most(comm));
}

/* Returns the number of channels for messages. If NVLink joins all ranks, it is a power of two, as
 * in NCCL. Each round of an all-to-all of four ranks then has a quarter of 32, and more channels
 * copy out of another process's slots. 24 channels were 5 to 10 % slower. */
static int32_t channels_of_messages(const struct ncclComm *comm, int32_t nchannels)
{
	int32_t n = 1, most = channels_most(comm);

	if (comm->summary.direct != TOPO_PATH_NVL)
		return nchannels;
	while (n < nchannels)
		n *= 2;
	return MAX_OF(MIN_OF(n, most), nchannels);
}

/* Logs "Channel 00/16 : 0 1 3 2": the ranks in order of the ring, as NCCL's rank 0 prints it. */
static void channels_log_ring(int32_t c, int32_t n, const int32_t *order, int32_t nranks)
{
	char text[384];
	size_t at = 0;
	text[0] = '\0';
	for (int32_t i = 0; i < nranks && at + 16 < sizeof text; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, " %d", order[i]);
	INFO(LOG_GRAPH | LOG_INIT, "Channel %02d/%02d :%s", c, n, text);
}

static void channels_log(const struct ncclComm *comm)
{
	if (comm->rank != 0 || !log_wanted(LOG_LEVEL_INFO, LOG_GRAPH | LOG_INIT))
		return;
	for (int32_t c = 0; c < comm->nchannels; c++)
		channels_log_ring(c, comm->nchannels,
				  comm->life->ring_ranks +
					  (size_t)(c % comm->life->rings) * (size_t)comm->nranks,
				  comm->nranks);
}

/* Numbers the different ranks that precede (or follow) this one in the rings, in order of channel
 * (struct dev_ring). Returns the number for channel c. */
static uint16_t channels_number(const struct channel *channels, int32_t c, bool next)
{
	const struct channel *ch = &channels[c];
	uint16_t number = 0;

	for (const struct channel *o = channels; o < ch; o++) {
		uint16_t n = next ? o->ring_next_number : o->ring_prev_number;

		if (next ? o->ring_next == ch->ring_next : o->ring_prev == ch->ring_prev)
			return n;
		number = (uint16_t)MAX_OF(number, n + 1);
	}
	return (uint16_t)MIN_OF(number, DEV_WORK_RANKS);
}

/* Fills in the channels. Channels beyond the distinct rings repeat them from the first. */
static ncclResult_t channels_fill(struct ncclComm *comm, const struct topo_rings *rings)
{
	int32_t n = channels_count(comm, rings->nchannels), pairs = channels_of_messages(comm, n);
	int32_t all = MIN_OF(pairs + DIV_UP(pairs, SELF_SHARE), channels_most(comm));
	comm->channels = os_alloc((size_t)all * sizeof *comm->channels, "channels");
	if (!comm->channels) {
		WARN("rank %d: no memory for %d channels", comm->rank, all);
		return ncclSystemError;
	}
	comm->nchannels = n;
	comm->pair_channels = pairs;
	comm->launch_channels = all;
	comm->life->rings = rings->distinct;
	for (int32_t c = n; c < all; c++)
		comm->channels[c] = (struct channel){.id = c, .ring_prev = -1, .ring_next = -1};
	for (int32_t c = 0; c < n; c++) {
		int32_t from = c % rings->nchannels;
		const int16_t *nic = comm->graph[TOPO_RING]->nic[rings->from[from]];

		comm->channels[c] = (struct channel){
			.id = c,
			.ring_prev = rings->prev[from],
			.ring_next = rings->next[from],
			.ring_index = rings->index[from],
			.nic_in = nic[0],
			.nic_out = nic[1],
		};
		comm->channels[c].ring_prev_number = channels_number(comm->channels, c, false);
		comm->channels[c].ring_next_number = channels_number(comm->channels, c, true);
	}
	return ncclSuccess;
}

/* Fills in a rank's links on one channel. */
static void channels_tree_fill(const struct ncclComm *comm, struct channel *ch,
			       const struct topo_trees *trees)
{
	const int16_t *nic = comm->graph[TOPO_TREE]->nic[trees->from[ch->id]];
	int8_t up = trees->nic_up[ch->id];

	ch->tree[0] = (struct tree_link){.rank = trees->up[ch->id], .nic = up < 0 ? -1 : nic[up]};
	for (int i = 0; i < TOPO_TREE_DOWN; i++) {
		int8_t down = trees->nic_down[ch->id][i];

		ch->tree[1 + i] = (struct tree_link){.rank = trees->down[ch->id][i],
						     .nic = down < 0 ? -1 : nic[down]};
	}
}

/* Fills in the links of every channel. If programs use trees, also computes the link over which
 * each rank is reached. */
static ncclResult_t channels_trees(struct ncclComm *comm, const struct topo_trees *trees,
				   const int32_t *parent)
{
	size_t n = (size_t)comm->nranks;
	uint8_t *toward;

	DOPPEL_STATIC_CHECK(DEV_TREE_LINKS == 1 + TOPO_TREE_DOWN, "a link to each child");
	DOPPEL_STATIC_CHECK(DEV_TREE_SELF == TOPO_TREE_SELF, "device and topology mean the same");
	for (int32_t c = 0; c < comm->nchannels; c++)
		channels_tree_fill(comm, &comm->channels[c], trees);
	if (!(comm->allowed & algo_programs(DEV_TREE)))
		return ncclSuccess;
	comm->life->trees = MIN_OF(trees->distinct, comm->nchannels);
	toward = os_alloc((size_t)comm->life->trees * n, "places in the trees");
	if (!toward) {
		WARN("rank %d: no memory for the trees of %d ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	comm->life->tree_toward = toward;
	for (int32_t c = 0; c < comm->nchannels; c++) {
		size_t at = (size_t)(c % comm->life->trees) * n;

		if (c < comm->life->trees)
			topo_tree_toward(parent + at, comm->nranks, comm->rank, trees->down[c],
					 toward + at);
		comm->channels[c].tree_toward = toward + at;
	}
	return ncclSuccess;
}

/* Data that ranks gather when they have their channels. */
struct channels_word {
	uint64_t hash;   /* hash of the rank's results */
	uint64_t relays; /* bits: local ranks that the rank sends through */
	uint64_t ends;   /* transport_ends_sum */
};

/* Temporary data of the agreement. */
struct channels_scratch {
	struct topo_rings rings;
	struct topo_trees trees;
	struct topo_digest digest;
	struct topo_rank_info *all;  /* [nranks] */
	int32_t *parent;             /* [distinct trees * nranks] */
	struct channels_word word[]; /* [nranks] */
};

/* Frees the topology of all ranks, which each rank has. A rank must not hold it while it waits for
 * others: with thousands of ranks in one real process it is half of the memory. */
static void channels_joined_free(struct channels_scratch *s)
{
	os_free(s->all);
	os_free(s->parent);
	s->all = NULL;
	s->parent = NULL;
}

/* Ends all ranks together after an error that all derive from the same data. A rank that left
 * earlier would break the ring of slower ranks, and they would report that instead. */
static ncclResult_t channels_end_together(struct ncclComm *comm, ncclResult_t rc)
{
	if (rc && rc != ncclSystemError && !bootstrap_barrier(comm->bootstrap))
		bootstrap_part(comm->bootstrap, 0);
	return rc;
}

/* Finds and logs the difference between the ranks, once it is known that there is one. */
static ncclResult_t channels_differ(struct ncclComm *comm, const struct topo_digest *mine)
{
	struct topo_digest *all = os_alloc((size_t)comm->nranks * sizeof *all, "digests of ranks");
	ncclResult_t rc;

	if (!all) {
		WARN("rank %d: the ranks have different rings or trees, and there is no memory to "
		     "find out which",
		     comm->rank);
		return ncclSystemError;
	}
	all[comm->rank] = *mine;
	rc = bootstrap_all_gather(comm->bootstrap, all, sizeof *all);
	if (!rc)
		rc = channels_end_together(comm, topo_digest_compare(all, comm->nranks));
	os_free(all);
	return rc;
}

/* Checks that all ranks computed the same, and each rank its own ends of it. Ranks exchange two
 * numbers, and more only if they disagree. */
static ncclResult_t channels_compare(struct ncclComm *comm, struct channels_scratch *s)
{
	struct channels_word *mine = &s->word[comm->rank];
	ncclResult_t rc;
	uint64_t ends = 0;
	bool same = true;

	topo_digest_make(&s->digest, comm->nranks, comm->nchannels, &s->rings,
			 comm->life->ring_ranks, &s->trees, s->parent);
	mine->hash = topo_digest_hash(&s->digest);
	mine->relays = proxy_relays_wanted(comm);
	mine->ends = transport_ends_sum(comm);
	channels_joined_free(s);
	rc = bootstrap_all_gather(comm->bootstrap, s->word, sizeof *s->word);
	if (rc)
		return rc;
	for (int32_t r = 0; r < comm->nranks; r++) {
		same &= s->word[r].hash == s->word[0].hash;
		ends += s->word[r].ends;
	}
	if (!same)
		return channels_differ(comm, &s->digest);
	return ends ? channels_end_together(comm, transport_ends_differ(comm)) : ncclSuccess;
}

/* Computes rings and trees from the data of all ranks. */
static ncclResult_t channels_join(struct ncclComm *comm, struct channels_scratch *s)
{
	ncclResult_t rc = topo_summary_make(&comm->summary, s->all, comm->nranks);

	if (!rc)
		rc = topo_connect_rings(s->all, comm->nranks, comm->rank, &s->rings,
					comm->life->ring_ranks);
	if (!rc)
		rc = topo_connect_trees(s->all, comm->nranks, comm->rank, &s->trees, s->parent);
	/* The graphs of one host do not fit together. */
	return rc == ncclInternalError ? comm_settings_blame(comm) : rc;
}

/* Moves the bits of all ranks to the start of the words' memory. The place of a rank's bits lies
 * before all words that are still to be read. */
static ncclResult_t channels_relays(struct ncclComm *comm, struct channels_scratch *s)
{
	uint64_t *wanted = (uint64_t *)s->word;

	for (int32_t r = 0; r < comm->nranks; r++)
		wanted[r] = s->word[r].relays;
	return proxy_relays_open(comm, wanted);
}

static ncclResult_t channels_agree(struct ncclComm *comm, struct channels_scratch *scratch)
{
	struct topo_rings *rings = &scratch->rings;
	ncclResult_t rc = channels_end_together(comm, channels_join(comm, scratch));

	if (rc)
		return rc;
	ASSERT(rings->distinct > 0 && rings->nchannels >= rings->distinct);
	rc = channels_fill(comm, rings);
	if (!rc)
		rc = comm_collnet_make(comm, scratch->all);
	/* without the programs that these machines do not need: their connections are not made */
	comm->allowed =
		tune_programs(&comm->summary, comm->allowed, comm->peers[comm->rank].pat_anywhere);
	if (!rc)
		rc = channels_trees(comm, &scratch->trees, scratch->parent);
	if (!rc)
		rc = algo_edges_make(comm);
	if (!rc) {
		channels_log(comm);
		topo_trees_log(&scratch->trees, comm->nchannels, comm->rank);
	}
	if (!rc)
		rc = proxy_routes_make(comm, scratch->all);
	if (!rc)
		rc = channels_compare(comm, scratch);
	return rc ? rc : channels_relays(comm, scratch);
}

/* True if all ranks of the host can reach each other without the network. All of them get the same
 * answer: a rank knows only its own limit of p2p, so the answer is no where settings differ. */
static bool channels_reach_all(const struct ncclComm *comm)
{
	for (int32_t a = 0; a < comm->nranks; a++) {
		if (comm->peers[a].settings != comm->peers[0].settings)
			return false;
		for (int32_t b = 0; b < comm->nranks; b++)
			if (a != b && !transport_local_of(comm, a, b))
				return false;
	}
	return true;
}

/* Opens the network and finds the topology. The network is first, because its devices are part of
 * the topology. Within one host it is opened only if needed, which the topology without it
 * shows. */
static ncclResult_t channels_surroundings(struct ncclComm *comm)
{
	const bool several = comm->local_ranks < comm->nranks;
	ncclResult_t rc = several ? net_open(comm, NET_FIRST) : ncclSuccess;

	if (!rc && several)
		comm_collnet_open(comm);
	if (!rc)
		rc = comm_topology_find(comm);
	if (rc || several || channels_reach_all(comm))
		return rc;
	rc = net_open(comm, NET_FIRST);
	return rc ? rc : comm_topology_find(comm);
}

/* Searches this rank's graphs, and gathers those of all ranks. *again: ranks had different
 * networks. */
static ncclResult_t channels_gather(struct ncclComm *comm, struct topo_rank_info *all, bool *again)
{
	struct topo_rank_info *mine = &all[comm->rank];
	ncclResult_t rc = comm_graphs_find(comm);

	*again = false;
	if (rc)
		return rc;
	topo_rank_info_fill(mine, comm->topo, comm->graph, comm->peers[comm->rank].host_hash,
			    comm->local_rank);
	mine->network = comm->net.ops ? net_index(comm->net.ops) : -1;
	rc = bootstrap_all_gather(comm->bootstrap, all, sizeof *all);
	return rc ? rc : comm_network_agree(comm, all, again);
}

/* Repeats the gathering on all ranks if some had another network. */
static ncclResult_t channels_gather_all(struct ncclComm *comm, struct topo_rank_info *all)
{
	bool again;
	ncclResult_t rc = channels_gather(comm, all, &again);

	if (rc || !again)
		return rc;
	rc = comm_topology_find(comm);
	if (!rc)
		rc = channels_gather(comm, all, &again);
	ASSERT(rc || !again);
	return rc;
}

/* Makes room for as many rings and trees as the gathered data has. */
static ncclResult_t channels_room(struct ncclComm *comm, struct channels_scratch *s)
{
	size_t rings = (size_t)topo_connect_fewest(s->all, comm->nranks) * (size_t)comm->nranks;

	comm->life->ring_ranks = os_alloc(rings * sizeof *comm->life->ring_ranks, "ring ranks");
	s->parent = os_alloc(2 * rings * sizeof *s->parent, "parents in trees");
	if (comm->life->ring_ranks && s->parent)
		return ncclSuccess;
	WARN("rank %d: no memory for the rings and trees of %d ranks", comm->rank, comm->nranks);
	return ncclSystemError;
}

ncclResult_t comm_channels_make(struct ncclComm *comm)
{
	ncclResult_t rc = channels_surroundings(comm);

	if (rc)
		return rc;
	size_t n = (size_t)comm->nranks;
	struct channels_scratch *scratch =
		os_alloc(sizeof *scratch + n * sizeof scratch->word[0], "ring and tree agreement");
	if (scratch)
		scratch->all = os_alloc(n * sizeof *scratch->all, "topology of all ranks");
	if (!scratch || !scratch->all) {
		os_free(scratch);
		WARN("rank %d: no memory for the channels of %d ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	rc = channels_gather_all(comm, scratch->all);
	if (!rc)
		rc = channels_room(comm, scratch);
	if (!rc)
		rc = channels_agree(comm, scratch);
	channels_joined_free(scratch);
	os_free(scratch);
	return rc;
}

/* Handles a single rank. It has no channels. It finds its host's topology and graphs only if a file
 * for them is named. */
ncclResult_t comm_channels_alone(struct ncclComm *comm)
{
	ncclResult_t rc;

	if (!param_str(PARAM_TOPO_DUMP_FILE) && !param_str(PARAM_GRAPH_DUMP_FILE))
		return ncclSuccess;
	rc = comm_topology_find(comm);
	return rc ? rc : comm_graphs_find(comm);
}
