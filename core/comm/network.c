/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which network the ranks of a communicator use: one for all of them. A rank opens the one that its
 * configuration names, or the first one that has a device on its host; where that differs between
 * ranks, those without a name take the latest row of nets[] that any rank came to, because a
 * rank came to it for want of the rows before.
 */
#include "core/base/log.h"
#include "core/comm/comm_internal.h"
#include "core/transport/net.h"

/* The rank that came farthest in nets[]. */
static int32_t network_farthest(const int32_t *row, int32_t nranks)
{
	int32_t far = 0;

	for (int32_t r = 1; r < nranks; r++)
		if (row[r] > row[far])
			far = r;
	return far;
}

static ncclResult_t network_follow(struct ncclComm *comm, int32_t other, int32_t row)
{
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

static ncclResult_t network_agree(struct ncclComm *comm, int32_t *row)
{
	ncclResult_t rc = net_open(comm, 0);
	int32_t far;

	if (rc)
		return rc;
	row[comm->rank] = net_index(comm->net.ops);
	rc = bootstrap_all_gather(comm->bootstrap, row, sizeof *row);
	if (rc)
		return rc;
	far = network_farthest(row, comm->nranks);
	if (row[far] != row[comm->rank])
		rc = network_follow(comm, far, row[far]);
	if (!rc)
		INFO(LOG_INIT, "Using network %s", comm->net.ops->name);
	return rc;
}

ncclResult_t comm_network_choose(struct ncclComm *comm)
{
	int32_t *row = os_alloc((size_t)comm->nranks * sizeof *row, "networks of the ranks");
	ncclResult_t rc = ncclSystemError;

	if (!row)
		WARN("rank %d: no memory for the networks of %d ranks", comm->rank, comm->nranks);
	else
		rc = network_agree(comm, row);
	os_free(row);
	return rc;
}
