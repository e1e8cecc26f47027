/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank that has had an error ends its communicators: most programs abort them; others destroy
 * them, and some finalize them before. Ranks may do that each in its way, and at times of their
 * own. A program that has had the error of a communicator gets no second one from its destroy; one
 * that finalizes it gets the error once more. An end in order reports no failure to other ranks. A
 * rank therefore aborts a communicator that does not have its failure: one of another communicator,
 * or of the rank itself.
 */
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

#define LEAVE_POWERS 28 /* late up to 2^28 ns, 0.27 s */

static bool leave_watched(struct lab_rank *me)
{
	return shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE) != 0;
}

static enum lab_leaves leave_draw(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	struct sim_rng rng;

	if (c->leaves != LAB_LEAVES_EACH)
		return c->leaves;
	sim_rng_seed(&rng, c->sim.seed + (uint64_t)me->rank, "lab.leaves");
	enum lab_leaves how = (enum lab_leaves)sim_rng_below(&rng, LAB_LEAVES_EACH);
	uint64_t most_ns = 1ull << sim_rng_below(&rng, LEAVE_POWERS);

	os_sleep_ns(sim_rng_below(&rng, most_ns));
	return how;
}

/* A call after the program has had the communicator's error. */
static void leave_judge(struct lab_rank *me, const char *call, ncclResult_t got, ncclResult_t want)
{
	if (got == want || leave_watched(me))
		return;
	lab_judge(me, SIM_ERROR, "error-class",
		  "%s gave \"%s\" after the program had the communicator's error, expected \"%s\"",
		  call, ncclGetErrorString(got), ncclGetErrorString(want));
}

/* Each call that would use the communicator gives its first error. */
static void leave_judge_calls(struct lab_rank *me, ncclComm_t comm, ncclResult_t first)
{
	ncclResult_t async = ncclSuccess;
	int n = 0;

	ASSERT(first != ncclSuccess && first != ncclInProgress);
	leave_judge(me, "ncclCommCount", ncclCommCount(comm, &n), first);
	leave_judge(me, "ncclAllReduce",
		    ncclAllReduce(me->recv, me->recv, 1, ncclInt8, ncclSum, comm,
				  (cudaStream_t)me->stream),
		    first);
	leave_judge(me, "ncclCommGetAsyncError", ncclCommGetAsyncError(comm, &async), ncclSuccess);
	leave_judge(me, "a later asynchronous error", async, first);
	if (!*ncclGetLastError(comm))
		leave_judge(me, "ncclGetLastError without a line", ncclSuccess, first);
}

/* The end of a failed communicator waits for kernels of others on its GPU, with NCCL as well. Such
 * a kernel may end only if its communicator is aborted, too. A rank with several communicators
 * therefore aborts all that are left together. */
static ncclResult_t leave_abort(struct lab_rank *me, ncclComm_t comm)
{
	ncclResult_t rc;

	lab_call(me, "ncclCommAbort");
	rc = lab_comms(me->run->config) > 1 ? lab_comms_abort(me) : ncclCommAbort(comm);
	lab_call(me, NULL);
	return rc;
}

static ncclResult_t leave_one(struct lab_rank *me, ncclComm_t comm, bool finalizes)
{
	ncclResult_t async = ncclSuccess, rc = ncclCommGetAsyncError(comm, &async), end = rc;
	bool given = !rc && async != ncclSuccess && async != ncclInProgress;
	bool several = lab_comms(me->run->config) > 1;

	if (given)
		leave_judge_calls(me, comm, async);
	if (several || (!given && me->error != ncclRemoteError))
		return leave_abort(me, comm);
	if (finalizes) {
		lab_call(me, "ncclCommFinalize after an error");
		end = lab_comm_settle(me, comm, ncclCommFinalize(comm));
		if (given)
			leave_judge(me, "ncclCommFinalize", end, async);
	}
	lab_call(me, "ncclCommDestroy after an error");
	rc = ncclCommDestroy(comm);
	if (given)
		leave_judge(me, "ncclCommDestroy", rc, ncclSuccess);
	lab_call(me, NULL);
	return rc;
}

ncclResult_t lab_leave_trouble(struct lab_rank *me, const char **call)
{
	enum lab_leaves how = leave_draw(me);
	ncclResult_t rc = ncclSuccess;

	ASSERT(!me->team); /* one task ends the communicators of a team: lab_team_abort */
	if (how == LAB_LEAVES_ABORT || leave_watched(me)) {
		*call = "ncclCommAbort";
		lab_call(me, *call);
		rc = lab_comms_abort(me);
		lab_call(me, NULL);
		return rc;
	}
	*call = "ncclCommDestroy after an error";
	for (uint32_t k = 0; k < lab_comms(me->run->config); k++) {
		ncclComm_t comm = lab_comms_next_to_end(me, k);
		ncclResult_t one = ncclSuccess;

		if (comm && !(me->comms_aborted & 1u << k))
			one = leave_one(me, comm, how == LAB_LEAVES_FINALIZE);
		rc = rc ? rc : one;
	}
	return rc;
}

/* A call that failed, and left its communicator without an error, has had no effect: made again it
 * works, where the fault was one. A group of several communicators, or of several ranks, may have
 * launched those before the one that failed. */
bool lab_may_try_again(struct lab_rank *me, ncclResult_t error)
{
	const struct lab_config *c = me->run->config;
	ncclResult_t async = ncclSuccess;

	ASSERT(error != ncclSuccess);
	if (!c->retries || !me->run->armed || me->team || lab_comms(c) > 1 ||
	    error == ncclRemoteError || leave_watched(me))
		return false;
	return ncclCommGetAsyncError(me->comm, &async) == ncclSuccess && async == ncclSuccess;
}
