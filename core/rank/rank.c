/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rank/rank.h"

#include <string.h>

#include "core/base/log.h"

/* ---- the cause of a verdict ----------------------------------------------------------------- */

/* The texts of earlier verdicts stay, because another task may read one. */
struct rank_cause {
	struct rank_cause *older;
	char text[];
};

static struct rank_cause *rank_cause_of(const struct ncclComm *comm)
{
	return (struct rank_cause *)(uintptr_t)shared_load_u64(&comm->cause, SHARED_ACQUIRE);
}

void rank_cause_keep(struct ncclComm *comm, const char *text)
{
	const size_t bytes = strlen(text) + 1;
	struct rank_cause *c = os_alloc(sizeof *c + bytes, "cause of a verdict");

	if (!c) /* then the latest error keeps its text */
		return;
	c->older = rank_cause_of(comm);
	memcpy(c->text, text, bytes);
	shared_store_u64(&comm->cause, (uintptr_t)c, SHARED_RELEASE);
}

void rank_causes_free(struct ncclComm *comm)
{
	struct rank_cause *c = rank_cause_of(comm);

	shared_store_u64(&comm->cause, 0, SHARED_RELAXED);
	while (c) {
		struct rank_cause *older = c->older;

		os_free(c);
		c = older;
	}
}

const char *rank_cause_again(const struct ncclComm *comm)
{
	const struct rank_cause *c =
		shared_load_u32(&comm->verdict, SHARED_ACQUIRE) ? rank_cause_of(comm) : NULL;

	return c ? log_error_again(c->text) : NULL;
}

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
