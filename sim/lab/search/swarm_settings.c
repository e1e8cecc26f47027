/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variables that the swarm draws one by one: a row each. A row names the share of seeds that have
 * it, its values, and the worlds that it belongs to. Each row has a random stream of its own, so
 * that a new row leaves the draws of the others as they are.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/lab/search/swarm_internal.h"
#include "sim/world/world.h"

/* The world that a row belongs to: all of these. */
enum setting_world {
	SETTING_HOSTS = 1,       /* several hosts */
	SETTING_HCAS = 2,        /* several hosts, connected by HCAs */
	SETTING_SOCKETS = 4,     /* several hosts, connected by sockets */
	SETTING_MESSAGES = 8,    /* messages between two ranks */
	SETTING_ONE_PROCESS = 16 /* all ranks of a host in one process */
};

struct setting {
	const char *name;
	const char *values; /* separated by '|'; a value may be listed twice */
	uint32_t one_of;    /* one seed in so many */
	uint32_t world;
	const char *with;    /* belongs to scenarios that have this variable, or this assignment */
	const char *without; /* to those that do not have it */
};

/* A row may name those before it. */
static const struct setting setting_rows[] = {
	/* the choices that the doubles had by themselves: rings in SIMPLE, few channels */
	{"NCCL_ALGO", "Ring", 4, 0, NULL, "NCCL_ALGO="},
	{"NCCL_PROTO", "Simple", 4, 0, NULL, "NCCL_PROTO="},
	{"NCCL_MAX_NCHANNELS", "1|2|2|4", 3, 0, NULL, "NCCL_M"},
	/* the least that a ring writes directly into outputs; by default no seed has as much */
	{"DOPPEL_RESULT_BYTES", "1|1|1|4096", 2, 0, NULL, NULL},
	{"NCCL_NET_GDR_LEVEL", "LOC", 6, 0, NULL, NULL},
	{"NCCL_CROSS_NIC", "0|1|2", 6, 0, NULL, NULL},
	{"DOPPEL_TOPO_NETWORK", "1", 8, SETTING_HOSTS, NULL, NULL},
	{"NCCL_SHM_DISABLE", "1", 4, 0, NULL, NULL},
	{"NCCL_P2P_DIRECT_DISABLE", "1", 4, SETTING_ONE_PROCESS, NULL, NULL},
	{"NCCL_CUMEM_ENABLE", "0", 3, 0, NULL, "NCCL_CUMEM_ENABLE="},
	{"NCCL_CUMEM_HOST_ENABLE", "1", 3, 0, NULL, "NCCL_SHM_DISABLE="},
	/* processes of a host that share no /dev/shm, as in containers */
	{"DOPPEL_HOST_SHM", "process", 12, 0, NULL, "NCCL_SHM_DISABLE="},
	/* messages over the network: their channels, and the relays that they leave a host by */
	{"NCCL_NCHANNELS_PER_NET_PEER", "1|2|3|4|5|6|7|8", 4, SETTING_HOSTS | SETTING_MESSAGES,
	 NULL, "NCCL_NCHANNELS_PER_NET_PEER="},
	{"NCCL_P2P_PXN_LEVEL", "0|1", 4, SETTING_HOSTS | SETTING_MESSAGES, NULL,
	 "NCCL_P2P_PXN_LEVEL="},
	{"DOPPEL_PXN_CONNECTIONS", "0|1|2|3|4", 6, SETTING_HOSTS | SETTING_MESSAGES, NULL,
	 "NCCL_P2P_PXN_LEVEL="},
	/* the family is that of the bootstrap, too */
	{"NCCL_SOCKET_FAMILY", "AF_INET6", 8, SETTING_HOSTS, NULL, NULL},
	{"NCCL_NET", "Socket", 8, SETTING_HOSTS, NULL, "NCCL_NET="},
	{"NCCL_SOCKET_NTHREADS", "0|1|2|3", 3, SETTING_SOCKETS, NULL, "NCCL_SOCKET_NTHREADS="},
	{"NCCL_NSOCKS_PERTHREAD", "1|2|3|4", 2, SETTING_SOCKETS,
	 "NCCL_SOCKET_NTHREADS=", "NCCL_NSOCKS_PERTHREAD="},
	/* more than NCCL's limit for a connection; with many channels a process has no descriptors
	 * for that */
	{"NCCL_NSOCKS_PERTHREAD", "30", 4, SETTING_SOCKETS,
	 "NCCL_MAX_NCHANNELS=", "NCCL_NSOCKS_PERTHREAD="},
	/* HCAs that are named: no socket replaces them where none is found. The draw is that of the
	 * row above, whose eighth is a half of this quarter */
	{"NCCL_NET", "IB", 4, SETTING_HCAS, NULL, "NCCL_NET="},
	{"NCCL_IB_HCA",
	 "mlx5_0:1,mlx5_1:2|=mlx5_0|=mlx5_0:1|=mlx5_0,mlx5:1|=mlx5_1:2,mlx5_0:1|^mlx5_0:2|^=mlx5:1|"
	 "^=mlx5_1:1",
	 1, SETTING_HCAS, "NCCL_NET=IB", NULL},
	/* how an HCA registers memory of a GPU, and orders its writes to it */
	{"DOPPEL_GPU_RDMA", "dmabuf|peermem|none", 5, SETTING_HCAS, NULL, NULL},
	{"NCCL_DMABUF_ENABLE", "0", 16, SETTING_HCAS, NULL, NULL},
	{"NCCL_IB_PCI_RELAXED_ORDERING", "0", 4, SETTING_HCAS, NULL, NULL},
	/* packets overtake each other, with and without the stack's knowledge */
	{"DOPPEL_HCA_ROUTING", "adaptive", 4, SETTING_HCAS, NULL, NULL},
	{"NCCL_IB_ADAPTIVE_ROUTING", "0|1", 2, SETTING_HCAS, NULL, NULL},
	{"NCCL_IB_AR_THRESHOLD", "256", 2, SETTING_HCAS, "NCCL_IB_ADAPTIVE_ROUTING=1", NULL},
	{"NCCL_IB_QPS_PER_CONNECTION", "2|3|4", 6, SETTING_HCAS, NULL, NULL},
	{"NCCL_IB_SPLIT_DATA_ON_QPS", "1", 2, SETTING_HCAS, "NCCL_IB_QPS_PER_CONNECTION=", NULL},
	/* data that an acknowledge makes visible at the far end, where the memory order is drawn */
	{"DOPPEL_HCA_ORDER", "acknowledge|completion|draw", 1, 0, NULL, NULL},
};

