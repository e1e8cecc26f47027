/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a connection with rails: the parts of a message at the sending end, completions, and
 * waits. net_verbs_rails_recv.c has the receiving end, net_verbs_rails.h the protocol.
 */
#include <endian.h>
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

/* ---- rails in use ---------------------------------------------------------------------------- */

/* Chooses the queue pairs of a message's parts: those of its group, or all, on rails in use.
 * Returns their number. */
static uint32_t net_verbs_rails_choose(const struct net_verbs_conn *c, uint64_t message,
				       uint8_t *qp)
{
	uint32_t parts = 0;

	for (uint32_t k = 0; k < net_verbs_parts(c); k++) {
		const uint32_t i = net_verbs_part_qp(c, message, k);

		if (net_verbs_rail_is_used(c, net_verbs_rail_of(c, i)))
			qp[parts++] = (uint8_t)i;
	}
	return parts;
}

static bool net_verbs_entry_is_of(const struct net_verbs_cts *entry, uint64_t message)
{
	return shared_load_u64(&entry->turn, SHARED_ACQUIRE) == message + 1;
}

uint32_t net_verbs_rails_present(const struct net_verbs_conn *c)
{
	uint32_t mask = 0;

	for (uint64_t m = c->sends; m < c->sends + NET_VERBS_RING; m++) {
		const uint64_t slot = m % NET_VERBS_RING;
		const struct net_verbs_cts *entry =
			(const struct net_verbs_cts *)c->ring + slot * NET_MAX_RECVS;

		if (net_verbs_entry_is_of(entry, m) && entry->n >= 1 && entry->n <= NET_MAX_RECVS &&
		    net_verbs_entry_is_of(&entry[entry->n - 1], m))
			mask |= 1u << slot;
	}
	return mask;
}

/* Finds a byte of part k. False: the part has none. */
static bool net_verbs_part_byte(const struct net_verbs_sent *m, uint32_t k,
				struct net_verbs_rail_message *out)
{
	for (uint32_t b = 0; b < m->n; b++) {
		const size_t at = k * net_verbs_part_bytes(m->parts, m->from[b].bytes);

		if (at >= m->from[b].bytes)
			continue;
		out->stopped.push_at = (uint32_t)at;
		out->stopped.push_buffer = (uint16_t)b;
		out->stopped.push_slot = (uint16_t)(m->message % NET_VERBS_RING);
		return true;
	}
	return false;
}

void net_verbs_rails_push_byte(const struct net_verbs_conn *c, uint32_t rail,
			       struct net_verbs_rail_message *out)
{
	out->stopped.push_slot = NET_VERBS_RING;
	for (uint32_t s = 0; s < NET_VERBS_RING; s++) {
		const struct net_verbs_sent *m = &c->rails->sent[s];

		for (uint32_t k = 0; k < m->parts && m->req; k++)
			if (net_verbs_rail_of(c, m->qp[k]) == rail &&
			    !net_verbs_mask_has(m->done, k) && net_verbs_part_byte(m, k, out))
				return;
	}
}

bool net_verbs_rails_full(const struct net_verbs_conn *c)
{
	const struct net_verbs_rails *s = c->rails;

	if (c->is_send)
		return s->sent[c->sends % NET_VERBS_RING].req != NULL;
	for (uint32_t r = 0; r < c->width; r++)
		if (s->rail[r].cts_out >= NET_VERBS_CTS_DEPTH / 2) /* the rest is for repeats */
			return true;
	return s->got[c->recvs % NET_VERBS_RING].req != NULL;
}

/* ---- sending end ----------------------------------------------------------------------------- */

/* A part on a rail that has failed meanwhile is written when both ends have stopped the rail. */
static ncclResult_t net_verbs_sent_post(struct net_verbs_conn *c, const struct net_verbs_sent *m,
					uint32_t k)
{
	const uint32_t i = m->qp[k], slot = (uint32_t)(m->message % NET_VERBS_RING);
	const struct net_verbs_part part = {
		.qp = i,
		.k = k,
		.parts = m->parts,
		.n = m->n,
		.from = m->from,
		.cts = m->cts,
		.wr_id = net_verbs_rail_wr_id(c, NET_VERBS_SEND, i, slot, k),
		.imm = htobe32((uint32_t)(m->message & 0xffff) << 16 | k << 8 | m->parts),
	};
	int rc;

	if (!net_verbs_rail_is_used(c, net_verbs_rail_of(c, i)))
		return ncclSuccess;
	rc = net_verbs_post_part(c, &part);
	return rc ? net_verbs_rails_post_failed(c, i, "posting a write", rc) : ncclSuccess;
}

