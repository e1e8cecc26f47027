/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/bootstrap share: the wire, and a rank's connections.
 *
 *	rank r --hello(CHECK_IN)--> root          where r listens
 *	root --answer(SUCCESSOR)--> r             where r + 1 listens
 *	r --hello(GIVE_UP), reason--> root        instead of a check-in: r has failed
 *	r --hello(RING)--> r + 1                  the ring; data flows to the successor only
 *	r --farewell--> r - 1, r + 1              r ends in order; a second one: it failed meanwhile
 *	r --hello(PEER)--> any, then messages     one connection per direction and pair, kept
 *	r --hello(LOOK)--> any                    ends when that rank leaves or dies, for which r waits
 */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_INTERNAL_H
#define CORE_BOOTSTRAP_BOOTSTRAP_INTERNAL_H

#include "core/bootstrap/bootstrap.h"
#include "core/bootstrap/sock.h"
#include "core/os/os_waits.h"

/* A real socket posts no event when its peer is gone: it is looked at after this time. */
#define BOOTSTRAP_LOOK_NS 50000000ull

DOPPEL_STATIC_CHECK(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

/* What an ncclUniqueId holds. */
struct bootstrap_id {
	uint64_t magic;
	struct os_addr root;
	uint32_t from_env; /* NCCL_COMM_ID: rank 0 starts the root */
	uint8_t pad0[NCCL_UNIQUE_ID_BYTES - 36];
};
DOPPEL_CHECK_SIZE(struct bootstrap_id, NCCL_UNIQUE_ID_BYTES);

enum bootstrap_hello_kind {
	BOOTSTRAP_CHECK_IN = 0x436e6931,
	BOOTSTRAP_RING,
	BOOTSTRAP_PEER,
	BOOTSTRAP_GIVE_UP, /* to the root: this rank will not come */
	BOOTSTRAP_LOOK,    /* no messages follow */
};
struct bootstrap_hello {
	uint64_t magic;
	uint32_t kind; /* enum bootstrap_hello_kind */
	int32_t rank, nranks;
	struct os_addr listen;
	uint32_t pad0;
};
DOPPEL_CHECK_SIZE(struct bootstrap_hello, 48);
DOPPEL_CHECK_OFFSET(struct bootstrap_hello, listen, 20);

/* Follows a hello of kind GIVE_UP: the line that the rank has logged; empty: none. */
#define BOOTSTRAP_REASON_BYTES 192
struct bootstrap_reason {
	char text[BOOTSTRAP_REASON_BYTES];
};
DOPPEL_CHECK_SIZE(struct bootstrap_reason, BOOTSTRAP_REASON_BYTES);

enum bootstrap_answer_kind {
	BOOTSTRAP_SUCCESSOR = 0x416e7331, /* rank, addr: connect to it */
	BOOTSTRAP_LEFT,                   /* rank, reason: it went away before all had come */
	BOOTSTRAP_REFUSED,                /* rank: check-in contradicts the others' */
};
struct bootstrap_answer {
	uint64_t magic;
	uint32_t kind; /* enum bootstrap_answer_kind */
	int32_t rank;
	struct os_addr addr;
	uint64_t nonce; /* the root's */
	struct bootstrap_reason reason;
};
DOPPEL_CHECK_SIZE(struct bootstrap_answer, 48 + BOOTSTRAP_REASON_BYTES);
DOPPEL_CHECK_OFFSET(struct bootstrap_answer, nonce, 40);

/* In front of each rank's contribution to an all-gather, on the link to its successor. */
struct bootstrap_gather_head {
	uint64_t bytes; /* per rank; of a barrier the value on which ranks agree */
	uint32_t seq;   /* all-gathers of this ring so far */
	int32_t rank;   /* sender */
};
DOPPEL_CHECK_SIZE(struct bootstrap_gather_head, 16);

/* On both connections of the ring, when no all-gather follows. */
enum bootstrap_farewell_kind {
	BOOTSTRAP_ENDS = 0x456e6431, /* this rank has nothing under way, and ends in order */
	BOOTSTRAP_FAILED,            /* after that: it has learned that a rank failed */
};
struct bootstrap_farewell {
	uint32_t kind; /* enum bootstrap_farewell_kind */
	int32_t rank;  /* sender */
	uint64_t ops;  /* collectives that it took part in */
};
DOPPEL_CHECK_SIZE(struct bootstrap_farewell, 16);

/* A neighbour in the ring, by what has come from it outside all-gathers. */
struct bootstrap_neighbour {
	struct bootstrap_farewell farewell; /* comes in */
	size_t got;
	uint64_t ops;
	bool ends;   /* in order; its end is no failure from then on */
	bool gone;   /* it has ended */
	bool failed; /* after its farewell */
};

#define BOOTSTRAP_MESSAGE_MAX (64ull << 20) /* bytes */

/* In front of each message between two ranks. */
struct bootstrap_message_head {
	uint64_t bytes;
	int32_t tag;
	int32_t rank; /* sender */
};
DOPPEL_CHECK_SIZE(struct bootstrap_message_head, 16);

/* A message that came before its receive, or is sent: from its head on it is as on the wire. */
struct bootstrap_message {
	struct bootstrap_message *next;
	struct bootstrap_message_head head;
	char data[];
};
DOPPEL_CHECK_OFFSET(struct bootstrap_message, data,
		    sizeof(struct bootstrap_message *) + sizeof(struct bootstrap_message_head));

/* In place of an event count: the socket has not been looked at. Its first count is no number to
 * begin with, since an earlier object may have had the address. */
#define BOOTSTRAP_NOT_LOOKED UINT64_MAX

/* A connection that others opened to us, from its first byte on. */
struct bootstrap_in {
	struct bootstrap_in *next;
	int fd;
	uint64_t seq; /* event count before its last poll */
	int32_t rank; /* -1: no complete hello yet, or `looks` */
	bool looks;   /* a hello of kind LOOK: the other rank waits for this one to leave */
	size_t got;   /* bytes of what is being read: hello, head or data */
	struct bootstrap_hello hello;
	struct bootstrap_message_head head;
	struct bootstrap_message *message; /* whose data is being read */
};

/* A connection that we opened to send messages. */
struct bootstrap_out {
	struct bootstrap_out *next;
	int fd;
	uint64_t seq; /* event count before its last poll */
	int32_t rank;
	bool broken_off; /* a message was begun and not finished: the peer would take another for its rest */
	bool posts; /* bootstrap_post: the peer may leave before it has taken all */
};

struct bootstrap {
	int32_t rank, nranks;
	uint64_t magic;
	uint64_t nonce; /* the root's, from its answer */
	const shared_u32 *abort;
	struct os_addr address; /* where this rank listens */
	int listen_fd, root_fd;
	int next_fd, prev_fd; /* the ring */
	/* event counts before the last look that found nothing */
	uint64_t listen_seq, next_seq, prev_seq;
	uint64_t watch_seq[2],
		watched_ns; /* of both ends of the ring: event counts, time of last look */
	struct bootstrap_neighbour next, prev;
	bool root_late;  /* NCCL_COMM_ID: rank 0 starts the root, when it comes */
	bool checked_in; /* the root knows of us: it has answered */
	bool settled;    /* no all-gather follows: the predecessor is watched too */
	bool parted;     /* this rank has sent its farewell */
	int32_t met;     /* the first one in bootstrap_meet: ranks that have come; others: posted */
	uint64_t connect_until_ns;   /* no attempt to connect is repeated after that; 0: as usual */
	struct bootstrap_root *root; /* ours, when NCCL_COMM_ID made this rank start it */
	struct os_addr *addresses;   /* [nranks], once the ring stands */
	bool *opened;                /* [nranks]: it has opened a connection for messages */
	bool (*look)(void *arg);     /* bootstrap_look */
	void *look_arg;
	shared_u32 kicks;
	uint32_t gathers;
	bool reported_garbage;
	struct bootstrap_in *ins;
	struct bootstrap_out *outs;
	struct bootstrap_message *messages, **messages_end;
	bool fresh;            /* a message has come that bootstrap_offer has not shown yet */
	struct os_waits waits; /* scratch for bootstrap_wait */
};

static inline struct sock_ctx bootstrap_ctx(const struct bootstrap *b, int32_t peer,
					    const char *why)
{
	return (struct sock_ctx){.why = why, .self = b->rank, .peer = peer, .abort = b->abort};
}

/* The connection that the peer has opened; NULL: it has opened none, or it is closed. */
struct bootstrap_in *bootstrap_in_of(const struct bootstrap *b, int32_t peer);
/* Takes what has come in on the listener and on incoming connections, without waiting. A hello of
 * kind RING becomes b->prev_fd. */
ncclResult_t bootstrap_take(struct bootstrap *b);
/* Waits for the `n` waits given, or for anything that bootstrap_take would take. */
ncclResult_t bootstrap_wait(struct bootstrap *b, const struct wait *more, int n,
			    const struct sock_ctx *ctx);
struct bootstrap_hello bootstrap_hello_of(const struct bootstrap *b,
					  enum bootstrap_hello_kind kind);
/* Connects to `to`, and sends which rank this is. */
ncclResult_t bootstrap_connect(struct bootstrap *b, int32_t peer, const struct os_addr *to,
			       enum bootstrap_hello_kind kind, const char *why, int *fd);
/* Waits until something came that may be a message of the peer, or until the deadline; 0: none. */
ncclResult_t bootstrap_recv_wait(struct bootstrap *b, int peer, const struct sock_ctx *ctx,
				 uint64_t deadline_ns);
void bootstrap_outs_close(struct bootstrap *b);
/* Opens a connection to see whether the peer has left: 0; ETIMEDOUT: not until the deadline. */
int bootstrap_look_left(struct bootstrap *b, int peer, uint64_t deadline_ns);
/* Ends the connections by which other ranks see whether this one has left. */
void bootstrap_looks_close(struct bootstrap *b);
void bootstrap_peers_close(struct bootstrap *b);
/* ncclRemoteError when the successor in the ring, or once the ring is settled the predecessor, has
 * gone away without a farewell, as every failing rank does: so a failure travels. *seq: the
 * successor's event count before the look. */
ncclResult_t bootstrap_next_poll(struct bootstrap *b, uint64_t *seq);

/* Starts a root that listens at `at`. The nonce differs between communicators with the same unique
 * id; 0 where the id is used once. */
ncclResult_t bootstrap_root_start(uint64_t magic, uint64_t nonce, const struct os_addr *at,
				  struct bootstrap_owner owner, struct os_addr *bound,
				  struct bootstrap_root **root);
uint64_t bootstrap_root_magic(const struct bootstrap_root *root);

#endif
