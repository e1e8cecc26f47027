/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a communicator: joining, entering and leaving calls, and the end. The lower rooms use
 * struct ncclComm (core/rank/rank.h); only this room and core/api use struct comm_life. comm_init
 * performs
 *
 *   bootstrap -> gather peer_info -> check versions, duplicates -> topology, paths, ring search ->
 *   gather graphs -> rings, channels -> connect transports -> device communicator -> barrier
 *
 * and comm_close undoes it in reverse. core/api checks arguments and calls these functions.
 *
 * States:
 *
 *	INIT --comm_init--> READY ---------comm_finalize----------> FINALIZED
 *	  |                   |                                       ^ |
 *	  |                   +--> FINALIZING (non-blocking) --done---+ |
 *	  |                   |        |                                |
 *	  |                   +--comm_revoke--> REVOKED: runs nothing more, but others can be made
 *	  |                   |                 from it                 |
 *	  |                   +--comm_suspend--> CHANGING --> SUSPENDED: runs nothing, and can be
 *	  |                   |                 finalized or revoked    |
 *	  |                   +<-------- CHANGING <--comm_resume--------+
 *	  +-- one task claims it (comm_claim): no other task may enter after that --+
 *	                      |
 *	      comm_close: quiet (kernels ended), then parked until every communicator
 *	      of this process with the same id is parked: peers in one process use each
 *	      other's memory. The last one releases all of them, when the ranks of the
 *	      host's other processes are quiet too.
 *
 * Between a successful comm_enter and its comm_leave the communicator is not freed. A claim by
 * abort sets the abort word, which ends every wait of the calls inside.
 */
#ifndef CORE_COMM_COMM_H
#define CORE_COMM_COMM_H

#include "core/rank/rank.h"

struct comm_op;

/* The head of core/api's data for a launch in a separate task. The last user frees the data after
 * it has joined the task. Users are the communicators of the launch, each until its next such
 * launch or its end, and the call that starts the task. */
struct comm_launch {
	struct os_thread *task; /* NULL: the task could not be started */
	shared_u32 users;
};

enum comm_state {
	COMM_INIT,
	COMM_READY,
	COMM_FINALIZING,
	COMM_FINALIZED,
	COMM_REVOKED,
	COMM_CHANGING, /* is being suspended or resumed */
	COMM_SUSPENDED,
};

struct comm_life {
	/* the next four change under the registry's lock */
	enum comm_state state;
	bool claimed;                  /* being destroyed or aborted: no call may enter */
	bool parked;                   /* quiet; waits for the other ranks of this process */
	bool released;                 /* in the chain of a release */
	shared_u32 users;              /* number of calls inside, init included */
	struct ncclComm *release_next; /* next of those that are released together */
	struct ncclComm *abort_next;   /* next of those that a group has aborted */
	struct comm_release *release;  /* core/comm/close.c */
	/* Made with the communicator, so that its end needs no memory. */
	struct comm_release *release_made;
	struct os_thread *init_task; /* task of a non-blocking init; joined at close */
	shared_u64 init_ns;          /* begin of the init; 0: it has not begun */
	shared_u32 init_step;        /* enum comm_init_step, for reports */
	/* The last launch in a separate task, or NULL. `launching` is set while it runs, and can be
	 * waited for. Both change under the registry's lock. */
	struct comm_launch *launch;
	shared_u32 launching;
	ncclUniqueId id;
	char name[64];
	const char *made_by; /* the public function that made it */
	char made_from[40];  /* " parent ADDRESS", for the log; empty: it has none */
	/* Field of the config by which it shares with its parent: splitShare, shrinkShare; NULL: it
	 * has no such parent. */
	const int *share;
	/* comm_child_of: what it was made from, and that one's hash. It may have ended. */
	struct ncclComm *parent;
	bool parent_counts; /* an error of the parent ends the init, and not only its abort */
	uint64_t parent_hash, parent_ns; /* parent_ns: when it was made */
	/* If the parent does not count, its ring shows no rank's end, and the task that watches the
	 * init looks for the rank that the init awaits (comm_child_hopeless). */
	int32_t *members;    /* [nranks]: ranks of the parent; NULL: it counts, or is NULL */
	int32_t awaited;     /* rank that had left the parent before it checked in */
	uint64_t awaited_ns; /* time of the look that found this; 0: it is not so */
	uint64_t look_ns;    /* time of the first look */

	/* [rings * nranks]: the distinct rings by position, until the device has them. Channel c
	 * uses ring c % rings. */
	int32_t *ring_ranks;
	int32_t rings;
	/* [trees * nranks]: channel.tree_toward of each distinct tree; NULL: trees are not
	 * connected */
	uint8_t *tree_toward;
	int32_t trees;

	struct comm_op *ops; /* [op_room], index: slot (redops.h) */
	uint32_t op_room;
	uint32_t op_tag; /* part of the numbers of `ops`; changes under the registry's lock */

	/* The id for which ncclCommGetUniqueId started a root, until ncclCommGrow uses it. Both
	 * change under the registry's lock. */
	ncclUniqueId grow_id;
	bool grow_pending;

	/* Time of the first look that found kernels which a neighbour's end may hold up; 0: none.
	 * Changes under the mutex `watch`. */
	uint64_t stuck_ns;
};

/* Parts of an init. */
enum comm_init_step { COMM_STEP_JOIN, COMM_STEP_GATHER, COMM_STEP_CONNECT, COMM_STEP_AGREE };

#define COMM_PINNED_ABORT_BYTES 128

/* Allocates a communicator in state INIT with its abort word, and registers it. Its first user is
 * the init. `config` is complete (comm_config_parse). ncclInvalidUsage: NCCL_ALGO or NCCL_PROTO is
 * invalid. */
