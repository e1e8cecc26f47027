/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root: one background task per unique id, a poll loop over connections. States of a
 * connection:
 *
 *	GREETING --hello--> WAITING --successor known--> ANSWERED
 *	    |                  |                             |
 *	    +-- garbage, closed early: dropped               +-- all answered: the task ends
 *	    +-- query: QUERIED, gets the list of absent ranks, and may close
 *	    +-- GIVE_UP: LEFT to every rank, also to later ones; then the task ends
 *	                       +--- either closes first: LEFT to every rank, the task ends
 *
 * With several ids, roots have connections in state LINKED with each other (root_set.c).
 *
 * With DOPPEL_TIMEOUT_MS: if a rank is absent so long after the first one, all get LATE.
 */
#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/root_internal.h"

#define ROOT_ACCEPT_NS       3400000000ull
#define ROOT_ACCEPT_PAUSE_NS 100000000ull
#define ROOT_RETRY_PAUSE_NS  1000000ull

static const struct sock_ctx root_ctx = {"bootstrap root: ranks to check in", -1, -1, NULL};

/* Sends as much as the socket accepts. A rank that has closed gets nothing. */
static void root_conn_flush(struct root_conn *c)
{
	while (!c->connecting && c->sent < c->to_send) {
		size_t done = 0;
		size_t n = c->to_send - c->sent;
		if (OS_BUGGIFY("bootstrap.root_send_byte", "the root sends an answer byte by byte"))
			n = 1;
		int e = os_send(c->fd, (char *)c->answers + c->sent, n, &done);
		if (e == EAGAIN)
			return;
		c->sent = e ? c->to_send : c->sent + done;
	}
}

/* Returns the listening address of a rank that has arrived, here or at the next root. */
static struct os_addr root_address(const struct bootstrap_root *r, int32_t rank)
{
	const struct root_conn *c = bootstrap_root_rank(r, rank);

	return c ? c->hello.listen : r->after_addr;
}

void bootstrap_root_answer(struct bootstrap_root *r, struct root_conn *c,
			   enum bootstrap_answer_kind kind, int32_t rank)
{
	size_t n = c->to_send / sizeof c->answers[0];
	ASSERT(n < c->room);
	c->answers[n] = (struct bootstrap_answer){
		.magic = r->magic, .kind = kind, .rank = rank, .nonce = r->nonce};
	if (kind == BOOTSTRAP_LEFT || kind == BOOTSTRAP_LATE)
		c->answers[n].reason = r->reason;
	if (kind == BOOTSTRAP_ABSENT)
		bootstrap_root_absent(r, &c->answers[n].reason);
	if (kind == BOOTSTRAP_SUCCESSOR)
		c->answers[n].addr = root_address(r, rank);
	c->to_send += sizeof c->answers[0];
	root_conn_flush(c);
}

static bool root_is_flushed(struct bootstrap_root *r)
{
	bool all = true;
	for (struct root_conn *c = r->conns; c; c = c->next) {
		root_conn_flush(c);
		all = all && c->sent == c->to_send;
	}
	return all;
}

void bootstrap_root_drop(struct bootstrap_root *r, struct root_conn *c)
{
	struct root_conn **at = &r->conns;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	r->nconns--;
	bootstrap_root_link_drop(r, c);
	sock_close(&c->fd);
	os_free(c);
}

static void root_garbage(struct bootstrap_root *r, struct root_conn *c, const char *what)
{
	if (!r->reported_garbage)
		WARN("root: a connection was closed: %s (further ones are closed silently)", what);
	r->reported_garbage = true;
	bootstrap_root_drop(r, c);
}

