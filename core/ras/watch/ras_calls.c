/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the calls of a communicator's ranks. Every rank launches the same collectives in the
 * same order, so two ranks that differ in the call of one number will never match again: the first
 * such number is the cause. A rank keeps only its last calls. The chain, a hash of all calls up to
 * one, shows differences in calls that are no longer kept.
 */
#include <inttypes.h>

#include "core/base/type_name.h"
#include "core/rank/calls.h"
#include "core/ras/ras_job.h"

#define CALLS_GROUPS 4 /* different calls that are listed */

/* The calls of one rank, in order of their numbers. */
struct calls_of {
	const struct ras_call *call;
	uint32_t n;
};

/* Returns the calls of the rank whose first call is at `at`. */
static struct calls_of calls_at(const struct ras_comm *c, uint32_t at)
{
	struct calls_of o = {.call = &c->call[at]};

	while (at + o.n < c->calls && c->call[at + o.n].rank == o.call->rank)
		o.n++;
	return o;
}

/* Returns the call of that number; NULL: it is not kept. */
static const struct ras_call *calls_find(const struct calls_of *o, uint64_t number)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (o->call[i].number == number)
			return &o->call[i];
	return NULL;
}

static bool calls_are_same(const struct ras_call *a, const struct ras_call *b)
{
	return a->func == b->func && a->count == b->count && a->type == b->type && a->op == b->op &&
	       a->root == b->root;
}

/* Returns the first number at which two ranks differ; UINT64_MAX: none that both keep. *earlier:
 * they differ in calls before those, up to this number; UINT64_MAX: they do not. */
static uint64_t calls_first(const struct calls_of *a, const struct calls_of *b, uint64_t *earlier)
{
	*earlier = UINT64_MAX;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct ras_call *x = &a->call[i], *y = calls_find(b, x->number);

		if (!y)
			continue;
		if (!calls_are_same(x, y))
			return x->number;
		if (x->chain == y->chain)
			continue;
		*earlier = x->number;
		return UINT64_MAX;
	}
	return UINT64_MAX;
}

/* ---- text ----------------------------------------------------------------------------------- */

void ras_call_write(struct ras_text *out, const struct ras_call *c)
{
	ras_text_add(out, "nccl%s of %" PRIu64 " %s", ras_func_name(c->func), c->count,
		     type_name_any(c->type));
	if (c->op != RANK_CALL_OP_NONE)
		ras_text_add(out, " %s", redop_name(c->op));
	if (c->root >= 0)
		ras_text_add(out, " root %d", c->root);
}

/* Writes the ranks whose call of that number is `call`. Returns their number. */
static uint32_t calls_ranks_write(struct ras_text *out, const struct ras_comm *c,
				  const struct ras_call *call)
{
	struct ras_text list = {.bytes = 0};
	struct ras_list l = {.out = &list, .first = -1};

	for (uint32_t at = 0; at < c->calls;) {
		struct calls_of o = calls_at(c, at);
		const struct ras_call *own = calls_find(&o, call->number);

		at += o.n;
		if (own && calls_are_same(own, call))
			ras_list_add(&l, own->rank);
	}
	ras_list_end(&l);
	ras_text_add(out, "%s %s: call %" PRIu64 " is ", l.n > 1 ? "ranks" : "rank",
		     list.at ? list.at : "", call->number);
	ras_call_write(out, call);
	out->lost = out->lost || list.lost;
	ras_text_free(&list);
	return l.n;
}

/* True if a rank before that one has the same call. */
static bool calls_is_listed(const struct ras_call *const *group, uint32_t n,
			    const struct ras_call *call)
{
	for (uint32_t i = 0; i < n; i++)
		if (calls_are_same(group[i], call))
			return true;
	return false;
}

static void calls_groups_write(struct ras_text *out, const struct ras_comm *c, uint64_t number)
{
	const struct ras_call *group[CALLS_GROUPS];
	uint32_t n = 0;

	for (uint32_t at = 0; at < c->calls && n < CALLS_GROUPS;) {
		struct calls_of o = calls_at(c, at);
		const struct ras_call *own = calls_find(&o, number);

		at += o.n;
		if (!own || calls_is_listed(group, n, own))
			continue;
		ras_text_add(out, n ? "; " : "");
		calls_ranks_write(out, c, own);
		group[n++] = own;
	}
}

bool ras_calls_differ(struct ras_text *out, const struct ras_comm *c)
{
	uint64_t least = UINT64_MAX, before = UINT64_MAX;
	struct calls_of last = {.n = 0}, o;

	for (uint32_t at = 0; at < c->calls; at += o.n, last = o) {
		uint64_t earlier;

		o = calls_at(c, at);
		if (!last.n)
			continue;
		least = MIN_OF(least, calls_first(&last, &o, &earlier));
		before = MIN_OF(before, earlier);
	}
	if (least != UINT64_MAX)
		calls_groups_write(out, c, least);
	else if (before != UINT64_MAX)
		ras_text_add(out,
			     "ranks have launched different calls before call %" PRIu64
			     ", which are no longer recorded",
			     before);
	return least != UINT64_MAX || before != UINT64_MAX;
}

/* ---- absent ranks --------------------------------------------------------------------------- */

const struct ras_call *ras_call_last(const struct ras_comm *c, int32_t rank)
{
	const struct ras_call *last = NULL;

	for (uint32_t i = 0; i < c->calls; i++)
		if (c->call[i].rank == rank)
			last = &c->call[i];
	return last;
}

const struct ras_call *ras_call_find(const struct ras_comm *c, uint64_t number)
{
	for (uint32_t i = 0; i < c->calls; i++)
		if (c->call[i].number == number)
			return &c->call[i];
	return NULL;
}

static void calls_absent_write(struct ras_text *out, const struct ras_comm *c,
			       const struct ras_rank *r)
{
	const struct ras_call *last = ras_call_last(c, r->rank);

	ras_text_add(out, "; rank %d has not called it", r->rank);
	if (!r->calls)
		ras_text_add(out, " (it has called no collective)");
	if (!last)
		return;
	ras_text_add(out, " (its last call is %" PRIu64 ", ", last->number);
	ras_call_write(out, last);
	ras_text_add(out, ")");
}

uint32_t ras_calls_absent(struct ras_text *out, struct ras_job *j, const struct ras_comm *c,
			  uint64_t number)
{
	struct ras_missing m = {.next = 0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct ras_rank *r = &c->rank[i].r;

		if (r->calls > number && r->reached > number)
			continue;
		if (n++ >= CALLS_GROUPS)
			continue;
		if (r->calls <= number)
			calls_absent_write(out, c, r);
		else
			ras_text_add(out,
				     "; rank %d has called it, but its stream has not "
				     "reached it",
				     r->rank);
	}
	if (n > CALLS_GROUPS)
		ras_text_add(out, "; %u further ranks are absent", n - CALLS_GROUPS);
	while (ras_missing_next(j, c, &m))
		if (n++ < CALLS_GROUPS)
			ras_text_add(out, "; rank %d %s", m.rank,
				     m.answered || m.process == UINT32_MAX
					     ? "is not in the communicator"
					     : "gives no answer");
	return n;
}

uint32_t ras_formed_absent(struct ras_text *out, const struct ras_comm *c, uint64_t number)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->ranks; i++)
		if (c->rank[i].r.formed < number && n++ < CALLS_GROUPS)
			ras_text_add(out, "; rank %d has not called it", c->rank[i].r.rank);
	if (n > CALLS_GROUPS)
		ras_text_add(out, "; %u further ranks have not called it", n - CALLS_GROUPS);
	return n;
}
