/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an accessor of core/base/shared.h does under `sim`: a scheduling point, then the memory
 * model's view of the access, and after a write the waking of the tasks that wait there.
 */
#include "sim/engine/engine_internal.h"
#include "sim/engine/memory.h"

/* An access at system scope, as the memory model sees it: of the memory, whatever shows it to the
 * host. */
static struct mem_access accessor_access(const void *addr, size_t bytes, enum shared_access access,
					 enum shared_order order)
{
	return (struct mem_access){.addr = waits_at(addr),
				   .bytes = bytes,
				   .wake = waits_home(addr),
				   .op = access,
				   .order = order,
				   .scope = SHARED_SYSTEM};
}

void accessor_point(const void *addr, size_t bytes, enum shared_access access,
		    enum shared_order order)
{
	sched_sim_point();
	if (LIKELY(!mem_on))
		return;
	const struct mem_access a = accessor_access(addr, bytes, access, order);

	mem_access(&a);
}

bool accessor_store(void *addr, size_t bytes, uint64_t value, enum shared_order order)
{
	sched_sim_point();
	if (LIKELY(!mem_on))
		return false;
	const struct mem_access a = accessor_access(addr, bytes, SHARED_STORE, order);

	return mem_store(&a, value);
}

void accessor_wrote(const void *addr, size_t bytes, enum shared_access access)
{
	if (access == SHARED_RANGE_WRITE && UNLIKELY(mem_on != 0)) {
		const struct mem_access a = accessor_access(addr, bytes, access, SHARED_RELAXED);

		mem_wrote(&a);
	}
	waits_wrote(addr, bytes);
}

void accessor_note(const void *addr, size_t bytes, enum shared_access access)
{
	if (LIKELY(!mem_on))
		return;
	const struct mem_access a = accessor_access(addr, bytes, access, SHARED_RELAXED);

	mem_note(&a);
}
