/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails: their states, and the end of their use. net_verbs_rails_peer.c has the messages about
 * them. net_verbs_rails.h draws the states.
 *
 * An end that stops a rail must not lose a part that its HCA has acknowledged. A receiving end
 * therefore moves the queue pairs to ERR, and waits until each has flushed an empty receive. The
 * completions of all parts that arrived are before that one. Reads on the flush queue pair then
 * push data of incomplete parts into the GPU's memory, so that it cannot land there after data of
 * another rail. Only then the receiving end resets the queue pairs and reports. A sending end needs
 * no completions: the peer's report has them.
 */
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

/* An HCA flushes a queue pair in microseconds, or not at all if it is dead. */
#define NET_VERBS_DRAIN_NS 1000000000ull
#define NET_VERBS_POLL_NS  100000ull

/* ---- make, free ------------------------------------------------------------------------------ */

ncclResult_t net_verbs_rails_make(struct net_verbs_conn *c)
{
	if (!param_bool(PARAM_IB_FAILOVER))
		return ncclSuccess;
	if (c->width == 1) {
		INFO(LOG_NET,
		     "NET/IB: rank %d and rank %d, channel %d: one rail, whose failure ends the "
		     "connection (NCCL_IB_RESILIENCY_PORT_FAILOVER)",
		     c->who.rank, c->who.peer, c->who.channel);
		return ncclSuccess;
	}
	c->rails = os_alloc(sizeof *c->rails, "rails of a verbs connection");
	if (!c->rails) {
		WARN("NET/IB: no memory for the rails of a connection to rank %d", c->who.peer);
		return ncclSystemError;
	}
	c->rails->stock = NET_MAX_REQUESTS * c->width;
	return ncclSuccess;
}

void net_verbs_rails_free(struct net_verbs_conn *c)
{
	os_free(c->rails);
	c->rails = NULL;
}

/* ---- rails ----------------------------------------------------------------------------------- */

bool net_verbs_rail_is_used(const struct net_verbs_conn *c, uint32_t rail)
{
	return c->rails->rail[rail].state == NET_VERBS_RAIL_IN_USE;
}

uint32_t net_verbs_rails_list(const struct net_verbs_conn *c, uint32_t rail[NET_VERBS_MAX_LEGS])
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < c->width; r++)
		if (net_verbs_rail_is_used(c, r))
			rail[n++] = r;
	return n;
}

void net_verbs_rail_name(const struct net_verbs_conn *c, uint32_t rail, char *out, size_t bytes)
{
	snprintf(out, bytes, "rail %u (%s, peer %.31s)", rail,
		 c->leg[net_verbs_leg_of(c, rail)].dev->name,
		 c->theirs.dev[net_verbs_their_dev(c, rail)].nic);
}

/* Writes "the peer reports: RDMA_WRITE completed with IBV_WC_RETRY_EXC_ERR (12) on qp 0x105". */
static void net_verbs_rail_cause(const struct net_verbs_conn *c, uint32_t rail,
				 char out[NET_VERBS_CAUSE])
{
	const struct net_verbs_cause *cause = &c->rails->rail[rail].cause;
	char what[96], qp[24] = "";

	net_verbs_cause_text(cause->what, cause->status, what, sizeof what);
	if (cause->qpn)
		snprintf(qp, sizeof qp, " on qp 0x%x", cause->qpn);
	snprintf(out, NET_VERBS_CAUSE, "%s%s%s", cause->peer ? "the peer reports: " : "", what, qp);
}

/* Fails the connection, with a line that names all rails and their failures. */
static ncclResult_t net_verbs_rails_none(struct net_verbs_conn *c)
{
	char text[NET_VERBS_MAX_LEGS * (NET_VERBS_CAUSE + 96)] = "", name[96];
	char cause[NET_VERBS_CAUSE];
	size_t n = 0;

	for (uint32_t r = 0; r < c->width && n < sizeof text; r++) {
		net_verbs_rail_name(c, r, name, sizeof name);
		net_verbs_rail_cause(c, r, cause);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s: %s", r ? "; " : "", name,
				      cause);
	}
	return net_verbs_no_rail(c, text);
}

