/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/scene/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCENE_LOOK_NS 1000000ull
#define SCENE_LOOKS   4000 /* for an error, at most about as many */

/* The worlds that a scene belongs to. */
enum {
	SCENE_TIMED = 1,      /* calls have deadlines: DOPPEL_TIMEOUT_MS */
	SCENE_UNTIMED = 2,    /* none, or very long ones */
	SCENE_UNCOMPARED = 4, /* the world does not compare the calls of ranks */
	SCENE_SEVERAL = 8,    /* two ranks and more */
	SCENE_RAS = 16,       /* RAS runs, and each host has the port for its clients */
	/* no network reduces: it reports a call that differs as an error of its own */
	SCENE_NO_COLLNET = 32,
	/* kernels have their works in arguments, as captured ones need them */
	SCENE_GRAPHS = 64,
	SCENE_ANY_RANKS = 128, /* a communicator of any number of ranks can reduce */
};

/* clang-format off */
static const struct scene_kind {
	const char *name;
	void (*play)(struct scene *s);
	int ids; /* of communicators of all ranks */
	uint32_t world;
	uint32_t more; /* the kind is drawn so many times more often */
} scene_kinds[] = {
	{"short launches", scene_short_launches, 1, .world = SCENE_TIMED | SCENE_SEVERAL},
	{"shortest deadline", scene_shortest_deadline, 1, .world = SCENE_SEVERAL},
	{"absent rank", scene_absent, 1, .world = SCENE_TIMED | SCENE_SEVERAL},
	{"lonely message", scene_lonely, 1, .world = SCENE_TIMED | SCENE_SEVERAL, .more = 1},
	{"calls that differ", scene_differ, 1,
	 .world = SCENE_TIMED | SCENE_UNCOMPARED | SCENE_SEVERAL | SCENE_NO_COLLNET, .more = 2},
	{"group that fails", scene_group_fails, 2, .world = SCENE_SEVERAL},
	{"group that connects", scene_group_connects, 2, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"group of many streams", scene_group_streams, 1, .world = SCENE_SEVERAL},
	{"group that is simulated", scene_simulate, 2, .world = SCENE_SEVERAL},
	{"one rank", scene_alone, 0, .world = 0},
	{"suspended apart", scene_suspend_apart, 1, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"end while suspended", scene_suspend_ends, 1, .world = 0},
	{"abandoned call", scene_abandon, 2, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"late rank", scene_late, 2, .world = SCENE_UNTIMED | SCENE_SEVERAL | SCENE_RAS},
	{"absent from a call", scene_absent_call, 1, .world = SCENE_TIMED | SCENE_SEVERAL},
	{"aborted by another task", scene_aborted, 2, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"states", scene_state, 1, .world = SCENE_SEVERAL},
	{"walk", scene_walk, 1, .world = SCENE_SEVERAL | SCENE_ANY_RANKS, .more = 3},
	{"late for one of several roots", scene_roots, 1, .world = SCENE_TIMED | SCENE_SEVERAL,
	 .more = 1},
	{"configs of versions", scene_versions, 1, .world = 0, .more = 1},
	{"generated program", scene_program, 0, .world = SCENE_UNTIMED | SCENE_SEVERAL, .more = 2},
	{"captures", scene_captures, 1, .world = SCENE_SEVERAL | SCENE_GRAPHS, .more = 1},
	{"window", scene_window, 1, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"group that is discarded", scene_discard, 1, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"counts of calls", scene_counts, 1, .world = SCENE_UNTIMED | SCENE_SEVERAL | SCENE_RAS},
	{"receiver after the end", scene_late_receiver, 1, .world = SCENE_UNTIMED | SCENE_SEVERAL,
	 .more = 1},
	{"group of changes", scene_changes, 2, .world = SCENE_UNTIMED | SCENE_SEVERAL},
	{"failure while ranks end", scene_ending, 1, .world = SCENE_SEVERAL, .more = 2},
};
/* clang-format on */
_Static_assert(ARRAY_LEN(scene_kinds) <= 32, "lab_result.scenes has a bit for each");
_Static_assert(SCENE_COMMS == ARRAY_LEN(((struct lab_rank *)0)->scene_comm), "all are shown");
_Static_assert(SCENE_COMMS <= LAB_MAX_COMMS, "each has an id of the run's");
_Static_assert(2 * SCENE_STREAMS * SCENE_COUNT * sizeof(int32_t) <= SCENE_BYTES,
	       "input and result of each stream");

/* ---- what scenes share ----------------------------------------------------------------------- */

