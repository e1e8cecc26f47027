/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls about captures. graph_capture.c has their rules. */
#include "backends/fakecuda/fakecuda.h"

#include <string.h>

/* ---- begin and end -------------------------------------------------------------------------- */

static cudaError_t begin_check(const struct CUstream_st *s, enum cudaStreamCaptureMode mode,
			       const char *call)
{
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!s->number) {
		fc_report("%s: the legacy stream cannot capture", call);
		return cudaErrorStreamCaptureUnsupported;
	}
	if ((unsigned)mode > cudaStreamCaptureModeRelaxed) {
		fc_report("%s: mode %d; expected 0 to 2", call, (int)mode);
		return cudaErrorInvalidValue;
	}
	if (s->capture) {
		fc_report("%s: stream %u captures already", call, s->number);
		return cudaErrorIllegalState;
	}
	return cudaSuccess;
}

static cudaError_t capture_begin(struct fc_ctx *ctx, cudaStream_t stream,
				 enum cudaStreamCaptureMode mode, const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	cudaError_t rc = begin_check(s, mode, call);

	return rc ? rc : fc_capture_begin(s, mode, NULL, NULL);
}

static cudaError_t capture_begin_to(struct fc_ctx *ctx, cudaStream_t stream, cudaGraph_t graph,
				    const struct fc_nodes *from, enum cudaStreamCaptureMode mode,
				    const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	cudaError_t rc = begin_check(s, mode, call);
	struct CUgraph_st *g = rc ? NULL : fc_graph_get(ctx->proc, graph, call);

	if (rc)
		return rc;
	for (uint32_t i = 0; g && i < from->count; i++)
		if (!fc_nodes_have(&g->nodes, from->at[i]))
			g = NULL;
	if (!g || g->capture)
		return cudaErrorInvalidValue;
	return fc_capture_begin(s, mode, g, from);
}

static cudaError_t capture_end(struct fc_ctx *ctx, cudaStream_t stream, cudaGraph_t *graph,
			       const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	struct CUgraph_st *g = NULL;
	bool to = s && s->capture && !s->capture->owned;
	cudaError_t rc = s ? fc_capture_end(s, &g) : cudaErrorInvalidResourceHandle;

	if (graph)
		*graph = g;
	else if (g && !to)
		fc_graph_free(g);
	return rc;
}

/* Ends the capture even if a fault fails the call: then without a graph. */
static cudaError_t capture_end_call(const char *call, cudaStream_t stream, cudaGraph_t *graph)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(call, &ctx), ended;

	if (rc && graph)
		*graph = NULL;
	if (!ctx)
		return rc;
	fc_lock();
	ended = capture_end(ctx, stream, rc ? NULL : graph, call);
	fc_unlock();
	return rc ? rc : ended;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return fc_leave(
		fc_graph_call_ctx("cudaStreamBeginCapture",
				  capture_begin(ctx, stream, mode, "cudaStreamBeginCapture")));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
					  const cudaGraphNode_t *dependencies,
					  const cudaGraphEdgeData *dependencyData,
					  size_t numDependencies, enum cudaStreamCaptureMode mode)
{
	const struct fc_nodes from = {(cudaGraphNode_t *)(uintptr_t)dependencies,
				      dependencies ? (uint32_t)numDependencies : 0, 0};

	if (dependencyData)
		fc_unimplemented("cudaStreamBeginCaptureToGraph with data of edges");
	return fc_leave(fc_graph_call_ctx("cudaStreamBeginCaptureToGraph",
					  capture_begin_to(ctx, stream, graph, &from, mode,
							   "cudaStreamBeginCaptureToGraph")));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
	return fc_leave(capture_end_call("cudaStreamEndCapture", stream, pGraph));
}

CUresult cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode)
{
	return fc_driver_leave(
		fc_graph_call_ctx("cuStreamBeginCapture",
				  capture_begin(ctx, hStream, (enum cudaStreamCaptureMode)mode,
						"cuStreamBeginCapture")));
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	return fc_driver_leave(capture_end_call("cuStreamEndCapture", hStream, phGraph));
}

/* ---- queries -------------------------------------------------------------------------------- */

/* Places for the results of a query. */
struct capture_info {
	enum cudaStreamCaptureStatus *status;
	uint64_t *id;
	cudaGraph_t *graph;
	const cudaGraphNode_t **nodes;
	const void **edges; /* data of edges: all are plain */
	size_t *count;
};

/* True if the legacy stream's next operation would wait for a stream that captures. */
static bool capture_blocks_legacy(const struct fc_ctx *ctx)
{
	for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
		if (s->capture && !(s->flags & cudaStreamNonBlocking))
			return true;
	return false;
}

