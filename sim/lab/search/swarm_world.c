/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws the world of a scenario: hosts, their machines, the ranks on each, and how they are placed.
 * Most worlds are of two or three ranks; each kind of larger or uneven ones is a draw by itself.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "sim/lab/search/swarm_internal.h"

#define SIDE_BYTES (16ull << 10)

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
				{"workstation-2gpu", 2, 4}, /* no HCA: sockets between hosts */
				{"workstation-2hca", 1, 4},
			};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.world");
	uint64_t m = sim_rng_below(&rng, ARRAY_LEN(machines));
	uint32_t hosts = (uint32_t)swarm_one_of(&rng, (uint64_t[]){1, 2, 2, 2, 3, 4}, 6);
	hosts = MAX_OF(MIN_OF(hosts, machines[m].hosts), machines[m].gpus == 1 ? 2u : 1u);
	uint32_t most = MIN_OF(machines[m].gpus, 16 / hosts), least = hosts == 1 ? 2 : 1;
	ASSERT(least <= most);
	/* the smallest of three draws, mostly: half of all worlds are of two or three ranks */
	uint32_t one = (uint32_t)sim_rng_below(&rng, most - least + 1);
	uint32_t two = (uint32_t)sim_rng_below(&rng, most - least + 1);
	uint32_t three = (uint32_t)sim_rng_below(&rng, most - least + 1);

	snprintf(s->machine, sizeof s->machine, "%s", machines[m].name);
	s->lab.hosts = hosts;
	s->lab.gpus = least + (sim_rng_below(&rng, 10) ? MIN_OF(MIN_OF(one, two), three) : one);
	s->lab.ranks_per_proc = sim_rng_below(&rng, 3) ? 1 : LAB_ALL_RANKS;
	s->lab.warp_width = 1;
	if (hosts * s->lab.gpus <= 4 && sim_rng_below(&rng, 8) == 0)
		s->lab.warp_width = 32;
}

/* Shapes that are rare. A communicator of one rank has no ring, no connection and no kernel. Half
 * of the processes with several ranks have one task that drives all of them. Hosts may have
 * different numbers of ranks, and ranks may be on any host. */
static void swarm_shape(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.shape");
	bool alone = sim_rng_below(&rng, 24) == 0;
	if (alone)
		s->lab.hosts = s->lab.gpus = 1;
	bool together = sim_rng_below(&rng, 2) == 0;
	if (together && s->lab.ranks_per_proc == LAB_ALL_RANKS)
		s->lab.drive = LAB_DRIVE_PROCESS;
	bool uneven = sim_rng_below(&rng, 6) == 0;
	ASSERT(s->lab.hosts <= LAB_MAX_HOST_GPUS); /* each has a number of its own */
	s->lab.host_gpus_n = uneven && s->lab.hosts > 1 && s->lab.gpus > 1 ? s->lab.hosts : 0;
	for (uint32_t h = 0; h < s->lab.host_gpus_n; h++)
		s->lab.host_gpus[h] = 1 + (uint32_t)sim_rng_below(&rng, s->lab.gpus);
	uint64_t map = sim_rng_below(&rng, 8);
	s->lab.map = map < 2 ? LAB_MAP_SEED : map == 2 ? LAB_MAP_NODE : LAB_MAP_SLOT;
}

/* More hosts than four, of one or two ranks each: trees, rounds of PAT and rings are longer. One
 * seed in 100. */
static void swarm_many_hosts(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.many_hosts");
	bool drawn = sim_rng_below(&rng, 100) == 0;
	uint32_t hosts = 5 + (uint32_t)sim_rng_below(&rng, 12);
	uint32_t gpus = hosts > 8 ? 1 : 1 + (uint32_t)sim_rng_below(&rng, 2);

	if (!drawn || s->lab.hosts < 2)
		return;
	s->lab.hosts = hosts;
	s->lab.gpus = gpus;
	s->lab.host_gpus_n = 0;
	s->lab.warp_width = 1;
	s->lab.sim.budget_events = SWARM_BUDGET_EVENTS_MANY;
}

/* Hosts of different machines, in one world of several in five: those that have HCAs and as many
 * GPUs as a host has ranks. They differ in channels, speeds, GPU generations and numbers of NICs,
 * and must agree. */
