/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for code addresses, static functions included. Reads the symbol tables of the program and
 * its shared libraries from their files, on request. For reports that end a run; slow. Maps the
 * files and takes the loader's lock, as the unwinder of a crash does; allocates no other memory.
 */
#ifndef SIM_ENGINE_BASE_SYMBOL_H
#define SIM_ENGINE_BASE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Finds the function around `pc` ("prim_move_slice") and the distance from its start. False: not
 * found, with "?" in `name`. For a return address pass it minus 1: the call precedes it. */
bool symbol_find(const void *pc, char *name, size_t bytes, size_t *offset);

#pragma GCC visibility pop
#endif
