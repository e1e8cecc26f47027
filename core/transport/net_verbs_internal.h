/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_verbs: the network over RC queue pairs, one or several per connection. What its files share.
 *
 * Data path, driven by the receiver. For each irecv the receiver posts an empty receive and writes
 * a clear-to-send entry (CTS: where, how much, which turn) into the sender's ring in host memory.
 * isend finds the entry of its turn, writes the data there with RDMA WRITE WITH IMMEDIATE (the
 * immediate is the size), and the receiver gets a completion for its empty receive. A receive of
 * several buffers has an entry for each, with its tag. When the sends for all of them are there,
 * their data is written, and the last write, which has the immediate, writes their sizes into a
 * ring of the receiver. Of several queue pairs the messages take turns, or each message is split
 * over all of them, every part with an immediate and an empty receive of its own
 * (NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_SPLIT_DATA_ON_QPS). Where the network routes adaptively,
 * long data is one write and its immediate another one. GPU memory is flushed by an RDMA READ of
 * one byte on a queue pair connected to itself.
 *
 * Over a merged NIC a connection has a leg on each of its devices, with a completion queue, the
 * registrations and every so-manyth queue pair. Each message is split over all legs, and is there
 * when all its parts are. The ends may have different numbers of devices.
 *
 * Values: NCCL 2.28's. The orders that it relies on are listed in backends/INTERFACE.md.
 *
 * Set-up goes over a TCP connection, which stays open: an end whose queue pair fails reports that
 * on it, because the other end, with nothing in flight, would not notice. The communicator's other
 * connections close as a consequence, and report the same before they do: a rank that learns of the
 * failure from one of them can name the queue pair that failed first.
 */
#ifndef CORE_TRANSPORT_NET_VERBS_INTERNAL_H
#define CORE_TRANSPORT_NET_VERBS_INTERNAL_H

#include <infiniband/verbs.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/transport_internal.h"

#define NET_VERBS_MAX_DEVICES 32
#define NET_VERBS_RING        NET_MAX_REQUESTS /* CTS entries */
#define NET_VERBS_PAGE        4096u
#define NET_VERBS_CTS_DEPTH   (2 * NET_VERBS_RING) /* send queue of a receiving end */
#define NET_VERBS_MAX_QPS     128
#define NET_VERBS_MAX_LEGS    NET_MAX_MERGED
#define NET_VERBS_SPLIT_ALIGN 128u /* parts of a message are multiples of it */

/* ---- devices -------------------------------------------------------------------------------- */

/* One active port of one HCA. A context of our own per communicator; nothing is shared. */
struct net_verbs_dev {
	char name[32];
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* while pd_refs > 0 */
	int pd_refs;
	uint8_t port;
	struct ibv_port_attr attr;
	uint64_t guid;
	uint8_t retries; /* of a request that is not acknowledged */
	/* what a registration has shown: */
	bool no_dmabuf; /* the HCA, or its library, takes no dma-buf */
	bool in_order;  /* the library knows no relaxed ordering */
	bool has_gid;   /* gid below was chosen */
	int gid_index;
	union ibv_gid gid;
	struct net_state *state;
	/* of the first port of a context, for all: */
	struct os_thread *watcher; /* of asynchronous events; NULL: not in use yet */
	shared_u32 closing;
	struct os_mutex lock;       /* the list below */
	struct net_verbs_leg *legs; /* of connections with queue pairs */
};

/* On the TCP connection of a pair of ends, after set-up: a queue pair failed, this end's or, when
 * it closes for that, another one of its communicator. The message "ready" is one with status 0. */
struct net_verbs_notice {
	uint32_t magic;
	uint32_t status; /* enum ibv_wc_status */
	uint32_t what;   /* enum net_verbs_kind */
	uint32_t qpn;    /* which failed, of */
	int32_t rank;    /* this rank, */
	int32_t peer;    /* towards that one, */
	char nic[32];    /* on this device */
};
DOPPEL_CHECK_SIZE(struct net_verbs_notice, 56);

