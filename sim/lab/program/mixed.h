/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of different calls: shared by mixed.c and mixed_order.c, which is pure. */
#ifndef SIM_LAB_MIXED_H
#define SIM_LAB_MIXED_H

#include "sim/lab/run/runner_internal.h"

enum { MIXED_CALLS = 24 }; /* of a group, at most */

struct mixed_call {
	struct lab_row row;
	uint32_t comm, stream; /* that the call gets */
	uint32_t from, to;     /* the streams that bring its input and take its result */
	int32_t distance; /* of a message to the rank so many after this one; -1: a collective */
	bool recv_first;  /* of a message */
	bool nested;      /* in a group of its own, within the group */
	int32_t only;     /* a message of this rank alone; -1: of each */
};

/* Makes calls that all ranks must have, because they give a communicator its place, calls of all
 * ranks. */
void mixed_order_comms(struct mixed_call *call, uint32_t n);
/* Another legal order of the same calls: order[0..n-1], which are 0..n-1 before. */
void mixed_order_shuffle(const struct mixed_call *call, uint32_t n, struct sim_rng *rng,
			 uint32_t *order);

#endif
