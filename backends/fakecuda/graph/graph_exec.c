/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executable graphs. A launch queues the steps of all branches: branch 0 in the stream of the
 * launch, the others in internal streams between two marks:
 *
 *   stream    wait(last launch) record(start) [0][1]          wait(b) record(end)
 *   branch 1                    wait(start)   [2] wait(0) [3] record(b)
 *
 * A launch follows the launch before it in whatever stream. The program may destroy the executable
 * graph immediately: it is freed when its last launch has ended.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

struct CUgraphExec_st *fc_exec_get(struct fc_proc *p, cudaGraphExec_t handle, const char *call)
{
	struct CUgraphExec_st *x = p->graphs ? p->graphs->execs : NULL;

	while (x && (x != handle || x->destroyed))
		x = x->next;
	if (!x)
		fc_graphs_no_handle(p, call, "executable graph", handle);
	return x;
}

/* ---- begin and end -------------------------------------------------------------------------- */

static cudaError_t exec_check(struct CUgraph_st *g, unsigned long long flags, const char *call)
{
	const unsigned long long known =
		cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;

	if (flags & ~known) {
		fc_report("%s: flags 0x%llx; expected a subset of 0x%llx", call, flags, known);
		return cudaErrorInvalidValue;
	}
	if (!g->capture)
		return cudaSuccess;
	fc_report("%s: graph %u is being captured", call, g->number);
	fc_capture_invalidate(g->capture);
	return cudaErrorStreamCaptureUnsupported;
}

static struct CUgraphExec_st *exec_new(struct fc_proc *p, const struct CUgraph_st *g)
{
	struct CUgraphExec_st *x = calloc(1, sizeof *x);

	ASSERT(x);
	x->magic = FC_EXEC_MAGIC;
	x->proc = p;
	x->graph = fc_graph_copy(g, false);
	x->number = ++p->graphs->exec_last;
	fc_who(x->who);
	x->next = p->graphs->execs;
	p->graphs->execs = x;
	return x;
}

cudaError_t fc_exec_make(struct fc_ctx *ctx, cudaGraph_t graph, unsigned long long flags,
			 const char *call, struct CUgraphExec_st **exec)
{
	struct CUgraph_st *g = fc_graph_get(ctx->proc, graph, call);
	cudaError_t rc = g && exec ? exec_check(g, flags, call) : cudaErrorInvalidValue;
	struct CUgraphExec_st *x;

	if (rc)
		return rc;
	x = exec_new(ctx->proc, g);
	x->flags = flags;
	if (!fc_order_make(&x->order, x->graph)) {
		fc_report("%s: node %u of graph %u, a %s, is part of a cycle", call,
			  x->order.cycle->index, g->number,
			  fc_work_name(x->order.cycle->work.type));
		fc_exec_free(x);
		return cudaErrorInvalidValue;
	}
	*exec = x;
	return cudaSuccess;
}

static void exec_drop_branch(struct CUstream_st *s)
{
	s->destroyed = true;
	if (!s->head || (s->ctx->sticky && !s->head->running))
		fc_stream_drop(s);
}

void fc_exec_free(struct CUgraphExec_st *x)
{
	struct CUgraphExec_st **at = &x->proc->graphs->execs;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	for (uint32_t b = 0; b < FC_BRANCHES_MOST; b++)
		if (x->branch[b])
			exec_drop_branch(x->branch[b]);
	fc_order_free(&x->order);
	fc_mark_unref(x->last);
	if (x->graph)
		fc_graph_free(x->graph);
	x->magic = 0;
	free(x);
}

void fc_exec_launch_over(struct CUgraphExec_st *x)
{
	ASSERT(x->magic == FC_EXEC_MAGIC && x->under_way);
	if (--x->under_way == 0 && x->destroyed)
		fc_exec_free(x);
}

cudaError_t fc_exec_destroy(struct fc_proc *p, cudaGraphExec_t exec, const char *call)
{
	struct CUgraphExec_st *x = fc_exec_get(p, exec, call);

	if (!x)
		return cudaErrorInvalidValue;
	cudaError_t rc = fc_capture_unsafe(p, call);
	if (rc)
		return rc;
	x->destroyed = true;
	fc_graphs_note_gone(p, x, "executable graph", x->number);
	if (!x->under_way)
		fc_exec_free(x);
	return cudaSuccess;
}

/* ---- launch --------------------------------------------------------------------------------- */

/* Returns the stream in which a branch of the launch runs. */
static struct CUstream_st *launch_stream(struct CUgraphExec_st *x, uint32_t b,
					 struct CUstream_st *s)
{
	if (b == 0 && x->order.ctx[0] == s->ctx)
		return s;
	if (!x->branch[b]) {
		x->branch[b] = fc_stream_new(x->order.ctx[b], cudaStreamNonBlocking, 0);
		x->branch[b]->exec = x;
	}
	x->branch[b]->priority = s->priority;
	return x->branch[b];
}

