/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes as the engine sees them: which tasks belong to one, and how one is killed. */
#include <pthread.h>

#include "sim/engine/run/run_internal.h"

struct os_proc *sim_main_proc(void)
{
	ASSERT(eng.phase != ENGINE_OFF);
	return &eng.main_proc;
}

void sim_kill_proc(struct os_proc *proc)
{
	eng.sched->kill_proc(proc);
}

static bool engine_proc_has(const struct os_proc *proc, bool detached)
{
	bool any = false;

	if (!engine_in_sim())
		pthread_mutex_lock(&threads_lock);
	for (const struct sim_task *t = sim_task_first(); t && !any; t = t->next) {
		const struct task *task = t->priv;

		any = t->self.proc == proc && task != eng.main_task &&
		      (!detached || (t->detached && !t->background)) &&
		      !__atomic_load_n(&task->done.v_, __ATOMIC_ACQUIRE);
	}
	if (!engine_in_sim())
		pthread_mutex_unlock(&threads_lock);
	return any;
}

bool sim_proc_has_tasks(const struct os_proc *proc)
{
	return engine_proc_has(proc, false);
}

bool sim_proc_finishes(const struct os_proc *proc)
{
	return engine_proc_has(proc, true);
}

/* Ends a process with the world's hook, which also cleans up. */
void engine_kill_step(void *proc, uint64_t arg)
{
	(void)arg;
	if (eng.kill_hook)
		eng.kill_hook(proc);
	else
		sim_kill_proc(proc);
}

void sim_set_killer(void (*kill)(struct os_proc *proc))
{
	eng.kill_hook = kill;
}

int sim_task_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *),
		   void *arg)
{
	ASSERT(eng.phase != ENGINE_OFF);
	ASSERT(attr->proc);
	return eng.sched->spawn(t, attr, fn, arg);
}

void sim_point(const char *site)
{
	(void)site;
	if (eng.phase == ENGINE_RUNNING)
		eng.sched->point();
}
