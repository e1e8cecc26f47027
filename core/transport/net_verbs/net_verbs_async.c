/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events: a task for each HCA in use waits for events, logs them, and fails the
 * connections that they end. Without it an end with nothing in flight would not learn that its
 * queue pair or its device is dead.
 *
 * The task accesses connections only under the device's lock. A leg is in the device's list from
 * the creation of its queue pairs until before their destruction. The task writes a word of the
 * connection for the proxy, and wakes the proxy at the connection's socket and completion queues.
 */
#include <string.h>

#include "core/transport/net_verbs/net_verbs_internal.h"

/* Ports of one context share the task of the first one. */
static struct net_verbs_dev *net_verbs_lead(struct net_verbs_dev *d)
{
	struct net_verbs_dev *lead = d;

	while (lead > lead->state->dev && lead[-1].ctx == d->ctx)
		lead--;
	return lead;
}

/* ---- what an event means --------------------------------------------------------------------- */

enum net_verbs_event_scope {
	NET_VERBS_EVENT_NONE, /* no action */
	NET_VERBS_EVENT_LOG,  /* about a link: its queue pairs fail by themselves, or it recovers */
	NET_VERBS_EVENT_QP,
	NET_VERBS_EVENT_CQ,
	NET_VERBS_EVENT_DEVICE,
};

static enum net_verbs_event_scope net_verbs_event_scope(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_DEVICE_FATAL:
		return NET_VERBS_EVENT_DEVICE;
	case IBV_EVENT_CQ_ERR:
		return NET_VERBS_EVENT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return NET_VERBS_EVENT_QP;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return NET_VERBS_EVENT_NONE;
	default:
		return NET_VERBS_EVENT_LOG;
	}
}

static bool net_verbs_has_qp(const struct net_verbs_leg *leg, const struct ibv_qp *qp)
{
	const struct net_verbs_conn *c = leg->conn;

	for (uint32_t i = 0; i < c->nqps; i++)
		if (c->qp[i] == qp)
			return true;
	return leg->flush_qp && leg->flush_qp == qp;
}

static bool net_verbs_event_hits(const struct net_verbs_leg *leg, const struct ibv_async_event *e,
				 enum net_verbs_event_scope scope)
{
	switch (scope) {
	case NET_VERBS_EVENT_DEVICE:
		return true;
	case NET_VERBS_EVENT_CQ:
		return leg->cq == e->element.cq;
	case NET_VERBS_EVENT_QP:
		return net_verbs_has_qp(leg, e->element.qp);
	default:
		return false;
	}
}

static void net_verbs_event_log(const struct net_verbs_dev *d, const struct ibv_async_event *e,
				enum net_verbs_event_scope scope)
{
	const char *what = ibv_event_type_str(e->event_type);

	if (scope == NET_VERBS_EVENT_NONE)
		INFO(LOG_NET, "NET/IB : %s:%d async event : %s", d->name, d->port, what);
	else if (scope == NET_VERBS_EVENT_QP)
		WARN("NET/IB : %s:%d Got async event : %s of qp 0x%x", d->name, d->port, what,
		     e->element.qp->qp_num);
	else
		WARN("NET/IB : %s:%d Got async event : %s", d->name, d->port, what);
}

/* With rails: events that end the rails over a device. The others show that the stack or the peer
 * made an invalid request. */
static bool net_verbs_ends_rails(enum ibv_event_type type)
{
	return type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR ||
	       type == IBV_EVENT_QP_FATAL;
}

