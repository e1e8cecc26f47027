/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of waits that explains why nothing moves: explain_cause.c finds it,
 * explain_cause_print.c prints it. */
#ifndef SIM_ENGINE_REPORT_EXPLAIN_CAUSE_H
#define SIM_ENGINE_REPORT_EXPLAIN_CAUSE_H

#include "sim/engine/report/explain.h"
#include "sim/engine/report/report.h"

#pragma GCC visibility push(hidden)

enum { CAUSE_HOPS = 24 };

enum cause_end {
	CAUSE_NOWHERE, /* a wait that names no rank */
	CAUSE_ROUND,   /* the chain returns, but one of its tasks waits for others too */
	CAUSE_RUNS,    /* a task that is not waiting */
	CAUSE_CYCLE,
	CAUSE_NO_WORK,   /* the target task does nothing for this channel */
	CAUSE_NO_LAUNCH, /* the rank has not launched the kernel that is waited for */
	CAUSE_NO_CALL,   /* the rank has not called the other end of a message */
	CAUSE_LEFT,      /* the rank has no task that makes calls */
	CAUSE_GONE,      /* no task of that rank is alive */
	CAUSE_STUCK,     /* an object of the doubles is the reason */
};

struct hop {
	const struct sim_task *task;
	int32_t rank;                /* rank that the wait is for: a task may work for several */
	const struct wait *wait;     /* NULL: the task has no wait that fits */
	int32_t unlaunched;          /* rank whose kernel the task has to launch; -1: none */
	struct sim_explained object; /* text "": none */
};

struct cause {
	struct hop hop[CAUSE_HOPS];
	int n, again;     /* again: index of the hop that the last one leads back to */
	int32_t rank;     /* of CAUSE_GONE, CAUSE_LEFT, CAUSE_NO_CALL and CAUSE_NO_LAUNCH */
	const char *call; /* of CAUSE_NO_CALL: "ncclRecv from" */
	enum cause_end end;
};

/* Finds the best chain; false: no task waits for another. The caller frees *best. */
bool cause_find(struct cause **best);
/* Returns the channel of the wait, or of the task. */
int32_t cause_channel(const struct sim_task *t, const struct wait *w);
/* True if `rank` made more calls `what` than `peer` made calls `other`, the other end, over all
 * communicators. */
bool cause_is_ahead(const char *what, int32_t rank, const char *other, int32_t peer);
/* Returns the wait of a task without work; NULL: the task has work under way. */
const struct wait *cause_idle(const struct sim_task *t);

#pragma GCC visibility pop
#endif
