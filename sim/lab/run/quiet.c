/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each end of a failed connection must see the error itself. A run in which all ranks poll, as the
 * ranks of the lab do, does not show that: a rank with an error closes its connection in the
 * bootstrap's ring the next time its program polls, and the other ranks learn of the error from the
 * ring. Therefore one rank is quiet: for LAB_QUIET_NS it polls its stream alone, as a program does
 * that is busy with something else. If its communicator had failed during that time, some other
 * rank must know by then, through its proxy and the network alone: the rank at the other end of
 * what failed. If no other rank has had an error by then, the stack has failed. (One other rank is
 * enough. The error goes on from rank to rank around the ring, and the quiet rank does not pass it
 * on.)
 *
 * No other rank can know of a failure that has no other end, such as that of the quiet rank's own
 * GPU. Therefore --quiet-rank is for plans that fail connections.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

#define QUIET_POLL_NS 1000000ull

static void quiet_over(void *me, uint64_t arg)
{
	lab_word_set(&((struct lab_rank *)me)->quiet_over, 1);
}

/* Lists the living others that have had no error. True: that is all of them, and each of them is in
 * a call: one that is done, and waits for the others at the harness, does not poll. */
static bool quiet_all_unaware(const struct lab_rank *me, char *list, size_t bytes)
{
	bool unaware = true;
	int at = 0;

	list[0] = '\0';
	for (int32_t r = 0; r < me->run->count; r++) {
		const struct lab_rank *it = &me->run->rank[r];

		if (it == me || it->dead)
			continue;
		unaware &= !it->error_call && it->call;
		if (!it->error_call && (size_t)at + 16 < bytes)
			at += snprintf(list + at, bytes - (size_t)at, " %d", r);
	}
	return unaware && at;
}

static void quiet_judge(struct lab_rank *me)
{
	ncclResult_t async = ncclSuccess;
	char list[160], bound[32];
	/* before this rank polls: the poll is what makes the others learn of the error */
	bool unaware = quiet_all_unaware(me, list, sizeof list);

	if (ncclCommGetAsyncError(me->comm, &async) != ncclSuccess || async == ncclSuccess ||
	    !unaware)
		return;
	sim_format_ns(bound, LAB_QUIET_NS);
	lab_judge(me, SIM_NO_PROGRESS, "agreement",
		  "failed (%s) and was quiet for %s; no other rank has learned of it, of ranks%s",
		  ncclGetErrorString(async), bound, list);
}

/* True: for all that time its stream had no result. */
static bool quiet_wait(struct lab_rank *me, struct wait *w)
{
	while (!shared_load_u32(&me->quiet_over, SHARED_ACQUIRE)) {
		if (cudaStreamQuery(me->stream) != cudaErrorNotReady ||
		    shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
			return false;
		w->deadline_ns = os_now_ns() + QUIET_POLL_NS;
		if (os_wait_one(w, NULL) != ETIMEDOUT)
			return false;
	}
	return true;
}

void lab_quiet_wait(struct lab_rank *me)
{
	const struct sim_event_attr end = {
		.name = "lab.quiet", .kind = SIM_EVENT_TIMER, .delay_ns = LAB_QUIET_NS};
	struct wait w = wait_word(&me->done, 4, WAIT_NE, 0,
				  "harness: a quiet rank, busy with something else",
				  wait_by(me->rank, -1, NULL));

	if (me->run->config->quiet != (uint32_t)me->rank + 1 || !me->comm || !me->run->armed ||
	    sim_engine_kind() != SIM_ENGINE_SIM)
		return;
	/* a task that polls without result sleeps until something changes: this word does */
	shared_store_u32(&me->quiet_over, 0, SHARED_RELEASE);
	sim_event_post(&end, quiet_over, me, 0, NULL);
	if (quiet_wait(me, &w))
		quiet_judge(me);
	else
		sim_events_cancel_object(me);
}
