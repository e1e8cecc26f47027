/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/transport, and core/proxy for the network, share.
 */
#ifndef CORE_TRANSPORT_TRANSPORT_INTERNAL_H
#define CORE_TRANSPORT_TRANSPORT_INTERNAL_H

#include <errno.h>
#include <stdlib.h>

#include "core/transport/net.h"
#include "core/transport/transport.h"

/* Bytes of a step: NCCL_BUFFSIZE / DEV_STEPS, cut to whole grains. Both ends compare theirs. */
uint32_t transport_step_bytes(void);
/* Step that every connection begins at, a whole number of turns of its slots. */
uint64_t transport_first_step(void);
/* Index among this host's ranks; -1: another host's. */
int32_t transport_local_rank(const struct ncclComm *comm, int32_t rank);

/* Everything transport_connect_rings needs on the way: index 2 * channel is the receiving end,
 * 2 * channel + 1 the sending one. */
struct transport_infos {
	struct connect_info mine[2 * DEV_MAX_CHANNELS], theirs[2 * DEV_MAX_CHANNELS];
	struct connect_info message[2 * DEV_MAX_CHANNELS];
	bool ready[2 * DEV_MAX_CHANNELS];
	/* Of those that are not ready; one for bootstrap. */
	struct wait wait[2 * DEV_MAX_CHANNELS + 1];
};

/* p2p.c: closes the pools of others that this rank opened; */
void p2p_imports_close(struct ncclComm *comm);
/* releases all that p2p connections of a rank share. */
void p2p_state_close(struct ncclComm *comm);

/* transport_net's connect_info. */
#define NET_INFO_MAGIC 0xd0de2002u
struct net_info {
	uint32_t magic;
	int32_t rank, channel;
	uint32_t is_send;
	uint32_t step_bytes;
	char nic[32];
	uint32_t pad0;
	struct net_handle handle; /* of a receiving end */
};
DOPPEL_STATIC_CHECK(sizeof(struct net_info) <= CONNECT_INFO_BYTES, "net_info fits");
DOPPEL_CHECK_SIZE(struct net_info, 184);
DOPPEL_CHECK_OFFSET(struct net_info, handle, 56);

#endif
