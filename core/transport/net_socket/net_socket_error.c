/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of sockets. The first failure of a connection is logged as one WARN line that names both
 * ends. The other end receives a notice on the control socket. The communicator's other connections
 * close as a consequence and send the same notice. A rank that learns of the failure from one of
 * them can therefore name the connection that failed first.
 */
#include "core/transport/net_socket/net_socket_internal.h"

#define NET_SOCKET_CHECK_NS      1000000ull
#define NET_SOCKET_CHECK_IDLE_NS 100000000ull

static const char *net_socket_error_text(int error, char out[96])
{
	if (error == NET_SOCKET_CLOSED)
		return "the peer closed the connection before the transfer ended";
	if (error == NET_SOCKET_ENDS)
		return "the peer has destroyed the communicator, and receives no more";
	return strerror_r(error, out, 96);
}

static void net_socket_log(const struct net_socket_conn *c, const char *text)
{
	char peer[SOCK_TEXT_BYTES];

	WARN("NET/Socket: rank %d %s rank %d channel %d on %s (peer %s%s%.31s): %s", c->comm->rank,
	     c->is_send ? "->" : "<-", c->who.peer, c->who.channel, c->dev->name,
	     sock_addr_print(&c->peer_addr, peer), c->peer_nic[0] ? " " : "", c->peer_nic, text);
}

/* Records the communicator's first failure, which other connections report. */
static void net_socket_failed_by(const struct net_socket_conn *c, const struct net_socket_notice *n)
{
	struct net_socket_state *st = c->dev->state;

	os_mutex_lock(&st->lock);
	if (!st->failure.magic)
		st->failure = *n;
	os_mutex_unlock(&st->lock);
}

/* If no notice can be sent (a sending end is in the middle of a message, or the socket is full),
 * the other end only sees the end of the stream. */
static void net_socket_send_notice(struct net_socket_conn *c, const struct net_socket_notice *n)
{
	const bool between = !c->is_send || (!c->has_header && !c->control.moved);
	size_t sent = 0, done;
	int rc = 0;

	while (c->control.fd >= 0 && between && sent < sizeof *n && !rc) {
		done = 0;
		rc = os_send(c->control.fd, (const char *)n + sent, sizeof *n - sent, &done);
		sent += rc ? 0 : done;
	}
	if (sent < sizeof *n)
		sock_close(&c->control.fd);
}

void net_socket_close_notice(struct net_socket_conn *c)
{
	struct net_socket_state *st = c->dev->state;
	struct net_socket_notice n;

	os_mutex_lock(&st->lock);
	n = st->failure;
	os_mutex_unlock(&st->lock);
	if (!n.magic && !c->is_send && !rank_is_aborted(c->comm))
		n = (struct net_socket_notice){
			.magic = NET_SOCKET_NOTICE_MAGIC,
			.rank = c->who.rank,
			.peer = c->who.peer,
			.error = NET_SOCKET_ENDS,
		};
	if (n.magic && !c->failed && !c->peer_gone)
		net_socket_send_notice(c, &n);
}

static bool net_socket_is_remote(int error)
{
	return error == NET_SOCKET_CLOSED || error == NET_SOCKET_ENDS || error == EPROTO ||
	       error == EMSGSIZE || sock_error_is_remote(error);
}

/* Handles the end of the control socket. Without an error this is the normal end of the other side,
 * if no transfer is in flight. */
ncclResult_t net_socket_gone(struct net_socket_conn *c, int error)
{
	c->peer_gone = true;
	c->gone_error = error;
	return error == NET_SOCKET_CLOSED || c->peer_ends
		       ? ncclSuccess
		       : net_socket_failed(c, c->is_send ? "sending" : "receiving", error);
}

/* Reads a notice from the other end, if there is one. It may be there even if sending fails. */
static ncclResult_t net_socket_back(struct net_socket_conn *c)
{
	int rc = c->peer_gone ? EAGAIN
			      : net_socket_move(&c->back, false, &c->arrived, sizeof c->arrived);

	if (!rc)
		return net_socket_notice_take(c, &c->arrived);
	return rc == EAGAIN ? ncclSuccess : net_socket_gone(c, rc);
}

ncclResult_t net_socket_failed(struct net_socket_conn *c, const char *what, int error)
{
	struct net_socket_notice n = {
		.magic = NET_SOCKET_NOTICE_MAGIC,
		.rank = c->who.rank,
		.peer = c->who.peer,
		.error = error,
	};
	char text[96], line[192];

	if (c->ready && c->is_send && !c->peer_gone && net_socket_back(c))
		return ncclRemoteError; /* already logged */
	c->failed = true;
	snprintf(line, sizeof line, "%s: %s", what, net_socket_error_text(error, text));
	net_socket_log(c, line);
	net_socket_failed_by(c, &n);
	net_socket_send_notice(c, &n);
	return net_socket_is_remote(error) ? ncclRemoteError : ncclSystemError;
}

ncclResult_t net_socket_notice_take(struct net_socket_conn *c, const struct net_socket_notice *n)
{
	char text[96], line[192];

	if (n->magic == NET_SOCKET_NOTICE_MAGIC && n->error == NET_SOCKET_ENDS) {
		c->peer_ends = true;
		return ncclSuccess;
	}
	c->failed = true;
	if (n->magic != NET_SOCKET_NOTICE_MAGIC) {
		net_socket_log(c, "the peer sent a message without magic");
		return ncclRemoteError;
	}
	net_socket_failed_by(c, n);
	snprintf(line, sizeof line, "the peer %s: rank %d and rank %d: %s",
		 n->rank == c->who.peer && n->peer == c->who.rank ? "reports" : "gives up", n->rank,
		 n->peer, net_socket_error_text(n->error, text));
	net_socket_log(c, line);
	return ncclRemoteError;
}

ncclResult_t net_socket_check(void *net_comm, bool busy, struct wait *w)
{
	struct net_socket_conn *c = net_comm;
	const void *object;
	uint64_t seq, now = os_now_ns();
	ncclResult_t rc = ncclSuccess;

	if (c->failed)
		return ncclRemoteError;
	object = os_socket_object(c->control.fd);
	seq = os_event_seq(object);
	*w = wait_object(object, seq, "a notice of failure",
			 wait_by(c->who.peer, c->who.channel, "proxy progress"));
	w->idle = true;
	/* Not a system call in each idle pass: only after an event, and at long intervals. */
	if (!c->peer_gone && (seq != c->checked_seq || now >= c->check_at_ns)) {
		c->checked_seq = seq;
		c->check_at_ns = now + (busy ? NET_SOCKET_CHECK_NS : NET_SOCKET_CHECK_IDLE_NS);
		rc = c->is_send ? net_socket_back(c) : net_socket_progress(c);
	}
	/* a receiving end finds the failure at its next receive */
	if (!rc && c->peer_gone && !c->peer_ends && busy && c->is_send)
		rc = net_socket_failed(c, "sending", c->gone_error);
	return rc;
}
