/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scene that walks a communicator and its children through their states. The seed draws the
 * steps: calls that the state allows and calls that it does not, ends in any order, and aborts in
 * the middle of a call. A model has each communicator's state, and so the result of each call, the
 * numbers and memory that queries give, and the data. When all have ended, the GPU has its memory
 * again.
 */
#include "core/include/nccl_device.h"
#include "sim/lab/scene/walk.h"

#define WALK_STEPS_LEAST 4
#define WALK_STEPS_MORE  7            /* 4 to 10 */
#define WALK_REFUSED     3            /* calls of a rank after a step, at most */
#define WALK_FREE_NS     100000000ull /* between two looks at the GPU's free memory */
#define WALK_FREE_LOOKS  150

/* ---- queries --------------------------------------------------------------------------------- */

static size_t walk_free(struct walk *w)
{
	size_t now = 0, total;

	(void)scene_cuda(w->s, cudaMemGetInfo(&now, &total), "cudaMemGetInfo");
	return now;
}

static void walk_memory(struct walk *w, const struct walk_comm *c, uint64_t *memory)
{
	for (int k = 0; k <= ncclStatGpuMemTotal; k++)
		scene_judge(w->s, "ncclCommMemStats",
			    ncclCommMemStats(c->comm, (ncclCommMemStat_t)k, &memory[k]),
			    ncclSuccess);
}

/* A communicator has the same memory while it is suspended, and two parts of it make the whole. */
static void walk_memory_check(struct walk *w, const struct walk_comm *c)
{
	static const char call[] = "ncclCommMemStats";
	bool suspended = c->state == WALK_SUSPENDED, same = true;
	uint64_t now[ncclStatGpuMemTotal + 1] = {0};

	walk_memory(w, c, now);
	if (now[ncclStatGpuMemSuspend] + now[ncclStatGpuMemPersist] != now[ncclStatGpuMemTotal])
		scene_report(w->s, call, "has parts that are not the whole");
	if ((suspended || c->state == WALK_READY) && now[ncclStatGpuMemSuspended] != suspended)
		scene_report(w->s, call,
			     suspended ? "does not have it as suspended" : "has it as suspended");
	for (int k = 0; k <= ncclStatGpuMemTotal && suspended; k++)
		same &= k == ncclStatGpuMemSuspended || now[k] == c->memory[k];
	if (!same)
		scene_report(w->s, call, "has another amount of memory while it is suspended");
}

static void walk_query(struct walk *w, const struct walk_comm *c)
{
	static const char call[] = "ncclCommQueryProperties";
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclResult_t async = ncclInternalError;
	int n = -1, rank = -1, device = -1;

	scene_judge(w->s, "ncclCommCount", ncclCommCount(c->comm, &n), ncclSuccess);
	scene_judge(w->s, "ncclCommUserRank", ncclCommUserRank(c->comm, &rank), ncclSuccess);
	scene_judge(w->s, "ncclCommCuDevice", ncclCommCuDevice(c->comm, &device), ncclSuccess);
	if (n != c->n || rank != c->index || device != w->s->me->device)
		scene_report(w->s, "ncclCommCount and the like", "gave another number");
	scene_judge(w->s, call, ncclCommQueryProperties(c->comm, &p), ncclSuccess);
	if (p.nRanks != c->n || p.rank != c->index || p.cudaDev != w->s->me->device)
		scene_report(w->s, call, "gave another number");
	scene_judge(w->s, "ncclCommGetAsyncError", ncclCommGetAsyncError(c->comm, &async),
		    ncclSuccess);
	scene_judge(w->s, "an asynchronous error", async, ncclSuccess);
	walk_memory_check(w, c);
}

/* One that the state does not allow. Half of the draws take one that the state before allowed: it
 * shows a state that was not entered. NULL: none fits. */
static const struct walk_row *walk_draw_refused(struct walk *w, const struct walk_comm *c)
{
	bool left = sim_rng_below(&w->s->own, 2);
	const struct walk_row *row = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < walk_nrows; i++) {
		uint32_t allowed = walk_rows[i].allowed;

		if (allowed & 1u << c->state || (walk_rows[i].makes && c->n < 2) ||
		    (left && !(allowed & 1u << c->before)))
			continue;
		if (sim_rng_below(&w->s->own, ++n) == 0)
			row = &walk_rows[i];
	}
	return row;
}

