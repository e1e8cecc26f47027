/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank joins and leaves the ring. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/bootstrap_internal.h"

/* Time for the root's report after another rank has left. */
#define BOOTSTRAP_CAUSE_NS 1000000000ull

/* ---- joining ----------------------------------------------------------------------------------
 */

struct bootstrap_hello bootstrap_hello_of(const struct bootstrap *b, enum bootstrap_hello_kind kind)
{
	return (struct bootstrap_hello){
		.magic = kind == BOOTSTRAP_CHECK_IN ? b->root_magic : b->magic,
		.kind = kind,
		.rank = b->rank,
		.nranks = b->nranks,
		.listen = b->address,
		.has_set = kind == BOOTSTRAP_CHECK_IN && b->set.nroots,
	};
}

static void bootstrap_left_log(const struct bootstrap *b, const struct bootstrap_answer *a)
{
	int n = (int)strnlen(a->reason.text, sizeof a->reason.text);

	if (a->rank < 0)
		WARN("rank %d: not all ranks have checked in: %.*s", b->rank, n, a->reason.text);
	else if (n)
		WARN("rank %d: rank %d failed before all ranks had checked in: %.*s", b->rank,
		     a->rank, n, a->reason.text);
	else
		WARN("rank %d: rank %d left before all ranks had checked in", b->rank, a->rank);
}

/* Checks the root's answer. Returns ncclSuccess only for a successor's address. */
static ncclResult_t bootstrap_answer_check(const struct bootstrap *b,
					   const struct bootstrap_answer *a)
{
	if (a->magic != b->root_magic) {
		WARN("rank %d: the process that listens at the unique id's address is not its root",
		     b->rank);
		return ncclInvalidUsage;
	}
	switch ((enum bootstrap_answer_kind)a->kind) {
	case BOOTSTRAP_SUCCESSOR:
		return ncclSuccess;
	case BOOTSTRAP_LEFT:
		bootstrap_left_log(b, a);
		return ncclRemoteError;
	case BOOTSTRAP_LATE:
		WARN("rank %d: the init ends with ncclTimeout: %.*s (DOPPEL_TIMEOUT_MS)", b->rank,
		     (int)strnlen(a->reason.text, sizeof a->reason.text), a->reason.text);
		return ncclTimeout;
	case BOOTSTRAP_ABSENT: /* no rank queries it while it checks in */
		break;
	case BOOTSTRAP_REFUSED:
		WARN("rank %d: the root refused rank %d: two ranks have this number, or their "
		     "numbers of ranks%s differ (this rank has %d)",
		     b->rank, a->rank, b->set.nroots ? " or their lists of unique ids" : "",
		     b->nranks);
		return ncclInvalidUsage;
	case BOOTSTRAP_COMPLETE:
	case BOOTSTRAP_END:
		break;
	}
	WARN("rank %d: the root's answer is of unknown kind 0x%x", b->rank, a->kind);
	return ncclInternalError;
}

/* Polls the root, which may report until the ring is closed that a rank left. */
static ncclResult_t bootstrap_root_poll(struct bootstrap *b)
{
	struct bootstrap_answer *a = &b->root_answer;
	size_t done = 0;
	int e = 0;

	while (b->root_fd >= 0 && !e && b->root_got < sizeof *a) {
		e = os_recv(b->root_fd, (char *)a + b->root_got, sizeof *a - b->root_got, &done);
		if (e == EAGAIN)
			return ncclSuccess;
		b->root_got += e ? 0 : done;
		if (e || !done)
			sock_close(&b->root_fd); /* all ranks have checked in: the root is done */
	}
	return b->root_got == sizeof *a ? bootstrap_answer_check(b, a) : ncclSuccess;
}

/* Pauses before the next attempt to connect with the successor. A rank that refuses connections has
 * often left, and the root reports this. */