ncclResult_t net_verbs_rails_send(struct net_verbs_conn *c, struct net_request *first)
{
	const struct net_verbs_gather *g = &c->gather;
	const uint32_t slot = (uint32_t)(c->sends % NET_VERBS_RING);
	struct net_verbs_sent *m = &c->rails->sent[slot];
	ncclResult_t rc = ncclSuccess;

	ASSERT(!m->req && g->n <= NET_MAX_RECVS);
	memset(m->done, 0, sizeof m->done);
	memcpy(m->cts, g->cts, sizeof m->cts);
	memcpy(m->from, g->from, sizeof m->from);
	m->req = first;
	m->message = c->sends;
	m->n = g->n;
	m->parts = net_verbs_rails_choose(c, m->message, m->qp);
	first->left = m->parts;
	for (uint32_t b = 0; b < g->n; b++)
		g->req[b]->slot = slot;
	for (uint32_t k = 0; k < m->parts && !rc; k++)
		rc = net_verbs_sent_post(c, m, k);
	return rc;
}

/* Marks a part as delivered or not, and the sends of its message with the last one. */
static void net_verbs_sent_set(struct net_verbs_sent *m, uint32_t k, bool done)
{
	struct net_request *r = m->req;

	if (net_verbs_mask_has(m->done, k) == done)
		return;
	net_verbs_mask_set(m->done, k, done);
	r->left += done ? -1u : 1u;
	r->done = r->left == 0;
	for (uint32_t i = 1; i < r->n; i++)
		r->sends[i]->done = r->done;
}

