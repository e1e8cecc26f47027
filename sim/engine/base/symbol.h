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
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Finds the function around `pc` ("prim_move_slice") and the distance from its start. False: not
 * found, with "?" in `name`. For a return address pass it minus 1: the call precedes it. */
bool symbol_find(const void *pc, char *name, size_t bytes, size_t *offset);

/* Stores the return addresses of the running calls, innermost first, and returns their number, at
 * most `most`. `top`: the end of the stack. They come from the chain of frame pointers, which fake
 * builds keep. */
int symbol_frames(uintptr_t top, const void **frame, int most);

#pragma GCC visibility pop
#endif
