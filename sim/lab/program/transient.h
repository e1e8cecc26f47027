/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of some of the ranks that come and go while a collective of all runs: transient.c,
 * their odd ends (odd_ends.c), and those that are made from others (family). Called by the rank's
 * own task, lab_transient_take by its watch, too. Functions report errors as the rank's; times are
 * ns.
 */
#ifndef SIM_LAB_TRANSIENT_H
#define SIM_LAB_TRANSIENT_H

#include "sim/lab/run/runner_internal.h"

/* transient.c */
int lab_transient_make(struct lab_rank *me); /* cudaError_t: its buffer and stream */
void lab_transient_free(struct lab_rank *me);
bool lab_transients(struct lab_rank *me); /* all that belong to one collective; reports */
/* The task that takes a transient communicator ends it: the rank's own or its watch. NULL: none. */
ncclComm_t lab_transient_take(struct lab_rank *me);
/* Report; false: the rank has failed. `sync` waits for the transient stream. */
bool lab_transient_check(struct lab_rank *me, ncclResult_t r, const char *call);
bool lab_transient_sync(struct lab_rank *me, ncclComm_t comm);

/* odd_ends.c: ends of a transient communicator that is not blocking if `polls`. False: the run has
 * failed. */
enum lab_odd { LAB_ODD_FINALIZED, LAB_ODD_REVOKED, LAB_ODD_FAILED, LAB_ODD_LATE, LAB_ODD_ENDS };
struct lab_odd_end {
	enum lab_odd kind;
	int32_t index, n, culprit; /* of the members */
	bool polls;
	uint64_t round;
	struct lab_transient_id *slot;
};
bool lab_odd_end(struct lab_rank *me, const struct lab_odd_end *end, ncclComm_t comm);

/* family.c: transient communicators that are made from others. True on all ranks or on none. */
bool lab_family_fits(const struct lab_rank *me);
/* One family, the `round`-th of the run. `id` passes the ids of growth between its ranks. */
bool lab_family(struct lab_rank *me, uint64_t round, struct lab_transient_id *id);

#endif
