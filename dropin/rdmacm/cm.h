/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of librdmacm.so.1. Its interface is rdma-core's <rdma/rdma_cma.h>, unchanged. With it,
 * programs that connect by IP address (perftest -R, rping, UCX, libfabric) run on any libibverbs,
 * on a kernel without RDMA. It calls the verbs API and Linux, and nothing of the engine: its
 * programs bring their own threads and descriptors, and run in real time.
 *
 * Processes of one machine exchange connection management messages over AF_UNIX SEQPACKET sockets
 * with abstract names. Each phase is one message in each direction. A killed process therefore
 * leaves nothing, and its peer detects its end as a hang-up:
 *
 *        active                                     passive
 *        rdma_connect      -- REQUEST -->           CONNECT_REQUEST
 *        (RTR, RTS)        <-- REPLY --             rdma_accept (RTR, RTS)
 *        ESTABLISHED       -- READY -->             ESTABLISHED
 *        rdma_disconnect   -- BYE -->               DISCONNECTED        (either side)
 *        TIMEWAIT_EXIT                              rdma_disconnect, TIMEWAIT_EXIT
 *
 * An event channel's descriptor is an epoll set: the sockets of its identifiers, and an eventfd
 * that is readable while events are queued. There is no background thread. The task that gets an
 * event from the channel reads the ready sockets and handles their messages (cm_channel_progress).
 *
 * cm.lock protects everything. Calls that wait (rdma_get_cm_event, rdma_destroy_id) release it
 * meanwhile. Errors: -1 with errno, or NULL. Sources: rdma_cm(7) and its pages, IBA volume 1
 * chapter 12.
 */
#ifndef DROPIN_RDMACM_CM_H
#define DROPIN_RDMACM_CM_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define CM_PRIVATE_BYTES 256
#define CM_BACKLOG       1024

/* Bytes of private data in a message of the specification, less the IP header of the RDMA CM. The
 * receiver always gets that many: zeroes follow the sent bytes. */
#define CM_REQUEST_PRIVATE    56
#define CM_REPLY_PRIVATE      196
#define CM_REJECT_PRIVATE     148
#define CM_LOOKUP_PRIVATE     180
#define CM_ANSWER_PRIVATE     136
#define CM_REJECT_NO_LISTENER 8  /* no such service */
#define CM_REJECT_CONSUMER    28 /* rejected by the program */
#define CM_REJECT_ECE         35 /* vendor option not supported */
#define CM_MULTICAST_QPN      0xffffffu

/* ---- messages (cm_wire.c) ------------------------------------------------------------------- */

#define CM_MAGIC   0x4d43444fu
#define CM_VERSION 1

enum cm_kind { CM_REQUEST = 1, CM_REPLY, CM_READY, CM_REJECT, CM_BYE, CM_LOOKUP, CM_ANSWER };

struct cm_message {
	uint32_t magic, version;
	uint32_t kind;   /* enum cm_kind */
	uint32_t reason; /* CM_REJECT: CM_REJECT_* */
	uint32_t qpn, psn, qkey;
	uint32_t mtu; /* enum ibv_mtu of the sender's port */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t flow_control, has_srq;
	uint8_t private_bytes, pad;
	uint32_t ece_vendor, ece_options;
	uint32_t family;                        /* AF_INET or AF_INET6, for both addresses */
	uint16_t source_port, destination_port; /* network order */
	uint8_t source[16], destination[16];
	union ibv_gid gid;
	uint8_t private_data[CM_PRIVATE_BYTES];
};

/* Checks that the bytes are one complete message with every field in range. Returns NULL, or a
 * description of the error. */
const char *cm_message_check(const void *data, size_t bytes);
/* Stores the abstract name of (port space, address, port) on a host; with `any`, of that port at
 * every address of the host. Returns its length for bind() and connect(). */
struct sockaddr_un;
socklen_t cm_name(struct sockaddr_un *out, enum rdma_port_space ps, const struct sockaddr *a,
		  bool any, uint32_t host);
/* Returns an errno, or 0. */
int cm_send(int fd, const struct cm_message *m);
/* Returns 1 and a message, 0 if no message is ready, or -1 if the peer closed or sent an invalid
 * message. */
