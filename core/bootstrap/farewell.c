/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbours in the ring after the last all-gather: propagation of failures around the ring,
 * and the orderly end of a rank.
 *
 * A rank with nothing in progress sends both neighbours a farewell. It stays in the ring and
 * forwards failures while ranks of its host are in the communicator. Then its connections end; a
 * neighbour with the farewell does not treat this as a failure. A rank does not wait for ranks of
 * other hosts. Failures travel in both directions around the ring. They thus reach all remaining
 * ranks on either side of the ranks that have ended. A rank whose two neighbours have ended learns
 * of failures beyond them only by its own transports, or by the deadline.
 */
#include <errno.h>

#include "core/base/log.h"
#include "core/bootstrap/bootstrap_internal.h"

#define BOOTSTRAP_TAG_MEET        0x70b00000
#define BOOTSTRAP_TAG_MET         0x70c00000
#define BOOTSTRAP_MEET_CONNECT_NS 1000000000ull
#define BOOTSTRAP_MEET_LOOK_NS    100000000ull
#define BOOTSTRAP_MEET_ANSWER_NS  3000000000ull
#define BOOTSTRAP_LEFT_LOOK_NS    1000000ull
#define BOOTSTRAP_FAREWELL_NS     10000000ull

/* ---- the neighbours ------------------------------------------------------------------------- */

/* Handles a complete farewell. */
static ncclResult_t bootstrap_farewell(const struct bootstrap *b, struct bootstrap_neighbour *n,
				       int32_t rank)
{
	const struct bootstrap_farewell *f = &n->farewell;
	bool known = f->rank == rank && (f->kind == BOOTSTRAP_ENDS || f->kind == BOOTSTRAP_FAILED);

	n->got = 0;
	if (known && f->kind == BOOTSTRAP_ENDS) {
		n->ends = true;
		n->ops = f->ops;
		return ncclSuccess;
	}
	n->failed = true;
	if (known)
		WARN("rank %d: rank %d reports that another rank failed", b->rank, rank);
	else
		WARN("rank %d: invalid farewell from rank %d: kind 0x%x, rank %d", b->rank, rank,
		     f->kind, f->rank);
	return ncclRemoteError;
}

/* Polls a neighbour. Outside all-gathers a neighbour sends only its end: announced by a farewell,
 * or a failure. An end that is a failure is reported again at every poll. */
static ncclResult_t bootstrap_neighbour_poll(struct bootstrap *b, struct bootstrap_neighbour *n,
					     int32_t rank, int fd, uint64_t *looked)
{
	struct sock_ctx ctx = bootstrap_ctx(b, rank, "bootstrap: it failed, or was aborted");
	uint64_t seq = sock_seq(fd);
	ncclResult_t rc = n->failed ? ncclRemoteError : ncclSuccess;

	if (n->gone)
		*looked = seq; /* the connection has ended: no later event matters */
	if (n->gone || !os_socket_changed(fd, *looked))
		return rc;
	while (!rc) {
		size_t done = 0;
		int e = os_recv(fd, (char *)&n->farewell + n->got, sizeof n->farewell - n->got,
				&done);

		n->gone = e != EAGAIN && (e || !done) && n->ends;
		if (e == EAGAIN || n->gone) {
			*looked = seq;
			return ncclSuccess;
		}
		if (e || !done)
			return sock_error(e, &ctx);
		n->got += done;
		if (n->got == sizeof n->farewell)
			rc = bootstrap_farewell(b, n, rank);
	}
	return rc;
}

ncclResult_t bootstrap_next_poll(struct bootstrap *b, uint64_t *seq)
{
	int32_t next = (b->rank + 1) % b->nranks, prev = (b->rank + b->nranks - 1) % b->nranks;
	ncclResult_t rc;

	*seq = b->next_fd >= 0 ? sock_seq(b->next_fd) : 0;
	if (b->ringless)
		return ncclSuccess;
	if (b->settled && b->next_fd < 0)
		return ncclRemoteError; /* broken and reported earlier */
	rc = bootstrap_neighbour_poll(b, &b->next, next, b->next_fd, &b->next_seq);
	if (!rc && b->settled)
		rc = bootstrap_neighbour_poll(b, &b->prev, prev, b->prev_fd, &b->prev_seq);
	return rc;
}

