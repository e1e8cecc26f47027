/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of each iteration of a timed series, by an event after each of them in the rank's
 * stream. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sim/lab/run/runner_internal.h"

int lab_ticks_make(struct lab_rank *me)
{
	uint32_t n = me->run->config->per_iteration ? me->run->config->iterations : 0;
	int e = 0;

	ASSERT(!me->tick && !me->tick_ns);
	me->tick = n ? calloc(n, sizeof *me->tick) : NULL;
	me->tick_ns = n ? calloc(n, sizeof *me->tick_ns) : NULL;
	if (n && (!me->tick || !me->tick_ns))
		return cudaErrorMemoryAllocation;
	for (uint32_t i = 0; i < n && !e; i++)
		e = (int)cudaEventCreateWithFlags((cudaEvent_t *)&me->tick[i], 0);
	return e;
}

void lab_ticks_free(struct lab_rank *me)
{
	for (uint32_t i = 0; me->tick && i < me->run->config->iterations; i++)
		if (me->tick[i])
			cudaEventDestroy(me->tick[i]);
	free(me->tick);
	free(me->tick_ns);
	me->tick = NULL;
	me->tick_ns = NULL;
}

int lab_ticks_record(struct lab_rank *me, uint32_t iteration)
{
	ASSERT(!me->timing || !me->tick || iteration < me->run->config->iterations);
	return me->tick && me->timing ? (int)cudaEventRecord(me->tick[iteration], me->stream) : 0;
}

int lab_ticks_read(struct lab_rank *me)
{
	int e = 0;

	for (uint32_t i = 0; me->tick && i < me->run->config->iterations && !e; i++) {
		float ms = 0;

		e = (int)cudaEventElapsedTime(&ms, i ? me->tick[i - 1] : me->start, me->tick[i]);
		me->tick_ns[i] = (uint64_t)((double)ms * 1e6 + 0.5);
	}
	return e;
}
