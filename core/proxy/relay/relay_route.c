/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of relays for connections (relay.h), and of the NIC by which messages leave the host.
 * Main task only.
 *
 * A ring or a tree leaves by the NIC of its graph. Messages arrive by the NIC that is nearest to
 * the receiver's GPU; all ranks gather this NIC's number. They leave by the NIC with the same
 * number here, so that they stay on one rail:
 *
 *	NCCL_P2P_PXN_LEVEL   path
 *	0                    the sender's nearest NIC and its own proxy, for every receiver
 *	1                    the rail's NIC: by the sender's own path; if that path is PXN,
 *	                     through another GPU
 *	2                    the GPU that owns the rail's NIC, so that one proxy serves the
 *	                     messages of a rail; as 1 if NVLink does not lead to that GPU
 *
 * If there is no such path, level 0 applies. Ranks may have different levels: the receiving end is
 * the same.
 */
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/proxy/relay/relay_internal.h"

/* ---- relays ---------------------------------------------------------------------------------- */

bool relay_ranks_share(const struct ncclComm *comm, int32_t a, int32_t b)
{
	const struct peer_info *one = &comm->peers[comm->local_to_rank[a]];
	const struct peer_info *other = &comm->peers[comm->local_to_rank[b]];

	return one->pid_hash == other->pid_hash ||
	       (one->shm_device && one->shm_device == other->shm_device);
}

/* True if the local rank can share memory with the relay and its GPU can write to the relay's
 * GPU. */
static bool relay_shares(const struct ncclComm *comm, int32_t local, int32_t relay)
{
	return relay >= 0 && relay < RELAY_FIRST && topo_p2p_ok(comm->topo, local, relay) &&
	       relay_ranks_share(comm, local, relay);
}

/* Returns the local rank of the relay between this rank and the NIC, for a ring or tree that leaves
 * the host. -1: no relay, by topology or because the two ranks cannot share memory. */
