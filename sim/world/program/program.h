/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that runs in this process several times: once for each process of a world (job.h). The
 * dynamic loader loads each copy of its file as a library. Each copy has its own variables. All
 * copies share the libraries that the program is linked with, Doppel's and libc.
 *
 * libc keeps one environment, one getopt state and one exit for the whole process. program_calls.c
 * replaces those functions and keeps this state for each copy. A program with thread-local
 * variables of its own, or with libraries of its own, is refused by name: copies cannot have
 * separate ones.
 *
 * job.c is the caller. Returns 0 or a positive errno, which is explained on stderr.
 */
#ifndef SIM_WORLD_PROGRAM_H
#define SIM_WORLD_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ---- program_file.c: the file --------------------------------------------------------------- */

struct program_file;

/* A reference from the program to a symbol outside it. */
struct program_reference {
	enum { PROGRAM_POINTER, PROGRAM_VARIABLE } kind; /* VARIABLE: the program has a copy */
	const char *name;
	uint64_t address; /* virtual address in the file */
};

/* Finds `name` as execvp does and checks that copies of the file can run. */
int program_file_open(const char *name, struct program_file **file);
void program_file_close(struct program_file *file); /* may be NULL */
const char *program_file_path(const struct program_file *file);
/* Returns the file's bytes as a library: the parts that dlopen refuses in a program are changed. */
const void *program_file_image(const struct program_file *file, uint64_t *bytes);
uint64_t program_file_main(const struct program_file *file);
/* Returns the i-th library that the program is linked with, without libnccl. NULL: fewer exist. */
const char *program_file_library(const struct program_file *file, uint32_t i);
/* Stores the i-th reference in *r. False: fewer exist. */
bool program_file_reference(const struct program_file *file, uint64_t i,
			    struct program_reference *r);
/* Returns the address of the table of the program's termination functions. *n is their number. */
uint64_t program_file_finishers(const struct program_file *file, uint64_t *n);

/* ---- program.c: one copy -------------------------------------------------------------------- */

struct program {
	const struct program_file *file; /* owned by the caller; must outlive the copy */
	uintptr_t base;
	int (*main)(int argc, char **argv, char **env);
};

/* Loads a copy and runs its constructors on the calling task. The copy is never unloaded. */
int program_load(const struct program_file *file, struct program *p);
/* Returns the program's copy of a libc variable. NULL: the program does not use it. */
void *program_variable(const struct program *p, const char *name);
/* Runs the atexit handlers and the destructors of a copy on the calling task, as exit does after
 * main. */
void program_finish(const struct program *p);

/* ---- program_calls.c ------------------------------------------------------------------------ */

/* Returns the function that a copy calls instead of libc's `name`. NULL: it calls libc's. */
void *program_call(const char *name);

/* ---- program_time.c: sleeps and clocks ------------------------------------------------------ */

/* Returns the function that replaces libc's function `name`, in a copy or in a guest's whole
 * process. NULL: libc's stays. In engine sim a sleep takes virtual time, and a clock shows virtual
 * time. Elsewhere the replacements call libc's functions. */
void *program_time_call(const char *name);
/* For a guest: its clocks continue from the real time of this moment. A job's clocks start with its
 * world. */
void program_time_continue(void);

/* ---- program_install.c ---------------------------------------------------------------------- */

/* Redirects calls of the program and of the libraries loaded so far. In engine sim: to the
 * functions of program_time_call. In engine `threads`: those of pthread_create, so that a thread
 * that a library starts belongs to the program. libc and Doppel's own libraries keep libc's. */
void program_install(void);

#pragma GCC visibility pop
#endif
