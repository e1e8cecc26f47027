/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/plan.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/param.h"
#include "core/plan/plan_internal.h"
#include "core/transport/cuda_result.h"
#include "core/transport/transport_internal.h"

/* ---- life ----------------------------------------------------------------------------------- */

/* Warps of a block. A warp of the double is worth as much at any width and any size, and two of
 * them exercise everything. A GPU gets what NCCL's rule says, at most 512 threads. */
#ifdef DOPPEL_FAKECUDA
#define PLAN_WARPS_FIXED       true
#define PLAN_WARPS(warp_width) 2
#else
#define PLAN_WARPS_FIXED       false
#define PLAN_WARPS(warp_width) (PLAN_THREADS / (warp_width))
#endif
#define PLAN_WARPS_MOST 32

static uint32_t plan_warps(uint32_t warp_width)
{
	int64_t threads = param_i64(PARAM_NTHREADS);
	uint32_t warps = PLAN_WARPS(warp_width);

	if (threads > 0)
		warps = (uint32_t)MAX_OF(threads / warp_width, 1);
	return MIN_OF(warps, PLAN_WARPS_MOST);
}

/* Asking loads the kernel: a first launch must not, because that waits for kernels that spin. */
static ncclResult_t plan_kernel_load(const struct dev_kernel *kernel)
{
	struct cudaFuncAttributes attr;

	return cuda_result(cudaFuncGetAttributes(&attr, kernel->func), "loading the kernel");
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
	st->warps = plan_warps(st->warp_width);
	st->limits = (struct plan_limits){
		.nranks = comm->nranks,
		.nchannels = comm->nchannels,
		.step_bytes = transport_step_bytes(),
		.max_threads = PLAN_THREADS,
	};
	st->kernel = dev_kernel_collective((int)st->warp_width);
	if (!st->kernel) {
		WARN("rank %d: there is no kernel for warps of %u threads", comm->rank,
		     st->warp_width);
		os_free(st);
		return ncclInternalError;
	}
	rc = plan_kernel_load(st->kernel);
	if (rc) {
		os_free(st);
		return rc;
	}
	comm->plan = st;
	return ncclSuccess;
}

void plan_fini(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;

	if (!st)
		return;
	os_free(st->queue);
	os_free(st);
	comm->plan = NULL;
}

/* ---- the queue ------------------------------------------------------------------------------ */

ncclResult_t plan_enqueue(struct ncclComm *comm, const struct plan_task *task)
{
	struct plan_state *st = comm->plan;

	ASSERT(st && task->func == DEV_ALL_REDUCE);
	if (st->queued == st->room) {
		int32_t room = st->room ? 2 * st->room : 8;
		struct plan_task *queue = os_alloc((size_t)room * sizeof *queue, "plan queue");

		if (!queue) {
			WARN("rank %d: no memory to queue %d collectives", comm->rank, room);
			return ncclSystemError;
		}
		if (st->queued)
			memcpy(queue, st->queue, (size_t)st->queued * sizeof *queue);
		os_free(st->queue);
		st->queue = queue;
		st->room = room;
	}
	st->queue[st->queued++] = *task;
	return ncclSuccess;
}

bool plan_pending(const struct ncclComm *comm)
{
	return comm->plan && comm->plan->queued > 0;
}

uint64_t plan_next_op(const struct ncclComm *comm)
{
	return comm->op_count + (comm->plan ? (uint64_t)comm->plan->queued : 0);
}

void plan_discard(struct ncclComm *comm)
{
	if (comm->plan)
		comm->plan->queued = 0;
}

/* ---- one launch ----------------------------------------------------------------------------- */

static void plan_batch_reset(struct ncclComm *comm, struct plan_state *st, cudaStream_t stream)
{
	st->args.comm = (uint64_t)(uintptr_t)comm->dev;
	st->args.channel_mask = 0;
	st->args.work_count = 0;
	st->stream = stream;
	st->block_warps = 0;
	st->nops = 0;
}

static int32_t plan_batch_ops_of(const struct ncclComm *comm, const struct dev_work *w)
{
	int32_t n = 0;

	for (int c = w->channel_lo; c <= w->channel_hi; c++)
		n += !!comm->channels[c].ring_recv->proxy + !!comm->channels[c].ring_send->proxy;
	return n;
}

