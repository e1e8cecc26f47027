/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wait-for graph: each waiting task, its waits, since when it waits, each word's value and
 * wanted value, and the task that should make the wait true. A wait names rank, channel and kind of
 * task. The target is the live task of that rank that fits best. Idle waits are skipped. Chains
 * follow these targets. A chain that returns to itself is a cycle if none of its tasks waits for a
 * task outside (a knot). A chain that ends at a wait without a rank, or at a rank without a live
 * task, ends at its cause. Only reads; called at a failure, and by gdb.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine/report/report_internal.h"
#include "sim/engine/report/explain.h"

enum { EXPLAIN_LINES = 200, EXPLAIN_CHAINS = 16 };

/* ---- building ------------------------------------------------------------------------------- */

bool explain_alive(const struct sim_task *t)
{
	return t->state != SIM_TASK_DONE && t->state != SIM_TASK_KILLED;
}

int32_t explain_rank(const struct sim_task *t, int i)
{
	return i >= 0 && i < t->wait_n && t->self.wait_ranks ? t->self.wait_ranks[i] : t->self.rank;
}

bool explain_is_for(const struct sim_task *t, int32_t rank)
{
	bool is = t->self.rank == rank;

	for (int i = 0; i < t->wait_n && !is; i++)
		is = explain_rank(t, i) == rank;
	return is;
}

const struct sim_task *explain_driver(int32_t rank)
{
	const struct sim_task *best = NULL;
	int32_t fewest = INT32_MAX;

	for (const struct sim_task *t = sim_task_first(); t; t = t->next) {
		int32_t ranks = t->self.driven_end - t->self.driven_first;

		if (!explain_alive(t) || t->kind != SIM_TASK_HOST || rank < t->self.driven_first ||
		    rank >= t->self.driven_end || ranks >= fewest)
			continue;
		best = t;
		fewest = ranks;
	}
	return best;
}

/* Rates how well task `by` fits as the target of a wait of `t` that is for `rank`; 0: not at
 * all. */
static int explain_score(const struct sim_task *t, int32_t rank, const struct wait_from *from,
			 const struct sim_task *by)
{
	int score = 1;

	if (!explain_alive(by) || !explain_is_for(by, from->rank))
		return 0;
	if (from->object && strstr(by->name, from->object))
		score += 8;
	if (from->channel >= 0 && by->kind == SIM_TASK_WARP && by->block == from->channel)
		score += 4;
	for (int i = 0; i < by->wait_n; i++)
		if (by->wait[i]->from.rank == rank && rank >= 0 && !by->wait[i]->idle)
			score += 2;
	if (by == t)
		score = score > 1 ? 1 : 0;
	return score;
}

/* Returns the node of the task that drives a rank without a task of its own; -1: none. */
static int32_t explain_driver_node(const struct explain_graph *g, int32_t rank)
{
	const struct sim_task *driver = explain_driver(rank);

	for (int32_t i = 0; driver && i < g->n; i++)
		if (g->node[i].task == driver)
			return i;
	return -1;
}

/* Returns the node of the task that the w-th wait of *t waits for; -1: no such task. */
static int32_t explain_target(const struct explain_graph *g, const struct sim_task *t, int w)
{
	const struct wait_from *from = &t->wait[w]->from;
	int32_t next = -1;
	int best = 0;

	for (int32_t i = 0; i < g->n; i++) {
		int score = explain_score(t, explain_rank(t, w), from, g->node[i].task);

		if (score > best) {
			best = score;
			next = i;
		}
	}
	return best ? next : explain_driver_node(g, from->rank);
}

static bool explain_leads(const struct wait *w)
{
	return w->from.rank >= 0 && !w->idle;
}

static void explain_link(struct explain_graph *g, struct explain_node *node)
{
	const struct sim_task *t = node->task;

	for (int w = 0; w < t->wait_n && node->next < 0; w++) {
		if (!explain_leads(t->wait[w]))
			continue;
		node->next = explain_target(g, t, w);
		if (node->next < 0 && node->missing < 0)
			node->missing = t->wait[w]->from.rank;
	}
	if (node->next >= 0)
		g->node[node->next].incoming = true;
}

int explain_graph_build(struct explain_graph *g)
{
	int32_t n = 0;

	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		n++;
	g->n = 0;
	g->node = calloc((size_t)n + 1, sizeof *g->node);
	if (!g->node)
		return ENOMEM;
	for (const struct sim_task *t = sim_task_first(); t; t = t->next)
		if (explain_alive(t))
			g->node[g->n++] =
				(struct explain_node){.task = t, .next = -1, .missing = -1};
	for (int32_t i = 0; i < g->n; i++)
		explain_link(g, &g->node[i]);
	return 0;
}

/* ---- words ---------------------------------------------------------------------------------- */

