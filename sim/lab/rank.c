/* SPDX-License-Identifier: BSD-3-Clause */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/runner_internal.h"
#include "sim/world/world.h"

/* More than the engine lets pass before pollers look once more. */
#define LAB_WATCH_AGAIN_NS 200000000ull
#define LAB_HURRY_SALT     0x68757272ull

/* The first error ends the run for everybody: ranks that wait see `failed` and abort. */
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
		sim_note_trouble("error", me->rank, "rank %d: %s: %s", me->rank, what,
				 ncclGetErrorString(error));
	else if (first && !run->config->errors_allowed)
		sim_note_failure(SIM_ERROR, "error", me->rank, "rank %d: %s: %s", me->rank, what,
				 ncclGetErrorString(error));
	fprintf(stderr, "doppel: rank %d: %s: %s\n", me->rank, what, ncclGetErrorString(error));
	shared_store_u32(&run->failed, 1, SHARED_RELEASE);
}

bool lab_rank_cuda_ok(struct lab_rank *me, int e, const char *what)
{
	if (e == cudaSuccess)
		return true;
	fprintf(stderr, "doppel: rank %d: %s: %s\n", me->rank, what,
		cudaGetErrorString((cudaError_t)e));
	lab_survive_error(me, ncclUnhandledCudaError, what, true);
	lab_rank_fail(me, ncclUnhandledCudaError, what);
	return false;
}

/* All ranks' tasks meet; false when somebody failed instead. */
static bool lab_barrier(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	uint64_t round = ++me->arrivals;
	shared_add_u64(&run->arrived, 1, SHARED_ACQ_REL);
	struct wait w = {
		.on = &run->arrived,
		.bytes = 8,
		.kind = WAIT_GE,
		.mask = WAIT_MASK_ALL,
		.want = round * (uint64_t)run->count,
		.why = "harness: all ranks between two operations",
		.from = {.rank = -1, .channel = -1, .step = -1},
	};
	return os_wait_one(&w, &run->failed) == 0;
}

/* Buffers hold the largest size with a guard on both sides; everything is allocated before the
 * first launch, as real GPUs need it. */
bool lab_rank_alloc(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	size_t send = lab_send_bytes(c) + 2 * LAB_GUARD_BYTES;
	size_t recv = MAX_OF(c->bytes_max, LAB_SMALL_BYTES) + 2 * LAB_GUARD_BYTES;
	me->staging = malloc(2 * LAB_STAGING_BYTES); /* the second half: what must be there */
	if (!me->staging) {
		lab_rank_fail(me, ncclSystemError, "no memory for staging");
		return false;
	}
	return lab_rank_cuda_ok(me, cudaSetDevice(me->device), "cudaSetDevice") &&
	       lab_rank_cuda_ok(me, cudaMalloc((void **)&me->send, send), "cudaMalloc") &&
	       lab_rank_cuda_ok(me, cudaMalloc((void **)&me->recv, recv), "cudaMalloc") &&
	       lab_rank_cuda_ok(me,
				cudaStreamCreateWithFlags((cudaStream_t *)&me->stream,
							  cudaStreamNonBlocking),
				"cudaStreamCreateWithFlags") &&
	       lab_rank_cuda_ok(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->start, 0),
				"cudaEventCreateWithFlags") &&
	       lab_rank_cuda_ok(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->end, 0),
				"cudaEventCreateWithFlags") &&
	       lab_rank_cuda_ok(me, (cudaError_t)lab_transient_make(me), "cudaMalloc") &&
	       lab_rank_cuda_ok(me, lab_streams_make(me), "streams");
}

void lab_rank_free(struct lab_rank *me)
{
	lab_streams_free(me);
	lab_transient_free(me);
	if (me->end)
		cudaEventDestroy(me->end);
	if (me->start)
		cudaEventDestroy(me->start);
	if (me->stream)
		cudaStreamDestroy(me->stream);
	if (me->recv)
		cudaFree(me->recv);
	if (me->send)
		cudaFree(me->send);
	free(me->staging);
	me->staging = NULL;
}

/* The first rank of this process: it does once what is done for all of them. */
static bool lab_leads(const struct lab_rank *me)
{
	return me == me->run->rank;
}

