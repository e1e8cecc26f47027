/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scenario from a seed. Swarm testing (Groce et al.): leaving features out at random finds more
 * than having all of them on in every run, so each part first draws whether it exists at all. What
 * is drawn here is small on purpose: worlds of 2 to 16 ranks show what large ones do, a hundred
 * times a second.
 */
#include <stdarg.h>
#include <string.h>

#include "core/base/macros.h"
#include "sim/lab/scenario.h"

/* Without progress: small worlds need far less. An HCA that is out of retries says so within a
 * minute of virtual time. */
#define SWARM_BUDGET_EVENTS 2000000ull
#define SWARM_BUDGET_NS     300000000000ull

#define SWARM_BUFFER        (4ull << 20) /* the stack's, where nothing is set */
#define SWARM_TRAFFIC       (2ull << 20) /* ranks x bytes x sizes x runs, at most */
#define SWARM_TRAFFIC_LARGE (8ull << 20)
#define SWARM_WRAPS         8 /* buffers full, at most */
#define SWARM_WRAPS_LARGE   16

static uint64_t swarm_one_of(struct sim_rng *rng, const uint64_t *values, size_t n)
{
	return values[sim_rng_below(rng, n)];
}

__attribute__((format(printf, 2, 3))) static void swarm_env(struct scenario *s, const char *fmt,
							    ...)
{
	char text[SCENARIO_ENV_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	int rc = scenario_add_env(s, text);
	ASSERT(rc == 0);
}

/* Small worlds mostly: half of all bugs need no more than two ranks and two hosts. */
static void swarm_world(struct scenario *s, uint64_t seed)
{
	static const struct {
		const char *name;
		uint32_t gpus, hosts; /* at most */
	} machines
		[] =
			{
				{"h100-8nic", 8, 4},        {"h100-8nic", 8, 4},
				{"a100-4nic", 8, 4},        {"pcie-4gpu", 4, 4},
				{"workstation-2gpu", 2, 1}, /* no HCA: GPUs by p2p, no second host */
			};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.world");
	uint64_t m = sim_rng_below(&rng, ARRAY_LEN(machines));
	uint32_t hosts = (uint32_t)swarm_one_of(&rng, (uint64_t[]){1, 2, 2, 2, 3, 4}, 6);
	hosts = MIN_OF(hosts, machines[m].hosts);
	uint32_t most = MIN_OF(machines[m].gpus, 16 / hosts), least = hosts == 1 ? 2 : 1;
	/* the smallest of three draws, mostly: half of all worlds are of two or three ranks */
	uint32_t one = (uint32_t)sim_rng_below(&rng, most - least + 1);
	uint32_t two = (uint32_t)sim_rng_below(&rng, most - least + 1);
	uint32_t three = (uint32_t)sim_rng_below(&rng, most - least + 1);

	snprintf(s->machine, sizeof s->machine, "%s", machines[m].name);
	s->lab.hosts = hosts;
	s->lab.gpus = least + (sim_rng_below(&rng, 6) ? MIN_OF(MIN_OF(one, two), three) : one);
	s->lab.ranks_per_proc = sim_rng_below(&rng, 3) ? 1 : LAB_ALL_RANKS;
	s->lab.warp_width = 1;
	if (hosts * s->lab.gpus <= 4 && sim_rng_below(&rng, 8) == 0)
		s->lab.warp_width = 32;
}

/* A power of two, then anything below it: as many sizes of 10 B as of 10 KiB. */
static uint64_t swarm_bytes(struct sim_rng *rng, uint64_t most)
{
	uint64_t shift = sim_rng_below(rng, 21);
	uint64_t ceiling = MIN_OF(1ull << shift, most);

	return sim_rng_below(rng, ceiling + 1);
}

/* What a run may move: sizes from 1 MiB (two ranks, once) down. Without this bound one seed in 40
 * takes half of a campaign's time, for more rounds of what 64 KiB show. One in 16 may move more. */
static uint64_t swarm_bytes_most(const struct lab_config *c, uint64_t rows, uint64_t buffer,
				 bool large)
{
	uint64_t ranks = c->hosts * c->gpus, runs = c->iterations + (c->iterations > 1);
	uint64_t places = c->in_place + c->out_of_place;
	uint64_t most =
		(large ? SWARM_TRAFFIC_LARGE : SWARM_TRAFFIC) / (ranks * rows * runs * places);

	if (c->warp_width == 32) /* 32 fibers a warp */
		most = MIN_OF(most, 4ull << 10);
	/* small buffers: that they wrap some times is what they are for */
	return MIN_OF(most, buffer * (large ? SWARM_WRAPS_LARGE : SWARM_WRAPS));
}

static void swarm_collectives(struct scenario *s, uint64_t seed, uint64_t buffer)
{
	struct lab_config *c = &s->lab;
	uint64_t place, rows;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.collectives");
	c->types[0] = (ncclDataType_t)sim_rng_below(&rng, LAB_MAX_TYPES);
	c->type_count = 1;
	c->ops[0] = (ncclRedOp_t)sim_rng_below(&rng, LAB_MAX_OPS);
	c->op_count = 1;
	rows = sim_rng_below(&rng, 6) == 0 ? 3 : 1; /* three sizes in a row, larger each time */
	c->iterations = (uint32_t)swarm_one_of(&rng, (uint64_t[]){1, 1, 1, 1, 2, 3}, 6);
	place = sim_rng_below(&rng, 6);
	c->out_of_place = place != 1 && place != 2;
	c->in_place = place <= 2; /* 0: both */
	bool large = sim_rng_below(&rng, 16) == 0;
	c->bytes_min = swarm_bytes(&rng, swarm_bytes_most(c, rows, buffer, large));
	c->bytes_max = c->bytes_min;
	c->factor = 0;
	c->bytes_step = 1;
	if (rows == 3) {
		c->bytes_step = 1 + sim_rng_below(&rng, 4096);
		c->bytes_max += 2 * c->bytes_step;
	}
}

/* Settings of the stack. Returns the size of its buffers. */
static uint64_t swarm_settings(struct scenario *s, uint64_t seed)
{
	uint64_t bytes = SWARM_BUFFER;
	static const uint64_t buffer[] = {8 << 10, 32 << 10, 256 << 10};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.settings");
	swarm_env(s, "NCCL_DEBUG=WARN");
	if (sim_rng_below(&rng, 3) == 0) {
		uint64_t most = 1 + sim_rng_below(&rng, 8);
		uint64_t least = 1 + sim_rng_below(&rng, most);
		swarm_env(s, "NCCL_MIN_NCHANNELS=%u", (unsigned)least);
		swarm_env(s, "NCCL_MAX_NCHANNELS=%u", (unsigned)most);
	}
	if (sim_rng_below(&rng, 3) == 0) { /* small buffers: chunks and FIFO slots wrap */
		bytes = swarm_one_of(&rng, buffer, ARRAY_LEN(buffer));
		swarm_env(s, "NCCL_BUFFSIZE=%u", (unsigned)bytes);
	}
	if (sim_rng_below(&rng, 8) == 0)
		swarm_env(s, "NCCL_NTHREADS=%u",
			  64u << sim_rng_below(&rng, s->lab.warp_width == 32 ? 2 : 4));
	bool p2p = sim_rng_below(&rng, 6) != 0;
	if (!p2p && strcmp(s->machine, "workstation-2gpu") != 0)
		swarm_env(s, "NCCL_P2P_DISABLE=1");
	if (sim_rng_below(&rng, 6) == 0)
		swarm_env(s, "NCCL_NET_GDR_LEVEL=LOC");
	if (sim_rng_below(&rng, 6) == 0)
		swarm_env(s, "NCCL_CROSS_NIC=%u", (unsigned)sim_rng_below(&rng, 3));
	return bytes;
}

static void swarm_faults(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.faults");
	bool drawn = sim_rng_below(&rng, 8) == 0;
	s->lab.sim.fault_random =
		faults == SCENARIO_FAULTS_ALWAYS || (faults == SCENARIO_FAULTS_SOME && drawn);
	/* from 1 us to 268 ms: in the init of some runs, in the middle or behind the end of others */
	uint64_t shift = 10 + sim_rng_below(&rng, 18);
	uint64_t heal_ns = (1ull << shift) + sim_rng_below(&rng, 1ull << shift);
	bool recover = sim_rng_below(&rng, 3) == 0;
	if (!s->lab.sim.fault_random)
		return;
	s->lab.sim.heal_ns = heal_ns;
	s->lab.recover = recover;
}

void scenario_swarm(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	scenario_default(s);
	snprintf(s->origin, sizeof s->origin, "swarm-default:%d", SCENARIO_SWARM_VERSION);
	s->lab.sim.seed = seed;
	s->lab.sim.budget_events = SWARM_BUDGET_EVENTS;
	s->lab.sim.budget_ns = SWARM_BUDGET_NS;
	swarm_world(s, seed);
	swarm_collectives(s, seed, swarm_settings(s, seed));
	swarm_faults(s, seed, faults);
}
