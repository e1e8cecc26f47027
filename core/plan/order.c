/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of collectives of several communicators on one GPU. A kernel holds its blocks until the
 * peers' kernels have started. GPUs that share two communicators must therefore launch their
 * collectives in the same order. If they do not, two GPUs may wait for each other: each kernel
 * waits for one that the other GPU has queued after its own. Another order works only if the
 * streams differ and a GPU has room for both kernels. In a world that compares, the second launch
 * gets an error.
 */
#include <stdio.h>

#include "core/base/log.h"
#include "core/plan/plan_internal.h"

static ncclResult_t plan_order_check_one(const struct ncclComm *comm, const struct plan_task *t)
{
	struct os_agree_other other;
	char text[sizeof other.text];

	if (!os_agrees())
		return ncclSuccess;
	snprintf(text, sizeof text, "%s, operation %llu of communicator %llx", t->name,
		 (unsigned long long)t->op_count, (unsigned long long)comm->id_hash);
	if (os_agree_order(comm->id_hash, (uint64_t)comm->cuda_dev, t->op_count, comm->rank, text,
			   t->caller, &other) == 0)
		return ncclSuccess;
	WARN("ranks disagree on the order of communicators: rank %d launches %s, called at %s, "
	     "where "
	     "rank %d of its communicator launched %s, called at %s",
	     comm->rank, text, other.here, other.rank, other.text, other.where);
	return ncclInvalidUsage;
}

ncclResult_t plan_order_check(const struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc = ncclSuccess;

	for (st->ordered = 0; !rc && st->ordered < st->queued; st->ordered += !rc)
		rc = plan_order_check_one(comm, &st->queue[st->ordered]);
	return rc;
}

void plan_order_undo(const struct ncclComm *comm, const struct plan_state *st)
{
	for (int32_t i = st->ordered - 1; i >= 0; i--)
		(void)os_agree_order(comm->id_hash, (uint64_t)comm->cuda_dev, st->queue[i].op_count,
				     comm->rank, NULL, NULL, NULL);
}
