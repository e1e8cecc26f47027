/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of aborts by another task. One rank, the culprit, does not make a call that the others
 * are in. A second task of each of them, or of one of them, aborts the communicator meanwhile: the
 * call returns an error soon, on ranks that have not aborted ncclRemoteError. Streams are free
 * then, and other communicators work.
 *
 * In an init the handle of the communicator is there before the call returns.
 */
#include <stdio.h>

#include "sim/lab/scene/scene.h"

#define ABORTED_POWERS   25              /* a task aborts up to 2^25 ns later, 34 ms */
#define ABORTED_LOOK_NS  1000000ull      /* between two looks at a handle */
#define ABORTED_SOON_NS  1000000000ull   /* an abort, and what it ends, take no longer */
#define ABORTED_LEARN_NS 100000000000ull /* by then all ranks have the error of one */

enum aborted_call {
	ABORTED_COLLECTIVE,
	ABORTED_MESSAGES, /* of ranks that are not connected: the call waits */
	ABORTED_SPLIT,
	ABORTED_SUSPEND,
	ABORTED_FINALIZE, /* waits for a collective */
	ABORTED_DESTROY,
	ABORTED_INIT,
	ABORTED_CALLS
};

static const char *const aborted_names[ABORTED_CALLS] = {
	[ABORTED_COLLECTIVE] = "ncclAllReduce",  [ABORTED_MESSAGES] = "ncclGroupEnd of messages",
	[ABORTED_SPLIT] = "ncclCommSplit",       [ABORTED_SUSPEND] = "ncclCommSuspend",
	[ABORTED_FINALIZE] = "ncclCommFinalize", [ABORTED_DESTROY] = "ncclCommDestroy",
	[ABORTED_INIT] = "ncclCommInitRank",
};

struct aborted {
	struct scene *s;
	enum aborted_call call;
	int k;                     /* the communicator that is aborted */
	bool each;                 /* all ranks abort, and not one of them alone */
	bool mine, aborts;         /* this rank does not make the call; it has a second task */
	uint64_t later_ns;         /* of its abort */
	uint64_t start_ns, end_ns; /* of that */
	ncclResult_t result;
	struct os_thread *task;
	shared_u32 over; /* the call has returned */
};

/* ---- the second task ------------------------------------------------------------------------- */

static ncclComm_t aborted_handle(const struct aborted *a)
{
	return __atomic_load_n(&a->s->comm[a->k], __ATOMIC_ACQUIRE);
}

/* An init that has not begun has no handle yet. */
static void aborted_task(void *arg)
{
	struct aborted *a = arg;
	ncclComm_t comm;

	os_sleep_ns(a->later_ns);
	while (!(comm = aborted_handle(a)) && !shared_load_u32(&a->over, SHARED_ACQUIRE))
		os_sleep_ns(ABORTED_LOOK_NS);
	a->start_ns = os_now_ns();
	if (comm)
		a->result = ncclCommAbort(comm);
	a->end_ns = os_now_ns();
}

static bool aborted_start(struct aborted *a)
{
	if (!a->aborts || os_task_start(&a->task, a->s->me->rank, "aborts", aborted_task, a) == 0)
		return true;
	scene_report(a->s, "ncclCommAbort", "has no task");
	return false;
}

/* A destroy may have freed the communicator before. */
static void aborted_join(struct aborted *a)
{
	if (!a->task)
		return;
	os_thread_join(a->task);
	bool gone = a->result == ncclInvalidArgument &&
		    (a->call == ABORTED_DESTROY || a->call == ABORTED_INIT);

	if (!gone)
		scene_judge(a->s, "ncclCommAbort", a->result, ncclSuccess);
	if (a->end_ns - a->start_ns > ABORTED_SOON_NS)
		scene_report(a->s, "ncclCommAbort", "has waited for other ranks");
}

/* ---- the call -------------------------------------------------------------------------------- */

static ncclResult_t aborted_reduce(struct scene *s)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;

	return ncclAllReduce(s->mem, result, SCENE_COUNT, ncclInt32, ncclSum, s->comm[0],
			     s->stream[0]);
}

