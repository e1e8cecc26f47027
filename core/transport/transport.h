/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transports: how two ranks on one channel reach each other. A transport is a small table for each
 * direction; `transport_connect_all` picks the first that can and takes the connection through
 *
 *   setup     each end prepares its memory and fills a connect_info for the other;
 *   exchange  the infos cross over bootstrap, those of each direction by themselves, and are acknowledged;
 *   connect   each end uses the other's; may return ncclInProgress, and is called again;
 *   ready     conn->dev holds what the kernel needs.
 *
 * Order of choice: p2p (same host, peer access), shm (same host), both in this room; then
 * ncclComm.network (core/proxy, the room above). The ends that algorithms need
 * (ncclComm.want) are connected at init by core/comm, pairs of ranks that send and receive on their
 * first use by core/plan; teardown in reverse. Everything a connection owns hangs off struct conn and is released by its `close`, which
 * accepts a half-made connection.
 */
#ifndef CORE_TRANSPORT_TRANSPORT_H
#define CORE_TRANSPORT_TRANSPORT_H

#include "core/rank/rank.h"

#define CONNECT_INFO_BYTES 256
/* Connections that are copied to the device together: the staging memory has room for them. */
#define TRANSPORT_COPY_CONNS (2 * DEV_MAX_CHANNELS)

/* Begins with the transport's magic number, 32 bits. */
struct connect_info {
	uint8_t bytes[CONNECT_INFO_BYTES];
};
DOPPEL_CHECK_SIZE(struct connect_info, CONNECT_INFO_BYTES);

struct transport;
struct proxy_port; /* requests to the proxy for a net connection */

/* Two ranks have up to six connections per channel and direction. */
enum conn_index {
	CONN_COLLECTIVE, /* of a ring */
	CONN_PAIR,       /* of sends and receives */
	CONN_DIRECT,     /* of programs that connect every two ranks */
	/* Of trees. Not a ring's, where two ranks are neighbours in both: a ring's connection takes
	 * chunks of several steps and keeps its step in the channel, and with one more of each kind
	 * of program one list of steps belongs to one kind. The memory is that of its own buffers,
	 * for the protocols that trees may use. */
	CONN_TREE,
	CONN_PAT, /* of PAT; its steps are a list of their own, too */
	CONN_DOUBLING,
	CONN_INDEX_COUNT
};
DOPPEL_STATIC_CHECK((int)CONN_INDEX_COUNT == RANK_CONN_INDEXES, "a set of protocols for each");

/* Which end: this rank sends to `peer`, or receives from it. */
struct conn_want {
	int32_t channel, peer;
	int32_t nic; /* topology's NIC index by which its graph crosses the network; -1: none */
	int32_t end; /* its number in ncclComm.want; -1: of messages */
	bool is_send;
	uint8_t index;     /* enum conn_index */
	struct conn *conn; /* of an element of ncclComm.want, once it is made */
};

/* One end of a connection. */
struct conn {
	const struct transport *transport; /* NULL: not connected */
	struct ncclComm *comm;
	int32_t peer, channel, nic; /* as in struct conn_want */
	bool is_send;
	uint8_t index;            /* enum conn_index */
	struct dev_conn dev;      /* copied to the device when ready */
	int32_t slot;             /* of the copy: comm->dev_conns[slot]; ends of algorithms first */
	struct proxy_port *proxy; /* net: requests to the proxy; p2p: NULL */
	uint32_t ll_bytes, ll128_bytes; /* of messages: transport_message_lines */
	char via[40]; /* what its log line has after the name of transport or network */
	void *state;  /* the transport's own */
};

struct transport_dir {
	ncclResult_t (*setup)(struct conn *c, struct connect_info *mine);
	/* ncclInProgress: call again; *w is what to wait for meanwhile. */
	ncclResult_t (*connect)(struct conn *c, const struct connect_info *theirs, struct wait *w);
	void (*close)(struct conn *c);
};