static ncclResult_t bootstrap_join_pause(void *arg, uint64_t until_ns)
{
	struct bootstrap *b = arg;
	const struct sock_ctx ctx = bootstrap_ctx(b, (b->rank + 1) % b->nranks,
						  "bootstrap: the next attempt to connect");

	while (b->root_fd >= 0) {
		struct wait w = sock_wait(b->root_fd, sock_seq(b->root_fd), &ctx);
		ncclResult_t rc = bootstrap_root_poll(b);
		int e = 0;

		w.deadline_ns = until_ns;
		if (!rc && b->root_fd >= 0)
			e = os_wait_one(&w, b->abort);
		if (rc || e)
			return rc ? rc : e == ETIMEDOUT ? ncclSuccess : ncclInternalError;
	}
	return sock_pause_until(&ctx, until_ns);
}

/* Pauses before the next attempt to connect. A rank that refuses connections has often left; once
 * the ring stands, the pause also polls the ring. The predecessors of this rank learn of the
 * failure from it. */
static ncclResult_t bootstrap_connect_pause(void *arg, uint64_t until_ns)
{
	struct bootstrap *b = arg;
	struct sock_ctx ctx = bootstrap_ctx(b, (b->rank + 1) % b->nranks,
					    "bootstrap: the next attempt to connect");

	if (b->connect_until_ns && until_ns > b->connect_until_ns)
		return ncclInProgress;
	for (;;) {
		uint64_t seq;
		ncclResult_t rc = bootstrap_next_poll(b, &seq);
		if (rc)
			return rc;
		struct wait w = sock_wait(b->next_fd, seq, &ctx);
		w.deadline_ns = until_ns;
		int e = os_wait_one(&w, b->abort);
		if (e)
			return e == ETIMEDOUT ? ncclSuccess : ncclInternalError;
	}
}

ncclResult_t bootstrap_connect(struct bootstrap *b, int32_t peer, const struct os_addr *to,
			       enum bootstrap_hello_kind kind, const char *why, int *fd)
{
	struct sock_ctx ctx = bootstrap_ctx(b, peer, why);
	const struct {
		struct bootstrap_hello hello;
		struct bootstrap_set set;
	} m = {bootstrap_hello_of(b, kind), b->set};
	const size_t bytes = m.hello.has_set ? sizeof m : sizeof m.hello;

	const bool late = kind == BOOTSTRAP_CHECK_IN && b->root_late;
	int conn = -1;
	const struct sock_pause pause = {
		b->next_fd < 0 ? bootstrap_join_pause : bootstrap_connect_pause, b};
	ncclResult_t rc = late ? sock_connect_late(to, &ctx, &conn)
			       : sock_connect(to, &ctx, b->checked_in ? &pause : NULL, &conn);

	if (rc)
		return rc;
	struct os_label label = {.what = "bootstrap socket",
				 .rank = b->rank,
				 .peer = peer,
				 .channel = -1,
				 .number = -1};
	os_label(os_socket_object(conn), &label);
	rc = sock_send_all(conn, &m, bytes, &ctx);
	if (rc)
		sock_close(&conn);
	else
		*fd = conn;
	return rc;
}

static ncclResult_t bootstrap_check_in(struct bootstrap *b, const struct os_addr *root,
				       struct os_addr *successor)
{
	int32_t next = (b->rank + 1) % b->nranks;
	struct bootstrap_answer a;
	ncclResult_t rc = bootstrap_connect(b, -1, root, BOOTSTRAP_CHECK_IN,
					    "bootstrap: check-in at the root", &b->root_fd);
	if (rc)
		return rc;
	/* The root answers when the successor has checked in, so the wait names the successor. */
	struct sock_ctx ctx =
		bootstrap_ctx(b, next, "bootstrap: successor to check in at the root");
	rc = sock_recv_all(b->root_fd, &a, sizeof a, &ctx);
	b->checked_in = !rc; /* a root that reports a failure knows this rank, too */
	if (!rc)
		rc = bootstrap_answer_check(b, &a);
	if (rc)
		return rc;
	b->nonce = a.nonce;
	*successor = a.addr;
	return ncclSuccess;
}

/* Waits for the predecessor, or for the end of the root. Also watches the root, which may report
 * that a rank left, and the successor, whose end means that a later rank failed. */
