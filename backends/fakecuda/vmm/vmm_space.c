/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of cuMem: reservations, mappings, and the GPUs that may use them. The memory itself is
 * an allocation of its GPU or its host (alloc.c), with an address of its own, its home, which
 * programs never see. A table has the home of every mapped page. Memory that is mapped several
 * times, in one process or two, therefore has one home, where reads, writes, wakes and shadow bits
 * meet.
 *
 * Reservations of all processes are in one range that no GPU has. An address belongs to one
 * process, and a use by another process is reported with both names. fc_lock protects everything
 * except the table, which is read without it.
 *
 * A mapping of private memory (va.c) has no view, because its home is enough: a range with several
 * homes gets one when it is used.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

/* Sorted by address. */
static struct fc_vmm_space *vmm_spaces;
/* The last reservation before the lowest free address; NULL: the first address is free. */
static struct fc_vmm_space *vmm_packed;
/* The reservation of each page. NULL: none. */
static struct fc_vmm_space *vmm_owner[FC_VMM_LIMIT / FC_VMM_PAGE];
/* Atomic: 1 + the number of the home's page in the range of all devices; 0: not mapped. */
static uint32_t vmm_pages[FC_VMM_LIMIT / FC_VMM_PAGE];

const uint64_t fc_vmm_range[3] = {FC_VMM_BASE, FC_VMM_LIMIT, FC_VMM_PAGE};

/* ---- the table ------------------------------------------------------------------------------ */

uint64_t fc_vmm_home(uint64_t address)
{
	uint64_t page = (address - FC_VMM_BASE) / FC_VMM_PAGE;
	uint32_t home = __atomic_load_n(&vmm_pages[page], __ATOMIC_ACQUIRE);

	return home ? FC_VA_BASE + (home - 1) * FC_VMM_PAGE + address % FC_VMM_PAGE : address;
}

uint64_t fc_vmm_piece_of(uint64_t address, uint64_t bytes, uint64_t *home)
{
	uint64_t n = FC_VMM_PAGE - address % FC_VMM_PAGE;

	*home = fc_home(address);
	while (n < bytes && fc_home(address + n) == *home + n)
		n += FC_VMM_PAGE;
	return MIN_OF(n, bytes);
}

void fc_vmm_wrote(uint64_t address, uint64_t bytes)
{
	uint64_t home;

	for (uint64_t n; bytes; bytes -= n, address += n) {
		n = fc_vmm_piece(address, bytes, &home);
		sim_wrote((const void *)(uintptr_t)home, n);
	}
}

static void vmm_pages_set(const struct fc_vmm_map *m, bool mapped)
{
	uint64_t page = (m->base - FC_VMM_BASE) / FC_VMM_PAGE;
	uint64_t home = (m->home - FC_VA_BASE) / FC_VMM_PAGE;

	for (uint64_t i = 0; i < m->bytes / FC_VMM_PAGE; i++)
		__atomic_store_n(&vmm_pages[page + i], mapped ? (uint32_t)(home + i + 1) : 0,
				 __ATOMIC_RELEASE);
}

/* ---- reservations --------------------------------------------------------------------------- */

static uint64_t vmm_end(const struct fc_vmm_space *s)
{
	return s ? s->base + s->bytes : FC_VMM_BASE;
}

static struct fc_vmm_space *vmm_next(const struct fc_vmm_space *s)
{
	return s ? s->next : vmm_spaces;
}

/* True if the range is free. *after: the reservation before it; NULL: none. */
static bool vmm_is_free(uint64_t base, uint64_t bytes, struct fc_vmm_space **after)
{
	struct fc_vmm_space *s = vmm_spaces;

	for (*after = NULL; s && vmm_end(s) <= base; s = s->next)
		*after = s;
	return base >= FC_VMM_BASE && base - FC_VMM_BASE <= FC_VMM_LIMIT - bytes &&
	       (!s || base + bytes <= s->base);
}

/* Finds the first free range that fits. */
static bool vmm_fit(uint64_t bytes, uint64_t align, uint64_t *base, struct fc_vmm_space **after)
{
	struct fc_vmm_space *s = vmm_next(vmm_packed);

	*after = vmm_packed;
	*base = ALIGN_UP(vmm_end(vmm_packed), align);
	for (; s && s->base < *base + bytes; s = s->next) {
		*base = ALIGN_UP(vmm_end(s), align);
		*after = s;
	}
	return *base - FC_VMM_BASE <= FC_VMM_LIMIT - bytes;
}

static void vmm_own(uint64_t base, uint64_t bytes, struct fc_vmm_space *owner)
{
	for (uint64_t at = 0; at < bytes; at += FC_VMM_PAGE)
		vmm_owner[(base + at - FC_VMM_BASE) / FC_VMM_PAGE] = owner;
}

