/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections. The sending end opens the control socket and the lanes in sequence, and sends a
 * hello on each. The receiving end accepts sockets and answers hellos until it has all of them.
 * Each call advances as far as possible without blocking.
 */
#include "core/transport/net_socket/net_socket_internal.h"

#define NET_SOCKET_GREETING_NS 10000000ull /* until the listener is checked again */
/* More than the peer's own sockets, so that connections of other programs do not push them out. */
#define NET_SOCKET_GREETINGS (1 + NET_SOCKET_LANES + 4)

/* An accepted socket: its hello has not arrived, or (known) it is the peer's and the answer is not
 * sent. */
struct net_socket_greeting {
	struct net_socket_stream stream;
	struct os_addr from;
	bool known;
	struct net_socket_hello hello;
};

struct net_socket_listen {
	struct net_socket_conn *half; /* not all sockets are accepted */
	struct net_socket_stream stream;
	uint64_t nonce;
	uint32_t greetings; /* oldest first */
	struct net_socket_greeting greeting[NET_SOCKET_GREETINGS];
};

/* ---- checks of received data ----------------------------------------------------------------- */

ncclResult_t net_socket_handle_check(int32_t rank, int32_t peer, const struct net_socket_handle *h)
{
	if (h->magic != NET_SOCKET_HANDLE_MAGIC) {
		WARN("NET/Socket: rank %d: rank %d does not use the network Socket (handle magic "
		     "%#x, expected %#x): NCCL_NET must be the same on all ranks",
		     rank, peer, h->magic, NET_SOCKET_HANDLE_MAGIC);
		return ncclInvalidUsage;
	}
	if (h->version != NET_SOCKET_VERSION) {
		WARN("NET/Socket: rank %d: rank %d has version %u of the network, expected %u",
		     rank, peer, h->version, NET_SOCKET_VERSION);
		return ncclInvalidUsage;
	}
	if (h->rank == peer && h->lanes <= NET_SOCKET_LANES && h->lanes != 1 &&
	    h->tasks <= NET_SOCKET_TASKS && (!h->tasks || (h->lanes && h->lanes % h->tasks == 0)) &&
	    (h->addr.family == 4 || h->addr.family == 6) && memchr(h->nic, 0, sizeof h->nic))
		return ncclSuccess;
	WARN("NET/Socket: rank %d: invalid handle from rank %d: rank %d, %u lanes, %u tasks, "
	     "address family %u",
	     rank, peer, h->rank, h->lanes, h->tasks, h->addr.family);
	return ncclRemoteError;
}

ncclResult_t net_socket_hello_check(int32_t rank, int32_t peer, const struct net_socket_hello *h,
				    uint64_t nonce, uint32_t sockets)
{
	if (h->magic != NET_SOCKET_HELLO_MAGIC || h->nonce != nonce)
		return ncclInvalidArgument;
	if (h->version != NET_SOCKET_VERSION) {
		WARN("NET/Socket: rank %d: rank %d connects with version %u of the network, "
		     "expected %u",
		     rank, peer, h->version, NET_SOCKET_VERSION);
		return ncclInvalidUsage;
	}
	if (h->rank == peer && h->socket < sockets)
		return ncclSuccess;
	WARN("NET/Socket: rank %d: invalid hello from rank %d: rank %d, socket %u of %u", rank,
	     peer, h->rank, h->socket, sockets);
	return ncclRemoteError;
}

/* ---- both ends ------------------------------------------------------------------------------- */

void net_socket_wait(const struct net_socket_conn *c, const struct net_socket_stream *s,
		     const char *why, struct wait *w)
{
	*w = wait_object(os_socket_object(s->fd), s->seq, why,
			 wait_by(c->who.peer, c->who.channel,
				 c->ready ? "proxy progress" : "proxy service"));
}

static struct net_socket_conn *net_socket_conn_make(struct ncclComm *comm,
						    struct net_socket_dev *dev,
						    const struct net_who *who, bool is_send,
						    uint32_t lanes, uint32_t tasks)
{
	struct net_socket_conn *c =
		os_alloc(sizeof *c + lanes * sizeof c->lane[0], "socket connection");

	if (!c) {
		WARN("NET/Socket: no memory for a connection to rank %d", who->peer);
		return NULL;
	}
	c->comm = comm;
	c->dev = dev;
	c->who = *who;
	c->is_send = is_send;
	c->lanes = lanes;
	c->tasks = tasks;
	c->checked_seq = ~0ull;
	for (uint32_t i = 0; i <= lanes; i++)
		net_socket_stream(c, i)->fd = -1;
	return c;
}