static void net_verbs_event(struct net_verbs_dev *d, const struct ibv_async_event *e)
{
	enum net_verbs_event_scope scope = net_verbs_event_scope(e->event_type);

	net_verbs_event_log(d, e, scope);
	os_mutex_lock(&d->lock);
	for (struct net_verbs_leg *leg = d->legs; leg; leg = leg->next) {
		struct net_verbs_conn *c = leg->conn;
		uint32_t l = (uint32_t)(leg - c->leg);

		if (!net_verbs_event_hits(leg, e, scope))
			continue;
		if (c->rails && net_verbs_ends_rails(e->event_type))
			shared_store_u32(&leg->event, 1 + (uint32_t)e->event_type, SHARED_RELEASE);
		else
			shared_store_u32(&c->event, l << 16 | (1 + (uint32_t)e->event_type),
					 SHARED_RELEASE);
		if (c->fd >= 0)
			os_event_post(os_socket_object(c->fd));
		for (l = 0; l < c->nlegs; l++)
			os_event_post(c->leg[l].cq);
	}
	os_mutex_unlock(&d->lock);
}

/* ---- the task -------------------------------------------------------------------------------- */

static void net_verbs_watch_main(void *arg)
{
	struct net_verbs_dev *d = arg;
	struct ibv_async_event e;

	while (!shared_load_u32(&d->closing, SHARED_ACQUIRE)) {
		if (ibv_get_async_event(d->ctx, &e)) {
			if (!shared_load_u32(&d->closing, SHARED_ACQUIRE))
				WARN("NET/IB : %s:%d ibv_get_async_event failed: asynchronous "
				     "events are no longer seen",
				     d->name, d->port);
			return;
		}
		net_verbs_event(d, &e);
		ibv_ack_async_event(&e);
	}
}

static ncclResult_t net_verbs_watch_start(struct net_verbs_dev *d, int32_t rank)
{
	char name[48];
	const struct os_thread_attr attr = {.name = name, .rank = rank, .background = true};
	int rc;

	if (d->watcher)
		return ncclSuccess;
	snprintf(name, sizeof name, "rank%d IB events %.16s", rank, d->name);
	rc = os_thread_start(&d->watcher, &attr, net_verbs_watch_main, d);
	if (!rc)
		return ncclSuccess;
	d->watcher = NULL;
	WARN("NET/IB: cannot start the task for asynchronous events of %s: %s", d->name,
	     strerror(rc));
	return ncclSystemError;
}

static ncclResult_t net_verbs_leg_watch(struct net_verbs_leg *leg)
{
	struct net_verbs_dev *d = net_verbs_lead(leg->dev);
	ncclResult_t rc = net_verbs_watch_start(d, leg->conn->comm->rank);

	if (rc)
		return rc;
	os_mutex_lock(&d->lock);
	leg->next = d->legs;
	d->legs = leg;
	os_mutex_unlock(&d->lock);
	return ncclSuccess;
}

ncclResult_t net_verbs_watch(struct net_verbs_conn *c)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t l = 0; l < c->nlegs && !rc; l++)
		rc = net_verbs_leg_watch(&c->leg[l]);
	return rc;
}

static void net_verbs_leg_unwatch(struct net_verbs_leg *leg)
{
	struct net_verbs_dev *d = net_verbs_lead(leg->dev);

	os_mutex_lock(&d->lock);
	for (struct net_verbs_leg **at = &d->legs; *at; at = &(*at)->next) {
		if (*at == leg) {
			*at = leg->next;
			break;
		}
	}
	os_mutex_unlock(&d->lock);
}

void net_verbs_unwatch(struct net_verbs_conn *c)
{
	for (uint32_t l = 0; l < c->nlegs; l++)
		net_verbs_leg_unwatch(&c->leg[l]);
}

/* Closing the context ends the task's wait for an event. */
void net_verbs_close_context(struct net_verbs_dev *d)
{
	int rc;

	ASSERT(!d->legs);
	shared_store_u32(&d->closing, 1, SHARED_RELEASE);
	rc = ibv_close_device(d->ctx);
	if (rc)
		WARN("NET/IB: ibv_close_device of %s failed: %s", d->name, strerror(rc));
	if (d->watcher)
		os_thread_join(d->watcher);
	d->watcher = NULL;
}