static uint32_t setting_world(const struct scenario *s)
{
	uint32_t world = swarm_has_messages(s) ? SETTING_MESSAGES : 0;

	if (s->lab.ranks_per_proc == LAB_ALL_RANKS)
		world |= SETTING_ONE_PROCESS;
	if (s->lab.hosts > 1)
		world |= SETTING_HOSTS | (swarm_has_sockets(s) ? SETTING_SOCKETS : SETTING_HCAS);
	return world;
}

enum { SETTING_DRAWS = 840 }; /* divisible by each number of values, from 1 to 8 */

/* The k-th of the values, modulo their number. */
static const char *setting_value(const struct setting *row, uint64_t k, size_t *bytes)
{
	const char *at = row->values;
	uint64_t n = 1;

	for (const char *c = at; *c; c++)
		n += *c == '|';
	ASSERT(SETTING_DRAWS % n == 0); /* each value has the same share of the seeds */
	for (k %= n; k; k--)
		at = strchr(at, '|') + 1;
	*bytes = strcspn(at, "|");
	return at;
}

void swarm_settings(struct scenario *s, uint64_t seed)
{
	char stream[SCENARIO_ENV_BYTES];
	struct sim_rng rng;
	size_t bytes;

	for (size_t i = 0; i < ARRAY_LEN(setting_rows); i++) {
		const struct setting *row = &setting_rows[i];

		snprintf(stream, sizeof stream, "swarm.%s", row->name);
		sim_rng_seed(&rng, seed, stream);
		bool drawn = sim_rng_below(&rng, row->one_of) == 0;
		const char *value = setting_value(row, sim_rng_below(&rng, SETTING_DRAWS), &bytes);

		if (drawn && (setting_world(s) & row->world) == row->world &&
		    (!row->with || swarm_is_set(s, row->with)) &&
		    (!row->without || !swarm_is_set(s, row->without)))
			swarm_env(s, "%s=%.*s", row->name, (int)bytes, value);
	}
}

