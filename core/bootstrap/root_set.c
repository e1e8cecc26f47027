/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The roots of a communicator with several unique ids. Each serves a block of consecutive ranks,
 * and knows no other rank. They form a ring, so that the ring of the ranks closes:
 *
 *	root k - 1 <--hello(ROOT), answer(SUCCESSOR): first rank of root k-- root k
 *
 * A root opens its connection when its first rank arrives, because that rank brings the address of
 * the root before. Either end reports a failure by an answer, which the other end passes on to its
 * ranks and to its other neighbour. A connection that ends earlier is a failure, too.
 *
 * Each root stays until all ranks have checked in, as a single one does. COMPLETE goes round once:
 * root 0 sends it, and each root passes it on when its ranks are answered. Then END goes round, and
 * each root ends.
 */
#include <errno.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/bootstrap/root_internal.h"

/* ---- the ranks ------------------------------------------------------------------------------ */

bool bootstrap_root_ranks_set(struct bootstrap_root *r, const struct root_conn *c)
{
	const int32_t nranks = c->hello.nranks, nroots = c->set.nroots, root = c->set.root;
	struct root_conn **by_rank;
	int32_t first, count;

	/* A rank that has failed by a wrong number of ids has sent none. */
	if (r->by_rank && (!r->failed || r->set.nroots || !nroots))
		return true;
	first = nroots ? bootstrap_block_first(root, nroots, nranks) : 0;
	count = nroots ? bootstrap_block_first(root + 1, nroots, nranks) - first : nranks;
	by_rank = os_alloc((size_t)count * sizeof *by_rank, "bootstrap root's ranks");
	if (!by_rank) {
		WARN("root: no memory for %d ranks", count);
		return false;
	}
	os_free(r->by_rank);
	r->by_rank = by_rank;
	r->nranks = nranks;
	r->first = first;
	r->count = count;
	r->arrived = 0;
	r->set = c->set;
	return true;
}

bool bootstrap_root_set_is_same(const struct bootstrap_root *r, const struct bootstrap_set *set)
{
	return r->set.nroots == set->nroots && r->set.root == set->root && r->set.hash == set->hash;
}

bool bootstrap_root_set_is_valid(const struct bootstrap_root *r, const struct root_conn *c)
{
	const struct bootstrap_set *s = &c->set;
	const struct bootstrap_hello *h = &c->hello;

	ASSERT(h->magic == r->magic);
	return !h->has_set ||
	       (s->nroots > 1 && s->nroots <= h->nranks && s->root >= 0 && s->root < s->nroots &&
		(s->before.family == 4 || s->before.family == 6) && s->before.port &&
		bootstrap_block_of(h->rank, s->nroots, h->nranks) == s->root);
}

int32_t bootstrap_root_next_rank(const struct bootstrap_root *r)
{
	return (r->first + r->count) % r->nranks;
}

bool bootstrap_root_all_know(const struct bootstrap_root *r)
{
	return r->by_rank && r->arrived == r->count;
}

/* ---- failures ------------------------------------------------------------------------------- */

void bootstrap_root_fail_all(struct bootstrap_root *r, enum bootstrap_answer_kind kind,
			     int32_t rank, const struct bootstrap_reason *reason)
{
	r->failed = true;
	r->failed_kind = kind;
	r->failed_rank = rank;
	r->reason = *reason;
	bootstrap_root_fail(r, kind, rank);
	r->over = bootstrap_root_all_know(r) && !r->set.nroots;
}

/* Returns the number of the root before this one. */
static int32_t root_set_before(const struct bootstrap_set *s)
{
	return (s->root + s->nroots - 1) % s->nroots;
}

/* Reports that the root of other ranks has ended or cannot be reached. The ranks log it. */
static void root_link_lost(struct bootstrap_root *r, int32_t other, const char *what)
{
	struct bootstrap_reason reason = {{0}}; /* it is sent as a whole */

	snprintf(reason.text, sizeof reason.text, "the root of commIds[%d] %s", other, what);
	bootstrap_root_fail_all(r, BOOTSTRAP_LEFT, -1, &reason);
}

/* Refuses the ranks of the root after this one if they have other unique ids than those of this
 * one. */
static void root_link_check(struct bootstrap_root *r)
{
	const struct bootstrap_set *s = &r->after_set;
	static const struct bootstrap_reason none;
	int32_t rank;

	if (!s->nroots || !r->by_rank || r->failed ||
	    (s->nroots == r->set.nroots && s->hash == r->set.hash &&
	     root_set_before(s) == r->set.root))
		return;
	rank = bootstrap_block_first(s->root, s->nroots, r->nranks);
	WARN("root: rank %d has %d unique ids, which are not those of rank %d", rank, s->nroots,
	     r->first);
	bootstrap_root_fail_all(r, BOOTSTRAP_REFUSED, rank, &none);
}

