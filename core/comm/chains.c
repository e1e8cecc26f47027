/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CollNet: the agreement of all ranks on a network that reduces. Each rank opens its plugin and
 * searches the chains of its host. All ranks gather that, and continue if none lacks anything:
 *
 *	channel 0:  host 0: head -> ... -> last     host 1: head -> ... -> last     ...
 *	             |                               |
 *	             +------ one group of the network ------+
 *
 * The heads make the groups in rounds, because a plugin may connect slowly, fail, or never answer.
 * In a round each head calls its plugin until its groups are connected or the round ends. Then all
 * ranks gather how far they are. A failure anywhere, or no end after all rounds, leaves all ranks
 * without CollNet, with a warning that names the reason. That is no error of the init, as in NCCL.
 *
 * NCCL has one group for each NIC, whose channels start their reductions in one order. Here each
 * channel has a group of its own, because channels of the same NIC then need no common order.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/comm/comm_internal.h"
#include "core/topo/connect/heads.h"
#include "core/transport/collnet/collnet.h"

#define CHAINS_ROUND_NS 1000000ull /* of the first round; each is twice as long as the one before */
#define CHAINS_ROUNDS   14         /* 16 s in all */

/* A rank's contribution. */
struct chains_rank {
	uint64_t reductions;             /* of its plugin; 0: the rank has no CollNet */
	struct topo_graph_summary graph; /* of its host */
	struct topo_heads_info heads;
};
DOPPEL_CHECK_SIZE(struct chains_rank, 240);

enum chains_progress { CHAINS_PENDING, CHAINS_CONNECTED, CHAINS_FAILED };

/* Temporary data of the agreement. */
struct chains_scratch {
	struct topo_graph graph[TOPO_HEAD_PATTERNS]; /* only the chain is searched */
	struct chains_rank *all;                     /* [nranks] */
	struct topo_heads_info *infos;               /* [nranks] */
	struct topo_heads *heads;
	uint64_t reductions;
	/* A head's handle for each rank and channel; how far each rank is. */
	struct net_handle *handles; /* [nranks * nchannels] */
	uint32_t *progress;         /* [nranks] */
	/* The handles of the heads of each channel, for the plugin, which may write to them. */
	struct net_handle *group;         /* [hosts * nchannels] */
	bool connected[DEV_MAX_CHANNELS]; /* this rank's groups */
	struct wait wait[DEV_MAX_CHANNELS + 1];
};

/* ---- which ranks want it -------------------------------------------------------------------- */

/* Returns the first rank whose configuration does not enable CollNet; -1: all do. */
static int32_t chains_refuser(const struct ncclComm *comm)
{
	for (int32_t r = 0; r < comm->nranks; r++)
		if (!comm->peers[r].collnet)
			return r;
	return -1;
}

void comm_collnet_open(struct ncclComm *comm)
{
	int32_t refuser = chains_refuser(comm);

	if (refuser < 0)
		collnet_open(comm);
	else if (comm->peers[comm->rank].collnet)
		INFO(LOG_INIT,
		     "rank %d: CollNet is not used, because rank %d does not enable it: "
		     "NCCL_COLLNET_ENABLE or collnetEnable must be 1 on all ranks",
		     comm->rank, refuser);
}

/* ---- what the ranks have -------------------------------------------------------------------- */

static void chains_free(struct chains_scratch *s)
{
	topo_heads_free(s->heads);
	os_free(s->all);
	os_free(s->infos);
	os_free(s->handles);
	os_free(s->progress);
	os_free(s->group);
	os_free(s);
}

static struct chains_scratch *chains_make(const struct ncclComm *comm)
{
	struct chains_scratch *s = os_alloc(sizeof *s, "agreement on CollNet");
	size_t n = (size_t)comm->nranks, channels = (size_t)comm->nchannels;

	if (s) {
		s->all = os_alloc(n * sizeof *s->all, "agreement on CollNet");
		s->infos = os_alloc(n * sizeof *s->infos, "heads of CollNet");
		s->handles = os_alloc(n * channels * sizeof *s->handles, "handles of CollNet");
		s->progress = os_alloc(n * sizeof *s->progress, "agreement on CollNet");
		s->group = os_alloc(n * channels * sizeof *s->group, "handles of CollNet");
	}
	if (s && s->all && s->infos && s->handles && s->progress && s->group)
		return s;
	WARN("rank %d: no memory for CollNet between %d ranks", comm->rank, comm->nranks);
	if (s)
		chains_free(s);
	return NULL;
}

