/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum of several shards of a campaign. */
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/explore/sweep_internal.h"

static void merge_sites(struct sweep_site *to, uint32_t *n, const struct sweep_site *from,
			uint32_t from_n)
{
	for (uint32_t i = 0; i < from_n; i++)
		sweep_add_site(to, n, from[i].name, from[i].visits, from[i].hits);
}

static void merge_strategy(struct sweep_result *to, const struct sweep_strategy *s)
{
	for (uint32_t i = 0; i < SWEEP_STRATEGIES; i++) {
		struct sweep_strategy *at = &to->strategy[i];

		if (!at->name[0])
			snprintf(at->name, sizeof at->name, "%s", s->name);
		if (!strcmp(at->name, s->name)) {
			at->seeds += s->seeds;
			return;
		}
	}
}

static void merge_failures(struct sweep_result *to, const struct sweep_result *from)
{
	uint32_t n = to->failure_n + from->failure_n;

	if (!from->failure_n)
		return;
	to->failure = realloc(to->failure, n * sizeof *to->failure);
	ASSERT(to->failure);
	memcpy(&to->failure[to->failure_n], from->failure, from->failure_n * sizeof *from->failure);
	to->failure_n = to->failure_cap = n;
}

void sweep_merge(struct sweep_result *to, const struct sweep_result *shard)
{
	to->seeds += shard->seeds;
	to->passed += shard->passed;
	to->twice += shard->twice;
	to->canaries += shard->canaries;
	to->canaries_found += shard->canaries_found;
	to->killed += shard->killed;
	to->unrecorded += shard->unrecorded;
	to->steps += shard->steps;
	to->switches += shard->switches;
	to->virtual_ns += shard->virtual_ns;
	to->wall_ns = MAX_OF(to->wall_ns, shard->wall_ns); /* they ran at the same time */
	for (uint32_t i = 0; i < SWEEP_STRATEGIES && shard->strategy[i].name[0]; i++)
		merge_strategy(to, &shard->strategy[i]);
	for (uint32_t i = 0; i < LAB_COLLECTIVES_MAX; i++)
		to->collective[i] += shard->collective[i];
	merge_sites(to->buggify, &to->buggify_n, shard->buggify, shard->buggify_n);
	merge_sites(to->fault, &to->fault_n, shard->fault, shard->fault_n);
	merge_sites(to->probe, &to->probe_n, shard->probe, shard->probe_n);
	merge_failures(to, shard);
}

void sweep_merge_end(struct sweep_result *r)
{
	sweep_conclude(r, NULL, 0);
}