void bootstrap_root_fail(struct bootstrap_root *r, enum bootstrap_answer_kind kind, int32_t rank)
{
	if (rank < 0)
		INFO(LOG_BOOTSTRAP, "root: %.*s; informs its ranks", (int)sizeof r->reason.text,
		     r->reason.text);
	else
		INFO(LOG_BOOTSTRAP,
		     "root: rank %d %s after %d of %d ranks had checked in; informs the others",
		     rank,
		     kind == BOOTSTRAP_LEFT   ? "left"
		     : kind == BOOTSTRAP_LATE ? "is late"
					      : "was refused",
		     r->arrived, r->count);
	for (struct root_conn *c = r->conns; c; c = c->next)
		if (c->state != ROOT_GREETING && c->state != ROOT_QUERIED)
			bootstrap_root_answer(r, c, kind, rank);
	r->deadline_ns = 0; /* a root that stays for late ranks waits for them alone */
	r->over = true;
}

static ncclResult_t root_check_in(struct bootstrap_root *r, struct root_conn *c)
{
	const struct bootstrap_hello *h = &c->hello;
	if (!bootstrap_root_ranks_set(r, c))
		return ncclSystemError;
	c->state = ROOT_WAITING;
	if (!r->arrived && r->timeout_ns)
		r->deadline_ns = os_now_ns() + r->timeout_ns;
	if (h->nranks != r->nranks) {
		WARN("root: rank %d has %d ranks, others have %d", h->rank, h->nranks, r->nranks);
		bootstrap_root_fail(r, BOOTSTRAP_REFUSED, h->rank);
	} else if (!bootstrap_root_set_is_same(r, &c->set)) {
		WARN("root: rank %d has %d unique ids, which are not those of other ranks", h->rank,
		     c->set.nroots ? c->set.nroots : 1);
		bootstrap_root_fail(r, BOOTSTRAP_REFUSED, h->rank);
	} else if (bootstrap_root_rank(r, h->rank)) {
		WARN("root: rank %d of %d checked in twice; each rank calls ncclCommInitRank once "
		     "per "
		     "unique id",
		     h->rank, h->nranks);
		bootstrap_root_fail(r, BOOTSTRAP_REFUSED, h->rank);
	} else {
		*bootstrap_root_place(r, h->rank) = c;
		r->arrived++;
	}
	if (!r->over && r->set.nroots)
		bootstrap_root_link(r);
	return ncclSuccess;
}

static bool root_hello_is_valid(const struct bootstrap_root *r, const struct bootstrap_hello *h)
{
	if (h->magic != r->magic || h->nranks < 1 || h->rank < 0 || h->rank >= h->nranks)
		return false;
	if (h->has_set > 1)
		return false;
	return h->kind == BOOTSTRAP_GIVE_UP || h->kind == BOOTSTRAP_QUERY ||
	       (h->kind == BOOTSTRAP_ROOT && h->has_set) ||
	       (h->kind == BOOTSTRAP_CHECK_IN && (h->listen.family == 4 || h->listen.family == 6) &&
		h->listen.port);
}

void bootstrap_root_answer_around(struct bootstrap_root *r, int32_t rank)
{
	int32_t prev = (rank + r->nranks - 1) % r->nranks, next = (rank + 1) % r->nranks;
	struct root_conn *c = bootstrap_root_rank(r, rank), *before = bootstrap_root_rank(r, prev);
	bool known = bootstrap_root_rank(r, next) ||
		     (r->after_addr.port && next == bootstrap_root_next_rank(r));

	if (before && before->state == ROOT_WAITING) {
		bootstrap_root_answer(r, before, BOOTSTRAP_SUCCESSOR, rank);
		before->state = ROOT_ANSWERED;
		r->answered++;
	}
	if (known && c && c->state == ROOT_WAITING) {
		bootstrap_root_answer(r, c, BOOTSTRAP_SUCCESSOR, next);
		c->state = ROOT_ANSWERED;
		r->answered++;
	}
	if (r->answered == r->count && r->set.nroots)
		bootstrap_root_complete(r);
	else
		r->over = r->over || r->answered == r->count;
}

/* True if a connection needs no poll. A rank that has checked in sends nothing more; it can only
 * leave. Its event count shows that in a world. Real sockets post no event, so they are polled from
 * time to time. */
