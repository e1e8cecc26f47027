/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of the root share: its connections and its ranks. Only the root's
 * task uses them, except the words. */
#ifndef CORE_BOOTSTRAP_ROOT_INTERNAL_H
#define CORE_BOOTSTRAP_ROOT_INTERNAL_H

#include "core/bootstrap/bootstrap_internal.h"

enum root_conn_state {
	ROOT_GREETING,
	ROOT_WAITING,
	ROOT_ANSWERED,
	ROOT_LINKED,  /* the other end is the root before or after this one */
	ROOT_QUERIED, /* the other end is no rank of this init, and may close */
};

struct root_conn {
	struct root_conn *next;
	int fd;
	enum root_conn_state state;
	uint64_t seq, polled_ns; /* event count and time of the last poll */
	size_t got;
	struct bootstrap_hello hello;
	struct bootstrap_reason reason; /* follows a hello of kind GIVE_UP */
	struct bootstrap_set set;       /* follows a hello that has one; else zero */
	size_t to_send, sent;           /* bytes of the answers */
	bool connecting;                /* to `before`: nothing can be sent yet */
	size_t room;                    /* ROOT_ANSWERS, or ROOT_LINK_ANSWERS to `before` */
	struct bootstrap_answer answers[];
};
/* To a rank at most a successor, then the report that a rank left. To the root before this one also
 * COMPLETE and END. */
#define ROOT_ANSWERS      2
#define ROOT_LINK_ANSWERS 4

/* The connection with the root before or after this one. Both ends may report a failure. The root
 * after this one opens its connection, and sends the address of its first rank. */
struct root_link {
	struct root_conn *conn;
	struct bootstrap_answer message; /* being received */
	size_t got;
};

struct bootstrap_root {
	uint64_t magic, nonce;
	int listen_fd;
	uint64_t listen_seq;
	struct bootstrap_owner owner;
	struct bootstrap_reason reason; /* reason of a rank that gave up; empty: no reason */
	shared_u32 stop, done;
	struct root_conn *conns;
	int32_t nconns;
	/* [count], once a rank has sent the number of ranks; the first element is that of rank
	 * `first`. NULL: the rank has not arrived. After a failure the connections may be gone. */
	struct root_conn **by_rank;
	int32_t nranks, first, count, arrived, answered;
	/* With several ids, once a rank has sent them. The first rank's address is passed to
	 * `before`; `after_addr` is the one that `after` passed; port 0: none yet. */
	struct bootstrap_set set;
	struct root_link before, after;
	struct bootstrap_set after_set; /* of the root after this one; zero: it has not connected */
	struct os_addr after_addr;
	bool passed, linked; /* linked: the connection with `before` was opened, or tried */
	bool told;           /* `before` has got a report of the failure, or cannot be reached */
	int attempts;        /* to connect with `before` */
	uint64_t retry_ns;   /* time of the next one; 0: none */
	/* COMPLETE has arrived, or need not; it was passed on; END was passed on. */
	bool asked, confirmed, ending;
	/* A rank has failed: each arriving rank gets that as its answer, until all have arrived. */
	bool failed;
	enum bootstrap_answer_kind failed_kind;
	int32_t failed_rank;
	uint64_t timeout_ns, deadline_ns; /* 0: no deadline, or no rank has checked in */
	bool over;                        /* the task ends when all answers are sent */
	bool reported_garbage;
	uint64_t refused_ns;   /* time since which accept fails; 0: it does not fail */
	struct os_waits waits; /* room for the listener and all connections */
};

/* Reports to the ranks that have checked in that no rank can finish, and ends. If a rank gave up,
 * ends only when all others have arrived too. */
void bootstrap_root_fail(struct bootstrap_root *r, enum bootstrap_answer_kind kind, int32_t rank);

void bootstrap_root_answer(struct bootstrap_root *r, struct root_conn *c,
			   enum bootstrap_answer_kind kind, int32_t rank);