void bootstrap_settle(struct bootstrap *b)
{
	ASSERT(b->nranks == 1 || (b->next_fd >= 0 && b->prev_fd >= 0));
	b->settled = b->nranks > 1;
	b->prev_seq = BOOTSTRAP_NOT_LOOKED;
}

/* A neighbour's end without a farewell reports a failure. Each rank that sees the failure breaks
 * its own connections of the ring, so the failure travels in both directions. It reaches ranks
 * beyond those that have ended in order from the other side. */
ncclResult_t bootstrap_watch(struct bootstrap *b)
{
	uint64_t seq[2], now_ns = os_now_ns();

	if (b->nranks == 1)
		return ncclSuccess;
	if (b->next_fd < 0)
		return ncclRemoteError; /* broken and reported earlier */
	seq[0] = sock_seq(b->next_fd);
	seq[1] = sock_seq(b->prev_fd);
	if (seq[0] == b->watch_seq[0] && seq[1] == b->watch_seq[1] &&
	    now_ns - b->watched_ns < BOOTSTRAP_LOOK_NS)
		return ncclSuccess;
	b->watched_ns = now_ns;
	b->watch_seq[0] = seq[0];
	b->watch_seq[1] = seq[1];
	return bootstrap_next_poll(b, &seq[0]);
}

/* ---- the farewell --------------------------------------------------------------------------- */

/* Sends a farewell, best effort: a neighbour that has closed needs none. It fits into the socket's
 * buffer, but a signal may interrupt the call. The neighbour would then treat the orderly end as a
 * failure. The call is therefore repeated until a deadline. WAITS. */
static void bootstrap_farewell_send(const struct bootstrap *b, int fd,
				    enum bootstrap_farewell_kind kind, uint64_t ops)
{
	const struct bootstrap_farewell f = {.kind = kind, .rank = b->rank, .ops = ops};
	int32_t step = fd == b->next_fd ? 1 : b->nranks - 1;
	struct sock_ctx ctx = bootstrap_ctx(b, (b->rank + step) % b->nranks,
					    "bootstrap: room for a farewell to the neighbour");
	size_t sent = 0, done = 0;
	int e = fd >= 0 ? 0 : EBADF;

	for (; !e && sent < sizeof f; sent += done) {
		done = 0;
		e = os_send(fd, (const char *)&f + sent, sizeof f - sent, &done);
	}
	if (e == EAGAIN)
		(void)sock_send_until(fd, (const char *)&f + sent, sizeof f - sent, &ctx,
				      os_now_ns() + BOOTSTRAP_FAREWELL_NS);
}

void bootstrap_ring_break(struct bootstrap *b)
{
	/* Otherwise the end alone reports a failure. After an init that ends on all ranks together
	 * it reports nothing. */
	if (b->parted && b->settled) {
		bootstrap_farewell_send(b, b->next_fd, BOOTSTRAP_FAILED, 0);
		bootstrap_farewell_send(b, b->prev_fd, BOOTSTRAP_FAILED, 0);
	}
	sock_close(&b->next_fd);
	sock_close(&b->prev_fd);
}

void bootstrap_ring_forget(struct bootstrap *b)
{
	b->ringless = true;
}

void bootstrap_part(struct bootstrap *b, uint64_t ops)
{
	bootstrap_farewell_send(b, b->prev_fd, BOOTSTRAP_ENDS, ops);
	bootstrap_farewell_send(b, b->next_fd, BOOTSTRAP_ENDS, ops);
	b->parted = true;
}

bool bootstrap_ended_before(const struct bootstrap *b, uint64_t ops, int32_t *rank, uint64_t *after)
{
	if (b->next.ends && b->next.ops < ops) {
		*rank = (b->rank + 1) % b->nranks;
		*after = b->next.ops;
		return true;
	}
	if (b->prev.ends && b->prev.ops < ops) {
		*rank = (b->rank + b->nranks - 1) % b->nranks;
		*after = b->prev.ops;
		return true;
	}
	return false;
}

/* ---- the ranks of a host --------------------------------------------------------------------- */

