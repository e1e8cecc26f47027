/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that the program adds, and the runtime's calls for that. */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/graph/graph_calls.h"

/* ---- base ----------------------------------------------------------------------------------- */

/* Returns the graph; NULL: an argument is wrong (reported). */
static struct CUgraph_st *added_graph(struct fc_ctx *ctx, const struct fc_added *a)
{
	struct CUgraph_st *g = a->node ? fc_graph_get(ctx->proc, a->graph, a->call) : NULL;

	if (!a->node || (a->count && !a->from)) {
		fc_report("%s: no place for the node, or no dependencies", a->call);
		return NULL;
	}
	for (size_t i = 0; g && i < a->count; i++) {
		const struct fc_nodes seen = {(cudaGraphNode_t *)(uintptr_t)a->from, (uint32_t)i,
					      0};

		if (fc_nodes_have(&g->nodes, a->from[i]) && !fc_nodes_have(&seen, a->from[i]))
			continue;
		fc_report("%s: dependency %zu of %zu is not a node of graph %u, or is there twice",
			  a->call, i, a->count, g->number);
		return NULL;
	}
	return g;
}

cudaError_t fc_added_finish(struct fc_ctx *ctx, const struct fc_added *a, cudaError_t rc,
			    struct fc_work *work)
{
	struct CUgraph_st *g = rc ? NULL : added_graph(ctx, a);
	const struct fc_nodes from = {(cudaGraphNode_t *)(uintptr_t)a->from, (uint32_t)a->count, 0};
	const struct fc_place at = {g, &from, ctx, a->call, a->caller};

	if (rc)
		return rc;
	if (!g) {
		fc_work_free(work);
		return cudaErrorInvalidValue;
	}
	*a->node = fc_node_add(&at, work);
	return cudaSuccess;
}

cudaError_t fc_added_kernel(struct fc_ctx *ctx, const struct fc_added *a,
			    const struct cudaKernelNodeParams *params)
{
	struct fc_work w;
	cudaError_t rc = fc_work_kernel(&w, params, a->call);

	return fc_added_finish(ctx, a, rc, &w);
}

cudaError_t fc_added_copy(struct fc_ctx *ctx, const struct fc_added *a, const struct fc_copy *copy,
			  enum cudaMemcpyKind kind)
{
	struct fc_work w;
	cudaError_t rc = fc_work_copies(&w, ctx, copy, kind, a->call);

	return fc_added_finish(ctx, a, rc, &w);
}

cudaError_t fc_added_fill(struct fc_ctx *ctx, const struct fc_added *a, const struct fc_fill *fill)
{
	struct fc_work w;
	cudaError_t rc = fill ? fc_work_fill(&w, ctx, fill, a->call) : cudaErrorInvalidValue;

	return fc_added_finish(ctx, a, rc, &w);
}

cudaError_t fc_added_host(struct fc_ctx *ctx, const struct fc_added *a, cudaHostFn_t fn, void *arg)
{
	struct fc_work w;
	cudaError_t rc = fc_work_host(&w, fn, arg, a->call);

	return fc_added_finish(ctx, a, rc, &w);
}

cudaError_t fc_added_event(struct fc_ctx *ctx, const struct fc_added *a,
			   enum cudaGraphNodeType type, cudaEvent_t event)
{
	struct fc_work w;
	cudaError_t rc = fc_work_event(&w, ctx->proc, type, event, a->call);

	return fc_added_finish(rc                                     ? ctx
			       : type == cudaGraphNodeTypeEventRecord ? w.event->ctx
								      : ctx,
			       a, rc, &w);
}

cudaError_t fc_added_child(struct fc_ctx *ctx, const struct fc_added *a, cudaGraph_t child)
{
	struct fc_work w;
	cudaError_t rc = fc_work_child(&w, ctx->proc, child, a->call);

	return fc_added_finish(ctx, a, rc, &w);
}

cudaError_t fc_added_empty(struct fc_ctx *ctx, const struct fc_added *a)
{
	struct fc_work w = {.type = cudaGraphNodeTypeEmpty};

	return fc_added_finish(ctx, a, cudaSuccess, &w);
}

/* ---- parameters of the runtime -------------------------------------------------------------- */

/* Reads one row of plain memory. Other shapes and arrays are not implemented. */
static bool copy_of_params(const struct cudaMemcpy3DParms *p, struct fc_copy *copy)
{
	if (!p)
		return false;
	if (p->srcArray || p->dstArray || p->extent.height > 1 || p->extent.depth > 1)
		fc_unimplemented("a copy node of an array or of more than one row");
	*copy = (struct fc_copy){.dst = (uintptr_t)p->dstPtr.ptr + p->dstPos.x,
				 .src = (uintptr_t)p->srcPtr.ptr + p->srcPos.x,
				 .bytes =
					 p->extent.height && p->extent.depth ? p->extent.width : 0};
	return true;
}

