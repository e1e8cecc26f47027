/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_socket: the network over TCP. This header is shared by its files.
 *
 * A connection has one control socket. If NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD give more
 * than one socket, the others are lanes. Both ends number their requests from 0; send n matches
 * receive n.
 *
 *   control   header 0, [message 0], header 1, [message 1], ...
 *   lane i    a part of every message that is longer than NET_SOCKET_WHOLE
 *
 * A message without parts follows its header; a short one is sent together with its header. Parts
 * go to the lanes in rotation. Both ends compute the same parts from the size in the header. A
 * request is complete when its control part and all its parts are complete. A part of a send is
 * complete when the host's TCP has taken it.
 *
 * The calling task (the proxy's) uses the control socket. It also uses the lanes, unless the
 * connection has helper tasks. These move the parts that the calling task gave them, and post the
 * connection's event count. A receiving end reads a header before there is a receive for it,
 * because it may be a notice of failure instead. In the other direction the control socket carries
 * only notices.
 */
#ifndef CORE_TRANSPORT_NET_SOCKET_NET_SOCKET_INTERNAL_H
#define CORE_TRANSPORT_NET_SOCKET_NET_SOCKET_INTERNAL_H

#include <errno.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/bootstrap/sock.h"
#include "core/transport/base/net.h"

#define NET_SOCKET_LANES 64 /* most lanes of a connection */
#define NET_SOCKET_TASKS 16
/* A message longer than this has parts. No part except the last one is shorter. */
#define NET_SOCKET_WHOLE  (64u << 10)
#define NET_SOCKET_INLINE 112 /* longest message that is sent with its header */

/* ---- wire formats ---------------------------------------------------------------------------- */

#define NET_SOCKET_HANDLE_MAGIC  0xd0de4001u
#define NET_SOCKET_HELLO_MAGIC   0xd0de4002u
#define NET_SOCKET_WELCOME_MAGIC 0xd0de4003u
#define NET_SOCKET_MESSAGE_MAGIC 0xd0de4004u
#define NET_SOCKET_NOTICE_MAGIC  0xd0de4005u
#define NET_SOCKET_VERSION       1u

/* In struct net_handle: the address where a receiving end listens, and the shape of the
 * connection. */
struct net_socket_handle {
	uint32_t magic, version;
	int32_t rank;
	uint16_t lanes, tasks;
	uint64_t nonce; /* the connecting end sends it back */
	struct os_addr addr;
	char nic[32];
};
DOPPEL_CHECK_SIZE(struct net_socket_handle, 80);
DOPPEL_STATIC_CHECK(sizeof(struct net_socket_handle) <= NET_HANDLE_BYTES, "handle fits");

/* The first message on each socket, and its answer, which has another magic and rank. Only an
 * answer shows the sending end that the hello was not lost with its socket. */
struct net_socket_hello {
	uint32_t magic, version;
	uint64_t nonce;
	int32_t rank;    /* of the sender */
	uint32_t socket; /* 0: control; else lane socket - 1 */
};
DOPPEL_CHECK_SIZE(struct net_socket_hello, 24);

/* Precedes each message on the control socket. */
struct net_socket_header {
	uint32_t magic;
	uint32_t turn; /* number of the message */
	uint64_t bytes;
};
DOPPEL_CHECK_SIZE(struct net_socket_header, 16);

/* Sent instead of a header, or by the receiving end: a connection of this communicator failed. */
struct net_socket_notice {
	uint32_t magic;
	int32_t rank, peer; /* ends of the failed connection; `rank` reported it */
	int32_t error;      /* errno, or NET_SOCKET_CLOSED */
};
DOPPEL_CHECK_SIZE(struct net_socket_notice, 16);

/* Sent and received on the control socket before the rest of a message. */
struct net_socket_head {
	union {
		struct net_socket_header header;
		struct net_socket_notice notice; /* if it has the notice's magic */
	};
	uint8_t inline_data[NET_SOCKET_INLINE]; /* of a short message, when sending */
};
DOPPEL_CHECK_SIZE(struct net_socket_head, 16 + NET_SOCKET_INLINE);

/* An error beside errno: the peer closed the socket. */
#define NET_SOCKET_CLOSED (-1)
/* In the notice of a receiving end that closes after it has received all messages: not a
 * failure. */
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
	/* The communicator's first failure; magic 0: none. Protected by `lock`. */
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
	size_t bytes; /* of a receive: room, then size of the message */
	uint64_t number;
	bool used;
	shared_u32 left; /* unfinished parts: the control part, and each part on a lane */
};

/* One socket. */
struct net_socket_stream {
	int fd;       /* -1: none */
	size_t moved; /* bytes of the current message that were moved */
	uint64_t seq; /* event count before the attempt that found it not ready */
};

