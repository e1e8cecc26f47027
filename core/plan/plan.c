/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/plan.h"

#include "core/algo/algo.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/os/os_grow.h"
#include "core/plan/messages.h"
#include "core/plan/plan_internal.h"
#include "core/rank/cuda_result.h"
#include "core/transport/collnet/collnet.h"
#include "core/transport/transport_internal.h"
#include "core/tune/allowed.h"

/* ---- life ----------------------------------------------------------------------------------- */

DOPPEL_STATIC_CHECK(PLAN_THREADS <= DEV_MAX_WARPS * 32, "the kernel takes the threads of the rule");

uint32_t plan_block_warps(int64_t threads)
{
	const uint32_t most = MIN_OF(DEV_MAX_WARPS, PLAN_THREADS / 32);
	uint32_t warps = most;

	if (threads > 0)
		warps = (uint32_t)MAX_OF(threads / 32, 1);
	warps = MIN_OF(warps, most);
	if (threads > 0 && threads != warps * 32 && param_warns(PARAM_NTHREADS))
		WARN("NCCL_NTHREADS is %lld, expected a multiple of 32 from 32 to %u; %u are used",
		     (long long)threads, most * 32, warps * 32);
	return warps;
}

static bool plan_has_clusters(const struct ncclComm *comm)
{
	return comm->peers[comm->rank].sm >= 90;
}

/* Clusters are blocks that the GPU places together. They move up to a quarter more over NVLink
 * (results/figures.md). */
static uint32_t plan_cluster_most(const struct ncclComm *comm)
{
	int most = comm->config.cgaClusterSize;

	if (!plan_has_clusters(comm))
		return 1;
	return most == NCCL_CONFIG_UNDEF_INT ? 4 : (uint32_t)MAX_OF(most, 1);
}

/* Reading the attributes loads the kernel. The first launch must not do that: loading waits for
 * running kernels. */
static ncclResult_t plan_kernel_load(const struct ncclComm *comm, const struct dev_kernel *kernel)
{
	struct cudaFuncAttributes attr;

	if (kernel)
		return cuda_result(cudaFuncGetAttributes(&attr, kernel->func), "loading a kernel");
	WARN("rank %d: there is no kernel for warps of %u threads", comm->rank,
	     comm->peers[comm->rank].warp_width);
	return ncclInternalError;
}

static ncclResult_t plan_kernels_load(const struct ncclComm *comm, struct plan_state *st)
{
	int width = (int)st->warp_width;
	ncclResult_t rc = ncclSuccess;

	if (comm->nranks == 1) {
		st->one_rank_kernel = dev_kernel_one_rank(width);
		return plan_kernel_load(comm, st->one_rank_kernel);
	}
	for (int p = 0; p < DEV_PROGRAM_COUNT && !rc; p++) {
		st->kernel[p] = dev_kernel_of(p, width);
		if (tune_is_allowed(comm->allowed, p))
			rc = plan_kernel_load(comm, st->kernel[p]);
	}
	for (uint32_t i = 0; !rc && dev_kernel_one_row(i, width); i++)
		rc = plan_kernel_load(comm, dev_kernel_one_row(i, width));
	if (rc)
		return rc;
	st->message_kernel = dev_kernel_messages(transport_messages_have(comm, DEV_LL128), width);
	return plan_kernel_load(comm, st->message_kernel);
}

/* Labels the number of collectives launched so far, for the explainer of hangs. */
static void plan_label(const struct ncclComm *comm)
{
	os_label(comm,
		 &(struct os_label){.what = "communicator",
				    .rank = comm->rank,
				    .peer = -1,
				    .channel = -1,
				    .number = (int64_t)comm->op_count + comm->plan->launched});
}

/* Chooses between arguments and FIFO for the works. Exploring runs sometimes use only a FIFO that
 * wraps soon. */
static uint64_t plan_works_init(struct plan_state *st)
{
	uint64_t args_bytes = (uint64_t)param_i64(PARAM_WORK_ARGS_BYTES);

	st->args_works = (int32_t)MIN_OF(args_bytes / sizeof(struct dev_work), DEV_ARGS_WORKS);
	st->args_captured = st->args_works;
	if (!OS_BUGGIFY("plan.small_fifo",
			"works go through a FIFO that wraps soon, not in arguments"))
		return (uint64_t)param_i64(PARAM_WORK_FIFO_BYTES);
	st->args_works = 0;
	return PLAN_FIFO_LEAST;
}

