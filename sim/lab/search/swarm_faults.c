/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The faults of a drawn scenario: which seeds have a plan, what is in it, when it heals. A plan
 * adds to the world that the seed has without faults, and leaves it as it is.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/lab/search/swarm_internal.h"

#define SWARM_EARLY_NS     1000000000ull /* by then ranks have connected */
#define SWARM_CALL_HEAL_NS 10000000000ull
#define SWARM_CHECK_IN     5 /* ranks that check in at a root, at least */

/* Connections end, at both ends within a second or so: what a quiet rank is for (quiet.c). Half of
 * the time it is the quiet rank's own end that fails first. */
static void swarm_quiet(struct scenario *s, struct sim_rng *rng, uint32_t ranks)
{
	struct quiet_line {
		const char *site, *action;
	};
	/* a network's socket has a channel, one of the bootstrap has none */
	static const struct quiet_line sockets[] = {{"os.socket channel=0", "reset"},
						    {"os.socket channel=0", "fail"}};
	static const struct quiet_line hcas[] = {{"verbs.cqe", "error"},
						 {"verbs.start", "error"},
						 {"verbs.request", "refuse"},
						 {"verbs.recv_cqe", "error"},
						 {"fabric.link", "forever down"}};
	ASSERT(s->lab.hosts > 1); /* the other end of what fails is another rank */
	uint64_t which = sim_rng_below(rng, ARRAY_LEN(hcas));
	uint64_t power = sim_rng_below(rng, 7);
	unsigned nth = 1 + (unsigned)sim_rng_below(rng, 1ull << power);
	unsigned rank = (unsigned)sim_rng_below(rng, ranks);
	const struct quiet_line *line = swarm_has_sockets(s) ? &sockets[which != 0] : &hcas[which];
	char of[24] = "";

	if (sim_rng_below(rng, 2))
		snprintf(of, sizeof of, " rank=%u", rank);
	snprintf(s->plan, sizeof s->plan, "%s%s nth=%u %s\n", line->site, of, nth, line->action);
	s->lab.quiet = 1 + rank;
	s->lab.recover = s->lab.finalize = s->lab.nonblocking = s->lab.polls = false;
	s->lab.sim.heal_ns = SWARM_BUDGET_NS;
	swarm_env(s, "NCCL_IB_TIMEOUT=10");
}

/* The set-up of a rank's first connections of the network fails, in one in five of the plans of one
 * line that fit: the rank has no listener for them. Returns false for the others. */
static bool swarm_set_up(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.set_up");
	bool drawn = sim_rng_below(&rng, 5) == 0;
	unsigned rank = (unsigned)sim_rng_below(&rng, ranks);
	/* its first listener is the bootstrap's; rank 0 has that of the root before */
	unsigned nth = (rank ? 2u : 3u) + (unsigned)(sim_rng_below(&rng, 4) == 0);

	if (!drawn || s->lab.hosts == 1)
		return false;
	snprintf(s->plan, sizeof s->plan, "os.listen rank=%u nth=%u fail\n", rank, nth);
	return true;
}

/* When faults heal: one time in four before much has happened, one in four after HCAs have run out
 * of their retries, else in the middle of init or of the work. */
static uint64_t swarm_heal_ns(struct sim_rng *rng)
{
	static const struct {
		uint32_t first, powers;
	} span[] = {{10, 10}, {20, 8}, {20, 8}, {28, 8}};
	uint64_t s = sim_rng_below(rng, ARRAY_LEN(span));
	uint64_t shift = span[s].first + sim_rng_below(rng, span[s].powers);

	return (1ull << shift) + sim_rng_below(rng, 1ull << shift);
}

bool swarm_is_early(uint64_t seed, bool *segments)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.early");
	bool early = sim_rng_below(&rng, 8) == 0;
	*segments = early && sim_rng_below(&rng, 3) == 0;
	return early;
}

/* Leaves out the lines of a plan that hold a block back until the others of its launch have
 * ended. */
static void swarm_release_blocks(char *plan)
{
	char *line = plan, *end;

	while ((end = strchr(line, '\n'))) {
		const char *hold = strstr(line, " hold\n");

		if (hold && hold < end)
			memmove(line, end + 1, strlen(end + 1) + 1);
		else
			line = end + 1;
	}
}

static void swarm_take_plan(struct scenario *s, char *plan)
{
	ASSERT(plan && strlen(plan) < sizeof s->plan);
	ASSERT(!s->plan[0]); /* a seed has one plan */
	strcpy(s->plan, plan);
	free(plan);
}