static ncclResult_t bootstrap_wait_join(struct bootstrap *b, bool roots)
{
	int32_t prev = (b->rank + b->nranks - 1) % b->nranks;
	struct sock_ctx ctx = bootstrap_ctx(b, roots ? -1 : prev,
					    roots ? "bootstrap: all roots to be complete"
						  : "bootstrap: predecessor to join the ring");

	for (;;) {
		uint64_t seq = b->root_fd < 0 ? 0 : sock_seq(b->root_fd), next_seq = 0;
		ncclResult_t rc = bootstrap_take(b);
		if (!rc && !roots && b->prev_fd >= 0)
			return ncclSuccess;
		if (!rc)
			rc = bootstrap_root_poll(b);
		if (!rc && roots && b->root_fd < 0)
			return ncclSuccess;
		if (!rc)
			rc = bootstrap_next_poll(b, &next_seq);
		if (rc)
			return rc;
		struct wait w[2] = {sock_wait(b->next_fd, next_seq, &ctx)};
		if (b->root_fd >= 0)
			w[1] = sock_wait(b->root_fd, seq, &ctx);
		rc = bootstrap_wait(b, w, b->root_fd >= 0 ? 2 : 1, &ctx);
		if (rc)
			return rc;
	}
}

/* Gathers the addresses of all ranks, for messages between any two ranks. Completion shows that all
 * ranks have joined. */
static ncclResult_t bootstrap_gather_addresses(struct bootstrap *b)
{
	b->addresses = os_alloc((size_t)b->nranks * sizeof *b->addresses, "bootstrap addresses");
	if (!b->addresses) {
		WARN("rank %d: no memory for %d addresses", b->rank, b->nranks);
		return ncclSystemError;
	}
	b->addresses[b->rank] = b->address;
	ncclResult_t rc = bootstrap_all_gather(b, b->addresses, sizeof *b->addresses);
	if (!rc && b->set.nroots) /* the root would take an earlier end for a failure */
		rc = bootstrap_wait_join(b, true);
	else if (!b->set.nroots && (!rc || !param_i64(PARAM_TIMEOUT_MS)))
		sock_close(&b->root_fd);
	return rc;
}

/* Returns the error of the join. If other ranks have left because a rank is absent at the deadline,
 * or failed at another root, the root reports that rank to this one, too. */
static ncclResult_t bootstrap_cause(struct bootstrap *b, ncclResult_t rc)
{
	struct sock_ctx ctx = bootstrap_ctx(b, -1, "bootstrap: the root's report of a late rank");
	uint64_t until_ns = os_now_ns() + BOOTSTRAP_CAUSE_NS;

	while (rc == ncclRemoteError && b->root_fd >= 0 && b->root_got < sizeof b->root_answer &&
	       (b->set.nroots || param_i64(PARAM_TIMEOUT_MS))) {
		uint64_t seq = sock_seq(b->root_fd);
		ncclResult_t cause = bootstrap_root_poll(b);
		struct wait w;

		if (cause || b->root_fd < 0)
			return cause ? cause : rc;
		w = sock_wait(b->root_fd, seq, &ctx);
		w.deadline_ns = until_ns;
		if (os_wait_one(&w, b->abort) || os_now_ns() >= until_ns)
			break;
	}
	return rc;
}

/* Starts the root for NCCL_COMM_ID. All communicators of the program have this id, so each gets a
 * nonce. */
static ncclResult_t bootstrap_own_root_start(struct bootstrap *b, const struct bootstrap_id *id)
{
	struct os_addr bound;
	uint64_t nonce = 0;

	while (!nonce)
		os_random(&nonce, sizeof nonce);
	return bootstrap_root_start(b->magic, nonce, &id->root, (struct bootstrap_owner){0}, &bound,
				    &b->root);
}

/* Closes the root. Every rank has its answer, so the root's task is ending. Its address must be
 * free before any rank returns from its init and creates the next communicator with this id. */
static void bootstrap_own_root_close(struct bootstrap *b)
{
	if (b->root)
		bootstrap_root_close(b->root);
	b->root = NULL;
}

