/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random walks over verbs calls: declarations that its files share.
 *
 *   verbs_walk.c      the case, clients and their objects, the end of a walk
 *   walk_life.c       queue pairs: create, pair, drain, recover, reset, destroy
 *   walk_post.c       sends: drawn, recorded, posted in one of three ways
 *   walk_recv.c       receives: of a queue pair and of a shared queue
 *   walk_window.c     memory windows: bound and invalidated
 *   walk_done.c       checks of completions and events against the records
 *   walk_datagram.c   datagrams, address handles, groups
 *   walk_wrong.c      short-lived objects; calls that must fail
 *
 * A client is a context with a protection domain, shared receive queues, an XRC domain and
 * completion queues, used by WALKERS tasks. A queue pair belongs to one walker, and only that
 * walker changes it and posts to it. Any walker polls the completions of the client's shared
 * queues.
 *
 * Locks: a client's lock protects the records of its queue pairs and queues, the board's lock the
 * data that other clients read. Both are held for a few assignments, never during a verbs call, and
 * never together. A client's gate is shut while an event is read and acknowledged, and while a
 * queue pair ends. The end of a queue pair removes its events, and a call that reads one would then
 * wait for the next. Each walker frees what it created; the client's objects are destroyed at the
 * end of the case.
 */
#ifndef TESTS_FUZZ_VERBS_WALK_WALK_H
#define TESTS_FUZZ_VERBS_WALK_WALK_H

#include "tests/conformance/verbs/suite.h"

#define CLIENTS     4
#define WALKERS     2 /* per client */
#define QPS         4 /* per walker */
#define CLIENT_QPS  (WALKERS * QPS)
#define DEPTH       16 /* entries of a queue pair's queues */
#define SRQ_DEPTH   48
#define UD_DEPTH    16
#define MESSAGE     512 /* maximum in bytes */
#define DATAGRAM    256
#define UD_ROOM     512 /* bytes of a receive: header, payload */
#define SLOT        256 /* bytes of remote memory per connection: a counter, then data */
#define GENERATIONS 8   /* connections of one queue pair that have separate slots */
#define CHAIN       3   /* maximum number of requests posted together */
#define TRASH       (CLIENT_QPS * DEPTH)
#define CQE         4000
#define SHARED_CQ   WALKERS /* the completion queue that all walkers of a client poll */

#define RECV_AT      (CLIENTS * CLIENT_QPS * GENERATIONS * SLOT)
#define SEND_AT      (RECV_AT + CLIENT_QPS * DEPTH * MESSAGE)
#define SRQ_AT       (SEND_AT + CLIENT_QPS * DEPTH * MESSAGE)
#define UD_AT        (SRQ_AT + 2 * SRQ_DEPTH * MESSAGE)
#define BUFFER_BYTES (UD_AT + WALKERS * 2 * UD_DEPTH * UD_ROOM)

/* Features that a seed's walk may have. */
#define WALK_FEATURES(X)                                                                           \
	X(UC)                                                                                      \
	X(UD)                                                                                      \
	X(SRQ)                                                                                     \
	X(XRC)                                                                                     \
	X(WINDOW)                                                                                  \
	X(CQ_EX)                                                                                   \
	X(QP_EX)                                                                                   \
	X(CHANNEL)                                                                                 \
	X(RESIZE)                                                                                  \
	X(PARENT)                                                                                  \
	X(TEMPORARY) /* regions for one message */                                                 \
	X(NULL_MR)                                                                                 \
	X(ATOMIC)                                                                                  \
	X(SQD)                                                                                     \
	X(RESET)                                                                                   \
	X(FLUSH)                                                                                   \
	X(BAD)   /* requests that fail */                                                          \
	X(WRONG) /* calls that fail */
enum feature {
#define WALK_FEATURE(name) F_##name,
	WALK_FEATURES(WALK_FEATURE)
#undef WALK_FEATURE
		FEATURES
};

enum kind {
	SEND,
	SEND_INV,
	WRITE,
	WRITE_IMM,
	READ,
	ADD,
	CAS,
	BIND,
	INV,
	BIND_1, /* a window of type 1, on a region of its own */
	BAD_LOCAL,
	BAD_REMOTE,
	BAD_BIND,
	KINDS
};

