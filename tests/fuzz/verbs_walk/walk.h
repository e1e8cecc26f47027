/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random walks over verbs calls: what its parts share.
 *
 *   verbs_walk.c   the case, clients and their objects, the end of a walk
 *   life.c         queue pairs: made, paired, drained, recovered, reset, destroyed
 *   post.c         requests: drawn, written down, posted in one of three ways
 *   done.c         completions and events against what was written down
 *   datagram.c     datagrams, address handles, groups
 *   wrong.c        objects that come and go; calls that must be refused
 *
 * A client is a context with a protection domain, shared receive queues, an XRC domain and
 * completion queues, used by WALKERS tasks. A queue pair belongs to one walker, which alone changes
 * and posts to it; completions of the client's shared queues are polled by any walker.
 *
 * Locks: a client's is over what was written down of its queue pairs and queues, the board's over
 * what other clients read. Both are held for a few assignments, never across a call of verbs, and
 * never together. A client's gate is shut while an event is taken and acknowledged, and while a
 * queue pair ends, whose events vanish then: the call that takes one would wait for the next.
 * Owner: each walker frees what it made; the client's objects end with the case.
 */
#ifndef TESTS_FUZZ_VERBS_WALK_WALK_H
#define TESTS_FUZZ_VERBS_WALK_WALK_H

#include "tests/conformance/verbs/suite.h"

#define CLIENTS     4
#define WALKERS     2 /* of a client */
#define QPS         4 /* of a walker */
#define CLIENT_QPS  (WALKERS * QPS)
#define DEPTH       16 /* of a queue pair's queues */
#define SRQ_DEPTH   48
#define UD_DEPTH    16
#define MESSAGE     512 /* bytes at most */
#define DATAGRAM    256
#define UD_ROOM     512 /* of a receive: header, payload */
#define SLOT        256 /* of remote memory, of one connection: a counter, then data */
#define GENERATIONS 8   /* of connections of one queue pair that have slots of their own */
#define CHAIN       3   /* requests posted together */
#define TRASH       (CLIENT_QPS * DEPTH)
#define CQE         4000
#define SHARED_CQ   WALKERS /* the completion queue that all walkers of a client poll */

#define RECV_AT      (CLIENTS * CLIENT_QPS * GENERATIONS * SLOT)
#define SEND_AT      (RECV_AT + CLIENT_QPS * DEPTH * MESSAGE)
#define SRQ_AT       (SEND_AT + CLIENT_QPS * DEPTH * MESSAGE)
#define UD_AT        (SRQ_AT + 2 * SRQ_DEPTH * MESSAGE)
#define BUFFER_BYTES (UD_AT + WALKERS * 2 * UD_DEPTH * UD_ROOM)

/* What this seed's walk has. */
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
	X(WRONG) /* calls that are refused */
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
	bool known;    /* READ, atomics: there is something to compare with */
	bool null;     /* its memory is the null region */
	bool windowed; /* through the peer's window, which may go away */
	bool dead;     /* through one that we invalidated */
	bool with_imm;
	uint32_t bytes, key; /* of its pattern */
	uint32_t number;     /* of the messages that take a receive; BIND, INV: the window's key */
	uint64_t count;      /* atomics: what must be found; READ: the writes before it */
	struct ibv_mr *own;  /* made for this request alone */
	struct ibv_mw *window;
};

struct queue {
	struct request r[DEPTH];
	uint32_t head, tail; /* tail: oldest that is outstanding */
	uint32_t top;        /* behind the newest whose completion came */
	struct {
		uint32_t seq, status;
	} came[8]; /* the last completions, for the report of a failure */
	uint32_t count;
	bool loose;  /* others poll its completions, too: they are seen in any order */
	bool failed; /* what follows is flushed */
};

enum life { NONE, FRESH, CONNECTED, BROKEN };

struct walk_qp {
	struct ibv_qp *qp;
	enum life life;
	enum ibv_qp_type type;
	bool extended, broken; /* broken: a completion showed it, or we did it */
	bool sqe, drained;
	bool srq; /* its receives are the client's */
	uint32_t serial, qpn, psn, generation;
	int peer, peer_slot; /* client, its queue pair */
	uint32_t peer_qpn, peer_generation, peer_srqn;
	struct queue send, recv;
	uint32_t messages, arrived; /* that take a receive: posted, and come from the peer */
	uint8_t shadow[SLOT];       /* the data of its slot, if all writes were done */
	uint64_t writes;
	bool data_known, count_known;
	uint64_t count;
	struct ibv_mw *mw;         /* type 2, over the peer's slot here */
	uint32_t mw_key, mw_shown; /* shown: on the board */
	enum { MW_FREE, MW_BINDING, MW_BOUND, MW_ENDING } mw_state;
	uint32_t dead_key; /* of the peer's window, that we invalidated */
};

