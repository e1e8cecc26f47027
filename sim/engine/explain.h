/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two halves of the hang explainer share: explain.c prints every task and its waits,
 * explain_cause.c prints the few lines that matter, from a wait that a user notices down to the
 * reason of all of it. Both only read, at a failure or from gdb.
 */
#ifndef SIM_ENGINE_EXPLAIN_H
#define SIM_ENGINE_EXPLAIN_H

#include <stdio.h>

#include "sim/engine/sim.h"

bool explain_alive(const struct sim_task *t);
/* The rank that the i-th wait of the task is for; i -1: the rank that the task works for now. */
int32_t explain_rank(const struct sim_task *t, int i);
/* Does the task work for the rank, or wait for it? */
bool explain_is_for(const struct sim_task *t, int32_t rank);
/* The host task that drives the rank: of those that have worked for it, the one with the fewest
 * other ranks. NULL: there is none. */
const struct sim_task *explain_driver(int32_t rank);
/* "is 12, wants >= 13" */
void explain_value(FILE *out, const struct wait *w);
void explain_label(FILE *out, const void *object);
void explain_json_string(FILE *out, const char *s);

/* The cause, one line a hop; nothing when no task waits for another. */
void explain_cause(FILE *out);
/* `"cause":{"end":...,"hops":[...]}`, without a comma after it. */
void explain_cause_json(FILE *out);

#endif
