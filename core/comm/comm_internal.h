/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/comm share.
 */
#ifndef CORE_COMM_COMM_INTERNAL_H
#define CORE_COMM_COMM_INTERNAL_H

#include "core/comm/comm.h"

/* The device's view of a communicator is one allocation: dev_comm, channels, `room` connections,
 * and then the ranks of the rings, and where ranks are in the trees. dev_comm and channels are
 * staged in pinned memory of that layout. */
struct comm_dev_layout {
	size_t channels, conns, ranks; /* offsets */
};
struct comm_dev_layout comm_dev_layout(int32_t channels, uint32_t room);

/* topology.c: sets comm->topo. With the network's devices, where it is open. */
ncclResult_t comm_topology_find(struct ncclComm *comm);
/* Does no file have all of this host's topology? One such rank makes all of a host detect. Keeps
 * the file's text for comm_topology_find. */
bool comm_topology_must_detect(struct ncclComm *comm);

void comm_state_set(struct ncclComm *comm, enum comm_state state);
/* One look at what was launched: complete, ncclInProgress, or an error. */
ncclResult_t comm_drain_look(struct ncclComm *comm);
/* For a rank that fails or was aborted, when its kernels are gone: stops using the others' memory,
 * then lets them see that it has left, so that no rank waits for it. */
void comm_leave_others(struct ncclComm *comm);

/* For bootstrap_look, from the end of the init to the release: a call of communicator `arg` waits.
 * Passes on what the rings of parked ranks of its process show; true: there are some. */
bool comm_look_at_parked(void *arg);

/* peers.c: which ranks the others are. Fills peers, local ranks; checks that they fit together. */
ncclResult_t comm_peers_gather(struct ncclComm *comm);
/* The graphs of a host do not fit together. ncclInvalidUsage: two of its ranks differ in a setting,
 * which is named. ncclRemoteError: they differ in what they have found, as where a device failed to
 * open. */
ncclResult_t comm_settings_blame(const struct ncclComm *comm);
/* network.c: of what all ranks have opened, each for itself, one network for all. *differed, the
 * same on all of them: some have another one now, and `all` describes rings for different ones. */
struct topo_rank_info;
ncclResult_t comm_network_agree(struct ncclComm *comm, const struct topo_rank_info *all,
				bool *differed);
/* channels.c: topology, rings, channels; then what the device needs to know of them. */
ncclResult_t comm_channels_make(struct ncclComm *comm);
/* One rank: where a file for the topology or the graphs is named. */
ncclResult_t comm_channels_alone(struct ncclComm *comm);
ncclResult_t comm_dev_make(struct ncclComm *comm);

#endif