/* Sockets that accept and have nothing for a moment, while many ranks check in at a root: one in
 * five of the worlds without other faults that have five ranks and more. It is over before ranks
 * end: a farewell needs room in its socket. */
static bool swarm_check_in(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.check_in");
	bool drawn = sim_rng_below(&rng, 5) == 0;
	unsigned one_in = 2 + (unsigned)sim_rng_below(&rng, 2);
	unsigned until_us = 250u << sim_rng_below(&rng, 4);

	if (!drawn || ranks < SWARM_CHECK_IN)
		return false;
	snprintf(s->plan, sizeof s->plan, "os.socket prob=1/%u until=%uus again\n", one_in,
		 until_us);
	return true;
}

/* Streams whose buffers are full: a call moves part of a message or nothing, at any place of any
 * message. In one in four of the worlds without other faults that send over sockets, in one in 24
 * of the others. Sockets of the network do so to the end, those of the bootstrap until ranks end: a
 * farewell needs room. */
static bool swarm_parts(struct scenario *s, uint64_t seed)
{
	static const unsigned bytes[] = {1, 7, 8, 33};
	bool network = s->lab.hosts > 1 && swarm_has_sockets(s);
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.parts");
	bool drawn = sim_rng_below(&rng, network ? 4 : 24) == 0;
	unsigned by = bytes[sim_rng_below(&rng, ARRAY_LEN(bytes))];
	unsigned until_us = 500u << sim_rng_below(&rng, network ? 6 : 4);
	unsigned in_part = 1 + (unsigned)sim_rng_below(&rng, 4);
	unsigned none = 2 + (unsigned)sim_rng_below(&rng, 2);

	if (!drawn || lab_ranks(&s->lab, NULL) < 2)
		return false;
	int n = snprintf(s->plan, sizeof s->plan,
			 "os.socket prob=1/%u until=%uus again\n"
			 "os.socket prob=1/%u until=%uus partial by=%u\n",
			 none, until_us, in_part, until_us, by);
	if (network)
		snprintf(s->plan + n, sizeof s->plan - (size_t)n,
			 "os.socket channel=0 prob=1/%u again\n"
			 "os.socket channel=0 prob=1/%u partial by=%u\n",
			 none, in_part + 1, by);
	return true;
}

/* Programs outside the job connect to listeners before the peers do: in one in eight of the
 * worlds without other faults. */
static bool swarm_has_strangers(uint64_t seed, struct sim_rng *rng)
{
	sim_rng_seed(rng, seed, "swarm.strangers");
	return sim_rng_below(rng, 8) == 0;
}

/* Worlds of several hosts to which programs outside the job may connect send over sockets, also
 * without them. */
static void swarm_strangers_network(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	if (swarm_has_strangers(seed, &rng) && s->lab.hosts > 1 && !swarm_is_set(s, "NCCL_NET=") &&
	    !swarm_is_set(s, "NCCL_NET_FORCE_MERGE="))
		swarm_env(s, "NCCL_NET=Socket");
}

static bool swarm_strangers(struct scenario *s, uint64_t seed)
{
	static const char *const kinds[] = {"silent", "silent", "garbage", "hangup"};
	struct sim_rng rng;
	int n = 0;

	if (!swarm_has_strangers(seed, &rng) || lab_ranks(&s->lab, NULL) < 2)
		return false;
	for (uint64_t lines = 1 + sim_rng_below(&rng, 2); lines; lines--) {
		const char *kind = kinds[sim_rng_below(&rng, ARRAY_LEN(kinds))];
		unsigned one_in = 1 + (unsigned)sim_rng_below(&rng, 3);
		unsigned us = 1u << sim_rng_below(&rng, 11);

		n += snprintf(s->plan + n, sizeof s->plan - (size_t)n,
			      "os.stranger prob=1/%u %s by=%uus\n", one_in, kind, us);
	}
	return true;
}

/* A connection of an init with several unique ids is lost, refused or late a few times: in one in
 * twelve of the worlds without other faults. The roots of such an init connect with each other. */
