/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/transport.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/transport/letters.h"
#include "core/transport/registered.h"
#include "core/transport/transport_internal.h"

/* Where NVLinks join the two GPUs, a pair of ranks sends over as many channels as fill them: a
 * channel moves 20 GB/s. In smaller steps than a ring's toward the network, because most pairs of a
 * communicator have a network between them, and over NVLink, where the slots of 32 channels would
 * not fit the GPU's L2 cache: 128 MiB of them moved 290 GB/s between two H200, 32 MiB 322. */
#define TRANSPORT_PAIR_NVLINK_CHANNELS 32
#define TRANSPORT_PAIR_STEP_BYTES      (128u << 10)
#define TRANSPORT_NEWS_NS              100000000ull /* until a neighbour's death is known */

/* Its size's variable. */
static enum param transport_buffer_param(enum dev_proto proto)
{
	static const enum param buffer[] = {
		[DEV_SIMPLE] = PARAM_BUFFSIZE,
		[DEV_LL] = PARAM_LL_BUFFSIZE,
		[DEV_LL128] = PARAM_LL128_BUFFSIZE,
	};

	DOPPEL_STATIC_CHECK(ARRAY_LEN(buffer) == DEV_PROTO_COUNT, "a variable for each protocol");
	return buffer[proto];
}

/* The network that the user has set. */
static uint64_t transport_buffer_bytes(enum dev_proto proto)
{
	return (uint64_t)param_i64(transport_buffer_param(proto));
}

/* Too small for a step of the least size, or too large for one of the most: a line, once. */
static void transport_buffer_check(enum dev_proto proto, uint32_t step, uint64_t least,
				   uint64_t most)
{
	enum param p = transport_buffer_param(proto);
	uint64_t set = transport_buffer_bytes(proto);

	if (set >= least * DEV_STEPS && set / DEV_STEPS <= most)
		return;
	if (param_warns(p))
		WARN("%s is %llu, expected %llu to %llu bytes; %llu are used", param_name(p),
		     (unsigned long long)set, (unsigned long long)least * DEV_STEPS,
		     (unsigned long long)most * DEV_STEPS, (unsigned long long)step * DEV_STEPS);
}

uint32_t transport_step_bytes(enum dev_proto proto)
{
	uint32_t data = steps_data_bytes((int)proto, 16); /* of 16 bytes */
	uint32_t grain = steps_grain_bytes((int)proto) * 16 / data;
	uint64_t step = transport_buffer_bytes(proto) / DEV_STEPS / grain * grain;
	const uint64_t most = 64u << 20;
	uint32_t bytes = (uint32_t)MIN_OF(MAX_OF(step, grain), most);

	transport_buffer_check(proto, bytes, grain, most);
	return bytes;
}

uint64_t transport_first_step(void)
{
	return (uint64_t)param_i64(PARAM_FIRST_STEP) / DEV_STEPS * DEV_STEPS;
}

int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank)
{
	for (int32_t i = 0; i < comm->local_ranks; i++)
		if (comm->local_to_rank[i] == rank)
			return i;
	return -1;
}

bool transport_same_process(const struct ncclComm *comm, int32_t peer)
{
	const struct peer_info *me = &comm->peers[comm->rank], *other = &comm->peers[peer];

	return me->host_hash == other->host_hash && me->pid_hash == other->pid_hash;
}

const struct transport *transport_of(const struct ncclComm *comm, int32_t from, int32_t to)
{
	const struct transport *const *t = comm->transports;

	while (*t && !(*t)->can_connect(comm, from, to))
		t++;
	return *t;
}

ncclResult_t transport_choose(struct conn *c)
{
	int32_t from = c->is_send ? c->comm->rank : c->peer;
	int32_t to = c->is_send ? c->peer : c->comm->rank;

	c->transport = transport_of(c->comm, from, to);
	if (c->transport)
		return ncclSuccess;
	WARN("no transport from rank %d to rank %d: neither p2p, shm nor network can connect them",
	     from, to);
	return ncclSystemError;
}

static inline enum conn_index transport_index_of(enum dev_algo algo)
{
	switch (algo) {
	case DEV_RING:
		return CONN_COLLECTIVE;
	case DEV_ONE_SHOT:
	case DEV_TWO_SHOT:
		return CONN_DIRECT;
	case DEV_TREE:
		return CONN_TREE;
	default:
		return CONN_PAT;
	}
}

