/* SPDX-License-Identifier: BSD-3-Clause */
/* Explains why nothing moves, and writes the core file of a failed run. */
#ifndef SIM_ENGINE_REPORT_REPORT_H
#define SIM_ENGINE_REPORT_REPORT_H

#include <stdio.h>

#include "core/os/os.h"

/* A double's knowledge of the object that a wait is on: one line about the object. `stuck` is true
 * if the object itself is the reason (a link that is down, a queue pair in error, retries). It is
 * false if the reason is a task that has not done its part yet. */
struct sim_explained {
	bool stuck;
	char text[400];
};
/* Registers a function that returns true, and fills *out, if the wait is on an object of its
 * double. Called only at a failure, by any thread; at most 4 functions. */
void sim_on_explain(bool (*explain)(const struct wait *w, struct sim_explained *out));

/* Prints in a few lines why nothing moves, and the wait-for graph of this moment; for people and as
 * JSON. */
void sim_explain(FILE *out);
/* Adds a line that begins explanations of this run: why a task may wait without end. The engine
 * keeps the first four. */
void sim_explain_first(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_explain_json(FILE *out);

/* Writes a core file in which every task is a thread. */
int sim_core_write(const char *path);

/* Registers a function that the signal handler calls on SIGSEGV and SIGBUS, before the engine
 * reports the crash. It returns true if it printed an explanation of the address on stderr (a
 * device pointer dereferenced by the host). At most 4; kept until sim_stop. */
void sim_on_crash(bool (*explain)(int signal, const void *addr));

#endif
