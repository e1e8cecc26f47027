/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest: a program that is written against nccl.h and the CUDA runtime API and does not know of
 * worlds. Its first call starts an engine and a world of one host. The environment configures both:
 * DOPPEL_MACHINE, DOPPEL_ENGINE, DOPPEL_SEED, DOPPEL_FAULTS, DOPPEL_TRACE. `doppel exec` sets these
 * variables. Without DOPPEL_MACHINE no world starts. The run is judged at the program's exit, as
 * `doppel run` judges. If the program exits with 0 and its run failed, the exit status is the
 * verdict.
 *
 * Callers: the GPU double, at an entry point outside any engine, and libnccl.so.2 (backends/nccl),
 * at the first call of os.h. An invalid variable ends the program with SIM_USAGE.
 */
#ifndef SIM_WORLD_GUEST_H
#define SIM_WORLD_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine/sim.h"

/* Starts the guest's world. Several threads may call it first: one of them starts the world, the
 * others wait until it exists. True: nothing remains to be started. False: no world exists and
 * DOPPEL_MACHINE is not set, or the calling thread is starting the world now. */
bool world_guest_begin(void);
/* True if the calling thread is a guest's main task. */
bool world_guest_runs(void);
/* Ends the guest. The destructors of the libraries that start it call this. The exit handlers of
 * the program and of its other libraries have run by then. Returns when the program may continue to
 * exit. */
void world_guest_end(void);
/* Stops the calling thread if the guest's world has ended: its process is about to exit in another
 * thread. */
void world_guest_stop_late(void);
/* True if a program with this environment could start and its trace could be written. False: it has
 * explained why on stderr. For the command line, outside any engine. */
bool world_guest_check(void);

/* ---- for a job (job.h), which has several programs in one world ------------------------------ */

/* Starts the engine and a world of that many hosts from this environment. Returns 0 or a positive
 * errno, which it has explained. */
int world_guest_start(uint32_t hosts);
/* Ends the world after sim_run. Reports failures and leaks that the engine has not reported. */
enum sim_verdict world_guest_judge(enum sim_verdict verdict);
/* Prints the plan, the seed and the trace hash on stderr. */
void world_guest_report(void);
/* Calls world_guest_report, then stops the engine. Returns SIM_USAGE instead of SIM_PASS if the
 * report or the trace could not be written. */
enum sim_verdict world_guest_stop(enum sim_verdict verdict);
/* Ends this process as sim_exit does, even if tasks still run in it. */
void world_guest_quit(int code) __attribute__((noreturn));

#endif
