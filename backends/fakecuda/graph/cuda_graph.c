/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs: nodes, edges, copies, and the handles of a process. A node lists the nodes before it and
 * those after it, in the order in which the edges were added.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* ---- lists of nodes ------------------------------------------------------------------------- */

bool fc_nodes_have(const struct fc_nodes *list, const struct CUgraphNode_st *n)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->at[i] == n)
			return true;
	return false;
}

void fc_nodes_push(struct fc_nodes *list, struct CUgraphNode_st *n)
{
	if (list->count == list->room) {
		list->room = MAX_OF(4u, 2 * list->room);
		list->at = realloc(list->at, list->room * sizeof *list->at);
		ASSERT(list->at);
	}
	list->at[list->count++] = n;
}

void fc_nodes_add(struct fc_nodes *list, struct CUgraphNode_st *n)
{
	if (!fc_nodes_have(list, n))
		fc_nodes_push(list, n);
}

void fc_nodes_remove(struct fc_nodes *list, const struct CUgraphNode_st *n)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->at[i] != n)
			continue;
		list->count--;
		memmove(&list->at[i], &list->at[i + 1], (list->count - i) * sizeof *list->at);
		return;
	}
}

void fc_nodes_free(struct fc_nodes *list)
{
	free(list->at);
	*list = (struct fc_nodes){0};
}

void fc_nodes_copy(struct fc_nodes *to, const struct fc_nodes *from)
{
	struct fc_nodes copy = {0};

	for (uint32_t i = 0; i < from->count; i++)
		fc_nodes_push(&copy, from->at[i]);
	free(to->at);
	*to = copy;
}

/* ---- graphs --------------------------------------------------------------------------------- */

struct CUgraph_st *fc_graph_new(struct fc_proc *p, bool handle)
{
	struct fc_graphs *all = fc_graphs_get(p);
	struct CUgraph_st *g = calloc(1, sizeof *g);

	ASSERT(g);
	g->magic = FC_GRAPH_MAGIC;
	g->proc = p;
	fc_who(g->who);
	if (handle) {
		g->number = ++all->graph_last;
		g->next = all->graphs;
		all->graphs = g;
	}
	return g;
}

static void node_free(struct CUgraphNode_st *n)
{
	fc_work_free(&n->work);
	fc_nodes_free(&n->from);
	fc_nodes_free(&n->to);
	free(n->uses);
	n->magic = 0;
	free(n);
}

static void graph_unlist(struct CUgraph_st *g)
{
	struct CUgraph_st **at = &g->proc->graphs->graphs;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	fc_graphs_note_gone(g->proc, g, "graph", g->number);
}

void fc_graph_free(struct CUgraph_st *g)
{
	if (g->number)
		graph_unlist(g);
	for (uint32_t i = 0; i < g->nodes.count; i++)
		node_free(g->nodes.at[i]);
	fc_nodes_free(&g->nodes);
	fc_kept_free(g);
	g->magic = 0;
	free(g);
}

static struct fc_node_uses *uses_copy(const struct fc_node_uses *from)
{
	size_t bytes = from ? sizeof *from + from->count * sizeof from->use[0] : 0;
	struct fc_node_uses *to;

	if (!from)
		return NULL;
	to = malloc(bytes);
	ASSERT(to);
	memcpy(to, from, bytes);
	to->room = from->count;
	return to;
}

struct CUgraph_st *fc_graph_copy(const struct CUgraph_st *g, bool handle)
{
	struct CUgraph_st *copy = fc_graph_new(g->proc, handle);

	for (uint32_t i = 0; i < g->nodes.count; i++) {
		const struct CUgraphNode_st *n = g->nodes.at[i];
		const struct fc_place at = {copy, NULL, n->ctx, n->call, n->caller};
		struct fc_work work;
		struct CUgraphNode_st *c;

		fc_work_copy(&work, &n->work, handle);
		c = fc_node_add(&at, &work);
		c->origin = n->serial;
		c->rank = n->rank;
		c->uses = uses_copy(n->uses);
	}
	for (uint32_t i = 0; i < g->nodes.count; i++)
		for (uint32_t k = 0; k < g->nodes.at[i]->from.count; k++)
			fc_edge_add(copy->nodes.at[g->nodes.at[i]->from.at[k]->index],
				    copy->nodes.at[i]);
	fc_kept_copy(copy, g);
	return copy;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

struct CUgraphNode_st *fc_node_add(const struct fc_place *at, const struct fc_work *work)
{
	struct CUgraphNode_st *n = calloc(1, sizeof *n);

