/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the gdb commands (sim/gdb) read and set in the `sim` engine. Names are part of the contract
 * between the two; nothing else calls this.
 *
 *   sim_tasks_head       first of all live tasks, oldest first; follow ->next
 *   sim_task_current     the task that runs, NULL in event context
 *   fiber_resume_pc      where every suspended task continues, with sp = task->sp (fiber.h)
 *   sim_gdb_step_limit   stop when sim_steps() reaches it; 0: never
 *   sim_gdb_until_ns     stop when virtual time reaches it; 0: never
 *   sim_gdb_stop         the function that is then called, between two steps, once: break on it.
 *                        Both limits are 0 again by then. Without a debugger it does nothing.
 *   sim_gdb_now_ns, sim_gdb_steps, sim_gdb_seed   this moment's figures
 *
 * Limits are checked before each step, so they change no choice and not the hash.
 */
#ifndef SIM_ENGINE_GDB_HOOKS_H
#define SIM_ENGINE_GDB_HOOKS_H

#include "sim/engine/sim.h"

extern struct sim_task *sim_tasks_head, *sim_task_current;
extern uint64_t sim_gdb_step_limit, sim_gdb_until_ns;
extern uint64_t sim_gdb_now_ns, sim_gdb_steps, sim_gdb_seed;
void sim_gdb_stop(void);

#endif