static void launch_step(struct CUgraphExec_st *x, uint32_t number, struct CUstream_st *s,
			struct fc_mark *start, struct fc_mark **marks)
{
	const struct fc_step *st = &x->order.step[number];
	struct CUstream_st *t = launch_stream(x, st->branch, s);

	if (st->place == 1 && t != s && !st->wait_count)
		fc_mark_wait(t, start);
	for (uint32_t i = 0; i < st->wait_count; i++)
		fc_mark_wait(t, marks[st->waits[i]]);
	if (st->node)
		fc_work_queue(st->node, t);
	if (st->marked)
		fc_mark_record(t, &marks[number]);
}

/* Makes the stream of the launch wait for the last step of a branch. */
static void launch_join(struct CUgraphExec_st *x, uint32_t b, struct CUstream_st *s,
			struct fc_mark **marks)
{
	const struct fc_order *o = &x->order;
	struct CUstream_st *t = launch_stream(x, b, s);
	uint32_t last = o->last[b];
	bool in_stream = launch_stream(x, 0, s) == s;

	if (t == s || (in_stream && o->step[o->last[0]].reach[b] >= o->step[last].place))
		return;
	if (!marks[last])
		fc_mark_record(t, &marks[last]);
	fc_mark_wait(s, marks[last]);
}

static void launch_steps(struct CUgraphExec_st *x, struct CUstream_st *s)
{
	const struct fc_order *o = &x->order;
	struct fc_mark *start = NULL, **marks = calloc(o->count + 1, sizeof *marks);

	ASSERT(marks);
	if (o->branches > 1 || (o->branches && launch_stream(x, 0, s) != s))
		fc_mark_record(s, &start);
	for (uint32_t i = 0; i < o->count; i++)
		launch_step(x, i, s, start, marks);
	for (uint32_t b = 0; b < o->branches; b++)
		launch_join(x, b, s, marks);
	fc_mark_unref(start);
	for (uint32_t i = 0; i < o->count; i++)
		fc_mark_unref(marks[i]);
	free(marks);
}

/* Records the end of the launch. Its operation holds the executable graph. */
static void launch_end(struct CUgraphExec_st *x, struct CUstream_st *s)
{
	fc_mark_unref(x->last);
	fc_mark_record(s, &x->last)->exec = x;
	x->last_stream = s->serial;
	x->under_way++;
}

static bool launch_possible(const struct CUgraphExec_st *x, const char *call)
{
	for (uint32_t i = 0; i < x->order.count; i++) {
		const struct fc_step *st = &x->order.step[i];

		if (st->ctx)
			continue;
		fc_report("%s: executable graph %u has nodes of a GPU that was reset", call,
			  x->number);
		return false;
	}
	return true;
}

cudaError_t fc_exec_launch(struct fc_ctx *ctx, cudaGraphExec_t exec, cudaStream_t stream,
			   const char *call)
{
	struct CUgraphExec_st *x = fc_exec_get(ctx->proc, exec, call);
	struct CUstream_st *s;
	cudaError_t rc;

	if (!x)
		return cudaErrorInvalidValue;
	s = fc_stream_get(ctx, stream, call);
	rc = s ? fc_capture_refuse(s, call) : cudaErrorInvalidResourceHandle;
	if (!rc && !launch_possible(x, call))
		rc = cudaErrorContextIsDestroyed;
	if (rc)
		return rc;
	x->launches++;
	os_trace("cuda.graph", s->ctx->dev->index, x->number, x->launches);
	if (x->last && x->last_stream != s->serial)
		fc_mark_wait(s, x->last);
	launch_steps(x, s);
	launch_end(x, s);
	return cudaSuccess;
}

