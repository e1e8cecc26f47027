/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures. A stream that captures adds a node for each call. Other streams join the capture by
 * waiting for an event that it recorded, and must be joined again before its end:
 *
 *   none --(begin)--> active --(end in the first stream)--------------------> none, with a graph
 *                       |  \--(end by another thread, or streams unjoined)--> none, without
 *                       +--(a forbidden call)--> invalid --(end)------------> none, without
 *
 * A call of a capture that is invalid fails and changes nothing. The graph belongs to the capture
 * until its end.
 */
#include "backends/fakecuda/fakecuda.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

static struct fc_capture *captures_of(const struct fc_proc *p)
{
	return p->graphs ? p->graphs->captures : NULL;
}

static bool capture_by_me(const struct fc_capture *c)
{
	return c->task == os_self()->id + 1;
}

static struct fc_capture *capture_find(const struct fc_proc *p, uint64_t id)
{
	struct fc_capture *c = captures_of(p);

	while (c && c->id != id)
		c = c->next;
	return c;
}

void fc_capture_invalidate(struct fc_capture *c)
{
	c->invalid = true;
}

/* Reports a forbidden call and invalidates the capture. */
static cudaError_t capture_spoil(struct fc_capture *c, const char *call, cudaError_t error,
				 const char *why)
{
	static const char *const modes[] = {"global", "thread-local", "relaxed"};

	fc_report("%s: %s; the capture of stream %u of gpu %u (graph %u, mode %s, begun by %s) "
		  "becomes invalid",
		  call, why, c->origin->number, c->origin->ctx->dev->index, c->graph->number,
		  modes[c->mode], c->who);
	c->invalid = true;
	return error;
}

/* ---- what captures forbid ------------------------------------------------------------------- */

/* Refuses an operation of the legacy stream: it would wait for a blocking stream that captures. */
static cudaError_t capture_legacy(struct CUstream_st *s, const char *call)
{
	cudaError_t rc = cudaSuccess;

	if (s->number || !captures_of(s->ctx->proc))
		return cudaSuccess;
	for (struct CUstream_st *o = s->ctx->streams; o; o = o->next)
		if (o->capture && !(o->flags & cudaStreamNonBlocking))
			rc = capture_spoil(o->capture, call, cudaErrorStreamCaptureImplicit,
					   "the legacy stream would wait for a stream that "
					   "captures");
	return rc;
}

cudaError_t fc_capture_check(struct CUstream_st *s, const char *call)
{
	if (s->capture && s->capture->invalid) {
		fc_report("%s: the capture of stream %u has failed before", call, s->number);
		return cudaErrorStreamCaptureInvalidated;
	}
	return capture_legacy(s, call);
}

/* True if the capture's mode forbids unsafe calls to this thread. */
static bool capture_forbids_me(const struct fc_capture *c)
{
	enum cudaStreamCaptureMode mine = fc_task_mode();

	if (mine == cudaStreamCaptureModeRelaxed || c->mode == cudaStreamCaptureModeRelaxed)
		return false;
	if (capture_by_me(c))
		return true;
	return mine == cudaStreamCaptureModeGlobal && c->mode == cudaStreamCaptureModeGlobal;
}

cudaError_t fc_capture_unsafe(struct fc_proc *p, const char *call)
{
	cudaError_t rc = cudaSuccess;

	for (struct fc_capture *c = captures_of(p); c; c = c->next)
		if (capture_forbids_me(c))
			rc = capture_spoil(c, call, cudaErrorStreamCaptureUnsupported,
					   "this thread may not call it during a capture, because "
					   "it may wait for work");
	return rc;
}

cudaError_t fc_capture_guard(struct fc_proc *p, const char *call)
{
	cudaError_t rc;

	fc_lock();
	rc = fc_capture_unsafe(p, call);
	fc_unlock();
	return rc;
}

cudaError_t fc_capture_refuse(struct CUstream_st *s, const char *call)
{
	if (s->capture)
		return capture_spoil(s->capture, call, cudaErrorStreamCaptureUnsupported,
				     "the stream captures");
	return capture_legacy(s, call);
}

cudaError_t fc_capture_forbids(struct CUstream_st *s, const char *call)
{
	cudaError_t rc = fc_capture_refuse(s, call);

	return rc || s->capture ? rc : fc_capture_unsafe(s->ctx->proc, call);
}

cudaError_t fc_capture_waits(struct fc_ctx *ctx, const char *call)
{
	cudaError_t rc = cudaSuccess;

	if (!captures_of(ctx->proc))
		return cudaSuccess;
	for (struct CUstream_st *s = ctx->streams; s; s = s->next)
		if (s->capture)
			rc = capture_spoil(s->capture, call, cudaErrorStreamCaptureUnsupported,
					   "a stream of the GPU captures");
	return rc;
}

