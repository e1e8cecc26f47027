/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry points of nccl.h, and declarations that the files of core/api share. core/api checks
 * arguments, collects groups, and passes work to core/comm and core/plan. Every entry point
 *
 *   - checks its arguments, with one WARN that names the argument and the expected value;
 *   - enters the communicator (comm_enter), acts, and leaves it;
 *   - reports its result to the open group, if any (api_return).
 *
 * State: os_self() points to a task's group; the process's registry holds the roots of unique ids.
 */
#ifndef CORE_API_API_H
#define CORE_API_API_H

#include "core/comm/comm_child.h"
#include "core/comm/comm.h"
#include "core/profiler/profiler.h"
#include "core/transport/windows.h"

/* Defines the twin of a function, with a p in front and the same address. The plain name is weak: a
 * tool may define it and call the twin. */
#define API_TWIN(name) extern __typeof__(name) p##name __attribute__((alias(#name)))
#define API_WEAK       __attribute__((weak))

/* Arguments of a call that makes a communicator from `parent`. The parent is entered when it is
 * made. */
struct api_child {
	struct ncclComm *parent;
	const char *call; /* the public function */
	ncclComm_t *out;
	ncclConfig_t config;  /* complete, unless `refused` */
	ncclResult_t refused; /* the call's own error; the other ranks of the parent learn of it */
	/* Sets the members. */
	ncclResult_t (*form)(const struct api_child *child, struct comm_child *ranks);
	/* Offset in the config of the field that shares with the parent; 0: none. */
	size_t share;
	int color, key;          /* ncclCommSplit */
	struct comm_child ranks; /* ncclCommShrink; its members are owned until the call is made */
	int nranks;              /* ncclCommGrow */
	bool has_id;
	ncclUniqueId id; /* with has_id */
};

/* A communicator to initialise, immediately or at the end of a group. */
struct api_init {
	struct api_init *next, *list; /* next in the group; first of the group */
	shared_u32 error;             /* in the first of the list: the earliest error */
	struct api_child *child;      /* it is made from another one; NULL: from an id */
	struct api_init *after;       /* an earlier init with the same parent, or NULL */
	shared_u32 formed;            /* the messages of the parent are over */
	struct ncclComm *comm; /* NULL: not made yet, or this rank is no member of the child */
	ncclComm_t *out;
	int32_t rank;
	uint64_t id_hash, root_hash; /* 0 as long as comm is NULL; root_hash: of the root's id */
	struct os_thread *task;
	ncclResult_t result;
	bool claimed; /* the failed init claimed it before leaving: this task closes it */
};

/* A communicator to suspend or resume at the end of a group. */
struct api_change {
	struct api_change *next;
	struct ncclComm *comm;
	int32_t rank;
	bool resumes;
	struct os_thread *task;
	ncclResult_t result;
};

/* A window to register, or a device communicator to create. */
struct api_window {
	struct api_window *next; /* the communicator's next one in the group */
	ncclWindow_t *out, none; /* none: the output of a call without one */
	struct window_call call;
	struct api_devcomm *devcomm; /* owned; NULL: a window of the program */
};

/* A call on a non-blocking communicator that a separate task makes. The last user frees it. */
struct api_background {
	struct comm_launch head; /* first, because the data is freed by its head */
	struct ncclComm *comm;
	const char *call; /* the public function */
	enum comm_need need;
	/* Called inside the communicator; its error becomes the communicator's. */
	ncclResult_t (*run)(struct api_background *b);
	/* Called instead if the communicator has ended or failed. NULL: nothing to do. */
	void (*drop)(struct api_background *b);
};

