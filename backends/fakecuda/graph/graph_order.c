/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of an executable graph. A child graph becomes the steps of its nodes, between a first and a
 * last step that do nothing. Each step gets a branch, a chain of steps: that of a step before it
 * which is the last of its branch, else any branch whose last step precedes it, else a new branch.
 * A branch waits for a step of another one unless an earlier wait already covers it. Branches never
 * order steps that the graph does not order, except beyond FC_BRANCHES_MOST.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- steps ---------------------------------------------------------------------------------- */

static uint32_t order_step(struct fc_order *o, struct CUgraphNode_st *n, struct fc_ctx *ctx)
{
	if (o->count == o->room) {
		o->room = MAX_OF(16u, 2 * o->room);
		o->step = realloc(o->step, o->room * sizeof *o->step);
		ASSERT(o->step);
	}
	o->step[o->count] = (struct fc_step){.node = n, .ctx = ctx};
	return o->count++;
}

static void order_from(struct fc_order *o, uint32_t step, uint32_t before)
{
	struct fc_step *s = &o->step[step];

	s->from = realloc(s->from, (s->from_count + 1) * sizeof *s->from);
	ASSERT(s->from);
	s->from[s->from_count++] = before;
}

static bool order_ready(const struct CUgraphNode_st *n)
{
	for (uint32_t i = 0; i < n->from.count; i++)
		if (!n->from.at[i]->step)
			return false;
	return true;
}

static bool order_graph(struct fc_order *o, struct CUgraph_st *g, const uint32_t *begin);

/* Adds the steps of a child graph: between its first step and its last one. */
static bool order_child(struct fc_order *o, struct CUgraphNode_st *n, uint32_t begin)
{
	struct CUgraph_st *child = n->work.child;
	uint32_t end;

	if (!order_graph(o, child, &begin))
		return false;
	end = order_step(o, NULL, n->ctx);
	order_from(o, end, begin);
	for (uint32_t i = 0; i < child->nodes.count; i++)
		if (!child->nodes.at[i]->to.count)
			order_from(o, end, child->nodes.at[i]->step - 1);
	n->step = end + 1;
	return true;
}

static bool order_node(struct fc_order *o, struct CUgraphNode_st *n, const uint32_t *begin)
{
	bool child = n->work.type == cudaGraphNodeTypeGraph;
	uint32_t step = order_step(o, child ? NULL : n, n->ctx);

	for (uint32_t i = 0; i < n->from.count; i++)
		order_from(o, step, n->from.at[i]->step - 1);
	if (begin && !n->from.count)
		order_from(o, step, *begin);
	n->step = step + 1;
	return !child || order_child(o, n, step);
}

/* Adds the steps of a graph's nodes, in the order in which nodes were added as far as edges permit
 * that. `begin`: a step before all of them. */
static bool order_graph(struct fc_order *o, struct CUgraph_st *g, const uint32_t *begin)
{
	uint32_t left = g->nodes.count;
	bool moved = true;

	for (uint32_t i = 0; i < g->nodes.count; i++)
		g->nodes.at[i]->step = 0;
	while (left && moved) {
		moved = false;
		for (uint32_t i = 0; i < g->nodes.count; i++) {
			struct CUgraphNode_st *n = g->nodes.at[i];

			if (n->step || !order_ready(n))
				continue;
			if (!order_node(o, n, begin))
				return false;
			moved = true;
			left--;
		}
	}
	for (uint32_t i = 0; i < g->nodes.count && left && !o->cycle; i++)
		if (!g->nodes.at[i]->step)
			o->cycle = g->nodes.at[i];
	return !left;
}

/* ---- branches ------------------------------------------------------------------------------- */

/* True if the branch may go on with the step: its last step precedes it, on the same GPU. */
static bool branch_fits(const struct fc_order *o, const struct fc_step *s, uint32_t branch)
{
	const struct fc_step *last = &o->step[o->last[branch]];

	return o->ctx[branch] == s->ctx && s->reach[branch] >= last->place;
}

static uint32_t branch_new(struct fc_order *o, const struct fc_step *s, uint32_t number)
{
	uint32_t b = number % FC_BRANCHES_MOST;

	if (o->branches < FC_BRANCHES_MOST) {
		b = o->branches++;
		o->ctx[b] = s->ctx;
		return b;
	}
	for (uint32_t i = 0; i < FC_BRANCHES_MOST && o->ctx[b] != s->ctx; i++)
		b = (b + 1) % FC_BRANCHES_MOST;
	return b;
}

static uint32_t branch_of(struct fc_order *o, uint32_t number)
{
	const struct fc_step *s = &o->step[number];

	for (uint32_t i = 0; i < s->from_count; i++) {
		uint32_t b = o->step[s->from[i]].branch;

		if (o->last[b] == s->from[i] && branch_fits(o, s, b))
			return b;
	}
	for (uint32_t b = 0; b < o->branches; b++)
		if (branch_fits(o, s, b))
			return b;
	return branch_new(o, s, number);
}

/* Fills in, by branch, the last place that precedes the step. */
static void branch_reach(struct fc_order *o, struct fc_step *s)
{
	s->reach = calloc(FC_BRANCHES_MOST, sizeof *s->reach);
	ASSERT(s->reach);
	for (uint32_t i = 0; i < s->from_count; i++) {
		const struct fc_step *f = &o->step[s->from[i]];

		for (uint32_t b = 0; b < o->branches; b++)
			s->reach[b] = MAX_OF(s->reach[b], f->reach[b]);
		s->reach[f->branch] = MAX_OF(s->reach[f->branch], f->place);
	}
}

/* Makes the branch wait for steps of others that its steps so far do not follow. */
static void branch_waits(struct fc_order *o, struct fc_step *s, const struct fc_step *before)
{
	for (uint32_t i = 0; i < s->from_count; i++) {
		struct fc_step *f = &o->step[s->from[i]];

		if (f->branch == s->branch || (before && before->reach[f->branch] >= f->place))
			continue;
		f->marked = true;
		s->waits = realloc(s->waits, (s->wait_count + 1) * sizeof *s->waits);
		ASSERT(s->waits);
		s->waits[s->wait_count++] = s->from[i];
	}
}

static void branch_take(struct fc_order *o, uint32_t number)
{
	struct fc_step *s = &o->step[number], *before;
	uint32_t old;

	branch_reach(o, s);
	old = o->branches;
	s->branch = branch_of(o, number);
	before = s->branch < old ? &o->step[o->last[s->branch]] : NULL;
	branch_waits(o, s, before);
	s->place = before ? before->place + 1 : 1;
	for (uint32_t b = 0; before && b < o->branches; b++)
		s->reach[b] = MAX_OF(s->reach[b], before->reach[b]);
	if (before)
		s->reach[s->branch] = before->place;
	o->last[s->branch] = number;
}

bool fc_order_make(struct fc_order *o, struct CUgraph_st *g)
{
	*o = (struct fc_order){0};
	if (!order_graph(o, g, NULL))
		return false;
	for (uint32_t i = 0; i < o->count; i++)
		branch_take(o, i);
	return true;
}

void fc_order_free(struct fc_order *o)
{
	for (uint32_t i = 0; i < o->count; i++) {
		free(o->step[i].from);
		free(o->step[i].waits);
		free(o->step[i].reach);
	}
	free(o->step);
	*o = (struct fc_order){0};
}
