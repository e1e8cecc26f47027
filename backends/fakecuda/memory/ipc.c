/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC of device memory. A handle refers to an allocation of a GPU of this world. Opening it returns
 * the exporter's address, because all simulated processes share one address space, and real ones
 * have different addresses (ipc_share.c). Only a process that opened the handle may use that
 * address. Opening fails for a handle from another host, from the opening process itself (as in
 * CUDA), or of freed memory.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define IPC_MAGIC 0x1bcfa4ec0da00001ull

static uint32_t ipc_proc(const struct os_proc *proc)
{
	return fc_share_on() ? world_config()->share.process : proc->id;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	const struct fc_at at = FC_AT("cuIpcGetMemHandle");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && !pHandle)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_device *dev = fc_device_at(dptr);
	struct fc_alloc *a = dev ? fc_access_alloc(ctx->proc, dev, dptr, 1) : NULL;
	if (!a || a->vmm || a->pooled || a->proc != ctx->proc->os->id) {
		fc_report(
			"%s: 0x%llx is not device memory that this process allocated by cudaMalloc",
			at.call, dptr);
		rc = cudaErrorInvalidValue;
	} else {
		struct fc_ipc_handle h = {.magic = IPC_MAGIC,
					  .base = a->base,
					  .bytes = a->bytes,
					  .host = dev->host,
					  .proc = ipc_proc(ctx->proc->os),
					  .device = dev->index,
					  .number = a->number};
		if (fc_share_on() && !fc_export(at.call, dev, a, &h))
			rc = cudaErrorMemoryAllocation;
		else
			memcpy(pHandle, &h, sizeof h);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

/* Checks that the process may open this handle; reports an error. The caller holds fc_lock. */
static cudaError_t ipc_check(const char *call, struct fc_ctx *ctx, const struct fc_ipc_handle *h,
			     struct fc_alloc **a)
{
	struct os_proc *self = ctx->proc->os;
	if (h->magic != IPC_MAGIC || h->device >= fc.device_count) {
		fc_report("%s: invalid IPC handle", call);
		return cudaErrorInvalidValue;
	}
	if (h->host != self->host) {
		fc_report("%s: the handle is of host %u, this process runs on "
			  "host %u",
			  call, h->host, self->host);
		return cudaErrorInvalidResourceHandle;
	}
	if (h->proc == ipc_proc(self)) {
		fc_report("%s: the handle was made by this process itself", call);
		return cudaErrorDeviceUninitialized;
	}
	if (fc_share_on())
		return fc_import(call, h, a);
	*a = fc_alloc_by_number(&fc.device[h->device], h->number);
	if (!*a || (*a)->base != h->base || (*a)->proc != h->proc || (*a)->freed) {
		fc_report("%s: gpu %u #%u was freed since the handle was made", call, h->device,
			  h->number);
		return cudaErrorInvalidResourceHandle;
	}
	return cudaSuccess;
}

static void ipc_open_add(struct fc_ctx *ctx, struct fc_device *dev, struct fc_alloc *a)
{
	struct fc_ipc_open **at = &ctx->proc->open;
	while (*at && !((*at)->device == dev->index && (*at)->number == a->number))
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof **at);
		ASSERT(*at);
		(*at)->device = dev->index;
		(*at)->number = a->number;
		(*at)->base = a->base;
		a->opens++;
	}
	(*at)->count++;
	if (dev != ctx->dev)
		ctx->peers |= 1ull << dev->dev;
	fc_map_changed();
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuIpcOpenMemHandle");
	struct fc_ctx *ctx;
	struct fc_ipc_handle h;
	struct fc_alloc *a = NULL;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	if (!pdptr || Flags != cudaIpcMemLazyEnablePeerAccess) {
		fc_report("%s: flags must be cudaIpcMemLazyEnablePeerAccess", at.call);
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	if (OS_BUGGIFY("cuda.ipc_open_waits",
		       "cudaIpcOpenMemHandle waits for the context's work, as it may") ||
	    fc_waits_always()) {
		rc = fc_ctx_wait(ctx, at.call);
		if (rc)
			return fc_driver_leave(rc);
	}
	memcpy(&h, &handle, sizeof h);
	fc_lock();
	rc = ipc_check(at.call, ctx, &h, &a);
	if (!rc)
		ipc_open_add(ctx, &fc.device[h.device], a);
	fc_unlock();
	if (!rc)
		*pdptr = h.base;
	return fc_driver_leave(rc);
}

void fc_ipc_drop(struct fc_proc *proc, struct fc_ipc_open *open)
{
	struct fc_ipc_open **at = &proc->open;
	while (*at != open)
		at = &(*at)->next;
	*at = open->next;
	struct fc_device *dev = &fc.device[open->device];
	struct fc_alloc *a = fc_alloc_by_number(dev, open->number);
	ASSERT(a);
	fc_alloc_release(dev, a);
	fc_map_changed();
	fc_clock_free(&open->used);
	free(open);
}

static struct fc_ipc_open *ipc_open_find(struct fc_proc *proc, uint64_t base)
{
	struct fc_ipc_open *o = proc->open;

	while (o && o->base != base)
		o = o->next;
	return o;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	const struct fc_at at = FC_AT("cuIpcCloseMemHandle");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!ctx)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_ipc_open *o = ipc_open_find(ctx->proc, dptr);
	if (o && o->count == 1 && !ctx->sticky)
		fc_use_unmap(ctx->proc,
			     &(struct fc_use_mapping){at.call, &fc.device[o->device], o->number,
						      &o->used},
			     at.caller);
	fc_unlock();
	cudaError_t waited = fc_ctx_wait(ctx, at.call);
	rc = rc ? rc : waited;
	fc_lock();
	o = ipc_open_find(ctx->proc, dptr);
	if (!o) {
		fc_misuse("%s: 0x%llx was not opened here", at.call, dptr);
		rc = cudaErrorInvalidValue;
	} else if (--o->count == 0) {
		fc_ipc_drop(ctx->proc, o);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}