struct net_state {
	struct ncclComm *comm;
	struct ibv_device **list;
	int ndevs;
	bool wanted; /* NCCL_IB_HCA names a port that there is */
	struct net_verbs_dev dev[NET_VERBS_MAX_DEVICES];
	/* What the communicator's network failed by, first; magic 0: nothing. Under the lock. */
	struct net_verbs_notice failure;
	struct os_mutex lock;
};

/* NULL: the devices are not open. */
static inline struct net_state *net_verbs_state(const struct ncclComm *comm)
{
	return comm->net.state;
}

static inline struct net_verbs_dev *net_verbs_dev(const struct ncclComm *comm, int dev)
{
	struct net_state *st = net_verbs_state(comm);

	ASSERT(st && dev >= 0 && dev < st->ndevs);
	return &st->dev[dev];
}

/* ---- what crosses --------------------------------------------------------------------------- */

#define NET_VERBS_HANDLE_MAGIC 0xd0de3002u
#define NET_VERBS_META_MAGIC   0xd0de3007u
#define NET_VERBS_NOTICE_MAGIC 0xd0de3004u

/* In struct net_handle: where a receiving end listens. */
struct net_verbs_handle {
	uint32_t magic;
	int32_t rank;
	uint64_t nonce; /* the end that connects sends it back */
	struct os_addr addr;
	uint32_t ndevs;
	uint32_t pad0;
};
DOPPEL_CHECK_SIZE(struct net_verbs_handle, 48);
DOPPEL_STATIC_CHECK(sizeof(struct net_verbs_handle) <= NET_HANDLE_BYTES, "handle fits");

/* A device of an end. */
struct net_verbs_meta_dev {
	uint8_t gid[16];
	char nic[32];
	uint32_t ring_rkey;
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t link_layer;
};
DOPPEL_CHECK_SIZE(struct net_verbs_meta_dev, 56);

/* The first message on the TCP connection, each way. */
struct net_verbs_meta {
	uint32_t magic;
	uint16_t nqps, split; /* as the environment has them: NCCL_IB_QPS_PER_CONNECTION,
			       * NCCL_IB_SPLIT_DATA_ON_QPS */
	uint64_t nonce;
	uint64_t ring_addr; /* clear-to-send entries of a sending end, sizes of a receiving one */
	uint32_t ring_entries;
	int32_t rank;
	int32_t by_rank; /* whose proxy has the end: another rank than `rank` for a relay */
	uint32_t ndevs;
	struct net_verbs_meta_dev dev[NET_VERBS_MAX_LEGS];
	uint32_t qpn[NET_VERBS_MAX_QPS];
};
DOPPEL_CHECK_SIZE(struct net_verbs_meta, 40 + 56 * NET_VERBS_MAX_LEGS + 4 * NET_VERBS_MAX_QPS);
DOPPEL_CHECK_OFFSET(struct net_verbs_meta, ring_addr, 16);

/* Clear to send, for one of the buffers of a receive. All of a receive are written by one small
 * RDMA WRITE, and polled each at its last word: HCAs place such a write in order of address. */
struct net_verbs_cts {
	uint64_t addr;
	uint32_t rkey[NET_VERBS_MAX_LEGS]; /* of each device */
	uint32_t bytes;
	uint32_t tag;
	uint16_t n;     /* buffers of the receive */
	uint16_t sizes; /* where in the ring of sizes theirs go */
	uint32_t pad0;
	shared_u64 turn; /* 1 for the first receive, 2... */
};
DOPPEL_CHECK_SIZE(struct net_verbs_cts, 48);
DOPPEL_CHECK_OFFSET(struct net_verbs_cts, turn, 40);

/* ---- connections ---------------------------------------------------------------------------- */

