/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's calls that copy and fill memory. copy.c executes them and has their rules. */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define COPY_STAGED_MAX (64u << 10)
/* A variant whose stream is the calling thread's own one: entry/per_thread.c. */
#define PER_THREAD(name, ...)                                                                      \
	FAKECUDA_API CUresult name(__VA_ARGS__);                                                   \
	CUresult name(__VA_ARGS__)

/* ---- copies --------------------------------------------------------------------------------- */

static const char *const copy_kind_names[] = {"cudaMemcpyHostToHost", "cudaMemcpyHostToDevice",
					      "cudaMemcpyDeviceToHost", "cudaMemcpyDeviceToDevice"};

static bool copy_is_pageable(struct fc_proc *proc, bool device, uint64_t address, uint64_t bytes)
{
	return !device && !fc_host_is_pinned(proc, address, bytes);
}

/* An end that the direction has on a GPU must not be pageable memory. An H200 takes every other
 * direction, and moves the bytes by the pointers. */
static cudaError_t copy_check_kind(struct fc_proc *proc, const char *call, enum cudaMemcpyKind kind,
				   const struct fc_copy *c)
{
	bool dst_dev = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	bool src_dev = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

	if ((unsigned)kind > cudaMemcpyDefault) {
		fc_report("%s: invalid direction %d", call, (int)kind);
		return cudaErrorInvalidMemcpyDirection;
	}
	bool dst_wrong = dst_dev && copy_is_pageable(proc, c->dst_dev, c->dst, c->bytes);
	if (!dst_wrong && !(src_dev && copy_is_pageable(proc, c->src_dev, c->src, c->bytes)))
		return cudaSuccess;
	fc_report("%s: %s, but the %s 0x%llx is pageable host memory", call, copy_kind_names[kind],
		  dst_wrong ? "destination" : "source",
		  (unsigned long long)(dst_wrong ? c->dst : c->src));
	return cudaErrorInvalidValue;
}

cudaError_t fc_copy_resolve(struct fc_ctx *ctx, const char *call, enum cudaMemcpyKind kind,
			    struct fc_copy *c)
{
	if (!c->dst || !c->src) {
		fc_report("%s: the %s is NULL", call, c->dst ? "source" : "destination");
		return cudaErrorInvalidValue;
	}
	cudaError_t rc =
		fc_access_copy(ctx->proc, call, "destination", c->dst, c->bytes, &c->dst_dev);
	if (!rc)
		rc = fc_access_copy(ctx->proc, call, "source", c->src, c->bytes, &c->src_dev);
	if (!rc)
		rc = copy_check_kind(ctx->proc, call, kind, c);
	return rc;
}

/* Declares to use.c the memory at both ends of the operation queued last. */
static void copy_uses(struct CUstream_st *s, const struct fc_copy *c, const char *call,
		      const void *caller)
{
	fc_use_range(s, c->dst, c->bytes, true, caller, call);
	if (c->src && !c->staged)
		fc_use_range(s, c->src, c->bytes, false, caller, call);
}

struct fc_op *fc_copy_queue(struct CUstream_st *s, enum fc_op_kind kind, const struct fc_copy *c,
			    const char *call, const void *caller)
{
	struct fc_op *op = fc_op_new(kind, FC_COPY_NS);

	op->copy = *c;
	fc_stream_queue(s, op);
	copy_uses(s, c, call, caller);
	return op;
}

/* Queues a copy. *wait_for: the number of operations for which the call must wait; 0: none. */
static cudaError_t copy_queue(struct fc_ctx *ctx, struct CUstream_st *s, struct fc_copy *c,
			      bool sync, uint64_t *wait_for, const char *call, const void *caller)
{
	bool src_plain = !c->src_dev && !fc_host_is_pinned(ctx->proc, c->src, c->bytes);
	bool dst_plain = !c->dst_dev && !fc_host_is_pinned(ctx->proc, c->dst, c->bytes);
	bool wait = sync ? !(c->src_dev && c->dst_dev)
			 : dst_plain || (src_plain && c->bytes > COPY_STAGED_MAX);
	if (src_plain && !wait && !c->staged) {
		c->staged = malloc(c->bytes);
		if (!c->staged)
			return cudaErrorMemoryAllocation;
		memcpy(c->staged, (void *)(uintptr_t)c->src, c->bytes);
	}
	fc_copy_queue(s, FC_OP_COPY, c, call, caller);
	*wait_for = wait ? s->queued : 0;
	return cudaSuccess;
}