static void swarm_machines(struct scenario *s, uint64_t seed)
{
	static const struct {
		const char *name;
		uint32_t gpus;
	} machines[] = {{"pcie-4gpu", 4}, {"h100-8nic", 8}, {"a100-4nic", 8}};
	struct sim_rng rng;
	size_t n = 0;

	sim_rng_seed(&rng, seed, "swarm.machines");
	bool mixed = sim_rng_below(&rng, 5) == 0;
	uint64_t first = sim_rng_below(&rng, ARRAY_LEN(machines));
	uint32_t kinds = 2 + (uint32_t)sim_rng_below(&rng, 2);

	if (!mixed || s->lab.hosts < 2 || strcmp(s->machine, "workstation-2gpu") == 0)
		return;
	for (uint32_t i = 0, taken = 0; i < ARRAY_LEN(machines); i++) {
		uint64_t m = (first + i) % ARRAY_LEN(machines);

		if (machines[m].gpus < s->lab.gpus || taken == MIN_OF(kinds, s->lab.hosts))
			continue;
		n += (size_t)snprintf(s->machine + n, sizeof s->machine - n, "%s%s",
				      taken++ ? "," : "", machines[m].name);
	}
	ASSERT(n > 0 && n < sizeof s->machine); /* a machine has room for the ranks of any host */
}

/* Hosts with fewer NICs than GPUs, so that ranks send through other ranks (PXN), one time in eight
 * where they have enough GPUs for their ranks; or the same without PXN, one time in eight of
 * these. */
static void swarm_relays(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.relays");
	bool few = sim_rng_below(&rng, 8) == 0, disabled = sim_rng_below(&rng, 8) == 0;
	bool fits = s->lab.hosts > 1 && s->lab.gpus >= 2 && s->lab.gpus <= 4;

	if (!few || !fits)
		return;
	snprintf(s->machine, sizeof s->machine, "h100-2nic");
	if (disabled)
		swarm_env(s, "NCCL_PXN_DISABLE=1");
}

/* Merged NICs: hosts whose cards have two ports, one time in eight where they have enough GPUs for
 * their ranks, and one in four of these with the ports apart; of the other worlds one in sixteen
 * merges whatever HCAs a CPU has. */
static void swarm_merged(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.merged");
	bool ports = sim_rng_below(&rng, 8) == 0, apart = sim_rng_below(&rng, 4) == 0;
	bool all = sim_rng_below(&rng, 16) == 0;

	if (s->lab.hosts == 1)
		return;
	if (ports && s->lab.gpus <= 4) {
		snprintf(s->machine, sizeof s->machine, "a100-2port");
		if (apart)
			swarm_env(s, "NCCL_NET_MERGE_LEVEL=LOC");
	} else if (all) {
		swarm_env(s, "NCCL_NET_MERGE_LEVEL=SYS");
	}
}

/* A list of names that leaves out the interfaces that lead to no other host, one time in eight
 * between hosts. Half of these have sockets, which use all interfaces of the list. */
void swarm_named_interfaces(struct scenario *s, uint64_t seed)
{
	static const struct {
		const char *interfaces, *names;
	} lists[] = {
		{"docker0,eth0", "^=docker0"},
		{"docker0,eth0", "^docker"},
		{"docker0,virbr0,eth0", "^=virbr0,docker0"},
		{"docker0,eth0,virbr0", "=eth0"},
		{"docker0,eth1,eth10", "eth"},
		{"docker0,eth0,docker", "=docker,eth0"}, /* the start of another name */
		{"docker0,docker", "^=docker0"},
		{"eth0", "lo,eth"},
		{"docker0,eth0", "=lo,eth0"},
		{"virbr0,ib0,eth0", "eth0,ib"},
	};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.named_interfaces");
	bool drawn = sim_rng_below(&rng, 8) == 0;
	uint64_t k = sim_rng_below(&rng, ARRAY_LEN(lists));
	bool sockets = sim_rng_below(&rng, 2) == 0;

	if (!drawn || s->lab.hosts == 1)
		return;
	if (sockets && !swarm_is_set(s, "NCCL_NET="))
		swarm_env(s, "NCCL_NET=Socket");
	swarm_env(s, "DOPPEL_INTERFACES=%s", lists[k].interfaces);
	swarm_env(s, "NCCL_SOCKET_IFNAME=%s", lists[k].names);
}

void swarm_world_fits(struct scenario *s)
{
	if (strcmp(s->machine, "workstation-2hca") == 0 && (s->lab.gpus > 1 || s->lab.hosts == 1))
		snprintf(s->machine, sizeof s->machine, "h100-8nic");
}

void swarm_check(const struct scenario *s)
{
	const struct lab_config *c = &s->lab;

	ASSERT(c->root < (int32_t)lab_ranks(c, NULL));
	ASSERT(!c->host_gpus_n || c->host_gpus_n == c->hosts);
	ASSERT(c->bytes_min <= c->bytes_max && (c->in_place || c->out_of_place));
	/* what a run has room for */
	ASSERT(c->comms <= LAB_MAX_COMMS && c->streams <= LAB_MAX_STREAMS);
	ASSERT(c->transient <= LAB_MAX_TRANSIENT && c->idle <= LAB_MAX_TRANSIENT);
	/* kernels of several communicators need many multiprocessors */
	ASSERT(!c->gpu_sms || (!c->transient && !c->mixed && !c->scenes));
	ASSERT(s->expect != SCENARIO_EXPECT_REFUSED || !s->plan[0]); /* no fault excuses an error */
}