static bool root_conn_is_quiet(struct root_conn *c, uint64_t seq)
{
	uint64_t now_ns = os_now_ns();
	bool quiet = c->state != ROOT_GREETING && seq == c->seq &&
		     now_ns - c->polled_ns < BOOTSTRAP_LOOK_NS;
	c->seq = seq;
	if (!quiet)
		c->polled_ns = now_ns;
	return quiet;
}

/* Counts a rank that knows of the failure. A rank that has learned it here gives up here, too, and
 * counts once. */
static void root_count(struct bootstrap_root *r, struct root_conn *c)
{
	struct root_conn **place;

	if (!bootstrap_root_ranks_set(r, c)) {
		r->over = true;
		return;
	}
	place = bootstrap_root_place(r, c->hello.rank);
	if (place && !*place) {
		*place = c;
		r->arrived++;
	}
	r->over = bootstrap_root_all_know(r) && !r->set.nroots;
}

/* Handles a rank that gives up, or that arrives after another one has failed. */
static void root_fail(struct bootstrap_root *r, struct root_conn *c)
{
	const bool gives_up = c->hello.kind == BOOTSTRAP_GIVE_UP;

	if (!gives_up) {
		c->state = ROOT_ANSWERED;
		bootstrap_root_answer(r, c, r->failed_kind, r->failed_rank);
	} else if (!r->failed) {
		r->failed = true;
		r->failed_kind = BOOTSTRAP_LEFT;
		r->failed_rank = c->hello.rank;
		r->reason = c->reason;
		bootstrap_root_fail(r, BOOTSTRAP_LEFT, r->failed_rank);
	}
	root_count(r, c);
	if (r->set.nroots)
		bootstrap_root_link(r);
	if (gives_up)
		bootstrap_root_drop(r, c);
}

/* Returns the place and number of the next bytes. A rank sends a hello; a rank that gives up also
 * sends the reason; with several ids its set follows. False: all bytes have arrived. */
static bool root_conn_target(struct root_conn *c, char **to, size_t *n)
{
	const size_t head = sizeof c->hello;
	const bool greeted = c->got >= head;
	const size_t reason = greeted && c->hello.kind == BOOTSTRAP_GIVE_UP ? sizeof c->reason : 0;
	const size_t set = greeted && c->hello.has_set ? sizeof c->set : 0;
	const size_t at = greeted ? c->got - head : 0;

	if (!greeted)
		*to = (char *)&c->hello + c->got;
	else
		*to = at < reason ? c->reason.text + at : (char *)&c->set + (at - reason);
	*n = !greeted ? head - c->got : at < reason ? reason - at : reason + set - at;
	return *n != 0;
}

/* Polls a connection once; may free it. True if something moved. */
static bool root_conn_step(struct bootstrap_root *r, struct root_conn *c)
{
	uint64_t seq = sock_seq(c->fd);
	root_conn_flush(c);
	if (root_conn_is_quiet(c, seq))
		return false;
	if (c->state == ROOT_LINKED)
		return bootstrap_root_link_step(r, c);
	char rest[sizeof c->hello], *to = rest;
	bool greeting = c->state == ROOT_GREETING;
	size_t done = 0, n = sizeof rest;
	if (greeting)
		(void)root_conn_target(c, &to, &n);
	int e = os_recv(c->fd, to, n, &done);
	if (e == EAGAIN)
		return false;
	if (!greeting && (r->failed || c->state == ROOT_QUERIED)) {
		bootstrap_root_drop(r, c); /* it already has its answer */
		return true;
	}
	if (!greeting) {
		/* The rank sends nothing more, so it has left. */
		bootstrap_root_fail(r, BOOTSTRAP_LEFT, c->hello.rank);
		return true;
	}
	if (e || !done) {
		root_garbage(r, c, "it ended before its check-in");
		return true;
	}
	c->got += done;
	if (c->got < sizeof c->hello)
		return true;
	if (!root_hello_is_valid(r, &c->hello)) {
		root_garbage(r, c, "it sent no check-in for this unique id");
		return true;
	}
	if (root_conn_target(c, &to, &n))
		return true;
	if (c->hello.kind == BOOTSTRAP_QUERY) {
		c->state = ROOT_QUERIED;
		bootstrap_root_answer(r, c, BOOTSTRAP_ABSENT, bootstrap_root_missing(r));
		return true;
	}
	if (!bootstrap_root_set_is_valid(r, c)) {
		root_garbage(r, c, "its unique ids contradict its number of ranks");
		return true;
	}
	if (c->hello.kind == BOOTSTRAP_ROOT) {
		bootstrap_root_link_take(r, c);
	} else if (c->hello.kind == BOOTSTRAP_GIVE_UP || r->failed) {
		root_fail(r, c);
	} else if (root_check_in(r, c) != ncclSuccess) {
		r->over = true;
	} else if (!r->over && !r->failed) {
		bootstrap_root_answer_around(r, c->hello.rank);
	}
	return true;
}