static void plan_model_make(const struct ncclComm *comm, struct plan_limits *lim)
{
	static const struct topo_summary one_rank = {.nranks = 1, .nhosts = 1};

	tune_model_make(&lim->model, comm->nranks > 1 ? &comm->summary : &one_rank, lim->nchannels,
			lim->allowed);
	for (int p = 0; p < DEV_PROGRAM_COUNT && comm->rank == 0 && comm->nranks > 1; p++)
		INFO(LOG_TUNING, "%s %s/%s: %llu ns + bytes / %llu MB/s%s",
		     steps_func_name(steps_program(p).func), tune_algo_name(p), tune_proto_name(p),
		     (unsigned long long)lim->model.program[p].latency_ns,
		     (unsigned long long)lim->model.program[p].bw_mbps,
		     tune_is_allowed(lim->allowed, p) ? "" : ", not allowed");
}

uint64_t plan_choice_hash(const struct ncclComm *comm)
{
	const struct plan_limits *lim = &comm->plan->limits;
	uint64_t hash = hash64_combine(tune_model_hash(&lim->model), lim->allowed);

	hash = hash64_combine(hash, tuner_hash(lim->tuner));
	if (lim->reductions)
		hash = hash64_combine(hash, lim->reductions);
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		hash = hash64_combine(hash, lim->step_bytes[p]);
	hash = hash64_combine(hash, transport_pair_most_channels());
	hash = hash64_combine(hash, (uint64_t)transport_pair_net_channels(comm));
	hash = hash64_combine(hash, (uint64_t)param_i64(PARAM_P2P_LL128_THRESHOLD));
	return hash64_combine(hash, (uint64_t)param_i64(PARAM_P2P_LL_THRESHOLD));
}

ncclResult_t plan_init(struct ncclComm *comm)
{
	struct plan_state *st = os_alloc(sizeof *st, "plan");
	ncclResult_t rc;

	ASSERT(!comm->plan);
	if (!st) {
		WARN("rank %d: no memory for the plan", comm->rank);
		return ncclSystemError;
	}
	st->warp_width = comm->peers[comm->rank].warp_width;
	st->cluster = plan_cluster_most(comm);
	st->clusters = plan_has_clusters(comm);
	st->warps = plan_block_warps(param_i64(PARAM_NTHREADS));
	st->limits = (struct plan_limits){
		.nranks = comm->nranks,
		.nhosts = comm->nranks > 1 ? comm->summary.nhosts : 1,
		.nchannels = comm->nranks > 1 ? comm->nchannels : PLAN_ONE_RANK_BLOCKS,
		.allowed = comm->allowed,
		.in_network = comm->allowed & algo_programs(DEV_COLLNET_CHAIN),
		.reductions = collnet_reductions(comm->collnet),
	};
	plan_model_make(comm, &st->limits);
	for (int p = 0; p < DEV_PROTO_COUNT; p++)
		st->limits.step_bytes[p] = comm->step_bytes[p];
	rc = tuner_open(&st->limits.tuner, comm);
	if (!rc)
		rc = plan_kernels_load(comm, st);
	if (!rc && comm->nranks > 1)
		rc = plan_fifo_make(&st->fifo, plan_works_init(st));
	if (rc) {
		tuner_close(st->limits.tuner);
		os_free(st);
		return rc;
	}
	comm->plan = st;
	plan_label(comm);
	return ncclSuccess;
}

void plan_fini(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;

	if (!st)
		return;
	os_unlabel(comm);
	tuner_close(st->limits.tuner);
	plan_messages_free(st->messages, comm->nranks);
	plan_captures_end(&st->captures);
	plan_fifo_free(&st->fifo);
	plan_free(&st->plan);
	plan_streams_free(&st->streams);
	os_free(st->queue);
	os_free(st);
	comm->plan = NULL;
}

/* ---- the queue ------------------------------------------------------------------------------ */

static bool plan_has_program(const struct ncclComm *comm, const struct plan_task *task)
{
	const struct plan_limits *lim = &comm->plan->limits;

	return comm->nranks == 1 || tune_choose(&lim->model, task->func, plan_programs(task, lim),
						plan_bytes(task)) < DEV_PROGRAM_COUNT;
}

