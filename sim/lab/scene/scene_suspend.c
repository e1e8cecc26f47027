/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scenes of suspends: ranks that come at very different times, when the kernels of others still use
 * a rank's memory; and communicators that end while they are suspended.
 */
#include "sim/lab/scene/scene.h"

#define SUSPEND_LATE_NS 20000000ull
#define SUSPEND_ROUNDS  2

_Static_assert(8 * SCENE_COUNT * sizeof(int32_t) <= SCENE_BYTES / 2, "the largest call before one");

static bool suspend_step(struct scene *s, bool resumes)
{
	const char *call = resumes ? "ncclCommResume" : "ncclCommSuspend";

	lab_call(s->me, call);
	ncclResult_t rc = resumes ? ncclCommResume(s->comm[0])
				  : ncclCommSuspend(s->comm[0], NCCL_SUSPEND_MEM);

	lab_call(s->me, NULL);
	scene_judge(s, call, rc, ncclSuccess);
	return rc == ncclSuccess;
}

/* A root is done before the others have begun, and its neighbours still use its memory. */
static ncclResult_t suspend_work(struct scene *s)
{
	int32_t *out = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	size_t count = 1 + (size_t)sim_rng_below(&s->drawn, 8ul * SCENE_COUNT);

	switch (sim_rng_below(&s->drawn, 4)) {
	case 0:
		return ncclReduce(s->mem, out, count, ncclInt32, ncclSum, s->culprit, s->comm[0],
				  s->stream[0]);
	case 1:
		if (s->mine)
			return ncclSend(s->mem, count, ncclInt32, (s->culprit + 1) % s->n,
					s->comm[0], s->stream[0]);
		return s->me->rank == (s->culprit + 1) % s->n
			       ? ncclRecv(out, count, ncclInt32, s->culprit, s->comm[0],
					  s->stream[0])
			       : ncclSuccess;
	default:
		return ncclBroadcast(s->mem, out, count, ncclInt32, s->culprit, s->comm[0],
				     s->stream[0]);
	}
}

void scene_suspend_apart(struct scene *s)
{
	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !scene_ring(s, 0))
		return;
	for (int i = 0; i < SUSPEND_ROUNDS; i++) {
		uint64_t late_ns = 1 + sim_rng_below(&s->own, SUSPEND_LATE_NS);

		if (!lab_barrier(s->me))
			return;
		if (!s->mine)
			os_sleep_ns(late_ns);
		ncclResult_t rc = suspend_work(s);

		scene_judge(s, "a call before ncclCommSuspend", rc, ncclSuccess);
		if (rc || !suspend_step(s, false))
			return;
		os_sleep_ns(sim_rng_below(&s->own, SUSPEND_LATE_NS));
		if (!suspend_step(s, true) || !scene_sum(s, 0, 4ul * SCENE_COUNT, NULL))
			return;
	}
	if (lab_barrier(s->me))
		scene_destroy(s, 0);
}

static void suspend_revoke(struct scene *s)
{
	ncclComm_t child = NULL;
	ncclResult_t rc = ncclCommRevoke(s->comm[0], NCCL_REVOKE_DEFAULT);

	ASSERT(!s->comm[1]); /* the child's place */
	scene_judge(s, "ncclCommRevoke", rc, ncclSuccess);
	if (rc)
		return;
	lab_call(s->me, "ncclCommSplit");
	rc = ncclCommSplit(s->comm[0], 0, s->me->rank, &child, NULL);
	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommSplit of a revoked communicator", rc, ncclSuccess);
	s->comm[1] = child;
	if (!rc && scene_sum(s, 1, SCENE_COUNT, NULL) && lab_barrier(s->me))
		scene_destroy(s, 1);
}

/* All ranks revoke, finalize, abort or destroy what they have suspended. */
void scene_suspend_ends(struct scene *s)
{
	uint64_t how = sim_rng_below(&s->drawn, 4);

	if (!scene_open(s, 0) || !scene_sum(s, 0, SCENE_COUNT, NULL) || !lab_barrier(s->me) ||
	    !suspend_step(s, false) || !lab_barrier(s->me))
		return;
	if (how < 2)
		suspend_revoke(s);
	else if (how == 2)
		scene_judge(s, "ncclCommFinalize", ncclCommFinalize(s->comm[0]), ncclSuccess);
	if (!lab_barrier(s->me))
		return;
	if (sim_rng_below(&s->drawn, 2))
		scene_abort(s, 0);
	else
		scene_destroy(s, 0);
}
