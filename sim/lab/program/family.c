/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that are made from others, among those that come and go (transient.c). The first is
 * made from the communicator of the run, while its kernels run. Each further one is made from the
 * one before, which ends then: by split, by shrink, after a revoke, or by growth. Each reduces, and
 * the result is checked.
 *
 * All ranks draw the same steps from the run's seed, and know the members of each communicator. A
 * rank that is in none may come in again by growth.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "sim/lab/run/runner_internal.h"

#define FAMILY_RANKS     64   /* largest run that has families */
#define FAMILY_STEPS     4    /* communicators of a family, at most */
#define FAMILY_COUNT     512u /* elements of a reduction, at most */
#define FAMILY_BAD_COLOR (-7)

enum family_way { FAMILY_SPLIT, FAMILY_SHRINK, FAMILY_SHRINK_ABORT, FAMILY_GROW, FAMILY_WAYS };
enum family_end { FAMILY_DESTROY, FAMILY_FINALIZE, FAMILY_ABORT, FAMILY_ENDS };

/* The members of a communicator as ranks of the run, by their numbers in it. */
struct family_members {
	int32_t n, rank[FAMILY_RANKS];
};

/* One step, the same on all ranks. */
struct family_step {
	enum family_way way;
	enum family_end end;                        /* of the parent */
	bool revokes;                               /* the parent, before */
	bool hangs;                                 /* some members call the parent before */
	bool parent_first;                          /* ends before the child is used */
	bool configured;                            /* passes a config */
	int color[FAMILY_RANKS], key[FAMILY_RANKS]; /* by number in the parent; split */
	int excluded[FAMILY_RANKS], excludes;       /* numbers in the parent; shrink */
	struct family_members parent, child;        /* child: those of color 0 */
	int32_t wrong;  /* number in the parent of a rank whose first split is refused; -1: none */
	int32_t asks;   /* number in the parent; grow */
	uint64_t ready; /* of the id; grow */
};

struct family {
	struct lab_rank *me;
	struct sim_rng rng;
	struct lab_transient_id *id;
	uint64_t round;
};

static int32_t family_index(const struct family_members *m, int32_t rank)
{
	for (int32_t i = 0; i < m->n; i++)
		if (m->rank[i] == rank)
			return i;
	return -1;
}

static bool family_one_in(struct family *f, uint64_t n)
{
	return sim_rng_below(&f->rng, n) == 0;
}

/* ---- draws ---------------------------------------------------------------------------------- */

/* The members of one color, in the order of their keys. */
static void family_split_members(const struct family_step *s, int color, struct family_members *out)
{
	out->n = 0;
	for (int key = -2; key < 2; key++)
		for (int32_t i = 0; i < s->parent.n; i++)
			if (s->color[i] == color && s->key[i] == key)
				out->rank[out->n++] = s->parent.rank[i];
}

static bool family_is_blocking(const struct family *f)
{
	const struct lab_config *c = f->me->run->config;

	return !c->nonblocking && !c->config_version && lab_comm_blocking(c) < 0;
}

static void family_draw_split(struct family *f, struct family_step *s)
{
	int32_t always = (int32_t)sim_rng_below(&f->rng, (uint64_t)s->parent.n);

	for (int32_t i = 0; i < s->parent.n; i++) {
		uint64_t kind = sim_rng_below(&f->rng, 5);

		s->key[i] = (int)sim_rng_below(&f->rng, 4) - 2;
		s->color[i] = kind < 3 || i == always ? 0 : kind == 3 ? 1 : NCCL_SPLIT_NOCOLOR;
	}
	family_split_members(s, 0, &s->child);
	if (!family_one_in(f, 3) || !family_is_blocking(f))
		s->wrong = -1;
	else
		s->wrong = (int32_t)sim_rng_below(&f->rng, (uint64_t)s->parent.n);
}

static void family_draw_shrink(struct family *f, struct family_step *s)
{
	int32_t never = (int32_t)sim_rng_below(&f->rng, (uint64_t)s->parent.n);
	int32_t always = (never + 1) % s->parent.n;

	for (int32_t i = 0; i < s->parent.n; i++) {
		bool out = family_one_in(f, 3);

		if (i != never && (out || i == always))
			s->excluded[s->excludes++] = i;
		else
			s->child.rank[s->child.n++] = s->parent.rank[i];
	}
}

/* Returns false if no rank can be added. New ranks have no parent whose config they inherit. */
static bool family_draw_growth(struct family *f, struct family_step *s)
{
	if (f->me->run->config->config_version)
		return false;
	s->child = s->parent;
	for (int32_t r = 0; r < f->me->run->nranks; r++)
		if (family_index(&s->parent, r) < 0 && !family_one_in(f, 3))
			s->child.rank[s->child.n++] = r;
	s->asks = (int32_t)sim_rng_below(&f->rng, (uint64_t)s->parent.n);
	return s->child.n > s->parent.n;
}

