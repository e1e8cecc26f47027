/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks, over the connections of peer.c. A message that arrives before its
 * receive is queued; a receive removes the first one of its sender and tag.
 */
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/bootstrap/bootstrap_internal.h"

/* Time between two looks at a peer whose end the ring does not show. */
#define BOOTSTRAP_ALONE_LOOK_NS 1000000000ull

/* ---- sending -------------------------------------------------------------------------------- */

static ncclResult_t bootstrap_out_get(struct bootstrap *b, int32_t peer, struct bootstrap_out **out)
{
	for (struct bootstrap_out *o = b->outs; o; o = o->next) {
		if (o->rank == peer) {
			*out = o;
			return ncclSuccess;
		}
	}
	struct bootstrap_out *o = os_alloc(sizeof *o, "bootstrap connection");
	if (!o) {
		WARN("rank %d: no memory for a connection to rank %d", b->rank, peer);
		return ncclSystemError;
	}
	ncclResult_t rc = bootstrap_connect(b, peer, &b->addresses[peer], BOOTSTRAP_PEER,
					    "bootstrap: connection for messages", &o->fd);
	if (rc) {
		os_free(o);
		return rc;
	}
	o->rank = peer;
	o->seq = BOOTSTRAP_NOT_LOOKED;
	o->next = b->outs;
	b->outs = o;
	*out = o;
	return ncclSuccess;
}

