/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's watch: another task of its program, or its launcher, that ends its communicators for
 * it. */
#include <errno.h>
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

/* How often a program that does something else polls its communicators. */
#define LAB_WATCH_AGAIN_NS 10000000ull
#define LAB_WATCH_LATE_NS  1000000000ull /* when another rank has failed long ago */

/* Does the watch poll the rank's communicators, too? With several, the rank may be in a call for
 * one of them that waits, on its GPU, for a kernel of another one that has failed: the call
 * connects ranks, or frees memory. A call that maps registered buffers, or allocates memory to
 * send in place from, may wait, too. A program that has any of these polls them from a task of its
 * own. */
static bool lab_watch_always_polls(const struct lab_config *c)
{
	/* a run in both places is one of `doppel run`, which has no such task */
	return c->local_register || (c->in_place && !c->out_of_place) || lab_comms(c) > 1;
}

static bool lab_watch_polls(const struct lab_run *run)
{
	return run->config->transient || lab_watch_always_polls(run->config);
}

static bool lab_watch_is_needed(struct lab_rank *me)
{
	return lab_watch_always_polls(me->run->config) ||
	       shared_load_u32(&me->transient_on, SHARED_ACQUIRE);
}

/* Until the rank has left (0), another one has failed (1), or one of its own communicators has
 * (2). */
static int lab_rank_watch_event(struct lab_rank *me, struct wait *w, const struct wait *const *both)
{
	ncclResult_t r = ncclSuccess;
	int which = 0;

	for (;;) {
		if (lab_watch_polls(me->run))
			w->deadline_ns = os_now_ns() + LAB_WATCH_AGAIN_NS;
		int rc = os_wait(both, 2, NULL, &which);
		w->deadline_ns = 0;
		if (rc != ETIMEDOUT)
			return rc ? 0 : which;
		if (lab_watch_is_needed(me))
			r = lab_comms_error(me);
		if (r) {
			lab_rank_fail(me, r, "ncclCommGetAsyncError");
			return 2;
		}
	}
}

/* And those that the rank was about to make. */
static void lab_rank_watch_abort(struct lab_rank *me, struct wait *done)
{
	shared_store_u32(&me->watch_aborted, 1, SHARED_RELEASE);
	(void)lab_comms_abort(me);
	while (lab_watch_polls(me->run)) {
		done->deadline_ns = os_now_ns() + LAB_WATCH_AGAIN_NS;
		if (os_wait_one(done, NULL) != ETIMEDOUT)
			break;
		(void)lab_comms_abort(me);
	}
}

/* Another rank has failed. Until the rank has left (0), the launcher's patience has ended (1), or a
 * communicator of the rank has an error, too (2): a call for a transient one may wait, on the
 * rank's GPU, for a kernel that this error ends. Faults may heal earlier than they would by
 * themselves. */
static int lab_rank_watch_patiently(struct lab_rank *me, struct wait *done)
{
	uint64_t pause_ns = LAB_WATCH_AGAIN_NS, now;

	while ((now = os_now_ns()) < lab_survive_launcher_at(me->run)) {
		bool polls = lab_watch_polls(me->run);
		ncclResult_t r = ncclSuccess;

		done->deadline_ns = lab_survive_launcher_at(me->run);
		if (polls)
			done->deadline_ns = MIN_OF(done->deadline_ns, now + pause_ns);
		if (os_wait_one(done, NULL) != ETIMEDOUT)
			return 0;
		if (polls && lab_watch_is_needed(me)) {
			os_poll_hit(); /* this loop has a limit: a row of looks is no deadlock */
			r = lab_comms_error(me);
		}
		if (r) {
			lab_rank_fail(me, r, "ncclCommGetAsyncError");
			return 2;
		}
		pause_ns = MIN_OF(2 * pause_ns, LAB_WATCH_LATE_NS);
	}
	return 1;
}

/* In a run with faults: what a launcher does for ranks that cannot learn of a failure, because
 * another rank died or failed before they were connected. Much later than the stack needs to report
 * it. */
static void lab_rank_watch(void *arg)
{
	struct lab_rank *me = arg;
	struct wait w[2] = {
		{.on = &me->done,
		 .bytes = 4,
		 .kind = WAIT_NE,
		 .mask = WAIT_MASK_ALL,
		 .why = "harness: the rank to leave its communicator",
		 .from = {.rank = me->rank, .channel = -1, .step = -1}},
		{.on = &me->run->failed,
		 .bytes = 4,
		 .kind = WAIT_NE,
		 .mask = WAIT_MASK_ALL,
		 .why = "harness: failure of a rank",
		 .from = {.rank = -1, .channel = -1, .step = -1}},
	};
	const struct wait *both[2] = {&w[0], &w[1]};
	int event = lab_rank_watch_event(me, &w[0], both);

	if (event == 1)
		event = lab_rank_watch_patiently(me, &w[0]);
	if (event == 2)
		lab_rank_watch_abort(me, &w[0]);
	if (event != 1 || !lab_comms_any(me))
		return;
	lab_survive_unreported(me);
	fprintf(stderr, "doppel: rank %d did not notice the failure: the launcher aborts it\n",
		me->rank);
	lab_rank_watch_abort(me, &w[0]);
}

bool lab_rank_watch_start(struct lab_rank *me)
{
	char name[32];
	struct os_thread_attr attr = {.name = name, .rank = -1};
	if (!sim_faults_armed())
		return true;
	ASSERT(!me->watch); /* a rank has one */
	snprintf(name, sizeof name, "rank%d watch", me->rank);
	if (os_thread_start(&me->watch, &attr, lab_rank_watch, me) == 0)
		return true;
	me->watch = NULL;
	lab_rank_fail(me, ncclSystemError, "no task for the watch");
	return false;
}
