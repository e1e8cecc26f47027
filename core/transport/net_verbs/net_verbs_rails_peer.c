/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages about rails between the two ends of a connection. They have the size of a notice,
 * and go over the TCP connection of the set-up.
 */
#include <string.h>

#include "core/transport/net_verbs/net_verbs_rails.h"

#define NET_VERBS_READ_NS 1000000ull

/* ---- messages to the peer -------------------------------------------------------------------- */

void net_verbs_rails_tell(struct net_verbs_conn *c, uint32_t rail,
			  const struct net_verbs_rail_message *m)
{
	struct net_verbs_rails *s = c->rails;
	struct net_verbs_rail_message *out = &s->out[s->out_head % NET_VERBS_OUTBOX];

	/* a stop has at most a message per receive, and the next step waits for an answer */
	ASSERT(s->out_head - s->out_tail < NET_VERBS_OUTBOX);
	*out = *m;
	out->magic = NET_VERBS_NOTICE_MAGIC;
	out->rail = rail;
	out->epoch = s->rail[rail].epoch;
	s->out_head++;
}

/* Ignores errors other than a full socket: the connection is gone then, which this end notices when
 * it receives. */
void net_verbs_rails_push(struct net_verbs_conn *c)
{
	struct net_verbs_rails *s = c->rails;

	while (s->out_tail < s->out_head && !c->peer_gone) {
		const uint8_t *m = (const uint8_t *)&s->out[s->out_tail % NET_VERBS_OUTBOX];
		size_t done = 0;

		if (os_send(c->fd, m + s->out_moved, sizeof s->out[0] - s->out_moved, &done) ||
		    !done)
			return;
		s->out_moved += done;
		if (s->out_moved < sizeof s->out[0])
			continue;
		s->out_moved = 0;
		s->out_tail++;
	}
}

bool net_verbs_rails_midway(struct net_verbs_conn *c)
{
	net_verbs_rails_push(c);
	return c->rails->out_moved != 0;
}

/* ---- messages from the peer ------------------------------------------------------------------ */

/* The peer has seen the rail fail, or has stopped it. */
static ncclResult_t net_verbs_take_failed(struct net_verbs_conn *c,
					  const struct net_verbs_rail_message *m)
{
	struct net_verbs_cause cause = m->stopped.cause;

	c->rails->rail[m->rail].state = NET_VERBS_RAIL_IN_USE; /* for the peer it was */
	cause.peer = 1;
	return net_verbs_rail_fail(c, m->rail, &cause);
}

static ncclResult_t net_verbs_take_stopped(struct net_verbs_conn *c,
					   const struct net_verbs_rail_message *m)
{
	struct net_verbs_rail *r = &c->rails->rail[m->rail];

	if (m->epoch != r->epoch)
		return ncclSuccess;
	r->peer_stopped = true;
	r->seen = m->message;
	r->present = m->stopped.present;
	r->push_at = m->stopped.push_at;
	r->push_buffer = m->stopped.push_buffer;
	r->push_slot = m->stopped.push_slot;
	if (r->state == NET_VERBS_RAIL_STOPPED)
		return net_verbs_rail_ended(c, m->rail);
	if (r->state != NET_VERBS_RAIL_DRAINING)
		return net_verbs_take_failed(c, m);
	net_verbs_rail_drain_on(r);
	return ncclSuccess;
}

static ncclResult_t net_verbs_take_stop(struct net_verbs_conn *c,
					const struct net_verbs_rail_message *m)
{
	const struct net_verbs_rail *r = &c->rails->rail[m->rail];

	if (!c->is_send || m->epoch != r->epoch || r->state == NET_VERBS_RAIL_STOPPED)
		return ncclSuccess; /* STOPPED is on the connection */
	return net_verbs_take_failed(c, m);
}

ncclResult_t net_verbs_rails_take(struct net_verbs_conn *c)
{
	struct net_verbs_rail_message m;
	char text[96];

	memcpy(&m, &c->notice, sizeof m);
	if (m.rail >= c->width) {
		snprintf(text, sizeof text, "the peer names rail %u, expected less than %u", m.rail,
			 c->width);
		return net_verbs_rails_broken(c, 0, text);
	}
	switch ((enum net_verbs_kind)m.what) {
	case NET_VERBS_PARTS: {
		struct net_verbs_parts_report *p = &c->rails->report[m.message % NET_VERBS_RING];

		*p = (struct net_verbs_parts_report){.valid = true, .message = m.message};
		memcpy(p->here, m.here, sizeof p->here);
		return ncclSuccess;
	}
	case NET_VERBS_STOP:
		return net_verbs_take_stop(c, &m);
	case NET_VERBS_STOPPED:
		return net_verbs_take_stopped(c, &m);
	default:
		return net_verbs_rail_start_take(c, &m);
	}
}

/* A connection that always moves has no idle pass, which would read the peer's messages. */
ncclResult_t net_verbs_rails_read(struct net_verbs_conn *c)
{
	struct net_verbs_rails *s = c->rails;
	bool expected = false;
	uint64_t now;

	for (uint32_t r = 0; r < c->width; r++)
		expected |= !net_verbs_rail_is_used(c, r) && !s->rail[r].lost;
	if (!expected || c->peer_gone)
		return ncclSuccess;
	now = os_now_ns();
	if (now < s->read_at_ns)
		return ncclSuccess;
	s->read_at_ns = now + NET_VERBS_READ_NS;
	return net_verbs_notice_recv(c);
}
