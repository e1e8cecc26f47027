/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plays a generated program: each step brings inputs in the streams of its calls, makes the calls,
 * and takes the results in streams that only the rules of groups order after them. All results are
 * compared with the model when the program has ended its steps.
 */
#include "sim/lab/scene/scene_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_POLL_NS 1000000ull
#define PROGRAM_POWERS  22 /* a stream or a rank is busy up to 2^22 ns, 4 ms */
#define PROGRAM_BYTES   ((size_t)PROGRAM_STEPS * PROGRAM_WORDS * sizeof(uint32_t))

static const char *const program_names[PROGRAM_OPS] = {
	[PROGRAM_ALL_REDUCE] = "ncclAllReduce",      [PROGRAM_BROADCAST] = "ncclBroadcast",
	[PROGRAM_ALL_GATHER] = "ncclAllGather",      [PROGRAM_REDUCE_SCATTER] = "ncclReduceScatter",
	[PROGRAM_MESSAGE] = "ncclSend and ncclRecv",
};

bool program_judge(struct program *g, const char *call, ncclResult_t got, bool may_progress)
{
	if (got == ncclSuccess || (got == ncclInProgress && may_progress))
		return true;
	scene_judge(g->s, call, got, ncclSuccess);
	return false;
}

ncclResult_t program_poll(struct program *g, ncclComm_t comm)
{
	ncclResult_t state = ncclInProgress, rc = ncclSuccess;

	while (!rc && state == ncclInProgress &&
	       !shared_load_u32(&g->s->me->run->failed, SHARED_ACQUIRE)) {
		rc = ncclCommGetAsyncError(comm, &state);
		if (!rc && state == ncclInProgress)
			os_sleep_ns(PROGRAM_POLL_NS);
	}
	return rc ? rc : state;
}

/* ---- inputs and results ---------------------------------------------------------------------- */

static void program_host_work(void *arg)
{
	os_sleep_ns(*(const uint64_t *)arg);
}

static uint64_t program_draw_ns(struct program *g)
{
	return sim_rng_below(&g->s->own, 1ull << sim_rng_below(&g->s->own, PROGRAM_POWERS));
}

/* The place of the input of the i-th call of step k; the result is half a step after it. */
static size_t program_at(const struct program *g, int k, int i)
{
	ASSERT(i < g->step.n);
	return (size_t)k * PROGRAM_WORDS + (size_t)i * program_words(&g->step);
}

static cudaError_t program_bring_words(struct program *g, size_t at, size_t input, size_t result,
				       int stream)
{
	cudaError_t e = cudaMemsetAsync(g->mem + at + PROGRAM_WORDS / 2, PROGRAM_FILL,
					result * sizeof *g->mem, g->stream[stream]);

	if (!e && input)
		e = cudaMemcpyAsync(g->mem + at, g->host + at, input * sizeof *g->mem,
				    cudaMemcpyDefault, g->stream[stream]);
	return e;
}

static bool program_bring(struct program *g, int k)
{
	const struct program_step *step = &g->step;
	const size_t words = program_words(step);
	uint64_t *ns = &g->busy_ns[k];

	*ns = program_draw_ns(g);
	cudaError_t e = cudaLaunchHostFunc(g->stream[step->busy], program_host_work, ns);

	for (int i = 0; i < step->n && !e; i++) {
		const struct program_call *c = &step->call[i];
		size_t at = program_at(g, k, i), n = program_input_words(&g->plan, c);

		for (size_t w = 0; w < n; w++)
			g->host[at + w] = program_input(c, g->s->me->rank, w);
		if (!step->many)
			e = program_bring_words(g, at, n, words, c->from);
	}
	if (step->many && !e)
		e = program_bring_words(g, program_at(g, k, 0), words * (size_t)step->n,
					words * (size_t)step->n, step->call[0].from);
	return scene_cuda(g->s, e, "inputs of a generated program");
}