/* Faults and wait-for graphs identify the socket by its ends. */
static void net_socket_name(const struct net_socket_conn *c, const struct net_socket_stream *s,
			    uint32_t i)
{
	os_label(os_socket_object(s->fd),
		 &(struct os_label){.what = c->is_send ? "socket send" : "socket recv",
				    .rank = c->comm->rank,
				    .peer = c->who.peer,
				    .channel = c->who.channel,
				    .number = i});
}

/* All sockets are open. */
static ncclResult_t net_socket_start(struct net_socket_conn *c)
{
	char peer[SOCK_TEXT_BYTES];

	c->back.fd = c->control.fd;
	INFO(LOG_NET, "NET/Socket: rank %d %s rank %d channel %d: %s, peer %s, %u lanes, %u tasks",
	     c->comm->rank, c->is_send ? "->" : "<-", c->who.peer, c->who.channel, c->dev->name,
	     sock_addr_print(&c->peer_addr, peer), c->lanes, c->tasks);
	c->ready = true;
	return net_socket_tasks_start(c);
}

void net_socket_close(void *net_comm)
{
	struct net_socket_conn *c = net_comm;

	if (!c) /* never begun */
		return;
	net_socket_tasks_stop(c);
	if (c->ready)
		net_socket_close_notice(c);
	for (uint32_t i = 0; i <= c->lanes; i++)
		sock_close(&net_socket_stream(c, i)->fd);
	os_free(c);
}

/* ---- sending end ----------------------------------------------------------------------------- */

/* Waits before the next attempt. */
static ncclResult_t net_socket_pause(struct net_socket_conn *c, struct wait *w)
{
	*w = wait_object(c, os_event_seq(c), "to try again to connect",
			 wait_by(c->who.peer, c->who.channel, NULL));
	w->deadline_ns = c->again_at_ns;
	return ncclInProgress;
}

static int net_socket_hello_send(struct net_socket_conn *c, const struct net_socket_handle *h,
				 struct net_socket_stream *s)
{
	int rc;

	c->hello = (struct net_socket_hello){
		.magic = NET_SOCKET_HELLO_MAGIC,
		.version = NET_SOCKET_VERSION,
		.nonce = h->nonce,
		.rank = c->who.rank,
		.socket = c->opened,
	};
	rc = net_socket_move(s, true, &c->hello, sizeof c->hello);
	c->hello_sent = !rc;
	return rc;
}

static int net_socket_welcome_recv(struct net_socket_conn *c, const struct net_socket_handle *h,
				   struct net_socket_stream *s)
{
	int rc = net_socket_move(s, false, &c->hello, sizeof c->hello);

	if (rc)
		return rc;
	c->hello_sent = false;
	return c->hello.magic == NET_SOCKET_WELCOME_MAGIC &&
			       c->hello.version == NET_SOCKET_VERSION &&
			       c->hello.nonce == h->nonce && c->hello.rank == c->who.peer &&
			       c->hello.socket == c->opened
		       ? 0
		       : EPROTO;
}

/* Connects one socket and exchanges hello and answer. Returns 0, EAGAIN, or the errno of a
 * failure. */
static int net_socket_open_once(struct net_socket_conn *c, const struct net_socket_handle *h,
				struct net_socket_stream *s)
{
	int rc = s->fd < 0 ? os_connect(&h->addr, &s->fd) : 0;

	if (rc)
		return rc;
	s->seq = os_event_seq(os_socket_object(s->fd));
	rc = os_connected(s->fd);
	if (!rc && !c->hello_sent)
		rc = net_socket_hello_send(c, h, s);
	return rc ? rc : net_socket_welcome_recv(c, h, s);
}

static ncclResult_t net_socket_open(struct net_socket_conn *c, const struct net_socket_handle *h,
				    struct wait *w)
{
	struct net_socket_stream *s = net_socket_stream(c, c->opened);
	int rc;

	if (c->again_at_ns && os_now_ns() < c->again_at_ns)
		return net_socket_pause(c, w);
	c->again_at_ns = 0;
	rc = net_socket_open_once(c, h, s);
	if (rc == EAGAIN) {
		net_socket_wait(c, s, "the peer to accept a connection", w);
		return ncclInProgress;
	}
	if (!rc) {
		net_socket_name(c, s, c->opened++);
		c->tries = 0;
		return ncclSuccess;
	}
	sock_close(&s->fd);
	s->moved = 0;
	if (!c->hello_sent && (rc == ECONNREFUSED || rc == ETIMEDOUT) &&
	    ++c->tries <= SOCK_CONNECT_RETRIES) {
		c->again_at_ns = os_now_ns() + sock_connect_pause_ns(c->tries);
		return net_socket_pause(c, w);
	}
	return net_socket_failed(c, rc == EPROTO ? "invalid answer to a hello" : "connecting", rc);
}

