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
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/lab/family/family.h"
#include "sim/lab/program/refused.h"

#define FAMILY_COUNT       512u         /* elements of a reduction, at most */
#define FAMILY_LATE_POWERS 37           /* a member is late up to 2^37 ns, 137 s */
#define FAMILY_LOCAL_NS    800000000ull /* the end of a revoked one waits for no rank */

_Static_assert(FAMILY_COUNT * sizeof(int32_t) <= LAB_STAGING_BYTES, "a reduction is staged whole");

/* ---- use ------------------------------------------------------------------------------------ */

static void family_wrong(struct family *f, const char *what, int64_t got, int64_t want)
{
	lab_judge(f->me, SIM_WRONG_RESULT, "correctness", "family %llu: %s is %lld, expected %lld",
		  (unsigned long long)f->round, what, (long long)got, (long long)want);
}

void family_report(struct family *f, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	lab_judge(f->me, SIM_ERROR, "error-class", "family %llu: %s", (unsigned long long)f->round,
		  text);
}

bool family_cuda(struct family *f, int error)
{
	return lab_rank_check_cuda(f->me, error, "CUDA call for a family of communicators");
}

/* The most channels of a communicator with these options; 0: not known. */
static int family_most_ctas(const struct lab_config *c, const struct family_config *is)
{
	const int most = lab_most_ctas(c);

	if (strstr(c->env_odd ? c->env_odd : "", "_NCHANNELS="))
		return 0;
	if (lab_has_env(c, "NCCL_MAX_NCHANNELS"))
		return most;
	return most && is->max_ctas > 0 ? is->max_ctas : 0;
}

/* A call with one channel more than the communicator may have is refused; a sum with as many as it
 * may have is right. */
static bool family_limit(struct family *f, int most, ncclComm_t comm)
{
	ncclResult_t r;

	if (!most)
		return true;
	r = lab_call_of_ctas(f->me, comm, most + 1);
	if (r != ncclInvalidArgument)
		family_report(f, "a call with %d channels of a communicator of %d gave \"%s\"",
			      most + 1, most, ncclGetErrorString(r));
	return lab_transient_check(
		f->me, lab_comm_settle(f->me, comm, lab_call_of_ctas(f->me, comm, most)),
		"ncclAllReduceConfig");
}

/* Numbers of the communicator, its limit of channels, and a sum over its members. */
static bool family_use(struct family *f, const struct family_members *m,
		       const struct family_config *is, ncclComm_t comm)
{
	struct lab_rank *me = f->me;
	int32_t *mem = me->transient_memory, *host = (int32_t *)me->staging;
	size_t count = 1 + (size_t)(f->round * 37 % FAMILY_COUNT), bytes = count * sizeof *mem;
	cudaStream_t stream = me->transient_stream;
	int64_t sum = 0;
	int n = -1, rank = -1;

	ASSERT(family_index(m, me->rank) >= 0); /* only members have the communicator */
	if (!lab_transient_check(me, ncclCommCount(comm, &n), "ncclCommCount") ||
	    !lab_transient_check(me, ncclCommUserRank(comm, &rank), "ncclCommUserRank") ||
	    !family_limit(f, family_most_ctas(me->run->config, is), comm))
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

/* Every other member calls the parent: kernels that only an abort or a revoke ends. */
static void family_hang(struct family *f, const struct family_step *s, ncclComm_t parent)
{
	int32_t *mem = f->me->transient_memory, i = family_index(&s->parent, f->me->rank);

	ASSERT(i >= 0);
	if (!s->hangs || s->parent.n < 2 || i % 2)
		return;
	if (s->sends)
		(void)ncclSend(mem, FAMILY_COUNT, ncclInt32, (i + 1) % s->parent.n, parent,
			       f->me->transient_stream);
	else
		(void)ncclAllReduce(mem, mem, FAMILY_COUNT, ncclInt32, ncclSum, parent,
				    f->me->transient_stream);
}

/* A finalize waits for the kernels where the communicator blocks. */
static ncclResult_t family_finalize(struct family *f, bool blocking, ncclComm_t comm)
{
	ncclResult_t r = ncclCommFinalize(comm);

	if (r == (blocking ? ncclInProgress : ncclSuccess)) {
		family_report(f, "ncclCommFinalize of a communicator that %s returned \"%s\"",
			      blocking ? "blocks" : "does not block", ncclGetErrorString(r));
		return r == ncclInProgress ? lab_comm_settle(f->me, comm, r) : r;
	}
	return lab_comm_settle(f->me, comm, r);
}

/* Members of a revoked communicator end it each at a time of its own, and wait for no other. */
static ncclResult_t family_end_alone(struct family *f, bool aborts, ncclComm_t comm)
{
	uint64_t most_ns = 1ull << sim_rng_below(&f->own, FAMILY_LATE_POWERS), start_ns, took_ns;
	bool late = sim_rng_below(&f->own, 3) == 0;
	ncclResult_t r;

	if (late)
		os_sleep_ns(sim_rng_below(&f->own, most_ns));
	start_ns = os_now_ns();
	r = aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm);
	took_ns = os_now_ns() - start_ns;
	if (took_ns > FAMILY_LOCAL_NS)
		family_report(f, "the end of a revoked communicator took %llu ns",
			      (unsigned long long)took_ns);
	return r;
}

/* Has this rank revoked the parent? A rank that a shrink leaves out has not. */
static bool family_revoked(const struct family *f, const struct family_step *s)
{
	return s->revokes || family_index(&s->child, f->me->rank) >= 0;
}

