/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the network (links), and the sharing of them by connections of the proxy.
 *
 *	channel 0   proxy_conn ---+                            +--- proxy_conn
 *	                          +--- link ===network=== link +
 *	channel 1   proxy_conn ---+                            +--- proxy_conn
 *
 * Receives of connections that share a link and move parts of one message are posted together. The
 * network has one clear-to-send for them, and one completion.
 *
 * No send waits without end. A send waits for the sends of all receives before its own. Receives
 * are posted in the order of messages, which is the order of rounds. Therefore a send waits only
 * for sends of its own message and of earlier rounds. A kernel also moves the messages of a channel
 * in the order of rounds, and all its blocks run. Therefore an earlier round waits for no later
 * one. All parts of a message over the network are in one kernel (core/plan/messages_rounds.c).
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/proxy/proxy_internal.h"

/* ---- set-up (service) ----------------------------------------------------------------------- */

static bool proxy_conn_shares(const struct proxy_conn *pc)
{
	struct net_props props;

	return pc->conn_index == CONN_PAIR && param_bool(PARAM_NET_SHARED_COMMS) &&
	       !pc->proxy->net->props(pc->comm, pc->net_nic.dev[0], &props) && props.tags;
}

/* Returns the link of another connection that this one must share; NULL if it shares no link. */
static struct proxy_link *proxy_link_find(const struct proxy_conn *pc)
{
	struct proxy_link *l = pc->proxy->gpu->links;

	for (; l; l = l->next) {
		if (l->comm != pc->comm || l->is_send != pc->is_send || l->who.peer != pc->peer ||
		    l->who.rank != pc->rank)
			continue;
		if (pc->is_send ? !memcmp(&l->handle, &pc->theirs.handle, sizeof l->handle)
				: l->shared && !memcmp(&l->nic, &pc->net_nic, sizeof l->nic) &&
					  proxy_conn_shares(pc))
			break;
	}
	return l;
}

static ncclResult_t proxy_link_make(struct proxy_conn *pc)
{
	struct proxy_gpu *p = pc->proxy->gpu;
	struct proxy_link *l = os_alloc(sizeof *l, "network link");
	ncclResult_t rc = ncclSuccess;

	if (!l) {
		WARN("rank %d: no memory for a network connection with rank %d", pc->rank,
		     pc->peer);
		return ncclSystemError;
	}
	l->comm = pc->comm;
	l->net = pc->net;
	l->who = (struct net_who){.rank = pc->rank, .peer = pc->peer, .channel = pc->channel};
	l->is_send = pc->is_send;
	l->shared = !pc->is_send && proxy_conn_shares(pc);
	l->nic = pc->net_nic;
	if (pc->is_send)
		l->handle = pc->theirs.handle;
	else
		rc = l->net->listen(l->comm, &l->nic, &l->who, &l->handle, &l->listen);
	if (rc) {
		os_free(l);
		return rc;
	}
	l->next = p->links;
	p->links = l;
	pc->link = l;
	return ncclSuccess;
}

ncclResult_t proxy_link_get(struct proxy_conn *pc)
{
	ncclResult_t rc = ncclSuccess;

	ASSERT(!pc->link);
	pc->link = proxy_link_find(pc);
	OS_PROBE("proxy.link_shared", "connections of two channels share one of the network",
		 pc->link != NULL);
	if (!pc->link)
		rc = proxy_link_make(pc);
	if (rc)
		return rc;
	pc->link->refs++;
	if (!pc->is_send)
		pc->mine.handle = pc->link->handle;
	return ncclSuccess;
}

/* ---- connecting (service) ------------------------------------------------------------------- */

static ncclResult_t proxy_link_step(struct proxy_link *l)
{
	ncclResult_t rc;

	if (l->is_send)
		return l->net->connect(l->comm, &l->nic, &l->who, &l->handle, &l->pending,
				       &l->net_comm, &l->wait);
	rc = l->net->accept(l->listen, &l->net_comm, &l->wait);
	if (rc)
		return rc;
	l->net->close_listen(l->listen);
	l->listen = NULL;
	l->max_recvs = l->shared ? l->net->max_recvs(l->net_comm) : 1;
	return ncclSuccess;
}

