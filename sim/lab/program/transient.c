/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that come and go while others work: after a rank has launched its collectives, and
 * before it waits for them, it makes communicators of some of the ranks, one after the other,
 * reduces in each, checks the result and ends it. All ranks draw the same members, from the run's
 * seed, and take the communicators in the same order; those without a common rank are there
 * together.
 *
 * Without a plan of faults the seed draws more: non-blocking ones, ends by
 * ncclCommFinalize, and some that all members abort, each at its own time, while they are made or
 * while a collective or messages run, which some members do not call. A member then frees its
 * memory. With `children`, they are made from others (family.c).
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/program/transient.h"
#include "sim/lab/run/runner_internal.h"

#define TRANSIENT_COUNT 512u        /* elements, at most */
#define TRANSIENT_MOST  (64u << 10) /* elements of a call that is aborted, at most */
#define TRANSIENT_SALT  0x7472616e73ull

#define TRANSIENT_ABORT_POWERS 27 /* a member aborts it up to 2^27 ns after its call, 0.13 s */
#define TRANSIENT_COUNT_POWERS 17 /* the count of a call that is aborted is below 2^17 */
#define TRANSIENT_CALLS        3  /* a member makes at most so many of them */

_Static_assert(1u << (TRANSIENT_COUNT_POWERS - 1) == TRANSIENT_MOST, "the largest power fits");
_Static_assert(TRANSIENT_COUNT * sizeof(int32_t) <= LAB_STAGING_BYTES,
	       "a half of the staging memory");

enum transient_abort { TRANSIENT_KEPT, TRANSIENT_ABORT_INIT, TRANSIENT_ABORT_WORK };
enum transient_work {
	TRANSIENT_MESSAGES, /* a ring of them */
	TRANSIENT_ALL_REDUCE,
	TRANSIENT_ALL_GATHER,
	TRANSIENT_REDUCE_SCATTER,
	TRANSIENT_BROADCAST,
	TRANSIENT_WORKS,
};

/* One of them, as a rank sees it. */
struct transient {
	uint64_t round;   /* of the run, from 0 */
	int32_t index, n; /* of the members */
	bool leads;
	bool polls;                  /* it is non-blocking */
	bool finalizes;              /* before it is destroyed */
	enum transient_abort aborts; /* all members end it so */
	enum transient_work work;    /* what is aborted */
	bool odd;                    /* it ends so (odd_ends.c) */
	enum lab_odd odd_kind;
	int32_t culprit;
	int32_t ids; /* of its init */
	size_t count;
};

int lab_transient_make(struct lab_rank *me)
{
	size_t bytes = 2ul * TRANSIENT_MOST * sizeof(int32_t);
	cudaError_t e;

	if (!me->run->config->transient)
		return 0;
	ASSERT(!me->transient_memory && !me->transient_stream);
	e = cudaMalloc((void **)&me->transient_memory, bytes);
	/* The memory may hold addresses of an ended communicator. Each run sends the same. */
	if (!e)
		e = cudaMemset(me->transient_memory, 0, bytes);
	if (!e)
		e = cudaStreamSynchronize(NULL);
	if (!e)
		e = cudaStreamCreateWithFlags((cudaStream_t *)&me->transient_stream,
					      cudaStreamNonBlocking);
	return (int)e;
}

void lab_transient_free(struct lab_rank *me)
{
	if (me->transient_stream)
		cudaStreamDestroy(me->transient_stream);
	if (me->transient_memory)
		cudaFree(me->transient_memory);
	me->transient_stream = NULL;
	me->transient_memory = NULL;
}

