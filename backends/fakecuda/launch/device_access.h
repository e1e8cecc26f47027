/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks and descriptions that all accesses of kernels' threads share. Only device_access.c and
 * device_lines.c include it.
 */
#ifndef BACKENDS_FAKECUDA_DEVICE_ACCESS_H
#define BACKENDS_FAKECUDA_DEVICE_ACCESS_H

#include "backends/fakecuda/launch/device_run.h"

/* Finds the range without the thread's cache, and puts it there. Does not return if the access is
 * illegal. */
const struct fc_range *run_range_find(struct dev *d, const char *what, uint64_t address,
				      uint64_t bytes);
/* device_lines.c. True if writes of 128 bytes to the range are seen whole. */
bool run_keeps_lines(struct dev *d, const struct fc_range *r);
/* Charges the time of a bulk access to the resource that it crosses. */
void run_charge(struct dev *d, const struct fc_range *r, bool write, uint64_t bytes);

/* Returns the accessible range that contains the access. Every access is checked; the thread's own
 * cache reduces the common case to a few compares. */
static inline const struct fc_range *run_range(struct dev *d, const char *what, const void *p,
					       uint64_t bytes)
{
	struct run_thread *t = run_self(d);
	uint64_t address = (uintptr_t)p, generation = fc_map_generation();
	for (int i = 0; i < RUN_CACHE; i++) {
		const struct fc_range *r = &t->cache[i];
		if (r->generation == generation && address - r->lo < r->hi - r->lo &&
		    bytes <= r->hi - address)
			return r;
	}
	return run_range_find(d, what, address, bytes);
}

static inline void *run_word(struct dev *d, const char *what, const void *p, int bytes)
{
	if (UNLIKELY((uintptr_t)p % (unsigned)bytes))
		run_trap(d, cudaErrorMisalignedAddress, "misaligned address: %s of %d bytes at %p",
			 what, bytes, p);
	run_range(d, what, p, (uint64_t)bytes);
	return fc_alias((uintptr_t)p);
}

/* Describes an access of the running thread for the memory model. */
static inline struct mem_access run_access(const void *p, size_t bytes, enum shared_access op,
					   int order, int scope)
{
	return (struct mem_access){.addr = fc_alias_range((uintptr_t)p, bytes),
				   .bytes = bytes,
				   .wake = (const void *)(uintptr_t)fc_home((uintptr_t)p),
				   .op = op,
				   .order = (enum shared_order)order,
				   .scope = (enum shared_scope)scope};
}

/* Checks the access against buffers of collectives. Collectives declare their uses, so only kernels
 * that declared none are checked. */
static inline void run_use(struct dev *d, const void *p, uint64_t bytes, bool write)
{
	struct fc_kernel *k = d->blk->kernel;
	if (UNLIKELY(!__atomic_load_n(&k->known_uses, __ATOMIC_RELAXED) &&
		     __atomic_load_n(&k->ctx->proc->collectives, __ATOMIC_RELAXED)))
		fc_use_kernel(k, (uintptr_t)p, bytes, write);
}

static inline void run_store(void *at, int bytes, uint64_t v, int order)
{
	if (bytes == 4 && order == SHARED_RELAXED)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_RELAXED);
	else if (bytes == 4 && order == SHARED_RELEASE)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_RELEASE);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)v, __ATOMIC_SEQ_CST);
	else if (order == SHARED_RELAXED)
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_RELAXED);
	else if (order == SHARED_RELEASE)
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)at, v, __ATOMIC_SEQ_CST);
}

#endif