static void net_verbs_rail_log(const struct net_verbs_conn *c, uint32_t rail)
{
	char text[NET_VERBS_MAX_LEGS * 64] = "", name[96], cause[NET_VERBS_CAUSE];
	size_t n = 0;

	for (uint32_t r = 0; r < c->width && n < sizeof text; r++)
		if (net_verbs_rail_is_used(c, r))
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "",
					      c->leg[net_verbs_leg_of(c, r)].dev->name);
	net_verbs_rail_name(c, rail, name, sizeof name);
	net_verbs_rail_cause(c, rail, cause);
	WARN("NET/IB: rank %d %s rank %d channel %d: %s failed: %s; its traffic goes over %s",
	     c->who.rank, c->is_send ? "->" : "<-", c->who.peer, c->who.channel, name, cause, text);
}

/* ---- stop ------------------------------------------------------------------------------------ */

void net_verbs_rail_reset(struct net_verbs_conn *c, uint32_t rail)
{
	for (uint32_t i = rail; i < c->nqps; i += c->width) {
		int rc = net_verbs_qp_reset(c, i);

		if (rc) /* the device is gone, and its queue pairs with it */
			INFO(LOG_NET, "NET/IB: rank %d: resetting qp 0x%x on %s failed: %s",
			     c->comm->rank, c->qp[i]->qp_num,
			     c->leg[net_verbs_leg_of(c, i)].dev->name, strerror(rc));
	}
	c->rails->rail[rail].cts_out = c->rails->rail[rail].in_flight = 0;
}

ncclResult_t net_verbs_rail_ended(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	r->state = NET_VERBS_RAIL_DOWN;
	r->peer_stopped = false;
	net_verbs_rail_down(c, rail);
	return net_verbs_rails_replay(c, rail);
}

/* No part arrives over the rail any longer at this end. */
static ncclResult_t net_verbs_rail_stopped(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	struct net_verbs_rail_message m = {.what = NET_VERBS_STOPPED};

	net_verbs_rail_reset(c, rail);
	r->state = NET_VERBS_RAIL_STOPPED;
	r->due_ns = 0;
	if (!c->is_send)
		net_verbs_rails_report(c, rail);
	m.message = c->sends + (c->gather.n > 0);
	m.stopped.cause = r->cause;
	if (c->is_send) {
		m.stopped.present = net_verbs_rails_present(c);
		net_verbs_rails_push_byte(c, rail, &m);
	}
	net_verbs_rails_tell(c, rail, &m);
	return r->peer_stopped ? net_verbs_rail_ended(c, rail) : ncclSuccess;
}

static bool net_verbs_rail_is_drained(const struct net_verbs_rail *r)
{
	uint64_t left = 0;

	for (size_t i = 0; i < ARRAY_LEN(r->undrained); i++)
		left |= r->undrained[i];
	return !left;
}

void net_verbs_rail_drain_on(struct net_verbs_rail *r)
{
	if (net_verbs_rail_is_drained(r) && !r->pushed)
		r->due_ns = r->peer_stopped ? 1 : 0;
}

/* All completions of the rail are here, or its device has none to give. The sending end has
 * stopped, and has named a byte to read, if any data can be pending. */
static ncclResult_t net_verbs_rail_drained(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	memset(r->undrained, 0, sizeof r->undrained);
	r->due_ns = 0;
	if (!r->peer_stopped)
		return ncclSuccess;
	if (!r->pushed && !r->lost && net_verbs_rails_push_data(c, rail)) {
		r->pushed = true;
		r->due_ns = os_now_ns() + NET_VERBS_DRAIN_NS;
		return ncclSuccess;
	}
	return net_verbs_rail_stopped(c, rail);
}

