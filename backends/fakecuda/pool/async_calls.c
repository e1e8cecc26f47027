/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's calls that allocate and free memory in the order of a stream. */
#include "backends/fakecuda/fakecuda.h"

/* ---- operations ----------------------------------------------------------------------------- */

static void block_queue(struct CUstream_st *s, uint64_t base, uint32_t number, bool frees)
{
	struct fc_op *op = fc_op_new(FC_OP_BLOCK, FC_STREAM_NS);

	op->block.base = base;
	op->block.number = number;
	op->block.frees = frees;
	fc_stream_queue(s, op);
}

/* The block is gone if its GPU was reset. */
void fc_block_op(struct fc_op *op)
{
	struct CUstream_st *s = op->stream;
	struct fc_block *b = fc_block_find(s->ctx->proc, op->block.base);

	if (!b || b->number != op->block.number)
		return;
	os_trace(op->block.frees ? "cuda.pool.free" : "cuda.pool.alloc", s->ctx->dev->index,
		 s->number, b->bytes);
	if (op->block.frees)
		fc_pool_give(b);
}

/* Returns the stream if the call may queue in it; NULL, with *rc set: it may not. */
static struct CUstream_st *async_stream(struct fc_ctx *ctx, CUstream handle, const char *call,
					cudaError_t *rc)
{
	struct CUstream_st *s = fc_stream_get(ctx, handle, call);

	if (s && s->capture)
		fc_report("%s: memory nodes of graphs are not implemented", call);
	*rc = s ? fc_capture_refuse(s, call) : cudaErrorInvalidResourceHandle;
	return *rc ? NULL : s;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/* NULL is the current pool of the stream's device. The caller holds fc_lock. */
static cudaError_t async_alloc(struct fc_ctx *ctx, CUmemoryPool handle, CUstream stream,
			       size_t bytes, const struct fc_at *at, CUdeviceptr *address)
{
	struct fc_block *b;
	cudaError_t rc;
	struct CUstream_st *s = async_stream(ctx, stream, at->call, &rc);

	if (!s)
		return rc;
	struct CUmemPoolHandle_st *pool = handle ? fc_pool_find(ctx->proc, handle, at->call)
						 : fc_pool_current(ctx->proc, s->ctx->ordinal);
	rc = pool ? fc_pool_take(pool, bytes, at->call, &b) : cudaErrorInvalidValue;
	if (rc)
		return rc;
	block_queue(s, b->base, b->number, false);
	b->born = fc_block_at(s, s->queued, at->call, at->caller);
	*address = b->base;
	return cudaSuccess;
}

static CUresult async_alloc_call(const struct fc_at *at, CUdeviceptr *dptr, size_t bytes,
				 CUmemoryPool pool, CUstream stream)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);

	if (!rc && !dptr)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	*dptr = 0;
	if (!bytes) /* measured: success, and no memory */
		return fc_driver_leave(cudaSuccess);
	fc_lock();
	rc = async_alloc(ctx, pool, stream, bytes, at, dptr);
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemAllocAsync");

	return async_alloc_call(&at, dptr, bytesize, NULL, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				 CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemAllocFromPoolAsync");

	return async_alloc_call(&at, pool ? dptr : NULL, bytesize, pool, hStream);
}

/* ---- free ----------------------------------------------------------------------------------- */

/* Returns the block that begins at the address and may be freed; NULL: reported as misuse. */
static struct fc_block *async_target(struct fc_proc *p, uint64_t address, const char *call)
{
	struct fc_block *b = fc_block_find(p, address);
	char what[384];

	b = b ? b : fc_pool_adopt(p, address);
	if (b && b->base == address && !b->is_dying)
		return b;
	fc_alloc_describe_nearest(address, what, sizeof what);
	fc_misuse("%s of 0x%llx, which is %s: %s", call, (unsigned long long)address,
		  b && b->base == address ? "freed twice"
					  : "not the start of memory that this process may free",
		  what);
	return NULL;
}

cudaError_t fc_block_free_now(struct fc_ctx *ctx, uint64_t address, const struct fc_at *at)
{
	struct fc_block *b = async_target(ctx->proc, address, at->call);

	if (!b)
		return cudaErrorInvalidValue;
	if (!ctx->sticky)
		fc_block_ends(b, at->call, at->caller);
	fc_pool_give(b);
	return cudaSuccess;
}

static cudaError_t async_free(struct fc_ctx *ctx, CUdeviceptr dptr, CUstream stream,
			      const struct fc_at *at)
{
	cudaError_t rc;
	struct CUstream_st *s = async_stream(ctx, stream, at->call, &rc);
	struct fc_block *b = s ? async_target(ctx->proc, dptr, at->call) : NULL;

	if (!b)
		return rc ? rc : cudaErrorInvalidValue;
	block_queue(s, b->base, b->number, true);
	fc_block_dies(b, s, at->call, at->caller);
	return cudaSuccess;
}

/* After a sticky error the memory is freed all the same, as by cuMemFree. */
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuMemFreeAsync");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (!ctx)
		return fc_driver_leave(rc);
	fc_lock();
	struct fc_block *dead = ctx->sticky ? fc_block_find(ctx->proc, dptr) : NULL;
	if (dead)
		fc_pool_give(dead);
	else if (!ctx->sticky) {
		cudaError_t freed = async_free(ctx, dptr, hStream, &at);
		rc = rc ? rc : freed;
	}
	fc_unlock();
	return fc_driver_leave(rc);
}