void scene_judge(struct scene *s, const char *call, ncclResult_t got, ncclResult_t want)
{
	/* another rank has failed, and this one leaves */
	if (got == ncclInProgress && shared_load_u32(&s->me->run->failed, SHARED_ACQUIRE))
		return;
	lab_refused_judge(s->me, call, s->name, got, want);
}

void scene_report(struct scene *s, const char *call, const char *text)
{
	lab_refused_report(s->me, call, s->name, text);
}

bool scene_has_gpu(const struct scene *s)
{
	return !s->me->idler;
}

bool scene_cuda(struct scene *s, cudaError_t e, const char *call)
{
	return lab_rank_check_cuda(s->me, (int)e, call);
}

ncclResult_t scene_init_config(struct scene *s, ncclComm_t *comm, ncclConfig_t *config)
{
	const struct lab_run *run = s->me->run;
	ncclUniqueId ids[1 + LAB_MORE_IDS];

	if (s->roots == 1)
		return config ? ncclCommInitRankConfig(comm, s->n, run->id, s->me->rank, config)
			      : ncclCommInitRank(comm, s->n, run->id, s->me->rank);
	ids[0] = run->id;
	memcpy(ids + 1, run->root_id, sizeof run->root_id);
	return ncclCommInitRankScalable(comm, s->n, s->me->rank, s->roots, ids, config);
}

ncclResult_t scene_init(struct scene *s, int k, ncclComm_t *comm)
{
	return k ? ncclCommInitRank(comm, s->n, s->me->run->other_id[k - 1], s->me->rank)
		 : scene_init_config(s, comm, NULL);
}

bool scene_open(struct scene *s, int k)
{
	struct lab_rank *me = s->me;
	ncclResult_t rc;

	ASSERT(k < SCENE_COMMS && !s->comm[k]); /* the scene before has ended its own */
	lab_call(me, "ncclCommInitRank");
	rc = scene_init(s, k, &s->comm[k]);
	lab_call(me, NULL);
	scene_judge(s, "ncclCommInitRank", rc, ncclSuccess);
	me->scene_comm[k] = s->comm[k];
	return rc == ncclSuccess;
}

static void scene_end(struct scene *s, int k, bool aborts)
{
	const char *call = aborts ? "ncclCommAbort" : "ncclCommDestroy";
	ncclComm_t comm = s->comm[k];

	s->comm[k] = NULL;
	if (!comm)
		return;
	lab_call(s->me, call);
	ncclResult_t rc = aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm);

	lab_call(s->me, NULL);
	scene_judge(s, call, rc, ncclSuccess);
}

void scene_destroy(struct scene *s, int k)
{
	scene_end(s, k, false);
}

void scene_abort(struct scene *s, int k)
{
	scene_end(s, k, true);
}

bool scene_sync(struct scene *s, int stream)
{
	cudaError_t e = cudaErrorNotReady;

	ASSERT(stream < SCENE_STREAMS);
	while (e == cudaErrorNotReady && !shared_load_u32(&s->me->run->failed, SHARED_ACQUIRE))
		e = cudaStreamQuery(s->stream[stream]);
	return e != cudaErrorNotReady && scene_cuda(s, e, "cudaStreamQuery");
}

bool scene_check(struct scene *s, const char *call, size_t count, int32_t want)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	cudaError_t e = cudaMemcpyAsync(s->host, result, count * sizeof *s->host, cudaMemcpyDefault,
					s->stream[0]);

	if (!scene_cuda(s, e, "cudaMemcpyAsync") || !scene_sync(s, 0))
		return false;
	for (size_t i = 0; i < count; i++)
		if (s->host[i] != want) {
			scene_report(s, call, "gave a wrong result");
			return false;
		}
	return true;
}

bool scene_fill(struct scene *s, size_t count, int32_t value)
{
	for (size_t i = 0; i < count; i++)
		s->host[i] = value;
	return scene_cuda(s,
			  cudaMemcpyAsync(s->mem, s->host, count * sizeof *s->host,
					  cudaMemcpyDefault, s->stream[0]),
			  "cudaMemcpyAsync") &&
	       scene_sync(s, 0);
}

bool scene_sum(struct scene *s, int k, size_t count, ncclCollConfig_t *config)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	ncclComm_t comm = s->comm[k];
	ncclResult_t rc;

	ASSERT(count * sizeof *s->mem <= SCENE_BYTES / 2);
	if (!scene_fill(s, count, s->me->rank + 1))
		return false;
	lab_call(s->me, "ncclAllReduce");
	rc = config ? ncclAllReduceConfig(s->mem, result, count, ncclInt32, ncclSum, comm,
					  s->stream[0], config)
		    : ncclAllReduce(s->mem, result, count, ncclInt32, ncclSum, comm, s->stream[0]);
	lab_call(s->me, NULL);
	scene_judge(s, "ncclAllReduce", rc, ncclSuccess);
	return !rc && scene_check(s, "ncclAllReduce", count, s->n * (s->n + 1) / 2);
}

