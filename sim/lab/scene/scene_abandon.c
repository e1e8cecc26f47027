/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of a call that never ends: one rank does not make it, and all ranks abort. The streams of
 * the others are free again, and a new communicator works in the same memory, which may have been
 * registered. All ranks make the call once before, so that the connections are there.
 */
#include "sim/lab/scene/scene.h"

#define ABANDON_POWERS 24 /* a rank aborts up to 2^24 ns later, 17 ms */

enum abandoned {
	ABANDON_ALL_REDUCE,
	ABANDON_ALL_GATHER,
	ABANDON_REDUCE_SCATTER,
	ABANDON_BROADCAST,
	ABANDON_ALL_TO_ALL,
	ABANDON_RING,
	ABANDONED
};

static ncclResult_t abandon_ring(struct scene *s, size_t count)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	int32_t to = (s->me->rank + 1) % s->n, from = (s->me->rank + s->n - 1) % s->n;
	ncclResult_t rc = ncclGroupStart(), end;

	if (!rc)
		rc = ncclSend(s->mem, count, ncclInt32, to, s->comm[0], s->stream[0]);
	if (!rc)
		rc = ncclRecv(result, count, ncclInt32, from, s->comm[0], s->stream[0]);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

/* All of the memory at most: `count` elements of a call with one part, and so many in all parts of
 * the others. */
static ncclResult_t abandon_call(struct scene *s, enum abandoned kind, size_t count)
{
	int32_t *in = s->mem, *out = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	size_t part = MAX_OF(count / (size_t)s->n, (size_t)1);

	ASSERT(count * sizeof *in <= SCENE_BYTES / 2);
	switch (kind) {
	case ABANDON_ALL_REDUCE:
		return ncclAllReduce(in, out, count, ncclInt32, ncclSum, s->comm[0], s->stream[0]);
	case ABANDON_ALL_GATHER:
		return ncclAllGather(in, out, part, ncclInt32, s->comm[0], s->stream[0]);
	case ABANDON_REDUCE_SCATTER:
		return ncclReduceScatter(in, out, part, ncclInt32, ncclMax, s->comm[0],
					 s->stream[0]);
	case ABANDON_BROADCAST:
		return ncclBroadcast(in, out, count, ncclInt32, s->culprit, s->comm[0],
				     s->stream[0]);
	case ABANDON_ALL_TO_ALL:
		return ncclAlltoAll(in, out, part, ncclInt32, s->comm[0], s->stream[0]);
	default:
		return abandon_ring(s, count);
	}
}

/* `aborting`: other ranks abort meanwhile, so the call may meet a communicator that has failed. */
static bool abandon_judged(struct scene *s, enum abandoned kind, size_t count, bool aborting)
{
	lab_call(s->me, "a call");
	ncclResult_t rc = abandon_call(s, kind, count);
	bool ended = aborting && rc == ncclRemoteError;

	lab_call(s->me, NULL);
	scene_judge(s, "a call", rc, ended ? ncclRemoteError : ncclSuccess);
	return !rc || ended;
}

/* The abort ends what is registered. */
static bool abandon_register(struct scene *s)
{
	void *handle = NULL;
	ncclResult_t rc = ncclCommRegister(s->comm[0], s->mem, SCENE_BYTES, &handle);

	scene_judge(s, "ncclCommRegister", rc, ncclSuccess);
	return !rc;
}

void scene_abandon(struct scene *s)
{
	enum abandoned kind = (enum abandoned)sim_rng_below(&s->drawn, ABANDONED);
	size_t count = 1 + sim_rng_below(&s->drawn, SCENE_BYTES / 2 / sizeof *s->mem);
	bool registers = sim_rng_below(&s->drawn, 2);
	uint64_t later_ns = sim_rng_below(&s->own, 1ull << sim_rng_below(&s->own, ABANDON_POWERS));

	if (!scene_open(s, 0) || (registers && !s->pinned && !abandon_register(s)) ||
	    !abandon_judged(s, kind, count, false) || !scene_sync(s, 0) || !lab_barrier(s->me))
		return;
	if (!s->mine && !abandon_judged(s, kind, count, true))
		return;
	os_sleep_ns(later_ns);
	scene_abort(s, 0);
	if (!scene_sync(s, 0) || !lab_barrier(s->me) || !scene_open(s, 1))
		return;
	if (scene_sum(s, 1, SCENE_COUNT, NULL) && lab_barrier(s->me))
		scene_destroy(s, 1);
}
