/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inits that fail, in processes whose other inits must work: one rank makes a mistake, gives up or
 * never comes, and each rank gets the class of error that docs/bootstrap.md has for it, and no
 * communicator. All ranks draw the same mistakes, from the run's seed, and come each at a time of
 * its own. A program with NCCL_COMM_ID takes one address for all of them, so the ranks meet after
 * each.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "sim/lab/program/refused.h"

#define INIT_CALL_BYTES   64
#define INIT_FAILS_POWERS 27 /* a rank is late up to 2^27 ns, 0.13 s */

enum init_fail {
	INIT_CONFIG,   /* the culprit's config is wrong */
	INIT_CTAS,     /* its config contradicts itself */
	INIT_IDS,      /* its list of unique ids is wrong */
	INIT_COUNT,    /* it counts other ranks than the others */
	INIT_TWICE,    /* it comes as another rank */
	INIT_DEVICE,   /* it uses the GPU of another rank of its process */
	INIT_GROUP,    /* its group has a wrong call */
	INIT_CALLS,    /* the same, in groups of all ranks that have a collective, too */
	INIT_ENDED,    /* its group ends the communicator that it was to make */
	INIT_DISAGREE, /* it succeeds, and then one calls another collective */
	INIT_ALL,      /* none fails: processes make communicators by ncclCommInitAll */
	INIT_ABORTS,   /* all are non-blocking, and it aborts */
	INIT_DESTROYS,
	INIT_NEVER, /* all are non-blocking; it does not come, and the others abort or destroy */
	INIT_FAILS
};
_Static_assert(INIT_ABORTS == INIT_ALL + 1, "kinds that may not fit come before those that poll");
_Static_assert(2 * INIT_CALL_BYTES <= LAB_SMALL_BYTES, "two calls fit into a receive buffer");

static const char *const init_fail_names[INIT_FAILS] = {
	[INIT_CONFIG] = "wrong config",
	[INIT_CTAS] = "contradiction",
	[INIT_IDS] = "wrong list of ids",
	[INIT_COUNT] = "another count",
	[INIT_TWICE] = "a rank twice",
	[INIT_DEVICE] = "a GPU twice",
	[INIT_GROUP] = "group with a wrong call",
	[INIT_CALLS] = "group of collectives with a wrong call",
	[INIT_ENDED] = "ended in its group",
	[INIT_DISAGREE] = "ranks that disagree",
	[INIT_ALL] = "ncclCommInitAll",
	[INIT_ABORTS] = "aborted",
	[INIT_DESTROYS] = "destroyed",
	[INIT_NEVER] = "a rank never comes"};

struct init_fails {
	struct lab_rank *me;
	enum init_fail kind;
	bool mine;            /* this rank is the culprit */
	struct sim_rng drawn; /* goes on as on all other ranks */
	int32_t other;
	struct sim_rng own; /* for what each rank draws by itself */
};

/* A rank of the process of rank `culprit` with another GPU; -1: none. */
static int32_t init_fails_neighbour(const struct lab_run *run, int32_t culprit)
{
	for (int32_t r = 0; r < run->count; r++)
		if (r != culprit && run->rank[r].proc == run->rank[culprit].proc &&
		    run->rank[r].device != run->rank[culprit].device)
			return r;
	return -1;
}

/* Kinds that use the buffers or the communicator of the rank need its own task. NCCL_COMM_ID is an
 * address of one host. */
static bool init_fails_fits(const struct lab_rank *me, enum init_fail kind, uint64_t round)
{
	const struct lab_config *c = me->run->config;

	if (round >= LAB_MAX_TRANSIENT)
		return kind == INIT_ENDED;
	if (kind == INIT_CALLS) /* it needs a communicator: not before the first init */
		return me->comm && !c->nonblocking;
	return kind != INIT_ALL || !lab_has_env(c, "NCCL_COMM_ID");
}

