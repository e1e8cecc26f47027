/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

struct fc_pools *fc_pools_get(struct fc_proc *p)
{
	if (!p->pools) {
		p->pools = calloc(1, sizeof *p->pools);
		ASSERT(p->pools);
	}
	return p->pools;
}

/* ---- pools ---------------------------------------------------------------------------------- */

struct CUmemPoolHandle_st *fc_pool_new(struct fc_proc *p, int32_t ordinal)
{
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof *pool);

	ASSERT(pool);
	pool->proc = p;
	pool->ordinal = ordinal;
	pool->dev = p->device[ordinal];
	pool->access[ordinal] = true;
	for (int i = 0; i < FC_POOL_REUSES; i++)
		pool->reuse[i] = 1;
	fc_who(pool->who);
	pool->next = fc_pools_get(p)->pools;
	p->pools->pools = pool;
	return pool;
}

struct CUmemPoolHandle_st *fc_pool_automatic(struct fc_proc *p, int32_t ordinal)
{
	struct fc_pools *all = fc_pools_get(p);

	if (!all->automatic[ordinal]) {
		all->automatic[ordinal] = fc_pool_new(p, ordinal);
		all->automatic[ordinal]->automatic = true;
	}
	return all->automatic[ordinal];
}

struct CUmemPoolHandle_st *fc_pool_current(struct fc_proc *p, int32_t ordinal)
{
	struct CUmemPoolHandle_st *pool = fc_pools_get(p)->current[ordinal];

	return pool ? pool : fc_pool_automatic(p, ordinal);
}

struct CUmemPoolHandle_st *fc_pool_find(struct fc_proc *p, CUmemoryPool handle, const char *call)
{
	struct CUmemPoolHandle_st *pool = p->pools ? p->pools->pools : NULL;

	while (pool && (pool != handle || pool->destroyed))
		pool = pool->next;
	if (!pool)
		fc_report("%s: %p is not a pool of this process", call, (void *)handle);
	return pool;
}

static void pool_free(struct CUmemPoolHandle_st *pool)
{
	struct CUmemPoolHandle_st **at = &pool->proc->pools->pools;

	fc_pool_trim(pool, 0);
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	free(pool);
}

void fc_pool_destroy(struct CUmemPoolHandle_st *pool)
{
	struct CUmemPoolHandle_st **current = &pool->proc->pools->current[pool->ordinal];

	if (*current == pool)
		*current = NULL;
	pool->destroyed = true;
	if (!pool->blocks)
		pool_free(pool);
}

/* ---- memory --------------------------------------------------------------------------------- */

static uint64_t pool_span(uint64_t bytes)
{
	return ALIGN_UP(bytes, FC_ALIGN);
}

/* Changes what the pool has in use. The GPU counts freed memory as used, until it is returned. */
static void pool_set_used(struct CUmemPoolHandle_st *pool, uint64_t used)
{
	pool->used = used;
	pool->used_high = MAX_OF(pool->used_high, used);
	pool->reserved = MAX_OF(pool->reserved, used);
	pool->reserved_high = MAX_OF(pool->reserved_high, pool->reserved);
}

void fc_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
	keep = MAX_OF(keep, pool->used);
	if (pool->reserved <= keep)
		return;
	ASSERT(pool->dev->used_bytes >= pool->reserved - keep);
	pool->dev->used_bytes -= pool->reserved - keep;
	pool->reserved = keep;
}

void fc_pools_waited(struct fc_proc *p)
{
	for (struct CUmemPoolHandle_st *pool = p->pools->pools; pool; pool = pool->next)
		fc_pool_trim(pool, pool->threshold);
}

void fc_pools_shrink(const struct fc_proc *p, const struct fc_device *dev)
{
	struct CUmemPoolHandle_st *pool = p->pools ? p->pools->pools : NULL;

	for (; pool; pool = pool->next)
		if (pool->dev == dev)
			fc_pool_trim(pool, 0);
}

