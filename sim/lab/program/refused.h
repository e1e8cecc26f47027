/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that must be refused: refused.c, refused_others.c. Called by a rank's own task. */
#ifndef SIM_LAB_REFUSED_H
#define SIM_LAB_REFUSED_H

#include <cuda_runtime_api.h>

#include "sim/lab/run/runner_internal.h"

struct refused {
	struct lab_rank *me;
	ncclComm_t comm;
	uint8_t *gpu;  /* memory of the rank's GPU, 3 KiB and more, aligned to 256 */
	uint8_t *host; /* memory of the program's */
	int32_t n;     /* ranks of the communicator */
	bool grouped;  /* the call is in a group */
	struct sim_rng rng;
};

void lab_refused_report(struct lab_rank *me, const char *call, const char *why, const char *text);
void lab_refused_judge(struct lab_rank *me, const char *call, const char *why, ncclResult_t got,
		       ncclResult_t want);
/* refused_others.c: makes one that is no collective and no message; *want is ncclInvalidArgument
 * before. */
ncclResult_t lab_refused_other(struct refused *r, bool grouped, const char **name, const char **why,
			       ncclResult_t *want);
/* refused_comms.c: a wrong call of another kind, and one that is not built: ncclInvalidArgument,
 * ncclInvalidUsage. */
ncclResult_t lab_refused_comm(struct refused *r);
ncclResult_t lab_refused_absent(struct refused *r);
/* refused_comms.c: a group of streams whose captures differ: ncclInvalidUsage. */
ncclResult_t lab_refused_captures(struct refused *r);
/* call_options.c: channels that a call of a communicator without a config may have, at most; 0: a
 * setting may refuse any number. */
int lab_most_ctas(const struct lab_config *c);
/* call_options.c: a call with options that are refused: ncclInvalidArgument, ncclInvalidUsage. */
ncclResult_t lab_options_wrong(struct refused *r);
ncclResult_t lab_options_misused(struct refused *r);
/* Queries of a communicator, whose answers are checked. */
void lab_refused_queries(struct refused *r);

/* disagree.c: `differs` on one rank; all ranks have the same draws. */
void lab_disagree(struct lab_rank *me, uint64_t round, bool differs, struct sim_rng *rng,
		  ncclUniqueId id);
/* init_all.c: ncclCommInitAll by the first rank of the process; then a communicator of all. */
void lab_init_all(struct lab_rank *me, ncclUniqueId id);

#endif