struct request {
	uint32_t seq;
	enum kind kind;
	bool signaled, done;
	bool known;    /* READ, atomics: the expected data are known */
	bool null;     /* its memory is the null region */
	bool windowed; /* uses the peer's window, which may be unbound meanwhile */
	bool dead;     /* uses a window of the peer that was invalidated */
	bool with_imm;
	uint32_t bytes, key; /* size and key of its pattern */
	/* sequence number of the message, if it consumes a receive; BIND, INV: the window's key */
	uint32_t number;
	/* atomics: the value that must be found; READ: number of earlier writes */
	uint64_t count;
	struct ibv_mr *own; /* registered for this request alone */
	struct ibv_mw *window;
};

struct queue {
	struct request r[DEPTH];
	uint32_t head, tail; /* tail: oldest outstanding one */
	uint32_t top;        /* 1 + the newest that completed */
	struct {
		uint32_t seq, status;
	} came[8]; /* the last completions, for reports */
	uint32_t count;
	bool loose;  /* other walkers poll its completions, too: their order is not known */
	bool failed; /* later requests are flushed */
};

enum life { NONE, FRESH, CONNECTED, BROKEN };

struct walk_qp {
	struct ibv_qp *qp;
	enum life life;
	enum ibv_qp_type type;
	/* broken: a completion reported an error, or the walker moved it to ERR */
	bool extended, broken;
	bool sqe, drained;
	bool srq; /* its receives are the client's */
	uint32_t serial, qpn, psn, generation;
	int peer, peer_slot; /* client, and index of its queue pair */
	uint32_t peer_qpn, peer_generation, peer_srqn;
	struct queue send, recv;
	/* numbers of messages that consume a receive: posted, and received from the peer */
	uint32_t messages, arrived;
	uint8_t shadow[SLOT]; /* contents of its slot after all writes */
	uint64_t writes;
	bool data_known, count_known;
	uint64_t count;
	struct ibv_mw *mw;         /* type 2, over the slot here to which the peer writes */
	uint32_t mw_key, mw_shown; /* shown: the key on the board */
	enum { MW_FREE, MW_BINDING, MW_BOUND, MW_ENDING } mw_state;
	uint32_t dead_key; /* key of the peer's window that this walker invalidated */
};

/* A shared receive queue: index 0 plain, 1 of XRC. */
struct walk_srq {
	struct ibv_srq *srq;
	uint32_t number; /* XRC */
	uint32_t posted, limits, limit_events;
	struct {
		bool out, bad;
		/* posted anew although it may be out: queue pairs that end take some receives */
		bool doubtful;
		uint32_t round, bytes;
	} r[SRQ_DEPTH];
	uint32_t deaths, doubts, given_up; /* deaths: number of ended queue pairs that used it */
};

struct walk_cq {
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex; /* NULL: a plain queue */
	struct ibv_comp_channel *channel;
	bool armed; /* armed while empty: the next completion generates an event */
	uint64_t stamp;
	uint64_t arms, events;
};

/* A UD queue pair. */
struct walk_ud {
	struct ibv_qp *qp;
	uint32_t serial, qpn;
	bool broken, member[2];
	struct queue send, recv; /* DEPTH of each */
	struct ibv_ah *ah[UD_DEPTH];
	uint64_t seen[64]; /* the last datagrams received */
	uint32_t seen_count;
};

struct walker {
	struct client *client;
	int number;
	uint64_t random;
	struct walk_qp qp[QPS];
	struct walk_ud ud;
	struct ibv_pd *pd; /* the client's, or a parent domain of it */
	struct ibv_td *td;
	struct trash {
		struct ibv_mw *mw;
		struct ibv_mr *mr;
		bool busy; /* the window is bound to the region */
	} trash[TRASH];    /* under the client's lock: the walker that polls adds entries */
	int trash_count;
	uint64_t done[KINDS], errors, connections, received, compared, datagrams, refused;
};

/* State of a queue pair that other clients read; under the board's lock. */
struct advert {
	bool free, asked;
	enum ibv_qp_type type;
	uint32_t qpn, psn, generation;
	int peer, peer_slot; /* the walker that requested a connection */
	uint32_t peer_qpn, peer_psn, peer_generation;
	uint32_t window; /* key for the peer; 0: no window */
};
struct advert_ud {
	uint32_t qpn; /* 0: no queue pair */
};

