/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of states: all ranks bring a communicator into one, and then each rank makes calls by
 * itself. Calls that the state does not allow are refused, before any message; queries work. The
 * table is that of docs/communicators.md. A suspended communicator has given its memory back, and
 * works when it is resumed.
 */
#include <string.h>

#include "sim/lab/scene/scene.h"

#define STATE_CALLS 8 /* of a rank, at most */

enum state { STATE_READY, STATE_SUSPENDED, STATE_REVOKED, STATE_FINALIZED, STATES };

#define IN(s) (1u << STATE_##s)

static const char *const state_names[STATES] = {
	[STATE_READY] = "ready",
	[STATE_SUSPENDED] = "suspended",
	[STATE_REVOKED] = "revoked",
	[STATE_FINALIZED] = "finalized",
};

/* ---- calls ----------------------------------------------------------------------------------- */

static ncclResult_t state_reduce(struct scene *s)
{
	return ncclAllReduce(s->mem, s->mem, SCENE_COUNT, ncclInt32, ncclSum, s->comm[0],
			     s->stream[0]);
}

static ncclResult_t state_send(struct scene *s)
{
	return ncclSend(s->mem, SCENE_COUNT, ncclInt32, s->culprit, s->comm[0], s->stream[0]);
}

static ncclResult_t state_to_all(struct scene *s)
{
	return ncclAlltoAll(s->mem, s->mem + SCENE_BYTES / 2 / sizeof *s->mem, 1, ncclInt32,
			    s->comm[0], s->stream[0]);
}

/* Reports a communicator that a refused call has made. */
static ncclResult_t state_none(struct scene *s, const char *call, ncclResult_t rc, ncclComm_t none)
{
	if (none)
		scene_report(s, call, "gave a communicator");
	return rc;
}

static ncclResult_t state_split(struct scene *s)
{
	ncclComm_t none = (ncclComm_t)(void *)s;
	ncclResult_t rc = ncclCommSplit(s->comm[0], 0, s->me->rank, &none, NULL);

	return state_none(s, "ncclCommSplit", rc, none);
}

static ncclResult_t state_shrink(struct scene *s)
{
	int excluded = (s->me->rank + 1) % s->n;
	ncclComm_t none = (ncclComm_t)(void *)s;
	ncclResult_t rc =
		ncclCommShrink(s->comm[0], &excluded, 1, &none, NULL, NCCL_SHRINK_DEFAULT);

	ASSERT(s->n > 1); /* a rank is left */
	return state_none(s, "ncclCommShrink", rc, none);
}

static ncclResult_t state_grow(struct scene *s)
{
	ncclComm_t none = (ncclComm_t)(void *)s;
	ncclResult_t rc = ncclCommGrow(s->comm[0], s->n + 1, NULL, -1, &none, NULL);

	return state_none(s, "ncclCommGrow", rc, none);
}

static ncclResult_t state_id(struct scene *s)
{
	ncclUniqueId id;

	return ncclCommGetUniqueId(s->comm[0], &id);
}

static ncclResult_t state_suspend(struct scene *s)
{
	return ncclCommSuspend(s->comm[0], NCCL_SUSPEND_MEM);
}

static ncclResult_t state_resume(struct scene *s)
{
	return ncclCommResume(s->comm[0]);
}

static ncclResult_t state_finalize(struct scene *s)
{
	return ncclCommFinalize(s->comm[0]);
}

static ncclResult_t state_revoke(struct scene *s)
{
	return ncclCommRevoke(s->comm[0], NCCL_REVOKE_DEFAULT);
}

static ncclResult_t state_register(struct scene *s)
{
	void *handle = NULL;

	return ncclCommRegister(s->comm[0], s->mem, SCENE_BYTES, &handle);
}

static ncclResult_t state_op(struct scene *s)
{
	int32_t factor = 3;
	ncclRedOp_t op;

	return ncclRedOpCreatePreMulSum(&op, &factor, ncclInt32, ncclScalarHostImmediate,
					s->comm[0]);
}

/* The states in which a call may enter. */
static const struct state_row {
	const char *call;
	ncclResult_t (*make)(struct scene *s);
	uint32_t allowed;
	bool late; /* a group makes it at its end, and then returns the error */
} state_rows[] = {
	{"ncclAllReduce", state_reduce, IN(READY), false},
	{"ncclSend", state_send, IN(READY), false},
	{"ncclAlltoAll", state_to_all, IN(READY), false},
	{"ncclCommSplit", state_split, IN(READY) | IN(REVOKED), false},
	{"ncclCommShrink", state_shrink, IN(READY) | IN(REVOKED), false},
	{"ncclCommGrow", state_grow, IN(READY), false},
	{"ncclCommGetUniqueId", state_id, IN(READY), false},
	{"ncclCommSuspend", state_suspend, IN(READY), true},
	{"ncclCommResume", state_resume, IN(SUSPENDED), true},
	{"ncclCommFinalize", state_finalize, IN(READY) | IN(SUSPENDED), false},
	{"ncclCommRevoke", state_revoke, IN(READY) | IN(SUSPENDED) | IN(REVOKED), false},
	{"ncclCommRegister", state_register, IN(READY), false},
	{"ncclRedOpCreatePreMulSum", state_op, IN(READY), false},
};

