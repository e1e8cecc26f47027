/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: ranks that know only a unique id find each other over sockets. A root task sends each
 * rank its successor; the ranks form a ring. All later traffic (all-gather, barrier, messages
 * between two ranks) uses the ring or addresses gathered over it. core/comm and core/transport call
 * these functions on the rank's main task. Every wait names the awaited rank and polls the abort
 * word. It has no deadline, except where NCCL has one (connection retries).
 *
 * Wire format: fixed-width little-endian structs, each with a magic derived from the unique id. A
 * connection with another magic is closed and reported once, and never disturbs the root.
 *
 * Until all ranks have checked in, each keeps its connection to the root. If one closes earlier,
 * the root reports that rank to the others. They get ncclRemoteError with the rank's number instead
 * of waiting without end. Later, the neighbours in the ring detect that a rank closes.
 *
 * A communicator may have several unique ids. Their roots form a ring, too: each passes the address
 * of its first rank to the root before it, and reports failures to both neighbours.
 */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_H
#define CORE_BOOTSTRAP_BOOTSTRAP_H

#include "core/include/nccl.h"
#include "core/os/os.h"

struct bootstrap;
struct bootstrap_root;

/* Creates a unique id: a random magic and the address of a root task, which this call starts in the
 * calling process. If NCCL_COMM_ID is set, the address is its "host:port"; rank 0 then starts the
 * root, and *root is NULL. The root task ends when every rank has its answer. It is a background
 * task, so an unused id keeps no process alive. At its end it calls ended(arg), before or after
 * this call returns. If `ended` returns true, the task frees the root. If it returns false, or is
 * NULL, bootstrap_root_close must follow. */
struct bootstrap_owner {
	bool (*ended)(void *arg); /* NULL: no function */
	void *arg;
};
ncclResult_t bootstrap_unique_id(ncclUniqueId *id, struct bootstrap_owner owner,
				 struct bootstrap_root **root);
/* Does the same without NCCL_COMM_ID: the root is always in the calling process. */
ncclResult_t bootstrap_own_id(ncclUniqueId *id, struct bootstrap_owner owner,
			      struct bootstrap_root **root);
/* Ends the root task if it runs, waits for it, and frees the root. */
void bootstrap_root_close(struct bootstrap_root *root);
/* Returns a hash of the id, the same on all ranks that use it. With NCCL_COMM_ID all communicators
 * of a program have the same id. */
uint64_t bootstrap_id_hash(const ncclUniqueId *id);
/* Sets *out to the id by which `rank` joins a communicator that has all these ids. `ids` has
 * 1 to nranks elements. Their roots share the ranks: each serves a block of consecutive ones.
 * ncclInvalidArgument, logged: an id does not come from ncclGetUniqueId, or is listed twice. */
ncclResult_t bootstrap_id_join(const ncclUniqueId *ids, int nids, int nranks, int rank,
			       ncclUniqueId *out);
/* Returns the bootstrap_id_hash of the id that the root was made with. The id may be one of
 * bootstrap_id_join. */
uint64_t bootstrap_root_hash(const ncclUniqueId *id);

/* Returns a hash that is the same on all ranks of the communicator. Any two communicators have
 * different hashes, even with the same NCCL_COMM_ID. Known once the ring stands. */
uint64_t bootstrap_comm_hash(const struct bootstrap *b, const ncclUniqueId *id);

ncclResult_t bootstrap_init(const ncclUniqueId *id, int rank, int nranks, const shared_u32 *abort,
			    struct bootstrap **b);
/* Reports to the root that this rank fails before bootstrap_init, or before the root knows the
 * rank, so that no rank waits for it. Makes a few attempts within a second and returns no error.
 * reason: the task's last logged error, or "" for an aborted rank. */
void bootstrap_give_up(const ncclUniqueId *id, int rank, int nranks, const char *reason);
/* Requests from the id's root the ranks that have not checked in. `out`: "rank 2 has not called", a
 * newline, "ranks 0-1, 3 wait"; empty: all have, or the init fails. *from_env: rank 0 starts that
 * root. Makes one attempt until the deadline, and logs nothing. Returns 0 or an errno.
 * ECONNREFUSED: no root listens. */
#define BOOTSTRAP_QUERY_BYTES 192
int bootstrap_root_query(const ncclUniqueId *id, int rank, int nranks, uint64_t deadline_ns,
			 char out[BOOTSTRAP_QUERY_BYTES], bool *from_env);
/* Requests the first rank that has not checked in. -1: all have, no rank has yet, or no root
 * answers by the deadline. Makes one attempt, and logs nothing. */
int32_t bootstrap_root_awaits(const ncclUniqueId *id, int rank, int nranks, uint64_t deadline_ns);
/* Gathers `bytes` from every rank. all[rank * bytes] is this rank's data on entry; `all` has the
 * data of all ranks on exit. */
ncclResult_t bootstrap_all_gather(struct bootstrap *b, void *all, size_t bytes);
ncclResult_t bootstrap_barrier(struct bootstrap *b);
/* A barrier at which every rank must have the same value of `what`. Returns ncclInvalidUsage, and
 * logs both ranks, if the predecessor's value differs. Not every rank finds a difference: a rank
 * that does must close its bootstrap, so that the others get an error. */
ncclResult_t bootstrap_agree(struct bootstrap *b, uint64_t value, const char *what);
/* Send or receive a message between two ranks. A message with another (rank, tag) than the
 * receive's is queued. Both ends must use the same size; otherwise the call logs both and returns
 * ncclInternalError. An empty message instead of one with bytes means that the sender failed:
 * ncclRemoteError. */
