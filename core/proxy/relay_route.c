/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which connections go through a relay (relay.h), and by which NIC messages leave the host. Main task only.
 *
 * A ring or a tree leaves by the NIC of its graph. Messages come in by the NIC that is nearest to the receiver's GPU,
 * which all ranks gather, and leave by the one of the same number here, so that they stay on one rail:
 *
 *	NCCL_P2P_PXN_LEVEL   through
 *	0                    the sender's nearest NIC and its own proxy, whatever the receiver's is
 *	1                    the rail's NIC: by the sender's own path, or by that of another GPU where it is PXN
 *	2                    the GPU that the rail's NIC belongs to, so that a rail's messages go by one proxy;
 *	                     where NVLink does not lead there, as 1
 *
 * and as 0 where that way is none. Ranks may have different levels: the receiving end is the same.
 */
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/proxy/relay.h"

/* ---- relays ---------------------------------------------------------------------------------- */

/* Can this rank and that local rank share memory, and this rank's GPU write to the other one's? */
static bool relay_shares(const struct ncclComm *comm, int32_t relay)
{
	const struct peer_info *me = &comm->peers[comm->rank], *other;

	if (relay < 0 || relay >= RELAY_FIRST || !topo_p2p_ok(comm->topo, comm->local_rank, relay))
		return false;
	other = &comm->peers[comm->local_to_rank[relay]];
	return me->pid_hash == other->pid_hash ||
	       (me->shm_device && me->shm_device == other->shm_device);
}

/* Local rank of the relay between this rank and the NIC, for a ring or tree that leaves the host; -1: none, by
 * topology, or because the two ranks cannot share memory. */
