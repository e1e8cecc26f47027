/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suspending p2p: the memory of the rank's pools is freed, and its addresses are kept, so that
 * connections and the device's copies of them stay as they are. Only memory of cuMem can be
 * suspended. Control blocks and lines have the state of the connections; their image stays in host
 * memory. Buffers of SIMPLE have none.
 *
 *	suspend   every kernel of the host's ranks has ended -> unmap neighbours' pools -> copy the
 *	          state of the own pools to the host -> unmap them
 *	resume    new memory for the own pools -> copy their state back -> post its descriptors
 *	reopen    every rank of the host has resumed -> map neighbours' pools again, or allow this
 *	          GPU to access those of this process
 *
 * core/comm/suspend.c has the meetings between these steps.
 */
#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/rank/cuda_result.h"
#include "core/transport/local/letters.h"
#include "core/transport/local/p2p_internal.h"

#define P2P_OWN    "p2p connection memory"
#define P2P_THEIRS "a neighbour's p2p connection memory"

uint64_t transport_memory_suspendable(const struct ncclComm *comm)
{
	struct registry_node *first = registry_lock();
	uint64_t bytes = 0;

	for (const struct p2p_pool *p = comm->p2p ? comm->p2p->pools : NULL; p; p = p->next)
		bytes += p->cumem ? p->bytes : 0;
	registry_unlock(first);
	return bytes;
}

/* Copies the state of the connections from the pool or back. */
static ncclResult_t p2p_state_copy(const struct ncclComm *comm, struct p2p_pool *pool, bool back)
{
	const char *what = back ? "copying the state of p2p connections to the GPU"
				: "copying the state of p2p connections from the GPU";
	ncclResult_t rc =
		cuda_result(cudaMemcpyAsync(back ? pool->mem : pool->image,
					    back ? pool->image : pool->mem, pool->state_bytes,
					    back ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
					    comm->internal_stream),
			    what);

	return rc ? rc : cuda_result(cudaStreamSynchronize(comm->internal_stream), what);
}

/* ---- suspending ------------------------------------------------------------------------------ */

static ncclResult_t p2p_pool_suspend(const struct ncclComm *comm, struct p2p_pool *pool)
{
	ncclResult_t rc;

	ASSERT(pool->cumem && !pool->suspended && !pool->image);
	pool->image = os_alloc(pool->state_bytes, "state of p2p connections");
	if (!pool->image) {
		WARN("rank %d: no memory for %llu bytes of the state of p2p connections",
		     comm->rank, (unsigned long long)pool->state_bytes);
		return ncclSystemError;
	}
	rc = p2p_state_copy(comm, pool, false);
	if (rc)
		return rc;
	pool->suspended = true; /* CUDA has unmapped it even if the call reports an error */
	return cumem_unmap(pool->mem, pool->bytes, P2P_OWN);
}

static ncclResult_t p2p_imports_suspend(const struct p2p_state *st)
{
	ncclResult_t rc = ncclSuccess;

	for (struct p2p_import *im = st->imports; im && !rc; im = im->next) {
		if (!im->cumem_bytes)
			continue;
		im->suspended = true;
		rc = cumem_unmap(im->mem, im->cumem_bytes, P2P_THEIRS);
	}
	return rc;
}

ncclResult_t transport_memory_suspend(struct ncclComm *comm)
{
	ncclResult_t rc = comm->p2p ? p2p_imports_suspend(comm->p2p) : ncclSuccess;

	for (struct p2p_pool *p = comm->p2p ? comm->p2p->pools : NULL; p && !rc; p = p->next)
		if (p->cumem)
			rc = p2p_pool_suspend(comm, p);
	return rc;
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* Posts the descriptor to the ranks of other processes that had the pool open. */
static ncclResult_t p2p_pool_give(struct ncclComm *comm, struct p2p_pool *pool)
{
	const struct letter_memory m = {LETTER_POOL, pool->number, pool->bytes};
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = 0; i < comm->local_ranks && !rc; i++)
		if (pool->given[i])
			rc = letters_give(comm, comm->local_to_rank[i], &m, pool->mem);
	return rc;
}

static ncclResult_t p2p_pool_resume(struct ncclComm *comm, struct p2p_pool *pool)
{
	ncclResult_t rc = cumem_alloc_at(CUMEM_DEVICE, pool->mem, pool->bytes, P2P_OWN);

	if (rc)
		return rc;
	pool->suspended = false;
	rc = p2p_state_copy(comm, pool, true);
	os_free(pool->image);
	pool->image = NULL;
	return rc ? rc : p2p_pool_give(comm, pool);
}

ncclResult_t transport_memory_resume(struct ncclComm *comm)
{
	ncclResult_t rc = ncclSuccess;

	for (struct p2p_pool *p = comm->p2p ? comm->p2p->pools : NULL; p && !rc; p = p->next)
		if (p->suspended)
			rc = p2p_pool_resume(comm, p);
	return rc;
}

/* Maps a pool of another process again. Its letter is on the way. */
static ncclResult_t p2p_import_resume(struct ncclComm *comm, struct p2p_import *im)
{
	const struct letter_memory m = {LETTER_POOL, im->number, im->cumem_bytes};
	struct wait w[2];
	ncclResult_t rc;

	while ((rc = letters_import_at(comm, im->peer, &m, im->mem, w)) == ncclInProgress) {
		rc = bootstrap_wait_beside(comm->bootstrap, w, 1);
		if (rc)
			return rc;
	}
	im->suspended = rc != ncclSuccess;
	return rc;
}

ncclResult_t transport_memory_reopen(struct ncclComm *comm)
{
	ncclResult_t rc = ncclSuccess;

	for (struct p2p_import *im = comm->p2p ? comm->p2p->imports : NULL; im && !rc;
	     im = im->next) {
		if (im->suspended)
			rc = p2p_import_resume(comm, im);
		else if (im->pool && im->pool->cumem)
			rc = cumem_allow(im->pool->mem, im->pool->bytes, comm->cuda_dev, P2P_OWN);
	}
	return rc;
}