/* ---- descriptors ----------------------------------------------------------------------------- */

enum {
	SWARM_LANES_MOST = 64,   /* the stack's limit */
	SWARM_PAIR_CHANNELS = 2, /* the stack's default */
	SWARM_COMMS_MOST = 4,    /* a transient one, too; the plan of faults changes the number */
};

/* The value of a variable; `otherwise` if it is not set. */
static uint64_t setting_number(const struct scenario *s, const char *start, uint64_t otherwise)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], start, strlen(start)) == 0)
			return strtoull(s->env[i] + strlen(start), NULL, 10);
	return otherwise;
}

/* Sockets of a connection: the data's, and one for control. */
static uint64_t setting_sockets(const struct scenario *s)
{
	uint64_t threads = MAX_OF(setting_number(s, "NCCL_SOCKET_NTHREADS=", 0), 1ull);
	uint64_t each = setting_number(s, "NCCL_NSOCKS_PERTHREAD=", 1);

	return MIN_OF(threads * each, (uint64_t)SWARM_LANES_MOST) + 1;
}

/* The most ranks that a process of the scenario has. */
static uint64_t setting_process_ranks(const struct scenario *s)
{
	const struct lab_config *c = &s->lab;
	uint32_t most = c->host_gpus_n ? 0 : c->gpus;

	for (uint32_t h = 0; h < c->host_gpus_n; h++)
		most = MAX_OF(most, c->host_gpus[h]);
	return MIN_OF(most, c->ranks_per_proc);
}

/* The most descriptors that connections of messages between all ranks need in a process. A rank has
 * both ends of two directions, with each other rank. */
static uint64_t setting_descriptors(const struct scenario *s)
{
	uint64_t peers = lab_ranks(&s->lab, NULL) - 1;
	uint64_t pair = setting_number(s, "NCCL_NCHANNELS_PER_NET_PEER=", SWARM_PAIR_CHANNELS);
	uint64_t channels = setting_number(s, "NCCL_MAX_NCHANNELS=", pair);
	uint64_t rank = peers * 2 * MIN_OF(pair, channels) * setting_sockets(s);

	return setting_process_ranks(s) * rank * SWARM_COMMS_MOST;
}

void swarm_descriptors_fit(struct scenario *s)
{
	bool messages = swarm_has_messages(s) || s->lab.mixed;

	if (messages && swarm_is_set(s, "NCCL_NSOCKS_PERTHREAD=30") &&
	    setting_descriptors(s) > WORLD_DESCRIPTORS)
		swarm_env(s, "NCCL_NSOCKS_PERTHREAD=3");
}

/* Registered buffers, one time in six, and half of the time where messages are sent: those of ranks
 * of a host that are processes of their own go straight into them. Half of these renew the
 * buffers. */
void swarm_local_register(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.local_register");
	bool any = sim_rng_below(&rng, 6) == 0, renews = sim_rng_below(&rng, 2) == 0;
	bool messages = sim_rng_below(&rng, 2) == 0;

	if (!any && !(messages && swarm_has_messages(s)))
		return;
	s->lab.local_register = renews ? LAB_REGISTER_RENEW : LAB_REGISTER_ONCE;
	if (!swarm_has_messages(s))
		return;
	if (!s->lab.host_gpus_n && s->lab.gpus > 1 && s->lab.drive == LAB_DRIVE_RANK)
		s->lab.ranks_per_proc = 1;
	s->lab.iterations = MAX_OF(s->lab.iterations, 2u);
}