/* Handles a failed accept. The host may have no descriptor left, which may be temporary. Ranks that
 * have connected wait meanwhile. Uses a charge instead of a sleep: a sleeping background task would
 * keep no process alive. */
static void root_accept_failed(struct bootstrap_root *r, int error)
{
	uint64_t now_ns = os_now_ns();
	char text[96];

	if (error == ECONNABORTED || error == EINTR)
		r->listen_seq = BOOTSTRAP_NOT_LOOKED; /* another connection may follow */
	if (error == EAGAIN || error == ECONNABORTED || error == EINTR)
		return;
	if (!r->refused_ns)
		r->refused_ns = now_ns;
	if (now_ns - r->refused_ns < ROOT_ACCEPT_NS) {
		os_charge(OS_COST_NS, ROOT_ACCEPT_PAUSE_NS);
		return;
	}
	const char *reason = strerror_r(error, text, sizeof text);
	WARN("root: cannot accept connections: %s; all ranks that wait for it fail", reason);
	r->over = true;
}

static bool root_accept(struct bootstrap_root *r)
{
	bool moved = false;
	for (;;) {
		struct os_addr from;
		int fd;
		r->listen_seq = sock_seq(r->listen_fd);
		int e = os_accept(r->listen_fd, &fd, &from);
		if (e) {
			root_accept_failed(r, e);
			return moved;
		}
		r->refused_ns = 0;
		struct root_conn *c = os_alloc(sizeof *c + ROOT_ANSWERS * sizeof c->answers[0],
					       "bootstrap root's connection");
		if (!c || !bootstrap_root_room(r, r->nconns + 1)) {
			WARN("root: no memory for one more connection; closed");
			os_free(c);
			os_close(fd);
			continue;
		}
		*c = (struct root_conn){.next = r->conns, .fd = fd, .room = ROOT_ANSWERS};
		r->conns = c;
		r->nconns++;
		moved = true;
	}
}

static bool root_pass(struct bootstrap_root *r)
{
	bool moved = (int)root_accept(r) | (int)bootstrap_root_link_again(r);
	struct root_conn *next;
	for (struct root_conn *c = r->conns; c && !r->over; c = next) {
		next = c->next;
		moved |= root_conn_step(r, c);
	}
	return moved;
}

static void root_wait(struct bootstrap_root *r, uint64_t until_ns, const shared_u32 *stop)
{
	bool room = bootstrap_root_room(r, r->nconns);
	struct wait *w = r->waits.waits;

	ASSERT(room); /* root_accept made it */
	*w = sock_wait(r->listen_fd, r->listen_seq, &root_ctx);
	w->deadline_ns = until_ns;
	w++->from.rank = bootstrap_root_missing(r);
	for (struct root_conn *c = r->conns; c; c = c->next)
		*w++ = sock_wait(c->fd, c->seq, &root_ctx);
	ASSERT(w == r->waits.waits + r->waits.n);
	(void)os_wait(r->waits.list, r->waits.n, stop, NULL);
}

