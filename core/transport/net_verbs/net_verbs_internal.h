/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_verbs: the network over RC queue pairs, one or several per connection. This header is shared
 * by its files.
 *
 * Data path, driven by the receiver. For each irecv the receiver posts an empty receive and writes
 * a clear-to-send entry (CTS: address, room, sequence number) into the sender's ring in host
 * memory. isend finds the entry with the next sequence number, and writes the data with RDMA WRITE
 * WITH IMMEDIATE. The immediate is the size. The receiver gets a completion for its empty receive.
 * GPU memory is flushed by an RDMA READ of one byte on a queue pair that is connected to itself.
 *
 * A receive of several buffers has an entry for each, with its tag. When the sends for all of them
 * are there, their data is written. The last write has the immediate and writes all sizes into a
 * ring of the receiver. Messages use several queue pairs in rotation, or each message is split over
 * all of them. Every part then has an immediate and an empty receive of its own
 * (NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_SPLIT_DATA_ON_QPS). If the network routes adaptively, long
 * data is one write and its immediate another one.
 *
 * Over a merged NIC a connection has a leg on each of its devices. A leg has a completion queue,
 * registrations and a share of the queue pairs. Each message is split over all legs, and is
 * complete when all its parts are. The ends may have different numbers of devices.
 *
 * Values: NCCL 2.28's. backends/INTERFACE.md lists the orders that it relies on.
 *
 * Set-up uses a TCP connection, which stays open. An end whose queue pair fails reports that on it,
 * because the other end, with nothing in flight, would not notice. The communicator's other
 * connections close as a consequence and send the same report. A rank that learns of the failure
 * from one of them can therefore name the queue pair that failed first.
 *
 * With NCCL_IB_RESILIENCY_PORT_FAILOVER=1, a connection over a merged NIC survives the failure of
 * some of its queue pairs (net_verbs_rails.h).
 */
#ifndef CORE_TRANSPORT_NET_VERBS_NET_VERBS_INTERNAL_H
#define CORE_TRANSPORT_NET_VERBS_NET_VERBS_INTERNAL_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/transport/base/net.h"

#define NET_VERBS_MAX_DEVICES 32
#define NET_VERBS_RING        NET_MAX_REQUESTS /* CTS entries, one per receive */
#define NET_VERBS_PAGE        4096u
#define NET_VERBS_CTS_DEPTH   (2 * NET_VERBS_RING) /* send queue of a receiving end */
#define NET_VERBS_MAX_QPS     128
#define NET_VERBS_MAX_LEGS    NET_MAX_MERGED
#define NET_VERBS_SPLIT_ALIGN 128u /* parts of a message are multiples of it */

/* ---- devices -------------------------------------------------------------------------------- */

/* One active port of one HCA. Each communicator has its own context, and shares nothing. */
struct net_verbs_dev {
	char name[32];
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* set while pd_refs > 0 */
	int pd_refs;
	uint8_t port;
	struct ibv_port_attr attr;
	uint64_t guid;
	uint8_t retries; /* of an unacknowledged request */
	/* found by registrations: */
	bool no_dmabuf; /* the HCA or its library has no dma-buf */
	bool in_order;  /* the library has no relaxed ordering */
	bool has_gid;   /* `gid` was chosen */
	int gid_index;
	union ibv_gid gid;
	struct net_state *state;
	/* in the first port of a context, for all its ports: */
	struct os_thread *watcher; /* waits for asynchronous events; NULL: not in use yet */
	shared_u32 closing;
	struct os_mutex lock;       /* protects `legs` */
	struct net_verbs_leg *legs; /* legs of connections with queue pairs */
};

/* Sent on the TCP connection after set-up: a queue pair failed. It is this end's or, if this end
 * closes for that reason, one of another connection of its communicator. With status 0 it is the
 * message "ready". */
struct net_verbs_notice {
	uint32_t magic;
	uint32_t status; /* enum ibv_wc_status */
	uint32_t what;   /* enum net_verbs_kind */
	uint32_t qpn;    /* number of the failed queue pair */
	int32_t rank;    /* its rank */
	int32_t peer;    /* the rank it sends to or receives from */
	char nic[32];    /* its device */
};
DOPPEL_CHECK_SIZE(struct net_verbs_notice, 56);