/* ---- to the root before this one ------------------------------------------------------------ */

#define ROOT_LINK_TELL_NS 1000000000ull

/* The hello of a root, and what follows it. */
struct root_hello {
	struct bootstrap_hello hello;
	struct bootstrap_set set;
	struct bootstrap_answer failure; /* sent only by a root that has failed already */
};

static struct root_hello root_hello_of(const struct bootstrap_root *r)
{
	return (struct root_hello){
		.hello = {.magic = r->set.before_magic,
			  .kind = BOOTSTRAP_ROOT,
			  .rank = r->first,
			  .nranks = r->nranks,
			  .has_set = 1},
		.set = r->set,
		.failure = {.magic = r->magic,
			    .kind = r->failed_kind,
			    .rank = r->failed_rank,
			    .reason = r->reason},
	};
}

/* Makes the next attempt to connect later. The other root has listened since its id was made, so
 * that it has ended if it refuses for long. */
static void root_link_retry(struct bootstrap_root *r, int error)
{
	bool refused = error == ECONNREFUSED || error == ETIMEDOUT;

	if (r->failed)
		return; /* the end of this root makes one more attempt */
	if (!refused || r->attempts > SOCK_CONNECT_RETRIES)
		root_link_lost(r, root_set_before(&r->set), "cannot be reached");
	else
		r->retry_ns = os_now_ns() + sock_connect_pause_ns(1);
}

/* Starts a connection with the root before this one. */
static void root_link_connect(struct bootstrap_root *r)
{
	const size_t bytes = ROOT_LINK_ANSWERS * sizeof(struct bootstrap_answer);
	struct root_conn *c = os_alloc(sizeof *c + bytes, "bootstrap root's connection");
	int e = c && bootstrap_root_room(r, r->nconns + 1) ? 0 : ENOMEM, fd;

	r->attempts++;
	if (!e)
		e = os_connect(&r->set.before, &fd);
	if (e) {
		os_free(c);
		root_link_retry(r, e);
		return;
	}
	*c = (struct root_conn){.next = r->conns,
				.fd = fd,
				.state = ROOT_LINKED,
				.connecting = true,
				.seq = BOOTSTRAP_NOT_LOOKED,
				.room = ROOT_LINK_ANSWERS};
	r->conns = c;
	r->nconns++;
	r->before.conn = c;
}

/* Completes the connection, and sends this root's hello. False: it is pending. */
static bool root_link_connected(struct bootstrap_root *r, struct root_conn *c)
{
	const struct sock_ctx ctx = {"bootstrap root: hello to another root", -1, -1, &r->stop};
	const struct root_hello m = root_hello_of(r);
	int e = os_connected(c->fd);

	if (e == EAGAIN)
		return false;
	if (e) {
		bootstrap_root_drop(r, c);
		root_link_retry(r, e);
	} else if (sock_send_all(c->fd, &m, offsetof(struct root_hello, failure), &ctx)) {
		bootstrap_root_drop(r, c);
		root_link_retry(r, EPIPE);
	} else {
		c->connecting = false;
		c->seq = BOOTSTRAP_NOT_LOOKED;
		r->told = true;
		bootstrap_root_link(r);
		if (r->answered == r->count)
			bootstrap_root_complete(r);
	}
	return true;
}

bool bootstrap_root_link_again(struct bootstrap_root *r)
{
	if (!r->retry_ns || r->failed || os_now_ns() < r->retry_ns)
		return false;
	r->retry_ns = 0;
	root_link_connect(r);
	return true;
}

/* Reports the failure to the root before this one, with which there is no connection. */
static void root_link_tell(struct bootstrap_root *r)
{
	const struct sock_ctx ctx = {"bootstrap root: failure reported to another root", -1, -1,
				     NULL};
	const struct root_hello m = root_hello_of(r);
	int e = sock_tell(&r->set.before, &m, sizeof m, &ctx, os_now_ns() + ROOT_LINK_TELL_NS);

	r->told = true;
	INFO(LOG_BOOTSTRAP, "root: the root of commIds[%d] %s", root_set_before(&r->set),
	     e ? "cannot be reached" : "is informed of the failure");
}

void bootstrap_root_link_close(struct bootstrap_root *r)
{
	struct root_conn *pending = r->before.conn;

	if (pending && !pending->connecting)
		return;
	if (pending)
		bootstrap_root_drop(r, pending);
	if (r->failed && r->set.nroots && !r->told)
		root_link_tell(r);
}

