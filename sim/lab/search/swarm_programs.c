/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws what programs do beside one series of collectives: groups of different calls, several
 * communicators under one NCCL_COMM_ID, destroyed in any order, with configs of older versions,
 * other tasks that poll or make communicators, processes whose environments differ, series in CUDA
 * graphs. And what they reduce: any numbers.
 */
#include <string.h>

#include "sim/lab/search/dimension.h"
#include "sim/lab/search/swarm_internal.h"

enum {
	SWARM_CHANNELS_RANKS = 6, /* most ranks with all channels */
	SWARM_GROUP_RANKS = 4,    /* most ranks with a large group */
	SWARM_GROUP_BYTES = 16,   /* of a rank, for each call of it */
};

/* Settings that ranks of one communicator may have differently. */
static const char *const swarm_odd[] = {
	"NCCL_P2P_PXN_LEVEL=0",
	"NCCL_P2P_PXN_LEVEL=1",
	"DOPPEL_PXN_CONNECTIONS=1",
	"NCCL_MAX_CTAS=1",
	"NCCL_MIN_CTAS=3",
	"NCCL_SOCKET_NTHREADS=2",
	"NCCL_NSOCKS_PERTHREAD=3",
	"NCCL_IB_ADAPTIVE_ROUTING=1",
	"NCCL_IB_ADAPTIVE_ROUTING=0",
	"NCCL_LOCAL_REGISTER=0",
	"NCCL_WORK_FIFO_BYTES=4096",
	"NCCL_IB_PCI_RELAXED_ORDERING=0",
	"NCCL_DMABUF_ENABLE=0",
	"NCCL_NTHREADS=64",
	"NCCL_NTHREADS=512",
	"NCCL_CHECK_POINTERS=1",
	"NCCL_IB_SL=5",
	"NCCL_IB_TC=42",
	"NCCL_WORK_ARGS_BYTES=0",
	"DOPPEL_HCA_FAST_PATH=off",
};

/* Settings that change which way data and words go, and are in none of the other draws. */
static const char *const swarm_rare[] = {
	"NCCL_CHECK_POINTERS=1",
	"NCCL_IB_ADDR_FAMILY=AF_INET6",
	"NCCL_IB_ADDR_RANGE=10.0.0.0/8",
	"NCCL_IB_ADDR_RANGE=192.168.0.0/15",
	"NCCL_IB_MERGE_NICS=0",
	"NCCL_IB_ROCE_VERSION_NUM=2",
	"NCCL_IB_SL=3",
	"NCCL_IB_TC=106",
	"NCCL_MAX_CTAS=999",
	"NCCL_MAX_P2P_NCHANNELS=1",
	"NCCL_MAX_P2P_NCHANNELS=2",
	"NCCL_NET_SHARED_COMMS=0",
	"NCCL_NVB_DISABLE=1",
	"NCCL_P2P_LEVEL=LOC",
	"NCCL_P2P_LEVEL=NVL",
	"NCCL_P2P_LEVEL=PHB",
	"NCCL_P2P_LEVEL=SYS",
	"NCCL_P2P_LEVEL=1",
	"NCCL_P2P_LEVEL=5",
	"NCCL_PXN_DISABLE=1",
	"NCCL_NET_MERGE_POLICY=RAIL",
	"NCCL_NET_FORCE_MERGE=mlx5_0,mlx5_1",
	"NCCL_NET_GDR_LEVEL=SYS",
	"NCCL_NET_GDR_LEVEL=PIX",
	"NCCL_COLLNET_ENABLE=1",
	"NCCL_TOPO_COMPAT=2.28",
	"NCCL_CGA_CLUSTER_SIZE=0",
	"NCCL_CGA_CLUSTER_SIZE=1",
	"NCCL_CGA_CLUSTER_SIZE=8",
	"NCCL_IB_HCA=^mlx5_0",
	"NCCL_IB_HCA=mlx5_0:1,mlx5_1",
	"NCCL_IB_HCA=mlx5:1",
	"NCCL_IB_HCA=^mlx5_0:2",
	"NCCL_IB_HCA=^=mlx5_1",
	"NCCL_IB_DISABLE=1",
	"NCCL_IB_TC=255",
	"NCCL_IB_SL=15",
	"NCCL_IB_AR_THRESHOLD=0",
	"NCCL_IB_PCI_RELAXED_ORDERING=1",
	"NCCL_IB_QPS_PER_CONNECTION=16",
	"NCCL_SOCKET_IFNAME==eth0",
	"NCCL_SOCKET_IFNAME=^lo,docker",
	"NCCL_SOCKET_NTHREADS=16",
	"NCCL_WORK_ARGS_BYTES=64",
	"NCCL_WORK_ARGS_BYTES=1k",
	"NCCL_MAX_P2P_NCHANNELS=64",
	"NCCL_MIN_CTAS=0",
	"NCCL_MAX_CTAS=1",
	"NCCL_MIN_NCHANNELS=999",
	"NCCL_MIN_CTAS=64",
	"NCCL_NTHREADS=1",
	"NCCL_NTHREADS=1024",
	"NCCL_BUFFSIZE=1",
	"NCCL_LL_BUFFSIZE=1",
	"NCCL_LL128_BUFFSIZE=1",
	"NCCL_P2P_LL_THRESHOLD=0",
	"NCCL_P2P_LL_THRESHOLD=1",
	"NCCL_NCHANNELS_PER_NET_PEER=1",
	"NCCL_NCHANNELS_PER_NET_PEER=64",
	"DOPPEL_PXN_CONNECTIONS=0",
	"DOPPEL_PXN_CONNECTIONS=128",
	"DOPPEL_HCA_FAST_PATH=off",
	"DOPPEL_HCA_ATOMIC=none",
	"DOPPEL_CUDA_WAITS=1",
	"NCCL_DEBUG=INFO",
	"NCCL_DEBUG=VERSION",
	"NCCL_DEBUG_SUBSYS=ALL",
};