static bool lab_rank_make_id(struct lab_rank *me)
{
	const struct lab_spread *spread = me->run->config->spread;
	ncclResult_t r = ncclSuccess;
	if (!spread)
		r = ncclGetUniqueId(&me->run->id);
	else if (!spread->get_id(spread->first == 0, &me->run->id, spread->arg))
		r = ncclSystemError;
	for (uint32_t i = 1; !r && i < lab_comms(me->run->config); i++)
		r = ncclGetUniqueId(&me->run->other_id[i - 1]);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclGetUniqueId");
	return r == ncclSuccess;
}

/* Rank 0 makes the id and the launcher hands it to the others. */
static bool lab_rank_get_id(struct lab_rank *me)
{
	struct lab_run *run = me->run;
	if (lab_leads(me)) {
		if (!lab_rank_make_id(me))
			return false;
		shared_store_u32(&run->id_ready, 1, SHARED_RELEASE);
	}
	struct wait w = {
		.on = &run->id_ready,
		.bytes = 4,
		.kind = WAIT_EQ,
		.mask = WAIT_MASK_ALL,
		.want = 1,
		.why = "harness: the unique id",
		.from = {.rank = 0, .channel = -1, .step = -1},
	};
	/* an id that is made is used: its root waits for a rank 0 that comes, or fails in its init */
	return os_wait_one(&w, &run->failed) == 0 || (run->armed && lab_leads(me));
}

/* What the communicator says of itself. */
static bool lab_rank_comm_ok(struct lab_rank *me)
{
	ncclResult_t r = lab_comms_error(me);

	if (r == ncclSuccess)
		return true;
	if (!shared_load_u32(&me->told, SHARED_ACQUIRE))
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
			return !me->run->armed || !me->comm || lab_rank_comm_ok(me);
		if (e != cudaErrorNotReady)
			return lab_rank_cuda_ok(me, e, "cudaStreamQuery");
		if (me->comm && !lab_rank_comm_ok(me))
			return false;
		/* with faults, it is the stack that passes on bad news, but within a program */
		if (lab_team_troubled(me) ||
		    (!me->run->armed && shared_load_u32(&me->run->failed, SHARED_ACQUIRE)))
			return false;
	}
}

/* Waits for the stream as nccl-tests does. */
bool lab_rank_sync(struct lab_rank *me)
{
	lab_call(me, "its stream's work");
	lab_quiet(me);
	bool ok = lab_rank_poll(me);
	lab_call(me, NULL);
	return ok;
}

bool lab_rank_copy(struct lab_rank *me, void *dst, const void *src, size_t bytes, bool to_gpu)
{
	cudaError_t e = cudaMemcpyAsync(dst, src, bytes,
					to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
					me->stream);
	return lab_rank_cuda_ok(me, e, "cudaMemcpyAsync") && lab_rank_sync(me);
}

/* One part of the row's collective. */
static bool lab_rank_part(struct lab_rank *me, const struct lab_row *row, uint32_t part)
{
	uint8_t *recv = me->recv + LAB_GUARD_BYTES;
	uint8_t *send = row->in_place ? recv : me->send + LAB_GUARD_BYTES;

	lab_call(me, row->collective->call);
	ncclResult_t r = lab_row_start(row, part, me->rank, send, recv, lab_comms_pick(me, part),
				       lab_streams_pick(me, part));
	lab_call(me, NULL);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, row->collective->call);
	return r == ncclSuccess;
}

/* Parts from first on, in a group when there may be several. A group that was begun ends. */
static bool lab_rank_group(struct lab_rank *me, const struct lab_row *row, uint32_t first,
			   uint32_t n)
{
	bool grouped = me->run->config->group > 1, ok = true;
	ncclResult_t r = grouped ? ncclGroupStart() : ncclSuccess;

	if (r != ncclSuccess) {
		lab_rank_fail(me, r, "ncclGroupStart");
		return false;
	}
	for (uint32_t i = 0; ok && i < n; i++)
		ok = lab_rank_part(me, row, first + i);
	if (!grouped)
		return ok;
	lab_call(me, "ncclGroupEnd");
	r = ncclGroupEnd();
	lab_call(me, NULL);
	if (ok && r != ncclSuccess)
		lab_rank_fail(me, r, "ncclGroupEnd");
	return ok && r == ncclSuccess;
}

struct rank_parts {
	const struct lab_row *row;
	uint32_t first, n;
};

/* What fails is reported where it fails. */
static ncclResult_t rank_drive_parts(struct lab_rank *it, void *arg)
{
	const struct rank_parts *p = arg;

	return lab_rank_group(it, p->row, p->first, p->n) ? ncclSuccess : ncclInternalError;
}

