/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/life/life.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/life/life_internal.h"
#include "sim/world/world.h"

const char *lab_phase_name(enum lab_phase phase)
{
	static const char *const names[] = {"set-up", "init", "work", "end", "over"};

	_Static_assert(ARRAY_LEN(names) == LAB_OVER + 1, "a name for each phase");
	return (unsigned)phase < ARRAY_LEN(names) ? names[phase] : "?";
}

/* ---- errors --------------------------------------------------------------------------------- */

bool life_check(struct lab_rank *me, ncclResult_t rc, const char *call)
{
	struct lab_life_rank *out = me->self->out;
	if (rc == ncclSuccess)
		return true;
	ASSERT(out->phase != LAB_OVER); /* then errors are those of the second communicator */
	if (!out->call) {
		out->error = rc;
		out->call = call;
		out->error_phase = out->phase;
	}
	return false;
}

/* The program's own calls: what fails here a launcher notices, the stack does not. */
static void life_outside(struct lab_rank *me, ncclResult_t rc, const char *call)
{
	if (!me->self->out->call)
		me->self->out->outside = true;
	shared_add_u32(&me->run->trouble, 1, SHARED_ACQ_REL);
	(void)life_check(me, rc, call);
}

static bool life_check_cuda(struct lab_rank *me, cudaError_t e, const char *call)
{
	if (e == cudaSuccess)
		return true;
	life_outside(me, ncclUnhandledCudaError, call);
	return false;
}

bool life_point(struct lab_rank *me)
{
	struct lab_life *life = me->self->life;
	if (me->rank != life->abort_rank || ++me->self->points != life->abort_point)
		return true;
	life->abort_fired = true;
	sim_expect_errors();
	me->self->out->aborted = true;
	return false;
}

/* ---- waits ---------------------------------------------------------------------------------- */

struct wait life_wait(const shared_u32 *word, const char *why, int32_t from)
{
	return wait_word(word, 4, WAIT_NE, 0, why, wait_by(from, -1, NULL));
}

struct wait life_wait_trouble(const struct lab_rank *me)
{
	return life_wait(&me->run->trouble, "harness: a death, or an error outside the stack", -1);
}

/* ---- the watch ------------------------------------------------------------------------------ */

/* Another task of the program: calls ncclCommAbort at the time that the run wants, or when the
 * launcher has it do so. */
static void life_watch_abort(struct lab_rank *me, bool *by)
{
	ncclComm_t comm = __atomic_load_n(&me->comm, __ATOMIC_ACQUIRE);
	if (!comm || shared_load_u32(&me->self->done, SHARED_ACQUIRE))
		return;
	*by = true;
	me->self->ended = comm;
	shared_store_u32(&me->self->aborted, 1, SHARED_RELEASE);
	(void)ncclCommAbort(comm);
}

void lab_life_abort_now(void *arg)
{
	struct lab_life *life = arg;

	lab_word_set(&life->abort_now, 1);
}

/* Until the moment at which the program wants to abort; false: the rank left before. */
static bool life_wait_abort_time(struct lab_rank *me, struct wait *done)
{
	struct lab_life *life = me->self->life;
	const struct wait now =
		life_wait(&life->abort_now, "harness: the moment of the abort", me->rank);
	const struct wait *both[2] = {done, &now};
	int which = 0;
	int rc;

	ASSERT(life->abort_ns || life->abort_awaited); /* a deadline of 0 never comes */
	if (life->abort_awaited)
		return os_wait(both, 2, NULL, &which) == 0 && which == 1;
	done->deadline_ns = life->abort_ns;
	rc = os_wait_one(done, NULL);
	done->deadline_ns = 0;
	return rc == ETIMEDOUT;
}

/* A program that polls does so again and again. In engine sim a poll that finds nothing sleeps
 * until something changes, and does not see that an init has taken too long. */
