/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an accessor of core/base/shared.h does under `sim`: a scheduling point, then the memory
 * model's view of the access, and after a write the waking of the tasks that wait there.
 */
#include "sim/engine/engine_internal.h"
#include "sim/engine/memory.h"

void accessor_point(const void *addr, size_t bytes, enum shared_access access,
		    enum shared_order order)
{
	sched_sim_point();
	mem_access(&(struct mem_access){.addr = addr,
					.bytes = bytes,
					.op = access,
					.order = order,
					.scope = SHARED_SYSTEM});
}

bool accessor_store(void *addr, size_t bytes, uint64_t value, enum shared_order order)
{
	sched_sim_point();
	return mem_store(&(struct mem_access){.addr = addr,
					      .bytes = bytes,
					      .op = SHARED_STORE,
					      .order = order,
					      .scope = SHARED_SYSTEM},
			 value);
}

void accessor_wrote(const void *addr, size_t bytes, enum shared_access access)
{
	if (access == SHARED_RANGE_WRITE)
		mem_wrote(&(struct mem_access){
			.addr = addr, .bytes = bytes, .op = access, .scope = SHARED_SYSTEM});
	waits_wrote(addr, bytes);
}

void accessor_note(const void *addr, size_t bytes, enum shared_access access)
{
	mem_note(&(struct mem_access){
		.addr = addr, .bytes = bytes, .op = access, .scope = SHARED_SYSTEM});
}