/* Returns true if the communicator has enough hosts for this rank. */
static bool chains_hosts_suffice(const struct ncclComm *comm)
{
	int64_t least = param_i64(PARAM_COLLNET_NODE_THRESHOLD);

	if (comm->summary.nhosts >= least)
		return true;
	INFO(LOG_INIT,
	     "Communicator has %d nodes which is less than CollNet node threshold %d, disabling "
	     "CollNet",
	     comm->summary.nhosts, (int)least);
	return false;
}

/* Fills in this rank's part: the chains of its host, and what its plugin reduces. */
static ncclResult_t chains_describe(struct ncclComm *comm, struct chains_scratch *s)
{
	struct chains_rank *mine = &s->all[comm->rank];
	struct topo_graph *chain = &s->graph[topo_head_index(TOPO_COLLNET_CHAIN)];
	struct topo_graph *graphs[TOPO_HEAD_PATTERNS];
	ncclResult_t rc = ncclSuccess;

	if (comm->collnet && chains_hosts_suffice(comm)) {
		rc = topo_search(comm->topo, TOPO_COLLNET_CHAIN, true, chain);
		if (!rc && !chain->nchannels)
			WARN("rank %d: CollNet is not used, because no NIC of the host is a device "
			     "of %s, "
			     "expected a NIC with the name of one",
			     comm->rank, collnet_name(comm->collnet));
	}
	for (int p = 0; p < TOPO_HEAD_PATTERNS; p++)
		graphs[p] = &s->graph[p];
	topo_heads_info_fill(&mine->heads, comm->topo, graphs, comm->local_rank);
	mine->graph = (struct topo_graph_summary){.nchannels = chain->nchannels,
						  .bw_intra_mbps = chain->bw_intra_mbps,
						  .bw_inter_mbps = chain->bw_inter_mbps,
						  .type_intra = chain->type_intra,
						  .type_inter = chain->type_inter};
	mine->reductions = chain->nchannels ? collnet_supported(comm->collnet) : 0;
	return rc;
}

/* Gathers the parts. Returns false in *all if a rank has no CollNet, which is logged. */
static ncclResult_t chains_gather(struct ncclComm *comm, struct chains_scratch *s, bool *all)
{
	ncclResult_t rc = bootstrap_all_gather(comm->bootstrap, s->all, sizeof *s->all);

	*all = false;
	if (rc)
		return rc;
	s->reductions = ~0ull;
	for (int32_t r = 0; r < comm->nranks; r++) {
		s->infos[r] = s->all[r].heads;
		s->reductions &= s->all[r].reductions;
		if (s->all[r].reductions || !comm->collnet)
			continue;
		if (s->all[comm->rank].reductions)
			INFO(LOG_INIT, "rank %d: CollNet is not used, because rank %d has none",
			     comm->rank, r);
		return ncclSuccess;
	}
	*all = s->reductions && comm->collnet;
	if (!s->reductions && comm->collnet)
		INFO(LOG_INIT,
		     "rank %d: CollNet is not used, because no type and operation is supported by "
		     "the plugins of all ranks",
		     comm->rank);
	return ncclSuccess;
}

/* ---- chains --------------------------------------------------------------------------------- */

/* Returns the index of this rank's host among the heads of a channel of the graph. */
static int32_t chains_host_of(const struct ncclComm *comm, const struct topo_heads *heads,
			      int32_t channel)
{
	int32_t host = 0;

	while (comm->peers[topo_heads_rank(heads, TOPO_COLLNET_CHAIN, channel, host)].host_hash !=
	       comm->peers[comm->rank].host_hash)
		host++;
	return host;
}

/* Channels beyond the chains of the graph repeat them from the first. */
static void chains_set(struct ncclComm *comm, const struct chains_scratch *s)
{
	const struct topo_graph *g = &s->graph[topo_head_index(TOPO_COLLNET_CHAIN)];
	int32_t count = topo_heads_count(s->heads, TOPO_COLLNET_CHAIN);
	int32_t hosts = topo_heads_hosts(s->heads);
	struct topo_collnet_chain chain;

	topo_collnet_chain_get(s->heads, comm->rank, &chain);
	for (int32_t c = 0; c < comm->nchannels; c++) {
		int32_t from = c % count, host = chains_host_of(comm, s->heads, from);
		struct channel_chain *to = &comm->channels[c].chain;

		to->is_head = chain.up[from] == comm->nranks;
		to->up = to->is_head ? -1 : chain.up[from];
		to->down = chain.down[from];
		to->nic = to->is_head ? g->nic[from][0] : -1;
		to->next_head =
			topo_heads_rank(s->heads, TOPO_COLLNET_CHAIN, from, (host + 1) % hosts);
		to->prev_head = topo_heads_rank(s->heads, TOPO_COLLNET_CHAIN, from,
						(host + hosts - 1) % hosts);
	}
}

