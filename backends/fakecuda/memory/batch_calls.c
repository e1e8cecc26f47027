/* SPDX-License-Identifier: BSD-3-Clause */
/* cuMemcpyBatchAsync: several copies by one call. All are checked before the first is queued. The
 * double queues them in their order; CUDA promises none. */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of a call. */
struct batch {
	const CUdeviceptr *dsts, *srcs;
	const size_t *sizes;
	size_t count;
	const CUmemcpyAttributes *attrs;
	const size_t *idxs;
	size_t attr_count;
};

static cudaError_t batch_refuse(const char *call, const char *why)
{
	fc_report("%s: %s", call, why);
	return cudaErrorInvalidValue;
}

static cudaError_t batch_check_attributes(const char *call, const struct batch *b)
{
	if (b->idxs[0])
		return batch_refuse(call, "attrsIdxs begins with another number than 0");
	for (size_t i = 0; i < b->attr_count; i++) {
		const CUmemcpySrcAccessOrder order = b->attrs[i].srcAccessOrder;

		if (b->idxs[i] >= b->count || (i && b->idxs[i] <= b->idxs[i - 1]))
			return batch_refuse(call, "attrsIdxs does not rise, or exceeds the count");
		if (order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
			return batch_refuse(call, "an unknown srcAccessOrder");
		if (b->attrs[i].flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
			return batch_refuse(call, "unknown flags of attributes");
	}
	return cudaSuccess;
}

static cudaError_t batch_check(const char *call, const struct batch *b, CUstream stream)
{
	if (!b->dsts || !b->srcs || !b->sizes || !b->count || !b->attrs || !b->idxs)
		return batch_refuse(call, "an array is NULL, or the count is 0");
	if (!b->attr_count || b->attr_count > b->count)
		return batch_refuse(call, "numAttrs; expected 1 to the number of copies");
	if (!stream || stream == CU_STREAM_LEGACY)
		return batch_refuse(call, "the legacy stream is not permitted");
	return batch_check_attributes(call, b);
}

static struct fc_copy batch_copy(const struct batch *b, size_t i)
{
	return (struct fc_copy){.dst = b->dsts[i], .src = b->srcs[i], .bytes = b->sizes[i]};
}

/* Returns the access order of copy i; *at is the entry of the copy before it. */
static CUmemcpySrcAccessOrder batch_order(const struct batch *b, size_t i, size_t *at)
{
	if (*at + 1 < b->attr_count && b->idxs[*at + 1] <= i)
		++*at;
	return b->attrs[*at].srcAccessOrder;
}

/* Reads host memory now, if the program may change it when the call has returned. */
static cudaError_t batch_stage(struct fc_copy *c, CUmemcpySrcAccessOrder order)
{
	if (order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || c->src_dev || fc_vmm_has(c->src))
		return cudaSuccess;
	c->staged = malloc(c->bytes);
	if (!c->staged)
		return cudaErrorMemoryAllocation;
	memcpy(c->staged, (const void *)(uintptr_t)c->src, c->bytes);
	return cudaSuccess;
}

/* Queues the copies. *wait_for: the number of operations for which the call must wait. */
static cudaError_t batch_queue(struct fc_ctx *ctx, struct CUstream_st *s, const struct batch *b,
			       uint64_t *wait_for, const struct fc_at *at)
{
	size_t entry = 0;
	uint64_t wait = 0;
	cudaError_t rc = cudaSuccess;

	for (size_t i = 0; !rc && i < b->count; i++) {
		struct fc_copy c = batch_copy(b, i);
		const CUmemcpySrcAccessOrder order = batch_order(b, i, &entry);

		rc = fc_copy_resolve(ctx, at->call, cudaMemcpyDefault, &c);
		if (!rc && s->capture) {
			const struct fc_work work = {.type = cudaGraphNodeTypeMemcpy,
						     .copy = {c, cudaMemcpyDefault}};
			fc_capture_add(s, &work, at->call, at->caller);
			continue;
		}
		if (!rc)
			rc = batch_stage(&c, order);
		if (!rc)
			rc = fc_copy_async(ctx, s, &c, &wait, at);
		*wait_for = MAX_OF(*wait_for, wait);
	}
	return rc;
}

static cudaError_t batch_run(struct fc_ctx *ctx, CUstream stream, const struct batch *b,
			     const struct fc_at *at)
{
	uint64_t wait_for = 0;

	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, at->call);
	cudaError_t rc = s ? fc_capture_check(s, at->call) : cudaErrorInvalidResourceHandle;
	for (size_t i = 0; !rc && i < b->count; i++) {
		struct fc_copy c = batch_copy(b, i);

		rc = c.bytes ? fc_copy_resolve(ctx, at->call, cudaMemcpyDefault, &c)
			     : batch_refuse(at->call, "a copy of 0 bytes");
	}
	if (!rc)
		rc = batch_queue(ctx, s, b, &wait_for, at);
	fc_unlock();
	return !rc && wait_for ? fc_stream_wait(s, wait_for, at->call) : rc;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
			    CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemcpyBatchAsync");
	const struct batch b = {dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs};
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!rc)
		rc = batch_check(at.call, &b, hStream);
	return fc_driver_leave(rc ? rc : batch_run(ctx, hStream, &b, &at));
}