static bool swarm_roots_connect(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	static const char *const kinds[] = {"fail", "fail errno=ETIMEDOUT", "lost by=50ms",
					    "delay by=50ms"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.roots_connect");
	bool drawn = sim_rng_below(&rng, 12) == 0;
	uint32_t roots = 2 + (uint32_t)sim_rng_below(&rng, 3);
	/* each rank connects with its root and its successor */
	unsigned nth = 1 + (unsigned)sim_rng_below(&rng, 2 * ranks + roots);
	unsigned count = 1 + (unsigned)sim_rng_below(&rng, 4);
	const char *kind = kinds[sim_rng_below(&rng, ARRAY_LEN(kinds))];

	if (!drawn || ranks < 2)
		return false;
	s->lab.roots = roots;
	snprintf(s->plan, sizeof s->plan, "os.connect nth=%u count=%u %s\n", nth, count, kind);
	return true;
}

/* Faults that every call survives, one seed in ten of those without others, and those that detect
 * their topology: an error is a failure. HCAs have the retries that they have by themselves. NVML
 * may have no numbers of GPUs. */
static void swarm_survivable(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.survivable");
	bool drawn = sim_rng_below(&rng, 10) == 0, numbers = sim_rng_below(&rng, 3) != 0;
	bool detects = swarm_is_set(s, "NCCL_TOPO_FILE=");

	if (!drawn && !detects && !swarm_roots_connect(s, seed, ranks) &&
	    !swarm_check_in(s, seed, ranks) && !swarm_strangers(s, seed) && !swarm_parts(s, seed))
		return;
	if (s->plan[0])
		;
	else if (detects && numbers)
		snprintf(s->plan, sizeof s->plan, "nvml.device_get_index forever fail\n");
	else
		swarm_take_plan(s, sim_fault_draw_survivable(seed, s->lab.hosts, ranks));
	ASSERT(s->plan[0]); /* something is survived */
	s->expect = SCENARIO_EXPECT_SUCCESS;
	s->lab.sim.heal_ns = SWARM_BUDGET_NS;
}

/* One call of a rank that fails, any of those that it makes, one seed in five of those without
 * others. */
static bool swarm_draws_any(uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.any_call");
	return sim_rng_below(&rng, 5) == 0;
}

/* Half of the plans that fail a call heal when ranks have made most of their calls. From then on a
 * rank without an error that the launcher has to end is a failure (survive.c). */
static uint64_t swarm_call_heal_ns(uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.call_heals");
	return sim_rng_below(&rng, 2) ? SWARM_CALL_HEAL_NS : SWARM_BUDGET_NS;
}

static bool swarm_any_call(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	if (!swarm_draws_any(seed))
		return false;
	swarm_take_plan(s, sim_fault_draw_any(seed, s->lab.hosts, ranks));
	s->lab.sim.heal_ns = swarm_call_heal_ns(seed);
	return true;
}

bool swarm_is_small(uint64_t seed, enum scenario_faults faults)
{
	struct sim_rng rng;
	bool segments;

	sim_rng_seed(&rng, seed, "swarm.small");
	bool small = sim_rng_below(&rng, 4) != 0;
	bool one = swarm_is_early(seed, &segments) || swarm_draws_any(seed);
	return faults == SCENARIO_FAULTS_CALL || (one && small);
}

/* A rank stalls for longer than the deadline of inits, mostly in its own init: in one in eight of
 * the side worlds of scenes. The others must not wait for it (rank_main.c). */
static bool swarm_stall(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.stall");
	bool drawn = sim_rng_below(&rng, 8) == 0;
	unsigned rank = (unsigned)sim_rng_below(&rng, ranks);
	unsigned nth = 16 + (unsigned)sim_rng_below(&rng, 400);
	unsigned ms = 1000 + (unsigned)sim_rng_below(&rng, 1000);

	if (!drawn || ranks < 2)
		return false;
	snprintf(s->plan, sizeof s->plan, "os.task rank=%u nth=%u starve by=30s\n", rank, nth);
	swarm_env(s, "DOPPEL_TIMEOUT_MS=%u", ms);
	return true;
}

/* A launch fails after the first ones of a group, in one of 24 of the side worlds in which a call
 * fails: a small FIFO of works cuts the group into several launches. */
static bool swarm_launch_fails(struct scenario *s, uint64_t seed, uint32_t ranks)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.launch_fails");
	bool drawn = sim_rng_below(&rng, 24) == 0;
	unsigned rank = (unsigned)sim_rng_below(&rng, ranks);
	unsigned nth = 1 + (unsigned)sim_rng_below(&rng, 6);
	uint32_t calls = 60 + (uint32_t)sim_rng_below(&rng, 60);

	if (!drawn || c->gpu_sms)
		return false;
	c->group = calls;
	c->bytes_min = c->bytes_max = MAX_OF(c->bytes_min, 16 * (uint64_t)calls);
	c->comms = c->mixed = 0;
	swarm_env(s, "NCCL_WORK_ARGS_BYTES=0");
	swarm_env(s, "NCCL_WORK_FIFO_BYTES=4096");
	snprintf(s->plan, sizeof s->plan, "cuda.launch_ex rank=%u nth=%u fail\n", rank, nth);
	return true;
}

