/* SPDX-License-Identifier: BSD-3-Clause */
/* The RAS task of a process: its life and its passes. */
#include "core/ras/ras.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/sock.h"
#include "core/ras/ras_internal.h"

/* ---- listening ------------------------------------------------------------------------------ */

/* Listens for clients, unless another process of the host does; then it tries again later. */
static void ras_client_listen(struct ras *r)
{
	char at[SOCK_TEXT_BYTES], text[96];
	struct os_addr bound;
	int e;

	if (r->client_fd >= 0 || !r->client_addr.family || os_now_ns() < r->retry_ns)
		return;
	e = os_listen(&r->client_addr, &r->client_fd, &bound);
	if (!e) {
		r->retry_ns = 0;
		INFO(LOG_INIT | LOG_RAS, "RAS client listening socket at %s",
		     sock_addr_print(&r->client_addr, at));
		return;
	}
	r->client_fd = -1;
	r->retry_ns = os_now_ns() + RAS_RETRY_NS;
	if (!r->refused)
		INFO(LOG_RAS, "RAS has no client listening socket at %s: %s",
		     sock_addr_print(&r->client_addr, at), strerror_r(e, text, sizeof text));
	r->refused = true;
}

/* True if the world posts no events for sockets. In a world that does, the new socket has none,
 * unless another program has just connected; the next look then has none. */
static bool ras_must_look(const struct ras *r)
{
	bool changed = true;

	for (int looks = 0; looks < 3 && changed; looks++)
		changed = os_socket_changed(r->peer_fd, sock_seq(r->peer_fd));
	return changed;
}

/* Begins to count the signal of DOPPEL_RAS_SIGNAL. A world has no signals of its own. */
static void ras_signal_open(struct ras *r)
{
	int number = (int)param_i64(PARAM_RAS_SIGNAL), e;
	char text[96];

	if (!number || !r->looks)
		return;
	e = os_signal_count(number, &r->signals);
	if (e) {
		r->signals = NULL;
		WARN("DOPPEL_RAS_SIGNAL: signal %d: %s; expected one that the program does not use",
		     number, strerror_r(e, text, sizeof text));
		return;
	}
	r->signals_seen = shared_load_u32(r->signals, SHARED_ACQUIRE);
}

/* Begins a query for the log if the signal has come. */
static bool ras_signal_step(struct ras *r)
{
	uint32_t count = r->signals ? shared_load_u32(r->signals, SHARED_ACQUIRE) : 0;
	struct ras_query *q;

	if (!r->signals || count == r->signals_seen)
		return false;
	r->signals_seen = count;
	q = ras_query_begin(r, NULL, RAS_WIRE_DUMP, ras_seconds(r, RAS_ANSWER_S));
	if (q)
		q->log = true;
	return true;
}

static ncclResult_t ras_open(struct ras *r)
{
	struct os_addr own;
	ncclResult_t rc = sock_addr_own(&own);
	int e = rc ? 0 : os_listen(&own, &r->peer_fd, &r->address);
	char text[96];

	if (rc)
		return rc;
	if (e) {
		r->peer_fd = -1;
		INFO(LOG_INIT | LOG_RAS, "RAS cannot listen: %s", strerror_r(e, text, sizeof text));
		return ncclSystemError;
	}
	r->looks = ras_must_look(r);
	ras_signal_open(r);
	if (sock_addr_parse(param_str(PARAM_RAS_ADDR), &r->client_addr))
		r->client_addr = (struct os_addr){.family = 0};
	return ncclSuccess;
}

static bool ras_accept(struct ras *r, int fd, uint64_t *seq, enum ras_conn_kind kind)
{
	struct ras_conn *c;
	int conn;

	if (fd < 0)
		return false;
	*seq = sock_seq(fd);
	if (os_accept(fd, &conn, NULL))
		return false;
	c = ras_conn_add(r, kind, conn);
	if (!c) {
		INFO(LOG_RAS, "RAS: a connection is refused: there are %d others, or no memory",
		     RAS_CONNS_MAX);
		return true;
	}
	c->timeout_ns = ras_seconds(r, RAS_ANSWER_S);
	c->deadline_ns = kind == RAS_CONN_SERVED ? os_now_ns() + RAS_SERVE_NS : 0;
	return true;
}