static uint32_t block_upper(const struct fc_pools *all, uint64_t address)
{
	uint32_t lo = 0, hi = all->count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (all->block[mid]->base <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct fc_block *fc_block_find(const struct fc_proc *p, uint64_t address)
{
	uint32_t i = p->pools ? block_upper(p->pools, address) : 0;
	struct fc_block *b = i ? p->pools->block[i - 1] : NULL;

	return b && address - b->base < b->bytes ? b : NULL;
}

static void block_insert(struct fc_pools *all, struct fc_block *b)
{
	uint32_t i = block_upper(all, b->base);

	if (all->count == all->room) {
		all->room = MAX_OF(16u, 2 * all->room);
		all->block = realloc(all->block, all->room * sizeof(struct fc_block *));
		ASSERT(all->block);
	}
	memmove(&all->block[i + 1], &all->block[i], (all->count - i) * sizeof(struct fc_block *));
	all->block[i] = b;
	all->count++;
}

/* Takes the memory from what the pool has reserved, then from the GPU. */
static cudaError_t pool_alloc(struct CUmemPoolHandle_st *pool, uint64_t bytes, uint64_t *address)
{
	const uint64_t kept = MIN_OF(pool->reserved - pool->used, pool_span(bytes));
	cudaError_t rc;

	fc_pool_trim(pool, pool->reserved - kept);
	rc = fc_alloc_new(fc_ctx_get(pool->proc, pool->ordinal), bytes, address);
	if (!rc)
		pool->reserved += kept;
	return rc;
}

static struct fc_block *block_new(struct CUmemPoolHandle_st *pool, struct fc_alloc *a)
{
	struct fc_block *b = calloc(1, sizeof *b);

	ASSERT(b);
	a->pooled = 1;
	*b = (struct fc_block){
		.pool = pool, .base = a->base, .bytes = a->bytes, .number = a->number};
	block_insert(pool->proc->pools, b);
	pool->blocks++;
	pool_set_used(pool, pool->used + pool_span(a->bytes));
	return b;
}

cudaError_t fc_pool_take(struct CUmemPoolHandle_st *pool, uint64_t bytes, const char *call,
			 struct fc_block **out)
{
	uint64_t address = 0;

	if (pool->at_most && (bytes > pool->at_most || pool->used > pool->at_most - bytes)) {
		fc_report("%s: %llu bytes, and the pool has %llu of at most %llu in use", call,
			  (unsigned long long)bytes, (unsigned long long)pool->used,
			  (unsigned long long)pool->at_most);
		return cudaErrorMemoryAllocation;
	}
	cudaError_t rc = pool_alloc(pool, bytes, &address);
	if (rc)
		return rc;
	*out = block_new(pool, fc_alloc_find(pool->dev, address));
	return cudaSuccess;
}

struct fc_block *fc_pool_adopt(struct fc_proc *p, uint64_t address)
{
	struct fc_device *dev = fc_vmm_has(address) ? NULL : fc_device_at(address);
	struct fc_alloc *a = dev ? fc_alloc_find(dev, address) : NULL;
	int32_t ordinal = 0;

	if (!a || a->base != address || a->proc != p->os->id || a->freed || a->pins || a->opens ||
	    a->entry)
		return NULL;
	while (p->device[ordinal] != dev)
		ordinal++;
	return block_new(fc_pool_automatic(p, ordinal), a);
}

static void block_remove(struct fc_block *b)
{
	struct fc_pools *all = b->pool->proc->pools;
	uint32_t i = block_upper(all, b->base) - 1;

	ASSERT(all->block[i] == b && b->pool->blocks);
	all->count--;
	memmove(&all->block[i], &all->block[i + 1], (all->count - i) * sizeof(struct fc_block *));
	b->pool->blocks--;
	fc_clock_free(&b->used);
	fc_clock_free(&b->before);
	free(b);
}

void fc_pool_give(struct fc_block *b)
{
	struct CUmemPoolHandle_st *pool = b->pool;
	struct fc_alloc *a = fc_alloc_find(pool->dev, b->base);
	const uint64_t span = pool_span(b->bytes);

	ASSERT(a && !a->freed && a->pooled);
	fc_use_freed(pool->proc, b->base, b->bytes);
	fc_alloc_free(pool->dev, a);
	pool->dev->used_bytes += span; /* reserved */
	pool_set_used(pool, pool->used - span);
	block_remove(b);
	if (pool->destroyed && !pool->blocks)
		pool_free(pool);
}

/* ---- ends ----------------------------------------------------------------------------------- */

void fc_pools_device_gone(struct fc_proc *p, const struct fc_device *dev)
{
	struct CUmemPoolHandle_st *next, *pool = p->pools ? p->pools->pools : NULL;

	for (uint32_t i = p->pools ? p->pools->count : 0; i-- > 0;)
		if (p->pools->block[i]->pool->dev == dev)
			fc_pool_give(p->pools->block[i]);
	/* a destroyed pool went with its last block */
	for (pool = p->pools ? p->pools->pools : NULL; pool; pool = next) {
		next = pool->next;
		if (pool->dev == dev && pool->automatic)
			p->pools->automatic[pool->ordinal] = NULL;
		if (pool->dev == dev)
			fc_pool_destroy(pool);
	}
}

void fc_pools_end(struct fc_proc *p)
{
	if (!p->pools)
		return;
	for (int32_t i = 0; i < p->count; i++)
		fc_pools_device_gone(p, p->device[i]);
	ASSERT(!p->pools->pools && !p->pools->count);
	free(p->pools->block);
	free(p->pools);
	p->pools = NULL;
}
