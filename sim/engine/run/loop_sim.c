/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of `sim`, on the stack of sim_run: picks a ready task or the due event, runs it.
 *
 * Time moves only when no task is ready and no event is due. If nothing in the foreground can
 * happen then, the loop evaluates every wait again. A wait that is true was not woken: a missed
 * wake, a bug of the code that wrote the word. Otherwise it is a deadlock.
 */
#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/run/run_internal.h"

enum {
	/* Programs sleep for hours, and poll with limits of their own. Their budget is spent when
	 * both the configured steps and PROGRAM_NS have passed, or after this many steps. */
	PROGRAM_STEPS = 200000000,
};

#define PROGRAM_NS 600000000000ull

static void loop_run_task(struct task *t)
{
	ASSERT(t->pub.state == SIM_TASK_READY && t->ready_at == 0); /* ready_pick removed it */
	t->pub.state = SIM_TASK_RUNNING;
	t->pub.switches++;
	eng.switches++;
	eng.steps++;
	trace_fold(0x73776974, t->pub.self.id, 0);
	eng.pct_preempt = false;
	eng.current = t;
	sim_task_current = &t->pub;
	sim_gdb_point_trap(NULL);
	fiber_enter(&eng.loop, &t->fiber);
	eng.current = NULL;
	sim_task_current = NULL;
	if (UNLIKELY(eng.verdict != SIM_PASS))
		return; /* the task failed, and stays where it is */
	bool look = fiber_suspect(&t->fiber, t->pub.switches) || t->pub.state == SIM_TASK_DONE;
	if (UNLIKELY(look && t->fiber.stack && fiber_overflowed(&t->fiber)))
		engine_fail(SIM_CRASH, "stack", "task %u \"%s\" overflowed its stack of %zu bytes",
			    t->pub.self.id, t->pub.name, t->fiber.bytes);
	if (t->pub.state == SIM_TASK_DONE)
		task_ended(t);
}

/* Wakes the task of the heap's top: its sleep is over, or its deadline has passed. */
static void loop_wake_top(void)
{
	struct timer *timer = eng.heap.slot[1].timer;
	struct task *t = CONTAINER_OF(timer, struct task, timer);

	ASSERT(timer->kind != TIMER_EVENT); /* loop_due leaves an event in the heap */
	ASSERT(t->pub.state == (timer->kind == TIMER_SLEEP ? SIM_TASK_SLEEPING : SIM_TASK_WAITING));
	timer_remove(timer);
	if (timer->kind == TIMER_DEADLINE) {
		waits_remove(t);
		eng.waiting--;
	}
	task_make_ready(t);
}

/* Fails the run, or lets the pollers look: nothing in the foreground can happen, and a task still
 * waits. */
static void loop_quiescent(void)
{
	if (pollers_look())
		return;
	for (struct sim_task *p = sim_tasks_head; p; p = p->next) {
		if (p->state != SIM_TASK_WAITING || !p->wait)
			continue;
		int first = waits_first_true(p->wait, p->wait_n);
		if (first >= 0 || waits_aborted(p->wait_abort))
			engine_fail(
				SIM_NO_PROGRESS, "missed-wake",
				"task %u \"%s\" waits for \"%s\", which is true, but it was "
				"not woken: what made it true did not report the write (sim_wrote)",
				p->self.id, p->name, first >= 0 ? p->wait[first]->why : "abort");
	}
	engine_threads_may_go_on();
	engine_fail(SIM_NO_PROGRESS, "deadlock",
		    "%u foreground tasks wait and nothing is left that could wake them",
		    eng.live_foreground);
}

static void loop_check_budget(void)
{
	uint64_t steps = eng.steps - eng.progress_step, ns = eng.now_ns - eng.progress_ns;

	if (LIKELY(steps < eng.config.budget_events && ns < eng.config.budget_ns))
		return;
	if (engine_has_programs() && steps < PROGRAM_STEPS &&
	    (steps < eng.config.budget_events || ns < PROGRAM_NS))
		return;
	engine_fail(SIM_NO_PROGRESS, "livelock",
		    "no progress for %llu steps and %llu ns of virtual time",
		    (unsigned long long)steps, (unsigned long long)ns);
}

/* Makes ready the tasks whose time has passed; true if an event is due. */
static bool loop_due(void)
{
	while (eng.heap.n && eng.heap.slot[1].when <= eng.now_ns) {
		if (eng.heap.slot[1].timer->kind == TIMER_EVENT)
			return true;
		loop_wake_top();
	}
	return false;
}

void sched_sim_loop(void)
{
	while (!eng.stop) {
		loop_check_budget();
		if (UNLIKELY(eng.steps >= eng.watch_step))
			watch_check();
		sim_gdb_now_ns = eng.now_ns;
		sim_gdb_steps = eng.steps;
		sim_gdb_point();
		bool event_due = loop_due();
		if (!event_due && !ready_count()) {
			if (!eng.heap.foreground && !pollers_go_on())
				loop_quiescent();
			else
				pollers_let_pass();
			continue;
		}
		struct task *t = ready_pick(event_due);
		if (t)
			loop_run_task(t);
		else
			event_run_top();
	}
}
