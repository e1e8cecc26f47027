/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of core/ras share: the task, its connections and its queries. Only
 * the task touches these, except the fields whose comments differ.
 *
 *	client --line--> ras_client.c --STATUS--> ras_query.c --request--> other tasks
 *	   ^                                           |
 *	   +---- text <-- reports (ras_job.h) <--------+-- answers
 *	other task --request--> ras_serve.c --answer--> other task
 *	watch/ras_watch.c --late--> ras_query.c --> watch/ras_verdict.c --FAIL--> other tasks
 *
 * The task makes passes over all of them. If nothing moved, it waits for all their sockets.
 */
#ifndef CORE_RAS_RAS_INTERNAL_H
#define CORE_RAS_RAS_INTERNAL_H

#include "core/os/os_waits.h"
#include "core/rank/registry.h"
#include "core/ras/ras_command.h"
#include "core/ras/ras_job.h"

#define RAS_ANSWER_S      5              /* default time for the answers of other processes */
#define RAS_DEAD_S        60             /* a process without an answer for so long is dead */
#define RAS_KEEPALIVE_S   1              /* period of the queries for clients that monitor */
#define RAS_RETRY_NS      1000000000ull  /* period of attempts to listen for clients */
#define RAS_DUMP_NS       500000000ull   /* for the tasks of this process to describe their work */
#define RAS_SERVE_NS      30000000000ull /* for another task to send its request */
#define RAS_CONNS_MAX     64             /* incoming connections of each kind */
#define RAS_QUERY_RUNNING 32             /* processes that a query addresses together */
#define RAS_LATES         4              /* late operations that one query judges */

/* In a world that posts no events for sockets the task looks at them after these times. */
#define RAS_LOOK_IDLE_NS 20000000ull
#define RAS_LOOK_BUSY_NS 1000000ull

enum ras_conn_kind {
	RAS_CONN_CLIENT,  /* a client's, in lines of text */
	RAS_CONN_SERVED,  /* another task's, with its request */
	RAS_CONN_REQUEST, /* to another task, with a request of this one */
};

struct ras_conn {
	struct ras_conn *next;
	enum ras_conn_kind kind;
	int fd;
	uint64_t seq;         /* event count before the last poll */
	uint64_t deadline_ns; /* 0: no deadline */
	struct ras_text in, out;
	size_t sent;     /* bytes of `out` */
	bool connecting; /* REQUEST: the connection does not stand yet */
	bool finished;   /* closes when `out` is sent */
	bool ended;      /* no more data comes */
	int error;       /* errno of the end; 0: the other end closed, or it has not ended */

	struct ras_query *query; /* CLIENT: the one that it waits for, or NULL; REQUEST: its own */
	uint32_t process;        /* REQUEST: index in the query's job */

	/* CLIENT: its settings */
	bool json, verbose;
	uint8_t groups; /* of events; 0: it does not monitor */
	uint64_t timeout_ns;
};

struct ras_query {
	struct ras_query *next;
	struct ras_conn *client; /* NULL: for the log, or for the clients that monitor */
	bool log;                /* for a signal: the report goes to the log */
	bool judged;             /* for deadlines and comparisons */
	struct ras_late late[RAS_LATES];
	int lates;
	uint64_t fail[RAS_FAIL_WORDS]; /* of kind FAIL: the verdict, and its reason */
	struct ras_text why;
	enum ras_wire_kind kind;
	uint64_t began_ns, deadline_ns;
	uint32_t begun;   /* processes that are past NEW, from the first on */
	uint32_t running; /* connections */
	struct ras_job job;
};

/* Another process, as earlier queries found it. */
struct ras_known {
	struct os_addr addr;
	enum ras_state state;     /* ANSWERED, SILENT or DEAD */
	uint64_t silent_since_ns; /* SILENT, DEAD */
};

enum { RAS_READY = 1, RAS_FAILED };

struct ras {
	struct registry_node node; /* first */
	int32_t refs;              /* under the registry's lock */
	const struct ras_source *source;
	shared_u32 ready; /* RAS_READY or RAS_FAILED, once the first ras_join knows */
	shared_u32 stop;
	struct os_thread *task;
	struct os_addr address; /* set before `ready` */
	shared_u64 launch_order;