static void net_verbs_sent_completed(struct net_verbs_conn *c, const struct ibv_wc *wc)
{
	struct net_verbs_sent *m = &c->rails->sent[wc->wr_id >> 8 & 0xff];
	const uint32_t k = wc->wr_id & 0xff;

	if (c->peer_ends || !m->req || k >= m->parts || m->qp[k] != net_verbs_wr_qp(wc->wr_id))
		return; /* done since the peer reported it */
	net_verbs_sent_set(m, k, true);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void net_verbs_rail_pushed(struct net_verbs_rail *r)
{
	if (r->state == NET_VERBS_RAIL_DRAINING)
		r->due_ns = 1; /* now */
}

void net_verbs_rails_completed(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc)
{
	struct net_request *r = &c->req[wc->wr_id & (NET_MAX_REQUESTS - 1)];
	const enum net_verbs_kind kind = (enum net_verbs_kind)(wc->wr_id >> 32);

	if (kind == NET_VERBS_FLUSH) {
		if (!r->left_on[leg])
			return; /* its device had failed, and another one has flushed */
		r->left_on[leg]--;
		r->done = --r->left == 0;
		return;
	}
	if (net_verbs_wr_is_old(c, wc->wr_id))
		return;
	if (kind == NET_VERBS_SEND)
		net_verbs_sent_completed(c, wc);
	else if (kind == NET_VERBS_RECV)
		net_verbs_got_completed(c, leg, wc);
	else if (kind == NET_VERBS_CTS)
		c->rails->rail[net_verbs_rail_of(c, net_verbs_wr_qp(wc->wr_id))].cts_out--;
	else if (kind == NET_VERBS_PUSH)
		net_verbs_rail_pushed(
			&c->rails->rail[net_verbs_rail_of(c, net_verbs_wr_qp(wc->wr_id))]);
	else
		net_verbs_rail_acknowledged(c, net_verbs_rail_of(c, net_verbs_wr_qp(wc->wr_id)));
}

void net_verbs_rails_release(struct net_verbs_conn *c, const struct net_request *r)
{
	if (r->kind == NET_VERBS_SEND)
		c->rails->sent[r->slot].req = NULL;
	else if (r->kind == NET_VERBS_RECV)
		c->rails->got[r->slot].req = NULL;
}

/* ---- after a rail has ended ------------------------------------------------------------------ */

/* Returns true if the peer has the part. It has all parts of a message that it did not report. */
static bool net_verbs_sent_is_here(const struct net_verbs_conn *c, const struct net_verbs_sent *m,
				   uint32_t k)
{
	const struct net_verbs_parts_report *p = &c->rails->report[m->message % NET_VERBS_RING];

	return !p->valid || p->message != m->message || net_verbs_mask_has(p->here, k);
}

/* Settles part k, which went over a rail that has ended. */
static ncclResult_t net_verbs_sent_settle(struct net_verbs_conn *c, struct net_verbs_sent *m,
					  uint32_t k)
{
	const uint32_t i = m->qp[k];
	uint32_t rail[NET_VERBS_MAX_LEGS] = {0}, n;
	char text[128];

	if (net_verbs_sent_is_here(c, m, k)) {
		if (m->req)
			net_verbs_sent_set(m, k, true);
		return ncclSuccess;
	}
	if (!m->req) {
		snprintf(
			text, sizeof text,
			"the peer's device lost part %u of message %llu, which it had acknowledged",
			k, (unsigned long long)m->message);
		return net_verbs_rails_broken(c, i, text);
	}
	n = net_verbs_rails_list(c, rail);
	ASSERT(n);
	m->qp[k] = (uint8_t)(i - net_verbs_rail_of(c, i) + rail[k % n]);
	net_verbs_sent_set(m, k, false);
	return net_verbs_sent_post(c, m, k);
}

static ncclResult_t net_verbs_sent_replay(struct net_verbs_conn *c, uint32_t rail)
{
	ncclResult_t rc = ncclSuccess;

	for (uint32_t s = 0; s < NET_VERBS_RING; s++) {
		struct net_verbs_sent *m = &c->rails->sent[s];

		for (uint32_t k = 0; k < m->parts && !rc; k++)
			if (net_verbs_rail_of(c, m->qp[k]) == rail)
				rc = net_verbs_sent_settle(c, m, k);
	}
	for (uint32_t s = 0; s < NET_VERBS_RING; s++)
		c->rails->report[s].valid = false;
	return rc;
}

ncclResult_t net_verbs_rails_replay(struct net_verbs_conn *c, uint32_t rail)
{
	return c->is_send ? net_verbs_sent_replay(c, rail) : net_verbs_got_replay(c, rail);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void net_verbs_sent_wait(const struct net_verbs_conn *c, const struct net_request *r,
				struct wait *w)
{
	const struct net_verbs_sent *m = &c->rails->sent[r->slot];
	uint32_t k = 0;

	if (!m->req || (m->req != r && m->req != r->first))
		return; /* not written yet */
	while (k + 1 < m->parts && net_verbs_mask_has(m->done, k))
		k++;
	if (net_verbs_rail_is_used(c, net_verbs_rail_of(c, m->qp[k]))) {
		const uint32_t leg = net_verbs_leg_of(c, m->qp[k]);

		net_verbs_wait_cq(c, leg, c->leg[leg].seq, "a write to complete", w);
		return;
	}
	w->on = os_socket_object(c->fd);
	w->want = c->checked_seq;
	w->why = "the peer's report about a rail that failed";
	w->from.object = "proxy progress";
}

void net_verbs_rails_wait(const struct net_verbs_conn *c, const struct net_request *r,
			  struct wait *w)
{
	if (r->kind == NET_VERBS_SEND)
		net_verbs_sent_wait(c, r, w);
	else if (r->kind == NET_VERBS_RECV)
		net_verbs_got_wait(c, r, w);
}

void net_verbs_rails_busy(const struct net_verbs_conn *c, struct wait *w)
{
	for (int i = 0; i < NET_MAX_REQUESTS; i++) {
		const struct net_request *r = &c->req[i];

		if (!r->used || r->done || r->kind == NET_VERBS_FLUSH)
			continue;
		net_verbs_rails_wait(c, r, w);
		return;
	}
}