struct net_state {
	struct ncclComm *comm;
	struct ibv_device **list;
	int ndevs;
	bool wanted; /* NCCL_IB_HCA names an existing port */
	struct net_verbs_dev dev[NET_VERBS_MAX_DEVICES];
	/* The communicator's first failure; magic 0: none. Protected by `lock`. */
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

/* ---- wire formats ---------------------------------------------------------------------------- */

#define NET_VERBS_HANDLE_MAGIC 0xd0de3002u
#define NET_VERBS_META_MAGIC   0xd0de3007u
#define NET_VERBS_NOTICE_MAGIC 0xd0de3004u

/* In struct net_handle: the address where a receiving end listens. */
struct net_verbs_handle {
	uint32_t magic;
	int32_t rank;
	uint64_t nonce; /* the connecting end sends it back */
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

/* The first message on the TCP connection, in each direction. */
struct net_verbs_meta {
	uint32_t magic;
	uint16_t nqps; /* NCCL_IB_QPS_PER_CONNECTION */
	uint8_t split; /* NCCL_IB_SPLIT_DATA_ON_QPS */
	uint8_t failover;
	uint64_t nonce;
	uint64_t ring_addr; /* sending end: clear-to-send entries; receiving end: sizes */
	uint32_t ring_entries;
	int32_t rank;
	int32_t by_rank; /* rank whose proxy has the end; with a relay, not `rank` */
	uint32_t ndevs;
	struct net_verbs_meta_dev dev[NET_VERBS_MAX_LEGS];
	uint32_t qpn[NET_VERBS_MAX_QPS];
};
DOPPEL_CHECK_SIZE(struct net_verbs_meta, 40 + 56 * NET_VERBS_MAX_LEGS + 4 * NET_VERBS_MAX_QPS);
DOPPEL_CHECK_OFFSET(struct net_verbs_meta, ring_addr, 16);

/* Clear to send, for one buffer of a receive. One small RDMA WRITE writes all entries of a receive.
 * The sender polls the last word of each, because HCAs place such a write in order of address. */
struct net_verbs_cts {
	uint64_t addr;
	uint32_t rkey[NET_VERBS_MAX_LEGS]; /* for each device */
	uint32_t bytes;
	uint32_t tag;
	uint16_t n;     /* buffers of the receive */
	uint16_t sizes; /* index in the ring of sizes for this receive */
	uint32_t pad0;
	shared_u64 turn; /* sequence number: 1 for the first receive, 2... */
};
DOPPEL_CHECK_SIZE(struct net_verbs_cts, 48);
DOPPEL_CHECK_OFFSET(struct net_verbs_cts, turn, 40);

/* ---- connections ---------------------------------------------------------------------------- */

enum net_verbs_kind {
	NET_VERBS_SEND,
	NET_VERBS_RECV,
	NET_VERBS_FLUSH,
	NET_VERBS_CTS,
	/* only in notices, not requests: */
	NET_VERBS_EVENT, /* status: 1 + enum ibv_event_type */
	NET_VERBS_CALL,  /* a verbs call failed; status: errno, 0: unknown */
	NET_VERBS_GONE,  /* the end at `peer` closed while it was needed; no status */
	NET_VERBS_ENDS,  /* not a failure: this end is complete and closes; status: its sends */
	NET_VERBS_RAILS, /* no rail is left */
	/* with rails: a work request that tests a rail, then messages between the ends */
	NET_VERBS_TEST,
	NET_VERBS_PUSH,    /* a read that pushes a failed rail's data into the GPU */
	NET_VERBS_PARTS,   /* received parts of an incomplete message; STOPPED follows */
	NET_VERBS_STOP,    /* the receiving end has seen a rail fail: the sending end stops it */
	NET_VERBS_STOPPED, /* the end has stopped a rail */
	NET_VERBS_START,   /* the sending end can use the rail again, with this address */
	NET_VERBS_STARTED, /* the receiving end's answer to START */
	NET_VERBS_USED,    /* the sending end uses the rail again */
	NET_VERBS_LOWERED, /* the sending end's attempt has failed */
};

struct net_request {
	struct net_verbs_conn *conn;
	enum net_verbs_kind kind;
	bool used, done;
	uint32_t slot;                        /* with rails: of its receive */
	uint32_t left;                        /* expected completions */
	uint32_t left_on[NET_VERBS_MAX_LEGS]; /* expected completions by leg */
	uint32_t n; /* buffers of a receive; sends that complete with this one */
	size_t bytes[NET_MAX_RECVS];
	struct net_request *sends[NET_MAX_RECVS]; /* if this one is the first */
	struct net_request *first;                /* the send that this one completes with */
};

/* The oldest receive with messages to send: its entries, and its sends that have arrived. */
struct net_verbs_gather {
	uint32_t n, here; /* n 0: no receive */
	struct net_verbs_cts cts[NET_MAX_RECVS];
	struct net_request *req[NET_MAX_RECVS]; /* NULL: no send yet */
	struct net_buffer from[NET_MAX_RECVS];
};

/*
 *   sending end:    CONNECT -> SEND_META -> RECV_META -> TO_RTS -> SEND_READY -> READY
 *   receiving end:  ACCEPT -> RECV_META -> TO_RTS -> SEND_META -> RECV_READY -> READY
 *
 * "ready" is needed because the receiver's first CTS must not arrive before the sender can receive
 * it.
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

/* The objects of a connection on one device. */
struct net_verbs_leg {
	struct net_verbs_conn *conn;
	struct net_verbs_dev *dev;
	struct ibv_cq *cq; /* of its queue pairs; NULL: not created */
	uint64_t seq;      /* event count of `cq` before the last poll */
	int gid_index;
	union ibv_gid gid; /* the device's, or the one after a change */
	shared_u32 event;  /* with rails: 1 + enum ibv_event_type that ends its rails; 0: none */
	struct ibv_mr *ring_mr;
	struct ibv_qp *flush_qp;
	struct ibv_mr *flush_mr;
	uint64_t flush_word;        /* destination of flushes */
	struct net_verbs_leg *next; /* in the device's list, under its lock */
};

struct net_verbs_conn {
	struct ncclComm *comm;
	struct net_who who;
	bool is_send;
	enum net_verbs_state state;
	int fd; /* -1: none */
	struct net_verbs_meta mine, theirs;
	struct net_verbs_notice ready;
	size_t moved; /* bytes of the current message that were moved */
	int tries;    /* connects or address resolutions so far */

