/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that a run writes: trace, recorded choices, JSON, the files of a failure directory. If a
 * file could not be written completely, one line on stderr names the file and the reason.
 * sim_output_lost() is then true, and a run that passes does not exit with 0. The engine, the lab
 * and the command line call these. Functions return 0 or a positive errno, which they have
 * explained.
 */
#ifndef SIM_ENGINE_BASE_OUTPUT_H
#define SIM_ENGINE_BASE_OUTPUT_H

#include <stdio.h>

/* Opens the file for writing; NULL: it failed. `what` begins the line: "trace", "choices". */
FILE *output_open(const char *what, const char *path);
/* errno of the first failed write; 0 if none failed. Logs nothing. */
int output_flush(FILE *f);
/* Closes the file; 0 if all written bytes are in it. */
int output_close(FILE *f, const char *what, const char *path);
/* Checks before a long run that the file can be written. Creates it if needed; keeps its
 * content. */
int output_check(const char *what, const char *path);
void output_failed(const char *what, const char *path, int error);
/* Begins a run: clears sim_output_lost(). */
void output_start(void);

#endif
