/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of the trace file: timeline.c makes them, trace_hash.c writes them. Chrome's JSON: pid
 * is a group of tracks (a rank, a host), tid a track, ts microseconds with three decimals.
 */
#ifndef SIM_ENGINE_TRACE_TIMELINE_H
#define SIM_ENGINE_TRACE_TIMELINE_H

#include "sim/engine/trace/trace_internal.h"

#pragma GCC visibility push(hidden)

enum {
	TRACE_STRING_MAX = 1024,
	/* a record: a name, numbers, and arguments */
	TRACE_RECORD_MAX = (OS_TRACE_ARGS + 4) * TRACE_STRING_MAX,
};

/* trace_hash.c. trace_room returns room for `bytes` more, at most TRACE_RECORD_MAX; trace_end sets
 * their end. A writer holds trace_lock around both. */
char *trace_room(size_t bytes);
void trace_end(const char *to);
void trace_lock(void);
void trace_unlock(void);

/* timeline.c. Writes a record of os_trace as an instant, unless its kind is too frequent. */
void timeline_record(const char *kind, uint64_t a, uint64_t b, uint64_t c);
/* Writes the names of all tracks once more, after the file lost its beginning. */
void timeline_tracks_again(void);
void timeline_stop(void);

/* timeline_kinds.c. Names the numbers of a record. */
struct timeline_kind {
	const char *kind;
	/* thousands in a run of a second: written only with config.trace_detail */
	bool often;
	/* names of a, b, c; "": unused. "host<<24 port": host in the bits from 24 on, port below */
	const char *field[3];
};
/* NULL: the table does not have the kind; a test made it. */
const struct timeline_kind *timeline_kind_find(const char *kind);

#pragma GCC visibility pop
#endif
