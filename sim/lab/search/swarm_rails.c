/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worlds of merged NICs with failover (docs/verbs/failover.md), one seed in twenty: two to four
 * rails, and one fault of a port, a link or a queue pair after the first launch. A rail is left, so
 * every call succeeds. Two in three recover, and then another rail may fail. In one of eight all
 * links of a host fail, for some time or for good: each rank may get an error, and none waits
 * without end. In one of four the addresses of a rank's first queue pairs resolve late.
 *
 * Such a seed has none of the draws of other seeds. A failure before a connection is set up is an
 * error also with failover, so all connections of the run are made for its first calls.
 */
#include <stdio.h>
#include <string.h>

#include "sim/lab/search/swarm_internal.h"

#define RAILS_OPTION   "NCCL_IB_RESILIENCY_PORT"
#define RAILS_AGAIN    RAILS_OPTION "_RECOVERY_ATTEMPTS_MAX=1"
#define RAILS_MESSAGES RAILS_OPTION "_RECOVERY_ALIVE_MSG"
#define RAILS_BYTES    (256ull << 10)
/* Rails that fail one after the other: calls, and the longest pause between two. Each rail that
 * has failed carries data, or runs out of its retries, before the next one fails. */
#define RAILS_LONG_CALLS    64
#define RAILS_LONG_BYTES    (8ull << 10)
#define RAILS_LONG_PAUSE_MS 128
/* The one attempt to start a rail again has this time: longer than the rail is down, and shorter
 * than until it fails again. */
#define RAILS_ACK_MS 300

bool swarm_has_rails(uint64_t seed, enum scenario_faults faults)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.rails");
	return sim_rng_below(&rng, faults == SCENARIO_FAULTS_CALL ? 12 : 20) == 0;
}

static void rails_world(struct scenario *s, struct sim_rng *rng)
{
	struct lab_config *c = &s->lab;

	snprintf(s->machine, sizeof s->machine, "a100-2port");
	c->hosts = 2 + (sim_rng_below(rng, 4) == 0);
	c->gpus = 1 + (uint32_t)sim_rng_below(rng, 3);
	c->ranks_per_proc = sim_rng_below(rng, 3) ? 1 : LAB_ALL_RANKS;
	if (sim_rng_below(rng, 2) && c->ranks_per_proc == LAB_ALL_RANKS)
		c->drive = LAB_DRIVE_PROCESS;
	c->warp_width = 1;
	if (sim_rng_below(rng, 2)) /* the rails of all HCAs of a CPU */
		swarm_env(s, "NCCL_NET_MERGE_LEVEL=SYS");
}

static void rails_series(struct scenario *s, struct sim_rng *rng)
{
	struct lab_config *c = &s->lab;
	uint64_t which = sim_rng_below(rng, 2) ? 0 : sim_rng_below(rng, LAB_COLLECTIVES_OF_NCCL);
	uint64_t shift = 3 + sim_rng_below(rng, 16);

	c->collective = &lab_collectives[which];
	c->types[0] = (ncclDataType_t)sim_rng_below(rng, LAB_MAX_TYPES);
	c->ops[0] = (ncclRedOp_t)sim_rng_below(rng, LAB_MAX_OPS);
	c->type_count = c->op_count = 1;
	c->iterations = 1 + (uint32_t)sim_rng_below(rng, 4);
	c->in_place = sim_rng_below(rng, 2);
	c->out_of_place = !c->in_place;
	c->bytes_min = MIN_OF((1ull << shift) + sim_rng_below(rng, 1ull << shift), RAILS_BYTES);
	c->bytes_max = c->bytes_min;
	c->factor = 0;
	c->bytes_step = 1;
	if (scenario_has_root(s))
		c->root = (int32_t)sim_rng_below(rng, lab_ranks(c, NULL));
	c->streams = sim_rng_below(rng, 6) ? 0 : 2;
	c->group = sim_rng_below(rng, 6) ? 0 : 2;
	c->any_numbers = sim_rng_below(rng, 2);
}

