/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: how ranks that know only a unique id find each other, over sockets. A root task sends
 * each rank its successor; the ranks form a ring; everything later (all-gather, barrier, messages
 * between two ranks) goes over it. Called by core/comm and core/transport on the rank's main task.
 * Every wait names the rank waited for, polls the abort word, and is without deadline unless NCCL's
 * users would expect one (connection retries).
 *
 * Wire format: fixed-width little-endian structs, each with a magic derived from the unique id;
 * whatever does not carry it is closed and reported once, and never disturbs the root.
 *
 * Until all ranks have come, each keeps its connection to the root. When one goes away before that,
 * the root reports it to the others, which get ncclRemoteError with that rank's number instead of
 * waiting for ever. Later a rank that goes away is noticed by its neighbours in the ring.
 */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_H
#define CORE_BOOTSTRAP_BOOTSTRAP_H

#include "core/include/nccl.h"
#include "core/os/os.h"

struct bootstrap;
struct bootstrap_root;

/* Fills a unique id: a random magic and the address of a root task that this call starts in the
 * calling process, or NCCL_COMM_ID's "host:port"; then rank 0 starts the root, and *root is NULL.
 * The task ends by itself when every rank has its answer. It is a background task, so that an id
 * that no rank uses keeps nothing alive. At its end it calls ended(arg), before or after this call
 * returns: true gives it the root, which it frees; false, or no function, and bootstrap_root_close
 * must follow. */
struct bootstrap_owner {
	bool (*ended)(void *arg); /* NULL: no function */
	void *arg;
};
ncclResult_t bootstrap_unique_id(ncclUniqueId *id, struct bootstrap_owner owner,
				 struct bootstrap_root **root);
/* Ends the task if it runs, waits for it, and frees the root. */
void bootstrap_root_close(struct bootstrap_root *root);
/* Same on all ranks that use this id, different for different ids. With NCCL_COMM_ID all
 * communicators of a program have one id. */
uint64_t bootstrap_id_hash(const ncclUniqueId *id);

/* Same on all ranks of the communicator, and different for any two: communicators that are made
 * with the same NCCL_COMM_ID too. Known once the ring stands. */
uint64_t bootstrap_comm_hash(const struct bootstrap *b, const ncclUniqueId *id);

ncclResult_t bootstrap_init(const ncclUniqueId *id, int rank, int nranks, const shared_u32 *abort,
			    struct bootstrap **b);
/* For a rank that fails before bootstrap_init, or inside it before the root knows it: reports that
 * to the root, with the reason, so that no rank waits for this one. A few attempts within a second,
 * without an error. reason: the last line that the process has logged, or "" for a rank that was
 * aborted. */
void bootstrap_give_up(const ncclUniqueId *id, int rank, int nranks, const char *reason);
/* Gathers `bytes` from every rank: all[rank * bytes] is this rank's on entry, all ranks' on exit.
 */
ncclResult_t bootstrap_all_gather(struct bootstrap *b, void *all, size_t bytes);
ncclResult_t bootstrap_barrier(struct bootstrap *b);
/* A barrier at which every rank must have the same value of `what`. ncclInvalidUsage, which names
 * both ranks: the rank before this one has another. Not every rank finds a difference: one that
 * does must close its bootstrap, so that the others get an error. */
ncclResult_t bootstrap_agree(struct bootstrap *b, uint64_t value, const char *what);
/* Point to point. A message with another (rank, tag) than the receive's is queued. Sizes of both
 * ends must agree: ncclInternalError names both otherwise. An empty message instead of one with
 * bytes means that the sender failed: ncclRemoteError. */
ncclResult_t bootstrap_send(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes);
ncclResult_t bootstrap_recv(struct bootstrap *b, int peer, int tag, void *data, size_t bytes);
/* A message that its peer takes if it likes: with bootstrap_try, or never. So few of them are on
 * their way that the peer's queue has room. That one is lost when the peer leaves is no error. */
ncclResult_t bootstrap_post(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes);
/* Takes a message that is there, without waiting; *got: it was. */
ncclResult_t bootstrap_try(struct bootstrap *b, int peer, int tag, void *data, size_t bytes,
			   bool *got);
