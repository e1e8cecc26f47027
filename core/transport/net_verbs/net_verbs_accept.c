/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving end of connections: a listener for one peer, and the connections that it accepts.
 * net_verbs_connect.c has the steps that follow.
 */
#include <string.h>

#include "core/bootstrap/sock.h"
#include "core/transport/net_verbs/net_verbs_internal.h"

#define NET_VERBS_GREETING_NS 10000000ull /* until the listener is checked again */
#define NET_VERBS_GREETINGS   4

struct net_verbs_listen {
	struct ncclComm *comm;
	struct net_nic nic;
	struct net_who who;
	int fd;
	uint64_t nonce;
	struct net_verbs_conn *half; /* the peer's connection: accepted, not ready */
	/* Connections that have not sent the nonce yet, oldest first. One of another program must
	 * not block the peer. */
	struct net_verbs_conn *greeting[NET_VERBS_GREETINGS];
	uint32_t greetings;
};

ncclResult_t net_verbs_listen(struct ncclComm *comm, const struct net_nic *nic,
			      const struct net_who *who, struct net_handle *h, void **listen)
{
	struct net_verbs_handle handle = {
		.magic = NET_VERBS_HANDLE_MAGIC, .rank = comm->rank, .ndevs = (uint32_t)nic->count};
	struct net_verbs_listen *l;
	struct os_addr at;
	ncclResult_t rc;
	int err;

	rc = sock_addr_own(&at);
	if (rc)
		return rc;
	l = os_alloc(sizeof *l, "verbs listener");
	if (!l) {
		WARN("NET/IB: no memory for a listener");
		return ncclSystemError;
	}
	l->comm = comm;
	l->nic = *nic;
	l->who = *who;
	os_random(&l->nonce, sizeof l->nonce);
	err = os_listen(&at, &l->fd, &handle.addr);
	if (err) {
		WARN("NET/IB: rank %d cannot listen for rank %d: %s", comm->rank, who->peer,
		     strerror(err));
		os_free(l);
		return ncclSystemError;
	}
	handle.nonce = l->nonce;
	memset(h, 0, sizeof *h);
	memcpy(h->bytes, &handle, sizeof handle);
	*listen = l;
	return ncclSuccess;
}

static void net_verbs_greeting_drop(struct net_verbs_listen *l, uint32_t i)
{
	INFO(LOG_NET, "NET/IB: rank %d: a connection that is not rank %d's; closed", l->comm->rank,
	     l->who.peer);
	net_verbs_close(l->greeting[i]);
	l->greetings--;
	memmove(&l->greeting[i], &l->greeting[i + 1],
		(l->greetings - i) * sizeof(struct net_verbs_conn *));
}

/* Accepts the next connection. It gets no queue pairs before it has sent the nonce. */
static ncclResult_t net_verbs_accept_tcp(struct net_verbs_listen *l, struct wait *w)
{
	struct net_verbs_conn *c;
	struct os_addr peer;
	int rc, fd;

	net_verbs_wait_socket(l->fd, l->who.peer, l->who.channel, "the peer to connect for set-up",
			      w);
	/* another connection may follow one that its peer has aborted */
	do
		rc = os_accept(l->fd, &fd, &peer);
	while (rc == ECONNABORTED);
	if (rc == EAGAIN)
		return ncclInProgress;
	if (rc) {
		WARN("NET/IB: rank %d cannot accept a connection from rank %d: %s", l->comm->rank,
		     l->who.peer, strerror(rc));
		return ncclSystemError;
	}
	c = net_verbs_conn_make(l->comm, &l->nic, &l->who, false);
	if (!c) {
		os_close(fd);
		return ncclSystemError;
	}
	c->fd = fd;
	c->state = NET_VERBS_RECV_META;
	if (l->greetings == NET_VERBS_GREETINGS)
		net_verbs_greeting_drop(l, 0);
	l->greeting[l->greetings++] = c;
	return ncclSuccess;
}

/* Reads the first message, which shows if the connection is the peer's. Another one (a port
 * scanner, a client of a program that used this port before) is closed. ncclSuccess: it was the
 * peer's, or it was closed. */
static ncclResult_t net_verbs_accept_meta(struct net_verbs_listen *l, uint32_t i, struct wait *w)
{
	struct net_verbs_conn *c = l->greeting[i];

	while (c->moved < sizeof c->theirs) {
		size_t done = 0;
		int rc;

		net_verbs_wait_socket(c->fd, c->who.peer, c->who.channel,
				      "the peer's part of the set-up", w);
		w->deadline_ns = os_now_ns() + NET_VERBS_GREETING_NS;
		rc = os_recv(c->fd, (uint8_t *)&c->theirs + c->moved, sizeof c->theirs - c->moved,
			     &done);
		if (rc == EAGAIN)
			return ncclInProgress;
		if (rc || !done)
			break;
		c->moved += done;
	}
	if (c->moved < sizeof c->theirs || c->theirs.magic != NET_VERBS_META_MAGIC ||
	    c->theirs.nonce != l->nonce) {
		net_verbs_greeting_drop(l, i);
		return ncclSuccess;
	}
	c->moved = 0;
	l->half = c;
	l->greeting[i] = l->greeting[--l->greetings];
	while (l->greetings)
		net_verbs_greeting_drop(l, 0);
	return net_verbs_meta_check(c);
}

/* Handles accepted connections, then accepts new ones. *w can hold only one socket: while there is
 * an accepted connection, *w holds that one, and the listener is checked at each
 * NET_VERBS_GREETING_NS. */
static ncclResult_t net_verbs_accept_peer(struct net_verbs_listen *l, struct wait *w)
{
	ncclResult_t rc = ncclInProgress;

	for (;;) {
		struct wait greet;

		for (uint32_t i = 0; i < l->greetings && !l->half; i++) {
			rc = net_verbs_accept_meta(l, i, &greet);
			if (rc == ncclSuccess)
				i = -1u; /* one was removed: start again */
			else if (rc != ncclInProgress)
				return rc;
		}
		if (l->half)
			return ncclSuccess;
		rc = net_verbs_accept_tcp(l, w);
		if (rc == ncclInProgress && l->greetings)
			*w = greet;
		if (rc)
			return rc;
	}
}

static ncclResult_t net_verbs_accept_step(struct net_verbs_listen *l, struct wait *w)
{
	ncclResult_t rc = ncclSuccess;

	if (!l->half) {
		rc = net_verbs_accept_peer(l, w);
		if (!rc) {
			net_verbs_conn_shape(l->half, l->half->theirs.ndevs);
			rc = net_verbs_qp_make(l->half);
		}
		if (!rc)
			l->half->state = NET_VERBS_TO_RTS;
	}
	return rc ? rc : net_verbs_conn_run(l->half, w);
}

ncclResult_t net_verbs_accept(void *listen, void **recv_comm, struct wait *w)
{
	struct net_verbs_listen *l = listen;
	ncclResult_t rc = net_verbs_accept_step(l, w);

	if (rc)
		return rc;
	*recv_comm = l->half;
	l->half = NULL;
	return ncclSuccess;
}

void net_verbs_close_listen(void *listen)
{
	struct net_verbs_listen *l = listen;

	while (l->greetings)
		net_verbs_greeting_drop(l, 0);
	if (l->half)
		net_verbs_close(l->half);
	os_close(l->fd);
	os_free(l);
}
