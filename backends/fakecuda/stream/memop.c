/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream memory operations: a stream writes a word, or waits for one. A write is an event. A wait
 * is a task of its own, as that of a callback, so the engine wakes it by any write of the word, and
 * the hang explainer shows address and value:
 *
 *    queued --(write)---> memop_done -----------------------> done
 *    queued --(wait)----> task, until the word has the value -> done
 *
 * The results are those of the documentation; none was compared with a GPU.
 */
#include "backends/fakecuda/fakecuda.h"

#include <errno.h>

#include "sim/world/program/world_guest.h"

/* ---- execution ------------------------------------------------------------------------------ */

/* True if the word still exists. Otherwise reports it and kills the context. */
static bool memop_alive(const struct fc_op *op)
{
	const struct fc_memop *m = &op->memop;
	struct fc_ctx *ctx = op->stream->ctx;
	struct fc_device *dev = fc_device_at(m->address);
	char near[384];

	if (m->what == FC_MEMOP_BARRIER || ctx->sticky)
		return !ctx->sticky;
	if (dev || fc_vmm_has(m->address)
		    ? fc_access_alloc(ctx->proc, dev, m->address, m->bytes) != NULL
		    : fc_host_is_pinned(ctx->proc, m->address, m->bytes))
		return true;
	fc_alloc_describe_nearest(m->address, near, sizeof near);
	fprintf(stderr,
		"fakecuda: illegal address: memory operation in stream %u of gpu %u: the word "
		"0x%llx is gone: %s\n",
		op->stream->number, ctx->dev->index, (unsigned long long)m->address, near);
	fc_ctx_kill(ctx, cudaErrorIllegalAddress);
	return false;
}

static void memop_write(const struct fc_memop *m)
{
	void *at = fc_alias(m->address);
	const struct mem_access a = {.addr = at,
				     .bytes = m->bytes,
				     .wake = (const void *)(uintptr_t)fc_home(m->address),
				     .op = SHARED_RANGE_WRITE,
				     .order = SHARED_RELEASE,
				     .scope = SHARED_SYSTEM};

	fc_shadow_write(m->address, m->bytes);
	fc_va_wrote(m->address, m->bytes);
	mem_access(&a);
	if (m->bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)m->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)at, m->value, __ATOMIC_RELEASE);
	mem_wrote(&a);
	fc_wrote((const void *)(uintptr_t)m->address, m->bytes);
}

/* Ends a write or a barrier. Event context. */
static void memop_done(void *object, uint64_t serial)
{
	struct CUstream_st *s = object;

	fc_lock();
	if (!fc_stream_alive(s, serial)) {
		fc_unlock();
		return;
	}
	struct fc_op *op = s->head;
	ASSERT(op && op->running && op->kind == FC_OP_MEMOP);
	const struct fc_memop m = op->memop;
	const bool writes = memop_alive(op) && m.what == FC_MEMOP_WRITE;
	os_trace("cuda.memop", s->ctx->dev->index, s->number, m.bytes);
	fc_unlock();
	mem_as(s);
	if (writes)
		memop_write(&m);
	fc_lock();
	if (fc_stream_alive(s, serial))
		fc_stream_op_done(s);
	fc_unlock();
	sim_events_drain();
}

/* Describes the wait as data. AND and NOR compare some bits of the word. */
static struct wait memop_wait(const struct fc_memop *m, const char *why)
{
	const uint64_t bits = m->bytes == 4 ? UINT32_MAX : UINT64_MAX;
	struct wait w = {.on = (const void *)(uintptr_t)fc_home(m->address),
			 .want = m->value,
			 .mask = bits,
			 .kind = m->test == CU_STREAM_WAIT_VALUE_EQ ? WAIT_EQ : WAIT_GE_CYCLIC,
			 .bytes = m->bytes,
			 .why = why,
			 .from = {-1, -1, -1, NULL}};

	if (m->test == CU_STREAM_WAIT_VALUE_AND) {
		w.kind = WAIT_NE;
		w.mask = m->value;
		w.want = 0;
	} else if (m->test == CU_STREAM_WAIT_VALUE_NOR) {
		w.kind = WAIT_NE;
		w.mask = w.want = ~m->value & bits;
	}
	return w;
}