struct transport {
	const char *name; /* "P2P", "SHM/direct/direct", "NET" as in NCCL's log lines */
	bool network;     /* leaves the host: pairs of ranks use smaller steps */
	/* Can these two ranks use it? Pure: both ends compute the same answer. */
	bool (*can_connect)(const struct ncclComm *comm, int32_t from, int32_t to);
	struct transport_dir send, recv;
	/* Memory for those of the n ends, in the order of a job, that it serves; NULL: none. */
	ncclResult_t (*reserve)(struct ncclComm *comm, struct conn *const *conns, int n);
	/* Ends this rank's use of other ranks' memory, for a rank that leaves early; NULL: none. */
	void (*leave)(struct ncclComm *comm);
	/* After all connections are closed: releases what they share; NULL: nothing. */
	void (*close)(struct ncclComm *comm);
};

/* The first transport within a host that can connect the two ranks; NULL: none can. */
const struct transport *transport_local_of(const struct ncclComm *comm, int32_t from, int32_t to);

/* Connects n ends, none of which exists yet; those without a peer are left out. The rank at the other end of each calls it too, and
 * both WAIT for each other. A failure leaves what is half made to transport_close_all, and no job;
 * else transport_connect_upload and _drop follow. */
struct conn_job;
struct os_waits;
ncclResult_t transport_connect_all(struct ncclComm *comm, const struct conn_want *wants, int n,
				   struct conn_job **out);
/* The same for a task that does several at the same time, of several ranks or communicators: it
 * begins all of them, and looks at each until it is complete. Each direction of two ranks completes
 * when both have begun it, in whatever jobs. A failure of begin leaves no job; after any other,
 * transport_connect_drop follows. */
ncclResult_t transport_connect_begin(struct ncclComm *comm, const struct conn_want *wants, int n,
				     struct conn_job **job);
/* Goes on without waiting for another rank's task. ncclInProgress: transport_connect_waits adds
 * what the next look waits for. */
ncclResult_t transport_connect_look(struct conn_job *job);
ncclResult_t transport_connect_waits(struct conn_job *job, struct os_waits *l);
/* When it is complete, for connections that are made after init: copies them to the device. */
ncclResult_t transport_connect_upload(struct conn_job *job);
void transport_connect_drop(struct conn_job *job);
/* The end, connected or not; NULL: it does not exist. */
struct conn *transport_conn_find(const struct ncclComm *comm, const struct conn_want *want);
/* Channels that this rank and another one send over, in both directions: at most
 * NCCL_MAX_P2P_NCHANNELS. */
int32_t transport_pair_channels(const struct ncclComm *comm, int32_t peer);
/* May messages go in that protocol? SIMPLE whatever NCCL_PROTO is, others as the collectives of a
 * ring have them. */
bool transport_messages_have(const struct ncclComm *comm, enum dev_proto proto);
/* Connection ends that a rank can have at most. */
uint32_t transport_conns_most(const struct ncclComm *comm);

/* Copies the ends of comm->want to the device, after comm->dev is made. */
ncclResult_t transport_ends_upload(struct ncclComm *comm);
/* Before the ends of comm->want are connected: a sum of their hashes. Over all ranks it is 0, or
 * two ranks disagree on a connection. */
uint64_t transport_ends_sum(const struct ncclComm *comm);
/* It is not 0. All ranks call it together, and all log the same two ranks; ncclInternalError. */
ncclResult_t transport_ends_differ(const struct ncclComm *comm);
/* Ends this rank's use of other ranks' memory, for a rank that leaves early: its kernels are gone.
 */
void transport_leave(struct ncclComm *comm);
/* GPU memory of a rank of the host. This rank's GPU may use all memory of a rank of this process, */
ncclResult_t transport_memory_reach(struct ncclComm *comm, int32_t peer);
/* or this memory of another one, until transport_leave or transport_close_all. */
ncclResult_t transport_memory_open(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t handle,
				   void **mem);
/* Closes every connection of this rank. */
void transport_close_all(struct ncclComm *comm);

#endif