struct client {
	int number;
	struct walk *walk;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct walk_cq cq[WALKERS + 1];
	struct walk_srq srq[2];
	struct ibv_xrcd *xrcd;
	struct ibv_mr *mr, *null;
	uint8_t *buffer;
	union ibv_gid gid;
	int gid_index;
	uint16_t lid;
	int lock, gate;
	uint32_t serial;
	struct walker walker[WALKERS];
	struct advert advert[CLIENT_QPS];
	struct advert_ud advert_ud[WALKERS];
	uint64_t events;
};

struct walk {
	struct client client[CLIENTS];
	int lock;
	int steps;
	bool feature[FEATURES];
};

/* ---- verbs_walk.c --------------------------------------------------------------------------- */

uint32_t pick(struct walker *w, uint32_t n);
/* True one time in n. */
bool once_in(struct walker *w, uint32_t n);
bool has(const struct walker *w, enum feature f);
void client_lock(struct client *c);
void client_unlock(struct client *c);
void gate_shut(struct client *c);
void gate_open(struct client *c);
void board_lock(struct walk *w);
void board_unlock(struct walk *w);
/* Returns the queue pair's index among those of its client. */
int slot_index(const struct walker *w, const struct walk_qp *q);
/* Returns the offset of the memory that a peer reserves for queue pair `index` of client `from`. */
uint64_t slot_offset(int from, int index, uint32_t generation);
uint8_t *message_of(const struct walker *w, const struct walk_qp *q, bool recv, uint32_t seq);
struct ibv_ah_attr address_of(const struct client *c, const union ibv_gid *gid, uint16_t lid);

/* ---- walk_life.c ----------------------------------------------------------------------------- */

void qp_make(struct walker *w, struct walk_qp *q);
/* Answers a walker's request to connect, or requests a connection. */
void qp_pair(struct walker *w, struct walk_qp *q);
void qp_to_error(struct walker *w, struct walk_qp *q);
/* Changes it to ERR and waits until every outstanding request has completed. */
void qp_flush_out(struct walker *w, struct walk_qp *q);
void qp_reset(struct walker *w, struct walk_qp *q);
void qp_destroy(struct walker *w, struct walk_qp *q);
void qp_drain(struct walker *w, struct walk_qp *q);
void qp_recover(struct walker *w, struct walk_qp *q);

/* ---- walk_post.c ----------------------------------------------------------------------------- */

void send_post(struct walker *w, struct walk_qp *q);
/* Posts a last request. Its completion shows that all earlier ones are done. */
void send_post_last(struct walker *w, struct walk_qp *q);
int post_list(struct walker *w, struct walk_qp *q, struct ibv_send_wr *wr);
/* Destroys the regions and windows of completed requests. */
void trash_empty(struct walker *w);
void trash_request(struct walker *owner, struct request *r); /* called under the client's lock */

/* ---- walk_recv.c ----------------------------------------------------------------------------- */

void recv_post(struct walker *w, struct walk_qp *q);
void srq_post(struct walker *w, int which);
void srq_limit(struct walker *w, int which);

/* ---- walk_window.c --------------------------------------------------------------------------- */

void bind_post(struct walker *w, struct walk_qp *q);

/* ---- walk_done.c ----------------------------------------------------------------------------- */

#define SERIAL_SRQ 0x40000000u
#define SERIAL_UD  0x20000000u
#define ID_RECV    0x80000000u
static inline uint64_t id_make(uint32_t serial, bool recv, uint32_t seq)
{
	return (uint64_t)serial << 32 | (recv ? ID_RECV : 0) | (seq & ~ID_RECV);
}
void walk_poll(struct walker *w, int which);
void arm(struct walker *w, int which);
void channel_look(struct walker *w, int which);
void async_look(struct client *c);

/* ---- walk_datagram.c ------------------------------------------------------------------------- */

void ud_make(struct walker *w);
void ud_step(struct walker *w);
void ud_done(struct walker *w, struct walker *owner, const struct ibv_wc *wc);
void ud_destroy(struct walker *w);

/* ---- walk_wrong.c ---------------------------------------------------------------------------- */

void noise(struct walker *w);
void wrong(struct walker *w);

#endif