static bool lab_rank_parts(struct lab_rank *me, struct rank_parts parts)
{
	const struct lab_drive call = {rank_drive_parts, &parts, parts.row->collective->call, true};
	ncclResult_t r;

	if (!lab_drive(me, &call, &r))
		return false;
	if (r != ncclSuccess && !me->error_call)
		lab_rank_fail(me, r, "ncclGroupEnd");
	return r == ncclSuccess;
}

static bool lab_rank_enqueue(struct lab_rank *me, const struct lab_row *row, uint32_t times)
{
	uint32_t parts = row->parts, group = MAX_OF(me->run->config->group, 1u);
	bool ok = lab_rank_cuda_ok(me, lab_streams_fork(me), "streams that fork");

	for (uint32_t i = 0; ok && i < times; i++)
		for (uint32_t part = 0; ok && part < parts; part += group)
			ok = lab_rank_parts(
				me, (struct rank_parts){row, part, MIN_OF(group, parts - part)});
	return ok && lab_rank_cuda_ok(me, lab_streams_join(me), "streams that join");
}

static bool lab_rank_collective(struct lab_rank *me, const struct lab_row *row, uint32_t times)
{
	return lab_rank_enqueue(me, row, times) && lab_transients(me) && lab_rank_sync(me);
}

/* Timed by events in the stream: the host's polling, which is coarse, is not in the figure. */
static bool lab_rank_timed(struct lab_rank *me, const struct lab_row *row)
{
	float ms = 0;
	if (!lab_rank_cuda_ok(me, cudaEventRecord(me->start, me->stream), "cudaEventRecord") ||
	    !lab_rank_enqueue(me, row, me->run->config->iterations) ||
	    !lab_rank_cuda_ok(me, cudaEventRecord(me->end, me->stream), "cudaEventRecord") ||
	    !lab_transients(me) || !lab_rank_sync(me) ||
	    !lab_rank_cuda_ok(me, cudaEventElapsedTime(&ms, me->start, me->end),
			      "cudaEventElapsedTime"))
		return false;
	me->elapsed_ns = (uint64_t)((double)ms * 1e6 + 0.5);
	return true;
}

/* Timed first, then once more with fresh buffers and checked, as nccl-tests does. */
static bool lab_rank_row(struct lab_rank *me, const struct lab_row *row)
{
	const struct lab_config *c = me->run->config;

	if (!lab_rank_fill(me, row) || !lab_barrier(me))
		return false;
	if (c->warmup && !lab_rank_collective(me, row, c->warmup))
		return false;
	if (c->warmup && !lab_barrier(me))
		return false;
	if (!lab_rank_timed(me, row))
		return false;
	lab_bound_check(me, row);
	if (!c->check)
		return lab_barrier(me);
	/* One timed run of fresh data is its own check; else run once more. */
	bool fresh = c->iterations == 1 && c->warmup == 0;
	if (!fresh) {
		if (!lab_barrier(me) || !lab_rank_fill(me, row))
			return false;
		if (!row->in_place && !lab_rank_unwrite(me, row))
			return false;
		if (!lab_rank_sync(me) || !lab_barrier(me) || !lab_rank_collective(me, row, 1))
			return false;
	}
	return lab_rank_check(me, row) && lab_barrier(me);
}

static bool lab_rank_row_place(struct lab_rank *me, struct lab_row *row, bool in_place)
{
	struct lab_run *run = me->run;
	row->in_place = in_place;
	if (lab_leads(me))
		lab_progress_row(run, row);
	if (!lab_rank_recv_prepare(me, row) || !lab_rank_row(me, row))
		return false;
	if (lab_leads(me)) {
		run->operations++;
		lab_table_row(run, row);
	}
	return lab_barrier(me);
}

static bool lab_rank_size(struct lab_rank *me, const struct payload *p, int32_t root,
			  uint64_t bytes)
{
	struct lab_run *run = me->run;
	const struct lab_config *c = run->config;
	struct lab_row row = lab_row_make(c->collective, p, root, bytes, lab_parts(c));

	if (lab_leads(me)) {
		memset(run->row_wrong, 0, sizeof run->row_wrong);
		if (c->check && run->expect)
			lab_row_reduce(&row, run->expect);
	}
	if (!lab_barrier(me))
		return false;
	if (lab_collective_out_of_place(c->collective, c->out_of_place) &&
	    !lab_rank_row_place(me, &row, false))
		return false;
	return !lab_collective_in_place(c->collective, c->in_place) ||
	       lab_rank_row_place(me, &row, true);
}

