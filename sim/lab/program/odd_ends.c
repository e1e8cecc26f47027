/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of a transient communicator other than a destroy or an abort by all. Its members have
 * reduced in it, and meet before: what follows is the end alone. All draw the same end.
 *
 *	finalized	all finalize; then one aborts, which is no error of the others
 *	revoked		calls that never end run; each revokes, and ends it at a time of its own,
 *			up to two minutes later
 *	failed		one aborts; the others learn of it, and revoke, finalize, destroy or abort
 *	late		with RAS: one does not call a collective that has a deadline, and all get
 *			ncclTimeout
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "sim/lab/program/refused.h"
#include "sim/lab/program/transient.h"

#define ODD_POWERS   37              /* a member is late up to 2^37 ns */
#define ODD_LOCAL_NS 800000000ull    /* an end that waits for no other rank */
#define ODD_LEARN_NS 100000000000ull /* by then all members have the error of one */
#define ODD_COUNT    256u
#define ODD_BEYOND_S 20u /* after the deadline: turns of the ranks, and three requests */

static const char *const odd_names[LAB_ODD_ENDS] = {[LAB_ODD_FINALIZED] = "finalized",
						    [LAB_ODD_REVOKED] = "revoked",
						    [LAB_ODD_FAILED] = "failed",
						    [LAB_ODD_LATE] = "late"};

struct odd {
	struct lab_rank *me;
	const struct lab_odd_end *end;
	ncclComm_t comm;
	const char *why;
	struct sim_rng own;
};

static void odd_judge(struct odd *o, const char *call, ncclResult_t got, ncclResult_t want)
{
	lab_refused_judge(o->me, call, o->why, got, want);
}

/* Waits until `n` members have come to the k-th meeting. False: the run has failed. */
static bool odd_meet(struct odd *o, int k, int32_t n, bool comes)
{
	shared_u64 *word = &o->end->slot->met[k];
	const struct wait w =
		wait_word(word, 8, WAIT_GE, (uint64_t)n,
			  "harness: the members of a transient communicator, before its end",
			  wait_by(-1, -1, NULL));

	ASSERT((size_t)k < ARRAY_LEN(o->end->slot->met) && n <= o->end->n);
	if (comes)
		shared_add_u64(word, 1, SHARED_ACQ_REL);
	return os_wait_one(&w, &o->me->run->failed) == 0;
}

static void odd_late(struct odd *o)
{
	uint64_t most_ns = 1ull << sim_rng_below(&o->own, ODD_POWERS);
	uint64_t ns = sim_rng_below(&o->own, most_ns);

	if (sim_rng_below(&o->own, 2))
		os_sleep_ns(ns);
}

/* An error that is no longer, or not yet, one of the communicator. */
static void odd_async(struct odd *o, ncclResult_t want)
{
	ncclResult_t async = ncclInternalError;

	odd_judge(o, "ncclCommGetAsyncError", ncclCommGetAsyncError(o->comm, &async), ncclSuccess);
	odd_judge(o, "an asynchronous error", async, want);
}

static void odd_numbers(struct odd *o)
{
	int n = -1;

	odd_judge(o, "ncclCommCount", ncclCommCount(o->comm, &n), ncclSuccess);
	if (n != o->end->n)
		lab_refused_report(o->me, "ncclCommCount", o->why, "gave another number");
	lab_queries(o->me, o->comm, o->end->n, o->end->index, true);
}

static ncclResult_t odd_reduce(struct odd *o)
{
	int32_t *mem = o->me->transient_memory;

	return ncclAllReduce(mem, mem, ODD_COUNT, ncclInt32, ncclSum, o->comm,
			     (cudaStream_t)o->me->transient_stream);
}

/* Ends the communicator without waiting for other members. */
static ncclResult_t odd_end(struct odd *o, bool aborts)
{
	uint64_t start_ns = os_now_ns();
	ncclComm_t comm = lab_transient_take(o->me);
	ncclResult_t r;

	if (!comm)
		return ncclSuccess;
	r = aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm);
	if (os_now_ns() - start_ns > ODD_LOCAL_NS)
		lab_refused_report(o->me, aborts ? "ncclCommAbort" : "ncclCommDestroy", o->why,
				   "has waited for other ranks");
	return r;
}

/* ---- the ends -------------------------------------------------------------------------------- */

static void odd_finalized(struct odd *o, bool mine)
{
	odd_judge(o, "ncclCommFinalize", lab_comm_settle(o->me, o->comm, ncclCommFinalize(o->comm)),
		  ncclSuccess);
	if (!odd_meet(o, 1, o->end->n, true))
		return;
	if (mine) {
		odd_judge(o, "ncclCommAbort", odd_end(o, true), ncclSuccess);
		(void)odd_meet(o, 2, 1, true);
		return;
	}
	if (!odd_meet(o, 2, 1, false))
		return;
	for (int i = 0; i < 3; i++) {
		odd_async(o, ncclSuccess);
		odd_late(o);
	}
	odd_numbers(o);
	odd_judge(o, "ncclCommFinalize", ncclCommFinalize(o->comm), ncclInvalidUsage);
	odd_judge(o, "ncclCommDestroy", odd_end(o, false), ncclSuccess);
}

/* A collective that one member does not call, or a message that no member receives. Another member
 * that is faster may have revoked. */
static void odd_pending(struct odd *o, bool mine)
{
	int32_t *mem = o->me->transient_memory;

	if (mine || o->end->n < 2)
		return;
	if (o->end->polls && sim_rng_below(&o->own, 2))
		(void)ncclSend(mem, ODD_COUNT, ncclInt32, (o->end->index + 1) % o->end->n, o->comm,
			       (cudaStream_t)o->me->transient_stream);
	else
		(void)odd_reduce(o);
}