void bootstrap_root_link(struct bootstrap_root *r)
{
	const bool begins = !r->linked && !r->failed;

	r->linked = r->linked || begins;
	if (begins)
		root_link_connect(r);
	root_link_check(r);
	if (r->failed && !r->told && !r->before.conn) {
		root_link_tell(r);
	} else if (r->before.conn && !r->before.conn->connecting && !r->passed && !r->failed &&
		   bootstrap_root_rank(r, r->first)) {
		r->passed = true;
		bootstrap_root_answer(r, r->before.conn, BOOTSTRAP_SUCCESSOR, r->first);
	}
}

void bootstrap_root_complete(struct bootstrap_root *r)
{
	ASSERT(r->answered == r->count);
	if (!r->passed || r->failed || r->confirmed || (r->set.root && !r->asked))
		return;
	r->confirmed = true;
	bootstrap_root_answer(r, r->before.conn, BOOTSTRAP_COMPLETE, r->first);
}

/* Passes END on; root 0 sends it first. */
static void root_link_ending(struct bootstrap_root *r)
{
	r->over = r->ending || r->set.root;
	if (!r->ending)
		bootstrap_root_answer(r, r->before.conn, BOOTSTRAP_END, r->first);
	r->ending = true;
}

/* ---- both ends ------------------------------------------------------------------------------ */

void bootstrap_root_link_take(struct bootstrap_root *r, struct root_conn *c)
{
	const bool first = !r->after_set.nroots;

	c->state = first ? ROOT_LINKED : ROOT_ANSWERED;
	c->seq = BOOTSTRAP_NOT_LOOKED; /* a message may have arrived with the hello */
	if (first)
		r->after.conn = c;
	r->after_set = c->set;
	if (r->failed)
		bootstrap_root_answer(r, c, r->failed_kind, r->failed_rank);
	root_link_check(r);
}

/* Handles a complete message of the link. */
static void root_link_message(struct bootstrap_root *r, const struct root_link *l)
{
	const struct bootstrap_answer *a = &l->message;
	const int32_t last = r->first + r->count - 1;

	switch ((enum bootstrap_answer_kind)a->kind) {
	case BOOTSTRAP_SUCCESSOR:
		r->after_addr = a->addr;
		if (r->by_rank && bootstrap_root_rank(r, last))
			bootstrap_root_answer_around(r, last);
		break;
	case BOOTSTRAP_LEFT:
	case BOOTSTRAP_LATE:
	case BOOTSTRAP_REFUSED:
		bootstrap_root_fail_all(r, (enum bootstrap_answer_kind)a->kind, a->rank,
					&a->reason);
		break;
	case BOOTSTRAP_COMPLETE:
		r->asked = true;
		if (r->set.nroots && r->set.root == 0)
			root_link_ending(r);
		else if (r->set.nroots && r->answered == r->count)
			bootstrap_root_complete(r);
		break;
	case BOOTSTRAP_END:
		root_link_ending(r);
		break;
	case BOOTSTRAP_ABSENT: /* an answer to a request, which no root makes */
		break;
	}
}

/* The link has ended. The root after this one ends later than END, the root before it after
 * END. */
static void root_link_end(struct bootstrap_root *r, struct root_conn *c)
{
	const bool before = c == r->before.conn;
	const bool done = before && r->ending;
	const int32_t other = before ? root_set_before(&r->set) : r->after_set.root;

	bootstrap_root_drop(r, c);
	if (!done && !r->failed)
		root_link_lost(r, other, "has ended");
}

bool bootstrap_root_link_step(struct bootstrap_root *r, struct root_conn *c)
{
	struct root_link *l = c == r->before.conn ? &r->before : &r->after;
	size_t done = 0;

	if (c->connecting)
		return root_link_connected(r, c);
	int e = os_recv(c->fd, (char *)&l->message + l->got, sizeof l->message - l->got, &done);

	ASSERT(l->conn == c);
	if (e == EAGAIN)
		return false;
	if (e || !done || r->failed) {
		root_link_end(r, c);
		return true;
	}
	l->got += done;
	c->seq = BOOTSTRAP_NOT_LOOKED; /* more may have arrived */
	if (l->got == sizeof l->message) {
		l->got = 0;
		root_link_message(r, l);
	}
	return true;
}

void bootstrap_root_link_drop(struct bootstrap_root *r, const struct root_conn *c)
{
	if (r->before.conn == c)
		r->before.conn = NULL;
	if (r->after.conn == c)
		r->after.conn = NULL;
}
