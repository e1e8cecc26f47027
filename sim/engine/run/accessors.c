/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the accessors of core/base/shared.h under `sim`. Each accessor is a scheduling point;
 * the memory model then sees the access. A write wakes the tasks that wait on its address. os_zero
 * is here too.
 */
#include <string.h>
#include <sys/mman.h>

#include "sim/engine/run/run_internal.h"
#include "sim/engine/memory/memory.h"

enum { ACCESSOR_GIVE_MIN = 64 << 10 };

/* Describes an access at system scope to the memory model, by the address of the memory itself and
 * not of one of its mappings. */
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

/* Gives the whole pages of private memory back to the system: the next access finds new, zero
 * pages. A smaller range is cheaper to write. */
bool accessor_zero(void *p, size_t bytes)
{
	const uintptr_t page = 4096, at = ALIGN_UP((uintptr_t)p, page);
	const uintptr_t end = ((uintptr_t)p + bytes) / page * page;

	if (bytes < ACCESSOR_GIVE_MIN)
		return false;
	/* The kernel refuses MADV_FREE for memory that is not private, which MADV_DONTNEED would
	 * leave as it is; MADV_REMOVE frees the pages of a shared segment for all its mappings. */
	if (madvise((void *)at, end - at, MADV_FREE) == 0) {
		if (madvise((void *)at, end - at, MADV_DONTNEED))
			return false;
	} else if (madvise((void *)at, end - at, MADV_REMOVE)) {
		return false;
	}
	memset(p, 0, at - (uintptr_t)p);
	memset((void *)end, 0, (uintptr_t)p + bytes - end);
	return true;
}
