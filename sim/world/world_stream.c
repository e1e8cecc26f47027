/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/world/world_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BACKLOG         4096
#define STREAM_RING_KEEP       4096u /* an empty ring of at most this size is kept */
#define STREAM_HOST_LATENCY_NS 5000
#define STREAM_LAN_LATENCY_NS  20000
#define STREAM_LAN_MBPS        1250 /* bandwidth of the management network: 10 Gb/s */

/* Operations that an event delivers to an end. The event's argument is op | side << 3 | bytes <<
 * 4. */
enum stream_op {
	STREAM_OP_SYN,
	STREAM_OP_ESTABLISHED,
	STREAM_OP_REFUSED,
	STREAM_OP_DATA,
	STREAM_OP_FIN,
	STREAM_OP_RST,
	STREAM_OP_WINDOW,  /* the peer's ring has room again */
	STREAM_OP_TIMEOUT, /* the SYN was lost */
};

static const char *const stream_op_names[] = {
	[STREAM_OP_SYN] = "sock.syn",         [STREAM_OP_ESTABLISHED] = "sock.established",
	[STREAM_OP_REFUSED] = "sock.refused", [STREAM_OP_DATA] = "sock.data",
	[STREAM_OP_FIN] = "sock.fin",         [STREAM_OP_RST] = "sock.rst",
	[STREAM_OP_WINDOW] = "sock.window",   [STREAM_OP_TIMEOUT] = "sock.timeout",
};

/* ---- rings ----------------------------------------------------------------------------------- */

static int ring_reserve(struct stream_ring *r, uint32_t n)
{
	uint32_t need = r->total + n, cap = r->cap ? r->cap : 256;
	if (need <= r->cap)
		return 0;
	while (cap < need)
		cap *= 2;
	uint8_t *data = malloc(cap);
	if (!data)
		return ENOMEM;
	ASSERT(r->total == 0 || r->cap > 0);
	for (uint32_t i = 0; i < r->total;) {
		uint32_t at = (r->head + i) % r->cap;
		uint32_t k = MIN_OF(r->total - i, r->cap - at);
		memcpy(data + i, r->data + at, k);
		i += k;
	}
	free(r->data);
	r->data = data;
	r->cap = cap;
	r->head = 0;
	return 0;
}

static void ring_put(struct stream_ring *r, const uint8_t *data, uint32_t n)
{
	ASSERT(r->total + n <= r->cap);
	for (uint32_t i = 0; i < n;) {
		uint32_t at = (r->head + r->total) % r->cap;
		uint32_t k = MIN_OF(n - i, r->cap - at);
		memcpy(r->data + at, data + i, k);
		r->total += k;
		i += k;
	}
}

static void ring_clear(struct stream_ring *r)
{
	free(r->data);
	*r = (struct stream_ring){0};
}

/* Removes n visible bytes. data NULL: discards them. */
static void ring_get(struct stream_ring *r, uint8_t *data, uint32_t n)
{
	ASSERT(n <= r->visible && r->visible <= r->total);
	for (uint32_t i = 0; i < n;) {
		uint32_t k = MIN_OF(n - i, r->cap - r->head);
		if (data)
			memcpy(data + i, r->data + r->head, k);
		r->head = (r->head + k) % r->cap;
		i += k;
	}
	r->visible -= n;
	r->total -= n;
	if (r->total == 0 && r->cap > STREAM_RING_KEEP)
		ring_clear(r);
}

/* ---- life of a connection ------------------------------------------------------------------- */

static void conn_unref(struct world_conn *c)
{
	ASSERT(c->refs > 0);
	if (--c->refs)
		return;
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		world->conns = c->next;
	for (int i = 0; i < 2; i++) {
		mem_forget(&c->end[i]);
		os_unlabel(&c->end[i]);
		ring_clear(&c->end[i].ring);
	}
	free(c);
}

static void conn_step(void *object, uint64_t arg);
static void conn_arrive(struct world_conn *c, uint64_t arg);

/* Returns the time in ns until the bytes have left the host. The host's interface sends the bytes
 * of all connections one after the other. Connections within a host share nothing. */
