/* SPDX-License-Identifier: BSD-3-Clause */
/* cuLaunchHostFunc: callbacks in the order of a stream, each on a task of its own. */
#include "backends/fakecuda/fakecuda.h"

#include "sim/world/program/world_guest.h"

/* ---- callbacks ------------------------------------------------------------------------------ */

/* Runs a callback in a task of its own, so that it may use all of os.h, like the driver's callback
 * thread. */
static void host_func_main(void *arg)
{
	struct fc_op *op = arg;
	mem_acquire(op);
	op->host_func.fn(op->host_func.arg);
	fc_lock();
	fc_stream_op_done(op->stream);
	fc_unlock();
	sim_events_drain();
}

static void host_func_spawn(struct fc_op *op)
{
	struct sim_task *task;
	mem_release(op);
	struct sim_task_attr attr = {.name = "cuda callback",
				     .kind = SIM_TASK_WARP,
				     .proc = op->stream->ctx->proc->os,
				     .rank = op->rank,
				     .device = (int32_t)op->stream->ctx->dev->index,
				     .kernel = -1,
				     .block = -1,
				     .warp = -1,
				     .lane = -1,
				     .home = op->stream->ctx->dev->index};
	int rc = sim_task_spawn(&task, &attr, host_func_main, op);
	ASSERT(rc == 0);
}

/* Starts a callback that a fault delayed. Event context. */
static void host_func_late(void *object, uint64_t serial)
{
	struct CUstream_st *s = object;
	fc_lock();
	if (fc_stream_alive(s, serial))
		host_func_spawn(s->head);
	fc_unlock();
}

void fc_host_func_start(struct fc_op *op)
{
	uint64_t delay_ns = 0;
	fc_fault_slow("cuda.host_func", op->stream, &delay_ns);
	if (!delay_ns) {
		host_func_spawn(op);
		return;
	}
	struct sim_event_attr attr = {
		.name = "cuda.callback", .kind = SIM_EVENT_TIMER, .delay_ns = delay_ns};
	sim_event_post(&attr, host_func_late, op->stream, op->stream->serial, NULL);
}

struct fc_op *fc_host_func_queue(struct CUstream_st *s, cudaHostFn_t fn, void *arg)
{
	struct fc_op *op = fc_op_new(FC_OP_HOST_FUNC, FC_STREAM_NS);

	op->host_func.fn = fn;
	op->host_func.arg = arg;
	fc_stream_queue(s, op);
	return op;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	const struct fc_at at = FC_AT("cuLaunchHostFunc");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!rc && !fn)
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUstream_st *s = fc_stream_get(ctx, hStream, at.call);
	rc = s ? fc_capture_check(s, at.call) : cudaErrorInvalidResourceHandle;
	if (!rc && s->capture) {
		const struct fc_work work = {.type = cudaGraphNodeTypeHost, .host = {fn, userData}};
		fc_capture_add(s, &work, at.call, at.caller);
	} else if (!rc) {
		fc_host_func_queue(s, fn, userData);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}
