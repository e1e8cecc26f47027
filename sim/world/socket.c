/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of the world: descriptors, and os.h's calls. A descriptor contains the number of its
 * process. The use of another process' descriptor is therefore recognized.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/world_stream.h"

#define SOCKET_FD_FIRST 3
#define SOCKET_FD_SHIFT 14
#define SOCKET_FD_MAX   (1 << SOCKET_FD_SHIFT)
DOPPEL_STATIC_CHECK(SOCKET_FD_MAX - SOCKET_FD_FIRST == WORLD_DESCRIPTORS, "what others know");

/* ---- descriptors: the caller holds the socket lock ------------------------------------------- */

static int fd_add(struct world_proc *wp, struct world_socket *s, int *fd)
{
	uint32_t i = SOCKET_FD_FIRST;
	while (i < wp->fd_count && wp->fd[i])
		i++;
	if (i >= SOCKET_FD_MAX)
		return EMFILE;
	if (i >= wp->fd_count) {
		uint32_t count = wp->fd_count ? 2 * wp->fd_count : 16;
		struct world_socket **more = realloc(wp->fd, count * sizeof(struct world_socket *));
		if (!more)
			return ENOMEM;
		for (uint32_t k = wp->fd_count; k < count; k++)
			more[k] = NULL;
		wp->fd = more;
		wp->fd_count = count;
	}
	wp->fd[i] = s;
	*fd = (int)(wp->proc->id << SOCKET_FD_SHIFT | i);
	return 0;
}

/* Reports no limit: the real limit of descriptors does not apply to a world. */
int world_descriptors_raise(uint64_t *most)
{
	*most = INT_MAX;
	return 0;
}

/* Returns the slot of a descriptor. NULL: not a descriptor of this process; if another process owns
 * it, prints the owner. */
static struct world_socket **fd_slot(struct world_proc *wp, int fd)
{
	uint32_t id = (uint32_t)fd >> SOCKET_FD_SHIFT, i = (uint32_t)fd & (SOCKET_FD_MAX - 1);
	if (fd >= 0 && id == wp->proc->id)
		return i < wp->fd_count && wp->fd[i] ? &wp->fd[i] : NULL;
	const struct world_proc *owner = id < world->proc_count ? world->proc[id] : NULL;
	if (fd >= 0 && owner && i < owner->fd_count && owner->fd[i])
		fprintf(stderr,
			"world: process %s used descriptor %d, which belongs to process %s\n",
			wp->name, fd, owner->name);
	return NULL;
}

static struct world_socket *fd_get(struct world_proc *wp, int fd, enum socket_kind kind)
{
	struct world_socket **slot = fd_slot(wp, fd);
	return slot && (*slot)->kind == kind ? *slot : NULL;
}

static void socket_label(struct world_socket *s, const char *what)
{
	const struct sim_task *t = sim_task_self();
	const struct os_label label = {what, t ? t->self.rank : -1, -1, -1, (int64_t)s->number};
	os_label(s, &label);
}

/* ---- listening ------------------------------------------------------------------------------ */

static int listen_port(uint32_t host, struct os_addr *at)
{
	struct world_host *h = &world->host[host];
	if (at->port)
		return stream_listener_find(host, at) ? EADDRINUSE : 0;
	for (uint32_t tries = 0; tries < 32768; tries++) {
		at->port = h->next_tcp_port;
		h->next_tcp_port = h->next_tcp_port == UINT16_MAX ? 32768 : h->next_tcp_port + 1;
		if (!stream_listener_find(host, at))
			return 0;
	}
	return EADDRINUSE;
}

static int listen_start(struct world_proc *wp, struct os_addr *at, int *fd)
{
	uint32_t host = wp->proc->host;
	int rc = listen_port(host, at);
	if (rc)
		return rc;
	struct world_socket *l = calloc(1, sizeof *l);
	if (!l)
		return ENOMEM;
	rc = fd_add(wp, l, fd);
	if (rc) {
		free(l);
		return rc;
	}
	l->kind = SOCKET_LISTENER;
	l->host = host;
	l->number = ++world->conn_serial;
	l->local = *at;
	l->queue_end = &l->queue;
	l->next = world->host[host].listeners;
	world->host[host].listeners = l;
	socket_label(l, "listener");
	foreign_client_maybe(l);
	return 0;
}

