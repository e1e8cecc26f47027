/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene of CUDA graphs: two graphs of several calls of one communicator are captured in two
 * streams, one after the other or with alternating calls. Then they are launched, in any streams,
 * with plain calls between them, and streams that have work are destroyed and made again. Each call
 * reads a buffer that calls before it have written, and only the communicator orders the
 * streams: its launches run in the order in which the program launches them (docs/plan.md). All
 * ranks draw the same program, and the lab computes its result.
 *
 * In half of the scenes each buffer is memory of ncclMemAlloc, and some are registered. Calls
 * before the captures let other processes map them. Ranks deregister them between launches of the
 * graphs, which keep them.
 */
#include <string.h>

#include "sim/lab/scene/scene.h"

enum {
	CAPTURE_GRAPHS = 2,
	CAPTURE_CALLS = 4, /* of a graph, at most */
	CAPTURE_BUFFERS = 6,
	CAPTURE_STREAMS = 4,
	CAPTURE_ACTIONS = 8,  /* at most */
	CAPTURE_RANKS = 64,   /* at most, else the scene plays nothing */
	CAPTURE_MANY = 64,    /* the most captures whose calls may alternate (plan/capture.c) */
	CAPTURE_COUNT = 2560, /* elements of a buffer, and of a long call */
	CAPTURE_SHORT = 32,   /* of a short one */
	CAPTURE_PARTS = 2,    /* of a buffer: what short calls have, and the rest */
	CAPTURE_WARM = 2,     /* calls into each registered buffer before the captures */
	CAPTURE_LOOKS = 64,   /* after so many calls a rank has looked at what others registered */
};
_Static_assert(CAPTURE_BUFFERS *CAPTURE_COUNT * sizeof(uint32_t) <= SCENE_BYTES, "all buffers fit");
_Static_assert((int)CAPTURE_STREAMS <= (int)SCENE_STREAMS, "each is one of the scene's");

enum capture_kind { CAPTURE_SUM, CAPTURE_MAX, CAPTURE_RING, CAPTURE_KINDS };

/* One call: from a buffer to another one, or in place. */
struct capture_call {
	enum capture_kind kind;
	int from, to;
	bool is_short;
};

struct captures {
	struct scene *s;
	struct capture_call call[CAPTURE_GRAPHS][CAPTURE_CALLS];
	int calls[CAPTURE_GRAPHS];
	cudaGraph_t graph[CAPTURE_GRAPHS];
	cudaGraphExec_t exec[CAPTURE_GRAPHS];
	uint32_t *buffer[CAPTURE_BUFFERS];
	void *registered[CAPTURE_BUFFERS]; /* NULL: it is not */
	bool registers;
	/* that each element of a part has */
	uint32_t value[CAPTURE_RANKS][CAPTURE_BUFFERS][CAPTURE_PARTS];
	int last; /* stream of the last call; -1: a destroyed one, for which nothing can wait */
	bool ok;
};

/* ---- values ---------------------------------------------------------------------------------- */

static void capture_compute_part(struct captures *c, const struct capture_call *call, int part)
{
	uint32_t from[CAPTURE_RANKS], sum = 0, most = 0;
	const int32_t n = c->s->n;

	for (int32_t r = 0; r < n; r++) {
		from[r] = c->value[r][call->from][part];
		sum += from[r];
		most = MAX_OF(most, from[r]);
	}
	for (int32_t r = 0; r < n; r++)
		c->value[r][call->to][part] = call->kind == CAPTURE_SUM   ? sum
					      : call->kind == CAPTURE_MAX ? most
									  : from[(r + n - 1) % n];
}

static void capture_compute(struct captures *c, const struct capture_call *call)
{
	for (int part = 0; part < (call->is_short ? 1 : CAPTURE_PARTS); part++)
		capture_compute_part(c, call, part);
}

/* The value of element i of all buffers. */
static uint32_t capture_value(const struct captures *c, uint32_t i)
{
	return c->value[c->s->me->rank][i / CAPTURE_COUNT][i % CAPTURE_COUNT >= CAPTURE_SHORT];
}

static void capture_copy(struct captures *c, bool in)
{
	const size_t bytes = CAPTURE_COUNT * sizeof(uint32_t);
	struct scene *s = c->s;

	for (int b = 0; b < CAPTURE_BUFFERS && c->ok; b++) {
		void *host = s->host + (size_t)b * CAPTURE_COUNT;
		cudaError_t e = cudaMemcpyAsync(in ? (void *)c->buffer[b] : host,
						in ? host : (void *)c->buffer[b], bytes,
						cudaMemcpyDefault, s->stream[0]);

		c->ok = scene_cuda(s, e, "cudaMemcpyAsync");
	}
	c->ok = c->ok && scene_sync(s, 0);
}