bool plan_can(const struct ncclComm *comm, const struct plan_task *task)
{
	struct plan_task t = *task;

	plan_task_windows(comm, &t);
	return plan_has_program(comm, &t);
}

ncclResult_t plan_check(const struct ncclComm *comm, const struct plan_task *task)
{
	struct plan_task t = *task;
	char why[640];

	if (plan_can(comm, task))
		return ncclSuccess;
	t.in_windows = true;
	if (plan_has_program(comm, &t))
		WARN("%s: rank %d: NCCL_ALGO and NCCL_PROTO allow only programs on windows, "
		     "expected both buffers in windows with NCCL_WIN_COLL_SYMMETRIC",
		     task->call, comm->rank);
	else
		WARN("%s: rank %d: %s", task->call, comm->rank,
		     tune_allowed_none(task->func, &comm->summary, why, sizeof why));
	return ncclInvalidUsage;
}

ncclResult_t plan_enqueue(struct ncclComm *comm, const struct plan_task *task)
{
	struct plan_state *st = comm->plan;
	ncclResult_t rc = ncclSuccess;

	ASSERT(st && task->func < DEV_FUNC_COUNT);
	if (st->queued == st->room && !OS_GROW(st->queue, st->queued, st->room, 8, "plan queue")) {
		WARN("rank %d: no memory to queue %d collectives", comm->rank, st->queued + 1);
		return ncclSystemError;
	}
	if (!plan_task_is_empty(comm, task))
		rc = plan_streams_add(&st->streams, task->call, task->stream);
	if (!rc)
		st->queue[st->queued++] = *task;
	return rc;
}

ncclResult_t plan_record_later(struct ncclComm *comm, const char *call, cudaStream_t stream,
			       cudaEvent_t event)
{
	struct plan_streams *s = &comm->plan->streams;

	if (s->completion) {
		WARN("%s: launchCompletionEvent is %p, expected NULL: another call of the group on "
		     "this communicator has one",
		     call, (void *)event);
		return ncclInvalidUsage;
	}
	if (!plan_pending(comm))
		return cuda_result(cudaEventRecord(event, stream),
				   "cudaEventRecord of launchCompletionEvent");
	s->completion = event;
	s->completion_stream = stream;
	return ncclSuccess;
}

bool plan_pending(const struct ncclComm *comm)
{
	const struct plan_state *st = comm->plan;

	return st && (st->queued > 0 || plan_messages_pending(st->messages));
}

/* With one rank a collective is a copy, which costs nothing in the model. */
uint64_t plan_estimate_ns(const struct ncclComm *comm, int32_t *counted)
{
	const struct plan_state *st = comm->plan;
	uint64_t ns = 0;

	*counted = 0;
	for (int32_t i = 0; i < st->queued; i++) {
		const struct plan_task *t = &st->queue[i];

		(*counted)++;
		if (comm->nranks > 1 && t->count)
			ns += tune_time_ns(
				&st->limits.model.program[plan_choose(t, &st->limits).program],
				plan_bytes(t));
	}
	return ns;
}

uint64_t plan_next_op(const struct ncclComm *comm)
{
	return comm->op_count + (comm->plan ? (uint64_t)comm->plan->queued : 0);
}

/* ---- announcing ----------------------------------------------------------------------------- */

/* Numbers continue after the last launch that succeeded: failed launches have no numbers. */
ncclResult_t plan_announce(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;
	ncclResult_t rc = ncclSuccess;

	ASSERT(!st->launched && !st->handed_over);
	st->ordered = 0;
	for (st->agreed = 0; !rc && st->agreed < st->queued; st->agreed += !rc) {
		struct plan_task *t = &st->queue[st->agreed];

		t->op_count = comm->op_count + (uint64_t)st->agreed;
		plan_task_windows(comm, t);
		plan_task_plan(st, t);
		plan_trace_choice(comm, t);
		rc = plan_agree(comm, t);
	}
	if (!rc)
		rc = plan_order_check(comm, st);
	if (!rc && plan_messages_pending(st->messages))
		rc = plan_messages_announce(comm, st->messages);
	return rc;
}

