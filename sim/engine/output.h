/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that a run leaves: trace, recorded choices, JSON, what is in a failure folder. A file that
 * could not be written in whole is one line on stderr that names the file and the reason, and
 * sim_output_lost() holds, so that a run that passes does not end with 0. Called by the engine, the
 * lab and the command line. Errors: 0 or a positive errno, explained.
 */
#ifndef SIM_ENGINE_OUTPUT_H
#define SIM_ENGINE_OUTPUT_H

#include <stdio.h>

/* NULL: it cannot be opened. `what` begins the line: "trace", "choices". */
FILE *output_open(const char *what, const char *path);
/* Why something that was written is lost, silently; 0: nothing is. */
int output_flush(FILE *f);
/* Whether all that was written is in the file. Closes it in any case. */
int output_close(FILE *f, const char *what, const char *path);
/* Before a long run: creates the file, or checks that it can be written and leaves its content. */
int output_check(const char *what, const char *path);
void output_failed(const char *what, const char *path, int error);
/* A run begins: nothing is lost. */
void output_start(void);

#endif