static bool program_take(struct program *g, int k)
{
	const struct program_step *step = &g->step;
	const size_t bytes = program_words(step) * sizeof *g->mem;
	cudaError_t e = cudaSuccess;

	for (int i = 0; i < (step->many ? 1 : step->n) && !e; i++) {
		size_t at = program_at(g, k, i) + PROGRAM_WORDS / 2;

		e = cudaMemcpyAsync(g->host + at, g->mem + at,
				    step->many ? bytes * (size_t)step->n : bytes, cudaMemcpyDefault,
				    g->stream[step->call[i].to]);
	}
	return scene_cuda(g->s, e, "results of a generated program");
}

static bool program_sync(struct program *g)
{
	bool ok = true;

	for (int i = 0; i < PROGRAM_STREAMS && ok; i++) {
		cudaError_t e = cudaErrorNotReady;

		while (e == cudaErrorNotReady &&
		       !shared_load_u32(&g->s->me->run->failed, SHARED_ACQUIRE))
			e = cudaStreamQuery(g->stream[i]);
		ok = e != cudaErrorNotReady && scene_cuda(g->s, e, "cudaStreamQuery");
	}
	return ok;
}

/* ---- calls ----------------------------------------------------------------------------------- */

ncclResult_t program_wrong_call(struct program *g)
{
	return ncclAllReduce(g->mem, g->mem, 1, ncclNumTypes, ncclSum, g->comm[0], g->stream[2]);
}

static ncclResult_t program_message(struct program *g, const struct program_call *c, size_t at)
{
	int32_t n = g->plan.n, me = 0;
	ncclResult_t rc = ncclCommUserRank(g->comm[c->comm], &me);

	if (!rc)
		rc = ncclSend(g->mem + at, c->count, ncclUint32, (me + c->root) % n,
			      g->comm[c->comm], g->stream[c->stream]);
	return rc ? rc
		  : ncclRecv(g->mem + at + PROGRAM_WORDS / 2, c->count, ncclUint32,
			     (me + n - c->root) % n, g->comm[c->comm], g->stream[c->recv_stream]);
}

/* A collective with a number of channels of its own. */
static ncclResult_t program_call_options(struct program *g, const struct program_call *c,
					 const void *in, void *out)
{
	ncclComm_t comm = g->comm[c->comm];
	cudaStream_t stream = g->stream[c->stream];
	ncclCollConfig_t o = NCCL_COLLCONFIG_INITIALIZER;

	o.minCTAs = o.maxCTAs = MIN_OF(c->ctas, g->most_ctas);
	switch (c->op) {
	case PROGRAM_ALL_REDUCE:
		return ncclAllReduceConfig(in, out, c->count, ncclUint32, ncclSum, comm, stream,
					   &o);
	case PROGRAM_BROADCAST:
		return ncclBroadcastConfig(in, out, c->count, ncclUint32, c->root, comm, stream,
					   &o);
	case PROGRAM_ALL_GATHER:
		return ncclAllGatherConfig(in, out, c->count, ncclUint32, comm, stream, &o);
	case PROGRAM_REDUCE_SCATTER:
	default:
		return ncclReduceScatterConfig(in, out, c->count, ncclUint32, ncclSum, comm, stream,
					       &o);
	}
}

static ncclResult_t program_call(struct program *g, const struct program_call *c, size_t at)
{
	const void *in = g->mem + at;
	void *out = g->mem + at + PROGRAM_WORDS / 2;
	ncclComm_t comm = g->comm[c->comm];
	cudaStream_t stream = g->stream[c->stream];

	if (c->ctas)
		return program_call_options(g, c, in, out);
	switch (c->op) {
	case PROGRAM_ALL_REDUCE:
		return ncclAllReduce(in, out, c->count, ncclUint32, ncclSum, comm, stream);
	case PROGRAM_BROADCAST:
		return ncclBroadcast(in, out, c->count, ncclUint32, c->root, comm, stream);
	case PROGRAM_ALL_GATHER:
		return ncclAllGather(in, out, c->count, ncclUint32, comm, stream);
	case PROGRAM_REDUCE_SCATTER:
		return ncclReduceScatter(in, out, c->count, ncclUint32, ncclSum, comm, stream);
	case PROGRAM_MESSAGE:
	default:
		return program_message(g, c, at);
	}
}