static void life_watch_polls(struct lab_rank *me)
{
	ncclComm_t comm = __atomic_load_n(&me->comm, __ATOMIC_ACQUIRE);
	ncclResult_t async;

	if (comm && me->self->life->nonblocking &&
	    !shared_load_u32(&me->self->done, SHARED_ACQUIRE))
		(void)ncclCommGetAsyncError(comm, &async);
}

static void life_watch(void *arg)
{
	struct lab_rank *me = arg;
	struct lab_life *life = me->self->life;
	struct wait w[2] = {
		life_wait(&me->self->done, "harness: the rank to leave its communicator", me->rank),
		life_wait_trouble(me),
	};
	const struct wait *both[2] = {&w[0], &w[1]};
	int which = 0;

	if (me->rank == life->abort_rank && (life->abort_ns || life->abort_awaited) &&
	    life_wait_abort_time(me, &w[0])) {
		sim_expect_errors();
		life_watch_abort(me, &me->self->out->aborted);
		life->abort_fired = me->self->out->aborted;
		life->abort_early = !life->abort_fired;
	}
	(void)os_wait(both, 2, NULL, &which);
	if (which == 0)
		return;
	w[0].deadline_ns = os_now_ns() + LAB_LAUNCHER_NS / 2;
	if (os_wait_one(&w[0], NULL) != ETIMEDOUT)
		return;
	life_watch_polls(me);
	w[0].deadline_ns = os_now_ns() + LAB_LAUNCHER_NS / 2;
	if (os_wait_one(&w[0], NULL) == ETIMEDOUT)
		life_watch_abort(me, &me->self->out->launcher_aborted);
}

/* ---- the first communicator ----------------------------------------------------------------- */

static bool life_id(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	const struct wait w[2] = {life_wait(&run->id_ready, "harness: the unique id", 0),
				  life_wait_trouble(me)};
	const struct wait *both[2] = {&w[0], &w[1]};

	if (me->rank == 0) {
		ncclResult_t rc = ncclGetUniqueId(&run->id);
		shared_store_u32(&run->id_ready, rc ? 2 : 1, SHARED_RELEASE);
		return life_check(me, rc, "ncclGetUniqueId");
	}
	(void)os_wait(both, 2, NULL, NULL);
	if (shared_load_u32(&run->id_ready, SHARED_ACQUIRE) == 1)
		return true;
	me->self->out->outside = true; /* the launcher did not even start it */
	return life_check(me, ncclRemoteError, "launcher");
}

ncclResult_t life_poll(struct lab_rank *me)
{
	ncclResult_t async = ncclSuccess, rc = ncclCommGetAsyncError(me->comm, &async);
	return rc ? rc : async;
}

static bool life_init(struct lab_rank *me)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc;

	ASSERT(!me->comm && me->rank < me->self->n);
	config.blocking = !me->self->life->nonblocking;
	rc = ncclCommInitRankConfig(&me->comm, me->self->n, me->run->id, me->rank, &config);
	while (rc == ncclInProgress) {
		if (!life_point(me))
			return false;
		rc = life_poll(me);
	}
	return life_check(me, rc, "ncclCommInitRankConfig") && life_point(me);
}

/* Waits for the stream as a program does that wants to know of errors. */
static bool life_sync(struct lab_rank *me)
{
	for (;;) {
		cudaError_t e = cudaStreamQuery(me->stream);
		if (e == cudaSuccess)
			return true;
		if (e != cudaErrorNotReady)
			return life_check_cuda(me, e, "cudaStreamQuery");
		if (!life_check(me, life_poll(me), "ncclCommGetAsyncError") || !life_point(me))
			return false;
	}
}

static bool life_copy(struct lab_rank *me, void *to, const void *from, size_t bytes,
		      enum cudaMemcpyKind kind)
{
	return life_check_cuda(me, cudaMemcpyAsync(to, from, bytes, kind, me->stream),
			       "cudaMemcpyAsync") &&
	       life_sync(me);
}

