/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The moment that the harness configured: the n-th scheduling point of the tasks with a given name.
 * Also logs the names of a run's tasks, for a harness that visits all of them. Engine sim only.
 */
#include <string.h>

#include "sim/engine/order/order_internal.h"

static struct {
	uint64_t points;
} moment;

void moment_start(void)
{
	moment.points = 0;
}

/* True if `what` is the whole name or its first words: "rank1" matches "rank1 main". */
static bool moment_names(const char *what, const char *name)
{
	size_t n = strlen(what);

	return strncmp(name, what, n) == 0 && (name[n] == 0 || name[n] == ' ');
}

/* Adds the task's name to the log. A warp's name ends with its kernel, block and number; it is cut
 * at the first blank, which makes all warps of a GPU one name. */
static void moment_log_add(struct sim_task_log *log, const struct sim_task *t)
{
	struct sim_task_named row = {.proc = t->self.proc->id};
	const char *end = t->kind == SIM_TASK_WARP ? strchr(t->name, ' ') : NULL;
	size_t n = end ? (size_t)(end - t->name) : strlen(t->name);

	DOPPEL_STATIC_CHECK(sizeof row.name == sizeof t->name, "room for each name, and its end");
	memcpy(row.name, t->name, n);
	for (uint32_t i = 0; i < MIN_OF(log->n, log->cap); i++)
		if (log->row[i].proc == row.proc && strcmp(log->row[i].name, row.name) == 0)
			return;
	if (log->n < log->cap)
		log->row[log->n] = row;
	log->n++;
}

void moment_task(struct task *t)
{
	const char *what = eng.config.moment.task;

	t->moment = what && moment_names(what, t->pub.name);
	if (eng.config.task_log)
		moment_log_add(eng.config.task_log, &t->pub);
}

uint64_t moment_point(void)
{
	const struct sim_moment *m = &eng.config.moment;

	if (++moment.points != m->nth)
		return 0;
	trace_record("moment", m->nth, 0, 0);
	m->fn(m->arg);
	return MAX_OF(m->hold_ns, 1ull);
}
