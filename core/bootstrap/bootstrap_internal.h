/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of core/bootstrap share: the wire format, and a rank's connections.
 *
 *	rank r --hello(CHECK_IN)--> root          r's listening address
 *	root --answer(SUCCESSOR)--> r             listening address of r + 1
 *	root k --hello(ROOT)--> root k - 1        with several unique ids (root_set.c)
 *	root k --answer(SUCCESSOR)--> root k - 1  listening address of the first rank of root k
 *	root k --answer(COMPLETE), answer(END)--> root k - 1  all ranks have checked in
 *	r --hello(GIVE_UP), reason--> root        instead of a check-in: r has failed
 *	r --hello(QUERY)--> root --answer(ABSENT)--> r   which ranks have not checked in
 *	r --hello(RING)--> r + 1                  the ring; data flows to the successor only
 *	r --farewell--> r - 1, r + 1              r ends in order; a second one: r has failed since
 *	r --hello(PEER)--> any, then messages     one connection per direction and pair, kept
 *	r --hello(LOOK)--> any                    r waits for its end: that rank left or died
 */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_INTERNAL_H
#define CORE_BOOTSTRAP_BOOTSTRAP_INTERNAL_H

#include "core/bootstrap/bootstrap.h"
#include "core/bootstrap/sock.h"
#include "core/os/os_waits.h"

/* Time after which a socket is polled again: a real socket posts no event when its peer closes. */
#define BOOTSTRAP_LOOK_NS 50000000ull

