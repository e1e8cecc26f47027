/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A walk of communicators through their states: what its files share. walk.c has the model
 * and draws the steps, walk_calls.c has the calls, walk_abort.c the aborts in the middle of a call.
 *
 * All ranks hold the same model: each has an entry for each communicator, also for one of which it
 * is no member. A call of a step is made by all members, and leads to the same state on each.
 *
 * The walk owns its communicators, and ends them. An outcome that is not the model's is the run's
 * failure (scene_judge, scene_report). Times are virtual ns.
 */
#ifndef SIM_LAB_WALK_H
#define SIM_LAB_WALK_H

#include "sim/lab/scene/scene.h"

enum {
	WALK_ANY =
		5040,   /* a draw that does not depend on the number of ranks: a multiple of most */
	WALK_COMMS = 4, /* of a walk */
	WALK_RANKS = 64, /* of a communicator, at most */
};

enum walk_state { WALK_STAYS, WALK_READY, WALK_SUSPENDED, WALK_REVOKED, WALK_FINALIZED, WALK_OVER };

struct walk_comm {
	ncclComm_t comm;               /* NULL: this rank is no member, or it is over */
	enum walk_state state, before; /* before: WALK_STAYS at first */
	bool known;                    /* every rank has the same members in its model */
	int32_t member[WALK_RANKS], n; /* the run's ranks, in the order of this communicator's */
	int32_t index;                 /* of this rank; -1: it is no member */
	uint64_t memory[ncclStatGpuMemTotal + 1]; /* when it was suspended */
};

struct walk {
	struct scene *s;
	struct walk_comm of[WALK_COMMS], *child; /* what a call makes */
	int32_t out; /* the rank that a shrink excludes, as one of the parent's */
	int comms;
	bool nonblocking;
	size_t free_before;
};

/* A call of all members. */
struct walk_row {
	const char *call;
	ncclResult_t (*make)(struct walk *w, struct walk_comm *c);
	uint32_t allowed; /* the states in which it may enter, a bit each */
	enum walk_state next;
	bool launches, makes, ends; /* it has a result; a child; it ends the communicator */
	bool connects;              /* pairs of ranks wait for each other, apart from the others */
	bool local;                 /* the ranks of a host do */
	bool meets;                 /* it must not begin while another rank is in a call */
};

/* ---- walk_calls.c ---------------------------------------------------------------------------- */

extern const struct walk_row walk_rows[];
extern const size_t walk_nrows;

/* True if it may be drawn for a communicator that all ranks have in this state. */
bool walk_fits(const struct walk *w, const struct walk_comm *c, const struct walk_row *row);
/* Adds the entry of the child that the row makes, with its members. */
struct walk_comm *walk_child(struct walk *w, const struct walk_comm *c, const struct walk_row *row);
/* Makes the call, in a group of its own if wanted. `settles`: waits until a non-blocking one is
 * complete; a child that it makes may still be in its init then. */
ncclResult_t walk_call(struct walk *w, struct walk_comm *c, const struct walk_row *row,
		       bool grouped, bool settles);
/* An all-reduce of the communicator, whose result is not looked at. */
ncclResult_t walk_launch(struct walk *w, struct walk_comm *c);

/* ---- walk_abort.c ---------------------------------------------------------------------------- */

/* All or one of the members abort the communicator in a call, which another one may not make. The
 * entry is over then. False: the run has failed. */
bool walk_aborted(struct walk *w, struct walk_comm *c);

#endif
