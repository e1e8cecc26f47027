/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the `sim` engine that the gdb commands (sim/gdb) read and set. Both sides depend on
 * these names; nothing else sets them. The scheduler and the trace call the inline functions.
 *
 *   sim_tasks_head       first of all live tasks, oldest first; follow ->next
 *   sim_task_current     the task that runs, NULL in event context
 *   fiber_resume_pc      where every suspended task continues, with sp = task->sp (fiber.h)
 *   sim_gdb_step_limit   stop when sim_steps() reaches it; 0: never
 *   sim_gdb_until_ns     stop when virtual time reaches it; 0: never
 *   sim_gdb_trap         stop at that step or later, for a task of that rank, with that id (-1:
 *                        any). `trace` empty: where such a task is about to run. Otherwise: where
 *                        it traces a record of that name, or makes a choice at the site of that
 *                        name that is not quiet. With rank and task -1 a device counts too. (The
 *                        name is one of timeline_kinds, of the sites of rare paths, or of the
 *                        choices listed in sim/gdb/doppel_gdb/names.py.)
 *   sim_gdb_stop         the function that is called once to stop: break on it. Limits and trap
 *                        are cleared before the call. Without a debugger it does nothing.
 *   sim_gdb_now_ns, sim_gdb_steps, sim_gdb_seed   this moment's figures
 *   sim_gdb_runs         number of engines started up to now, this one included
 *
 * Limits are checked before each step, so they change no choice and not the hash.
 */
#ifndef SIM_ENGINE_BASE_GDB_HOOKS_H
#define SIM_ENGINE_BASE_GDB_HOOKS_H

#include "core/base/macros.h"
#include "sim/engine/base/task.h"

struct sim_gdb_trap {
	bool set;
	int32_t rank, task;
	uint64_t step;
	char trace[48];
};

extern struct sim_task *sim_tasks_head, *sim_task_current;
extern uint64_t sim_gdb_step_limit, sim_gdb_until_ns;
extern struct sim_gdb_trap sim_gdb_trap;
extern uint64_t sim_gdb_now_ns, sim_gdb_steps, sim_gdb_seed, sim_gdb_runs;
void sim_gdb_stop(void);

void sim_gdb_check_limits(void);
void sim_gdb_check_trap(const char *trace); /* NULL: the current task is about to run */

static inline void sim_gdb_point(void)
{
	if (UNLIKELY(sim_gdb_step_limit || sim_gdb_until_ns))
		sim_gdb_check_limits();
}

static inline void sim_gdb_point_trap(const char *trace)
{
	if (UNLIKELY(sim_gdb_trap.set))
		sim_gdb_check_trap(trace);
}

#endif
