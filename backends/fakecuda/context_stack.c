/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack of current contexts of each task, and contexts that a program creates and destroys:
 *
 *    absent --(cuCtxCreate, which pushes it)--> active --(cuCtxDestroy)--> absent
 *
 * Such a context has streams, events, memory, limits and a sticky error of its own. Kernels can
 * access the memory of other contexts of their device. A slot is used again only if all were used.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

struct fc_pushed {
	struct fc_pushed *next;
	uint32_t task; /* the id of the task that pushed */
	int32_t slot;  /* of the context before; FC_NO_CONTEXT: no context */
};

void fc_contexts_end(struct fc_proc *proc)
{
	while (proc->pushed) {
		struct fc_pushed *p = proc->pushed;
		proc->pushed = p->next;
		free(p);
	}
}

/* ---- push and pop --------------------------------------------------------------------------- */

static void context_push(struct fc_proc *proc, int32_t slot)
{
	struct fc_pushed *p = malloc(sizeof *p);

	ASSERT(p);
	fc_lock();
	*p = (struct fc_pushed){proc->pushed, os_self()->id, fc_context_current()};
	proc->pushed = p;
	fc_unlock();
	fc_context_set(slot);
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

/* Makes the context current that was current before the last push; none without one. */
static void context_pop(struct fc_proc *proc)
{
	fc_lock();
	struct fc_pushed *p = pushed_take(proc);
	fc_unlock();
	fc_context_set(p ? p->slot : FC_NO_CONTEXT);
	free(p);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	const struct fc_at at = FC_AT("cuCtxPushCurrent");
	struct fc_proc *proc;
	int32_t slot;
	CUresult rc = fc_context_arg(at.call, ctx, &proc, &slot);

	if (!rc && slot == FC_NO_CONTEXT)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	if (!rc)
		context_push(proc, slot);
	return fc_driver_leave(rc);
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
	const struct fc_at at = FC_AT("cuCtxPopCurrent");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);
	const int32_t popped = fc_context_current();

	if (!rc && popped == FC_NO_CONTEXT) {
		fc_report("%s: this thread has no current context", at.call);
		rc = cudaErrorDeviceUninitialized;
	}
	if (rc)
		return fc_driver_leave(rc);
	context_pop(proc);
	if (pctx)
		*pctx = fc_context_handle(proc, popped);
	return fc_driver_leave(cudaSuccess);
}

/* ---- create and destroy --------------------------------------------------------------------- */

/* Returns a slot for a new context; FC_NO_CONTEXT: all are in use. The caller holds fc_lock. */
static int32_t slot_new(struct fc_proc *proc)
{
	if (proc->slots < FC_MAX_SLOTS)
		return proc->slots++;
	for (int32_t i = proc->count; i < proc->slots; i++)
		if (!proc->primary[i].active && !proc->ctx[i])
			return i;
	return FC_NO_CONTEXT;
}

CUresult cuCtxCreate(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
		     CUdevice dev)
{
	const struct fc_at at = FC_AT("cuCtxCreate");
	struct fc_proc *proc;
	CUresult rc = (CUresult)fc_enter(at.call, &proc);

	if (!rc && (dev < 0 || dev >= proc->count)) {
		fc_report("%s: device %d, this process has %d", at.call, dev, proc->count);
		rc = CUDA_ERROR_INVALID_DEVICE;
	}
	if (!rc && !pctx)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc && ctxCreateParams) {
		fc_report("%s: parameters are not implemented; expected NULL", at.call);
		rc = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!rc)
		rc = fc_context_flags(at.call, flags);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	const int32_t slot = slot_new(proc);
	if (slot != FC_NO_CONTEXT) {
		proc->primary[slot] =
			(struct fc_primary){.active = true, .device = dev, .flags = flags};
		(void)fc_ctx_get(proc, slot);
	}
	fc_unlock();
	if (slot == FC_NO_CONTEXT) {
		fc_report("%s: the process has %d contexts", at.call, FC_MAX_SLOTS);
		return fc_driver_leave(cudaErrorMemoryAllocation);
	}
	context_push(proc, slot);
	*pctx = fc_context_handle(proc, slot);
	return fc_driver_leave(cudaSuccess);
}

/* Frees pinned and managed memory of the context. */
static void context_free_host(struct fc_proc *proc, int32_t slot)
{
	for (uint32_t i = proc->host_count; i-- > 0;) {
		struct fc_host_range *r = &proc->host[i];
		const struct fc_host_range gone = *r;

		if (r->slot != slot)
			continue;
		fc_host_remove(proc, r);
		if (!gone.registered)
			fc_host_delete((void *)(uintptr_t)gone.base, gone.bytes);
	}
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	const struct fc_at at = FC_AT("cuCtxDestroy");
	struct fc_proc *proc;
	int32_t slot;
	CUresult rc = fc_context_arg(at.call, ctx, &proc, &slot);

	if (!rc && (slot < proc->count || !proc->primary[slot].active)) {
		fc_report("%s: %p is not a context that cuCtxCreate made and that exists", at.call,
			  (void *)ctx);
		rc = CUDA_ERROR_INVALID_CONTEXT;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_context_destroy(proc, slot, at.call);
	fc_lock();
	context_free_host(proc, slot);
	fc_unlock();
	if (fc_context_current() == slot)
		context_pop(proc);
	return fc_driver_leave(cudaSuccess);
}