static int32_t relay_toward(const struct ncclComm *comm, int32_t peer, int32_t nic)
{
	int32_t relay = peer < 0 || nic < 0 || transport_local_rank(comm, peer) >= 0
				? -1
				: topo_nic_relay(comm->topo, comm->local_rank, nic);

	return relay_shares(comm, comm->local_rank, relay) ? relay : -1;
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct relay_route relay_route_own(int32_t nic)
{
	return (struct relay_route){.nic = (int16_t)nic, .relay = -1, .made = true};
}

/* Returns the route from local rank `local` to a receiver with NIC `peer_nic`. */
static struct relay_route relay_route_of(const struct ncclComm *comm, int32_t local,
					 int32_t peer_nic)
{
	const struct topo_system *topo = comm->topo;
	int32_t level = comm->peers[comm->local_to_rank[local]].pxn_level, owner, relay;

	if (!level || peer_nic < 0 || peer_nic >= topo_nic_count(topo))
		return relay_route_own(topo_nic_nearest(topo, local));
	owner = level == 2 ? topo_nic_owner(topo, local, peer_nic) : -1;
	if (owner == local)
		return relay_route_own(peer_nic);
	if (relay_shares(comm, local, owner))
		return (struct relay_route){.nic = (int16_t)peer_nic, .relay = (int16_t)owner};
	relay = topo_nic_relay(topo, local, peer_nic);
	if (relay_shares(comm, local, relay))
		return (struct relay_route){.nic = (int16_t)peer_nic, .relay = (int16_t)relay};
	return relay_route_own(topo_nic_path(topo, local, peer_nic) < TOPO_PATH_PXN
				       ? peer_nic
				       : topo_nic_nearest(topo, local));
}

/* ---- ranks of the host that serve others ----------------------------------------------------- */

static uint64_t relay_bit(int32_t relay)
{
	return relay < 0 ? 0 : 1ull << relay;
}

/* Sets used[nic] for each rail of this host by which ranks of other hosts receive. */
static void relay_rails_used(const struct ncclComm *comm, const struct topo_rank_info *all,
			     bool *used)
{
	uint64_t here = comm->peers[comm->rank].host_hash;
	int32_t n = topo_nic_count(comm->topo);

	for (int32_t r = 0; r < comm->nranks; r++)
		if (comm->peers[r].host_hash != here && all[r].nic >= 0 && all[r].nic < n)
			used[all[r].nic] = true;
}

/* Returns the local ranks, as bits, that messages of local rank `local` may go through. */
static uint64_t relay_messages_of(const struct ncclComm *comm, int32_t local, const bool *used)
{
	uint64_t through = 0;

	for (int32_t nic = 0; nic < topo_nic_count(comm->topo); nic++)
		if (used[nic])
			through |= relay_bit(relay_route_of(comm, local, nic).relay);
	return through;
}

/* Plans boards and relays. All ranks of the host compute the same result from the gathered data. */
static ncclResult_t relay_state_plan(struct ncclComm *comm, const bool *used)
{
	struct relay_state plan = {.leader = -1, .in_process = true};
	uint64_t any = 0;
	ncclResult_t rc;

	for (int32_t i = 0; i < comm->local_ranks; i++) {
		const struct peer_info *peer = &comm->peers[comm->local_to_rank[i]];
		uint64_t through;

		if (!relay_ranks_share(comm, comm->local_rank, i))
			continue;
		if (plan.leader < 0)
			plan.leader = peer->rank;
		plan.in_process &= peer->pid_hash == comm->peers[comm->rank].pid_hash;
		through = relay_messages_of(comm, i, used);
		any |= through;
		if (i == comm->local_rank)
			plan.messages = through;
		else if (comm->local_rank < RELAY_FIRST)
			plan.serves |= through >> comm->local_rank & 1;
	}
	if (!any)
		return ncclSuccess;
	rc = relay_state_make(comm);
	if (rc)
		return rc;
	comm->relays->messages = plan.messages;
	comm->relays->serves = plan.serves;
	comm->relays->leader = plan.leader;
	comm->relays->in_process = plan.in_process;
	return relay_board_make(comm);
}

ncclResult_t proxy_routes_make(struct ncclComm *comm, const struct topo_rank_info *all)
{
	size_t routes = (size_t)comm->nranks * sizeof *comm->routes;
	bool *used;
	ncclResult_t rc;

	if (comm->local_ranks == comm->nranks || topo_nic_count(comm->topo) < 1)
		return ncclSuccess;
	comm->routes = os_alloc(routes, "routes of messages");
	used = os_alloc((size_t)topo_nic_count(comm->topo) * sizeof *used, "rails of messages");
	if (!comm->routes || !used) {
		os_free(used);
		WARN("rank %d: no memory for the routes to %d ranks", comm->rank, comm->nranks);
		return ncclSystemError;
	}
	for (int32_t r = 0; r < comm->nranks; r++)
		comm->routes[r] =
			relay_route_of(comm, comm->local_rank,
				       transport_local_rank(comm, r) >= 0 ? -1 : all[r].nic);
	relay_rails_used(comm, all, used);
	rc = relay_state_plan(comm, used);
	os_free(used);
	return rc;
}

/* Reserves room at the relay for the connections to `peer` of all channels. If there is too little,
 * this rank's own proxy sends all parts: two proxies would need two network connections. */
static ncclResult_t relay_route_reserve(struct ncclComm *comm, int32_t peer)
{
	struct relay_route *route = &comm->routes[peer];
	uint32_t n = (uint32_t)transport_pair_channels(comm, peer), room;
	ncclResult_t rc = relay_use_reserve(comm, route->relay, n, &room);

	if (rc)
		return rc;
	route->made = true;
	if (room == n)
		return ncclSuccess;
	OS_PROBE("relay.no_room", "messages go by the sender's proxy: their relay has no room",
		 true);
	INFO(LOG_INIT | LOG_NET,
	     "rank %d: messages to rank %d do not go through rank %d, which has room for %u of %u "
	     "connections more",
	     comm->rank, peer, comm->local_to_rank[route->relay], room, n);
	*route = relay_route_own(topo_nic_nearest(comm->topo, comm->local_rank));
	return ncclSuccess;
}

/* ---- memory that a rank needs at its relays -------------------------------------------------- */

/* Adds the memory of a ring's or tree's connection if it goes through local rank `local`. */
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

struct relay_need relay_need_of(struct ncclComm *comm, int32_t local)
{
	struct relay_need need = {.gpu_bytes = 0};

	for (int32_t i = 0; i < comm->nends; i++) {
		const struct conn_want *w = &comm->want[i];

		if (w->is_send)
			relay_need_add(comm, &need, local,
				       relay_conn_like(comm, w->peer, (enum conn_index)w->index),
				       w->nic);
	}
	return need;
}

size_t relay_message_bytes(struct ncclComm *comm)
{
	struct conn pair = relay_conn_like(comm, comm->rank, CONN_PAIR);
	uint32_t step_bytes[DEV_PROTO_COUNT];
	uint64_t offset[DEV_PROTO_COUNT];

	(void)transport_conn_layout(&pair, step_bytes, offset);
	return proxy_gpu_bytes(step_bytes);
}

uint64_t proxy_relays_wanted(const struct ncclComm *comm)
{
	uint64_t wanted = 0;

	for (int32_t i = 0; i < comm->nends; i++)
		if (comm->want[i].is_send && comm->want[i].index != CONN_COLLNET)
			wanted |= relay_bit(
				relay_toward(comm, comm->want[i].peer, comm->want[i].nic));
	return wanted;
}

/* ---- the route of a connection --------------------------------------------------------------- */

ncclResult_t relay_route_take(const struct conn *c, int32_t *nic, struct relay_use **use)
{
	struct ncclComm *comm = c->comm;
	int32_t relay = -1;
	ncclResult_t rc = ncclSuccess;

	*nic = -1;
	*use = NULL;
	if (c->index == CONN_PAIR && c->is_send && comm->routes) {
		if (!comm->routes[c->peer].made)
			rc = relay_route_reserve(comm, c->peer);
		*nic = comm->routes[c->peer].nic;
		relay = comm->routes[c->peer].relay;
	} else {
		*nic = c->nic;
		if (c->is_send && c->index != CONN_COLLNET)
			relay = relay_toward(comm, c->peer, *nic);
	}
	/* No graph NIC: a receiving end, PAT, or a ring or tree that stays on this host although
	 * the two GPUs cannot reach each other. */
	if (*nic < 0)
		*nic = topo_nic_nearest(comm->topo, comm->local_rank);
	if (!rc && relay >= 0)
		*use = relay_use_find(comm, relay);
	return rc;
}
