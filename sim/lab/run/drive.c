/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One task that makes the calls of all ranks of its process, as programs with one thread do: a
 * group, in it cudaSetDevice and the call of each rank, the end of the group. A call that waits for
 * another rank of the same process then waits for itself, and a call that leaves another device
 * current misleads the next one. Everything else (buffers, copies, streams) stays with the ranks'
 * own tasks.
 *
 * The ranks of a process meet, the task of the first one makes the calls, then all go on. A meeting
 * that another rank's failure ends does not take place, and no later one does. But for the last:
 * when a rank of the process has failed, or has learned of a failure, all of its ranks leave what
 * they are at, and the one task aborts their communicators, one after the other.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/run/runner_internal.h"

enum { TEAM_DEVICE_CALLS = 3 };

struct lab_team {
	struct os_mutex lock; /* n, arrived, off */
	int32_t n, joined;
	bool off;            /* a rank has failed: there are no more meetings */
	shared_u32 arrived;  /* at the next meeting */
	shared_u32 meetings; /* that are over */
	shared_u32 trouble;  /* a rank of the process has failed */
	shared_u32 leaving;  /* ranks that have come to the last meeting */
	shared_u32 aborted;  /* it is over */
	struct lab_rank *rank[LAB_MAX_DEVICES];
};

struct lab_team *lab_team_make(void)
{
	return calloc(1, sizeof(struct lab_team));
}

void lab_team_join(struct lab_team *team, struct lab_rank *me)
{
	ASSERT(team->n < LAB_MAX_DEVICES);
	team->rank[team->n++] = me;
	me->team = team;
}

/* ---- meeting -------------------------------------------------------------------------------- */

static bool team_arrive(struct lab_team *team)
{
	os_mutex_lock(&team->lock);
	bool on = !team->off;
	if (on)
		shared_add_u32(&team->arrived, 1, SHARED_ACQ_REL);
	os_mutex_unlock(&team->lock);
	return on;
}

/* After a failure: has the meeting begun all the same? If not it never will. */
static bool team_has_met(struct lab_team *team, uint32_t meeting)
{
	os_mutex_lock(&team->lock);
	bool met = shared_load_u32(&team->arrived, SHARED_ACQUIRE) == (uint32_t)team->n ||
		   shared_load_u32(&team->meetings, SHARED_ACQUIRE) != meeting;
	team->off |= !met;
	os_mutex_unlock(&team->lock);
	return met;
}

/* The first rank waits until all have arrived, the others until it has made their calls. */
static bool team_meet(struct lab_rank *me, uint32_t meeting)
{
	struct lab_team *team = me->team;
	bool first = me == team->rank[0];
	struct wait w =
		wait_word(first ? &team->arrived : &team->meetings, 4, first ? WAIT_EQ : WAIT_NE,
			  first ? (uint32_t)team->n : meeting,
			  first ? "harness: the other ranks of the process, for a call of all"
				: "harness: the task that makes the calls of this process",
			  wait_by(first ? -1 : team->rank[0]->rank, -1, NULL));

	if (!team_arrive(team))
		return false;
	if (os_wait_one(&w, &me->run->failed) == 0)
		return true;
	if (!team_has_met(team, meeting))
		return false;
	return os_wait_one(&w, NULL) == 0;
}

/* ---- the calls ------------------------------------------------------------------------------ */

static void team_call_is(const struct lab_team *team, const char *call)
{
	for (int32_t i = 0; i < team->n; i++)
		lab_call(team->rank[i], call);
}

/* A rank that is left out of a group leaves the others waiting in its end: their watches must
 * know. */
static ncclResult_t team_device(struct lab_rank *it)
{
	return lab_rank_check_cuda(it, cudaSetDevice(it->device), "cudaSetDevice")
		       ? ncclSuccess
		       : ncclUnhandledCudaError;
}

/* Did a fault keep a call from asking for the current device, or from going back to it? */
static bool team_device_is_lost(void)
{
	struct sim_fault_stat s;

	for (uint32_t i = 0; sim_fault_stat(i, &s); i++)
		if (s.fires &&
		    (!strcmp(s.site, "cuda.get_device") || !strcmp(s.site, "cuda.set_device")))
			return true;
	return false;
}

/* A call of NCCL's may use any device, and leaves that which was current. */
static void team_device_check(const struct lab_rank *it, const char *call)
{
	int now = -1;

	if (cudaGetDevice(&now) != cudaSuccess || now == it->device || team_device_is_lost())
		return;
	lab_judge(it, SIM_ERROR, "error", "%s changed the current device from %d to %d", call,
		  it->device, now);
}