cudaError_t fc_capture_event(struct CUevent_st *e, const char *call)
{
	struct fc_capture *c = e->captured ? capture_find(e->ctx->proc, e->captured) : NULL;

	if (c)
		return capture_spoil(c, call, cudaErrorCapturedEvent,
				     "the capture recorded the event last");
	if (e->captured) {
		fc_report("%s: a capture that has ended recorded event %u last", call, e->number);
		return cudaErrorInvalidValue;
	}
	return fc_capture_unsafe(e->ctx->proc, call);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void capture_tip(struct CUstream_st *s, struct CUgraphNode_st *n)
{
	n->captured = true;
	s->tips.count = 0;
	fc_nodes_add(&s->tips, n);
}

void fc_capture_add(struct CUstream_st *s, const struct fc_work *work, const char *call,
		    const void *caller)
{
	const struct fc_place at = {s->capture->graph, &s->tips, s->ctx, call, caller};
	struct CUgraphNode_st *n = fc_node_add(&at, work);

	n->uses = s->uses;
	s->uses = NULL;
	capture_tip(s, n);
}

void fc_capture_use(struct CUstream_st *s, const struct os_use *use)
{
	struct fc_node_uses *u = s->uses;

	if (s->capture->invalid)
		return;
	if (!u || u->count == u->room) {
		uint32_t room = u ? 2 * u->room : 2, count = u ? u->count : 0;

		u = realloc(u, sizeof *u + room * sizeof u->use[0]);
		ASSERT(u);
		u->count = count;
		u->room = room;
		s->uses = u;
	}
	u->use[u->count].use = *use;
	text_set(u->use[u->count].what, sizeof u->use[0].what, use->what);
	u->count++;
}

void fc_capture_record(struct CUstream_st *s, struct CUevent_st *e)
{
	e->captured = s->capture->id;
	fc_nodes_copy(&e->tips, &s->tips);
}

/* A stream waits for an event that an active capture recorded: it joins the capture, or has more
 * dependencies. */
static cudaError_t capture_wait_node(struct CUstream_st *s, struct CUevent_st *e,
				     struct fc_capture *c, const char *call)
{
	if (c->invalid) {
		fc_report("%s: the capture that recorded event %u has failed before", call,
			  e->number);
		return cudaErrorStreamCaptureInvalidated;
	}
	if (!s->number)
		return capture_spoil(c, call, cudaErrorStreamCaptureImplicit,
				     "the legacy stream cannot join a capture");
	if (s->capture && s->capture != c) {
		(void)capture_spoil(s->capture, call, cudaErrorStreamCaptureMerge,
				    "it would merge two captures");
		return capture_spoil(c, call, cudaErrorStreamCaptureMerge,
				     "it would merge two captures");
	}
	s->capture = c;
	for (uint32_t i = 0; i < e->tips.count; i++)
		fc_nodes_add(&s->tips, e->tips.at[i]);
	return cudaSuccess;
}

cudaError_t fc_capture_wait(struct CUstream_st *s, struct CUevent_st *e, const char *call,
			    bool *waits)
{
	struct fc_capture *c = e->captured ? capture_find(e->ctx->proc, e->captured) : NULL;

	*waits = false;
	if (c)
		return capture_wait_node(s, e, c, call);
	if (e->captured) {
		fc_report("%s: a capture that has ended recorded event %u last", call, e->number);
		if (s->capture)
			fc_capture_invalidate(s->capture);
		return cudaErrorInvalidValue;
	}
	if (s->capture && e->latest)
		return capture_spoil(s->capture, call, cudaErrorStreamCaptureIsolation,
				     "the capture would depend on work outside of it");
	*waits = !s->capture;
	return cudaSuccess;
}

/* ---- begin and end -------------------------------------------------------------------------- */

cudaError_t fc_capture_begin(struct CUstream_st *s, enum cudaStreamCaptureMode mode,
			     struct CUgraph_st *g, const struct fc_nodes *from)
{
	struct fc_graphs *all = fc_graphs_get(s->ctx->proc);
	struct fc_capture *c = calloc(1, sizeof *c);

	ASSERT(c);
	c->id = ++fc.graph_serial;
	c->owned = !g;
	c->graph = g ? g : fc_graph_new(s->ctx->proc, true);
	c->graph->capture = c;
	c->origin = s;
	c->task = os_self()->id + 1;
	c->mode = mode;
	fc_who(c->who);
	c->next = all->captures;
	all->captures = c;
	s->capture = c;
	if (from)
		fc_nodes_copy(&s->tips, from);
	return cudaSuccess;
}

static void capture_leave(struct CUstream_st *s)
{
	s->capture = NULL;
	fc_nodes_free(&s->tips);
	free(s->uses);
	s->uses = NULL;
}

/* Ends the capture in all its streams. Its graph stays. */
static void capture_over(struct fc_proc *p, struct fc_capture *c)
{
	struct fc_capture **at = &p->graphs->captures;

	for (int32_t i = 0; i < p->slots; i++)
		for (struct CUstream_st *s = p->ctx[i] ? p->ctx[i]->streams : NULL; s; s = s->next)
			if (s->capture == c)
				capture_leave(s);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->graph->capture = NULL;
	fc_nodes_free(&c->orphans);
	free(c);
}

void fc_capture_drop(struct fc_proc *p, struct fc_capture *c)
{
	struct CUgraph_st *g = c->owned ? c->graph : NULL;

	capture_over(p, c);
	if (g)
		fc_graph_free(g);
}

/* Marks nodes, and appends the nodes that were not marked to `todo`. */
static void capture_mark(struct fc_nodes *todo, const struct fc_nodes *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->at[i]->step)
			continue;
		list->at[i]->step = 1;
		fc_nodes_push(todo, list->at[i]);
	}
}