	uint32_t nlegs;
	struct net_verbs_leg leg[NET_VERBS_MAX_LEGS];
	uint32_t width; /* queue pairs of a message that is not split over all: one per leg */
	uint32_t nqps;  /* a multiple of width */
	bool split, adaptive;
	struct ibv_qp *qp[NET_VERBS_MAX_QPS]; /* the first one carries clear-to-send entries */
	uint32_t failed_qp;                   /* the queue pair of a failed post */
	struct net_verbs_rails *rails;        /* NULL: the failure of a rail ends the connection */
	struct net_request req[NET_MAX_REQUESTS];
	bool failed; /* a failure was logged */
	/* The event that ended this connection: 1 + enum ibv_event_type, and the leg from bit 16
	 * on; 0: no event. */
	shared_u32 event;
	bool peer_gone;      /* the TCP connection ended */
	bool ends;           /* the peer has a notice that this end ends in order */
	bool cut;            /* sends were done before their completions */
	bool peer_ends;      /* the peer has ended in order, before it closed */
	uint32_t peer_sends; /* if peer_ends: receives that the peer has sent to, modulo 2^32 */
	uint64_t checked_seq, check_at_ns;
	struct net_verbs_notice notice; /* being received */
	size_t notice_bytes;

	void *ring_mem, *ring; /* memory that the other end writes */
	/* used by a sending end */
	uint64_t sends; /* receives that were sent to; the next one has turn sends + 1 */
	struct net_verbs_gather gather;
	/* used by a receiving end */
	int max_recvs;
	uint64_t recvs;     /* number of irecvs */
	uint64_t cts_done;  /* CTS writes known to be complete; one in NET_VERBS_RING is signaled */
	uint64_t cts_turns; /* completed signaled CTS writes */
};

/* Registered memory: the handle that reg_mr returns to the proxy. */
struct net_verbs_region {
	struct ibv_mr *mr[NET_VERBS_MAX_LEGS];
	bool used; /* a request has used it */
	const uint8_t *data;
	size_t bytes;
};

/* net_verbs_device.c */
ncclResult_t net_verbs_devices(struct ncclComm *comm, int *count);
ncclResult_t net_verbs_props(struct ncclComm *comm, int dev, struct net_props *p);
/* Returns the longest message that the port takes. */
size_t net_verbs_message_max(const struct net_verbs_dev *dev);
void net_verbs_fini(struct ncclComm *comm);
ncclResult_t net_verbs_pd_get(struct net_verbs_dev *dev);
void net_verbs_pd_put(struct net_verbs_dev *dev);

/* net_verbs_gid.c: chooses the port's GID, once. */
ncclResult_t net_verbs_gid_get(struct net_verbs_dev *dev);
/* Queries the leg's port and chooses its GID again. False: the port is not active, or has no
 * GID. */
bool net_verbs_gid_renew(struct net_verbs_conn *c, uint32_t leg);

/* net_verbs_qp.c */
ncclResult_t net_verbs_qp_make(struct net_verbs_conn *c);
/* Returns 0 or a positive errno. ETIMEDOUT: the address is not resolved yet; call it again. */
int net_verbs_qp_to_rts(struct net_verbs_conn *c);
/* Makes the flush queue pair of every leg. */
ncclResult_t net_verbs_flush_make(struct net_verbs_conn *c);
/* Resets queue pair i, so that nothing arrives over it, and all its completions are gone. This and
 * the next four return 0 or a positive errno. */
int net_verbs_qp_reset(struct net_verbs_conn *c, uint32_t i);
/* Lets all outstanding requests of queue pair i complete. */
int net_verbs_qp_end(struct net_verbs_conn *c, uint32_t i);
/* Takes queue pair i from RESET to INIT, so that it accepts receives. */
int net_verbs_qp_renew(struct net_verbs_conn *c, uint32_t i);
/* Takes it on to RTS. */
int net_verbs_qp_connect(struct net_verbs_conn *c, uint32_t i, uint32_t psn);
/* Connects the flush queue pair of a leg again. */
int net_verbs_flush_renew(struct net_verbs_conn *c, uint32_t l);
void net_verbs_qp_stop(struct net_verbs_conn *c);
void net_verbs_qp_close(struct net_verbs_conn *c);

/* net_verbs_connect.c */
ncclResult_t net_verbs_connect(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, const struct net_handle *h,
			       void **pending, void **send_comm, struct wait *w);
void net_verbs_close(void *net_comm);
/* Makes an end without queue pairs. NULL: no memory, logged. */
struct net_verbs_conn *net_verbs_conn_make(struct ncclComm *comm, const struct net_nic *nic,
					   const struct net_who *who, bool is_send);
/* Sets the number of queue pairs, when the number of the other end's devices is known. */
void net_verbs_conn_shape(struct net_verbs_conn *c, uint32_t ndevs);
/* Checks the other end's first message. Logs what does not fit. */
ncclResult_t net_verbs_meta_check(const struct net_verbs_conn *c);
/* Takes the steps from TCP to READY. ncclInProgress: *w is the wait. */
ncclResult_t net_verbs_conn_run(struct net_verbs_conn *c, struct wait *w);
/* The wait for a socket of the set-up. */
void net_verbs_wait_socket(int fd, int32_t peer, int32_t channel, const char *why, struct wait *w);

/* net_verbs_accept.c: the receiving end. */
ncclResult_t net_verbs_listen(struct ncclComm *comm, const struct net_nic *nic,
			      const struct net_who *who, struct net_handle *h, void **listen);
ncclResult_t net_verbs_accept(void *listen, void **recv_comm, struct wait *w);
void net_verbs_close_listen(void *listen);

/* net_verbs_mr.c: regions of messages' data. */
ncclResult_t net_verbs_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr);
ncclResult_t net_verbs_dereg_mr(void *net_comm, void *mr);
/* Returns the address of `p`, which lies in the region, for use with the region's keys. */
uint64_t net_verbs_iova(const struct net_verbs_region *r, const void *p);

/* net_verbs_data.c */
int net_verbs_max_recvs(void *recv_comm);
ncclResult_t net_verbs_irecv(void *recv_comm, const struct net_buffer *b, int n,
			     struct net_request **req, struct wait *w);
ncclResult_t net_verbs_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w);
ncclResult_t net_verbs_test(struct net_request *req, bool *done, size_t *bytes, struct wait *w);