/* A task of a group of suspends or resumes cannot be started, in one of 24 of the side worlds in
 * which a call fails. Other tasks of the group wait for its rank. */
static bool swarm_suspend_fails(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.suspend_fails");
	bool drawn = sim_rng_below(&rng, 24) == 0;
	unsigned nth = 1 + (unsigned)sim_rng_below(&rng, 2ull * MAX_OF(c->gpus, 2u));

	if (!drawn)
		return false;
	c->gpus = MAX_OF(c->gpus, 2u);
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->drive = LAB_DRIVE_PROCESS;
	c->local_register = LAB_REGISTER_NOT;
	c->suspends = 1;
	c->comms = c->mixed = c->idle = 0;
	c->nonblocking = c->polls = false;
	snprintf(s->plan, sizeof s->plan, "os.thread after=collective+0us nth=%u fail\n", nth);
	swarm_world_fits(s);
	return true;
}

void swarm_faults(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	uint32_t ranks = lab_ranks(&s->lab, NULL);
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.faults");
	bool segments, early = swarm_is_early(seed, &segments);
	bool drawn = sim_rng_below(&rng, 8) == 0;
	uint64_t heal_ns = swarm_heal_ns(&rng);
	bool recover = sim_rng_below(&rng, 3) == 0, quiet = sim_rng_below(&rng, 4) == 0;
	/* HCAs that give up within a second, not in half a minute; a message takes less than 4
	 * ms */
	bool hurried = sim_rng_below(&rng, 2);
	uint64_t timeout = 10 + sim_rng_below(&rng, 6), retries = sim_rng_below(&rng, 8);

	ASSERT(!s->plan[0] && !s->lab.sim.heal_ns); /* no draw before this one has faults */
	if (faults != SCENARIO_FAULTS_CALL)
		swarm_strangers_network(s, seed);
	if (faults == SCENARIO_FAULTS_NONE)
		return;
	if (faults == SCENARIO_FAULTS_CALL) {
		if (swarm_side_kind(seed) == SIDE_CALL && !swarm_suspend_fails(s, seed) &&
		    !swarm_launch_fails(s, seed, ranks))
			swarm_take_plan(s, sim_fault_draw_caller(seed, s->lab.hosts, ranks));
		s->lab.sim.heal_ns = s->plan[0] ? swarm_call_heal_ns(seed) : 0;
		if (swarm_side_kind(seed) == SIDE_SCENES && swarm_stall(s, seed, ranks))
			s->lab.sim.heal_ns = SWARM_BUDGET_NS;
		return;
	}
	if (faults == SCENARIO_FAULTS_SOME && !drawn && !early) {
		if (!swarm_any_call(s, seed, ranks))
			swarm_survivable(s, seed, ranks);
		return;
	}
	s->lab.sim.heal_ns = heal_ns + (early ? SWARM_EARLY_NS : 0);
	s->lab.recover = recover;
	if (quiet && !early && s->lab.hosts > 1) {
		swarm_quiet(s, &rng, ranks);
		return;
	}
	/* more packets may be ahead of a late one than an HCA keeps; it then requests them again */
	if (swarm_is_set(s, "DOPPEL_HCA_ROUTING=adaptive"))
		retries = MAX_OF(retries, 1ull);
	if (hurried) {
		swarm_env(s, "NCCL_IB_TIMEOUT=%u", (unsigned)timeout);
		swarm_env(s, "NCCL_IB_RETRY_CNT=%u", (unsigned)retries);
	}
	if (early && swarm_set_up(s, seed, ranks))
		return;
	swarm_take_plan(s, early ? sim_fault_draw_early(seed, s->lab.hosts, ranks)
				 : sim_fault_draw(seed, s->lab.hosts, ranks));
	if (!swarm_blocks_may_wait(&s->lab))
		swarm_release_blocks(s->plan);
}