/* The call; a non-blocking communicator may have to connect ranks for it first. */
static bool life_start(struct lab_rank *me, const struct lab_row *row)
{
	ncclResult_t rc =
		lab_row_start(row, 0, me->self->index, me->send, me->recv, me->comm, me->stream);

	while (rc == ncclInProgress) {
		if (!life_point(me))
			return false;
		rc = life_poll(me);
	}
	return life_check(me, rc, row->collective->call);
}

/* One collective of int32, whose larger buffer has so many elements. */
static bool life_collective(struct lab_rank *me, size_t elements, uint64_t salt)
{
	const struct lab_config *c = me->run->config;
	struct payload p = {.type = ncclInt32, .op = ncclSum, .nranks = me->self->n, .salt = salt};
	struct lab_row row =
		lab_row_make(c->collective, &p, MAX_OF(c->root, 0), elements * sizeof(int32_t), 1);
	size_t in = lab_row_elements(&row, LAB_SEND), out = lab_row_elements(&row, LAB_RECV);
	uint64_t where = 0;

	ASSERT(2 * row.bytes <= LAB_STAGING_BYTES);
	ASSERT(me->comm && me->self->index < me->self->n);
	payload_fill(&row.payload, me->self->index, 0, in, me->staging);
	if (!life_copy(me, me->send, me->staging, in * sizeof(int32_t), cudaMemcpyHostToDevice) ||
	    !life_point(me))
		return false;
	if (!life_start(me, &row) || !life_point(me) || !life_sync(me) || !life_point(me) ||
	    !life_copy(me, me->staging, me->recv, out * sizeof(int32_t), cudaMemcpyDeviceToHost))
		return false;
	/* an abort ends kernels, and so the stream: complete, but without a result */
	if (shared_load_u32(&me->self->aborted, SHARED_ACQUIRE))
		return false;
	if (lab_row_wrong(&row, me->self->index, me->staging, me->staging + LAB_STAGING_BYTES,
			  &where)) {
		os_mutex_lock(&me->run->lock);
		me->run->wrong++;
		os_mutex_unlock(&me->run->lock);
		fprintf(stderr, "life: rank %d: wrong result at element %" PRIu64 " of %zu\n",
			me->rank, where, out);
	}
	return true;
}

/* Ends a communicator that the watch has not ended. */
static void life_end_one(struct lab_rank *me, ncclComm_t comm, bool ok)
{
	struct lab_life_self *self = me->self;
	bool aborted = shared_load_u32(&self->aborted, SHARED_ACQUIRE);

	if (!comm || (aborted && self->ended == comm))
		return;
	ncclResult_t rc = ok ? ncclCommDestroy(comm) : ncclCommAbort(comm);
	if (!shared_load_u32(&self->aborted, SHARED_ACQUIRE))
		(void)life_check(me, rc, ok ? "ncclCommDestroy" : "ncclCommAbort");
}

/* `first`: the communicator that the rank has split; NULL: none. */
static void life_end(struct lab_rank *me, ncclComm_t first, bool ok)
{
	ncclComm_t comm = me->comm;

	me->self->out->phase = LAB_END;
	ok = ok && me->self->life->stage != LAB_STAGE_ABORT;
	life_end_one(me, comm, ok);
	if (first != comm)
		life_end_one(me, first, ok && !shared_load_u32(&me->self->aborted, SHARED_ACQUIRE));
}

/* A child whose handle came after the rank had given up; its parent has ended by now. */
static void life_end_late(struct lab_rank *me)
{
	ncclComm_t child = __atomic_load_n(&me->self->child, __ATOMIC_ACQUIRE);

	if (child != me->comm)
		life_end_one(me, child, false);
}

/* The communicator of the start: of all ranks, or without one that joins later. */
static bool life_begin(struct lab_rank *me)
{
	struct lab_life_self *self = me->self;

	self->n = me->run->nranks - (self->life->stage == LAB_STAGE_GROW);
	ASSERT(self->n > 0); /* a communicator that grows has a rank before */
	self->index = me->rank;
	if (life_joins_later(me)) {
		self->out->newcomer = true;
		return true;
	}
	return life_init(me);
}

