/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_socket: the network over TCP. What its files share.
 *
 * A connection has one control socket, and lanes: further sockets, where NCCL_SOCKET_NTHREADS and
 * NCCL_NSOCKS_PERTHREAD give more than one. Both ends number their requests from 0 on; the n-th
 * send meets the n-th receive.
 *
 *   control   header 0, [message 0], header 1, [message 1], ...
 *   lane i    a part of every message that is longer than NET_SOCKET_WHOLE
 *
 * A message without parts follows its header; a short one is sent with it. The parts of the others
 * go to the lanes in turn; both ends compute the same parts from the size in the header. A request
 * is complete when its control part and all its parts are through: for a send, taken by the host's
 * TCP.
 *
 * The control socket belongs to the task that calls (the proxy's). So do the lanes, unless the
 * connection has helper tasks, which then move the parts that the control part gave them, and post
 * the connection's event count. A receiving end reads a header before there is a receive for it,
 * because it may be a notice of failure instead. The other direction of the control socket has
 * notices alone.
 */
#ifndef CORE_TRANSPORT_NET_SOCKET_INTERNAL_H
#define CORE_TRANSPORT_NET_SOCKET_INTERNAL_H

#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/sock.h"
#include "core/transport/net.h"

#define NET_SOCKET_LANES 64 /* of a connection, at most */
#define NET_SOCKET_TASKS 16
/* A message longer than this has parts, and no part but the last is shorter. */
#define NET_SOCKET_WHOLE  (64u << 10)
#define NET_SOCKET_INLINE 112 /* bytes that are sent with their header */

/* ---- what crosses --------------------------------------------------------------------------- */

#define NET_SOCKET_HANDLE_MAGIC  0xd0de4001u
#define NET_SOCKET_HELLO_MAGIC   0xd0de4002u
#define NET_SOCKET_WELCOME_MAGIC 0xd0de4003u
#define NET_SOCKET_MESSAGE_MAGIC 0xd0de4004u
#define NET_SOCKET_NOTICE_MAGIC  0xd0de4005u
#define NET_SOCKET_VERSION       1u

/* In struct net_handle: where a receiving end listens, and what it wants of the connection. */
struct net_socket_handle {
	uint32_t magic, version;
	int32_t rank;
	uint16_t lanes, tasks;
	uint64_t nonce; /* the end that connects sends it back */
	struct os_addr addr;
	char nic[32];
};
DOPPEL_CHECK_SIZE(struct net_socket_handle, 80);
DOPPEL_STATIC_CHECK(sizeof(struct net_socket_handle) <= NET_HANDLE_BYTES, "handle fits");

/* The first message on each socket, and its answer, without which the sending end could not know
 * that a hello was lost with its socket. They differ in magic and rank. */
struct net_socket_hello {
	uint32_t magic, version;
	uint64_t nonce;
	int32_t rank;    /* that sends it */
	uint32_t socket; /* 0: control; else of lane socket - 1 */
};
DOPPEL_CHECK_SIZE(struct net_socket_hello, 24);

/* Before each message on the control socket. */
struct net_socket_header {
	uint32_t magic;
	uint32_t turn; /* the message's number */
	uint64_t bytes;
};
DOPPEL_CHECK_SIZE(struct net_socket_header, 16);

/* In place of a header, or from the receiving end: a connection of this communicator failed. */
struct net_socket_notice {
	uint32_t magic;
	int32_t rank, peer; /* the ends of the one that failed, first the one that reports it */
	int32_t error;      /* errno, or NET_SOCKET_CLOSED */
};
DOPPEL_CHECK_SIZE(struct net_socket_notice, 16);

/* What the control socket sends or receives before the rest of a message. */
struct net_socket_head {
	union {
		struct net_socket_header header;
		struct net_socket_notice notice; /* by its magic */
	};
	uint8_t inline_data[NET_SOCKET_INLINE]; /* of a short message that is sent */
};
DOPPEL_CHECK_SIZE(struct net_socket_head, 16 + NET_SOCKET_INLINE);

/* Beside the errnos that a socket gives: the peer closed it. */
#define NET_SOCKET_CLOSED (-1)
/* In a notice of a receiving end that closes: no failure, it has all that it was to get. */
#define NET_SOCKET_ENDS (-2)

/* ---- devices -------------------------------------------------------------------------------- */

struct net_socket_dev {
	char name[32];
	struct os_addr addr;
	uint32_t speed_mbps; /* megabits per second */
	struct net_socket_state *state;
};

struct net_socket_state {
	int ndevs;
	struct net_socket_dev dev[SOCK_INTERFACES];
	/* What the communicator's network failed by, first; magic 0: nothing. Under the lock. */
	struct net_socket_notice failure;
	struct os_mutex lock;
};

static inline struct net_socket_dev *net_socket_dev(const struct ncclComm *comm, int dev)
{
	struct net_socket_state *st = comm->net.state;

	ASSERT(st && dev >= 0 && dev < st->ndevs);
	return &st->dev[dev];
}

/* ---- connections ---------------------------------------------------------------------------- */

struct net_request {
	struct net_socket_conn *conn;
	uint8_t *data;
	size_t bytes; /* of a receive: the room, then the message's */
	uint64_t number;
	bool used;
	shared_u32 left; /* what is not through: the control part, and each part on a lane */
};

/* One socket. */
struct net_socket_stream {
	int fd;       /* -1: none */
	size_t moved; /* bytes of what is being sent or received */
	uint64_t seq; /* event count before the attempt that found it not ready */
};

struct net_socket_part {
	uint8_t *data;
	size_t bytes;
	struct net_request *req;
};

struct net_socket_lane {
	struct net_socket_stream stream;
	/* A request has at most one part on a lane, so that the ring never overflows. */
	struct net_socket_part part[NET_MAX_REQUESTS];
	shared_u64 given;  /* parts so far; the caller's task */
	uint64_t taken;    /* those that are through; the task that moves them */
	shared_u32 result; /* of a helper task: enum net_socket_result */
	int error;         /* why it failed: before result */
};

enum net_socket_result { NET_SOCKET_GOES_ON, NET_SOCKET_FAILED };

struct net_socket_task {
	struct net_socket_conn *conn;
	uint32_t first, count; /* its lanes */
	struct os_thread *thread;
};

struct net_socket_conn {
	struct ncclComm *comm;
	struct net_socket_dev *dev;
	struct net_who who;
	bool is_send, ready;
	char peer_nic[32];
	struct os_addr peer_addr;

	/* while it connects */
	uint32_t opened; /* sockets so far */
	int tries;
	uint64_t again_at_ns; /* 0: no pause */
	bool hello_sent;
	struct net_socket_hello hello;

	struct net_request req[NET_MAX_REQUESTS];
	uint64_t posted;    /* requests so far */
	uint64_t passed;    /* those whose control part is through */
	bool has_header;    /* of the request `passed` */
	uint32_t turn_lane; /* that gets the next part */
	struct net_socket_stream control;
	struct net_socket_head head;

	bool failed;    /* reported already */
	bool peer_ends; /* of a sending end: the other one has all that it was to get */
	bool peer_gone; /* the control socket ended, */
	int gone_error; /* by this: errno, or NET_SOCKET_CLOSED */
	/* of a sending end, which looks for notices */
	struct net_socket_stream back;
	struct net_socket_notice heard;
	uint64_t checked_seq, check_at_ns;

	shared_u32 stop; /* for the helper tasks */
	uint32_t tasks, lanes;
	struct net_socket_task task[NET_SOCKET_TASKS];
	struct net_socket_lane lane[];
};

static inline struct net_socket_stream *net_socket_stream(struct net_socket_conn *c, uint32_t i)
{
	return i ? &c->lane[i - 1].stream : &c->control;
}

/* net_socket_device.c */
ncclResult_t net_socket_devices(struct ncclComm *comm, int *count);
ncclResult_t net_socket_props(struct ncclComm *comm, int dev, struct net_props *p);
/* How many lanes and helper tasks a connection has: *lanes is 0, or at least 2. */
void net_socket_shape(const struct net_socket_dev *d, uint32_t *lanes, uint32_t *tasks);
void net_socket_fini(struct ncclComm *comm);

/* net_socket_connect.c */
ncclResult_t net_socket_listen(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen);
ncclResult_t net_socket_connect(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w);
ncclResult_t net_socket_accept(void *listen, void **recv_comm, struct wait *w);
/* For a socket that was not ready. */
void net_socket_wait(const struct net_socket_conn *c, const struct net_socket_stream *s,
		     const char *why, struct wait *w);
void net_socket_close(void *net_comm);
void net_socket_close_listen(void *listen);
/* Checks what came from outside. Each logs what is wrong. */
ncclResult_t net_socket_handle_check(int32_t rank, int32_t peer, const struct net_socket_handle *h);
/* Is it the peer's, for the listener with that nonce? ncclInvalidArgument: a stranger's, not
 * logged. */
ncclResult_t net_socket_hello_check(int32_t rank, int32_t peer, const struct net_socket_hello *h,
				    uint64_t nonce, uint32_t sockets);

/* net_socket_data.c */
ncclResult_t net_socket_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr);
ncclResult_t net_socket_dereg_mr(void *net_comm, void *mr);
ncclResult_t net_socket_isend(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w);
ncclResult_t net_socket_irecv(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w);
ncclResult_t net_socket_test(struct net_request *req, bool *done, size_t *bytes, struct wait *w);
/* How many parts a message has; 0: it follows its header. */
uint32_t net_socket_parts(size_t bytes, uint32_t lanes);
/* Moves what can move, and reads the next header of a receiving end. Errors are logged. */
ncclResult_t net_socket_progress(struct net_socket_conn *c);