/* A communicator with collectives or messages to launch. */
struct api_member {
	struct ncclComm *comm;
	uint64_t id_hash; /* hash of the communicator's id */
	int32_t rank;
	int device;
	bool collective;   /* has a collective */
	bool waits;        /* the calling task must launch it */
	bool slow;         /* another task may launch it, and it connects or may wait for kernels */
	bool connected;    /* connected, and registrations are exchanged */
	bool inside;       /* the communicator is entered */
	bool left;         /* part of its queue is not launched */
	uint64_t position; /* position in its queue: plan_position */
	const struct comm_launch *
		/* Launch in a separate task that the member belongs to; NULL: the caller launches
		 * it. */
		launch;
};

/* Windows of one communicator to register, in the order of their calls: immediately, at the end of
 * a group, or in a separate task. */
struct api_windows {
	struct api_background background; /* first, because the data is freed by its head */
	struct api_windows *next;
	struct ncclComm *comm;
	int32_t rank;
	bool blocking;
	struct api_window *first;
	struct os_thread *task;
	ncclResult_t result;
};

/* Calls that a task has collected since its outermost ncclGroupStart. */
struct api_group {
	int depth;
	ncclResult_t error; /* first error of a call inside */
	bool in_progress;   /* a non-blocking init is running */
	struct api_init *inits, **inits_end;
	struct api_change *changes;  /* in any order */
	struct api_windows *windows; /* in any order */
	struct ncclComm *aborted;    /* chained by abort_next; the group's end closes them */
	/* In order of their first collective, or of their first message if they have no
	 * collective. */
	struct api_member *members;
	int nmembers, room;
	struct profiler_group profile;
};

/* Ends the root of a unique id that this process made. False if this process has no root of that
 * hash. */
bool api_root_close(uint64_t id_hash);
/* Makes an id for which NCCL_COMM_ID means nothing: its root is in this process. */
ncclResult_t api_own_id(const char *call, ncclUniqueId *id);
/* api_child.c: the ranks of the parent agree, and this rank's communicator is created; its init
 * follows. Sets i->comm, NULL if the rank is no member. The caller has entered the parent. */
ncclResult_t api_child_make(const struct api_child *child, struct ncclComm **comm);
/* Runs a call that makes a communicator, or reports to the other ranks that it is refused. The
 * caller has entered the parent. */
ncclResult_t api_child_run(struct api_child *child);
/* Makes the communicator of an init that has a parent. */
ncclResult_t api_init_form(struct api_init *i);
/* Initialises a communicator. The init of a child ends with an error, too, when its parent shows
 * that ranks of it may never come. The end of the parent is such an error unless
 * `parent_may_end`. */
ncclResult_t api_child_init(struct ncclComm *comm, bool parent_may_end);
/* The call will not be made. The other ranks of the parent get an error instead of waiting. */
void api_child_withdraw(struct api_child *child);
/* Adds an init to the open group. */
void api_init_later(struct api_group *g, struct api_init *i);
/* Starts the init of a non-blocking communicator. ncclInProgress, or the error; *out is then NULL
 * and the communicator is closed. */
ncclResult_t api_init_nonblocking(struct ncclComm *comm, ncclComm_t *out);
/* Returns the calling task's group; NULL if no group is open. */
struct api_group *api_group(void);
/* Records an error in the open group, and returns `rc`. */
ncclResult_t api_return(ncclResult_t rc);
/* Runs the inits of the list concurrently, to the end, and frees the list. Returns the first error;
 * in that case all inits are undone. */
ncclResult_t api_inits_run(struct api_init *list);
/* Starts the task, named "rankN NAME". ncclInProgress: it runs. Any other result: it does not, and
 * the caller releases what `run` would have used. Drops the caller's use of the data. */
ncclResult_t api_background_start(struct api_background *b, const char *name);
/* Suspends and resumes concurrently, and frees the list. Returns the first error. */
ncclResult_t api_changes_run(struct api_change *list);
/* Frees the list. The other ranks get an error instead of waiting. */
void api_changes_discard(struct api_change *list);
/* Checks a buffer of the communicator's GPU. ncclInvalidArgument, logged with the public function
 * `call`. */