/* Do NCCL_ALGO and NCCL_PROTO allow a program that uses the protocol's buffer of such a
 * connection? */
static bool transport_proto_is_used(const struct ncclComm *comm, enum conn_index index,
				    enum dev_proto proto)
{
	uint64_t programs = 0;

#define TRANSPORT_PROGRAM(id, name, func, algo, p, ...)                                            \
	programs |= (uint64_t)(DEV_##p == proto && transport_index_of(DEV_##algo) == index)        \
		    << DEV_##id;
	DEV_PROGRAMS(TRANSPORT_PROGRAM)
#undef TRANSPORT_PROGRAM
	return (comm->allowed & programs) != 0;
}

bool transport_pair_has_nvlink(const struct ncclComm *comm, int32_t peer)
{
	int32_t other = transport_local_rank(comm, peer);

	if (other < 0 || transport_of(comm, comm->rank, peer) != &transport_p2p ||
	    transport_of(comm, peer, comm->rank) != &transport_p2p)
		return false;
	return topo_gpu_path(comm->topo, comm->local_rank, other) == TOPO_PATH_NVL &&
	       topo_gpu_path(comm->topo, other, comm->local_rank) == TOPO_PATH_NVL;
}

/* What goes through slots is copied once more by the receiver; a line of LL is not, so that a
 * longer part is faster in LL. Not where a rank has several peers: LL's lines are twice the data,
 * and NVLink is full of them (docs/figures.md). */
static uint64_t transport_pair_ll_bytes(const struct conn *c)
{
	int64_t bytes = param_i64(PARAM_P2P_LL_THRESHOLD);

	if (bytes >= 0)
		return (uint64_t)bytes;
	if (c->comm->nranks > 2 || c->transport != &transport_p2p || c->dev.put ||
	    !transport_pair_has_nvlink(c->comm, c->peer))
		return 16 << 10;
	return 32 << 10;
}

bool transport_messages_have(const struct ncclComm *comm, enum dev_proto proto)
{
	static const enum param threshold[] = {
		[DEV_LL] = PARAM_P2P_LL_THRESHOLD, [DEV_LL128] = PARAM_P2P_LL128_THRESHOLD};

	return proto == DEV_SIMPLE || (param_i64(threshold[proto]) &&
				       transport_proto_is_used(comm, CONN_COLLECTIVE, proto));
}

void transport_message_lines(struct conn *c)
{
	uint64_t ll = transport_messages_have(c->comm, DEV_LL) ? transport_pair_ll_bytes(c) : 0;
	uint64_t ll128 = transport_messages_have(c->comm, DEV_LL128)
				 ? (uint64_t)param_i64(PARAM_P2P_LL128_THRESHOLD)
				 : 0;

	c->ll_bytes = (uint32_t)MIN_OF(ll, UINT32_MAX);
	c->ll128_bytes = (uint32_t)MIN_OF(ll128, UINT32_MAX);
}

/* Do messages over this connection take smaller steps than collectives? */
static bool transport_pair_is_small(const struct conn *c)
{
	return c->transport->network ||
	       (c->transport == &transport_p2p && transport_pair_has_nvlink(c->comm, c->peer));
}

uint32_t transport_conn_step_bytes(const struct conn *c, enum dev_proto proto)
{
	enum conn_index index = (enum conn_index)c->index;
	uint32_t bytes = transport_step_bytes(proto);

	if (!(index == CONN_PAIR ? transport_messages_have(c->comm, proto)
				 : transport_proto_is_used(c->comm, index, proto)))
		return 0;
	return index == CONN_PAIR && proto == DEV_SIMPLE && transport_pair_is_small(c)
		       ? MIN_OF(bytes, TRANSPORT_PAIR_STEP_BYTES)
		       : bytes;
}

ncclResult_t transport_steps_check(const struct conn *c, const uint32_t theirs[DEV_PROTO_COUNT])
{
	static const char *const variable[] = {
		[DEV_SIMPLE] = "NCCL_BUFFSIZE",
		[DEV_LL] = "NCCL_LL_BUFFSIZE",
		[DEV_LL128] = "NCCL_LL128_BUFFSIZE",
	};

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		uint32_t mine = transport_conn_step_bytes(c, (enum dev_proto)p);

		if (theirs[p] == mine)
			continue;
		WARN("rank %d has steps of %u bytes and rank %d of %u: %s must be the same on all "
		     "ranks",
		     c->comm->rank, mine, c->peer, theirs[p],
		     mine && theirs[p] ? variable[p] : "NCCL_PROTO");
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

void transport_lines_init(enum dev_proto proto, void *lines, uint64_t bytes)
{
	uint64_t half = (uint64_t)DEV_LINE_FLAG(transport_first_step() - 1) << 32;
	uint64_t *at = lines;

	if (proto == DEV_LL128)
		half = 0; /* no step has that flag */
	if (!half)
		os_zero(lines, bytes);
	for (uint64_t i = 0; half && i < bytes / sizeof *at; i++)
		at[i] = half;
}

uint64_t transport_conn_layout(const struct conn *c, uint32_t step_bytes[DEV_PROTO_COUNT],
			       uint64_t offset[DEV_PROTO_COUNT])
{
	uint64_t bytes = 0;

	for (int p = 0; p < DEV_PROTO_COUNT; p++) {
		step_bytes[p] = transport_conn_step_bytes(c, (enum dev_proto)p);
		offset[p] = bytes;
		bytes += (uint64_t)DEV_STEPS * step_bytes[p];
	}
	return bytes;
}

uint64_t transport_pair_most_channels(void)
{
	return (uint64_t)param_i64(PARAM_MAX_P2P_NCHANNELS);
}

int32_t transport_pair_net_channels(const struct ncclComm *comm)
{
	int32_t n = comm->config.nChannelsPerNetPeer;

	return n == NCCL_CONFIG_UNDEF_INT ? TRANSPORT_PAIR_CHANNELS : MIN_OF(n, NET_MAX_RECVS);
}

/* In one direction at least. */
static bool transport_pair_has_network(const struct ncclComm *comm, int32_t peer)
{
	return transport_of(comm, comm->rank, peer)->network ||
	       transport_of(comm, peer, comm->rank)->network;
}

int32_t transport_pair_channels(const struct ncclComm *comm, int32_t peer)
{
	int32_t most = TRANSPORT_PAIR_CHANNELS;

	if (transport_pair_has_nvlink(comm, peer))
		most = TRANSPORT_PAIR_NVLINK_CHANNELS;
	else if (transport_pair_has_network(comm, peer))
		most = transport_pair_net_channels(comm);
	most = MIN_OF(most, (int32_t)transport_pair_most_channels());
	return MIN_OF(most, comm->pair_channels);
}

/* Ends of trees: they, and those of PAT, are the first that are made beside those of rings. */
static int32_t transport_tree_ends(const struct ncclComm *comm)
{
	int32_t n = 0;

	for (int32_t i = 0; i < comm->nchannels && comm->trees; i++)
		for (int k = 0; k < DEV_TREE_LINKS; k++)
			n += comm->channels[i].tree[k].rank >= 0 ? 2 : 0;
	return n;
}

static int32_t transport_pat_ends(const struct ncclComm *comm)
{
	return 2 * comm->pat_channels * (int32_t)steps_pat_levels(comm->nranks);
}

uint32_t transport_conns_most(const struct ncclComm *comm)
{
	int32_t n = (comm->nranks - 1) * comm->direct_channels;

	for (int32_t peer = 0; peer < comm->nranks; peer++)
		n += peer == comm->rank ? 0 : transport_pair_channels(comm, peer);
	return (uint32_t)(transport_tree_ends(comm) + transport_pat_ends(comm) + 2 * n);
}

static int transport_ring_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = 0;

	for (int32_t i = 0; i < comm->nchannels; i++) {
		const struct channel *ch = &comm->channels[i];

		wants[n++] = (struct conn_want){.channel = i, .peer = ch->ring_prev};
		wants[n++] =
			(struct conn_want){.channel = i, .peer = ch->ring_next, .is_send = true};
	}
	return n;
}

static void transport_ring_find(const struct ncclComm *comm, struct channel *ch)
{
	struct conn_want want = {.channel = ch->id, .peer = ch->ring_prev};

	ch->ring_recv = transport_conn_find(comm, &want);
	want = (struct conn_want){.channel = ch->id, .peer = ch->ring_next, .is_send = true};
	ch->ring_send = transport_conn_find(comm, &want);
}

static int transport_tree_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = 0;