bool scene_ring(struct scene *s, int k)
{
	int32_t *result = s->mem + SCENE_BYTES / 2 / sizeof *s->mem;
	int32_t rank = s->me->rank, to = (rank + 1) % s->n, from = (rank + s->n - 1) % s->n;
	ncclResult_t rc, end;

	if (!scene_fill(s, SCENE_COUNT, rank + 1))
		return false;
	rc = ncclGroupStart();
	if (!rc)
		rc = ncclSend(s->mem, SCENE_COUNT, ncclInt32, to, s->comm[k], s->stream[0]);
	if (!rc)
		rc = ncclRecv(result, SCENE_COUNT, ncclInt32, from, s->comm[k], s->stream[0]);
	lab_call(s->me, "ncclGroupEnd");
	end = ncclGroupEnd();
	lab_call(s->me, NULL);
	scene_judge(s, "ncclGroupEnd of messages", rc ? rc : end, ncclSuccess);
	return !rc && !end && scene_check(s, "ncclSend and ncclRecv", SCENE_COUNT, from + 1);
}

void scene_learn(struct scene *s, int k, uint64_t most_ns, ncclResult_t want)
{
	const uint64_t end_ns = os_now_ns() + most_ns;
	const uint64_t look_ns = MAX_OF(most_ns / SCENE_LOOKS, SCENE_LOOK_NS);
	ncclResult_t async = ncclSuccess, rc = ncclSuccess;

	ASSERT(want != ncclSuccess); /* an error is what it waits for */
	do {
		os_sleep_ns(look_ns);
		rc = ncclCommGetAsyncError(s->comm[k], &async);
	} while (!rc && async == ncclSuccess && os_now_ns() < end_ns);
	scene_judge(s, "ncclCommGetAsyncError", rc, ncclSuccess);
	scene_judge(s, "the error that all ranks learn of in time", async, want);
}

/* ---- playing --------------------------------------------------------------------------------- */

/* An all-reduce needs a power of two of ranks. */
static bool scene_doubles(const struct lab_config *c)
{
	bool doubles = false;

	for (const char *const *e = c->env; e && *e; e++)
		doubles |= !strncmp(*e, "NCCL_ALGO=", 10) && strstr(*e, "allreduce:Doubling");
	return doubles;
}

static bool scene_fits(const struct scene *s, const struct scene_kind *k)
{
	const struct lab_config *c = s->me->run->config;
	uint32_t lacks = s->timeout_ms ? SCENE_UNTIMED : SCENE_TIMED;

	if (!c->uncompared)
		lacks |= SCENE_UNCOMPARED;
	if (s->n < 2)
		lacks |= SCENE_SEVERAL;
	if (!c->ras)
		lacks |= SCENE_RAS;
	if (scene_doubles(c))
		lacks |= SCENE_ANY_RANKS;
	if (c->plugins & LAB_PLUGIN_COLLNET)
		lacks |= SCENE_NO_COLLNET;
	if (lab_has_env(c, "NCCL_WORK_ARGS_BYTES") || lab_has_env(c, "NCCL_GRAPH_MIXING_SUPPORT") ||
	    (c->env_odd && strstr(c->env_odd, "NCCL_WORK_ARGS_BYTES")))
		lacks |= SCENE_GRAPHS;
	return !(k->world & lacks);
}

static const struct scene_kind *scene_draw(struct scene *s)
{
	const struct scene_kind *k = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(scene_kinds); i++)
		if (scene_fits(s, &scene_kinds[i])) {
			uint64_t weight = 1 + scene_kinds[i].more;

			n += weight;
			if (sim_rng_below(&s->drawn, n) < weight)
				k = &scene_kinds[i];
		}
	ASSERT(k); /* a scene of one rank fits every world */
	return k;
}

/* One rank in four has pinned memory of the host, allocated while any GPU of the process is
 * current: all of them use it. */