ncclResult_t comm_create(struct ncclComm **comm, int nranks, const ncclUniqueId *id, int rank,
			 const ncclConfig_t *config);
/* Joins; all ranks call it together. On success the state is READY. On an error the abort word is
 * set and the other ranks get an error. The caller ends the init's use afterwards (comm_leave). */
ncclResult_t comm_init(struct ncclComm *comm);
/* Checks the program's config (NULL: defaults), and adds defaults and environment. */
ncclResult_t comm_config_parse(const ncclConfig_t *config, ncclConfig_t *out);
/* Does the same; the defaults are the values of `parent`, unless it is NULL. `out` may point to
 * strings of the parent. */
ncclResult_t comm_config_parse_child(const ncclConfig_t *config, const struct ncclComm *parent,
				     ncclConfig_t *out);

/* State that a call requires of its communicator. */
enum comm_need {
	COMM_NEED_ANY,   /* it exists */
	COMM_NEED_INIT,  /* init is complete; may be finalized */
	COMM_NEED_READY, /* it can run collectives */
	/* It can run collectives, but for an error that the program has not learned of: finalizing
	 * needs only what this rank has launched. */
	COMM_NEED_FINALIZE,
	COMM_NEED_PARENT, /* it is ready or revoked: communicators can be made from it */
	COMM_NEED_SUSPENDED,
	/* It is ready, suspended or revoked, whatever error it has, and even while a separate task
	 * launches: it can be revoked. */
	COMM_NEED_ALIVE,
};
/* Checks that `comm` exists before reading it, and uses it until comm_leave. `call` is the public
 * function for the error message. After an asynchronous error, every call that needs more than
 * COMM_NEED_ANY gets that error. */
ncclResult_t comm_enter(struct ncclComm *comm, const char *call, enum comm_need need);
/* Does the same for the task of a launch that comm_launch_begin began. `call` NULL: logs
 * nothing. */
ncclResult_t comm_enter_launch(struct ncclComm *comm, const char *call, enum comm_need need,
			       const struct comm_launch *launch);
void comm_leave(struct ncclComm *comm);
/* True if the init is running. The caller has entered. */
bool comm_in_init(struct ncclComm *comm);
/* True if it is finalized. The caller has entered. */
bool comm_is_finalized(struct ncclComm *comm);
/* True if it is finalized or being finalized. The caller has entered. */
bool comm_finalizes(struct ncclComm *comm);

/* Begin and end a launch of a non-blocking communicator in a separate task. The task calls
 * comm_launch_end. Until then comm_enter refuses calls that need more than COMM_NEED_ANY. An error
 * of the launch becomes the communicator's. The communicator may be closed earlier. */
ncclResult_t comm_launch_begin(struct ncclComm *comm, const char *call, enum comm_need need,
			       struct comm_launch *launch);
void comm_launch_end(struct ncclComm *comm, const struct comm_launch *launch, ncclResult_t error);
/* Drops a user of the launch; NULL is ignored. The last user joins the task. Every communicator of
 * the launch has then ended this launch, or is closed. */
void comm_launch_drop(struct comm_launch *launch);
/* True if a separate task is launching. The caller has entered. */
bool comm_is_launching(struct ncclComm *comm);

/* Waits until all launched collectives are complete. */
ncclResult_t comm_finalize(struct ncclComm *comm);
/* Begins to finalize without waiting; returns ncclInProgress. comm_progress detects the completion,
 * and comm_finalize may still wait for it. */
ncclResult_t comm_finalize_begin(struct ncclComm *comm);
/* Stops all running operations and waits until they have ended. Afterwards the communicator has no
 * error and runs nothing more (REVOKED), and failures of other ranks no longer change that. The
 * messages of its bootstrap depend on no third rank. The caller has entered with COMM_NEED_ALIVE. A
 * second call does nothing. */
ncclResult_t comm_revoke(struct ncclComm *comm);
/* Frees GPU memory of the connections until comm_resume, which makes it again. All ranks of the
 * host call it together. Waits for launched collectives first. After an error, which becomes the
 * communicator's, it can only be ended. The caller has entered, with COMM_NEED_READY or
 * COMM_NEED_SUSPENDED. Set the current device. */
ncclResult_t comm_suspend(struct ncclComm *comm);
ncclResult_t comm_resume(struct ncclComm *comm);
/* True if it is suspended. The caller has entered. */
bool comm_is_suspended(struct ncclComm *comm);
/* Checks running operations once. Returns ncclInProgress, or ncclSuccess if nothing runs, or the
 * error that ended them, which becomes the communicator's. The caller has entered. Any task may
 * call it. */
ncclResult_t comm_progress(struct ncclComm *comm);
/* True for one caller only, which must call comm_close. */
bool comm_claim(struct ncclComm *comm);
/* Sets the abort word of an existing communicator, claimed or not. False if it does not exist. */
bool comm_abort_set(struct ncclComm *comm);
/* Ends the communicator after comm_claim. With the abort word set, or after an asynchronous error,
 * waits for no other rank. `local`: waits only a short time. Restores the caller's device. Returns
 * the error of a communicator that fails only here: its GPU does not report the end of kernels. The
 * communicator is gone all the same. */
ncclResult_t comm_close(struct ncclComm *comm, bool local);

/* Return and restore the calling task's current device. Code that works on several communicators
 * does this once around all of them. An unknown device is -1, and is not restored. */
int comm_device_save(void);
void comm_device_restore(int before);

/* Returns the first asynchronous error so far, of this rank or of any other. Checks whether other
 * ranks have left, and informs them if this rank has failed. The caller has entered. Any task may
 * call it. */
ncclResult_t comm_async_error(struct ncclComm *comm);

#endif
