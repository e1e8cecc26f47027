/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of exhaustion: exhaust.c (the series and their runs), exhaust_judge.c (the
 * verdict on a run).
 */
#ifndef SIM_LAB_EXHAUST_INTERNAL_H
#define SIM_LAB_EXHAUST_INTERNAL_H

#include <string.h>

#include "sim/lab/explore/exhaust.h"
#include "sim/lab/life/life.h"
#include "sim/lab/run/runner.h"

#define EXHAUST_MACHINE       "h100-8nic"
#define EXHAUST_COMMAND_BYTES 1280

/* One fault, one way of running. */
struct exhaust_series {
	enum exhaust_class class;
	const char *site, *action; /* abort: "watch", "main", "step" or "held" */
	const char *task;          /* abort at its steps; NULL: not at steps */
	int32_t rank;
	bool for_ever, fifo;
};

static inline bool exhaust_is_sticky(const struct exhaust_series *s)
{
	return !strcmp(s->action, "sticky");
}

/* Goes over the scheduling points of each task of a process. */
static inline bool exhaust_is_stepped(const struct exhaust_series *s)
{
	return !strcmp(s->action, "step") || !strcmp(s->action, "held");
}

/* One run without a fault, of a life with or without a blocking init, in a world as `c` has it. */
struct lab_config exhaust_world(const struct exhaust_config *c, struct lab_life *life);
/* The names of all tasks that such runs have, c->task among them if it is given; the caller frees
 * it. NULL: it failed, as explained. */
struct sim_task_log *exhaust_tasks(const struct exhaust_config *c);
/* c->task, or the i-th task of the process of `rank`, its watch left out; NULL: there are fewer. */
const char *exhaust_task(const struct exhaust_config *c, const struct sim_task_log *log,
			 int32_t rank, uint32_t i);

/* Returns the reason why a run that passed is wrong; NULL: it is right. `fired`: the fault
 * fired. */
const char *exhaust_judge(const struct exhaust_series *s, const struct lab_life *life, bool fired);
/* The same of a run that did not pass. */
const char *exhaust_verdict(const struct lab_result *result);
void exhaust_print_ranks(FILE *out, const struct lab_life *life);
/* The command that repeats the k-th run of a series. */
void exhaust_command(const struct exhaust_config *c, const struct exhaust_series *s, uint64_t k,
		     char *out, size_t bytes);

/* Faults that fail a call or break its object. Delays, duplicates and other orders are not in it.
 * The calls of the verbs and CUDA layers that can fail are one sequence, LAYER.any. */
bool exhaust_action_counts(const struct exhaust_config *c, const struct exhaust_series *s);

#endif
