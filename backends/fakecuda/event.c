/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events. Recording asks for number `recorded`; the stream reaches it later and sets `done` and the
 * time. A query, a wait and a stream wait are about the latest record asked for when they are made;
 * an event that was never recorded is complete. The event lives until the program destroyed it and
 * no operation names it.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

bool fc_event_reached(const struct fc_op *op)
{
	return op->event.event->done >= op->event.seq;
}

/* Streams whose first operation waits for this event look again. */
static void event_kick_waiters(struct CUevent_st *e)
{
	for (int32_t i = 0; i < e->ctx->proc->count; i++) {
		struct fc_ctx *c = e->ctx->proc->ctx[i];
		for (struct CUstream_st *s = c ? c->streams : NULL; s; s = s->next) {
			if (s->head && s->head->kind == FC_OP_WAIT && s->head->event.event == e)
				fc_stream_kick(s, 0);
		}
	}
}

void fc_event_record_done(struct fc_op *op)
{
	struct CUevent_st *e = op->event.event;
	if (op->event.seq <= e->done) /* a later record, in another stream, came first */
		return;
	e->done = op->event.seq;
	e->time_ns = sim_now_ns();
	os_event_post(e);
	event_kick_waiters(e);
}

void fc_event_drop(struct CUevent_st *e)
{
	struct CUevent_st **at = &e->ctx->events;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	os_unlabel(e);
	e->magic = 0;
	free(e);
}

void fc_event_unref(struct CUevent_st *e)
{
	ASSERT(e->magic == FC_EVENT_MAGIC && e->refs);
	if (--e->refs == 0 && e->destroyed)
		fc_event_drop(e);
}