static void plan_renounce(const struct ncclComm *comm, const struct plan_state *st)
{
	plan_order_undo(comm, st);
	if (comm->calls)
		rank_calls_drop(comm->calls, comm->op_count);
	for (int32_t i = 0; i < st->agreed; i++)
		plan_agree_not(comm, &st->queue[i]);
	if (st->messages)
		plan_messages_renounce(comm, st->messages);
}

static void plan_queue_reset(struct plan_state *st)
{
	st->queued = st->launched = st->agreed = st->ordered = 0;
	st->handed_over = false;
}

void plan_cancel(struct ncclComm *comm, ncclResult_t error)
{
	struct plan_state *st = comm->plan;
	bool connecting;

	if (!plan_pending(comm))
		return;
	connecting = st->messages && st->messages->connecting;
	/* no later launch would find its peers at the same number */
	if (st->handed_over || connecting)
		rank_set_async_error(comm, error);
	else
		plan_renounce(comm, st);
	plan_queue_reset(st);
	plan_streams_reset(&st->streams);
	if (st->messages)
		plan_messages_reset(comm, st->messages);
}

/* ---- launching ------------------------------------------------------------------------------ */

ncclResult_t plan_streams_end(struct plan_state *st)
{
	ncclResult_t rc = plan_streams_complete(&st->streams);

	if (!rc)
		rc = plan_streams_part(&st->streams);
	if (!rc)
		plan_streams_reset(&st->streams);
	return rc;
}

/* Shows the launched collectives to the RAS task. */
static void plan_count(struct ncclComm *comm, const struct plan_state *st)
{
	struct rank_launches *l = &comm->launches;

	if (!comm->ras)
		return;
	for (int32_t i = 0; i < st->queued; i++) {
		shared_u64 *count = &l->count[st->queue[i].func];

		shared_store_u64(count, shared_load_u64(count, SHARED_RELAXED) + 1, SHARED_RELAXED);
		shared_store_u32(&l->last, (uint32_t)st->queue[i].func, SHARED_RELAXED);
	}
	shared_store_u64(&l->last_ns, os_now_ns(), SHARED_RELEASE);
}

static ncclResult_t plan_launch_collectives(struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc;

	if (comm->calls && !st->launched)
		plan_calls_add(comm, st);
	rc = plan_build(comm, st, &st->plan);
	if (!rc)
		rc = plan_start(comm, st, &st->plan);
	if (rc || st->launched < st->queued)
		return rc;
	if (!plan_messages_pending(st->messages))
		rc = plan_streams_end(st);
	if (rc)
		return rc;
	comm->op_count += (uint64_t)st->queued;
	shared_store_u64(&comm->ops_seen, comm->op_count, SHARED_RELEASE);
	plan_count(comm, st);
	plan_queue_reset(st);
	return ncclSuccess;
}

ncclResult_t plan_launch(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;
	int32_t rank = os_work_for(comm->rank);
	ncclResult_t rc;

	ASSERT(plan_pending(comm) && st->agreed == st->queued);
	rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice before a launch");
	if (!rc)
		rc = st->queued ? plan_launch_collectives(comm, st)
				: plan_messages_launch(comm, st);
	plan_label(comm);
	(void)os_work_for(rank);
	return rc;
}

bool plan_is_of_thread(const struct ncclComm *comm)
{
	const struct plan_streams *s = &comm->plan->streams;

	for (int32_t i = 0; i < s->n; i++)
		if (s->stream[i] == cudaStreamPerThread)
			return true;
	return false;
}

/* A collective is one work, a round of messages two at most. A captured launch has its works in the
 * arguments. */
bool plan_may_wait(const struct ncclComm *comm)
{
	const struct plan_state *st = comm->plan;
	const int32_t works = st->queued + 2 * plan_messages_rounds(st->messages);

	return st->fifo.mem && !st->streams.capture.id && works > st->args_works &&
	       plan_fifo_may_wait(&st->fifo, works);
}

bool plan_left(const struct ncclComm *comm)
{
	return plan_pending(comm);
}

/* Collectives have their index, messages the key of their round, which is above all collectives. */
uint64_t plan_position(const struct ncclComm *comm)
{
	const struct plan_state *st = comm->plan;

	if (st->queued || !plan_messages_pending(st->messages))
		return (uint64_t)st->launched;
	return PLAN_AFTER_COLLECTIVES + plan_messages_position(st->messages);
}
