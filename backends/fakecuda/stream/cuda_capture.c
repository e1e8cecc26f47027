/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream capture, to the extent that a program can begin, end and query a capture. A library that
 * needs the graph can therefore refuse: cudaStreamGetCaptureInfo returns no graph. There are no
 * nodes. Any other call on a capturing stream aborts with the call's name (fc_stream_get), and the
 * graph is empty.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

#define CAPTURE_GRAPH_MAGIC 0x47524150fa4ec0daull
struct CUgraph_st {
	uint64_t magic;
};

bool fc_capture_blocks_legacy(const struct fc_ctx *ctx)
{
	for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
		if (s->capturer && !(s->flags & cudaStreamNonBlocking))
			return true;
	return false;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx_quiet("cudaStreamBeginCapture", &ctx);

	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_find(ctx, stream, "cudaStreamBeginCapture");
	if (!s) {
		rc = cudaErrorInvalidResourceHandle;
	} else if (!s->number) {
		rc = cudaErrorStreamCaptureUnsupported;
	} else if (s->capturer) {
		rc = cudaErrorIllegalState;
	} else {
		s->capturer = os_self()->id + 1;
		s->capture_relaxed = mode == cudaStreamCaptureModeRelaxed;
	}
	fc_unlock();
	return fc_leave(rc);
}

static cudaError_t capture_end(struct CUstream_st *s)
{
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!s->capturer)
		return cudaErrorIllegalState;
	if (!s->capture_relaxed && s->capturer != os_self()->id + 1)
		return cudaErrorStreamCaptureWrongThread;
	s->capturer = 0;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx_quiet("cudaStreamEndCapture", &ctx);

	if (rc)
		return fc_leave(rc);
	if (!pGraph)
		return fc_leave(cudaErrorInvalidValue);
	fc_lock();
	rc = capture_end(fc_stream_find(ctx, stream, "cudaStreamEndCapture"));
	fc_unlock();
	if (rc)
		return fc_leave(rc);
	struct CUgraph_st *graph = calloc(1, sizeof *graph);
	ASSERT(graph);
	graph->magic = CAPTURE_GRAPH_MAGIC;
	*pGraph = graph;
	return fc_leave(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	struct fc_proc *proc;
	cudaError_t rc = fc_enter_quiet("cudaGraphDestroy", &proc);

	if (rc)
		return fc_leave(rc);
	if (!graph || graph->magic != CAPTURE_GRAPH_MAGIC)
		return fc_leave(cudaErrorInvalidValue);
	graph->magic = 0;
	free(graph);
	return fc_leave(cudaSuccess);
}

static cudaError_t capture_status(struct CUstream_st *s, enum cudaStreamCaptureStatus *status)
{
	*status = cudaStreamCaptureStatusNone;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!s->number && fc_capture_blocks_legacy(s->ctx))
		return cudaErrorStreamCaptureImplicit;
	if (s->capturer)
		*status = cudaStreamCaptureStatusActive;
	return cudaSuccess;
}

static cudaError_t capture_query(const char *call, cudaStream_t stream,
				 enum cudaStreamCaptureStatus *status)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx);

	if (rc)
		return rc;
	if (!status)
		return cudaErrorInvalidValue;
	fc_lock();
	rc = capture_status(fc_stream_find(ctx, stream, call), status);
	fc_unlock();
	return rc;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	return fc_leave(capture_query("cudaStreamIsCapturing", stream, pCaptureStatus));
}

/* Returns only the status: no graph, nodes, edges or capture id. */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
				     enum cudaStreamCaptureStatus *captureStatus_out,
				     unsigned long long *id_out, cudaGraph_t *graph_out,
				     const cudaGraphNode_t **dependencies_out,
				     const cudaGraphEdgeData **edgeData_out,
				     size_t *numDependencies_out)
{
	if (id_out)
		*id_out = 0;
	if (graph_out)
		*graph_out = NULL;
	if (dependencies_out)
		*dependencies_out = NULL;
	if (edgeData_out)
		*edgeData_out = NULL;
	if (numDependencies_out)
		*numDependencies_out = 0;
	return fc_leave(capture_query("cudaStreamGetCaptureInfo", stream, captureStatus_out));
}

/* Sets the calling thread's mode. The calls that a mode forbids to other threads during a capture
 * are not checked. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return fc_leave(cudaErrorInvalidValue);
	*mode = fc_task_exchange_mode(*mode);
	return fc_leave(cudaSuccess);
}
