/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Managed memory: pinned memory of the host that host and GPUs access by one address. It never
 * moves, so a prefetch only takes its place in the stream, and advice has no effect. The results
 * are those of the documentation; none was compared with a GPU.
 */
#include "backends/fakecuda/fakecuda.h"

/* ---- allocation ----------------------------------------------------------------------------- */

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	const struct fc_at at = FC_AT("cuMemAllocManaged");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc && (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
		fc_report("%s: flags 0x%x; expected CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST",
			  at.call, flags);
		rc = cudaErrorInvalidValue;
	}
	if (!rc && (!dptr || !bytesize))
		rc = cudaErrorInvalidValue;
	if (!rc)
		rc = fc_capture_guard(ctx->proc, at.call);
	if (rc)
		return fc_driver_leave(rc);
	void *mem = fc_host_new(bytesize);
	if (!mem)
		return fc_driver_leave(cudaErrorMemoryAllocation);
	fc_lock();
	bool added = fc_host_add(ctx, (uintptr_t)mem, bytesize, 0, false);
	ASSERT(added);
	fc_host_find(ctx->proc, (uintptr_t)mem, bytesize)->managed = true;
	fc_unlock();
	*dptr = (uintptr_t)mem;
	return fc_driver_leave(cudaSuccess);
}

/* Returns the managed memory that contains the range; NULL: none does. */
static struct fc_host_range *managed_find(struct fc_proc *proc, uint64_t address, uint64_t bytes)
{
	struct fc_host_range *r =
		fc_va_is_device(address) ? NULL : fc_host_find(proc, address, bytes);

	return r && r->managed ? r : NULL;
}

bool fc_managed_is(struct fc_proc *proc, uint64_t address)
{
	const struct fc_host_range *r = managed_find(proc, address, 1);

	return r && r->base == address;
}

cudaError_t fc_managed_free(struct fc_ctx *ctx, uint64_t address, const struct fc_at *at)
{
	uint64_t bytes = 0;

	fc_lock();
	const struct fc_host_range *u = managed_find(ctx->proc, address, 1);
	if (u && !ctx->sticky)
		fc_use_free(ctx->proc, u->base, u->bytes, at->caller, at->call);
	fc_unlock();
	cudaError_t rc = fc_ctx_wait_gone(ctx, at->call);
	fc_lock();
	struct fc_host_range *r = managed_find(ctx->proc, address, 1);
	if (r && r->base == address) {
		bytes = r->bytes;
		fc_use_freed(ctx->proc, r->base, r->bytes);
		fc_host_remove(ctx->proc, r);
	}
	fc_unlock();
	if (bytes)
		fc_host_delete((void *)(uintptr_t)address, bytes);
	return bytes ? rc : cudaErrorInvalidValue;
}

/* ---- prefetch and advice -------------------------------------------------------------------- */

static cudaError_t managed_location(const char *call, const struct fc_proc *proc,
				    const CUmemLocation *at)
{
	switch (at->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (at->id >= 0 && at->id < proc->count)
			return cudaSuccess;
		fc_report("%s: device %d, this process has %d", call, at->id, proc->count);
		return cudaErrorInvalidDevice;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return cudaSuccess;
	default:
		fc_report("%s: location of type %d; expected a device or the host", call,
			  (int)at->type);
		return cudaErrorInvalidValue;
	}
}

/* Checks that the range is managed memory. */
static cudaError_t managed_range(struct fc_proc *proc, const char *call, uint64_t address,
				 uint64_t bytes)
{
	if (bytes && managed_find(proc, address, bytes))
		return cudaSuccess;
	fc_report("%s: %llu bytes at 0x%llx are not managed memory of this process", call,
		  (unsigned long long)bytes, (unsigned long long)address);
	return cudaErrorInvalidValue;
}

/* Queues an operation that moves nothing. The caller holds fc_lock. */
static cudaError_t managed_prefetch(struct fc_ctx *ctx, CUstream stream, const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	cudaError_t rc = s ? fc_capture_refuse(s, call) : cudaErrorInvalidResourceHandle;

	if (rc)
		return rc;
	struct fc_op *op = fc_op_new(FC_OP_MEMOP, FC_STREAM_NS);
	op->memop.what = FC_MEMOP_BARRIER;
	fc_stream_queue(s, op);
	return cudaSuccess;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location,
			    unsigned int flags, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemPrefetchAsync");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc && flags) {
		fc_report("%s: flags 0x%x; expected 0", at.call, flags);
		rc = cudaErrorInvalidValue;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	rc = managed_range(ctx->proc, at.call, devPtr, count);
	if (!rc)
		rc = managed_location(at.call, ctx->proc, &location);
	if (!rc)
		rc = managed_prefetch(ctx, hStream, at.call);
	fc_unlock();
	return fc_driver_leave(rc);
}

/* True if the advice has a location. */
static bool advice_is_located(CUmem_advise advice)
{
	return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
	       advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	const struct fc_at at = FC_AT("cuMemAdvise");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc && ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
		    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)) {
		fc_report("%s: there is no advice %d", at.call, (int)advice);
		rc = cudaErrorInvalidValue;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	rc = managed_range(ctx->proc, at.call, devPtr, count);
	if (!rc && advice_is_located(advice))
		rc = managed_location(at.call, ctx->proc, &location);
	fc_unlock();
	return fc_driver_leave(rc);
}