static uint64_t conn_wire_ns(struct world_conn *c, uint8_t to_side, uint32_t bytes)
{
	uint64_t wire = (uint64_t)bytes * 1000 / STREAM_LAN_MBPS, now = sim_now_ns();
	struct world_host *from = &world->host[c->end[1 - to_side].host];

	if (c->end[0].host == c->end[1].host)
		return wire;
	from->lan_free_ns = MAX_OF(from->lan_free_ns, now) + wire;
	return from->lan_free_ns - now;
}

/* Sends an op to one end. Under sim it arrives after the latency, in order. Under threads it
 * arrives immediately. */
static void conn_post(struct world_conn *c, enum stream_op op, uint8_t side, uint32_t bytes,
		      uint64_t extra_ns)
{
	uint64_t arg = (uint64_t)op | (uint64_t)side << 3 | (uint64_t)bytes << 4;
	c->refs++;
	if (world->locking) {
		conn_arrive(c, arg);
		return;
	}
	const struct sim_event_attr attr = {
		.name = stream_op_names[op],
		.kind = SIM_EVENT_WORK,
		.delay_ns = sim_latency(c->latency_ns + conn_wire_ns(c, side, bytes)) + extra_ns,
		.order = &c->end[side],
	};
	sim_event_post(&attr, conn_step, c, arg, NULL);
}

static void end_init(struct world_conn *c, uint8_t side, uint32_t host, const struct os_addr *local,
		     const struct os_addr *peer)
{
	struct world_socket *s = &c->end[side];
	s->kind = SOCKET_END;
	s->host = host;
	s->number = c->end[0].number;
	s->local = *local;
	s->peer = *peer;
	s->conn = c;
	s->side = side;
	s->state = STREAM_CONNECTING;
}

struct world_conn *stream_connect(uint32_t from_host, uint32_t to_host, const struct os_addr *local,
				  const struct os_addr *peer, const struct stream_syn *syn)
{
	struct world_conn *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->end[0].number = ++world->conn_serial;
	end_init(c, 0, from_host, local, peer);
	end_init(c, 1, to_host, peer, local);
	c->latency_ns = from_host == to_host ? STREAM_HOST_LATENCY_NS : STREAM_LAN_LATENCY_NS;
	c->next = world->conns;
	if (c->next)
		c->next->prev = c;
	world->conns = c;
	c->end[0].open = true;
	c->refs = 1;
	if (syn->lost)
		conn_post(c, STREAM_OP_TIMEOUT, 0, 0, syn->extra_ns);
	else
		conn_post(c, STREAM_OP_SYN, 1, 0, syn->extra_ns);
	return c;
}

struct world_socket *stream_listener_find(uint32_t host, const struct os_addr *at)
{
	struct world_socket *l = world->host[host].listeners;
	for (; l; l = l->next)
		if (l->local.port == at->port && l->local.family == at->family &&
		    (addr_is_any(&l->local) || addr_is_any(at) || addr_is_same(&l->local, at)))
			return l;
	return NULL;
}

/* ---- arrivals ------------------------------------------------------------------------------- */

static void arrive_syn(struct world_conn *c)
{
	struct world_socket *s = &c->end[1];
	struct world_socket *l = stream_listener_find(s->host, &s->local);
	if (!l || l->queued >= STREAM_BACKLOG) {
		conn_post(c, STREAM_OP_REFUSED, 0, 0, 0);
		return;
	}
	s->state = STREAM_OPEN;
	s->open = true;
	s->next = NULL;
	c->refs++;
	*l->queue_end = s;
	l->queue_end = &s->next;
	l->queued++;
	os_event_post(l);
	conn_post(c, STREAM_OP_ESTABLISHED, 0, 0, 0);
}

/* Makes the bytes visible. If the end is no longer open, discards them and answers with a reset. */
static void arrive_data(struct world_socket *s, uint32_t bytes)
{
	s->ring.visible += bytes;
	ASSERT(s->ring.visible <= s->ring.total);
	if (s->open && s->state == STREAM_OPEN)
		return;
	ring_get(&s->ring, NULL, bytes);
	conn_post(s->conn, STREAM_OP_RST, 1 - s->side, 0, 0);
}

