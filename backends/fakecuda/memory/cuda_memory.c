/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory calls: device memory, pinned host memory, pointer attributes. Freeing waits for the
 * context's work, as on hardware. Allocating may wait on hardware, so here it sometimes does
 * (OS_BUGGIFY), or always (DOPPEL_CUDA_WAITS=1). Suppose that code allocates while its own kernel
 * spins on something that only this code provides. It then hangs in some runs, or in all, as on a
 * GPU.
 */
#include "backends/fakecuda/fakecuda.h"
#include "sim/world/params.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HOST_PAGE 4096u
/* From this size on memory comes from mmap, zeroed and untouched. A buffer of megabytes of which a
 * run uses kilobytes then costs kilobytes. */
#define HOST_MAP_MIN (64u << 10)

bool fc_waits_always(void)
{
	return param_bool(PARAM_DOPPEL_CUDA_WAITS);
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaMalloc", &ctx);
	if (!rc && !devPtr)
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_capture_guard(ctx->proc, "cudaMalloc");
	if (!rc && (OS_BUGGIFY("cuda.malloc_waits",
			       "cudaMalloc waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, "cudaMalloc");
	if (rc)
		return fc_leave(rc);
	if (!size) {
		*devPtr = NULL;
		return fc_leave(cudaSuccess);
	}
	uint64_t address = 0;
	fc_lock();
	rc = fc_alloc_new(ctx, size, &address);
	fc_unlock();
	if (!rc)
		*devPtr = (void *)(uintptr_t)address;
	return fc_leave(rc);
}

/* Returns the allocation that begins at `address` and that this process may free; NULL otherwise
 * (reported). The caller holds fc_lock. */
static struct fc_alloc *free_target(struct fc_proc *proc, uint64_t address)
{
	char what[384];
	struct fc_device *dev = fc_device_at(address);
	struct fc_alloc *a = dev ? fc_alloc_find(dev, address) : NULL;
	if (a && a->base == address && a->proc == proc->os->id && !a->freed)
		return a;
	if (a && a->proc == proc->os->id && !a->freed)
		fc_alloc_describe(dev, a, what, sizeof what);
	else
		fc_alloc_describe_nearest(address, what, sizeof what);
	fc_misuse("cudaFree of 0x%llx, which is not the start of memory of this process: %s",
		  (unsigned long long)address, what);
	return NULL;
}

cudaError_t cudaFree(void *devPtr)
{
	struct fc_ctx *ctx;
	uint64_t address = (uintptr_t)devPtr;
	cudaError_t rc = fc_enter_ctx("cudaFree", &ctx);
	cudaError_t captures = ctx && devPtr ? fc_capture_guard(ctx->proc, "cudaFree") : rc;
	if (!ctx || !devPtr || captures)
		return fc_leave(captures);
	fc_lock();
	struct fc_alloc *a = free_target(ctx->proc, address);
	struct fc_ctx *owner = a ? fc_ctx_of_device(ctx->proc, fc_device_at(address)) : NULL;
	if (owner && !owner->sticky)
		fc_use_free(ctx->proc, a->base, a->bytes, __builtin_return_address(0), "cudaFree");
	fc_unlock();
	if (!a || !owner)
		return fc_leave(rc ? rc : cudaErrorInvalidValue);
	cudaError_t waited = fc_ctx_wait(owner, "cudaFree");
	rc = rc ? rc : waited;
	fc_lock();
	a = free_target(ctx->proc, address);
	/* After a fault, a task that frees cannot wait for other tasks without end, so this is not
	 * misuse. */
	uint32_t opens = a ? a->opens + fc_export_opens(a) : 0;
	if (opens)
		(sim_faults_fired() ? fc_report : fc_misuse_in_turn)(
			"cudaFree of gpu %u #%u, which %u other processes still have open by IPC",
			owner->dev->index, a->number, opens);
	if (a && a->pins)
		fc_misuse_in_turn(
			"cudaFree of gpu %u #%u, which %u memory regions of HCAs still pin",
			owner->dev->index, a->number, a->pins);
	if (a) {
		fc_use_freed(ctx->proc, a->base, a->bytes);
		fc_alloc_free(owner->dev, a);
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaMemGetInfo", &ctx);
	if (!rc && (!free || !total))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	fc_lock();
	fc_vmm_sweep(); /* descriptors may have been closed without notice */
	*total = ctx->dev->total_bytes;
	*free = ctx->dev->total_bytes - ctx->dev->used_bytes;
	fc_unlock();
	return fc_leave(cudaSuccess);
}

/* ---- pinned host memory --------------------------------------------------------------------- */

static bool host_is_mapped(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__ /* ASan watches both ends of a block of malloc */
	return false;
#else
	return bytes >= HOST_MAP_MIN;
#endif
}

/* Allocates zeroed host memory. NULL: out of memory. */
static void *host_new(uint64_t bytes)
{
	void *mem;

	if (host_is_mapped(bytes)) {
		mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return mem == MAP_FAILED ? NULL : mem;
	}
	mem = aligned_alloc(HOST_PAGE, bytes);
	if (mem)
		memset(mem, 0, bytes);
	return mem;
}

void fc_host_delete(void *mem, uint64_t bytes)
{
	bytes = ALIGN_UP(bytes, HOST_PAGE);
	mem_fresh(mem, bytes);
	if (!host_is_mapped(bytes))
		free(mem);
	else if (munmap(mem, bytes))
		ASSERT(!"munmap of pinned host memory");
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaHostAlloc", &ctx);
	unsigned int known =
		cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
	if (!rc && (!pHost || flags & ~known))
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_capture_guard(ctx->proc, "cudaHostAlloc");
	if (!rc && (OS_BUGGIFY("cuda.host_alloc_waits",
			       "cudaHostAlloc waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, "cudaHostAlloc");
	if (rc)
		return fc_leave(rc);
	*pHost = NULL;
	if (!size)
		return fc_leave(cudaSuccess);
	void *mem = size > PTRDIFF_MAX ? NULL : host_new(ALIGN_UP(size, HOST_PAGE));
	if (!mem)
		return fc_leave(cudaErrorMemoryAllocation);
	mem_fresh(mem, ALIGN_UP(size, HOST_PAGE));
	fc_lock();
	bool added = fc_host_add(ctx, (uintptr_t)mem, size, flags, false);
	fc_unlock();
	ASSERT(added);
	*pHost = mem;
	return fc_leave(cudaSuccess);
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

/* Removes the range that begins at `ptr` from the list after the context's work. *bytes: its size;
 * 0 if not found. */
static cudaError_t host_remove(const char *call, void *ptr, bool registered, uint64_t *bytes,
			       const void *caller)
{
	struct fc_ctx *ctx;
	*bytes = 0;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	cudaError_t captures = ctx ? fc_capture_guard(ctx->proc, call) : rc;
	if (!ctx || captures)
		return captures;
	fc_lock();
	const struct fc_host_range *u = fc_host_find(ctx->proc, (uintptr_t)ptr, 1);
	if (u && !ctx->sticky)
		fc_use_free(ctx->proc, u->base, u->bytes, caller, call);
	fc_unlock();
	cudaError_t waited = fc_ctx_wait_gone(ctx, call);
	rc = rc ? rc : waited;
	fc_lock();
	struct fc_host_range *r = fc_host_find(ctx->proc, (uintptr_t)ptr, 1);
	bool inside = r && r->base != (uintptr_t)ptr;
	bool found = r && !inside && r->registered == registered;
	if (found) {
		*bytes = r->bytes;
		fc_use_freed(ctx->proc, r->base, r->bytes);
		fc_host_remove(ctx->proc, r);
	} else {
		fc_misuse("%s: %p is not the start of a range that this process %s", call, ptr,
			  registered ? "registered" : "got from cudaHostAlloc");
	}
	fc_unlock();
	if (!found)
		return registered && !inside ? cudaErrorHostMemoryNotRegistered
					     : cudaErrorInvalidValue;
	return rc;
}

cudaError_t cudaFreeHost(void *ptr)
{
	if (!ptr)
		return cudaSuccess;
	uint64_t bytes;
	cudaError_t rc =
		host_remove("cudaFreeHost", ptr, false, &bytes, __builtin_return_address(0));
	if (bytes)
		fc_host_delete(ptr, bytes);
	return fc_leave(rc);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaHostRegister", &ctx);
	if (rc)
		return fc_leave(rc);
	unsigned int known = cudaHostRegisterPortable | cudaHostRegisterMapped;
	if (!ptr || !size || flags & ~known || fc_va_is_device((uintptr_t)ptr)) {
		fc_report("cudaHostRegister: %s",
			  fc_va_is_device((uintptr_t)ptr) ? "a device pointer" : "bad argument");
		return fc_leave(cudaErrorInvalidValue);
	}
	rc = fc_capture_guard(ctx->proc, "cudaHostRegister");
	if (!rc && (OS_BUGGIFY("cuda.host_register_waits",
			       "cudaHostRegister waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, "cudaHostRegister");
	if (rc)
		return fc_leave(rc);
	fc_lock();
	if (!fc_host_add(ctx, (uintptr_t)ptr, size, flags, true)) {
		fc_report("cudaHostRegister: %p, %zu bytes: part of it is pinned already", ptr,
			  size);
		rc = cudaErrorHostMemoryAlreadyRegistered;
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaHostUnregister(void *ptr)
{
	uint64_t bytes;
	return fc_leave(
		host_remove("cudaHostUnregister", ptr, true, &bytes, __builtin_return_address(0)));
}

void fc_host_unmapped(struct os_proc *os, const void *mem, size_t bytes)
{
	struct fc_proc *proc = os->slot[OS_SLOT_CUDA];

	if (!proc)
		return;
	fc_lock();
	if (fc_host_find(proc, (uintptr_t)mem, 1))
		fc_misuse("os_shm_unmap of %p, %zu bytes, which this process still has registered "
			  "by cudaHostRegister",
			  mem, bytes);
	fc_unlock();
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaHostGetDevicePointer", &ctx);
	if (!rc && (!pDevice || flags))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	fc_lock();
	bool pinned = fc_host_find(ctx->proc, (uintptr_t)pHost, 1) != NULL;
	fc_unlock();
	if (!pinned) {
		fc_report("cudaHostGetDevicePointer: %p is not pinned host memory", pHost);
		return fc_leave(cudaErrorInvalidValue);
	}
	*pDevice = pHost; /* one address space, as with unified addressing */
	return fc_leave(cudaSuccess);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaHostGetFlags", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct fc_host_range *r = fc_host_find(ctx->proc, (uintptr_t)pHost, 1);
	if (!r || !pFlags)
		rc = cudaErrorInvalidValue;
	else
		*pFlags = r->flags | cudaHostAllocMapped; /* unified addressing maps everything */
	fc_unlock();
	return fc_leave(rc);
}

/* ---- pointer attributes --------------------------------------------------------------------- */

/* Host memory of cuMem belongs to device 0, and has a device pointer if the current device has
 * access. Other host memory belongs to the device that was current when it was pinned (measured,
 * driver 580). */
static void host_pointer_attributes(const struct fc_ctx *ctx, uint64_t address,
				    struct cudaPointerAttributes *attributes)
{
	const struct fc_vmm_map *m = fc_vmm_has(address) ? fc_vmm_map_at(ctx->proc, address) : NULL;
	const struct fc_host_range *r = m ? NULL : fc_host_find(ctx->proc, address, 1);

	attributes->type = cudaMemoryTypeHost;
	attributes->device = r ? r->device : 0;
	attributes->hostPointer = (void *)(uintptr_t)address;
	if (!m || m->access[ctx->ordinal])
		attributes->devicePointer = attributes->hostPointer;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	struct fc_ctx *ctx;
	uint64_t address = (uintptr_t)ptr;
	cudaError_t rc = fc_enter_ctx("cudaPointerGetAttributes", &ctx);
	if (!rc && !attributes)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_leave(rc);
	*attributes =
		(struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
	fc_lock();
	struct fc_device *dev = fc_device_at(address);
	if (dev && fc_access_alloc(ctx->proc, dev, address, 1)) {
		struct fc_ctx *on = fc_ctx_of_device(ctx->proc, dev);
		attributes->type = cudaMemoryTypeDevice;
		attributes->device = on ? on->ordinal : -1;
		attributes->devicePointer = (void *)(uintptr_t)address;
	} else if (!dev && fc_host_is_pinned(ctx->proc, address, 1)) {
		host_pointer_attributes(ctx, address, attributes);
	} else if (!dev) {
		attributes->hostPointer = (void *)(uintptr_t)address;
	}
	fc_unlock();
	return fc_leave(cudaSuccess);
}
