/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds Doppel's own files: machines, gdb commands, drop-in libraries. The search starts from the
 * folder of the running library: an installation can be moved and a clone renamed.
 */
#ifndef SIM_WORLD_INSTALLED_H
#define SIM_WORLD_INSTALLED_H

#include <limits.h>
#include <stdbool.h>

/* Searches the folders above the library for `installed` (the path in an installation) and
 * `in_tree` (the path in a source tree with its build tree). False: neither exists. *out is then
 * the path in the source tree from which this library was built, for messages. */
bool world_installed(const char *installed, const char *in_tree, char out[PATH_MAX]);

#define WORLD_MACHINES "share/doppel/machines", "sim/world/machines"
#define WORLD_GDB      "share/doppel/gdb/doppel.py", "sim/gdb/doppel.py"
#define WORLD_NCCL     "libnccl.so.2", "libnccl.so.2"
#define WORLD_HCAS     "libfakeverbs.so", "libfakeverbs.so"
/* links of the names by which programs load NVML */
#define WORLD_DRIVER "doppel/driver/libnvidia-ml.so.1", "driver/libnvidia-ml.so.1"
#define WORLD_DROPIN "doppel/verbs/libibverbs.so.1", "verbs/libibverbs.so.1"

#endif