/* Sets the wait for completions on a leg after event count `seq`. */
void net_verbs_wait_cq(const struct net_verbs_conn *c, uint32_t leg, uint64_t seq, const char *why,
		       struct wait *w);
/* Posts a flush's read of one byte on a leg. Returns 0 or a positive errno. */
int net_verbs_post_flush(const struct net_verbs_conn *c, uint32_t l, uint32_t request,
			 const struct net_verbs_region *region, const void *data);
/* Returns a free request; NULL: all are in use. */
struct net_request *net_verbs_request(struct net_verbs_conn *c, enum net_verbs_kind kind);
/* Sets the completions that the request expects: one for each part of the message. */
void net_verbs_expect(const struct net_verbs_conn *c, struct net_request *r, uint64_t message);
/* All requests are in use, or the queue is full, until a completion comes: sets *req to NULL, and
 * *w. */
ncclResult_t net_verbs_busy(const struct net_verbs_conn *c, struct net_request **req,
			    struct wait *w);

/* net_verbs_send.c: the writes of the sending end. */
/* Part k of the messages of a receive, on queue pair qp. */
struct net_verbs_part {
	uint32_t qp, k, parts;
	uint32_t n; /* messages */
	const struct net_buffer *from;
	const struct net_verbs_cts *cts;
	uint64_t wr_id;
	bool alone;   /* the last write of data has the immediate, the size */
	uint32_t imm; /* else of the write after the data, in network order */
};
/* Posts the writes of a part. Returns 0 or a positive errno. */
int net_verbs_post_part(const struct net_verbs_conn *c, const struct net_verbs_part *p);
ncclResult_t net_verbs_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			     struct wait *w);