/* Queries a stream. Without a capture only the status is set. */
static cudaError_t capture_query(struct fc_ctx *ctx, cudaStream_t stream,
				 const struct capture_info *out, const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);
	const struct fc_capture *c = s ? s->capture : NULL;

	if (!s || !out->status)
		return s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle;
	if (!s->number && capture_blocks_legacy(s->ctx))
		return cudaErrorStreamCaptureImplicit;
	*out->status = !c           ? cudaStreamCaptureStatusNone
		       : c->invalid ? cudaStreamCaptureStatusInvalidated
				    : cudaStreamCaptureStatusActive;
	if (!c || c->invalid)
		return cudaSuccess;
	if (out->id)
		*out->id = c->id;
	if (out->graph)
		*out->graph = c->graph;
	if (out->nodes)
		*out->nodes = s->tips.at;
	if (out->edges)
		*out->edges = NULL;
	if (out->count)
		*out->count = s->tips.count;
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	const struct capture_info out = {.status = pCaptureStatus};

	return fc_leave(
		fc_graph_call_ctx("cudaStreamIsCapturing",
				  capture_query(ctx, stream, &out, "cudaStreamIsCapturing")));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
				     enum cudaStreamCaptureStatus *captureStatus_out,
				     unsigned long long *id_out, cudaGraph_t *graph_out,
				     const cudaGraphNode_t **dependencies_out,
				     const cudaGraphEdgeData **edgeData_out,
				     size_t *numDependencies_out)
{
	uint64_t id = 0;
	const void *edges = NULL;
	const struct capture_info out = {captureStatus_out, &id,    graph_out,
					 dependencies_out,  &edges, numDependencies_out};
	cudaError_t rc =
		fc_graph_call_ctx("cudaStreamGetCaptureInfo",
				  capture_query(ctx, stream, &out, "cudaStreamGetCaptureInfo"));

	if (!rc && id_out)
		*id_out = id;
	if (!rc && edgeData_out)
		*edgeData_out = edges;
	return fc_leave(rc);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	const struct capture_info out = {.status = (enum cudaStreamCaptureStatus *)captureStatus};

	return fc_driver_leave(fc_graph_call_ctx(
		"cuStreamIsCapturing", capture_query(ctx, hStream, &out, "cuStreamIsCapturing")));
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
				cuuint64_t *id_out, CUgraph *graph_out,
				const CUgraphNode **dependencies_out,
				const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	const void *edges = NULL;
	const struct capture_info out = {(enum cudaStreamCaptureStatus *)captureStatus_out,
					 id_out,
					 graph_out,
					 dependencies_out,
					 &edges,
					 numDependencies_out};
	cudaError_t rc =
		fc_graph_call_ctx("cuStreamGetCaptureInfo",
				  capture_query(ctx, hStream, &out, "cuStreamGetCaptureInfo"));

	if (!rc && edgeData_out)
		*edgeData_out = edges;
	return fc_driver_leave(rc);
}

/* ---- dependencies and modes ----------------------------------------------------------------- */

static cudaError_t capture_update(struct fc_ctx *ctx, cudaStream_t stream,
				  const struct fc_nodes *nodes, unsigned int flags,
				  const char *call)
{
	struct CUstream_st *s = fc_stream_get(ctx, stream, call);

	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!s->capture) {
		fc_report("%s: stream %u does not capture", call, s->number);
		return cudaErrorIllegalState;
	}
	if (s->capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	if (flags > cudaStreamSetCaptureDependencies || (nodes->count && !nodes->at)) {
		fc_report("%s: flags 0x%x; expected 0 or 1, and nodes", call, flags);
		return cudaErrorInvalidValue;
	}
	for (uint32_t i = 0; i < nodes->count; i++) {
		if (fc_nodes_have(&s->capture->graph->nodes, nodes->at[i]))
			continue;
		fc_report("%s: node %u of %u is not of graph %u, which stream %u captures", call, i,
			  nodes->count, s->capture->graph->number, s->number);
		return cudaErrorInvalidValue;
	}
	if (flags == cudaStreamSetCaptureDependencies)
		s->tips.count = 0;
	for (uint32_t i = 0; i < nodes->count; i++)
		fc_nodes_add(&s->tips, nodes->at[i]);
	return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
						const cudaGraphEdgeData *dependencyData,
						size_t numDependencies, unsigned int flags)
{
	static const char call[] = "cudaStreamUpdateCaptureDependencies";
	const struct fc_nodes nodes = {dependencies, (uint32_t)numDependencies, 0};

	if (dependencyData)
		fc_unimplemented("cudaStreamUpdateCaptureDependencies with data of edges");
	return fc_leave(fc_graph_call_ctx("cudaStreamUpdateCaptureDependencies",
					  capture_update(ctx, stream, &nodes, flags, call)));
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
					   const CUgraphEdgeData *dependencyData,
					   size_t numDependencies, unsigned int flags)
{
	static const char call[] = "cuStreamUpdateCaptureDependencies";
	const struct fc_nodes nodes = {dependencies, (uint32_t)numDependencies, 0};

	if (dependencyData)
		fc_unimplemented("cuStreamUpdateCaptureDependencies with data of edges");
	return fc_driver_leave(
		fc_graph_call_ctx("cuStreamUpdateCaptureDependencies",
				  capture_update(ctx, hStream, &nodes, flags, call)));
}

/* Sets the calling thread's mode: fc_capture_guard has its effect. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return fc_leave(cudaErrorInvalidValue);
	*mode = fc_task_exchange_mode(*mode);
	return fc_leave(cudaSuccess);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = (CUstreamCaptureMode)fc_task_exchange_mode((enum cudaStreamCaptureMode) * mode);
	return CUDA_SUCCESS;
}
