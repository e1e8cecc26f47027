/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace, for the floors of the engine above it. */
#ifndef SIM_ENGINE_TRACE_TRACE_INTERNAL_H
#define SIM_ENGINE_TRACE_TRACE_INTERNAL_H

#include "sim/engine/base/engine_internal.h"
#include "sim/engine/trace/trace.h"

#pragma GCC visibility push(hidden)

/* trace_hash.c */
int trace_start(void);
void trace_stop(void);
void trace_flush(void);
void trace_fold(uint64_t a, uint64_t b, uint64_t c);
void trace_record(const char *kind, uint64_t a, uint64_t b, uint64_t c);
void trace_record_bytes(const char *kind, uint64_t a, const void *bytes, size_t n);
bool trace_is_on(void);

/* timeline.c: writes nothing without a trace file */
/* os_trace_begin, os_trace_end, os_trace_span */
void timeline_of_task(char phase, const struct os_trace_slice *s, uint64_t from_ns);
void timeline_wait(struct task *t, const char *why, uint64_t from_ns);
void timeline_instant(const char *name, const char *detail);

#pragma GCC visibility pop
#endif