static int32_t relay_toward(const struct ncclComm *comm, int32_t peer, int32_t nic)
{
	int32_t relay = peer < 0 || nic < 0 || transport_local_rank(comm, peer) >= 0
				? -1
				: topo_nic_relay(comm->topo, comm->local_rank, nic);

	return relay_shares(comm, relay) ? relay : -1;
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct relay_route relay_route_own(int32_t nic)
{
	return (struct relay_route){.nic = (int16_t)nic, .relay = -1, .made = true};
}

static struct relay_route relay_route_to(const struct ncclComm *comm, int32_t peer_nic,
					 int64_t level)
{
	const struct topo_system *topo = comm->topo;
	int32_t me = comm->local_rank, owner, relay;

	if (!level || peer_nic < 0 || peer_nic >= topo_nic_count(topo))
		return relay_route_own(topo_nic_nearest(topo, me));
	owner = level == 2 ? topo_nic_owner(topo, me, peer_nic) : -1;
	if (owner == me)
		return relay_route_own(peer_nic);
	if (relay_shares(comm, owner))
		return (struct relay_route){.nic = (int16_t)peer_nic, .relay = (int16_t)owner};
	relay = topo_nic_relay(topo, me, peer_nic);
	if (relay_shares(comm, relay))
		return (struct relay_route){.nic = (int16_t)peer_nic, .relay = (int16_t)relay};
	return relay_route_own(topo_nic_path(topo, me, peer_nic) < TOPO_PATH_PXN
				       ? peer_nic
				       : topo_nic_nearest(topo, me));
}

ncclResult_t proxy_routes_make(struct ncclComm *comm, const struct topo_rank_info *all)
{
	int64_t level = param_bool(PARAM_PXN_DISABLE) ? 0 : param_i64(PARAM_P2P_PXN_LEVEL);

	if (comm->local_ranks == comm->nranks || topo_nic_count(comm->topo) < 1)
		return ncclSuccess;
	comm->routes = os_alloc((size_t)comm->nranks * sizeof *comm->routes, "routes of messages");
	if (!comm->routes) {
		WARN("rank %d: no memory for the routes to %d ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	for (int32_t r = 0; r < comm->nranks; r++)
		comm->routes[r] = relay_route_to(comm, all[r].nic,
						 transport_local_rank(comm, r) >= 0 ? 0 : level);
	return ncclSuccess;
}

/* Messages to `peer` are to go through a relay: is there room for the connections of all channels? One part of a
 * message by another proxy would need another connection of the network. */
static void relay_route_reserve(const struct ncclComm *comm, int32_t peer)
{
	struct relay_route *route = &comm->routes[peer];
	struct relay_use *use = relay_use_find(comm, route->relay);
	int32_t n = transport_pair_channels(comm, peer);

	route->made = true;
	if (use && n <= use->messages) {
		use->messages -= n;
		return;
	}
	OS_PROBE("relay.no_room", "messages go by the sender's proxy: their relay has no room",
		 use != NULL);
	INFO(LOG_INIT | LOG_NET,
	     "rank %d: messages to rank %d do not go through rank %d, which has room for %d of %d "
	     "connections more",
	     comm->rank, peer, comm->local_to_rank[route->relay], use ? use->messages : 0, n);
	*route = relay_route_own(topo_nic_nearest(comm->topo, comm->local_rank));
}

/* ---- what a rank needs of its relays --------------------------------------------------------- */

/* Adds a connection of a ring or a tree, if it goes through that local rank. */
static void relay_need_add(const struct ncclComm *comm, struct relay_need *need, int32_t local,
			   struct conn c, int32_t nic)
{
	uint32_t step_bytes[DEV_PROTO_COUNT];
	uint64_t offset[DEV_PROTO_COUNT];

	if (relay_toward(comm, c.peer, nic) != local)
		return;
	(void)transport_conn_layout(&c, step_bytes, offset);
	need->gpu_bytes += proxy_gpu_bytes(step_bytes);
}

static struct conn relay_conn_like(struct ncclComm *comm, int32_t peer, enum conn_index index)
{
	return (struct conn){.transport = &transport_net,
			     .comm = comm,
			     .peer = peer,
			     .is_send = true,
			     .index = (uint8_t)index};
}

/* Connections of messages through that local rank, if all are made. */
static int32_t relay_messages(const struct ncclComm *comm, int32_t local)
{
	int32_t n = 0;

	for (int32_t r = 0; r < comm->nranks && comm->routes; r++)
		if (comm->routes[r].relay == local)
			n += transport_pair_channels(comm, r);
	return MIN_OF(n, (int32_t)param_i64(PARAM_PXN_CONNECTIONS));
}

struct relay_need relay_need_of(struct ncclComm *comm, int32_t local, int32_t *messages)
{
	struct conn pair = relay_conn_like(comm, comm->rank, CONN_PAIR);
	struct relay_need need = {.gpu_bytes = 0};
	uint32_t step_bytes[DEV_PROTO_COUNT];
	uint64_t offset[DEV_PROTO_COUNT];

	for (int32_t i = 0; i < comm->nchannels; i++) {
		const struct channel *ch = &comm->channels[i];

		relay_need_add(comm, &need, local,
			       relay_conn_like(comm, ch->ring_next, CONN_COLLECTIVE), ch->nic_out);
		for (int k = 0; k < DEV_TREE_LINKS && comm->trees; k++)
			relay_need_add(comm, &need, local,
				       relay_conn_like(comm, ch->tree[k].rank, CONN_TREE),
				       ch->tree[k].nic);
	}
	*messages = relay_messages(comm, local);
	(void)transport_conn_layout(&pair, step_bytes, offset);
	need.gpu_bytes += (uint64_t)*messages * proxy_gpu_bytes(step_bytes);
	return need;
}

static uint64_t relay_bit(int32_t relay)
{
	return relay < 0 ? 0 : 1ull << relay;
}

uint64_t proxy_relays_wanted(const struct ncclComm *comm)
{
	uint64_t wanted = 0;

	for (int32_t c = 0; c < comm->nchannels; c++) {
		const struct channel *ch = &comm->channels[c];

		wanted |= relay_bit(relay_toward(comm, ch->ring_next, ch->nic_out));
		for (int k = 0; k < DEV_TREE_LINKS && comm->trees; k++)
			wanted |= relay_bit(relay_toward(comm, ch->tree[k].rank, ch->tree[k].nic));
	}
	for (int32_t r = 0; r < comm->nranks && comm->routes; r++)
		wanted |= relay_bit(comm->routes[r].relay);
	return wanted;
}

/* ---- the way of a connection ----------------------------------------------------------------- */

static int32_t relay_graph_nic(const struct conn *c)
{
	const struct channel *ch = &c->comm->channels[c->channel];

	if (c->index == CONN_COLLECTIVE)
		return c->is_send ? ch->nic_out : ch->nic_in;
	for (int k = 0; k < DEV_TREE_LINKS && c->index == CONN_TREE; k++)
		if (ch->tree[k].rank == c->peer)
			return ch->tree[k].nic;
	return -1;
}

struct relay_use *relay_route_take(const struct conn *c, int32_t *nic)
{
	const struct ncclComm *comm = c->comm;
	int32_t relay = -1;

	if (c->index == CONN_PAIR && c->is_send && comm->routes) {
		if (!comm->routes[c->peer].made)
			relay_route_reserve(comm, c->peer);
		*nic = comm->routes[c->peer].nic;
		relay = comm->routes[c->peer].relay;
	} else {
		*nic = relay_graph_nic(c);
		if (c->is_send)
			relay = relay_toward(comm, c->peer, *nic);
	}
	/* what comes in, PAT, or a ring or tree that does not leave the host here while these two GPUs cannot reach
	 * each other */
	if (*nic < 0)
		*nic = topo_nic_nearest(comm->topo, comm->local_rank);
	return relay < 0 ? NULL : relay_use_find(comm, relay);
}
