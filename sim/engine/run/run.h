/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and ending tasks and processes, and scheduling points. */
#ifndef SIM_ENGINE_RUN_RUN_H
#define SIM_ENGINE_RUN_RUN_H

#include "sim/engine/base/task.h"

/* Spawns a task, which is ready immediately. The engine frees it after its end: a host task when it
 * is joined, a warp or detached task when `fn` returned. *t of such a task may already be freed on
 * return. Returns ENOMEM or EAGAIN. */
int sim_task_spawn(struct sim_task **t, const struct sim_task_attr *attr, void (*fn)(void *arg),
		   void *arg);
/* Returns process 0, the main task's, from sim_start to sim_stop. The world fills in its
 * identity. */
struct os_proc *sim_main_proc(void);
/* Kills every task of the process: none of them runs again. Suspended tasks end immediately. No
 * task of the process may call it. */
void sim_kill_proc(struct os_proc *proc);
/* True if the process has a task that has not ended, besides the main task of a guest. */
bool sim_proc_has_tasks(const struct os_proc *proc);
/* True if the process has a detached foreground task: a library is finishing work after the call
 * that began it. */
bool sim_proc_finishes(const struct os_proc *proc);
/* Sets the function that a process-ending fault calls, in event context. It calls sim_kill_proc and
 * cleans up (world_proc_kill). Without it only the tasks end. */
void sim_set_killer(void (*kill)(struct os_proc *proc));

/* A scheduling point: pays the task's debt and lets the strategy run another task. Every entry
 * point of a double begins with one. Not allowed in event context. */
void sim_point(const char *site);

/* Engine `threads`: makes the calling thread, which the engine did not start, a background task of
 * `proc`. The thread calls it before any other function; otherwise it becomes a task of process
 * 0. */
void sim_adopt_thread(struct os_proc *proc);

/* Engine sim: a program reads a clock. A read costs a little time. A loop that only reads clocks
 * pays more per read, which lets it reach the time that it waits for. */
uint64_t sim_clock_read(void);

#endif