	for (int32_t i = 0; i < comm->nchannels && comm->trees; i++)
		for (int k = 0; k < DEV_TREE_LINKS; k++) {
			struct conn_want want = {.channel = i,
						 .peer = comm->channels[i].tree[k].rank,
						 .index = CONN_TREE};

			if (want.peer < 0)
				continue;
			wants[n++] = want;
			want.is_send = true;
			wants[n++] = want;
		}
	return n;
}

static void transport_tree_find(const struct ncclComm *comm, struct channel *ch,
				struct tree_link *link)
{
	struct conn_want want = {.channel = ch->id, .peer = link->rank, .index = CONN_TREE};

	if (link->rank < 0)
		return;
	link->recv = transport_conn_find(comm, &want);
	want.is_send = true;
	link->send = transport_conn_find(comm, &want);
}

/* One end of a level of PAT. */
static struct conn_want transport_pat_want(const struct ncclComm *comm, int32_t channel,
					   uint32_t level, bool is_send)
{
	int32_t n = comm->nranks, far = (int32_t)(1u << level);

	return (struct conn_want){.channel = channel,
				  .peer = (comm->rank + (is_send ? far : n - far)) % n,
				  .is_send = is_send,
				  .index = CONN_PAT};
}

static void transport_pat_find(const struct ncclComm *comm, struct channel *ch, uint32_t level)
{
	struct conn_want recv = transport_pat_want(comm, ch->id, level, false);
	struct conn_want send = transport_pat_want(comm, ch->id, level, true);

	ch->pat_recv[level] = transport_conn_find(comm, &recv);
	ch->pat_send[level] = transport_conn_find(comm, &send);
	ASSERT(ch->pat_recv[level]->slot == comm->channels[0].pat_recv[level]->slot + ch->id);
	ASSERT(ch->pat_send[level]->slot == comm->channels[0].pat_send[level]->slot + ch->id);
}

