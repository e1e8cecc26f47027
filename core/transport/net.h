/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the proxy needs of a network: NCCL's net plugin in spirit. Each network is one table, a row
 * of nets[]; a communicator has one row (ncclComm.net), which its configuration can name. Where it
 * names none, and the communicator has several hosts, core/comm makes sure that all ranks have the
 * same one. Nothing blocks: a call that cannot finish now returns ncclInProgress and fills *w with
 * what to wait for.
 *
 * The functions are called by the proxy tasks of one GPU only, never at the same time for one
 * send_comm or recv_comm: devices to accept, reg_mr, dereg_mr and close by the service task, the
 * rest by progress. Before there are proxy tasks, the main task may call devices and props.
 *
 * No slot of a row is NULL. A network that has nothing for an optional one takes net_plain's.
 */
#ifndef CORE_TRANSPORT_NET_H
#define CORE_TRANSPORT_NET_H

#include "core/rank/rank.h"

#define NET_HANDLE_BYTES 128
#define NET_MAX_REQUESTS 32
#define NET_MAX_RECVS    8 /* buffers of one receive */
#define NET_MAX_MERGED   4 /* devices of one connection */

/* Which connection of a communicator failed first, and why, in the network's form. All zero: none
 * did. */
#define NET_FAILURE_BYTES 64
struct net_failure {
	uint8_t bytes[NET_FAILURE_BYTES];
};

struct net_props {
	char name[32];   /* "mlx5_0" */
	char bus_id[24]; /* "" unknown */
	uint64_t guid;
	uint32_t port;
	uint32_t speed_mbps; /* megabits per second, as in topology files */
	bool gpu_memory;     /* can register GPU memory */
	uint8_t link;        /* its kind, in the network's numbers: what a merged NIC has one of */
	bool tags; /* sends are matched with receives by their tags, not by their order alone */
};

/* What a connection goes over: a device, or all those of a merged NIC. */
struct net_nic {
	int count;
	int dev[NET_MAX_MERGED];
};

/* What a connection serves: for error lines, labels and fault addresses. */
struct net_who {
	int32_t rank; /* whose end it is: another one than the communicator's, if that is its relay (PXN) */
	int32_t peer, channel;
};

struct net_handle {
	uint8_t bytes[NET_HANDLE_BYTES];
};

/* What is registered. GPU_FLUSH: GPU memory that iflush will flush. */
enum net_memory { NET_HOST, NET_GPU, NET_GPU_FLUSH };

/* What is sent, or where one of a receive's messages goes. */
struct net_buffer {
	void *data;
	size_t bytes;
	void *mr;
	uint32_t tag; /* a message goes into the buffer of its tag; those of a receive differ */
};

struct net_request; /* one isend, irecv or iflush in flight; freed by test when done */

struct net_ops {
	const char *name; /* "IB": in NCCL_NET, config.netName and log lines */
	int merged;       /* devices that a connection can go over: 1 to NET_MAX_MERGED */
	/* Opens them, the first time. fini closes them, and does nothing where they are not
	 * open. */
	ncclResult_t (*devices)(struct ncclComm *comm, int *count);
	ncclResult_t (*props)(struct ncclComm *comm, int dev, struct net_props *p);
	/* The two ends of a connection may have different numbers of devices. */
	ncclResult_t (*listen)(struct ncclComm *comm, const struct net_nic *nic,
			       const struct net_who *who, struct net_handle *h, void **listen);
	/* *pending is NULL at the first call and belongs to the network until *send_comm is set or
	 * the call fails, which both leave it NULL; an abandoned one goes to close_send. */
	ncclResult_t (*connect)(struct ncclComm *comm, const struct net_nic *nic,
				const struct net_who *who, const struct net_handle *h,
				void **pending, void **send_comm, struct wait *w);
	/* What is half accepted belongs to the listen object. */
	ncclResult_t (*accept)(void *listen, void **recv_comm, struct wait *w);
	/* ncclInvalidUsage: the device does not reach that GPU's memory; host memory will do. */
	ncclResult_t (*reg_mr)(void *net_comm, void *data, size_t bytes, enum net_memory where,
			       void **mr);
	/* With requests in flight (after a failure or an abort) it ends them, and the net_comm is
	 * good for nothing but closing. */
	ncclResult_t (*dereg_mr)(void *net_comm, void *mr);
	/* How many buffers a receive can have: 1 to NET_MAX_RECVS. */
	int (*max_recvs)(void *recv_comm);
	/* ncclSuccess with *req NULL: no credit from the receiver yet (isend) or no request free.
	 * Receives come one after the other: those of the oldest one that lacks a message are the
	 * tags that can be sent. It may be that nothing leaves before all its messages are there,
	 * and it is done when all have come. */
	ncclResult_t (*isend)(void *send_comm, const struct net_buffer *b, struct net_request **req,
			      struct wait *w);
	ncclResult_t (*irecv)(void *recv_comm, const struct net_buffer *b, int n,
			      struct net_request **req, struct wait *w);
	ncclResult_t (*iflush)(void *recv_comm, void *data, size_t bytes, void *mr,
			       struct net_request **req, struct wait *w);
	/* *done and, for a receive, bytes[] of its buffers in order. Errors: ncclRemoteError with
	 * one line that names QP, peer and completion status. */
	ncclResult_t (*test)(struct net_request *req, bool *done, size_t *bytes, struct wait *w);
	/* Did the other end report that it failed, or, when this one is busy, go away? A transfer
	 * is to come or under way on a busy one. For idle passes: cheap when nothing came; *w is
	 * for what would. Errors as test. */
	ncclResult_t (*check)(void *net_comm, bool busy, struct wait *w);
	/* Sets *f to the communicator's, which is what was in *f if it had none: connections that
	 * close pass it on to their other ends. */
	void (*failure)(struct ncclComm *comm, struct net_failure *f);
	void (*close_send)(void *send_comm);
	void (*close_recv)(void *recv_comm);
	void (*close_listen)(void *listen);
	void (*fini)(struct ncclComm *comm);
};

extern const struct net_ops net_verbs;
extern const struct net_ops net_socket;

/* In order of choice; NULL ends them. */
extern const struct net_ops *const nets[];
/* The row of that name (in any case). NULL: there is none. */
const struct net_ops *net_find(const char *name);
/* The row's place in nets[]. */
int32_t net_index(const struct net_ops *net);
/* Opens the communicator's network, unless it is open: the row that the configuration names, else
 * the first one from `first` on that has a device on this host. Main task. */
ncclResult_t net_open(struct ncclComm *comm, int32_t first);
/* Accepts one that is not open. */
void net_shut(struct ncclComm *comm);
/* The names of all rows, "IB, Socket"; returns `text`. */
const char *net_names(char *text, size_t bytes);

/* What a row takes where its network has nothing of its own:
 *   reg_mr    host memory needs no registration, and no GPU's memory can be reached;
 *   max_recvs is 1;
 *   iflush    fails, since no GPU memory was registered;
 *   failure   keeps none. */
ncclResult_t net_plain_reg_mr(void *net_comm, void *data, size_t bytes, enum net_memory where,
			      void **mr);
ncclResult_t net_plain_dereg_mr(void *net_comm, void *mr);
int net_plain_max_recvs(void *recv_comm);
ncclResult_t net_plain_iflush(void *recv_comm, void *data, size_t bytes, void *mr,
			      struct net_request **req, struct wait *w);
void net_plain_failure(struct ncclComm *comm, struct net_failure *f);

#endif