int cm_receive(int fd, struct cm_message *m);

uint16_t cm_port(const struct sockaddr *a); /* in network byte order */
void cm_set_port(struct sockaddr *a, uint16_t port);
bool cm_is_any(const struct sockaddr *a);
bool cm_is_loopback(const struct sockaddr *a);
socklen_t cm_address_bytes(const struct sockaddr *a); /* 0: neither IPv4 nor IPv6 */

/* ---- devices (cm_device.c) ------------------------------------------------------------------ */

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd; /* for programs without a PD; created at first use, under cm.defaults */
	struct ibv_xrcd *xrcd; /* likewise */
	struct ibv_device_attr attr;
};

/* The local port that serves an address. */
struct cm_place {
	struct cm_device *device;
	uint8_t port;
	uint8_t gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
};

/* Opens the devices. Returns an errno, or 0. */
int cm_devices_open(void);
/* Finds the port with this address. For loopback, and for addresses of the machine's other
 * interfaces, finds the first active port. ENODEV: no such port. */
int cm_place_of(const struct sockaddr *a, struct cm_place *out);
/* Resolves a destination, which may be an HCA of another host of the fabric: stores the local port,
 * the destination's GID, and its host. ENODEV: no device has that address. */
int cm_route_of(const struct sockaddr *a, struct cm_place *out, union ibv_gid *to, uint32_t *host);
uint32_t cm_host_here(void);
struct cm_device *cm_device_of(const struct ibv_context *verbs);
struct ibv_pd *cm_default_pd(struct cm_device *d);
struct ibv_xrcd *cm_default_xrcd(struct cm_device *d);

/* ---- identifiers and channels --------------------------------------------------------------- */

enum cm_state {
	CM_IDLE,
	CM_BOUND,    /* has a bound address */
	CM_RESOLVED, /* has a device and a destination */
	CM_ROUTED,
	CM_LISTENING,
	CM_ARRIVING,   /* passive: connected, REQUEST not yet received; unknown to the program */
	CM_REQUESTED,  /* passive: the program must accept or reject */
	CM_CONNECTING, /* active: REQUEST sent */
	CM_REPLIED,    /* active, without a queue pair: waits for rdma_establish */
	CM_ACCEPTED,   /* passive: REPLY sent */
	CM_CONNECTED,
	CM_ENDED,
};

struct cm_event {
	struct rdma_cm_event event; /* must be the first field: the program's pointer */
	struct cm_event *next;
	struct cm_id *counted; /* its rdma_destroy_id waits for the acknowledgement */
	uint8_t private_data[CM_PRIVATE_BYTES];
};

struct cm_channel {
	struct rdma_event_channel rdma; /* must be the first field */
	int ready;                      /* eventfd: readable while events are queued */
	struct cm_event *first, **last;
	/* Number of threads that wait in rdma_get_cm_event; the program has destroyed the channel.
	 * Both change under cm.lock. */
	unsigned waiters;
	bool destroyed;
	struct cm_channel *gone_before; /* the one that was destroyed before it */
};

struct cm_multicast {
	struct cm_multicast *next;
	struct sockaddr_storage address;
	union ibv_gid mgid;
	bool attached;
};

struct cm_id {
	struct rdma_cm_id rdma; /* must be the first field */
	enum cm_state state;
	int fd;       /* bound, listening or connected socket; -1 */
	int timewait; /* timerfd that ends when no packet of the connection can be in flight; -1 */
	/* the peer ended the connection, and the program has not yet called rdma_disconnect */
	bool peer_left;
	bool synchronous;
	bool own_channel;              /* created for a synchronous identifier */
	bool own_send_cq, own_recv_cq; /* created by rdma_create_qp */
	bool has_place;
	bool known; /* the program created it, or received an event that has it */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	struct cm_id *listener; /* listener of an arriving or requested identifier */
	struct cm_id *next;     /* in the list of all identifiers */
	uint32_t taken, acked;  /* numbers of events */
	struct cm_place place;
	uint32_t to_host; /* host of its destination */
	struct ibv_sa_path_rec path;
	struct cm_message peer;       /* the last REQUEST, REPLY or ANSWER received */
	struct rdma_conn_param param; /* values that connect or accept settled on */
	uint32_t psn;
	struct ibv_ece local_ece, remote_ece;
	struct ibv_pd *listen_pd; /* set by rdma_create_ep of a listener, for its connections */
	struct ibv_qp_init_attr *listen_attr;
	struct cm_multicast *groups;
	uint8_t connect_data[CM_PRIVATE_BYTES]; /* set by rdma_create_ep: ai_connect */
	uint8_t connect_bytes;
};

