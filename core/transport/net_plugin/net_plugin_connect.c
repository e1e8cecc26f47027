/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: how they are made and closed. */
#include "core/transport/net_plugin/net_plugin_internal.h"

void net_plugin_wait(struct net_plugin_conn *c, const char *why, struct wait *w)
{
	plugin_end_wait(&c->end, c->net_comm ? "proxy progress" : "proxy service", why, w);
}

/* ---- both ends ------------------------------------------------------------------------------ */

static struct net_plugin_conn *net_plugin_conn_make(struct ncclComm *comm,
						    const struct net_nic *nic,
						    const struct net_who *who, bool is_send)
{
	struct net_plugin_conn *c = os_alloc(sizeof *c, "connection of a net plugin");
	const struct net_plugin_comm *of = comm->net.state;
	uint32_t in_use;

	if (!c) {
		WARN("NET/Plugin: no memory for a connection to rank %d", who->peer);
		return NULL;
	}
	c->comm = comm;
	c->of = of;
	c->who = *who;
	c->is_send = is_send;
	c->dev = net_plugin_dev_of(of->plugin, nic);
	c->end = (struct plugin_end){.network = "NET/Plugin",
				     .plugin = of->plugin->name,
				     .device = c->dev->props.name,
				     .arrow = is_send ? "->" : "<-",
				     .rank = comm->rank,
				     .peer = who->peer,
				     .channel = who->channel};
	os_label(c, &(struct os_label){.what = is_send ? "plugin send" : "plugin recv",
				       .rank = comm->rank,
				       .peer = who->peer,
				       .channel = who->channel,
				       .number = c->dev->number});
	in_use = shared_add_u32(&c->dev->in_use, 1, SHARED_RELAXED);
	if (c->dev->props.max_comms > 0 && in_use == (uint32_t)c->dev->props.max_comms)
		INFO(LOG_NET, "NET/Plugin: device %s has more connections than its maxComms, %d",
		     c->dev->props.name, c->dev->props.max_comms);
	return c;
}

static void net_plugin_conn_free(struct net_plugin_conn *c)
{
	shared_add_u32(&c->dev->in_use, -1u, SHARED_RELAXED);
	os_unlabel(c);
	os_free(c);
}

/* An error of a close is logged, and has no other effect. */
static void net_plugin_closed(struct net_plugin_conn *c, const char *function, ncclResult_t rc)
{
	if (rc)
		(void)plugin_end_failed(&c->end, function, rc);
}

void net_plugin_close(void *net_comm)
{
	struct net_plugin_conn *c = net_comm;
	const struct net_abi *a = c->of->plugin->abi;

	if (c->net_comm && c->is_send)
		net_plugin_closed(c, "closeSend", a->close_send(c->net_comm));
	else if (c->net_comm)
		net_plugin_closed(c, "closeRecv", a->close_recv(c->net_comm));
	if (c->listen)
		net_plugin_closed(c, "closeListen", a->close_listen(c->listen));
	net_plugin_conn_free(c);
}

static void net_plugin_ready(struct net_plugin_conn *c, void *net_comm)
{
	c->net_comm = net_comm;
	c->end.misses = 0;
	INFO(LOG_NET, "NET/Plugin: rank %d %s rank %d channel %d: %s on %s", c->comm->rank,
	     c->end.arrow, c->end.peer, c->end.channel, c->end.plugin, c->end.device);
}

/* ---- sending end ---------------------------------------------------------------------------- */

/* A plugin may return a connection together with an error: it is closed. */
static ncclResult_t net_plugin_connect_failed(struct net_plugin_conn *c, void *net_comm,
					      ncclResult_t rc)
{
	c->net_comm = net_comm;
	rc = plugin_end_failed(&c->end, "connect", rc);
	net_plugin_close(c);
	return rc;
}

ncclResult_t net_plugin_connect(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w)
{
	struct net_plugin_conn *c = *pending;
	void *net_comm;
	ncclResult_t rc;

	if (!c) {
		c = net_plugin_conn_make(comm, nic, who, true);
		if (!c)
			return ncclSystemError;
		memcpy(c->handle, h->bytes, sizeof c->handle);
		*pending = c;
	}
	rc = net_plugin_call_connect(c->of, c->dev->number, c->handle, &net_comm);
	if ((!rc || rc == ncclInProgress) && !net_comm) {
		net_plugin_wait(c, "the plugin to connect to the peer", w);
		return ncclInProgress;
	}
	*pending = NULL;
	if (rc)
		return net_plugin_connect_failed(c, net_comm, rc);
	net_plugin_ready(c, net_comm);
	*send_comm = c;
	return ncclSuccess;
}

/* ---- receiving end -------------------------------------------------------------------------- */

ncclResult_t net_plugin_listen(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen)
{
	struct net_plugin_conn *c = net_plugin_conn_make(comm, nic, who, false);
	ncclResult_t rc;

	if (!c)
		return ncclSystemError;
	rc = net_plugin_call_listen(c->of, c->dev->number, c->handle, &c->listen);
	if (rc)
		rc = plugin_end_failed(&c->end, "listen", rc);
	else if (!c->listen)
		rc = plugin_end_refuse(&c->end, "listen returns no object and no error");
	if (rc) {
		net_plugin_close(c);
		return rc;
	}
	memcpy(h->bytes, c->handle, sizeof h->bytes);
	*listen = c;
	return ncclSuccess;
}

/* The object that listens stays, because the caller closes it. */
static ncclResult_t net_plugin_accepted(struct net_plugin_conn *l, void *net_comm, void **recv_comm)
{
	struct net_plugin_conn *c = net_plugin_conn_make(l->comm, &l->dev->nic, &l->who, false);

	if (!c) {
		(void)l->of->plugin->abi->close_recv(net_comm);
		return ncclSystemError;
	}
	net_plugin_ready(c, net_comm);
	*recv_comm = c;
	return ncclSuccess;
}

ncclResult_t net_plugin_accept(void *listen, void **recv_comm, struct wait *w)
{
	struct net_plugin_conn *l = listen;
	struct net_abi_offload *offload = NULL; /* none is requested */
	void *net_comm = NULL;
	ncclResult_t rc = l->of->plugin->abi->accept(l->listen, &net_comm, &offload);

	if ((!rc || rc == ncclInProgress) && !net_comm) {
		net_plugin_wait(l, "the plugin to accept the peer", w);
		return ncclInProgress;
	}
	if (!rc)
		return net_plugin_accepted(l, net_comm, recv_comm);
	if (net_comm)
		(void)l->of->plugin->abi->close_recv(net_comm);
	return plugin_end_failed(&l->end, "accept", rc);
}