static ncclResult_t bootstrap_join(struct bootstrap *b, const struct bootstrap_id *id)
{
	struct os_addr own, successor;
	ncclResult_t rc;

	if (id->from_env && b->rank == 0) {
		rc = bootstrap_own_root_start(b, id);
		if (rc)
			return rc;
	}
	rc = sock_addr_own(&own);
	if (!rc)
		rc = sock_listen(&own, &b->listen_fd, &b->address);
	if (rc)
		return rc;
	struct os_label label = {.what = "bootstrap listener",
				 .rank = b->rank,
				 .peer = -1,
				 .channel = -1,
				 .number = -1};
	os_label(os_socket_object(b->listen_fd), &label);
	rc = bootstrap_check_in(b, &id->root, &successor);
	if (rc || b->nranks == 1)
		return rc;
	rc = bootstrap_connect(b, (b->rank + 1) % b->nranks, &successor, BOOTSTRAP_RING,
			       "bootstrap: connection to the successor", &b->next_fd);
	if (!rc)
		rc = bootstrap_wait_join(b, false);
	if (!rc)
		rc = bootstrap_gather_addresses(b);
	return bootstrap_cause(b, rc);
}

#define BOOTSTRAP_GIVE_UP_NS     1000000000ull
#define BOOTSTRAP_GIVE_UP_TRIES  4
#define BOOTSTRAP_ADDRESS_DIGITS 9 /* least, in hexadecimal; queue pairs have fewer */

/* Copies a text without its addresses. They mean nothing to other processes, and differ between two
 * runs of one program. */
static void bootstrap_reason_set(struct bootstrap_reason *r, const char *text)
{
	size_t n = 0;

	while (*text && n + sizeof "0x..." <= sizeof r->text) {
		size_t digits = strncmp(text, "0x", 2) ? 0 : strspn(text + 2, "0123456789abcdef");

		if (digits < BOOTSTRAP_ADDRESS_DIGITS) {
			r->text[n++] = *text++;
		} else {
			n += (size_t)snprintf(r->text + n, sizeof r->text - n, "0x...");
			text += 2 + digits;
		}
	}
	r->text[n] = 0;
}

/* Sends a hello of kind GIVE_UP. Returns errno. */
static int bootstrap_tell(const struct bootstrap_id *id, int rank, int nranks, const char *reason)
{
	struct {
		struct bootstrap_hello hello;
		struct bootstrap_reason reason;
		struct bootstrap_set set;
	} m = {.hello = {.kind = BOOTSTRAP_GIVE_UP, .rank = rank, .nranks = nranks},
	       .set = id->set};
	const struct sock_ctx ctx = {"bootstrap: giving up at the root", rank, -1, NULL};

	m.hello.magic = id->magic;
	m.hello.has_set = id->set.nroots != 0;
	const size_t bytes = m.hello.has_set ? sizeof m : sizeof m - sizeof m.set;
	bootstrap_reason_set(&m.reason, reason);
	uint64_t until = os_now_ns() + BOOTSTRAP_GIVE_UP_NS;
	int e = sock_tell(&id->root, &m, bytes, &ctx, until);
	/* Refused: the root has ended, or the network between is busy. */
	for (int i = 1; e && i < BOOTSTRAP_GIVE_UP_TRIES; i++) {
		os_sleep_ns(BOOTSTRAP_GIVE_UP_NS / BOOTSTRAP_GIVE_UP_TRIES);
		e = sock_tell(&id->root, &m, bytes, &ctx, until);
	}
	return e;
}

static bool bootstrap_id_is_valid(const struct bootstrap_id *id, int rank, int nranks)
{
	const struct bootstrap_set *s = &id->set;

	if ((id->root.family != 4 && id->root.family != 6) || !id->root.port)
		return false;
	return !s->nroots || (s->nroots > 1 && s->nroots <= nranks &&
			      s->root == bootstrap_block_of(rank, s->nroots, nranks));
}

