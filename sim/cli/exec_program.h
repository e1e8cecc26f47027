/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `doppel exec` on a program's file before the start. */
#ifndef SIM_CLI_EXEC_PROGRAM_H
#define SIM_CLI_EXEC_PROGRAM_H

#include <stdbool.h>

/* False, explained: its CUDA calls would go to another runtime than the double. A program that is
 * linked with no library of Doppel is reported, and may run: what it loads or starts may use the
 * doubles. */
bool exec_check_program(const char *name);

#endif