/* Sends all bytes. While the peer reads nothing, reads the data that arrives here. */
static ncclResult_t bootstrap_out_bytes(struct bootstrap *b, struct bootstrap_out *o,
					const void *data, size_t bytes)
{
	struct sock_ctx ctx = {"bootstrap: peer to take a message", b->rank, o->rank, b->abort};
	size_t at = 0;
	while (at < bytes) {
		size_t done = 0;
		/* Rare: messages for later receives arrive first, and must be queued. */
		bool take = OS_BUGGIFY("bootstrap.take_early",
				       "messages for later are taken first, and queued");
		ncclResult_t early = take ? bootstrap_take(b) : ncclSuccess;
		if (early)
			return early;
		uint64_t seq = sock_seq(o->fd);
		int e = os_send(o->fd, (const char *)data + at, bytes - at, &done);
		if (!e) {
			at += done;
			o->broken_off = true; /* reset when the message is complete */
			continue;
		}
		if (e != EAGAIN)
			return sock_error(e, &ctx);
		ncclResult_t rc = bootstrap_take(b);
		struct wait w = sock_wait(o->fd, seq, &ctx);
		if (!rc)
			rc = bootstrap_wait(b, &w, 1, &ctx);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static ncclResult_t bootstrap_out_send(struct bootstrap *b, struct bootstrap_out *o,
				       const struct bootstrap_message *m)
{
	ncclResult_t rc;

	if (o->broken_off) {
		WARN("rank %d: an earlier message to rank %d was sent only in part, and no other "
		     "can follow",
		     b->rank, o->rank);
		return bootstrap_rank_left(b, o->rank) ? ncclRemoteError : ncclSystemError;
	}
	rc = bootstrap_out_bytes(b, o, &m->head, sizeof m->head + m->head.bytes);
	if (!rc)
		o->broken_off = false;
	return rc;
}

/* Queues a message of a rank to itself. */
static void bootstrap_send_self(struct bootstrap *b, struct bootstrap_message *m)
{
	*b->messages_end = m;
	b->messages_end = &m->next;
	b->fresh = true;
}

static ncclResult_t bootstrap_send_to(struct bootstrap *b, int peer,
				      const struct bootstrap_message *m, bool posts)
{
	struct bootstrap_out *o = NULL;
	ncclResult_t rc = bootstrap_out_get(b, peer, &o);

	if (rc)
		return rc;
	o->posts = o->posts || posts;
	return bootstrap_out_send(b, o, m);
}

static ncclResult_t bootstrap_message_send(struct bootstrap *b, int peer, int tag, const void *data,
					   size_t bytes, bool posts)
{
	struct bootstrap_message *m = os_alloc(sizeof *m + bytes, "bootstrap message");
	ncclResult_t rc;

	ASSERT(peer >= 0 && peer < b->nranks && bytes <= BOOTSTRAP_MESSAGE_MAX);
	if (!m) {
		WARN("rank %d: no memory for a message of %zu bytes", b->rank, bytes);
		return ncclSystemError;
	}
	m->head = (struct bootstrap_message_head){.bytes = bytes, .tag = tag, .rank = b->rank};
	memcpy(m->data, data, bytes);
	if (peer == b->rank) {
		bootstrap_send_self(b, m);
		return ncclSuccess;
	}
	rc = bootstrap_send_to(b, peer, m, posts);
	os_free(m);
	return rc;
}

ncclResult_t bootstrap_send(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes)
{
	return bootstrap_message_send(b, peer, tag, data, bytes, false);
}

ncclResult_t bootstrap_post(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes)
{
	return bootstrap_message_send(b, peer, tag, data, bytes, true);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Removes *at from the queue. */
static struct bootstrap_message *bootstrap_queue_cut(struct bootstrap *b,
						     struct bootstrap_message **at)
{
	struct bootstrap_message *m = *at;

	OS_PROBE("bootstrap.message_overtakes", "a message is taken before one that came earlier",
		 at != &b->messages);
	*at = m->next;
	if (b->messages_end == &m->next)
		b->messages_end = at;
	return m;
}

/* Removes and returns the first queued message from (peer, tag); NULL if the queue has no such
 * message. */
static struct bootstrap_message *bootstrap_queue_take(struct bootstrap *b, int peer, int tag)
{
	for (struct bootstrap_message **at = &b->messages; *at; at = &(*at)->next)
		if ((*at)->head.rank == peer && (*at)->head.tag == tag)
			return bootstrap_queue_cut(b, at);
	return NULL;
}

/* Returns a wait for the peer's next bytes, or for its connection. */
static struct wait bootstrap_peer_wait(const struct bootstrap *b, int peer,
				       const struct sock_ctx *ctx)
{
	const struct bootstrap_in *in = bootstrap_in_of(b, peer);

	if (in)
		return sock_wait(in->fd, in->seq, ctx);
	return sock_wait(b->listen_fd, b->listen_seq, ctx);
}

/* Waits until data arrives that may be the message; the caller then checks the queue again. A peer
 * that opened a connection shows its end there. The ring is watched in any case, for two reasons. A
 * peer without a connection may have left, and one with a connection may itself wait for a rank
 * that has left. A failure travels around the ring, so this rank must forward it. */
ncclResult_t bootstrap_recv_wait(struct bootstrap *b, int peer, const struct sock_ctx *ctx,
				 uint64_t deadline_ns)
{
	struct sock_ctx next = *ctx;
	uint64_t seq;

	ASSERT(peer != b->rank);
	OS_PROBE("bootstrap.peer_hung_up", "a rank waits for a message of a rank that has left",
		 b->opened[peer] && !bootstrap_in_of(b, peer));
	if (b->opened[peer] && !bootstrap_in_of(b, peer))
		return sock_error(0, ctx);
	ncclResult_t rc = bootstrap_next_poll(b, &seq);
	if (rc)
		return rc;
	next.peer = (b->rank + 1) % b->nranks;
	next.why = "bootstrap: end of the successor";
	/* The important wait is first, where a reader expects it. */
	struct wait w[2] = {bootstrap_peer_wait(b, peer, ctx)};
	if (!b->ringless)
		w[1] = sock_wait(b->next_fd, seq, &next);
	w[0].deadline_ns = deadline_ns;
	return bootstrap_wait(b, w, b->ringless ? 1 : 2, ctx);
}

/* Waits without the ring, which would show that the peer has left. */
static ncclResult_t bootstrap_recv_wait_alone(struct bootstrap *b, int peer,
					      const struct sock_ctx *ctx)
{
	uint64_t until_ns = os_now_ns() + BOOTSTRAP_ALONE_LOOK_NS;
	ncclResult_t rc = bootstrap_recv_wait(b, peer, ctx, until_ns);

	if (rc || os_now_ns() < until_ns)
		return rc;
	return bootstrap_rank_left(b, peer) ? sock_error(0, ctx) : ncclSuccess;
}

/* Waits for the message and removes it from the queue. */
static ncclResult_t bootstrap_message_wait(struct bootstrap *b, int peer, int tag,
					   const struct sock_ctx *ctx, struct bootstrap_message **m)
{
	while (!(*m = bootstrap_queue_take(b, peer, tag))) {
		ncclResult_t rc = bootstrap_take(b);

		if (!rc && (*m = bootstrap_queue_take(b, peer, tag)))
			break;
		if (!rc && b->ringless)
			rc = bootstrap_recv_wait_alone(b, peer, ctx);
		else if (!rc)
			rc = bootstrap_recv_wait(b, peer, ctx, 0);
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

static ncclResult_t bootstrap_message_give(struct bootstrap *b, struct bootstrap_message *m,
					   void *data, size_t bytes)
{
	ncclResult_t rc = ncclSuccess;

	if (m->head.bytes == bytes) {
		memcpy(data, m->data, bytes);
	} else if (!m->head.bytes) {
		WARN("rank %d: rank %d failed before it could send its part", b->rank,
		     m->head.rank);
		rc = ncclRemoteError;
	} else {
		WARN("rank %d expects %zu bytes from rank %d under tag 0x%x, which sent %" PRIu64,
		     b->rank, bytes, m->head.rank, m->head.tag, m->head.bytes);
		rc = ncclInternalError;
	}
	os_free(m);
	return rc;
}

ncclResult_t bootstrap_recv(struct bootstrap *b, int peer, int tag, void *data, size_t bytes)
{
	struct sock_ctx ctx = {"bootstrap: message from a rank", b->rank, peer, b->abort};
	struct bootstrap_message *m;
	ncclResult_t rc;

	ASSERT(peer >= 0 && peer < b->nranks);
	rc = bootstrap_message_wait(b, peer, tag, &ctx, &m);
	return rc ? rc : bootstrap_message_give(b, m, data, bytes);
}

ncclResult_t bootstrap_try(struct bootstrap *b, int peer, int tag, void *data, size_t bytes,
			   bool *got)
{
	ncclResult_t rc = bootstrap_take(b);
	struct bootstrap_message *m = rc ? NULL : bootstrap_queue_take(b, peer, tag);

	*got = m != NULL;
	return m ? bootstrap_message_give(b, m, data, bytes) : rc;
}

/* ---- rows of all ranks ----------------------------------------------------------------------- */

/* An empty message reports that the rows are not complete. */
static ncclResult_t bootstrap_rows_collect(struct bootstrap *b, int tag, char *rows, size_t bytes)
{
	const size_t all = (size_t)b->nranks * bytes;
	ncclResult_t rc = ncclSuccess, sent = ncclSuccess;

	ASSERT(b->rank == 0);
	for (int32_t r = 1; r < b->nranks && !rc; r++)
		rc = bootstrap_recv(b, r, tag, rows + (size_t)r * bytes, bytes);
	for (int32_t r = 1; r < b->nranks; r++) {
		ncclResult_t one = bootstrap_send(b, r, tag + 1, rows, rc ? 0 : all);

		sent = sent ? sent : one;
	}
	return rc ? rc : sent;
}

ncclResult_t bootstrap_rows(struct bootstrap *b, int tag, void *rows, size_t bytes)
{
	char *own = (char *)rows + (size_t)b->rank * bytes;
	ncclResult_t rc;

	if (b->rank == 0)
		return bootstrap_rows_collect(b, tag, rows, bytes);
	rc = bootstrap_send(b, 0, tag, own, bytes);
	return rc ? rc : bootstrap_recv(b, 0, tag + 1, rows, (size_t)b->nranks * bytes);
}

/* ---- several messages together --------------------------------------------------------------- */

static void bootstrap_queue_show(struct bootstrap *b,
				 bool (*take)(void *arg, const struct bootstrap_came *m), void *arg)
{
	struct bootstrap_message **at = &b->messages;

	b->fresh = false;
	while (*at) {
		const struct bootstrap_message *m = *at;

		if (take(arg, &(struct bootstrap_came){m->head.rank, m->head.tag, m->head.bytes,
						       m->data}))
			os_free(bootstrap_queue_cut(b, at));
		else
			at = &(*at)->next;
	}
}

ncclResult_t bootstrap_offer(struct bootstrap *b,
			     bool (*take)(void *arg, const struct bootstrap_came *m), void *arg)
{
	ncclResult_t rc =
		shared_load_u32(b->abort, SHARED_ACQUIRE) ? ncclInternalError : bootstrap_take(b);

	bootstrap_queue_show(b, take, arg);
	return rc;
}

bool bootstrap_is_fresh(const struct bootstrap *b)
{
	return b->fresh;
}

ncclResult_t bootstrap_expect(struct bootstrap *b, int peer, const char *why, struct wait *w)
{
	const struct sock_ctx ctx = {why, b->rank, peer, b->abort};

	if (b->opened[peer] && !bootstrap_in_of(b, peer))
		return sock_error(0, &ctx);
	*w = bootstrap_peer_wait(b, peer, &ctx);
	return ncclSuccess;
}
