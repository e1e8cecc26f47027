/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's connections for messages: those that other ranks opened to it, from the first byte on,
 * and those that it opened. Each direction of a pair has one connection, opened with the first
 * message and kept. A rank that waits for any reason also reads arriving data, so that no sender
 * waits for a busy receiver. The messages themselves: message.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/bootstrap/bootstrap_internal.h"

/* A peer's listener has ended if it refuses so many connections in a row. */
#define BOOTSTRAP_LOOK_TRIES    20
#define BOOTSTRAP_LOOK_PAUSE_NS 50000ull
#define BOOTSTRAP_LOOK_LEAST_NS 1000000ull

/* ---- incoming ------------------------------------------------------------------------------- */

struct bootstrap_in *bootstrap_in_of(const struct bootstrap *b, int peer)
{
	for (struct bootstrap_in *in = b->ins; in; in = in->next)
		if (in->rank == peer)
			return in;
	return NULL;
}

static void bootstrap_in_drop(struct bootstrap *b, struct bootstrap_in *in)
{
	struct bootstrap_in **at = &b->ins;
	while (*at != in)
		at = &(*at)->next;
	*at = in->next;
	sock_close(&in->fd);
	os_free(in->message);
	os_free(in);
}

static void bootstrap_in_garbage(struct bootstrap *b, struct bootstrap_in *in)
{
	if (!b->reported_garbage)
		WARN("rank %d: a connection that does not belong to this communicator was closed "
		     "(further ones are closed silently)",
		     b->rank);
	b->reported_garbage = true;
	bootstrap_in_drop(b, in);
}

/* Handles a complete hello and assigns the connection. True: messages follow. False: the connection
 * is freed. */
static bool bootstrap_in_greet(struct bootstrap *b, struct bootstrap_in *in)
{
	const struct bootstrap_hello *h = &in->hello;
	int32_t prev = (b->rank + b->nranks - 1) % b->nranks;
	bool known = h->magic == b->magic && h->nranks == b->nranks && h->rank >= 0 &&
		     h->rank < b->nranks;

	if (known && h->kind == BOOTSTRAP_RING && h->rank == prev && b->prev_fd < 0) {
		b->prev_fd = in->fd;
		in->fd = -1;
		bootstrap_in_drop(b, in);
	} else if (known && h->kind == BOOTSTRAP_PEER) {
		in->rank = h->rank;
		in->got = 0;
		b->opened[h->rank] = true;
		return true;
	} else if (known && h->kind == BOOTSTRAP_LOOK) {
		in->looks = true;
		in->got = 0;
		return true;
	} else {
		bootstrap_in_garbage(b, in);
	}
	return false;
}

static ncclResult_t bootstrap_in_head(struct bootstrap *b, struct bootstrap_in *in)
{
	const struct bootstrap_message_head *h = &in->head;
	if (h->rank != in->rank || h->bytes > BOOTSTRAP_MESSAGE_MAX) {
		WARN("rank %d: message of %" PRIu64 " bytes from rank %d on rank %d's connection",
		     b->rank, h->bytes, h->rank, in->rank);
		return ncclInternalError;
	}
	in->message = os_alloc(sizeof *in->message + h->bytes, "bootstrap message");
	if (!in->message) {
		WARN("rank %d: no memory for a message of %" PRIu64 " bytes", b->rank, h->bytes);
		return ncclSystemError;
	}
	in->message->head = *h;
	in->got = 0;
	return ncclSuccess;
}

static void bootstrap_in_message(struct bootstrap *b, struct bootstrap_in *in)
{
	*b->messages_end = in->message;
	b->messages_end = &in->message->next;
	b->fresh = true;
	in->message = NULL;
	in->got = 0;
}

/* Returns the place and number of the next bytes of this connection. */
static void *bootstrap_in_target(struct bootstrap_in *in, size_t *n)
{
	char *base = in->rank < 0  ? (char *)&in->hello
		     : in->message ? in->message->data
				   : (char *)&in->head;
	size_t all = in->rank < 0  ? sizeof in->hello
		     : in->message ? in->head.bytes
				   : sizeof in->head;
	*n = all - in->got;
	return base + in->got;
}

