/* SPDX-License-Identifier: BSD-3-Clause */
/* The clocks: virtual time of `sim`, real time of `threads`. */
#include <time.h>

#include "sim/engine/base/engine_internal.h"

uint64_t threads_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t threads_wall_offset_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - threads_now_ns();
}

/* All worlds begin at this date, so that dates are equal in repeated runs. */
enum { WALL_EPOCH_S = 1767225600 }; /* 2026-01-01 00:00 UTC */

uint64_t clock_virtual_wall_ns(uint64_t at_ns)
{
	return WALL_EPOCH_S * 1000000000ull + at_ns;
}

uint64_t sim_now_ns(void)
{
	return eng.sched->now_ns();
}

uint64_t sim_wall_ns(uint64_t at_ns)
{
	return eng.sched->wall_ns(at_ns);
}