static void plan_batch_op(struct plan_state *st, const struct conn *c, const struct dev_work *w,
			  int nranks)
{
	if (!c->proxy)
		return;
	ASSERT(st->nops < PROXY_MAX_APPEND);
	st->op[st->nops++] = (struct proxy_op){
		.conn = c->proxy,
		.op_count = w->op_count,
		.nsteps = plan_steps(w, c->channel, nranks),
		.slice_steps = DEV_SLICE_STEPS,
		.chunk_steps = DEV_CHUNK_STEPS,
	};
}

static void plan_batch_add(struct ncclComm *comm, struct plan_state *st, const struct dev_work *w,
			   const struct plan_task *t)
{
	ASSERT(st->args.work_count < DEV_WORKS_PER_LAUNCH);
	st->task[st->args.work_count] = t;
	st->args.work[st->args.work_count++] = *w;
	st->block_warps = MAX_OF(st->block_warps, w->nwarps);
	for (int c = w->channel_lo; c <= w->channel_hi; c++) {
		st->args.channel_mask |= 1ull << c;
		plan_batch_op(st, comm->channels[c].ring_recv, w, comm->nranks);
		plan_batch_op(st, comm->channels[c].ring_send, w, comm->nranks);
	}
}

/* Behind everything that this communicator launched on another stream: its collectives never
 * overlap. */
static ncclResult_t plan_stream_order(struct ncclComm *comm, struct plan_state *st)
{
	if (!comm->launched || st->last_stream == st->stream)
		return ncclSuccess;
	return cuda_result(cudaStreamWaitEvent(st->stream, comm->launch_done, 0),
			   "cudaStreamWaitEvent for the previous launch");
}

/* Right behind the launch: later on, the stream may be gone or wait for something else. */
static ncclResult_t plan_stream_mark(struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc = cuda_result(cudaEventRecord(comm->launch_done, st->stream),
				      "cudaEventRecord after a launch");

	if (rc)
		return rc;
	st->last_stream = st->stream;
	comm->launched = true;
	return ncclSuccess;
}

static ncclResult_t plan_kernel_launch(struct plan_state *st)
{
	dim3 grid = {(unsigned)__builtin_popcountll(st->args.channel_mask), 1, 1};
	dim3 block = {st->block_warps * st->warp_width, 1, 1};
	void *params[1] = {&st->args};

	ASSERT(grid.x >= 1 && block.x >= 1);
	return cuda_result(cudaLaunchKernel(st->kernel->func, grid, block, params,
					    st->kernel->shared_bytes, st->stream),
			   "cudaLaunchKernel of a collective");
}

/* Tells a world that watches buffers what the stream's next operation uses. */
static void plan_task_uses(const struct ncclComm *comm, const struct plan_task *t)
{
	size_t bytes = t->count * steps_type_bytes((int)t->type);
	const struct os_use use = {
		.stream = t->stream,
		.read = t->send,
		.write = t->recv,
		.read_bytes = bytes,
		.write_bytes = bytes,
		.what = t->name,
		.number = t->op_count,
		.comm = comm->id_hash,
		.caller = t->caller,
	};

	os_use(&use);
}

static void plan_batch_uses(const struct ncclComm *comm, const struct plan_state *st)
{
	for (uint32_t i = 0; i < st->args.work_count; i++)
		plan_task_uses(comm, st->task[i]);
}

/* Launches what was put together. The proxy's operations go first: they wait for the kernel, which
 * can wait for nobody to append them once it runs. */
static ncclResult_t plan_batch_launch(struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc;

	if (!st->args.work_count)
		return ncclSuccess;
	rc = plan_stream_order(comm, st);
	if (!rc)
		rc = proxy_append(comm, st->op, st->nops);
	st->handed_over |= !rc && st->nops;
	if (!rc)
		plan_batch_uses(comm, st);
	if (!rc)
		rc = plan_kernel_launch(st);
	st->handed_over |= !rc;
	if (!rc)
		rc = plan_stream_mark(comm, st);
	plan_batch_reset(comm, st, st->stream);
	return rc;
}

/* ---- tasks ------------------------------------------------------------------------------------
 */