/* A message that has come. */
struct bootstrap_came {
	int peer, tag;
	size_t bytes; /* 0: the sender failed */
	const void *data;
};
/* For a caller that waits for many messages, in whatever order they come, and for several ranks:
 * reads what has come in, without waiting, and shows each queued message to `take`, the oldest
 * first. What it takes, which it returns, is gone after it. An error: a connection is broken, or an
 * abort; messages that came before were shown. `take` MUST NOT use the bootstrap. */
ncclResult_t bootstrap_offer(struct bootstrap *b,
			     bool (*take)(void *arg, const struct bootstrap_came *m), void *arg);
/* Has a message come since? Any call that sends or waits may have read one. */
bool bootstrap_is_fresh(const struct bootstrap *b);
/* The wait for the peer's message that has not come, because of `why`, a string constant.
 * ncclRemoteError: the peer has left, and it never comes. */
ncclResult_t bootstrap_expect(struct bootstrap *b, int peer, const char *why, struct wait *w);
struct os_waits;
/* Adds the waits after which bootstrap_offer may have more to show, and the abort. An error: the
 * ring is broken, as it is when any rank fails. */
ncclResult_t bootstrap_waits(struct bootstrap *b, struct os_waits *l);
/* For waits that go past the bootstrap but end only if other ranks do their part: returns when one
 * of the n waits is true, and as an error when the ring breaks, as it does when any rank fails, or
 * on abort. May return early. w[n] is scratch. */
ncclResult_t bootstrap_wait_beside(struct bootstrap *b, struct wait *w, int n);
/* No all-gather and no barrier follows. From here on the predecessor in the ring is watched too. */
void bootstrap_settle(struct bootstrap *b);
/* Between operations: ncclRemoteError when the ring is broken, as it is by any rank that failed,
 * left or died. Cheap while nothing happens; one task at a time, and none inside another
 * function. */
ncclResult_t bootstrap_watch(struct bootstrap *b);
/* While a call of this rank waits for a message or a connection it calls `look` before each wait
 * and after each bootstrap_kick; where that gives true, again every 50 ms. NULL: no longer. */
void bootstrap_look(struct bootstrap *b, bool (*look)(void *arg), void *arg);
/* Any task, while the bootstrap exists. */
void bootstrap_kick(struct bootstrap *b);
/* Breaks the ring at this rank, which is how the others learn that it failed. Nothing else of the
 * bootstrap changes; only bootstrap_leave and what may come after it may follow. */
void bootstrap_ring_break(struct bootstrap *b);
/* The farewell: this rank has nothing under way after `ops` collectives. When its connections end
 * after that, it is an end in order, and no failure. Until then it passes failures on as before. */
void bootstrap_part(struct bootstrap *b, uint64_t ops);
/* Has a neighbour in the ring sent its farewell after fewer than `ops` collectives? Then *rank and
 * *after are its rank and how many. It will take part in no further one. */
bool bootstrap_ended_before(const struct bootstrap *b, uint64_t ops, int32_t *rank,
			    uint64_t *after);
/* After the farewell: waits until the `n` ranks, this one and the others of its host, have called
 * it too. The same on all of them. ncclInProgress: not all have until the deadline (0: none); it
 * may be called again. */
ncclResult_t bootstrap_meet(struct bootstrap *b, const int32_t *ranks, int32_t n,
			    uint64_t deadline_ns);
/* This rank leaves: closes all by which others see that it is there, without waiting. What others
 * opened to it stays, for bootstrap_wait_left; besides that only bootstrap_close may follow. NULL
 * and a second time are fine. */
void bootstrap_leave(struct bootstrap *b);
/* After leaving, or on the way there: waits until `peer` has left too, or died. ETIMEDOUT: not
 * until the deadline. */
int bootstrap_wait_left(struct bootstrap *b, int peer, uint64_t deadline_ns);
/* NULL is fine. */
void bootstrap_close(struct bootstrap *b);

#endif