static bool setting_has_processes(const struct scenario *s)
{
	return s->lab.hosts > 1 || (s->lab.ranks_per_proc == 1 && s->lab.gpus > 1);
}

/* Every other process has no windows, one time in four, beginning with the first one or with the
 * second: no rank may use any. */
static void swarm_odd_windows(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.odd_windows");
	bool drawn = sim_rng_below(&rng, 4) == 0, first = sim_rng_below(&rng, 2);

	if (!drawn || s->lab.local_register != LAB_REGISTER_WINDOW || !setting_has_processes(s) ||
	    s->expect == SCENARIO_EXPECT_REFUSED)
		return;
	if (first)
		swarm_env(s, "NCCL_WIN_ENABLE=0");
	snprintf(s->env_odd, sizeof s->env_odd, "NCCL_WIN_ENABLE=%d", first);
}

/* Registered buffers are windows instead, one time in three if the ranks of each host have direct
 * access to each other. On one host all buffers are, one time in four, and programs on windows may
 * run. With faults, accesses are not compared there: the stream of a rank that gives up reads its
 * buffer while a peer's kernel still stores to it, and the data is undefined. */
void swarm_windows(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.windows");
	bool drawn = sim_rng_below(&rng, 3) == 0, all = sim_rng_below(&rng, 4) == 0;
	/* the GPUs of pcie-4gpu are below two root complexes */
	bool direct = !strstr(s->machine, "pcie-4gpu") && !swarm_is_set(s, "NCCL_P2P_DISABLE=1") &&
		      !swarm_is_set(s, "NCCL_P2P_LEVEL=");

	all = all && direct && s->lab.hosts == 1;
	if (all || (drawn && direct && s->lab.local_register))
		s->lab.local_register = LAB_REGISTER_WINDOW;
	swarm_odd_windows(s, seed);
	if (s->lab.local_register == LAB_REGISTER_WINDOW && scenario_has_faults(s))
		s->lab.sim.races = false;
	if (all && swarm_is_set(s, "NCCL_ALGO=") && s->expect != SCENARIO_EXPECT_REFUSED)
		swarm_env(s, "NCCL_ALGO=Symmetric,Ring");
}

/* Hosts detect their topology, one time in 16, in small worlds one in 4. A plan may let NVML fail:
 * GPUs whose NVLinks it does not give may have no way to each other's memory, so the ring is
 * allowed beside what needs one. */
void swarm_detection(struct scenario *s, uint64_t seed, bool small)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.detection");
	bool detects = sim_rng_below(&rng, small ? 4 : 16) == 0;

	if (!detects || swarm_is_set(s, "NCCL_TOPO_FILE="))
		return;
	swarm_env(s, "NCCL_TOPO_FILE=");
	if (swarm_is_set(s, "NCCL_ALGO=OneShot"))
		swarm_env(s, "NCCL_ALGO=OneShot,Ring;allreduce:TwoShot,Ring");
}

/* Two values of a variable that must be the same on all ranks. */
static const struct setting_pair {
	const char *name, *one, *other;
	bool hosts; /* refused between hosts with working HCAs alone */
} setting_pairs[] = {
	{"NCCL_NCHANNELS_PER_NET_PEER", "1", "2", false},
	{"NCCL_P2P_LL_THRESHOLD", "0", "65536", false},
	{"DOPPEL_P2P_LL128_THRESHOLD", "0", "65536", false},
	{"NCCL_BUFFSIZE", "8192", "32768", false},
	{"NCCL_LL_BUFFSIZE", "8192", "32768", false},
	{"NCCL_LL128_BUFFSIZE", "8192", "65536", false},
	{"NCCL_MAX_P2P_NCHANNELS", "1", "2", false},
	{"NCCL_ALGO", "Ring", "Tree", false},
	{"NCCL_ALGO", "Ring", "OneShot", false},
	{"NCCL_PROTO", "Simple", "LL", false},
	{"NCCL_PROTO", "LL", "LL128", false},
	{"NCCL_PAT_ENABLE", "0", "1", false},
	{"NCCL_NET", "Carrier", "Socket", false},
	{"NCCL_NET", "Socket", "IB", true},
};

