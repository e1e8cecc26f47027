/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a communicator: how a rank joins, how calls enter and leave, and how it ends. What
 * the rooms below read of a communicator is struct ncclComm (core/rank/rank.h); what only this room
 * and core/api need is struct comm_life. comm_init takes the rank through
 *
 *   bootstrap -> gather peer_info -> check versions, duplicates -> topology, paths, ring search ->
 *   gather graphs -> rings, channels -> connect transports -> device communicator -> barrier
 *
 * and comm_close ends it in reverse. core/api checks arguments and calls in here.
 *
 * Life:
 *
 *	INIT --comm_init--> READY ---------comm_finalize----------> FINALIZED
 *	  |                   |                                       ^ |
 *	  |                   +--> FINALIZING (non-blocking) --done---+ |
 *	  |                   |        |                                |
 *	  +-- one task claims it (comm_claim): no other task may enter after that --+
 *	                      |
 *	      comm_close: quiet (kernels gone), then parked until every communicator
 *	      of this process that has the same id is parked: peers in one process use
 *	      each other's memory. The last one releases all of them, when the ranks of
 *	      the host's other processes are quiet too.
 *
 * Between a comm_enter that succeeded and its comm_leave the communicator is not freed. A claim by
 * abort sets the abort word, which ends every wait of the calls that are inside.
 */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include "core/rank/rank.h"

struct comm_op;

/* A launch in a task of its own: the head of what core/api has allocated for it, which the last of
 * its users frees when it has joined the task. Users are the communicators that it launches, each
 * until its next such launch or its end, and the call that starts the task. */
struct comm_launch {
	struct os_thread *task; /* NULL: it could not be started */
	shared_u32 users;
};

enum comm_state { COMM_INIT, COMM_READY, COMM_FINALIZING, COMM_FINALIZED };

struct comm_life {
	/* these three change under the registry's lock */
	enum comm_state state;
	bool claimed;     /* being destroyed or aborted: no call enters after that */
	bool parked;      /* quiet, waits for the others of this process to be released */
	shared_u32 users; /* calls inside, init included */
	struct ncclComm *release_next; /* chain of those that are released together */
	struct comm_release *release;  /* core/comm/close.c */
	struct os_thread *init_task;   /* of a non-blocking init; joined when it is closed */
	/* The last launch in a task of its own, NULL: none; and whether it goes on, as a word to
	 * wait for. Both change under the registry's lock. */
	struct comm_launch *launch;
	shared_u32 launching;
	ncclUniqueId id;
	char name[64];

	/* [rings * nranks]: the distinct rings by position, until the device has them; channel c is
	 * ring c % rings */
	int32_t *ring_ranks;
	int32_t rings;
	/* [trees * nranks]: of each distinct tree what channel.tree_toward is; NULL: none is
	 * connected */
	uint8_t *tree_toward;
	int32_t trees;

	struct comm_op *ops; /* [op_room], by slot (ops.h) */
	uint32_t op_room;
	uint32_t op_tag; /* in the numbers of `ops`; changes under the registry's lock */
};

#define COMM_PINNED_ABORT_BYTES 128

/* Allocates a communicator in state INIT with its abort word, and registers it with one user, the
 * init to come. `config` is complete (comm_config_parse). ncclInvalidUsage: NCCL_ALGO or
 * NCCL_PROTO. */
ncclResult_t comm_create(struct ncclComm **comm, int nranks, const ncclUniqueId *id, int rank,
			 const ncclConfig_t *config);
/* Joins; all ranks call it together. On success READY; on an error the abort word is set and the
 * other ranks get an error. The caller ends the init's use (comm_leave) afterwards. */
ncclResult_t comm_init(struct ncclComm *comm);
/* Checks the program's config (NULL: defaults), fills in defaults and environment. */
ncclResult_t comm_config_parse(const ncclConfig_t *config, ncclConfig_t *out);

/* What a call needs of its communicator. */
enum comm_need {
	COMM_NEED_ANY,   /* it exists */
	COMM_NEED_INIT,  /* init is complete, maybe finalized */
	COMM_NEED_READY, /* it can run collectives */
};
/* Checks `comm` without reading it before it is known to exist, and uses it until comm_leave.
 * `call` names the public function in the error. A communicator with an asynchronous error gives
 * that error to every call that needs more than that it exists. */
ncclResult_t comm_enter(struct ncclComm *comm, const char *call, enum comm_need need);
/* The same for the task of a launch that comm_launch_begin began. `call` NULL: without a line. */
ncclResult_t comm_enter_launch(struct ncclComm *comm, const char *call, enum comm_need need,
			       const struct comm_launch *launch);
void comm_leave(struct ncclComm *comm);
/* Is the init under way? The caller has entered. */
bool comm_in_init(struct ncclComm *comm);
/* Is it finalized? The caller has entered. */
bool comm_is_finalized(struct ncclComm *comm);

/* A launch of a non-blocking communicator goes on in a task of its own. Until comm_launch_end, by
 * that task, comm_enter refuses calls that need more than that the communicator exists. An error
 * that ends the launch becomes the communicator's. The communicator may be closed before. */
ncclResult_t comm_launch_begin(struct ncclComm *comm, const char *call, struct comm_launch *launch);
void comm_launch_end(struct ncclComm *comm, const struct comm_launch *launch, ncclResult_t error);
/* One user less; NULL: nothing. The last one waits for the task's end, when every communicator of
 * the launch is past it, or closed. */
void comm_launch_drop(struct comm_launch *launch);
/* The caller has entered. */
bool comm_is_launching(struct ncclComm *comm);

/* Waits until what was launched is complete. */
ncclResult_t comm_finalize(struct ncclComm *comm);
/* The same without waiting: ncclInProgress. comm_progress finds out when it is complete, and
 * comm_finalize still may wait for that. */
ncclResult_t comm_finalize_begin(struct ncclComm *comm);
/* One look at what is under way: ncclInProgress, or ncclSuccess when nothing is, or the error that
 * ended it, which is the communicator's from then on. The caller has entered. Any task. */
ncclResult_t comm_progress(struct ncclComm *comm);
/* True for one caller only: it must comm_close. */
bool comm_claim(struct ncclComm *comm);
/* Sets the abort word of a communicator that exists, claimed or not; false: it does not exist. */
bool comm_abort_set(struct ncclComm *comm);
/* After comm_claim: ends the communicator. With the abort word set, or after an asynchronous
 * error, it waits for no other rank; where `local`, not long. Restores the caller's device. */
void comm_close(struct ncclComm *comm, bool local);

/* The calling task's current device, and back to it. Whatever works on several communicators does
 * this once around all of them. A device that cannot be found out is -1, and left as it is. */
int comm_device_save(void);
void comm_device_restore(int before);

/* The first asynchronous error so far, of this rank or of any other: looks whether the others are
 * still there, and lets them know when this rank has failed. The caller has entered. Any task. */
ncclResult_t comm_async_error(struct ncclComm *comm);

#endif
