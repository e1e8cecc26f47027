/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator of one GPU, or of a host's memory of cuMem. It uses the first gap between live
 * allocations that fits, so addresses depend only on the order of calls. Each allocation records
 * its task and time; the latest freed ones are kept for reports. The array is sorted by base and is
 * in the world arena. The caller holds fc_lock.
 */
#include "backends/fakecuda/fakecuda.h"

#include <string.h>

/* Larger memory begins at a page, so that its slots of whole pages can be given back. */
#define ALLOC_PAGES_MIN (64u << 10)
#define ALLOC_PAGE      4096u

struct fc_device *fc_device_at(uint64_t address)
{
	if (!fc.ready || !fc_va_is_device(address))
		return NULL;
	uint64_t offset = fc_home(address) - FC_VA_BASE;
	if (offset >= FC_VA_DEVICES)
		return NULL;
	uint64_t index = (fc.share ? offset % fc.share : offset) / fc.slice;
	return index < fc.device_count ? &fc.device[index] : NULL;
}

struct fc_device *fc_memory_at(uint64_t address)
{
	uint64_t at = fc.ready && fc_va_is_device(address) ? fc_home(address) - FC_HOST_BASE
							   : FC_HOST_LIMIT;

	if (at >= FC_HOST_LIMIT)
		return fc_device_at(address);
	at = fc.share ? at % fc.host_share : at;
	at = fc.host_slice ? fc.device_count + at / fc.host_slice : fc.memory_count;
	return at < fc.memory_count ? &fc.device[at] : NULL;
}

static uint64_t alloc_span(const struct fc_alloc *a)
{
	return ALIGN_UP(a->bytes, FC_ALIGN);
}

