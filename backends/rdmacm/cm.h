/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm.so.1, from inside. The outside is <rdma/rdma_cma.h> of rdma-core, unchanged: programs
 * that set up their queue pairs by IP address (perftest -R, rping, UCX, libfabric) run on any
 * libibverbs with it, without a kernel that has RDMA. It calls the verbs API and Linux, nothing of
 * the engine: it belongs to programs that bring their own threads and descriptors, and runs in real
 * time.
 *
 * Connection management between the processes of one machine goes over AF_UNIX SEQPACKET sockets
 * with abstract names, one message each way and phase, so that nothing is left when a process is
 * killed, and its end is seen as a hang-up:
 *
 *      active                                     passive
 *      rdma_connect      -- REQUEST -->           CONNECT_REQUEST
 *      (RTR, RTS)        <-- REPLY --             rdma_accept (RTR, RTS)
 *      ESTABLISHED       -- READY -->             ESTABLISHED
 *      rdma_disconnect   -- BYE -->               DISCONNECTED        (either side)
 *      TIMEWAIT_EXIT                              rdma_disconnect, TIMEWAIT_EXIT
 *
 * An event channel's descriptor is an epoll set: the sockets of its identifiers, and an eventfd
 * that is readable while events are queued. No thread works in the background: the task that gets
 * an event from the channel reads the sockets that are ready and does what the messages require
 * (cm_channel_progress).
 *
 * Everything is under cm.lock; calls that wait (rdma_get_cm_event, rdma_destroy_id) give it back
 * meanwhile. Errors: -1 with errno, or NULL; facts: rdma_cm(7) and its pages, IBA volume 1 chapter
 * 12.
 */
#ifndef BACKENDS_RDMACM_CM_H
#define BACKENDS_RDMACM_CM_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define CM_PRIVATE_BYTES 256
#define CM_BACKLOG       1024

/* What a message of the specification has room for, less the IP header of the RDMA CM; the receiver
 * of one sees all of it, zeroes after what was sent. */
#define CM_REQUEST_PRIVATE    56
#define CM_REPLY_PRIVATE      196
#define CM_REJECT_PRIVATE     148
#define CM_LOOKUP_PRIVATE     180
#define CM_ANSWER_PRIVATE     136
#define CM_REJECT_NO_LISTENER 8  /* no such service */
#define CM_REJECT_CONSUMER    28 /* the program refused */
#define CM_REJECT_ECE         35 /* vendor option not supported */
#define CM_MULTICAST_QPN      0xffffffu

/* ---- messages (wire.c) ---------------------------------------------------------------------- */

#define CM_MAGIC   0x4d43444fu
#define CM_VERSION 1

enum cm_kind { CM_REQUEST = 1, CM_REPLY, CM_READY, CM_REJECT, CM_BYE, CM_LOOKUP, CM_ANSWER };

struct cm_message {
	uint32_t magic, version;
	uint32_t kind;   /* enum cm_kind */
	uint32_t reason; /* CM_REJECT: CM_REJECT_* */
	uint32_t qpn, psn, qkey;
	uint32_t mtu; /* enum ibv_mtu: the sender's port */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t flow_control, has_srq;
	uint8_t private_bytes, pad;
	uint32_t ece_vendor, ece_options;
	uint32_t family;                        /* AF_INET or AF_INET6 of both addresses */
	uint16_t source_port, destination_port; /* network order */
	uint8_t source[16], destination[16];
	union ibv_gid gid;
	uint8_t private_data[CM_PRIVATE_BYTES];
};

/* Is it one of ours, whole, with every field in its range? NULL: yes, else what is wrong. */
const char *cm_message_check(const void *data, size_t bytes);
/* The abstract name of (port space, address, port) on a host; `any`: of that port at every address
 * of that host. Its length, for bind and connect. */
struct sockaddr_un;
socklen_t cm_name(struct sockaddr_un *out, enum rdma_port_space ps, const struct sockaddr *a,
		  bool any, uint32_t host);
/* errno, or 0. */
int cm_send(int fd, const struct cm_message *m);
/* 1: a message; 0: none yet; -1: the other side is gone, or does not speak our language. */
int cm_receive(int fd, struct cm_message *m);

uint16_t cm_port(const struct sockaddr *a); /* network order */
void cm_set_port(struct sockaddr *a, uint16_t port);
bool cm_is_any(const struct sockaddr *a);
bool cm_is_loopback(const struct sockaddr *a);
socklen_t cm_address_bytes(const struct sockaddr *a); /* 0: neither IPv4 nor IPv6 */

/* ---- devices (device.c) --------------------------------------------------------------------- */

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd; /* for programs that bring none; made at first use, under cm.defaults */
	struct ibv_xrcd *xrcd; /* the same */
	struct ibv_device_attr attr;
};

/* Where an address leads on this machine. */
struct cm_place {
	struct cm_device *device;
	uint8_t port;
	uint8_t gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
};

/* errno, or 0: the devices are open. */
int cm_devices_open(void);
/* The port that has this address, or the first active one for loopback and for the addresses of the
 * machine's other interfaces. ENODEV: none. */
int cm_place_of(const struct sockaddr *a, struct cm_place *out);
/* The same for a destination, which may be an HCA of another host of the fabric: the port here that
 * leads there, where it leads, and on which host that is. ENODEV: no device has that address. */