static void memop_wait_main(void *arg)
{
	static const char *const names[] = {"GEQ", "EQ", "AND", "NOR"};
	struct fc_op *op = arg;
	struct CUstream_st *s = op->stream;
	const struct fc_memop *m = &op->memop;
	char why[96];

	mem_acquire(op);
	snprintf(why, sizeof why, "stream %u of gpu %u, word 0x%llx %s 0x%llx", s->number,
		 s->ctx->dev->index, (unsigned long long)m->address, names[m->test],
		 (unsigned long long)m->value);
	const struct wait w = memop_wait(m, why);
	/* fails only if the context died: fc_memop_kill */
	int rc = os_wait_one(&w, &op->memop.over);
	ASSERT(rc == 0 || rc == ECANCELED);
	fc_lock();
	fc_stream_op_done(s);
	fc_unlock();
	sim_events_drain();
}

static void memop_wait_spawn(struct fc_op *op)
{
	const int32_t gpu = (int32_t)op->stream->ctx->dev->index;
	struct sim_task *task;
	const struct sim_task_attr attr = {.name = "cuda stream wait",
					   .kind = SIM_TASK_WARP,
					   .proc = op->stream->ctx->proc->os,
					   .rank = op->rank,
					   .device = gpu,
					   .kernel = -1,
					   .block = -1,
					   .warp = -1,
					   .lane = -1,
					   .home = (uint32_t)gpu};

	mem_release(op);
	int rc = sim_task_spawn(&task, &attr, memop_wait_main, op);
	ASSERT(rc == 0);
}

void fc_memop_start(struct fc_op *op)
{
	struct fc_device *dev = fc_device_at(op->memop.address);
	const struct sim_event_attr attr = {
		.name = "cuda.memop", .kind = SIM_EVENT_WORK, .order = op->stream};

	if (dev)
		fc_peermem_apply(dev, -1);
	if (op->memop.what == FC_MEMOP_WAIT && memop_alive(op))
		memop_wait_spawn(op);
	else
		sim_event_post(&attr, memop_done, op->stream, op->stream->serial, NULL);
}

void fc_memop_kill(struct fc_op *op)
{
	__atomic_store_n(&op->memop.over.v_, 1, __ATOMIC_RELEASE);
	sim_wrote(&op->memop.over, sizeof op->memop.over);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static cudaError_t memop_refuse(const char *call, cudaError_t error, const char *why)
{
	fc_report("%s: %s", call, why);
	return error;
}

/* Completes *m, whose address, size and value are set. */
static cudaError_t memop_decode_word(const char *call, unsigned int flags, bool writes,
				     struct fc_memop *m)
{
	m->what = writes ? FC_MEMOP_WRITE : FC_MEMOP_WAIT;
	if (!writes && flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return memop_refuse(call, cudaErrorNotSupported,
				    "the GPU cannot flush remote writes "
				    "(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0)");
	/* the second version knows no CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER */
	if (flags > (writes ? CU_STREAM_WRITE_VALUE_DEFAULT : CU_STREAM_WAIT_VALUE_NOR))
		return memop_refuse(call, cudaErrorInvalidValue, "unknown flags");
	m->test = writes ? 0 : (uint8_t)flags;
	if (!m->address || m->address % m->bytes)
		return memop_refuse(call, cudaErrorInvalidValue,
				    "the address is NULL, or not a multiple of the word's size");
	return cudaSuccess;
}

/* Checks the operation and translates it. */
static cudaError_t memop_decode(const char *call, const CUstreamBatchMemOpParams *p,
				struct fc_memop *m)
{
	*m = (struct fc_memop){.address = p->waitValue.address, .bytes = 4};
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		m->bytes = 8;
		__attribute__((fallthrough));
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		m->value = m->bytes == 4 ? p->waitValue.value : p->waitValue.value64;
		return memop_decode_word(call, p->waitValue.flags, false, m);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		m->bytes = 8;
		__attribute__((fallthrough));
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		m->value = m->bytes == 4 ? p->writeValue.value : p->writeValue.value64;
		return memop_decode_word(call, p->writeValue.flags, true, m);
	case CU_STREAM_MEM_OP_BARRIER:
		*m = (struct fc_memop){.what = FC_MEMOP_BARRIER};
		if (p->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU)
			return memop_refuse(call, cudaErrorInvalidValue, "unknown flags");
		return cudaSuccess;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return memop_decode_word(call, CU_STREAM_WAIT_VALUE_FLUSH, false, m);
	default:
		return memop_refuse(call, cudaErrorInvalidValue, "unknown operation");
	}
}

/* Checks that streams of the context can access the word. */
static cudaError_t memop_resolve(struct fc_ctx *ctx, const char *call, const struct fc_memop *m)
{
	struct fc_device *dev = NULL;

	if (m->what == FC_MEMOP_BARRIER)
		return cudaSuccess;
	cudaError_t rc = fc_access_copy(ctx->proc, call, "address", m->address, m->bytes, &dev);
	if (!rc && !dev && !fc_host_is_pinned(ctx->proc, m->address, m->bytes)) {
		fc_report("%s: 0x%llx is host memory that is not pinned", call,
			  (unsigned long long)m->address);
		rc = cudaErrorInvalidValue;
	}
	return rc;
}

static void memop_queue(struct CUstream_st *s, const struct fc_memop *m, const struct fc_at *at)
{
	struct fc_op *op = fc_op_new(FC_OP_MEMOP, FC_STREAM_NS);

	op->memop = *m;
	fc_stream_queue(s, op);
	if (m->bytes)
		fc_use_range(s, m->address, m->bytes, m->what == FC_MEMOP_WRITE, at->caller,
			     at->call);
}

/* Checks all operations, then queues them. The caller holds fc_lock. */
static cudaError_t memops_queue(struct fc_ctx *ctx, CUstream stream,
				const CUstreamBatchMemOpParams *p, unsigned int count,
				const struct fc_at *at)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, at->call);
	cudaError_t rc = s ? fc_capture_refuse(s, at->call) : cudaErrorInvalidResourceHandle;
	struct fc_memop m;

	for (unsigned int i = 0; !rc && i < count; i++) {
		rc = memop_decode(at->call, &p[i], &m);
		if (!rc)
			rc = memop_resolve(ctx, at->call, &m);
	}
	for (unsigned int i = 0; !rc && i < count; i++) {
		rc = memop_decode(at->call, &p[i], &m);
		memop_queue(s, &m, at);
	}
	return rc;
}