/* The receiving end lets its queue pairs flush. */
static void net_verbs_rail_drain(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	r->state = NET_VERBS_RAIL_DRAINING;
	r->pushed = false;
	memset(r->undrained, 0, sizeof r->undrained);
	for (uint32_t i = rail; i < c->nqps; i += c->width)
		net_verbs_mask_set(r->undrained, i, !net_verbs_qp_end(c, i));
	r->due_ns = r->failed_ns + NET_VERBS_DRAIN_NS;
	net_verbs_rail_drain_on(r);
}

ncclResult_t net_verbs_rail_fail(struct net_verbs_conn *c, uint32_t rail,
				 const struct net_verbs_cause *cause)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];
	struct net_verbs_rail_message m = {.what = NET_VERBS_STOP};
	uint32_t others[NET_VERBS_MAX_LEGS];

	if (c->is_send &&
	    (r->state == NET_VERBS_RAIL_STARTING || r->state == NET_VERBS_RAIL_TESTED)) {
		net_verbs_rail_start_failed(c, rail, "a queue pair failed");
		return ncclSuccess;
	}
	/* a receiving end that is ready may have data of a sending end that uses the rail
	 * already */
	if (r->state != NET_VERBS_RAIL_IN_USE && r->state != NET_VERBS_RAIL_STARTING)
		return ncclSuccess;
	r->cause = *cause;
	r->failed_ns = os_now_ns();
	r->state = NET_VERBS_RAIL_STOPPED;
	if (!net_verbs_rails_list(c, others))
		return net_verbs_rails_none(c);
	net_verbs_rail_log(c, rail);
	if (c->is_send)
		return net_verbs_rail_stopped(c, rail);
	m.stopped.cause = *cause;
	if (!r->peer_stopped)
		net_verbs_rails_tell(c, rail, &m);
	net_verbs_rail_drain(c, rail);
	return ncclSuccess;
}

/* ---- causes ---------------------------------------------------------------------------------- */

ncclResult_t net_verbs_rails_post_failed(struct net_verbs_conn *c, uint32_t i, const char *what,
					 int error)
{
	const struct net_verbs_cause cause = {
		.what = NET_VERBS_CALL, .status = (uint32_t)error, .qpn = c->qp[i]->qp_num};

	if (error == ENOMEM) /* the queue is full, which has no cause in the rail */
		return net_verbs_call_failed(c, i, what, error);
	return net_verbs_rail_fail(c, net_verbs_rail_of(c, i), &cause);
}

/* NCCL's choice. Other statuses show an invalid request, which would fail on another rail too. */
static bool net_verbs_is_path_failure(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR;
}

bool net_verbs_rails_absorb(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc)
{
	const enum net_verbs_kind kind = (enum net_verbs_kind)(wc->wr_id >> 32);
	const uint32_t i = net_verbs_wr_qp(wc->wr_id), rail = net_verbs_rail_of(c, i);
	const struct net_verbs_cause cause = {
		.what = kind, .status = wc->status, .qpn = wc->qp_num};

	if (!net_verbs_is_path_failure(wc->status))
		return false;
	if (kind == NET_VERBS_FLUSH) {
		(void)net_verbs_rails_flush_failed(c, leg,
						   &c->req[wc->wr_id & (NET_MAX_REQUESTS - 1)]);
		return true;
	}
	if (net_verbs_wr_is_old(c, wc->wr_id))
		return true;
	(void)net_verbs_rail_fail(c, rail, &cause);
	if (kind == NET_VERBS_PUSH)
		net_verbs_rails_completed(c, leg, wc);
	if (kind == NET_VERBS_RECV && c->rails->rail[rail].state == NET_VERBS_RAIL_DRAINING) {
		net_verbs_mask_set(c->rails->rail[rail].undrained, i, false);
		net_verbs_rail_drain_on(&c->rails->rail[rail]);
	}
	return true;
}