/* Reads all available bytes; may free the connection. */
static ncclResult_t bootstrap_in_step(struct bootstrap *b, struct bootstrap_in *in)
{
	struct sock_ctx ctx = {"bootstrap: message", b->rank, in->rank, b->abort};
	if (!os_socket_changed(in->fd, in->seq))
		return ncclSuccess;
	in->seq = sock_seq(in->fd);
	for (;;) {
		size_t n, done = 0;
		void *to = bootstrap_in_target(in, &n);
		/* Rare: heads arrive in pieces. */
		bool bytewise = n && OS_BUGGIFY("bootstrap.message_byte",
						"a message between ranks is read byte by byte");
		size_t most = bytewise ? 1 : n;
		int e = n ? os_recv(in->fd, to, most, &done) : 0;
		if (e == EAGAIN)
			return ncclSuccess;
		if (in->looks && (e || !done)) {
			bootstrap_in_drop(b, in);
			return ncclSuccess;
		}
		if (n && (e || !done)) {
			bool known = in->rank >= 0, between = !in->message && in->got == 0;
			/* A connection that has sent no hello may end, or be reset, without effect.
			 * But an error of this rank's own host may have lost a message, and its
			 * sender does not learn of that. */
			bool ours = !known && e && !sock_error_is_remote(e);
			if (known || ours)
				bootstrap_in_drop(b, in);
			else
				bootstrap_in_garbage(b, in);
			bool harmless = (!known && !ours) || (between && !e) || b->ringless;
			return harmless ? ncclSuccess : sock_error(e, &ctx);
		}
		in->got += done;
		if (done < n)
			continue;
		if (in->rank < 0) {
			if (!bootstrap_in_greet(b, in))
				return ncclSuccess;
			continue;
		}
		if (in->message) {
			bootstrap_in_message(b, in);
			continue;
		}
		ncclResult_t rc = bootstrap_in_head(b, in);
		if (rc)
			return rc;
	}
}

static ncclResult_t bootstrap_accept(struct bootstrap *b)
{
	if (!os_socket_changed(b->listen_fd, b->listen_seq))
		return ncclSuccess;
	for (;;) {
		struct os_addr from;
		int fd;
		b->listen_seq = sock_seq(b->listen_fd);
		int e = os_accept(b->listen_fd, &fd, &from);
		if (e == ECONNABORTED)
			b->listen_seq = BOOTSTRAP_NOT_LOOKED; /* another connection may follow */
		if (e == EAGAIN || e == ECONNABORTED)
			return ncclSuccess;
		if (e) {
			struct sock_ctx ctx = {"bootstrap: accepting", b->rank, b->rank, b->abort};
			return sock_error(e, &ctx);
		}
		struct bootstrap_in *in = os_alloc(sizeof *in, "bootstrap connection");
		if (!in) {
			WARN("rank %d: no memory for one more connection", b->rank);
			os_close(fd);
			return ncclSystemError;
		}
		*in = (struct bootstrap_in){
			.next = b->ins, .fd = fd, .rank = -1, .seq = BOOTSTRAP_NOT_LOOKED};
		b->ins = in;
	}
}

/* Checks connections that this rank opened. No data arrives on them, but a reset means that sent
 * data was lost. An orderly end means nothing here: a rank that leaves early shows in the ring. A
 * reset may follow such an end if data in transit was not read. */
static ncclResult_t bootstrap_outs_check(struct bootstrap *b)
{
	for (struct bootstrap_out *o = b->outs; o; o = o->next) {
		char byte;
		size_t done = 0;
		if (!os_socket_changed(o->fd, o->seq))
			continue;
		uint64_t seq = sock_seq(o->fd);
		int e = os_recv(o->fd, &byte, sizeof byte, &done);
		if (e == EAGAIN || !e)
			o->seq = seq;
		/* the ring shows whether the peer failed */
		if (e && e != EAGAIN && (o->posts || b->ringless)) {
			o->broken_off = true;
			o->seq = seq;
		} else if (e && e != EAGAIN) {
			struct sock_ctx ctx = {"bootstrap: messages sent", b->rank, o->rank,
					       b->abort};
			return sock_error(e, &ctx);
		}
	}
	return ncclSuccess;
}

