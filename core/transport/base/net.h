/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks: the functions that the proxy needs, similar to NCCL's net plugin. Each network is one
 * table, a row of nets[]. A communicator uses one row (ncclComm.net), which its configuration can
 * name. If it names none and the communicator has several hosts, core/comm makes all ranks use the
 * same row. No function blocks: a call that cannot finish returns ncclInProgress and fills in *w.
 *
 * Only the proxy tasks of one GPU call these functions, never two tasks at the same time for one
 * send_comm or recv_comm. The service task calls `devices` to `accept`, reg_mr, dereg_mr and the
 * close functions. The progress task calls the rest. Before there are proxy tasks, the main task
 * may call `devices` and `props`.
 *
 * No slot of a row is NULL. A network without its own version of an optional function uses
 * net_plain's.
 */
#ifndef CORE_TRANSPORT_BASE_NET_H
#define CORE_TRANSPORT_BASE_NET_H

#include "core/rank/rank.h"

#define NET_HANDLE_BYTES 128
#define NET_MAX_REQUESTS 32
#define NET_MAX_RECVS    8 /* buffers of one receive */
#define NET_MAX_MERGED   4 /* devices of one connection */
#define NET_NAME_BYTES   64

/* Describes which connection of a communicator failed first, and the reason, in the network's
 * format. All zero: no failure. */
#define NET_FAILURE_BYTES 64
struct net_failure {
	uint8_t bytes[NET_FAILURE_BYTES];
};

struct net_props {
	char name[32];   /* "mlx5_0" */
	char bus_id[24]; /* "": unknown */
	uint64_t guid;
	uint32_t port;
	uint32_t speed_mbps; /* megabits per second, as in topology files */
	bool gpu_memory;     /* can register GPU memory */
	bool always_flush;   /* received data in GPU memory needs a flush on every GPU */
	uint8_t link; /* link layer, as a number of the network; one for all devices of a NIC */
	bool tags;    /* sends are matched with receives by tag, not only by order */
};

/* The devices of a connection: one, or all devices of a merged NIC. */
struct net_nic {
	int count;
	int dev[NET_MAX_MERGED];
};

/* The ends of a connection: for error lines, labels and fault addresses. */
struct net_who {
	int32_t rank; /* the rank of this end; with PXN it differs from the relay's rank */
	int32_t peer, channel;
};

struct net_handle {
	uint8_t bytes[NET_HANDLE_BYTES];
};

/* Kinds of memory to register. NET_GPU_FLUSH: GPU memory that iflush will flush. */
enum net_memory { NET_HOST, NET_GPU, NET_GPU_FLUSH };

struct profiler_step;

/* A message to send, or a buffer of a receive. */
struct net_buffer {
	void *data;
	size_t bytes;
	void *mr;
	uint32_t tag; /* a message goes into the buffer with its tag; tags of one receive differ */
	uint8_t type, op; /* ncclDataType_t and ncclRedOp_t, for a network that reduces */
	/* The transfer, for events of a net plugin; NULL: none. Lives as long as the transfer. */
	struct profiler_step *step;
};

struct net_request; /* an isend, irecv or iflush in flight; the `test` that sets *done frees it */

struct net_ops {
	const char *name; /* "IB": in NCCL_NET, config.netName and log lines */
	int merged;       /* largest number of devices of a connection: 1 to NET_MAX_MERGED */
	/* Opens the devices at the first call. fini closes them, and accepts devices that are not
	 * open. May replace comm->net.ops by a row with another name. */
	ncclResult_t (*devices)(struct ncclComm *comm, int *count);
	ncclResult_t (*props)(struct ncclComm *comm, int dev, struct net_props *p);
	/* The two ends of a connection may have different numbers of devices. */
	ncclResult_t (*listen)(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen);
	/* *pending is NULL at the first call. The network owns it until *send_comm is set or the
	 * call fails; both set *pending to NULL. close_send frees a *pending that is abandoned. */
	ncclResult_t (*connect)(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w);
	/* The listen object owns a connection that is not completely accepted. */
	ncclResult_t (*accept)(void *listen, void **recv_comm, struct wait *w);
	/* ncclInvalidUsage: the device cannot access this GPU's memory, but can access host
	 * memory. */
	ncclResult_t (*reg_mr)(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr);
	/* If requests are in flight, after a failure or an abort, it ends them. Only close is
	 * allowed on the net_comm after that. */
	ncclResult_t (*dereg_mr)(void *net_comm, void *mr);
	/* Returns the largest number of buffers of a receive: 1 to NET_MAX_RECVS. */
	int (*max_recvs)(void *recv_comm);
	/* ncclSuccess with *req NULL: isend has no credit from the receiver yet, or no request is
	 * free. Receives are filled in order: only tags of the oldest receive that lacks a message
	 * can be sent. The network may delay the messages of a receive until all of them are there.
	 * A receive is done when all its messages arrived. */
	ncclResult_t (*isend)(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w);
	ncclResult_t (*irecv)(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w);
	ncclResult_t (*iflush)(void *recv_comm, void *data, size_t bytes, void *mr,
			       struct net_request **req, struct wait *w);
	/* Sets *done and, for a receive, bytes[] of its buffers in order. Errors: ncclRemoteError,
	 * with one log line that names queue pair or socket, peer and status. */
	ncclResult_t (*test)(struct net_request *req, bool *done, size_t *bytes, struct wait *w);
	/* Checks if the other end reported a failure. On a busy connection also checks if the
	 * other end closed; busy: a transfer is expected or in flight. Called by idle passes, so
	 * it is cheap when nothing arrived. *w becomes true when something arrives. Errors as for
	 * `test`. */
	ncclResult_t (*check)(void *net_comm, bool busy, struct wait *w);
	/* Sets *f to the communicator's first failure. If it had none, *f becomes its first
	 * failure. Connections that close report it to their other ends. */
	void (*failure)(struct ncclComm *comm, struct net_failure *f);
	/* No receive follows, and none is in flight. The progress task calls this some time before
	 * close_recv: other connections may have transfers. */
	void (*finish)(void *recv_comm);
	void (*close_send)(void *send_comm);
	void (*close_recv)(void *recv_comm);
	void (*close_listen)(void *listen);
	void (*fini)(struct ncclComm *comm);
};

/* The rows, each defined by its network. */
extern const struct net_ops net_verbs;
extern const struct net_ops net_socket;

/* Functions for a network without its own:
 *   reg_mr     registers nothing for host memory; ncclInvalidUsage for GPU memory
 *   max_recvs  returns 1
 *   iflush     fails, because no GPU memory was registered
 *   failure    records no failure
 *   finish     does nothing
 */
ncclResult_t net_plain_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr);
ncclResult_t net_plain_dereg_mr(void *net_comm, void *mr);
int net_plain_max_recvs(void *recv_comm);
ncclResult_t net_plain_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w);
void net_plain_failure(struct ncclComm *comm, struct net_failure *f);
void net_plain_finish(void *recv_comm);

#endif