	int peer_fd, client_fd; /* -1: not open */
	uint64_t peer_seq, client_seq;
	struct os_addr client_addr; /* NCCL_RAS_ADDR; family 0: malformed */
	uint64_t retry_ns;          /* next attempt to listen for clients; 0: none */
	bool refused;               /* the reason of a failed attempt is logged */
	bool looks;                 /* the world posts no events for sockets */
	const shared_u32 *signals;  /* count of DOPPEL_RAS_SIGNAL; NULL: no signal */
	uint32_t signals_seen;
	uint64_t factor; /* NCCL_RAS_TIMEOUT_FACTOR */
	struct ras_conn *conns;
	struct ras_query *queries;
	struct ras_known *known;
	uint32_t knowns, known_room;
	uint64_t tick_ns; /* next query for the clients that monitor; 0: none does */
	bool watched;     /* a query for them is complete: a further process is new */

	/* Time between two looks for late operations; 0: no operation has a deadline. Changed by
	 * any task. `watch_seen_ns` is the value at the last look. */
	shared_u64 watch_period_ns;
	uint64_t watch_seen_ns, watch_ns, compare_ns; /* next look, next comparison */
	struct os_waits waits;
};

/* ---- ras_conn.c ------------------------------------------------------------------------------ */

/* Adds a connection, and owns fd. NULL: no memory, or too many; fd is closed. */
struct ras_conn *ras_conn_add(struct ras *r, enum ras_conn_kind kind, int fd);
/* Closes and frees the connection, which is in the list. */
void ras_conn_close(struct ras *r, struct ras_conn *c);
/* Moves data without waiting: connects, sends `out`, receives up to `most` bytes into `in`. Returns
 * true if anything moved. */
bool ras_conn_move(struct ras_conn *c, size_t most);
/* True if nothing remains to be done: it is finished and has sent everything, or it is broken. */
bool ras_conn_is_over(const struct ras_conn *c);

/* ---- passes: each returns true if anything moved --------------------------------------------- */

/* ras_client.c, ras_serve.c: may close the connection. */
bool ras_client_step(struct ras *r, struct ras_conn *c);
bool ras_serve_step(struct ras *r, struct ras_conn *c);
/* ras_query.c */
bool ras_request_step(struct ras *r, struct ras_conn *c);
bool ras_query_step(struct ras *r, struct ras_query *q);
/* Returns how much of a process the answer to a request has. */
static inline enum ras_detail ras_query_detail(enum ras_wire_kind kind)
{
	return kind == RAS_WIRE_DUMP ? RAS_WAITS : kind == RAS_WIRE_CALLS ? RAS_CALLS : RAS_RANKS;
}
/* Begins a query and returns it. NULL: no memory. */
struct ras_query *ras_query_begin(struct ras *r, struct ras_conn *client, enum ras_wire_kind kind,
				  uint64_t timeout_ns);
void ras_queries_free(struct ras *r);
/* ras_client.c: write the report of a complete query, for its client or for the log. */
void ras_client_report(struct ras_conn *c, struct ras_query *q);
void ras_log_report(struct ras_query *q);

/* ---- ras_monitor.c --------------------------------------------------------------------------- */

/* Begins the periodic query if a client monitors and the time has come. */
bool ras_monitor_step(struct ras *r);
/* Compares a complete query with earlier ones, and sends events. */
void ras_monitor_learn(struct ras *r, const struct ras_query *q);
/* Returns the entry of that process; NULL: it is not known yet. */
struct ras_known *ras_known_find(struct ras *r, const struct os_addr *addr);
/* True if the process has given no answer for too long. */
bool ras_known_is_dead(struct ras *r, const struct os_addr *addr);

/* ---- watch/ ---------------------------------------------------------------------------------- */

/* Begins a query if operations are late, or if it is time to compare. */
bool ras_watch_step(struct ras *r);
/* Judges the communicators of a complete query, and begins to make the verdicts known. */
void ras_verdict_judge(struct ras *r, struct ras_query *q);
/* Begins the next phase of a verdict whose processes have answered. False: it was the last. */
bool ras_verdict_next(struct ras *r, struct ras_query *v);

static inline uint64_t ras_seconds(const struct ras *r, uint64_t s)
{
	return s * r->factor * 1000000000ull;
}

#endif