/* Members may abort the parent only when all have the child. */
static void family_draw_end(struct family_step *s)
{
	if (s->end == FAMILY_ABORT && (s->parent_first || s->child.n < s->parent.n))
		s->end = FAMILY_DESTROY;
}

/* The communicator of the run stays: it neither ends, nor is it revoked. */
static void family_draw(struct family *f, struct family_step *s, bool first)
{
	s->way = (enum family_way)sim_rng_below(&f->rng, FAMILY_WAYS);
	s->end = (enum family_end)sim_rng_below(&f->rng, FAMILY_ENDS);
	s->revokes = family_one_in(f, 3) && !first;
	s->hangs = family_one_in(f, 2);
	s->parent_first = family_one_in(f, 2);
	s->configured = family_one_in(f, 2);
	if (first && s->way == FAMILY_SHRINK_ABORT)
		s->way = FAMILY_SHRINK;
	if (s->way == FAMILY_GROW && (s->revokes || !family_draw_growth(f, s)))
		s->way = FAMILY_SPLIT;
	if (s->parent.n == 1 && (s->way == FAMILY_SHRINK || s->way == FAMILY_SHRINK_ABORT))
		s->way = FAMILY_SPLIT;
	s->hangs = s->hangs && (s->revokes || s->way == FAMILY_SHRINK_ABORT);
	if (s->way == FAMILY_GROW)
		return;
	s->child.n = 0;
	if (s->way == FAMILY_SPLIT)
		family_draw_split(f, s);
	else
		family_draw_shrink(f, s);
}

/* ---- use ------------------------------------------------------------------------------------ */

static void family_wrong(struct family *f, const char *what, int64_t got, int64_t want)
{
	struct lab_rank *me = f->me;

	os_mutex_lock(&me->run->lock);
	me->run->wrong++;
	os_mutex_unlock(&me->run->lock);
	sim_note_failure(SIM_WRONG_RESULT, "correctness", me->rank,
			 "rank %d: family %llu: %s is %lld, expected %lld", me->rank,
			 (unsigned long long)f->round, what, (long long)got, (long long)want);
}

static bool family_cuda(struct family *f, cudaError_t e)
{
	return lab_rank_check_cuda(f->me, e, "CUDA call for a family of communicators");
}

/* Numbers of the communicator, and a sum over its members. */
static bool family_use(struct family *f, const struct family_members *m, ncclComm_t comm)
{
	struct lab_rank *me = f->me;
	int32_t *mem = me->transient_memory, *host = (int32_t *)me->staging;
	size_t count = 1 + (size_t)(f->round * 37 % FAMILY_COUNT), bytes = count * sizeof *mem;
	cudaStream_t stream = me->transient_stream;
	int64_t sum = 0;
	int n = -1, rank = -1;

	if (!lab_transient_check(me, ncclCommCount(comm, &n), "ncclCommCount") ||
	    !lab_transient_check(me, ncclCommUserRank(comm, &rank), "ncclCommUserRank"))
		return false;
	lab_queries(me, comm, m->n, family_index(m, me->rank), false);
	if (n != m->n || rank != family_index(m, me->rank))
		family_wrong(f, n != m->n ? "the number of ranks" : "the rank",
			     n != m->n ? n : rank, n != m->n ? m->n : family_index(m, me->rank));
	for (int32_t i = 0; i < m->n; i++)
		sum += 1 + m->rank[i];
	for (size_t i = 0; i < count; i++)
		host[i] = (int32_t)(i + 1) * (1 + me->rank);
	if (!family_cuda(f, cudaMemcpyAsync(mem, host, bytes, cudaMemcpyHostToDevice, stream)) ||
	    !lab_transient_check(me,
				 lab_comm_settle(me, comm,
						 ncclAllReduce(mem, mem, count, ncclInt32, ncclSum,
							       comm, stream)),
				 "ncclAllReduce") ||
	    !lab_transient_sync(me, comm) ||
	    !family_cuda(f, cudaMemcpyAsync(host, mem, bytes, cudaMemcpyDeviceToHost, stream)) ||
	    !lab_transient_sync(me, comm))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (host[i] == (int32_t)(i + 1) * sum)
			continue;
		family_wrong(f, "an element of a sum", host[i], (int64_t)(i + 1) * sum);
		break;
	}
	return true;
}

/* True if members abort the parent, or end its kernels, at times of their own. Calls of those that
 * have not done so return errors. */
