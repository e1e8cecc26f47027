/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a program's file before `doppel exec` starts it. */
#ifndef SIM_CLI_EXEC_PROGRAM_H
#define SIM_CLI_EXEC_PROGRAM_H

#include <stdbool.h>

/* False if the program's CUDA calls would reach another runtime than the double, which it has
 * explained. A program that is not linked with a library of Doppel is reported but may run:
 * libraries that it loads, or programs that it starts, may use the doubles. */
bool exec_check_program(const char *name);

#endif
