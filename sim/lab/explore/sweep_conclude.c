/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a campaign: failures in the order of their weight, the sites of all workers, the
 * verdict. */
#include <stdlib.h>
#include <string.h>

#include "sim/lab/explore/sweep_internal.h"
#include "sim/lab/search/fail.h"

static int sweep_compare_failures(const void *a, const void *b)
{
	const struct sweep_seed *x = a, *y = b;
	int sx = fail_severity(x->outcome), sy = fail_severity(y->outcome);

	if (x->canary != y->canary)
		return x->canary ? 1 : -1;
	if (sx != sy)
		return sy - sx;
	if (x->nranks != y->nranks)
		return x->nranks < y->nranks ? -1 : 1;
	if (x->failure.step != y->failure.step)
		return x->failure.step < y->failure.step ? -1 : 1;
	return x->seed < y->seed ? -1 : x->seed > y->seed;
}

static void sweep_add_sites(struct sweep_site *to, uint32_t *n, const struct sweep_site *from,
			    uint32_t from_n)
{
	for (uint32_t i = 0; i < from_n; i++)
		sweep_add_site(to, n, from[i].name, from[i].visits, from[i].hits);
}

static int sweep_compare_strategies(const void *a, const void *b)
{
	const struct sweep_strategy *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void sweep_sort_strategies(struct sweep_result *r)
{
	size_t n = 0;

	while (n < SWEEP_STRATEGIES && r->strategy[n].name[0])
		n++;
	qsort(r->strategy, n, sizeof r->strategy[0], sweep_compare_strategies);
}

void sweep_conclude(struct sweep_result *r, const struct sweep_shared *shared, uint32_t jobs)
{
	ASSERT(r->passed + r->failure_n == r->seeds); /* a seed passes, or is kept */
	for (uint32_t i = 0; i < jobs; i++) {
		const struct sweep_shared *s = &shared[i];

		sweep_add_sites(r->buggify, &r->buggify_n, s->buggify, s->buggify_n);
		sweep_add_sites(r->fault, &r->fault_n, s->fault, s->fault_n);
		sweep_add_sites(r->probe, &r->probe_n, s->probe, s->probe_n);
	}
	if (r->failure_n)
		qsort(r->failure, r->failure_n, sizeof *r->failure, sweep_compare_failures);
	sweep_sort_strategies(r);
	for (uint32_t i = 0; i < r->failure_n; i++)
		if (!r->failure[i].canary &&
		    fail_severity(r->failure[i].outcome) > fail_severity(r->verdict))
			r->verdict = r->failure[i].outcome;
	if (r->canaries_found != r->canaries && r->verdict == SIM_PASS)
		r->verdict = SIM_USAGE;
}

int sweep_seed_code(const struct sweep_seed *s)
{
	return s->outcome == SIM_CRASH && s->signal ? SIM_BY_SIGNAL + s->signal : (int)s->outcome;
}

int sweep_exit_code(const struct sweep_result *r)
{
	return r->verdict == SIM_CRASH ? sweep_seed_code(&r->failure[0]) : (int)r->verdict;
}