static ncclResult_t program_wrong(struct program *g, const struct program_step *step)
{
	ncclComm_t comm = g->comm[step->wrong_comm];
	int32_t me = 0;

	if (step->wrong == PROGRAM_EARLY)
		return program_wrong_call(g);
	ncclResult_t rc = ncclCommUserRank(comm, &me);

	return rc ? rc : ncclSend(g->mem, 1, ncclUint32, me, comm, g->stream[2]);
}

/* The i-th call of a rank, and the wrong one if that precedes it. */
static bool program_one(struct program *g, const struct program_step *step, int k, int i)
{
	const struct program_call *c = &step->call[i];
	bool wrong = step->wrong && step->wrong_at == i;

	if (!scene_cuda(g->s, cudaSetDevice(g->s->me->device), "cudaSetDevice"))
		return false;
	if (wrong)
		scene_judge(g->s, "a wrong call of a generated program", program_wrong(g, step),
			    step->wrong == PROGRAM_EARLY ? ncclInvalidArgument : ncclSuccess);
	return i == step->n ||
	       program_judge(g, program_names[c->op], program_call(g, c, program_at(g, k, i)),
			     g->plan.nonblocking[c->comm]);
}

/* The programs whose calls this task makes, and their number. */
static int program_team(struct program *g, struct program **of)
{
	const struct lab_run *run = g->s->me->run;
	int n = 0;

	if (!g->plan.driven) {
		*of = g;
		return 1;
	}
	for (int32_t r = 0; r < run->count; r++)
		if (run->rank[r].proc == g->s->me->proc)
			of[n++] = run->rank[r].scene_program;
	return n;
}

static bool program_some_progress(const struct program *g)
{
	for (int i = 0; i < g->step.n; i++)
		if (g->plan.nonblocking[g->step.call[i].comm])
			return true;
	return false;
}

static bool program_group_end(struct program *g)
{
	static const ncclResult_t refused[] = {
		[PROGRAM_EARLY] = ncclInvalidArgument, [PROGRAM_LATE] = ncclInvalidUsage};
	const struct program_step *step = &g->step;

	lab_call(g->s->me, "ncclGroupEnd");
	ncclResult_t rc = ncclGroupEnd();

	lab_call(g->s->me, NULL);
	if (step->wrong == PROGRAM_RIGHT)
		return program_judge(g, "ncclGroupEnd of a generated program", rc,
				     program_some_progress(g));
	scene_judge(g->s, "ncclGroupEnd of a group that is refused", rc, refused[step->wrong]);
	return rc == refused[step->wrong];
}

/* The calls of some ranks, which one task makes. */
static bool program_group(struct program *g, struct program *const *of, int ranks, int k)
{
	const struct program_step *step = &g->step;
	int calls = step->n + 1, n = ranks * calls;
	bool ok = true;

	if (step->grouped)
		ok = program_judge(g, "ncclGroupStart", ncclGroupStart(), false);
	for (int i = 0; i < n && ok; i++)
		ok = step->ranks_first ? program_one(of[i / calls], step, k, i % calls)
				       : program_one(of[i % ranks], step, k, i / ranks);
	if (step->grouped)
		ok = program_group_end(g) && ok;
	return ok;
}

