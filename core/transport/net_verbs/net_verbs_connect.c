/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: TCP first, then queue pairs. This file has the sending end, and the steps of both
 * ends; net_verbs_accept.c has the receiving end. The states are drawn above enum net_verbs_state.
 * Each call advances as far as possible without blocking.
 */
#include <string.h>

#include "core/bootstrap/sock.h"
#include "core/transport/net_verbs/net_verbs_internal.h"

#define NET_VERBS_TRIES    34
#define NET_VERBS_RETRY_NS 100000000ull

/* ---- waits ----------------------------------------------------------------------------------- */

void net_verbs_wait_socket(int fd, int32_t peer, int32_t channel, const char *why, struct wait *w)
{
	const void *object = os_socket_object(fd);

	*w = wait_object(object, os_event_seq(object), why,
			 wait_by(peer, channel, "proxy service"));
}

/* Waits before the next attempt. */
static ncclResult_t net_verbs_pause(struct net_verbs_conn *c, uint64_t ns, const char *why,
				    struct wait *w)
{
	*w = wait_object(c, os_event_seq(c), why, wait_by(c->who.peer, c->who.channel, NULL));
	w->deadline_ns = os_now_ns() + ns;
	c->check_at_ns = w->deadline_ns;
	return ncclInProgress;
}

static bool net_verbs_paused(const struct net_verbs_conn *c)
{
	return c->check_at_ns && os_now_ns() < c->check_at_ns;
}

/* ---- messages -------------------------------------------------------------------------------- */

static ncclResult_t net_verbs_broken(const struct net_verbs_conn *c, const char *what, int rc)
{
	WARN("NET/IB: rank %d and rank %d, channel %d: the connection for set-up broke while %s: "
	     "%s",
	     c->comm->rank, c->who.peer, c->who.channel, what,
	     rc ? strerror(rc) : "closed by the peer");
	return ncclRemoteError;
}

/* Sends the rest of a message of n bytes. c->moved is the number of bytes sent so far. */
static ncclResult_t net_verbs_push(struct net_verbs_conn *c, const void *data, size_t n,
				   struct wait *w)
{
	while (c->moved < n) {
		size_t done = 0;
		int rc;

		net_verbs_wait_socket(c->fd, c->who.peer, c->who.channel,
				      "a socket to take more of the set-up", w);
		rc = os_send(c->fd, (const uint8_t *)data + c->moved, n - c->moved, &done);
		if (rc == EAGAIN)
			return ncclInProgress;
		if (rc)
			return net_verbs_broken(c, "sending", rc);
		c->moved += done;
	}
	c->moved = 0;
	return ncclSuccess;
}

static ncclResult_t net_verbs_pull(struct net_verbs_conn *c, void *data, size_t n, struct wait *w)
{
	while (c->moved < n) {
		size_t done = 0;
		int rc;

		net_verbs_wait_socket(c->fd, c->who.peer, c->who.channel,
				      "the peer's part of the set-up", w);
		rc = os_recv(c->fd, (uint8_t *)data + c->moved, n - c->moved, &done);
		if (rc == EAGAIN)
			return ncclInProgress;
		if (rc || !done)
			return net_verbs_broken(c, "receiving", rc);
		c->moved += done;
	}
	c->moved = 0;
	return ncclSuccess;
}

/* ---- steps that both ends take --------------------------------------------------------------- */

/* "mlx5_0+mlx5_1" */
static void net_verbs_nic_name(const struct net_verbs_conn *c, bool mine, char out[TOPO_NIC_NAME])
{
	const uint32_t n = mine ? c->nlegs : c->theirs.ndevs;
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < n && at < TOPO_NIC_NAME; i++)
		at += (size_t)snprintf(out + at, TOPO_NIC_NAME - at, "%s%s", i ? "+" : "",
				       mine ? c->leg[i].dev->name : c->theirs.dev[i].nic);
}

void net_verbs_conn_shape(struct net_verbs_conn *c, uint32_t ndevs)
{
	const uint32_t each = (uint32_t)param_i64(PARAM_IB_QPS_PER_CONNECTION);

	c->width = MAX_OF(c->nlegs, ndevs);
	c->nqps = MIN_OF(each, NET_VERBS_MAX_QPS / c->width) * c->width;
	c->split = c->nqps > 1 && param_bool(PARAM_IB_SPLIT_DATA_ON_QPS);
}