DOPPEL_STATIC_CHECK(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

/* The place of a root among those of a communicator with several unique ids. Root k serves a block
 * of consecutive ranks (bootstrap_block_first). */
struct bootstrap_set {
	uint64_t hash;         /* of all ids, in their order */
	uint64_t before_magic; /* magic of the root before this one; the first follows the last */
	int32_t nroots, root;  /* nroots 0: the communicator has one id; root: 0, 1... */
	struct os_addr before; /* its address */
};
DOPPEL_CHECK_SIZE(struct bootstrap_set, 48);

/* Content of an ncclUniqueId. */
struct bootstrap_id {
	uint64_t magic;
	struct os_addr root;
	uint32_t from_env; /* NCCL_COMM_ID: rank 0 starts the root */
	uint32_t pad0;
	struct bootstrap_set set; /* only in the id that bootstrap_id_join makes for a rank */
	uint8_t pad1[NCCL_UNIQUE_ID_BYTES - 88];
};
DOPPEL_CHECK_SIZE(struct bootstrap_id, NCCL_UNIQUE_ID_BYTES);
DOPPEL_CHECK_OFFSET(struct bootstrap_id, set, 40);

enum bootstrap_hello_kind {
	BOOTSTRAP_CHECK_IN = 0x436e6931,
	BOOTSTRAP_RING,
	BOOTSTRAP_PEER,
	BOOTSTRAP_GIVE_UP, /* to the root: this rank will not check in */
	BOOTSTRAP_LOOK,    /* no messages follow */
	BOOTSTRAP_ROOT,  /* to a root, from the one after it; `rank` is the first that it serves */
	BOOTSTRAP_QUERY, /* to the root: which ranks are absent; changes nothing */
};
struct bootstrap_hello {
	uint64_t magic;
	uint32_t kind; /* enum bootstrap_hello_kind */
	int32_t rank, nranks;
	struct os_addr listen;
	uint32_t has_set; /* 1: a struct bootstrap_set follows, after the reason of GIVE_UP */
};
DOPPEL_CHECK_SIZE(struct bootstrap_hello, 48);
DOPPEL_CHECK_OFFSET(struct bootstrap_hello, listen, 20);

/* Follows a hello of kind GIVE_UP: the rank's last logged error; empty: no error. */
#define BOOTSTRAP_REASON_BYTES 192
struct bootstrap_reason {
	char text[BOOTSTRAP_REASON_BYTES];
};
DOPPEL_CHECK_SIZE(struct bootstrap_reason, BOOTSTRAP_REASON_BYTES);

enum bootstrap_answer_kind {
	BOOTSTRAP_SUCCESSOR = 0x416e7331, /* rank, addr: connect to it */
	/* rank, reason: it closed before all ranks had checked in. rank -1: a root did. */
	BOOTSTRAP_LEFT,
	BOOTSTRAP_REFUSED, /* rank: its check-in contradicts another one */
	BOOTSTRAP_LATE,    /* rank, reason: it has not checked in by the deadline */
	/* Between roots. COMPLETE: the ranks of all roots that it has passed are answered. END: so
	 * are those of all. */
	BOOTSTRAP_COMPLETE,
	BOOTSTRAP_END,
	BOOTSTRAP_ABSENT, /* reason: to QUERY, the ranks that have not checked in */
};
struct bootstrap_answer {
	uint64_t magic;
	uint32_t kind; /* enum bootstrap_answer_kind */
	int32_t rank;
	struct os_addr addr;
	uint64_t nonce; /* nonce of the root */
	struct bootstrap_reason reason;
};
DOPPEL_CHECK_SIZE(struct bootstrap_answer, 48 + BOOTSTRAP_REASON_BYTES);
DOPPEL_CHECK_OFFSET(struct bootstrap_answer, nonce, 40);

/* Precedes each rank's contribution to an all-gather, on the link to its successor. */
struct bootstrap_gather_head {
	uint64_t bytes; /* per rank; in a barrier: the value that all ranks must have */
	uint32_t seq;   /* number of all-gathers of this ring so far */
	int32_t rank;   /* sender */
};
DOPPEL_CHECK_SIZE(struct bootstrap_gather_head, 16);

/* Sent on both connections of the ring when no all-gather follows. */
enum bootstrap_farewell_kind {
	BOOTSTRAP_ENDS = 0x456e6431, /* this rank has nothing in progress, and ends in order */
	BOOTSTRAP_FAILED,            /* sent later: the rank has learned that a rank failed */
};
struct bootstrap_farewell {
	uint32_t kind; /* enum bootstrap_farewell_kind */
	int32_t rank;  /* sender */
	uint64_t ops;  /* number of collectives that the sender took part in */
};
DOPPEL_CHECK_SIZE(struct bootstrap_farewell, 16);

/* State of a neighbour in the ring, from data that it sent outside all-gathers. */
struct bootstrap_neighbour {
	struct bootstrap_farewell farewell; /* being received */
	size_t got;
	uint64_t ops;
	bool ends;   /* it ends in order: the end of its connection is not a failure */
	bool gone;   /* its connection has ended */
	bool failed; /* it reported a failure after its farewell */
};

#define BOOTSTRAP_MESSAGE_MAX (64ull << 20) /* size in bytes */

/* Precedes each message between two ranks. */
struct bootstrap_message_head {
	uint64_t bytes;
	int32_t tag;
	int32_t rank; /* sender */
};
DOPPEL_CHECK_SIZE(struct bootstrap_message_head, 16);

/* A message that arrived before its receive, or is being sent. From its head on it has the wire
 * format. */
struct bootstrap_message {
	struct bootstrap_message *next;
	struct bootstrap_message_head head;
	char data[];
};
DOPPEL_CHECK_OFFSET(struct bootstrap_message, data,
		    sizeof(struct bootstrap_message *) + sizeof(struct bootstrap_message_head));

/* Replaces an event count for a socket that was never polled. The first event count is not known in
 * advance: an earlier object may have had the same address. */
#define BOOTSTRAP_NOT_LOOKED UINT64_MAX

/* A connection that another rank opened to this one, from its first byte on. */
struct bootstrap_in {
	struct bootstrap_in *next;
	int fd;
	uint64_t seq; /* event count before the last poll */
	int32_t rank; /* -1: no complete hello yet, or `looks` */
	bool looks;   /* a hello of kind LOOK: the other rank waits for this one to leave */
	size_t got;   /* number of received bytes of the current hello, head or data */
	struct bootstrap_hello hello;
	struct bootstrap_message_head head;
	struct bootstrap_message *message; /* message whose data is being received */
};

/* A connection that this rank opened to send messages. */
struct bootstrap_out {
	struct bootstrap_out *next;
	int fd;
	uint64_t seq; /* event count before the last poll */
	int32_t rank;
	/* A message was sent only in part: the peer would take the next one for its rest. */
	bool broken_off;
	/* bootstrap_post was used: the peer may leave before it has received everything. */
	bool posts;
};

struct bootstrap {
	int32_t rank, nranks;
	uint64_t magic;
	uint64_t root_magic; /* the same, unless the communicator has several unique ids */
	struct bootstrap_set set;
	uint64_t nonce; /* nonce of the root, from its answer */
	const shared_u32 *abort;
	struct os_addr address; /* listening address of this rank */
	int listen_fd, root_fd;
	struct bootstrap_answer root_answer; /* the root's second answer, being received */
	size_t root_got;
	int next_fd, prev_fd; /* the ring */
	/* Event counts before the last poll without result. */
	uint64_t listen_seq, next_seq, prev_seq;
	uint64_t watch_seq[2],
		/* For both ends of the ring: event counts and time of the last poll. */
		watched_ns;
	struct bootstrap_neighbour next, prev;
	bool root_late;  /* NCCL_COMM_ID: rank 0 starts the root, perhaps later */
	bool checked_in; /* the root has answered, so it knows this rank */
	bool settled;    /* no all-gather follows: the predecessor is watched too */
	bool parted;     /* this rank has sent its farewell */
	bool ringless;   /* the ring is not watched, and other ranks' ends are no errors */
	/* In the first rank of bootstrap_meet: number of ranks that have called it; in others: 1
	 * once posted. */
	int32_t met;
	uint64_t connect_until_ns;   /* deadline for repeated attempts to connect; 0: default */
	struct bootstrap_root *root; /* root that this rank started for NCCL_COMM_ID, or NULL */
	struct os_addr *addresses;   /* [nranks], once the ring stands */
	bool *opened;                /* [nranks]: the rank has opened a connection for messages */
	bool (*look)(void *arg);     /* bootstrap_look */
	void *look_arg;
	shared_u32 kicks;
	uint32_t gathers;
	bool reported_garbage;
	struct bootstrap_in *ins;
	struct bootstrap_out *outs;
	struct bootstrap_message *messages, **messages_end;
	bool fresh;            /* a message has arrived that bootstrap_offer has not passed on */
	struct os_waits waits; /* scratch space for bootstrap_wait */
};

static inline struct sock_ctx bootstrap_ctx(const struct bootstrap *b, int32_t peer,
					    const char *why)
{
	return (struct sock_ctx){.why = why, .self = b->rank, .peer = peer, .abort = b->abort};
}

/* Returns the connection that the peer opened; NULL if it opened no connection or that one is
 * closed. */
struct bootstrap_in *bootstrap_in_of(const struct bootstrap *b, int32_t peer);
/* Reads arrived data of the listener and the incoming connections, without waiting. The connection
 * of a RING hello becomes b->prev_fd. */
ncclResult_t bootstrap_take(struct bootstrap *b);
/* Waits for the `n` given waits, or for data that bootstrap_take would read. */
ncclResult_t bootstrap_wait(struct bootstrap *b, const struct wait *more, int n,
			    const struct sock_ctx *ctx);
struct bootstrap_hello bootstrap_hello_of(const struct bootstrap *b,
					  enum bootstrap_hello_kind kind);
/* Connects to `to`, and sends this rank's hello. */
ncclResult_t bootstrap_connect(struct bootstrap *b, int32_t peer, const struct os_addr *to,
			       enum bootstrap_hello_kind kind, const char *why, int *fd);
/* Waits until data arrives that may be a message of the peer, or until the deadline; 0: no
 * deadline. */
ncclResult_t bootstrap_recv_wait(struct bootstrap *b, int peer, const struct sock_ctx *ctx,
				 uint64_t deadline_ns);
void bootstrap_outs_close(struct bootstrap *b);
/* Opens a connection to find out whether the peer has left. 0: it has; ETIMEDOUT: not by the
 * deadline. Attempts that follow a refusal may go on for some ms beyond it. */
int bootstrap_look_left(struct bootstrap *b, int peer, uint64_t deadline_ns);
/* Closes the connections by which other ranks see that this one has left. */
void bootstrap_looks_close(struct bootstrap *b);
void bootstrap_peers_close(struct bootstrap *b);
/* Returns ncclRemoteError if the successor in the ring has closed without a farewell. Once the ring
 * is settled, checks the predecessor too. A failing rank always closes this way, so failures
 * propagate. *seq: the successor's event count before the poll. */
ncclResult_t bootstrap_next_poll(struct bootstrap *b, uint64_t *seq);

/* Returns the first of the ranks that the root serves. Roots serve blocks of consecutive ranks; the
 * first blocks have one rank more if the number of ranks is no multiple. */
static inline int32_t bootstrap_block_first(int32_t root, int32_t nroots, int32_t nranks)
{
	int32_t rest = nranks % nroots;

	return root * (nranks / nroots) + (root < rest ? root : rest);
}
/* Returns the root that serves the rank. */
int32_t bootstrap_block_of(int32_t rank, int32_t nroots, int32_t nranks);

/* Starts a root that listens at `at`. The nonce distinguishes communicators with the same unique
 * id; 0 if the id is used once. */
ncclResult_t bootstrap_root_start(uint64_t magic, uint64_t nonce, const struct os_addr *at,
				  struct bootstrap_owner owner, struct os_addr *bound,
				  struct bootstrap_root **root);

#endif
