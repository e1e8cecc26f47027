/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about executable graphs and user objects. */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/graph/graph_calls.h"

/* ---- executable graphs ---------------------------------------------------------------------- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
				 unsigned long long flags)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphInstantiate",
		fc_exec_make(ctx, graph, flags, "cudaGraphInstantiate", pGraphExec)));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
					  unsigned long long flags)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphInstantiateWithFlags",
		fc_exec_make(ctx, graph, flags, "cudaGraphInstantiateWithFlags", pGraphExec)));
}

static cudaError_t exec_flags(struct fc_proc *p, cudaGraphExec_t exec, unsigned long long *flags)
{
	struct CUgraphExec_st *x = flags ? fc_exec_get(p, exec, "cudaGraphExecGetFlags") : NULL;

	if (!x)
		return cudaErrorInvalidValue;
	*flags = x->flags;
	return cudaSuccess;
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
	return fc_leave(fc_graph_call("cudaGraphExecGetFlags", exec_flags(proc, graphExec, flags)));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
				cudaGraphExecUpdateResultInfo *resultInfo)
{
	return fc_leave(fc_graph_call(
		"cudaGraphExecUpdate",
		fc_exec_update(proc, hGraphExec, hGraph, "cudaGraphExecUpdate", resultInfo)));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphUpload", fc_exec_upload(ctx, graphExec, stream, "cudaGraphUpload")));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	return fc_leave(fc_graph_call_ctx(
		"cudaGraphLaunch", fc_exec_launch(ctx, graphExec, stream, "cudaGraphLaunch")));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
	return fc_leave(fc_graph_call_end(
		"cudaGraphExecDestroy", fc_exec_destroy(proc, graphExec, "cudaGraphExecDestroy")));
}

/* ---- user objects --------------------------------------------------------------------------- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
				 unsigned int initialRefcount, unsigned int flags)
{
	return fc_leave(fc_graph_call(
		"cudaUserObjectCreate",
		fc_object_make(proc, ptr, destroy, initialRefcount, flags, object_out)));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
	return fc_leave(
		fc_graph_call("cudaUserObjectRetain",
			      fc_object_retain(proc, object, count, "cudaUserObjectRetain")));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
	return fc_leave(
		fc_graph_call_end("cudaUserObjectRelease",
				  fc_object_release(proc, object, count, "cudaUserObjectRelease")));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
				      unsigned int count, unsigned int flags)
{
	return fc_leave(fc_graph_call(
		"cudaGraphRetainUserObject",
		fc_graph_keep(proc, graph, object, count, flags, "cudaGraphRetainUserObject")));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
				       unsigned int count)
{
	return fc_leave(fc_graph_call(
		"cudaGraphReleaseUserObject",
		fc_graph_unkeep(proc, graph, object, count, "cudaGraphReleaseUserObject")));
}
