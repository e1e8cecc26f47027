/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plan is the content of one launch. plan_build makes it from the tasks at the front of the
 * queue, plan_start passes it to the proxy and to the GPU.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/device/layout/names.h"
#include "core/plan/plan_internal.h"
#include "core/rank/cuda_result.h"
#include "core/transport/transport_internal.h"
#include "core/transport/windows.h"

/* ---- building ------------------------------------------------------------------------------- */

/* Returns the proxy's part of the connection in entry `end` of comm->want; NULL: it has none. */
static struct proxy_port *plan_end_proxy(const struct ncclComm *comm, uint32_t end)
{
	const struct conn *c = comm->want[end].conn;

	return c ? c->proxy : NULL;
}

/* Returns the ends of the work's algorithm; none for a program on windows. */
static struct dev_edges plan_edges_of(const struct ncclComm *comm, const struct dev_work *w)
{
	enum dev_algo algo = steps_program(w->program).algo;

	return algo == DEV_SYMMETRIC ? (struct dev_edges){0} : comm->edges[steps_edges(algo)];
}

static int32_t plan_ops_of(const struct ncclComm *comm, const struct dev_work *w)
{
	struct dev_edges e = plan_edges_of(comm, w);
	int32_t n = 0;

	DOPPEL_STATIC_CHECK(2 * DEV_PAT_LEVELS * DEV_PAT_CHANNELS <= PROXY_MAX_APPEND,
			    "one work's operations fit in a launch");
	for (uint32_t i = w->channel_lo * e.count; i < (w->channel_hi + 1u) * e.count; i++)
		n += plan_end_proxy(comm, e.first + i) != NULL;
	return n;
}

static void plan_op_add(struct plan *p, struct proxy_port *proxy, const struct plan_task *t,
			uint64_t steps)
{
	const struct dev_work *w = &t->work;
	struct dev_program_row row = steps_program(w->program);

	if (!steps)
		return;
	plan_add_op(p, &(struct proxy_op){
			       .conn = proxy,
			       .op_count = w->op_count,
			       .nsteps = steps,
			       .slice_steps = row.slice_steps,
			       .chunk_steps = row.chunk_steps,
			       .protocol = row.proto,
			       .type = w->type,
			       .op = (uint8_t)plan_network_op(w->op),
			       .profile = plan_profile_op(p, &t->profile),
		       });
}

static void plan_ops_add(const struct ncclComm *comm, struct plan *p, const struct plan_task *t,
			 const struct channel *ch)
{
	const struct dev_work *w = &t->work;
	struct dev_program_row row = steps_program(w->program);
	struct dev_edges e = plan_edges_of(comm, w);
	struct steps_part part = steps_part_of(w, ch->id);
	struct steps_place at = {.rank = comm->rank,
				 .nranks = comm->nranks,
				 .root = w->root,
				 .prev = ch->ring_prev,
				 .next = ch->ring_next,
				 .toward = w->root >= 0 && ch->tree_toward
						   ? ch->tree_toward[w->root]
						   : DEV_TREE_SELF};

	for (uint32_t i = 0; i < e.count; i++) {
		uint32_t end = e.first + (uint32_t)ch->id * e.count + i;
		struct proxy_port *proxy = plan_end_proxy(comm, end);
		struct steps_count n;

		if (!proxy)
			continue;
		n = steps_of_edge(&row, &part, &at, i / 2);
		plan_op_add(p, proxy, t, i % 2 ? n.send : n.recv);
	}
}

static void plan_work_add(struct ncclComm *comm, struct plan *p, struct plan_task *t)
{
	struct dev_work *w = &t->work;

	plan_profile_task(comm, p, t);
	plan_profile_work(comm, p, w, &t->profile, NULL);
	plan_add_work(p, w);
	p->block_warps = MAX_OF(p->block_warps, w->nwarps);
	for (int c = w->channel_lo; c <= w->channel_hi; c++)
		plan_ops_add(comm, p, t, &comm->channels[c]);
}

void plan_task_plan(const struct plan_state *st, struct plan_task *t)
{
	struct tune_shape shape;

	if (!t->count)
		return;
	plan_work_fill(t, &st->limits, &t->work, &shape);
	t->nthreads = shape.nthreads;
	t->by_plugin = st->limits.tuner != NULL;
	t->work.nwarps = (uint8_t)MIN_OF(st->warps, shape.nthreads / 32);
	t->work.op_count = t->op_count;
}

