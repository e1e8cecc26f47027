/* SPDX-License-Identifier: BSD-3-Clause */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/runner_internal.h"
#include "sim/world/world.h"

#define LAB_HURRY_SALT 0x68757272ull

/* The first error ends the run for everybody: ranks that wait see `failed` and abort. */
static void lab_rank_fail(struct lab_rank *me, ncclResult_t error, const char *what)
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

static bool lab_rank_cuda_ok(struct lab_rank *me, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return true;
	fprintf(stderr, "doppel: rank %d: %s: %s\n", me->rank, what, cudaGetErrorString(e));
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
	size_t most = MAX_OF(me->run->config->bytes_max, LAB_RECOVER_COUNT * sizeof(int32_t));
	size_t bytes = most + 2 * LAB_GUARD_BYTES;
	me->staging = malloc(LAB_STAGING_BYTES);
	if (!me->staging) {
		lab_rank_fail(me, ncclSystemError, "no memory for staging");
		return false;
	}
	return lab_rank_cuda_ok(me, cudaSetDevice(me->device), "cudaSetDevice") &&
	       lab_rank_cuda_ok(me, cudaMalloc((void **)&me->send, bytes), "cudaMalloc") &&
	       lab_rank_cuda_ok(me, cudaMalloc((void **)&me->recv, bytes), "cudaMalloc") &&
	       lab_rank_cuda_ok(me,
				cudaStreamCreateWithFlags((cudaStream_t *)&me->stream,
							  cudaStreamNonBlocking),
				"cudaStreamCreateWithFlags") &&
	       lab_rank_cuda_ok(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->start, 0),
				"cudaEventCreateWithFlags") &&
	       lab_rank_cuda_ok(me, cudaEventCreateWithFlags((cudaEvent_t *)&me->end, 0),
				"cudaEventCreateWithFlags") &&
	       lab_rank_cuda_ok(me, (cudaError_t)lab_streams_make(me), "streams");
}

void lab_rank_free(struct lab_rank *me)
{
	lab_streams_free(me);
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
		/* with faults, it is the stack that passes on bad news */
		if (!me->run->armed && shared_load_u32(&me->run->failed, SHARED_ACQUIRE))
			return false;
	}
}

/* Waits for the stream as nccl-tests does. */
static bool lab_rank_sync(struct lab_rank *me)
{
	lab_call(me, "its stream's work");
	lab_quiet(me);
	bool ok = lab_rank_poll(me);
	lab_call(me, NULL);
	return ok;
}

static bool lab_rank_copy(struct lab_rank *me, void *dst, const void *src, size_t bytes,
			  bool to_gpu)
{
	cudaError_t e = cudaMemcpyAsync(dst, src, bytes,
					to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
					me->stream);
	return lab_rank_cuda_ok(me, e, "cudaMemcpyAsync") && lab_rank_sync(me);
}

/* Writes this rank's input at `to` and a pattern into its guards. */
static bool lab_rank_fill(struct lab_rank *me, const struct lab_row *row, uint8_t *to)
{
	size_t width = payload_type_bytes(row->payload.type), per = LAB_STAGING_BYTES / width;
	memset(me->staging, 0xa5, LAB_GUARD_BYTES);
	if (!lab_rank_copy(me, to - LAB_GUARD_BYTES, me->staging, LAB_GUARD_BYTES, true) ||
	    !lab_rank_copy(me, to + row->count * width, me->staging, LAB_GUARD_BYTES, true))
		return false;
	for (size_t at = 0; at < row->count; at += per) {
		size_t n = MIN_OF(per, row->count - at);
		payload_fill(&row->payload, me->rank, at, n, me->staging);
		if (!lab_rank_copy(me, to + at * width, me->staging, n * width, true))
			return false;
	}
	return true;
}