static uint64_t lab_next_size(const struct lab_config *c, uint64_t bytes)
{
	if (c->factor >= 2)
		return bytes ? bytes * c->factor : 1;
	return bytes + MAX_OF(c->bytes_step, (uint64_t)1);
}

/* All sizes of one type, operation and root. */
static bool lab_rank_sizes(struct lab_rank *me, struct payload *p, int32_t root)
{
	const struct lab_config *c = me->run->config;

	for (uint64_t b = c->bytes_min; b <= c->bytes_max; b = lab_next_size(c, b)) {
		p->salt++;
		if (!lab_rank_size(me, p, root, b))
			return false;
	}
	return true;
}

/* Each type with each operation, where the collective has one, and each root, where it has one. */
static bool lab_rank_series(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	bool all = c->root == LAB_ALL_ROOTS && lab_collective_has_root(c->collective);
	int32_t first = all ? 0 : c->root, end = all ? me->run->nranks : c->root + 1;
	uint32_t ops = c->collective->reduces ? c->op_count : 1;
	struct payload p = {.nranks = me->run->nranks};

	for (uint32_t t = 0; t < c->type_count; t++)
		for (uint32_t o = 0; o < ops; o++)
			for (int32_t root = first; root < end; root++) {
				p.type = c->types[t];
				p.op = c->ops[o];
				if (!lab_rank_sizes(me, &p, root))
					return false;
			}
	return true;
}

/* One more, that no task waits for: the communicator is destroyed while it runs. */
static bool lab_rank_hurry(struct lab_rank *me, struct lab_row *row)
{
	const struct lab_config *c = me->run->config;
	const struct payload p = {.type = c->types[0],
				  .op = c->ops[0],
				  .nranks = me->run->nranks,
				  .salt = LAB_HURRY_SALT};

	*row = lab_row_make(c->collective, &p, MAX_OF(c->root, 0), c->bytes_max, lab_parts(c));
	row->in_place = lab_collective_in_place(c->collective, true);
	if (lab_leads(me) && me->run->expect)
		lab_row_reduce(row, me->run->expect);
	return lab_rank_fill(me, row) && lab_barrier(me) && lab_rank_enqueue(me, row, 1);
}

/* Until the rank has left (0), another one has failed (1), or, while transient communicators keep this
 * one from asking, its own have an error (2): their kernels then keep the GPU, and what the rank calls
 * for others may wait for it. */
static int lab_rank_watch_news(struct lab_rank *me, struct wait *w, const struct wait *const *both)
{
	ncclResult_t r = ncclSuccess;
	int which = 0;

	for (;;) {
		if (me->run->config->transient)
			w->deadline_ns = os_now_ns() + LAB_WATCH_AGAIN_NS;
		int rc = os_wait(both, 2, NULL, &which);
		w->deadline_ns = 0;
		if (rc != ETIMEDOUT)
			return rc ? 0 : which;
		if (shared_load_u32(&me->transient_on, SHARED_ACQUIRE))
			r = lab_comms_error(me);
		if (r) {
			lab_rank_fail(me, r, "ncclCommGetAsyncError");
			return 2;
		}
	}
}

/* And a transient one, if the rank was about to make it. */
static void lab_rank_watch_abort(struct lab_rank *me, struct wait *done)
{
	shared_store_u32(&me->told, 1, SHARED_RELEASE);
	(void)lab_comms_abort(me);
	while (me->run->config->transient) {
		done->deadline_ns = os_now_ns() + LAB_WATCH_AGAIN_NS;
		if (os_wait_one(done, NULL) != ETIMEDOUT)
			break;
		ncclComm_t comm = lab_transient_take(me);
		if (comm)
			(void)ncclCommAbort(comm);
	}
}

/* In a run with faults: what a launcher does for those who cannot know, because somebody died or
 * failed before anybody knew of it. Much later than the stack needs to tell by itself. */
