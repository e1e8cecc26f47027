/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runtime's calls about graphs, executable graphs and user objects. node_calls.c has those that
 * add nodes.
 */
#include "backends/fakecuda/fakecuda.h"

#include "backends/fakecuda/graph/graph_calls.h"

/* ---- graphs and nodes ----------------------------------------------------------------------- */

cudaError_t fc_graph_create(struct fc_proc *p, cudaGraph_t *graph, unsigned int flags,
			    const char *call)
{
	if (!graph || flags) {
		fc_report("%s: %s", call, graph ? "flags other than 0" : "no place for the graph");
		return cudaErrorInvalidValue;
	}
	*graph = fc_graph_new(p, true);
	return cudaSuccess;
}

cudaError_t fc_graph_destroy(struct fc_proc *p, cudaGraph_t graph, const char *call)
{
	struct CUgraph_st *g = fc_graph_get(p, graph, call);

	if (!g)
		return cudaErrorInvalidValue;
	if (g->capture || g->parent) {
		fc_misuse("%s: graph %u %s", call, g->number,
			  g->capture ? "is being captured" : "is a child graph of another one");
		return cudaErrorInvalidValue;
	}
	fc_graph_free(g);
	return cudaSuccess;
}

cudaError_t fc_graph_clone(struct fc_proc *p, cudaGraph_t *clone, cudaGraph_t graph,
			   const char *call)
{
	struct CUgraph_st *g = clone ? fc_graph_get(p, graph, call) : NULL;

	if (!g)
		return cudaErrorInvalidValue;
	*clone = fc_graph_copy(g, true);
	return cudaSuccess;
}

cudaError_t fc_nodes_return(const struct fc_nodes *list, cudaGraphNode_t *nodes, size_t *count)
{
	size_t room = *count;

	if (!nodes) {
		*count = list->count;
		return cudaSuccess;
	}
	for (size_t i = 0; i < room; i++)
		nodes[i] = i < list->count ? list->at[i] : NULL;
	*count = MIN_OF(room, (size_t)list->count);
	return cudaSuccess;
}

cudaError_t fc_graph_nodes(struct fc_proc *p, cudaGraph_t graph, cudaGraphNode_t *nodes,
			   size_t *count, bool roots, const char *call)
{
	struct CUgraph_st *g = count ? fc_graph_get(p, graph, call) : NULL;
	struct fc_nodes list = {0};
	cudaError_t rc;

	if (!g)
		return cudaErrorInvalidValue;
	for (uint32_t i = 0; i < g->nodes.count; i++)
		if (!roots || !g->nodes.at[i]->from.count)
			fc_nodes_push(&list, g->nodes.at[i]);
	rc = fc_nodes_return(&list, nodes, count);
	fc_nodes_free(&list);
	return rc;
}

cudaError_t fc_graph_edges(struct fc_proc *p, cudaGraph_t graph, cudaGraphNode_t *from,
			   cudaGraphNode_t *to, size_t *count, const char *call)
{
	struct CUgraph_st *g = count && !from == !to ? fc_graph_get(p, graph, call) : NULL;
	struct fc_nodes heads = {0}, tails = {0};
	size_t room = count ? *count : 0;

	if (!g)
		return cudaErrorInvalidValue;
	for (uint32_t i = 0; i < g->nodes.count; i++) {
		const struct CUgraphNode_st *n = g->nodes.at[i];

		for (uint32_t k = 0; k < n->from.count; k++) {
			fc_nodes_push(&heads, n->from.at[k]);
			fc_nodes_push(&tails, g->nodes.at[i]);
		}
	}
	(void)fc_nodes_return(&heads, from, &room);
	(void)fc_nodes_return(&tails, to, count);
	fc_nodes_free(&heads);
	fc_nodes_free(&tails);
	return cudaSuccess;
}

static cudaError_t node_type(struct fc_proc *p, cudaGraphNode_t node, enum cudaGraphNodeType *type,
			     const char *call)
{
	struct CUgraphNode_st *n = type ? fc_node_get(p, node, call) : NULL;

	if (!n)
		return cudaErrorInvalidValue;
	*type = n->work.type;
	return cudaSuccess;
}

static cudaError_t node_neighbours(struct fc_proc *p, cudaGraphNode_t node, cudaGraphNode_t *nodes,
				   size_t *count, bool after, const char *call)
{
	struct CUgraphNode_st *n = count ? fc_node_get(p, node, call) : NULL;

	if (!n)
		return cudaErrorInvalidValue;
	return fc_nodes_return(after ? &n->to : &n->from, nodes, count);
}