/* Returns the kernel of exactly this program, type and operation if there is one, else the general
 * one. */
static const struct dev_kernel *plan_kernel_of(const struct plan_state *st,
					       const struct dev_work *w)
{
	const struct dev_kernel *one =
		dev_kernel_one(w->program, w->type, w->op, (int)st->warp_width);

	return one ? one : st->kernel[w->program];
}

/* Adds the task's work. If it does not fit, sets *full and adds nothing. */
static ncclResult_t plan_task_work(struct ncclComm *comm, const struct plan_state *st,
				   struct plan *p, struct plan_task *t, bool *full)
{
	const struct dev_work *w = &t->work;
	const struct plan_need more = {.works = 1,
				       .ops = plan_ops_of(comm, w),
				       .runs = w->channel_hi - w->channel_lo + 1u};
	ncclResult_t rc;

	const struct dev_kernel *kernel = plan_kernel_of(st, w), *general = st->kernel[w->program];

	/* a launch on windows has one work */
	*full = p->ntasks &&
		(general != p->general || plan_work_is_symmetric(w) || !plan_fits(st, p, &more));
	if (*full)
		return ncclSuccess;
	p->kernel = !p->ntasks || p->kernel == kernel ? kernel : general;
	p->general = general;
	rc = plan_reserve(p, &more);
	if (rc)
		return rc;
	if (t->options.cluster && st->clusters)
		p->cluster = t->options.cluster;
	plan_task_register(comm, t, &p->capture);
	plan_work_log(t, w);
	plan_work_add(comm, p, t);
	return ncclSuccess;
}

/* Adds the task. If it does not fit, sets *full and adds nothing. With one rank a task is a copy
 * and has no work. */
static ncclResult_t plan_task_add(struct ncclComm *comm, const struct plan_state *st,
				  struct plan *p, struct plan_task *t, bool *full)
{
	ncclResult_t rc = ncclSuccess;

	*full = false;
	if (comm->nranks > 1)
		rc = plan_task_work(comm, st, p, t, full);
	p->ntasks += !rc && !*full;
	return rc;
}

/* A task without elements does nothing. With one rank, neither does a task in place without a
 * factor. */
bool plan_task_is_empty(const struct ncclComm *comm, const struct plan_task *t)
{
	return !t->count || (comm->nranks == 1 && t->send == t->recv && !t->factor.used);
}

/* Streams are compared by id, not by handle: CUDA may give a new stream the handle of a destroyed
 * one whose work still runs, and cudaStreamPerThread is another stream in each thread. */
static ncclResult_t plan_stream_id(cudaStream_t stream, unsigned long long *id)
{
	return cuda_result(cudaStreamGetId(stream, id), "cudaStreamGetId of a launch");
}

ncclResult_t plan_begin(struct plan_state *st, struct plan *p)
{
	plan_reset(p);
	p->cluster = st->cluster;
	if (!st->streams.n)
		return ncclSuccess;
	p->stream = st->streams.stream[0];
	p->capture = st->streams.capture;
	return p->capture.id ? ncclSuccess : plan_stream_id(p->stream, &p->stream_id);
}

ncclResult_t plan_build(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	bool full = false;
	ncclResult_t rc = plan_begin(st, p);

	for (int32_t i = st->launched; i < st->queued && !rc; i++) {
		struct plan_task *t = &st->queue[i];

		if (!plan_task_is_empty(comm, t))
			rc = plan_task_add(comm, st, p, t, &full);
		if (rc)
			plan_profile_appended(comm, st, p);
		if (rc || full)
			return rc;
		p->taken++;
	}
	return rc;
}

/* ---- starting ------------------------------------------------------------------------------- */

/* Orders the launch after all earlier launches of this communicator in other streams: its
 * collectives never overlap. */
static ncclResult_t plan_stream_order(struct ncclComm *comm, struct plan_state *st,
				      const struct plan *p)
{
	if (p->capture.id)
		return plan_capture_order(comm, &st->captures, &p->capture, p->stream);
	/* the stream's last operation may be older than a replay in another stream */
	if (!comm->launched || (p->stream_id == st->last_stream && !st->captures.used))
		return ncclSuccess;
	return cuda_result(cudaStreamWaitEvent(p->stream, comm->launch_done, 0),
			   "cudaStreamWaitEvent for the previous launch");
}