static void vmm_link(struct fc_vmm_space *s, struct fc_vmm_space *after)
{
	s->prev = after;
	s->next = vmm_next(after);
	if (s->next)
		s->next->prev = s;
	if (after)
		after->next = s;
	else
		vmm_spaces = s;
	vmm_own(s->base, s->bytes, s);
	while (vmm_next(vmm_packed) && vmm_next(vmm_packed)->base == vmm_end(vmm_packed))
		vmm_packed = vmm_next(vmm_packed);
}

bool fc_vmm_reserve(struct fc_proc *proc, uint64_t bytes, uint64_t align, uint64_t *base)
{
	struct fc_vmm_space *after, *s;
	bool wanted = *base && *base % align == 0 && vmm_is_free(*base, bytes, &after);

	if (!wanted && !vmm_fit(bytes, align, base, &after))
		return false;
	s = calloc(1, sizeof *s);
	ASSERT(s);
	s->proc = proc;
	s->base = *base;
	s->bytes = bytes;
	fc_who(s->who);
	vmm_link(s, after);
	proc->spaces++;
	return true;
}

struct fc_vmm_space *fc_vmm_space_at(uint64_t address)
{
	return fc_vmm_has(address) ? vmm_owner[(address - FC_VMM_BASE) / FC_VMM_PAGE] : NULL;
}

struct fc_vmm_space *fc_vmm_space_of(const struct fc_proc *proc)
{
	struct fc_vmm_space *s = proc->spaces ? vmm_spaces : NULL;

	while (s && s->proc != proc)
		s = s->next;
	return s;
}

void fc_vmm_space_free(struct fc_vmm_space *space)
{
	ASSERT(!space->maps && space->proc->spaces);
	space->proc->spaces--;
	if (vmm_packed && space->base <= vmm_packed->base)
		vmm_packed = space->prev;
	if (space->next)
		space->next->prev = space->prev;
	if (space->prev)
		space->prev->next = space->next;
	else
		vmm_spaces = space->next;
	vmm_own(space->base, space->bytes, NULL);
	free(space);
}

/* ---- mappings ------------------------------------------------------------------------------- */

bool fc_vmm_map_add(struct fc_vmm_space *space, uint64_t base, uint64_t bytes, uint64_t home,
		    struct fc_vmm_handle *h)
{
	struct fc_vmm_map **at = &space->maps, *m;
	bool shown = !fc_va_is_alone(home);

	if (shown && !fc_va_window(base, home, bytes))
		return false;
	while (*at && (*at)->base < base)
		at = &(*at)->next;
	m = calloc(1, sizeof *m);
	ASSERT(m);
	m->next = *at;
	m->base = base;
	m->bytes = bytes;
	m->home = home;
	m->shown = shown;
	m->handle = h;
	h->maps++;
	*at = m;
	vmm_pages_set(m, true);
	fc_map_changed();
	return true;
}

void fc_vmm_map_remove(struct fc_vmm_space *space, struct fc_vmm_map *m)
{
	struct fc_vmm_map **at = &space->maps;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	vmm_pages_set(m, false);
	if (m->shown)
		fc_va_unwindow(m->base, m->bytes);
	m->handle->maps--;
	fc_map_changed();
	fc_clock_free(&m->used);
	free(m);
}

static struct fc_vmm_map *vmm_map_in(const struct fc_vmm_space *s, uint64_t address)
{
	struct fc_vmm_map *m = s->maps;

	while (m && address - m->base >= m->bytes)
		m = m->next;
	return m;
}

struct fc_vmm_map *fc_vmm_map_at(const struct fc_proc *proc, uint64_t address)
{
	const struct fc_vmm_space *s = fc_vmm_space_at(address);

	return s && s->proc == proc ? vmm_map_in(s, address) : NULL;
}

/* Only worlds of one thread have private memory, so the lists are read without fc_lock. */
static void vmm_show(uint64_t address, uint64_t bytes)
{
	for (uint64_t at = address; at < address + bytes;) {
		const struct fc_vmm_space *s = fc_vmm_space_at(at);
		struct fc_vmm_map *m = s ? vmm_map_in(s, at) : NULL;

		if (m && !m->shown) {
			m->shown = fc_va_window(m->base, m->home, m->bytes);
			ASSERT(m->shown);
		}
		at = m ? m->base + m->bytes : at / FC_VMM_PAGE * FC_VMM_PAGE + FC_VMM_PAGE;
	}
}