static CUresult memops_call(const struct fc_at *at, CUstream stream,
			    const CUstreamBatchMemOpParams *p, unsigned int count)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);

	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	rc = memops_queue(ctx, stream, p, count, at);
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
			    CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	const struct fc_at at = FC_AT("cuStreamBatchMemOp");
	const bool bad = !paramArray || !count || count >= FC_MEMOPS_MOST || flags;

	if (bad)
		fc_report("%s: %u operations at %p, flags 0x%x; expected 1 to %u, and flags 0",
			  at.call, count, (void *)paramArray, flags, FC_MEMOPS_MOST - 1);
	return bad ? fc_driver_leave(cudaErrorInvalidValue)
		   : memops_call(&at, stream, paramArray, count);
}

/* A wait and a write have the same members at the same places. */
DOPPEL_CHECK_OFFSET(CUstreamBatchMemOpParams, waitValue.address,
		    offsetof(CUstreamBatchMemOpParams, writeValue.address));
DOPPEL_CHECK_OFFSET(CUstreamBatchMemOpParams, waitValue.value64,
		    offsetof(CUstreamBatchMemOpParams, writeValue.value64));
DOPPEL_CHECK_OFFSET(CUstreamBatchMemOpParams, waitValue.flags,
		    offsetof(CUstreamBatchMemOpParams, writeValue.flags));

static CUresult memop_call(const struct fc_at *at, CUstream stream,
			   CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value,
			   unsigned int flags)
{
	const CUstreamBatchMemOpParams p = {.waitValue = {.operation = operation,
							  .address = address,
							  .value64 = value,
							  .flags = flags}};

	return memops_call(at, stream, &p, 1);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			     unsigned int flags)
{
	const struct fc_at at = FC_AT("cuStreamWaitValue32");

	return memop_call(&at, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			     unsigned int flags)
{
	const struct fc_at at = FC_AT("cuStreamWaitValue64");

	return memop_call(&at, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			      unsigned int flags)
{
	const struct fc_at at = FC_AT("cuStreamWriteValue32");

	return memop_call(&at, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			      unsigned int flags)
{
	const struct fc_at at = FC_AT("cuStreamWriteValue64");

	return memop_call(&at, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}
