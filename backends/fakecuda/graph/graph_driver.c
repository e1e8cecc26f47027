/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's calls about graphs, executable graphs and user objects. They set no last error. */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/graph/graph_calls.h"

/* ---- graphs and edges ----------------------------------------------------------------------- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	return fc_driver_leave(fc_graph_call(
		"cuGraphCreate", fc_graph_create(proc, phGraph, flags, "cuGraphCreate")));
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	return fc_driver_leave(fc_graph_call_end("cuGraphDestroy",
						 fc_graph_destroy(proc, hGraph, "cuGraphDestroy")));
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	return fc_driver_leave(fc_graph_call(
		"cuGraphClone", fc_graph_clone(proc, phGraphClone, originalGraph, "cuGraphClone")));
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return fc_driver_leave(
		fc_graph_call("cuGraphGetNodes", fc_graph_nodes(proc, hGraph, nodes, numNodes,
								false, "cuGraphGetNodes")));
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
			 CUgraphEdgeData *edgeData, size_t *numEdges)
{
	size_t room = numEdges && from ? *numEdges : 0;
	cudaError_t rc =
		fc_graph_call("cuGraphGetEdges",
			      fc_graph_edges(proc, hGraph, from, to, numEdges, "cuGraphGetEdges"));

	for (size_t i = 0; edgeData && !rc && i < room; i++)
		edgeData[i] = (CUgraphEdgeData){0};
	return fc_driver_leave(rc);
}

static cudaError_t driver_node_type(struct fc_proc *p, CUgraphNode node, CUgraphNodeType *type)
{
	struct CUgraphNode_st *n = type ? fc_node_get(p, node, "cuGraphNodeGetType") : NULL;

	if (!n)
		return cudaErrorInvalidValue;
	*type = (CUgraphNodeType)n->work.type;
	return cudaSuccess;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	return fc_driver_leave(
		fc_graph_call("cuGraphNodeGetType", driver_node_type(proc, hNode, type)));
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	fc_edges_plain(edgeData, "cuGraphAddDependencies");
	return fc_driver_leave(fc_graph_call(
		"cuGraphAddDependencies", fc_edges_change(proc, hGraph, from, to, numDependencies,
							  true, "cuGraphAddDependencies")));
}

/* ---- nodes ---------------------------------------------------------------------------------- */