enum net_verbs_kind {
	NET_VERBS_SEND,
	NET_VERBS_RECV,
	NET_VERBS_FLUSH,
	NET_VERBS_CTS,
	/* not requests, in a notice: */
	NET_VERBS_EVENT, /* its status is 1 + enum ibv_event_type */
	NET_VERBS_CALL,  /* a verbs call failed; its status is the errno, 0: none */
	NET_VERBS_GONE,  /* the end at `peer` closed while it was needed; no status */
	NET_VERBS_ENDS, /* no failure: this end has done all that it was to do, and closes; its sends */
};

struct net_request {
	struct net_verbs_conn *conn;
	enum net_verbs_kind kind;
	bool used, done;
	uint32_t left;                        /* completions to come, */
	uint32_t left_on[NET_VERBS_MAX_LEGS]; /* by leg */
	uint32_t n; /* buffers of a receive; sends that complete with this one */
	size_t bytes[NET_MAX_RECVS];
	struct net_request *sends[NET_MAX_RECVS]; /* this one is the first */
	struct net_request *first;                /* of a send that completes with another one */
};

/* The receive whose messages are next to be sent: what it clears, and those of its sends that are
 * here. */
struct net_verbs_gather {
	uint32_t n, here; /* n 0: there is none */
	struct net_verbs_cts cts[NET_MAX_RECVS];
	struct net_request *req[NET_MAX_RECVS]; /* NULL: not here yet */
	struct net_buffer from[NET_MAX_RECVS];
};

/*
 *   sending end:    CONNECT -> SEND_META -> RECV_META -> TO_RTS -> SEND_READY -> READY
 *   receiving end:  ACCEPT -> RECV_META -> TO_RTS -> SEND_META -> RECV_READY -> READY
 *
 * The receiver's first CTS may reach the sender as soon as the sender can receive, hence "ready".
 */
enum net_verbs_state {
	NET_VERBS_CONNECT,
	NET_VERBS_ACCEPT,
	NET_VERBS_SEND_META,
	NET_VERBS_RECV_META,
	NET_VERBS_TO_RTS,
	NET_VERBS_SEND_READY,
	NET_VERBS_RECV_READY,
	NET_VERBS_READY,
};

/* What a connection has on one of its devices. */
struct net_verbs_leg {
	struct net_verbs_conn *conn;
	struct net_verbs_dev *dev;
	struct ibv_cq *cq; /* of its queue pairs; NULL: nothing is made here */
	uint64_t seq;      /* of its events, before it was polled last */
	struct ibv_mr *ring_mr;
	struct ibv_qp *flush_qp;
	struct ibv_mr *flush_mr;
	uint64_t flush_word;        /* where flushes read to */
	struct net_verbs_leg *next; /* of the device's, under its lock */
};

struct net_verbs_conn {
	struct ncclComm *comm;
	struct net_who who;
	bool is_send;
	enum net_verbs_state state;
	int fd; /* -1: none */
	struct net_verbs_meta mine, theirs;
	struct net_verbs_notice ready;
	size_t moved; /* bytes of the message that is being sent or received */
	int tries;    /* connects or address resolutions so far */

	uint32_t nlegs;
	struct net_verbs_leg leg[NET_VERBS_MAX_LEGS];
	uint32_t
		width; /* queue pairs that a message goes over if it is not split over all: one a leg */
	uint32_t nqps; /* a multiple of it */
	bool split, adaptive;
	struct ibv_qp *qp[NET_VERBS_MAX_QPS]; /* clear-to-send entries go over the first */
	uint32_t failed_qp;                   /* by which a post failed */
	struct net_request req[NET_MAX_REQUESTS];
	bool failed; /* reported already */
	/* What ended this connection: 1 + enum ibv_event_type, and from bit 16 on the leg; 0:
	 * nothing. */
	shared_u32 event;
	bool peer_gone;      /* the TCP connection ended */
	bool cut;            /* sends were done before their completions */
	bool peer_ends;      /* before that: it has sent and received all that it was to, */
	uint32_t peer_sends; /* and has sent to so many receives, modulo 2^32 */
	uint64_t checked_seq, check_at_ns;
	struct net_verbs_notice notice; /* comes in */
	size_t notice_bytes;