/* Everything of a graph is ready for launches: an upload has nothing to do. */
cudaError_t fc_exec_upload(struct fc_ctx *ctx, cudaGraphExec_t exec, cudaStream_t stream,
			   const char *call)
{
	struct CUgraphExec_st *x = fc_exec_get(ctx->proc, exec, call);
	struct CUstream_st *s = x ? fc_stream_get(ctx, stream, call) : NULL;

	if (!x)
		return cudaErrorInvalidValue;
	return s ? fc_capture_refuse(s, call) : cudaErrorInvalidResourceHandle;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Returns the copy of a node in a graph or in its child graphs. */
static struct CUgraphNode_st *exec_node(struct CUgraph_st *g, const struct CUgraphNode_st *n)
{
	struct CUgraphNode_st *found = fc_node_copy_of(g, n);

	for (uint32_t i = 0; i < g->nodes.count && !found; i++)
		if (g->nodes.at[i]->work.type == cudaGraphNodeTypeGraph)
			found = exec_node(g->nodes.at[i]->work.child, n);
	return found;
}

static void node_set(struct CUgraphNode_st *n, struct fc_work *work)
{
	fc_work_free(&n->work);
	n->work = *work;
	if (work->type == cudaGraphNodeTypeKernel)
		n->work.kernel.params[0] = (void *)(uintptr_t)work->kernel.launch.args;
	free(n->uses); /* what was declared is of the old work */
	n->uses = NULL;
}

cudaError_t fc_exec_set(struct fc_proc *p, cudaGraphExec_t exec, cudaGraphNode_t node,
			struct fc_work *work, const char *call)
{
	struct CUgraphExec_st *x = fc_exec_get(p, exec, call);
	struct CUgraphNode_st *n = x ? fc_node_get(p, node, call) : NULL;
	struct CUgraphNode_st *copy = n ? exec_node(x->graph, n) : NULL;

	if (copy && copy->work.type == work->type) {
		node_set(copy, work);
		return cudaSuccess;
	}
	if (n)
		fc_report("%s: executable graph %u has no copy of node %u of graph %u, a %s", call,
			  x->number, n->index, n->graph->number, fc_work_name(n->work.type));
	fc_work_free(work);
	return cudaErrorInvalidValue;
}

cudaError_t fc_node_set(struct fc_proc *p, cudaGraphNode_t node, struct fc_work *work,
			const char *call)
{
	struct CUgraphNode_st *n = fc_node_get(p, node, call);

	if (n && n->work.type == work->type) {
		node_set(n, work);
		return cudaSuccess;
	}
	if (n)
		fc_report("%s: node %u of graph %u is a %s", call, n->index, n->graph->number,
			  fc_work_name(n->work.type));
	fc_work_free(work);
	return cudaErrorInvalidValue;
}

/* Compares edges and types of two graphs, node by node. */
static enum cudaGraphExecUpdateResult update_compare(const struct CUgraph_st *old,
						     const struct CUgraph_st *new,
						     struct CUgraphNode_st **bad)
{
	enum cudaGraphExecUpdateResult rc = cudaGraphExecUpdateSuccess;

	if (old->nodes.count != new->nodes.count)
		return cudaGraphExecUpdateErrorTopologyChanged;
	for (uint32_t i = 0; i < old->nodes.count; i++) {
		const struct CUgraphNode_st *o = old->nodes.at[i], *n = new->nodes.at[i];

		if (o->from.count != n->from.count)
			return cudaGraphExecUpdateErrorTopologyChanged;
		for (uint32_t k = 0; k < n->from.count; k++)
			if (!fc_nodes_have(&o->from, old->nodes.at[n->from.at[k]->index]))
				return cudaGraphExecUpdateErrorTopologyChanged;
	}
	for (uint32_t i = 0; i < old->nodes.count && !rc; i++) {
		struct CUgraphNode_st *o = old->nodes.at[i], *n = new->nodes.at[i];

		*bad = n;
		if (o->work.type != n->work.type)
			rc = cudaGraphExecUpdateErrorNodeTypeChanged;
		else if (o->work.type == cudaGraphNodeTypeGraph)
			rc = update_compare(o->work.child, n->work.child, bad);
	}
	if (!rc)
		*bad = NULL;
	return rc;
}

static void update_take(struct CUgraph_st *old, const struct CUgraph_st *new)
{
	for (uint32_t i = 0; i < old->nodes.count; i++) {
		struct CUgraphNode_st *o = old->nodes.at[i], *n = new->nodes.at[i];
		struct fc_work work;

		if (o->work.type == cudaGraphNodeTypeGraph) {
			update_take(o->work.child, n->work.child);
			continue;
		}
		fc_work_copy(&work, &n->work, false);
		node_set(o, &work);
	}
}

cudaError_t fc_exec_update(struct fc_proc *p, cudaGraphExec_t exec, cudaGraph_t graph,
			   const char *call, cudaGraphExecUpdateResultInfo *info)
{
	struct CUgraphExec_st *x = fc_exec_get(p, exec, call);
	struct CUgraph_st *g = x ? fc_graph_get(p, graph, call) : NULL;
	struct CUgraphNode_st *bad = NULL;
	enum cudaGraphExecUpdateResult result;

	if (!g)
		return cudaErrorInvalidValue;
	result = update_compare(x->graph, g, &bad);
	if (info)
		*info = (cudaGraphExecUpdateResultInfo){.result = result, .errorNode = bad};
	if (result) {
		fc_report("%s: graph %u differs from executable graph %u by %s", call, g->number,
			  x->number,
			  result == cudaGraphExecUpdateErrorTopologyChanged ? "nodes or edges"
									    : "the type of a node");
		return cudaErrorGraphExecUpdateFailure;
	}
	update_take(x->graph, g);
	fc_kept_copy(x->graph, g);
	return cudaSuccess;
}
