/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks (struct fc_clock): for each stream, the number of operations that precede the owner. Only
 * the checks of uses include it: use.c, pool/block.c. The caller holds fc_lock. */
#ifndef BACKENDS_FAKECUDA_STREAM_CLOCK_H
#define BACKENDS_FAKECUDA_STREAM_CLOCK_H

#include <stdlib.h>

#include "backends/fakecuda/fakecuda.h"

static inline uint64_t clock_of(const struct fc_clock *c, uint64_t stream)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->at[i].stream == stream)
			return c->at[i].done;
	return 0;
}

static inline void clock_add(struct fc_clock *c, uint64_t stream, uint64_t done)
{
	if (!done)
		return;
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->at[i].stream == stream) {
			c->at[i].done = MAX_OF(c->at[i].done, done);
			return;
		}
	}
	if (c->count == c->room) {
		c->room = MAX_OF(4u, 2 * c->room);
		c->at = realloc(c->at, c->room * sizeof *c->at);
		ASSERT(c->at);
	}
	c->at[c->count++] = (struct fc_clock_entry){stream, done};
}

static inline void clock_join(struct fc_clock *c, const struct fc_clock *from)
{
	for (uint32_t i = 0; i < from->count; i++)
		clock_add(c, from->at[i].stream, from->at[i].done);
}

static inline void clock_forget(struct fc_clock *c, uint64_t stream)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->at[i].stream == stream)
			c->at[i--] = c->at[--c->count];
}

#endif
