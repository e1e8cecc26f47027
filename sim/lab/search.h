/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A search: runs that came to something new are gone back to, and gone on from in another way. What
 * a run was is a genome of a few numbers: the seed of each part of its scenario, and turns, the
 * steps at which all choices go on from another seed (sim_turn). A child has its parent's turns up
 * to a step, often right behind one at which the parent had something new, and a new turn there; or,
 * in a swarm, another seed for one part. Every fourth run is a new seed, and nothing else.
 *
 * So a state that takes three rare things in a row is found in three times as many runs as one of
 * them, not in that number to the power of three. What is new, coverage says (sim_coverage).
 *
 * Deterministic: the same seed and the same answers give the same genomes. Called by sweep.c and by
 * tests. Steps are the engine's. One task.
 */
#ifndef SIM_LAB_SEARCH_H
#define SIM_LAB_SEARCH_H

#include "sim/engine/sim.h"

enum { SEARCH_PARTS = 5 }; /* of a swarm's scenario: world, collectives, settings, habits, faults */

struct search_genome {
	uint64_t seed; /* of the engine */
	uint64_t part[SEARCH_PARTS];
	struct sim_turn turn[SIM_TURNS];
	uint32_t turn_n;
};

/* What came of it. */
struct search_outcome {
	uint64_t steps;
	uint32_t fresh, step_n; /* of sim_coverage */
	uint64_t step[SIM_COVERAGE_STEPS];
};

struct search;

/* `parts`: whether the scenario is drawn, and so has parts. NULL: no memory. */
struct search *search_new(uint64_t seed, bool parts);
void search_free(struct search *s);
/* What to run next; `seed`: a number that no run had, for those that are new. */
void search_next(struct search *s, uint64_t seed, struct search_genome *g);
void search_learn(struct search *s, const struct search_genome *g, const struct search_outcome *o);
/* How many runs are gone back to. */
uint32_t search_kept(const struct search *s);

#endif
