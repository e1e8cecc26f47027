/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the trace file shows: timeline.c makes the records, trace.c writes them. Chrome's JSON with
 * pid a group of tracks (a rank, a host), tid a track, ts microseconds with three decimals.
 */
#ifndef SIM_ENGINE_TIMELINE_H
#define SIM_ENGINE_TIMELINE_H

#include "sim/engine/engine_internal.h"

#pragma GCC visibility push(hidden)

enum {
	TRACE_STRING_MAX = 1024,
	/* a record: a name, numbers, and arguments */
	TRACE_RECORD_MAX = (OS_TRACE_ARGS + 4) * TRACE_STRING_MAX,
};

/* trace.c. Room for `bytes` more, at most TRACE_RECORD_MAX; trace_end sets where they end. All that
 * writes is between trace_lock and trace_unlock. */
char *trace_room(size_t bytes);
void trace_end(const char *to);
void trace_lock(void);
void trace_unlock(void);

/* timeline.c. A record of os_trace, as an instant if people want to see its kind. */
void timeline_record(const char *kind, uint64_t a, uint64_t b, uint64_t c);
/* The names of all tracks, once more: the file has lost its beginning. */
void timeline_tracks_again(void);
void timeline_stop(void);

/* timeline_kinds.c. What the numbers of a record mean. */
struct timeline_kind {
	const char *kind;
	/* thousands in a run of a second: only with config.trace_detail */
	bool often;
	/* of a, b, c; "": there is none. "host<<24 port": host in the bits from 24 on, port
	 * below */
	const char *field[3];
};
/* NULL: a kind that the table does not have, of a test. */
const struct timeline_kind *timeline_kind_find(const char *kind);

#pragma GCC visibility pop
#endif
