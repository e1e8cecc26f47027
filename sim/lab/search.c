/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/lab/search.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"

enum {
	SEARCH_NEW_ONE_OF = 4,
	SEARCH_NEWEST = 8,     /* half of the parents are of these */
	SEARCH_NEAR_BITS = 8,  /* a turn is up to 2^8 steps behind something new */
	SEARCH_PART_ONE_OF = 3 /* of a swarm's children have another part */
};

struct search_entry {
	struct search_genome genome;
	struct search_outcome outcome;
	uint64_t tried;
};

struct search {
	struct sim_rng rng;
	struct search_entry *entry;
	uint32_t n, cap;
	bool parts;
};

struct search *search_new(uint64_t seed, bool parts)
{
	struct search *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	sim_rng_seed(&s->rng, seed, "search");
	s->parts = parts;
	return s;
}

void search_free(struct search *s)
{
	if (s)
		free(s->entry);
	free(s);
}

uint32_t search_kept(const struct search *s)
{
	return s->n;
}

/* ---- children ------------------------------------------------------------------------------- */

/* One of the newest, which are the deepest; or the less tried of two. */
static struct search_entry *search_parent(struct search *s)
{
	uint32_t newest = MIN_OF(s->n, (uint32_t)SEARCH_NEWEST);

	if (sim_rng_below(&s->rng, 2))
		return &s->entry[s->n - 1 - sim_rng_below(&s->rng, newest)];
	struct search_entry *a = &s->entry[sim_rng_below(&s->rng, s->n)];
	struct search_entry *b = &s->entry[sim_rng_below(&s->rng, s->n)];
	return a->tried <= b->tried ? a : b;
}

static uint64_t search_turn_step(struct search *s, const struct search_outcome *o)
{
	uint32_t known = MIN_OF(o->step_n, (uint32_t)SIM_COVERAGE_STEPS);

	if (!known || sim_rng_below(&s->rng, 4) == 0)
		return sim_rng_below(&s->rng, o->steps + 1);
	uint64_t at = o->step[sim_rng_below(&s->rng, known)];
	uint64_t bits = sim_rng_below(&s->rng, SEARCH_NEAR_BITS);
	uint64_t behind = sim_rng_below(&s->rng, 1ull << bits);

	return at + 1 + behind;
}

/* The parent up to a step, and from there on anything. */
static void search_turn(struct search *s, const struct search_outcome *o, struct search_genome *g)
{
	uint64_t step = search_turn_step(s, o);

	while (g->turn_n && (g->turn[g->turn_n - 1].step >= step || g->turn_n == SIM_TURNS))
		g->turn_n--;
	g->turn[g->turn_n].step = step;
	g->turn[g->turn_n].seed = sim_rng_u64(&s->rng);
	g->turn_n++;
}

void search_next(struct search *s, uint64_t seed, struct search_genome *g)
{
	memset(g, 0, sizeof *g);
	if (!s->n || sim_rng_below(&s->rng, SEARCH_NEW_ONE_OF) == 0) {
		g->seed = seed;
		for (int i = 0; i < SEARCH_PARTS; i++)
			g->part[i] = seed;
		return;
	}
	struct search_entry *e = search_parent(s);

	e->tried++;
	*g = e->genome;
	if (s->parts && sim_rng_below(&s->rng, SEARCH_PART_ONE_OF) == 0) {
		g->part[sim_rng_below(&s->rng, SEARCH_PARTS)] = seed;
		return;
	}
	search_turn(s, &e->outcome, g);
}

/* ---- learning ------------------------------------------------------------------------------- */

void search_learn(struct search *s, const struct search_genome *g, const struct search_outcome *o)
{
	if (!o->fresh)
		return;
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 64;
		struct search_entry *more = realloc(s->entry, cap * sizeof *more);

		if (!more)
			return; /* it goes on with those that it has */
		s->entry = more;
		s->cap = cap;
	}
	s->entry[s->n++] = (struct search_entry){.genome = *g, .outcome = *o};
}