#define DRIVER_ADDED(name)                                                                         \
	const struct fc_added a = {phGraphNode,     hGraph, dependencies,                          \
				   numDependencies, #name,  __builtin_return_address(0)}

/* The memory at one end of a copy. */
static uint64_t driver_end(CUmemorytype type, const void *host, CUdeviceptr device, size_t x)
{
	return (type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device) + x;
}

static cudaError_t driver_copy(struct fc_ctx *ctx, const struct fc_added *a, const CUDA_MEMCPY3D *p)
{
	struct fc_copy copy;

	if (!p)
		return cudaErrorInvalidValue;
	if (p->srcArray || p->dstArray || p->Height > 1 || p->Depth > 1)
		fc_unimplemented("a copy node of an array or of more than one row");
	copy = (struct fc_copy){
		.dst = driver_end(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes),
		.src = driver_end(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes),
		.bytes = p->Height && p->Depth ? p->WidthInBytes : 0};
	return fc_added_copy(ctx, a, &copy, cudaMemcpyDefault);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies, size_t numDependencies,
			      const CUDA_MEMCPY3D *copyParams, CUcontext of)
{
	DRIVER_ADDED(cuGraphAddMemcpyNode);
	(void)of; /* contexts have no handles yet: the current device's */
	return fc_driver_leave(
		fc_graph_call_ctx("cuGraphAddMemcpyNode", driver_copy(ctx, &a, copyParams)));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			      const CUgraphNode *dependencies, size_t numDependencies,
			      const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext of)
{
	DRIVER_ADDED(cuGraphAddMemsetNode);
	struct fc_fill fill = {0};

	(void)of;
	if (memsetParams)
		fill = (struct fc_fill){memsetParams->dst,   memsetParams->pitch,
					memsetParams->value, memsetParams->elementSize,
					memsetParams->width, memsetParams->height};
	return fc_driver_leave(fc_graph_call_ctx(
		"cuGraphAddMemsetNode", fc_added_fill(ctx, &a, memsetParams ? &fill : NULL)));
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies, size_t numDependencies,
			    const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	DRIVER_ADDED(cuGraphAddHostNode);
	cudaHostFn_t fn = nodeParams ? nodeParams->fn : NULL;
	void *arg = nodeParams ? nodeParams->userData : NULL;

	return fc_driver_leave(
		fc_graph_call_ctx("cuGraphAddHostNode", fc_added_host(ctx, &a, fn, arg)));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies, size_t numDependencies)
{
	DRIVER_ADDED(cuGraphAddEmptyNode);
	return fc_driver_leave(fc_graph_call_ctx("cuGraphAddEmptyNode", fc_added_empty(ctx, &a)));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  CUgraph childGraph)
{
	DRIVER_ADDED(cuGraphAddChildGraphNode);
	return fc_driver_leave(
		fc_graph_call_ctx("cuGraphAddChildGraphNode", fc_added_child(ctx, &a, childGraph)));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   CUevent event)
{
	DRIVER_ADDED(cuGraphAddEventRecordNode);
	return fc_driver_leave(
		fc_graph_call_ctx("cuGraphAddEventRecordNode",
				  fc_added_event(ctx, &a, cudaGraphNodeTypeEventRecord, event)));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies,
				 CUevent event)
{
	DRIVER_ADDED(cuGraphAddEventWaitNode);
	return fc_driver_leave(
		fc_graph_call_ctx("cuGraphAddEventWaitNode",
				  fc_added_event(ctx, &a, cudaGraphNodeTypeWaitEvent, event)));
}

/* ---- executable graphs ---------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				     unsigned long long flags)
{
	return fc_driver_leave(fc_graph_call_ctx(
		"cuGraphInstantiate",
		fc_exec_make(ctx, hGraph, flags, "cuGraphInstantiate", phGraphExec)));
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	return fc_driver_leave(fc_graph_call_ctx(
		"cuGraphUpload", fc_exec_upload(ctx, hGraphExec, hStream, "cuGraphUpload")));
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	return fc_driver_leave(fc_graph_call_ctx(
		"cuGraphLaunch", fc_exec_launch(ctx, hGraphExec, hStream, "cuGraphLaunch")));
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
			   CUgraphExecUpdateResultInfo *resultInfo)
{
	cudaGraphExecUpdateResultInfo info = {0};
	cudaError_t rc =
		fc_graph_call("cuGraphExecUpdate",
			      fc_exec_update(proc, hGraphExec, hGraph, "cuGraphExecUpdate", &info));

	if (resultInfo)
		*resultInfo = (CUgraphExecUpdateResultInfo){(CUgraphExecUpdateResult)info.result,
							    info.errorNode, info.errorFromNode};
	return fc_driver_leave(rc);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	return fc_driver_leave(fc_graph_call_end(
		"cuGraphExecDestroy", fc_exec_destroy(proc, hGraphExec, "cuGraphExecDestroy")));
}

/* ---- user objects --------------------------------------------------------------------------- */

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
			    unsigned int initialRefcount, unsigned int flags)
{
	return fc_driver_leave(fc_graph_call(
		"cuUserObjectCreate",
		fc_object_make(proc, ptr, destroy, initialRefcount, flags, object_out)));
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	return fc_driver_leave(fc_graph_call(
		"cuUserObjectRetain", fc_object_retain(proc, object, count, "cuUserObjectRetain")));
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	return fc_driver_leave(
		fc_graph_call_end("cuUserObjectRelease",
				  fc_object_release(proc, object, count, "cuUserObjectRelease")));
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
				 unsigned int flags)
{
	return fc_driver_leave(fc_graph_call(
		"cuGraphRetainUserObject",
		fc_graph_keep(proc, graph, object, count, flags, "cuGraphRetainUserObject")));
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	return fc_driver_leave(fc_graph_call(
		"cuGraphReleaseUserObject",
		fc_graph_unkeep(proc, graph, object, count, "cuGraphReleaseUserObject")));
}