ncclResult_t bootstrap_take(struct bootstrap *b)
{
	ncclResult_t rc = bootstrap_outs_check(b);
	struct bootstrap_in *next;
	if (!rc)
		rc = bootstrap_accept(b);
	for (struct bootstrap_in *in = b->ins; in && !rc; in = next) {
		next = in->next;
		rc = bootstrap_in_step(b, in);
	}
	return rc;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* Returns a wait for another rank of the process that has stopped watching its ring. */
static struct wait bootstrap_look_wait(struct bootstrap *b)
{
	struct wait w =
		wait_word(&b->kicks, 4, WAIT_NE, shared_load_u32(&b->kicks, SHARED_ACQUIRE),
			  "bootstrap: another rank of the process ends", wait_by(-1, -1, NULL));

	if (b->look(b->look_arg))
		w.deadline_ns = os_now_ns() + BOOTSTRAP_LOOK_NS;
	return w;
}

/* True if the caller watches the successor; it has then polled the predecessor too
 * (bootstrap_next_poll). */
static bool bootstrap_waits_for_ring(const struct bootstrap *b, const struct wait *more, int n)
{
	bool ring = false;

	for (int i = 0; b->settled && !b->ringless && b->next_fd >= 0 && i < n; i++)
		ring |= more[i].on == os_socket_object(b->next_fd);
	return ring;
}

static struct wait bootstrap_prev_wait(const struct bootstrap *b)
{
	int32_t prev = (b->rank + b->nranks - 1) % b->nranks;
	struct sock_ctx end = {"bootstrap: end of the predecessor", b->rank, prev, b->abort};

	return sock_wait(b->prev_fd, b->prev_seq, &end);
}

/* Adds waits for all data that bootstrap_take would read, and for the predecessor if `ring`. */
static ncclResult_t bootstrap_waits_add(struct bootstrap *b, struct os_waits *l, bool ring,
					const struct sock_ctx *ctx)
{
	int n = 1 + ring + (b->look != NULL);
	struct wait *w;

	for (const struct bootstrap_in *in = b->ins; in; in = in->next)
		n++;
	for (const struct bootstrap_out *o = b->outs; o; o = o->next)
		n++;
	w = os_waits_more(l, n, b->rank);
	if (!w) {
		WARN("rank %d: no memory to wait for %d connections", b->rank, n);
		return ncclSystemError;
	}
	*w++ = sock_wait(b->listen_fd, b->listen_seq, ctx);
	if (ring)
		*w++ = bootstrap_prev_wait(b);
	for (const struct bootstrap_in *in = b->ins; in; in = in->next) {
		struct sock_ctx from = *ctx;

		from.peer = in->rank >= 0 ? in->rank : ctx->peer;
		*w++ = sock_wait(in->fd, in->seq, &from);
	}
	for (const struct bootstrap_out *o = b->outs; o; o = o->next) {
		struct sock_ctx to = {"bootstrap: loss of a message", b->rank, o->rank, b->abort};

		*w++ = sock_wait(o->fd, o->seq, &to);
	}
	if (b->look)
		*w = bootstrap_look_wait(b);
	return ncclSuccess;
}

ncclResult_t bootstrap_wait(struct bootstrap *b, const struct wait *more, int n,
			    const struct sock_ctx *ctx)
{
	struct os_waits *l = &b->waits;
	struct wait *first = NULL;
	ncclResult_t rc;

	os_waits_clear(l);
	if (n)
		first = os_waits_more(l, n, b->rank);
	if (n && !first) {
		WARN("rank %d: no memory for %d waits", b->rank, n);
		return ncclSystemError;
	}
	if (n)
		memcpy(first, more, (size_t)n * sizeof *more);
	rc = bootstrap_waits_add(b, l, bootstrap_waits_for_ring(b, more, n), ctx);
	if (rc)
		return rc;
	(void)os_waits_abort(l, b->abort, b->rank); /* the first wait needs no memory */
	return os_waits_wait(l) == ECANCELED ? ncclInternalError : ncclSuccess;
}

ncclResult_t bootstrap_wait_beside(struct bootstrap *b, struct wait *w, int n)
{
	struct sock_ctx ctx = {"bootstrap: beside another wait", b->rank, (b->rank + 1) % b->nranks,
			       b->abort};
	uint64_t seq;
	ncclResult_t rc = bootstrap_next_poll(b, &seq);

	if (!rc)
		rc = bootstrap_take(b);
	if (rc)
		return rc;
	w[n] = sock_wait(b->next_fd, seq, &ctx);
	return bootstrap_wait(b, w, n + 1, &ctx);
}

ncclResult_t bootstrap_waits(struct bootstrap *b, struct os_waits *l)
{
	struct sock_ctx ctx = {"bootstrap: beside another wait", b->rank, (b->rank + 1) % b->nranks,
			       b->abort};
	uint64_t seq;
	ncclResult_t rc = bootstrap_next_poll(b, &seq);
	struct wait *next;

	if (!rc)
		rc = bootstrap_waits_add(b, l, b->settled, &ctx);
	if (rc)
		return rc;
	next = os_waits_more(l, 1, b->rank);
	if (next)
		*next = sock_wait(b->next_fd, seq, &ctx);
	if (next && os_waits_abort(l, b->abort, b->rank))
		return ncclSuccess;
	WARN("rank %d: no memory to wait for the other ranks", b->rank);
	return ncclSystemError;
}

/* ---- the end -------------------------------------------------------------------------------- */

void bootstrap_outs_close(struct bootstrap *b)
{
	while (b->outs) {
		struct bootstrap_out *o = b->outs;
		b->outs = o->next;
		sock_close(&o->fd);
		os_free(o);
	}
}

void bootstrap_looks_close(struct bootstrap *b)
{
	struct bootstrap_in *next;

	for (struct bootstrap_in *in = b->ins; in; in = next) {
		next = in->next;
		if (in->looks)
			bootstrap_in_drop(b, in);
	}
}

void bootstrap_peers_close(struct bootstrap *b)
{
	bootstrap_outs_close(b);
	while (b->ins)
		bootstrap_in_drop(b, b->ins);
	while (b->messages) {
		struct bootstrap_message *m = b->messages;
		b->messages = m->next;
		os_free(m);
	}
	b->messages_end = &b->messages;
}

/* Waits for the end of a peer without a message connection. When the peer leaves, these end: its
 * listener, connections that it has not accepted, and connections that exist only for this wait. */
int bootstrap_look_left(struct bootstrap *b, int peer, uint64_t deadline_ns)
{
	const struct bootstrap_hello hello = bootstrap_hello_of(b, BOOTSTRAP_LOOK);
	const struct sock_ctx ctx = {"bootstrap: a rank to leave", b->rank, peer, NULL};
	int e = ECONNREFUSED;

	/* a network may refuse single connections although the listener is there */
	for (int i = 0; i < BOOTSTRAP_LOOK_TRIES && e == ECONNREFUSED; i++) {
		if (i)
			os_sleep_ns(BOOTSTRAP_LOOK_PAUSE_NS);
		/* refusals may take until the deadline: each attempt has a least time */
		e = sock_tell_and_wait(&b->addresses[peer], &hello, sizeof hello, &ctx,
				       MAX_OF(deadline_ns, os_now_ns() + BOOTSTRAP_LOOK_LEAST_NS));
	}
	return !e || e == EPIPE || e == ECONNRESET || e == ECONNREFUSED ? 0 : ETIMEDOUT;
}

int bootstrap_wait_left(struct bootstrap *b, int peer, uint64_t deadline_ns)
{
	struct sock_ctx ctx = {"bootstrap: a rank to leave", b->rank, peer, NULL};
	struct bootstrap_in *in;

	if (!b->opened[peer])
		return bootstrap_look_left(b, peer, deadline_ns);
	/* Discards received data and waits for the end. */
	while ((in = bootstrap_in_of(b, peer))) {
		char byte[64];
		size_t done = 0;
		uint64_t seq = sock_seq(in->fd);
		int e = os_recv(in->fd, byte, sizeof byte, &done);

		if (e == EAGAIN) {
			struct wait w = sock_wait(in->fd, seq, &ctx);

			w.deadline_ns = deadline_ns;
			if (os_wait_one(&w, NULL) == ETIMEDOUT)
				return ETIMEDOUT;
		} else if (e || !done) {
			bootstrap_in_drop(b, in);
		}
	}
	return 0;
}
