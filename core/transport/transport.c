/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transport/transport.h"

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/mem/mem.h"
#include "core/transport/local/letters.h"
#include "core/transport/registered.h"
#include "core/transport/transport_internal.h"
#include "core/transport/windows.h"

/* Two ranks whose GPUs NVLink joins send over as many channels as fill the links: one channel moves
 * 20 GB/s. The steps of such messages are smaller than a ring's. Over NVLink, the slots of 32
 * channels would not fit the GPU's L2 cache otherwise: with 128 MiB of slots two H200 moved 290
 * GB/s, with 32 MiB 322 GB/s. Toward the network, memory is the reason: most pairs of ranks have a
 * network between them. */
#define TRANSPORT_PAIR_NVLINK_CHANNELS 32
#define TRANSPORT_PAIR_STEP_BYTES      (128u << 10)
#define TRANSPORT_LEFT_NS              100000000ull /* until a neighbour's death is known */

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

/* Within a host, in order of choice. */
static const struct transport *const transports_local[] = {&transport_p2p, &transport_shm};

const struct transport *transport_local_of(const struct ncclComm *comm, int32_t from, int32_t to)
{
	for (size_t i = 0; i < ARRAY_LEN(transports_local); i++)
		if (transports_local[i]->can_connect(comm, from, to))
			return transports_local[i];
	return NULL;
}

const struct transport *transport_of(const struct ncclComm *comm, int32_t from, int32_t to)
{
	const struct transport *t = transport_local_of(comm, from, to);

	if (!t && comm->network->can_connect(comm, from, to))
		t = comm->network;
	return t;
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

bool transport_pair_has_nvlink(const struct ncclComm *comm, int32_t peer)
{
	int32_t other = transport_local_rank(comm, peer);

	if (other < 0 || transport_of(comm, comm->rank, peer) != &transport_p2p ||
	    transport_of(comm, peer, comm->rank) != &transport_p2p)
		return false;
	return topo_gpu_path(comm->topo, comm->local_rank, other) == TOPO_PATH_NVL &&
	       topo_gpu_path(comm->topo, other, comm->local_rank) == TOPO_PATH_NVL;
}

/* The receiver copies data in slots once more, but not lines of LL, so LL is faster up to a longer
 * part. With more than two ranks the limit is lower: lines of LL are twice the data and fill NVLink
 * (results/figures.md). */
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

	return proto == DEV_SIMPLE ||
	       (param_i64(threshold[proto]) && comm->protos[CONN_COLLECTIVE] >> proto & 1);
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

/* True if messages over this connection have smaller steps than collectives. */
static bool transport_pair_is_small(const struct conn *c)
{
	return c->transport->network ||
	       (c->transport == &transport_p2p && transport_pair_has_nvlink(c->comm, c->peer));
}

void transport_steps_set(struct ncclComm *comm)
{
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		comm->step_bytes[p] = transport_step_bytes((enum dev_proto)p);
}

uint32_t transport_conn_step_bytes(const struct conn *c, enum dev_proto proto)
{
	enum conn_index index = (enum conn_index)c->index;
	uint32_t bytes;

	if (!(index == CONN_PAIR ? transport_messages_have(c->comm, proto)
				 : c->comm->protos[index] >> proto & 1))
		return 0;
	bytes = c->comm->step_bytes[proto];
	ASSERT(bytes > 0);
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

/* True if at least one direction goes over the network. */
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

uint32_t transport_conns_most(const struct ncclComm *comm)
{
	int32_t n = comm->nends;

	for (int32_t peer = 0; peer < comm->nranks; peer++)
		n += peer == comm->rank ? 0 : 2 * transport_pair_channels(comm, peer);
	return (uint32_t)n;
}

/* ---- memory of neighbours ------------------------------------------------------------------- */

ncclResult_t transport_import_result(struct ncclComm *comm, int32_t peer, ncclResult_t rc)
{
	if (!rc || bootstrap_wait_left(comm->bootstrap, peer, os_now_ns() + TRANSPORT_LEFT_NS))
		return rc;
	INFO(LOG_P2P | LOG_SHM, "rank %d: the memory cannot be opened because rank %d has left",
	     comm->rank, peer);
	return ncclRemoteError;
}

/* cuMem unmaps memory without waiting for kernels, and a kernel may run whose end no event shows,
 * because recording the event failed. cudaFree waits for all kernels of the GPU. All kernels use
 * the device communicator, so it is freed first. */
void transport_kernels_wait(struct ncclComm *comm)
{
	(void)mem_device_free(comm->dev, "the device communicator");
	comm->dev = NULL;
}

/* ---- the end -------------------------------------------------------------------------------- */

ncclResult_t transport_reserve(struct ncclComm *comm, struct conn *const *conns, int n)
{
	ncclResult_t rc = ncclSuccess;

	for (size_t i = 0; i < ARRAY_LEN(transports_local) && !rc; i++)
		rc = transports_local[i]->reserve(comm, conns, n);
	return rc;
}

void transport_leave(struct ncclComm *comm)
{
	transport_windows_leave(comm);
	for (size_t i = 0; i < ARRAY_LEN(transports_local); i++)
		if (transports_local[i]->leave)
			transports_local[i]->leave(comm);
}

bool transport_left(struct ncclComm *comm, uint64_t until_ns)
{
	bool left = true;

	for (size_t i = 0; i < ARRAY_LEN(transports_local) && left; i++)
		if (transports_local[i]->left)
			left = transports_local[i]->left(comm, until_ns);
	return left;
}

void transport_close_all(struct ncclComm *comm)
{
	transport_conns_close(comm);
	for (size_t i = 0; i < ARRAY_LEN(transports_local); i++)
		transports_local[i]->close(comm);
	transport_registered_end(comm);
	letters_close(comm);
}