static bool lab_rank_check_guard(struct lab_rank *me, const uint8_t *at)
{
	uint64_t wrong = 0;
	if (!lab_rank_copy(me, me->staging, at, LAB_GUARD_BYTES, false))
		return false;
	for (int i = 0; i < LAB_GUARD_BYTES; i++)
		wrong += me->staging[i] != 0xa5;
	if (wrong) {
		os_mutex_lock(&me->run->lock);
		me->run->guard_wrong += wrong;
		os_mutex_unlock(&me->run->lock);
		sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank,
				 "rank %d: %" PRIu64 " bytes beside a buffer were written",
				 me->rank, wrong);
	}
	return true;
}

static void lab_rank_report(struct lab_rank *me, const struct lab_row *row, size_t where,
			    size_t wrong, size_t chunk_first, size_t chunk_n)
{
	struct lab_run *run = me->run;
	size_t width = payload_type_bytes(row->payload.type);
	char why[200];
	payload_explain(&row->payload, where, chunk_first + chunk_n - where,
			me->staging + (where - chunk_first) * width, why, sizeof why);
	os_mutex_lock(&run->lock);
	bool first = run->wrong == 0;
	run->wrong += wrong;
	run->row_wrong[row->in_place] += wrong;
	if (first)
		snprintf(run->explanation, sizeof run->explanation, "rank %d: %s", me->rank, why);
	os_mutex_unlock(&run->lock);
	if (first)
		sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank,
				 "rank %d, %" PRIu64 " B %s %s%s: %s", me->rank, row->bytes,
				 payload_type_name(row->payload.type),
				 payload_op_name(row->payload.op), row->in_place ? " in place" : "",
				 why);
	if (first)
		fprintf(stderr, "doppel: wrong result on rank %d, %" PRIu64 " B %s %s%s: %s\n",
			me->rank, row->bytes, payload_type_name(row->payload.type),
			payload_op_name(row->payload.op), row->in_place ? " in place" : "", why);
}

static bool lab_rank_check(struct lab_rank *me, const struct lab_row *row, uint8_t *result)
{
	size_t width = payload_type_bytes(row->payload.type), per = LAB_STAGING_BYTES / width;
	for (size_t at = 0; at < row->count; at += per) {
		size_t n = MIN_OF(per, row->count - at), where = 0;
		if (!lab_rank_copy(me, me->staging, result + at * width, n * width, false))
			return false;
		size_t wrong = payload_compare(&row->payload, at, n, me->staging,
					       me->run->expect + at * width, &where);
		if (wrong)
			lab_rank_report(me, row, where, wrong, at, n);
	}
	return lab_rank_check_guard(me, result - LAB_GUARD_BYTES) &&
	       lab_rank_check_guard(me, result + row->count * width);
}