/* The event, or NULL: it is none of this process (explained). */
static struct CUevent_st *event_get(struct fc_proc *proc, cudaEvent_t handle, const char *call)
{
	for (int32_t i = 0; i < proc->count; i++) {
		struct fc_ctx *c = proc->ctx[i];
		for (struct CUevent_st *e = c ? c->events : NULL; e; e = e->next) {
			if (e == handle && !e->destroyed)
				return e;
		}
	}
	fc_report("%s: this is no event of this process", call);
	return NULL;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventCreateWithFlags", &ctx);
	if (rc)
		return fc_leave(rc);
	unsigned int known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
	bool ipc_timing = (flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming);
	if (!event || flags & ~known || ipc_timing) {
		fc_report("cudaEventCreateWithFlags: %s",
			  ipc_timing ? "interprocess needs cudaEventDisableTiming"
				     : "bad argument");
		return fc_leave(cudaErrorInvalidValue);
	}
	struct CUevent_st *e = calloc(1, sizeof *e);
	ASSERT(e);
	e->magic = FC_EVENT_MAGIC;
	e->ctx = ctx;
	e->flags = flags;
	fc_who(e->who);
	fc_lock();
	struct CUevent_st **end = &ctx->events;
	for (; *end; end = &(*end)->next)
		e->number = (*end)->number + 1;
	*end = e;
	fc_unlock();
	struct os_label label = {.what = "cuda event",
				 .rank = os_self()->rank,
				 .peer = -1,
				 .channel = -1,
				 .number = e->number};
	os_label(e, &label);
	*event = e;
	return fc_leave(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventDestroy", &ctx);
	if (!ctx)
		return fc_leave(rc);
	fc_lock();
	struct CUevent_st *e = event_get(ctx->proc, event, "cudaEventDestroy");
	if (!e) {
		rc = cudaErrorInvalidResourceHandle;
	} else {
		e->destroyed = true;
		if (!e->refs)
			fc_event_drop(e);
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventRecord", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUevent_st *e = event_get(ctx->proc, event, "cudaEventRecord");
	struct CUstream_st *s = e ? fc_stream_get(ctx, stream, "cudaEventRecord") : NULL;
	if (!s) {
		rc = cudaErrorInvalidResourceHandle;
	} else if (s->ctx != e->ctx) {
		fc_report("cudaEventRecord: the event is of gpu %u, the stream of gpu %u",
			  e->ctx->dev->index, s->ctx->dev->index);
		rc = cudaErrorInvalidResourceHandle;
	} else {
		struct fc_op *op = fc_op_new(FC_OP_RECORD, FC_STREAM_NS);
		op->event.event = e;
		op->event.seq = ++e->recorded;
		e->refs++;
		fc_stream_queue(s, op);
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaStreamWaitEvent", &ctx);
	if (rc)
		return fc_leave(rc);
	if (flags) {
		fc_report("cudaStreamWaitEvent: flags 0x%x outside a capture", flags);
		return fc_leave(cudaErrorInvalidValue);
	}
	fc_lock();
	struct CUevent_st *e = event_get(ctx->proc, event, "cudaStreamWaitEvent");
	struct CUstream_st *s = e ? fc_stream_get(ctx, stream, "cudaStreamWaitEvent") : NULL;
	if (!s) {
		rc = cudaErrorInvalidResourceHandle;
	} else if (e->done < e->recorded) {
		struct fc_op *op = fc_op_new(FC_OP_WAIT, 0);
		op->event.event = e;
		op->event.seq = e->recorded;
		e->refs++;
		fc_stream_queue(s, op);
	}
	fc_unlock();
	return fc_leave(rc);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventQuery", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUevent_st *e = event_get(ctx->proc, event, "cudaEventQuery");
	if (!e)
		rc = cudaErrorInvalidResourceHandle;
	else if (e->ctx->sticky)
		rc = e->ctx->sticky;
	else if (e->done < e->recorded)
		rc = cudaErrorNotReady;
	fc_unlock();
	rc = fc_leave(rc);
	if (rc == cudaErrorNotReady)
		os_poll_miss("cudaEventQuery");
	else
		os_poll_hit();
	return rc;
}

/* Not under fc_lock. */
static cudaError_t event_wait(struct CUevent_st *e, uint64_t seq)
{
	char why[96];
	snprintf(why, sizeof why, "cudaEventSynchronize event %u of gpu %u", e->number,
		 e->ctx->dev->index);
	for (;;) {
		struct wait w = {.on = e,
				 .want = os_event_seq(e),
				 .mask = WAIT_MASK_ALL,
				 .kind = WAIT_OBJECT,
				 .why = why,
				 .from = {os_self()->rank, -1, (int64_t)seq, "gpu"}};
		fc_lock();
		bool over = e->done >= seq || e->ctx->sticky;
		cudaError_t rc = e->ctx->sticky;
		fc_unlock();
		if (over)
			return rc;
		sim_events_drain();
		os_wait_one(&w, NULL);
	}
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventSynchronize", &ctx);
	if (rc)
		return fc_leave(rc);
	fc_lock();
	struct CUevent_st *e = event_get(ctx->proc, event, "cudaEventSynchronize");
	uint64_t seq = e ? e->recorded : 0;
	fc_unlock();
	return fc_leave(e ? event_wait(e, seq) : cudaErrorInvalidResourceHandle);
}

/* Both events are of the process and were recorded with timing. */
static cudaError_t event_elapsed(const struct CUevent_st *a, const struct CUevent_st *b, float *ms)
{
	if ((a->flags | b->flags) & cudaEventDisableTiming || !a->recorded || !b->recorded) {
		fc_report("cudaEventElapsedTime: %s", a->recorded && b->recorded
							      ? "an event without timing"
							      : "an event that was never recorded");
		return cudaErrorInvalidResourceHandle;
	}
	if (a->done < a->recorded || b->done < b->recorded)
		return cudaErrorNotReady;
	int64_t ns = (int64_t)(b->time_ns - a->time_ns);
	*ms = (float)ns / 1e6f;
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx("cudaEventElapsedTime", &ctx);
	if (rc)
		return fc_leave(rc);
	if (!ms)
		return fc_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUevent_st *a = event_get(ctx->proc, start, "cudaEventElapsedTime");
	struct CUevent_st *b = a ? event_get(ctx->proc, end, "cudaEventElapsedTime") : NULL;
	rc = b ? event_elapsed(a, b, ms) : cudaErrorInvalidResourceHandle;
	fc_unlock();
	return fc_leave(rc);
}
