/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of core/transport, and by core/proxy for the network.
 */
#ifndef CORE_TRANSPORT_TRANSPORT_INTERNAL_H
#define CORE_TRANSPORT_TRANSPORT_INTERNAL_H

#include <errno.h>
#include <stdlib.h>

#include "core/device/layout/steps.h"
#include "core/transport/base/net.h"
#include "core/transport/base/step_bytes.h"
#include "core/transport/transport.h"

/* Sets c->ll_bytes and c->ll128_bytes: parts of messages up to this size use LL or LL128
 * (NCCL_P2P_LL_THRESHOLD, DOPPEL_P2P_LL128_THRESHOLD). 0: messages do not use the protocol. Both
 * ends compute the same values. */
void transport_message_lines(struct conn *c);
/* Channels between two ranks that NVLink does not join, as in NCCL. */
#define TRANSPORT_PAIR_CHANNELS 2
/* Returns the number of channels between two ranks over the network: NCCL_NCHANNELS_PER_NET_PEER,
 * else the config's nChannelsPerNetPeer, else TRANSPORT_PAIR_CHANNELS. At most NET_MAX_RECVS,
 * because a launch must have room for all of them (plan_round_need). */
int32_t transport_pair_net_channels(const struct ncclComm *comm);
/* NCCL_MAX_P2P_NCHANNELS. */
uint64_t transport_pair_most_channels(void);
/* Returns the rank's index among the ranks of this host; -1: it is on another host. */
int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank);

/* Returns the bytes of the connection's steps in the protocol; 0: no kernel uses it, so it has no
 * buffer. */
uint32_t transport_conn_step_bytes(const struct conn *c, enum dev_proto proto);
/* Compares the steps of the two ends. If they differ, it logs the variable to set and returns
 * ncclInvalidUsage. */
ncclResult_t transport_steps_check(const struct conn *c, const uint32_t theirs[DEV_PROTO_COUNT]);
/* Lays out the slots of a connection in one block of memory: bytes of a step and offset of the
 * buffer, for each protocol. Returns the bytes of all buffers. */
uint64_t transport_conn_layout(const struct conn *c, uint32_t step_bytes[DEV_PROTO_COUNT],
			       uint64_t offset[DEV_PROTO_COUNT]);
/* True if the peer is in this rank's process. */
bool transport_same_process(const struct ncclComm *comm, int32_t peer);
/* True if NVLink joins the GPUs of the two ranks and p2p connects them. Both ends compute the same
 * answer. */
bool transport_pair_has_nvlink(const struct ncclComm *comm, int32_t peer);
/* Returns the first transport that can connect the two ranks; NULL: no such transport. */
const struct transport *transport_of(const struct ncclComm *comm, int32_t from, int32_t to);
/* Sets the transport of an end. ncclSystemError, logged: no transport can connect it. */
ncclResult_t transport_choose(struct conn *c);

static inline const struct transport_dir *transport_dir_of(const struct conn *c)
{
	ASSERT(c->transport);
	return c->is_send ? &c->transport->send : &c->transport->recv;
}

/* Result of opening memory of a rank of the host. If rc is an error, waits a short time for the
 * peer to leave, and returns ncclRemoteError if it has left. */
ncclResult_t transport_import_result(struct ncclComm *comm, int32_t peer, ncclResult_t rc);
/* Waits until no kernel of this rank runs, and frees the device communicator. For memory of cuMem
 * that is about to be unmapped. */
void transport_kernels_wait(struct ncclComm *comm);

/* conns.c */
ncclResult_t transport_conn_add(struct ncclComm *comm, const struct conn_want *want,
				struct conn **out);
void transport_conns_close(struct ncclComm *comm);

/* conns_device.c: copies connections with successive slots to the device. */
ncclResult_t transport_conns_upload(struct ncclComm *comm, struct conn *const *conns, int n);

/* Makes memory for the n ends of a job, in the transports that serve them. */
ncclResult_t transport_reserve(struct ncclComm *comm, struct conn *const *conns, int n);
extern const struct transport transport_p2p, transport_shm;

/* Makes memory of this rank accessible to `peer`, which calls transport_memory_open. The peer must
 * close it before this rank ends. */
ncclResult_t transport_memory_lend(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t *handle,
				   void *mem, const char *what);
/* Closes memory that transport_memory_open opened. */
ncclResult_t transport_memory_shut(struct ncclComm *comm, void *mem);

/* Wire format: the connect_info of the network transport. */
#define NET_INFO_MAGIC 0xd0de2005u
struct net_info {
	uint32_t magic;
	int32_t rank, channel;
	uint16_t is_send, index;
	uint32_t step_bytes[DEV_PROTO_COUNT];
	char nic[32];
	struct net_handle handle; /* set by a receiving end */
};
DOPPEL_STATIC_CHECK(sizeof(struct net_info) <= CONNECT_INFO_BYTES, "net_info fits");
DOPPEL_CHECK_SIZE(struct net_info, 188);
DOPPEL_CHECK_OFFSET(struct net_info, handle, 48 + 4 * DEV_PROTO_COUNT);

#endif