/* ---- the pass ------------------------------------------------------------------------------- */

static bool ras_conn_step(struct ras *r, struct ras_conn *c)
{
	switch (c->kind) {
	case RAS_CONN_CLIENT:
		return ras_client_step(r, c);
	case RAS_CONN_SERVED:
		return ras_serve_step(r, c);
	case RAS_CONN_REQUEST:
		return ras_request_step(r, c);
	}
	return false;
}

static bool ras_pass(struct ras *r)
{
	bool moved = ras_accept(r, r->peer_fd, &r->peer_seq, RAS_CONN_SERVED);
	struct ras_query *q, *next_query;
	struct ras_conn *c, *next;

	ras_client_listen(r);
	moved |= ras_accept(r, r->client_fd, &r->client_seq, RAS_CONN_CLIENT);
	for (c = r->conns; c; c = next) {
		next = c->next;
		moved |= ras_conn_step(r, c);
	}
	moved |= ras_monitor_step(r);
	moved |= ras_watch_step(r);
	moved |= ras_signal_step(r);
	for (q = r->queries; q; q = next_query) {
		next_query = q->next;
		moved |= ras_query_step(r, q);
	}
	return moved;
}

/* ---- nothing moved -------------------------------------------------------------------------- */

/* Adds the wait for a socket. An idle wait is one that no other task depends on. False: no
 * memory. */
static bool ras_wait_add(struct ras *r, int fd, uint64_t seq, bool idle, uint64_t deadline_ns)
{
	struct wait *w = fd < 0 ? NULL : os_waits_more(&r->waits, 1, -1);

	if (!w)
		return fd < 0;
	*w = wait_object(os_socket_object(fd), seq,
			 idle ? "RAS: clients and other processes" : "RAS: another process' answer",
			 wait_by(-1, -1, "RAS"));
	w->idle = idle;
	w->deadline_ns = deadline_ns;
	return true;
}

/* Adds the wait for a shorter period of looks than the last one. False: no memory. */
static bool ras_wait_period(struct ras *r)
{
	struct wait *w = os_waits_more(&r->waits, 1, -1);

	if (!w)
		return false;
	*w = wait_word(&r->watch_period_ns, 8, WAIT_NE, r->watch_seen_ns,
		       "RAS: a call with a deadline", wait_by(-1, -1, "RAS"));
	w->idle = true;
	return true;
}

static uint64_t ras_earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Lists the waits for all sockets. False: there is no memory for them. */
static bool ras_waits_list(struct ras *r)
{
	uint64_t next_ns = ras_earlier(ras_earlier(r->tick_ns, r->retry_ns), r->watch_ns);
	bool good;

	os_waits_clear(&r->waits);
	good = ras_wait_add(r, r->peer_fd, r->peer_seq, true, next_ns) &&
	       ras_wait_add(r, r->client_fd, r->client_seq, true, 0);
	for (const struct ras_conn *c = r->conns; c && good; c = c->next)
		good = ras_wait_add(r, c->fd, c->seq, c->kind != RAS_CONN_REQUEST, c->deadline_ns);
	good = good && ras_wait_period(r);
	return good && os_waits_abort(&r->waits, &r->stop, -1);
}

static void ras_rest(struct ras *r)
{
	bool busy = r->conns || r->queries;

	if (!r->looks && ras_waits_list(r))
		(void)os_waits_wait(&r->waits);
	else
		os_sleep_ns(busy ? RAS_LOOK_BUSY_NS : RAS_LOOK_IDLE_NS);
}

static void ras_close(struct ras *r)
{
	while (r->conns)
		ras_conn_close(r, r->conns);
	ras_queries_free(r);
	sock_close(&r->peer_fd);
	sock_close(&r->client_fd);
	os_waits_free(&r->waits);
	os_free(r->known);
}

static void ras_main(void *arg)
{
	struct ras *r = arg;

	while (!shared_load_u32(&r->stop, SHARED_ACQUIRE))
		if (!ras_pass(r))
			ras_rest(r);
	ras_close(r);
}