int world_listen(const struct os_addr *at, int *fd, struct os_addr *bound)
{
	world_point("os_listen");
	struct world_proc *wp = world_self();
	struct os_addr a = *at;
	if (a.family != 4 && a.family != 6)
		return EAFNOSUPPORT;
	if (addr_host(wp->proc->host, &a) != wp->proc->host)
		return EADDRNOTAVAIL;
	struct os_fault f;
	if (os_fault("os.listen", NULL, &f) && f.kind == OS_FAULT_FAIL)
		return f.arg ? (int)f.arg : EADDRINUSE;
	world_lock(&world->socket_lock);
	int rc = listen_start(wp, &a, fd);
	world_unlock(&world->socket_lock);
	if (rc == 0) {
		*bound = a;
		os_charge(OS_COST_CALL, 1);
	}
	return rc;
}

/* Draws the listener's fault. The connection stays in the queue and the listener stays readable. */
static int accept_fault(struct world_socket *l)
{
	struct os_fault f;
	if (!os_fault("os.accept", l, &f) || f.kind != OS_FAULT_FAIL)
		return 0;
	os_event_post(l);
	return f.arg ? (int)f.arg : EMFILE;
}

int world_accept(int fd, int *conn, struct os_addr *peer)
{
	world_point("os_accept");
	struct world_proc *wp = world_self();
	os_charge(OS_COST_CALL, 1);
	world_lock(&world->socket_lock);
	struct world_socket *l = fd_get(wp, fd, SOCKET_LISTENER);
	struct world_socket *s = l ? l->queue : NULL;
	int rc = !l ? EBADF : !s ? EAGAIN : accept_fault(l);
	if (rc == 0)
		rc = fd_add(wp, s, conn);
	if (rc == 0) {
		l->queue = s->next;
		l->queued--;
		if (!l->queue)
			l->queue_end = &l->queue;
		s->next = NULL;
		if (peer)
			*peer = s->peer;
		socket_label(s, "socket");
	}
	world_unlock(&world->socket_lock);
	if (rc == 0)
		os_trace("sock.accept", s->number, 0, 0);
	return rc;
}

/* ---- connecting ----------------------------------------------------------------------------- */

static int connect_start(struct world_proc *wp, const struct os_addr *to, uint32_t to_host,
			 const struct stream_syn *syn, int *fd, uint64_t *number)
{
	struct world_host *h = &world->host[wp->proc->host];
	struct os_addr local;
	addr_of_host(wp->proc->host, to->family, &local);
	local.port = h->next_tcp_port;
	h->next_tcp_port = h->next_tcp_port == UINT16_MAX ? 32768 : h->next_tcp_port + 1;
	int room;
	int rc = fd_add(wp, NULL, &room); /* reserves room, so that no failure follows the SYN */
	if (rc)
		return rc;
	struct world_conn *c = stream_connect(wp->proc->host, to_host, &local, to, syn);
	if (!c)
		return ENOMEM;
	rc = fd_add(wp, &c->end[0], fd);
	ASSERT(rc == 0);
	socket_label(&c->end[0], "socket");
	*number = c->end[0].number;
	return 0;
}

static int connect_fault(struct stream_syn *syn)
{
	struct os_fault f;
	*syn = (struct stream_syn){0};
	if (!os_fault("os.connect", NULL, &f))
		return 0;
	if (f.kind == OS_FAULT_FAIL)
		return f.arg == EAGAIN ? ENOBUFS : f.arg ? (int)f.arg : ECONNREFUSED;
	syn->lost = f.kind == OS_FAULT_DROP;
	syn->extra_ns = f.arg;
	return 0;
}

