/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other ranks of the host: peer access in one process, pools and registered memory that
 * this rank opens.
 */
#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/mem/mem.h"
#include "core/rank/cuda_result.h"
#include "core/transport/local/letters.h"
#include "core/transport/local/p2p_internal.h"

/* True if a communicator of this process has enabled access from comm's device to `cuda_dev`. CUDA
 * has no query for this, and enabling access again is an error. */
static bool p2p_peer_is_enabled(const struct ncclComm *comm, int32_t cuda_dev)
{
	struct registry_node *first = registry_lock();
	bool enabled = false;

	for (struct registry_node *n = first; n && !enabled; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;

		enabled = n->kind == REGISTRY_COMM && other->cuda_dev == comm->cuda_dev &&
			  other->p2p && other->p2p->peer[cuda_dev];
	}
	registry_unlock(first);
	return enabled;
}

/* Other tasks or the program may do this at the same time. */
static ncclResult_t p2p_peer_enable(struct ncclComm *comm, int32_t cuda_dev)
{
	struct registry_node *first;
	cudaError_t e;

	if (cuda_dev < TOPO_MAX_LOCAL && p2p_peer_is_enabled(comm, cuda_dev))
		return ncclSuccess;
	e = cudaDeviceEnablePeerAccess(cuda_dev, 0);
	if (e == cudaErrorPeerAccessAlreadyEnabled)
		(void)cudaGetLastError();
	else if (e)
		return cuda_result(e, "cudaDeviceEnablePeerAccess to a p2p neighbour");
	first = registry_lock();
	if (cuda_dev < TOPO_MAX_LOCAL)
		comm->p2p->peer[cuda_dev] = true;
	registry_unlock(first);
	return ncclSuccess;
}

ncclResult_t transport_memory_reach(struct ncclComm *comm, int32_t peer)
{
	ncclResult_t rc = p2p_state_make(comm);

	return rc ? rc : p2p_peer_enable(comm, comm->peers[peer].cuda_dev);
}

static struct p2p_pool *p2p_pool_find(const struct p2p_state *st, uint32_t number)
{
	struct p2p_pool *pool = st ? st->pools : NULL;

	while (pool && pool->number != number)
		pool = pool->next;
	return pool;
}

/* Finds a pool of another rank of this process and communicator by its number, and adds a reference
 * to it. */
static struct p2p_pool *p2p_pool_of_rank(const struct ncclComm *comm, int32_t rank, uint32_t number)
{
	struct p2p_pool *pool = NULL;
	struct registry_node *first = registry_lock();

	for (struct registry_node *n = first; n && !pool; n = n->next) {
		const struct ncclComm *other = (const struct ncclComm *)n;

		if (n->kind == REGISTRY_COMM && other->id_hash == comm->id_hash &&
		    other->rank == rank)
			pool = p2p_pool_find(other->p2p, number);
	}
	if (pool)
		shared_add_u32(&pool->refs, 1, SHARED_RELAXED);
	registry_unlock(first);
	return pool;
}

static ncclResult_t p2p_import_open(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t handle,
				    uint8_t **mem)
{
	return transport_import_result(
		comm, peer,
		mem_import((void **)mem, handle, "a neighbour's p2p connection memory"));
}

ncclResult_t transport_memory_open(struct ncclComm *comm, int32_t peer, cudaIpcMemHandle_t handle,
				   void **mem)
{
	ncclResult_t rc = p2p_state_make(comm);
	struct p2p_import *im;

	*mem = NULL;
	if (rc)
		return rc;
	im = os_alloc(sizeof *im, "p2p import");
	if (!im) {
		WARN("rank %d: no memory for the device memory of rank %d", comm->rank, peer);
		return ncclSystemError;
	}
	rc = p2p_import_open(comm, peer, handle, &im->mem);
	if (rc) {
		os_free(im);
		return rc;
	}
	im->peer = -1; /* not a pool */
	im->next = comm->p2p->imports;
	comm->p2p->imports = im;
	*mem = im->mem;
	return ncclSuccess;
}

/* Gives this rank's GPU access to the pool of a rank of this process. */
static ncclResult_t p2p_import_allow(struct ncclComm *comm, const struct p2p_pool *pool)
{
	return pool->cumem ? cumem_allow(pool->mem, pool->bytes, comm->cuda_dev,
					 "p2p connection memory")
			   : ncclSuccess;
}

static ncclResult_t p2p_import_make(struct conn *c, const struct p2p_info *info,
				    struct p2p_import *im, struct wait *w)
{
	ncclResult_t rc;

	if (transport_same_process(c->comm, c->peer)) {
		rc = p2p_peer_enable(c->comm, c->comm->peers[c->peer].cuda_dev);
		if (rc)
			return rc;
		im->pool = p2p_pool_of_rank(c->comm, c->peer, info->pool);
		if (!im->pool) {
			WARN("rank %d of this process has no p2p connection memory for rank %d",
			     c->peer, c->comm->rank);
			return ncclInternalError;
		}
		im->mem = im->pool->mem;
		return p2p_import_allow(c->comm, im->pool);
	}
	if (info->magic == P2P_CUMEM_MAGIC) {
		const struct letter_memory m = {LETTER_POOL, im->number, info->pool_bytes};

		im->cumem_bytes = m.bytes;
		return letters_import(c, &m, (void **)&im->mem, w);
	}
	return p2p_import_open(c->comm, c->peer, info->handle, &im->mem);
}

/* Frees an import that failed. */
static void p2p_import_drop(struct p2p_import *im)
{
	if (im->pool)
		p2p_pool_unref(im->pool);
	os_free(im);
}

ncclResult_t p2p_import_get(struct conn *c, const struct p2p_info *info, uint8_t **mem,
			    struct wait *w)
{
	struct p2p_state *st = c->comm->p2p;
	struct p2p_import *im = st->imports;
	ncclResult_t rc;

	while (im && !(im->peer == c->peer && im->number == info->pool))
		im = im->next;
	if (im) {
		*mem = im->mem;
		return ncclSuccess;
	}
	im = os_alloc(sizeof *im, "p2p import");
	if (!im) {
		WARN("no memory for the p2p connection memory of rank %d", c->peer);
		return ncclSystemError;
	}
	im->peer = c->peer;
	im->number = info->pool;
	rc = p2p_import_make(c, info, im, w);
	if (rc) {
		p2p_import_drop(im);
		return rc;
	}
	im->next = st->imports;
	st->imports = im;
	*mem = im->mem;
	return ncclSuccess;
}