/* Closes incomplete parts of a link. The other end sees its sockets close. */
static void proxy_link_drop(struct proxy_link *l)
{
	if (l->pending)
		l->net->close_send(l->pending);
	if (l->listen)
		l->net->close_listen(l->listen);
	l->pending = l->listen = NULL;
}

/* After a failure, closes the link's incomplete parts immediately instead of with the connection.
 * The other end must not wait that long: one task may serve both ranks, and wait for the other
 * end's answer first. */
ncclResult_t proxy_link_connect(struct proxy_conn *pc)
{
	struct proxy_link *l = pc->link;
	ncclResult_t rc = l->failed;

	if (!rc && !l->net_comm)
		rc = proxy_link_step(l);
	pc->wait = l->wait;
	if (rc && rc != ncclInProgress) {
		l->failed = rc;
		proxy_link_drop(l);
	}
	if (!rc)
		pc->net_comm = l->net_comm;
	return rc;
}

/* ---- closing (service) ---------------------------------------------------------------------- */

static void proxy_link_close(struct proxy_link *l)
{
	if (l->net_comm && l->is_send)
		l->net->close_send(l->net_comm);
	else if (l->net_comm)
		l->net->close_recv(l->net_comm);
	proxy_link_drop(l);
	os_free(l);
}

struct proxy_conn *proxy_link_busy(struct proxy_conn *pc)
{
	const struct proxy_gpu *p = pc->proxy->gpu;

	for (uint32_t i = 0; i < p->conn_room; i++) {
		struct proxy_conn *other = p->conn[i];

		if (!other || (other != pc && (!pc->link || other->link != pc->link)))
			continue;
		if (shared_load_u32(&other->ops_live, SHARED_ACQUIRE))
			return other;
	}
	return NULL;
}

void proxy_link_put(struct proxy_conn *pc)
{
	struct proxy_link **at = &pc->proxy->gpu->links, *l = pc->link;

	pc->link = NULL;
	pc->net_comm = NULL;
	if (!l || --l->refs)
		return;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	proxy_link_close(l);
}

/* ---- receives (progress) -------------------------------------------------------------------- */

void proxy_link_join(struct proxy_conn *pc)
{
	struct proxy_conn **at = &pc->link->members;

	while (*at && (*at)->channel < pc->channel)
		at = &(*at)->member_next;
	pc->member_next = *at;
	*at = pc;
}

void proxy_link_leave(struct proxy_conn *pc)
{
	struct proxy_conn **at = &pc->link->members;

	while (*at != pc)
		at = &(*at)->member_next;
	*at = pc->member_next;
}

/* Returns the operation whose slices the connection posts next; NULL if it has none to post. */
static const struct proxy_slot *proxy_conn_posts(const struct proxy_conn *pc)
{
	const struct proxy_run *run = &pc->run;

	return run->active && run->posted < run->op.nsteps ? run->slot : pc->queue_first;
}

static bool proxy_slot_is_before(const struct proxy_slot *a, const struct proxy_slot *b)
{
	return a->launch < b->launch || (a->launch == b->launch && a->op.message < b->op.message);
}

bool proxy_link_in_order(const struct proxy_conn *pc)
{
	const struct proxy_conn *m = pc->link->members;

	for (; m; m = m->member_next) {
		const struct proxy_slot *next = proxy_conn_posts(m);

		if (next && !m->failed && proxy_slot_is_before(next, pc->run.slot))
			return false;
	}
	return true;
}

int proxy_link_gather(struct proxy_conn *pc, bool (*ready)(const struct proxy_run *run),
		      struct proxy_conn *with[NET_MAX_RECVS])
{
	int n = 0;

	with[n++] = pc;
	for (struct proxy_conn *m = pc->link->members; m && n < pc->link->max_recvs;
	     m = m->member_next)
		if (m != pc && m->run.active && !m->failed &&
		    !proxy_slot_is_before(pc->run.slot, m->run.slot) && ready(&m->run))
			with[n++] = m;
	return n;
}

struct proxy_group *proxy_link_group(struct proxy_link *l)
{
	for (uint32_t i = 0; i < NET_MAX_REQUESTS; i++)
		if (!l->group[i].slices)
			return &l->group[i];
	return NULL;
}