static void state_refused(struct scene *s, enum state state)
{
	const struct state_row *row = &state_rows[sim_rng_below(&s->own, ARRAY_LEN(state_rows))];
	bool grouped = sim_rng_below(&s->own, 3) == 0;
	ncclResult_t rc, end;

	if (row->allowed & 1u << state)
		return;
	if (grouped && ncclGroupStart())
		return;
	rc = row->make(s);
	end = grouped ? ncclGroupEnd() : rc;
	if (!(grouped && row->late && !rc))
		scene_judge(s, row->call, rc, ncclInvalidUsage);
	if (grouped)
		scene_judge(s, "ncclGroupEnd", end, ncclInvalidUsage);
}

static void state_query(struct scene *s)
{
	static ncclResult_t (*const query[])(const ncclComm_t, int *) = {
		ncclCommCount, ncclCommUserRank, ncclCommCuDevice};
	const int want[] = {s->n, s->me->rank, s->me->device};
	uint64_t k = sim_rng_below(&s->own, ARRAY_LEN(query));
	ncclResult_t async = ncclInternalError;
	int value = -1;

	scene_judge(s, "ncclCommCount and the like", query[k](s->comm[0], &value), ncclSuccess);
	if (value != want[k])
		scene_report(s, "ncclCommCount and the like", "gave another number");
	scene_judge(s, "ncclCommGetAsyncError", ncclCommGetAsyncError(s->comm[0], &async),
		    ncclSuccess);
	scene_judge(s, "an asynchronous error", async, ncclSuccess);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t state_stat(struct scene *s, ncclCommMemStat_t which)
{
	uint64_t value = 0;

	scene_judge(s, "ncclCommMemStats", ncclCommMemStats(s->comm[0], which, &value),
		    ncclSuccess);
	return value;
}

static size_t state_free(struct scene *s)
{
	size_t now = 0, total;

	(void)scene_cuda(s, cudaMemGetInfo(&now, &total), "cudaMemGetInfo");
	return now;
}

/* All ranks have suspended it, so that no other one maps its memory. Communicators that have ended
 * before may give more of it back. */
static void state_check_memory(struct scene *s, size_t before, uint64_t suspends)
{
	if (state_stat(s, ncclStatGpuMemSuspended) != 1)
		scene_report(s, "ncclCommMemStats", "does not have it as suspended");
	if (scene_has_gpu(s) && state_free(s) < before + suspends)
		scene_report(s, "ncclCommSuspend", "has not freed the memory of ncclCommMemStats");
}

static bool state_suspends(struct scene *s)
{
	uint64_t suspends = state_stat(s, ncclStatGpuMemSuspend);
	size_t before = state_free(s);

	lab_call(s->me, "ncclCommSuspend");
	ncclResult_t rc = state_suspend(s);

	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommSuspend", rc, ncclSuccess);
	if (rc || !lab_barrier(s->me))
		return false;
	state_check_memory(s, before, suspends);
	return true;
}

/* ---- the scene ------------------------------------------------------------------------------- */

static bool state_enter(struct scene *s, enum state state)
{
	ncclResult_t rc = ncclSuccess;

	if (state == STATE_SUSPENDED)
		return state_suspends(s);
	if (state == STATE_REVOKED)
		rc = state_revoke(s);
	if (state == STATE_FINALIZED)
		rc = state_finalize(s);
	scene_judge(s, state_names[state], rc, ncclSuccess);
	return !rc;
}

static bool state_resumes(struct scene *s)
{
	lab_call(s->me, "ncclCommResume");
	ncclResult_t rc = state_resume(s);

	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommResume", rc, ncclSuccess);
	if (!rc && state_stat(s, ncclStatGpuMemSuspended) != 0)
		scene_report(s, "ncclCommMemStats", "has it as suspended after ncclCommResume");
	return !rc;
}

/* Refused calls leave the state as it was. */
void scene_state(struct scene *s)
{
	enum state state = (enum state)sim_rng_below(&s->drawn, STATES);
	bool messages = sim_rng_below(&s->drawn, 2), resumes = sim_rng_below(&s->drawn, 2);
	uint64_t calls = 1 + sim_rng_below(&s->own, STATE_CALLS);

	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) ||
	    (messages && !scene_ring(s, 0)) || !lab_barrier(s->me) || !state_enter(s, state))
		return;
	for (uint64_t i = 0; i < calls; i++) {
		state_refused(s, state);
		state_query(s);
	}
	if (!lab_barrier(s->me))
		return;
	if (state == STATE_SUSPENDED && resumes && !state_resumes(s))
		return;
	if ((state == STATE_READY || (state == STATE_SUSPENDED && resumes)) &&
	    !scene_sum(s, 0, 4ul * SCENE_COUNT, NULL))
		return;
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}
