/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Side worlds: a small world beside that of each seed. In most of them one call of a rank fails: at
 * one of some hundred callers, on any kind of communicator, so that one such fault in a seed
 * reaches few of them. Others have settings that contradict each other, or one task that calls
 * groups for several ranks. A side world costs a fifth of the seed's own.
 */
#include <string.h>

#include "core/base/hash.h"
#include "sim/lab/search/swarm_internal.h"

#define SIDE_BYTES (16ull << 10)

uint64_t scenario_side_seed(uint64_t seed, uint32_t side)
{
	const uint64_t of[2] = {seed, side};

	return side ? hash64(of, sizeof of) : seed;
}

enum side_kind swarm_side_kind(uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_kind");
	uint64_t k = sim_rng_below(&rng, 8);
	return k == 0 ? SIDE_CONTRADICTION : k == 1 ? SIDE_GROUPS : SIDE_CALL;
}

/* Two or three ranks of one host, or two hosts, of which half have fewer NICs than GPUs. */
void swarm_side_world(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side");
	bool hosts = sim_rng_below(&rng, 2), more = sim_rng_below(&rng, 4) == 0;
	bool relays = sim_rng_below(&rng, 2), alone = sim_rng_below(&rng, 24) == 0;
	bool together = sim_rng_below(&rng, 3) == 0;

	s->machine[strcspn(s->machine, ",")] = '\0';
	c->hosts = hosts ? 2 : 1;
	c->gpus = (hosts ? 1 : 2) + more;
	if (alone && !hosts)
		c->gpus = 1;
	c->host_gpus_n = 0;
	c->warp_width = 1;
	if (hosts && more && relays)
		snprintf(s->machine, sizeof s->machine, "h100-2nic");
	if (strcmp(s->machine, "workstation-2gpu") == 0 && c->gpus > 2)
		c->gpus = 2;
	if (together) {
		c->ranks_per_proc = LAB_ALL_RANKS;
		c->drive = LAB_DRIVE_PROCESS;
	}
}

/* Few bytes, and the ways in which a program may make and end its communicators. */
void swarm_side_program(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_program");
	c->bytes_min = c->bytes_max = MIN_OF(c->bytes_min, SIDE_BYTES);
	c->type_count = c->op_count = c->iterations = 1;
	c->in_place &= !c->out_of_place;
	c->mixed = MIN_OF(c->mixed, 1u);
	c->group = MIN_OF(c->group, 2u);
	if (sim_rng_below(&rng, 4))
		c->before = NULL;
	/* most calls of an init are made for each channel */
	if (sim_rng_below(&rng, 8) && !swarm_is_set(s, "NCCL_M")) {
		swarm_env(s, "NCCL_MIN_NCHANNELS=1");
		swarm_env(s, "NCCL_MAX_NCHANNELS=%u", 1 + (unsigned)sim_rng_below(&rng, 2));
	}
}

/* After all other draws, which know the plan. */
void swarm_side_ends(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_ends");
	c->nonblocking |= sim_rng_below(&rng, 4) == 0;
	c->finalize |= sim_rng_below(&rng, 4) == 0;
	c->polls |= sim_rng_below(&rng, 6) == 0;
	c->recover = s->plan[0] && sim_rng_below(&rng, 4) == 0 && !swarm_is_set(s, "NCCL_COMM_ID");
	c->late = 0;
}

/* Groups of different calls that one task makes for two to four ranks, on several communicators. */
void swarm_side_groups(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_groups");
	c->gpus = MAX_OF(c->gpus, 2u);
	c->mixed = 2 + (uint32_t)sim_rng_below(&rng, 4);
	c->comms = 1 + (uint32_t)sim_rng_below(&rng, 3);
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->drive = LAB_DRIVE_PROCESS;
	c->local_register = LAB_REGISTER_NOT;
	c->gpu_sms = 0;
	swarm_world_fits(s);
}
