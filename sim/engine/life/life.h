/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an engine: sim_start ... sim_run ... sim_stop. */
#ifndef SIM_ENGINE_LIFE_LIFE_H
#define SIM_ENGINE_LIFE_LIFE_H

#include "sim/engine/base/config.h"

int sim_start(const struct sim_config *config);
/* Runs main_fn as the first task ("main", process 0 of the real or simulated world). Returns when
 * main_fn has returned and no foreground task is alive, or when no progress is possible. A wrong
 * result or misuse that was noted meanwhile becomes the verdict of a run that would pass. The
 * caller that noted any other failure judges it. */
enum sim_verdict sim_run(void (*main_fn)(void *arg), void *arg);
/* Replaces sim_run for a program that began before the engine did. The calling thread becomes the
 * main task at this point, and the rest of the program is the run. The engine calls `ended` when
 * the run ends before the program, by a failure or because a fault killed it; `ended` must not
 * return. */
void sim_join(void (*ended)(enum sim_verdict verdict));
/* Ends the main task of sim_join; the thread that joined calls it. Returns the verdict in *verdict,
 * as sim_run does. Tasks that have not ended `limit_ns` later are discarded, as at a process exit.
 * False: such tasks run on other threads and still need their resources (engine threads); *verdict
 * is then that of the run up to now. */
bool sim_part(uint64_t limit_ns, enum sim_verdict *verdict);
bool sim_joined(void); /* True if the caller is the thread that joined. */
/* Releases all engine resources; discards tasks still alive without running them. */
void sim_stop(void);
/* Completes the trace file at the end of a program whose engine continues. Other threads may still
 * call the engine. */
void sim_leave(void);
/* Resets the engine in a child made by fork: the child has no engine, whatever the parent had. */
void sim_forget(void);

#endif