/* HCAs give up within a second: a rail fails while the run goes on. */
static void rails_settings(struct scenario *s, struct sim_rng *rng)
{
	static const char *const protocols[] = {"Simple", "Simple", "LL", "LL128"};

	swarm_env(s, "NCCL_DEBUG=WARN");
	swarm_env(s, RAILS_OPTION "_FAILOVER=1");
	if (sim_rng_below(rng, 3)) {
		swarm_env(s, RAILS_OPTION "_RECOVERY=1");
		swarm_env(s, RAILS_OPTION "_RECOVERY_START_DELAY=1");
		swarm_env(s, RAILS_OPTION "_RECOVERY_ALIVE_MSG_BATCH_INTERVAL=5");
	}
	swarm_env(s, "NCCL_IB_TIMEOUT=%u", 10 + (unsigned)sim_rng_below(rng, 4));
	swarm_env(s, "NCCL_IB_RETRY_CNT=%u", 1 + (unsigned)sim_rng_below(rng, 7));
	if (sim_rng_below(rng, 3) == 0)
		swarm_env(s, "NCCL_IB_QPS_PER_CONNECTION=%u", 2 + (unsigned)sim_rng_below(rng, 3));
	if (sim_rng_below(rng, 3) == 0)
		swarm_env(s, "NCCL_IB_ADAPTIVE_ROUTING=%u", (unsigned)sim_rng_below(rng, 2));
	if (sim_rng_below(rng, 4) == 0)
		swarm_env(s, "DOPPEL_HCA_ROUTING=adaptive");
	if (sim_rng_below(rng, 3))
		swarm_env(s, "NCCL_PROTO=%s", protocols[sim_rng_below(rng, ARRAY_LEN(protocols))]);
	if (sim_rng_below(rng, 2))
		swarm_env(s, "NCCL_MAX_NCHANNELS=%u", 1 + (unsigned)sim_rng_below(rng, 4));
	if (sim_rng_below(rng, 3) == 0)
		swarm_env(s, "NCCL_BUFFSIZE=%u", 32768u << sim_rng_below(rng, 4));
}

/* No rail is left. */
static void rails_plan_all(struct scenario *s, unsigned host, unsigned at_us, unsigned for_ms)
{
	char healed[24] = "";

	if (for_ms % 2)
		snprintf(healed, sizeof healed, " for=%ums", for_ms);
	snprintf(s->plan, sizeof s->plan, "fabric.link host=%u after=collective+%uus down%s\n",
		 host, at_us, healed);
	s->expect = SCENARIO_EXPECT_SUCCESS_OR_ERROR;
}

/* A rail fails and recovers, maybe with another GID. Then the other rail of its host fails, or that
 * of another host: only a rail that is really back carries the rest. */
static void rails_plan_twice(struct scenario *s, struct sim_rng *rng, unsigned at_us)
{
	unsigned host = (unsigned)sim_rng_below(rng, s->lab.hosts);
	unsigned port = (unsigned)sim_rng_below(rng, 2);
	unsigned for_ms = 20 + (unsigned)sim_rng_below(rng, 280); /* longer than all retries */
	uint64_t kind = sim_rng_below(rng, 3);
	char first[80];

	if (kind == 0)
		snprintf(first, sizeof first, "verbs.qp rank=%u after=collective+%uus fatal",
			 (unsigned)sim_rng_below(rng, lab_ranks(&s->lab, NULL)), at_us);
	else
		snprintf(first, sizeof first,
			 "fabric.link host=%u port=%u after=collective+%uus down for=%ums%s", host,
			 port, at_us, for_ms, kind == 1 ? " gid=1" : "");
	snprintf(s->plan, sizeof s->plan,
		 "%s\nfabric.link host=%u port=%u after=collective+600ms down\n", first,
		 (unsigned)sim_rng_below(rng, s->lab.hosts), 1 - port);
}

/* A rail fails and recovers, and does so again much later. Then the other rail of its host fails,
 * or that of another host. */
static void rails_plan_again(struct scenario *s, struct sim_rng *rng, unsigned at_us)
{
	unsigned host = (unsigned)sim_rng_below(rng, s->lab.hosts);
	unsigned port = (unsigned)sim_rng_below(rng, 2);
	unsigned first_ms = 60 + (unsigned)sim_rng_below(rng, 90);
	unsigned second_ms = 60 + (unsigned)sim_rng_below(rng, 90);
	bool moved = sim_rng_below(rng, 3) == 0;

	ASSERT(!s->plan[0]); /* in place of one fault */
	snprintf(s->plan, sizeof s->plan,
		 "fabric.link host=%u port=%u after=collective+%uus down for=%ums%s\n"
		 "fabric.link host=%u port=%u after=collective+600ms down for=%ums\n"
		 "fabric.link host=%u port=%u after=collective+1000ms down\n",
		 host, port, at_us, first_ms, moved ? " gid=1" : "", host, port, second_ms,
		 (unsigned)sim_rng_below(rng, s->lab.hosts), 1 - port);
}