void swarm_worlds(struct scenario *s, uint64_t seed)
{
	swarm_world(s, seed);
	swarm_shape(s, seed);
	swarm_many_hosts(s, seed);
	swarm_machines(s, seed);
	swarm_relays(s, seed);
	swarm_merged(s, seed);
}

/* ---- side worlds ----------------------------------------------------------------------------- */

/*
 * A side world is a small one. Each seed has two beside its own. In four of ten one call of a rank
 * fails: at one of some hundred callers, on any kind of communicator, so that one such fault in a
 * seed reaches few of them. Others have settings that contradict each other, one task that calls
 * groups for several ranks, communicators that are made from others, or some that end in odd ways.
 * One in twelve has rails that fail instead. A side world costs half of a seed's own.
 */

uint64_t scenario_side_seed(uint64_t seed, uint32_t side)
{
	const uint64_t of[2] = {seed, side};

	return side ? hash64(of, sizeof of) : seed;
}

enum side_kind swarm_side_kind(uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_kind");
	static const enum side_kind kinds[] = {SIDE_CONTRADICTION, SIDE_GROUPS, SIDE_FAMILY,
					       SIDE_LIFE,          SIDE_SCENES, SIDE_SCENES};
	_Static_assert(ARRAY_LEN(kinds) == SIDE_SCENES + 1,
		       "all kinds but SIDE_CALL, which is the rest; two shares of scenes");
	uint64_t k = sim_rng_below(&rng, 10);
	return k < ARRAY_LEN(kinds) ? kinds[k] : SIDE_CALL;
}

/* Two or three ranks of one host, or two hosts, of which half have fewer NICs than GPUs. Two in
 * three worlds of contradictions have two hosts. */
void swarm_side_world(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side");
	bool hosts = sim_rng_below(&rng, 3) == 0, more = sim_rng_below(&rng, 4) == 0;
	bool relays = sim_rng_below(&rng, 2), alone = sim_rng_below(&rng, 24) == 0;
	bool together = sim_rng_below(&rng, 3) == 0, merged = sim_rng_below(&rng, 3) == 0;

	/* the ends of connections over HCAs contradict each other, too */
	hosts |= swarm_side_kind(seed) == SIDE_CONTRADICTION && relays;
	s->machine[strcspn(s->machine, ",")] = '\0';
	c->hosts = hosts ? 2 : 1;
	c->gpus = (hosts ? 1 : 2) + more;
	if (alone && !hosts)
		c->gpus = 1;
	c->host_gpus_n = 0;
	c->warp_width = 1;
	if (hosts && more && relays)
		snprintf(s->machine, sizeof s->machine, "h100-2nic");
	else if (hosts && merged)
		snprintf(s->machine, sizeof s->machine, "a100-2port");
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
	static const enum lab_register ways[] = {LAB_REGISTER_ONCE, LAB_REGISTER_RENEW,
						 LAB_REGISTER_TWICE};
	/* calls that register, map and deregister may fail, too */
	if (sim_rng_below(&rng, 4) == 0 && c->drive == LAB_DRIVE_RANK && !c->local_register)
		c->local_register = ways[sim_rng_below(&rng, ARRAY_LEN(ways))];
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
	c->recover = s->plan[0] && sim_rng_below(&rng, 8) == 0 && !swarm_is_set(s, "NCCL_COMM_ID");
	if (s->plan[0])
		c->late = 0;
}

/* Groups of different calls that one task makes for two to four ranks, on several communicators. */
void swarm_side_groups(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_groups");
	c->gpus = MAX_OF(c->gpus, 2u);
	c->mixed = 2 + (uint32_t)sim_rng_below(&rng, 2);
	c->comms = 1 + (uint32_t)sim_rng_below(&rng, 3);
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->drive = LAB_DRIVE_PROCESS;
	c->local_register = LAB_REGISTER_NOT;
	c->gpu_sms = 0;
	swarm_world_fits(s);
}

