/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gather and barrier over the ring. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/bootstrap/bootstrap_internal.h"

/* Bytes of a piece of a long stream, and the length of the longest short one. */
enum { RING_GATHER_PIECE = 16 << 10, RING_GATHER_SHORT = RING_GATHER_PIECE };

/*
 * State of an all-gather. Two passes around the ring: in the first, each rank adds its block to
 * those of the ranks before it, from rank 0 on; in the second, each rank gets the blocks of the
 * ranks after it. Each rank sends few, long messages: a ring in which all ranks send
 * simultaneously needs as many messages from each rank as there are ranks.
 *
 * A link of the ring carries one stream: a head, then the blocks of all ranks but its receiver, in
 * the order of the ranks. Bytes of a short stream are forwarded as soon as those before them are.
 * In a long stream a rank collects a piece before it forwards. Otherwise each rank forwards each
 * fragment that it receives, the network cuts fragments again, and thousands of ranks wake for a
 * few bytes each.
 */
struct ring_gather {
	char *all;
	size_t bytes; /* size of a block */
	size_t end;   /* position after the last byte of the stream */
	/* Name of the value in the heads' `bytes` field; NULL: the field holds bytes. */
	const char *agree;
	size_t sent, got; /* positions */
	struct bootstrap_gather_head head_out, head_in;
};

/* Returns the memory of position `at` in the stream to rank `to`. *n: its contiguous bytes. */
static char *ring_gather_at(struct ring_gather *g, struct bootstrap_gather_head *head, int32_t to,
			    size_t at, size_t *n)
{
	if (at < sizeof *head) {
		*n = sizeof *head - at;
		return (char *)head + at;
	}
	size_t p = at - sizeof *head, before = (size_t)to * g->bytes;

	*n = (p < before ? before : g->end - sizeof *head) - p;
	return g->all + p + (p < before ? 0 : g->bytes);
}

/* Returns the position up to which this rank can send: what it has received, and its own block when
 * it has those of all ranks before. */
static size_t ring_gather_limit(const struct bootstrap *b, const struct ring_gather *g)
{
	const size_t head = sizeof g->head_out;

	if (b->rank != 0 && g->got < head)
		return 0;
	size_t got = g->got > head ? g->got - head : 0, before = (size_t)b->rank * g->bytes;

	if (b->rank == b->nranks - 1) /* to rank 0, without rank 0's block */
		got = g->got == g->end ? got : got - MIN_OF(got, g->bytes);
	else if (got >= before)
		got = MAX_OF(got, before + g->bytes);
	return MIN_OF(head + got, g->end);
}

/* True if the rank forwards now what it can send up to `limit`. It does not wait for a piece if no
 * more can come before these bytes have gone round: they end with its own block, or with the
 * stream. */
static bool ring_gather_ready(const struct bootstrap *b, const struct ring_gather *g, size_t limit)
{
	size_t own_end = sizeof g->head_out + ((size_t)b->rank + 1) * g->bytes;

	return g->end <= RING_GATHER_SHORT || limit - g->sent >= RING_GATHER_PIECE ||
	       limit == own_end || limit == g->end;
}

static ncclResult_t ring_gather_head_check(const struct bootstrap *b, const struct ring_gather *g)
{
	int32_t prev = (b->rank + b->nranks - 1) % b->nranks;
	bool same = g->head_in.seq == b->gathers && g->head_in.rank == prev;

	if (same && g->head_in.bytes == g->head_out.bytes)
		return ncclSuccess;
	if (same && g->agree) {
		WARN("ranks %d and %d have different %s, expected the same on all ranks", prev,
		     b->rank, g->agree);
		return ncclInvalidUsage;
	}
	WARN("bootstrap all-gather %u of %zu bytes on rank %d meets all-gather %u of %" PRIu64
	     " bytes from rank %d",
	     b->gathers, g->bytes, b->rank, g->head_in.seq, g->head_in.bytes, g->head_in.rank);
	return ncclInternalError;
}

/* Sends what it has and has not sent. */
static int ring_gather_send(struct bootstrap *b, struct ring_gather *g, bool *moved)
{
	const int32_t next = (b->rank + 1) % b->nranks;
	size_t limit = ring_gather_limit(b, g);

	if (g->sent == limit || !ring_gather_ready(b, g, limit))
		return 0;
	while (g->sent < limit) {
		size_t n, done = 0;
		char *from = ring_gather_at(g, &g->head_out, next, g->sent, &n);
		n = MIN_OF(n, limit - g->sent);
		if (OS_BUGGIFY("bootstrap.gather_odd",
			       "an all-gather's blocks are cut in odd "
			       "places")) /* Rare: pieces that split heads and blocks. */
			n = DIV_UP(n, 3);
		int e = os_send(b->next_fd, from, n, &done);
		if (e)
			return e;
		g->sent += done;
		*moved = true;
	}
	return 0;
}