static ncclResult_t plan_stream_mark_now(struct ncclComm *comm, struct plan_state *st,
					 const struct plan *p)
{
	ncclResult_t rc = cuda_result(cudaEventRecord(comm->launch_done, p->stream),
				      "cudaEventRecord after a launch");

	comm->launched |= !rc;
	comm->unmarked |= rc != ncclSuccess;
	st->last_stream = p->stream_id;
	return rc;
}

/* Called directly after the launch: later, the stream may be destroyed or have other work. */
static ncclResult_t plan_stream_mark(struct ncclComm *comm, struct plan_state *st,
				     const struct plan *p)
{
	ncclResult_t rc;

	if (!p->capture.id)
		return plan_stream_mark_now(comm, st, p);
	rc = plan_capture_mark(comm, &st->captures, &p->capture, p->stream);
	comm->launched |= !rc;
	return rc;
}

/* Fills in the kernel's arguments. If the works do not fit into them, WAITS for room in the
 * FIFO. */
static ncclResult_t plan_args_fill(struct ncclComm *comm, struct plan_state *st,
				   const struct plan *p)
{
	struct plan_works works = plan_works_of(p);
	struct dev_args *args = &st->args;

	args->fifo = (struct dev_fifo){.work = NULL};
	if (plan_is_symmetric(p)) {
		plan_symmetric_args(comm, st, p);
		return ncclSuccess;
	}
	args->comm = comm->dev;
	args->channels = comm->dev_channels;
	args->channel_mask = p->channel_mask;
	args->work_count = (uint32_t)p->nworks;
	args->conns = comm->dev_conns;
	memcpy(args->edges, comm->edges, sizeof args->edges);
	if (p->capture.id && p->nworks > st->args_captured) {
		WARN("a launch of %d works cannot be captured, expected at most %d", p->nworks,
		     st->args_captured);
		return ncclInvalidUsage;
	}
	if (!p->capture.id && p->nworks > st->args_works)
		return plan_fifo_write(comm, &st->fifo, &works, &args->fifo);
	memcpy(args->work, p->work, (size_t)p->nworks * sizeof *p->work);
	return ncclSuccess;
}

/* Returns the blocks of a cluster: a power of two that divides the launch, at most `most`. */
static uint32_t plan_cluster(uint32_t most, uint32_t blocks)
{
	uint32_t size = 1;

	while (2 * size <= most && blocks % (2 * size) == 0)
		size *= 2;
	return size;
}

/* The shape of a launch. */
struct plan_grid {
	uint32_t blocks, threads; /* threads: of a block */
	uint32_t cluster;         /* most blocks of a cluster */
};

static ncclResult_t plan_blocks_launch(const struct dev_kernel *kernel,
				       const struct plan_grid *grid, cudaStream_t stream,
				       void *args, const char *what)
{
	cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
	cudaLaunchConfig_t config = {
		.gridDim = {grid->blocks, 1, 1},
		.blockDim = {grid->threads, 1, 1},
		.dynamicSmemBytes = kernel->shared_bytes,
		.stream = stream,
		.attrs = &cluster,
	};
	void *params[1] = {args};

	ASSERT(grid->blocks >= 1 && grid->threads >= 1);
	cluster.val.clusterDim.x = plan_cluster(grid->cluster, grid->blocks);
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.numAttrs = cluster.val.clusterDim.x > 1;
	return cuda_result(cudaLaunchKernelExC(&config, kernel->func, params), what);
}

static ncclResult_t plan_kernel_launch(struct ncclComm *comm, struct plan_state *st,
				       const struct plan *p)
{
	const struct plan_grid grid = {(uint32_t)__builtin_popcountll(p->channel_mask),
				       p->block_warps * st->warp_width, p->cluster};
	struct plan_works works = plan_works_of(p);
	void *event = plan_profile_launch_begin(comm, p);
	ncclResult_t rc;

	rc = plan_blocks_launch(p->kernel, &grid, p->stream,
				plan_is_symmetric(p) ? (void *)&st->symmetric : &st->args,
				"cudaLaunchKernelExC of a plan");
	profiler_stop(comm, &event);
	if (!rc && st->args.fifo.work)
		plan_fifo_launched(&st->fifo, &works, &st->args.fifo);
	return rc;
}

/* Multiplies the input of a communicator of one rank by its factor. */
static ncclResult_t plan_scale(const struct plan_state *st, const struct plan_task *t,
			       cudaStream_t stream)
{
	struct dev_work work = t->work;
	const struct plan_grid grid = {work.channel_hi + 1u, work.nwarps * st->warp_width,
				       st->cluster};

	return plan_blocks_launch(st->one_rank_kernel, &grid, stream, &work,
				  "cudaLaunchKernelExC of a collective of one rank");
}