/* True if the peer has closed a connection between it and this rank. */
static bool bootstrap_has_left(const struct bootstrap *b, int32_t peer)
{
	if (b->opened[peer] && !bootstrap_in_of(b, peer))
		return true;
	if ((peer == (b->rank + 1) % b->nranks && b->next.gone) ||
	    (b->rank == (peer + 1) % b->nranks && b->prev.gone))
		return true;
	for (const struct bootstrap_out *o = b->outs; o; o = o->next) {
		char byte;
		size_t done = 0;

		if (o->rank != peer)
			continue;
		int e = os_recv(o->fd, &byte, sizeof byte, &done);
		return o->broken_off || (e != EAGAIN && (e || !done));
	}
	return false;
}

bool bootstrap_rank_left(struct bootstrap *b, int32_t rank)
{
	/* without the ring, an end of a connection does not mean that */
	return (!b->ringless && bootstrap_has_left(b, rank)) ||
	       !bootstrap_look_left(b, rank, os_now_ns() + BOOTSTRAP_LEFT_LOOK_NS);
}

/* Waits for the peer's message, or its end. A rank that has left in order has received everything
 * that it waited for. */
static ncclResult_t bootstrap_meet_one(struct bootstrap *b, int32_t peer, int tag,
				       uint64_t deadline_ns, bool *left)
{
	struct sock_ctx ctx = {"bootstrap: a rank of this host to end the communicator", b->rank,
			       peer, b->abort};
	bool got = false;

	for (*left = false;;) {
		uint32_t word;
		ncclResult_t rc = bootstrap_try(b, peer, tag, &word, sizeof word, &got);

		if (rc || got)
			return rc;
		*left = bootstrap_has_left(b, peer);
		if (*left)
			return ncclSuccess;
		if (deadline_ns && os_now_ns() >= deadline_ns) {
			/* a failed connection may have hidden the peer's end, or its message */
			*left = !bootstrap_look_left(b, peer, os_now_ns() + BOOTSTRAP_MEET_LOOK_NS);
			return *left ? ncclSuccess : ncclInProgress;
		}
		rc = bootstrap_recv_wait(b, peer, &ctx, deadline_ns);
		if (rc)
			return rc;
	}
}

/* Sends a message to a peer that may have left; this is not a failure. */
static ncclResult_t bootstrap_meet_post(struct bootstrap *b, int32_t peer, int tag, bool *left)
{
	uint32_t word = 1;
	ncclResult_t rc;

	*left = bootstrap_has_left(b, peer);
	if (*left)
		return ncclSuccess;
	b->connect_until_ns = os_now_ns() + BOOTSTRAP_MEET_CONNECT_NS;
	rc = bootstrap_post(b, peer, tag, &word, sizeof word);
	b->connect_until_ns = 0;
	*left = rc == ncclInProgress; /* the peer refuses connections */
	return *left ? ncclSuccess : rc;
}

static ncclResult_t bootstrap_meet_first(struct bootstrap *b, const int32_t *ranks, int32_t n,
					 uint64_t deadline_ns)
{
	ncclResult_t rc = ncclSuccess;
	bool left;

	for (; b->met < n - 1 && !rc; b->met += !rc)
		rc = bootstrap_meet_one(b, ranks[b->met + 1], BOOTSTRAP_TAG_MEET, deadline_ns,
					&left);
	for (int32_t i = 1; i < n && !rc; i++)
		rc = bootstrap_meet_post(b, ranks[i], BOOTSTRAP_TAG_MET, &left);
	return rc;
}

/* The first rank gathers and answers. The other ranks wait longer for the answer than the first
 * rank waits for them. If it has left, it has received all messages. */
ncclResult_t bootstrap_meet(struct bootstrap *b, const int32_t *ranks, int32_t n,
			    uint64_t deadline_ns)
{
	ncclResult_t rc = ncclSuccess;
	bool left = false;

	if (b->rank == ranks[0])
		return bootstrap_meet_first(b, ranks, n, deadline_ns);
	if (!b->met)
		rc = bootstrap_meet_post(b, ranks[0], BOOTSTRAP_TAG_MEET, &left);
	b->met += !rc;
	if (deadline_ns)
		deadline_ns += BOOTSTRAP_MEET_ANSWER_NS;
	return rc || left ? rc
			  : bootstrap_meet_one(b, ranks[0], BOOTSTRAP_TAG_MET, deadline_ns, &left);
}
