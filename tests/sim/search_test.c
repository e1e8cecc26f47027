/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A search finds what is rare in steps. The target: six choices of eight in a row, each of which has
 * to come out right, one state behind the other; one seed in 262,144 has all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/os.h"
#include "sim/lab/search.h"

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

enum { LEVELS = 6, RUNS = 3000 };

static const char *const test_state[LEVELS] = {"test.one",  "test.two",  "test.three",
					       "test.four", "test.five", "test.six"};
static int test_reached;

static void test_target(void *arg)
{
	(void)arg;
	test_reached = 0;
	for (int i = 0; i < LEVELS; i++) {
		if (sim_choose("test.choice", 8) != 3)
			return;
		os_trace(test_state[i], 0, 0, 0);
		test_reached = i + 1;
	}
}

static uint64_t test_run(const struct search_genome *g, struct sim_coverage *c,
			 struct search_outcome *o)
{
	struct sim_config sim = {.seed = g->seed, .strategy = SIM_UNIFORM, .coverage = c};

	memcpy(sim.turn, g->turn, sizeof sim.turn);
	sim.turn_n = g->turn_n;
	EXPECT(sim_start(&sim) == 0);
	EXPECT(sim_run(test_target, NULL) == SIM_PASS);
	uint64_t hash = sim_hash();
	memset(o, 0, sizeof *o);
	o->steps = sim_steps();
	sim_stop();
	if (c) {
		o->fresh = c->fresh;
		o->step_n = c->step_n;
		memcpy(o->step, c->step, sizeof o->step);
	}
	return hash;
}

/* The number of runs until all states are reached; 0: not in RUNS. */
static int test_search(bool guided, uint64_t first, struct search_genome *found)
{
	static uint8_t seen[SIM_COVERAGE_BYTES];
	struct sim_coverage coverage = {.seen = seen};
	struct search *s = search_new(first, false);
	int runs = 0, deepest = 0;

	EXPECT(s);
	memset(seen, 0, sizeof seen);
	for (int i = 1; i <= RUNS && !runs; i++) {
		struct search_genome g = {.seed = first + (uint64_t)i};
		struct search_outcome o;

		if (guided)
			search_next(s, g.seed, &g);
		test_run(&g, &coverage, &o);
		deepest = test_reached > deepest ? test_reached : deepest;
		if (guided)
			search_learn(s, &g, &o);
		if (test_reached == LEVELS) {
			runs = i;
			*found = g;
		}
	}
	printf("%s from seed %d: %d of %d states, %d runs\n", guided ? "search" : "random",
	       (int)first, deepest, LEVELS, runs ? runs : RUNS);
	search_free(s);
	return runs;
}

int main(void)
{
	static uint8_t seen[SIM_COVERAGE_BYTES];
	struct sim_coverage coverage = {.seen = seen};
	struct search_genome found = {0}, other;
	struct search_outcome o;
	int again;

	for (uint64_t first = 0; first < 50000; first += 10000) {
		EXPECT(test_search(false, first, &other) == 0);
		EXPECT((again = test_search(true, first, &found)) != 0);
		EXPECT(found.turn_n > 0);
		/* the same runs, and what is found is a run like any other, watched or not */
		EXPECT(test_search(true, first, &other) == again);
		EXPECT(memcmp(&found, &other, sizeof found) == 0);
		uint64_t watched = test_run(&found, &coverage, &o);
		EXPECT(test_reached == LEVELS);
		EXPECT(test_run(&found, NULL, &o) == watched && test_reached == LEVELS);
	}
	return 0;
}
