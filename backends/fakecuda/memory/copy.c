/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills. A copy is an operation of its stream. It books the GPU's copy engine for its
 * direction (between GPUs, the source's link). It moves the bytes when the last of them would have
 * arrived. Completion follows CUDA's "API synchronization behavior":
 *
 *   cudaMemcpy between host and device   returns when the bytes have moved
 *   cudaMemcpy within or between GPUs    returns immediately
 *   cudaMemcpyAsync, pinned host memory  returns immediately; the copy accesses host memory later
 *   cudaMemcpyAsync, plain host memory   to the device: copies up to 64 KiB before it returns, and
 *                                        waits for the copy if there is more;
 *                                        from the device: returns when the bytes have arrived
 *   cudaMemset                           returns immediately; for pinned host memory, when done
 *
 * CUDA silently accepts some wrong directions between host and device; the double does not.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#define COPY_STAGED_MAX (64u << 10)

/* ---- execution ------------------------------------------------------------------------------ */

static struct sim_resource *copy_engine(struct fc_op *op)
{
	struct fc_copy *c = &op->copy;
	if (op->kind == FC_OP_SET)
		return c->dst_dev ? &c->dst_dev->local : NULL;
	if (c->dst_dev && c->src_dev)
		return c->dst_dev == c->src_dev ? &c->src_dev->local : &c->src_dev->link;
	if (c->dst_dev)
		return &c->dst_dev->h2d;
	return c->src_dev ? &c->src_dev->d2h : NULL;
}

/* True if a device end of the running copy still exists. Otherwise reports it and kills the
 * context. */
static bool copy_end_alive(struct fc_op *op, struct fc_device *dev, uint64_t address,
			   const char *which)
{
	struct fc_ctx *ctx = op->stream->ctx;
	if ((!dev && !fc_vmm_has(address)) ||
	    fc_access_alloc(ctx->proc, dev, address, op->copy.bytes))
		return true;
	char near[384];
	fc_alloc_describe_nearest(address, near, sizeof near);
	fprintf(stderr,
		"fakecuda: illegal address: copy of %llu bytes in stream %u of gpu %u: its %s "
		"0x%llx "
		"is gone: %s\n",
		(unsigned long long)op->copy.bytes, op->stream->number, ctx->dev->index, which,
		(unsigned long long)address, near);
	fc_ctx_kill(ctx, cudaErrorIllegalAddress);
	return false;
}

/* Describes the copy engine's access for the memory model. */
static struct mem_access copy_access(uint64_t address, uint64_t bytes, enum shared_access op)
{
	return (struct mem_access){.addr = fc_alias_range(address, bytes),
				   .bytes = bytes,
				   .wake = (const void *)(uintptr_t)fc_home(address),
				   .op = op,
				   .order = SHARED_RELEASE,
				   .scope = SHARED_SYSTEM};
}

/* Fills with bytes, or with units of 2 or 4 bytes, little endian. */
static void copy_fill(uint8_t *to, const struct fc_copy *c)
{
	const uint32_t value = (uint32_t)c->value;

	if (c->unit <= 1) {
		memset(to, c->value, c->bytes);
		return;
	}
	for (uint64_t i = 0; i < c->bytes; i++)
		to[i] = (uint8_t)(value >> 8 * (i % c->unit));
}

/* Moves the bytes. A fill with zero narrows the destination to the bytes that it changed: most of a
 * new buffer was never written, and a report of its 200 MiB would look for waits in all of it. */
static void copy_move(struct fc_copy *c, bool set)
{
	struct mem_access from = copy_access(c->src, c->bytes, SHARED_RANGE_READ);
	struct mem_access to = copy_access(c->dst, c->bytes, SHARED_RANGE_WRITE);

	if (!set && !c->staged)
		mem_access(&from);
	mem_access(&to);
	if (set || c->staged)
		fc_shadow_write(c->dst, c->bytes);
	else
		fc_shadow_copy(c->dst, c->src, c->bytes);
	if (set && !c->value && fc_va_is_device(c->dst)) {
		fc_va_zero(&c->dst, &c->bytes);
	} else {
		fc_va_wrote(c->dst, c->bytes);
		if (set)
			copy_fill(fc_alias_range(c->dst, c->bytes), c);
		else
			memmove(fc_alias_range(c->dst, c->bytes),
				c->staged ? c->staged : fc_alias_range(c->src, c->bytes), c->bytes);
	}
	mem_wrote(&to);
}

/* Ends a copy when its last byte has arrived. Event context. */
static void copy_done(void *object, uint64_t serial)
{
	struct CUstream_st *s = object;
	fc_lock();
	if (!fc_stream_alive(s, serial)) {
		fc_unlock();
		return;
	}
	struct fc_op *op = s->head;
	ASSERT(op && op->running && (op->kind == FC_OP_COPY || op->kind == FC_OP_SET));
	struct fc_copy c = op->copy;
	bool alive = copy_end_alive(op, c.dst_dev, c.dst, "destination");
	if (alive && op->kind == FC_OP_COPY && !c.staged)
		alive = copy_end_alive(op, c.src_dev, c.src, "source");
	bool set = op->kind == FC_OP_SET;
	os_trace(set ? "cuda.set" : "cuda.copy", s->ctx->dev->index, s->number, c.bytes);
	if (os_tracing())
		fc_trace_copy(s, op);
	fc_unlock();
	mem_as(s);
	if (alive)
		copy_move(&c, set);
	if (alive)
		fc_wrote((void *)(uintptr_t)c.dst, c.bytes);
	fc_lock();
	if (fc_stream_alive(s, serial))
		fc_stream_op_done(s);
	fc_unlock();
	sim_events_drain();
}

void fc_copy_start(struct fc_op *op)
{
	struct fc_copy *c = &op->copy;
	op->started_ns = sim_now_ns();
	if (c->src_dev)
		fc_peermem_apply(c->src_dev, -1);
	if (c->dst_dev && c->dst_dev != c->src_dev)
		fc_peermem_apply(c->dst_dev, -1);
	struct sim_resource *engine = copy_engine(op);
	uint64_t delay_ns = engine ? sim_resource_use(engine, c->bytes) : 0;
	fc_fault_slow("cuda.copy", op->stream, &delay_ns);
	/* in `threads` only timers have a delay, and only faults delay a copy */
	bool timer = delay_ns && sim_engine_kind() == SIM_ENGINE_THREADS;
	struct sim_event_attr attr = {.name = "cuda.copy",
				      .kind = timer ? SIM_EVENT_TIMER : SIM_EVENT_WORK,
				      .delay_ns = delay_ns,
				      .order = op->stream};
	sim_event_post(&attr, copy_done, op->stream, op->stream->serial, NULL);
}

/* ---- calls ---------------------------------------------------------------------------------- */

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
	if (src_plain && !wait) {
		c->staged = malloc(c->bytes);
		if (!c->staged)
			return cudaErrorMemoryAllocation;
		memcpy(c->staged, (void *)(uintptr_t)c->src, c->bytes);
	}
	fc_copy_queue(s, FC_OP_COPY, c, call, caller);
	*wait_for = wait ? s->queued : 0;
	return cudaSuccess;
}