static void capture_fill(struct captures *c)
{
	for (int32_t r = 0; r < c->s->n; r++)
		for (uint32_t b = 0; b < CAPTURE_BUFFERS; b++)
			for (uint32_t part = 0; part < CAPTURE_PARTS; part++)
				c->value[r][b][part] = ((uint32_t)r + 1) * (2 * b + part + 3);
	for (uint32_t i = 0; i < CAPTURE_BUFFERS * CAPTURE_COUNT; i++)
		c->s->host[i] = (int32_t)capture_value(c, i);
	capture_copy(c, true);
}

static void capture_check(struct captures *c)
{
	for (int i = 0; c->ok && i < CAPTURE_STREAMS; i++)
		c->ok = scene_sync(c->s, i);
	capture_copy(c, false);
	for (uint32_t i = 0; c->ok && i < CAPTURE_BUFFERS * CAPTURE_COUNT; i++)
		if ((uint32_t)c->s->host[i] != capture_value(c, i)) {
			scene_report(c->s, "cudaGraphLaunch", "gave a wrong result");
			c->ok = false;
		}
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct capture_call capture_draw(struct scene *s)
{
	struct capture_call call = {
		.kind = (enum capture_kind)sim_rng_below(&s->drawn, CAPTURE_KINDS),
		.from = (int)sim_rng_below(&s->drawn, CAPTURE_BUFFERS),
		.to = (int)sim_rng_below(&s->drawn, CAPTURE_BUFFERS),
		.is_short = sim_rng_below(&s->drawn, 2),
	};

	if (call.kind == CAPTURE_RING && call.to == call.from) /* messages are not in place */
		call.to = (call.from + 1) % CAPTURE_BUFFERS;
	return call;
}

static size_t capture_count(const struct capture_call *call)
{
	return call->is_short ? CAPTURE_SHORT : CAPTURE_COUNT;
}

static ncclResult_t capture_ring(struct captures *c, const struct capture_call *call, int stream)
{
	const struct scene *s = c->s;
	const int32_t to = (s->me->rank + 1) % s->n, from = (s->me->rank + s->n - 1) % s->n;
	ncclResult_t rc = ncclGroupStart(), end;

	if (rc)
		return rc;
	rc = ncclSend(c->buffer[call->from], capture_count(call), ncclUint32, to, s->comm[0],
		      s->stream[stream]);
	if (!rc)
		rc = ncclRecv(c->buffer[call->to], capture_count(call), ncclUint32, from,
			      s->comm[0], s->stream[stream]);
	end = ncclGroupEnd();
	return rc ? rc : end;
}

static void capture_call(struct captures *c, const struct capture_call *call, int stream)
{
	const char *name =
		call->kind == CAPTURE_RING ? "ncclGroupEnd of messages" : "ncclAllReduce";
	struct scene *s = c->s;
	ncclResult_t rc;

	if (!c->ok)
		return;
	lab_call(s->me, name);
	if (call->kind == CAPTURE_RING)
		rc = capture_ring(c, call, stream);
	else
		rc = ncclAllReduce(c->buffer[call->from], c->buffer[call->to], capture_count(call),
				   ncclUint32, call->kind == CAPTURE_SUM ? ncclSum : ncclMax,
				   s->comm[0], s->stream[stream]);
	lab_call(s->me, NULL);
	scene_judge(s, name, rc, ncclSuccess);
	c->ok = rc == ncclSuccess;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void capture_cuda(struct captures *c, cudaError_t e, const char *call)
{
	c->ok = c->ok && scene_cuda(c->s, e, call);
}

static void capture_begin(struct captures *c, int stream)
{
	if (c->ok)
		capture_cuda(c,
			     cudaStreamBeginCapture(c->s->stream[stream],
						    cudaStreamCaptureModeThreadLocal),
			     "cudaStreamBeginCapture");
}

/* A capture ends, also after a call that failed. */
static void capture_end(struct captures *c, int stream, cudaGraph_t *graph)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t e = cudaStreamIsCapturing(c->s->stream[stream], &status);

	if (!e && status != cudaStreamCaptureStatusNone)
		e = cudaStreamEndCapture(c->s->stream[stream], graph);
	capture_cuda(c, e, "cudaStreamEndCapture");
	(void)cudaGetLastError();
}

/* Captures that are never launched. The communicator remembers so many, and then uses what it
 * remembers of the oldest one again. */
static void capture_many(struct captures *c)
{
	const struct capture_call call = {.kind = CAPTURE_SUM, .from = 0, .to = 0};

	for (int i = 0; c->ok && i < CAPTURE_MANY; i++) {
		cudaGraph_t graph = NULL;

		capture_begin(c, 0);
		capture_call(c, &call, 0);
		capture_end(c, 0, &graph);
		if (graph)
			capture_cuda(c, cudaGraphDestroy(graph), "cudaGraphDestroy");
	}
}

/* Graph g is captured in stream g. */
static void capture_graphs(struct captures *c)
{
	const bool alternate = sim_rng_below(&c->s->drawn, 2);

	for (int g = 0; g < CAPTURE_GRAPHS; g++) {
		c->calls[g] = 2 + (int)sim_rng_below(&c->s->drawn, CAPTURE_CALLS - 1);
		for (int i = 0; i < c->calls[g]; i++)
			c->call[g][i] = capture_draw(c->s);
	}
	for (int first = 0; first < CAPTURE_GRAPHS; first += alternate ? CAPTURE_GRAPHS : 1) {
		const int end = alternate ? CAPTURE_GRAPHS : first + 1;

		for (int g = first; g < end; g++)
			capture_begin(c, g);
		for (int i = 0; i < CAPTURE_CALLS; i++)
			for (int g = first; g < end; g++)
				if (i < c->calls[g])
					capture_call(c, &c->call[g][i], g);
		for (int g = first; g < end; g++)
			capture_end(c, g, &c->graph[g]);
	}
	for (int g = 0; c->ok && g < CAPTURE_GRAPHS; g++)
		capture_cuda(c, cudaGraphInstantiate(&c->exec[g], c->graph[g], 0),
			     "cudaGraphInstantiate");
}

static void capture_graphs_free(struct captures *c)
{
	for (int g = 0; g < CAPTURE_GRAPHS; g++) {
		if (c->exec[g])
			capture_cuda(c, cudaGraphExecDestroy(c->exec[g]), "cudaGraphExecDestroy");
		if (c->graph[g])
			capture_cuda(c, cudaGraphDestroy(c->graph[g]), "cudaGraphDestroy");
	}
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* A call in which each rank receives, or reduces, into the buffer. */
static void capture_warm_up(struct captures *c, int buffer)
{
	const struct capture_call call = {.kind = buffer % 2 ? CAPTURE_RING : CAPTURE_SUM,
					  .from = (buffer + 1) % CAPTURE_BUFFERS,
					  .to = buffer};

	capture_call(c, &call, 0);
	capture_compute(c, &call);
	c->ok = c->ok && scene_sync(c->s, 0);
}

/* Each rank registers buffers of its own choice. */
static void capture_register(struct captures *c)
{
	for (int b = 0; b < CAPTURE_BUFFERS && c->ok; b++) {
		if (sim_rng_below(&c->s->own, 4) == 0)
			continue;
		ncclResult_t rc =
			ncclCommRegister(c->s->comm[0], c->buffer[b],
					 CAPTURE_COUNT * sizeof(uint32_t), &c->registered[b]);

		scene_judge(c->s, "ncclCommRegister", rc, ncclSuccess);
		c->ok = rc == ncclSuccess;
	}
	for (int i = 0; i < CAPTURE_WARM * CAPTURE_BUFFERS && c->ok; i++)
		capture_warm_up(c, i % CAPTURE_BUFFERS);
}

/* The buffer is not in use: the rank has waited for its streams. */
static void capture_deregister(struct captures *c, int b)
{
	void *handle = c->registered[b];

	c->registered[b] = NULL;
	for (int i = 0; handle && c->ok && i < CAPTURE_STREAMS; i++)
		c->ok = scene_sync(c->s, i);
	if (handle && c->ok)
		scene_judge(c->s, "ncclCommDeregister", ncclCommDeregister(c->s->comm[0], handle),
			    ncclSuccess);
}

/* Deregisters most buffers. After so many calls other processes have closed what no graph keeps. */
static void capture_forget(struct captures *c)
{
	const struct capture_call call = {.kind = CAPTURE_SUM, .is_short = true};

	for (int b = 0; b < CAPTURE_BUFFERS; b++)
		if (sim_rng_below(&c->s->own, 4))
			capture_deregister(c, b);
	for (int i = 0; i < CAPTURE_LOOKS && c->ok; i++) {
		capture_call(c, &call, 0);
		capture_compute(c, &call);
		c->ok = c->ok && scene_sync(c->s, 0);
	}
}

static void capture_buffers_make(struct captures *c)
{
	ncclResult_t rc = ncclSuccess;

	for (int b = 0; b < CAPTURE_BUFFERS; b++) {
		c->buffer[b] = (uint32_t *)(void *)c->s->mem + (size_t)b * CAPTURE_COUNT;
		if (c->registers && !rc)
			rc = ncclMemAlloc((void **)&c->buffer[b], CAPTURE_COUNT * sizeof(uint32_t));
		if (rc)
			c->buffer[b] = NULL;
	}
	scene_judge(c->s, "ncclMemAlloc", rc, ncclSuccess);
	c->ok = c->ok && rc == ncclSuccess;
}

static void capture_buffers_free(struct captures *c)
{
	for (int b = 0; b < CAPTURE_BUFFERS && c->registers; b++)
		if (c->buffer[b])
			scene_judge(c->s, "ncclMemFree", ncclMemFree(c->buffer[b]), ncclSuccess);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void capture_launch(struct captures *c, int g, int stream)
{
	capture_cuda(c, cudaGraphLaunch(c->exec[g], c->s->stream[stream]), "cudaGraphLaunch");
	for (int i = 0; i < c->calls[g]; i++)
		capture_compute(c, &c->call[g][i]);
	c->last = stream;
}

static void capture_plain(struct captures *c, int stream)
{
	const struct capture_call call = capture_draw(c->s);

	capture_call(c, &call, stream);
	capture_compute(c, &call);
	c->last = stream;
}

/* The new stream may have the handle of the old one, the work of which goes on. */
static void capture_stream_again(struct captures *c, int stream)
{
	struct scene *s = c->s;
	cudaError_t e = cudaStreamDestroy(s->stream[stream]);

	s->stream[stream] = NULL;
	if (!e)
		e = cudaStreamCreateWithFlags(&s->stream[stream], cudaStreamNonBlocking);
	capture_cuda(c, e, "a stream that is made again");
	if (c->last == stream)
		c->last = -1;
}

static void capture_act(struct captures *c)
{
	const uint64_t what = sim_rng_below(&c->s->drawn, 8);
	const int stream = (int)sim_rng_below(&c->s->drawn, CAPTURE_STREAMS);

	if (c->registers && sim_rng_below(&c->s->own, 2))
		capture_deregister(c, (int)sim_rng_below(&c->s->own, CAPTURE_BUFFERS));
	if (what < 4)
		capture_launch(c, (int)(what % CAPTURE_GRAPHS), stream);
	else if (what < 7)
		capture_plain(c, stream);
	else
		capture_stream_again(c, stream);
}

/* If the last call is in a destroyed stream, one more call makes a stream wait for it. */
static void capture_last(struct captures *c)
{
	if (c->ok && c->last < 0)
		capture_plain(c, (int)sim_rng_below(&c->s->drawn, CAPTURE_STREAMS));
}

/* Graphs and the communicator end in any order. */
static void capture_leave(struct captures *c)
{
	const bool first = sim_rng_below(&c->s->own, 2);

	if (first)
		capture_graphs_free(c);
	for (int b = 0; b < CAPTURE_BUFFERS && c->ok; b++)
		capture_deregister(c, b);
	if (c->ok && lab_barrier(c->s->me))
		scene_destroy(c->s, 0);
	scene_abort(c->s, 0); /* after a failure */
	if (!first)
		capture_graphs_free(c);
	capture_buffers_free(c);
}

void scene_captures(struct scene *s)
{
	struct captures c = {.s = s, .ok = true};
	const bool many = sim_rng_below(&s->drawn, 4) == 0;
	const int actions = (int)sim_rng_below(&s->drawn, CAPTURE_ACTIONS - 3);

	c.registers = sim_rng_below(&s->drawn, 2);
	if (s->n > CAPTURE_RANKS || !scene_open(s, 0))
		return;
	capture_buffers_make(&c);
	capture_fill(&c);
	if (c.registers)
		capture_register(&c);
	if (many)
		capture_many(&c);
	capture_graphs(&c);
	if (c.ok) {
		capture_launch(&c, 0, (int)sim_rng_below(&s->drawn, CAPTURE_STREAMS));
		capture_plain(&c, (int)sim_rng_below(&s->drawn, CAPTURE_STREAMS));
		capture_launch(&c, 0, (int)sim_rng_below(&s->drawn, CAPTURE_STREAMS));
	}
	if (c.registers && sim_rng_below(&s->drawn, 2)) {
		capture_forget(&c);
		for (int g = 0; g < CAPTURE_GRAPHS && c.ok; g++)
			capture_launch(&c, g, (int)sim_rng_below(&s->drawn, CAPTURE_STREAMS));
	}
	for (int i = 0; c.ok && i < actions; i++)
		capture_act(&c);
	capture_last(&c);
	capture_check(&c);
	capture_leave(&c);
}