struct net_verbs_conn *net_verbs_conn_make(struct ncclComm *comm, const struct net_nic *nic,
					   const struct net_who *who, bool is_send)
{
	struct net_verbs_conn *c = os_alloc(sizeof *c, "verbs connection");
	int64_t adaptive = param_i64(PARAM_IB_ADAPTIVE_ROUTING);

	if (!c) {
		WARN("NET/IB: no memory for a connection to rank %d", who->peer);
		return NULL;
	}
	c->comm = comm;
	c->nlegs = (uint32_t)nic->count;
	for (uint32_t i = 0; i < c->nlegs; i++)
		c->leg[i] =
			(struct net_verbs_leg){.conn = c, .dev = net_verbs_dev(comm, nic->dev[i])};
	c->who = *who;
	c->is_send = is_send;
	c->fd = -1;
	c->checked_seq = ~0ull;
	c->state = is_send ? NET_VERBS_CONNECT : NET_VERBS_ACCEPT;
	c->mine.nqps = (uint16_t)param_i64(PARAM_IB_QPS_PER_CONNECTION);
	c->mine.split = param_bool(PARAM_IB_SPLIT_DATA_ON_QPS);
	c->mine.failover = param_bool(PARAM_IB_FAILOVER);
	c->adaptive = adaptive == PARAM_UNSET
			      ? c->leg[0].dev->attr.link_layer == IBV_LINK_LAYER_INFINIBAND
			      : adaptive != 0;
	return c;
}