/* Every other rank has a message of the culprit. */
static ncclResult_t aborted_messages(struct scene *s, int32_t culprit)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclResult_t rc = ncclGroupStart(), end;

	if (!rc)
		rc = ncclRecv(result, SCENE_COUNT, ncclInt32, culprit, s->comm[0], s->stream[0]);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static ncclResult_t aborted_make(struct aborted *a, int32_t culprit)
{
	struct scene *s = a->s;
	ncclResult_t rc = ncclSuccess;
	ncclComm_t child = NULL;

	if (a->call == ABORTED_FINALIZE || a->call == ABORTED_DESTROY)
		rc = aborted_reduce(s);
	if (rc)
		return rc;
	switch (a->call) {
	case ABORTED_MESSAGES:
		return aborted_messages(s, culprit);
	case ABORTED_SPLIT:
		rc = ncclCommSplit(s->comm[0], 0, s->me->rank, &child, NULL);
		if (child)
			scene_report(s, "ncclCommSplit", "left a communicator");
		return rc;
	case ABORTED_SUSPEND:
		return ncclCommSuspend(s->comm[0], NCCL_SUSPEND_MEM);
	case ABORTED_FINALIZE:
		return ncclCommFinalize(s->comm[0]);
	case ABORTED_DESTROY:
		return ncclCommDestroy(s->comm[0]);
	case ABORTED_INIT:
		return scene_init(s, 1, &s->comm[1]);
	default:
		return aborted_reduce(s);
	}
}

/* Another rank may abort before, and this one before its call. A launch does not wait, nor does a
 * rank that is suspended and has no other rank of its host. */
static bool aborted_expects(const struct aborted *a, ncclResult_t rc)
{
	bool gone = rc == ncclInternalError || rc == ncclInvalidArgument;

	if (rc == ncclRemoteError || (a->aborts && gone))
		return true;
	if (a->call == ABORTED_DESTROY)
		return a->aborts && (rc == ncclSuccess || rc == ncclInvalidUsage);
	return rc == ncclSuccess && (a->call == ABORTED_COLLECTIVE || a->call == ABORTED_SUSPEND);
}

static void aborted_call(struct aborted *a, int32_t culprit)
{
	struct scene *s = a->s;
	const char *name = aborted_names[a->call];
	uint64_t end_ns;
	ncclResult_t rc;

	lab_call(s->me, name);
	rc = aborted_make(a, culprit);
	end_ns = os_now_ns();
	lab_call(s->me, NULL);
	shared_store_u32(&a->over, 1, SHARED_RELEASE);
	if (!aborted_expects(a, rc))
		scene_judge(s, name, rc, a->aborts ? ncclInternalError : ncclRemoteError);
	aborted_join(a);
	if (a->start_ns && end_ns > a->start_ns + ABORTED_SOON_NS)
		scene_report(s, name, "has returned long after the abort");
}

/* A rank that has not aborted has the error of another one, and aborts then. */
static void aborted_end(struct aborted *a)
{
	struct scene *s = a->s;
	bool ended = a->aborts || a->call == ABORTED_DESTROY || a->call == ABORTED_INIT;

	ASSERT(a->k < SCENE_COMMS);
	if (!a->mine && ended) {
		s->comm[a->k] = NULL;
		return;
	}
	if (!a->each && s->comm[a->k])
		scene_learn(s, a->k, ABORTED_LEARN_NS, ncclRemoteError);
	if (a->mine && a->each)
		os_sleep_ns(a->later_ns);
	scene_abort(s, a->k);
}

static void aborted_draw(struct aborted *a, int32_t culprit)
{
	struct scene *s = a->s;
	int32_t one = (culprit + 1 + (int32_t)sim_rng_below(&s->drawn, (uint64_t)s->n - 1)) % s->n;

	a->each = sim_rng_below(&s->drawn, 2);
	a->k = a->call == ABORTED_INIT;
	a->mine = s->me->rank == culprit;
	a->aborts = !a->mine && (a->each || s->me->rank == one);
	a->later_ns = sim_rng_below(&s->own, 1ull << sim_rng_below(&s->own, ABORTED_POWERS));
}

/* The root of an init waits for rank 0. */
void scene_aborted(struct scene *s)
{
	struct aborted a = {.s = s,
			    .call = (enum aborted_call)sim_rng_below(&s->drawn, ABORTED_CALLS)};
	int32_t culprit = a.call == ABORTED_INIT && s->culprit == 0 ? 1 : s->culprit;
	bool goes_on = a.call == ABORTED_INIT;

	aborted_draw(&a, culprit);
	if (!scene_open(s, 0) ||
	    (a.call != ABORTED_MESSAGES && !scene_sum(s, 0, SCENE_COUNT, NULL)) ||
	    !lab_barrier(s->me) || !aborted_start(&a))
		return;
	if (!a.mine)
		aborted_call(&a, culprit);
	aborted_end(&a);
	if (!scene_sync(s, 0) || !lab_barrier(s->me) || (!goes_on && !scene_open(s, 1)))
		return;
	if (scene_sum(s, goes_on ? 0 : 1, SCENE_COUNT, NULL) && lab_barrier(s->me))
		scene_destroy(s, goes_on ? 0 : 1);
}