/* Kinds that programs without faults have as well. */
static void transient_draw_kind(struct sim_rng *rng, bool ras, struct transient *t)
{
	t->finalizes = sim_rng_below(rng, 3) == 0;
	t->polls = sim_rng_below(rng, 3) == 0;
	bool aborts = sim_rng_below(rng, 2) == 0, early = sim_rng_below(rng, 3) == 0;

	t->odd = sim_rng_below(rng, 3) == 0;
	t->odd_kind = (enum lab_odd)sim_rng_below(rng, ras ? LAB_ODD_ENDS : LAB_ODD_LATE);
	if (t->odd_kind == LAB_ODD_LATE && t->n < 2)
		t->odd_kind = LAB_ODD_FINALIZED;
	t->culprit = (int32_t)sim_rng_below(rng, (uint64_t)t->n);
	bool several = sim_rng_below(rng, 3) == 0;
	uint64_t ids = 1 + sim_rng_below(rng, (uint64_t)MIN_OF(t->n, LAB_MORE_IDS + 1));

	t->ids = several ? (int32_t)ids : 1;
	if (!aborts)
		return;
	t->odd = false;
	t->polls = true;
	t->aborts = early ? TRANSIENT_ABORT_INIT : TRANSIENT_ABORT_WORK;
	t->work = (enum transient_work)sim_rng_below(rng, TRANSIENT_WORKS);
	/* small calls take other algorithms than large ones */
	uint64_t most = 1ull << sim_rng_below(rng, TRANSIENT_COUNT_POWERS);

	ASSERT(most <= TRANSIENT_MOST);
	if (!early)
		t->count = 1 + (size_t)sim_rng_below(rng, most);
}

/* Its members: each rank or not, and at least one. False: this rank is not one. */
static bool transient_draw(const struct lab_rank *me, struct transient *t)
{
	const struct lab_run *run = me->run;
	int32_t first = (int32_t)(t->round % (uint64_t)run->nranks), lowest = -1;
	struct sim_rng rng;

	sim_rng_seed(&rng, run->config->sim.seed + t->round, "lab.transient");
	t->count = 1 + (size_t)sim_rng_below(&rng, TRANSIENT_COUNT);
	t->index = -1;
	t->n = 0;
	t->finalizes = t->polls = t->odd = false;
	t->ids = 1;
	t->aborts = TRANSIENT_KEPT;
	for (int32_t r = 0; r < run->nranks; r++) {
		bool in = sim_rng_below(&rng, 2) == 0;

		if (!in && r != first)
			continue;
		if (lowest < 0)
			lowest = r;
		if (r == me->rank)
			t->index = t->n;
		t->n++;
	}
	ASSERT(t->n > 0 && lowest >= 0);
	t->leads = lowest == me->rank;
	if (!run->armed)
		transient_draw_kind(&rng, lab_has_env(run->config, "DOPPEL_TIMEOUT_MS"), t);
	return t->index >= 0;
}