/* One fault, of one rail: the other rails of every connection are left. Ranks of messages connect
 * while others have launched, and a queue pair that fails before it is connected is an error. */
static void rails_plan(struct scenario *s, struct sim_rng *rng)
{
	uint64_t power = sim_rng_below(rng, 11);
	unsigned at_us = (unsigned)sim_rng_below(rng, 1ull << power);
	unsigned host = (unsigned)sim_rng_below(rng, s->lab.hosts);
	unsigned port = (unsigned)sim_rng_below(rng, 2);
	unsigned rank = (unsigned)sim_rng_below(rng, lab_ranks(&s->lab, NULL));
	unsigned for_ms = 1 + (unsigned)sim_rng_below(rng, 200);
	unsigned times = 2 + (unsigned)sim_rng_below(rng, 3);
	uint64_t kind = sim_rng_below(rng, 10);

	ASSERT(s->lab.hosts > 1 && !s->plan[0]); /* rails are of the network */
	if (kind >= 5 && kind < 8 && s->lab.collective->connects)
		kind = 3;
	switch (kind) {
	case 0:
		snprintf(s->plan, sizeof s->plan,
			 "fabric.link host=%u port=%u after=collective+%uus down\n", host, port,
			 at_us);
		break;
	case 1:
		snprintf(s->plan, sizeof s->plan,
			 "fabric.link host=%u port=%u after=collective+%uus down for=%ums\n", host,
			 port, at_us, for_ms);
		break;
	case 2:
		snprintf(s->plan, sizeof s->plan,
			 "fabric.link host=%u port=%u after=collective+%uus flap times=%u "
			 "each=%ums\n",
			 host, port, at_us, times, for_ms);
		break;
	case 3:
		snprintf(s->plan, sizeof s->plan,
			 "verbs.cqe rank=%u after=collective+%uus error status=RETRY_EXC_ERR\n",
			 rank, at_us);
		break;
	case 4: /* a read, which flushes */
		snprintf(s->plan, sizeof s->plan,
			 "verbs.response rank=%u nth=%u error status=RETRY_EXC_ERR\n", rank,
			 1 + (unsigned)sim_rng_below(rng, 8));
		break;
	case 8:
	case 9: /* no part of a message has arrived when the receiver reports the rail */
		snprintf(s->plan, sizeof s->plan,
			 "fabric.path host=%u port=%u after=collective+%uus clog for=%uus\n"
			 "verbs.start host=%u port=%u after=collective+%uus error "
			 "status=RETRY_EXC_ERR\n",
			 host, 1 - port, at_us, 1000 + 10 * for_ms, host, port, at_us);
		break;
	case 5:
	case 6: /* an HCA, for good */
		snprintf(s->plan, sizeof s->plan,
			 "verbs.device host=%u port=%u after=collective+%uus fatal\n", host, port,
			 at_us);
		break;
	default:
		snprintf(s->plan, sizeof s->plan, "verbs.qp rank=%u after=collective+%uus fatal\n",
			 rank, at_us);
		break;
	}
	s->expect = SCENARIO_EXPECT_SUCCESS;
	if (swarm_is_set(s, RAILS_AGAIN)) {
		s->plan[0] = '\0';
		rails_plan_again(s, rng, at_us);
	} else if (s->lab.pauses) {
		rails_plan_twice(s, rng, at_us);
	}
	s->lab.sim.heal_ns = SWARM_BUDGET_NS;
	if (sim_rng_below(rng, 8) == 0)
		rails_plan_all(s, host, at_us, for_ms);
}

/* A run that is longer than the time until the second failure. Ranks of messages may connect while
 * a port is down, or changes its GID. */
