/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries whose answers the lab knows: of a communicator, of parameters, of a group that is
 * simulated, and of RAS. A run with --queries N makes N of them at each of some moments: after its
 * init, while a collective runs, after the series, and of each child of a family. Each rank draws
 * its own queries, and no other rank takes part in them.
 *
 * Called by a rank's own task, which makes the other calls of the communicator, too. An answer that
 * is wrong, or an error without a fault, is a failure of the run ("query").
 */
#ifndef SIM_LAB_QUERIES_H
#define SIM_LAB_QUERIES_H

#include "sim/lab/run/runner_internal.h"

#define LAB_RAS_BYTES (1u << 20) /* of an answer of RAS, at most */

/* A communicator, and what the caller knows of it. */
struct queries {
	struct lab_rank *me;
	ncclComm_t comm;
	int32_t n, rank; /* as its members count */
	bool ends;       /* it is revoked or finalized: it takes no collectives */
	struct sim_rng rng;
};

/* Reports a wrong answer. */
__attribute__((format(printf, 3, 4))) void queries_wrong(struct queries *q, const char *call,
							 const char *fmt, ...);
/* Is the result the expected one? Else it is reported, unless a fault may be the reason. */
bool queries_result(struct queries *q, const char *call, ncclResult_t got, ncclResult_t want);

/* queries_ras.c: sends lines, such as "DUMP\n", to the process of this host that serves clients.
 * `text` has LAB_RAS_BYTES, and receives the answer. False: no connection, or the answer is not
 * whole. */
bool lab_ras_ask(struct lab_rank *me, const char *lines, char *text);

/* queries_comm.c: numbers, properties, and a group that is simulated. */
void queries_numbers(struct queries *q);
void queries_properties(struct queries *q);
void queries_simulate(struct queries *q);
/* queries_param.c */
void queries_param(struct queries *q);
void queries_param_refused(struct queries *q);

/* program/pause.c: before a timed series of a run with pauses and queries one rank is 2 s late. */
void lab_pause_late(struct lab_rank *me);

#endif
