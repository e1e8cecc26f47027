/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches with a deadline. An event before the kernel and one after it, in the launch's stream,
 * show when the stream has reached the launch and when the launch has ended. The time runs from the
 * first look that finds the stream there. Earlier work of the stream therefore does not count, and
 * neither do earlier launches of the communicator.
 *
 * The rank's main task adds launches (core/plan). The RAS task looks at them (core/comm), oldest
 * first. A launch has no deadline if RANK_TIMED others have not ended; CUDA's queues are shorter. A
 * launch that is captured in a CUDA graph has none either.
 *
 * A call that waits for other ranks outside of a launch is recorded here too, with or without a
 * deadline, if the process has a RAS task.
 *
 * Owned by the communicator. Times are in ns.
 */
#ifndef CORE_RANK_TIMED_H
#define CORE_RANK_TIMED_H

#include <cuda_runtime_api.h>

#include "core/base/shared.h"
#include "core/include/nccl.h"

#define RANK_TIMED 1024 /* launches that have a deadline and have not ended */

/* A launch: `calls` collectives from number `first` on, or messages. */
struct rank_launch {
	uint64_t timeout_ns; /* 0: no deadline */
	uint64_t first;
	int32_t calls;    /* 0: the launch has messages */
	int32_t messages; /* in the queue of the launch */
	bool connects;    /* the calling task still connects the ranks of the messages */
	bool forms;       /* the calling task forms communicators: number `number`, from 1 */
	/* The first message: */
	int32_t peer;
	bool is_send;
	uint8_t type; /* ncclDataType_t */
	uint64_t count, number;
	const void *caller; /* of the first call */
};

struct rank_timed_slot {
	struct rank_launch launch;
	cudaEvent_t begins, ends; /* NULL: not made yet */
};

struct rank_timed {
	shared_u64 made, ended;       /* launches; a slot is free once its launch has ended */
	struct rank_timed_slot *slot; /* [RANK_TIMED], by number % RANK_TIMED; NULL: none made */
	bool begun;                   /* between begin and end: the launch has a slot */
	/* A call that waits for other ranks before its launch, its name, and since when; 0: none.
	 * Changes under the registry's lock. */
	struct rank_launch call;
	const char *call_name; /* a string constant */
	uint64_t call_since_ns;
	shared_u64 formed; /* calls that form communicators, and have begun */
	/* Used by the task that looks: time since which the oldest launch is known to run; 0: not
	 * known. */
	uint64_t since_ns;
};

/* Makes the first events. The others are made when they are used first. */
ncclResult_t rank_timed_make(struct rank_timed *t);
/* Called before the first and after the last operation of a launch. Without a deadline they do
 * nothing. */
ncclResult_t rank_timed_begin(struct rank_timed *t, const struct rank_launch *l,
			      cudaStream_t stream);
ncclResult_t rank_timed_end(struct rank_timed *t, const struct rank_launch *l, cudaStream_t stream);
/* The calling task begins to wait for other ranks in the public function `name`; l NULL: it has
 * ended. */
void rank_timed_call(struct rank_timed *t, const struct rank_launch *l, const char *name);
/* The same for a call that forms communicators from one, or suspends or resumes it. `counts`: it is
 * the first part of such a call. peer: the rank that it waits for; -1: all ranks. */
void rank_timed_form(struct rank_timed *t, uint64_t timeout_ns, const char *name, bool counts,
		     int32_t peer);
/* Returns the name of the call that waits now, since when, and for which rank; peer -1: for
 * several. NULL: no call waits. The caller holds the registry's lock. */
const char *rank_timed_waits(const struct rank_timed *t, uint64_t *since_ns, int32_t *peer);
/* Looks at the launches, and at the call that waits before its launch. Returns the time for which
 * the oldest one has run if that is its deadline or more, and the launch; 0: none is late. */
uint64_t rank_timed_look(struct rank_timed *t, struct rank_launch *l);
/* Returns the number of the first collective that a stream had not reached at the last look;
 * `calls`: none is known. Called by the task that looks. */
uint64_t rank_timed_reached(const struct rank_timed *t, uint64_t calls);
/* All launches have ended. */
void rank_timed_free(struct rank_timed *t);

#endif
