/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a run: its memory and streams, its communicators from init to their end, its errors. */
#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sim/lab/program/transient.h"
#include "sim/lab/run/runner_internal.h"
#include "sim/world/world.h"

#define RANK_INIT_NS                                                                               \
	3000000000ull /* an init returns that long after a quarter of its deadline more */

/* The first error ends the run for all ranks: those that wait see `failed` and abort. */
void lab_rank_fail(struct lab_rank *me, ncclResult_t error, const char *what)
{
	struct lab_run *run = me->run;
	lab_survive_error(me, error, what, false);
	os_mutex_lock(&run->lock);
	bool first = run->error == ncclSuccess;
	if (first) {
		run->error = error;
		run->error_rank = me->rank;
	}
	os_mutex_unlock(&run->lock);
	if (first && run->armed && !run->config->errors_allowed)
		sim_note_tolerated("error", me->rank, "rank %d: %s: %s", me->rank, what,
				   ncclGetErrorString(error));
	else if (first && !run->config->errors_allowed)
		sim_note_failure(SIM_ERROR, "error", me->rank, "rank %d: %s: %s", me->rank, what,
				 ncclGetErrorString(error));
	bool usage = error == ncclInvalidUsage || error == ncclInvalidArgument;
	const char *why = usage ? ncclGetLastError(NULL) : "";

	fprintf(stderr, "doppel: rank %d: %s: %s%s%s\n", me->rank, what, ncclGetErrorString(error),
		*why ? ": " : "", why);
	shared_store_u32(&run->failed, 1, SHARED_RELEASE);
}

void lab_judge(const struct lab_rank *me, enum sim_verdict verdict, const char *kind,
	       const char *fmt, ...)
{
	struct lab_run *run = me->run;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	sim_note_failure(verdict, kind, me->rank, "rank %d: %s", me->rank, text);
	fprintf(stderr, "doppel: rank %d: %s\n", me->rank, text);
	os_mutex_lock(&run->lock);
	if (verdict == SIM_WRONG_RESULT)
		run->wrong++;
	else
		run->judged = verdict;
	os_mutex_unlock(&run->lock);
}

bool lab_rank_check_cuda(struct lab_rank *me, int e, const char *what)
{
	if (e == cudaSuccess)
		return true;
	fprintf(stderr, "doppel: rank %d: %s: %s\n", me->rank, what,
		cudaGetErrorString((cudaError_t)e));
	lab_survive_error(me, ncclUnhandledCudaError, what, true);
	lab_rank_fail(me, ncclUnhandledCudaError, what);
	return false;
}

/* Buffers hold the largest size with a guard on both sides; everything is allocated before the
 * first launch, as real GPUs need it. */
bool lab_rank_alloc(struct lab_rank *me)
{
	ASSERT(!me->staging && !me->stream);
	me->staging = malloc(2 * LAB_STAGING_BYTES); /* the second half: what must be there */
	if (!me->staging) {
		lab_rank_fail(me, ncclSystemError, "no memory for staging");
		return false;
	}
	return lab_rank_check_cuda(me, cudaSetDevice(me->device), "cudaSetDevice") &&
	       lab_buffers_alloc(me) &&
	       lab_rank_check_cuda(me,
				   cudaStreamCreateWithFlags((cudaStream_t *)&me->stream,
							     cudaStreamNonBlocking),
				   "cudaStreamCreateWithFlags") &&
	       lab_rank_check_cuda(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->start, 0),
				   "cudaEventCreateWithFlags") &&
	       lab_rank_check_cuda(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->end, 0),
				   "cudaEventCreateWithFlags") &&
	       lab_rank_check_cuda(me, (cudaError_t)lab_transient_make(me), "cudaMalloc") &&
	       lab_rank_check_cuda(me, lab_factor_make(me), "cudaMalloc") &&
	       lab_rank_check_cuda(me, lab_ticks_make(me), "cudaEventCreateWithFlags") &&
	       lab_rank_check_cuda(me, lab_mixed_make(me), "cudaMalloc") &&
	       lab_rank_check_cuda(me, lab_streams_make(me), "streams");
}

/* The rank's memory, and then the start of what its communicators take. */
static bool lab_rank_prepare(struct lab_rank *me)
{
	bool ok = lab_rank_alloc(me);

	if (ok)
		lab_cuda_state_start(me);
	if (ok && me->run->config->queries)
		lab_queries_memory_start(me);
	return ok;
}

void lab_rank_free(struct lab_rank *me)
{
	lab_streams_free(me);
	lab_ticks_free(me);
	lab_mixed_free(me);
	lab_factor_free(me);
	lab_transient_free(me);
	if (me->end)
		cudaEventDestroy(me->end);
	if (me->start)
		cudaEventDestroy(me->start);
	if (me->stream)
		cudaStreamDestroy(me->stream);
	lab_buffer_free(me, &me->recv);
	lab_buffer_free(me, &me->send);
	free(me->staging);
	me->staging = NULL;
}