static void team_make_calls(struct lab_team *team)
{
	for (int32_t i = 0; i < team->n; i++) {
		struct lab_rank *it = team->rank[i];
		const struct lab_drive *d = it->drive;
		ncclResult_t device = team_device(it);

		ASSERT(d->fn == team->rank[0]->drive->fn); /* one call of all ranks */

		it->drive_result = device && !d->ends ? device : d->fn(it, d->arg);
		if (!device)
			team_device_check(it, d->name);
	}
}

/* Any device may be current at the end of a group: another one each time. */
static ncclResult_t team_group_end(struct lab_team *team)
{
	uint32_t meeting = shared_load_u32(&team->meetings, SHARED_ACQUIRE);

	ASSERT(team->n > 0);
	struct lab_rank *it = team->rank[meeting % (uint32_t)team->n];
	ncclResult_t device = team_device(it);

	team_call_is(team, "ncclGroupEnd");
	ncclResult_t rc = lab_comms_settle_all(team->rank, team->n, ncclGroupEnd());
	team_call_is(team, NULL);
	if (!device)
		team_device_check(it, "ncclGroupEnd");
	return rc;
}

/* An error of the group is one of each of its ranks. */
static void team_group(struct lab_team *team)
{
	ncclResult_t rc = ncclGroupStart();

	if (!rc) {
		team_make_calls(team);
		rc = team_group_end(team);
	}
	for (int32_t i = 0; rc && i < team->n; i++)
		team->rank[i]->drive_result = rc;
}

/* The task is that of the first rank, which goes on: what it allocates must be memory of its own
 * device. The first call may fail by the plan. */
static void team_device_back(struct lab_rank *me)
{
	for (int i = 0; i < TEAM_DEVICE_CALLS && team_device(me); i++)
		;
}

static void team_run(struct lab_rank *me)
{
	struct lab_team *team = me->team;

	ASSERT(me == team->rank[0]); /* one task makes the calls of all ranks of the process */
	if (me->drive->grouped)
		team_group(team);
	else
		team_make_calls(team);
	team_device_back(me);
	os_mutex_lock(&team->lock); /* a rank that another one's failure wakes sees both or none */
	shared_store_u32(&team->arrived, 0, SHARED_RELEASE);
	shared_add_u32(&team->meetings, 1, SHARED_ACQ_REL);
	os_mutex_unlock(&team->lock);
}

bool lab_drive(struct lab_rank *me, const struct lab_drive *call, ncclResult_t *result)
{
	struct lab_team *team = me->team;

	if (!team) {
		*result = call->fn(me, call->arg);
		return true;
	}
	uint32_t meeting = shared_load_u32(&team->meetings, SHARED_ACQUIRE);
	me->drive = call;
	if (!team_meet(me, meeting))
		return false;
	if (me == team->rank[0])
		team_run(me);
	*result = me->drive_result;
	return true;
}

/* ---- the end -------------------------------------------------------------------------------- */

void lab_team_trouble(struct lab_rank *me)
{
	if (me->team)
		shared_store_u32(&me->team->trouble, 1, SHARED_RELEASE);
}

bool lab_team_troubled(const struct lab_rank *me)
{
	return me->team && me->run->armed &&
	       shared_load_u32(&me->team->trouble, SHARED_ACQUIRE) != 0;
}

bool lab_team_watch_aborted(const struct lab_rank *me)
{
	bool aborted = shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE) != 0;

	for (int32_t i = 0; me->team && i < me->team->n; i++)
		aborted |= shared_load_u32(&me->team->rank[i]->watch_aborted, SHARED_ACQUIRE) != 0;
	return aborted;
}

static void team_abort_one(struct lab_rank *it)
{
	it->drive_result = ncclSuccess;
	if (!lab_comms_any(it) || shared_load_u32(&it->watch_aborted, SHARED_ACQUIRE))
		return;
	lab_call(it, "ncclCommAbort");
	it->drive_result = lab_comms_abort(it);
	lab_call(it, NULL);
}

ncclResult_t lab_team_abort(struct lab_rank *me)
{
	struct lab_team *team = me->team;
	bool first = me == team->rank[0];
	struct wait w = wait_word(first ? &team->leaving : &team->aborted, 4, WAIT_EQ,
				  first ? (uint32_t)team->n : 1,
				  first ? "harness: the other ranks of the process, to abort all"
					: "harness: the task that aborts the ranks of this process",
				  wait_by(first ? -1 : team->rank[0]->rank, -1, NULL));

	shared_add_u32(&team->leaving, 1, SHARED_ACQ_REL);
	(void)os_wait_one(&w, NULL);
	for (int32_t i = 0; first && i < team->n; i++)
		team_abort_one(team->rank[i]);
	if (first)
		shared_store_u32(&team->aborted, 1, SHARED_RELEASE);
	return me->drive_result;
}