/* Waits until the last answers are sent to the ranks that still read. */
static void root_flush_wait(struct bootstrap_root *r)
{
	for (;;) {
		for (struct root_conn *c = r->conns; c; c = c->next)
			c->seq = sock_seq(c->fd);
		r->listen_seq = sock_seq(r->listen_fd);
		if (root_is_flushed(r))
			return;
		root_wait(r, r->deadline_ns, NULL);
	}
}

/* Waits, or ends: after a failure a root with others first reads what has arrived, so that the root
 * after it learns of the failure, too. */
static void root_pause(struct bootstrap_root *r)
{
	const bool retries = r->retry_ns && !r->failed;
	const uint64_t until_ns = retries ? os_now_ns() + ROOT_RETRY_PAUSE_NS : r->deadline_ns;

	r->over = r->failed && bootstrap_root_all_know(r);
	if (r->over)
		return;
	/* A charge, as for a failed accept: a background task that sleeps would keep no process
	 * alive. */
	if (retries)
		os_charge(OS_COST_NS, ROOT_RETRY_PAUSE_NS);
	root_wait(r, until_ns, &r->stop);
}

static void root_task(void *arg)
{
	struct bootstrap_root *r = arg;
	while (!r->over && !shared_load_u32(&r->stop, SHARED_ACQUIRE))
		if (!root_pass(r) && !bootstrap_root_late(r) && !r->over)
			root_pause(r);
	if (!r->over && r->arrived && !r->failed)
		bootstrap_root_fail(r, BOOTSTRAP_LEFT, r->first); /* the process closed the root */
	bootstrap_root_link_close(r);
	root_flush_wait(r);
	while (r->conns)
		bootstrap_root_drop(r, r->conns);
	os_free(r->by_rank);
	r->by_rank = NULL;
	os_waits_free(&r->waits);
	sock_close(&r->listen_fd);
	INFO(LOG_BOOTSTRAP, "root: done, %d of %d ranks answered", r->answered, r->count);
	if (r->owner.ended && r->owner.ended(r->owner.arg))
		os_free(r);
	else
		shared_store_u32(&r->done, 1, SHARED_RELEASE);
}

ncclResult_t bootstrap_root_start(uint64_t magic, uint64_t nonce, const struct os_addr *at,
				  struct bootstrap_owner owner, struct os_addr *bound,
				  struct bootstrap_root **root)
{
	struct os_thread_attr attr = {
		.name = "bootstrap root", .rank = -1, .background = true, .detached = true};
	struct bootstrap_root *r = os_alloc(sizeof *r, "bootstrap root");
	ncclResult_t rc = ncclSystemError;
	if (!r || !bootstrap_root_room(r, 0)) {
		WARN("no memory for the bootstrap root");
		os_free(r);
		return rc;
	}
	r->magic = magic;
	r->nonce = nonce;
	r->timeout_ns = (uint64_t)param_i64(PARAM_TIMEOUT_MS) * 1000000ull;
	sock_descriptors_raise();
	rc = sock_listen(at, &r->listen_fd, bound);
	if (rc)
		goto err_free;
	r->owner = owner;
	int e = os_thread_start(NULL, &attr, root_task, r);
	if (e) {
		WARN("the bootstrap root's task cannot be started: %s", strerror(e));
		rc = ncclSystemError;
		goto err_close;
	}
	*root = r;
	return ncclSuccess;

err_close:
	sock_close(&r->listen_fd);
err_free:
	os_waits_free(&r->waits);
	os_free(r);
	return rc;
}

void bootstrap_root_close(struct bootstrap_root *root)
{
	struct wait w = wait_word(&root->done, 4, WAIT_EQ, 1, "the bootstrap root to end",
				  wait_by(-1, -1, "bootstrap root"));

	shared_store_u32(&root->stop, 1, SHARED_RELEASE);
	(void)os_wait_one(&w, NULL);
	os_free(root);
}