static void lab_rank_watch(void *arg)
{
	struct lab_rank *me = arg;
	struct wait w[2] = {
		{.on = &me->done,
		 .bytes = 4,
		 .kind = WAIT_NE,
		 .mask = WAIT_MASK_ALL,
		 .why = "harness: the rank to leave its communicator",
		 .from = {.rank = me->rank, .channel = -1, .step = -1}},
		{.on = &me->run->failed,
		 .bytes = 4,
		 .kind = WAIT_NE,
		 .mask = WAIT_MASK_ALL,
		 .why = "harness: failure of a rank",
		 .from = {.rank = -1, .channel = -1, .step = -1}},
	};
	const struct wait *both[2] = {&w[0], &w[1]};
	int news = lab_rank_watch_news(me, &w[0], both);

	if (news == 2)
		lab_rank_watch_abort(me, &w[0]);
	if (news != 1)
		return;
	w[0].deadline_ns = os_now_ns() + lab_tell_ns();
	if (os_wait_one(&w[0], NULL) != ETIMEDOUT)
		return;
	if (!lab_comms_any(me))
		return;
	lab_survive_untold(me);
	fprintf(stderr, "doppel: rank %d did not notice the failure: the launcher aborts it\n",
		me->rank);
	lab_rank_watch_abort(me, &w[0]);
}

static bool lab_rank_watch_start(struct lab_rank *me)
{
	char name[32];
	struct os_thread_attr attr = {.name = name, .rank = -1};
	if (!sim_faults_armed())
		return true;
	snprintf(name, sizeof name, "rank%d watch", me->rank);
	if (os_thread_start(&me->watch, &attr, lab_rank_watch, me) == 0)
		return true;
	me->watch = NULL;
	lab_rank_fail(me, ncclSystemError, "no task for the watch");
	return false;
}

static ncclResult_t rank_drive_init(struct lab_rank *it, void *arg)
{
	(void)arg;
	lab_call(it, "ncclCommInitRank");
	ncclResult_t r = lab_comms_init(it);
	lab_call(it, NULL);
	return r;
}

static bool lab_rank_init(struct lab_rank *me)
{
	const struct lab_drive call = {rank_drive_init, NULL, "ncclCommInitRank", true};
	ncclResult_t r;

	me->phase = LAB_INIT;
	if (lab_drive(me, &call, &r)) {
		if (r && me->team) /* a group that fails leaves no communicator */
			lab_comms_none(me);
	} else {
		/* see lab_rank_get_id: the id's root waits for its rank 0 */
		if (!me->run->armed || !lab_leads(me))
			return false;
		r = rank_drive_init(me, NULL);
	}
	if (r == ncclSuccess)
		return true;
	if (!shared_load_u32(&me->told, SHARED_ACQUIRE))
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
	const struct lab_drive call = {rank_drive_destroy, NULL, "ncclCommDestroy", false};

	return lab_drive(me, &call, r);
}

static ncclResult_t lab_rank_abort(struct lab_rank *me)
{
	lab_call(me, "ncclCommAbort");
	ncclResult_t r = lab_comms_abort(me);
	lab_call(me, NULL);
	return r;
}

/* True: by destroying it, with success. */
static bool lab_rank_leave(struct lab_rank *me, bool ok)
{
	bool there = lab_comms_any(me) && !shared_load_u32(&me->told, SHARED_ACQUIRE);
	ncclResult_t r = ncclSuccess;

	me->phase = LAB_END;
	ok = ok && there && lab_rank_destroy(me, &r);
	if (!ok && me->team)
		r = lab_team_abort(me);
	else if (!ok && there)
		r = lab_rank_abort(me);
	if (r != ncclSuccess && !shared_load_u32(&me->told, SHARED_ACQUIRE))
		lab_rank_fail(me, r, ok ? "ncclCommDestroy" : "ncclCommAbort");
	return ok && r == ncclSuccess;
}

/* As a launcher's rank: init, work, and either an orderly end or an abort. */
void lab_rank_main(void *arg)
{
	struct lab_rank *me = arg;
	struct lab_run *run = me->run;
	struct lab_row hurried;
	bool ok = lab_rank_watch_start(me) && lab_rank_alloc(me) && lab_rank_get_id(me) &&
		  lab_rank_init(me);
	if (ok && run->config->on_ready)
		run->config->on_ready(me->rank, me->comm, run->config->on_ready_arg);
	me->phase = ok ? LAB_WORK : me->phase;
	ok = ok && lab_rank_series(me);
	if (ok && lab_leads(me) && run->config->table)
		lab_table_footer(run);
	ok = ok && (!run->config->hasty || lab_rank_hurry(me, &hurried));
	if (!ok)
		lab_survive_news(me);
	ok = lab_rank_leave(me, ok);
	shared_store_u32(&me->done, 1, SHARED_RELEASE);
	if (me->watch)
		os_thread_join(me->watch);
	me->phase = LAB_OVER;
	me->comm = NULL;
	if (ok && run->config->hasty && run->config->check)
		(void)lab_rank_check(me, &hurried);
	lab_survive_second(me);
	lab_rank_free(me);
}