void *fc_vmm_view(uint64_t address, uint64_t bytes)
{
	uint64_t home = fc_vmm_home(address);

	if (fc_va_is_alone(home))
		vmm_show(address, bytes);
	return (void *)(uintptr_t)(address + FC_VA_LIMIT);
}

static bool map_allows(const struct fc_vmm_map *m, int ordinal)
{
	return ordinal == FC_VMM_MAPPED    ? true
	       : ordinal == FC_VMM_BY_HOST ? m->host_access
					   : m->access[ordinal];
}

bool fc_vmm_map_covers(const struct fc_vmm_map *m, uint64_t address, uint64_t bytes, int ordinal)
{
	while (m && map_allows(m, ordinal)) {
		uint64_t left = m->base + m->bytes - address;

		if (bytes <= left)
			return true;
		bytes -= left;
		address += left;
		m = m->next && m->next->base == address ? m->next : NULL;
	}
	return false;
}

/* ---- access --------------------------------------------------------------------------------- */

struct fc_alloc *fc_vmm_alloc(const struct fc_vmm_handle *h)
{
	struct fc_alloc *a = fc_alloc_by_number(&fc.device[h->device], h->number);

	ASSERT(a);
	return a;
}

struct fc_alloc *fc_vmm_access(const struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	const struct fc_vmm_map *m = fc_vmm_map_at(proc, address);

	return m && fc_vmm_map_covers(m, address, bytes, FC_VMM_MAPPED) ? fc_vmm_alloc(m->handle)
									: NULL;
}

bool fc_vmm_is_host(const struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	const struct fc_vmm_map *m = fc_vmm_map_at(proc, address);

	return m && fc_vmm_map_covers(m, address, bytes, FC_VMM_MAPPED) &&
	       !fc.device[m->handle->device].gpu;
}

bool fc_vmm_may_kernel(const struct fc_ctx *ctx, uint64_t address, uint64_t bytes,
		       struct fc_range *range)
{
	const struct fc_vmm_map *m = fc_vmm_map_at(ctx->proc, address);

	if (!m || !fc_vmm_map_covers(m, address, bytes, ctx->ordinal))
		return false;
	range->lo = m->base;
	range->hi = MAX_OF(m->base + m->bytes, address + bytes);
	range->kind = !fc.device[m->handle->device].gpu      ? FC_RANGE_HOST
		      : ctx->dev->index == m->handle->device ? FC_RANGE_LOCAL
							     : FC_RANGE_PEER;
	return true;
}

bool fc_vmm_may_copy(const struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	const struct fc_vmm_map *m = fc_vmm_map_at(proc, address);

	for (int32_t i = FC_VMM_BY_HOST; m && i < proc->count; i++)
		if (i != FC_VMM_MAPPED && fc_vmm_map_covers(m, address, bytes, i))
			return true;
	return false;
}

/* ---- descriptions --------------------------------------------------------------------------- */

void fc_vmm_describe(uint64_t address, char *out, size_t n)
{
	const struct fc_vmm_space *s = fc_vmm_space_at(address);
	const struct fc_vmm_map *m = s ? fc_vmm_map_at(s->proc, address) : NULL;
	char what[224];

	if (!s) {
		snprintf(out, n, "in no range that cuMemAddressReserve returned");
	} else if (!m) {
		snprintf(out, n, "reserved by %s (%s), with nothing mapped there", s->who,
			 s->proc->os->name);
	} else {
		fc_alloc_describe(&fc.device[m->handle->device], fc_vmm_alloc(m->handle), what,
				  sizeof what);
		snprintf(out, n, "%llu bytes into a mapping of process %s of %s",
			 (unsigned long long)(address - m->base), s->proc->os->name, what);
	}
}

void fc_vmm_explain(const struct fc_proc *proc, int ordinal, uint64_t address, uint64_t bytes,
		    char *out, size_t n)
{
	const struct fc_vmm_space *s = fc_vmm_space_at(address);
	const struct fc_vmm_map *m = fc_vmm_map_at(proc, address);
	char what[320];

	fc_vmm_describe(address, what, sizeof what);
	if (s && s->proc != proc)
		snprintf(out, n, "an address of process %s, used in %s: it is %s",
			 s->proc->os->name, proc->os->name, what);
	else if (!m)
		snprintf(out, n, "nothing is mapped there: it is %s", what);
	else if (!fc_vmm_map_covers(m, address, bytes, FC_VMM_MAPPED))
		snprintf(out, n, "%llu bytes there run past the end of what is mapped: it is %s",
			 (unsigned long long)bytes, what);
	else if (ordinal >= 0)
		snprintf(out, n, "cuMemSetAccess gave device %d no access: it is %s", ordinal,
			 what);
	else
		snprintf(out, n, "cuMemSetAccess gave no device access: it is %s", what);
}
