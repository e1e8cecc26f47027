/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective networks in NCCL's net plugins (collnet_abi.h): networks that reduce, such as switches
 * with SHARP. The plugin is in the library of the communicator's network. core/comm opens it, and
 * makes a group of the heads of all hosts for each channel. core/proxy moves the slots of a head
 * through the row net_collnet. core/plan reads what can be reduced.
 *
 *	collnet_open       the plugin, its devices, what it reduces                    (main task)
 *	collnet_listen     a handle for a channel, which all heads get
 *	collnet_connect    the group, from the handles of all heads
 *	collnet_agree      what all ranks' plugins reduce; programs may use the groups from now on
 *	net_collnet        a send is this head's chunk, a receive the sum of all; the n-th send
 *	                   of a channel belongs to the n-th receive                    (proxy)
 *	collnet_close      groups and plugin; all connections of the channel are closed
 *
 * ncclComm.collnet owns the groups and a reference to the plugin. Units: bytes, elements.
 *
 * Errors before collnet_agree are logged as warnings, and the communicator runs without CollNet:
 * ranks agree on that (core/comm/chains.c). Later errors of a plugin's function are logged once for
 * each group, with plugin, function, device and channel, and are errors of the communicator:
 * ncclRemoteError if the plugin returned that, else ncclSystemError. Plugins cannot end a request:
 * memory of a reduction that never ends is released when the group is closed, as in NCCL.
 */
#ifndef CORE_TRANSPORT_COLLNET_COLLNET_H
#define CORE_TRANSPORT_COLLNET_COLLNET_H

#include "core/transport/base/net.h"

extern const struct net_ops net_collnet;

/* Opens the collective network of the communicator's network. If the network has
 * none, or it cannot be used, comm->collnet stays NULL, and a line of the log has the reason. */
void collnet_open(struct ncclComm *comm);
/* Accepts a communicator without CollNet, and groups that are not connected. */
void collnet_close(struct ncclComm *comm);

/* These accept NULL: no CollNet. */
const char *collnet_name(const struct collnet *c);
/* Returns true if the network's device of that name can reduce. */
bool collnet_has(const struct collnet *c, const char *device);
/* Returns a set of reductions that all ranks agreed on: collnet_reduction. */
uint64_t collnet_reductions(const struct collnet *c);

DOPPEL_STATIC_CHECK((int)ncclNumTypes <= 16 && (int)ncclAvg <= 4, "a bit for each reduction");
/* Returns the bit of a type and an operation of a network: one before ncclAvg. */
static inline uint64_t collnet_reduction(ncclDataType_t type, ncclRedOp_t op)
{
	return 1ull << (16 * (unsigned)op + (unsigned)type);
}

/* Returns what this rank's plugin reduces. */
uint64_t collnet_supported(const struct collnet *c);
/* Sets what all ranks' plugins reduce. */
void collnet_agree(struct collnet *c, uint64_t reductions);

/* Make a group: this rank is a head of the channel, and uses the topology's NIC `nic`. */
ncclResult_t collnet_listen(struct ncclComm *comm, int32_t channel, int32_t nic,
			    struct net_handle *h);
/* `rank` is this head's index among the handles of the `count` heads; `peer` is the rank that a
 * wait names. ncclInProgress: call it again when *w is true, with the same handles. */
ncclResult_t collnet_connect(struct ncclComm *comm, int32_t channel, struct net_handle *handles,
			     int count, int rank, int32_t peer, struct wait *w);
/* Sets how the channel's device reaches memory of GPUs, as in struct net_props. */
void collnet_reach(const struct collnet *c, int32_t channel, bool *gpu_memory, bool *always_flush);

#endif