int cm_route_of(const struct sockaddr *a, struct cm_place *out, union ibv_gid *to, uint32_t *host);
uint32_t cm_host_here(void);
struct cm_device *cm_device_of(const struct ibv_context *verbs);
struct ibv_pd *cm_default_pd(struct cm_device *d);
struct ibv_xrcd *cm_default_xrcd(struct cm_device *d);

/* ---- identifiers and channels --------------------------------------------------------------- */

enum cm_state {
	CM_IDLE,
	CM_BOUND,    /* has an address */
	CM_RESOLVED, /* has a device and a destination */
	CM_ROUTED,
	CM_LISTENING,
	CM_ARRIVING, /* passive: a connection whose request has not come; the program does not know it */
	CM_REQUESTED,  /* passive: the program decides */
	CM_CONNECTING, /* active: request sent */
	CM_REPLIED,    /* active, no queue pair here: rdma_establish is awaited */
	CM_ACCEPTED,   /* passive: reply sent */
	CM_CONNECTED,
	CM_ENDED,
};

struct cm_event {
	struct rdma_cm_event event; /* first: what the program holds */
	struct cm_event *next;
	struct cm_id *counted; /* whose rdma_destroy_id waits for the acknowledgement */
	uint8_t private_data[CM_PRIVATE_BYTES];
};

struct cm_channel {
	struct rdma_event_channel rdma; /* first */
	int ready;                      /* eventfd: readable while events are queued */
	struct cm_event *first, **last;
};

struct cm_multicast {
	struct cm_multicast *next;
	struct sockaddr_storage address;
	union ibv_gid mgid;
	bool attached;
};

struct cm_id {
	struct rdma_cm_id rdma; /* first */
	enum cm_state state;
	int fd;       /* bound, listening or connected; -1 */
	int timewait; /* a timer: packets of the connection may be under way until it is over; -1 */
	bool peer_left; /* and the program has not called rdma_disconnect since */
	bool synchronous;
	bool own_channel;              /* made for a synchronous identifier */
	bool own_send_cq, own_recv_cq; /* made by rdma_create_qp */
	bool has_place;
	bool known; /* the program holds it, or an event that it took has it */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	struct cm_id *listener; /* of an arriving or requested one */
	struct cm_id *next;     /* of all */
	uint32_t taken, acked;  /* events */
	struct cm_place place;
	uint32_t to_host; /* where its destination is */
	struct ibv_sa_path_rec path;
	struct cm_message peer;       /* the last REQUEST, REPLY or ANSWER that came */
	struct rdma_conn_param param; /* ours, as connect or accept settled it */
	uint32_t psn;
	struct ibv_ece local_ece, remote_ece;
	struct ibv_pd *listen_pd; /* rdma_create_ep of a listener: for its children */
	struct ibv_qp_init_attr *listen_attr;
	struct cm_multicast *groups;
	uint8_t connect_data[CM_PRIVATE_BYTES]; /* rdma_create_ep: ai_connect */
	uint8_t connect_bytes;
};

struct cm {
	pthread_mutex_t lock;
	pthread_mutex_t defaults; /* a leaf, taken with or without `lock` */
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
/* errno = e and -1; 0 when there is none. */
int cm_result(int e);

/* channel.c. Queues an event on the identifier's channel; NULL: no memory, errno. */
struct cm_event *cm_event_add(struct cm_id *id, enum rdma_cm_event_type type, int status);
/* Its private data, as the specification's message shows them: `room` bytes. */
void cm_event_private(struct cm_event *e, const void *data, size_t bytes, size_t room);
/* What a message contains about the connection. */
void cm_event_conn(struct cm_event *e, const struct cm_message *m, size_t room);
/* The socket of the identifier counts for its channel from now on, or no more. */
int cm_channel_watch(struct cm_id *id);
void cm_channel_unwatch(struct cm_id *id);
/* The connection is over: TIMEWAIT_EXIT comes when none of its packets can be under way any
 * longer. */
void cm_timewait_begin(struct cm_id *id);
void cm_timewait_cancel(struct cm_id *id);
/* Events of the identifier that no task took go to the other channel, or, with NULL, are
 * dropped. */
void cm_channel_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to);
/* A synchronous call waits for its event and keeps it in id->event. errno of the event, or 0. */
int cm_wait_done(struct cm_id *id);

/* id.c */
struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context,
			 enum rdma_port_space ps);
/* Out of every list, its socket closed. Events of it are gone already. */
void cm_id_drop(struct cm_id *id);
void cm_id_place(struct cm_id *id, const struct cm_place *place);

/* connect.c: the identifier's socket is readable, or was hung up. */
void cm_id_progress(struct cm_id *id);
/* Says no to a request, with the program's own words. */
void cm_refuse(struct cm_id *id, uint32_t reason, const void *data, size_t bytes);

/* qp.c */
/* How long a packet of it may stay without an acknowledgement: 4.096 us << this. */
uint8_t cm_qp_ack_timeout(const struct cm_id *id);
int cm_qp_ready_to_receive(struct cm_id *id, uint8_t responder_resources);
int cm_qp_ready_to_send(struct cm_id *id, uint8_t initiator_depth);
int cm_qp_error(struct cm_id *id);
void cm_address_attr(const struct cm_id *id, const union ibv_gid *to, struct ibv_ah_attr *out);

/* multicast.c: leaves every group that is left. */
void cm_multicast_end(struct cm_id *id);

#pragma GCC visibility pop
#endif