cudaError_t fc_copy_async(struct fc_ctx *ctx, struct CUstream_st *s, struct fc_copy *c,
			  uint64_t *wait_for, const struct fc_at *at)
{
	return copy_queue(ctx, s, c, false, wait_for, at->call, at->caller);
}

static CUresult copy_call(const struct fc_at *at, uint64_t dst, uint64_t src, size_t bytes,
			  enum cudaMemcpyKind kind, CUstream stream, bool sync)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);
	if (rc || !bytes)
		return fc_driver_leave(rc);
	struct fc_copy c = {.dst = dst, .src = src, .bytes = bytes};
	uint64_t wait_for = 0;
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, at->call);
	rc = s ? fc_capture_check(s, at->call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = fc_copy_resolve(ctx, at->call, kind, &c);
	if (!rc && s->capture) {
		const struct fc_work work = {.type = cudaGraphNodeTypeMemcpy, .copy = {c, kind}};
		fc_capture_add(s, &work, at->call, at->caller);
	} else if (!rc) {
		rc = copy_queue(ctx, s, &c, sync, &wait_for, at->call, at->caller);
	}
	fc_unlock();
	if (!rc && wait_for)
		rc = fc_stream_wait(s, wait_for, at->call);
	return fc_driver_leave(rc);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpy");

	return copy_call(&at, dst, src, ByteCount, cudaMemcpyDefault, NULL, true);
}