const char *explain_op(const struct wait *w)
{
	static const char *const op[] = {"==", "!=", ">=", "flags ==", "seq !=", ">= (cyclic)"};

	return w->kind < ARRAY_LEN(op) ? op[w->kind] : "?";
}

const char *explain_state(const struct sim_task *t)
{
	static const char *const name[] = {"new",      "ready", "running", "waiting",
					   "sleeping", "done",  "killed"};

	if (t->state == SIM_TASK_WAITING && !t->wait && t->poll_why)
		return "polling";
	return name[t->state];
}

void explain_label(FILE *out, const void *object)
{
	struct os_label l;

	if (!label_get(object, &l)) {
		fprintf(out, "%p", object);
		return;
	}
	fprintf(out, "%s", l.what);
	if (l.number >= 0)
		fprintf(out, " %" PRId64, l.number);
	if (l.rank >= 0)
		fprintf(out, " of rank %d", l.rank);
	if (l.peer >= 0)
		fprintf(out, " peer %d", l.peer);
	if (l.channel >= 0)
		fprintf(out, " channel %d", l.channel);
}

static void explain_from(FILE *out, const struct wait_from *f)
{
	if (f->rank < 0 && !f->object)
		return;
	fprintf(out, ", from");
	if (f->rank >= 0)
		fprintf(out, " rank %d", f->rank);
	if (f->channel >= 0)
		fprintf(out, " channel %d", f->channel);
	if (f->step >= 0)
		fprintf(out, " step %" PRId64, f->step);
	if (f->object)
		fprintf(out, " (%s)", f->object);
}

static void explain_line(FILE *out, const struct wait *w)
{
	uint32_t flag[2];

	wait_line_flags(w, flag);
	fprintf(out, "line %" PRIu64 " has flags %" PRIu32 " and %" PRIu32 ", wants %" PRIu64,
		w->mask, flag[0], flag[1], w->want);
}

void explain_value(FILE *out, const struct wait *w)
{
	uint64_t have = 0;

	if (w->kind == WAIT_LINE16)
		explain_line(out, w);
	else if (wait_read(w, &have))
		fprintf(out, "is %" PRIu64 ", wants %s %" PRIu64, have, explain_op(w), w->want);
	else
		fprintf(out, "cannot be read, wants %s %" PRIu64, explain_op(w), w->want);
}

static void explain_wait(FILE *out, const struct wait *w)
{
	fprintf(out, "\"%s\" at ", w->why ? w->why : "?");
	explain_label(out, w->on);
	fprintf(out, ": ");
	explain_value(out, w);
	explain_from(out, &w->from);
}

/* ---- for people ----------------------------------------------------------------------------- */

static bool explain_same(const struct sim_task *a, const struct sim_task *b)
{
	if (a->kind != SIM_TASK_WARP || b->kind != SIM_TASK_WARP || a->self.rank != b->self.rank ||
	    a->kernel != b->kernel || a->block != b->block || a->state != b->state ||
	    a->wait_n != 1 || b->wait_n != 1)
		return false;
	const struct wait *v = a->wait[0], *w = b->wait[0];
	return v->on == w->on && v->want == w->want && v->kind == w->kind && v->why == w->why;
}

static void explain_task(FILE *out, const struct explain_node *node)
{
	const struct sim_task *t = node->task;
	const struct task *own = CONTAINER_OF(t, const struct task, pub);
	char since[32];

	fprintf(out, "  task %u \"%s\"%s%s", t->self.id, t->name,
		t->background ? " (background)" : "",
		t->self.proc && t->self.proc->name ? " of " : "");
	if (t->self.proc && t->self.proc->name)
		fprintf(out, "%s", t->self.proc->name);
	if (node->same)
		fprintf(out, " and %u more of its block", node->same);
	if (t->state != SIM_TASK_WAITING) {
		fprintf(out, ": %s\n", explain_state(t));
		return;
	}
	sim_format_ns(since, sim_now_ns() - own->wait_since_ns);
	if (!t->wait) {
		fprintf(out, ": polls \"%s\" without a result\n", t->poll_why ? t->poll_why : "?");
		return;
	}
	if (engine_in_sim())
		fprintf(out, " waits for %s,", since);
	else
		fprintf(out, " waits");
	fprintf(out, t->wait_n > 1 ? " for one of\n" : " for ");
	for (int i = 0; i < t->wait_n; i++) {
		if (t->wait_n > 1)
			fprintf(out, "    ");
		if (explain_rank(t, i) != t->self.rank)
			fprintf(out, "for rank %d: ", explain_rank(t, i));
		explain_wait(out, t->wait[i]);
		fputc('\n', out);
	}
	if (!t->wait_n)
		fprintf(out, "its abort flag\n");
}