static bool lab_rank_make_id(struct lab_rank *me)
{
	const struct lab_spread *spread = me->run->config->spread;
	ncclResult_t r = ncclSuccess;
	if (!spread)
		r = ncclGetUniqueId(&me->run->id);
	else if (!spread->get_id(spread->first == 0, &me->run->id, spread->arg))
		r = ncclSystemError;
	for (uint32_t i = 1; !r && i < lab_comms_inits(me); i++)
		r = ncclGetUniqueId(&me->run->other_id[i - 1]);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclGetUniqueId");
	return r == ncclSuccess;
}

/* A rank after the first makes an id of the communicator. */
static bool lab_rank_make_root(struct lab_rank *me)
{
	ASSERT(me->rank > 0 && me->rank <= LAB_MORE_IDS); /* lab_roots */
	ncclResult_t r = ncclGetUniqueId(&me->run->root_id[me->rank - 1]);

	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclGetUniqueId");
	return r == ncclSuccess;
}

/* Rank 0 makes the id, or the first ranks make one each, and the launcher hands them to the
 * others. */
static bool lab_rank_get_id(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	const int32_t roots = lab_roots(me);
	if (lab_leads(me) && !lab_rank_make_id(me))
		return false;
	if (!lab_leads(me) && me->rank < roots && !lab_rank_make_root(me))
		return false;
	if (lab_leads(me) && roots == 1)
		shared_store_u32(&run->id_ready, 1, SHARED_RELEASE);
	else if (me->rank < roots)
		shared_add_u32(&run->id_ready, 1, SHARED_RELEASE);
	struct wait w = wait_word(&run->id_ready, 4, WAIT_EQ, (uint64_t)roots,
				  "harness: the unique id", wait_by(0, -1, NULL));
	/* an id that is made is used: its root waits for a rank 0 that comes, or fails in its
	 * init */
	return os_wait_one(&w, &run->failed) == 0 || (run->armed && lab_leads(me));
}

