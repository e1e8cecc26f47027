/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are suspended and resumed between two rows of the series. */
#include "sim/lab/run/runner_internal.h"

struct suspends_step {
	bool resumes;
};

/* Makes the call for each communicator, in the same order on all ranks. */
static ncclResult_t suspends_rank(struct lab_rank *it, void *arg)
{
	const struct suspends_step *step = arg;
	const uint32_t n = lab_comms(it->run->config);
	ncclResult_t rc = ncclSuccess;

	for (uint32_t i = 0; i < n && !rc; i++) {
		ncclComm_t comm = lab_comms_pick(it, i);

		rc = step->resumes ? ncclCommResume(comm) : ncclCommSuspend(comm, NCCL_SUSPEND_MEM);
		rc = it->team && rc == ncclInProgress ? ncclSuccess : lab_comm_settle(it, comm, rc);
	}
	return rc;
}

static bool suspends_step(struct lab_rank *me, bool resumes)
{
	struct suspends_step step = {resumes};
	const struct lab_drive call = {.fn = suspends_rank,
				       .arg = &step,
				       .name = resumes ? "ncclCommResume" : "ncclCommSuspend",
				       .grouped = true};
	ncclResult_t rc;

	lab_call(me, call.name);
	if (!lab_drive(me, &call, &rc))
		return false;
	rc = lab_comms_settle(me, rc);
	lab_call(me, NULL);
	if (rc && !me->error_call)
		lab_rank_fail(me, rc, call.name);
	return rc == ncclSuccess;
}

bool lab_suspends(struct lab_rank *me)
{
	if (me->suspended >= me->run->config->suspends)
		return true;
	me->suspended++;
	if (!suspends_step(me, false))
		return false;
	lab_pause(me);
	return suspends_step(me, true);
}
