/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: calls of one task that are launched together.
 *
 *	ncclGroupStart   depth 0 -> 1 opens the task's group
 *	calls            collect inits and collectives; the first error is kept
 *	ncclGroupEnd     depth 1 -> 0: closes aborted communicators, runs the inits, registers
 *	                 windows, suspends and resumes, launches, closes the group
 */
#include "core/api/api.h"
#include "core/base/log.h"
#include "core/os/os_grow.h"
#include "core/plan/capture.h"

struct api_group *api_group(void)
{
	struct api_group *g = os_self()->slot[OS_SLOT_CORE];

	ASSERT(!g || g->depth > 0);
	return g;
}

ncclResult_t api_return(ncclResult_t rc)
{
	struct api_group *g = api_group();
	bool error = rc != ncclSuccess && rc != ncclInProgress;

	ASSERT((unsigned)rc < ncclNumResults);
	os_self()->refused = error ? ncclGetErrorString(rc) : NULL;
	if (g && rc == ncclInProgress)
		g->in_progress = true;
	else if (g && g->error == ncclSuccess)
		g->error = rc;
	return rc;
}

/* Moves member i to the end. */
static void api_group_move(struct api_group *g, int i)
{
	const struct api_member m = g->members[i];

	ASSERT(m.collective); /* messages stay where the group has them */
	for (; i < g->nmembers - 1; i++)
		g->members[i] = g->members[i + 1];
	g->members[i] = m;
}

/* Adds a communicator to the group. A message fixes its place only until its first collective: the
 * order of messages may differ between ranks. */
ncclResult_t api_group_add_comm(struct api_group *g, struct ncclComm *comm, bool collective)
{
	for (int i = 0; i < g->nmembers; i++) {
		if (g->members[i].comm != comm)
			continue;
		if (collective && !g->members[i].collective) {
			g->members[i].collective = true;
			api_group_move(g, i);
		}
		return ncclSuccess;
	}
	if (g->nmembers == g->room &&
	    !OS_GROW(g->members, g->nmembers, g->room, 8, "group's communicators")) {
		WARN("no memory for a group of %d communicators", g->nmembers + 1);
		return ncclSystemError;
	}
	ASSERT(g->nmembers < g->room);
	g->members[g->nmembers] = api_member_of(comm);
	g->members[g->nmembers++].collective = collective;
	return ncclSuccess;
}

void api_group_abort(struct ncclComm *comm)
{
	struct api_group *g = api_group();

	if (!g) {
		(void)comm_close(comm, false);
		return;
	}
	comm->life->abort_next = g->aborted;
	g->aborted = comm;
}

/* ---- events for a profiler plugin ------------------------------------------------------------ */

struct profiler_group *api_profile_begin(struct profiler_group *own, struct ncclComm *comm,
					 const char *call, cudaStream_t stream, bool *captured)
{
	struct api_group *g = api_group();
	struct profiler_group *p = g ? &g->profile : own;
	struct plan_capture capture = {.id = 0};

	*captured = false;
	if (!comm->profiler)
		return p;
	*captured = !plan_capture_of(call, stream, &capture) && capture.id;
	/* a call is in a group of its own, as in NCCL */
	profiler_group_begin(p, comm, (g ? g->depth : 0) + 1, *captured);
	return p;
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
	INFO(LOG_CALL, "ncclGroupStart: depth %d", g->depth);
	return ncclSuccess;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Makes the calls that precede the launches. */
static ncclResult_t api_group_prepare(struct api_group *g)
{
	ncclResult_t rc = api_inits_run(g->inits);

	if (rc)
		api_windows_discard(g->windows);
	else
		rc = api_windows_run(g->windows, g->nmembers > 0 || g->changes);
	if (rc == ncclInProgress) {
		g->in_progress = true;
		rc = ncclSuccess;
	}
	if (rc)
		api_changes_discard(g->changes);
	else
		rc = api_changes_run(g->changes);
	return rc;
}

/* `us` is not NULL: the calls are not launched; *us becomes the time that they would take. */
static ncclResult_t api_group_run(struct api_group *g, float *us)
{
	ncclResult_t rc;

	ASSERT(g->depth == 0 && g != api_group()); /* calls made from here are not collected */
	if (g->error) {
		api_inits_discard(g->inits);
		api_changes_discard(g->changes);
		api_windows_discard(g->windows);
		api_cancel(g->members, g->nmembers, g->error);
		return g->error;
	}
	ASSERT(g->inits || g->inits_end == &g->inits);
	rc = api_group_prepare(g);
	if (!rc && !us)
		return api_launch(g->members, g->nmembers, "ncclGroupEnd");
	if (!rc)
		rc = api_simulate(g->members, g->nmembers, us);
	api_cancel(g->members, g->nmembers, rc);
	return rc;
}

/* Closes the communicators that the group has aborted. */
static void api_group_close(struct ncclComm *list)
{
	struct ncclComm *next;

	for (; list; list = next) {
		next = list->life->abort_next;
		(void)comm_close(list, false);
	}
}

static void api_group_trace_begin(const struct api_group *g)
{
	if (os_tracing())
		os_trace_begin(&(struct os_trace_slice){
			.name = "ncclGroupEnd",
			.arg = {{"communicators", (uint64_t)g->nmembers, NULL}}});
}

static void api_group_trace_end(ncclResult_t rc)
{
	if (os_tracing())
		os_trace_end(&(struct os_trace_slice){.name = "ncclGroupEnd",
						      .arg = {{"result", (uint64_t)rc, NULL}}});
}

static ncclResult_t api_group_end(const char *call, float *us)
{
	struct api_group *g = api_group();
	ncclResult_t rc;
	int device;

	if (!g) {
		WARN("%s: no ncclGroupStart before it in this task", call);
		return ncclInvalidUsage;
	}
	INFO(LOG_CALL, "%s: depth %d, %d communicators", call, g->depth, g->nmembers);
	if (--g->depth > 0)
		return ncclSuccess;
	/* Later calls of this task are not in the group. */
	os_self()->slot[OS_SLOT_CORE] = NULL;
	api_group_trace_begin(g);
	device = comm_device_save();
	api_group_close(g->aborted);
	profiler_group_launches(&g->profile);
	rc = api_group_run(g, us);
	profiler_group_end(&g->profile);
	comm_device_restore(device);
	if (!rc && g->in_progress)
		rc = ncclInProgress;
	api_group_trace_end(rc);
	os_free(g->members);
	os_free(g);
	return rc;
}

API_TWIN(ncclGroupEnd);
API_WEAK ncclResult_t ncclGroupEnd(void)
{
	return api_group_end("ncclGroupEnd", NULL);
}

/* ---- the end without launches ---------------------------------------------------------------- */

#define SIM_INFO_MAGIC 0x74685283u
#define SIM_INFO_LEAST (offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float))
DOPPEL_CHECK_OFFSET(ncclSimInfo_t, estimatedTime, 16);
DOPPEL_CHECK_SIZE(ncclSimInfo_t, 24);

API_TWIN(ncclGroupSimulateEnd);
API_WEAK ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
	if (!simInfo || simInfo->magic != SIM_INFO_MAGIC || simInfo->size < SIM_INFO_LEAST) {
		WARN("ncclGroupSimulateEnd: simInfo is %s, expected one that begins with "
		     "NCCL_SIM_INFO_INITIALIZER",
		     simInfo ? "not initialised" : "NULL");
		return api_return(ncclInvalidArgument);
	}
	return api_group_end("ncclGroupSimulateEnd", &simInfo->estimatedTime);
}
