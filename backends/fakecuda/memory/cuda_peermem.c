/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU memory for HCA doubles: backends/peermem.h. The visibility model: on GPUs of compute
 * capability 9.0 and later a write is visible immediately. On earlier GPUs writes are pending, in
 * order, until one of three events: the same HCA reads this GPU's memory; a kernel or a copy starts
 * there; a region of the GPU is unpinned. A kernel that spins meanwhile reads the old bytes, as it
 * may on hardware without a flush.
 */
#include "backends/fakecuda/fakecuda.h"
#include "sim/world/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEERMEM_ORDERED_SM  90
#define PEERMEM_WHOLE_BYTES 64 /* a write up to this size is stored word by word */

/* ---- pending writes ------------------------------------------------------------------------- */

/* Stores the bytes of a write. A kernel may be polling them, so a small aligned write is made of
 * atomic word stores in rising order, as on the bus. */
static void peermem_put(void *to, const void *from, uint64_t bytes)
{
	if (bytes > PEERMEM_WHOLE_BYTES || bytes % 8 || (uintptr_t)to % 8) {
		memcpy(to, from, bytes);
		return;
	}
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word;
		memcpy(&word, (const uint8_t *)from + at, sizeof word);
		__atomic_store_n((uint64_t *)(void *)((uint8_t *)to + at), word, __ATOMIC_RELEASE);
	}
}

/* Stores a write in GPU memory. `order`: see memory.h; `kept`: the write was pending. */
static void peermem_land(uint64_t address, const void *data, uint64_t bytes,
			 enum shared_order order, bool kept)
{
	struct mem_access a = {.addr = fc_alias(address),
			       .bytes = bytes,
			       .wake = (const void *)(uintptr_t)address,
			       .op = SHARED_RANGE_WRITE,
			       .order = order,
			       .scope = SHARED_SYSTEM,
			       .touched = kept};

	fc_shadow_write(address, bytes);
	fc_va_wrote(address, bytes);
	mem_access(&a);
	peermem_put(fc_alias(address), data, bytes);
	mem_wrote(&a);
	sim_wrote(a.wake, bytes);
}

/* Returns the writer of pending writes for the memory model. It is not the queue pair, whose
 * completions do not cover them, and no other agent acquires it before a flush. One per HCA, and
 * one for all HCAs (-1), which launches acquire. */
static const void *peermem_unflushed(const struct fc_device *dev, int64_t hca)
{
	return (const char *)dev + (uint64_t)(1 + hca) % sizeof *dev;
}

static void peermem_kept(const struct fc_device *dev, const struct fc_pending *w)
{
	const void *apart = peermem_unflushed(dev, w->hca);
	const struct os_label label = {.what = "unflushed writes of an HCA to gpu",
				       .rank = -1,
				       .peer = -1,
				       .channel = -1,
				       .number = dev->index};
	const struct mem_access a = {.addr = fc_alias(w->address),
				     .bytes = w->bytes,
				     .op = SHARED_RANGE_WRITE,
				     .order = SHARED_RELEASE,
				     .scope = SHARED_SYSTEM};

	if (!(mem_on & MEM_RACES))
		return;
	os_label(apart, &label);
	mem_touched_as(apart, &a, peermem_unflushed(dev, -1));
}

void fc_peermem_apply(struct fc_device *dev, int64_t hca)
{
	struct fc_pending **at = &dev->pending;
	mem_acquire(peermem_unflushed(dev, hca));
	while (*at) {
		struct fc_pending *w = *at;
		if (hca >= 0 && w->hca != hca) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		peermem_land(w->address, w->data, w->bytes, SHARED_RELEASE, true);
		free(w);
	}
	dev->pending_end = at;
}

void fc_peermem_drop(struct fc_device *dev)
{
	while (dev->pending) {
		struct fc_pending *w = dev->pending;
		dev->pending = w->next;
		free(w);
	}
	dev->pending_end = &dev->pending;
}