static cudaError_t copy_call(const char *call, uint64_t dst, uint64_t src, size_t bytes,
			     enum cudaMemcpyKind kind, cudaStream_t stream, bool sync,
			     const void *caller)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	if (rc || !bytes)
		return fc_leave(rc);
	struct fc_copy c = {.dst = dst, .src = src, .bytes = bytes};
	uint64_t wait_for = 0;
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	rc = s ? fc_capture_check(s, call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = fc_copy_resolve(ctx, call, kind, &c);
	if (!rc && s->capture) {
		const struct fc_work work = {.type = cudaGraphNodeTypeMemcpy, .copy = {c, kind}};
		fc_capture_add(s, &work, call, caller);
	} else if (!rc) {
		rc = copy_queue(ctx, s, &c, sync, &wait_for, call, caller);
	}
	fc_unlock();
	if (!rc && wait_for)
		rc = fc_stream_wait(s, wait_for, call);
	return fc_leave(rc);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	return copy_call("cudaMemcpy", (uintptr_t)dst, (uintptr_t)src, count, kind, NULL, true,
			 __builtin_return_address(0));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return copy_call("cudaMemcpyAsync", (uintptr_t)dst, (uintptr_t)src, count, kind, stream,
			 false, __builtin_return_address(0));
}

/* Copies between devices. Checks that the pointers are on the devices that the program passed. */
static cudaError_t copy_peer_call(const char *call, void *dst, int dst_device, const void *src,
				  int src_device, size_t bytes, cudaStream_t stream, bool sync,
				  const void *caller)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(call, &proc);
	if (rc)
		return fc_leave(rc);
	if (dst_device < 0 || dst_device >= proc->count || src_device < 0 ||
	    src_device >= proc->count) {
		fc_report("%s: devices %d and %d, this process has %d", call, dst_device,
			  src_device, proc->count);
		return fc_leave(cudaErrorInvalidDevice);
	}
	struct fc_device *on_dst = fc_device_at((uintptr_t)dst);
	struct fc_device *on_src = fc_device_at((uintptr_t)src);
	if (bytes && (on_dst != proc->device[dst_device] || on_src != proc->device[src_device])) {
		fc_report("%s: a pointer is not on the device named for it", call);
		return fc_leave(cudaErrorInvalidValue);
	}
	return copy_call(call, (uintptr_t)dst, (uintptr_t)src, bytes, cudaMemcpyDeviceToDevice,
			 stream, sync, caller);
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	return copy_peer_call("cudaMemcpyPeer", dst, dstDevice, src, srcDevice, count, NULL, true,
			      __builtin_return_address(0));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
				size_t count, cudaStream_t stream)
{
	return copy_peer_call("cudaMemcpyPeerAsync", dst, dstDevice, src, srcDevice, count, stream,
			      false, __builtin_return_address(0));
}

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

static void set_capture(struct CUstream_st *s, const struct fc_copy *c, const char *call,
			const void *caller)
{
	const struct fc_work work = {.type = cudaGraphNodeTypeMemset,
				     .fill = {.dst = c->dst,
					      .value = (uint32_t)c->value,
					      .unit = 1,
					      .width = c->bytes,
					      .height = 1}};

	fc_capture_add(s, &work, call, caller);
}

static cudaError_t set_call(const char *call, void *ptr, int value, size_t bytes,
			    cudaStream_t stream, bool sync, const void *caller)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	if (rc || !bytes)
		return fc_leave(rc);
	struct fc_copy c = {.dst = (uintptr_t)ptr, .bytes = bytes, .value = value & 0xff};
	uint64_t wait_for = 0;
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	rc = s ? fc_capture_check(s, call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = fc_fill_resolve(ctx, call, &c);
	if (!rc && s->capture) {
		set_capture(s, &c, call, caller);
	} else if (!rc) {
		fc_copy_queue(s, FC_OP_SET, &c, call, caller);
		wait_for = sync && !c.dst_dev ? s->queued : 0;
	}
	fc_unlock();
	if (!rc && wait_for)
		rc = fc_stream_wait(s, wait_for, call);
	return fc_leave(rc);
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
	return set_call("cudaMemset", devPtr, value, count, NULL, true,
			__builtin_return_address(0));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	return set_call("cudaMemsetAsync", devPtr, value, count, stream, false,
			__builtin_return_address(0));
}
