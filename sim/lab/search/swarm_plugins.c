/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the lab's plugins, one seed in 16. */
#include <string.h>

#include "sim/lab/search/swarm_internal.h"

enum { SWARM_PARTS_BYTES = 8 << 10 }; /* a message with parts on several channels */

/* A network is for runs without faults: those of links and processes are not its own. A list of
 * NICs to merge names those of the machine. */
static bool swarm_net_fits(const struct scenario *s)
{
	return !scenario_has_faults(s) && !s->lab.recover &&
	       !swarm_is_set(s, "NCCL_NET_FORCE_MERGE=");
}

void scenario_take_plugins(struct scenario *s, uint32_t plugins)
{
	const uint32_t net = LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET;

	/* a refused init or call leaves no plugin that each rank has loaded */
	if (s->expect == SCENARIO_EXPECT_REFUSED)
		return;
	if (!swarm_net_fits(s))
		plugins &= ~net;
	/* the model may take it, sooner than a ring in SIMPLE; the tuner does now and then */
	if (plugins & LAB_PLUGIN_COLLNET && !swarm_is_set(s, "NCCL_ALGO="))
		swarm_env(s, "NCCL_ALGO=allreduce:CollNetChain,Ring");
	if (plugins & LAB_PLUGIN_COLLNET && !swarm_is_set(s, "NCCL_PROTO="))
		swarm_env(s, "NCCL_PROTO=Simple");
	if (plugins & net && swarm_is_set(s, "NCCL_NET="))
		swarm_env(s, "NCCL_NET=lab");
	s->lab.plugins |= plugins;
}

/* A program that does one thing at a time has no call but the run's own that meets the failure. A
 * rank has no watchdog here. If it connects, maps registered buffers or allocates memory while a
 * kernel of its runs, it waits in CUDA for the kernel, which waits for the rank that has failed. */
void scenario_take_plugin_failure(struct scenario *s, uint32_t function)
{
	const uint32_t net = LAB_PLUGIN_NET | LAB_PLUGIN_COLLNET;
	struct lab_config *c = &s->lab;
	uint32_t of = function == LAB_PLUGIN_FAILS_TUNER ? LAB_PLUGIN_TUNER : net;

	if (!function || scenario_has_faults(s) || !(c->plugins & of) || swarm_has_messages(s))
		return;
	c->plugin_fails = function;
	c->scenes = c->refused = c->init_fails = c->transient = c->idle = 0;
	c->queries = c->ras = c->mixed = c->suspends = c->comms = 0;
	c->children = c->cuda_state = c->hasty = c->in_place = false;
	c->out_of_place = true;
	c->local_register = LAB_REGISTER_NOT;
}

/* Three in four collective networks get what they may have no operation for. */
static void swarm_network_reduces(struct scenario *s, struct sim_rng *rng)
{
	static const ncclRedOp_t ops[] = {ncclProd, ncclMax, ncclMin};
	struct lab_config *c = &s->lab;
	bool drawn = sim_rng_below(rng, 4) != 0;
	ncclRedOp_t op = ops[sim_rng_below(rng, ARRAY_LEN(ops))];

	if (!drawn || c->hosts == 1 || !(c->plugins & LAB_PLUGIN_COLLNET) ||
	    c->root == LAB_ALL_ROOTS)
		return;
	c->collective = lab_collective_find("all_reduce", strlen("all_reduce"));
	c->bytes_min = MAX_OF(c->bytes_min, 64ull); /* a call without elements runs nothing */
	c->bytes_max = MAX_OF(c->bytes_max, c->bytes_min);
	c->ops[0] = op;
	c->op_count = 1;
	swarm_env(s, "NCCL_ALGO=allreduce:CollNetChain,Ring");
	swarm_env(s, "NCCL_PROTO=Simple");
}

/* A profiler sees whether messages keep to a limit of channels: half of the worlds of messages
 * between hosts of one rank. These messages are large enough for several channels. */
static void swarm_channel_limits(struct scenario *s, uint64_t seed)
{
	static const char *const limits[] = {
		"NCCL_NCHANNELS_PER_NET_PEER=1", "NCCL_NCHANNELS_PER_NET_PEER=1",
		"NCCL_NCHANNELS_PER_NET_PEER=3", "NCCL_MAX_P2P_NCHANNELS=1"};
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.channel_limits");
	bool drawn = sim_rng_below(&rng, 2) == 0;
	const char *limit = limits[sim_rng_below(&rng, ARRAY_LEN(limits))];
	bool fits = c->collective->connects && c->hosts > 1 && c->gpus == 1 && !c->host_gpus_n;
	uint64_t least = SWARM_PARTS_BYTES * (uint64_t)lab_ranks(c, NULL);

	if (!drawn || !fits || c->plugin_fails || c->warp_width == 32 || c->group > 8 ||
	    c->iterations > 3 || s->expect == SCENARIO_EXPECT_REFUSED)
		return;
	swarm_env(s, "%s", limit);
	scenario_take_plugins(s, LAB_PLUGIN_PROFILER);
	if (c->bytes_min < least) {
		c->bytes_max += least - c->bytes_min;
		c->bytes_min = least;
	}
}

void swarm_plugins(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.plugins");
	bool drawn = sim_rng_below(&rng, 16) == 0;
	uint32_t plugins = 1 + (uint32_t)sim_rng_below(&rng, (1u << LAB_PLUGINS) - 1);
	bool fails = sim_rng_below(&rng, 4) == 0;
	uint32_t function = 1 + (uint32_t)sim_rng_below(&rng, LAB_PLUGIN_FAILS);

	if (drawn) {
		scenario_take_plugins(s, plugins);
		swarm_network_reduces(s, &rng);
	}
	if (drawn && fails)
		scenario_take_plugin_failure(s, function);
	swarm_channel_limits(s, seed);
}
