/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a process' graphs, and of a GPU's part in them. */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

uint32_t fc_graphs_left(const struct fc_proc *p, char *first, size_t bytes)
{
	uint32_t n = 0;

	for (const struct CUgraph_st *g = p->graphs ? p->graphs->graphs : NULL; g; g = g->next) {
		if (g->parent || (g->capture && g->capture->owned))
			continue;
		snprintf(first, bytes, "graph %u of %u nodes, by %s", g->number, g->nodes.count,
			 g->who);
		n++;
	}
	for (const struct CUgraphExec_st *x = p->graphs ? p->graphs->execs : NULL; x; x = x->next) {
		if (x->destroyed)
			continue;
		snprintf(first, bytes, "executable graph %u, by %s", x->number, x->who);
		n++;
	}
	for (const struct CUuserObject_st *o = p->graphs ? p->graphs->objects : NULL; o && !n;
	     o = o->next) {
		snprintf(first, bytes, "user object %u, by %s", o->number, o->who);
		return 1;
	}
	return n;
}

void fc_graphs_end(struct fc_proc *p)
{
	struct fc_graphs *all = p->graphs;
	struct CUgraphExec_st *x, *next;

	if (!all)
		return;
	all->ending = true;
	while (all->captures)
		fc_capture_drop(p, all->captures);
	while (all->graphs) {
		struct CUgraph_st *g = all->graphs;

		while (g->parent)
			g = g->parent->graph;
		fc_graph_free(g);
	}
	for (x = all->execs; x; x = next) {
		next = x->next;
		for (uint32_t b = 0; b < FC_BRANCHES_MOST; b++)
			x->branch[b] = NULL; /* ends with its context */
		fc_graph_free(x->graph);
		x->graph = NULL;
		x->destroyed = true;
		if (!x->under_way)
			fc_exec_free(x);
	}
}

void fc_graphs_free(struct fc_proc *p)
{
	struct fc_graphs *all = p->graphs;

	if (!all)
		return;
	ASSERT(!all->graphs && !all->execs && !all->captures);
	while (all->objects) {
		struct CUuserObject_st *o = all->objects;

		all->objects = o->next;
		free(o);
	}
	free(all);
	p->graphs = NULL;
}

static void graph_ctx_gone(struct CUgraph_st *g, const struct fc_ctx *ctx)
{
	for (uint32_t i = 0; i < g->nodes.count; i++) {
		struct CUgraphNode_st *n = g->nodes.at[i];
		struct fc_work *w = &n->work;
		bool event = w->type == cudaGraphNodeTypeEventRecord ||
			     w->type == cudaGraphNodeTypeWaitEvent;

		if (n->ctx == ctx)
			n->ctx = NULL;
		if (w->type == cudaGraphNodeTypeGraph && !w->child->number)
			graph_ctx_gone(w->child, ctx);
		if (!event || !w->event || w->event->ctx != ctx)
			continue;
		fc_event_unkeep(w->event);
		w->event = NULL;
		n->ctx = NULL;
	}
}

void fc_graphs_ctx_gone(struct fc_ctx *ctx)
{
	struct fc_graphs *all = ctx->proc->graphs;

	for (struct CUgraph_st *g = all ? all->graphs : NULL; g; g = g->next)
		graph_ctx_gone(g, ctx);
	for (struct CUgraphExec_st *x = all ? all->execs : NULL; x; x = x->next) {
		graph_ctx_gone(x->graph, ctx);
		for (uint32_t b = 0; b < x->order.branches; b++)
			if (x->order.ctx[b] == ctx)
				x->branch[b] = NULL;
		for (uint32_t i = 0; i < x->order.count; i++) {
			struct fc_step *st = &x->order.step[i];

			if (st->ctx == ctx || (st->node && !st->node->ctx))
				st->ctx = NULL;
		}
	}
}
