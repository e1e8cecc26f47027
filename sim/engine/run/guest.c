/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest is a program that began before the engine: its thread is the main task, on its own stack.
 *
 *   sim_run       sim_run's stack: the loop        a fiber of its own: the main task
 *   sim_join      a fiber of its own: the loop     the program's stack: the main task
 *
 * Under `threads` the thread that starts the engine is the main task in both cases.
 */
#include <stdlib.h>

#include "sim/engine/base/gdb_hooks.h"
#include "sim/engine/run/run_internal.h"

/* The loop runs event steps, the explainer and the core writer; it gets a stack like a
 * program's. */
enum { GUEST_LOOP_BYTES = 8 << 20 };

static void guest_loop(void *arg)
{
	(void)arg;
	/* the loop was entered from the program's stack; further entries are from other stacks */
	eng.loop.home = NULL;
	if (setjmp(eng.fail_jump) == 0)
		sched_sim_loop();
	eng.current = NULL;
	sim_task_current = NULL;
	eng.in_event = false;
	if (eng.verdict != SIM_PASS || eng.main_task->pub.state != SIM_TASK_DONE)
		eng.guest_over();
	fiber_enter(&eng.loop, &eng.guest_fiber);
	ASSERT(!"a loop that is over runs again");
}

void guest_join_sim(void)
{
	struct task *t = eng.main_task;
	int rc = fiber_create(&eng.loop, &eng.loop_sp, GUEST_LOOP_BYTES, guest_loop, NULL);

	ASSERT(rc == 0);
	fiber_adopt(&t->fiber, &t->pub.sp);
	t->fiber.home = &eng.loop;
	/* AddressSanitizer stores the bounds of the program's stack there */
	eng.loop.home = &t->fiber;
	task_admit(t);
	/* the loop enters it again immediately, because it is the only task */
	fiber_suspend(&t->fiber);
}

static void guest_stop(void *object, uint64_t arg)
{
	(void)object, (void)arg;
	eng.stop = true;
}

/* Ends the guest's main task. Its stack stays the program's: the place to continue at is kept in
 * eng.guest_fiber, which no end of a task touches. */
bool guest_part_sim(uint64_t limit_ns)
{
	const struct sim_event_attr end = {.name = "guest.end", .delay_ns = limit_ns};
	struct task *t = eng.main_task;

	ASSERT(eng.current == t);
	if (eng.live_foreground > 1)
		sim_event_post(&end, guest_stop, NULL, 0, NULL);
	eng.guest_fiber = t->fiber;
	eng.guest_fiber.sp = &eng.guest_sp;
	t->pub.state = SIM_TASK_DONE;
	fiber_suspend(&eng.guest_fiber);
	fiber_release(&eng.loop);
	return true;
}
