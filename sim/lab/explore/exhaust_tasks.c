/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the tasks of a run of exhaustion by running it, with an init that blocks and one that does
 * not. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/macros.h"
#include "sim/lab/explore/exhaust_internal.h"

enum { EXHAUST_TASKS_MAX = 512 };

static bool exhaust_tasks_run(const struct exhaust_config *c, bool nonblocking,
			      struct sim_task_log *log)
{
	struct lab_life life;
	struct lab_config lab = exhaust_world(c, &life);
	struct lab_result result;

	life = (struct lab_life){.nonblocking = nonblocking, .stage = c->stage, .abort_rank = -1};
	lab.sim.strategy = SIM_FIFO;
	lab.sim.task_log = log;
	if (lab_run(&lab, &result) == 0 && result.verdict == SIM_PASS && log->n <= log->cap)
		return true;
	fprintf(stderr, "exhaust: the run without a fault, which lists the tasks, %s\n",
		log->n > log->cap ? "has too many" : "fails");
	return false;
}

static const struct sim_task_named *exhaust_task_find(const struct sim_task_log *log,
						      const char *name)
{
	for (uint32_t i = 0; i < log->n; i++)
		if (!strcmp(log->row[i].name, name))
			return &log->row[i];
	return NULL;
}

static bool exhaust_tasks_have(const struct sim_task_log *log, const char *name)
{
	if (!name || exhaust_task_find(log, name))
		return true;
	fprintf(stderr, "doppel exhaust: --task '%s': no task of that name; there are", name);
	for (uint32_t i = 0; i < log->n; i++)
		fprintf(stderr, "%s '%s'", i ? "," : "", log->row[i].name);
	fputc('\n', stderr);
	return false;
}

struct sim_task_log *exhaust_tasks(const struct exhaust_config *c)
{
	struct sim_task_log *log = calloc(1, sizeof *log + EXHAUST_TASKS_MAX * sizeof log->row[0]);

	if (!log) {
		fprintf(stderr, "exhaust: no memory for the names of tasks\n");
		return NULL;
	}
	log->cap = EXHAUST_TASKS_MAX;
	if (exhaust_tasks_run(c, false, log) && exhaust_tasks_run(c, true, log) &&
	    exhaust_tasks_have(log, c->task))
		return log;
	free(log);
	return NULL;
}

const char *exhaust_task(const struct exhaust_config *c, const struct sim_task_log *log,
			 int32_t rank, uint32_t i)
{
	const struct sim_task_named *own;
	char name[48], watch[48];

	if (c->task)
		return i ? NULL : c->task;
	snprintf(name, sizeof name, "rank%d main", rank);
	snprintf(watch, sizeof watch, "rank%d watch", rank);
	own = exhaust_task_find(log, name);
	ASSERT(own);
	for (uint32_t k = 0; k < log->n; k++)
		if (log->row[k].proc == own->proc && strcmp(log->row[k].name, watch) && i-- == 0)
			return log->row[k].name;
	return NULL;
}