static void rails_long(struct scenario *s, struct sim_rng *rng)
{
	if (sim_rng_below(rng, 4) == 0 || !swarm_is_set(s, RAILS_OPTION "_RECOVERY=1") ||
	    s->lab.collective->connects)
		return;
	if (swarm_is_set(s, "NCCL_NET_MERGE_LEVEL=")) /* two ports: the second failure shows */
		swarm_env(s, "NCCL_NET_MERGE_LEVEL=PORT");
	s->lab.hosts = 2;
	s->lab.gpus = MIN_OF(s->lab.gpus, 2u);
	s->lab.root = MIN_OF(s->lab.root, (int32_t)lab_ranks(&s->lab, NULL) - 1);
	s->lab.bytes_min = s->lab.bytes_max = MIN_OF(s->lab.bytes_min, RAILS_LONG_BYTES);
	s->lab.iterations = RAILS_LONG_CALLS;
	s->lab.pauses = RAILS_LONG_PAUSE_MS;
	/* all retries end while the port is down */
	swarm_env(s, "NCCL_IB_TIMEOUT=%u", 10 + (unsigned)sim_rng_below(rng, 2));
	swarm_env(s, "NCCL_IB_RETRY_CNT=%u", 1 + (unsigned)sim_rng_below(rng, 2));
	if (sim_rng_below(rng, 3))
		return;
	swarm_env(s, RAILS_AGAIN);
	swarm_env(s, RAILS_OPTION "_RECOVERY_ACK_TIMEOUT=%u", RAILS_ACK_MS);
}

/* The test messages of a rail that recovers, in half of the worlds with recovery: fewer in a batch
 * than must be acknowledged, so that one batch follows another. All of them take less time than is
 * left until another rail fails. */
static void rails_batches(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.rails_batches");
	bool drawn = sim_rng_below(&rng, 2) == 0;
	unsigned batch = 1 + (unsigned)sim_rng_below(&rng, 4);
	unsigned sequence = batch + 1 + (unsigned)sim_rng_below(&rng, 8);

	if (!drawn || !swarm_is_set(s, RAILS_OPTION "_RECOVERY=1"))
		return;
	swarm_env(s, RAILS_MESSAGES "_BATCH_SIZE=%u", batch);
	swarm_env(s, RAILS_MESSAGES "_SEQUENCE_SIZE=%u", sequence);
}

/* Addresses of a rank's first queue pairs take some attempts to resolve, in one of four of these
 * worlds. No connection of the rank is ready then, so none of these calls is that of a queue pair
 * for flushes, which has its own address. Two in three of these worlds have no other fault and no
 * failover, which would take over from a queue pair that was left out. */
static void rails_resolve(struct scenario *s, struct sim_rng *rng, bool faults)
{
	bool drawn = sim_rng_below(rng, 4) == 0, again = sim_rng_below(rng, 3) == 0;
	const char *state = sim_rng_below(rng, 2) ? "RTR" : "RTS";
	unsigned rank = (unsigned)sim_rng_below(rng, lab_ranks(&s->lab, NULL));
	unsigned count = again ? 2 + (unsigned)sim_rng_below(rng, 6) : 1;
	bool alone = sim_rng_below(rng, 3) != 0;

	if (drawn && alone) {
		s->plan[0] = '\0';
		s->expect = faults ? SCENARIO_EXPECT_SUCCESS : s->expect;
		swarm_env(s, RAILS_OPTION "_FAILOVER=0");
		swarm_env(s, RAILS_OPTION "_RECOVERY=0");
	}
	size_t n = strlen(s->plan);

	if (drawn && faults)
		snprintf(s->plan + n, sizeof s->plan - n,
			 "verbs.modify_qp state=%s rank=%u nth=1 count=%u fail errno=ETIMEDOUT\n",
			 state, rank, count);
}

void swarm_rails(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.rails_world");
	rails_world(s, &rng);
	rails_series(s, &rng);
	rails_settings(s, &rng);
	rails_long(s, &rng);
	rails_batches(s, seed);
	sim_rng_seed(&rng, seed, "swarm.rails_plan");
	if (faults != SCENARIO_FAULTS_NONE)
		rails_plan(s, &rng);
	sim_rng_seed(&rng, seed, "swarm.rails_resolve");
	rails_resolve(s, &rng, faults != SCENARIO_FAULTS_NONE);
}
