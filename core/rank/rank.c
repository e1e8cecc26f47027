/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/rank.h"

#include "core/base/log.h"

void rank_set_async_error(struct ncclComm *comm, ncclResult_t error)
{
	uint32_t seen = shared_load_u32(&comm->async_error, SHARED_RELAXED);

	ASSERT(error > ncclSuccess && error < ncclInProgress);
	while (seen == ncclSuccess)
		if (shared_cas_weak_u32(&comm->async_error, &seen, (uint32_t)error, SHARED_RELEASE))
			return;
	INFO(LOG_PROXY, "rank %d: one more asynchronous error: %d after %u", comm->rank, (int)error,
	     seen);
}

static void rank_bootstrap_take(struct ncclComm *comm, bool taken)
{
	os_mutex_lock(&comm->watch);
	ASSERT(comm->bootstrap_taken != taken);
	comm->bootstrap_taken = taken;
	os_mutex_unlock(&comm->watch);
}

void rank_bootstrap_claim(struct ncclComm *comm)
{
	rank_bootstrap_take(comm, true);
}

void rank_bootstrap_release(struct ncclComm *comm)
{
	rank_bootstrap_take(comm, false);
}
