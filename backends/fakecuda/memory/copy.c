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
	} else if (!set && !c->staged) {
		fc_va_move(c->dst, c->src, c->bytes);
	} else {
		fc_va_wrote(c->dst, c->bytes);
		if (set)
			copy_fill(fc_alias_range(c->dst, c->bytes), c);
		else
			memcpy(fc_alias_range(c->dst, c->bytes), c->staged, c->bytes);
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
