/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that do other work between two calls: each sleeps at moments, and for times, of its own. */
#include "sim/lab/queries/queries.h"

enum { PAUSE_ONE_IN = 3, PAUSE_POWERS = 33, PAUSE_LATE_NS = 2000000000 };

/* Times of 1 us are as frequent as times of 1 s. */
void lab_pause(struct lab_rank *me)
{
	const struct lab_config *c = me->run->config;
	uint64_t most_ns = c->pauses * 1000000ull;
	struct sim_rng rng;

	if (!most_ns)
		return;
	sim_rng_seed(&rng, c->sim.seed + me->pauses++ * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.pause");
	bool sleeps = sim_rng_below(&rng, PAUSE_ONE_IN) == 0;
	uint64_t ns = sim_rng_below(&rng, 1ull << sim_rng_below(&rng, PAUSE_POWERS));

	if (sleeps)
		os_sleep_ns(MIN_OF(ns, most_ns));
}

/* The others make queries while their kernels wait for it. */
void lab_pause_late(struct lab_rank *me)
{
	const struct lab_run *run = me->run;
	const uint64_t late = run->config->sim.seed % (uint64_t)run->nranks;

	if (run->config->pauses && run->config->queries && !run->armed &&
	    (uint64_t)me->rank == late)
		os_sleep_ns(PAUSE_LATE_NS);
}