/* True if a machine of the world lacks two HCAs below one CPU. */
static bool swarm_nics_are_single(const struct scenario *s)
{
	return strstr(s->machine, "2nic") || strstr(s->machine, "pcie-4gpu") ||
	       strstr(s->machine, "workstation-2gpu");
}

/* Algorithms that need direct access have no other way. NICs that cannot be merged stay single.
 * HCAs that are named must be there, and be listed where they are merged. With all channels, many
 * sockets need more descriptors than a process has, and many ranks more time than a seed has. */
static bool swarm_rare_fits(const struct scenario *s, const char *assignment)
{
	bool channels = strstr(assignment, "NCHANNELS") || strstr(assignment, "MIN_CTAS");

	if (strstr(assignment, "SOCKET_NTHREADS") && swarm_is_set(s, "NCCL_NSOCKS_PERTHREAD="))
		return false;
	if (swarm_is_set(s, "NCCL_NET=IB") &&
	    (strstr(assignment, "FORCE_MERGE") || strstr(assignment, "IB_DISABLE=1")))
		return false;
	if (channels && (swarm_is_set(s, "NCCL_NSOCKS_PERTHREAD=30") ||
			 s->lab.hosts * s->lab.gpus > SWARM_CHANNELS_RANKS))
		return false;
	return !(strstr(assignment, "P2P_LEVEL") && swarm_is_set(s, "NCCL_ALGO=OneShot")) &&
	       !(strstr(assignment, "FORCE_MERGE") && swarm_nics_are_single(s));
}

static void swarm_rare_setting(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.rare");
	bool drawn = sim_rng_below(&rng, 6) == 0;
	const char *assignment = swarm_rare[sim_rng_below(&rng, ARRAY_LEN(swarm_rare))];

	size_t name = strcspn(assignment, "=");
	char start[SCENARIO_ENV_BYTES];

	ASSERT(name > 0 && assignment[name] == '='); /* a value follows each name of the list */
	snprintf(start, sizeof start, "%.*s=", (int)name, assignment);
	bool fits = swarm_rare_fits(s, assignment);

	/* what was drawn to fit something else stays */
	if (drawn && fits && (!swarm_is_set(s, start) || strcmp(start, "NCCL_DEBUG=") == 0))
		swarm_env(s, "%s", assignment);
}

/* Every other process has no HCAs: the ranks must agree on another network than the first choice of
 * some of them. */
static void swarm_odd_network(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.odd_network");
	bool drawn = sim_rng_below(&rng, 24) == 0;

	if (drawn && s->lab.hosts > 1 && !swarm_is_set(s, "NCCL_NET=") && !s->env_odd[0])
		snprintf(s->env_odd, sizeof s->env_odd, "NCCL_IB_DISABLE=1");
}

/* Processes of a host that differ in the ways to share memory that they have, one seed in 12 of
 * those that fit: they must agree on one that all of them have. */
