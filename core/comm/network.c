/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects one network for all ranks of a communicator. A rank opens the network that its
 * configuration names, or that of a plugin, or the first row of nets[] with a device on its host.
 * If the ranks' networks differ, ranks without a configured name use the last of these rows.
 * Reason: some rank reached that row because its host has no device of the earlier rows.
 */
#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/transport/nets.h"

/* Returns the rank whose network is the last in nets[]. */
static int32_t network_farthest(const struct topo_rank_info *all, int32_t nranks)
{
	int32_t far = 0;

	for (int32_t r = 1; r < nranks; r++)
		if (all[r].network > all[far].network)
			far = r;
	return far;
}

/* Both ranks have a plugin's network, or one of them has none. */
static ncclResult_t network_plugins_differ(const struct ncclComm *comm, int32_t other)
{
	WARN("rank %d: its network is %s of a plugin, and rank %d has another one: NCCL_NET_PLUGIN "
	     "must be the same on all ranks",
	     comm->rank, comm->net.ops ? comm->net.ops->name : "not", other);
	return ncclInvalidUsage;
}

static ncclResult_t network_follow(struct ncclComm *comm, int32_t other, int32_t row)
{
	if (row < 0)
		return network_plugins_differ(comm, other);
	if (comm->net.named) {
		WARN("rank %d: its network is %s, and that of rank %d is %s: NCCL_NET must be the "
		     "same on all ranks",
		     comm->rank, comm->net.ops->name, other, nets[row]->name);
		return ncclInvalidUsage;
	}
	INFO(LOG_INIT | LOG_NET, "rank %d: uses the network %s, because rank %d does not have %s",
	     comm->rank, nets[row]->name, other, comm->net.ops->name);
	net_shut(comm);
	return net_open(comm, row);
}

ncclResult_t comm_network_agree(struct ncclComm *comm, const struct topo_rank_info *all,
				bool *differed)
{
	int32_t far = network_farthest(all, comm->nranks);
	ncclResult_t rc = ncclSuccess;

	*differed = false;
	for (int32_t r = 0; r < comm->nranks; r++)
		*differed |= all[r].network != all[far].network;
	if (all[far].network != all[comm->rank].network)
		rc = network_follow(comm, far, all[far].network);
	if (!rc && comm->net.ops)
		INFO(LOG_INIT, "Using network %s", comm->net.ops->name);
	return rc;
}
