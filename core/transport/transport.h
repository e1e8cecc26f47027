/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transports: the ways in which two ranks reach each other on a channel. A transport is a table of
 * functions for each direction. `transport_connect_all` picks the first transport that can connect
 * the two ranks. It takes the connection through these steps:
 *
 *   setup     each end prepares its memory and fills a connect_info for the other end
 *   exchange  the infos of each direction cross over bootstrap, and are acknowledged
 *   connect   each end uses the other end's info; it may return ncclInProgress and is called again
 *   ready     conn->dev has the fields that the kernel needs
 *
 * Order of choice: p2p (same host, peer access), shm (same host), then ncclComm.network. p2p and
 * shm are in this room, the network transport is in core/proxy, the room above. core/comm connects
 * the ends that algorithms need (ncclComm.want) at init. core/plan connects two ranks that send and
 * receive at their first message. Teardown has the reverse order. struct conn owns all objects of
 * its connection. `close` releases them, and accepts a connection that is not complete.
 */
#ifndef CORE_TRANSPORT_TRANSPORT_H
#define CORE_TRANSPORT_TRANSPORT_H

#include "core/rank/rank.h"

#define CONNECT_INFO_BYTES 256
/* Connections that one copy takes to the device. The staging memory has this capacity. */
#define TRANSPORT_COPY_CONNS (2 * DEV_MAX_CHANNELS)

/* Begins with the transport's magic number, 32 bits. */
struct connect_info {
	uint8_t bytes[CONNECT_INFO_BYTES];
};
DOPPEL_CHECK_SIZE(struct connect_info, CONNECT_INFO_BYTES);

struct transport;
struct proxy_port; /* requests to the proxy for a network connection */

/* Two ranks have at most one connection of each index per channel and direction. */
enum conn_index {
	CONN_COLLECTIVE, /* rings */
	CONN_PAIR,       /* sends and receives */
	CONN_DIRECT,     /* programs that connect every two ranks */
	/* Trees. Two ranks that are neighbours in a ring and in a tree have a connection for each.
	 * Reason: a ring's connection takes chunks of several steps, and its step is kept in the
	 * channel. With separate connections, each kind of program has its own sequence of steps. A
	 * tree's connection has its own buffers, for the protocols that trees may use. */
	CONN_TREE,
	CONN_PAT, /* PAT, which has its own sequence of steps, too */
	CONN_DOUBLING,
	CONN_COLLNET, /* chains of CollNet, and their heads' ends of the network that reduces */
	CONN_INDEX_COUNT
};
DOPPEL_STATIC_CHECK((int)CONN_INDEX_COUNT == RANK_CONN_INDEXES, "a set of protocols for each");

/* Does the connection lead into the network that reduces? Chains stay on a host, also where the
 * ordinary network connects its ranks. */
static inline bool conn_reduces(const struct ncclComm *comm, int index, int32_t rank, int32_t peer)
{
	return index == CONN_COLLNET && comm->peers[rank].host_hash != comm->peers[peer].host_hash;
}

/* An end to connect: this rank sends to `peer`, or receives from it. */
struct conn_want {
	int32_t channel, peer;
	int32_t nic; /* topology's index of the NIC toward the network; -1: none */
	int32_t end; /* number of the end in ncclComm.want; -1: an end for messages */
	bool is_send;
	uint8_t index;     /* enum conn_index */
	struct conn *conn; /* set in elements of ncclComm.want when the connection exists */
};

/* One end of a connection. */
struct conn {
	const struct transport *transport; /* NULL: not connected */
	struct ncclComm *comm;
	int32_t peer, channel, nic; /* as in struct conn_want */
	bool is_send;
	uint8_t index;       /* enum conn_index */
	struct dev_conn dev; /* copied to the device when the connection is ready */
	int32_t slot; /* the device's copy: comm->dev_conns[slot]; ends of algorithms first */
	struct proxy_port *proxy;       /* network: requests to the proxy; p2p and shm: NULL */
	uint32_t ll_bytes, ll128_bytes; /* limits for messages: transport_message_lines */
	char via[40]; /* end of its log line, after the name of transport or network */
	void *state;  /* owned by the transport */
};

struct transport_dir {
	ncclResult_t (*setup)(struct conn *c, struct connect_info *mine);
	/* ncclInProgress: call it again when *w is true. */
	ncclResult_t (*connect)(struct conn *c, const struct connect_info *theirs, struct wait *w);
	void (*close)(struct conn *c);
};

struct transport {
	const char *name; /* as in NCCL's log lines: "P2P", "SHM/direct/direct", "NET" */
	bool network;     /* leaves the host: messages between two ranks use smaller steps */
	/* True if the transport can connect the two ranks. Both ends compute the same answer. */
	bool (*can_connect)(const struct ncclComm *comm, int32_t from, int32_t to);
	struct transport_dir send, recv;
	/* Makes memory for the ends that this transport serves. `conns` has all ends of a job, in
	 * its order. NULL: no such memory. */
	ncclResult_t (*reserve)(struct ncclComm *comm, struct conn *const *conns, int n);
	/* Ends this rank's use of other ranks' memory, for a rank that leaves early. NULL: no such
	 * use. */
	void (*leave)(struct ncclComm *comm);
	/* Leaves, then waits until no other rank uses this rank's memory. Returns false if one does
	 * at `until_ns`; 0: no deadline. NULL: no such use. */
	bool (*left)(struct ncclComm *comm, uint64_t until_ns);
	/* Called after all connections are closed: releases the objects that they share. NULL: no
	 * such objects. */
	void (*close)(struct ncclComm *comm);
};