/* Copies the input of a communicator of one rank to its output. */
static ncclResult_t plan_copy(const struct plan_task *t, cudaStream_t stream)
{
	ASSERT(t->send_bytes == t->recv_bytes);
	return cuda_result(
		cudaMemcpyAsync(t->recv, t->send, t->send_bytes, cudaMemcpyDefault, stream),
		"cudaMemcpyAsync of a collective of one rank");
}

static ncclResult_t plan_start_alone(struct ncclComm *comm, struct plan_state *st,
				     const struct plan *p)
{
	ncclResult_t rc = ncclSuccess;

	for (int32_t i = st->launched; i < st->launched + p->taken && !rc; i++) {
		const struct plan_task *t = &st->queue[i];

		if (plan_task_is_empty(comm, t))
			continue;
		plan_task_uses(comm, t, p->stream);
		rc = t->factor.used ? plan_scale(st, t, p->stream) : plan_copy(t, p->stream);
		st->handed_over |= !rc;
	}
	return rc;
}

static ncclResult_t plan_ops_append(struct ncclComm *comm, struct plan_state *st,
				    const struct plan *p)
{
	if (p->capture.id || (p->nops && plan_captures_pending(&st->captures)))
		return plan_capture_ops(comm, &st->captures, &p->capture, p->stream, p->op,
					p->nops);
	return proxy_append(comm, p->op, p->nops);
}

/* The proxy's operations are appended first: a kernel that has started waits for them. */
static ncclResult_t plan_start_kernel(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	ncclResult_t rc = plan_args_fill(comm, st, p);

	if (!rc)
		rc = plan_ops_append(comm, st, p);
	plan_profile_appended(comm, st, p);
	st->handed_over |= !rc && p->nops;
	if (!rc)
		plan_uses(comm, st, p);
	if (!rc)
		rc = plan_kernel_launch(comm, st, p);
	st->handed_over |= !rc;
	return rc;
}

static ncclResult_t plan_start_timed(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	ncclResult_t rc = plan_timed_begin(comm, st, p);

	if (!rc)
		rc = plan_start_kernel(comm, st, p);
	return rc ? rc : plan_timed_end(comm, st, p);
}

/* The copies of a communicator of one rank are not ordered, as in NCCL: ordering its streams is up
 * to the program. The internal stream waits for all copies outside of graphs, and finalize waits
 * for the internal stream. */
static ncclResult_t plan_mark_alone(struct ncclComm *comm, struct plan_state *st,
				    const struct plan *p)
{
	ncclResult_t rc;

	if (p->capture.id)
		return ncclSuccess;
	rc = plan_stream_mark(comm, st, p);
	return rc ? rc
		  : cuda_result(cudaStreamWaitEvent(comm->internal_stream, comm->launch_done, 0),
				"cudaStreamWaitEvent for a collective of one rank");
}

static ncclResult_t plan_start_tasks(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	bool alone = comm->nranks == 1;
	ncclResult_t rc = plan_streams_ready(comm, st, p);

	transport_windows_launch(comm, p->capture.id != 0);
	if (!rc)
		rc = alone ? plan_start_alone(comm, st, p) : plan_start_timed(comm, st, p);
	if (!rc)
		rc = alone ? plan_mark_alone(comm, st, p) : plan_stream_mark(comm, st, p);
	return rc;
}

ncclResult_t plan_streams_ready(struct ncclComm *comm, struct plan_state *st, const struct plan *p)
{
	ncclResult_t rc = comm->nranks == 1 ? ncclSuccess : plan_stream_order(comm, st, p);

	return rc ? rc : plan_streams_join(&st->streams);
}

ncclResult_t plan_start_messages(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	ncclResult_t rc = plan_start_timed(comm, st, p);

	plan_profile_appended(comm, st, p);
	return rc ? rc : plan_stream_mark(comm, st, p);
}

ncclResult_t plan_start_copies(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	return comm->nranks == 1 ? plan_mark_alone(comm, st, p) : plan_stream_mark(comm, st, p);
}

ncclResult_t plan_start(struct ncclComm *comm, struct plan_state *st, struct plan *p)
{
	ncclResult_t rc = p->ntasks ? plan_start_tasks(comm, st, p) : ncclSuccess;

	plan_profile_appended(comm, st, p);
	if (!rc)
		st->launched += p->taken;
	return rc;
}
