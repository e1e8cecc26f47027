/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of the driver. A process has one primary context on each visible device:
 *
 *    absent --(cuDevicePrimaryCtxRetain; a call of the runtime)----------------> active
 *    active --(the last cuDevicePrimaryCtxRelease; cuDevicePrimaryCtxReset)----> absent
 *
 * A task has at most one current context: that of its device (errors.c). The runtime makes its
 * device's context current by itself. A call of the driver without one fails with 201, and in a
 * context that is absent with 709. context_stack.c has cuCtxCreate.
 */
#include "backends/fakecuda/fakecuda.h"

#define CONTEXT_API_VERSION 3020 /* measured, driver 580 */
#define CONTEXT_FLAGS       (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX)
/* ---- handles and the current context -------------------------------------------------------- */

int32_t fc_context_slot(const struct fc_proc *proc, CUcontext ctx)
{
	for (int32_t i = 0; i < proc->slots; i++) {
		if ((const struct fc_primary *)ctx == &proc->primary[i])
			return i;
	}
	return FC_NO_CONTEXT;
}

int32_t fc_context_ordinal(const struct fc_proc *proc, CUcontext ctx)
{
	const int32_t slot = fc_context_slot(proc, ctx);

	return slot == FC_NO_CONTEXT ? -1 : proc->primary[slot].device;
}

CUcontext fc_context_handle(struct fc_proc *proc, int32_t slot)
{
	return slot == FC_NO_CONTEXT ? NULL : (CUcontext)&proc->primary[slot];
}

CUcontext fc_context_of(int32_t ordinal)
{
	struct fc_proc *proc = fc_proc_get();

	return proc && ordinal >= 0 && ordinal < proc->count ? fc_context_handle(proc, ordinal)
							     : NULL;
}

int32_t fc_context_current(void)
{
	return fc_task_has_context() ? fc_current() : FC_NO_CONTEXT;
}

void fc_context_set(int32_t slot)
{
	if (slot == FC_NO_CONTEXT)
		fc_task_drop_context();
	else
		fc_task_set_device(slot);
}

/* The runtime uses the current context, or makes a primary one current. */
static void context_enter_runtime(struct fc_proc *proc)
{
	if (!fc_task_has_context())
		fc_task_set_device(fc_current_device(proc));
	if (fc_current() < proc->count)
		proc->primary[fc_current()].runtime = proc->primary[fc_current()].active = true;
}

cudaError_t fc_context_enter(const char *call, struct fc_proc *proc)
{
	if (fc_call_is_runtime(call))
		context_enter_runtime(proc);
	if (!fc_task_has_context()) {
		fc_report("%s: this thread has no current context; expected cuCtxSetCurrent", call);
		return cudaErrorDeviceUninitialized;
	}
	if (!proc->primary[fc_current()].active) {
		fc_report("%s: the current context, of device %d, was released, reset or destroyed",
			  call, fc_current_device(proc));
		return cudaErrorContextIsDestroyed;
	}
	return cudaSuccess;
}

/* ---- primary contexts ----------------------------------------------------------------------- */

/* Enters a call about the primary context of `dev`. Sets *primary on success. */
static CUresult primary_enter(const char *call, CUdevice dev, struct fc_proc **proc,
			      struct fc_primary **primary)
{
	cudaError_t rc = fc_enter(call, proc);

	if (!rc && (dev < 0 || dev >= (*proc)->count)) {
		fc_report("%s: device %d, this process has %d", call, dev, (*proc)->count);
		rc = (*proc)->count ? cudaErrorInvalidDevice : cudaErrorNoDevice;
	}
	if (!rc)
		*primary = &(*proc)->primary[dev];
	return (CUresult)rc;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxRetain");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);

	if (!rc && !pctx)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc) {
		fc_lock();
		fc_ctx_get(proc, dev);
		primary->retains++;
		primary->active = true;
		fc_unlock();
		*pctx = (CUcontext)primary;
	}
	return fc_driver_leave(rc);
}