static bool family_breaks(const struct family_step *s)
{
	return s->revokes || s->way == FAMILY_SHRINK_ABORT;
}

/* Every other member calls the parent: kernels that only an abort or a revoke ends. */
static void family_hang(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	int32_t *mem = f->me->transient_memory;

	if (s->hangs && s->parent.n > 1 && family_index(&s->parent, f->me->rank) % 2 == 0)
		(void)ncclAllReduce(mem, mem, FAMILY_COUNT, ncclInt32, ncclSum, parent,
				    f->me->transient_stream);
}

static bool family_end(struct family *f, const struct family_step *s, ncclComm_t comm, bool ok)
{
	struct lab_rank *me = f->me;
	ncclResult_t r = ncclSuccess;
	bool broken = !ok || family_breaks(s);

	lab_call(me, "the end of a parent");
	if (s->end == FAMILY_FINALIZE && !broken)
		r = lab_comm_settle(me, comm, ncclCommFinalize(comm));
	if (r == ncclSuccess)
		r = s->end == FAMILY_ABORT || broken ? ncclCommAbort(comm) : ncclCommDestroy(comm);
	lab_call(me, NULL);
	return lab_transient_check(me, r, "the end of a parent");
}

/* ---- steps ---------------------------------------------------------------------------------- */

static ncclResult_t family_grow(struct family *f, const struct family_step *s, ncclComm_t parent,
				ncclComm_t *child, ncclConfig_t *config)
{
	struct lab_rank *me = f->me;
	const struct wait w = {
		.on = &f->id->ready,
		.bytes = 8,
		.kind = WAIT_EQ,
		.mask = WAIT_MASK_ALL,
		.want = s->ready,
		.why = "harness: the unique id of a communicator that grows",
		.from = {.rank = s->parent.rank[s->asks], .channel = -1, .step = -1},
	};
	bool asks = s->parent.rank[s->asks] == me->rank;

	if (asks) {
		ncclResult_t r =
			lab_comm_settle(me, parent, ncclCommGetUniqueId(parent, &f->id->id));

		if (r)
			return r;
		shared_store_u64(&f->id->ready, s->ready, SHARED_RELEASE);
	}
	if (parent)
		return ncclCommGrow(parent, s->child.n, asks ? &f->id->id : NULL, -1, child,
				    config);
	if (os_wait_one(&w, &me->run->failed))
		return ncclInProgress; /* another rank failed */
	return ncclCommGrow(NULL, s->child.n, &f->id->id, family_index(&s->child, me->rank), child,
			    config);
}

static ncclResult_t family_call(struct family *f, const struct family_step *s, ncclComm_t parent,
				ncclComm_t *child, ncclConfig_t *config)
{
	int32_t i = family_index(&s->parent, f->me->rank);
	int excluded[FAMILY_RANKS];

	if (s->way == FAMILY_GROW)
		return family_grow(f, s, parent, child, config);
	ASSERT(parent && i >= 0);
	if (s->way == FAMILY_SPLIT)
		return ncclCommSplit(parent, s->color[i], s->key[i], child, config);
	for (int k = 0; k < s->excludes; k++)
		excluded[k] = s->excluded[k];
	return ncclCommShrink(parent, excluded, s->excludes, child, config,
			      s->way == FAMILY_SHRINK_ABORT ? NCCL_SHRINK_ABORT
							    : NCCL_SHRINK_DEFAULT);
}

/* One rank passes a color that is refused: it and the others get their errors, and the parent stays
 * as it was. */
static void family_refused(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	struct lab_rank *me = f->me;
	bool wrong = family_index(&s->parent, me->rank) == s->wrong;
	ncclResult_t want = wrong ? ncclInvalidArgument : ncclRemoteError, got;
	ncclComm_t none = NULL;

	lab_call(me, "a split that is refused on one rank");
	got = ncclCommSplit(parent, wrong ? FAMILY_BAD_COLOR : 0, 0, &none, NULL);
	lab_call(me, NULL);
	if (got == want && !none)
		return;
	sim_note_failure(SIM_ERROR, "error-class", me->rank,
			 "rank %d: a split that is refused on %s gave \"%s\"%s, expected \"%s\"",
			 me->rank, wrong ? "this rank" : "another rank", ncclGetErrorString(got),
			 none ? " and a communicator" : "", ncclGetErrorString(want));
	me->run->judged = SIM_ERROR;
}

