/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events. Each recording is a separate mark, which the stream reaches later. A query, a wait and a
 * stream wait refer to the event's latest mark at the time of the call. An event that was never
 * recorded is complete. The event exists until the program destroyed it and no recording is queued,
 * a mark until its last reference is dropped.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>

void fc_mark_unref(struct fc_mark *mark)
{
	if (!mark || --mark->refs)
		return;
	mem_forget(mark);
	fc_clock_free(&mark->clock);
	free(mark);
}

static bool event_complete(const struct CUevent_st *e)
{
	return !e->latest || e->latest->reached;
}

bool fc_event_reached(const struct fc_op *op)
{
	return op->event.mark->reached;
}

/* Makes streams whose first operation waits for this mark check it again. */
static void event_kick_waiters(const struct fc_proc *proc, const struct fc_mark *mark)
{
	for (int32_t i = 0; i < proc->slots; i++) {
		struct fc_ctx *c = proc->ctx[i];
		for (struct CUstream_st *s = c ? c->streams : NULL; s; s = s->next) {
			if (s->head && s->head->kind == FC_OP_WAIT && s->head->event.mark == mark)
				fc_stream_kick(s, 0);
		}
	}
}

void fc_event_record_done(struct fc_op *op)
{
	struct fc_mark *mark = op->event.mark;
	ASSERT(!mark->reached);
	mark->reached = true;
	mark->time_ns = sim_now_ns();
	mem_release(mark);
	if (op->event.event)
		os_event_post(op->event.event);
	event_kick_waiters(op->stream->ctx->proc, mark);
}

void fc_event_drop(struct CUevent_st *e)
{
	struct CUevent_st **at = &e->ctx->events;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	fc_mark_unref(e->latest);
	fc_nodes_free(&e->tips);
	os_unlabel(e);
	e->magic = 0;
	free(e);
}

void fc_event_keep(struct CUevent_st *e)
{
	e->refs++;
}

void fc_event_unkeep(struct CUevent_st *e)
{
	ASSERT(e->magic == FC_EVENT_MAGIC && e->refs);
	if (--e->refs == 0 && e->destroyed)
		fc_event_drop(e);
}

/* Drops an operation's references. A recording refers to its event, which is of the same context. A
 * wait refers only to the mark, because the wait may be in a context that outlives the event's. */
void fc_event_op_free(struct fc_op *op)
{
	struct CUevent_st *e = op->event.event;
	fc_mark_unref(op->event.mark);
	if (e)
		fc_event_unkeep(e);
}

static struct fc_op *mark_queue(struct CUstream_st *s, enum fc_op_kind kind, uint64_t latency_ns,
				struct fc_mark *mark, struct CUevent_st *e)
{
	struct fc_op *op = fc_op_new(kind, latency_ns);

	op->event.mark = mark;
	mark->refs++;
	op->event.event = e;
	if (e)
		fc_event_keep(e);
	fc_stream_queue(s, op);
	return op;
}

struct fc_op *fc_mark_record(struct CUstream_st *s, struct fc_mark **mark)
{
	*mark = calloc(1, sizeof **mark);
	ASSERT(*mark);
	(*mark)->refs = 1;
	return mark_queue(s, FC_OP_RECORD, FC_STREAM_NS, *mark, NULL);
}

void fc_mark_wait(struct CUstream_st *s, struct fc_mark *mark)
{
	if (!mark->reached) {
		mark_queue(s, FC_OP_WAIT, 0, mark, NULL);
		return;
	}
	/* nothing to queue, but later operations are still ordered after it */
	mem_acquire(mark);
	mem_release(&s->queued);
	fc_use_waits(s, mark);
}

struct fc_op *fc_event_record(struct CUevent_st *e, struct CUstream_st *s)
{
	fc_mark_unref(e->latest);
	e->latest = calloc(1, sizeof *e->latest);
	ASSERT(e->latest);
	e->latest->refs = 1;
	e->captured = 0;
	fc_nodes_free(&e->tips);
	return mark_queue(s, FC_OP_RECORD, FC_STREAM_NS, e->latest, e);
}

void fc_event_wait(struct CUevent_st *e, struct CUstream_st *s)
{
	if (e->latest)
		fc_mark_wait(s, e->latest);
}