void fc_context_destroy(struct fc_proc *proc, int32_t slot, const char *call)
{
	struct fc_ctx *ctx = proc->ctx[slot];
	cudaError_t rc = ctx ? fc_ctx_wait(ctx, call) : cudaSuccess;

	fc_lock();
	if (rc)
		ctx->sticky = cudaErrorDevicesUnavailable;
	else if (ctx)
		fc_ctx_reset(ctx);
	proc->primary[slot].active = proc->primary[slot].runtime = false;
	fc_unlock();
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxRelease");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);

	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const bool retained = primary->retains > 0;
	if (retained)
		primary->retains--;
	const bool last = retained && !primary->retains && !primary->runtime && primary->active;
	fc_unlock();
	if (last)
		fc_context_destroy(proc, dev, at.call);
	if (!retained)
		fc_report("%s: the program has not retained the context of device %d", at.call,
			  dev);
	return fc_driver_leave(retained ? cudaSuccess : cudaErrorDeviceUninitialized);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxReset");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);

	if (!rc)
		fc_context_destroy(proc, dev, at.call);
	return fc_driver_leave(rc);
}

CUresult fc_context_flags(const char *call, unsigned int flags)
{
	const unsigned int sched = flags & CU_CTX_SCHED_MASK;

	if (!(flags & ~(unsigned int)CONTEXT_FLAGS) && !(sched & (sched - 1)))
		return CUDA_SUCCESS;
	fc_report("%s: flags 0x%x; expected one CU_CTX_SCHED, MAP_HOST, LMEM_RESIZE_TO_MAX", call,
		  flags);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxSetFlags");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);

	if (!rc)
		rc = fc_context_flags(at.call, flags);
	fc_lock();
	if (!rc)
		primary->flags = flags;
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxGetState");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);

	if (!rc && (!flags || !active))
		rc = CUDA_ERROR_INVALID_VALUE;
	fc_lock();
	if (!rc) {
		*flags = primary->flags;
		*active = primary->active;
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- the current context -------------------------------------------------------------------- */

CUresult fc_context_arg(const char *call, CUcontext ctx, struct fc_proc **proc, int32_t *slot)
{
	cudaError_t rc = fc_enter(call, proc);

	if (rc)
		return (CUresult)rc;
	*slot = fc_context_slot(*proc, ctx);
	if (!ctx || *slot != FC_NO_CONTEXT)
		return CUDA_SUCCESS;
	fc_report("%s: %p is not a context of this process", call, (void *)ctx);
	return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	const struct fc_at at = FC_AT("cuCtxGetCurrent");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && !pctx)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*pctx = fc_context_handle(proc, fc_context_current());
	return fc_driver_leave(rc);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	const struct fc_at at = FC_AT("cuCtxSetCurrent");
	struct fc_proc *proc;
	int32_t slot;
	CUresult rc = fc_context_arg(at.call, ctx, &proc, &slot);

	if (!rc)
		fc_context_set(slot);
	return fc_driver_leave(rc);
}

/* ---- properties of the current context ------------------------------------------------------ */

CUresult cuCtxGetDevice(CUdevice *device)
{
	const struct fc_at at = FC_AT("cuCtxGetDevice");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && !device)
		rc = cudaErrorInvalidValue;
	if (!rc && !fc_task_has_context())
		rc = cudaErrorDeviceUninitialized;
	if (!rc)
		*device = fc_current_device(proc);
	return fc_driver_leave(rc);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	const struct fc_at at = FC_AT("cuCtxGetFlags");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc && !flags)
		rc = cudaErrorInvalidValue;
	fc_lock();
	if (!rc)
		*flags = ctx->proc->primary[ctx->slot].flags;
	fc_unlock();
	return fc_driver_leave(rc);
}

