/* SPDX-License-Identifier: BSD-3-Clause */
/* The base of calls about graphs that the runtime and the driver share. Called under fc_lock, by
 * graph_calls.c, exec_calls.c, node_calls.c, node_more_calls.c and graph_driver.c. Owns nothing.
 * `call` names the call in reports. Errors are cudaError_t, reported by the function that finds
 * them. */
#ifndef BACKENDS_FAKECUDA_GRAPH_CALLS_H
#define BACKENDS_FAKECUDA_GRAPH_CALLS_H

cudaError_t fc_graph_create(struct fc_proc *p, cudaGraph_t *graph, unsigned int flags,
			    const char *call);
cudaError_t fc_graph_destroy(struct fc_proc *p, cudaGraph_t graph, const char *call);
cudaError_t fc_graph_clone(struct fc_proc *p, cudaGraph_t *clone, cudaGraph_t graph,
			   const char *call);
cudaError_t fc_graph_nodes(struct fc_proc *p, cudaGraph_t graph, cudaGraphNode_t *nodes,
			   size_t *count, bool roots, const char *call);
cudaError_t fc_graph_edges(struct fc_proc *p, cudaGraph_t graph, cudaGraphNode_t *from,
			   cudaGraphNode_t *to, size_t *count, const char *call);
cudaError_t fc_edges_change(struct fc_proc *p, cudaGraph_t graph, const cudaGraphNode_t *from,
			    const cudaGraphNode_t *to, size_t count, bool add, const char *call);
/* Aborts with the call's name if edges have data: there are plain edges only. */
void fc_edges_plain(const void *data, const char *call);
/* Stores nodes as the API does: at most *count of them, NULL after the last. Without room for
 * nodes, stores their number. */
cudaError_t fc_nodes_return(const struct fc_nodes *list, cudaGraphNode_t *nodes, size_t *count);

/* A node that the program adds. */
struct fc_added {
	cudaGraphNode_t *node;
	cudaGraph_t graph;
	const cudaGraphNode_t *from;
	size_t count;
	const char *call;
	const void *caller;
};
/* For an entry point with the API's names of arguments. */
#define FC_ADDED(name)                                                                             \
	const struct fc_added a = {pGraphNode,      graph, pDependencies,                          \
				   numDependencies, #name, __builtin_return_address(0)}
/* Returns the work of a node of that type; NULL: it is not one (reported). */
const struct fc_work *fc_node_work(struct fc_proc *p, cudaGraphNode_t node,
				   enum cudaGraphNodeType type, const void *out, const char *call);
/* Adds the node, if `rc` is success: the result of making its work, which it takes over. */
cudaError_t fc_added_finish(struct fc_ctx *ctx, const struct fc_added *a, cudaError_t rc,
			    struct fc_work *work);
cudaError_t fc_added_kernel(struct fc_ctx *ctx, const struct fc_added *a,
			    const struct cudaKernelNodeParams *params);
cudaError_t fc_added_copy(struct fc_ctx *ctx, const struct fc_added *a, const struct fc_copy *copy,
			  enum cudaMemcpyKind kind);
cudaError_t fc_added_fill(struct fc_ctx *ctx, const struct fc_added *a, const struct fc_fill *fill);
cudaError_t fc_added_host(struct fc_ctx *ctx, const struct fc_added *a, cudaHostFn_t fn, void *arg);
cudaError_t fc_added_event(struct fc_ctx *ctx, const struct fc_added *a,
			   enum cudaGraphNodeType type, cudaEvent_t event);
cudaError_t fc_added_child(struct fc_ctx *ctx, const struct fc_added *a, cudaGraph_t child);
cudaError_t fc_added_empty(struct fc_ctx *ctx, const struct fc_added *a);

#endif