	ASSERT(n);
	n->magic = FC_NODE_MAGIC;
	n->graph = at->graph;
	n->serial = ++fc.graph_serial;
	n->index = at->graph->nodes.count;
	n->ctx = at->ctx;
	n->rank = os_self()->rank;
	n->call = at->call;
	n->caller = at->caller;
	n->work = *work;
	if (work->type == cudaGraphNodeTypeGraph)
		work->child->parent = n;
	if (work->type == cudaGraphNodeTypeKernel)
		n->work.kernel.params[0] = (void *)(uintptr_t)work->kernel.launch.args;
	fc_nodes_push(&at->graph->nodes, n);
	for (uint32_t i = 0; at->from && i < at->from->count; i++)
		fc_edge_add(at->from->at[i], n);
	return n;
}

void fc_edge_add(struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	ASSERT(from->graph == to->graph && from != to);
	fc_nodes_push(&from->to, to);
	fc_nodes_push(&to->from, from);
}

void fc_edge_remove(struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	fc_nodes_remove(&from->to, to);
	fc_nodes_remove(&to->from, from);
}

void fc_node_remove(struct CUgraphNode_st *n)
{
	struct fc_nodes *all = &n->graph->nodes;

	while (n->from.count)
		fc_edge_remove(n->from.at[0], n);
	while (n->to.count)
		fc_edge_remove(n, n->to.at[0]);
	fc_nodes_remove(all, n);
	for (uint32_t i = n->index; i < all->count; i++)
		all->at[i]->index = i;
	node_free(n);
}

struct CUgraphNode_st *fc_node_copy_of(const struct CUgraph_st *g,
				       const struct CUgraphNode_st *origin)
{
	for (uint32_t i = 0; i < g->nodes.count; i++)
		if (g->nodes.at[i]->origin == origin->serial)
			return g->nodes.at[i];
	return NULL;
}

/* ---- handles -------------------------------------------------------------------------------- */

struct fc_graphs *fc_graphs_get(struct fc_proc *p)
{
	if (!p->graphs) {
		p->graphs = calloc(1, sizeof *p->graphs);
		ASSERT(p->graphs);
	}
	return p->graphs;
}

void fc_graphs_note_gone(struct fc_proc *p, const void *handle, const char *what, uint32_t number)
{
	struct fc_gone *gone = &p->graphs->gone[p->graphs->gone_count++ % FC_GONE_KEPT];

	*gone = (struct fc_gone){
		.handle = handle, .when_ns = sim_now_ns(), .number = number, .what = what};
	fc_who(gone->who);
}

void fc_graphs_no_handle(struct fc_proc *p, const char *call, const char *what, const void *handle)
{
	if (!handle) {
		fc_report("%s: %s NULL", call, what);
		return;
	}
	for (uint32_t i = p->graphs ? p->graphs->gone_count : 0; i-- > 0;) {
		const struct fc_gone *g = &p->graphs->gone[i % FC_GONE_KEPT];

		if (g->handle == handle && strcmp(g->what, what) == 0) {
			fc_misuse("%s: invalid %s: %s %u, which %s destroyed at %llu ns", call,
				  what, what, g->number, g->who, (unsigned long long)g->when_ns);
			return;
		}
		if (p->graphs->gone_count - i >= FC_GONE_KEPT)
			break;
	}
	fc_misuse("%s: invalid %s: not created by this process", call, what);
}

struct CUgraph_st *fc_graph_get(struct fc_proc *p, cudaGraph_t handle, const char *call)
{
	struct CUgraph_st *g = p->graphs ? p->graphs->graphs : NULL;

	while (g && g != handle)
		g = g->next;
	if (!g)
		fc_graphs_no_handle(p, call, "graph", handle);
	return g;
}

struct CUgraphNode_st *fc_node_get(struct fc_proc *p, cudaGraphNode_t handle, const char *call)
{
	for (struct CUgraph_st *g = p->graphs ? p->graphs->graphs : NULL; g; g = g->next)
		if (fc_nodes_have(&g->nodes, handle))
			return handle;
	fc_graphs_no_handle(p, call, "node", handle);
	return NULL;
}