static void conn_arrive(struct world_conn *c, uint64_t arg)
{
	enum stream_op op = (enum stream_op)(arg & 7);
	struct world_socket *s = &c->end[(arg >> 3) & 1];
	switch (op) {
	case STREAM_OP_SYN:
		arrive_syn(c);
		break;
	case STREAM_OP_ESTABLISHED:
		if (s->open && s->state == STREAM_CONNECTING)
			s->state = STREAM_OPEN;
		else if (!s->open)
			conn_post(c, STREAM_OP_FIN, 1 - s->side, 0, 0);
		break;
	case STREAM_OP_REFUSED:
		s->state = STREAM_FAILED;
		s->error = ECONNREFUSED;
		break;
	case STREAM_OP_TIMEOUT:
		s->state = STREAM_FAILED;
		s->error = ETIMEDOUT;
		break;
	case STREAM_OP_DATA:
		arrive_data(s, (uint32_t)(arg >> 4));
		break;
	case STREAM_OP_FIN:
		s->eof = true;
		break;
	case STREAM_OP_RST:
		s->state = STREAM_RESET;
		break;
	case STREAM_OP_WINDOW:
		break;
	}
	os_event_post(s);
	conn_unref(c);
}

static void conn_step(void *object, uint64_t arg)
{
	world_lock(&world->socket_lock);
	conn_arrive(object, arg);
	world_unlock(&world->socket_lock);
}

/* ---- operations of a descriptor -------------------------------------------------------------- */

uint32_t stream_room(struct world_socket *s)
{
	uint32_t total = stream_peer(s)->ring.total;
	ASSERT(total <= STREAM_WINDOW);
	return STREAM_WINDOW - total;
}

int stream_send(struct world_socket *s, const void *data, uint32_t n, uint64_t extra_ns)
{
	struct world_socket *peer = stream_peer(s);
	ASSERT(n > 0 && n <= stream_room(s));
	int rc = ring_reserve(&peer->ring, n);
	if (rc)
		return rc;
	ring_put(&peer->ring, data, n);
	conn_post(s->conn, STREAM_OP_DATA, peer->side, n, extra_ns);
	return 0;
}

uint32_t stream_take(struct world_socket *s, void *data, uint32_t n)
{
	bool was_full = s->ring.total == STREAM_WINDOW;
	n = MIN_OF(n, s->ring.visible);
	ring_get(&s->ring, data, n);
	if (was_full && n)
		conn_post(s->conn, STREAM_OP_WINDOW, 1 - s->side, 0, 0);
	return n;
}

void stream_reset(struct world_socket *s)
{
	if (s->state != STREAM_OPEN && s->state != STREAM_CONNECTING)
		return;
	s->state = STREAM_RESET;
	os_event_post(s);
	conn_post(s->conn, STREAM_OP_RST, 1 - s->side, 0, 0);
}

void stream_cut(struct world_socket *s)
{
	if (s->state != STREAM_OPEN || s->cut)
		return;
	s->cut = stream_peer(s)->cut = true;
	s->eof = true;
	os_event_post(s);
	conn_post(s->conn, STREAM_OP_FIN, 1 - s->side, 0, 0);
}

void stream_close(struct world_socket *s)
{
	ASSERT(s->open);
	s->open = false;
	/* unread bytes: a reset informs the peer that they were lost */
	bool unread = s->ring.visible > 0;
	if (s->state == STREAM_OPEN)
		conn_post(s->conn, unread ? STREAM_OP_RST : STREAM_OP_FIN, 1 - s->side, 0, 0);
	conn_unref(s->conn);
}

void stream_listener_close(struct world_socket *l)
{
	struct world_socket **at = &world->host[l->host].listeners;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	while (l->queue) {
		struct world_socket *s = l->queue;
		struct world_conn *c = s->conn;
		l->queue = s->next;
		s->open = false;
		ASSERT(c->refs > 0); /* the reference of the queue's end */
		conn_post(c, STREAM_OP_RST, 0, 0, 0);
		conn_unref(c);
	}
	os_unlabel(l);
	free(l);
}

/* Frees all connections at the end of the world and cancels their pending events. */
void world_sockets_free(void)
{
	foreign_clients_free();
	while (world->conns) {
		struct world_conn *c = world->conns;
		sim_events_cancel_object(c);
		ASSERT((c->stranger || !c->end[0].open) && !c->end[1].open);
		c->refs = 1;
		conn_unref(c);
	}
}
