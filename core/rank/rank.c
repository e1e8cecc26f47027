/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/rank.h"

#include <string.h>

#include "core/base/log.h"

/* ---- errors --------------------------------------------------------------------------------- */

/* Breaks the bootstrap's ring after an asynchronous error, to inform the ring's next ranks. Caller
 * holds `watch`. */
static void rank_ring_break(struct ncclComm *comm)
{
	if (!comm->bootstrap || comm->bootstrap_taken ||
	    !shared_load_u32(&comm->async_error, SHARED_ACQUIRE))
		return;
	bootstrap_ring_break(comm->bootstrap);
	comm->ring_broken = true;
}

/* `seen`: the error so far. */
static void rank_error_record(struct ncclComm *comm, ncclResult_t error, uint32_t seen)
{
	bool first = false;

	ASSERT(error > ncclSuccess && error != ncclInProgress && error < ncclNumResults);
	while (seen == ncclSuccess && !first)
		first = shared_cas_weak_u32(&comm->async_error, &seen, (uint32_t)error,
					    SHARED_RELEASE);
	if (!first) {
		INFO(LOG_PROXY, "rank %d: one more asynchronous error: %d after %u", comm->rank,
		     (int)error, seen);
		return;
	}
	os_mutex_lock(&comm->watch);
	rank_ring_break(comm);
	os_mutex_unlock(&comm->watch);
}

void rank_set_async_error(struct ncclComm *comm, ncclResult_t error)
{
	uint32_t seen = shared_load_u32(&comm->async_error, SHARED_RELAXED);

	error = rank_error(comm, error);
	if (!shared_load_u32(&comm->revoked, SHARED_ACQUIRE))
		rank_error_record(comm, error, seen);
	else
		INFO(LOG_PROXY, "rank %d: error %d after the communicator was revoked", comm->rank,
		     (int)error);
}

void rank_set_call_error(struct ncclComm *comm, ncclResult_t error)
{
	uint32_t seen = shared_load_u32(&comm->async_error, SHARED_RELAXED);

	rank_error_record(comm, rank_error(comm, error), seen);
}

/* ---- the bootstrap after init --------------------------------------------------------------- */

bool rank_watch_lock(struct ncclComm *comm, bool must)
{
	if (!must && comm->timeout_ns)
		return os_mutex_try_lock(&comm->watch);
	os_mutex_lock(&comm->watch);
	return true;
}

void rank_bootstrap_claim(struct ncclComm *comm)
{
	os_mutex_lock(&comm->watch);
	ASSERT(!comm->bootstrap_taken);
	comm->bootstrap_taken = true;
	os_mutex_unlock(&comm->watch);
}

void rank_bootstrap_release(struct ncclComm *comm)
{
	os_mutex_lock(&comm->watch);
	ASSERT(comm->bootstrap_taken);
	comm->bootstrap_taken = false;
	rank_ring_break(comm);
	os_mutex_unlock(&comm->watch);
}

ncclResult_t rank_wait_beside(struct ncclComm *comm, const struct wait *waits, int n)
{
	struct wait w[RANK_WAITS + 2]; /* the last entry is scratch of bootstrap_wait_beside */
	ncclResult_t rc = (ncclResult_t)shared_load_u32(&comm->async_error, SHARED_ACQUIRE);

	ASSERT(n > 0 && n <= RANK_WAITS && comm->nranks > 1);
	if (rc)
		return rc;
	memcpy(w, waits, (size_t)n * sizeof *w);
	w[n] = wait_word(&comm->async_error, 4, WAIT_NE, 0, "an error of the communicator",
			 wait_by(comm->rank, -1, "proxy"));
	w[n].idle = true;
	rank_bootstrap_claim(comm);
	rc = bootstrap_wait_beside(comm->bootstrap, w, n + 1);
	rank_bootstrap_release(comm);
	if (rc && rc != ncclInternalError)
		rank_set_async_error(comm, rc);
	return rank_error(comm, rc);
}
