/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: queues of operations that run one after the other. A stream is a run-to-completion
 * object; stream_step looks at its first operation:
 *
 *   queued --(first in order, ready_ns reached)--> running --(kernel, copy ended)--> done
 *   queued --(event record, reached event wait)------------------------------------> done
 *
 * The legacy stream (number 0) is ordered with the context's blocking streams. An operation in it
 * waits for all operations queued earlier in blocking streams, and they wait for it. Every such
 * operation gets a number from the context, so the rule is a comparison: the first operation of the
 * other side must have a larger number. Non-blocking streams do not take part.
 *
 * fc_stream_* are called under fc_lock except where noted.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

/* ---- queue ---------------------------------------------------------------------------------- */

static bool stream_blocking(const struct CUstream_st *s)
{
	return !(s->flags & cudaStreamNonBlocking);
}

struct fc_op *fc_op_new(enum fc_op_kind kind, uint64_t latency_ns)
{
	struct fc_op *op = calloc(1, sizeof *op);
	ASSERT(op);
	op->kind = kind;
	op->rank = os_self()->rank;
	op->ready_ns = sim_now_ns() + sim_latency(latency_ns);
	return op;
}

void fc_op_free(struct fc_op *op)
{
	if (op->kind == FC_OP_KERNEL && op->kernel)
		fc_kernel_free(op->kernel);
	if (op->kind == FC_OP_RECORD || op->kind == FC_OP_WAIT)
		fc_event_op_free(op);
	if (op->kind == FC_OP_COPY)
		free(op->copy.staged);
	if (op->exec)
		fc_exec_launch_over(op->exec);
	mem_forget(op);
	free(op);
}