/* One part of the row's all-reduce: parts are elements beside each other. */
static bool lab_rank_part(struct lab_rank *me, const struct lab_row *row, uint32_t part)
{
	uint32_t parts = MAX_OF(lab_parts(me->run->config), 1u);
	uint64_t first = row->count * part / parts, end = row->count * (part + 1) / parts;
	size_t at = LAB_GUARD_BYTES + first * payload_type_bytes(row->payload.type);
	uint8_t *send = me->send + at, *recv = me->recv + at;

	lab_call(me, "ncclAllReduce");
	ncclResult_t r = ncclAllReduce(row->in_place ? recv : send, recv, end - first,
				       row->payload.type, row->payload.op, lab_comms_pick(me, part),
				       lab_streams_pick(me, part));
	lab_call(me, NULL);
	if (r != ncclSuccess)
		lab_rank_fail(me, r, "ncclAllReduce");
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

static bool lab_rank_enqueue(struct lab_rank *me, const struct lab_row *row, uint32_t times)
{
	uint32_t parts = lab_parts(me->run->config), group = MAX_OF(me->run->config->group, 1u);
	bool ok = lab_rank_cuda_ok(me, (cudaError_t)lab_streams_fork(me), "streams that fork");

	for (uint32_t i = 0; ok && i < times; i++)
		for (uint32_t part = 0; ok && part < parts; part += group)
			ok = lab_rank_group(me, row, part, MIN_OF(group, parts - part));
	return ok && lab_rank_cuda_ok(me, (cudaError_t)lab_streams_join(me), "streams that join");
}

static bool lab_rank_all_reduce(struct lab_rank *me, const struct lab_row *row, uint32_t times)
{
	return lab_rank_enqueue(me, row, times) && lab_rank_sync(me);
}

/* Timed by events in the stream: the host's polling, which is coarse, is not in the figure. */
static bool lab_rank_timed(struct lab_rank *me, const struct lab_row *row)
{
	float ms = 0;
	if (!lab_rank_cuda_ok(me, cudaEventRecord(me->start, me->stream), "cudaEventRecord") ||
	    !lab_rank_enqueue(me, row, me->run->config->iterations) ||
	    !lab_rank_cuda_ok(me, cudaEventRecord(me->end, me->stream), "cudaEventRecord") ||
	    !lab_rank_sync(me) ||
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
	uint8_t *input = (row->in_place ? me->recv : me->send) + LAB_GUARD_BYTES;
	uint8_t *result = me->recv + LAB_GUARD_BYTES;
	size_t width = payload_type_bytes(row->payload.type);

	if (!lab_rank_fill(me, row, input) || !lab_barrier(me))
		return false;
	if (c->warmup && !lab_rank_all_reduce(me, row, c->warmup))
		return false;
	if (c->warmup && !lab_barrier(me))
		return false;
	if (!lab_rank_timed(me, row))
		return false;
	lab_bound_check(me, row);
	if (!c->check)
		return lab_barrier(me);
	/* One timed run of fresh out-of-place data is its own check; else run once more. */
	bool fresh = c->iterations == 1 && c->warmup == 0;
	if (!fresh) {
		if (!lab_barrier(me) || !lab_rank_fill(me, row, input))
			return false;
		if (!row->in_place &&
		    !lab_rank_cuda_ok(me,
				      cudaMemsetAsync(result, 0xee, row->count * width, me->stream),
				      "cudaMemsetAsync"))
			return false;
		if (!lab_rank_sync(me) || !lab_barrier(me) || !lab_rank_all_reduce(me, row, 1))
			return false;
	}
	return lab_rank_check(me, row, result) && lab_barrier(me);
}

static bool lab_rank_row_place(struct lab_rank *me, struct lab_row *row, bool in_place)
{
	struct lab_run *run = me->run;
	size_t width = payload_type_bytes(row->payload.type);
	row->in_place = in_place;
	if (lab_leads(me))
		lab_progress_row(run, row);
	/* guards of the result; the input's guards come with the input */
	memset(me->staging, 0xa5, LAB_GUARD_BYTES);
	if (!lab_rank_copy(me, me->recv, me->staging, LAB_GUARD_BYTES, true) ||
	    !lab_rank_copy(me, me->recv + LAB_GUARD_BYTES + row->count * width, me->staging,
			   LAB_GUARD_BYTES, true) ||
	    !lab_rank_cuda_ok(me,
			      cudaMemsetAsync(me->recv + LAB_GUARD_BYTES, 0xee, row->count * width,
					      me->stream),
			      "cudaMemsetAsync") ||
	    !lab_rank_sync(me) || !lab_rank_row(me, row))
		return false;
	if (lab_leads(me)) {
		run->operations++;
		if (run->config->table)
			lab_table_row(run, row);
	}
	return lab_barrier(me);
}

static bool lab_rank_size(struct lab_rank *me, ncclDataType_t type, ncclRedOp_t op, uint64_t bytes,
			  uint64_t salt)
{
	struct lab_run *run = me->run;
	struct lab_row row = {
		.payload = {.type = type, .op = op, .nranks = run->nranks, .salt = salt},
		.count = bytes / payload_type_bytes(type),
	};
	row.bytes = row.count * payload_type_bytes(type);
	if (lab_leads(me)) {
		memset(run->row_wrong, 0, sizeof run->row_wrong);
		if (run->config->check)
			payload_expect(&row.payload, 0, row.count, run->expect);
	}
	if (!lab_barrier(me))
		return false;
	if (run->config->out_of_place && !lab_rank_row_place(me, &row, false))
		return false;
	return !run->config->in_place || lab_rank_row_place(me, &row, true);
}

static uint64_t lab_next_size(const struct lab_config *c, uint64_t bytes)
{
	if (c->factor >= 2)
		return bytes ? bytes * c->factor : 1;
	return bytes + MAX_OF(c->bytes_step, (uint64_t)1);
}

static bool lab_rank_series(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	uint64_t salt = 1;
	for (uint32_t t = 0; t < c->type_count; t++)
		for (uint32_t o = 0; o < c->op_count; o++)
			for (uint64_t b = c->bytes_min; b <= c->bytes_max; b = lab_next_size(c, b))
				if (!lab_rank_size(me, c->types[t], c->ops[o], b, salt++))
					return false;
	return true;
}

/* One more, that nobody waits for: the communicator is destroyed while it runs. */
static bool lab_rank_hurry(struct lab_rank *me, struct lab_row *row)
{
	const struct lab_config *c = me->run->config;
	size_t width = payload_type_bytes(c->types[0]);

	*row = (struct lab_row){
		.payload = {.type = c->types[0],
			    .op = c->ops[0],
			    .nranks = me->run->nranks,
			    .salt = LAB_HURRY_SALT},
		.count = c->bytes_max / width,
		.in_place = true,
	};
	row->bytes = row->count * width;
	if (me->rank == 0)
		payload_expect(&row->payload, 0, row->count, me->run->expect);
	return lab_rank_fill(me, row, me->recv + LAB_GUARD_BYTES) && lab_barrier(me) &&
	       lab_rank_enqueue(me, row, 1);
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
	int which = 0;

	if (os_wait(both, 2, NULL, &which) || which == 0)
		return;
	w[0].deadline_ns = os_now_ns() + lab_tell_ns();
	if (os_wait_one(&w[0], NULL) != ETIMEDOUT)
		return;
	if (!lab_comms_any(me))
		return;
	lab_survive_untold(me);
	fprintf(stderr, "doppel: rank %d did not notice the failure: the launcher aborts it\n",
		me->rank);
	shared_store_u32(&me->told, 1, SHARED_RELEASE);
	(void)lab_comms_abort(me);
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

static bool lab_rank_init(struct lab_rank *me)
{
	me->phase = LAB_INIT;
	lab_call(me, "ncclCommInitRank");
	ncclResult_t r = lab_comms_init(me);
	lab_call(me, NULL);
	if (r == ncclSuccess)
		return true;
	if (!shared_load_u32(&me->told, SHARED_ACQUIRE))
		lab_rank_fail(me, r, "ncclCommInitRank");
	return false;
}

/* True: by destroying it, with success. */
static bool lab_rank_leave(struct lab_rank *me, bool ok)
{
	const char *call = ok ? "ncclCommDestroy" : "ncclCommAbort";

	me->phase = LAB_END;
	if (!lab_comms_any(me) || shared_load_u32(&me->told, SHARED_ACQUIRE))
		return false;
	lab_call(me, call);
	ncclResult_t r = ok ? lab_comms_destroy(me) : lab_comms_abort(me);
	lab_call(me, NULL);
	if (r != ncclSuccess && !shared_load_u32(&me->told, SHARED_ACQUIRE))
		lab_rank_fail(me, r, call);
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
		lab_rank_check(me, &hurried, me->recv + LAB_GUARD_BYTES);
	lab_survive_second(me);
	lab_rank_free(me);
}

int lab_expect_alloc(struct lab_run *run)
{
	run->expect = malloc(run->config->bytes_max ? run->config->bytes_max : 1);
	return run->expect ? 0 : 1;
}

void lab_expect_free(struct lab_run *run)
{
	free(run->expect);
}
