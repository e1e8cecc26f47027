/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the two halves of the hang explainer. explain.c prints every task and its
 * waits. explain_cause.c prints the few lines that matter, from a wait that a user notices down to
 * its reason. Both only read, at a failure or from gdb.
 */
#ifndef SIM_ENGINE_REPORT_EXPLAIN_H
#define SIM_ENGINE_REPORT_EXPLAIN_H

#include <stdio.h>

#include "sim/engine/base/task.h"

/* A task in the wait-for graph. */
struct explain_node {
	const struct sim_task *task;
	int32_t next;    /* index of the task that it waits for, or -1 */
	int32_t missing; /* rank that it waits for and that has no live task, or -1 */
	bool incoming, printed;
	uint32_t mark; /* number of the chain that passed it; 0: none */
	uint32_t same; /* number of further tasks with the same line */
};

/* The wait-for graph. */
struct explain_graph {
	struct explain_node *node;
	int32_t n;
};

/* Builds the graph of all tasks; the caller frees g->node. ENOMEM. */
int explain_graph_build(struct explain_graph *g);
const char *explain_op(const struct wait *w); /* ">=" */
const char *explain_state(const struct sim_task *t);

bool explain_alive(const struct sim_task *t);
/* Returns the rank that the task's i-th wait is for. i -1: the rank that the task works for now. */
int32_t explain_rank(const struct sim_task *t, int i);
/* True if the task works for the rank or waits for it. */
bool explain_is_for(const struct sim_task *t, int32_t rank);
/* Returns the host task that drives the rank. If several tasks have worked for the rank, it is the
 * one with the fewest other ranks. NULL: no such task. */
const struct sim_task *explain_driver(int32_t rank);
/* Prints "is 12, wants >= 13". */
void explain_value(FILE *out, const struct wait *w);
void explain_label(FILE *out, const void *object);
void explain_json_string(FILE *out, const char *s);

/* Prints the cause, one line per hop; nothing if no task waits for another. */
void explain_cause(FILE *out);
/* Prints `"cause":{"end":...,"hops":[...]}` without a comma after it. */
void explain_cause_json(FILE *out);

#endif