/* net_socket_lane.c: sockets that move bytes, and the helper tasks. */
/* Moves the rest of n bytes. 0: all of them; EAGAIN: the stream's wait; else what ended it. */
int net_socket_move(struct net_socket_stream *s, bool is_send, void *data, size_t n);
/* The same for a message or a part of one. */
int net_socket_payload(struct net_socket_stream *s, bool is_send, uint8_t *data, size_t n);
/* Moves the parts that the lane was given: 0: all of them; else as net_socket_move. */
int net_socket_lane_run(struct net_socket_conn *c, struct net_socket_lane *lane);
ncclResult_t net_socket_tasks_start(struct net_socket_conn *c);
void net_socket_tasks_stop(struct net_socket_conn *c);

/* net_socket_error.c */
/* The transfer, or the set-up, ended by `error`: one line, and a notice to the other end. */
ncclResult_t net_socket_failed(struct net_socket_conn *c, const char *what, int error);
/* What came in place of a header. */
ncclResult_t net_socket_heard(struct net_socket_conn *c, const struct net_socket_notice *n);
/* The control socket ended by `error`. ncclSuccess: the peer closed it. */
ncclResult_t net_socket_gone(struct net_socket_conn *c, int error);
ncclResult_t net_socket_check(void *net_comm, bool busy, struct wait *w);
/* Sends a notice of the communicator's failure, if there was one, on a connection that closes. */
void net_socket_tell_why(struct net_socket_conn *c);

#endif
