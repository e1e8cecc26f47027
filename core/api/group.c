/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: calls of one task that happen together.
 *
 *	ncclGroupStart   depth 0 -> 1 opens the task's group
 *	calls            collect inits and collectives; the first error is kept
 *	ncclGroupEnd     depth 1 -> 0: runs the inits, launches, closes the group
 *
 * A task may drive several ranks of one communicator, and a launch may wait for slots of the rank's
 * proxy, which the other ranks free once they have launched what came before. So the ranks launch in
 * rounds, one plan of each at a time, and none gets ahead of another.
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

static ncclResult_t api_group_grow(struct api_group *g)
{
	int room = g->room ? 2 * g->room : 8;
	struct api_member *more = os_alloc((size_t)room * sizeof *more, "group's communicators");

	if (!more) {
		WARN("no memory for a group of %d communicators", room);
		return ncclSystemError;
	}
	for (int i = 0; i < g->nmembers; i++)
		more[i] = g->members[i];
	os_free(g->members);
	g->members = more;
	g->room = room;
	return ncclSuccess;
}

static struct api_member api_member_of(struct ncclComm *comm)
{
	return (struct api_member){
		.comm = comm, .id_hash = comm->id_hash, .device = comm->cuda_dev};
}

ncclResult_t api_group_add_comm(struct api_group *g, struct ncclComm *comm)
{
	for (int i = 0; i < g->nmembers; i++)
		if (g->members[i].comm == comm)
			return ncclSuccess;
	if (g->nmembers == g->room) {
		ncclResult_t rc = api_group_grow(g);

		if (rc)
			return rc;
	}
	g->members[g->nmembers++] = api_member_of(comm);
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

/* ---- launching ------------------------------------------------------------------------------ */

static ncclResult_t api_member_announce(struct api_member *m, const char *call)
{
	ncclResult_t rc = comm_enter(m->comm, call, COMM_NEED_READY);

	if (rc)
		return rc;
	rc = plan_announce(m->comm);
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* One phase of connecting, of every member. In between the communicators are not in use, as between
 * two launches. */
static ncclResult_t api_connect_phase(struct api_member *members, int n, const char *call,
				      ncclResult_t (*phase)(struct ncclComm *comm))
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++) {
		rc = comm_enter(members[i].comm, call, COMM_NEED_READY);
		if (rc)
			return rc;
		rc = phase(members[i].comm);
		comm_leave(members[i].comm);
	}
	return rc;
}

static ncclResult_t api_connect(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = api_connect_phase(members, n, call, plan_connect_begin);

	if (!rc)
		rc = api_connect_phase(members, n, call, plan_connect_exchange);
	if (!rc)
		rc = api_connect_phase(members, n, call, plan_connect_request);
	return rc ? rc : api_connect_phase(members, n, call, plan_connect_end);
}

/* The next launch of one communicator. Between two of them it is not in use, so that another task
 * can abort it while this one waits in the launch of another. */
static ncclResult_t api_member_launch(struct api_member *m, const char *call)
{
	ncclResult_t rc = comm_enter(m->comm, call, COMM_NEED_READY);

	if (rc)
		return rc;
	rc = plan_launch(m->comm);
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* After an error nothing that was collected and not launched is left over. What was announced last
 * is taken back first. */
static void api_cancel(const struct api_member *members, int n, ncclResult_t error)
{
	while (n-- > 0) {
		struct ncclComm *comm = members[n].comm;

		if (comm_enter(comm, "ncclGroupEnd", COMM_NEED_ANY) != ncclSuccess)
			continue;
		if (plan_cancel(comm, error))
			(void)comm_async_error(comm);
		comm_leave(comm);
	}
}

/* May member i launch? Not before the communicators that the program called before it on the same
 * GPU, since every GPU has to launch communicators in the same order. And not when it is ahead of
 * another rank of its communicator: what it waits for may be a launch of that rank. */
static bool api_may_launch(const struct api_member *members, int n, int i)
{
	const struct api_member *m = &members[i];

	if (!m->left)
		return false;
	for (int k = 0; k < n; k++) {
		const struct api_member *o = &members[k];

		if (!o->left)
			continue;
		if (k < i && o->device == m->device)
			return false;
		if (o->id_hash == m->id_hash && o->position < m->position)
			return false;
	}
	return true;
}

/* Which member launches next; NULL: all have launched everything. GPUs that disagree on the order of
 * communicators can leave no member that may launch; then it is the first that has something. */
static struct api_member *api_next(struct api_member *members, int n)
{
	struct api_member *first = NULL;

	for (int i = 0; i < n; i++) {
		if (api_may_launch(members, n, i))
			return &members[i];
		if (!first && members[i].left)
			first = &members[i];
	}
	return first;
}

ncclResult_t api_launch(struct api_member *members, int n, const char *call)
{
	struct api_member *m;
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++)
		rc = api_member_announce(&members[i], call);
	if (!rc)
		rc = api_connect(members, n, call);
	while (!rc && (m = api_next(members, n)))
		rc = api_member_launch(m, call);
	if (rc)
		api_cancel(members, n, rc);
	return rc;
}

ncclResult_t api_launch_now(struct ncclComm *comm, const char *call)
{
	struct api_member alone = api_member_of(comm);
	int device = comm_device_save();
	ncclResult_t rc = api_launch(&alone, 1, call);

	comm_device_restore(device);
	return rc;
}

/* ---- the end -------------------------------------------------------------------------------- */

static ncclResult_t api_group_run(const struct api_group *g)
{
	ncclResult_t rc;

	if (g->error) {
		api_inits_discard(g->inits);
		api_cancel(g->members, g->nmembers, g->error);
		return g->error;
	}
	rc = api_inits_run(g->inits);
	if (!rc)
		return api_launch(g->members, g->nmembers, "ncclGroupEnd");
	api_cancel(g->members, g->nmembers, rc);
	return rc;
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

API_TWIN(ncclGroupEnd);
API_WEAK ncclResult_t ncclGroupEnd(void)
{
	struct api_group *g = api_group();
	ncclResult_t rc;
	int device;

	if (!g) {
		WARN("ncclGroupEnd: no ncclGroupStart before it in this task");
		return ncclInvalidUsage;
	}
	if (--g->depth > 0)
		return ncclSuccess;
	/* calls from here on, of this task, are not in the group */
	os_self()->slot[OS_SLOT_CORE] = NULL;
	api_group_trace_begin(g);
	device = comm_device_save();
	rc = api_group_run(g);
	comm_device_restore(device);
	if (!rc && g->in_progress)
		rc = ncclInProgress;
	api_group_trace_end(rc);
	os_free(g->members);
	os_free(g);
	return rc;
}