ncclResult_t api_check_range(const struct ncclComm *comm, const char *call, const void *buff,
			     size_t size);
/* Registers windows, of several communicators concurrently, and frees the list. `waits`: launches
 * of non-blocking communicators follow, too. Returns the first error; ncclInProgress if separate
 * tasks of non-blocking communicators register some. */
ncclResult_t api_windows_run(struct api_windows *list, bool waits);
/* Frees the list. The other ranks get an error instead of waiting. */
void api_windows_discard(struct api_windows *list);
/* Makes the call of an entered communicator immediately, or adds it to the group. `out` NULL: the
 * call has no output. Takes over `devcomm`. */
ncclResult_t api_window_call(struct ncclComm *comm, const struct window_call *call,
			     ncclWindow_t *out, struct api_devcomm *devcomm);
/* Undoes inits that have not begun, and frees the list. */
void api_inits_discard(struct api_init *list);
/* Adds `comm` to the open group: it has a collective or a message to launch at the end of the
 * group. */
ncclResult_t api_group_add_comm(struct api_group *g, struct ncclComm *comm, bool collective);
/* Closes a communicator whose abort word is set, which the caller has claimed. In a group this
 * happens at the group's end, as in NCCL, when the abort words of all that the group aborts are
 * set: their kernels may be in one stream. */
void api_group_abort(struct ncclComm *comm);
struct api_member api_member_of(struct ncclComm *comm);
/* Starts the event of the call's group for a profiler plugin, unless an earlier call did: that of
 * the open group, or *own. Returns the one that has it. */
struct profiler_group *api_profile_begin(struct profiler_group *own, struct ncclComm *comm,
					 const char *call, cudaStream_t stream, bool *captured);
/* After an error, drops all collected calls that are not launched. */
void api_cancel(const struct api_member *members, int n, ncclResult_t error);
/* Launches the members' queues, completely or with an error; they are empty afterwards. Sets the
 * current device. ncclInProgress: a separate task continues the launch. */
ncclResult_t api_launch(struct api_member *members, int n, const char *call);
/* Sets *us to the time that the model expects for the members' collectives; unchanged if they have
 * none. The queues stay. */
ncclResult_t api_simulate(const struct api_member *members, int n, float *us);
/* Launches one communicator outside a group and restores the current device. */
ncclResult_t api_launch_now(struct ncclComm *comm, const char *call);
/* A call that queues work, and the event of a profiler that covers it. */
struct api_submission {
	const char *call;
	cudaStream_t stream;
	cudaEvent_t completion; /* launchCompletionEvent of the call's options, or NULL */
	struct profiler_group own;
};

/* The end of a call that queued its work, or failed to (rc): outside a group it launches the work,
 * or drops what a failed call queued. */
ncclResult_t api_submitted(struct ncclComm *comm, struct api_submission *s, ncclResult_t rc);

/* check.c: argument checks, with one WARN for the first wrong argument. `call` is the public
 * function, `name` the argument. api_check_count needs a valid type; the buffer has `blocks` blocks
 * of `count` elements. */
ncclResult_t api_check_type(const char *call, ncclDataType_t type);
ncclResult_t api_check_count(const char *call, const char *name, size_t count, ncclDataType_t type,
			     size_t blocks);
/* Checks of a buffer that is used. api_check_pointer: it is not NULL. api_check_alignment: it is
 * aligned, for calls that reduce; other calls move bytes only. api_check_memory: it is memory of
 * the communicator's GPU, if pointer checks are enabled. */
ncclResult_t api_check_pointer(const struct ncclComm *comm, const char *call, const char *name,
			       const void *p);
ncclResult_t api_check_alignment(const char *call, const char *name, const void *p,
				 ncclDataType_t type);
ncclResult_t api_check_memory(const struct ncclComm *comm, const char *call, const char *name,
			      const void *p);

#endif