static struct fc_fill fill_of_params(const struct cudaMemsetParams *p)
{
	return (struct fc_fill){.dst = (uintptr_t)p->dst,
				.pitch = p->pitch,
				.value = p->value,
				.unit = p->elementSize,
				.width = p->width,
				.height = p->height};
}

const struct fc_work *fc_node_work(struct fc_proc *p, cudaGraphNode_t node,
				   enum cudaGraphNodeType type, const void *out, const char *call)
{
	const struct CUgraphNode_st *n = out ? fc_node_get(p, node, call) : NULL;

	if (n && n->work.type == type)
		return &n->work;
	if (n)
		fc_report("%s: node %u of graph %u is a %s", call, n->index, n->graph->number,
			  fc_work_name(n->work.type));
	return NULL;
}

/* ---- kernels -------------------------------------------------------------------------------- */

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *pDependencies, size_t numDependencies,
				   const struct cudaKernelNodeParams *pNodeParams)
{
	FC_ADDED(cudaGraphAddKernelNode);
	return fc_leave(
		fc_graph_call_ctx("cudaGraphAddKernelNode", fc_added_kernel(ctx, &a, pNodeParams)));
}

static cudaError_t kernel_params(struct fc_proc *p, cudaGraphNode_t node,
				 struct cudaKernelNodeParams *out)
{
	const struct fc_work *w =
		fc_node_work(p, node, cudaGraphNodeTypeKernel, out, "cudaGraphKernelNodeGetParams");

	if (!w)
		return cudaErrorInvalidValue;
	*out = (struct cudaKernelNodeParams){
		.func = (void *)(uintptr_t)w->kernel.launch.func->kernel->func,
		.gridDim = w->kernel.launch.grid,
		.blockDim = w->kernel.launch.block,
		.sharedMemBytes = (unsigned int)w->kernel.launch.shared_bytes,
		.kernelParams = (void **)(uintptr_t)w->kernel.params};
	return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
					 struct cudaKernelNodeParams *pNodeParams)
{
	return fc_leave(fc_graph_call("cudaGraphKernelNodeGetParams",
				      kernel_params(proc, node, pNodeParams)));
}

static cudaError_t kernel_set(struct fc_proc *p, cudaGraphExec_t *exec, cudaGraphNode_t node,
			      const struct cudaKernelNodeParams *params, const char *call)
{
	struct fc_work w;
	cudaError_t rc = fc_work_kernel(&w, params, call);

	if (rc)
		return rc;
	return exec ? fc_exec_set(p, *exec, node, &w, call) : fc_node_set(p, node, &w, call);
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
					 const struct cudaKernelNodeParams *pNodeParams)
{
	return fc_leave(fc_graph_call(
		"cudaGraphKernelNodeSetParams",
		kernel_set(proc, NULL, node, pNodeParams, "cudaGraphKernelNodeSetParams")));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
					     const struct cudaKernelNodeParams *pNodeParams)
{
	return fc_leave(fc_graph_call("cudaGraphExecKernelNodeSetParams",
				      kernel_set(proc, &hGraphExec, node, pNodeParams,
						 "cudaGraphExecKernelNodeSetParams")));
}

/* ---- copies --------------------------------------------------------------------------------- */

static cudaError_t copy_added(struct fc_ctx *ctx, const struct fc_added *a,
			      const struct cudaMemcpy3DParms *params)
{
	struct fc_copy copy;

	if (!copy_of_params(params, &copy)) {
		fc_report("%s: no parameters", a->call);
		return cudaErrorInvalidValue;
	}
	return fc_added_copy(ctx, a, &copy, params->kind);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *pDependencies, size_t numDependencies,
				   const struct cudaMemcpy3DParms *pCopyParams)
{
	FC_ADDED(cudaGraphAddMemcpyNode);
	return fc_leave(
		fc_graph_call_ctx("cudaGraphAddMemcpyNode", copy_added(ctx, &a, pCopyParams)));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				     const cudaGraphNode_t *pDependencies, size_t numDependencies,
				     void *dst, const void *src, size_t count,
				     enum cudaMemcpyKind kind)
{
	FC_ADDED(cudaGraphAddMemcpyNode1D);
	const struct fc_copy copy = {.dst = (uintptr_t)dst, .src = (uintptr_t)src, .bytes = count};

	return fc_leave(
		fc_graph_call_ctx("cudaGraphAddMemcpyNode1D", fc_added_copy(ctx, &a, &copy, kind)));
}