/* NULL is the current context. */
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	const struct fc_at at = FC_AT("cuCtxGetApiVersion");
	struct fc_proc *proc;
	int32_t slot;
	CUresult rc = fc_context_arg(at.call, ctx, &proc, &slot);

	if (!rc && !version)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc && slot == FC_NO_CONTEXT && !fc_task_has_context())
		rc = CUDA_ERROR_INVALID_CONTEXT;
	if (!rc)
		*version = CONTEXT_API_VERSION;
	return fc_driver_leave(rc);
}

CUresult cuCtxSynchronize(void)
{
	const struct fc_at at = FC_AT("cuCtxSynchronize");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc) {
		fc_lock();
		rc = fc_capture_waits(ctx, at.call);
		fc_unlock();
	}
	return fc_driver_leave(rc ? rc : fc_ctx_wait(ctx, at.call));
}

/* Defaults of an H100, driver 580. A limit without one is not supported. */
static const size_t context_limits[FC_LIMITS] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
	[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 9830400,
};

static cudaError_t limit_check(const char *call, CUlimit limit)
{
	if ((unsigned int)limit >= FC_LIMITS) {
		fc_report("%s: there is no limit %d", call, (int)limit);
		return cudaErrorInvalidValue;
	}
	if (context_limits[limit])
		return cudaSuccess;
	fc_report("%s: limit %d is not supported", call, (int)limit);
	return cudaErrorUnsupportedLimit;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	const struct fc_at at = FC_AT("cuCtxGetLimit");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc)
		rc = pvalue ? limit_check(at.call, limit) : cudaErrorInvalidValue;
	fc_lock();
	if (!rc)
		*pvalue = ctx->limit[limit] ? ctx->limit[limit] : context_limits[limit];
	fc_unlock();
	return fc_driver_leave(rc);
}

/* The value is only kept: the engine owns the stacks, and there is no device heap. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	const struct fc_at at = FC_AT("cuCtxSetLimit");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc)
		rc = limit_check(at.call, limit);
	fc_lock();
	if (!rc)
		ctx->limit[limit] = value;
	fc_unlock();
	return fc_driver_leave(rc);
}

/* ---- peers ---------------------------------------------------------------------------------- */

/* Enters a call about access from the current context to that of another device. */
static cudaError_t context_peer(const char *call, CUcontext peer, struct fc_ctx **ctx,
				struct fc_device **dev)
{
	cudaError_t rc = fc_enter_ctx(call, ctx);
	int32_t ordinal = rc ? FC_NO_CONTEXT : fc_context_ordinal((*ctx)->proc, peer);

	if (!rc && ordinal == FC_NO_CONTEXT) {
		fc_report("%s: %p is not a context of this process", call, (void *)peer);
		rc = cudaErrorDeviceUninitialized;
	}
	if (!rc)
		*dev = (*ctx)->proc->device[ordinal];
	return rc;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuCtxEnablePeerAccess");
	struct fc_ctx *ctx;
	struct fc_device *dev;
	cudaError_t rc = context_peer(at.call, peerContext, &ctx, &dev);

	if (!rc && Flags)
		rc = cudaErrorInvalidValue;
	if (!rc && !fc_device_peers(ctx->dev, dev))
		rc = cudaErrorPeerAccessUnsupported;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	if (ctx->peers >> dev->dev & 1)
		rc = cudaErrorPeerAccessAlreadyEnabled;
	ctx->peers |= 1ull << dev->dev;
	fc_map_changed();
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	const struct fc_at at = FC_AT("cuCtxDisablePeerAccess");
	struct fc_ctx *ctx;
	struct fc_device *dev;
	cudaError_t rc = context_peer(at.call, peerContext, &ctx, &dev);

	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	if (!(ctx->peers >> dev->dev & 1))
		rc = cudaErrorPeerAccessNotEnabled;
	ctx->peers &= ~(1ull << dev->dev);
	fc_map_changed();
	fc_unlock();
	return fc_driver_leave(rc);
}
