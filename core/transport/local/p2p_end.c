/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teardown of p2p: a rank closes the memory of others that it opened, waits until the others have
 * closed its own memory, and frees its pools.
 */
#include "core/base/log.h"
#include "core/mem/cumem.h"
#include "core/mem/mem.h"
#include "core/transport/local/p2p_internal.h"

/* Longest wait of one look for an importer to leave, and the pause after a look that failed. */
#define P2P_LOOK_NS       10000000000ull
#define P2P_LOOK_PAUSE_NS 10000000ull

void p2p_pool_unref(struct p2p_pool *pool)
{
	if (shared_add_u32(&pool->refs, -1u, SHARED_ACQ_REL) != 1)
		return;
	if (!pool->cumem)
		(void)mem_device_free(pool->mem, "p2p connection memory");
	else if (pool->suspended)
		(void)cumem_forget(pool->mem, pool->bytes, "p2p connection memory");
	else if (pool->mem)
		(void)cumem_free(pool->mem, pool->bytes, "p2p connection memory");
	os_free(pool->image);
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
		else if (im->suspended)
			(void)cumem_forget(im->mem, im->cumem_bytes, "a neighbour's p2p memory");
		else if (im->cumem_bytes)
			(void)cumem_free(im->mem, im->cumem_bytes, "a neighbour's p2p memory");
		else
			(void)mem_import_close(im->mem, "a neighbour's p2p memory");
		os_free(im);
	}
}

/* Waits until `rank` has left. A single look may fail early without an answer. */
static bool p2p_importer_left(struct ncclComm *comm, int32_t rank, uint64_t until_ns)
{
	for (bool logged = false;; logged = true) {
		uint64_t look_ns = os_now_ns() + P2P_LOOK_NS;

		if (until_ns)
			look_ns = MIN_OF(look_ns, until_ns);
		if (bootstrap_wait_left(comm->bootstrap, rank, look_ns) != ETIMEDOUT)
			return true;
		if (until_ns && os_now_ns() >= until_ns)
			return false;
		if (!logged)
			INFO(LOG_P2P,
			     "rank %d: rank %d still has p2p memory open; it is freed when that "
			     "rank leaves",
			     comm->rank, rank);
		if (os_now_ns() < look_ns)
			os_sleep_ns(P2P_LOOK_PAUSE_NS);
	}
}

/* Importers must close memory that was exported through CUDA IPC before its owner frees it;
 * otherwise CUDA leaves the result undefined. Memory of cuMem lasts by itself. A rank leaves the
 * bootstrap when it has closed its imports, and its death counts as leaving. Each importer has
 * acknowledged its connection (connect.c); without acknowledgement there is no import. All ranks
 * leave at about the same time, because they end or abort together, unless kernels of other
 * communicators hold one up. */
bool p2p_importers_left(struct ncclComm *comm, uint64_t until_ns)
{
	bool left = true;

	p2p_imports_close(comm);
	if (!comm->bootstrap || !comm->p2p)
		return true;
	bootstrap_leave(comm->bootstrap);
	for (int32_t i = 0; i < comm->local_ranks && left; i++)
		if (comm->p2p->importer[i])
			left = p2p_importer_left(comm, comm->local_to_rank[i], until_ns);
	return left;
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
	ASSERT(!st->imports); /* p2p_importers_left precedes */
	p2p_pools_unref(p2p_pools_take(st));
	first = registry_lock(); /* other communicators read `peer` */
	comm->p2p = NULL;
	registry_unlock(first);
	os_free(st);
}