PER_THREAD(cuMemcpy_ptds, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpy");

	return copy_call(&at, dst, src, ByteCount, cudaMemcpyDefault, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyHtoD");

	return copy_call(&at, dstDevice, (uintptr_t)srcHost, ByteCount, cudaMemcpyHostToDevice,
			 NULL, true);
}

PER_THREAD(cuMemcpyHtoD_v2_ptds, CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyHtoD");

	return copy_call(&at, dstDevice, (uintptr_t)srcHost, ByteCount, cudaMemcpyHostToDevice,
			 CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoH");

	return copy_call(&at, (uintptr_t)dstHost, srcDevice, ByteCount, cudaMemcpyDeviceToHost,
			 NULL, true);
}

PER_THREAD(cuMemcpyDtoH_v2_ptds, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoH");

	return copy_call(&at, (uintptr_t)dstHost, srcDevice, ByteCount, cudaMemcpyDeviceToHost,
			 CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoD");

	return copy_call(&at, dstDevice, srcDevice, ByteCount, cudaMemcpyDeviceToDevice, NULL,
			 true);
}

PER_THREAD(cuMemcpyDtoD_v2_ptds, CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoD");

	return copy_call(&at, dstDevice, srcDevice, ByteCount, cudaMemcpyDeviceToDevice,
			 CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyAsync");

	return copy_call(&at, dst, src, ByteCount, cudaMemcpyDefault, hStream, false);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
			   CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyHtoDAsync");

	return copy_call(&at, dstDevice, (uintptr_t)srcHost, ByteCount, cudaMemcpyHostToDevice,
			 hStream, false);
}

CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoHAsync");

	return copy_call(&at, (uintptr_t)dstHost, srcDevice, ByteCount, cudaMemcpyDeviceToHost,
			 hStream, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
			   CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyDtoDAsync");

	return copy_call(&at, dstDevice, srcDevice, ByteCount, cudaMemcpyDeviceToDevice, hStream,
			 false);
}

/* A copy between contexts, and what the program passed. */
struct copy_peer {
	uint64_t dst, src;
	CUcontext dst_context, src_context;
};

/* Checks that the pointers are on the devices of their contexts. */
static cudaError_t copy_peer_check(const char *call, const struct fc_proc *proc,
				   const struct copy_peer *c)
{
	const int32_t dst = fc_context_ordinal(proc, c->dst_context);
	const int32_t src = fc_context_ordinal(proc, c->src_context);

	if (dst < 0 || src < 0) {
		fc_report("%s: the %s context is not one of this process", call,
			  dst < 0 ? "destination" : "source");
		return cudaErrorDeviceUninitialized;
	}
	if (fc_device_at(c->dst) == proc->device[dst] && fc_device_at(c->src) == proc->device[src])
		return cudaSuccess;
	fc_report("%s: a pointer is not on the device named for it", call);
	return cudaErrorInvalidValue;
}

/* Two entries would visit the fault site twice, so the first one enters quietly. */
static CUresult copy_peer_call(const struct fc_at *at, const struct copy_peer *c, size_t bytes,
			       CUstream stream, bool sync)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter_quiet(at->call, &proc);

	if (!rc && bytes)
		rc = copy_peer_check(at->call, proc, c);
	if (rc)
		return fc_driver_leave(rc);
	return copy_call(at, c->dst, c->src, bytes, cudaMemcpyDeviceToDevice, stream, sync);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
		      CUcontext srcContext, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyPeer");
	const struct copy_peer c = {dstDevice, srcDevice, dstContext, srcContext};

	return copy_peer_call(&at, &c, ByteCount, NULL, true);
}

PER_THREAD(cuMemcpyPeer_ptds, CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	   CUcontext srcContext, size_t ByteCount)
{
	const struct fc_at at = FC_AT("cuMemcpyPeer");
	const struct copy_peer c = {dstDevice, srcDevice, dstContext, srcContext};

	return copy_peer_call(&at, &c, ByteCount, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			   CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyPeerAsync");
	const struct copy_peer c = {dstDevice, srcDevice, dstContext, srcContext};

	return copy_peer_call(&at, &c, ByteCount, hStream, false);
}

/* ---- fills ---------------------------------------------------------------------------------- */

cudaError_t fc_fill_resolve(struct fc_ctx *ctx, const char *call, struct fc_copy *c)
{
	cudaError_t rc =
		fc_access_copy(ctx->proc, call, "destination", c->dst, c->bytes, &c->dst_dev);

	if (!rc && !c->dst_dev && !fc_host_is_pinned(ctx->proc, c->dst, c->bytes)) {
		fc_report("%s: 0x%llx is host memory that is not pinned", call,
			  (unsigned long long)c->dst);
		rc = cudaErrorInvalidValue;
	}
	return rc;
}

static void set_capture(struct CUstream_st *s, const struct fc_copy *c, const struct fc_at *at)
{
	const struct fc_work work = {.type = cudaGraphNodeTypeMemset,
				     .fill = {.dst = c->dst,
					      .value = (uint32_t)c->value,
					      .unit = c->unit,
					      .width = c->bytes / c->unit,
					      .height = 1}};

	fc_capture_add(s, &work, at->call, at->caller);
}

/* Fills `count` units; the address has their alignment. */
static CUresult set_call(const struct fc_at *at, struct fc_copy c, size_t count, CUstream stream,
			 bool sync)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);
	if (!rc && (c.dst % c.unit || count > SIZE_MAX / c.unit))
		rc = cudaErrorInvalidValue;
	if (rc || !count)
		return fc_driver_leave(rc);
	c.bytes = count * c.unit;
	uint64_t wait_for = 0;
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, at->call);
	rc = s ? fc_capture_check(s, at->call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = fc_fill_resolve(ctx, at->call, &c);
	if (!rc && s->capture) {
		set_capture(s, &c, at);
	} else if (!rc) {
		fc_copy_queue(s, FC_OP_SET, &c, at->call, at->caller);
		wait_for = sync && !c.dst_dev ? s->queued : 0;
	}
	fc_unlock();
	if (!rc && wait_for)
		rc = fc_stream_wait(s, wait_for, at->call);
	return fc_driver_leave(rc);
}

CUresult cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD8");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)uc, .unit = 1};

	return set_call(&at, c, N, NULL, true);
}

PER_THREAD(cuMemsetD8_v2_ptds, CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD8");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)uc, .unit = 1};

	return set_call(&at, c, N, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemsetD8Async");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)uc, .unit = 1};

	return set_call(&at, c, N, hStream, false);
}

CUresult cuMemsetD16(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD16");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)us, .unit = 2};

	return set_call(&at, c, N, NULL, true);
}

PER_THREAD(cuMemsetD16_v2_ptds, CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD16");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)us, .unit = 2};

	return set_call(&at, c, N, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemsetD16Async");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)us, .unit = 2};

	return set_call(&at, c, N, hStream, false);
}

CUresult cuMemsetD32(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD32");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)ui, .unit = 4};

	return set_call(&at, c, N, NULL, true);
}

PER_THREAD(cuMemsetD32_v2_ptds, CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	const struct fc_at at = FC_AT("cuMemsetD32");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)ui, .unit = 4};

	return set_call(&at, c, N, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemsetD32Async");
	const struct fc_copy c = {.dst = dstDevice, .value = (int)ui, .unit = 4};

	return set_call(&at, c, N, hStream, false);
}
