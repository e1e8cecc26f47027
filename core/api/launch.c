/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launching what a group, or one call, has queued: announce, connect the ranks of messages, launch.
 *
 * A task may drive several ranks of one communicator, and a launch may wait for slots of the rank's
 * proxy, which the other ranks free once they have launched what came before. So the ranks launch
 * in rounds, one plan of each at a time, and none gets ahead of another.
 *
 * The announcement is the caller's. If then ranks must be connected and every communicator is
 * non-blocking, the rest is done by a task of its own, and the call returns ncclInProgress;
 * ncclCommGetAsyncError gives that until the task has ended. A launch in the calling thread's own
 * stream (cudaStreamPerThread) is always done by the caller.
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
	rc = plan_announce(m->comm);
	m->waits = m->comm->config.blocking || plan_is_of_thread(m->comm);
	m->connects = !rc && (plan_connects(m->comm) || plan_stages(m->comm));
	m->connected = rc || !plan_prepares(m->comm);
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* The next launch of one communicator. Between two of them it is not in use, so that another task
 * can abort it while this one waits in the launch of another. */
static ncclResult_t api_member_launch(struct api_member *m, const char *call)
{
	ncclResult_t rc = comm_enter_launch(m->comm, call, COMM_NEED_READY, m->launch);

	if (rc)
		return rc;
	rc = plan_launch(m->comm);
	m->left = plan_left(m->comm);
	m->position = plan_position(m->comm);
	comm_leave(m->comm);
	return rc;
}

/* The last announcement is taken back first. Another task may have aborted one of them. */
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

/* May member i launch? Not before the communicators that the program called before it on the same
 * GPU, since every GPU has to launch communicators in the same order. And not when it is ahead of
 * another rank of its communicator, or that one is not connected: what it waits for may be a launch
 * of that rank. */
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

/* Next member to launch; NULL: all that are connected have launched everything. GPUs that disagree
 * on the order of communicators can leave no member that may launch; then it is the first that has
 * something. */
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

/* ---- connecting
 * ------------------------------------------------------------------------------- */

/* Enters the members that are not connected, and leaves them. In between they are not in use, as
 * between two launches. */
static ncclResult_t api_connect_enter(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = ncclSuccess;

	for (int i = 0; i < n && !rc; i++) {
		struct api_member *m = &members[i];

		if (m->connected)
			continue;
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

/* One look at each member that is not connected. */
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
			return rc;
	}
	return ncclSuccess;
}

/* Goes on with all members together, none of which waits for another: their other ranks may have
 * called them in another order, or in several groups. WAITS until one of them can launch, or all
 * are connected. */
static ncclResult_t api_connect_some(struct api_member *members, int n, const char *call,
				     struct os_waits *waits)
{
	ncclResult_t rc = api_connect_enter(members, n, call);

	if (!rc)
		rc = api_connect_look(members, n, waits);
	while (!rc && !api_all_connected(members, n) && !api_next(members, n)) {
		(void)os_waits_wait(waits); /* the next look finds an abort */
		rc = api_connect_look(members, n, waits);
	}
	api_connect_leave(members, n);
	return rc;
}

/* Connecting allocates memory, which a capture forbids to threads that do not take it upon
 * themselves. `waits` NULL: begins. */
static ncclResult_t api_connect(struct api_member *members, int n, const char *call,
				struct os_waits *waits)
{
	enum cudaStreamCaptureMode mode = cuda_capture_mode(cudaStreamCaptureModeRelaxed);
	ncclResult_t rc = waits ? api_connect_some(members, n, call, waits)
				: api_connect_begin(members, n, call);

	(void)cuda_capture_mode(mode);
	return rc;
}

/* ---- connecting and launching
 * ----------------------------------------------------------------- */

/* A communicator is launched as soon as it is connected: to connect the next one may wait for
 * kernels of a peer that has launched this one already. */
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

/* Connects and launches what is announced. */
static ncclResult_t api_launch_announced(struct api_member *members, int n, const char *call)
{
	ncclResult_t rc = api_launch_all(members, n, call);

	if (rc)
		api_cancel(members, n, rc);
	return rc;
}

/* ---- in a task of its own
 * --------------------------------------------------------------------- */

/* A launch of non-blocking communicators that has ranks to connect. */
struct api_launch {
	struct comm_launch head; /* first: it is freed by its head */
	const char *call;
	int n;
	struct api_member members[];
};

/* Are there ranks to connect, and is every communicator non-blocking? */
static bool api_launch_is_slow(const struct api_member *members, int n)
{
	bool connects = false;

	for (int i = 0; i < n; i++) {
		if (members[i].waits)
			return false;
		connects = connects || members[i].connects;
	}
	return connects;
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
	char name[48];
	struct os_thread_attr attr = {.name = name, .rank = l->members[0].rank};

	snprintf(name, sizeof name, "rank%d launch", attr.rank);
	int e = os_thread_start(&l->head.task, &attr, api_launch_task, l);
	if (!e)
		return ncclInProgress;
	l->head.task = NULL;
	WARN("%s: the task that connects ranks cannot be started: %s", l->call, strerror(e));
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
		rc = comm_launch_begin(members[l->n].comm, call, &l->head);
	}
	if (!rc)
		rc = api_launch_start(l);
	if (rc != ncclInProgress)
		api_launch_end(l, l->n, ncclSuccess);
	comm_launch_drop(&l->head);
	return rc;
}

/* ---- the launch
 * ------------------------------------------------------------------------------- */

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
