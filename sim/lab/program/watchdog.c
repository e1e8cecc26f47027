/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A watchdog of the program: another task of each rank that polls its communicators now and then,
 * from their init until they are gone, as PyTorch's does. It goes on while they are destroyed: then
 * a handle may be of a communicator that is gone, which the call reports.
 */
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

/* Often at first, and then no more often than looks of no use leave room for others' steps. */
#define POLLS_FIRST_NS 2000ull
#define POLLS_MOST_NS  1000000ull
#define POLLS_QUERIES  20 /* at most so many of its looks make a query, too */

_Static_assert(LAB_MAX_COMMS <= 32, "a bit for each communicator that is gone");

/* False: it is gone. */
static bool polls_one(struct lab_rank *me, ncclComm_t comm)
{
	ncclResult_t async = ncclSuccess, r = ncclCommGetAsyncError(comm, &async);

	if (r && r != ncclInvalidArgument)
		lab_rank_fail(me, r, "ncclCommGetAsyncError by a watchdog");
	if (r) /* destroyed meanwhile */
		return false;
	if (async == ncclSuccess || async == ncclInProgress)
		return true;
	/* with faults, the rank learns of a failure so; without, it is one of the run */
	if (!shared_load_u32(me->run->armed ? &me->watch_aborted : &me->run->failed,
			     SHARED_ACQUIRE))
		lab_rank_fail(me, async, "ncclCommGetAsyncError by a watchdog");
	return false;
}

static void polls_main(void *arg)
{
	struct lab_rank *me = arg;
	struct wait over = wait_word(&me->poll_over, 4, WAIT_NE, 0,
				     "harness: the time of the watchdog's next look",
				     wait_by(me->rank, -1, NULL));

	uint64_t pause_ns = POLLS_FIRST_NS, looks = 0;
	uint32_t gone = 0;

	do {
		for (uint32_t i = 0; i < lab_comms(me->run->config); i++) {
			ncclComm_t comm = lab_comms_pick(me, i);

			if (comm && !(gone & 1u << i) && !polls_one(me, comm))
				gone |= 1u << i;
		}
		if (looks < POLLS_QUERIES)
			lab_queries_beside(me, looks++);
		over.deadline_ns = os_now_ns() + pause_ns;
		pause_ns = MIN_OF(2 * pause_ns, POLLS_MOST_NS);
	} while (os_wait_one(&over, NULL));
}

bool lab_polls_start(struct lab_rank *me)
{
	char name[32];
	struct os_thread_attr attr = {.name = name, .rank = -1};

	if (!me->run->config->polls)
		return true;
	snprintf(name, sizeof name, "rank%d watchdog", me->rank);
	if (os_thread_start(&me->poller, &attr, polls_main, me) == 0)
		return true;
	me->poller = NULL;
	lab_rank_fail(me, ncclSystemError, "no task for the watchdog");
	return false;
}

void lab_polls_end(struct lab_rank *me)
{
	if (!me->poller)
		return;
	shared_store_u32(&me->poll_over, 1, SHARED_RELEASE);
	os_thread_join(me->poller);
	me->poller = NULL;
}
