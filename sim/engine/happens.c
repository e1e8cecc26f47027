/* SPDX-License-Identifier: BSD-3-Clause */
/* The happens-before check of memory.h. Not built yet: asking for it is an error. */
#include "sim/engine/engine_internal.h"
#include "sim/engine/memory.h"

int happens_start(void)
{
	fprintf(stderr, "engine: the happens-before check (races) is not built\n");
	return ENOTSUP;
}

void happens_stop(void)
{
}

void happens_agent_ended(struct mem_agent *me)
{
	(void)me;
}

void happens_access(struct mem_agent *me, const struct mem_access *a)
{
	(void)me, (void)a;
}

void happens_release(struct mem_agent *me, const void *object)
{
	(void)me, (void)object;
}

void happens_acquire(struct mem_agent *me, const void *object)
{
	(void)me, (void)object;
}

void happens_forget(const void *object)
{
	(void)object;
}

void happens_barrier_arrive(struct mem_agent *me, const void *barrier)
{
	(void)me, (void)barrier;
}

void happens_barrier_leave(struct mem_agent *me, const void *barrier)
{
	(void)me, (void)barrier;
}

void happens_fresh(const void *addr, size_t bytes)
{
	(void)addr, (void)bytes;
}