/* Marks the nodes that precede the end of the capture. */
static void capture_mark_joined(const struct fc_capture *c)
{
	struct fc_nodes todo = {0};

	for (uint32_t i = 0; i < c->graph->nodes.count; i++)
		c->graph->nodes.at[i]->step = 0;
	capture_mark(&todo, &c->origin->tips);
	for (uint32_t i = 0; i < todo.count; i++)
		capture_mark(&todo, &todo.at[i]->from);
	fc_nodes_free(&todo);
}

/* A stream whose dependencies the program has set to nodes of its own needs no join. NCCL leaves
 * its streams so. */
static bool capture_all_marked(const struct fc_nodes *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (!list->at[i]->step && list->at[i]->captured)
			return false;
	return true;
}

/* Returns a stream with work that the first stream does not follow; NULL: none. */
static const char *capture_unjoined(struct fc_proc *p, struct fc_capture *c, char *name,
				    size_t bytes)
{
	const char *found = NULL;

	capture_mark_joined(c);
	text_set(name, bytes, "a destroyed stream");
	if (!capture_all_marked(&c->orphans))
		found = name;
	for (int32_t i = 0; i < p->slots && !found; i++) {
		struct CUstream_st *s = p->ctx[i] ? p->ctx[i]->streams : NULL;

		for (; s && !found; s = s->next) {
			if (s->capture != c || capture_all_marked(&s->tips))
				continue;
			snprintf(name, bytes, "stream %u of gpu %u", s->number, s->ctx->dev->index);
			found = name;
		}
	}
	return found;
}

cudaError_t fc_capture_end(struct CUstream_st *s, struct CUgraph_st **graph)
{
	static const char call[] = "cudaStreamEndCapture";
	struct fc_capture *c = s->capture;
	struct fc_proc *p = s->ctx->proc;
	cudaError_t rc = cudaSuccess;
	char name[64];

	if (!c) {
		fc_report("%s: stream %u does not capture", call, s->number);
		return cudaErrorIllegalState;
	}
	if (c->mode != cudaStreamCaptureModeRelaxed && !capture_by_me(c)) {
		fc_report("%s: %s began the capture", call, c->who);
		rc = cudaErrorStreamCaptureWrongThread;
	} else if (s != c->origin) {
		return capture_spoil(c, call, cudaErrorStreamCaptureUnmatched,
				     "it did not begin in this stream");
	} else if (c->invalid) {
		fc_report("%s: the capture of stream %u has failed before", call, s->number);
		rc = cudaErrorStreamCaptureInvalidated;
	} else if (capture_unjoined(p, c, name, sizeof name)) {
		fc_report("%s: %s has work that stream %u does not wait for", call, name,
			  s->number);
		rc = cudaErrorStreamCaptureUnjoined;
	}
	if (rc) {
		fc_capture_drop(p, c);
		return rc;
	}
	*graph = c->graph;
	capture_over(p, c);
	return cudaSuccess;
}

/* The program destroys a stream, or its context ends. A capture that began in it ends. */
void fc_capture_stream_gone(struct CUstream_st *s)
{
	struct fc_capture *c = s->capture;

	if (!c)
		return;
	for (uint32_t i = 0; i < s->tips.count; i++)
		fc_nodes_add(&c->orphans, s->tips.at[i]);
	capture_leave(s);
	if (c->origin == s)
		fc_capture_drop(s->ctx->proc, c);
}