/* A ring of one: the result is the input. */
static ncclResult_t plan_task_alone(const struct ncclComm *comm, const struct plan_task *t)
{
	size_t bytes = t->count * steps_type_bytes((int)t->type);

	if (t->send == t->recv)
		return ncclSuccess;
	plan_task_uses(comm, t);
	return cuda_result(
		cudaMemcpyAsync(t->recv, t->send, bytes, cudaMemcpyDeviceToDevice, t->stream),
		"cudaMemcpyAsync of a collective of one rank");
}

static uint32_t plan_work_warps(const struct plan_state *st, const struct plan_shape *shape)
{
	return PLAN_WARPS_FIXED ? st->warps : MIN_OF(st->warps, shape->nthreads / 32);
}

static ncclResult_t plan_task_add(struct ncclComm *comm, struct plan_state *st,
				  const struct plan_task *t)
{
	struct plan_shape shape;
	struct dev_work work;
	ncclResult_t rc = ncclSuccess;

	if (!t->count)
		return ncclSuccess;
	if (comm->nranks == 1)
		return plan_task_alone(comm, t);
	plan_work_fill(t, &st->limits, &work, &shape);
	work.op_count = t->op_count;
	work.nwarps = (uint8_t)plan_work_warps(st, &shape);
	if (st->args.work_count &&
	    (st->args.work_count == DEV_WORKS_PER_LAUNCH || st->stream != t->stream ||
	     st->nops + plan_batch_ops_of(comm, &work) > PROXY_MAX_APPEND))
		rc = plan_batch_launch(comm, st);
	if (rc)
		return rc;
	st->stream = t->stream;
	plan_batch_add(comm, st, &work, t);
	INFO(LOG_COLL,
	     "AllReduce: %zu elements of type %d, op %d: ring, simple, channels %u..%u, "
	     "opCount %llu",
	     t->count, (int)t->type, (int)t->op, work.channel_lo, work.channel_hi,
	     (unsigned long long)t->op_count);
	return ncclSuccess;
}

static ncclResult_t plan_launch_queue(struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc = ncclSuccess;

	plan_batch_reset(comm, st, st->queue[0].stream);
	for (int32_t i = 0; !rc && i < st->queued; i++)
		rc = plan_task_add(comm, st, &st->queue[i]);
	if (!rc)
		rc = plan_batch_launch(comm, st);
	return rc;
}

/* Numbers begin where the last launch that succeeded ended, as if those that failed had not been. */
static ncclResult_t plan_announce(const struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc = ncclSuccess;

	st->ordered = 0;
	for (st->agreed = 0; !rc && st->agreed < st->queued; st->agreed += !rc) {
		st->queue[st->agreed].op_count = comm->op_count + (uint64_t)st->agreed;
		rc = plan_agree(comm, &st->queue[st->agreed]);
	}
	return rc ? rc : plan_order_check(comm, st);
}

static void plan_renounce(const struct ncclComm *comm, const struct plan_state *st)
{
	plan_order_undo(comm, st);
	for (int32_t i = 0; i < st->agreed; i++)
		plan_agree_not(comm, &st->queue[i]);
}

static ncclResult_t plan_announce_and_launch(struct ncclComm *comm, struct plan_state *st)
{
	ncclResult_t rc = plan_announce(comm, st);

	st->handed_over = false;
	if (!rc)
		rc = plan_launch_queue(comm, st);
	if (!rc)
		comm->op_count += (uint64_t)st->queued;
	else if (st->handed_over) /* nothing that is launched from now on would meet its peers */
		comm_set_async_error(comm, rc);
	else
		plan_renounce(comm, st);
	return rc;
}

ncclResult_t plan_launch(struct ncclComm *comm)
{
	struct plan_state *st = comm->plan;
	ncclResult_t rc;
	int dev = -1;

	if (!plan_pending(comm))
		return ncclSuccess;
	rc = cuda_result(cudaGetDevice(&dev), "cudaGetDevice before a launch");
	if (!rc && dev != comm->cuda_dev)
		rc = cuda_result(cudaSetDevice(comm->cuda_dev), "cudaSetDevice before a launch");
	if (!rc)
		rc = plan_announce_and_launch(comm, st);
	plan_discard(comm);
	if (dev >= 0 && dev != comm->cuda_dev)
		(void)cuda_result(cudaSetDevice(dev), "cudaSetDevice after a launch");
	return rc;
}
