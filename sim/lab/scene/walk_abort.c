/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An abort in the middle of a call of a walk, in any state. A second task of each member, or of
 * one, aborts the communicator. The calling task may abort if the call returns before it is
 * complete. One member, the culprit, may not make the call, so that the others wait. A collective
 * may be in the stream before.
 */
#include <stdio.h>

#include "sim/lab/scene/walk.h"

#define WALK_ABORT_POWERS  25 /* up to 2^25 ns later, 34 ms */
#define WALK_ABORT_CHANGES 3
/* An abort, and what it ends, take no longer. A kernel waits up to 1 s for a sender that writes
 * into its buffer. */
#define WALK_SOON_NS  1500000000ull
#define WALK_CHILD_NS 1000000000ull

struct walk_abort {
	struct walk *w;
	struct walk_comm *c;
	const struct walk_row *row;
	bool member, works, each;  /* a collective comes before; all abort */
	bool apart;                /* a rank that waits learns only of the end of this one */
	bool absent, aborts, self; /* this rank makes no call; it aborts, in its own task */
	uint64_t later_ns, start_ns, end_ns;
	ncclResult_t result;
	struct os_thread *task;
};

/* A blocking call that makes a child looks at its parent every second. */
static uint64_t walk_abort_bound_ns(const struct walk_abort *a)
{
	return WALK_SOON_NS + (a->row->makes ? WALK_CHILD_NS : 0);
}

static void walk_abort_now(void *arg)
{
	struct walk_abort *a = arg;

	os_sleep_ns(a->later_ns);
	a->start_ns = os_now_ns();
	a->result = ncclCommAbort(a->c->comm);
	a->end_ns = os_now_ns();
}

static bool walk_abort_start(struct walk_abort *a)
{
	if (!a->aborts || a->self || a->absent ||
	    os_task_start(&a->task, a->w->s->me->rank, "aborts", walk_abort_now, a) == 0)
		return true;
	scene_report(a->w->s, "ncclCommAbort", "has no task");
	return false;
}

/* A destroy may have freed the communicator before. */
static void walk_abort_judge(struct walk_abort *a)
{
	bool gone = a->result == ncclInvalidArgument && a->row->ends;

	if (!gone)
		scene_judge(a->w->s, "ncclCommAbort", a->result, ncclSuccess);
	if (a->end_ns - a->start_ns > walk_abort_bound_ns(a))
		scene_report(a->w->s, "ncclCommAbort", "has waited for other ranks");
}

/* A rank learns of the end of another one from its neighbours of the ring that wait in a call. A
 * revoked communicator has no ring. The others learn of it by the deadline. */
static bool walk_abort_is_late(const struct walk_abort *a, ncclResult_t rc)
{
	bool revoked = a->c->state == WALK_REVOKED || a->row->next == WALK_REVOKED;

	return rc == ncclTimeout && a->w->s->timeout_ms && (revoked || !a->each);
}

/* Another rank may abort before, and this one before its call. */
static bool walk_abort_expects(const struct walk_abort *a, ncclResult_t rc)
{
	if (rc == ncclSuccess || rc == ncclRemoteError)
		return true;
	if (walk_abort_is_late(a, rc))
		return true;
	if (!a->aborts)
		return false;
	return rc == ncclInternalError || rc == ncclInvalidArgument ||
	       (rc == ncclInProgress && a->self) || (rc == ncclInvalidUsage && a->row->ends);
}

static void walk_abort_call(struct walk_abort *a)
{
	struct scene *s = a->w->s;
	ncclResult_t rc = ncclSuccess;
	uint64_t end_ns;

	if (a->works)
		rc = walk_launch(a->w, a->c);
	if (rc == ncclInProgress)
		rc = lab_comm_settle(s->me, a->c->comm, rc);
	if (!rc)
		rc = walk_call(a->w, a->c, a->row, false, !a->self);
	end_ns = os_now_ns();
	if (!walk_abort_expects(a, rc))
		scene_judge(s, a->row->call, rc, a->aborts ? ncclInternalError : ncclRemoteError);
	if (a->task)
		os_thread_join(a->task);
	else if (a->self)
		walk_abort_now(a);
	if (a->start_ns)
		walk_abort_judge(a);
	if (a->start_ns && end_ns > a->start_ns + walk_abort_bound_ns(a))
		scene_report(s, a->row->call, "has returned long after the abort");
}

