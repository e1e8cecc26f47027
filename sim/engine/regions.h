/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many things an index has in each region of memory, so that a look at a large allocation, most
 * of which no agent touched, passes over what is empty region by region. Regions share counts by a
 * hash: 0 is certain, more may belong to another region. Used by the two parts of the memory model,
 * store.c and happens_shadow.c.
 */
#ifndef SIM_ENGINE_REGIONS_H
#define SIM_ENGINE_REGIONS_H

#include <stdint.h>

enum { REGION_SHIFT = 21, REGIONS = 4096 };

struct regions {
	uint32_t count[REGIONS];
};

static inline uint32_t *region_of(struct regions *r, uintptr_t addr)
{
	return &r->count[(addr >> REGION_SHIFT) % REGIONS];
}

/* The first address after the region of this one. */
static inline uintptr_t region_end(uintptr_t addr)
{
	return ((addr >> REGION_SHIFT) + 1) << REGION_SHIFT;
}

#endif