static cudaError_t copy_params(struct fc_proc *p, cudaGraphNode_t node,
			       struct cudaMemcpy3DParms *out)
{
	const struct fc_work *w =
		fc_node_work(p, node, cudaGraphNodeTypeMemcpy, out, "cudaGraphMemcpyNodeGetParams");

	if (!w)
		return cudaErrorInvalidValue;
	*out = (struct cudaMemcpy3DParms){.srcPtr = {.ptr = (void *)(uintptr_t)w->copy.copy.src},
					  .dstPtr = {.ptr = (void *)(uintptr_t)w->copy.copy.dst},
					  .extent = {w->copy.copy.bytes, 1, 1},
					  .kind = w->copy.kind};
	return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
					 struct cudaMemcpy3DParms *pNodeParams)
{
	return fc_leave(fc_graph_call("cudaGraphMemcpyNodeGetParams",
				      copy_params(proc, node, pNodeParams)));
}

static cudaError_t copy_set(struct fc_ctx *ctx, cudaGraphExec_t *exec, cudaGraphNode_t node,
			    const struct fc_copy *copy, enum cudaMemcpyKind kind, const char *call)
{
	struct fc_work w;
	cudaError_t rc = fc_work_copies(&w, ctx, copy, kind, call);

	if (rc)
		return rc;
	return exec ? fc_exec_set(ctx->proc, *exec, node, &w, call)
		    : fc_node_set(ctx->proc, node, &w, call);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
					   size_t count, enum cudaMemcpyKind kind)
{
	const struct fc_copy copy = {.dst = (uintptr_t)dst, .src = (uintptr_t)src, .bytes = count};

	return fc_leave(fc_graph_call_ctx(
		"cudaGraphMemcpyNodeSetParams1D",
		copy_set(ctx, NULL, node, &copy, kind, "cudaGraphMemcpyNodeSetParams1D")));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
					       void *dst, const void *src, size_t count,
					       enum cudaMemcpyKind kind)
{
	const struct fc_copy copy = {.dst = (uintptr_t)dst, .src = (uintptr_t)src, .bytes = count};

	return fc_leave(fc_graph_call_ctx("cudaGraphExecMemcpyNodeSetParams1D",
					  copy_set(ctx, &hGraphExec, node, &copy, kind,
						   "cudaGraphExecMemcpyNodeSetParams1D")));
}

/* ---- fills ---------------------------------------------------------------------------------- */

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *pDependencies, size_t numDependencies,
				   const struct cudaMemsetParams *pMemsetParams)
{
	FC_ADDED(cudaGraphAddMemsetNode);
	struct fc_fill fill;

	if (pMemsetParams)
		fill = fill_of_params(pMemsetParams);
	return fc_leave(fc_graph_call_ctx("cudaGraphAddMemsetNode",
					  fc_added_fill(ctx, &a, pMemsetParams ? &fill : NULL)));
}

static cudaError_t fill_params(struct fc_proc *p, cudaGraphNode_t node,
			       struct cudaMemsetParams *out)
{
	const struct fc_work *w =
		fc_node_work(p, node, cudaGraphNodeTypeMemset, out, "cudaGraphMemsetNodeGetParams");

	if (!w)
		return cudaErrorInvalidValue;
	*out = (struct cudaMemsetParams){.dst = (void *)(uintptr_t)w->fill.dst,
					 .pitch = w->fill.pitch,
					 .value = w->fill.value,
					 .elementSize = w->fill.unit,
					 .width = w->fill.width,
					 .height = w->fill.height};
	return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
	return fc_leave(fc_graph_call("cudaGraphMemsetNodeGetParams",
				      fill_params(proc, node, pNodeParams)));
}

static cudaError_t fill_set(struct fc_ctx *ctx, cudaGraphExec_t *exec, cudaGraphNode_t node,
			    const struct cudaMemsetParams *params, const char *call)
{
	struct fc_fill fill;
	struct fc_work w;
	cudaError_t rc = params ? cudaSuccess : cudaErrorInvalidValue;

	if (!rc) {
		fill = fill_of_params(params);
		rc = fc_work_fill(&w, ctx, &fill, call);
	}
	if (rc)
		return rc;
	return exec ? fc_exec_set(ctx->proc, *exec, node, &w, call)
		    : fc_node_set(ctx->proc, node, &w, call);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
					 const struct cudaMemsetParams *pNodeParams)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphMemsetNodeSetParams",
		fill_set(ctx, NULL, node, pNodeParams, "cudaGraphMemsetNodeSetParams")));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
					     const struct cudaMemsetParams *pNodeParams)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphExecMemsetNodeSetParams",
		fill_set(ctx, &hGraphExec, node, pNodeParams, "cudaGraphExecMemsetNodeSetParams")));
}