	void *ring_mem, *ring; /* where the other end writes */
	/* sending end */
	uint64_t sends; /* receives that were sent to so far: the next one has turn sends + 1 */
	struct net_verbs_gather gather;
	/* receiving end */
	int max_recvs;
	uint64_t recvs;     /* irecvs so far */
	uint64_t cts_done;  /* CTS writes known to be complete; one in NET_VERBS_RING is signaled */
	uint64_t cts_turns; /* signaled ones among them */
};

/* Registered memory: what reg_mr gives the proxy. */
struct net_verbs_region {
	struct ibv_mr *mr[NET_VERBS_MAX_LEGS];
	bool used; /* a request has been for it */
	const uint8_t *data;
	size_t bytes;
};

#define NET_VERBS_GREETINGS 4

struct net_verbs_listen {
	struct ncclComm *comm;
	struct net_nic nic;
	struct net_who who;
	int fd;
	uint64_t nonce;
	struct net_verbs_conn *half; /* our peer: accepted, not ready */
	/* Connections that have not sent the nonce yet, oldest first: one of another program must
	 * not keep the peer waiting. */
	struct net_verbs_conn *greeting[NET_VERBS_GREETINGS];
	uint32_t greetings;
};

/* net_verbs_device.c */
ncclResult_t net_verbs_devices(struct ncclComm *comm, int *count);
ncclResult_t net_verbs_props(struct ncclComm *comm, int dev, struct net_props *p);
/* The longest message that the port takes. */
size_t net_verbs_message_max(const struct net_verbs_dev *dev);
void net_verbs_fini(struct ncclComm *comm);
ncclResult_t net_verbs_pd_get(struct net_verbs_dev *dev);
void net_verbs_pd_put(struct net_verbs_dev *dev);

/* net_verbs_gid.c: chooses the port's GID, once. */
ncclResult_t net_verbs_gid_get(struct net_verbs_dev *dev);

/* net_verbs_qp.c */
ncclResult_t net_verbs_qp_make(struct net_verbs_conn *c);
/* 0, or a positive errno: ETIMEDOUT (no address resolution yet) may be tried again. */
int net_verbs_qp_to_rts(struct net_verbs_conn *c);
/* On every leg. */
ncclResult_t net_verbs_flush_make(struct net_verbs_conn *c);
void net_verbs_qp_stop(struct net_verbs_conn *c);
void net_verbs_qp_close(struct net_verbs_conn *c);

/* net_verbs_connect.c */
ncclResult_t net_verbs_listen(struct ncclComm *comm, const struct net_nic *nic,
			      const struct net_who *who, struct net_handle *h, void **listen);
ncclResult_t net_verbs_connect(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, const struct net_handle *h,
			       void **pending, void **send_comm, struct wait *w);
ncclResult_t net_verbs_accept(void *listen, void **recv_comm, struct wait *w);
void net_verbs_close(void *net_comm);
void net_verbs_close_listen(void *listen);

/* net_verbs_mr.c: the regions of messages' data. */
ncclResult_t net_verbs_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr);
ncclResult_t net_verbs_dereg_mr(void *net_comm, void *mr);
/* Where the HCA knows `p`, which lies in the region, by its keys. */
uint64_t net_verbs_iova(const struct net_verbs_region *r, const void *p);

/* net_verbs_data.c */
int net_verbs_max_recvs(void *recv_comm);
ncclResult_t net_verbs_irecv(void *recv_comm, const struct net_buffer *b, int n,
			     struct net_request **req, struct wait *w);
