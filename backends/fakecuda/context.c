/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts of the driver. A process has one context on each visible device, the primary one:
 *
 *    absent --(cuDevicePrimaryCtxRetain; a call of the runtime)----------------> active
 *    active --(the last cuDevicePrimaryCtxRelease; cuDevicePrimaryCtxReset)----> absent
 *
 * A task has at most one current context: that of its device (errors.c). The runtime makes its
 * device's context current by itself. A call of the driver without one fails with 201, and in a
 * context that is absent with 709. cuCtxCreate is not implemented.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

#define CONTEXT_API_VERSION 3020 /* measured, driver 580 */
#define CONTEXT_FLAGS       (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX)
#define NO_DEVICE           (-1)

struct fc_pushed {
	struct fc_pushed *next;
	uint32_t task;   /* the id of the task that pushed */
	int32_t ordinal; /* what was current before; NO_DEVICE: nothing */
};

/* ---- handles and the current context -------------------------------------------------------- */

int32_t fc_context_ordinal(const struct fc_proc *proc, CUcontext ctx)
{
	for (int32_t i = 0; i < proc->count; i++) {
		if ((const struct fc_primary *)ctx == &proc->primary[i])
			return i;
	}
	return NO_DEVICE;
}

static CUcontext context_handle(struct fc_proc *proc, int32_t ordinal)
{
	return ordinal == NO_DEVICE ? NULL : (CUcontext)&proc->primary[ordinal];
}

CUcontext fc_context_of(int32_t ordinal)
{
	struct fc_proc *proc = fc_proc_get();

	return proc && ordinal >= 0 && ordinal < proc->count ? context_handle(proc, ordinal) : NULL;
}

static int32_t context_current(void)
{
	return fc_task_has_context() ? fc_current() : NO_DEVICE;
}

static void context_set(int32_t ordinal)
{
	if (ordinal == NO_DEVICE)
		fc_task_drop_context();
	else
		fc_task_set_device(ordinal);
}

cudaError_t fc_context_enter(const char *call, struct fc_proc *proc)
{
	struct fc_primary *primary = &proc->primary[fc_current()];

	if (fc_call_is_runtime(call)) {
		fc_task_set_device(fc_current());
		primary->runtime = primary->active = true;
		return cudaSuccess;
	}
	if (!fc_task_has_context()) {
		fc_report("%s: this thread has no current context; expected cuCtxSetCurrent", call);
		return cudaErrorDeviceUninitialized;
	}
	if (!primary->active) {
		fc_report("%s: the current context, of device %d, was released or reset", call,
			  fc_current());
		return cudaErrorContextIsDestroyed;
	}
	return cudaSuccess;
}

void fc_contexts_end(struct fc_proc *proc)
{
	while (proc->pushed) {
		struct fc_pushed *p = proc->pushed;
		proc->pushed = p->next;
		free(p);
	}
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

/* Waits for the context's work and frees all that the process has on the device. After a sticky
 * error the wait fails, and only the end of the process helps; an H200 behaves the same. */
static void primary_destroy(struct fc_proc *proc, int32_t ordinal, const char *call)
{
	struct fc_ctx *ctx = proc->ctx[ordinal];
	cudaError_t rc = ctx ? fc_ctx_wait(ctx, call) : cudaSuccess;

	fc_lock();
	if (rc)
		ctx->sticky = cudaErrorDevicesUnavailable;
	else if (ctx)
		fc_ctx_reset(ctx);
	proc->primary[ordinal].active = proc->primary[ordinal].runtime = false;
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
		primary_destroy(proc, dev, at.call);
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
		primary_destroy(proc, dev, at.call);
	return fc_driver_leave(rc);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	const struct fc_at at = FC_AT("cuDevicePrimaryCtxSetFlags");
	struct fc_proc *proc;
	struct fc_primary *primary;
	CUresult rc = primary_enter(at.call, dev, &proc, &primary);
	const unsigned int sched = flags & CU_CTX_SCHED_MASK;

	if (!rc && (flags & ~(unsigned int)CONTEXT_FLAGS || (sched & (sched - 1)))) {
		fc_report("%s: flags 0x%x; expected one CU_CTX_SCHED, MAP_HOST, LMEM_RESIZE_TO_MAX",
			  at.call, flags);
		rc = CUDA_ERROR_INVALID_VALUE;
	}
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

/* Enters a call that takes a context. Sets *ordinal on success; NO_DEVICE for no context. */
static CUresult context_arg(const char *call, CUcontext ctx, struct fc_proc **proc,
			    int32_t *ordinal)
{
	cudaError_t rc = fc_enter(call, proc);

	if (rc)
		return (CUresult)rc;
	*ordinal = fc_context_ordinal(*proc, ctx);
	if (!ctx || *ordinal != NO_DEVICE)
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
		*pctx = context_handle(proc, context_current());
	return fc_driver_leave(rc);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	const struct fc_at at = FC_AT("cuCtxSetCurrent");
	struct fc_proc *proc;
	int32_t ordinal;
	CUresult rc = context_arg(at.call, ctx, &proc, &ordinal);

	if (!rc)
		context_set(ordinal);
	return fc_driver_leave(rc);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	const struct fc_at at = FC_AT("cuCtxPushCurrent");
	struct fc_proc *proc;
	int32_t ordinal;
	CUresult rc = context_arg(at.call, ctx, &proc, &ordinal);

	if (!rc && ordinal == NO_DEVICE)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	if (rc)
		return fc_driver_leave(rc);
	struct fc_pushed *p = malloc(sizeof *p);
	ASSERT(p);
	fc_lock();
	*p = (struct fc_pushed){proc->pushed, os_self()->id, context_current()};
	proc->pushed = p;
	fc_unlock();
	context_set(ordinal);
	return fc_driver_leave(cudaSuccess);
}

/* Removes and returns what the task pushed last; NULL: nothing. */
static struct fc_pushed *pushed_take(struct fc_proc *proc)
{
	struct fc_pushed **at = &proc->pushed;

	while (*at && (*at)->task != os_self()->id)
		at = &(*at)->next;
	struct fc_pushed *p = *at;
	if (p)
		*at = p->next;
	return p;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
	const struct fc_at at = FC_AT("cuCtxPopCurrent");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);
	const int32_t popped = context_current();

	if (!rc && popped == NO_DEVICE) {
		fc_report("%s: this thread has no current context", at.call);
		rc = cudaErrorDeviceUninitialized;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_pushed *p = pushed_take(proc);
	fc_unlock();
	context_set(p ? p->ordinal : NO_DEVICE);
	free(p);
	if (pctx)
		*pctx = context_handle(proc, popped);
	return fc_driver_leave(cudaSuccess);
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
		*device = fc_current();
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
		*flags = ctx->proc->primary[ctx->ordinal].flags;
	fc_unlock();
	return fc_driver_leave(rc);
}

/* NULL is the current context. */
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	const struct fc_at at = FC_AT("cuCtxGetApiVersion");
	struct fc_proc *proc;
	int32_t ordinal;
	CUresult rc = context_arg(at.call, ctx, &proc, &ordinal);

	if (!rc && !version)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc && ordinal == NO_DEVICE && !fc_task_has_context())
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
	int32_t ordinal = rc ? NO_DEVICE : fc_context_ordinal((*ctx)->proc, peer);

	if (!rc && ordinal == NO_DEVICE) {
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
