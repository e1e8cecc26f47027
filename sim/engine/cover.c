/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage of a run: what a search goes by (sim/lab/search.h). Not of code: nearly every line of the
 * stack runs in every run. What is covered are pairs. A record of a task and the one before it, of
 * the same task and of all; what two tasks did last when one gives way to the other, and whether the
 * first waits then; each probe, rare path and fault. Names only: no rank, no
 * number, no address, so that a seed covers the same everywhere. How often, in powers of two.
 *
 * It counts, and changes nothing: the hash is that of a run without.
 */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "sim/engine/engine_internal.h"

static struct {
	struct sim_coverage *to;
	uint8_t count[SIM_COVERAGE_BYTES];
	uint64_t last; /* record, of any task */
	uint64_t gave; /* what the task that ran last had done, and why it stopped */
	uint32_t gave_id;
} cover;

void cover_start(void)
{
	memset(&cover, 0, sizeof cover);
	cover.to = eng.config.coverage;
	if (!cover.to)
		return;
	cover.to->fresh = cover.to->more = cover.to->step_n = 0;
}

/* A pair that no run had is worth its step: what is behind it has been seen by nobody. */
static void cover_hit(uint64_t feature)
{
	struct sim_coverage *c = cover.to;
	uint32_t at = (uint32_t)(feature * 0x9e3779b97f4a7c15ull >> 32) % SIM_COVERAGE_BYTES;

	if (cover.count[at] < UINT8_MAX)
		cover.count[at]++;
	if (c->seen[at] || cover.count[at] > 1)
		return;
	c->fresh++;
	c->step[c->step_n % SIM_COVERAGE_STEPS] = eng.steps;
	c->step_n++;
}

static uint64_t cover_name(const char *name)
{
	return name ? XXH3_64bits(name, strlen(name)) : 1;
}

static uint64_t cover_pair(uint64_t a, uint64_t b, uint64_t salt)
{
	return ((a << 23 | a >> 41) ^ b) * 0xc2b2ae3d27d4eb4full + salt;
}

void cover_record(const char *kind)
{
	struct task *t = eng.current;

	if (!cover.to)
		return;
	uint64_t name = cover_name(kind);
	cover_hit(cover_pair(t ? t->covered : 0, name, 1));
	cover_hit(cover_pair(cover.last, name, 2));
	cover.last = name;
	if (t)
		t->covered = name;
}

void cover_site(const char *name)
{
	if (cover.to)
		cover_hit(cover_pair(cover_name(name), 0, 3));
}

void cover_gave_way(const struct task *t)
{
	cover.gave = cover_pair(t->covered, (uint64_t)t->pub.state, 4);
	cover.gave_id = t->pub.self.id;
}

void cover_runs(const struct task *t)
{
	if (cover.to && t->pub.self.id != cover.gave_id)
		cover_hit(cover_pair(cover.gave, t->covered, 5));
}

/* Counts as powers of two: bit k for 2^k to 2^(k+1)-1. */
void cover_stop(void)
{
	struct sim_coverage *c = cover.to;

	for (uint32_t i = 0; c && i < SIM_COVERAGE_BYTES; i++) {
		if (!cover.count[i])
			continue;
		uint8_t bit = (uint8_t)(1u << (31 - __builtin_clz(cover.count[i])));

		c->more += c->seen[i] && !(c->seen[i] & bit);
		c->seen[i] |= bit;
	}
	cover.to = NULL;
}
