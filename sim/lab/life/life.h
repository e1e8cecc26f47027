/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A life: what one rank of a program that survives errors does, from its first call to its end, and
 * what came of it. Set in lab_config.life, filled in by lab_run; used by exhaust.c and by tests.
 *
 * 	buffers -> unique id -> ncclCommInitRank -> collectives -> ncclCommDestroy
 * 	                                (one, the calls of a stage, one)
 * 	              |              |                  |                |
 * 	              +--------------+---- error -------+----------------+--> ncclCommAbort
 * 	then all that live meet; if anything went wrong, faults heal, and the survivors make a new
 * 	communicator out of a new unique id, run a collective over it, check, and destroy it.
 *
 * Ranks learn of each other's errors through the stack alone: the harness passes nothing on. The
 * one exception is what a launcher does: it sees a process die, or its program fail outside the
 * stack, and LAB_LAUNCHER_NS later has the others call ncclCommAbort (launcher_aborted). In every
 * phase in which the stack could have known, that is a failure of the stack.
 *
 * Times are virtual ns.
 */
#ifndef SIM_LAB_LIFE_H
#define SIM_LAB_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/shared.h"
#include "core/include/nccl.h"

#define LAB_LIFE_RANKS  64
#define LAB_LAUNCHER_NS 20000000000ull

/* Calls of a communicator's life, between two collectives or at its end. */
enum lab_stage {
	LAB_STAGE_NONE,
	LAB_STAGE_SPLIT,    /* ncclCommSplit: the second collective runs in the child */
	LAB_STAGE_SHRINK,   /* the same with ncclCommShrink, without the last rank */
	LAB_STAGE_GROW,     /* the last rank joins by ncclCommGrow after the first collective */
	LAB_STAGE_REVOKE,   /* ncclCommRevoke, then ncclCommSplit as above */
	LAB_STAGE_SUSPEND,  /* ncclCommSuspend and ncclCommResume between the collectives */
	LAB_STAGE_WINDOW,   /* a window and a device communicator, between the collectives */
	LAB_STAGE_FINALIZE, /* ncclCommFinalize before ncclCommDestroy */
	LAB_STAGE_ABORT,    /* ncclCommAbort instead of ncclCommDestroy */
	LAB_STAGES,
};
extern const char *const lab_stage_name[LAB_STAGES];

enum lab_phase {
	LAB_SETUP, /* its own buffers, the unique id */
	LAB_INIT,
	LAB_WORK,
	LAB_END,  /* destroy or abort */
	LAB_OVER, /* has left the first communicator */
};
const char *lab_phase_name(enum lab_phase phase);

struct lab_life_rank {
	enum lab_phase phase;
	enum lab_phase error_phase;
	ncclResult_t error; /* the first that a call returned */
	const char *call;   /* which one; NULL: none */
	bool outside;       /* the error is not the stack's: cudaMalloc of the program */
	bool newcomer;      /* has joined no communicator yet: no other rank knows it */
	bool launcher_aborted;
	bool aborted; /* by its own program, as the run wants it */
	bool dead;
	bool lost;    /* its GPU is dead, */
	bool revived; /* and lives again although the process did not end */
	bool recovered;
	ncclResult_t second_error; /* of the second communicator */
	const char *second_call;
	uint64_t left_ns; /* the first communicator */
};

struct lab_life {
	bool nonblocking; /* ncclCommInitRankConfig with blocking = 0 */
	enum lab_stage stage;
	bool sticky; /* the fault kills a GPU: whose it is does not go on */
	/* ncclCommAbort by this rank (-1: none): from another task of its process at this time, or
	 * when the run calls lab_life_abort_now; or by its main task at its k-th moment between two
	 * calls; 0: not. */
	int32_t abort_rank;
	uint64_t abort_ns, abort_point;
	bool abort_awaited;
	shared_u32 abort_now;

	/* Stage GROW: the id for the last rank, and 1 when it is there. */
	ncclUniqueId grow_id;
	shared_u32 grow_ready;

	struct lab_life_rank rank[LAB_LIFE_RANKS];
	int32_t nranks;
	bool abort_fired;
	bool abort_early;   /* there was no communicator yet */
	bool second;        /* there was a second communicator */
	uint64_t healed_ns; /* when all that live had left the first one */
};

/* A moment's fn (sim_config.moment); `life` is one with abort_awaited. */
void lab_life_abort_now(void *life);

#endif
