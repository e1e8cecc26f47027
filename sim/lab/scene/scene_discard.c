/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes of groups that hold calls in which ranks wait for each other: suspends, resumes and
 * registrations of windows. A group of one rank that is refused discards such a call: the rank's
 * communicator has failed, and the ranks that wait get an error. A group of two communicators, one
 * of which another rank has aborted, fails, and the other communicator has changed.
 */
#include "sim/lab/scene/scene.h"

#define DISCARD_LEARN_NS 100000000000ull /* by then all ranks have the error of one */
#define DISCARD_BYTES    (2 * NCCL_WIN_REQUIRED_ALIGNMENT)

enum discard_call { DISCARD_SUSPEND, DISCARD_RESUME, DISCARD_WINDOW, DISCARD_CALLS };

static const char *const discard_names[DISCARD_CALLS] = {
	[DISCARD_SUSPEND] = "ncclCommSuspend",
	[DISCARD_RESUME] = "ncclCommResume",
	[DISCARD_WINDOW] = "ncclCommWindowRegister",
};

struct discard {
	struct scene *s;
	enum discard_call call;
	void *memory; /* of a window; NULL: no window is registered */
	ncclWindow_t win[SCENE_COMMS];
};

static ncclResult_t discard_make(struct discard *d, int k)
{
	ncclComm_t comm = d->s->comm[k];

	switch (d->call) {
	case DISCARD_SUSPEND:
		return ncclCommSuspend(comm, NCCL_SUSPEND_MEM);
	case DISCARD_RESUME:
		return ncclCommResume(comm);
	default:
		return ncclCommWindowRegister(comm, d->memory, DISCARD_BYTES, &d->win[k],
					      NCCL_WIN_DEFAULT);
	}
}

static ncclResult_t discard_step(struct discard *d, int k)
{
	lab_call(d->s->me, discard_names[d->call]);
	ncclResult_t rc = discard_make(d, k);

	lab_call(d->s->me, NULL);
	return rc;
}

static bool discard_all(struct discard *d, int k, enum discard_call call)
{
	struct discard of = {.s = d->s, .call = call};
	ncclResult_t rc = discard_step(&of, k);

	scene_judge(d->s, discard_names[call], rc, ncclSuccess);
	return rc == ncclSuccess;
}

/* Draws the call, and brings `comms` communicators into the state before it. */
static bool discard_begin(struct discard *d, int comms)
{
	ncclResult_t rc = ncclSuccess;

	d->call = (enum discard_call)sim_rng_below(&d->s->drawn, DISCARD_CALLS);
	if (d->call == DISCARD_WINDOW)
		rc = ncclMemAlloc(&d->memory, DISCARD_BYTES);
	scene_judge(d->s, "ncclMemAlloc", rc, ncclSuccess);
	for (int k = 0; k < comms; k++)
		if (!scene_open(d->s, k) || !scene_sum(d->s, k, SCENE_COUNT, NULL) ||
		    (d->call == DISCARD_RESUME && !discard_all(d, k, DISCARD_SUSPEND)))
			return false;
	return !rc && lab_barrier(d->s->me);
}

static void discard_end(struct discard *d)
{
	for (int k = 0; k < SCENE_COMMS; k++)
		scene_abort(d->s, k);
	if (d->memory)
		scene_judge(d->s, "ncclMemFree", ncclMemFree(d->memory), ncclSuccess);
}

/* ---- a group that is refused ----------------------------------------------------------------- */

/* The wrong call is after the one that is discarded, or before it. */
static void discard_group(struct discard *d)
{
	struct scene *s = d->s;
	bool first = sim_rng_below(&s->own, 2);
	ncclResult_t rc = ncclGroupStart(), wrong = ncclSuccess;

	scene_judge(s, "ncclGroupStart", rc, ncclSuccess);
	for (int i = 0; i < 2 && !rc; i++) {
		if ((i == 0) == first)
			rc = discard_make(d, 0);
		else
			wrong = ncclAllReduce(s->mem, s->mem, 1, ncclInt32, ncclSum, NULL,
					      s->stream[0]);
	}
	scene_judge(s, discard_names[d->call], rc, ncclSuccess);
	scene_judge(s, "a wrong call", wrong, ncclInvalidArgument);
	lab_call(s->me, "ncclGroupEnd");
	rc = ncclGroupEnd();
	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd of a group that is refused", rc, ncclInvalidArgument);
}

/* Suspends and resumes wait for the ranks of the host. */
void scene_discard(struct scene *s)
{
	const struct lab_slot *slot = s->me->run->slot;
	struct discard d = {.s = s};
	ncclResult_t rc;

	if (discard_begin(&d, 1)) {
		bool waits =
			d.call == DISCARD_WINDOW || slot[s->me->rank].host == slot[s->culprit].host;

		if (s->mine) {
			discard_group(&d);
		} else {
			rc = discard_step(&d, 0);
			if (rc || waits)
				scene_judge(s, discard_names[d.call], rc, ncclRemoteError);
		}
		scene_learn(s, 0, DISCARD_LEARN_NS, s->mine ? ncclInternalError : ncclRemoteError);
		(void)lab_barrier(s->me);
	}
	discard_end(&d);
}

/* ---- a group of two communicators ------------------------------------------------------------ */

/* The others learn of the abort before their groups end. */
static void changes_group(struct discard *d)
{
	struct scene *s = d->s;
	int first = (int)sim_rng_below(&s->own, 2);
	ncclResult_t rc = ncclGroupStart(), end;

	for (int i = 0; i < 2 && !rc; i++)
		rc = discard_make(d, i ^ first);
	scene_judge(s, discard_names[d->call], rc, ncclSuccess);
	if (lab_barrier(s->me))
		scene_learn(s, 1, DISCARD_LEARN_NS, ncclRemoteError);
	lab_call(s->me, "ncclGroupEnd");
	end = ncclGroupEnd();
	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd with an aborted communicator", end, ncclRemoteError);
	if (d->win[1])
		scene_report(s, "ncclGroupEnd with an aborted communicator", "left its window");
}

static void changes_check(struct discard *d)
{
	struct scene *s = d->s;

	if (d->call == DISCARD_SUSPEND && !discard_all(d, 0, DISCARD_RESUME))
		return;
	if (d->win[0])
		scene_judge(s, "ncclCommWindowDeregister",
			    ncclCommWindowDeregister(s->comm[0], d->win[0]), ncclSuccess);
	if (scene_sum(s, 0, SCENE_COUNT, NULL) && lab_barrier(s->me))
		scene_destroy(s, 0);
}

void scene_changes(struct scene *s)
{
	struct discard d = {.s = s};

	if (discard_begin(&d, SCENE_COMMS)) {
		if (!s->mine) {
			changes_group(&d);
			changes_check(&d);
		} else if (lab_barrier(s->me)) {
			scene_abort(s, 1);
			scene_judge(s, discard_names[d.call], discard_step(&d, 0), ncclSuccess);
			changes_check(&d);
		}
	}
	discard_end(&d);
}
