/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls about CUDA graphs. A part of cuda_runtime_api.h, which includes it; the
 * Toolkit has no such file. Implemented by backends/fakecuda/graph. */
#ifndef FAKECUDA_GRAPH_API_H
#define FAKECUDA_GRAPH_API_H

/* ---- graphs, nodes and edges ----------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags);
FAKECUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t graph);
FAKECUDA_API cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph);
FAKECUDA_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node);
FAKECUDA_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType);
FAKECUDA_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode,
						  cudaGraphNode_t originalNode,
						  cudaGraph_t clonedGraph);
FAKECUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
					   size_t *numNodes);
FAKECUDA_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
					       size_t *pNumRootNodes);
FAKECUDA_API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
					   cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
					   size_t *numEdges);
FAKECUDA_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
						      cudaGraphNode_t *pDependencies,
						      cudaGraphEdgeData *edgeData,
						      size_t *pNumDependencies);
FAKECUDA_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
							cudaGraphNode_t *pDependentNodes,
							cudaGraphEdgeData *edgeData,
							size_t *pNumDependentNodes);
FAKECUDA_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
						  const cudaGraphNode_t *to,
						  const cudaGraphEdgeData *edgeData,
						  size_t numDependencies);
FAKECUDA_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
						     const cudaGraphNode_t *to,
						     const cudaGraphEdgeData *edgeData,
						     size_t numDependencies);

/* ---- nodes by their work --------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						const cudaGraphNode_t *pDependencies,
						size_t numDependencies,
						const struct cudaKernelNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
						      struct cudaKernelNodeParams *pNodeParams);
FAKECUDA_API cudaError_t
cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						const cudaGraphNode_t *pDependencies,
						size_t numDependencies,
						const struct cudaMemcpy3DParms *pCopyParams);
FAKECUDA_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						  const cudaGraphNode_t *pDependencies,
						  size_t numDependencies, void *dst,
						  const void *src, size_t count,
						  enum cudaMemcpyKind kind);
FAKECUDA_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
						      struct cudaMemcpy3DParms *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst,
							const void *src, size_t count,
							enum cudaMemcpyKind kind);
FAKECUDA_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						const cudaGraphNode_t *pDependencies,
						size_t numDependencies,
						const struct cudaMemsetParams *pMemsetParams);
FAKECUDA_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
						      struct cudaMemsetParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
						      const struct cudaMemsetParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					      const cudaGraphNode_t *pDependencies,
					      size_t numDependencies,
					      const struct cudaHostNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
						    struct cudaHostNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
						    const struct cudaHostNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						    const cudaGraphNode_t *pDependencies,
						    size_t numDependencies, cudaGraph_t childGraph);
FAKECUDA_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph);
FAKECUDA_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					       const cudaGraphNode_t *pDependencies,
					       size_t numDependencies);
FAKECUDA_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						     const cudaGraphNode_t *pDependencies,
						     size_t numDependencies, cudaEvent_t event);
FAKECUDA_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
							  cudaEvent_t *event_out);
FAKECUDA_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						   const cudaGraphNode_t *pDependencies,
						   size_t numDependencies, cudaEvent_t event);
FAKECUDA_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node,
							cudaEvent_t *event_out);

/* ---- executable graphs ----------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
					      unsigned long long flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec,
						       cudaGraph_t graph,
						       unsigned long long flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec,
					       unsigned long long *flags);
FAKECUDA_API cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
				 const struct cudaKernelNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec,
							    cudaGraphNode_t node, void *dst,
							    const void *src, size_t count,
							    enum cudaMemcpyKind kind);
FAKECUDA_API cudaError_t
cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
				 const struct cudaMemsetParams *pNodeParams);
FAKECUDA_API cudaError_t
cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
			       const struct cudaHostNodeParams *pNodeParams);
FAKECUDA_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
					     cudaGraphExecUpdateResultInfo *resultInfo);
FAKECUDA_API cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream);
FAKECUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);
FAKECUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec);

/* ---- capture --------------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
						enum cudaStreamCaptureMode mode);
FAKECUDA_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
						       const cudaGraphNode_t *dependencies,
						       const cudaGraphEdgeData *dependencyData,
						       size_t numDependencies,
						       enum cudaStreamCaptureMode mode);
FAKECUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph);
FAKECUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
					       enum cudaStreamCaptureStatus *pCaptureStatus);
FAKECUDA_API cudaError_t cudaStreamGetCaptureInfo(
	cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
	unsigned long long *id_out FAKECUDA_OPT(0), cudaGraph_t *graph_out FAKECUDA_OPT(0),
	const cudaGraphNode_t **dependencies_out FAKECUDA_OPT(0),
	const cudaGraphEdgeData **edgeData_out FAKECUDA_OPT(0),
	size_t *numDependencies_out FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaStreamUpdateCaptureDependencies(
	cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
	size_t numDependencies, unsigned int flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);

/* ---- user objects ---------------------------------------------------------------------- */

FAKECUDA_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr,
					      cudaHostFn_t destroy, unsigned int initialRefcount,
					      unsigned int flags);
FAKECUDA_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object,
					       unsigned int count FAKECUDA_OPT(1));
FAKECUDA_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
						   unsigned int count FAKECUDA_OPT(1),
						   unsigned int flags FAKECUDA_OPT(0));
FAKECUDA_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
						    unsigned int count FAKECUDA_OPT(1));
FAKECUDA_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object,
					      unsigned int count FAKECUDA_OPT(1));

#endif