static void init_fails_draw(struct lab_rank *me, uint64_t round, struct init_fails *f)
{
	const struct lab_run *run = me->run;
	uint64_t n = (uint64_t)run->nranks;
	struct sim_rng rng;

	ASSERT(n > 1); /* the others learn of the mistake of one */
	sim_rng_seed(&rng, run->config->sim.seed + round, "lab.init_fails");
	f->me = me;
	f->kind = (enum init_fail)sim_rng_below(&rng, INIT_FAILS);
	/* a unique id's root waits for its rank 0 */
	int32_t culprit = (int32_t)(f->kind == INIT_NEVER ? 1 + sim_rng_below(&rng, n - 1)
							  : sim_rng_below(&rng, n));
	/* two ranks 0 would have two roots at the address of NCCL_COMM_ID */
	if (f->kind == INIT_TWICE && culprit + 1 == run->nranks)
		culprit = 0;
	f->other = init_fails_neighbour(run, culprit);
	if (f->kind == INIT_DEVICE && f->other < 0)
		f->kind = INIT_CONFIG;
	if (f->kind == INIT_IDS && lab_has_env(run->config, "NCCL_COMM_ID"))
		f->kind = INIT_CONFIG; /* the variable allows one id */
	if (f->kind >= INIT_CALLS && f->kind <= INIT_ALL && !init_fails_fits(me, f->kind, round))
		f->kind = INIT_GROUP;
	f->mine = culprit == me->rank;
	f->drawn = rng;
	sim_rng_seed(&f->own, run->config->sim.seed + round * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.init_fails_own");
}

static void init_fails_pause(struct init_fails *f)
{
	uint64_t most_ns = 1ull << sim_rng_below(&f->own, INIT_FAILS_POWERS);

	os_sleep_ns(sim_rng_below(&f->own, most_ns));
}

static bool init_fails_polls(const struct init_fails *f)
{
	return f->kind >= INIT_ABORTS;
}

/* ---- one rank's call ------------------------------------------------------------------------- */

/* A collective in a group that fails is never launched. */
static ncclResult_t init_fails_collective(struct lab_rank *me)
{
	uint8_t *mem = me->recv + LAB_GUARD_BYTES;

	return ncclAllReduce(mem, mem, INIT_CALL_BYTES, ncclInt8, ncclSum, me->comm,
			     (cudaStream_t)me->stream);
}

static ncclResult_t init_fails_group(const struct init_fails *f, ncclUniqueId id, ncclComm_t *comm)
{
	struct lab_rank *me = f->me;
	bool calls = f->kind == INIT_CALLS;
	ncclResult_t rc = ncclGroupStart(), end;

	ASSERT(!calls || f->me->comm); /* init_fails_fits */
	if (rc)
		return rc;
	if (calls)
		rc = init_fails_collective(me);
	if (!rc)
		rc = ncclCommInitRank(comm, me->run->nranks, id, me->rank);
	if (f->mine)
		(void)ncclAllReduce(NULL, NULL, 1, ncclInt8, ncclSum, NULL, NULL);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

/* A communicator of this rank alone. */
static ncclResult_t init_fails_alone(ncclComm_t *comm)
{
	ncclUniqueId id;
	ncclResult_t rc = ncclGetUniqueId(&id);

	return rc ? rc : ncclCommInitRank(comm, 1, id, 0);
}

/* The communicator leaves the group, which makes those before and after it. NCCL_COMM_ID is an
 * address of rank 0's host, where only the root of all ranks listens. */
static ncclResult_t init_fails_ended(struct init_fails *f, ncclUniqueId id, ncclComm_t *comm)
{
	struct lab_rank *me = f->me;
	bool aborts = sim_rng_below(&f->own, 2), before = sim_rng_below(&f->own, 2);
	bool others = !lab_has_env(me->run->config, "NCCL_COMM_ID");
	ncclComm_t alone[2] = {NULL, NULL};
	ncclResult_t rc = ncclGroupStart();

	if (rc)
		return rc;
	if (others && before)
		rc = init_fails_alone(&alone[0]);
	if (!rc)
		rc = ncclCommInitRank(comm, me->run->nranks, id, me->rank);
	if (!rc)
		rc = aborts ? ncclCommAbort(*comm) : ncclCommDestroy(*comm);
	if (!rc && others)
		rc = init_fails_alone(&alone[1]);
	ncclResult_t end = ncclGroupEnd();

	*comm = NULL;
	for (int i = 0; i < 2 && !rc && !end; i++)
		rc = alone[i] ? ncclCommDestroy(alone[i]) : ncclSuccess;
	return rc ? rc : end;
}

/* The culprit counts no id or too many, or its second id is the first one again or empty. */
static ncclResult_t init_fails_ids(struct init_fails *f, ncclUniqueId id, ncclComm_t *comm,
				   ncclConfig_t *config)
{
	int32_t n = f->me->run->nranks;
	ncclUniqueId ids[2] = {id};
	int nids = 1;

	ASSERT(n > 1); /* as many ids as ranks are allowed */
	if (f->mine) {
		const int counts[] = {0, n + 1, 2, 2};
		uint64_t wrong = sim_rng_below(&f->own, ARRAY_LEN(counts));

		nids = counts[wrong];
		if (wrong == 2)
			ids[1] = id;
	}
	return ncclCommInitRankScalable(comm, n, f->me->rank, nids, ids, config);
}

static ncclResult_t init_fails_call(struct init_fails *f, ncclUniqueId id, ncclComm_t *comm)
{
	struct lab_rank *me = f->me;
	int32_t n = me->run->nranks, rank = me->rank;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = !init_fails_polls(f);
	if (f->kind == INIT_CALLS)
		return init_fails_group(f, id, comm);
	if (f->kind == INIT_IDS)
		return init_fails_ids(f, id, comm, &config);
	if (!f->mine)
		return ncclCommInitRankConfig(comm, n, id, rank, &config);
	switch (f->kind) {
	case INIT_CONFIG:
		config.trafficClass = 256;
		break;
	case INIT_CTAS:
		config.minCTAs = 2;
		config.maxCTAs = 1;
		break;
	case INIT_COUNT:
		n++;
		break;
	case INIT_TWICE:
		rank++;
		ASSERT(rank < n); /* init_fails_draw: another rank has this number */
		break;
	case INIT_DEVICE:
		ASSERT(f->other >= 0);
		(void)cudaSetDevice(me->run->rank[f->other].device);
		break;
	case INIT_GROUP:
		return init_fails_group(f, id, comm);
	case INIT_ENDED:
		return init_fails_ended(f, id, comm);
	default:
		break;
	}
	return ncclCommInitRankConfig(comm, n, id, rank, &config);
}

/* ---- what must come of it -------------------------------------------------------------------- */

static void init_fails_want(const struct init_fails *f, ncclResult_t got)
{
	bool remote = got == ncclRemoteError, usage = got == ncclInvalidUsage;
	bool right = remote;

	ASSERT(!init_fails_polls(f)); /* the error of such an init comes later */
	switch (f->kind) {
	case INIT_CONFIG:
	case INIT_CTAS:
	case INIT_IDS:
	case INIT_GROUP:
	case INIT_CALLS:
		right = f->mine ? got == ncclInvalidArgument : remote;
		break;
	case INIT_ENDED:
		right = f->mine ? got == ncclSuccess : remote;
		break;
	/* a rank that comes when all others have left finds no root */
	case INIT_COUNT:
	case INIT_TWICE:
	case INIT_DEVICE:
		right = remote || usage;
		break;
	default:
		return;
	}
	if (!right)
		lab_refused_judge(f->me, "ncclCommInitRank that fails", init_fail_names[f->kind],
				  got,
				  !f->mine                ? ncclRemoteError
				  : f->kind == INIT_ENDED ? ncclSuccess
							  : ncclInvalidArgument);
}

/* Blocking inits leave nothing. */
static void init_fails_nothing(const struct init_fails *f, ncclComm_t comm)
{
	if (comm)
		lab_refused_report(f->me, "ncclCommInitRank that fails", init_fail_names[f->kind],
				   "left a communicator");
}

/* The communicator of the series works, and has forgotten the collective of the group. */
static void init_fails_goes_on(const struct init_fails *f)
{
	struct lab_rank *me = f->me;
	uint8_t *mem = me->recv + LAB_GUARD_BYTES, *sum = mem + INIT_CALL_BYTES;
	uint8_t *got = me->staging;
	ncclResult_t r;

	memset(got, 1, 2ul * INIT_CALL_BYTES);
	if (!lab_rank_copy(me, mem, got, 2ul * INIT_CALL_BYTES, true))
		return;
	r = ncclAllReduce(sum, sum, INIT_CALL_BYTES, ncclInt8, ncclSum, me->comm,
			  (cudaStream_t)me->stream);
	lab_refused_judge(me, "ncclAllReduce after a group that failed", init_fail_names[f->kind],
			  r, ncclSuccess);
	if (r || !lab_rank_sync(me) || !lab_rank_copy(me, got, mem, 2ul * INIT_CALL_BYTES, false))
		return;
	if (got[0] != 1 || got[INIT_CALL_BYTES] != (uint8_t)me->run->nranks)
		lab_refused_report(me, "ncclAllReduce after a group that failed",
				   init_fail_names[f->kind], "gave a wrong result");
}

/* Until the init is over, in an error or, before another rank has ended it, in success. */
static ncclResult_t init_fails_settle(struct init_fails *f, ncclComm_t comm)
{
	ncclResult_t async = ncclInProgress, rc = ncclSuccess;

	while (!rc && async == ncclInProgress)
		rc = ncclCommGetAsyncError(comm, &async);
	lab_refused_judge(f->me, "ncclCommGetAsyncError of an init that fails",
			  init_fail_names[f->kind], rc, ncclSuccess);
	if (async != ncclSuccess)
		lab_refused_judge(f->me, "the init of a non-blocking communicator",
				  init_fail_names[f->kind], async, ncclRemoteError);
	return async;
}

/* The culprit ends its communicator in the init; the others, too, where a rank never comes, or
 * they learn of it first. */
static void init_fails_end(struct init_fails *f, ncclComm_t comm, ncclResult_t rc)
{
	bool destroys = f->kind == INIT_DESTROYS || (!f->mine && sim_rng_below(&f->own, 2));
	ncclResult_t async = ncclSuccess, end;
	bool given = false;

	ASSERT(init_fails_polls(f));
	lab_refused_judge(f->me, "ncclCommInitRankConfig of a non-blocking communicator",
			  init_fail_names[f->kind], rc, ncclInProgress);
	if (!comm)
		return;
	if (f->kind != INIT_NEVER && !f->mine)
		given = init_fails_settle(f, comm) != ncclSuccess;
	else
		init_fails_pause(f);
	if (!given && !ncclCommGetAsyncError(comm, &async))
		given = async != ncclSuccess && async != ncclInProgress;
	end = destroys ? ncclCommDestroy(comm) : ncclCommAbort(comm);
	/* an error that the program has not had yet may come now */
	if (destroys && !given && end == ncclRemoteError)
		return;
	lab_refused_judge(f->me,
			  destroys ? "ncclCommDestroy in an init" : "ncclCommAbort in an init",
			  init_fail_names[f->kind], end, ncclSuccess);
}

void lab_init_fail(struct lab_rank *me, uint64_t round, ncclUniqueId id)
{
	struct init_fails f;
	ncclComm_t comm = NULL;
	ncclResult_t rc;

	init_fails_draw(me, round, &f);
	init_fails_pause(&f);
	if (f.kind == INIT_NEVER && f.mine)
		return;
	lab_call(me, "ncclCommInitRank that fails");
	if (f.kind == INIT_DISAGREE || f.kind == INIT_ALL) {
		if (f.kind == INIT_ALL)
			lab_init_all(me, id);
		else
			lab_disagree(me, round, f.mine, &f.drawn, id);
		lab_call(me, NULL);
		return;
	}
	rc = init_fails_call(&f, id, &comm);
	if (init_fails_polls(&f)) {
		init_fails_end(&f, comm, rc);
	} else {
		init_fails_want(&f, rc);
		init_fails_nothing(&f, comm);
		if (f.kind == INIT_CALLS)
			init_fails_goes_on(&f);
	}
	lab_call(me, NULL);
	if (f.kind == INIT_DEVICE && f.mine)
		(void)lab_rank_check_cuda(me, cudaSetDevice(me->device), "cudaSetDevice");
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool init_fails_id(struct lab_rank *me, uint32_t k, ncclUniqueId *id)
{
	struct lab_run *run = me->run;

	if (lab_leads(me)) {
		ncclResult_t r = ncclGetUniqueId(&run->fails_id[k]);

		if (r) {
			lab_rank_fail(me, r, "ncclGetUniqueId");
			return false;
		}
	}
	if (!lab_barrier(me))
		return false;
	*id = run->fails_id[k];
	return true;
}

bool lab_init_fails(struct lab_rank *me, bool first)
{
	const struct lab_config *c = me->run->config;
	/* half of them, and one, come before the first init */
	uint32_t before = (c->init_fails + 1) / 2;
	uint32_t k = first ? 0 : before, end = first ? before : c->init_fails;
	ncclUniqueId id;

	ASSERT(c->init_fails <= LAB_MAX_TRANSIENT); /* each has an id */
	if (me->run->armed || me->run->nranks == 1)
		return true;
	for (; k < end; k++) {
		if (!init_fails_id(me, k, &id))
			return false;
		lab_init_fail(me, k, id);
		if (!lab_barrier(me))
			return false;
	}
	return true;
}