static ncclResult_t net_socket_connect_start(struct ncclComm *comm, const struct net_nic *nic,
					     const struct net_who *who,
					     const struct net_socket_handle *h, void **pending)
{
	struct net_socket_conn *c;
	ncclResult_t rc = net_socket_handle_check(comm->rank, who->peer, h);

	if (rc)
		return rc;
	c = net_socket_conn_make(comm, net_socket_dev(comm, nic->dev[0]), who, true, h->lanes,
				 h->tasks);
	if (!c)
		return ncclSystemError;
	c->peer_addr = h->addr;
	memcpy(c->peer_nic, h->nic, sizeof c->peer_nic);
	*pending = c;
	return ncclSuccess;
}

ncclResult_t net_socket_connect(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *handle,
				void **pending, void **send_comm, struct wait *w)
{
	struct net_socket_conn *c;
	struct net_socket_handle h;
	ncclResult_t rc = ncclSuccess;

	memcpy(&h, handle->bytes, sizeof h);
	if (!*pending)
		rc = net_socket_connect_start(comm, nic, who, &h, pending);
	c = *pending;
	while (!rc && c->opened <= c->lanes)
		rc = net_socket_open(c, &h, w);
	if (rc == ncclInProgress)
		return rc;
	if (!rc)
		rc = net_socket_start(c);
	*pending = NULL;
	if (rc)
		net_socket_close(c);
	else
		*send_comm = c;
	return rc;
}

/* ---- receiving end --------------------------------------------------------------------------- */

static void net_socket_handle_fill(const struct net_socket_listen *l, struct net_handle *out,
				   const struct os_addr *bound)
{
	const struct net_socket_conn *c = l->half;
	struct net_socket_handle h = {
		.magic = NET_SOCKET_HANDLE_MAGIC,
		.version = NET_SOCKET_VERSION,
		.rank = c->comm->rank,
		.lanes = (uint16_t)c->lanes,
		.tasks = (uint16_t)c->tasks,
		.nonce = l->nonce,
		.addr = *bound,
	};

	memcpy(h.nic, c->dev->name, sizeof h.nic);
	memset(out, 0, sizeof *out);
	memcpy(out->bytes, &h, sizeof h);
}

ncclResult_t net_socket_listen(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen)
{
	struct net_socket_dev *d = net_socket_dev(comm, nic->dev[0]);
	struct net_socket_listen *l = os_alloc(sizeof *l, "socket listener");
	uint32_t lanes, tasks;
	struct os_addr bound;
	int rc;

	if (!l) {
		WARN("NET/Socket: no memory for a listener");
		return ncclSystemError;
	}
	net_socket_shape(d, &lanes, &tasks);
	l->half = net_socket_conn_make(comm, d, who, false, lanes, tasks);
	if (!l->half)
		goto err_free;
	os_random(&l->nonce, sizeof l->nonce);
	rc = os_listen(&d->addr, &l->stream.fd, &bound);
	if (rc) {
		WARN("NET/Socket: rank %d cannot listen on %s for rank %d: %s", comm->rank, d->name,
		     who->peer, strerror(rc));
		goto err_close;
	}
	net_socket_handle_fill(l, h, &bound);
	*listen = l;
	return ncclSuccess;
err_close:
	net_socket_close(l->half);
err_free:
	os_free(l);
	return ncclSystemError;
}

static void net_socket_greeting_remove(struct net_socket_listen *l, uint32_t i)
{
	l->greetings--;
	memmove(&l->greeting[i], &l->greeting[i + 1], (l->greetings - i) * sizeof l->greeting[0]);
}

static void net_socket_greeting_drop(struct net_socket_listen *l, uint32_t i)
{
	INFO(LOG_NET, "NET/Socket: rank %d: a connection that is not rank %d's; closed",
	     l->half->comm->rank, l->half->who.peer);
	sock_close(&l->greeting[i].stream.fd);
	net_socket_greeting_remove(l, i);
}

/* The answer is sent: the socket becomes part of the connection. */
static void net_socket_greeting_take(struct net_socket_listen *l, uint32_t i)
{
	struct net_socket_conn *c = l->half;
	const struct net_socket_greeting *g = &l->greeting[i];
	struct net_socket_stream *s = net_socket_stream(c, g->hello.socket);

	if (s->fd >= 0) { /* a second hello for this socket */
		net_socket_greeting_drop(l, i);
		return;
	}
	s->fd = g->stream.fd;
	net_socket_name(c, s, g->hello.socket);
	c->opened++;
	net_socket_greeting_remove(l, i);
}