static bool setting_pair_fits(const struct scenario *s, const struct setting_pair *p)
{
	return !p->hosts ||
	       (s->lab.hosts > 1 && !swarm_has_sockets(s) && !swarm_is_set(s, "DOPPEL_HCA_LINK"));
}

/* An algorithm that the ranks cannot run is the only one for the collective, in one of four worlds
 * of contradictions: the inits succeed, and each rank's call is refused. */
static bool swarm_cannot_run(struct scenario *s, uint64_t seed)
{
	static const char *const algorithms[] = {"Doubling", "Doubling", "OneShot", "CollNetChain"};
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.cannot_run");
	bool drawn = sim_rng_below(&rng, 4) == 0;
	const char *name = algorithms[sim_rng_below(&rng, ARRAY_LEN(algorithms))];
	uint32_t ranks = lab_ranks(c, NULL);
	bool power = !(ranks & (ranks - 1));

	if (!drawn || ranks < 2 || (power && name[0] == 'D') || (c->hosts == 1 && name[0] == 'O'))
		return false;
	c->collective = lab_collective_find("all_reduce", strlen("all_reduce"));
	c->bytes_min = MAX_OF(c->bytes_min, 64ull); /* a call without elements runs nothing */
	c->bytes_max = MAX_OF(c->bytes_max, c->bytes_min);
	c->root = 0;
	c->before = NULL;
	c->scenes = c->mixed = c->refused = c->queries = c->ras = c->suspends = 0;
	c->options = c->children = c->nonblocking = false;
	c->graph_launches = 0;
	s->env_odd[0] = '\0';
	swarm_env(s, "NCCL_ALGO=Ring;allreduce:%s", name);
	swarm_env(s, "NCCL_PROTO=^LL128");
	s->expect = SCENARIO_EXPECT_REFUSED;
	return true;
}

/* Every other process may use only HCAs or ports that its host lacks, in one of four worlds of
 * contradictions between hosts. Each HCA has one port. */