static bool program_calls(struct program *g, int k)
{
	struct program *of[LAB_MAX_DEVICES];
	int ranks = program_team(g, of), each = g->step.apart ? 1 : ranks;
	bool ok = true;

	if (of[0] != g) /* another task makes the calls */
		return true;
	for (int i = 0; i < ranks && ok; i += each)
		ok = program_group(g, of + i, each, k);
	return scene_cuda(g->s, cudaSetDevice(g->s->me->device), "cudaSetDevice") && ok;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool program_settle(struct program *g)
{
	bool ok = true;

	for (int i = 0; i < g->plan.comms && ok; i++)
		if (g->plan.nonblocking[i])
			ok = program_judge(g, "a call of a generated program",
					   program_poll(g, g->comm[i]), false);
	return ok;
}

/* A group that is refused late has announced its calls until then. The world would compare them
 * with the next calls of other ranks: they wait. */
static bool program_meets(struct program *g)
{
	bool meets = g->plan.driven || g->step.wrong == PROGRAM_LATE;

	return !meets || lab_barrier(g->s->me);
}

static bool program_step(struct program *g, int k)
{
	const struct program_step *step = &g->step;
	struct lab_rank *me = g->s->me;

	program_draw_step(&g->plan, k, &g->step);
	if (sim_rng_below(&g->s->own, 4) == 0)
		os_sleep_ns(program_draw_ns(g));
	/* no group of one rank waits until works of earlier steps are consumed */
	bool ok = (!step->apart || program_sync(g)) && program_bring(g, k) && program_meets(g);

	if (ok && (step->only < 0 || step->only == me->rank))
		ok = program_calls(g, k);
	return ok && program_meets(g) && program_settle(g) && program_take(g, k) &&
	       (!step->syncs || program_sync(g));
}

static bool program_check_call(struct program *g, int k, int i)
{
	const struct program_call *c = &g->step.call[i];
	const uint32_t *got = g->host + program_at(g, k, i) + PROGRAM_WORDS / 2;
	char text[200];

	for (size_t w = 0; w < program_words(&g->step); w++) {
		/* without elements: no word is the result */
		const struct program_call nothing = {.count = 0};
		uint32_t want = program_result(&g->plan, program_runs(&g->step) ? c : &nothing,
					       g->s->me->rank, w);

		if (got[w] == want)
			continue;
		snprintf(text, sizeof text,
			 "step %d call %d of %d%s: communicator %d, streams %d %d, brought in %d, "
			 "taken in %d, %zu elements: word %zu is %#x, expected %#x",
			 k, i, g->step.n, program_runs(&g->step) ? "" : " (refused)", c->comm,
			 c->stream, c->recv_stream, c->from, c->to, c->count, w, got[w], want);
		scene_report(g->s, program_names[c->op], text);
		return false;
	}
	return true;
}

static bool program_check(struct program *g)
{
	for (int k = 0; k < g->plan.steps; k++) {
		program_draw_step(&g->plan, k, &g->step);
		for (int i = 0; i < g->step.n; i++)
			if (!program_check_call(g, k, i))
				return false;
	}
	return true;
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool program_alloc(struct program *g)
{
	size_t total;
	cudaError_t e = cudaMalloc((void **)&g->mem, PROGRAM_BYTES);

	if (!e)
		e = cudaHostAlloc((void **)&g->host, PROGRAM_BYTES, cudaHostAllocDefault);
	for (int i = 1; i < PROGRAM_STREAMS && !e; i++)
		e = cudaStreamCreateWithFlags(&g->stream[i],
					      i == 1 ? cudaStreamDefault : cudaStreamNonBlocking);
	if (!e)
		e = cudaMemGetInfo(&g->free_bytes, &total);
	g->s->me->scene_program = g;
	return scene_cuda(g->s, e, "memory and streams of a generated program");
}

static void program_free(struct program *g)
{
	program_drop(g);
	for (int i = 1; i < PROGRAM_STREAMS; i++)
		if (g->stream[i])
			(void)cudaStreamDestroy(g->stream[i]);
	if (g->mem)
		(void)cudaFree(g->mem);
	if (g->host)
		(void)cudaFreeHost(g->host);
	free(g);
}

void scene_program(struct scene *s)
{
	struct program *g = calloc(1, sizeof *g);
	bool ok = g != NULL;

	if (!ok) {
		scene_report(s, "a generated program", "no memory");
		return;
	}
	g->s = s;
	program_draw(&g->plan, sim_rng_u64(&s->drawn), s->n);
	g->most_ctas = lab_most_ctas(s->me->run->config);
	g->plan.options &= g->most_ctas > 0;
	ok = program_alloc(g) && lab_barrier(s->me) && program_make(g);
	for (int k = 0; k < g->plan.steps && ok; k++)
		ok = (k != g->plan.fails_at || program_init_fails(g)) && program_step(g, k);
	if (ok && program_sync(g) && program_check(g) && lab_barrier(s->me))
		program_end(g);
	program_free(g);
}
