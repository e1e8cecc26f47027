/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that runs in this process several times, once for each process of a world (job.h). Each
 * copy of its file is loaded as a library: so its variables are its own, and the libraries that it
 * is linked with, Doppel's and libc, are one for all copies.
 *
 * What libc keeps for a process (the environment, the state of getopt, the end of a program) is
 * given to each copy by functions in libc's place: program_calls.c. What cannot be given to a copy
 * refuses the program by name: thread-local variables of its own, libraries of its own.
 *
 * Called by job.c. Errors: 0 or a positive errno, explained on stderr.
 */
#ifndef SIM_WORLD_PROGRAM_H
#define SIM_WORLD_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ---- program_file.c: the file --------------------------------------------------------------- */

struct program_file;

/* One reference from the program to something outside it. */
struct program_reference {
	enum { PROGRAM_POINTER, PROGRAM_VARIABLE } kind; /* VARIABLE: the program has a copy */
	const char *name;
	uint64_t address; /* in the file's terms */
};

/* Finds `name` as execvp does, and checks that copies of it can run. */
int program_file_open(const char *name, struct program_file **file);
void program_file_close(struct program_file *file); /* may be NULL */
const char *program_file_path(const struct program_file *file);
/* The file as a library: what dlopen refuses in a program is changed. */
const void *program_file_image(const struct program_file *file, uint64_t *bytes);
uint64_t program_file_main(const struct program_file *file);
/* The i-th library that it is linked with, libnccl left out; NULL: there are fewer. */
const char *program_file_library(const struct program_file *file, uint32_t i);
/* The i-th reference; false: there are fewer. */
bool program_file_reference(const struct program_file *file, uint64_t i,
			    struct program_reference *r);
/* Its functions for the end of a process: the address of the table, and how many. */
uint64_t program_file_finishers(const struct program_file *file, uint64_t *n);

/* ---- program.c: one copy -------------------------------------------------------------------- */

struct program {
	const struct program_file *file; /* the caller's; outlives the copy */
	uintptr_t base;
	int (*main)(int argc, char **argv, char **env);
};

/* Loads a copy, and runs its constructors on the calling task. It stays loaded. */
int program_load(const struct program_file *file, struct program *p);
/* The copy that the program has of a variable of libc's; NULL: it does not use it. */
void *program_variable(const struct program *p, const char *name);
/* What exit does after main: handlers of atexit, destructors. On the calling task. */
void program_finish(const struct program *p);

/* ---- program_calls.c ------------------------------------------------------------------------ */

/* The function that a copy calls in the place of libc's function `name`; NULL: libc's. */
void *program_call(const char *name);

/* ---- program_time.c: sleeps and clocks ------------------------------------------------------ */

/* The function in the place of libc's function `name`, for a copy, and for a guest's whole process;
 * NULL: libc's. In engine sim a sleep takes virtual time, and a clock shows it; elsewhere they are
 * libc's. */
void *program_time_call(const char *name);
/* For a guest: its clocks go on from the real time of this moment. A job's begin as its world
 * does. */
void program_time_continue(void);
/* The program and its libraries, as far as they are loaded, call those functions from here on, in
 * engine sim; libc and Doppel's own do not. */
void program_time_install(void);

#pragma GCC visibility pop
#endif