/* Returns the first transport within a host that can connect the two ranks; NULL: no such
 * transport. */
const struct transport *transport_local_of(const struct ncclComm *comm, int32_t from, int32_t to);

/* Connects n ends that do not exist yet. Ends without a peer (-1) are skipped. The rank at the
 * other end of each must call it too, and both WAIT for each other. On success,
 * transport_connect_upload and transport_connect_drop follow. On failure there is no job, and
 * transport_close_all closes the ends that were made. */
struct conn_job;
struct os_waits;
ncclResult_t transport_connect_all(struct ncclComm *comm, const struct conn_want *wants, int n,
				   struct conn_job **out);
/* The same for a task that connects for several ranks or communicators at the same time. The task
 * begins all jobs, then looks at each until it is complete. Each direction between two ranks
 * completes when both ranks have begun it, in any jobs. If begin fails there is no job. After any
 * other result transport_connect_drop must follow. */
ncclResult_t transport_connect_begin(struct ncclComm *comm, const struct conn_want *wants, int n,
				     struct conn_job **job);
/* Advances the job without waiting for another rank's task. ncclInProgress: the job is not
 * complete, and transport_connect_waits adds the waits of the next look. */
ncclResult_t transport_connect_look(struct conn_job *job);
ncclResult_t transport_connect_waits(struct conn_job *job, struct os_waits *l);
/* Copies the connections of a complete job to the device. For connections that are made after
 * init. */
ncclResult_t transport_connect_upload(struct conn_job *job);
void transport_connect_drop(struct conn_job *job);
/* Returns the end, connected or not; NULL: it does not exist. */
struct conn *transport_conn_find(const struct ncclComm *comm, const struct conn_want *want);
/* Sets comm->step_bytes from the environment, before the first connection. */
void transport_steps_set(struct ncclComm *comm);
/* Returns the number of channels over which this rank and `peer` send messages, in both directions.
 * It is at most NCCL_MAX_P2P_NCHANNELS. */
int32_t transport_pair_channels(const struct ncclComm *comm, int32_t peer);
/* True if messages may use the protocol. They may always use SIMPLE, whatever NCCL_PROTO is. They
 * may use the other protocols if the collectives of a ring may. */
bool transport_messages_have(const struct ncclComm *comm, enum dev_proto proto);
/* Returns the largest number of connection ends that the rank can have. */
uint32_t transport_conns_most(const struct ncclComm *comm);

/* Copies the ends of comm->want to the device, after comm->dev is made. */
ncclResult_t transport_ends_upload(struct ncclComm *comm);
/* Returns the sum of the hashes of the ends of comm->want, before they are connected. If the sum
 * over all ranks is not 0, two ranks disagree on a connection. */
uint64_t transport_ends_sum(const struct ncclComm *comm);
/* Finds two ranks that disagree when that sum is not 0. Collective: all ranks call it and log the
 * same two ranks. Returns ncclInternalError. */
ncclResult_t transport_ends_differ(const struct ncclComm *comm);
/* Ends this rank's use of other ranks' memory, for a rank that leaves early. None of its kernels
 * may run. */
void transport_leave(struct ncclComm *comm);
/* Give this rank's GPU access to GPU memory of `peer`, a rank of the host. `reach`: peer is in this
 * process; the GPU may access all its memory. `open`: peer is in another process; the GPU may
 * access the memory of the handle until transport_leave or transport_close_all. */
ncclResult_t transport_memory_reach(struct ncclComm *comm, int32_t peer);
ncclResult_t transport_memory_open(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t handle,
				   void **mem);
/* Suspend GPU memory of this rank's connections and make it again, between meetings of the host's
 * ranks (core/transport/local/p2p_suspend.c). `suspendable`: bytes of that memory. `suspend`: no
 * rank of the host has a kernel that uses it. `reopen`: all ranks of the host have resumed. After
 * an error the connections can only be closed. */
uint64_t transport_memory_suspendable(const struct ncclComm *comm);
ncclResult_t transport_memory_suspend(struct ncclComm *comm);
ncclResult_t transport_memory_resume(struct ncclComm *comm);
ncclResult_t transport_memory_reopen(struct ncclComm *comm);
/* Leaves, then waits until no other process has memory of this rank open, or has ended. Returns
 * false if one still has at `until_ns`; 0: no deadline. Precedes transport_close_all. */
bool transport_left(struct ncclComm *comm, uint64_t until_ns);
void transport_close_all(struct ncclComm *comm);

#endif
