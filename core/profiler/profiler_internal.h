/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/profiler share. */
#ifndef CORE_PROFILER_PROFILER_INTERNAL_H
#define CORE_PROFILER_PROFILER_INTERNAL_H

#include "core/plugin/plugin.h"
#include "core/profiler/profiler.h"

/* A plugin in a process. */
struct profiler {
	struct plugin_shared shared; /* must be first; references: communicators and open groups */

	struct os_mutex lock; /* of the fields below, until `loaded` */
	bool loaded;          /* the library was opened, or that failed: table is NULL */
	struct plugin_library library;
	const struct profiler_table *table;
	int version;
	shared_u32 *mask; /* a word of the library: the plugin writes it, also later */
};

struct profiler_kernel;

struct profiler_comm {
	struct profiler *of;
	void *context;
	const char *comm_name; /* the communicator's, "" without one */
	uint64_t number[DEV_FUNC_COUNT];
	/* 1: a line was written about an error, about a slow call, about lost times */
	shared_u32 refused, slow;
	struct profiler_kernel *kernel;
};

/* profiler.c */
/* Drops a reference; the last one closes the library. */
void profiler_put(struct profiler *p);
/* Logs the failure of a function, or that it took long. `from_ns`: time before the call. */
void profiler_check(struct profiler_comm *pc, int32_t rank, const char *function, ncclResult_t rc,
		    uint64_t from_ns);

/* profiler_call.c: functions whose types depend on the version. Results are the plugin's. */
ncclResult_t profiler_call_init(struct profiler_comm *pc, const struct ncclComm *comm,
				int32_t nhosts);
/* An event that the version does not know is not sent; *event is NULL then. */
ncclResult_t profiler_call_start(const struct profiler_comm *pc, uint64_t comm_id,
				 const struct profiler_descr *d, void **event);
ncclResult_t profiler_call_record(const struct profiler *p, void *event, enum profiler_state state,
				  const union profiler_args *args);

/* profiler_kernel.c */
/* Makes the memory of times. On failure kernels have no events, which is logged. */
void profiler_kernel_open(struct ncclComm *comm);
/* WAITS for the task. Events that have not ended are stopped. */
void profiler_kernel_close(struct ncclComm *comm);

#endif
