/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of the root share: its connections and its ranks. Only the root's
 * task uses them, except the words. */
#ifndef CORE_BOOTSTRAP_ROOT_INTERNAL_H
#define CORE_BOOTSTRAP_ROOT_INTERNAL_H

#include "core/bootstrap/bootstrap_internal.h"

/* QUERIED: the other end is no rank of this init, and may close. */
enum root_conn_state { ROOT_GREETING, ROOT_WAITING, ROOT_ANSWERED, ROOT_QUERIED };

struct root_conn {
	struct root_conn *next;
	int fd;
	enum root_conn_state state;
	uint64_t seq, polled_ns; /* event count and time of the last poll */
	size_t got;
	struct bootstrap_hello hello;
	struct bootstrap_reason reason; /* follows a hello of kind GIVE_UP */
	/* At most a successor, then the report that a rank left. */
	struct bootstrap_answer answers[2];
	size_t to_send, sent; /* bytes of the answers */
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
	/* [nranks], once a rank has sent their number; NULL: the rank has not arrived. After a
	 * failure the connections may be gone. */
	struct root_conn **by_rank;
	int32_t nranks, arrived, answered;
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

/* ---- root_late.c ---------------------------------------------------------------------------- */

/* Returns the awaited rank: the first that has not arrived. */
int32_t bootstrap_root_missing(const struct bootstrap_root *r);
/* Ends the inits if the deadline has passed and a rank has not arrived. True if it did. */
bool bootstrap_root_late(struct bootstrap_root *r);

/* ---- root_query.c -------------------------------------------------------------------------- */

/* Writes which ranks have checked in, and which have not. */
void bootstrap_root_absent(const struct bootstrap_root *r, struct bootstrap_reason *out);

#endif
