/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number of an index's entries in each region of memory. A scan of a large allocation, most of
 * which no agent accessed, skips empty regions. Regions share counts by a hash: 0 is certain, a
 * greater count may belong to another region. Used by both parts of the memory model, store.c and
 * happens_shadow.c.
 */
#ifndef SIM_ENGINE_MEMORY_REGIONS_H
#define SIM_ENGINE_MEMORY_REGIONS_H

#include <stdint.h>

enum { REGION_SHIFT = 21, REGIONS = 4096 };

struct regions {
	uint32_t count[REGIONS];
};

static inline uint32_t *region_of(struct regions *r, uintptr_t addr)
{
	return &r->count[(addr >> REGION_SHIFT) % REGIONS];
}

/* Returns the first address after the region of `addr`. */
static inline uintptr_t region_end(uintptr_t addr)
{
	return ((addr >> REGION_SHIFT) + 1) << REGION_SHIFT;
}

#endif
