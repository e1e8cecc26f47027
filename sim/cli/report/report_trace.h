/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timeline of a run, read from the trace.json that it left (docs/sim/trace.md): tracks, and
 * slices on them in the order of their beginnings. Times are virtual ns since the run's start. All
 * texts point into the file's text, which the trace takes over. Errors: 0 or a positive errno,
 * explained on stderr.
 */
#ifndef SIM_CLI_REPORT_TRACE_H
#define SIM_CLI_REPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum report_kind {
	REPORT_CALL,       /* of the program: ncclAllReduce, init */
	REPORT_PLAN,       /* the choice for a call */
	REPORT_KERNEL,     /* on a GPU's stream */
	REPORT_COLLECTIVE, /* in a kernel */
	REPORT_COPY,       /* by a copy engine */
	REPORT_SLOT,       /* a kernel fills a slot, or takes one */
	REPORT_PROXY,      /* a slice that the proxy sends or has received */
	REPORT_LINK,       /* a message occupies a port's link */
	REPORT_WAIT,       /* of a task */
	REPORT_STATE,      /* an instant: queue pairs, memory, sockets */
	REPORT_FAULT,      /* an instant: a fault, a loss, a death, a port that changes */
};

enum report_group { REPORT_RUN, REPORT_RANK, REPORT_HOST };

struct report_track {
	enum report_group group;
	int32_t number;   /* of the rank or host; -1: of the run */
	const char *name; /* NULL: no track has this id */
};

struct report_slice {
	uint64_t at_ns, ns;
	size_t order; /* in the file */
	int32_t track;
	enum report_kind kind;
	bool open; /* not ended when the run ended */
	const char *name;
	const char *details; /* "number 0, count 2, bytes 8"; "": none */
};

struct report_trace {
	char *text, *details;       /* the file, and room for all details */
	struct report_track *track; /* by tid */
	int32_t tracks;
	struct report_slice *slice;
	size_t n, room;
	uint64_t end_ns; /* of the last record */
	bool began_late; /* the file has only the end of the run */
};

/* Takes over `text` (of `bytes`, then NUL), also after an error. `path` is for messages. */
int report_trace_read(struct report_trace *t, char *text, size_t bytes, const char *path);
void report_trace_free(struct report_trace *t);

/* Value of a detail, "bytes" for example; `otherwise` if the slice has no such number. */
int64_t report_detail(const struct report_slice *s, const char *name, int64_t otherwise);
/* Rank of the slice's track; -1: none. */
int32_t report_slice_rank(const struct report_trace *t, const struct report_slice *s);
bool report_is_gpu(const struct report_track *t);

#endif
