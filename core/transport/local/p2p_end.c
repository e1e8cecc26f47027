/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teardown of p2p: a rank closes the memory of others that it opened, waits until the others have
 * closed its own memory, and frees its pools.
 */
#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/mem/mem.h"
#include "core/transport/local/p2p_internal.h"

/* Longest wait for importers at the end. */
#define P2P_CLOSE_NS         10000000000ull
#define P2P_CLOSE_ABORTED_NS 1000000000ull

void p2p_pool_unref(struct p2p_pool *pool)
{
	if (shared_add_u32(&pool->refs, -1u, SHARED_ACQ_REL) != 1)
		return;
	if (!pool->cumem)
		(void)mem_device_free(pool->mem, "p2p connection memory");
	else if (pool->mem)
		(void)cumem_free(pool->mem, pool->bytes, "p2p connection memory");
	os_free(pool);
}

ncclResult_t transport_memory_shut(struct ncclComm *comm, void *mem)
{
	struct p2p_import **at = &comm->p2p->imports, *im;

	while (*at && !((*at)->peer < 0 && (*at)->mem == mem))
		at = &(*at)->next;
	im = *at;
	ASSERT(im);
	*at = im->next;
	os_free(im);
	return mem_import_close(mem, "another rank's registered memory");
}

/* Required before memory of cuMem is unmapped. */
static void p2p_kernels_wait(struct ncclComm *comm)
{
	bool cumem = false;

	for (const struct p2p_pool *pool = comm->p2p->pools; pool; pool = pool->next)
		cumem |= pool->cumem;
	for (const struct p2p_import *im = comm->p2p->imports; im; im = im->next)
		cumem |= im->cumem_bytes || (im->pool && im->pool->cumem);
	if (cumem)
		transport_kernels_wait(comm);
}

void p2p_imports_close(struct ncclComm *comm)
{
	struct p2p_state *st = comm->p2p;

	if (st)
		p2p_kernels_wait(comm);
	while (st && st->imports) {
		struct p2p_import *im = st->imports;

		st->imports = im->next;
		if (im->pool)
			p2p_pool_unref(im->pool);
		else if (im->cumem_bytes)
			(void)cumem_free(im->mem, im->cumem_bytes, "a neighbour's p2p memory");
		else
			(void)mem_import_close(im->mem, "a neighbour's p2p memory");
		os_free(im);
	}
}

/* Importers must close memory that was exported through CUDA IPC before its owner frees it;
 * otherwise CUDA leaves the result undefined. Memory of cuMem lasts by itself. A rank leaves the
 * bootstrap when it has closed its imports, and its death counts as leaving. Each importer has
 * acknowledged its connection (connect.c); without acknowledgement there is no import. All ranks
 * leave at about the same time, because they end or abort together. The wait has a limit, in case
 * one does not. */
static void p2p_importers_wait(struct ncclComm *comm)
{
	bool aborted = shared_load_u32(comm->abort, SHARED_ACQUIRE) != 0;
	uint64_t until = os_now_ns() + (aborted ? P2P_CLOSE_ABORTED_NS : P2P_CLOSE_NS);

	if (!comm->bootstrap)
		return;
	bootstrap_leave(comm->bootstrap);
	for (int32_t i = 0; i < comm->local_ranks; i++) {
		int32_t rank = comm->local_to_rank[i];

		if (comm->p2p->importer[i] &&
		    bootstrap_wait_left(comm->bootstrap, rank, until) == ETIMEDOUT)
			INFO(LOG_P2P,
			     "rank %d: rank %d still has p2p memory open; freed all the same",
			     comm->rank, rank);
	}
}

/* Removes the pools from the registry, so that no other rank finds them. */
static struct p2p_pool *p2p_pools_take(struct p2p_state *st)
{
	struct registry_node *first = registry_lock();
	struct p2p_pool *pools = st->pools;

	st->pools = NULL;
	registry_unlock(first);
	return pools;
}

static void p2p_pools_unref(struct p2p_pool *pool)
{
	while (pool) {
		struct p2p_pool *next = pool->next;

		p2p_pool_unref(pool);
		pool = next;
	}
}

void p2p_state_close(struct ncclComm *comm)
{
	struct p2p_state *st = comm->p2p;
	struct registry_node *first;

	if (!st)
		return;
	p2p_imports_close(comm);
	if (st->pools) {
		p2p_importers_wait(comm);
		p2p_pools_unref(p2p_pools_take(st));
	}
	first = registry_lock(); /* other communicators read `peer` */
	comm->p2p = NULL;
	registry_unlock(first);
	os_free(st);
}
