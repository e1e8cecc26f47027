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
	/* the smaller of two draws: mostly few */
	uint32_t one = (uint32_t)sim_rng_below(&rng, most - least + 1);
	uint32_t two = (uint32_t)sim_rng_below(&rng, most - least + 1);

	snprintf(s->machine, sizeof s->machine, "%s", machines[m].name);
	s->lab.hosts = hosts;
	s->lab.gpus = least + MIN_OF(one, two);
	s->lab.ranks_per_proc = sim_rng_below(&rng, 3) ? 1 : LAB_ALL_RANKS;
	s->lab.warp_width = 1;
	if (hosts * s->lab.gpus <= 4 && sim_rng_below(&rng, 8) == 0)
		s->lab.warp_width = 32;
}

static uint64_t swarm_bytes(struct sim_rng *rng, uint64_t most)
{
	/* a power of two, then anything below it: as many sizes of 10 B as of 100 KiB */
	uint64_t shift = sim_rng_below(rng, 21);
	uint64_t ceiling = MIN_OF(1ull << shift, most);

	return sim_rng_below(rng, ceiling + 1);
}

static void swarm_collectives(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	bool faithful = c->warp_width == 32; /* 32 fibers a warp: small sizes only */
	uint64_t place, sizes;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.collectives");
	c->types[0] = (ncclDataType_t)sim_rng_below(&rng, LAB_MAX_TYPES);
	c->type_count = 1;
	c->ops[0] = (ncclRedOp_t)sim_rng_below(&rng, LAB_MAX_OPS);
	c->op_count = 1;
	c->bytes_min = swarm_bytes(&rng, faithful ? 16 << 10 : 1 << 20);
	c->bytes_max = c->bytes_min;
	c->factor = 0;
	c->bytes_step = 1;
	sizes = sim_rng_below(&rng, 4);
	if (sizes == 0) { /* three sizes in a row, larger each time */
		c->bytes_step = 1 + sim_rng_below(&rng, 4096);
		c->bytes_max += 2 * c->bytes_step;
	}
	c->iterations = (uint32_t)swarm_one_of(&rng, (uint64_t[]){1, 1, 2, 3}, 4);
	place = sim_rng_below(&rng, 4);
	c->out_of_place = place != 1;
	c->in_place = place == 1 || place == 0;
}

/* Settings of the stack. */
static void swarm_settings(struct scenario *s, uint64_t seed)
{
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
	if (sim_rng_below(&rng, 3) == 0) /* small buffers: chunks and FIFO slots wrap */
		swarm_env(s, "NCCL_BUFFSIZE=%u",
			  (unsigned)swarm_one_of(&rng, buffer, ARRAY_LEN(buffer)));
	if (sim_rng_below(&rng, 8) == 0)
		swarm_env(s, "NCCL_NTHREADS=%u", 64u << sim_rng_below(&rng, 4));
	bool p2p = sim_rng_below(&rng, 6) != 0;
	if (!p2p && strcmp(s->machine, "workstation-2gpu") != 0)
		swarm_env(s, "NCCL_P2P_DISABLE=1");
	if (sim_rng_below(&rng, 6) == 0)
		swarm_env(s, "NCCL_NET_GDR_LEVEL=LOC");
	if (sim_rng_below(&rng, 6) == 0)
		swarm_env(s, "NCCL_CROSS_NIC=%u", (unsigned)sim_rng_below(&rng, 3));
}

static void swarm_faults(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.faults");
	bool drawn = sim_rng_below(&rng, 8) == 0;
	s->lab.sim.fault_random =
		faults == SCENARIO_FAULTS_ALWAYS || (faults == SCENARIO_FAULTS_SOME && drawn);
}

void scenario_swarm(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	scenario_default(s);
	snprintf(s->origin, sizeof s->origin, "swarm-default:%d", SCENARIO_SWARM_VERSION);
	s->lab.sim.seed = seed;
	s->lab.sim.budget_events = SWARM_BUDGET_EVENTS;
	s->lab.sim.budget_ns = SWARM_BUDGET_NS;
	swarm_world(s, seed);
	swarm_collectives(s, seed);
	swarm_settings(s, seed);
	swarm_faults(s, seed, faults);
}