/* Each rank makes calls that the state does not allow, and has no other one in them. */
static void walk_refused(struct walk *w, struct walk_comm *c)
{
	uint64_t calls = sim_rng_below(&w->s->own, WALK_REFUSED + 1);
	struct walk_comm none = {.index = -1};

	w->out = (c->index + 1) % c->n; /* this rank makes the call */
	w->child = &none;
	for (uint64_t i = 0; i < calls; i++) {
		const struct walk_row *row = walk_draw_refused(w, c);
		bool grouped = sim_rng_below(&w->s->own, 4) == 0;

		if (!row)
			continue;
		scene_judge(w->s, row->call, walk_call(w, c, row, grouped, true), ncclInvalidUsage);
		if (none.comm)
			scene_report(w->s, row->call, "was refused, and left a communicator");
	}
	w->child = NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int32_t walk_expected(const struct walk_comm *c, const struct walk_row *row)
{
	int32_t sum = 0;

	if (row->make != walk_launch)
		return c->member[(c->index + c->n - 1) % c->n] + 1;
	for (int32_t i = 0; i < c->n; i++)
		sum += c->member[i] + 1;
	return sum;
}

/* All ranks have suspended: no other one maps this one's memory. */
static bool walk_suspended(struct walk *w, const struct walk_comm *c, size_t before)
{
	if (!lab_barrier(w->s->me))
		return false;
	if (c->index >= 0 && scene_has_gpu(w->s) &&
	    walk_free(w) < before + c->memory[ncclStatGpuMemSuspend])
		scene_report(w->s, "ncclCommSuspend",
			     "has not freed the memory of ncclCommMemStats");
	return true;
}

static ncclResult_t walk_make(struct walk *w, struct walk_comm *c, const struct walk_row *row,
			      bool grouped)
{
	ncclResult_t rc;

	if (row->next == WALK_SUSPENDED)
		walk_memory(w, c, c->memory);
	if (row->launches && !scene_fill(w->s, SCENE_COUNT, w->s->me->rank + 1))
		return ncclInProgress;
	rc = walk_call(w, c, row, grouped, true);
	if (!rc && row->makes && w->child->comm)
		rc = lab_comm_settle(w->s->me, w->child->comm, ncclInProgress);
	scene_judge(w->s, row->call, rc, ncclSuccess);
	if (!rc && row->launches &&
	    !scene_check(w->s, row->call, SCENE_COUNT, walk_expected(c, row)))
		return ncclInProgress;
	if (!rc && row->makes && (w->child->comm != NULL) != (w->child->index >= 0))
		scene_report(w->s, row->call, "gave no communicator, or one too many");
	return rc;
}

static bool walk_step(struct walk *w, struct walk_comm *c, const struct walk_row *row)
{
	struct scene *s = w->s;
	bool grouped = sim_rng_below(&s->drawn, 4) == 0;
	bool meets = sim_rng_below(&s->drawn, 2) || row->meets;
	bool queries = sim_rng_below(&s->own, 2);
	ncclResult_t rc = ncclSuccess;

	w->out = (int32_t)sim_rng_below(&s->drawn, WALK_ANY) % MAX_OF(c->n, 1);
	w->child = row->makes ? walk_child(w, c, row) : NULL;
	if (meets && !lab_barrier(s->me))
		return false;
	size_t before = row->next == WALK_SUSPENDED ? walk_free(w) : 0;

	if (c->index >= 0)
		rc = walk_make(w, c, row, grouped);
	if (rc)
		return false;
	if (row->next != WALK_STAYS && row->next != c->state) {
		c->before = c->state;
		c->state = row->next;
	}
	if (row->ends)
		c->comm = NULL;
	if (row->next == WALK_SUSPENDED && !walk_suspended(w, c, before))
		return false;
	if (c->comm && queries)
		walk_query(w, c);
	if (c->comm)
		walk_refused(w, c);
	return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* NULL: all are over. */
static struct walk_comm *walk_draw_comm(struct walk *w)
{
	struct walk_comm *c = NULL;
	uint64_t n = 0;

	for (int i = 0; i < w->comms; i++)
		if (w->of[i].state != WALK_OVER && sim_rng_below(&w->s->drawn, ++n) == 0)
			c = &w->of[i];
	return c;
}

/* One that the state allows. Half of the draws are among those that lead to another state. One that
 * ends is drawn less often. */
static const struct walk_row *walk_draw_row(struct walk *w, const struct walk_comm *c, bool ends)
{
	bool moves = sim_rng_below(&w->s->drawn, 2) && !ends;
	const struct walk_row *row = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < walk_nrows; i++) {
		const struct walk_row *r = &walk_rows[i];

		if (r->allowed & 1u << c->state && r->ends == ends &&
		    (!moves || r->next != WALK_STAYS) && walk_fits(w, c, r) &&
		    sim_rng_below(&w->s->drawn, ++n) == 0)
			row = r;
	}
	return row;
}

/* A non-blocking first communicator makes all of them non-blocking. */
static bool walk_open(struct walk *w)
{
	struct scene *s = w->s;
	struct walk_comm *c = &w->of[w->comms++];
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc;

	*c = (struct walk_comm){
		.state = WALK_READY, .known = true, .n = s->n, .index = s->me->rank};
	for (int32_t i = 0; i < s->n; i++)
		c->member[i] = i;
	w->nonblocking = sim_rng_below(&s->drawn, 2);
	if (w->nonblocking)
		config.blocking = 0;
	lab_call(s->me, "ncclCommInitRankConfig");
	rc = lab_comm_settle(s->me, c->comm, scene_init_config(s, &c->comm, &config));
	if (rc == ncclInProgress)
		rc = ncclInternalError;
	lab_call(s->me, NULL);
	scene_judge(s, "ncclCommInitRankConfig", rc, ncclSuccess);
	return rc == ncclSuccess;
}

static bool walk_steps(struct walk *w)
{
	struct scene *s = w->s;
	uint64_t steps = WALK_STEPS_LEAST + sim_rng_below(&s->drawn, WALK_STEPS_MORE);

	for (uint64_t i = 0; i < steps; i++) {
		struct walk_comm *c = walk_draw_comm(w);
		uint64_t way = sim_rng_below(&s->drawn, 8);
		const struct walk_row *row = c ? walk_draw_row(w, c, way == 0) : NULL;

		if (!c)
			return true;
		if (way == 1 || way == 2 ? !walk_aborted(w, c) : row && !walk_step(w, c, row))
			return false;
	}
	return true;
}

/* Ends those that are left, in any order. */
static bool walk_ends(struct walk *w)
{
	for (struct walk_comm *c; (c = walk_draw_comm(w));)
		if (!walk_step(w, c, walk_draw_row(w, c, true)))
			return false;
	return true;
}

/* The first communicator that sends messages of other ranks through this GPU leaves memory for them
 * to the later ones. */
static bool walk_leaves_store(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	bool first = !me->scene_stored && (uint32_t)me->run->nranks > c->hosts && c->hosts > 1 &&
		     !lab_env_reaches(c, "NCCL_PXN_DISABLE", 1);

	me->scene_stored = true;
	return first;
}

/* A rank of the host that maps memory of this one's GPU may be about to unmap it. */
static void walk_memory_back(struct walk *w)
{
	size_t now = walk_free(w);

	if (!scene_has_gpu(w->s))
		return;
	for (int i = 0; i < WALK_FREE_LOOKS && now < w->free_before; i++) {
		os_sleep_ns(WALK_FREE_NS);
		now = walk_free(w);
	}
	if (now < w->free_before && !walk_leaves_store(w->s->me))
		scene_report(w->s, "the end of all communicators", "has not given memory back");
}

void scene_walk(struct scene *s)
{
	struct walk w = {.s = s};

	if (s->n > WALK_RANKS || !lab_barrier(s->me))
		return;
	w.free_before = walk_free(&w);
	if (walk_open(&w) && walk_steps(&w) && walk_ends(&w) && lab_barrier(s->me))
		walk_memory_back(&w);
	for (int i = 0; i < w.comms; i++) /* after a failure */
		if (w.of[i].comm)
			(void)ncclCommAbort(w.of[i].comm);
}