static void swarm_odd_memory(struct scenario *s, uint64_t seed)
{
	static const char *const ways[] = {"NCCL_CUMEM_ENABLE=0", "NCCL_CUMEM_ENABLE=0",
					   "NCCL_CUMEM_ENABLE=1", "NCCL_CUMEM_HOST_ENABLE=1",
					   "NCCL_SHM_DISABLE=1"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.odd_memory");
	bool drawn = sim_rng_below(&rng, 12) == 0;
	const char *way = ways[sim_rng_below(&rng, ARRAY_LEN(ways))];

	if (drawn && s->lab.ranks_per_proc == 1 && s->lab.gpus > 1 && !s->env_odd[0])
		snprintf(s->env_odd, sizeof s->env_odd, "%s", way);
}

/* Interfaces that all have one address or lead nowhere else, several that do, and a port that is
 * down. */
static void swarm_hosts(struct scenario *s, uint64_t seed)
{
	static const char *const lists[] = {
		"docker0,eth0",     "eth0,eth1",           "virbr0,eth0,eth1,eth2",
		"eth0,docker0,ib0", "eth0,eth1,eth2,eth3", "docker0,virbr0", /* of one host */
	};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.hosts");
	bool interfaces = sim_rng_below(&rng, 6) == 0, link = sim_rng_below(&rng, 12) == 0;
	const char *list = lists[sim_rng_below(&rng, ARRAY_LEN(lists) - (s->lab.hosts > 1))];
	unsigned hca = (unsigned)sim_rng_below(&rng, 4);

	if (interfaces && !swarm_is_set(s, "NCCL_SOCKET_IFNAME"))
		swarm_env(s, "DOPPEL_INTERFACES=%s", list);
	swarm_named_interfaces(s, seed);
	if (link && !swarm_is_set(s, "NCCL_NET=IB") && !swarm_is_set(s, "NCCL_NET_FORCE_MERGE="))
		swarm_env(s, "DOPPEL_HCA_LINK=mlx5_%u=down", hca);
}

/* Groups of different calls need room for kernels that run at the same time, and for messages. */
static void swarm_mixed(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.mixed");
	bool drawn = sim_rng_below(&rng, 4) == 0, several = sim_rng_below(&rng, 2) == 0;
	uint32_t groups = 1 + (uint32_t)sim_rng_below(&rng, 3);
	uint32_t comms = 2 + (uint32_t)sim_rng_below(&rng, 2);

	if (!drawn || s->lab.gpu_sms || s->lab.iterations > 100 || s->lab.group > 100 ||
	    s->lab.warp_width == 32)
		return;
	s->lab.mixed = groups;
	if (several && !s->lab.comms)
		s->lab.comms = comms;
}

/* Ranks that take their time. */
static void swarm_pauses(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.pauses");
	bool pauses = sim_rng_below(&rng, 5) == 0;
	uint32_t most_ms = 1u << sim_rng_below(&rng, 12);

	if (pauses && s->lab.iterations <= 100)
		s->lab.pauses = most_ms;
}

/* A little of everything in a small world, one seed in six: bugs of programs need several habits at
 * the same time. */
static bool swarm_busy(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.busy");
	bool drawn = sim_rng_below(&rng, 6) == 0;

	if (!drawn || c->gpu_sms || c->warp_width == 32 || c->iterations > 100 || c->group > 100 ||
	    lab_ranks(c, NULL) > 6)
		return false;
	c->comms = 2 + (uint32_t)sim_rng_below(&rng, 2);
	c->bytes_min = c->bytes_max = MIN_OF(c->bytes_max, 64ull << 10);
	if (sim_rng_below(&rng, 2))
		c->mixed = 2 + (uint32_t)sim_rng_below(&rng, 3);
	c->hasty = sim_rng_below(&rng, 2);
	bool process = sim_rng_below(&rng, 3) == 0;
	if (process && !c->local_register) {
		c->ranks_per_proc = LAB_ALL_RANKS;
		c->drive = LAB_DRIVE_PROCESS;
	}
	if (sim_rng_below(&rng, 2))
		c->refused = 1 + (uint32_t)sim_rng_below(&rng, 4);
	if (sim_rng_below(&rng, 2))
		c->pauses = 1u << sim_rng_below(&rng, 12);
	return true;
}

/* Ends of a program that does a little of everything, or of one seed in 16. */
static void swarm_ends(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.ends");
	if (!swarm_busy(s, seed) && sim_rng_below(&rng, 16))
		return;
	c->finalize |= sim_rng_below(&rng, 2);
	c->nonblocking |= sim_rng_below(&rng, 3) == 0;
	c->polls |= sim_rng_below(&rng, 3) == 0;
}

/* Rules of rounding, infinities and NaNs are those of floats: any numbers are of one of them in one
 * more seed of three. */
static void swarm_floats(struct scenario *s, uint64_t seed)
{
	static const ncclDataType_t floats[] = {ncclFloat64,  ncclFloat64,    ncclFloat16,
						ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.floats");
	bool drawn = sim_rng_below(&rng, 3) == 0;
	ncclDataType_t type = floats[sim_rng_below(&rng, ARRAY_LEN(floats))];

	if (drawn && c->any_numbers && c->type_count == 1 && c->collective->reduces)
		c->types[0] = type;
}

/* Hundreds of calls in a group, each of a few elements, in one small world in 24: a launch has more
 * works than a byte counts. */
static void swarm_large_group(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.large_group");
	bool drawn = sim_rng_below(&rng, 24) == 0;
	uint32_t calls = 260 + (uint32_t)sim_rng_below(&rng, 300);

	if (!drawn || lab_ranks(c, NULL) > SWARM_GROUP_RANKS || c->warp_width > 1)
		return;
	c->group = calls;
	c->streams = c->comms = 0;
	c->iterations = c->type_count = c->op_count = 1;
	c->in_place &= !c->out_of_place;
	c->bytes_min = c->bytes_max = SWARM_GROUP_BYTES * (uint64_t)calls;
}

void swarm_programs(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	dimensions_draw(s, seed, DIMENSION_ANY);
	swarm_floats(s, seed);
	swarm_mixed(s, seed);
	swarm_pauses(s, seed);
	swarm_ends(s, seed);
	swarm_rare_setting(s, seed);
	swarm_hosts(s, seed);
	swarm_large_group(s, seed);
	sim_rng_seed(&rng, seed, "swarm.programs");
	uint64_t ends = sim_rng_below(&rng, LAB_ENDS_EACH + 1);
	if (s->lab.comms > 1)
		s->lab.ends = (enum lab_ends)ends;
	bool twice = sim_rng_below(&rng, 3) == 0;
	if (twice && s->lab.local_register == LAB_REGISTER_ONCE)
		s->lab.local_register = LAB_REGISTER_TWICE;
	static const uint32_t versions[] = {21400, 21800, 22700, 22800, 99900};
	bool config = sim_rng_below(&rng, 8) == 0;
	uint32_t version = versions[sim_rng_below(&rng, ARRAY_LEN(versions))];
	if (config)
		s->lab.config_version = version;
	bool odd = sim_rng_below(&rng, 6) == 0;
	const char *assignment = swarm_odd[sim_rng_below(&rng, ARRAY_LEN(swarm_odd))];
	/* a least number and a most one of a rank must fit each other */
	bool counts =
		swarm_is_set(s, "NCCL_MAX_NCHANNELS") || swarm_is_set(s, "NCCL_MIN_NCHANNELS");
	if (odd && !(counts && strstr(assignment, "_CTAS=")))
		snprintf(s->env_odd, sizeof s->env_odd, "%s", assignment);
	swarm_odd_network(s, seed);
	swarm_odd_memory(s, seed);
	/* every two ranks are connected on all channels, and small messages use few */
	bool wide = sim_rng_below(&rng, 3) == 0;
	uint64_t channels = 2 + sim_rng_below(&rng, 7);
	if (wide && swarm_is_set(s, "NCCL_ALGO=OneShot") && s->lab.bytes_max >= 4096) {
		swarm_env(s, "NCCL_MAX_NCHANNELS=%u", (unsigned)channels);
		swarm_env(s, "NCCL_MIN_NCHANNELS=%u", (unsigned)channels);
	}
}

/* NCCL_COMM_ID is an address of the host that rank 0 is on, which makes the root of every
 * communicator. */
static void swarm_comm_id(struct scenario *s, struct sim_rng *rng)
{
	bool drawn = sim_rng_below(rng, 10) == 0;
	unsigned port = 5000 + (unsigned)sim_rng_below(rng, 1000);
	uint32_t comms = 1 + (uint32_t)sim_rng_below(rng, 3);
	bool six = sim_rng_below(rng, 3) == 0;

	/* families take ids of their own, others would all have their roots at this address */
	bool transient = s->lab.transient && !(s->lab.children && s->lab.drive == LAB_DRIVE_RANK);

	if (!drawn || s->lab.map == LAB_MAP_SEED || transient ||
	    swarm_is_set(s, "NCCL_SOCKET_FAMILY") || s->lab.gpu_sms)
		return;
	/* made in a group, all would have their roots at this address at the same time */
	if (s->lab.group > 1 || s->lab.drive == LAB_DRIVE_PROCESS)
		comms = s->lab.comms = 0;
	s->lab.comms = MAX_OF(s->lab.comms, comms);
	swarm_env(s, "NCCL_COMM_ID=%s:%u", six ? "[fd00::1]" : "10.0.0.1", port);
}

/* NCCL_COMM_BLOCKING, which replaces what the program's config has. Communicators that a program
 * makes beside the series have configs of their own. */
static void swarm_blocking(struct scenario *s, uint64_t seed)
{
	const struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.blocking");
	bool drawn = sim_rng_below(&rng, 10) == 0;

	if (drawn && !s->plan[0] && !c->transient && !c->init_fails && !c->refused && !c->idle &&
	    !c->scenes)
		swarm_env(s, "NCCL_COMM_BLOCKING=%d", !c->nonblocking);
}

/* A run with RAS, which is off otherwise: one seed in 16. */
static void swarm_ras(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.ras");
	bool drawn = sim_rng_below(&rng, 16) == 0;
	uint32_t requests = 1 + (uint32_t)sim_rng_below(&rng, 3);

	if (!drawn)
		return;
	s->lab.ras = requests;
	swarm_env(s, "NCCL_RAS_ENABLE=1");
}

void swarm_programs_after(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.comm_id");
	/* a second communicator would find the address taken where ranks end at different times */
	if (!s->plan[0] || !s->lab.recover)
		swarm_comm_id(s, &rng);
	const bool options = s->lab.options; /* of a focus */

	if (!s->lab.quiet)
		dimensions_draw(s, seed, s->plan[0] ? DIMENSION_FAULTY : DIMENSION_CALM);
	s->lab.options = !s->plan[0] && (s->lab.options || options);
	if (swarm_is_set(s, "NCCL_COMM_ID"))
		s->lab.idle = s->lab.scenes = 0;
	if (s->lab.gpu_sms)
		s->lab.scenes = 0; /* kernels of several communicators run at the same time */
	swarm_blocking(s, seed);
	swarm_ras(s, seed);
}

/* The config of the run's communicator names sockets, in three of four families between hosts with
 * HCAs. These have no such GID, so that each call which connects over them fails: no member of the
 * family may use them. */
void swarm_config_sockets(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.config_sockets");
	bool drawn = sim_rng_below(&rng, 4) != 0;
	bool family = c->transient && c->children && c->hosts > 1 && !s->plan[0] &&
		      c->drive == LAB_DRIVE_RANK;

	if (!drawn || !family || c->idle || c->init_fails || c->scenes || c->plugins ||
	    c->config_version || swarm_has_sockets(s) || swarm_is_set(s, "NCCL_NET=") ||
	    s->expect == SCENARIO_EXPECT_REFUSED)
		return;
	c->config_sockets = true;
	swarm_env(s, "NCCL_IB_GID_INDEX=77");
}

/* Refuses what a capture cannot have: works outside of a kernel's arguments, a call with a deadline
 * of its own. A call that fails by the plan fails the capture, too: only plans that every call
 * survives. */
static bool swarm_graphs_fit(const struct scenario *s)
{
	const struct lab_config *c = &s->lab;
	bool works = swarm_is_set(s, "NCCL_WORK_ARGS_BYTES=0") ||
		     swarm_is_set(s, "NCCL_WORK_ARGS_BYTES=64") ||
		     !strcmp(s->env_odd, "NCCL_WORK_ARGS_BYTES=0");
	bool deadlines = c->options && swarm_is_set(s, "NCCL_RAS_ENABLE=");

	bool fails = s->expect == SCENARIO_EXPECT_REFUSED || c->plugin_fails ||
		     (s->plan[0] && s->expect != SCENARIO_EXPECT_SUCCESS);

	return !fails && !works && !deadlines && c->iterations <= 100 && c->group <= 100;
}

void swarm_graphs(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.graphs");
	bool drawn = sim_rng_below(&rng, 8) == 0;
	uint32_t launches = 1 + (uint32_t)sim_rng_below(&rng, 4);

	if (drawn && swarm_graphs_fit(s))
		s->lab.graph_launches = launches;
}
