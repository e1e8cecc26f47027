/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where Doppel's own files are: machines, gdb commands, drop-in libraries. They are looked for from
 * the folder of the library that runs, so an installation may be moved and a clone renamed.
 */
#ifndef SIM_WORLD_INSTALLED_H
#define SIM_WORLD_INSTALLED_H

#include <limits.h>
#include <stdbool.h>

/* `installed` and `in_tree` are the path below some folder above the library, in an installation
 * and in a source tree with its build tree. False: neither exists; then *out is where the source
 * tree that this library was built from has it, for messages. */
bool world_installed(const char *installed, const char *in_tree, char out[PATH_MAX]);

#define WORLD_MACHINES "share/doppel/machines", "sim/world/machines"
#define WORLD_GDB      "share/doppel/gdb/doppel.py", "sim/gdb/doppel.py"
#define WORLD_NCCL     "libnccl.so.2", "libnccl.so.2"
#define WORLD_DROPIN   "doppel/verbs/libibverbs.so.1", "verbs/libibverbs.so.1"

#endif
