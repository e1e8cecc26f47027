/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory-order adversary of memory.h. */
#include "sim/engine/engine_internal.h"
#include "sim/engine/memory.h"

bool store_start(void)
{
	return false;
}
void store_stop(void)
{
}
void store_agent_ended(struct mem_agent *me)
{
	(void)me;
}
void store_access(struct mem_agent *me, const struct mem_access *a)
{
	(void)me, (void)a;
}
bool store_keep(struct mem_agent *me, const struct mem_access *a, uint64_t value)
{
	(void)me, (void)a, (void)value;
	return false;
}
void store_wrote(struct mem_agent *me, const struct mem_access *a)
{
	(void)me, (void)a;
}
void store_drain(struct mem_agent *me)
{
	(void)me;
}
void store_barrier(struct mem_agent *me)
{
	(void)me;
}
void store_fresh(const void *addr, size_t bytes)
{
	(void)addr, (void)bytes;
}