/* Both ends must have the same queue pairs. */
static ncclResult_t net_verbs_qps_check(const struct net_verbs_conn *c)
{
	const struct net_verbs_meta *m = &c->theirs, *mine = &c->mine;

	const struct {
		const char *name;
		uint32_t mine, theirs;
	} both[] = {
		{"NCCL_IB_QPS_PER_CONNECTION", mine->nqps, m->nqps},
		{"NCCL_IB_SPLIT_DATA_ON_QPS", mine->split, m->split},
		{"NCCL_IB_RESILIENCY_PORT_FAILOVER", mine->failover, m->failover},
	};

	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		if (both[i].mine == both[i].theirs)
			continue;
		WARN("NET/IB: %s is %u on rank %d and %u on rank %d, expected the same on both",
		     both[i].name, both[i].mine, c->comm->rank, both[i].theirs, c->who.peer);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

/* A sending end knows the number of the other end's devices from the handle. */
static bool net_verbs_devices_fit(const struct net_verbs_conn *c)
{
	const struct net_verbs_meta *m = &c->theirs;

	if (m->ndevs < 1 || m->ndevs > NET_VERBS_MAX_LEGS ||
	    (c->is_send && MAX_OF(m->ndevs, c->nlegs) != c->width))
		return false;
	for (uint32_t i = 0; i < m->ndevs; i++)
		if (m->dev[i].mtu < IBV_MTU_256 || m->dev[i].mtu > IBV_MTU_4096 ||
		    !memchr(m->dev[i].nic, 0, sizeof m->dev[i].nic))
			return false;
	return true;
}

/* Returns the first device of either end with another link layer than this end's first device;
 * NULL: none. */
static const char *net_verbs_other_link(const struct net_verbs_conn *c)
{
	const uint8_t link = c->leg[0].dev->attr.link_layer;

	for (uint32_t i = 1; i < c->nlegs; i++)
		if (c->leg[i].dev->attr.link_layer != link)
			return c->leg[i].dev->name;
	for (uint32_t i = 0; i < c->theirs.ndevs; i++)
		if (c->theirs.dev[i].link_layer != link)
			return c->theirs.dev[i].nic;
	return NULL;
}

static ncclResult_t net_verbs_links_check(const struct net_verbs_conn *c)
{
	const char *other = net_verbs_other_link(c);
	char mine[TOPO_NIC_NAME], theirs[TOPO_NIC_NAME];

	if (!other)
		return net_verbs_qps_check(c);
	net_verbs_nic_name(c, true, mine);
	net_verbs_nic_name(c, false, theirs);
	WARN("NET/IB: rank %d (%s) cannot connect to rank %d (%s): %s has another link layer than "
	     "%s: expected one link layer; NCCL_IB_HCA selects devices, NCCL_NET_MERGE_LEVEL=LOC "
	     "merges none",
	     c->comm->rank, mine, c->who.peer, theirs, other, c->leg[0].dev->name);
	return ncclRemoteError;
}

ncclResult_t net_verbs_meta_check(const struct net_verbs_conn *c)
{
	const struct net_verbs_meta *m = &c->theirs;

	if (m->magic == NET_VERBS_META_MAGIC && m->rank == c->who.peer &&
	    m->ring_entries == NET_VERBS_RING && net_verbs_devices_fit(c))
		return net_verbs_links_check(c);
	WARN("NET/IB: rank %d (%s) cannot connect to rank %d: magic %#x, rank %d, %u devices, mtu "
	     "%u, ring of %u",
	     c->comm->rank, c->leg[0].dev->name, c->who.peer, m->magic, m->rank, m->ndevs,
	     m->dev[0].mtu, m->ring_entries);
	return ncclRemoteError;
}

/* The network may need time to resolve the peer's address. */
static ncclResult_t net_verbs_to_rts(struct net_verbs_conn *c, struct wait *w)
{
	int rc;

	if (net_verbs_paused(c))
		return ncclInProgress;
	/* rare: resolving the address takes time */
	bool later = c->tries == 0 && OS_BUGGIFY("net.resolve_later",
						 "a queue pair's address takes a while to resolve");
	rc = later ? ETIMEDOUT : net_verbs_qp_to_rts(c);
	if (rc == ETIMEDOUT && ++c->tries < NET_VERBS_TRIES)
		return net_verbs_pause(c, NET_VERBS_RETRY_NS,
				       "the network to resolve a queue pair's address", w);
	if (rc == ETIMEDOUT)
		WARN("NET/IB: rank %d: no route from qp 0x%x on %s to rank %d's %.31s after %d "
		     "tries",
		     c->comm->rank, c->qp[c->failed_qp]->qp_num,
		     c->leg[net_verbs_leg_of(c, c->failed_qp)].dev->name, c->who.peer,
		     c->theirs.dev[net_verbs_their_dev(c, c->failed_qp)].nic, c->tries);
	c->check_at_ns = 0;
	return rc ? ncclSystemError : ncclSuccess;
}

/* One step of the states between TCP and READY, for both ends. ncclSuccess: the step is complete,
 * and *next is the next state. */
static ncclResult_t net_verbs_conn_step(struct net_verbs_conn *c, struct wait *w,
					enum net_verbs_state *next)
{
	ncclResult_t rc;

	switch (c->state) {
	case NET_VERBS_SEND_META:
		*next = c->is_send ? NET_VERBS_RECV_META : NET_VERBS_RECV_READY;
		return net_verbs_push(c, &c->mine, sizeof c->mine, w);
	case NET_VERBS_RECV_META:
		*next = NET_VERBS_TO_RTS;
		rc = net_verbs_pull(c, &c->theirs, sizeof c->theirs, w);
		return rc ? rc : net_verbs_meta_check(c);
	case NET_VERBS_TO_RTS:
		*next = c->is_send ? NET_VERBS_SEND_READY : NET_VERBS_SEND_META;
		return net_verbs_to_rts(c, w);
	case NET_VERBS_SEND_READY:
		*next = NET_VERBS_READY;
		c->ready.magic = NET_VERBS_NOTICE_MAGIC;
		c->ready.qpn = c->qp[0]->qp_num;
		return net_verbs_push(c, &c->ready, sizeof c->ready, w);
	case NET_VERBS_RECV_READY:
		*next = NET_VERBS_READY;
		rc = net_verbs_pull(c, &c->ready, sizeof c->ready, w);
		if (!rc && (c->ready.magic != NET_VERBS_NOTICE_MAGIC || c->ready.status))
			rc = net_verbs_broken(c, "waiting for ready", EPROTO);
		return rc;
	case NET_VERBS_CONNECT:
	case NET_VERBS_ACCEPT:
	case NET_VERBS_READY:
	default:
		ASSERT(!"a state that has its own step");
		return ncclInternalError;
	}
}

ncclResult_t net_verbs_conn_run(struct net_verbs_conn *c, struct wait *w)
{
	char mine[TOPO_NIC_NAME], theirs[TOPO_NIC_NAME];

	while (c->state != NET_VERBS_READY) {
		enum net_verbs_state next = c->state;
		ncclResult_t rc = net_verbs_conn_step(c, w, &next);

		if (rc)
			return rc;
		c->state = next;
	}
	OS_PROBE("net.merged", "a connection goes over several devices of both hosts",
		 c->nlegs > 1 && c->theirs.ndevs > 1);
	OS_PROBE("net.merged_one_end", "the ends of a connection have different numbers of devices",
		 c->nlegs != c->theirs.ndevs);
	net_verbs_nic_name(c, true, mine);
	net_verbs_nic_name(c, false, theirs);
	INFO(LOG_NET, "NET/IB: rank %d %s rank %d channel %d: %s qp 0x%x, peer %s qp 0x%x",
	     c->who.rank, c->is_send ? "->" : "<-", c->who.peer, c->who.channel, mine,
	     c->qp[0]->qp_num, theirs, c->theirs.qpn[0]);
	return ncclSuccess;
}

/* ---- sending end ----------------------------------------------------------------------------- */

static ncclResult_t net_verbs_connect_tcp(struct net_verbs_conn *c,
					  const struct net_verbs_handle *h, struct wait *w)
{
	int rc;

	if (net_verbs_paused(c))
		return ncclInProgress;
	c->check_at_ns = 0;
	rc = c->fd < 0 ? os_connect(&h->addr, &c->fd) : 0;
	if (!rc) {
		net_verbs_wait_socket(c->fd, c->who.peer, c->who.channel,
				      "the peer to accept a connection for set-up", w);
		rc = os_connected(c->fd);
	}
	if (!rc)
		return ncclSuccess;
	if (rc == EAGAIN)
		return ncclInProgress;
	if (c->fd >= 0)
		os_close(c->fd);
	c->fd = -1;
	if ((rc == ECONNREFUSED || rc == ETIMEDOUT) && ++c->tries <= SOCK_CONNECT_RETRIES)
		return net_verbs_pause(c, sock_connect_pause_ns(c->tries),
				       "to try again to connect for set-up", w);
	return net_verbs_broken(c, "connecting", rc);
}

static ncclResult_t net_verbs_connect_start(struct ncclComm *comm, const struct net_nic *nic,
					    const struct net_who *who,
					    const struct net_verbs_handle *h, void **pending)
{
	struct net_verbs_conn *c;
	ncclResult_t rc;

	if (h->magic != NET_VERBS_HANDLE_MAGIC || h->rank != who->peer || h->ndevs < 1 ||
	    h->ndevs > NET_VERBS_MAX_LEGS) {
		WARN("NET/IB: rank %d: invalid handle from rank %d (magic %#x, rank %d, %u "
		     "devices)",
		     comm->rank, who->peer, h->magic, h->rank, h->ndevs);
		return ncclInternalError;
	}
	c = net_verbs_conn_make(comm, nic, who, true);
	if (!c)
		return ncclSystemError;
	*pending = c;
	net_verbs_conn_shape(c, h->ndevs);
	rc = net_verbs_qp_make(c);
	c->mine.nonce = h->nonce;
	return rc;
}

ncclResult_t net_verbs_connect(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, const struct net_handle *handle,
			       void **pending, void **send_comm, struct wait *w)
{
	struct net_verbs_conn *c = *pending;
	struct net_verbs_handle h;
	ncclResult_t rc = ncclSuccess;

	memcpy(&h, handle->bytes, sizeof h);
	if (!c) {
		rc = net_verbs_connect_start(comm, nic, who, &h, pending);
		c = *pending;
	}
	if (!rc && c->state == NET_VERBS_CONNECT) {
		rc = net_verbs_connect_tcp(c, &h, w);
		if (!rc) {
			c->state = NET_VERBS_SEND_META;
			c->tries = 0;
		}
	}
	if (!rc)
		rc = net_verbs_conn_run(c, w);
	if (rc == ncclInProgress)
		return rc;
	*pending = NULL;
	if (rc)
		net_verbs_close(c);
	else
		*send_comm = c;
	return rc;
}

/* ---- closing -------------------------------------------------------------------------------- */

void net_verbs_close(void *net_comm)
{
	struct net_verbs_conn *c = net_comm;

	if (!c) /* never begun */
		return;
	if (c->state == NET_VERBS_READY)
		net_verbs_close_notice(c);
	net_verbs_qp_close(c);
	if (c->fd >= 0)
		os_close(c->fd);
	os_free(c);
}
