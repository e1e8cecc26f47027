/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches the calls that a group, or one call, has queued: announces them, connects the ranks of
 * messages, launches.
 *
 * A task may drive several ranks of one communicator. A launch may wait for slots of the rank's
 * proxy, which become free only after the other ranks have made their earlier launches. Therefore
 * the ranks launch in rounds, one plan of each rank per round, and no rank gets ahead of another.
 *
 * The caller announces. A launch is slow if ranks must be connected, or if it may wait for earlier
 * kernels. If every communicator of a slow launch is non-blocking, a separate task does the rest,
 * and the call returns ncclInProgress. ncclCommGetAsyncError returns
 * that until the task has ended. A launch in the calling thread's own stream (cudaStreamPerThread)
 * is always done by the caller.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/api.h"
#include "core/base/log.h"
#include "core/os/os_waits.h"
#include "core/plan/plan.h"
#include "core/rank/cuda_result.h"

struct api_member api_member_of(struct ncclComm *comm)
{
	return (struct api_member){.comm = comm,
				   .id_hash = comm->id_hash,
				   .rank = comm->rank,
				   .device = comm->cuda_dev};
}

static ncclResult_t api_member_announce(struct api_member *m, const char *call)
{
	ncclResult_t rc = comm_enter_launch(m->comm, call, COMM_NEED_READY, m->launch);

	if (rc)
		return rc;
	ASSERT(!m->launch); /* the caller announces, also for a separate task */
	rc = plan_announce(m->comm);
	m->waits = m->comm->config.blocking || plan_is_of_thread(m->comm);
	m->slow = !rc && !m->waits &&
		  (plan_connects(m->comm) || plan_stages(m->comm) || plan_may_wait(m->comm));
	m->connected = rc || !plan_prepares(m->comm);
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* Makes the next launch of one communicator. Between two launches the communicator is not in use.
 * Another task can then abort it while this one waits in the launch of another communicator. */
static ncclResult_t api_member_launch(struct api_member *m, const char *call)
{
	ncclResult_t rc = comm_enter_launch(m->comm, call, COMM_NEED_READY, m->launch);

	ASSERT(m->connected && m->left);
	if (rc)
		return rc;
	rc = rank_error(m->comm, plan_launch(m->comm));
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* Cancels announcements, the last one first. Another task may have aborted a communicator; it is
 * skipped. */
void api_cancel(const struct api_member *members, int n, ncclResult_t error)
{
	while (n-- > 0) {
		const struct api_member *m = &members[n];

		if (comm_enter_launch(m->comm, NULL, COMM_NEED_ANY, m->launch))
			continue;
		plan_cancel(m->comm, error);
		comm_leave(m->comm);
	}
}

/* True if member i may launch. Members that the program called earlier on the same GPU must launch
 * first: every GPU has to launch communicators in the same order. No rank of its communicator may
 * be at an earlier position or unconnected: its launch may wait for a launch of that rank. */
static bool api_may_launch(const struct api_member *members, int n, int i)
{
	const struct api_member *m = &members[i];

	if (!m->left || !m->connected)
		return false;
	for (int k = 0; k < n; k++) {
		const struct api_member *o = &members[k];

		if (!o->left)
			continue;
		if (k < i && o->device == m->device)
			return false;
		if (o->id_hash == m->id_hash && (o->position < m->position || !o->connected))
			return false;
	}
	return true;
}

static bool api_all_connected(const struct api_member *members, int n)
{
	for (int i = 0; i < n; i++)
		if (!members[i].connected)
			return false;
	return true;
}

/* Returns the next member to launch; NULL if all connected members have launched everything. If
 * GPUs disagree on the order of communicators, no member may be eligible. Then returns the first
 * one with something to launch. */
static struct api_member *api_next(struct api_member *members, int n)
{
	struct api_member *first = NULL;

	for (int i = 0; i < n; i++) {
		if (api_may_launch(members, n, i))
			return &members[i];
		if (!first && members[i].left)
			first = &members[i];
	}
	return api_all_connected(members, n) ? first : NULL;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Enters the members that are not connected. Until api_connect_leave they are in use; before and
 * after they are not, like between two launches. */
static ncclResult_t api_connect_enter(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++) {
		struct api_member *m = &members[i];

		if (m->connected)
			continue;
		ASSERT(!m->inside);
		rc = comm_enter_launch(m->comm, call, COMM_NEED_READY, m->launch);
		m->inside = !rc;
	}
	return rc;
}

static void api_connect_leave(struct api_member *members, int n)
{
	for (int i = 0; i < n; i++) {
		if (members[i].inside)
			comm_leave(members[i].comm);
		members[i].inside = false;
	}
}

static ncclResult_t api_connect_begin(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = api_connect_enter(members, n, call);

	for (int i = 0; i < n && !rc; i++)
		if (!members[i].connected)
			rc = plan_connect_begin(members[i].comm);
	api_connect_leave(members, n);
	return rc;
}

/* Checks each unconnected member once. */
static ncclResult_t api_connect_look(struct api_member *members, int n, struct os_waits *waits)
{
	os_waits_clear(waits);
	for (int i = 0; i < n; i++) {
		struct api_member *m = &members[i];
		ncclResult_t rc;

		if (m->connected)
			continue;
		rc = plan_connect_look(m->comm);
		m->connected = !rc;
		if (rc == ncclInProgress)
			rc = plan_connect_waits(m->comm, waits);
		if (rc)
			return rank_error(m->comm, rc);
	}
	return ncclSuccess;
}

/* Continues to connect all members, none of which waits for another: other ranks may have called
 * them in another order, or in several groups. WAITS until one of them can launch or all are
 * connected. */
static ncclResult_t api_connect_some(struct api_member *members, int n, const char *call,
				     struct os_waits *waits)
{
	ncclResult_t rc = api_connect_enter(members, n, call);

	if (!rc)
		rc = api_connect_look(members, n, waits);
	while (!rc && !api_all_connected(members, n) && !api_next(members, n)) {
		(void)os_waits_wait(waits); /* the next check finds an abort */
		rc = api_connect_look(members, n, waits);
	}
	api_connect_leave(members, n);
	return rc;
}

/* Connects members. Connecting allocates memory; a capture forbids this to threads that do not set
 * the relaxed mode. `waits` NULL: begins to connect. */
static ncclResult_t api_connect(struct api_member *members, int n, const char *call,
				struct os_waits *waits)
{
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	ncclResult_t rc = waits ? api_connect_some(members, n, call, waits)
				: api_connect_begin(members, n, call);

	(void)cuda_capture_mode(mode);
	return rc;
}

/* ---- connecting and launching ---------------------------------------------------------------- */

/* Launches each communicator as soon as it is connected. Reason: connecting the next one may wait
 * for kernels of a peer that has already launched this one. */
static ncclResult_t api_launch_all(struct api_member *members, int n, const char *call)
{
	bool connected = api_all_connected(members, n);
	struct os_waits waits = {0};
	struct api_member *m;
	ncclResult_t rc = connected ? ncclSuccess : api_connect(members, n, call, NULL);

	while (!rc && ((m = api_next(members, n)) || !connected)) {
		rc = m ? api_member_launch(m, call) : api_connect(members, n, call, &waits);
		connected = api_all_connected(members, n);
	}
	os_waits_free(&waits);
	return rc;
}

/* Connects and launches the announced calls. */
static ncclResult_t api_launch_announced(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = api_launch_all(members, n, call);

	if (rc)
		api_cancel(members, n, rc);
	return rc;
}

/* ---- launching in a separate task ------------------------------------------------------------ */

/* A slow launch of non-blocking communicators. */
struct api_launch {
	struct comm_launch head; /* first, because the launch is freed by its head */
	const char *call;
	int n;
	struct api_member members[];
};
DOPPEL_STATIC_CHECK(offsetof(struct api_launch, head) == 0, "freed by the head, at its address");

/* True if the launch is slow and every communicator is non-blocking. */
static bool api_launch_is_slow(const struct api_member *members, int n)
{
	bool slow = false;

	for (int i = 0; i < n; i++) {
		if (members[i].waits)
			return false;
		slow = slow || members[i].slow;
	}
	return slow;
}

static void api_launch_end(struct api_launch *l, int n, ncclResult_t rc)
{
	for (int i = 0; i < n; i++)
		comm_launch_end(l->members[i].comm, &l->head, rc);
}

static void api_launch_task(void *arg)
{
	struct api_launch *l = arg;

	api_launch_end(l, l->n, api_launch_announced(l->members, l->n, l->call));
}

static ncclResult_t api_launch_start(struct api_launch *l)
{
	ASSERT(l->n > 0); /* without members no launch is slow */
	int e = os_task_start(&l->head.task, l->members[0].rank, "launch", api_launch_task, l);

	if (!e)
		return ncclInProgress;
	WARN("%s: the task that connects ranks and launches cannot be started: %s", l->call,
	     strerror(e));
	return ncclSystemError;
}

static ncclResult_t api_launch_slowly(const struct api_member *members, int n, const char *call)
{
	struct api_launch *l = os_alloc(sizeof *l + (size_t)n * sizeof *members, "launch");
	ncclResult_t rc = ncclSuccess;

	if (!l) {
		WARN("%s: no memory to launch %d communicators", call, n);
		return ncclSystemError;
	}
	l->call = call;
	shared_store_u32(&l->head.users, 1, SHARED_RELAXED);
	for (; l->n < n && !rc; l->n += !rc) {
		l->members[l->n] = members[l->n];
		l->members[l->n].launch = &l->head;
		rc = comm_launch_begin(members[l->n].comm, call, COMM_NEED_READY, &l->head);
	}
	if (!rc)
		rc = api_launch_start(l);
	if (rc != ncclInProgress)
		api_launch_end(l, l->n, ncclSuccess);
	comm_launch_drop(&l->head);
	return rc;
}

/* ---- the launch ------------------------------------------------------------------------------ */

ncclResult_t api_launch(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++)
		rc = api_member_announce(&members[i], call);
	if (!rc && !api_launch_is_slow(members, n))
		return api_launch_announced(members, n, call);
	if (!rc)
		rc = api_launch_slowly(members, n, call);
	if (rc && rc != ncclInProgress)
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

ncclResult_t api_submitted(struct ncclComm *comm, struct api_submission *s, ncclResult_t rc)
{
	bool grouped = api_group() != NULL; /* ncclGroupEnd launches, or cancels */

	if (!rc && s->completion)
		rc = plan_record_later(comm, s->call, s->stream, s->completion);
	if (rc && !grouped)
		plan_cancel(comm, rc);
	if (!rc && !grouped) {
		profiler_group_launches(&s->own);
		rc = api_launch_now(comm, s->call);
	}
	profiler_group_end(&s->own);
	return rc;
}