static void chains_log(const struct ncclComm *comm)
{
	char text[384] = "";
	size_t at = 0;

	for (int32_t c = 0; c < comm->nchannels && at + 48 < sizeof text; c++) {
		const struct channel_chain *chain = &comm->channels[c].chain;

		at += (size_t)snprintf(text + at, sizeof text - at, " [%d] %d->%d->%d", c,
				       chain->down, comm->rank,
				       chain->is_head ? comm->nranks : chain->up);
	}
	INFO(LOG_INIT, "Connected Collnet Chains%s", text);
}

/* Sets the chains' graph: the fewest channels, the slowest speeds, the farthest paths. */
static void chains_summary(struct ncclComm *comm, const struct chains_scratch *s)
{
	struct topo_graph_summary *to = &comm->summary.graph[TOPO_COLLNET_CHAIN];

	*to = s->all[0].graph;
	to->nchannels = topo_heads_count(s->heads, TOPO_COLLNET_CHAIN);
	for (int32_t r = 0; r < comm->nranks; r++) {
		const struct topo_graph_summary *g = &s->all[r].graph;

		to->bw_intra_mbps = MIN_OF(to->bw_intra_mbps, g->bw_intra_mbps);
		to->bw_inter_mbps = MIN_OF(to->bw_inter_mbps, g->bw_inter_mbps);
		to->type_intra = MAX_OF(to->type_intra, g->type_intra);
		to->type_inter = MAX_OF(to->type_inter, g->type_inter);
	}
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Listens on the channels that this rank heads, and gathers all handles. */
static ncclResult_t chains_handles(struct ncclComm *comm, struct chains_scratch *s,
				   enum chains_progress *progress)
{
	struct net_handle *mine = s->handles + (size_t)comm->rank * (size_t)comm->nchannels;

	*progress = CHAINS_PENDING;
	for (int32_t c = 0; c < comm->nchannels; c++) {
		const struct channel_chain *chain = &comm->channels[c].chain;

		if (chain->is_head && *progress != CHAINS_FAILED &&
		    collnet_listen(comm, c, chain->nic, &mine[c]))
			*progress = CHAINS_FAILED;
	}
	return bootstrap_all_gather(comm->bootstrap, s->handles,
				    (size_t)comm->nchannels * sizeof *s->handles);
}

/* Copies the handles of all heads of a channel, in the order of the hosts. */
static struct net_handle *chains_group_handles(const struct ncclComm *comm,
					       struct chains_scratch *s, int32_t channel)
{
	int32_t from = channel % topo_heads_count(s->heads, TOPO_COLLNET_CHAIN);
	int32_t hosts = topo_heads_hosts(s->heads);
	struct net_handle *to = s->group + (size_t)channel * (size_t)hosts;

	for (int32_t h = 0; h < hosts; h++) {
		int32_t head = topo_heads_rank(s->heads, TOPO_COLLNET_CHAIN, from, h);

		to[h] = s->handles[(size_t)head * (size_t)comm->nchannels + (size_t)channel];
	}
	return to;
}

/* Calls the plugin for each group of this rank that is not connected. Sets s->wait and returns
 * their number; -1: a group has failed. */
static int chains_pass(struct ncclComm *comm, struct chains_scratch *s)
{
	int pending = 0;

	for (int32_t c = 0; c < comm->nchannels; c++) {
		const struct channel_chain *chain = &comm->channels[c].chain;
		int32_t hosts = topo_heads_hosts(s->heads);
		int32_t from = c % topo_heads_count(s->heads, TOPO_COLLNET_CHAIN);
		ncclResult_t rc;

		if (!chain->is_head || s->connected[c])
			continue;
		rc = collnet_connect(comm, c, s->group + (size_t)c * (size_t)hosts, hosts,
				     chains_host_of(comm, s->heads, from), chain->prev_head,
				     &s->wait[pending]);
		s->connected[c] = !rc;
		if (rc == ncclInProgress)
			pending++;
		else if (rc)
			return -1;
	}
	return pending;
}

/* One round: until this rank's groups are connected, or until the time. */
static ncclResult_t chains_round(struct ncclComm *comm, struct chains_scratch *s, uint64_t until_ns,
				 enum chains_progress *progress)
{
	for (;;) {
		int pending = chains_pass(comm, s);
		ncclResult_t rc;

		*progress = pending < 0   ? CHAINS_FAILED
			    : pending > 0 ? CHAINS_PENDING
					  : CHAINS_CONNECTED;
		if (pending <= 0 || os_now_ns() >= until_ns)
			return ncclSuccess;
		rc = bootstrap_wait_beside(comm->bootstrap, s->wait, pending);
		if (rc)
			return rc;
	}
}

/* Gathers how far all ranks are. CHAINS_FAILED: some rank has failed. */
static ncclResult_t chains_meet(struct ncclComm *comm, struct chains_scratch *s,
				enum chains_progress *progress)
{
	ncclResult_t rc;

	s->progress[comm->rank] = *progress;
	rc = bootstrap_all_gather(comm->bootstrap, s->progress, sizeof *s->progress);
	*progress = CHAINS_CONNECTED;
	for (int32_t r = 0; r < comm->nranks && !rc; r++) {
		if (s->progress[r] == CHAINS_FAILED)
			*progress = CHAINS_FAILED;
		else if (s->progress[r] == CHAINS_PENDING && *progress != CHAINS_FAILED)
			*progress = CHAINS_PENDING;
	}
	return rc;
}

/* *connected: the groups of all channels are connected at all heads. */
static ncclResult_t chains_groups(struct ncclComm *comm, struct chains_scratch *s, bool *connected)
{
	enum chains_progress progress, mine;
	uint64_t ns = CHAINS_ROUND_NS;
	ncclResult_t rc = chains_handles(comm, s, &progress);

	*connected = false;
	mine = progress;
	if (!rc)
		rc = chains_meet(comm, s, &progress);
	for (int32_t c = 0; c < comm->nchannels && !rc; c++)
		(void)chains_group_handles(comm, s, c);
	for (int i = 0; i < CHAINS_ROUNDS && !rc && progress == CHAINS_PENDING; i++, ns *= 2) {
		rc = chains_round(comm, s, os_now_ns() + ns, &mine);
		progress = mine;
		if (!rc)
			rc = chains_meet(comm, s, &progress);
	}
	if (!rc && progress == CHAINS_PENDING && mine == CHAINS_PENDING)
		WARN("rank %d: the plugin %s has not connected the heads of all hosts in %d s",
		     comm->rank, collnet_name(comm->collnet), (int)(ns / 1000000000));
	*connected = !rc && progress == CHAINS_CONNECTED;
	return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void chains_give_up(struct ncclComm *comm)
{
	for (int32_t c = 0; c < comm->nchannels; c++)
		comm->channels[c].chain = (struct channel_chain){.up = 0};
	collnet_close(comm);
}

/* Makes chains and groups; *used: on all ranks. */
static ncclResult_t chains_join(struct ncclComm *comm, struct chains_scratch *s,
				const struct topo_rank_info *all, bool *used)
{
	ncclResult_t rc = chains_gather(comm, s, used);

	if (rc || !*used)
		return rc;
	rc = topo_heads_connect(all, s->infos, comm->nranks, &s->heads);
	*used = !rc && topo_heads_count(s->heads, TOPO_COLLNET_CHAIN) > 0 &&
		topo_heads_hosts(s->heads) > 1;
	if (rc || !*used)
		return rc;
	chains_set(comm, s);
	rc = chains_groups(comm, s, used);
	if (!rc && !*used && comm->local_rank == 0)
		WARN("Cannot initialize CollNet, using point-to-point network instead");
	return rc;
}

ncclResult_t comm_collnet_make(struct ncclComm *comm, const struct topo_rank_info *all)
{
	struct chains_scratch *s;
	bool used = false;
	ncclResult_t rc;

	if (comm->summary.nhosts < 2 || chains_refuser(comm) >= 0)
		return ncclSuccess;
	s = chains_make(comm);
	if (!s)
		return ncclSystemError;
	rc = chains_describe(comm, s);
	if (!rc)
		rc = chains_join(comm, s, all, &used);
	if (used) {
		chains_summary(comm, s);
		collnet_agree(comm->collnet, s->reductions);
		chains_log(comm);
	} else {
		chains_give_up(comm);
	}
	chains_free(s);
	return rc;
}