struct CUevent_st *fc_event_get(struct fc_proc *proc, cudaEvent_t handle, const char *call)
{
	for (int32_t i = 0; i < proc->slots; i++) {
		struct fc_ctx *c = proc->ctx[i];
		for (struct CUevent_st *e = c ? c->events : NULL; e; e = e->next) {
			if (e == handle && !e->destroyed)
				return e;
		}
	}
	fc_misuse("%s: invalid event: not created by this process", call);
	return NULL;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuEventCreate");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	unsigned int known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
	bool ipc_timing = (Flags & cudaEventInterprocess) && !(Flags & cudaEventDisableTiming);
	if (!phEvent || Flags & ~known || ipc_timing) {
		fc_report("%s: %s", at.call,
			  ipc_timing ? "interprocess needs cudaEventDisableTiming"
				     : "bad argument");
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	struct CUevent_st *e = calloc(1, sizeof *e);
	ASSERT(e);
	e->magic = FC_EVENT_MAGIC;
	e->ctx = ctx;
	e->flags = Flags;
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
	*phEvent = e;
	return fc_driver_leave(cudaSuccess);
}

CUresult cuEventDestroy(CUevent hEvent)
{
	const struct fc_at at = FC_AT("cuEventDestroy");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (!ctx)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUevent_st *e = fc_event_get(ctx->proc, hEvent, at.call);
	if (!e) {
		rc = cudaErrorInvalidResourceHandle;
	} else {
		e->destroyed = true;
		if (!e->refs)
			fc_event_drop(e);
	}
	fc_unlock();
	return fc_driver_leave(rc);
}

/* Records the event in the stream: for a wait, as a dependency of a capture, or as a node of the
 * capture's graph (cudaEventRecordExternal). The caller holds fc_lock. */
static cudaError_t event_record(struct CUevent_st *e, struct CUstream_st *s, unsigned int flags,
				const char *call, const void *caller)
{
	struct fc_work work = {.type = cudaGraphNodeTypeEventRecord, .event = e};

	if (s->ctx != e->ctx) {
		fc_report("%s: the event is of gpu %u, the stream of gpu %u", call,
			  e->ctx->dev->index, s->ctx->dev->index);
		return cudaErrorInvalidResourceHandle;
	}
	if (flags && !s->capture) {
		fc_report("%s: cudaEventRecordExternal outside a capture", call);
		return cudaErrorIllegalState;
	}
	if (flags) {
		fc_event_keep(e);
		fc_capture_add(s, &work, call, caller);
	} else if (s->capture) {
		fc_capture_record(s, e);
	} else {
		fc_event_record(e, s);
	}
	return cudaSuccess;
}

static CUresult event_record_call(CUevent event, CUstream stream, unsigned int flags,
				  const struct fc_at *at)
{
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at->call, &ctx);
	if (!rc && flags & ~(unsigned int)cudaEventRecordExternal) {
		fc_report("%s: flags 0x%x; expected 0 or cudaEventRecordExternal", at->call, flags);
		rc = cudaErrorInvalidValue;
	}
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUevent_st *e = fc_event_get(ctx->proc, event, at->call);
	struct CUstream_st *s = e ? fc_stream_get(ctx, stream, at->call) : NULL;
	rc = s ? fc_capture_check(s, at->call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = event_record(e, s, flags, at->call, at->caller);
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	const struct fc_at at = FC_AT("cuEventRecord");

	return event_record_call(hEvent, hStream, 0, &at);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	const struct fc_at at = FC_AT("cuEventRecordWithFlags");

	return event_record_call(hEvent, hStream, flags, &at);
}

/* Makes the stream wait: in the stream, as an edge of the capture's graph, or as a node of it
 * (cudaEventWaitExternal). The caller holds fc_lock. */
static cudaError_t event_wait_in(struct CUevent_st *e, struct CUstream_st *s, unsigned int flags,
				 const char *call, const void *caller)
{
	struct fc_work work = {.type = cudaGraphNodeTypeWaitEvent, .event = e};
	bool waits = true;
	cudaError_t rc;

	if (flags && !s->capture) {
		fc_report("%s: cudaEventWaitExternal outside a capture", call);
		return cudaErrorIllegalState;
	}
	if (flags) {
		fc_event_keep(e);
		fc_capture_add(s, &work, call, caller);
		return cudaSuccess;
	}
	rc = fc_capture_wait(s, e, call, &waits);
	if (!rc && waits)
		fc_event_wait(e, s);
	return rc;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	const struct fc_at at = FC_AT("cuStreamWaitEvent");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	if (Flags & ~(unsigned int)cudaEventWaitExternal) {
		fc_report("%s: flags 0x%x; expected 0 or cudaEventWaitExternal", at.call, Flags);
		return fc_driver_leave(cudaErrorInvalidValue);
	}
	fc_lock();
	struct CUevent_st *e = fc_event_get(ctx->proc, hEvent, at.call);
	struct CUstream_st *s = e ? fc_stream_get(ctx, hStream, at.call) : NULL;
	rc = s ? fc_capture_check(s, at.call) : cudaErrorInvalidResourceHandle;
	if (!rc)
		rc = event_wait_in(e, s, Flags, at.call, at.caller);
	fc_unlock();
	return fc_driver_leave(rc);
}

CUresult cuEventQuery(CUevent hEvent)
{
	const struct fc_at at = FC_AT("cuEventQuery");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUevent_st *e = fc_event_get(ctx->proc, hEvent, at.call);
	cudaError_t bad = e ? fc_capture_event(e, at.call) : cudaErrorInvalidResourceHandle;
	if (bad)
		rc = bad;
	else if (e->ctx->sticky)
		rc = e->ctx->sticky;
	else if (!event_complete(e))
		rc = cudaErrorNotReady;
	else if (e->latest) {
		mem_acquire(e->latest);
		fc_use_host_waited_mark(ctx->proc, e->latest);
	}
	fc_unlock();
	(void)fc_driver_leave(rc);
	if (rc == cudaErrorNotReady)
		os_poll_miss(at.call);
	else
		os_poll_hit();
	return (CUresult)rc;
}

/* Waits until the mark is reached. The caller holds a reference to the mark, and not fc_lock. */
static cudaError_t event_wait(struct CUevent_st *e, const struct fc_mark *mark, const char *call)
{
	char why[96];
	snprintf(why, sizeof why, "%s event %u of gpu %u", call, e->number, e->ctx->dev->index);
	for (;;) {
		struct wait w = {.on = e,
				 .want = os_event_seq(e),
				 .mask = WAIT_MASK_ALL,
				 .kind = WAIT_OBJECT,
				 .why = why,
				 .from = {os_self()->rank, -1, -1, "gpu"}};
		fc_lock();
		bool over = mark->reached || e->ctx->sticky;
		cudaError_t rc = e->ctx->sticky;
		if (over)
			fc_use_host_waited_mark(e->ctx->proc, mark);
		if (over && UNLIKELY(e->ctx->proc->pools))
			fc_pools_waited(e->ctx->proc);
		fc_unlock();
		if (over) {
			mem_acquire(mark);
			return rc;
		}
		sim_events_drain();
		os_wait_one(&w, NULL);
	}
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	const struct fc_at at = FC_AT("cuEventSynchronize");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	fc_lock();
	struct CUevent_st *e = fc_event_get(ctx->proc, hEvent, at.call);
	rc = e ? fc_capture_event(e, at.call) : cudaErrorInvalidResourceHandle;
	struct fc_mark *mark = rc ? NULL : e->latest;
	if (mark)
		mark->refs++;
	fc_unlock();
	if (mark) {
		rc = event_wait(e, mark, at.call);
		fc_lock();
		fc_mark_unref(mark);
		fc_unlock();
	}
	return fc_driver_leave(rc);
}

/* Computes the time between two events of the process, which must be recorded with timing. */
static cudaError_t event_elapsed(const struct CUevent_st *a, const struct CUevent_st *b, float *ms,
				 const char *call)
{
	if (a->captured || b->captured) {
		fc_report("%s: a capture recorded event %u last", call,
			  a->captured ? a->number : b->number);
		return cudaErrorInvalidValue;
	}
	if ((a->flags | b->flags) & cudaEventDisableTiming || !a->latest || !b->latest) {
		fc_report("%s: %s", call,
			  a->latest && b->latest ? "an event without timing"
						 : "an event that was never recorded");
		return cudaErrorInvalidResourceHandle;
	}
	if (!event_complete(a) || !event_complete(b))
		return cudaErrorNotReady;
	int64_t ns = (int64_t)(b->latest->time_ns - a->latest->time_ns);
	*ms = (float)ns / 1e6f;
	return cudaSuccess;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	const struct fc_at at = FC_AT("cuEventElapsedTime");
	struct fc_ctx *ctx;
	cudaError_t rc = fc_enter_ctx(at.call, &ctx);
	if (rc)
		return fc_driver_leave(rc);
	if (!pMilliseconds)
		return fc_driver_leave(cudaErrorInvalidValue);
	fc_lock();
	struct CUevent_st *a = fc_event_get(ctx->proc, hStart, at.call);
	struct CUevent_st *b = a ? fc_event_get(ctx->proc, hEnd, at.call) : NULL;
	rc = b ? event_elapsed(a, b, pMilliseconds, at.call) : cudaErrorInvalidResourceHandle;
	fc_unlock();
	return fc_driver_leave(rc);
}