/* net_verbs_async.c: a connection that is watched gets the events that end it. */
ncclResult_t net_verbs_watch(struct net_verbs_conn *c);
void net_verbs_unwatch(struct net_verbs_conn *c);
void net_verbs_close_context(struct net_verbs_dev *d);

/* net_verbs_error.c: failed calls and completions, and the other end's notices. */
/* Handles a failure of `what` on queue pair `i` of the connection. error: errno; 0: unknown. */
ncclResult_t net_verbs_call_failed(struct net_verbs_conn *c, uint32_t i, const char *what,
				   int error);
/* Handles a failed completion on that leg. */
ncclResult_t net_verbs_completion_failed(struct net_verbs_conn *c, uint32_t leg,
					 const struct ibv_wc *wc);
ncclResult_t net_verbs_check(void *net_comm, bool busy, struct wait *w);
void net_verbs_failure(struct ncclComm *comm, struct net_failure *f);
/* With rails: the sending end need not wait for acknowledgements or reports any longer. Else both
 * ends of two connections may wait for each other's reports. */
void net_verbs_finish(void *recv_comm);
/* Before a connection closes: sends its communicator's failure, or that it ends in order. */
void net_verbs_close_notice(struct net_verbs_conn *c);
/* True if the other end has ended in order. Later failures are then not failures of their own. */
bool net_verbs_peer_ends(struct net_verbs_conn *c);
/* Handles a send to an end that has ended in order. */
ncclResult_t net_verbs_send_after_end(struct net_verbs_conn *c);
/* ncclSuccess: the connection has not failed, and no event has ended it. */
ncclResult_t net_verbs_alive(struct net_verbs_conn *c);
/* True if a request is in flight. */
bool net_verbs_outstanding(const struct net_verbs_conn *c);
/* Takes all completions from the completion queues. */
ncclResult_t net_verbs_drain(struct net_verbs_conn *c);
/* Handles the notices that have arrived. */
ncclResult_t net_verbs_notice_recv(struct net_verbs_conn *c);
/* Describes a failure in the terms of a notice. */
void net_verbs_cause_text(uint32_t what, uint32_t status, char *out, size_t bytes);
/* Logs that no rail is left, with the reasons, and reports it to the peer. */
ncclResult_t net_verbs_no_rail(struct net_verbs_conn *c, const char *rails);
/* Handles a failure that rails cannot repair, with one line. */
ncclResult_t net_verbs_rails_broken(struct net_verbs_conn *c, uint32_t i, const char *text);

/* Returns the number of a message's completions, one for each immediate. */
static inline uint32_t net_verbs_parts(const struct net_verbs_conn *c)
{
	return c->split ? c->nqps : c->width;
}

/* Returns the queue pair of part k of a message. Messages that are not split over all queue pairs
 * use them in rotation. */
static inline uint32_t net_verbs_part_qp(const struct net_verbs_conn *c, uint64_t message,
					 uint32_t k)
{
	return c->split ? k : (uint32_t)(message % (c->nqps / c->width)) * c->width + k;
}

/* All parts are of equal size, except the last ones. */
static inline size_t net_verbs_part_bytes(uint32_t parts, size_t bytes)
{
	return parts > 1 ? ALIGN_UP(DIV_UP(bytes, parts), (size_t)NET_VERBS_SPLIT_ALIGN) : bytes;
}

/* Return the leg of queue pair i, and the other end's device. Part k of a message uses leg k modulo
 * the number of legs. */
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