/* The ranks that have not aborted have an error now, or none if none of them waited. */
static void walk_abort_end(struct walk_abort *a)
{
	bool ended = !a->absent && (a->aborts || a->row->ends), destroys;
	struct scene *s = a->w->s;
	uint64_t start_ns;
	ncclResult_t rc;

	ASSERT(a->member);
	if (!ended && a->absent && (a->aborts || a->apart))
		os_sleep_ns(a->later_ns);
	destroys = !a->aborts && sim_rng_below(&s->own, 2);
	if (!ended) {
		const char *call = destroys ? "ncclCommDestroy" : "ncclCommAbort";

		start_ns = os_now_ns();
		lab_call(s->me, call);
		rc = destroys ? ncclCommDestroy(a->c->comm) : ncclCommAbort(a->c->comm);
		lab_call(s->me, NULL);
		if (!destroys || (rc != ncclRemoteError && !walk_abort_is_late(a, rc)))
			scene_judge(s, call, rc, ncclSuccess);
		if (!destroys && os_now_ns() - start_ns > WALK_SOON_NS)
			scene_report(s, call, "has waited for other ranks");
	}
	a->c->comm = NULL;
	if (a->w->child && a->w->child->comm)
		scene_judge(s, "ncclCommAbort of a child", ncclCommAbort(a->w->child->comm),
			    ncclSuccess);
}

/* One that the state allows. Calls that change the state, and need not end the communicator, are
 * drawn more often. */
static const struct walk_row *walk_abort_row(struct walk *w, const struct walk_comm *c)
{
	const struct walk_row *row = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < walk_nrows; i++) {
		const struct walk_row *r = &walk_rows[i];
		uint64_t weight = r->next == WALK_STAYS || r->ends ? 1 : WALK_ABORT_CHANGES;
		bool is_abort = r->ends && r->meets;

		if (!(r->allowed & 1u << c->state) || is_abort || !walk_fits(w, c, r))
			continue;
		n += weight;
		if (sim_rng_below(&w->s->drawn, n) < weight)
			row = r;
	}
	return row;
}

/* True if both neighbours of a rank that aborts may be out of the call while another rank waits in
 * it, for an absent one or for the collective before: no rank forwards the abort then. All ranks
 * have the same result. */
static bool walk_abort_is_hidden(const struct walk_abort *a, bool waits, bool busy)
{
	const struct scene *s = a->w->s;
	const struct walk_row *row = a->row;
	int32_t n = a->c->known ? a->c->n : s->n; /* halves may differ in size */
	bool hosts = s->me->run->config->hosts > 1,
	     leaves = row->ends || row->next == WALK_FINALIZED;

	if (n <= 3)
		return false;
	return (waits && (row->connects || row->makes || (row->local && hosts))) ||
	       (busy && leaves && hosts);
}

/* The members of halves differ: the ranks draw by their place in them. */
static void walk_abort_draw(struct walk_abort *a)
{
	struct scene *s = a->w->s;
	uint64_t culprit = sim_rng_below(&s->drawn, WALK_ANY),
		 one = sim_rng_below(&s->drawn, WALK_ANY);
	bool waits = sim_rng_below(&s->drawn, 2), works = sim_rng_below(&s->drawn, 2);
	uint64_t out = sim_rng_below(&s->drawn, WALK_ANY);
	bool self = sim_rng_below(&s->drawn, 3) == 0 && a->w->nonblocking;
	int32_t n = a->c->n, index = a->c->index;

	a->member = index >= 0;
	a->each = sim_rng_below(&s->drawn, 2);
	a->apart = a->row->makes && (a->c->state == WALK_REVOKED || a->row->next == WALK_REVOKED);
	/* the message of a rank that has ended a revoked parent is awaited without end */
	a->each |= a->apart;
	/* a rank that connects waits in CUDA for its own kernel, which another rank's abort does
	 * not end */
	bool busy = works && a->c->state == WALK_READY;
	a->each |= a->row->connects && busy;
	/* a blocking call that makes a child may wait in CUDA in the same way */
	a->each |= a->row->makes && busy && !a->w->nonblocking;
	a->each |= walk_abort_is_hidden(a, waits, busy);
	a->later_ns = sim_rng_below(&s->own, 1ull << sim_rng_below(&s->own, WALK_ABORT_POWERS));
	if (!a->member)
		return;
	int32_t at = (int32_t)(culprit % (uint64_t)n);
	int32_t by = n > 1 ? (at + 1 + (int32_t)(one % (uint64_t)(n - 1))) % n : 0;

	a->absent = waits && n > 1 && index == at;
	a->aborts = a->each || index == by;
	a->self = self && a->aborts && !a->row->ends;
	a->works = busy;
	a->w->out = (int32_t)(out % (uint64_t)n);
}

bool walk_aborted(struct walk *w, struct walk_comm *c)
{
	struct walk_abort a = {.w = w, .c = c, .row = walk_abort_row(w, c)};

	walk_abort_draw(&a);
	bool meets = !a.each && !a.apart;

	w->child = a.row->makes ? walk_child(w, c, a.row) : NULL;
	if (!lab_barrier(w->s->me))
		return false;
	if (a.member) {
		if (!walk_abort_start(&a))
			return false;
		if (!a.absent)
			walk_abort_call(&a);
		if (meets && !lab_barrier(w->s->me))
			return false;
		walk_abort_end(&a);
	} else if (meets && !lab_barrier(w->s->me)) {
		return false;
	}
	c->state = WALK_OVER;
	if (w->child)
		*w->child = (struct walk_comm){.state = WALK_OVER, .index = -1};
	return scene_sync(w->s, 0) && lab_barrier(w->s->me);
}