/* Communicators of some of the ranks that end in odd ways, and queries at each moment. */
void swarm_side_life(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	ASSERT(!s->plan[0]); /* each end has a known outcome */
	sim_rng_seed(&rng, seed, "swarm.side_life");
	c->gpus = MAX_OF(c->gpus, c->hosts > 1 ? 1u : 2u);
	c->transient = sim_rng_below(&rng, 2) ? 2 + (uint32_t)sim_rng_below(&rng, 3) : 0;
	c->children = false;
	c->drive = LAB_DRIVE_RANK;
	c->ranks_per_proc = sim_rng_below(&rng, 3) ? 1 : LAB_ALL_RANKS;
	c->gpu_sms = 0;
	c->queries = 1 + (uint32_t)sim_rng_below(&rng, 4);
	c->late = (uint32_t)sim_rng_below(&rng, 3);
	c->init_fails = c->idle = 0;
	if (sim_rng_below(&rng, 3) == 0) { /* calls with deadlines, too */
		swarm_env(s, "NCCL_RAS_ENABLE=1");
		swarm_env(s, "DOPPEL_TIMEOUT_MS=280000"); /* RAS keeps the world alive */
	}
	swarm_world_fits(s);
}

/* Communicators of two to four ranks that are split, shrunk, revoked and grown. */
void swarm_side_family(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	ASSERT(!s->plan[0]); /* lab_family_fits */
	sim_rng_seed(&rng, seed, "swarm.side_family");
	c->gpus = c->hosts > 1 || !strcmp(s->machine, "workstation-2gpu") ? 2 : c->gpus + 1;
	c->transient = 1 + (uint32_t)sim_rng_below(&rng, 2);
	c->children = true;
	c->drive = LAB_DRIVE_RANK;
	c->ranks_per_proc = sim_rng_below(&rng, 3) ? 1 : LAB_ALL_RANKS;
	c->gpu_sms = 0;
	c->init_fails = c->idle = c->comms = 0;
	swarm_world_fits(s);
}

/* Scenes of two to four ranks. Half of the worlds have deadlines, which ranks that take their time
 * otherwise would pass; half of those do not compare calls. A connection that is refused a few
 * times takes some hundred ms: no deadline is shorter than a second. */
void swarm_side_scenes(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.side_scenes");
	uint32_t scenes = 3 + (uint32_t)sim_rng_below(&rng, 4);
	bool timed = sim_rng_below(&rng, 2), uncompared = sim_rng_below(&rng, 2);
	unsigned ms = 1000 + (unsigned)sim_rng_below(&rng, 1000);
	uint32_t more = (uint32_t)sim_rng_below(&rng, 3);
	bool apart = sim_rng_below(&rng, 2), ras = sim_rng_below(&rng, 2);
	bool small_fifo = sim_rng_below(&rng, 3) == 0;
	bool beyond = sim_rng_below(&rng, 3) == 0;

	c->scenes = 0;
	if (s->plan[0]) /* a rank stalls: the survivors of the deadline would wait for it again */
		c->recover = false;
	if (s->plan[0] || swarm_is_set(s, "NCCL_COMM_"))
		return;
	c->scenes = scenes;
	c->gpus = MAX_OF(c->gpus, c->hosts > 1 ? 1 + (more != 0) : 2 + more);
	c->drive = LAB_DRIVE_RANK;
	c->ranks_per_proc = apart ? 1 : LAB_ALL_RANKS;
	c->gpu_sms = c->transient = c->idle = c->init_fails = c->mixed = c->late = c->pauses = 0;
	c->comms = c->suspends = 0;
	c->children = false;
	if (timed) {
		swarm_env(s, "DOPPEL_TIMEOUT_MS=%u", ms);
		/* rxe loses what was overtaken, and resends after seconds */
		if (swarm_is_set(s, "DOPPEL_HCA_ROUTING="))
			swarm_env(s, "DOPPEL_HCA_ROUTING=fixed");
		c->sim.races = false; /* calls of different counts write the same bytes */
	}
	if (small_fifo && !swarm_is_set(s, "NCCL_WORK_")) {
		swarm_env(s, "NCCL_WORK_ARGS_BYTES=0");
		swarm_env(s, "NCCL_WORK_FIFO_BYTES=4096");
		/* launches of few and of many channels */
		swarm_env(s, "NCCL_MIN_NCHANNELS=1");
		swarm_env(s, "NCCL_MAX_NCHANNELS=8");
	}
	if (beyond && !small_fifo && swarm_is_set(s, "NCCL_MAX_NCHANNELS=")) /* the stack's limit */
		swarm_env(s, "NCCL_MAX_NCHANNELS=%u", 65 + (unsigned)sim_rng_below(&rng, 1000));
	if (!timed && ras) {
		c->ras = MAX_OF(c->ras, 1u);
		swarm_env(s, "NCCL_RAS_ENABLE=1");
	}
	c->uncompared = timed && uncompared;
	if (strcmp(s->machine, "workstation-2gpu") == 0 && c->gpus > 2)
		snprintf(s->machine, sizeof s->machine, "h100-8nic");
	swarm_world_fits(s);
}