static int peermem_keep(struct fc_device *dev, uint32_t hca, uint64_t address, const void *data,
			uint64_t bytes)
{
	struct fc_pending *w = malloc(sizeof *w + bytes);
	if (!w)
		return ENOMEM;
	*w = (struct fc_pending){.hca = hca, .address = address, .bytes = bytes};
	memcpy(w->data, data, bytes);
	*dev->pending_end = w;
	dev->pending_end = &w->next;
	peermem_kept(dev, w);
	return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

bool fc_rdma_has(const char *way)
{
	const char *ways = param_str(PARAM_DOPPEL_GPU_RDMA);

	return strcmp(ways, way) == 0 || strcmp(ways, "both") == 0;
}

static bool peermem_owns(const struct os_proc *proc, uint64_t address, uint64_t bytes)
{
	(void)proc;
	return fc_va_is_device(address) || fc_va_is_device(address + (bytes ? bytes - 1 : 0));
}

static bool peermem_allocated(const struct os_proc *proc, uint64_t address, uint64_t bytes)
{
	struct fc_proc *p = proc->slot[OS_SLOT_CUDA];

	if (!p)
		return false;
	fc_lock();
	const struct fc_host_range *r = fc_host_find(p, address, bytes);
	bool allocated = r && !r->registered;
	fc_unlock();
	return allocated;
}

/* The process' CUDA state exists, because a process with GPU memory has made a CUDA call. */
static int peermem_pin_allocation(struct os_proc *proc, uint64_t address, uint64_t bytes,
				  struct peermem_region *r)
{
	int rc = 0;
	char near[384];
	uint64_t home;
	fc_lock();
	struct fc_device *dev = fc_device_at(address);
	struct fc_proc *p = proc->slot[OS_SLOT_CUDA];
	struct fc_alloc *a = dev && p ? fc_access_alloc(p, dev, address, bytes) : NULL;
	if (p && fc_vmm_has(address) && fc_vmm_is_host(p, address, 1)) {
		fc_report("%s pins %llu bytes at 0x%llx for an HCA: that is not implemented for "
			  "host memory of cuMem",
			  proc->name, (unsigned long long)bytes, (unsigned long long)address);
		rc = EFAULT;
	} else if (!a) {
		fc_alloc_describe_nearest(address, near, sizeof near);
		fc_misuse("%s pins %llu bytes at 0x%llx, which is not one allocation of its own: "
			  "%s",
			  proc->name, (unsigned long long)bytes, (unsigned long long)address, near);
		rc = EFAULT;
	} else if (!dev->gpu->gdr || (a->vmm && !a->rdma) || a->pooled) {
		rc = ENODEV;
	} else if (fc_vmm_piece(address, bytes, &home) < bytes ||
		   home + bytes > a->base + a->bytes) {
		rc = EFAULT;
	} else {
		a->pins++;
		*r = (struct peermem_region){.device = dev->index,
					     .cookie = a->number,
					     .address = address,
					     .home = home,
					     .bytes = bytes};
	}
	fc_unlock();
	return rc;
}

/* Pins through nvidia-peermem. Without that module the kernel finds no pages at a GPU's address. */
static int peermem_pin(struct os_proc *proc, uint64_t address, uint64_t bytes,
		       struct peermem_region *r)
{
	return fc_rdma_has("peermem") ? peermem_pin_allocation(proc, address, bytes, r) : EFAULT;
}

static void peermem_unpin(const struct peermem_region *r)
{
	fc_lock();
	if (fc.ready) {
		ASSERT(r->device < fc.device_count);
		struct fc_device *dev = &fc.device[r->device];
		fc_peermem_apply(dev, -1);
		struct fc_alloc *a = fc_alloc_by_number(dev, r->cookie);
		if (a && a->pins)
			a->pins--;
	}
	fc_unlock();
}

/* Returns the GPU if the range is inside the region and its memory is still the pinned
 * allocation. */
static struct fc_device *peermem_check(const struct peermem_region *r, uint64_t address,
				       uint64_t bytes, const char *what, uint64_t *home)
{
	uint64_t off = address - r->address;
	ASSERT(r->device < fc.device_count);
	struct fc_device *dev = &fc.device[r->device];
	*home = r->home + off;
	const struct fc_alloc *a = fc_alloc_find(dev, *home);
	bool inside = off <= r->bytes && bytes <= r->bytes - off;
	if (inside && a && a->number == r->cookie && !(a->freed && !a->opens))
		return dev;
	char near[384];
	fc_alloc_describe_nearest(address, near, sizeof near);
	fc_misuse("HCA %s of %llu bytes at 0x%llx %s: %s", what, (unsigned long long)bytes,
		  (unsigned long long)address,
		  inside ? "after the memory was freed" : "outside its region", near);
	return NULL;
}

static uint64_t peermem_bit(uint32_t hca)
{
	return 1ull << hca % 64;
}

static int peermem_write(const struct peermem_region *r, uint32_t hca, uint64_t address,
			 const void *data, uint64_t bytes)
{
	bool lands = false;
	int rc = 0;
	fc_lock();
	struct fc_device *dev = peermem_check(r, address, bytes, "write", &address);
	if (!dev) {
		rc = EFAULT;
	} else {
		os_trace_bytes("peermem.write", dev->index, data, bytes);
		lands = dev->gpu->sm >= PEERMEM_ORDERED_SM;
		if (!lands)
			rc = peermem_keep(dev, hca, address, data, bytes);
		if (dev->unordered & peermem_bit(hca))
			fc_peermem_apply(dev, hca);
	}
	fc_unlock();
	if (lands) {
		peermem_land(address, data, bytes,
			     bytes > PEERMEM_WHOLE_BYTES ? SHARED_RELAXED : SHARED_RELEASE, false);
	}
	return rc;
}

/* Checks a read and applies this HCA's pending writes first. Changes *address to its home. */
static int peermem_flush(const struct peermem_region *r, uint32_t hca, uint64_t *address,
			 uint64_t bytes)
{
	fc_lock();
	struct fc_device *dev = peermem_check(r, *address, bytes, "read", address);
	if (dev) {
		fc_peermem_apply(dev, hca);
		dev->unordered &= ~peermem_bit(hca);
	}
	fc_unlock();
	return dev ? 0 : EFAULT;
}

static void peermem_landed(uint32_t hca)
{
	fc_lock();
	for (uint32_t i = 0; fc.ready && i < fc.device_count; i++)
		if (fc.device[i].gpu->sm < PEERMEM_ORDERED_SM) {
			fc_peermem_apply(&fc.device[i], hca);
			fc.device[i].unordered |= peermem_bit(hca);
		}
	fc_unlock();
}

static int peermem_read(const struct peermem_region *r, uint32_t hca, uint64_t address, void *data,
			uint64_t bytes)
{
	if (peermem_flush(r, hca, &address, bytes))
		return EFAULT;
	mem_access(&(struct mem_access){.addr = fc_alias(address),
					.bytes = bytes,
					.wake = (const void *)(uintptr_t)address,
					.op = SHARED_RANGE_READ,
					.scope = SHARED_SYSTEM});
	memcpy(data, fc_alias(address), bytes);
	return 0;
}

static void peermem_sent(const struct peermem_region *r, uint64_t address, uint64_t bytes)
{
	fc_va_lines_sent(r->home + (address - r->address), bytes);
}

static int peermem_load_word(const struct peermem_region *r, uint32_t hca, uint64_t address,
			     uint64_t *value)
{
	if (peermem_flush(r, hca, &address, sizeof *value))
		return EFAULT;
	mem_access(&(struct mem_access){.addr = fc_alias(address),
					.bytes = sizeof *value,
					.wake = (const void *)(uintptr_t)address,
					.op = SHARED_LOAD,
					.order = SHARED_ACQUIRE,
					.scope = SHARED_SYSTEM});
	*value = __atomic_load_n((const uint64_t *)fc_alias(address), __ATOMIC_ACQUIRE);
	return 0;
}

static const struct peermem_ops peermem_fakecuda = {
	.owns = peermem_owns,
	.allocated = peermem_allocated,
	.pin = peermem_pin,
	.pin_dmabuf = fc_dmabuf_pin,
	.unpin = peermem_unpin,
	.write = peermem_write,
	.read = peermem_read,
	.sent = peermem_sent,
	.landed = peermem_landed,
	.load = peermem_load_word,
};

static __attribute__((constructor)) void peermem_load(void)
{
	peermem_register(&peermem_fakecuda);
}