struct cm {
	pthread_mutex_t lock;
	pthread_mutex_t defaults; /* innermost lock, taken with or without `lock` */
	pthread_cond_t acknowledged;
	struct cm_id *ids;
	struct cm_device *device;
	int devices;
	uint32_t psn;
};
extern struct cm cm;

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
	return (struct cm_id *)id;
}
static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *c)
{
	return (struct cm_channel *)c;
}
/* Returns 0 if `e` is 0. Otherwise sets errno = e and returns -1. */
int cm_result(int e);

/* cm_channel.c. Queues an event on the identifier's channel. NULL: out of memory (errno). */
struct cm_event *cm_event_add(struct cm_id *id, enum rdma_cm_event_type type, int status);
/* Sets the event's private data to `room` bytes, as many as the specification's message has. */
void cm_event_private(struct cm_event *e, const void *data, size_t bytes, size_t room);
/* Sets the event's connection parameters from a message. */
void cm_event_conn(struct cm_event *e, const struct cm_message *m, size_t room);
/* Adds the identifier's socket to its channel's epoll set, or removes it. */
int cm_channel_watch(struct cm_id *id);
void cm_channel_unwatch(struct cm_id *id);
/* Starts the timer after the connection's end. TIMEWAIT_EXIT follows when none of its packets can
 * be in flight. */
void cm_timewait_begin(struct cm_id *id);
void cm_timewait_cancel(struct cm_id *id);
/* Moves the identifier's events that the program did not get to the other channel. With NULL, frees
 * them. */
void cm_channel_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to);
/* In a synchronous call, waits for the event and stores it in id->event. Returns the event's errno,
 * or 0. */
int cm_wait_done(struct cm_id *id);

/* cm_id.c */
struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context,
			 enum rdma_port_space ps);
/* Removes the identifier from all lists and closes its socket. The caller has removed its
 * events. */
void cm_id_drop(struct cm_id *id);
void cm_id_place(struct cm_id *id, const struct cm_place *place);

/* cm_connect.c: handles an identifier's socket that is readable or was hung up. */
void cm_id_progress(struct cm_id *id);
/* Rejects a request with the program's private data. */
void cm_refuse(struct cm_id *id, uint32_t reason, const void *data, size_t bytes);
bool cm_is_datagram(const struct cm_id *id);
/* A message of this kind with the identifier's addresses, queue pair and parameters. */
struct cm_message cm_message_of(const struct cm_id *id, enum cm_kind kind);
/* Stores the program's private data in the message. EINVAL: they have more than `room` bytes. */
int cm_message_private(struct cm_message *m, const void *data, size_t bytes, size_t room);
/* Sets the connection parameters to the requested ones, limited by the device. */
void cm_param_settle(struct cm_id *id, const struct rdma_conn_param *asked, uint8_t most_responder,
		     uint8_t most_initiator);
/* Ends the connection on this side: reads no more messages. */
void cm_id_hang_up(struct cm_id *id);

/* cm_accept.c: a connection arrives at the listener; its request arrives. */
void cm_on_arrival(struct cm_id *listener);
void cm_on_request(struct cm_id *id, const struct cm_message *m);

/* cm_qp.c */
/* Returns the exponent of the acknowledgement timeout of its packets: 4.096 us << result. */
uint8_t cm_qp_ack_timeout(const struct cm_id *id);
int cm_qp_ready_to_receive(struct cm_id *id, uint8_t responder_resources);
int cm_qp_ready_to_send(struct cm_id *id, uint8_t initiator_depth);
int cm_qp_error(struct cm_id *id);
void cm_address_attr(const struct cm_id *id, const union ibv_gid *to, struct ibv_ah_attr *out);

/* cm_multicast.c: leaves all remaining groups. */
void cm_multicast_end(struct cm_id *id);

#pragma GCC visibility pop
#endif