int world_connect(const struct os_addr *to, int *fd)
{
	world_point("os_connect");
	struct world_proc *wp = world_self();
	if (to->family != 4 && to->family != 6)
		return EAFNOSUPPORT;
	uint32_t host = addr_host(wp->proc->host, to);
	if (host == ADDR_NO_HOST)
		return EHOSTUNREACH;
	struct stream_syn syn;
	int rc = connect_fault(&syn);
	if (rc)
		return rc;
	uint64_t number = 0;
	world_lock(&world->socket_lock);
	rc = connect_start(wp, to, host, &syn, fd, &number);
	world_unlock(&world->socket_lock);
	if (rc == 0) {
		os_trace("sock.connect", number, host, to->port);
		os_charge(OS_COST_CALL, 1);
	}
	return rc;
}

static int end_status(const struct world_socket *s)
{
	switch (s->state) {
	case STREAM_CONNECTING:
		return EAGAIN;
	case STREAM_OPEN:
		return 0;
	case STREAM_FAILED:
		return s->error;
	case STREAM_RESET:
		return ECONNRESET;
	}
	return EINVAL;
}

int world_connected(int fd)
{
	world_point("os_connected");
	world_lock(&world->socket_lock);
	const struct world_socket *s = fd_get(world_self(), fd, SOCKET_END);
	int rc = s ? end_status(s) : EBADF;
	world_unlock(&world->socket_lock);
	return rc;
}

/* ---- moving bytes --------------------------------------------------------------------------- */

/* Cuts some transfers short in exploring runs: TCP guarantees the order of bytes, not that one call
 * transfers all that it could. */
static uint32_t transfer_cut(const char *site, uint32_t n)
{
	if (n < 2 || sim_choose(site, 16) != 1)
		return n;
	return n - sim_choose(site, n);
}

#define SOCKET_TRICKLE_BYTES 16u

/* Fault that applies to one call on a connection. */
struct end_fault {
	uint64_t extra_ns;
	uint32_t most; /* maximum number of bytes */
};

/* Limits a trickling end to a few bytes per send, which arrive after all earlier bytes. */
static void end_trickle(struct world_socket *s, struct end_fault *e)
{
	uint64_t now = sim_now_ns();
	if (!s->trickle_ns)
		return;
	e->most = MIN_OF(e->most, SOCKET_TRICKLE_BYTES);
	s->trickle_free_ns = MAX_OF(s->trickle_free_ns, now) + s->trickle_ns;
	e->extra_ns += s->trickle_free_ns - now;
}

/* Draws the connection's faults. Returns 0 or the errno of a call that fails. os.h reports an
 * interrupting signal as EAGAIN; the socket's readiness does not change. */
static int end_fault(struct world_socket *s, struct end_fault *e)
{
	struct os_fault f;
	*e = (struct end_fault){.most = UINT32_MAX};
	if (!os_fault("os.socket", s, &f))
		return 0;
	switch (f.kind) {
	case OS_FAULT_DELAY:
		e->extra_ns = f.arg;
		return 0;
	case OS_FAULT_PARTIAL:
		e->most = (uint32_t)MAX_OF(MIN_OF(f.arg, (uint64_t)UINT32_MAX), (uint64_t)1);
		return 0;
	case OS_FAULT_SLOW:
		s->trickle_ns = f.arg;
		return 0;
	case OS_FAULT_CLOSE:
		stream_cut(s);
		return 0;
	case OS_FAULT_RESET:
		stream_reset(s);
		return ECONNRESET;
	default:
		break;
	}
	int error = f.arg ? (int)f.arg : EIO;
	bool again = f.kind == OS_FAULT_NOT_READY || error == EAGAIN || error == EINTR;
	if (!again)
		return error;
	os_event_post(s);
	return EAGAIN;
}

static int send_some(struct world_socket *s, const void *data, size_t n, size_t *done)
{
	struct end_fault fault;
	int rc = end_status(s);
	if (rc == 0)
		rc = end_fault(s, &fault);
	if (rc == 0 && s->cut)
		rc = EPIPE;
	if (rc)
		return rc;
	uint32_t room = stream_room(s);
	if (n == 0 || room == 0) {
		*done = 0;
		return n ? EAGAIN : 0;
	}
	end_trickle(s, &fault);
	uint32_t most = MIN_OF(room, fault.most);
	uint32_t k = transfer_cut("sock.send.cut", (uint32_t)MIN_OF(n, (size_t)most));
	os_trace_bytes("sock.send", s->number * 2 + s->side, data, k);
	mem_release(s);
	rc = stream_send(s, data, k, fault.extra_ns);
	if (rc == 0)
		*done = k;
	return rc;
}