/* A shared receive queue: 0 plain, 1 of extended connections. */
struct walk_srq {
	struct ibv_srq *srq;
	uint32_t number; /* XRC */
	uint32_t posted, limits, limit_events;
	struct {
		bool out, bad;
		bool doubtful; /* posted anew, though it may be out: queue pairs take some with them */
		uint32_t round, bytes;
	} r[SRQ_DEPTH];
	uint32_t deaths, doubts, given_up; /* deaths: of queue pairs that used it */
};

struct walk_cq {
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex; /* or it is a plain one */
	struct ibv_comp_channel *channel;
	bool armed; /* with nothing in it: the next completion makes an event */
	uint64_t stamp;
	uint64_t arms, events;
};

/* A datagram queue pair. */
struct walk_ud {
	struct ibv_qp *qp;
	uint32_t serial, qpn;
	bool broken, member[2];
	struct queue send, recv; /* DEPTH of each */
	struct ibv_ah *ah[UD_DEPTH];
	uint64_t seen[64]; /* the last ones that came */
	uint32_t seen_count;
};

struct walker {
	struct client *client;
	int number;
	uint64_t random;
	struct walk_qp qp[QPS];
	struct walk_ud ud;
	struct ibv_pd *pd; /* the client's, or a parent of it */
	struct ibv_td *td;
	struct trash {
		struct ibv_mw *mw;
		struct ibv_mr *mr;
		bool busy; /* the window is bound to it */
	} trash[TRASH];    /* under the client's lock: the walker that polls puts it there */
	int trash_count;
	uint64_t done[KINDS], errors, connections, received, compared, datagrams, refused;
};

/* What others may see of a queue pair; under the board's lock. */
struct advert {
	bool free, asked;
	enum ibv_qp_type type;
	uint32_t qpn, psn, generation;
	int peer, peer_slot; /* the walker that asked */
	uint32_t peer_qpn, peer_psn, peer_generation;
	uint32_t window; /* for the peer; 0: none */
};
struct advert_ud {
	uint32_t qpn; /* 0: none */
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
/* This queue pair's place among its client's. */
int slot_index(const struct walker *w, const struct walk_qp *q);
/* The memory that the peer of queue pair `index` of client `from` has for it: an offset. */
uint64_t slot_offset(int from, int index, uint32_t generation);
uint8_t *message_of(const struct walker *w, const struct walk_qp *q, bool recv, uint32_t seq);
struct ibv_ah_attr address_of(const struct client *c, const union ibv_gid *gid, uint16_t lid);

/* ---- life.c --------------------------------------------------------------------------------- */

void qp_make(struct walker *w, struct walk_qp *q);
/* Answers a walker that asked, or asks one. */
void qp_pair(struct walker *w, struct walk_qp *q);
void qp_to_error(struct walker *w, struct walk_qp *q);
/* ERR, and every request that is outstanding must complete. */
void qp_flush_out(struct walker *w, struct walk_qp *q);
void qp_reset(struct walker *w, struct walk_qp *q);
void qp_destroy(struct walker *w, struct walk_qp *q);
void qp_drain(struct walker *w, struct walk_qp *q);
void qp_recover(struct walker *w, struct walk_qp *q);

/* ---- post.c --------------------------------------------------------------------------------- */

void recv_post(struct walker *w, struct walk_qp *q);
void srq_post(struct walker *w, int which);
void srq_limit(struct walker *w, int which);
void send_post(struct walker *w, struct walk_qp *q);
/* A last request whose completion shows that all before it are over. */
void send_post_last(struct walker *w, struct walk_qp *q);
void bind_post(struct walker *w, struct walk_qp *q);
int post_list(struct walker *w, struct walk_qp *q, struct ibv_send_wr *wr);
/* Ends what completed requests had for themselves. */
void trash_empty(struct walker *w);
void trash_request(struct walker *owner, struct request *r); /* under the client's lock */

/* ---- done.c --------------------------------------------------------------------------------- */

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

/* ---- datagram.c ----------------------------------------------------------------------------- */

void ud_make(struct walker *w);
void ud_step(struct walker *w);
void ud_done(struct walker *w, struct walker *owner, const struct ibv_wc *wc);
void ud_destroy(struct walker *w);

/* ---- wrong.c -------------------------------------------------------------------------------- */

void noise(struct walker *w);
void wrong(struct walker *w);

#endif
