/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A list of waits that grows: for a task that waits for several things together, on behalf of one
 * rank or of several. The task clears it before each look at what it waits for, adds a wait for
 * each thing that was not there, and then waits. Zeroed memory is an empty list. One task.
 */
#ifndef CORE_OS_OS_WAITS_H
#define CORE_OS_OS_WAITS_H

#include "core/os/os.h"

struct os_waits {
	struct wait *waits;       /* [room] */
	const struct wait **list; /* [room]: of `waits` */
	int32_t *ranks;           /* [room]: for which rank each is */
	int n, room;
	const shared_u32 *abort; /* of the first rank; those of others are waits */
	bool several;            /* ranks */
};

void os_waits_clear(struct os_waits *l);
/* Room for n more waits of that rank, which the caller fills in; NULL: no memory, and the list is
 * as before. */
struct wait *os_waits_more(struct os_waits *l, int n, int32_t rank);
/* The abort of that rank ends the wait, too. False: no memory. */
bool os_waits_abort(struct os_waits *l, const shared_u32 *abort, int32_t rank);
/* WAITS as os_wait does, with its results. */
int os_waits_wait(const struct os_waits *l);
void os_waits_free(struct os_waits *l);

#endif