void bootstrap_give_up(const ncclUniqueId *id, int rank, int nranks, const char *reason)
{
	struct bootstrap_id bid;
	int e;

	memcpy(&bid, id->internal, sizeof bid);
	if (!bootstrap_id_is_valid(&bid, rank, nranks) || nranks == 1)
		return;
	e = bootstrap_tell(&bid, rank, nranks, reason);
	INFO(LOG_BOOTSTRAP, "rank %d: failed before its check-in; the root %s", rank,
	     e ? "cannot be reached" : "is informed");
}

ncclResult_t bootstrap_init(const ncclUniqueId *id, int rank, int nranks, const shared_u32 *abort,
			    struct bootstrap **out)
{
	struct bootstrap_id bid;
	ASSERT(rank >= 0 && rank < nranks);
	memcpy(&bid, id->internal, sizeof bid);
	sock_descriptors_raise();
	if (!bootstrap_id_is_valid(&bid, rank, nranks)) {
		WARN("rank %d: the unique id does not come from ncclGetUniqueId", rank);
		return ncclInvalidArgument;
	}
	struct bootstrap *b = os_alloc(sizeof *b + (size_t)nranks * sizeof *b->opened, "bootstrap");
	if (!b) {
		WARN("rank %d: no memory for bootstrap", rank);
		bootstrap_give_up(id, rank, nranks, log_task_error());
		return ncclSystemError;
	}
	b->opened = (bool *)(b + 1);
	b->rank = rank;
	b->nranks = nranks;
	b->set = bid.set;
	b->root_magic = bid.magic;
	b->magic = bid.set.nroots ? bid.set.hash : bid.magic;
	b->root_late = bid.from_env;
	b->abort = abort;
	b->listen_fd = b->root_fd = b->next_fd = b->prev_fd = -1;
	b->listen_seq = b->next_seq = b->prev_seq = BOOTSTRAP_NOT_LOOKED;
	b->watch_seq[0] = b->watch_seq[1] = BOOTSTRAP_NOT_LOOKED;
	b->messages_end = &b->messages;
	ncclResult_t rc = bootstrap_join(b, &bid);
	if (rc) {
		bool aborted = abort && shared_load_u32(abort, SHARED_ACQUIRE);

		if (!b->checked_in)
			bootstrap_give_up(id, rank, nranks, aborted ? "" : log_task_error());
		bootstrap_close(b);
		return rc;
	}
	sock_close(&b->root_fd);
	bootstrap_own_root_close(b);
	INFO(LOG_BOOTSTRAP, "rank %d of %d: ring %d -> %d -> %d is connected", rank, nranks,
	     (rank + nranks - 1) % nranks, rank, (rank + 1) % nranks);
	*out = b;
	return ncclSuccess;
}

uint64_t bootstrap_comm_hash(const struct bootstrap *b, const ncclUniqueId *id)
{
	uint64_t hash = bootstrap_id_hash(id);

	return b->nonce ? hash64_combine(hash, b->nonce) : hash;
}

void bootstrap_look(struct bootstrap *b, bool (*look)(void *arg), void *arg)
{
	b->look = look;
	b->look_arg = arg;
}

void bootstrap_kick(struct bootstrap *b)
{
	shared_add_u32(&b->kicks, 1, SHARED_RELEASE);
}

/* ---- end ------------------------------------------------------------------------------------ */

#define BOOTSTRAP_LISTENER_STAYS_NS 100000ull

void bootstrap_leave(struct bootstrap *b)
{
	if (!b)
		return;
	bootstrap_outs_close(b);
	bootstrap_looks_close(b);
	sock_close(&b->next_fd);
	sock_close(&b->prev_fd);
	sock_close(&b->root_fd);
	/* Rare: connections still arrive, and are reset with the listener. */
	if (b->listen_fd >= 0 &&
	    OS_BUGGIFY("bootstrap.listener_stays",
		       "a rank that leaves closes its listener last, and late"))
		os_sleep_ns(BOOTSTRAP_LISTENER_STAYS_NS);
	sock_close(&b->listen_fd);
}

void bootstrap_close(struct bootstrap *b)
{
	if (!b)
		return;
	bootstrap_leave(b);
	bootstrap_peers_close(b);
	bootstrap_own_root_close(b);
	os_free(b->addresses);
	os_waits_free(&b->waits);
	os_free(b);
}