ncclResult_t net_verbs_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w);
ncclResult_t net_verbs_test(struct net_request *req, bool *done, size_t *bytes, struct wait *w);

/* NULL: all are in use. */
struct net_request *net_verbs_request(struct net_verbs_conn *c, enum net_verbs_kind kind);
/* The request completes with all parts of this message. */
void net_verbs_expect(const struct net_verbs_conn *c, struct net_request *r, uint64_t message);
/* No request, or no room in the queue, before something completes: *req NULL, and *w. */
ncclResult_t net_verbs_busy(const struct net_verbs_conn *c, struct net_request **req,
			    struct wait *w);

/* net_verbs_send.c: the writes of the sending end. */
ncclResult_t net_verbs_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			     struct wait *w);

/* net_verbs_async.c: a connection whose queues exist gets the events that end it. */
ncclResult_t net_verbs_watch(struct net_verbs_conn *c);
void net_verbs_unwatch(struct net_verbs_conn *c);
void net_verbs_close_context(struct net_verbs_dev *d);

/* net_verbs_error.c: calls and completions that fail, and the other end's notices. */
/* `what` was attempted on queue pair `i` of the connection; error: the errno, 0: none. */
ncclResult_t net_verbs_call_failed(struct net_verbs_conn *c, uint32_t i, const char *what,
				   int error);
/* A completion on that leg. */
ncclResult_t net_verbs_complain(struct net_verbs_conn *c, uint32_t leg, const struct ibv_wc *wc);
ncclResult_t net_verbs_check(void *net_comm, bool busy, struct wait *w);
void net_verbs_failure(struct ncclComm *comm, struct net_failure *f);
/* Sends, on a connection that is about to close, what its communicator failed by, or that it ends
 * in order. */
void net_verbs_tell_why(struct net_verbs_conn *c);
/* Has the other end ended in order? Then nothing that fails after that is a failure by itself. */
bool net_verbs_peer_ends(struct net_verbs_conn *c);
/* A send to an end that has ended in order. */
ncclResult_t net_verbs_send_after_end(struct net_verbs_conn *c);
/* Has the connection failed, by what came before or by an event? ncclSuccess: no. */
ncclResult_t net_verbs_alive(struct net_verbs_conn *c);
/* Is any request in flight? */
bool net_verbs_outstanding(const struct net_verbs_conn *c);
/* Takes what the completion queues have. */
ncclResult_t net_verbs_drain(struct net_verbs_conn *c);

/* Completions of a message: one for each immediate. */
static inline uint32_t net_verbs_parts(const struct net_verbs_conn *c)
{
	return c->split ? c->nqps : c->width;
}

/* The queue pair of part k of a message: messages that are not split over all of them take
 * turns. */
static inline uint32_t net_verbs_part_qp(const struct net_verbs_conn *c, uint64_t message,
					 uint32_t k)
{
	return c->split ? k : (uint32_t)(message % (c->nqps / c->width)) * c->width + k;
}

/* The parts are equal, but for the last ones. */
static inline size_t net_verbs_part_bytes(const struct net_verbs_conn *c, size_t bytes)
{
	const uint32_t parts = net_verbs_parts(c);

	return parts > 1 ? ALIGN_UP(DIV_UP(bytes, parts), (size_t)NET_VERBS_SPLIT_ALIGN) : bytes;
}

/* The leg of queue pair i, and the other end's device: part k of a message goes over leg k first,
 * then around. */
static inline uint32_t net_verbs_leg_of(const struct net_verbs_conn *c, uint32_t i)
{
	return i % c->width % c->nlegs;
}

static inline uint32_t net_verbs_their_dev(const struct net_verbs_conn *c, uint32_t i)
{
	return i % c->width % c->theirs.ndevs;
}

static inline uint64_t net_verbs_wr_id(enum net_verbs_kind kind, uint32_t request)
{
	return (uint64_t)kind << 32 | request;
}

#endif