void fc_stream_queue(struct CUstream_st *s, struct fc_op *op)
{
	ASSERT(!s->destroyed);
	os_poll_hit(); /* the calling task does something other than polling */
	op->stream = s;
	mem_release(op);
	if (stream_blocking(s))
		op->order = ++s->ctx->order_last;
	*s->tail = op;
	s->tail = &op->next;
	s->queued++;
	fc_use_queued(s, op);
	if (s->head == op) {
		uint64_t now = sim_now_ns();
		fc_stream_kick(s, op->ready_ns > now ? op->ready_ns - now : 0);
	}
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* True if the legacy rule permits this first operation to start before the operations of the other
 * side. */
static bool stream_order_holds(const struct CUstream_st *s, const struct fc_op *op)
{
	if (!stream_blocking(s))
		return true;
	struct CUstream_st *legacy = s->ctx->streams;
	if (s->number)
		return !legacy->head || legacy->head->order > op->order;
	for (struct CUstream_st *o = legacy->next; o; o = o->next) {
		if (stream_blocking(o) && o->head && o->head->order < op->order)
			return false;
	}
	return true;
}

/* Acquires everything that precedes this operation: the program's actions before it queued the
 * operation, earlier operations of this stream, and the other side of the legacy rule. An
 * operation's end is released to &s->done. */
static void stream_take_order(const struct CUstream_st *s, const struct fc_op *op)
{
	mem_acquire(op);
	mem_acquire(&s->done);
	mem_acquire(&s->queued);
	if (op->kind == FC_OP_WAIT)
		mem_acquire(op->event.mark);
	if (!stream_blocking(s))
		return;
	const struct CUstream_st *legacy = s->ctx->streams;
	if (s->number)
		mem_acquire(&legacy->done);
	for (const struct CUstream_st *o = legacy->next; o && !s->number; o = o->next)
		if (stream_blocking(o))
			mem_acquire(&o->done);
}

/* Starts the next operation. Returns true if it is done already. */
static bool stream_start(struct fc_op *op)
{
	stream_take_order(op->stream, op);
	switch (op->kind) {
	case FC_OP_RECORD:
		fc_event_record_done(op);
		return true;
	case FC_OP_WAIT:
		return true;
	case FC_OP_KERNEL:
		op->running = true;
		fc_kernel_start(op);
		return false;
	case FC_OP_COPY:
	case FC_OP_SET:
		op->running = true;
		fc_copy_start(op);
		return false;
	case FC_OP_HOST_FUNC:
		op->running = true;
		fc_host_func_start(op);
		return false;
	case FC_OP_BLOCK:
		fc_block_op(op);
		return true;
	case FC_OP_MEMOP:
		op->running = true;
		fc_memop_start(op);
		return false;
	}
	ASSERT(!"an operation of a known kind");
	return true;
}

static void stream_pop(struct CUstream_st *s)
{
	struct fc_op *op = s->head;
	s->head = op->next;
	if (!s->head)
		s->tail = &s->head;
	s->done++;
	mem_release(&s->done);
	mem_release(s->ctx);
	fc_op_free(op);
	os_event_post(s);
	os_event_post(s->ctx);
	os_progress();
}

/* Wakes the streams of the other side of the legacy rule. */
static void stream_kick_others(struct CUstream_st *s)
{
	if (!stream_blocking(s))
		return;
	struct CUstream_st *legacy = s->ctx->streams;
	if (s->number) {
		if (legacy->head && !legacy->head->running)
			fc_stream_kick(legacy, 0);
		return;
	}
	for (struct CUstream_st *o = legacy->next; o; o = o->next) {
		if (stream_blocking(o) && o->head && !o->head->running)
			fc_stream_kick(o, 0);
	}
}

static void stream_advance(struct CUstream_st *s)
{
	while (s->head && !s->head->running && !s->ctx->sticky) {
		struct fc_op *op = s->head;
		uint64_t now = sim_now_ns();
		if (op->ready_ns > now) {
			fc_stream_kick(s, op->ready_ns - now);
			break;
		}
		if (!stream_order_holds(s, op))
			break;
		if (op->kind == FC_OP_WAIT && !fc_event_reached(op))
			break;
		if (!stream_start(op))
			break;
		stream_pop(s);
		stream_kick_others(s);
	}
	if (s->destroyed && !s->head)
		fc_stream_drop(s);
}

bool fc_stream_alive(const struct CUstream_st *s, uint64_t serial)
{
	if (sim_engine_kind() == SIM_ENGINE_SIM)
		return true; /* fc_stream_drop cancelled the stream's events */
	for (uint32_t i = 0; i < fc.device_count; i++) {
		for (struct fc_ctx *ctx = fc.device[i].ctx; ctx; ctx = ctx->next_on_device) {
			for (struct CUstream_st *o = ctx->streams; o; o = o->next) {
				if (o == s)
					return o->serial == serial;
			}
		}
	}
	return false;
}

/* Advances a stream. Event context. */
static void stream_step(void *object, uint64_t serial)
{
	struct CUstream_st *s = object;
	fc_lock();
	if (fc_stream_alive(s, serial)) {
		ASSERT(s->magic == FC_STREAM_MAGIC && s->step_posted);
		s->step_posted = false;
		mem_as(s);
		stream_advance(s);
	}
	fc_unlock();
	sim_events_drain();
}

void fc_stream_kick(struct CUstream_st *s, uint64_t delay_ns)
{
	if (s->step_posted)
		return;
	s->step_posted = true;
	/* in `threads` only timers have a delay, and only faults delay an operation */
	bool timer = delay_ns && sim_engine_kind() == SIM_ENGINE_THREADS;
	struct sim_event_attr attr = {.name = "cuda.stream",
				      .kind = timer ? SIM_EVENT_TIMER : SIM_EVENT_WORK,
				      .delay_ns = delay_ns,
				      .order = s};
	sim_event_post(&attr, stream_step, s, s->serial, NULL);
}

void fc_stream_op_done(struct CUstream_st *s)
{
	ASSERT(s->head && s->head->running);
	stream_pop(s);
	stream_kick_others(s);
	fc_stream_kick(s, 0);
}

/* ---- create and destroy --------------------------------------------------------------------- */

struct CUstream_st *fc_stream_new(struct fc_ctx *ctx, unsigned int flags, int priority)
{
	struct CUstream_st *s = calloc(1, sizeof *s);
	ASSERT(s);
	s->magic = FC_STREAM_MAGIC;
	s->ctx = ctx;
	s->flags = flags;
	s->priority = priority;
	s->tail = &s->head;
	s->number = ctx->streams ? ++ctx->stream_last : 0;
	s->serial = ++fc.stream_serial;
	fc_who(s->who);
	struct CUstream_st **end = &ctx->streams;
	while (*end)
		end = &(*end)->next;
	*end = s;
	struct os_label label = {.what = "cuda stream",
				 .rank = os_self()->rank,
				 .peer = -1,
				 .channel = -1,
				 .number = s->number};
	os_label(s, &label);
	return s;
}

void fc_stream_drop(struct CUstream_st *s)
{
	struct CUstream_st **at = &s->ctx->streams;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	sim_events_cancel_object(s);
	fc_capture_stream_gone(s);
	while (s->head) {
		struct fc_op *op = s->head;
		s->head = op->next;
		fc_op_free(op);
	}
	fc_use_stream_gone(s);
	mem_forget(&s->done);
	mem_forget(&s->queued);
	mem_forget(s);
	os_unlabel(s);
	s->magic = 0;
	free(s);
}

/* Returns the calling task's own default stream on that GPU: one handle means a different stream in
 * each task. It is a blocking stream and exists as long as the context. */
static struct CUstream_st *stream_of_task(struct fc_ctx *ctx)
{
	uint32_t task = os_self()->id + 1;
	struct CUstream_st *s = ctx->streams;

	while (s && s->task != task)
		s = s->next;
	if (!s) {
		s = fc_stream_new(ctx, cudaStreamDefault, 0);
		s->task = task;
	}
	return s;
}

struct CUstream_st *fc_stream_get(struct fc_ctx *ctx, cudaStream_t handle, const char *call)
{
	if (!handle || handle == cudaStreamLegacy)
		return ctx->streams;
	if (handle == cudaStreamPerThread)
		return stream_of_task(ctx);
	for (int32_t i = 0; i < ctx->proc->slots; i++) {
		struct fc_ctx *c = ctx->proc->ctx[i];
		for (struct CUstream_st *s = c ? c->streams : NULL; s; s = s->next) {
			if (s == handle && s->number && !s->destroyed && !s->exec)
				return s;
		}
	}
	fc_misuse("%s: invalid stream: not created by this process", call);
	return NULL;
}

/* ---- waits ---------------------------------------------------------------------------------- */

static bool stream_over(const struct CUstream_st *s, uint64_t done)
{
	return s->done >= done || s->ctx->sticky;
}

/* Waits without fc_lock. If the program destroys the stream meanwhile, it may be dropped when it
 * becomes idle. That is the program's error, as in CUDA. */
cudaError_t fc_stream_wait(struct CUstream_st *s, uint64_t done, const char *call)
{
	char why[96];
	snprintf(why, sizeof why, "%s stream %u of gpu %u", call, s->number, s->ctx->dev->index);
	for (;;) {
		struct wait w = {.on = s,
				 .want = os_event_seq(s),
				 .mask = WAIT_MASK_ALL,
				 .kind = WAIT_OBJECT,
				 .why = why,
				 .from = {os_self()->rank, -1, (int64_t)done, "gpu"}};
		fc_lock();
		bool over = stream_over(s, done);
		cudaError_t rc = s->ctx->sticky;
		if (over)
			fc_use_host_waited(s, done);
		if (over && UNLIKELY(s->ctx->proc->pools))
			fc_pools_waited(s->ctx->proc);
		fc_unlock();
		if (over) {
			mem_acquire(&s->done);
			return rc;
		}
		sim_events_drain();
		os_wait_one(&w, NULL);
	}
}

static bool ctx_idle(const struct fc_ctx *ctx)
{
	for (const struct CUstream_st *s = ctx->streams; s; s = s->next) {
		if (s->head)
			return false;
	}
	return true;
}

/* Waits until the context's work is done. In a dead context, waits only until it is dead, or with
 * `gone` until its last thread has ended. */
static cudaError_t ctx_wait(struct fc_ctx *ctx, const char *call, bool gone)
{
	char why[96];
	for (;;) {
		struct wait w = {.on = ctx,
				 .want = os_event_seq(ctx),
				 .mask = WAIT_MASK_ALL,
				 .kind = WAIT_OBJECT,
				 .why = why,
				 .from = {os_self()->rank, -1, -1, "gpu"}};
		fc_lock();
		bool over = ctx_idle(ctx) || (ctx->sticky && !(gone && ctx->kernels));
		cudaError_t rc = ctx->sticky;
		for (struct CUstream_st *s = over ? ctx->streams : NULL; s; s = s->next)
			fc_use_host_waited(s, s->queued);
		if (over && UNLIKELY(ctx->proc->pools))
			fc_pools_waited(ctx->proc);
		fc_unlock();
		if (over) {
			mem_acquire(ctx);
			return rc;
		}
		snprintf(why, sizeof why, "%s gpu %u", call, ctx->dev->index);
		sim_events_drain();
		os_wait_one(&w, NULL);
	}
}

cudaError_t fc_ctx_wait(struct fc_ctx *ctx, const char *call)
{
	return ctx_wait(ctx, call, false);
}

cudaError_t fc_ctx_wait_gone(struct fc_ctx *ctx, const char *call)
{
	return ctx_wait(ctx, call, true);
}

void fc_ctx_kill(struct fc_ctx *ctx, cudaError_t error)
{
	if (ctx->sticky)
		return;
	ctx->sticky = error;
	for (struct fc_kernel *k = ctx->kernels; k; k = k->next) {
		__atomic_store_n(&k->dead.v_, 1, __ATOMIC_RELEASE);
		sim_wrote(&k->dead, sizeof k->dead);
	}
	for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
		os_event_post(s);
		if (s->head && s->head->running && s->head->kind == FC_OP_MEMOP)
			fc_memop_kill(s->head);
	}
	for (struct CUevent_st *e = ctx->events; e; e = e->next)
		os_event_post(e);
	os_event_post(ctx);
}