static bool family_end(struct family *f, const struct family_step *s, ncclComm_t comm, bool ok)
{
	struct lab_rank *me = f->me;
	ncclResult_t r = ncclSuccess;

	lab_call(me, "the end of a parent");
	if (ok && family_breaks(s)) {
		r = family_end_alone(f, !family_revoked(f, s) || sim_rng_below(&f->own, 2), comm);
		lab_call(me, NULL);
		return lab_transient_check(me, r, "the end of a revoked parent");
	}
	if (s->end == FAMILY_FINALIZE && ok)
		r = family_finalize(f, s->is.blocking, comm);
	if (r == ncclSuccess)
		r = s->end == FAMILY_ABORT || !ok ? ncclCommAbort(comm) : ncclCommDestroy(comm);
	lab_call(me, NULL);
	return lab_transient_check(me, r, "the end of a parent");
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

/* A communicator that a step makes beside the child: it is used, and ends. */
static bool family_use_other(struct family *f, const struct family_step *s,
			     const struct family_colors *colors, int color, ncclComm_t comm)
{
	const struct family_step plain = {.end = FAMILY_FINALIZE, .is = s->becomes};
	struct family_members m;

	family_split_members(&s->parent, colors, color, &m);
	bool ok = family_use(f, &m, &s->becomes, comm);

	return family_end(f, &plain, comm, ok) && ok;
}

/* Uses the child. One of another color ends here: *child becomes NULL. */
static bool family_use_child(struct family *f, const struct family_step *s, ncclComm_t *child,
			     ncclComm_t more[FAMILY_TOGETHER])
{
	int32_t i = family_index(&s->parent, f->me->rank);
	ncclComm_t comm = *child;
	bool ok = true;

	if (comm && family_index(&s->child, f->me->rank) >= 0) {
		ok = family_use(f, &s->child, &s->becomes, comm);
	} else if (comm) {
		*child = NULL;
		ok = family_use_other(f, s, &s->split, 1, comm);
	}
	for (uint32_t k = 0; k < s->together; k++) {
		comm = more[k];
		ASSERT(!comm || i >= 0); /* a split is of members of the parent */
		more[k] = NULL;
		if (comm && ok)
			ok = family_use_other(f, s, &s->more[k], s->more[k].color[i], comm);
		else if (comm)
			(void)ncclCommAbort(comm);
	}
	return ok;
}

/* After a failure. */
static void family_drop(ncclComm_t child, ncclComm_t more[FAMILY_TOGETHER])
{
	if (child)
		(void)ncclCommAbort(child);
	for (uint32_t k = 0; k < FAMILY_TOGETHER; k++)
		if (more[k])
			(void)ncclCommAbort(more[k]);
}

/* One step: `parent` NULL: this rank is not in it. `ends`: it ends here. Afterwards the rank's
 * communicator is in its slot, if it is in the child. */
static bool family_step(struct family *f, const struct family_step *s, ncclComm_t parent, bool ends)
{
	ncclComm_t child = NULL, more[FAMILY_TOGETHER] = {NULL};
	bool ok = family_prepare(f, s, parent) && family_make(f, s, parent, &child, more);
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
		ok = family_use_child(f, s, &child, more);
	if (parent)
		ok = family_end(f, s, parent, ok) && ok;
	if (!ok)
		family_drop(child, more);
	else if (family_index(&s->child, f->me->rank) >= 0)
		(void)family_swap(f, child);
	return ok;
}

/* The options of the run's communicator. */
static struct family_config family_config_of_run(const struct lab_config *c)
{
	const long forced = lab_comm_blocking(c);

	return (struct family_config){.blocking = forced >= 0 ? (int)forced : !c->nonblocking,
				      .cluster = NCCL_CONFIG_UNDEF_INT,
				      .min_ctas = NCCL_CONFIG_UNDEF_INT,
				      .max_ctas = NCCL_CONFIG_UNDEF_INT,
				      .traffic = NCCL_CONFIG_UNDEF_INT,
				      .socket = c->config_sockets};
}

bool lab_family(struct lab_rank *me, uint64_t round, struct lab_transient_id *id)
{
	const struct lab_config *c = me->run->config;
	struct family f = {.me = me, .id = id, .round = round};
	struct family_step s, last = {.end = FAMILY_FINALIZE, .child.n = me->run->nranks};
	ncclComm_t comm;
	bool ok = true;

	ASSERT(lab_family_fits(me));
	sim_rng_seed(&f.rng, c->sim.seed + round, "lab.family");
	sim_rng_seed(&f.own, c->sim.seed + round * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.family_own");
	for (int32_t r = 0; r < last.child.n; r++)
		last.child.rank[r] = r;
	last.becomes = family_config_of_run(c);
	uint64_t steps = 1 + sim_rng_below(&f.rng, FAMILY_STEPS);

	for (uint64_t i = 0; i < steps && ok; i++) {
		s = (struct family_step){.parent = last.child,
					 .is = last.becomes,
					 .ready = round * FAMILY_STEPS + i + 1};
		family_draw(me->run, &f.rng, &s, i == 0);
		comm = i ? __atomic_load_n(&me->transient_comm, __ATOMIC_ACQUIRE) : me->comm;
		/* members break only a parent that is no longer in use */
		ok = (!family_breaks(&s) || lab_barrier(me)) && family_step(&f, &s, comm, i > 0);
		last.child = s.child;
		last.becomes = s.becomes;
	}
	last.is = last.becomes;
	comm = family_swap(&f, NULL);
	return (!comm || family_end(&f, &last, comm, ok)) && ok;
}

bool lab_family_fits(const struct lab_rank *me)
{
	return me->run->config->children && !me->team && !me->run->armed &&
	       me->run->nranks <= FAMILY_RANKS;
}
