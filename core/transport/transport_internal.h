/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/transport, and core/proxy for the network, share.
 */
#ifndef CORE_TRANSPORT_TRANSPORT_INTERNAL_H
#define CORE_TRANSPORT_TRANSPORT_INTERNAL_H

#include <errno.h>
#include <stdlib.h>

#include "core/device/steps.h"
#include "core/transport/net.h"
#include "core/transport/transport.h"

/* Bytes of a protocol's step: NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE or NCCL_LL128_BUFFSIZE / DEV_STEPS,
 * cut to whole grains of data. */
uint32_t transport_step_bytes(enum dev_proto proto);
/* Up to how many bytes parts of messages over this connection go in LL and LL128:
 * NCCL_P2P_LL_THRESHOLD, DOPPEL_P2P_LL128_THRESHOLD. 0: none does. Both ends find the same: it is
 * of the pair of ranks. */
void transport_message_lines(struct conn *c);
/* A pair of ranks without NVLinks between them sends over two channels, as in NCCL. */
#define TRANSPORT_PAIR_CHANNELS 2
/* And over the network over so many: NCCL_NCHANNELS_PER_NET_PEER, the config's nChannelsPerNetPeer,
 * or as many. A launch has room for all of them (plan_round_need), so they are NET_MAX_RECVS at
 * most. */
int32_t transport_pair_net_channels(const struct ncclComm *comm);
/* NCCL_MAX_P2P_NCHANNELS. */
uint64_t transport_pair_most_channels(void);
/* Step that every connection begins at, a whole number of turns of its slots. */
uint64_t transport_first_step(void);
/* Index among this host's ranks; -1: another host's. */
int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank);

/* Bytes of a protocol's step of this connection; 0: it has no buffer, since no kernel uses one. */
uint32_t transport_conn_step_bytes(const struct conn *c, enum dev_proto proto);
/* Does the other end have the same? ncclInvalidUsage: no, and the variable to set is logged. */
ncclResult_t transport_steps_check(const struct conn *c, const uint32_t theirs[DEV_PROTO_COUNT]);
/* Lines of LL or LL128 before the first step: with the flag of a step before it. */
void transport_lines_init(enum dev_proto proto, void *lines, uint64_t bytes);
/* The slots of a connection in one piece of memory: bytes of each protocol's step, and where its
 * buffer begins. Returns the bytes of all buffers. */
uint64_t transport_conn_layout(const struct conn *c, uint32_t step_bytes[DEV_PROTO_COUNT],
			       uint64_t offset[DEV_PROTO_COUNT]);
/* Are this rank and that one of one process? */
bool transport_same_process(const struct ncclComm *comm, int32_t peer);
/* Does NVLink join this rank's GPU and that one's, and p2p the two ranks? The same answer at both
 * ends. */
bool transport_pair_has_nvlink(const struct ncclComm *comm, int32_t peer);
/* The first transport that can connect the two ranks; NULL: none can. */
const struct transport *transport_of(const struct ncclComm *comm, int32_t from, int32_t to);
/* The same for an end, which keeps it. */
ncclResult_t transport_choose(struct conn *c);

static inline const struct transport_dir *transport_dir_of(const struct conn *c)
{
	ASSERT(c->transport);
	return c->is_send ? &c->transport->send : &c->transport->recv;
}

/* Memory of a rank of the host was not opened: that it left may be why, which may show later. Then
 * ncclRemoteError. */
ncclResult_t transport_import_result(struct ncclComm *comm, int32_t peer, ncclResult_t rc);
/* No kernel of this rank runs from now on: before memory of cuMem is unmapped. */
void transport_kernels_wait(struct ncclComm *comm);

/* conns.c */
ncclResult_t transport_conn_add(struct ncclComm *comm, const struct conn_want *want,
				struct conn **out);
void transport_conns_close(struct ncclComm *comm);

/* conns_device.c: connections whose slots follow each other. */
ncclResult_t transport_conns_upload(struct ncclComm *comm, struct conn *const *conns, int n);

/* Memory for the n ends of a job, by the transports that serve them. */
ncclResult_t transport_reserve(struct ncclComm *comm, struct conn *const *conns, int n);
extern const struct transport transport_p2p, transport_shm;

/* The other side of transport_memory_open: memory of this rank, for that rank, which must close it
 * before this one ends. */
ncclResult_t transport_memory_lend(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t *handle,
				   void *mem, const char *what);
/* Closes what transport_memory_open opened. */
ncclResult_t transport_memory_shut(struct ncclComm *comm, void *mem);

/* transport_net's connect_info. */
#define NET_INFO_MAGIC 0xd0de2005u
struct net_info {
	uint32_t magic;
	int32_t rank, channel;
	uint16_t is_send, index;
	uint32_t step_bytes[DEV_PROTO_COUNT];
	char nic[32];
	struct net_handle handle; /* of a receiving end */
};
DOPPEL_STATIC_CHECK(sizeof(struct net_info) <= CONNECT_INFO_BYTES, "net_info fits");
DOPPEL_CHECK_SIZE(struct net_info, 188);
DOPPEL_CHECK_OFFSET(struct net_info, handle, 48 + 4 * DEV_PROTO_COUNT);

#endif