/* Makes the child on this rank, if it takes part; *child NULL: it does not, or has no color. */
static bool family_make(struct family *f, const struct family_step *s, ncclComm_t parent,
			ncclComm_t *child)
{
	struct lab_rank *me = f->me;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t r;

	*child = NULL;
	if (s->way == FAMILY_SPLIT ? !parent : family_index(&s->child, me->rank) < 0)
		return true;
	if (s->way == FAMILY_SPLIT && s->wrong >= 0)
		family_refused(f, s, parent);
	config.commName = "a child";
	config.splitShare = config.shrinkShare = (int)(s->ready & 1);
	lab_call(me, "making a communicator from another");
	r = family_call(f, s, parent, child, s->configured ? &config : NULL);
	if (parent)
		r = lab_comm_settle(me, parent, r);
	if (*child && (r == ncclSuccess || r == ncclInProgress))
		r = lab_comm_settle(me, *child, ncclInProgress);
	lab_call(me, NULL);
	return lab_transient_check(me, r, "making a communicator from another");
}

/* Puts `comm` where the watch finds it. Returns what was there. */
static ncclComm_t family_swap(struct family *f, ncclComm_t comm)
{
	return __atomic_exchange_n(&f->me->transient_comm, comm, __ATOMIC_ACQ_REL);
}

static bool family_prepare(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	ncclResult_t r;

	if (!parent)
		return true;
	/* a call before may still connect ranks */
	r = lab_comm_settle(f->me, parent, ncclInProgress);
	if (!family_breaks(s) && !lab_transient_check(f->me, r, "ncclCommGetAsyncError"))
		return false;
	if (!r)
		family_hang(f, s, parent);
	return !s->revokes ||
	       lab_transient_check(f->me, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT),
				   "ncclCommRevoke");
}

/* Uses the child. One of another color ends here: *child becomes NULL. */
static bool family_use_child(struct family *f, const struct family_step *s, ncclComm_t *child)
{
	const struct family_step plain = {.end = FAMILY_DESTROY};
	struct family_members other;
	ncclComm_t comm = *child;

	if (!comm)
		return true;
	if (family_index(&s->child, f->me->rank) >= 0)
		return family_use(f, &s->child, comm);
	family_split_members(s, 1, &other);
	*child = NULL;
	bool ok = family_use(f, &other, comm);

	return family_end(f, &plain, comm, ok) && ok;
}

/* One step: `parent` NULL: this rank is not in it. `ends`: it ends here. Afterwards the rank's
 * communicator is in its slot, if it is in the child. */
static bool family_step(struct family *f, const struct family_step *s, ncclComm_t parent, bool ends)
{
	ncclComm_t child = NULL;
	bool ok = family_prepare(f, s, parent) && family_make(f, s, parent, &child);
	bool first = s->parent_first || !child; /* kernels of a rank that is left out may hang */

	if (!ends)
		parent = NULL;
	if (parent)
		(void)family_swap(f, NULL);
	if (parent && (first || !ok)) {
		ok = family_end(f, s, parent, ok) && ok;
		parent = NULL;
	}
	if (ok && s->hangs)
		ok = family_cuda(f, cudaStreamSynchronize(f->me->transient_stream));
	if (ok)
		ok = family_use_child(f, s, &child);
	if (parent)
		ok = family_end(f, s, parent, ok) && ok;
	if (child && !ok)
		(void)ncclCommAbort(child);
	else if (family_index(&s->child, f->me->rank) >= 0)
		(void)family_swap(f, child);
	return ok;
}

bool lab_family(struct lab_rank *me, uint64_t round, struct lab_transient_id *id)
{
	struct family f = {.me = me, .id = id, .round = round};
	struct family_members members = {.n = me->run->nranks};
	const struct family_step last = {.end = FAMILY_FINALIZE};
	ncclComm_t comm;
	bool ok = true;

	ASSERT(lab_family_fits(me));
	sim_rng_seed(&f.rng, me->run->config->sim.seed + round, "lab.family");
	for (int32_t r = 0; r < members.n; r++)
		members.rank[r] = r;
	uint64_t steps = 1 + sim_rng_below(&f.rng, FAMILY_STEPS);

	for (uint64_t i = 0; i < steps && ok; i++) {
		struct family_step s = {.parent = members, .ready = round * FAMILY_STEPS + i + 1};

		family_draw(&f, &s, i == 0);
		family_draw_end(&s);
		comm = i ? __atomic_load_n(&me->transient_comm, __ATOMIC_ACQUIRE) : me->comm;
		/* members break only a parent that is no longer in use */
		ok = (!family_breaks(&s) || lab_barrier(me)) && family_step(&f, &s, comm, i > 0);
		members = s.child;
	}
	comm = family_swap(&f, NULL);
	return (!comm || family_end(&f, &last, comm, ok)) && ok;
}

bool lab_family_fits(const struct lab_rank *me)
{
	return me->run->config->children && !me->team && !me->run->armed &&
	       me->run->nranks <= FAMILY_RANKS;
}
