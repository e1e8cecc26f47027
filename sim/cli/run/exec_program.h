/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a program's file before `doppel exec` starts it. */
#ifndef SIM_CLI_EXEC_PROGRAM_H
#define SIM_CLI_EXEC_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

/* False if the program's CUDA calls would reach another runtime than the double, which it has
 * explained. A program that is not linked with a library of Doppel is reported but may run:
 * libraries that it loads, or programs that it starts, may use the doubles. */
bool exec_check_program(const char *name);

/* Exit codes of env(1). */
#define EXEC_CANNOT_RUN 126
#define EXEC_NOT_FOUND  127

/* exec.c: shows the host's HCAs in /dev and /sys to this process. */
void exec_hcas_show(uint32_t host);

/* exec_procs.c: starts `count` real processes of the program on `hosts` hosts, and waits for them.
 * hcas: each of them gets the HCAs of its host in /dev and /sys. Returns the exit code of the worst
 * one, or SIM_USAGE, explained. */
int exec_procs(uint32_t count, uint32_t hosts, bool hcas, char **program);

#endif
