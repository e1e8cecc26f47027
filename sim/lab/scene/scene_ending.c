/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of a failure while ranks end a communicator. One rank does not make a collective, and
 * aborts the communicator a little later. Each other rank ends it in a way of its own: it polls for
 * the error, or finalizes, or does neither, and then destroys. The program gets the error once more
 * from a finalize, and from the destroy only if no call before has returned it. A communicator that
 * is in progress has no error yet.
 *
 * In half of the scenes no collective waits. One rank is finalized before the culprit aborts: the
 * error that the others learn of is not its own.
 */
#include "sim/lab/scene/scene.h"

#define ENDING_POWERS   25              /* the culprit aborts up to 2^25 ns later, 34 ms */
#define ENDING_POLLS    4               /* less than so many before the end */
#define ENDING_LEARN_NS 100000000000ull /* by then all ranks have the error of one */

struct ending {
	struct scene *s;
	bool nonblocking;
	bool given; /* a call has returned the error */
};

/* Judges a call that may return the error, or `want` while the culprit has not aborted. */
static void ending_judge(struct ending *e, const char *call, ncclResult_t got, ncclResult_t want)
{
	e->given |= got == ncclRemoteError;
	if (got != ncclRemoteError)
		scene_judge(e->s, call, got, want);
}

static ncclResult_t ending_settle(struct ending *e, ncclResult_t rc)
{
	return lab_comm_settle(e->s->me, e->s->comm[0], rc);
}

static bool ending_open(struct ending *e)
{
	struct scene *s = e->s;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = !e->nonblocking;
	lab_call(s->me, "ncclCommInitRankConfig");
	ncclResult_t rc = ending_settle(e, scene_init_config(s, &s->comm[0], &config));

	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommInitRankConfig", rc, ncclSuccess);
	return rc == ncclSuccess;
}

static ncclResult_t ending_reduce(struct ending *e)
{
	struct scene *s = e->s;
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;

	lab_call(s->me, "ncclAllReduce");
	ncclResult_t rc = ending_settle(e, ncclAllReduce(s->mem, result, SCENE_COUNT, ncclInt32,
							 ncclSum, s->comm[0], s->stream[0]));

	lab_call(s->me, NULL);
	return rc;
}

static bool ending_sum(struct ending *e)
{
	struct scene *s = e->s;

	if (!scene_fill(s, SCENE_COUNT, s->me->rank + 1))
		return false;
	ncclResult_t rc = ending_reduce(e);

	scene_judge(s, "ncclAllReduce", rc, ncclSuccess);
	return !rc && scene_check(s, "ncclAllReduce", SCENE_COUNT, s->n * (s->n + 1) / 2);
}

/* Looks a few times. */
static void ending_poll(struct ending *e)
{
	struct scene *s = e->s;

	for (uint64_t n = sim_rng_below(&s->own, ENDING_POLLS); n; n--) {
		ncclResult_t async = ncclSuccess, rc = ncclCommGetAsyncError(s->comm[0], &async);

		scene_judge(s, "ncclCommGetAsyncError", rc, ncclSuccess);
		ending_judge(e, "an asynchronous error", async, ncclSuccess);
	}
}

/* A finalize waits for the collective. A non-blocking one has begun, and its end is polled in half
 * of the scenes. */
static void ending_finalize(struct ending *e)
{
	bool polls = !e->nonblocking || sim_rng_below(&e->s->own, 2);

	lab_call(e->s->me, "ncclCommFinalize");
	ncclResult_t rc = ncclCommFinalize(e->s->comm[0]);

	if (polls)
		rc = ending_settle(e, rc);
	lab_call(e->s->me, NULL);
	ending_judge(e, "ncclCommFinalize", rc, polls ? ncclRemoteError : ncclInProgress);
}

static void ending_destroy(struct ending *e)
{
	struct scene *s = e->s;
	ncclComm_t comm = s->comm[0];

	s->comm[0] = NULL;
	lab_call(s->me, "ncclCommDestroy");
	ncclResult_t rc = ncclCommDestroy(comm);

	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommDestroy", rc, e->given ? ncclSuccess : ncclRemoteError);
}

static void ending_end(struct ending *e)
{
	struct scene *s = e->s;
	uint64_t way = sim_rng_below(&s->own, 4);

	ending_judge(e, "ncclAllReduce", ending_reduce(e), ncclSuccess);
	ending_poll(e);
	if (way < 2) {
		ending_finalize(e);
	} else if (way == 2) {
		scene_learn(s, 0, ENDING_LEARN_NS, ncclRemoteError);
		e->given = true;
	}
	ending_destroy(e);
}

/* ---- without a collective -------------------------------------------------------------------- */

static void ending_finalized(struct ending *e)
{
	struct scene *s = e->s;

	lab_call(s->me, "ncclCommFinalize");
	ncclResult_t rc = ending_settle(e, ncclCommFinalize(s->comm[0]));

	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommFinalize", rc, ncclSuccess);
}

/* A call that the state does not allow is refused for that reason. */
static void ending_query(struct ending *e)
{
	struct scene *s = e->s;
	ncclResult_t async = ncclInternalError;
	int n = -1;

	scene_judge(s, "ncclCommCount of a finalized communicator", ncclCommCount(s->comm[0], &n),
		    ncclSuccess);
	if (n != s->n)
		scene_report(s, "ncclCommCount", "gave another number");
	scene_judge(s, "ncclCommFinalize of a finalized communicator", ncclCommFinalize(s->comm[0]),
		    ncclInvalidUsage);
	scene_judge(s, "ncclCommGetAsyncError", ncclCommGetAsyncError(s->comm[0], &async),
		    ncclSuccess);
	scene_judge(s, "an asynchronous error of a finalized communicator", async, ncclSuccess);
}

/* One rank is finalized, and the others learn of the abort. Between two that are finalized no rank
 * might. */
static void ending_apart(struct ending *e, uint64_t later_ns)
{
	struct scene *s = e->s;
	int32_t after = s->n > 2 ? 2 + (int32_t)sim_rng_below(&s->drawn, (uint64_t)s->n - 2) : 0;
	bool finalizes = after && s->me->rank == (s->culprit + after) % s->n;

	if (finalizes)
		ending_finalized(e);
	if (!lab_barrier(s->me))
		return;
	if (s->mine) {
		os_sleep_ns(later_ns);
		scene_abort(s, 0);
	} else if (!finalizes) {
		scene_learn(s, 0, ENDING_LEARN_NS, ncclRemoteError);
	}
	if (!lab_barrier(s->me))
		return;
	if (finalizes)
		ending_query(e);
	scene_destroy(s, 0);
}

/* Three communicators in four are non-blocking. */
void scene_ending(struct scene *s)
{
	bool apart = sim_rng_below(&s->drawn, 2);
	struct ending e = {.s = s, .nonblocking = sim_rng_below(&s->drawn, 4) != 0};
	uint64_t later_ns = sim_rng_below(&s->own, 1ull << sim_rng_below(&s->own, ENDING_POWERS));

	if (!ending_open(&e) || !ending_sum(&e) || !lab_barrier(s->me))
		return;
	if (apart) {
		ending_apart(&e, later_ns);
	} else if (s->mine) {
		os_sleep_ns(later_ns);
		scene_abort(s, 0);
	} else {
		ending_end(&e);
	}
	(void)(scene_sync(s, 0) && lab_barrier(s->me));
}