/* Errors of a communicator that the watch has aborted are no errors of the rank. */
bool lab_transient_check(struct lab_rank *me, ncclResult_t r, const char *call)
{
	if (r != ncclSuccess && !shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
		lab_rank_fail(me, r, call);
	return r == ncclSuccess;
}

static bool transient_check_cuda(struct lab_rank *me, cudaError_t e)
{
	return lab_rank_check_cuda(me, e, "CUDA call for a transient communicator");
}

/* The first member makes the id and the launcher hands it to the others. */
static bool transient_id(struct lab_rank *me, const struct transient *t, ncclUniqueId *id)
{
	struct lab_transient_id *slot =
		&me->run->transient_id[t->round % me->run->config->transient];
	struct wait w = wait_word(&slot->ready, 8, WAIT_EQ, t->round + 1,
				  "harness: the unique id of a transient communicator",
				  wait_by(-1, -1, NULL));

	ASSERT(t->ids >= 1 && t->ids <= 1 + LAB_MORE_IDS);
	if (t->leads) {
		ncclResult_t r = ncclGetUniqueId(&slot->id);

		/* the last round of the slot was before a barrier */
		for (size_t k = 0; k < ARRAY_LEN(slot->met); k++)
			shared_store_u64(&slot->met[k], 0, SHARED_RELAXED);

		for (int32_t k = 1; k < t->ids && !r; k++)
			r = ncclGetUniqueId(&slot->more[k - 1]);
		if (!lab_transient_check(me, r, "ncclGetUniqueId"))
			return false;
		shared_store_u64(&slot->ready, t->round + 1, SHARED_RELEASE);
	} else if (os_wait_one(&w, &me->run->failed)) {
		return false;
	}
	*id = slot->id;
	return true;
}

bool lab_transient_sync(struct lab_rank *me, ncclComm_t comm)
{
	for (;;) {
		ncclResult_t async = ncclSuccess;
		cudaError_t e = cudaStreamQuery(me->transient_stream);

		if (e != cudaErrorNotReady)
			return transient_check_cuda(me, e);
		if (!lab_transient_check(me, ncclCommGetAsyncError(comm, &async),
					 "ncclCommGetAsyncError") ||
		    !lab_transient_check(me, async, "ncclCommGetAsyncError"))
			return false;
		/* with faults, the stack reports failures of ranks, except within a program */
		if (lab_team_troubled(me) ||
		    shared_load_u32(me->run->armed ? &me->watch_aborted : &me->run->failed,
				    SHARED_ACQUIRE))
			return false;
	}
}

static void transient_wrong(struct lab_rank *me, const struct transient *t, size_t where)
{
	lab_judge(me, SIM_WRONG_RESULT, "correctness",
		  "wrong result in transient communicator %llu of %d ranks, element %zu of %zu",
		  (unsigned long long)t->round, t->n, where, t->count);
}

static bool transient_reduce(struct lab_rank *me, const struct transient *t, ncclComm_t comm)
{
	struct payload p = {.type = ncclInt32,
			    .op = ncclSum,
			    .nranks = t->n,
			    .salt = TRANSIENT_SALT + t->round};
	size_t bytes = t->count * sizeof(int32_t), where = 0;
	uint8_t *got = me->staging, *want = me->staging + bytes;
	void *mem = me->transient_memory;
	ncclResult_t r;

	ASSERT(t->count <= TRANSIENT_COUNT); /* both halves fit in the staging memory */
	payload_fill(&p, t->index, 0, t->count, got);
	if (!transient_check_cuda(me, cudaMemcpyAsync(mem, got, bytes, cudaMemcpyHostToDevice,
						      me->transient_stream)))
		return false;
	r = lab_comm_settle(
		me, comm,
		ncclAllReduce(mem, mem, t->count, p.type, p.op, comm, me->transient_stream));
	if (!lab_transient_check(me, r, "ncclAllReduce") ||
	    /* a copy to pageable memory waits for the kernel: a program that survives first waits
	     * itself */
	    (me->run->armed && !lab_transient_sync(me, comm)) ||
	    !transient_check_cuda(me, cudaMemcpyAsync(got, mem, bytes, cudaMemcpyDeviceToHost,
						      me->transient_stream)) ||
	    !lab_transient_sync(me, comm))
		return false;
	payload_expect(&p, 0, t->count, want);
	if (payload_compare(&p, 0, t->count, got, want, &where))
		transient_wrong(me, t, where);
	return true;
}

ncclComm_t lab_transient_take(struct lab_rank *me)
{
	return __atomic_exchange_n(&me->transient_comm, NULL, __ATOMIC_ACQ_REL);
}

/* An init with several ids, or with one. Each rank that has an id of its own ends its root. */
static ncclResult_t transient_init_call(struct lab_rank *me, const struct transient *t,
					ncclUniqueId id, ncclConfig_t *config)
{
	const struct lab_transient_id *slot =
		&me->run->transient_id[t->round % me->run->config->transient];
	ncclUniqueId ids[1 + LAB_MORE_IDS];

	ASSERT(!me->transient_comm); /* one at a time; the task that ended it took the one before */
	if (t->ids == 1)
		return ncclCommInitRankConfig(&me->transient_comm, t->n, id, t->index, config);
	ids[0] = id;
	memcpy(ids + 1, slot->more, sizeof slot->more);
	return ncclCommInitRankScalable(&me->transient_comm, t->n, t->index, t->ids, ids, config);
}

static bool transient_init(struct lab_rank *me, const struct transient *t)
{
	static const char call[] = "ncclCommInitRankConfig";
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	ncclResult_t r;

	if (!transient_id(me, t, &id))
		return false;
	config.blocking = !t->polls;
	lab_call(me, "ncclCommInitRankConfig of a transient communicator");
	me->transient_begins = true;
	r = transient_init_call(me, t, id, &config);
	r = lab_comm_settle(me, me->transient_comm, r);
	me->transient_begins = false;
	lab_call(me, NULL);
	ncclComm_t failed = r ? lab_transient_take(me) : NULL;

	if (failed && t->polls) /* it is the program's to abort */
		(void)ncclCommAbort(failed);
	return lab_transient_check(me, r, call);
}

static bool transient_finalize(struct lab_rank *me, ncclComm_t comm)
{
	return lab_transient_check(me, lab_comm_settle(me, comm, ncclCommFinalize(comm)),
				   "ncclCommFinalize");
}

static bool transient_end(struct lab_rank *me, const struct transient *t, bool ok)
{
	ncclComm_t comm = lab_transient_take(me);
	ncclResult_t r;

	if (!comm)
		return false;
	lab_call(me, "the end of a transient communicator");
	if (ok && t->finalizes)
		ok = transient_finalize(me, comm);
	r = ok ? ncclCommDestroy(comm) : ncclCommAbort(comm);
	lab_call(me, NULL);
	return lab_transient_check(me, r, ok ? "ncclCommDestroy" : "ncclCommAbort") && ok;
}

/* Another member may abort first: calls of this one then return errors. */
static bool transient_check_abort(struct lab_rank *me, ncclResult_t r, const char *call)
{
	bool expected = r == ncclSuccess || r == ncclInProgress || r == ncclRemoteError ||
			r == ncclSystemError;

	if (!expected)
		lab_rank_fail(me, r, call);
	return expected;
}

static ncclResult_t transient_messages(struct lab_rank *me, const struct transient *t,
				       ncclComm_t comm)
{
	int32_t *mem = me->transient_memory;
	cudaStream_t stream = me->transient_stream;
	ncclResult_t r = ncclGroupStart(), end;

	if (r)
		return r;
	r = ncclSend(mem, t->count, ncclInt32, (t->index + 1) % t->n, comm, stream);
	if (!r)
		r = ncclRecv(mem + TRANSIENT_MOST, t->count, ncclInt32,
			     (t->index + t->n - 1) % t->n, comm, stream);
	end = ncclGroupEnd();
	return r ? r : end;
}

static ncclResult_t transient_work_launch(struct lab_rank *me, const struct transient *t,
					  ncclComm_t comm)
{
	int32_t *in = me->transient_memory, *out = in + TRANSIENT_MOST;
	cudaStream_t stream = me->transient_stream;
	size_t part = t->count / (size_t)t->n;

	ASSERT(t->count <= TRANSIENT_MOST); /* the output is after so many elements */
	switch (t->work) {
	case TRANSIENT_MESSAGES:
		return transient_messages(me, t, comm);
	case TRANSIENT_ALL_GATHER:
		return ncclAllGather(in, out, part, ncclInt32, comm, stream);
	case TRANSIENT_REDUCE_SCATTER:
		return ncclReduceScatter(in, out, part, ncclInt32, ncclSum, comm, stream);
	case TRANSIENT_BROADCAST:
		return ncclBroadcast(in, out, t->count, ncclInt32, t->n - 1, comm, stream);
	case TRANSIENT_ALL_REDUCE:
	case TRANSIENT_WORKS:
		break;
	}
	return ncclAllReduce(in, in, t->count, ncclInt32, ncclSum, comm, stream);
}

/* The call before it may still connect ranks; a call on a communicator that does is refused. */
static ncclResult_t transient_abort_launch(struct lab_rank *me, const struct transient *t,
					   ncclComm_t comm, uint64_t calls)
{
	ncclResult_t r = lab_comm_settle(me, comm, ncclInProgress);

	for (uint64_t i = 0; i < calls && !r; i++) {
		r = transient_work_launch(me, t, comm);
		if (i + 1 < calls)
			r = lab_comm_settle(me, comm, r);
	}
	return r;
}

/* After its communicator's end the memory is the program's to free. */
static bool transient_renew(struct lab_rank *me)
{
	if (!transient_check_cuda(me, cudaStreamSynchronize(me->transient_stream)))
		return false;
	lab_transient_free(me);
	return transient_check_cuda(me, (cudaError_t)lab_transient_make(me));
}

/* A member waits for its init or not, launches some collectives or none, and aborts; or it destroys
 * what may still be in its init. */
static bool transient_live_aborted(struct lab_rank *me, const struct transient *t)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t r, end;
	struct sim_rng rng;
	ncclUniqueId id;

	sim_rng_seed(&rng,
		     me->run->config->sim.seed + t->round * LAB_MAX_DEVICES + (uint64_t)t->index,
		     "lab.transient_abort");
	uint64_t most_ns = 1ull << sim_rng_below(&rng, TRANSIENT_ABORT_POWERS);
	uint64_t after_ns = sim_rng_below(&rng, most_ns);
	bool waits = sim_rng_below(&rng, 3) == 0;
	uint64_t calls = sim_rng_below(&rng, TRANSIENT_CALLS + 1);
	bool destroys = t->aborts != TRANSIENT_ABORT_WORK && sim_rng_below(&rng, 3) == 0;
	const char *call = destroys ? "ncclCommDestroy" : "ncclCommAbort";

	ASSERT(t->polls); /* the abort comes while its init or a call is under way */
	if (!transient_id(me, t, &id))
		return false;
	config.blocking = 0;
	lab_call(me, "a transient communicator that is aborted");
	r = transient_init_call(me, t, id, &config);
	ncclComm_t comm = me->transient_comm;

	if (comm && t->aborts == TRANSIENT_ABORT_WORK)
		r = transient_abort_launch(me, t, comm, calls);
	else if (comm && waits)
		r = lab_comm_settle(me, comm, ncclInProgress);
	os_sleep_ns(after_ns);
	comm = lab_transient_take(me);
	end = !comm ? ncclSuccess : destroys ? ncclCommDestroy(comm) : ncclCommAbort(comm);
	lab_call(me, NULL);
	return transient_check_abort(me, r, "a call before the end of its communicator") &&
	       (destroys ? transient_check_abort(me, end, call)
			 : lab_transient_check(me, end, call)) &&
	       transient_renew(me);
}

