/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports, for life. */
#ifndef SIM_ENGINE_REPORT_REPORT_INTERNAL_H
#define SIM_ENGINE_REPORT_REPORT_INTERNAL_H

#include "sim/engine/report/report.h"
#include "sim/engine/run/run_internal.h"

#pragma GCC visibility push(hidden)

/* crash.c */
void crash_install(void);
void crash_restore(void);
/* Fills an elf_gregset_t from the crash that is being reported, or else from `otherwise`. */
void crash_registers(void *regs, const ucontext_t *otherwise);

/* dump.c */
extern const struct report_ops report_files;
/* Writes the choices of a failed run. */
void report_fail_choices(void);

#pragma GCC visibility pop
#endif
