/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places ranks: hosts have slots, one GPU each, and a map gives each slot a rank. Processes
 * take a host's slots in order, whatever ranks these have.
 */
#include <stdlib.h>

#include "sim/lab/run/runner_internal.h"

uint32_t lab_host_ranks(const struct lab_config *c, uint32_t host, const uint32_t *machine_gpus)
{
	if (c->host_gpus_n)
		return host < c->host_gpus_n ? c->host_gpus[host] : 0;
	return c->device_count            ? c->device_count
	       : c->gpus || !machine_gpus ? c->gpus
					  : machine_gpus[host];
}

uint32_t lab_ranks(const struct lab_config *c, const uint32_t *machine_gpus)
{
	uint32_t n = 0;

	for (uint32_t h = 0; h < c->hosts; h++)
		n += lab_host_ranks(c, h, machine_gpus);
	return n;
}

int32_t lab_device(const struct lab_config *c, uint32_t local)
{
	ASSERT(!c->device_count || local < c->device_count); /* a host has a slot per device */
	if (c->device_count)
		return c->devices[local];
	return (int32_t)local + (c->spread ? c->spread->first_device : 0);
}

/* Host after host, each with all its slots. */
static void layout_by_slot(const struct lab_config *c, const uint32_t *machine_gpus,
			   struct lab_slot *slot)
{
	for (uint32_t h = 0; h < c->hosts; h++)
		for (uint32_t l = 0; l < lab_host_ranks(c, h, machine_gpus); l++)
			*slot++ = (struct lab_slot){h, l};
}

/* The first slot of each host, then the second of each that has one, and so on. */
static void layout_by_node(const struct lab_config *c, const uint32_t *machine_gpus,
			   struct lab_slot *slot)
{
	uint32_t left = lab_ranks(c, machine_gpus);

	for (uint32_t l = 0; left; l++)
		for (uint32_t h = 0; h < c->hosts; h++)
			if (l < lab_host_ranks(c, h, machine_gpus)) {
				*slot++ = (struct lab_slot){h, l};
				left--;
			}
}

/* Any order, drawn from the run's seed. */
static void layout_shuffle(const struct lab_config *c, uint32_t n, struct lab_slot *slot)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, c->sim.seed, "lab.layout");
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)sim_rng_below(&rng, i);

		ASSERT(k < i); /* the slots from i on have their ranks */
		struct lab_slot last = slot[i - 1];

		slot[i - 1] = slot[k];
		slot[k] = last;
	}
}

struct lab_slot *lab_layout(const struct lab_config *c, const uint32_t *machine_gpus)
{
	uint32_t n = lab_ranks(c, machine_gpus);
	struct lab_slot *slot = calloc(n, sizeof *slot);

	ASSERT(n > 0); /* lab_check_world */
	if (!slot)
		return NULL;
	if (c->map == LAB_MAP_NODE)
		layout_by_node(c, machine_gpus, slot);
	else
		layout_by_slot(c, machine_gpus, slot);
	if (c->map == LAB_MAP_SEED)
		layout_shuffle(c, n, slot);
	return slot;
}
