/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's memory calls: device memory, pinned host memory. Freeing waits for the
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

CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
	const struct fc_at at = FC_AT("cuMemAlloc");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && (!dptr || !bytesize))
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_capture_guard(ctx->proc, at.call);
	if (!rc && (OS_BUGGIFY("cuda.malloc_waits",
			       "cudaMalloc waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, at.call);
	if (rc)
		return fc_driver_leave(rc);
	uint64_t address = 0;
	fc_lock();
	rc = fc_alloc_new(ctx, bytesize, &address);
	fc_unlock();
	if (!rc)
		*dptr = address;
	return fc_driver_leave(rc);
}

/* Returns the allocation that begins at `address` and that this process may free; NULL otherwise
 * (reported). The caller holds fc_lock. */
static struct fc_alloc *free_target(struct fc_proc *proc, uint64_t address, const char *call)
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
	fc_misuse("%s of 0x%llx, which is not the start of memory of this process: %s", call,
		  (unsigned long long)address, what);
	return NULL;
}

CUresult cuMemFree(CUdeviceptr dptr)
{
	const struct fc_at at = FC_AT("cuMemFree");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	cudaError_t captures = ctx && dptr ? fc_capture_guard(ctx->proc, at.call) : rc;
	if (!ctx || !dptr || captures)
		return fc_driver_leave(captures);
	fc_lock();
	if (UNLIKELY(ctx->proc->pools) && fc_block_find(ctx->proc, dptr)) {
		cudaError_t freed = fc_block_free_now(ctx, dptr, &at);
		fc_unlock();
		return fc_driver_leave(rc ? rc : freed);
	}
	if (fc_managed_is(ctx->proc, dptr)) {
		fc_unlock();
		cudaError_t freed = fc_managed_free(ctx, dptr, &at);
		return fc_driver_leave(rc ? rc : freed);
	}
	struct fc_alloc *a = free_target(ctx->proc, dptr, at.call);
	struct fc_ctx *owner = a ? fc_ctx_get(ctx->proc, a->slot) : NULL;
	if (owner && !owner->sticky)
		fc_use_free(ctx->proc, a->base, a->bytes, at.caller, at.call);
	fc_unlock();
	if (!a || !owner)
		return fc_driver_leave(rc ? rc : cudaErrorInvalidValue);
	cudaError_t waited = fc_ctx_wait(owner, at.call);
	rc = rc ? rc : waited;
	fc_lock();
	a = free_target(ctx->proc, dptr, at.call);
	/* After a fault, a task that frees cannot wait for other tasks without end, so this is not
	 * misuse. */
	uint32_t opens = a ? a->opens + fc_export_opens(a) : 0;
	if (opens)
		(sim_faults_fired() ? fc_report : fc_misuse_in_turn)(
			"%s of gpu %u #%u, which %u other processes still have open by IPC",
			at.call, owner->dev->index, a->number, opens);
	if (a && a->pins)
		fc_misuse_in_turn("%s of gpu %u #%u, which %u memory regions of HCAs still pin",
				  at.call, owner->dev->index, a->number, a->pins);
	if (a) {
		fc_use_freed(ctx->proc, a->base, a->bytes);
		fc_alloc_free(owner->dev, a);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemGetInfo(size_t *free, size_t *total)
{
	const struct fc_at at = FC_AT("cuMemGetInfo");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && (!free || !total))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	fc_vmm_sweep(); /* descriptors may have been closed without notice */
	*total = ctx->dev->total_bytes;
	*free = ctx->dev->total_bytes - ctx->dev->used_bytes;
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
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

void *fc_host_new(uint64_t bytes)
{
	void *mem = bytes > PTRDIFF_MAX ? NULL : host_new(ALIGN_UP(bytes, HOST_PAGE));

	if (mem)
		mem_fresh(mem, ALIGN_UP(bytes, HOST_PAGE));
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

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuMemHostAlloc");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	unsigned int known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			     CU_MEMHOSTALLOC_WRITECOMBINED;
	if (!rc && (!pp || Flags & ~known))
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_capture_guard(ctx->proc, at.call);
	if (!rc && (OS_BUGGIFY("cuda.host_alloc_waits",
			       "cudaHostAlloc waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, at.call);
	if (rc)
		return fc_driver_leave(rc);
	*pp = NULL;
	if (!bytesize)
		return fc_driver_leave(cudaSuccess);
	void *mem = fc_host_new(bytesize);
	if (!mem)
		return fc_driver_leave(cudaErrorMemoryAllocation);
	fc_lock();
	bool added = fc_host_add(ctx, (uintptr_t)mem, bytesize, Flags, false);
	fc_unlock();
	ASSERT(added);
	*pp = mem;
	return fc_driver_leave(cudaSuccess);
}

CUresult cuMemAllocHost(void **pp, size_t bytesize)
{
	const struct fc_at at = FC_AT("cuMemAllocHost");

	fc_at_announce(at.call, at.caller);
	return cuMemHostAlloc(pp, bytesize, 0);
}

/* Removes the range that begins at `ptr` from the list after the context's work. *bytes: its size;
 * 0 if not found. */
static cudaError_t host_remove(const struct fc_at *at, void *ptr, bool registered, uint64_t *bytes)
{
	struct fc_ctx *ctx;
	*bytes = 0;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);
	cudaError_t captures = ctx ? fc_capture_guard(ctx->proc, at->call) : rc;
	if (!ctx || captures)
		return captures;
	fc_lock();
	const struct fc_host_range *u = fc_host_find(ctx->proc, (uintptr_t)ptr, 1);
	if (u && !ctx->sticky)
		fc_use_free(ctx->proc, u->base, u->bytes, at->caller, at->call);
	fc_unlock();
	cudaError_t waited = fc_ctx_wait_gone(ctx, at->call);
	rc = rc ? rc : waited;
	fc_lock();
	struct fc_host_range *r = fc_host_find(ctx->proc, (uintptr_t)ptr, 1);
	bool inside = r && r->base != (uintptr_t)ptr;
	bool found = r && !inside && r->registered == registered && !r->managed;
	if (found) {
		*bytes = r->bytes;
		fc_use_freed(ctx->proc, r->base, r->bytes);
		fc_host_remove(ctx->proc, r);
	} else {
		fc_misuse("%s: %p is not the start of a range that this process %s", at->call, ptr,
			  registered ? "registered" : "got from cudaHostAlloc");
	}
	fc_unlock();
	if (!found)
		return registered && !inside ? cudaErrorHostMemoryNotRegistered
					     : cudaErrorInvalidValue;
	return rc;
}

CUresult cuMemFreeHost(void *p)
{
	const struct fc_at at = FC_AT("cuMemFreeHost");
	uint64_t bytes;

	if (!p)
		return CUDA_SUCCESS;
	cudaError_t rc = host_remove(&at, p, false, &bytes);

	if (bytes)
		fc_host_delete(p, bytes);
	return fc_driver_leave(rc);
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuMemHostRegister");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	unsigned int known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			     CU_MEMHOSTREGISTER_READ_ONLY;
	if (!p || !bytesize || Flags & ~known || fc_va_is_device((uintptr_t)p)) {
		fc_report("%s: %s", at.call,
			  fc_va_is_device((uintptr_t)p) ? "a device pointer" : "bad argument");
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	rc = fc_capture_guard(ctx->proc, at.call);
	if (!rc && (OS_BUGGIFY("cuda.host_register_waits",
			       "cudaHostRegister waits for the context's work, as it may") ||
		    fc_waits_always()))
		rc = fc_ctx_wait(ctx, at.call);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	if (!fc_host_add(ctx, (uintptr_t)p, bytesize, Flags, true)) {
		fc_report("%s: %p, %zu bytes: part of it is pinned already", at.call, p, bytesize);
		rc = cudaErrorHostMemoryAlreadyRegistered;
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemHostUnregister(void *p)
{
	const struct fc_at at = FC_AT("cuMemHostUnregister");
	uint64_t bytes;

	return fc_driver_leave(host_remove(&at, p, true, &bytes));
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

CUresult cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuMemHostGetDevicePointer");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && (!pdptr || Flags))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	bool pinned = fc_host_find(ctx->proc, (uintptr_t)p, 1) != NULL;
	fc_unlock();
	if (!pinned) {
		fc_report("%s: %p is not pinned host memory", at.call, p);
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	*pdptr = (uintptr_t)p; /* one address space, as with unified addressing */
	return fc_driver_leave(cudaSuccess);
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	const struct fc_at at = FC_AT("cuMemHostGetFlags");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_host_range *r = fc_host_find(ctx->proc, (uintptr_t)p, 1);
	if (!r || !pFlags)
		rc = cudaErrorInvalidValue;
	else
		*pFlags = r->flags | CU_MEMHOSTALLOC_DEVICEMAP; /* unified addressing maps all */
	fc_unlock();
	return fc_driver_leave(rc);
}