static void odd_revoked(struct odd *o, bool mine)
{
	bool aborts = sim_rng_below(&o->own, 2);

	odd_pending(o, mine);
	odd_judge(o, "ncclCommRevoke", ncclCommRevoke(o->comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
	odd_async(o, ncclSuccess);
	odd_judge(o, "ncclAllReduce", odd_reduce(o), ncclInvalidUsage);
	odd_numbers(o);
	odd_late(o);
	odd_async(o, ncclSuccess);
	odd_judge(o, aborts ? "ncclCommAbort" : "ncclCommDestroy", odd_end(o, aborts), ncclSuccess);
}

static void odd_learn(struct odd *o, uint64_t most_ns, ncclResult_t want)
{
	uint64_t end_ns = os_now_ns() + most_ns;
	ncclResult_t async = ncclSuccess, rc = ncclSuccess;

	ASSERT(want != ncclSuccess); /* an error is what it waits for */
	while (!rc && async == ncclSuccess && os_now_ns() < end_ns) {
		os_sleep_ns(1000000);
		rc = ncclCommGetAsyncError(o->comm, &async);
	}
	odd_judge(o, "ncclCommGetAsyncError", rc, ncclSuccess);
	odd_judge(o, "the error that all members learn of", async, want);
}

/* The others have the error of one that has aborted, and then use what is left to them. */
static void odd_failed(struct odd *o, bool mine)
{
	bool revokes = sim_rng_below(&o->own, 2), finalizes = sim_rng_below(&o->own, 3) == 0;
	bool aborts = sim_rng_below(&o->own, 2);
	int n;

	if (mine) {
		odd_late(o);
		odd_judge(o, "ncclCommAbort", odd_end(o, true), ncclSuccess);
		return;
	}
	odd_learn(o, ODD_LEARN_NS, ncclRemoteError);
	odd_judge(o, "ncclCommCount", ncclCommCount(o->comm, &n), ncclRemoteError);
	odd_judge(o, "ncclAllReduce", odd_reduce(o), ncclRemoteError);
	if (finalizes)
		odd_judge(o, "ncclCommFinalize", ncclCommFinalize(o->comm), ncclRemoteError);
	if (revokes) {
		odd_judge(o, "ncclCommRevoke", ncclCommRevoke(o->comm, NCCL_REVOKE_DEFAULT),
			  ncclSuccess);
		odd_async(o, ncclSuccess);
		odd_numbers(o);
	} else {
		odd_async(o, ncclRemoteError);
	}
	odd_late(o);
	odd_judge(o, aborts ? "ncclCommAbort" : "ncclCommDestroy", odd_end(o, aborts), ncclSuccess);
}

/* The deadline is the same on all members. */
static void odd_timeout(struct odd *o, bool mine)
{
	uint32_t ms = 1u << (o->end->round * 5 % 13);
	ncclConfigExt_t ext = {
		.key = {.vendorId = NCCL_DOPPEL_VENDOR, .optionId = NCCL_DOPPEL_OPTION_TIMEOUT_MS},
		.val.i = (int)ms};
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	int32_t *mem = o->me->transient_memory;
	bool aborts = sim_rng_below(&o->own, 2);
	ncclResult_t r;

	ASSERT(o->end->n > 1); /* the collective of one rank ends without the others */
	config.ext = &ext;
	if (!mine) {
		r = ncclAllReduceConfig(mem, mem, ODD_COUNT, ncclInt32, ncclSum, o->comm,
					(cudaStream_t)o->me->transient_stream, &config);
		odd_judge(o, "ncclAllReduceConfig", lab_comm_settle(o->me, o->comm, r),
			  ncclSuccess);
	}
	odd_learn(o, ms * 1250000ull + ODD_BEYOND_S * 1000000000ull, ncclTimeout);
	odd_judge(o, "ncclAllReduce", odd_reduce(o), ncclTimeout);
	odd_late(o);
	odd_async(o, ncclTimeout);
	odd_judge(o, aborts ? "ncclCommAbort" : "ncclCommDestroy", odd_end(o, aborts), ncclSuccess);
}

bool lab_odd_end(struct lab_rank *me, const struct lab_odd_end *end, ncclComm_t comm)
{
	struct odd o = {.me = me, .end = end, .comm = comm, .why = odd_names[end->kind]};
	bool mine = end->index == end->culprit;

	ASSERT(end->index >= 0 && end->index < end->n); /* the rank is a member */
	ASSERT(end->culprit >= 0 && end->culprit < end->n);
	sim_rng_seed(&o.own,
		     me->run->config->sim.seed + end->round * LAB_MAX_DEVICES +
			     (uint64_t)end->index,
		     "lab.odd_ends");
	lab_call(me, "an odd end of a transient communicator");
	if (odd_meet(&o, 0, end->n, true)) {
		if (end->kind == LAB_ODD_FINALIZED)
			odd_finalized(&o, mine);
		else if (end->kind == LAB_ODD_REVOKED)
			odd_revoked(&o, mine);
		else if (end->kind == LAB_ODD_FAILED)
			odd_failed(&o, mine);
		else
			odd_timeout(&o, mine);
	}
	lab_call(me, NULL);
	comm = lab_transient_take(me);
	if (comm)
		(void)ncclCommAbort(comm);
	return !shared_load_u32(&me->run->failed, SHARED_ACQUIRE);
}