/* ---- joining and leaving -------------------------------------------------------------------- */

/* Adds a user to the task of the process and returns it; NULL: no task exists. The registry is
 * locked. */
static struct ras *ras_found(struct registry_node *first)
{
	for (struct registry_node *n = first; n; n = n->next) {
		struct ras *r = (struct ras *)n;

		if (n->kind != REGISTRY_RAS || !r->refs)
			continue;
		r->refs++;
		return r;
	}
	return NULL;
}

/* Returns the task of the process. *mine: this call made the struct, and must start the task. */
static struct ras *ras_find_or_make(const struct ras_source *source, bool *mine)
{
	struct registry_node *first = registry_lock();
	struct ras *r = ras_found(first), *own;

	registry_unlock(first);
	*mine = false;
	if (r)
		return r;
	own = os_alloc(sizeof *own, "RAS");
	if (!own)
		return NULL;
	own->node.kind = REGISTRY_RAS;
	own->refs = 1;
	own->source = source;
	own->peer_fd = own->client_fd = -1;
	own->factor = (uint64_t)param_i64(PARAM_RAS_TIMEOUT_FACTOR);
	first = registry_lock();
	r = ras_found(first);
	*mine = !r;
	if (!r) {
		own->node.next = first;
		first = &own->node;
		shared_note_write(&own->node.next, sizeof own->node.next);
	}
	registry_unlock(first);
	if (r)
		os_free(own);
	return r ? r : own;
}

static void ras_start(struct ras *r)
{
	/* In a world, time passes up to a deadline only for a task that keeps the world alive. */
	const struct os_thread_attr attr = {
		.name = "RAS", .rank = -1, .background = !ras_is_watching()};
	bool good = ras_open(r) == ncclSuccess;

	if (good && os_thread_start(&r->task, &attr, ras_main, r)) {
		INFO(LOG_INIT | LOG_RAS, "RAS: its task cannot be started");
		r->task = NULL;
		good = false;
	}
	shared_store_u32(&r->ready, good ? RAS_READY : RAS_FAILED, SHARED_RELEASE);
}

ncclResult_t ras_join(const struct ras_source *source, struct ras **joined)
{
	const int64_t timeout_ms = param_i64(PARAM_TIMEOUT_MS);
	struct wait w = {.mask = WAIT_MASK_ALL,
			 .kind = WAIT_NE,
			 .bytes = 4,
			 .why = "the process' RAS task to listen",
			 .from = {.rank = -1, .channel = -1, .step = -1}};
	struct ras *r;
	bool mine;

	*joined = NULL;
	if (!param_bool(PARAM_RAS_ENABLE) && !ras_is_watching())
		return ncclSuccess;
	r = ras_find_or_make(source, &mine);
	if (!r)
		return ncclSuccess;
	if (mine)
		ras_start(r);
	w.on = &r->ready;
	if (timeout_ms && !mine) /* the rank that starts the task may stall */
		w.deadline_ns = os_now_ns() + (uint64_t)timeout_ms * 1000000;
	if (os_wait_one(&w, NULL) == ETIMEDOUT) {
		WARN("RAS: its task has not started after %" PRId64
		     " ms (DOPPEL_TIMEOUT_MS); another rank of this process is starting it",
		     timeout_ms);
		ras_leave(r);
		return ncclTimeout;
	}
	if (shared_load_u32(&r->ready, SHARED_ACQUIRE) == RAS_READY)
		*joined = r;
	else
		ras_leave(r);
	return ncclSuccess;
}

shared_u64 *ras_launch_order(struct ras *r)
{
	return &r->launch_order;
}

struct os_addr ras_address(const struct ras *r)
{
	return r->address;
}

void ras_leave(struct ras *r)
{
	struct registry_node *first;
	bool last;

	if (!r)
		return;
	first = registry_lock();
	last = --r->refs == 0; /* after this no communicator joins it */
	registry_unlock(first);
	if (!last)
		return;
	registry_remove(&r->node);
	if (r->task) {
		shared_store_u32(&r->stop, 1, SHARED_RELEASE);
		os_thread_join(r->task);
	} else {
		ras_close(r);
	}
	os_free(r);
}
