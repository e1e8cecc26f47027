/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's calls for nodes of host functions, events, child graphs, and without work. */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/graph/graph_calls.h"

/* ---- host functions ------------------------------------------------------------------------- */

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				 const cudaGraphNode_t *pDependencies, size_t numDependencies,
				 const struct cudaHostNodeParams *pNodeParams)
{
	FC_ADDED(cudaGraphAddHostNode);
	cudaHostFn_t fn = pNodeParams ? pNodeParams->fn : NULL;
	void *arg = pNodeParams ? pNodeParams->userData : NULL;

	return fc_leave(fc_graph_call_ctx("cudaGraphAddHostNode", fc_added_host(ctx, &a, fn, arg)));
}

static cudaError_t host_params(struct fc_proc *p, cudaGraphNode_t node,
			       struct cudaHostNodeParams *out)
{
	const struct fc_work *w =
		fc_node_work(p, node, cudaGraphNodeTypeHost, out, "cudaGraphHostNodeGetParams");

	if (!w)
		return cudaErrorInvalidValue;
	*out = (struct cudaHostNodeParams){w->host.fn, w->host.arg};
	return cudaSuccess;
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
	return fc_leave(
		fc_graph_call("cudaGraphHostNodeGetParams", host_params(proc, node, pNodeParams)));
}

static cudaError_t host_set(struct fc_proc *p, cudaGraphExec_t *exec, cudaGraphNode_t node,
			    const struct cudaHostNodeParams *params, const char *call)
{
	struct fc_work w;
	cudaError_t rc = fc_work_host(&w, params ? params->fn : NULL,
				      params ? params->userData : NULL, call);

	if (rc)
		return rc;
	return exec ? fc_exec_set(p, *exec, node, &w, call) : fc_node_set(p, node, &w, call);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
				       const struct cudaHostNodeParams *pNodeParams)
{
	return fc_leave(fc_graph_call(
		"cudaGraphHostNodeSetParams",
		host_set(proc, NULL, node, pNodeParams, "cudaGraphHostNodeSetParams")));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
					   const struct cudaHostNodeParams *pNodeParams)
{
	return fc_leave(fc_graph_call(
		"cudaGraphExecHostNodeSetParams",
		host_set(proc, &hGraphExec, node, pNodeParams, "cudaGraphExecHostNodeSetParams")));
}

/* ---- events --------------------------------------------------------------------------------- */

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					const cudaGraphNode_t *pDependencies,
					size_t numDependencies, cudaEvent_t event)
{
	FC_ADDED(cudaGraphAddEventRecordNode);
	return fc_leave(
		fc_graph_call_ctx("cudaGraphAddEventRecordNode",
				  fc_added_event(ctx, &a, cudaGraphNodeTypeEventRecord, event)));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				      const cudaGraphNode_t *pDependencies, size_t numDependencies,
				      cudaEvent_t event)
{
	FC_ADDED(cudaGraphAddEventWaitNode);
	return fc_leave(
		fc_graph_call_ctx("cudaGraphAddEventWaitNode",
				  fc_added_event(ctx, &a, cudaGraphNodeTypeWaitEvent, event)));
}

static cudaError_t event_of_node(struct fc_proc *p, cudaGraphNode_t node,
				 enum cudaGraphNodeType type, cudaEvent_t *event, const char *call)
{
	const struct fc_work *w = fc_node_work(p, node, type, event, call);

	if (!w)
		return cudaErrorInvalidValue;
	*event = w->event;
	return cudaSuccess;
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
	return fc_leave(
		fc_graph_call("cudaGraphEventRecordNodeGetEvent",
			      event_of_node(proc, node, cudaGraphNodeTypeEventRecord, event_out,
					    "cudaGraphEventRecordNodeGetEvent")));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
	return fc_leave(fc_graph_call("cudaGraphEventWaitNodeGetEvent",
				      event_of_node(proc, node, cudaGraphNodeTypeWaitEvent,
						    event_out, "cudaGraphEventWaitNodeGetEvent")));
}

/* ---- child graphs, nodes without work ------------------------------------------------------- */

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				       const cudaGraphNode_t *pDependencies, size_t numDependencies,
				       cudaGraph_t childGraph)
{
	FC_ADDED(cudaGraphAddChildGraphNode);
	return fc_leave(fc_graph_call_ctx("cudaGraphAddChildGraphNode",
					  fc_added_child(ctx, &a, childGraph)));
}

static cudaError_t child_of_node(struct fc_proc *p, cudaGraphNode_t node, cudaGraph_t *child)
{
	const struct fc_work *w = fc_node_work(p, node, cudaGraphNodeTypeGraph, child,
					       "cudaGraphChildGraphNodeGetGraph");

	if (!w)
		return cudaErrorInvalidValue;
	*child = w->child;
	return cudaSuccess;
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
	return fc_leave(fc_graph_call("cudaGraphChildGraphNodeGetGraph",
				      child_of_node(proc, node, pGraph)));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				  const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
	FC_ADDED(cudaGraphAddEmptyNode);
	return fc_leave(fc_graph_call_ctx("cudaGraphAddEmptyNode", fc_added_empty(ctx, &a)));
}