/* True: every call succeeded. */
static bool life_first(struct lab_rank *me)
{
	struct lab_life_rank *out = me->self->out;
	ncclComm_t first = NULL;
	bool ok = life_id(me), runs = true;

	if (!ok)
		return false;
	out->phase = LAB_INIT;
	ok = life_begin(me);
	first = me->comm;
	if (ok && first) {
		out->phase = LAB_WORK;
		ok = life_collective(me, 16, 1);
	}
	ok = ok && life_stage(me, first, &runs);
	out->phase = LAB_WORK;
	ok = ok && (!runs || life_collective(me, 12000, 2)) && life_stage_ends(me);
	life_end(me, first, ok);
	return ok;
}

/* ---- the whole life ------------------------------------------------------------------------- */

static bool life_watch_start(struct lab_rank *me)
{
	char name[32];
	struct os_thread_attr attr = {.name = name, .rank = -1};
	snprintf(name, sizeof name, "rank%d watch", me->rank);
	if (os_thread_start(&me->self->watch, &attr, life_watch, me) == 0)
		return true;
	me->self->watch = NULL;
	return false;
}

/* Anything that another rank could have been hurt by. */
static bool life_was_trouble(const struct lab_run *run)
{
	for (int32_t r = 0; r < run->nranks; r++) {
		const struct lab_life_rank *out = &run->config->life->rank[r];
		if (out->dead || out->call || out->aborted || out->launcher_aborted)
			return true;
	}
	return false;
}

static void life_second(struct lab_rank *me)
{
	struct lab_life_rank *out = me->self->out;

	me->self->life->second = true;
	out->second_error = ncclUnhandledCudaError;
	out->second_call = "cudaMalloc";
	if (lab_recover_alloc(me))
		out->second_error = lab_recover(me, &out->second_call);
	out->recovered = out->second_error == ncclSuccess;
}

/* No survivor. A GPU with a sticky error stays dead, whatever heals, until its process ends. */
static void life_lost(struct lab_rank *me)
{
	void *mem = NULL;

	me->self->out->lost = true;
	lab_leave(me);
	const struct wait w =
		life_wait(&me->run->go, "harness: all survivors to leave the communicator", -1);

	(void)os_wait_one(&w, NULL);
	me->self->out->revived = !lab_gpu_dead(me) || cudaStreamQuery(me->stream) == cudaSuccess ||
				 cudaMalloc(&mem, 4096) == cudaSuccess;
}

void lab_life_main(void *arg)
{
	struct lab_rank *me = arg;
	struct lab_life *life = me->run->config->life;
	struct lab_life_self self = {.life = life, .out = &life->rank[me->rank]};

	ASSERT(me->run->nranks <= LAB_LIFE_RANKS);
	/* each run has a life of its own */
	ASSERT(self.out->phase == LAB_SETUP && !self.out->call);

	life->nranks = me->run->nranks;
	me->self = &self;
	if (lab_rank_alloc(me)) {
		if (life_watch_start(me))
			(void)life_first(me);
		else
			life_outside(me, ncclSystemError, "os_thread_start");
	} else {
		(void)life_check_cuda(me, cudaErrorMemoryAllocation, "cudaMalloc");
	}
	shared_store_u32(&self.done, 1, SHARED_RELEASE);
	if (self.watch)
		os_thread_join(self.watch);
	life_end_late(me);
	self.out->phase = LAB_OVER;
	/* a launcher sees that the program ends with an error */
	if (self.out->call || self.out->aborted)
		shared_add_u32(&me->run->trouble, 1, SHARED_ACQ_REL);
	self.out->left_ns = os_now_ns();
	me->comm = NULL;
	if (life->sticky && lab_gpu_dead(me)) {
		life_lost(me);
	} else {
		(void)lab_wait_survivors(me);
		bool late = life->sticky && lab_gpu_dead_late(me);
		self.out->lost = late && lab_gpu_dead(me);
		if (life_was_trouble(me->run) && !late)
			life_second(me);
	}
	lab_rank_free(me);
}
