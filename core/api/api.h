/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry points of nccl.h: argument checks, groups, and the hand-over to core/comm and
 * core/plan. What the files of core/api share. Every entry point
 *
 *   - checks its arguments, with one WARN that names the argument and what was expected;
 *   - enters the communicator (comm_enter), acts, and leaves it;
 *   - reports its result to the group that it may be in (api_return).
 *
 * State: a task's group hangs off os_self(), roots of unique ids are in the process' registry.
 */
#ifndef CORE_API_API_H
#define CORE_API_API_H

#include "core/comm/comm.h"

/* Gives a function its twin with a p in front, at the same address. The plain name is weak, so
 * that a tool may define it and call the twin. */
#define API_TWIN(name) extern __typeof__(name) p##name __attribute__((alias(#name)))
#define API_WEAK       __attribute__((weak))

/* A communicator to be made: immediately, or at the end of a group. */
struct api_init {
	struct api_init *next, *list; /* all of the group */
	shared_u32 error;             /* of the first of the list: the first error in time */
	struct ncclComm *comm;
	ncclComm_t *out;
	int32_t rank;
	uint64_t id_hash;
	struct os_thread *task;
	ncclResult_t result;
	bool claimed; /* by the failed init, before it left: ours to close */
};

/* A communicator with collectives or messages to launch. */
struct api_member {
	struct ncclComm *comm;
	uint64_t id_hash; /* the communicator's */
	int32_t rank;
	int device;
	bool collective;   /* it has one */
	bool waits;        /* the calling task must launch it */
	bool connects;     /* its ranks must be connected first */
	bool connected;    /* that is done, and what they have registered is exchanged */
	bool inside;       /* entered */
	bool left;         /* something of its queue is not launched */
	uint64_t position; /* in its queue: plan_position */
	const struct comm_launch *
		launch; /* the launch in a task of its own that it belongs to; NULL: the caller's */
};

/* What a task has collected since its outermost ncclGroupStart. */
struct api_group {
	int depth;
	ncclResult_t error; /* the first of a call inside */
	bool in_progress;   /* a non-blocking init is under way */
	bool has_stream;    /* `stream` is that of an earlier call, which has checked it */
	cudaStream_t stream;
	struct api_init *inits, **inits_end;
	struct api_member
		*members; /* in order of their first collective, or message if they have none */
	int nmembers, room;
};

/* Ends the root of a unique id that this process made. False: it has none of that hash. */
bool api_root_close(uint64_t id_hash);
/* The calling task's group; NULL: none is open. */
struct api_group *api_group(void);
/* Notes an error in the open group, and returns `rc`. */
ncclResult_t api_return(ncclResult_t rc);
/* Runs the inits of the list, all at the same time, to the end. The first error; on an error of
 * any, all are undone. Frees the list. */
ncclResult_t api_inits_run(struct api_init *list);
/* Undoes inits that were not begun. */
void api_inits_discard(struct api_init *list);
/* `comm` has a collective, or a message, to launch at the end of the open group. */
ncclResult_t api_group_add_comm(struct api_group *g, struct ncclComm *comm, bool collective);
struct api_member api_member_of(struct ncclComm *comm);
/* After an error nothing that was collected and not launched is left over. */
void api_cancel(const struct api_member *members, int n, ncclResult_t error);
/* Launches what the members' queues hold, all of it or with an error; the queues are empty then.
 * Sets the current device. ncclInProgress: a task of its own goes on with it. */
ncclResult_t api_launch(struct api_member *members, int n, const char *call);
/* The same for one communicator, outside a group; the current device stays. */
ncclResult_t api_launch_now(struct ncclComm *comm, const char *call);

/* check.c: arguments, with one WARN for what is wrong; `call` is the public function, `name` the
 * argument. A type; then, of a type that exists, a count of elements in each of `blocks` blocks. */
ncclResult_t api_check_type(const char *call, ncclDataType_t type);
ncclResult_t api_check_count(const char *call, const char *name, size_t count, ncclDataType_t type,
			     size_t blocks);
/* A buffer that is used: not NULL; aligned, where the call reduces: what is only moved is bytes;
 * then, memory of the communicator's GPU, where that is to be checked. */
ncclResult_t api_check_pointer(const struct ncclComm *comm, const char *call, const char *name,
			       const void *p);
ncclResult_t api_check_alignment(const char *call, const char *name, const void *p,
				 ncclDataType_t type);
ncclResult_t api_check_memory(const struct ncclComm *comm, const char *call, const char *name,
			      const void *p);
ncclResult_t api_check_stream(const char *call, cudaStream_t stream);

#endif
