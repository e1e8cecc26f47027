/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's calls about streams. cuda_stream.c has the queues and their order. */
#include "backends/fakecuda/fakecuda.h"

#define STREAM_PRIORITY_GREATEST (-5)

/* ---- calls ---------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuStreamCreate");

	fc_at_announce(at.call, at.caller);
	return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	const struct fc_at at = FC_AT("cuStreamCreateWithPriority");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	if (!phStream || flags & ~(unsigned int)cudaStreamNonBlocking) {
		fc_report("%s: %s", at.call,
			  phStream ? "unknown flags" : "no place for the stream");
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	fc_lock();
	/* priorities out of range are clamped, as in CUDA */
	*phStream =
		fc_stream_new(ctx, flags, MAX_OF(STREAM_PRIORITY_GREATEST, MIN_OF(priority, 0)));
	fc_unlock();
	return fc_driver_leave(cudaSuccess);
}

CUresult cuStreamDestroy(CUstream hStream)
{
	const struct fc_at at = FC_AT("cuStreamDestroy");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!ctx)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, at.call);
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
	return fc_driver_leave(rc);
}

CUresult cuStreamSynchronize(CUstream hStream)
{
	const struct fc_at at = FC_AT("cuStreamSynchronize");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, at.call);
	uint64_t done = s ? s->queued : 0;
	rc = s ? fc_capture_forbids(s, at.call) : cudaErrorInvalidResourceHandle;
	fc_unlock();
	if (rc)
		return fc_driver_leave(rc);
	return fc_driver_leave(fc_stream_wait(s, done, at.call));
}

CUresult cuStreamQuery(CUstream hStream)
{
	const struct fc_at at = FC_AT("cuStreamQuery");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, at.call);
	cudaError_t bad = s ? fc_capture_forbids(s, at.call) : cudaErrorInvalidResourceHandle;
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
	(void)fc_driver_leave(rc);
	if (rc == cudaErrorNotReady)
		os_poll_miss(at.call);
	else
		os_poll_hit();
	return (CUresult)rc;
}

/* Returns one property of a stream, selected by `what`: 'p'riority, 'f'lags, 'd'evice. */
static CUresult stream_property(CUstream stream, const struct fc_at *at, char what, int *value)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	if (!value)
		return fc_driver_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, stream, at->call);
	if (!s)
		rc = cudaErrorInvalidResourceHandle;
	else if (what == 'p')
		*value = s->priority;
	else
		*value = what == 'f' ? (int)s->flags : s->ctx->ordinal;
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	const struct fc_at at = FC_AT("cuStreamGetPriority");

	return stream_property(hStream, &at, 'p', priority);
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	const struct fc_at at = FC_AT("cuStreamGetFlags");

	return stream_property(hStream, &at, 'f', (int *)flags);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	const struct fc_at at = FC_AT("cuStreamGetDevice");

	return stream_property(hStream, &at, 'd', device);
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	const struct fc_at at = FC_AT("cuStreamGetId");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);

	if (rc)
		return fc_driver_leave(rc);
	if (!streamId)
		return fc_driver_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, at.call);
	if (s)
		*streamId = s->serial - fc.stream_serial_first;
	else
		rc = cudaErrorInvalidResourceHandle;
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	const struct fc_at at = FC_AT("cuCtxGetStreamPriorityRange");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && leastPriority)
		*leastPriority = 0;
	if (!rc && greatestPriority)
		*greatestPriority = STREAM_PRIORITY_GREATEST;
	return fc_driver_leave(rc);
}
