/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks of `sim`: every task is a fiber.
 *
 *                    spawn                  end
 *        NEW -> READY -> RUNNING ----------------> DONE
 *                ^  ^     |    |
 *                |  |     |    +-- wait --> WAITING --+  a write, an event count, a deadline
 *                |  +-----+-- debt, sleep -> SLEEPING -+  its time has passed
 *                +------------------------------------+
 *        any suspended state -- kill of its process --> KILLED
 */
#include <stdlib.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/run/run_internal.h"

/* ---- life of a task ------------------------------------------------------------------------- */

void task_free(struct task *t)
{
	if (t->pub.kind == SIM_TASK_HOST) {
		mem_forget(t);
		mem_forget(&t->done);
	}
	task_list_remove(t);
	t->wake_next = eng.task_pool;
	eng.task_pool = t;
}

static void task_entry(void *arg)
{
	struct task *t = arg;

	if (t->pub.kind == SIM_TASK_HOST)
		mem_acquire(t);
	t->fn(t->arg);
	if (t->pub.kind == SIM_TASK_HOST)
		mem_release(&t->done);
	t->pub.state = SIM_TASK_DONE;
	fiber_exit(&t->fiber);
}

/* Adds a task to the run; its fiber exists. */
void task_admit(struct task *t)
{
	task_list_add(t);
	eng.live++;
	eng.live_foreground += !t->pub.background;
	strategy_task(t);
	moment_task(t);
	task_make_ready(t);
}

int task_launch(struct task *t)
{
	int rc = fiber_create(&t->fiber, &t->pub.sp, t->stack_bytes, task_entry, t);

	if (!rc)
		task_admit(t);
	return rc;
}

int sched_sim_spawn(struct sim_task **out, const struct sim_task_attr *attr, void (*fn)(void *),
		    void *arg)
{
	struct task *t = task_new(attr, fn, arg);

	if (!t)
		return ENOMEM;
	int rc = task_launch(t);
	if (rc) {
		t->wake_next = eng.task_pool;
		eng.task_pool = t;
		return rc;
	}
	if (attr->kind == SIM_TASK_HOST)
		mem_release(t);
	*out = &t->pub;
	return 0;
}

/* Ends a task that returned or was killed: frees its stack, wakes its joiner. */
void task_ended(struct task *t)
{
	ASSERT(eng.live > 0 && t->node_n == 0 && t->timer.at == 0); /* nothing leads to it */
	if (t->mem)
		mem_task_ended(t);
	if (t->fiber.stack) { /* a guest's main task runs on the program's stack */
		mem_fresh(t->fiber.low, t->fiber.bytes);
		fiber_release(&t->fiber);
	}
	t->pub.sp = NULL;
	eng.live--;
	eng.live_foreground -= !t->pub.background;
	if (eng.live_foreground == 0)
		eng.stop = true;
	t->done.v_ = 1;
	waits_wrote(&t->done, sizeof t->done);
	if (t->pub.kind == SIM_TASK_WARP || t->pub.detached)
		task_free(t);
}

static void task_kill(struct task *t)
{
	switch (t->pub.state) {
	case SIM_TASK_READY:
		ready_remove(t);
		break;
	case SIM_TASK_WAITING:
		if (t->node_n) {
			waits_remove(t);
			eng.waiting--;
		} else {
			pollers_unpark(t);
		}
		break;
	case SIM_TASK_SLEEPING:
		break;
	default:
		return;
	}
	if (t->timer.at)
		timer_remove(&t->timer);
	t->pub.state = SIM_TASK_KILLED;
	trace_record("task.killed", t->pub.self.id, 0, 0);
	task_ended(t);
}

void sched_sim_kill_proc(struct os_proc *proc)
{
	struct sim_task *p, *next;

	ASSERT(!eng.current || eng.current->pub.self.proc != proc);
	for (p = sim_tasks_head; p; p = next) {
		next = p->next;
		if (p->self.proc == proc)
			task_kill(task_of(p));
	}
}

/* Discards all tasks without running them: those still alive, and those that ended and were not
 * joined. */
void tasks_discard(void)
{
	while (sim_tasks_head) {
		struct task *t = task_of(sim_tasks_head);

		if (t->fiber.stack)
			fiber_release(&t->fiber);
		task_free(t);
	}
	sim_task_current = NULL;
	task_pool_free();
}

/* ---- suspending ----------------------------------------------------------------------------- */

void task_suspend(struct task *t, enum sim_task_state state)
{
	ASSERT(t == eng.current && state != SIM_TASK_RUNNING);
	t->pub.state = state;
	t->points_alone = 0;
	fiber_suspend(&t->fiber);
}

/* Moves time immediately if nothing else could run before the sleeper wakes. True: it did. */
static bool task_sleep_inline(struct task *t, uint64_t ns)
{
	if (ready_count() || (eng.heap.n && eng.heap.slot[1].when <= eng.now_ns + ns) ||
	    pollers_look_before(eng.now_ns + ns))
		return false;
	if (t->pub.background || eng.stop ||
	    eng.steps - eng.progress_step >= eng.config.budget_events ||
	    eng.now_ns + ns - eng.progress_ns >= eng.config.budget_ns)
		return false;
	sim_gdb_point(); /* the task may have begun with the step that was the limit */
	eng.now_ns += ns;
	eng.steps++;
	t->points_alone = 0;
	sim_gdb_point();
	return true;
}

/* Sleeps. A background task that sleeps by its own call keeps nothing alive (`background`). A task
 * that a charge or the strategy delays is at work: others may depend on its next action. */
void task_sleep_as(struct task *t, uint64_t ns, bool background)
{
	ASSERT(t == eng.current);
	if (!ns || task_sleep_inline(t, ns))
		return;
	t->pub.wake_ns = eng.now_ns + ns;
	timer_add(&t->timer, TIMER_SLEEP, background, t->pub.wake_ns, strategy_tie());
	task_suspend(t, SIM_TASK_SLEEPING);
}

void task_sleep(struct task *t, uint64_t ns)
{
	task_sleep_as(t, ns, false);
}

void task_yield(struct task *t)
{
	if (!ready_count() && !(eng.heap.n && eng.heap.slot[1].when <= eng.now_ns))
		return;
	t->pub.state = SIM_TASK_READY;
	ready_add(t);
	task_suspend(t, SIM_TASK_READY);
}

void task_pay_debt(struct task *t)
{
	uint64_t ns = t->pub.debt_ns;

	t->pub.debt_ns = 0;
	task_sleep(t, strategy_factor(ns));
}
