/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace hash, and rows of the trace file that do not belong to a task. */
#ifndef SIM_ENGINE_TRACE_TRACE_H
#define SIM_ENGINE_TRACE_TRACE_H

#include "sim/engine/base/task.h"

uint64_t sim_hash(void); /* rolling trace hash */

enum sim_track_group { SIM_TRACK_RANK, SIM_TRACK_HOST, SIM_TRACK_RUN };
bool sim_trace_detailed(void); /* config.trace_detail */
/* Names the track in its first call. `number` is a rank or a host; -1: neither. */
void sim_track_open(struct sim_track *t, enum sim_track_group group, int32_t number,
		    const char *name);
void sim_trace_begin(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_end(const struct sim_track *t, const struct os_trace_slice *s);
void sim_trace_span(const struct sim_track *t, const struct os_trace_slice *s, uint64_t from_ns,
		    uint64_t ns);
/* Records that a counter of the track's group has the value `milli`, in thousandths, from at_ns on.
 * The counter has a row of its own. */
void sim_trace_counter(const struct sim_track *t, const char *name, const char *unit,
		       uint64_t at_ns, uint64_t milli);

#endif