static cudaError_t scene_memory(struct scene *s)
{
	const uint64_t seed = s->me->run->config->sim.seed;
	struct sim_rng rng;
	cudaError_t e, back;
	int mine = 0, n = 0;

	sim_rng_seed(&rng, seed + (uint64_t)s->me->rank, "lab.scene_memory");
	s->pinned = sim_rng_below(&rng, 4) == 0;
	if (!s->pinned)
		return cudaMalloc((void **)&s->mem, SCENE_BYTES);
	e = cudaGetDevice(&mine);
	if (!e)
		e = cudaGetDeviceCount(&n);
	if (!e)
		e = cudaSetDevice((int)sim_rng_below(&rng, (uint64_t)n));
	if (!e)
		e = cudaHostAlloc((void **)&s->mem, SCENE_BYTES, cudaHostAllocDefault);
	back = cudaSetDevice(mine);
	return e ? e : back;
}

static bool scene_make(struct scene *s)
{
	cudaError_t e = scene_memory(s);

	/* what is sent is the same in each run */
	if (e == cudaSuccess)
		e = cudaMemset(s->mem, 0, SCENE_BYTES);
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(NULL);
	s->host = malloc(SCENE_BYTES);
	for (int i = 0; i < SCENE_STREAMS && !e; i++)
		e = cudaStreamCreateWithFlags(&s->stream[i], cudaStreamNonBlocking);
	if (!s->host)
		e = cudaErrorMemoryAllocation;
	s->me->scene_memory = s->mem;
	return scene_cuda(s, e, "memory and streams of scenes");
}

static void scene_free(struct scene *s)
{
	for (int i = 0; i < SCENE_STREAMS; i++)
		if (s->stream[i])
			(void)cudaStreamDestroy(s->stream[i]);
	if (s->mem)
		(void)(s->pinned ? cudaFreeHost(s->mem) : cudaFree(s->mem));
	free(s->host);
}

/* One scene in three that has a communicator of all ranks makes it with several ids, and each scene
 * about them. */
static int32_t scene_draw_roots(const struct scene *s, const struct scene_kind *k, uint64_t seed)
{
	const int32_t most = MIN_OF(s->n, 1 + LAB_MORE_IDS);
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "lab.scene_roots");
	bool several = sim_rng_below(&rng, 3) == 0 || k->play == scene_roots;
	if (!several || k->ids == 0 || most < 2 || s->me->run->config->spread)
		return 1;
	return 2 + (int32_t)sim_rng_below(&rng, (uint64_t)most - 1);
}

/* The first rank makes new ids, the next ones further ids of the first communicator. Each is used:
 * its root waits for its first rank. */
static bool scene_ids(struct scene *s, int n)
{
	struct lab_run *run = s->me->run;
	int32_t rank = s->me->rank;
	ncclResult_t rc = ncclSuccess;

	if (lab_leads(s->me))
		for (int k = 0; k < n && !rc; k++)
			rc = ncclGetUniqueId(k ? &run->other_id[k - 1] : &run->id);
	else if (rank < s->roots)
		rc = ncclGetUniqueId(&run->root_id[rank - 1]);
	if (rc)
		lab_rank_fail(s->me, rc, "ncclGetUniqueId");
	return !rc && lab_barrier(s->me);
}

/* Each rank ends what the scene has left, after a failure. */
static bool scene_play(struct scene *s)
{
	struct lab_rank *me = s->me;
	const uint64_t seed = me->run->config->sim.seed + s->round * LAB_MAX_DEVICES;

	sim_rng_seed(&s->drawn, seed, "lab.scene");
	sim_rng_seed(&s->own, seed + (uint64_t)me->rank, "lab.scene_own");
	const struct scene_kind *k = scene_draw(s);

	s->culprit = (int32_t)sim_rng_below(&s->drawn, (uint64_t)s->n);
	s->mine = s->culprit == me->rank;
	ASSERT(k->ids <= SCENE_COMMS);
	s->name = k->name;
	s->roots = scene_draw_roots(s, k, seed);
	if (!scene_ids(s, k->ids))
		return false;
	k->play(s);
	for (int i = 0; i < SCENE_COMMS; i++)
		scene_abort(s, i);
	if (lab_leads(me))
		me->run->scenes |= 1u << (k - scene_kinds);
	return !shared_load_u32(&me->run->failed, SHARED_ACQUIRE) && lab_barrier(me);
}

bool lab_scenes(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	struct scene s = {.me = me, .n = me->run->nranks, .timeout_ms = lab_timeout_ms(c)};
	bool ok = true;

	if (!c->scenes || me->run->armed)
		return true;
	ok = lab_barrier(me) && scene_make(&s);
	for (; s.round < c->scenes && ok; s.round++)
		ok = scene_play(&s);
	scene_free(&s);
	return ok;
}