int world_send(int fd, const void *data, size_t n, size_t *done)
{
	world_point("os_send");
	struct world_proc *wp = world_self();
	world_lock(&world->socket_lock);
	struct world_socket *s = fd_get(wp, fd, SOCKET_END);
	int rc = s ? send_some(s, data, n, done) : EBADF;
	world_unlock(&world->socket_lock);
	os_charge(OS_COST_CALL, 1);
	if (rc == 0)
		os_charge(OS_COST_COPY, *done);
	return rc;
}

static int recv_some(struct world_socket *s, void *data, size_t n, size_t *done)
{
	struct end_fault fault = {.most = UINT32_MAX};
	int rc = s->state == STREAM_OPEN ? end_fault(s, &fault) : 0;
	if (rc)
		return rc;
	uint32_t k = (uint32_t)MIN_OF(n, (size_t)s->ring.visible);
	k = MIN_OF(k, fault.most);
	if (k) {
		mem_acquire(stream_peer(s));
		*done = stream_take(s, data, transfer_cut("sock.recv.cut", k));
		return 0;
	}
	rc = end_status(s);
	if (rc == 0 && n && !s->eof)
		rc = EAGAIN;
	if (rc == 0)
		*done = 0;
	return rc;
}

int world_recv(int fd, void *data, size_t n, size_t *done)
{
	world_point("os_recv");
	struct world_proc *wp = world_self();
	world_lock(&world->socket_lock);
	struct world_socket *s = fd_get(wp, fd, SOCKET_END);
	int rc = s ? recv_some(s, data, n, done) : EBADF;
	world_unlock(&world->socket_lock);
	os_charge(OS_COST_CALL, 1);
	if (rc == 0)
		os_charge(OS_COST_COPY, *done);
	return rc;
}

const void *world_socket_object(int fd)
{
	world_lock(&world->socket_lock);
	struct world_socket **slot = fd_slot(world_self(), fd);
	const void *object = slot ? *slot : NULL;
	world_unlock(&world->socket_lock);
	return object;
}

/* True if the socket has changed since `seq`: every change posts an event. This is a scheduling
 * point, like the call that it replaces. */
bool world_socket_changed(int fd, uint64_t seq)
{
	world_point("os_socket_changed");
	return os_event_seq(world_socket_object(fd)) != seq;
}

/* ---- closing -------------------------------------------------------------------------------- */

static void slot_close(struct world_socket **slot)
{
	struct world_socket *s = *slot;
	*slot = NULL;
	if (s->kind == SOCKET_LISTENER)
		stream_listener_close(s);
	else
		stream_close(s);
}

int world_close(int fd)
{
	world_point("os_close");
	world_lock(&world->socket_lock);
	struct world_socket **slot = fd_slot(world_self(), fd);
	if (slot)
		slot_close(slot);
	world_unlock(&world->socket_lock);
	os_charge(OS_COST_CALL, 1);
	return slot ? 0 : EBADF;
}

static void socket_describe(const struct world_proc *wp, const struct world_socket *s, char *out,
			    size_t bytes)
{
	char local[ADDR_TEXT], peer[ADDR_TEXT];
	addr_print(&s->local, local);
	addr_print(&s->peer, peer);
	if (s->kind == SOCKET_LISTENER)
		snprintf(out, bytes, "listener %s of %s", local, wp->name);
	else
		snprintf(out, bytes, "socket %s to %s of %s", local, peer, wp->name);
}

uint64_t world_sockets_close(struct world_proc *wp, char *first, size_t bytes)
{
	uint64_t n = 0;
	world_lock(&world->socket_lock);
	for (uint32_t i = 0; i < wp->fd_count; i++) {
		if (!wp->fd[i])
			continue;
		if (n++ == 0)
			socket_describe(wp, wp->fd[i], first, bytes);
		slot_close(&wp->fd[i]);
	}
	world_unlock(&world->socket_lock);
	return n;
}