static void explain_tasks(FILE *out, struct explain_graph *g)
{
	int lines = 0;

	for (int32_t i = 0; i < g->n; i++) {
		struct explain_node *node = &g->node[i];

		if (node->printed)
			continue;
		for (int32_t j = i + 1; j < g->n; j++) {
			if (!g->node[j].printed && explain_same(node->task, g->node[j].task)) {
				g->node[j].printed = true;
				node->same++;
			}
		}
		if (++lines <= EXPLAIN_LINES)
			explain_task(out, node);
	}
	if (lines > EXPLAIN_LINES)
		fprintf(out, "  and %d more\n", lines - EXPLAIN_LINES);
}

static void explain_chain_end(FILE *out, const struct explain_node *node, uint32_t mark)
{
	const struct sim_task *t = node->task;

	if (node->next >= 0)
		fprintf(out, "%s", mark ? ": a cycle\n" : ", as above\n");
	else if (node->missing >= 0)
		fprintf(out, ", which waits for rank %d: no task of that rank is alive%s\n",
			node->missing, eng.config.silent_objects ? " in this process" : "");
	else if (t->state != SIM_TASK_WAITING)
		fprintf(out, ", which is %s\n", explain_state(t));
	else
		fprintf(out, ", which waits for \"%s\" and names no rank\n",
			t->wait_n     ? t->wait[0]->why
			: t->poll_why ? t->poll_why
				      : "abort");
}

/* True if node i is on the cycle of arrows that begins and ends at `from`. */
static bool explain_on_cycle(const struct explain_graph *g, int32_t from, int32_t i)
{
	int32_t at = from;

	do {
		if (at == i)
			return true;
		at = g->node[at].next;
	} while (at != from && at >= 0);
	return false;
}

/* True if no task outside can end one of the waits on the cycle through node i. The arrows from
 * node i must lead back to it. */
static bool explain_is_knot(const struct explain_graph *g, int32_t i)
{
	int32_t at = i;

	do {
		const struct sim_task *t = g->node[at].task;

		for (int w = 0; w < t->wait_n; w++)
			if (!t->wait[w]->idle && (!explain_leads(t->wait[w]) ||
						  !explain_on_cycle(g, i, explain_target(g, t, w))))
				return false;
		at = g->node[at].next;
	} while (at != i);
	return true;
}

/* Prints the chain of arrows from node i up to an end, a cycle, or a node of an earlier chain. */
static void explain_chain(FILE *out, struct explain_graph *g, int32_t i, uint32_t mark)
{
	struct explain_node *node = &g->node[i];

	fprintf(out, "  %s", node->task->name);
	node->mark = mark;
	while (node->next >= 0) {
		node = &g->node[node->next];
		fprintf(out, " -> %s", node->task->name);
		if (node->mark)
			break;
		node->mark = mark;
	}
	bool back = node->next >= 0 && node->mark == mark;
	explain_chain_end(out, node, back && explain_is_knot(g, (int32_t)(node - g->node)));
}

static void explain_chains(FILE *out, struct explain_graph *g)
{
	uint32_t mark = 0;

	/* first from tasks that no task waits for, then from the remaining ones: pure cycles */
	for (int pass = 0; pass < 2; pass++) {
		for (int32_t i = 0; i < g->n && mark < EXPLAIN_CHAINS; i++) {
			struct explain_node *node = &g->node[i];

			if (node->mark || (pass == 0 && node->incoming) ||
			    (node->next < 0 && node->missing < 0))
				continue;
			if (!mark)
				fprintf(out, "chains:\n");
			explain_chain(out, g, i, ++mark);
		}
	}
}

void sim_explain_first(const char *fmt, ...)
{
	va_list ap;

	if (eng.reasons == ARRAY_LEN(eng.reason))
		return;
	va_start(ap, fmt);
	vsnprintf(eng.reason[eng.reasons], sizeof eng.reason[0], fmt, ap);
	va_end(ap);
	eng.reasons++;
}

static void explain_all(FILE *out)
{
	struct explain_graph g;
	char vtime[32];

	for (uint32_t i = 0; i < eng.reasons; i++)
		fprintf(out, "%s\n", eng.reason[i]);

	/* for a wrong result or a leak the tasks that wait now are not the cause */
	if (!eng.failed || eng.failure.verdict == SIM_NO_PROGRESS)
		explain_cause(out);
	if (explain_graph_build(&g))
		return;
	sim_format_ns(vtime, sim_now_ns() - eng.start_ns);
	fprintf(out, "%d tasks are alive at step %" PRIu64 ", time %s:\n", g.n, eng.steps, vtime);
	explain_tasks(out, &g);
	explain_chains(out, &g);
	free(g.node);
}

void sim_explain(FILE *out)
{
	bool held = show_hold_all();

	explain_all(out);
	show_release_all(held);
}