void bootstrap_root_drop(struct bootstrap_root *r, struct root_conn *c);
/* Makes room for the waits of the listener and `n` connections, so that no wait needs memory. */
static inline bool bootstrap_root_room(struct bootstrap_root *r, int32_t n)
{
	os_waits_clear(&r->waits);
	return os_waits_more(&r->waits, 1 + n, -1) != NULL;
}
/* Answers the two ranks whose successor is now known: the predecessor of `rank`, and `rank`
 * itself. */
void bootstrap_root_answer_around(struct bootstrap_root *r, int32_t rank);
/* Records a failure that ranks which arrive later get as their answer, too. `reason` may be that of
 * the root. */
void bootstrap_root_fail_all(struct bootstrap_root *r, enum bootstrap_answer_kind kind,
			     int32_t rank, const struct bootstrap_reason *reason);

/* Returns the place of a rank that this root serves, else NULL. */
static inline struct root_conn **bootstrap_root_place(const struct bootstrap_root *r, int32_t rank)
{
	return rank >= r->first && rank - r->first < r->count ? &r->by_rank[rank - r->first] : NULL;
}
/* Returns the connection of a rank; NULL: it has not arrived, or another root serves it. */
static inline struct root_conn *bootstrap_root_rank(const struct bootstrap_root *r, int32_t rank)
{
	struct root_conn **place = bootstrap_root_place(r, rank);

	return place ? *place : NULL;
}

/* ---- root_set.c ----------------------------------------------------------------------------- */

/* Sets the ranks that this root serves from the first hello. False: no memory. */
bool bootstrap_root_ranks_set(struct bootstrap_root *r, const struct root_conn *c);
/* True if the hello has the same ids as the earlier ones. */
bool bootstrap_root_set_is_same(const struct bootstrap_root *r, const struct bootstrap_set *set);
/* True if a hello and its ids contradict neither each other nor this root. */
bool bootstrap_root_set_is_valid(const struct bootstrap_root *r, const struct root_conn *c);
/* After a failure: true if all ranks of this root have arrived. */
bool bootstrap_root_all_know(const struct bootstrap_root *r);
/* Returns the first of the ranks that follow this root's. */
int32_t bootstrap_root_next_rank(const struct bootstrap_root *r);
/* After a check-in: connects with the root before this one, and passes the address of the first
 * rank. Its failure to do so is a failure of the init. */
void bootstrap_root_link(struct bootstrap_root *r);
/* Repeats an attempt to connect. True if it was time for that. */
bool bootstrap_root_link_again(struct bootstrap_root *r);
/* This root ends. If it has failed, and has no connection with the root before it, reports that. */
void bootstrap_root_link_close(struct bootstrap_root *r);
/* All ranks of this root are answered. It ends when those of the other roots are, too. */
void bootstrap_root_complete(struct bootstrap_root *r);
/* Takes a connection that has sent a hello of kind ROOT. */
void bootstrap_root_link_take(struct bootstrap_root *r, struct root_conn *c);
/* Reads from such a connection; may free it. True if data or its end arrived. */
bool bootstrap_root_link_step(struct bootstrap_root *r, struct root_conn *c);
/* A connection is closed. */
void bootstrap_root_link_drop(struct bootstrap_root *r, const struct root_conn *c);

/* ---- root_late.c ---------------------------------------------------------------------------- */

/* Returns the awaited rank: the first that has not arrived. */
int32_t bootstrap_root_missing(const struct bootstrap_root *r);
/* Ends the inits if the deadline has passed and a rank has not arrived. True if it did. */
bool bootstrap_root_late(struct bootstrap_root *r);

/* ---- root_query.c -------------------------------------------------------------------------- */

/* Writes which ranks have checked in, and which have not. */
void bootstrap_root_absent(const struct bootstrap_root *r, struct bootstrap_reason *out);

#endif
