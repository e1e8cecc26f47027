/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for code addresses, static functions included: reads the symbol tables of the program and
 * its shared libraries from their files, on request. For reports that end a run; slow. Maps the
 * files, and takes the loader's lock, as the unwinder of a crash does; no other memory.
 */
#ifndef SIM_ENGINE_SYMBOL_H
#define SIM_ENGINE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

/* The function around `pc` ("prim_move_slice") and the distance from its start; false: none known,
 * with "?" in `name`. A return address belongs to the call before it: pass it less 1. */
bool symbol_find(const void *pc, char *name, size_t bytes, size_t *offset);

#pragma GCC visibility pop
#endif