static bool transient_end_oddly(struct lab_rank *me, const struct transient *t, ncclComm_t comm)
{
	const struct lab_odd_end end = {
		.kind = t->odd_kind,
		.index = t->index,
		.n = t->n,
		.culprit = t->culprit,
		.polls = t->polls,
		.round = t->round,
		.slot = &me->run->transient_id[t->round % me->run->config->transient]};

	ASSERT(t->aborts == TRANSIENT_KEPT); /* it ends in one way */
	return lab_odd_end(me, &end, comm) && transient_renew(me);
}

static bool transient_live(struct lab_rank *me, const struct transient *t)
{
	if (!transient_init(me, t))
		return false;
	ncclComm_t comm = __atomic_load_n(&me->transient_comm, __ATOMIC_ACQUIRE);
	lab_call(me, "a transient communicator's work");
	bool ok = comm && transient_reduce(me, t, comm);
	lab_call(me, NULL);
	if (ok && t->odd)
		return transient_end_oddly(me, t, comm);
	return transient_end(me, t, ok);
}

bool lab_transients(struct lab_rank *me)
{
	bool ok = true;

	if (!me->run->config->transient)
		return true;
	shared_store_u32(&me->transient_on, 1, SHARED_RELEASE);
	for (uint32_t i = 0; ok && i < me->run->config->transient; i++) {
		struct transient t = {.round = me->transients++};

		if (lab_family_fits(me))
			ok = lab_family(me, t.round, &me->run->family_id[i]);
		else if (transient_draw(me, &t))
			ok = t.aborts ? transient_live_aborted(me, &t) : transient_live(me, &t);
	}
	shared_store_u32(&me->transient_on, 0, SHARED_RELEASE);
	return ok;
}