/* Returns the index of the first allocation whose base is above `address`. */
static uint32_t alloc_upper(const struct fc_device *dev, uint64_t address)
{
	uint32_t lo = 0, hi = dev->alloc_count;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (dev->alloc[mid].base <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct fc_alloc *fc_alloc_find(struct fc_device *dev, uint64_t address)
{
	uint32_t i = alloc_upper(dev, address);
	if (!i)
		return NULL;
	struct fc_alloc *a = &dev->alloc[i - 1];
	return address - a->base < a->bytes ? a : NULL;
}

struct fc_alloc *fc_alloc_by_number(struct fc_device *dev, uint32_t number)
{
	for (uint32_t i = 0; i < dev->alloc_count; i++) {
		if (dev->alloc[i].number == number)
			return &dev->alloc[i];
	}
	return NULL;
}

static void alloc_make_room(struct fc_device *dev)
{
	if (dev->alloc_count < dev->alloc_room)
		return;
	uint32_t room = MAX_OF(64u, dev->alloc_room * 2);
	struct fc_alloc *bigger = world_arena_alloc(room * sizeof *bigger, "gpu allocation map");
	ASSERT(bigger);
	if (dev->alloc_count)
		memcpy(bigger, dev->alloc, dev->alloc_count * sizeof *bigger);
	dev->alloc = bigger;
	dev->alloc_room = room;
}

/* Finds the first gap that holds `span` bytes: the index to insert at, and the base. Returns false
 * if there is no such gap. */
static bool alloc_first_fit(const struct fc_device *dev, uint64_t span, uint64_t align,
			    uint32_t *index, uint64_t *base)
{
	uint64_t at = ALIGN_UP(dev->base, align);
	for (uint32_t i = 0; i < dev->alloc_count; i++) {
		if (dev->alloc[i].imported) /* other addresses: another process' */
			continue;
		if (at <= dev->alloc[i].base && dev->alloc[i].base - at >= span) {
			*index = i;
			*base = at;
			return true;
		}
		at = ALIGN_UP(dev->alloc[i].base + alloc_span(&dev->alloc[i]), align);
	}
	*index = alloc_upper(dev, at);
	*base = at;
	return at <= dev->base + dev->bytes && dev->base + dev->bytes - at >= span;
}

static void alloc_sweep(struct fc_device *dev);

static cudaError_t alloc_new(const struct fc_proc *proc, struct fc_device *dev, uint64_t bytes,
			     uint64_t align, struct fc_alloc **out)
{
	uint64_t span = ALIGN_UP(bytes, FC_ALIGN), base;
	uint32_t index;
	ASSERT(bytes);
	if (fc_share_on())
		alloc_sweep(dev);
	if (span > dev->total_bytes - dev->used_bytes)
		fc_pools_shrink(proc, dev);
	if (span < bytes || span > dev->total_bytes - dev->used_bytes) {
		fc_report("out of memory: %llu bytes requested, %llu of %llu free on %s %u",
			  (unsigned long long)bytes,
			  (unsigned long long)(dev->total_bytes - dev->used_bytes),
			  (unsigned long long)dev->total_bytes, fc_memory_kind(dev),
			  fc_memory_number(dev));
		return cudaErrorMemoryAllocation;
	}
	if (!alloc_first_fit(dev, span, align, &index, &base)) {
		fc_report("out of memory: no gap of %llu bytes in the %llu bytes of addresses of "
			  "gpu %u: the %u GPUs of the world share %llu GiB; fewer hosts give "
			  "each GPU more",
			  (unsigned long long)bytes, (unsigned long long)dev->bytes, dev->index,
			  fc.device_count, FC_VA_DEVICES >> 30);
		return cudaErrorMemoryAllocation;
	}
	if (!fc_va_map(base, span))
		return cudaErrorMemoryAllocation;
	alloc_make_room(dev);
	memmove(&dev->alloc[index + 1], &dev->alloc[index],
		(dev->alloc_count - index) * sizeof dev->alloc[0]);
	dev->alloc_count++;
	struct fc_alloc *a = &dev->alloc[index];
	*a = (struct fc_alloc){.base = base,
			       .bytes = bytes,
			       .when_ns = os_now_ns(),
			       .number = ++dev->alloc_last,
			       .proc = proc->os->id};
	fc_who(a->who);
	dev->used_bytes += span;
	dev->high_water = MAX_OF(dev->high_water, base + span - dev->base);
	fc_map_changed();
	fc_shadow_forget(base, span);
	mem_fresh(fc_alias(base), span);
	*out = a;
	return cudaSuccess;
}

cudaError_t fc_alloc_new(struct fc_ctx *ctx, uint64_t bytes, uint64_t *address)
{
	struct fc_alloc *a;
	uint64_t align = bytes < ALLOC_PAGES_MIN ? FC_ALIGN : ALLOC_PAGE;
	cudaError_t rc = alloc_new(ctx->proc, ctx->dev, bytes, align, &a);

	if (rc)
		return rc;
	a->slot = (uint8_t)ctx->slot;
	*address = a->base;
	return cudaSuccess;
}

/* Allocates memory for cuMemCreate. Host memory counts as written, because the host's writes to it
 * are not observed. */
cudaError_t fc_alloc_new_vmm(const struct fc_proc *proc, struct fc_device *dev, uint64_t bytes,
			     struct fc_alloc **a)
{
	cudaError_t rc = alloc_new(proc, dev, bytes, FC_VMM_PAGE, a);

	ASSERT(bytes % FC_VMM_PAGE == 0);
	if (rc)
		return rc;
	(*a)->vmm = 1;
	if (!dev->gpu) {
		fc_va_wrote((*a)->base, bytes);
		fc_shadow_write((*a)->base, bytes);
	}
	return cudaSuccess;
}

static void alloc_remove(struct fc_device *dev, struct fc_alloc *a)
{
	uint32_t index = (uint32_t)(a - dev->alloc);
	ASSERT(index < dev->alloc_count && (a->imported || dev->used_bytes >= alloc_span(a)));
	if (a->imported)
		fc_import_close(a);
	else
		dev->used_bytes -= alloc_span(a);
	if (a->entry)
		fc_export_end(a);
	dev->alloc_count--;
	memmove(a, a + 1, (dev->alloc_count - index) * sizeof *a);
	fc_map_changed();
}

void fc_alloc_free(struct fc_device *dev, struct fc_alloc *a)
{
	ASSERT(!a->freed);
	if (a->imported) { /* its pages are those of another process */
		alloc_remove(dev, a);
		return;
	}
	a->freed = 1;
	mem_fresh(fc_alias(a->base), alloc_span(a));
	dev->freed[dev->freed_count++ % FC_FREED_KEPT] = *a;
	fc_map_changed();
	if (a->entry)
		fc_export_freed(a);
	if (!a->opens && !fc_export_opens(a))
		alloc_remove(dev, a);
}

/* Removes freed memory that other processes have closed, or that had it open when they ended. */
static void alloc_sweep(struct fc_device *dev)
{
	for (uint32_t i = dev->alloc_count; i-- > 0;) {
		struct fc_alloc *a = &dev->alloc[i];

		if (a->freed && a->entry && !a->opens && !fc_export_opens(a))
			alloc_remove(dev, a);
	}
}

struct fc_alloc *fc_alloc_import(struct fc_device *dev, const struct fc_alloc *a)
{
	uint32_t index = alloc_upper(dev, a->base);

	alloc_make_room(dev);
	memmove(&dev->alloc[index + 1], &dev->alloc[index],
		(dev->alloc_count - index) * sizeof dev->alloc[0]);
	dev->alloc_count++;
	dev->alloc[index] = *a;
	fc_map_changed();
	fc_shadow_write(a->base, a->bytes);
	return &dev->alloc[index];
}

void fc_alloc_release(struct fc_device *dev, struct fc_alloc *a)
{
	ASSERT(a->opens);
	if (--a->opens == 0 && (a->freed || a->imported))
		alloc_remove(dev, a);
}

/* ---- descriptions --------------------------------------------------------------------------- */

void fc_alloc_describe(const struct fc_device *dev, const struct fc_alloc *a, char *out,
		       size_t bytes)
{
	struct os_proc *owner = world_proc_by_id(a->proc);
	snprintf(out, bytes, "%s %u allocation #%u, %s of %llu bytes by %s (%s) at %llu ns, %s",
		 fc_memory_kind(dev), fc_memory_number(dev), a->number,
		 a->vmm      ? "cuMemCreate"
		 : a->pooled ? "cudaMallocAsync"
			     : "cudaMalloc",
		 (unsigned long long)a->bytes, a->who,
		 owner         ? owner->name
		 : a->imported ? "another process"
			       : "gone",
		 (unsigned long long)a->when_ns, a->freed ? "freed" : "live");
}

/* Returns the distance of the address from the allocation in bytes; 0: inside. */
static uint64_t alloc_distance(const struct fc_alloc *a, uint64_t address)
{
	if (address < a->base)
		return a->base - address;
	return address - a->base < a->bytes ? 0 : address - (a->base + a->bytes) + 1;
}

static void alloc_describe_side(const struct fc_device *dev, const struct fc_alloc *a,
				uint64_t address, char *out, size_t bytes)
{
	char what[224];
	fc_alloc_describe(dev, a, what, sizeof what);
	uint64_t off = address - a->base;
	if (address < a->base)
		snprintf(out, bytes, "%llu bytes before %s",
			 (unsigned long long)(a->base - address), what);
	else if (off < a->bytes)
		snprintf(out, bytes, "%llu bytes into %s", (unsigned long long)off, what);
	else
		snprintf(out, bytes, "%llu bytes past the end of %s",
			 (unsigned long long)(off - a->bytes), what);
}

void fc_alloc_describe_nearest(uint64_t address, char *out, size_t bytes)
{
	if (fc_vmm_has(address)) {
		fc_vmm_describe(address, out, bytes);
		return;
	}
	struct fc_device *dev = fc_memory_at(address);
	if (!dev) {
		snprintf(out, bytes, "not GPU memory");
		return;
	}
	const struct fc_alloc *best = NULL;
	for (uint32_t i = 0; i < dev->alloc_count; i++) {
		const struct fc_alloc *a = &dev->alloc[i];
		if (!best || alloc_distance(a, address) < alloc_distance(best, address))
			best = a;
	}
	/* prefers a freed allocation that contains the address to a live neighbour; newest first */
	uint32_t kept = MIN_OF(dev->freed_count, (uint32_t)FC_FREED_KEPT);
	for (uint32_t i = 1; i <= kept && (!best || alloc_distance(best, address)); i++) {
		const struct fc_alloc *a = &dev->freed[(dev->freed_count - i) % FC_FREED_KEPT];
		if (!alloc_distance(a, address) || !best)
			best = a;
	}
	if (best)
		alloc_describe_side(dev, best, address, out, bytes);
	else
		snprintf(out, bytes, "%s %u, which never allocated", fc_memory_kind(dev),
			 fc_memory_number(dev));
}
