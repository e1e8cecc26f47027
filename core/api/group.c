/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: calls of one task that happen together.
 *
 *	ncclGroupStart   depth 0 -> 1 opens the task's group
 *	calls            collect inits and collectives; the first error is kept
 *	ncclGroupEnd     depth 1 -> 0: runs the inits, launches per communicator, closes the group
 */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/plan/plan.h"

struct api_group *api_group(void)
{
	return os_self()->slot[OS_SLOT_CORE];
}

ncclResult_t api_return(ncclResult_t rc)
{
	struct api_group *g = api_group();
	if (g && rc == ncclInProgress)
		g->in_progress = true;
	else if (g && g->error == ncclSuccess)
		g->error = rc;
	return rc;
}

ncclResult_t api_group_add_comm(struct api_group *g, struct ncclComm *comm)
{
	for (int i = 0; i < g->ncomms; i++)
		if (g->comms[i] == comm)
			return ncclSuccess;
	if (g->ncomms == g->room) {
		int room = g->room ? 2 * g->room : 8;
		struct ncclComm **more =
			os_alloc((size_t)room * sizeof(void *), "group's communicators");
		if (!more) {
			WARN("no memory for a group of %d communicators", room);
			return ncclSystemError;
		}
		for (int i = 0; i < g->ncomms; i++)
			more[i] = g->comms[i];
		os_free(g->comms);
		g->comms = more;
		g->room = room;
	}
	g->comms[g->ncomms++] = comm;
	return ncclSuccess;
}

API_TWIN(ncclGroupStart);
API_WEAK ncclResult_t ncclGroupStart(void)
{
	struct api_group *g = api_group();
	if (!g) {
		g = os_alloc(sizeof *g, "group");
		if (!g) {
			WARN("ncclGroupStart: no memory");
			return ncclSystemError;
		}
		g->inits_end = &g->inits;
		os_self()->slot[OS_SLOT_CORE] = g;
	}
	g->depth++;
	return ncclSuccess;
}

/* Launches what one communicator has collected, on its own device. */
static ncclResult_t api_launch(struct ncclComm *comm)
{
	ncclResult_t rc = comm_enter(comm, "ncclGroupEnd", COMM_NEED_READY);
	if (rc)
		return rc;
	cudaError_t e = cudaSetDevice(comm->cuda_dev);
	if (e != cudaSuccess) {
		WARN("ncclGroupEnd: cudaSetDevice(%d): %s", comm->cuda_dev, cudaGetErrorString(e));
		rc = ncclUnhandledCudaError;
	} else {
		rc = plan_launch(comm);
	}
	comm_leave(comm);
	return rc;
}

/* After an error nothing that was collected and not launched is left over. */
static void api_group_discard(const struct api_group *g, int from)
{
	for (int i = from; i < g->ncomms; i++) {
		if (comm_enter(g->comms[i], "ncclGroupEnd", COMM_NEED_ANY) != ncclSuccess)
			continue;
		plan_discard(g->comms[i]);
		comm_leave(g->comms[i]);
	}
}

static ncclResult_t api_group_launch(const struct api_group *g)
{
	ncclResult_t rc = ncclSuccess;
	int before = -1, i = 0;

	if (!g->ncomms)
		return ncclSuccess;
	(void)cudaGetDevice(&before);
	for (; i < g->ncomms && !rc; i++)
		rc = api_launch(g->comms[i]);
	if (rc)
		api_group_discard(g, i - 1);
	if (before >= 0)
		(void)cudaSetDevice(before);
	return rc;
}

API_TWIN(ncclGroupEnd);
API_WEAK ncclResult_t ncclGroupEnd(void)
{
	struct api_group *g = api_group();
	ncclResult_t rc;

	if (!g) {
		WARN("ncclGroupEnd: no ncclGroupStart before it in this task");
		return ncclInvalidUsage;
	}
	if (--g->depth > 0)
		return ncclSuccess;
	/* calls from here on, of this task, are not in the group */
	os_self()->slot[OS_SLOT_CORE] = NULL;
	rc = g->error;
	if (rc) {
		api_inits_discard(g->inits);
		api_group_discard(g, 0);
	} else {
		rc = api_inits_run(g->inits);
		if (rc)
			api_group_discard(g, 0);
		else
			rc = api_group_launch(g);
	}
	if (!rc && g->in_progress)
		rc = ncclInProgress;
	os_free(g->comms);
	os_free(g);
	return rc;
}