static int transport_pat_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = 0;

	for (uint32_t level = 0; level < steps_pat_levels(comm->nranks); level++)
		for (int32_t i = 0; i < 2 * comm->pat_channels; i++)
			wants[n++] = transport_pat_want(comm, i % comm->pat_channels, level,
							i >= comm->pat_channels);
	return n;
}

static void transport_channel_find(const struct ncclComm *comm, struct channel *ch)
{
	transport_ring_find(comm, ch);
	for (int k = 0; k < DEV_TREE_LINKS && comm->trees; k++)
		transport_tree_find(comm, ch, &ch->tree[k]);
	for (uint32_t level = 0; level < steps_pat_levels(comm->nranks); level++)
		if (ch->id < comm->pat_channels)
			transport_pat_find(comm, ch, level);
}

static int transport_channel_ends(const struct ncclComm *comm)
{
	return 2 * comm->nchannels + transport_tree_ends(comm) + transport_pat_ends(comm);
}

static int transport_channel_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = transport_ring_wants(comm, wants);

	n += transport_tree_wants(comm, wants + n);
	return n + transport_pat_wants(comm, wants + n);
}

ncclResult_t transport_connect_channels(struct ncclComm *comm, struct conn_job **job)
{
	int ends = transport_channel_ends(comm), n;
	struct conn_want *wants = os_alloc((size_t)ends * sizeof *wants, "connections of channels");
	ncclResult_t rc;

	ASSERT(comm->nchannels > 0 && comm->nchannels <= DEV_MAX_CHANNELS);
	ASSERT(comm->pat_channels <= DEV_PAT_CHANNELS);
	if (!wants) {
		WARN("rank %d: no memory for the connections of %d channels", comm->rank,
		     comm->nchannels);
		return ncclSystemError;
	}
	n = transport_channel_wants(comm, wants);
	ASSERT(n == ends);
	rc = transport_connect_all(comm, wants, n, job);
	os_free(wants);
	for (int32_t i = 0; i < comm->nchannels && !rc; i++)
		transport_channel_find(comm, &comm->channels[i]);
	return rc;
}

struct dev_pat transport_pat_of(const struct ncclComm *comm)
{
	struct dev_pat pat;

	for (uint32_t k = 0; k < DEV_PAT_LEVELS; k++) {
		const struct conn *recv = comm->channels[0].pat_recv[k];
		const struct conn *send = comm->channels[0].pat_send[k];

		pat.recv[k] = recv ? recv->slot : -1;
		pat.send[k] = send ? send->slot : -1;
	}
	return pat;
}

