/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growing list of waits, for a task that waits for several conditions together, on behalf of one
 * rank or of several. The task clears the list before each check of its conditions, adds a wait for
 * each condition that does not hold yet, and then waits. Zeroed memory is an empty list. Only one
 * task uses a list.
 */
#ifndef CORE_OS_OS_WAITS_H
#define CORE_OS_OS_WAITS_H

#include "core/os/os.h"

struct os_waits {
	struct wait *waits; /* array of `room` waits; owns the one allocation of all three arrays */
	const struct wait **list; /* array of `room` pointers into `waits` */
	int32_t *ranks;           /* array of `room` ranks: the rank that each wait is for */
	int n, room;
	const shared_u32 *abort; /* abort flag of the first rank; flags of other ranks are waits */
	bool several;            /* True if the waits are for more than one rank */
};

void os_waits_clear(struct os_waits *l);
/* Adds n waits for `rank`, which the caller fills in, and returns the first. NULL: out of memory,
 * and the list is unchanged. */
struct wait *os_waits_more(struct os_waits *l, int n, int32_t rank);
/* Makes the abort flag of `rank` end the wait, too. False: out of memory. */
bool os_waits_abort(struct os_waits *l, const shared_u32 *abort, int32_t rank);
/* WAITS as os_wait does and returns its results. */
int os_waits_wait(const struct os_waits *l);
void os_waits_free(struct os_waits *l);

#endif
