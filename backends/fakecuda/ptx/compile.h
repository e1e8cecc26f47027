/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds the C of emit.c with the system's compiler, and loads it. The C file and the library stay
 * in a folder, under a hash of the C text: `doppel/ptx` in XDG_CACHE_HOME, else in ~/.cache. gdb
 * shows the C file where a kernel has no `.loc`. Called at the first launch of a kernel, by a host
 * task.
 */
#ifndef BACKENDS_FAKECUDA_PTX_COMPILE_H
#define BACKENDS_FAKECUDA_PTX_COMPILE_H

#include "backends/fakecuda/ptx/lane.h"

enum { PTX_BUILD_ERROR_BYTES = 4400 }; /* two paths of files, and words */

struct ptx_code {
	void (*entry)(struct ptx_lane *lane);
	uint32_t static_shared; /* bytes */
};

/* `name` is part of the files' names. The library stays loaded until the process ends. False:
 * `error` has the reason. */
bool ptx_build(const char *text, const char *name, struct ptx_code *code,
	       char error[PTX_BUILD_ERROR_BYTES]);

#endif