static cudaError_t node_in_clone(struct fc_proc *p, cudaGraphNode_t *found, cudaGraphNode_t node,
				 cudaGraph_t clone, const char *call)
{
	struct CUgraph_st *g = found ? fc_graph_get(p, clone, call) : NULL;
	struct CUgraphNode_st *n = g ? fc_node_get(p, node, call) : NULL;
	struct CUgraphNode_st *copy = n ? fc_node_copy_of(g, n) : NULL;

	if (found)
		*found = copy;
	if (n && !copy)
		fc_report("%s: graph %u has no copy of node %u of graph %u", call, g->number,
			  n->index, n->graph->number);
	return copy ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t node_destroy(struct fc_proc *p, cudaGraphNode_t node, const char *call)
{
	struct CUgraphNode_st *n = fc_node_get(p, node, call);

	if (!n)
		return cudaErrorInvalidValue;
	if (n->graph->capture) {
		fc_report("%s: graph %u is being captured", call, n->graph->number);
		return cudaErrorInvalidValue;
	}
	fc_node_remove(n);
	return cudaSuccess;
}

/* ---- edges ---------------------------------------------------------------------------------- */

/* Checks an edge of the graph that is to be added or removed. */
static cudaError_t edge_check(const struct CUgraph_st *g, const struct CUgraphNode_st *from,
			      const struct CUgraphNode_st *to, bool add, const char *call)
{
	bool nodes = fc_nodes_have(&g->nodes, from) && fc_nodes_have(&g->nodes, to) && from != to;

	if (nodes && fc_nodes_have(&to->from, from) != add)
		return cudaSuccess;
	if (nodes)
		fc_report("%s: graph %u has %s edge from node %u to node %u", call, g->number,
			  add ? "already an" : "no", from->index, to->index);
	else
		fc_report("%s: expected two different nodes of graph %u", call, g->number);
	return cudaErrorInvalidValue;
}

cudaError_t fc_edges_change(struct fc_proc *p, cudaGraph_t graph, const cudaGraphNode_t *from,
			    const cudaGraphNode_t *to, size_t count, bool add, const char *call)
{
	struct CUgraph_st *g = fc_graph_get(p, graph, call);
	cudaError_t rc = g && (!count || (from && to)) ? cudaSuccess : cudaErrorInvalidValue;

	for (size_t i = 0; i < count && !rc; i++) {
		rc = edge_check(g, from[i], to[i], add, call);
		if (!rc && add)
			fc_edge_add(from[i], to[i]);
		else if (!rc)
			fc_edge_remove(from[i], to[i]);
	}
	return rc;
}

void fc_edges_plain(const void *data, const char *call)
{
	char what[96];

	if (!data)
		return;
	snprintf(what, sizeof what, "%s with data of edges", call);
	fc_unimplemented(what);
}

/* ---- the runtime's names -------------------------------------------------------------------- */

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
	return fc_leave(fc_graph_call("cudaGraphCreate",
				      fc_graph_create(proc, pGraph, flags, "cudaGraphCreate")));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return fc_leave(fc_graph_call_end("cudaGraphDestroy",
					  fc_graph_destroy(proc, graph, "cudaGraphDestroy")));
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
	return fc_leave(
		fc_graph_call("cudaGraphClone",
			      fc_graph_clone(proc, pGraphClone, originalGraph, "cudaGraphClone")));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
	return fc_leave(fc_graph_call("cudaGraphDestroyNode",
				      node_destroy(proc, node, "cudaGraphDestroyNode")));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
	return fc_leave(fc_graph_call("cudaGraphNodeGetType",
				      node_type(proc, node, pType, "cudaGraphNodeGetType")));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
				     cudaGraph_t clonedGraph)
{
	return fc_leave(fc_graph_call(
		"cudaGraphNodeFindInClone",
		node_in_clone(proc, pNode, originalNode, clonedGraph, "cudaGraphNodeFindInClone")));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
	return fc_leave(
		fc_graph_call("cudaGraphGetNodes", fc_graph_nodes(proc, graph, nodes, numNodes,
								  false, "cudaGraphGetNodes")));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
				  size_t *pNumRootNodes)
{
	return fc_leave(fc_graph_call("cudaGraphGetRootNodes",
				      fc_graph_nodes(proc, graph, pRootNodes, pNumRootNodes, true,
						     "cudaGraphGetRootNodes")));
}

/* Zeroes the data of edges: all edges are plain. */
static cudaError_t edges_zero(cudaGraphEdgeData *data, size_t room, cudaError_t rc)
{
	for (size_t i = 0; data && !rc && i < room; i++)
		data[i] = (cudaGraphEdgeData){0};
	return rc;
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
			      cudaGraphEdgeData *edgeData, size_t *numEdges)
{
	size_t room = numEdges && from ? *numEdges : 0;

	return fc_leave(edges_zero(
		edgeData, room,
		fc_graph_call("cudaGraphGetEdges", fc_graph_edges(proc, graph, from, to, numEdges,
								  "cudaGraphGetEdges"))));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
					 cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
	size_t room = pNumDependencies && pDependencies ? *pNumDependencies : 0;

	return fc_leave(edges_zero(
		edgeData, room,
		fc_graph_call("cudaGraphNodeGetDependencies",
			      node_neighbours(proc, node, pDependencies, pNumDependencies, false,
					      "cudaGraphNodeGetDependencies"))));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
					   cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
	size_t room = pNumDependentNodes && pDependentNodes ? *pNumDependentNodes : 0;

	return fc_leave(edges_zero(
		edgeData, room,
		fc_graph_call("cudaGraphNodeGetDependentNodes",
			      node_neighbours(proc, node, pDependentNodes, pNumDependentNodes, true,
					      "cudaGraphNodeGetDependentNodes"))));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
				     const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
				     size_t numDependencies)
{
	fc_edges_plain(edgeData, "cudaGraphAddDependencies");
	return fc_leave(fc_graph_call("cudaGraphAddDependencies",
				      fc_edges_change(proc, graph, from, to, numDependencies, true,
						      "cudaGraphAddDependencies")));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to,
					const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
	fc_edges_plain(edgeData, "cudaGraphRemoveDependencies");
	return fc_leave(fc_graph_call("cudaGraphRemoveDependencies",
				      fc_edges_change(proc, graph, from, to, numDependencies, false,
						      "cudaGraphRemoveDependencies")));
}
