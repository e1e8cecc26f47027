/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls about streams. cuda_stream.c has the queues and their order. */
#include "backends/fakecuda/fakecuda.h"

#define STREAM_PRIORITY_GREATEST (-5)

/* ---- calls ---------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
	return cudaStreamCreateWithPriority(pStream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	return cudaStreamCreateWithPriority(pStream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamCreateWithPriority", &ctx);
	if (rc)
		return fc_leave(rc);
	if (!pStream || flags & ~(unsigned int)cudaStreamNonBlocking) {
		fc_report("cudaStreamCreate: %s",
			  pStream ? "unknown flags" : "no place for the stream");
		return fc_leave(cudaErrorInvalidValue);
	}
	fc_lock();
	/* priorities out of range are clamped, as in CUDA */
	*pStream = fc_stream_new(ctx, flags, MAX_OF(STREAM_PRIORITY_GREATEST, MIN_OF(priority, 0)));
	fc_unlock();
	return fc_leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamDestroy", &ctx);
	if (!ctx)
		return fc_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, "cudaStreamDestroy");
	if (!s || !s->number || s->task) {
		rc = cudaErrorInvalidResourceHandle;
	} else {
		s->destroyed = true;
		fc_capture_stream_gone(s);
		/* queued operations still run; after a sticky error no operation does */
		if (!s->head || (s->ctx->sticky && !s->head->running))
			fc_stream_drop(s);
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamSynchronize", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, "cudaStreamSynchronize");
	uint64_t done = s ? s->queued : 0;
	rc = s ? fc_capture_forbids(s, "cudaStreamSynchronize") : cudaErrorInvalidResourceHandle;
	fc_unlock();
	if (rc)
		return fc_leave(rc);
	return fc_leave(fc_stream_wait(s, done, "cudaStreamSynchronize"));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamQuery", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, "cudaStreamQuery");
	cudaError_t bad =
		s ? fc_capture_forbids(s, "cudaStreamQuery") : cudaErrorInvalidResourceHandle;
	if (bad)
		rc = bad;
	else if (s->ctx->sticky)
		rc = s->ctx->sticky;
	else if (s->head)
		rc = cudaErrorNotReady;
	else {
		mem_acquire(&s->done);
		fc_use_host_waited(s, s->done);
	}
	fc_unlock();
	rc = fc_leave(rc);
	if (rc == cudaErrorNotReady)
		os_poll_miss("cudaStreamQuery");
	else
		os_poll_hit();
	return rc;
}

cudaError_t cudaDeviceSynchronize(void)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaDeviceSynchronize", &ctx);
	if (!rc) {
		fc_lock();
		rc = fc_capture_waits(ctx, "cudaDeviceSynchronize");
		fc_unlock();
	}
	if (rc)
		return fc_leave(rc);
	return fc_leave(fc_ctx_wait(ctx, "cudaDeviceSynchronize"));
}

/* Returns one property of a stream, selected by `what`: 'p'riority, 'f'lags, 'd'evice. */
static cudaError_t stream_property(cudaStream_t stream, const char *call, char what, int *value)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);
	if (rc)
		return fc_leave(rc);
	if (!value)
		return fc_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	if (!s)
		rc = cudaErrorInvalidResourceHandle;
	else if (what == 'p')
		*value = s->priority;
	else
		*value = what == 'f' ? (int)s->flags : s->ctx->ordinal;
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
	return stream_property(hStream, "cudaStreamGetPriority", 'p', priority);
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
	return stream_property(hStream, "cudaStreamGetFlags", 'f', (int *)flags);
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
	return stream_property(hStream, "cudaStreamGetDevice", 'd', device);
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamGetId", &ctx);

	if (rc)
		return fc_leave(rc);
	if (!streamId)
		return fc_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, "cudaStreamGetId");
	if (s)
		*streamId = s->serial - fc.stream_serial_first;
	else
		rc = cudaErrorInvalidResourceHandle;
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaDeviceGetStreamPriorityRange", &ctx);
	if (!rc && leastPriority)
		*leastPriority = 0;
	if (!rc && greatestPriority)
		*greatestPriority = STREAM_PRIORITY_GREATEST;
	return fc_leave(rc);
}