/* Reads the hello. ncclInProgress: it has not arrived; ncclInvalidArgument: the connection is not
 * the peer's (a port scanner, a client of a program that used this port before). */
static ncclResult_t net_socket_greeting_read(struct net_socket_listen *l,
					     struct net_socket_greeting *g)
{
	struct net_socket_conn *c = l->half;
	int rc = net_socket_move(&g->stream, false, &g->hello, sizeof g->hello);
	ncclResult_t ok;

	if (rc)
		return rc == EAGAIN ? ncclInProgress : ncclInvalidArgument;
	ok = net_socket_hello_check(c->comm->rank, c->who.peer, &g->hello, l->nonce, 1 + c->lanes);
	if (ok)
		return ok;
	g->known = true;
	c->peer_addr = g->from;
	g->hello.magic = NET_SOCKET_WELCOME_MAGIC;
	g->hello.rank = c->comm->rank;
	return ncclSuccess;
}

/* ncclInProgress: hello or answer is not complete. ncclSuccess: the greeting was taken or
 * dropped. */
static ncclResult_t net_socket_greeting_step(struct net_socket_listen *l, uint32_t i)
{
	struct net_socket_greeting *g = &l->greeting[i];
	ncclResult_t ok = g->known ? ncclSuccess : net_socket_greeting_read(l, g);
	int rc;

	if (ok == ncclInvalidArgument) {
		net_socket_greeting_drop(l, i);
		return ncclSuccess;
	}
	if (ok)
		return ok;
	rc = net_socket_move(&g->stream, true, &g->hello, sizeof g->hello);
	if (rc == EAGAIN)
		return ncclInProgress;
	if (rc)
		return net_socket_failed(l->half, "accepting", rc);
	net_socket_greeting_take(l, i);
	return ncclSuccess;
}

static ncclResult_t net_socket_greetings_step(struct net_socket_listen *l)
{
	for (uint32_t i = 0; i < l->greetings;) {
		ncclResult_t rc = net_socket_greeting_step(l, i);

		if (rc == ncclInProgress)
			i++;
		else if (rc)
			return rc;
	}
	return ncclSuccess;
}

/* Accepts one socket. *w can hold only one socket: while there is a greeting, *w holds that one,
 * and the listener is checked at each NET_SOCKET_GREETING_NS. */
static ncclResult_t net_socket_accept_one(struct net_socket_listen *l, struct wait *w)
{
	struct net_socket_greeting *g;
	struct os_addr from;
	int rc, fd;

	l->stream.seq = os_event_seq(os_socket_object(l->stream.fd));
	/* another connection may follow one that its peer has aborted */
	do
		rc = os_accept(l->stream.fd, &fd, &from);
	while (rc == ECONNABORTED);
	if (rc == EAGAIN) {
		net_socket_wait(l->half, l->greetings ? &l->greeting[0].stream : &l->stream,
				"the peer to connect", w);
		if (l->greetings)
			w->deadline_ns = os_now_ns() + NET_SOCKET_GREETING_NS;
		return ncclInProgress;
	}
	if (rc) {
		WARN("NET/Socket: rank %d cannot accept a connection from rank %d: %s",
		     l->half->comm->rank, l->half->who.peer, strerror(rc));
		return ncclSystemError;
	}
	if (l->greetings == NET_SOCKET_GREETINGS)
		net_socket_greeting_drop(l, 0);
	g = &l->greeting[l->greetings++];
	*g = (struct net_socket_greeting){.stream = {.fd = fd}, .from = from};
	return ncclSuccess;
}

ncclResult_t net_socket_accept(void *listen, void **recv_comm, struct wait *w)
{
	struct net_socket_listen *l = listen;
	ncclResult_t rc = net_socket_greetings_step(l);

	while (!rc && l->half->opened <= l->half->lanes) {
		rc = net_socket_accept_one(l, w);
		if (!rc)
			rc = net_socket_greetings_step(l);
	}
	if (!rc)
		rc = net_socket_start(l->half);
	if (rc)
		return rc;
	*recv_comm = l->half;
	l->half = NULL;
	return ncclSuccess;
}

void net_socket_close_listen(void *listen)
{
	struct net_socket_listen *l = listen;

	for (uint32_t i = 0; i < l->greetings; i++)
		sock_close(&l->greeting[i].stream.fd);
	net_socket_close(l->half);
	os_close(l->stream.fd);
	os_free(l);
}