/* False: a communicator of the rank has failed. */
static bool lab_rank_check_comm(struct lab_rank *me)
{
	ncclResult_t r = lab_comms_error(me);

	if (r == ncclSuccess)
		return true;
	if (!shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
		lab_rank_fail(me, r, "ncclCommGetAsyncError");
	return false;
}

/* Polls the stream and the communicator. */
static bool lab_rank_poll(struct lab_rank *me)
{
	for (;;) {
		cudaError_t e = cudaStreamQuery(me->stream);
		/* an abort ends kernels, and so the stream: complete, but without a result */
		if (e == cudaSuccess)
			return !me->run->armed || !me->comm || lab_rank_check_comm(me);
		if (e != cudaErrorNotReady)
			return lab_rank_check_cuda(me, e, "cudaStreamQuery");
		if (me->comm && !lab_rank_check_comm(me))
			return false;
		/* with faults, the stack reports failures of ranks, except within a program */
		if (lab_team_troubled(me) ||
		    (!me->run->armed && shared_load_u32(&me->run->failed, SHARED_ACQUIRE)))
			return false;
	}
}

/* Waits for the stream as nccl-tests does. */
bool lab_rank_sync(struct lab_rank *me)
{
	lab_call(me, "its stream's work");
	lab_quiet_wait(me);
	bool ok = lab_rank_poll(me);
	lab_call(me, NULL);
	return ok;
}

bool lab_rank_copy(struct lab_rank *me, void *dst, const void *src, size_t bytes, bool to_gpu)
{
	cudaError_t e = cudaMemcpyAsync(dst, src, bytes,
					to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
					me->stream);
	return lab_rank_check_cuda(me, e, "cudaMemcpyAsync") && lab_rank_sync(me);
}

static ncclResult_t rank_drive_init(struct lab_rank *it, void *arg)
{
	(void)arg;
	lab_call(it, "ncclCommInitRank");
	ncclResult_t r = lab_comms_init(it);
	lab_call(it, NULL);
	return r;
}

/* Ranks of a program do not start at the same time, nor end. */
static void lab_rank_late(const struct lab_rank *me, const char *what)
{
	const uint64_t most_ms = me->run->config->late * 1000ull;
	struct sim_rng rng;

	sim_rng_seed(&rng, me->run->config->sim.seed + (uint64_t)me->rank, what);
	if (most_ms)
		os_sleep_ns(sim_rng_below(&rng, most_ms + 1) * 1000000);
}

/* An init with a deadline returns in time although another rank stalls in the middle of it. */
static void rank_init_judge(const struct lab_rank *me, uint64_t start_ns)
{
	uint64_t ns = os_now_ns() - start_ns, ms = lab_timeout_ms(me->run->config);

	if (!ms || !me->run->armed || me->team || sim_fault_hit_rank(me->rank) ||
	    ns <= ms * 1250000 + RANK_INIT_NS)
		return;
	lab_judge(me, SIM_NO_PROGRESS, "liveness",
		  "ncclCommInitRank has returned after %.3f s, expected at most 5/4 of "
		  "DOPPEL_TIMEOUT_MS=%llu and %llu s",
		  (double)ns * 1e-9, (unsigned long long)ms, RANK_INIT_NS / 1000000000);
}

static bool lab_rank_init(struct lab_rank *me)
{
	const struct lab_drive call = {
		.fn = rank_drive_init, .name = "ncclCommInitRank", .grouped = true};
	ncclResult_t r;

	me->phase = LAB_INIT;
	lab_rank_late(me, "lab.late");
	const uint64_t start_ns = os_now_ns();

	if (lab_drive(me, &call, &r)) {
		if (r && me->team) /* a group that fails leaves no communicator */
			lab_comms_none(me);
	} else {
		/* see lab_rank_get_id: the id's root waits for its rank 0 */
		if (!me->run->armed || !lab_leads(me))
			return false;
		r = rank_drive_init(me, NULL);
	}
	rank_init_judge(me, start_ns);
	if (r == ncclSuccess)
		return true;
	if (!shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
		lab_rank_fail(me, r, "ncclCommInitRank");
	return false;
}

static ncclResult_t rank_drive_destroy(struct lab_rank *it, void *arg)
{
	(void)arg;
	lab_call(it, "ncclCommDestroy");
	ncclResult_t r = lab_comms_destroy(it);
	lab_call(it, NULL);
	return r;
}

/* True: its communicators are destroyed, with this result. */
static bool lab_rank_destroy(struct lab_rank *me, ncclResult_t *r)
{
	const struct lab_drive call = {
		.fn = rank_drive_destroy, .name = "ncclCommDestroy", .ends = true};

	return lab_drive(me, &call, r);
}

/* True: by destroying it, with success. */
static bool lab_rank_leave(struct lab_rank *me, bool ok)
{
	bool there = lab_comms_any(me) && !shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE);
	const char *call = "ncclCommAbort";
	ncclResult_t r = ncclSuccess;

	me->phase = LAB_END;
	if (ok)
		lab_rank_late(me, "lab.late_end");
	ok = ok && there && lab_rank_destroy(me, &r);
	if (!ok && me->team)
		r = lab_team_abort(me);
	else if (!ok && there)
		r = lab_leave_trouble(me, &call);
	if (r != ncclSuccess && !shared_load_u32(&me->watch_aborted, SHARED_ACQUIRE))
		lab_rank_fail(me, r, ok ? "ncclCommDestroy" : call);
	if (ok && r == ncclSuccess)
		lab_queries_memory_end(me);
	return ok && r == ncclSuccess;
}

/* Makes the calls that follow the series. */
static bool lab_rank_others(struct lab_rank *me)
{
	lab_queries_of_run(me);
	lab_refused(me, "lab.refused");
	return lab_init_fails(me, false) && lab_mixed(me) && lab_ras_meet(me) && lab_scenes(me);
}

/* The life of a rank: init, work, and either an orderly end or an abort. */
void lab_rank_main(void *arg)
{
	struct lab_rank *me = arg;
	struct lab_run *run = me->run;
	struct lab_row hurried;
	bool ok = lab_rank_watch_start(me) && lab_rank_prepare(me) && lab_init_fails(me, true) &&
		  lab_rank_get_id(me) && lab_rank_init(me);
	if (ok && run->config->on_ready)
		run->config->on_ready(me->rank, me->comm, run->config->on_ready_arg);
	me->phase = ok ? LAB_WORK : me->phase;
	if (ok)
		lab_queries_of_run(me);
	me->worked = ok;
	ok = ok && lab_polls_start(me) && lab_ras_start(me) && lab_idle_start(me) &&
	     lab_register(me) && lab_rank_series(me) && lab_rank_others(me);
	if (ok && lab_leads(me) && run->config->table)
		lab_table_footer(run);
	/* what a running collective uses stays registered: the communicator's end is its end */
	if (ok)
		ok = run->config->hasty ? lab_rank_hurry(me, &hurried)
					: lab_deregisters_late(me) || lab_deregister(me);
	lab_ras_end(me);
	if (!ok)
		lab_survive_learn(me);
	ok = lab_rank_leave(me, ok);
	lab_polls_end(me);
	lab_idle_end(me);
	shared_store_u32(&me->done, 1, SHARED_RELEASE);
	if (me->watch)
		os_thread_join(me->watch);
	me->phase = LAB_OVER;
	me->comm = NULL;
	/* a destroy succeeds after the rank's watchdog has had the error; the results are lost */
	if (ok && !me->error_call && run->config->hasty && run->config->check)
		(void)lab_rank_check(me, &hurried);
	lab_survive_second(me);
	lab_rank_free(me);
}