struct net_socket_part {
	uint8_t *data;
	size_t bytes;
	struct net_request *req;
};

struct net_socket_lane {
	struct net_socket_stream stream;
	/* A request has at most one part on a lane, so the ring never overflows. */
	struct net_socket_part part[NET_MAX_REQUESTS];
	shared_u64 given;  /* number of parts given; written by the caller's task */
	uint64_t taken;    /* number of finished parts; of the task that moves them */
	shared_u32 result; /* set by a helper task: enum net_socket_result */
	int error;         /* errno, written before `result` */
};

enum net_socket_result { NET_SOCKET_GOES_ON, NET_SOCKET_FAILED };

struct net_socket_task {
	struct net_socket_conn *conn;
	uint32_t first, count; /* range of its lanes */
	struct os_thread *thread;
};

struct net_socket_conn {
	struct ncclComm *comm;
	struct net_socket_dev *dev;
	struct net_who who;
	bool is_send, ready;
	char peer_nic[32];
	struct os_addr peer_addr;

	/* used while it connects */
	uint32_t opened; /* number of open sockets */
	int tries;
	uint64_t again_at_ns; /* 0: no pause */
	bool hello_sent;
	struct net_socket_hello hello;

	struct net_request req[NET_MAX_REQUESTS];
	uint64_t posted;    /* number of requests */
	uint64_t passed;    /* number of requests whose control part is complete */
	bool has_header;    /* request `passed` has its header */
	uint32_t turn_lane; /* lane for the next part */
	struct net_socket_stream control;
	struct net_socket_head head;

	bool failed;    /* a failure was logged */
	bool peer_ends; /* of a sending end: the peer has received all messages and ends */
	bool peer_gone; /* the control socket ended */
	int gone_error; /* with this errno, or NET_SOCKET_CLOSED */
	/* receives notices at a sending end */
	struct net_socket_stream back;
	struct net_socket_notice arrived;
	uint64_t checked_seq, check_at_ns;

	shared_u32 stop; /* ends the helper tasks */
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
/* Returns the numbers of lanes and helper tasks of a connection. *lanes is 0, or at least 2. */
void net_socket_shape(const struct net_socket_dev *d, uint32_t *lanes, uint32_t *tasks);
void net_socket_fini(struct ncclComm *comm);

/* net_socket_connect.c */
ncclResult_t net_socket_listen(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen);
ncclResult_t net_socket_connect(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w);
ncclResult_t net_socket_accept(void *listen, void **recv_comm, struct wait *w);
/* The wait for a socket that was not ready. */
void net_socket_wait(const struct net_socket_conn *c, const struct net_socket_stream *s,
		     const char *why, struct wait *w);
void net_socket_close(void *net_comm);
void net_socket_close_listen(void *listen);
/* Check received data and log an error. */
ncclResult_t net_socket_handle_check(int32_t rank, int32_t peer, const struct net_socket_handle *h);
/* Checks if the hello is the peer's, for the listener with that nonce. ncclInvalidArgument: it is
 * not; this is not logged. */
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
/* Returns the number of parts of a message; 0: it follows its header. */
uint32_t net_socket_parts(size_t bytes, uint32_t lanes);
/* Moves all bytes that can be moved, and reads the next header of a receiving end. Logs errors. */
ncclResult_t net_socket_progress(struct net_socket_conn *c);

/* net_socket_lane.c: sockets that move bytes, and the helper tasks. */
/* Moves the rest of n bytes. 0: all are moved; EAGAIN: the stream has a wait; else the error. */
int net_socket_move(struct net_socket_stream *s, bool is_send, void *data, size_t n);
/* The same for a message or a part of one. */
int net_socket_payload(struct net_socket_stream *s, bool is_send, uint8_t *data, size_t n);
/* Moves the parts that the lane was given. Returns as net_socket_move. */
int net_socket_lane_run(struct net_socket_conn *c, struct net_socket_lane *lane);
ncclResult_t net_socket_tasks_start(struct net_socket_conn *c);
void net_socket_tasks_stop(struct net_socket_conn *c);

/* net_socket_error.c */
/* Handles a transfer or set-up that `error` ended: logs a line and sends a notice. */
ncclResult_t net_socket_failed(struct net_socket_conn *c, const char *what, int error);
/* Handles a notice that arrived instead of a header. */
ncclResult_t net_socket_notice_take(struct net_socket_conn *c, const struct net_socket_notice *n);
/* Handles the end of the control socket with `error`. ncclSuccess: the peer closed it. */
ncclResult_t net_socket_gone(struct net_socket_conn *c, int error);
ncclResult_t net_socket_check(void *net_comm, bool busy, struct wait *w);
/* Before a connection closes: sends a notice of the communicator's failure, or of a normal end. */
void net_socket_close_notice(struct net_socket_conn *c);

#endif