/* Fails all rails over a device. lost: it cannot work again in this process. */
static ncclResult_t net_verbs_leg_fail(struct net_verbs_conn *c, uint32_t leg,
				       const struct net_verbs_cause *cause, bool lost)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t r = 0; r < c->width && !rc; r++) {
		if (net_verbs_leg_of(c, r) != leg)
			continue;
		c->rails->rail[r].lost |= lost;
		rc = net_verbs_rail_fail(c, r, cause);
	}
	for (int i = 0; i < NET_MAX_REQUESTS && lost && !rc; i++)
		if (c->req[i].used && c->req[i].kind == NET_VERBS_FLUSH && c->req[i].left_on[leg])
			rc = net_verbs_rails_flush_failed(c, leg, &c->req[i]);
	return rc;
}

ncclResult_t net_verbs_rails_poll_failed(struct net_verbs_conn *c, uint32_t leg)
{
	return net_verbs_leg_fail(c, leg, &(struct net_verbs_cause){.what = NET_VERBS_CALL}, true);
}

static ncclResult_t net_verbs_rails_events(struct net_verbs_conn *c)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t l = 0; l < c->nlegs && !rc; l++) {
		const uint32_t event = shared_load_u32(&c->leg[l].event, SHARED_ACQUIRE);
		const struct net_verbs_cause cause = {.what = NET_VERBS_EVENT, .status = event};

		if (!event)
			continue;
		shared_store_u32(&c->leg[l].event, 0, SHARED_RELAXED);
		rc = net_verbs_leg_fail(c, l, &cause, event == 1 + IBV_EVENT_DEVICE_FATAL);
	}
	return rc;
}

bool net_verbs_rails_polls(const struct net_verbs_conn *c, uint32_t leg)
{
	for (uint32_t r = 0; r < c->width; r++)
		if (net_verbs_leg_of(c, r) == leg &&
		    (!c->rails->rail[r].lost || c->rails->rail[r].state == NET_VERBS_RAIL_DRAINING))
			return true;
	return false;
}

/* ---- progress -------------------------------------------------------------------------------- */

static ncclResult_t net_verbs_rail_timer(struct net_verbs_conn *c, uint32_t rail)
{
	struct net_verbs_rail *r = &c->rails->rail[rail];

	if (!r->due_ns || os_now_ns() < r->due_ns)
		return ncclSuccess;
	if (r->state == NET_VERBS_RAIL_DRAINING)
		return net_verbs_rail_drained(c, rail);
	return net_verbs_rail_step(c, rail);
}

ncclResult_t net_verbs_rails_run(struct net_verbs_conn *c)
{
	ncclResult_t rc = ncclSuccess;

	if (c->state != NET_VERBS_READY || c->peer_ends)
		return ncclSuccess;
	rc = net_verbs_rails_events(c);
	if (!rc)
		rc = net_verbs_rails_read(c);
	for (uint32_t r = 0; r < c->width && !rc; r++)
		rc = net_verbs_rail_timer(c, r);
	net_verbs_rails_push(c);
	return rc;
}

/* Completions of these states may come while no request waits for them. */
static bool net_verbs_rail_needs_polls(const struct net_verbs_rail *r)
{
	return r->state == NET_VERBS_RAIL_DRAINING || r->state == NET_VERBS_RAIL_TESTED;
}

ncclResult_t net_verbs_rails_check(struct net_verbs_conn *c, struct wait *w)
{
	ncclResult_t rc = ncclSuccess;
	bool polls = false;

	if (c->peer_gone) /* no peer answers: no rail recovers, and nothing is due */
		return ncclSuccess;
	for (uint32_t r = 0; r < c->width; r++)
		polls |= net_verbs_rail_needs_polls(&c->rails->rail[r]);
	if (polls)
		rc = net_verbs_drain(c);
	if (!rc)
		rc = net_verbs_rails_run(c);
	for (uint32_t r = 0; r < c->width; r++) {
		const struct net_verbs_rail *rail = &c->rails->rail[r];

		if (rail->due_ns && (!w->deadline_ns || rail->due_ns < w->deadline_ns))
			w->deadline_ns = rail->due_ns;
		polls |= net_verbs_rail_needs_polls(rail);
	}
	if (polls || c->rails->out_tail < c->rails->out_head)
		w->deadline_ns = os_now_ns() + NET_VERBS_POLL_NS;
	return rc;
}
