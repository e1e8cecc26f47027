/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the lab's plugins, one seed in 16. */
#include "sim/lab/search/swarm_internal.h"

void scenario_take_plugins(struct scenario *s, uint32_t plugins)
{
	/* no init ends there: nothing loads a plugin in each rank */
	if (s->expect != SCENARIO_EXPECT_REFUSED)
		s->lab.plugins |= plugins;
}

void swarm_plugins(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.plugins");
	bool drawn = sim_rng_below(&rng, 16) == 0;
	uint32_t plugins = 1 + (uint32_t)sim_rng_below(&rng, (1u << LAB_PLUGINS) - 1);

	if (drawn)
		scenario_take_plugins(s, plugins);
}