/* They are the next ones behind those of trees and PAT, in the order of a job: of each other rank,
 * the receiving ends of all channels and then the sending ones. */
struct dev_direct transport_direct_of(const struct ncclComm *comm)
{
	if (!comm->direct_channels)
		return (struct dev_direct){.conns = NULL};
	return (struct dev_direct){.conns = comm->dev_conns + transport_tree_ends(comm) +
					    transport_pat_ends(comm),
				   .channels = comm->direct_channels,
				   .ends = 2 * ((uint32_t)comm->nranks - 1)};
}

static void transport_direct_check(const struct ncclComm *comm, const struct conn_want *want)
{
	struct dev_direct direct = transport_direct_of(comm);
	int32_t other = want->peer - (want->peer > comm->rank), end = 2 * other + want->is_send;

	ASSERT(comm->dev_conns + transport_conn_find(comm, want)->slot ==
	       direct.conns + want->channel + end * direct.channels);
}

static int transport_direct_ends(const struct ncclComm *comm)
{
	return 2 * (comm->nranks - 1) * comm->direct_channels;
}

static int transport_direct_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = 0;

	for (int32_t peer = 0; peer < comm->nranks; peer++)
		for (int32_t i = 0; i < 2 * comm->direct_channels && peer != comm->rank; i++)
			wants[n++] = (struct conn_want){.peer = peer,
							.channel = i % comm->direct_channels,
							.is_send = i >= comm->direct_channels,
							.index = CONN_DIRECT};
	return n;
}

int transport_init_ends(const struct ncclComm *comm)
{
	return transport_channel_ends(comm) + transport_direct_ends(comm);
}

int transport_init_wants(const struct ncclComm *comm, struct conn_want *wants)
{
	int n = transport_channel_wants(comm, wants);

	n += transport_direct_wants(comm, wants + n);
	ASSERT(n == transport_init_ends(comm));
	return n;
}

ncclResult_t transport_connect_direct(struct ncclComm *comm)
{
	struct conn_want wants[2 * (DEV_DIRECT_RANKS - 1) * DEV_DIRECT_CHANNELS] = {{0}};
	struct conn_job *job;
	ncclResult_t rc;
	int n;

	if (!comm->direct_channels)
		return ncclSuccess;
	ASSERT(comm->nranks <= DEV_DIRECT_RANKS && comm->direct_channels <= DEV_DIRECT_CHANNELS);
	n = transport_direct_wants(comm, wants);
	rc = transport_connect_all(comm, wants, n, &job);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++)
		transport_direct_check(comm, &wants[i]);
	rc = transport_connect_upload(job);
	transport_connect_drop(job);
	return rc;
}

/* ---- memory of neighbours ------------------------------------------------------------------- */

ncclResult_t transport_import_result(struct ncclComm *comm, int32_t peer, ncclResult_t rc)
{
	if (!rc || bootstrap_wait_left(comm->bootstrap, peer, os_now_ns() + TRANSPORT_NEWS_NS))
		return rc;
	INFO(LOG_P2P | LOG_SHM, "rank %d: that is because rank %d has left", comm->rank, peer);
	return ncclRemoteError;
}

/* cuMem unmaps without a wait, and a kernel may run of which no event is known, as when recording
 * it failed. What frees memory of cudaMalloc waits for all kernels of the GPU, so the device
 * communicator, which they use too, goes first. */
void transport_kernels_wait(struct ncclComm *comm)
{
	(void)mem_device_free(comm->dev, "the device communicator");
	comm->dev = NULL;
}

/* ---- the end -------------------------------------------------------------------------------- */

void transport_let_go(struct ncclComm *comm)
{
	p2p_imports_close(comm);
}

static void transport_forget(struct channel *ch)
{
	ch->ring_send = ch->ring_recv = NULL;
	for (int k = 0; k < DEV_TREE_LINKS; k++)
		ch->tree[k].send = ch->tree[k].recv = NULL;
	for (int k = 0; k < DEV_PAT_LEVELS; k++)
		ch->pat_send[k] = ch->pat_recv[k] = NULL;
}

void transport_close_all(struct ncclComm *comm)
{
	for (int32_t i = 0; i < comm->nchannels; i++)
		transport_forget(&comm->channels[i]);
	transport_conns_close(comm);
	p2p_state_close(comm);
	transport_registered_end(comm);
	shm_state_close(comm);
	letters_close(comm);
}