ncclResult_t bootstrap_send(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes);
ncclResult_t bootstrap_recv(struct bootstrap *b, int peer, int tag, void *data, size_t bytes);
/* Sends a message that the peer may receive with bootstrap_try, or ignore. Such messages must be
 * few enough for the peer's queue. Its loss when the peer leaves is not an error. */
ncclResult_t bootstrap_post(struct bootstrap *b, int peer, int tag, const void *data, size_t bytes);
/* Receives a message that has arrived, without waiting. *got: a message was received. */
ncclResult_t bootstrap_try(struct bootstrap *b, int peer, int tag, void *data, size_t bytes,
			   bool *got);
/* For calls after bootstrap_settle: gathers a row of `bytes` from every rank on all ranks, by way
 * of rank 0, in messages with the tags `tag` and `tag` + 1. On entry, rows[rank * bytes] is this
 * rank's row. ncclRemoteError: a rank has failed, and the rows are not complete. */
ncclResult_t bootstrap_rows(struct bootstrap *b, int tag, void *rows, size_t bytes);
/* A message that has arrived. */
struct bootstrap_came {
	int peer, tag;
	size_t bytes; /* 0: the sender failed */
	const void *data;
};
/* For a caller that waits for many messages from several ranks, in any order. Reads arrived data
 * without waiting, and passes each queued message to `take`, the oldest first. If `take` returns
 * true, the message is freed. Returns an error for a broken connection or an abort; messages that
 * arrived earlier were passed. `take` MUST NOT use the bootstrap. */
ncclResult_t bootstrap_offer(struct bootstrap *b,
			     bool (*take)(void *arg, const struct bootstrap_came *m), void *arg);
/* True if a message has arrived since the last bootstrap_offer. Any call that sends or waits may
 * have read one. */
bool bootstrap_is_fresh(const struct bootstrap *b);
/* Fills in the wait for a message that the peer has not sent yet. `why` is a string constant.
 * Returns ncclRemoteError if the peer has left and can never send it. */
ncclResult_t bootstrap_expect(struct bootstrap *b, int peer, const char *why, struct wait *w);
struct os_waits;
/* Adds the waits after which bootstrap_offer may have more messages, and the abort. Returns an
 * error if the ring is broken, as it is after any rank's failure. */
ncclResult_t bootstrap_waits(struct bootstrap *b, struct os_waits *l);
/* For waits outside the bootstrap that end only if other ranks do their part. Returns when one of
 * the n waits is true. Returns an error if the ring breaks, as it does after any rank's failure, or
 * on abort. May return early. w[n] is scratch space. */
ncclResult_t bootstrap_wait_beside(struct bootstrap *b, struct wait *w, int n);
/* No all-gather and no barrier follows. From now on the predecessor in the ring is watched too. */
void bootstrap_settle(struct bootstrap *b);
/* Between operations: returns ncclRemoteError if the ring is broken by any rank that failed, left
 * or died. Cheap while nothing happens. One task at a time may call it, and not inside another
 * bootstrap function. */
ncclResult_t bootstrap_watch(struct bootstrap *b);
/* True if the rank has left the communicator or died: it has closed its end of a connection. Opens
 * a connection for that if this rank has none. The rules of bootstrap_watch hold. */
bool bootstrap_rank_left(struct bootstrap *b, int32_t rank);
/* Sets `look`. While a call of this rank waits for a message or a connection, it calls `look`
 * before each wait and after each bootstrap_kick. If `look` returns true, it calls it again every
 * 50 ms. NULL: clears it. */
void bootstrap_look(struct bootstrap *b, bool (*look)(void *arg), void *arg);
/* Makes a waiting call run `look`. Any task may call this while the bootstrap exists. */
void bootstrap_kick(struct bootstrap *b);
/* Breaks the ring at this rank, by which the others learn that it failed. The bootstrap is
 * otherwise unchanged. Only bootstrap_leave and its successors may follow. */
void bootstrap_ring_break(struct bootstrap *b);
/* From now on messages do not depend on the ring, which may be broken: ranks that have failed do
 * not disturb those that remain. A receive returns ncclRemoteError only if its own sender left. */
void bootstrap_ring_forget(struct bootstrap *b);
/* Sends the farewell: this rank has nothing in progress after `ops` collectives. If its connections
 * end afterwards, it has ended in order and has not failed. Until then it forwards failures as
 * before. */
void bootstrap_part(struct bootstrap *b, uint64_t ops);
/* True if a neighbour in the ring sent its farewell after fewer than `ops` collectives. Sets *rank
 * to it and *after to its number of collectives. The neighbour takes part in no later
 * collective. */
bool bootstrap_ended_before(const struct bootstrap *b, uint64_t ops, int32_t *rank,
			    uint64_t *after);
/* After the farewell: waits until the `n` ranks, this one and the others of its host, have called
 * this function too. All pass the same ranks. ncclInProgress: not all have called it by the
 * deadline (0: no deadline); it may be called again. */
ncclResult_t bootstrap_meet(struct bootstrap *b, const int32_t *ranks, int32_t n,
			    uint64_t deadline_ns);
/* Leaves: closes everything that shows other ranks that this one exists, without waiting.
 * Connections that others opened to it stay, for bootstrap_wait_left. Except for that function,
 * only bootstrap_close may follow. Accepts NULL and a second call. */
void bootstrap_leave(struct bootstrap *b);
/* During or after leaving: waits until `peer` has left or died. ETIMEDOUT: it has not by the
 * deadline. */
int bootstrap_wait_left(struct bootstrap *b, int peer, uint64_t deadline_ns);
/* Accepts NULL. */
void bootstrap_close(struct bootstrap *b);

#endif