static int ring_gather_recv(struct bootstrap *b, struct ring_gather *g, bool *moved)
{
	while (g->got < g->end) {
		size_t n, done = 0;
		char *to = ring_gather_at(g, &g->head_in, b->rank, g->got, &n);
		int e = os_recv(b->prev_fd, to, n, &done);
		if (e)
			return e;
		if (!done)
			return ECONNRESET;
		*moved = true;
		os_progress();
		g->got += done;
		if (g->got == sizeof g->head_in)
			return 0; /* the caller checks the head */
	}
	return 0;
}

/*
 * Makes one pass, as far as possible without waiting. *w and *n are the waits if nothing moved.
 *
 * A rank that fails closes its connections, and the failure travels in both directions around the
 * ring. From the predecessor it is the end of the bytes, from the successor an unannounced end. A
 * successor that has all bytes may continue and end in order while this rank still waits.
 */
static ncclResult_t ring_gather_step(struct bootstrap *b, struct ring_gather *g, struct wait w[2],
				     int *n, bool *moved)
{
	struct sock_ctx to = bootstrap_ctx(b, (b->rank + 1) % b->nranks,
					   "bootstrap all-gather: successor to take bytes");
	struct sock_ctx from = bootstrap_ctx(b, (b->rank + b->nranks - 1) % b->nranks,
					     "bootstrap all-gather: bytes from the predecessor");
	uint64_t seq_from = sock_seq(b->prev_fd), seq_to = sock_seq(b->next_fd);
	size_t got = g->got;

	*n = 0;
	int e = os_socket_changed(b->prev_fd, b->prev_seq) ? ring_gather_recv(b, g, moved) : EAGAIN;
	if (e && e != EAGAIN)
		return sock_error(e == ECONNRESET ? 0 : e, &from);
	if (e == EAGAIN) {
		b->prev_seq = seq_from;
		w[(*n)++] = sock_wait(b->prev_fd, seq_from, &from);
	}
	if (got < sizeof g->head_in && g->got >= sizeof g->head_in) {
		ncclResult_t rc = ring_gather_head_check(b, g);
		if (rc)
			return rc;
	}
	e = ring_gather_send(b, g, moved);
	if (e && e != EAGAIN)
		return sock_error(e, &to);
	if (!e)
		to.why = "bootstrap: successor's end";
	w[(*n)++] = sock_wait(b->next_fd, seq_to, &to);
	return *moved ? ncclSuccess : bootstrap_next_poll(b, &seq_to);
}

static ncclResult_t ring_gather_run(struct bootstrap *b, struct ring_gather *g)
{
	struct sock_ctx ctx =
		bootstrap_ctx(b, (b->rank + b->nranks - 1) % b->nranks, "bootstrap all-gather");
	while (g->sent < g->end || g->got < g->end) {
		struct wait w[2];
		bool moved = false;
		int n;
		ncclResult_t rc = ring_gather_step(b, g, w, &n, &moved);
		if (!rc && !moved) {
			rc = bootstrap_take(b);
			if (!rc)
				rc = bootstrap_wait(b, w, n, &ctx);
		}
		if (rc)
			return rc;
	}
	return ncclSuccess;
}

ncclResult_t bootstrap_all_gather(struct bootstrap *b, void *all, size_t bytes)
{
	if (b->nranks == 1 || !bytes)
		return ncclSuccess;
	ASSERT(b->next_fd >= 0 && b->prev_fd >= 0);
	struct ring_gather g = {
		.all = all,
		.bytes = bytes,
		.end = sizeof g.head_out + (size_t)(b->nranks - 1) * bytes,
		.head_out = {.bytes = bytes, .seq = b->gathers, .rank = b->rank},
	};
	ncclResult_t rc = ring_gather_run(b, &g);
	if (!rc)
		b->gathers++;
	return rc;
}

/* Passes one head around the ring. Rank 0's head returns to it when every rank has forwarded one.
 * Each rank compares the value with its predecessor's, so that all values are equal. */
static ncclResult_t ring_pass(struct bootstrap *b, uint64_t value, const char *agree)
{
	struct ring_gather g = {
		.end = sizeof g.head_out,
		.agree = agree,
		.head_out = {.bytes = value, .seq = b->gathers, .rank = b->rank},
	};
	ncclResult_t rc = ring_gather_run(b, &g);
	if (!rc)
		b->gathers++;
	return rc;
}

/* The first pass ends at rank 0 when all ranks have entered; the second one reports this to all. */
ncclResult_t bootstrap_agree(struct bootstrap *b, uint64_t value, const char *what)
{
	if (b->nranks == 1)
		return ncclSuccess;
	ASSERT(b->next_fd >= 0 && b->prev_fd >= 0 && b->gathers > 0);
	ncclResult_t rc = ring_pass(b, value, what);
	return rc ? rc : ring_pass(b, value, what);
}

ncclResult_t bootstrap_barrier(struct bootstrap *b)
{
	return bootstrap_agree(b, 0, NULL);
}