static bool swarm_no_hca(struct scenario *s, uint64_t seed)
{
	static const char *const lists[] = {"mlx5_0:2", "mlx5:2",     "=mlx5",
					    "mlx4",     "=mlx5:1",    "=mlx5_0:2,mlx5_1:3",
					    "^mlx5",    "^mlx5,mlx4", "^mlx5:1,=mlx5:1"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.no_hca");
	bool drawn = sim_rng_below(&rng, 4) == 0;
	const char *list = lists[sim_rng_below(&rng, ARRAY_LEN(lists))];

	if (!drawn || s->lab.hosts == 1 || swarm_has_sockets(s))
		return false;
	swarm_env(s, "NCCL_NET=IB");
	swarm_env(s, "NCCL_IB_HCA=mlx5");
	snprintf(s->env_odd, sizeof s->env_odd, "NCCL_IB_HCA=%s", list);
	s->expect = SCENARIO_EXPECT_REFUSED;
	return true;
}

/* The two ends of a connection have different queue pairs, in half of the rest between hosts. A
 * process has all ranks of its host, so that the ring has a connection between different ones. */
static bool swarm_queue_pairs(struct scenario *s, uint64_t seed)
{
	static const struct {
		const char *name;
		unsigned one, other;
		unsigned qps; /* of a connection, where they are the same; 0: any */
	} pairs[] = {
		{"NCCL_IB_QPS_PER_CONNECTION", 1, 2, 0},
		{"NCCL_IB_SPLIT_DATA_ON_QPS", 0, 1, 2},
		{"NCCL_IB_SPLIT_DATA_ON_QPS", 0, 1, 3},
		{"NCCL_IB_RESILIENCY_PORT_FAILOVER", 0, 1, 0},
	};
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.queue_pairs");
	bool drawn = sim_rng_below(&rng, 2) == 0, swapped = sim_rng_below(&rng, 2);
	uint64_t k = sim_rng_below(&rng, ARRAY_LEN(pairs));
	unsigned one = pairs[k].one, other = pairs[k].other;

	if (!drawn || c->hosts == 1 || (c->gpus > 1 && c->ranks_per_proc != LAB_ALL_RANKS) ||
	    swarm_has_sockets(s) || swarm_is_set(s, "NCCL_IB_DISABLE"))
		return false;
	/* without an element for each rank, calls connect nothing */
	c->bytes_min = MAX_OF(c->bytes_min, 64ull * lab_ranks(c, NULL));
	c->bytes_max = MAX_OF(c->bytes_max, c->bytes_min);
	swarm_env(s, "NCCL_NET=IB");
	if (!swarm_is_set(s, "NCCL_PXN_DISABLE="))
		swarm_env(s, "NCCL_PXN_DISABLE=1"); /* only relays might learn of the cause */
	if (pairs[k].qps)
		swarm_env(s, "NCCL_IB_QPS_PER_CONNECTION=%u", pairs[k].qps);
	swarm_env(s, "%s=%u", pairs[k].name, swapped ? other : one);
	snprintf(s->env_odd, sizeof s->env_odd, "%s=%u", pairs[k].name, swapped ? one : other);
	s->expect = SCENARIO_EXPECT_REFUSED;
	return true;
}

/* Settings that contradict each other, one seed in 20 of those without faults, and side worlds
 * of that kind: every init must fail, and a rank must report the contradiction. */
void swarm_contradiction(struct scenario *s, uint64_t seed, bool always)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.contradiction");
	bool drawn = sim_rng_below(&rng, 20) == 0 || always, swapped = sim_rng_below(&rng, 2);
	const struct setting_pair *p =
		&setting_pairs[sim_rng_below(&rng, ARRAY_LEN(setting_pairs))];

	if (!drawn || s->plan[0] || !setting_has_processes(s) || swarm_is_set(s, "NCCL_COMM_ID") ||
	    swarm_is_set(s, "NCCL_COMM_BLOCKING=0"))
		return;
	if (!swarm_cannot_run(s, seed) && !swarm_no_hca(s, seed) && !swarm_queue_pairs(s, seed)) {
		if (!setting_pair_fits(s, p))
			return;
		ASSERT(strcmp(p->one, p->other) != 0);
		swarm_env(s, "%s=%s", p->name, swapped ? p->other : p->one);
		snprintf(s->env_odd, sizeof s->env_odd, "%s=%s", p->name,
			 swapped ? p->one : p->other);
		s->expect = SCENARIO_EXPECT_REFUSED;
	}
	c->nonblocking = false; /* its init is waited for until another rank fails */
	c->comms = 0;           /* an init that is never called is reported to no root */
	c->init_fails = c->transient = c->idle = 0;
}

/* HCAs that are not as the specification wants them, one time in eight. Not rxe among faults: it
 * waits for a dead peer without end. */
void swarm_hcas(struct scenario *s, uint64_t seed)
{
	static const char *const kinds[] = {"mlx5", "mlx5-ib", "rxe", "spec,mlx5", "mlx5,rxe"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.hcas");
	bool others = sim_rng_below(&rng, 8) == 0;
	const char *kind = kinds[sim_rng_below(&rng, ARRAY_LEN(kinds))];
	if (others && !(s->plan[0] && strstr(kind, "rxe")))
		swarm_env(s, "DOPPEL_HCA_PERSONALITY=%s", kind);
}
