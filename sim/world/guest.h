/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest: a program that knows nothing of worlds, written against nccl.h and the CUDA runtime API.
 * At its first call it gets an engine and a world of one host, by the environment (`doppel exec`
 * sets it): DOPPEL_MACHINE, DOPPEL_ENGINE, DOPPEL_SEED, DOPPEL_FAULTS, DOPPEL_TRACE. Without
 * DOPPEL_MACHINE there is no world. At its exit the run is judged as `doppel run` judges; a program
 * that ends with 0 and whose run failed ends with the verdict instead.
 *
 * Called by the GPU double at an entry point outside any engine, and by libnccl.so.2
 * (backends/nccl) at the first call of os.h. What is wrong with the environment ends the program
 * with SIM_USAGE.
 */
#ifndef SIM_WORLD_GUEST_H
#define SIM_WORLD_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine/sim.h"

/* Several threads may call it first: one starts, the others wait until all is there. True: nothing
 * is left to begin. False: there is no world and no DOPPEL_MACHINE, or the calling thread is the
 * one that starts. */
bool world_guest_begin(void);
/* Is the calling thread a guest's main task? */
bool world_guest_runs(void);
/* From the destructors of the libraries that begin it: what the program, and the libraries that it
 * has besides, do at exit is done. Returns when the program may go on ending. */
void world_guest_end(void);
/* Could a program with this environment begin, and its trace be written? False: explained. For the
 * command line, outside any engine. */
bool world_guest_check(void);

/* ---- for a job (job.h), which has several programs in one world
 * ------------------------------- */

/* The engine and the world of this environment, which has that many hosts. What is wrong is
 * explained; a positive errno. */
int world_guest_start(uint32_t hosts);
/* After sim_run: ends the world, and reports what the engine has not. */
enum sim_verdict world_guest_judge(enum sim_verdict verdict);
/* On stderr: the plan, the seed, and the trace hash. */
void world_guest_report(void);
/* That, and then the engine's end. A pass whose report or trace is lost is none: SIM_USAGE. */
enum sim_verdict world_guest_stop(enum sim_verdict verdict);
/* Ends this process, whatever still runs in it; as sim_exit. */
void world_guest_quit(int code) __attribute__((noreturn));

#endif
