/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings that are drawn to fit each other. Features that swarm.c draws one by one come together
 * too rarely where a bug needs four or five of them: an algorithm, a collective that has it,
 * several warps, small slots and sizes that fill them many times. One seed in four has a focus, one
 * way in which data goes between ranks, and everything that this way needs. The rest of the
 * scenario is as the other parts draw it.
 */
#include <string.h>

#include "sim/lab/search/swarm_internal.h"

#define FOCUS_TRAFFIC (4ull << 20) /* ranks x bytes x runs, at most */
#define FOCUS_FILLS   10           /* as much as the slots of a connection hold, at most */
#define FOCUS_FEW     1024ull      /* to 16 KiB */

enum focus_proto { FOCUS_SIMPLE, FOCUS_LL, FOCUS_LL128, FOCUS_PROTOS };

struct focus {
	struct scenario *s;
	struct sim_rng rng;
	uint64_t holds; /* bytes in the slots of a connection; 0: few bytes */
	bool partly;    /* blocks that fill a slot in part, up to two slots */
	uint32_t rows;  /* sizes in a row, larger each time */
};

static uint64_t focus_below(struct focus *f, uint64_t n)
{
	return sim_rng_below(&f->rng, n);
}

static uint64_t focus_from(struct focus *f, uint64_t least, uint64_t most)
{
	ASSERT(least <= most); /* else the range wraps */
	return least + sim_rng_below(&f->rng, most - least + 1);
}

/* ---- parts of a focus ----------------------------------------------------------------------- */

static void focus_one_host(struct focus *f)
{
	struct lab_config *c = &f->s->lab;

	snprintf(f->s->machine, sizeof f->s->machine, "h100-8nic");
	c->hosts = 1;
	c->gpus = (uint32_t)focus_from(f, 2, 5);
	c->host_gpus_n = 0;
	swarm_env(f->s, "NCCL_P2P_DISABLE=0");
}

static void focus_hosts(struct focus *f)
{
	struct lab_config *c = &f->s->lab;

	if (c->hosts > 1)
		return;
	c->hosts = (uint32_t)focus_from(f, 2, 3);
	c->gpus = MIN_OF(c->gpus, 4u);
}

static void focus_collective(struct focus *f, const char *const *names, size_t n)
{
	const char *name = names[focus_below(f, n)];

	f->s->lab.collective = lab_collective_find(name, strlen(name));
	ASSERT(f->s->lab.collective);
}

/* Averages of integers are not divided where sums are. */
static void focus_average(struct focus *f)
{
	if (focus_below(f, 2))
		return;
	f->s->lab.ops[0] = ncclAvg;
	f->s->lab.types[0] = ncclInt32;
}

static void focus_channels(struct focus *f, uint64_t channels)
{
	swarm_env(f->s, "NCCL_MIN_NCHANNELS=%u", (unsigned)channels);
	swarm_env(f->s, "NCCL_MAX_NCHANNELS=%u", (unsigned)channels);
}

/* Small slots of one of the protocols. Lines of LL are half data. */
static void focus_slots(struct focus *f, enum focus_proto proto)
{
	static const struct {
		const char *name, *buffer;
	} of[FOCUS_PROTOS] = {[FOCUS_SIMPLE] = {"Simple", "NCCL_BUFFSIZE"},
			      [FOCUS_LL] = {"LL", "NCCL_LL_BUFFSIZE"},
			      [FOCUS_LL128] = {"LL128", "NCCL_LL128_BUFFSIZE"}};
	uint64_t bytes = 8192ull << focus_below(f, 3);

	ASSERT(proto < FOCUS_PROTOS);
	swarm_env(f->s, "NCCL_PROTO=%s", of[proto].name);
	swarm_env(f->s, "%s=%u", of[proto].buffer, (unsigned)bytes);
	f->holds = proto == FOCUS_LL ? bytes / 2 : bytes;
}

/* The rank's buffer, from full slots on, or up to two slots of eight. */
static void focus_size(struct focus *f)
{
	struct lab_config *c = &f->s->lab;
	uint64_t runs = c->iterations + (c->iterations > 1);
	ASSERT(f->rows > 0 && c->in_place + c->out_of_place > 0);
	uint64_t most = FOCUS_TRAFFIC /
			(lab_ranks(c, NULL) * runs * f->rows * (c->in_place + c->out_of_place));
	uint64_t few = focus_below(f, FOCUS_FEW << focus_below(f, 5));
	uint64_t bytes = f->holds ? f->holds + focus_below(f, f->holds * (FOCUS_FILLS - 1)) : few;

	if (f->partly)
		bytes = focus_below(f, f->holds / 4);

	c->bytes_min = c->bytes_max = MIN_OF(bytes, most);
	c->bytes_step = 1;
	if (f->rows > 1)
		c->bytes_step = 1 + focus_below(f, 4096);
	c->bytes_max += (f->rows - 1) * c->bytes_step;
}

/* ---- the foci ------------------------------------------------------------------------------- */

/* Half of these have many channels, and calls with numbers of channels of their own: more than
 * every two ranks are connected on. */
static void focus_direct(struct focus *f)
{
	static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "reduce",
					    "broadcast"};
	bool many = focus_below(f, 2);

	focus_one_host(f);
	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=%s",
		  focus_below(f, 2) ? "OneShot" : "OneShot;allreduce:TwoShot");
	focus_slots(f, FOCUS_LL);
	if (!many) {
		focus_channels(f, 1);
		return;
	}
	swarm_env(f->s, "NCCL_MIN_NCHANNELS=20");
	swarm_env(f->s, "NCCL_MAX_NCHANNELS=24");
	f->holds *= 2;
	f->s->lab.options = true;
	f->s->lab.iterations = 4;
}

/* A power of two of ranks, on one host or over the network. */
static void focus_doubling(struct focus *f)
{
	static const char *const names[] = {"all_reduce"};
	struct lab_config *c = &f->s->lab;

	snprintf(f->s->machine, sizeof f->s->machine, "h100-8nic");
	c->hosts = 1u << focus_below(f, 3);
	c->gpus = 1u << focus_from(f, c->hosts == 1, c->hosts == 4 ? 1 : 2);
	c->host_gpus_n = 0;
	const uint32_t ranks = c->hosts * c->gpus;

	ASSERT(ranks > 1 && !(ranks & (ranks - 1)));
	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=Ring;allreduce:Doubling");
	focus_slots(f, FOCUS_LL);
	focus_channels(f, 1);
}

/* Hosts with fewer NICs than ranks, which a tree leaves through other ranks. False: not drawn. */
static bool focus_relays(struct focus *f)
{
	struct lab_config *c = &f->s->lab;
	bool few = focus_below(f, 2), two = focus_below(f, 3) == 0;

	if (!few)
		return false;
	snprintf(f->s->machine, sizeof f->s->machine, two ? "h100-2nic" : "a100-4nic");
	c->hosts = (uint32_t)focus_from(f, 2, 4);
	c->gpus = (uint32_t)focus_from(f, 2, c->hosts == 4 ? 3 : 4);
	c->host_gpus_n = 0;
	return true;
}

/* With lines in place one group of threads must not write where another one still reads; a single
 * warp takes both ways in turns. */
static void focus_tree(struct focus *f)
{
	static const char *const names[] = {"all_reduce", "all_reduce", "reduce", "broadcast"};
	enum focus_proto proto = (enum focus_proto)focus_below(f, FOCUS_PROTOS);
	bool turns = proto == FOCUS_SIMPLE && focus_below(f, 2);

	focus_hosts(f);
	bool relays = focus_relays(f);
	focus_collective(f, names, ARRAY_LEN(names));
	focus_average(f);
	swarm_env(f->s, "NCCL_ALGO=Ring;allreduce:Tree;reduce:Tree;broadcast:Tree");
	focus_slots(f, proto);
	swarm_env(f->s, "NCCL_NTHREADS=%u", 32 * (turns ? 1u : (unsigned)focus_from(f, 2, 8)));
	if (!relays || focus_below(f, 2))
		focus_channels(f, 1);
	if (proto != FOCUS_SIMPLE) {
		f->s->lab.in_place = true;
		f->s->lab.out_of_place = false;
	}
}

/* More hosts than a tree of PAT has with one or two levels, in half of its seeds. Their blocks fill
 * the smallest slots many times. */
static bool focus_pat_hosts(struct focus *f)
{
	struct lab_config *c = &f->s->lab;
	bool many = focus_below(f, 2);
	uint32_t hosts = (uint32_t)focus_from(f, 5, 16);

	focus_hosts(f);
	if (!many)
		return false;
	c->hosts = hosts;
	c->gpus = 1;
	c->host_gpus_n = 0;
	c->sim.budget_events = SWARM_BUDGET_EVENTS_MANY;
	c->iterations = 1;
	c->in_place = false;
	c->out_of_place = true;
	return true;
}

/* Blocks of a few warps: each thread of one waits for data or for the credit of several levels. In
 * half of the seeds the blocks of several ranks share a slot. */
static void focus_pat(struct focus *f)
{
	static const char *const names[] = {"all_gather", "reduce_scatter"};

	bool many = focus_pat_hosts(f);
	focus_collective(f, names, ARRAY_LEN(names));
	focus_average(f);
	swarm_env(f->s, "NCCL_ALGO=Ring;allgather:PAT;reducescatter:PAT");
	swarm_env(f->s, "NCCL_PAT_ENABLE=1");
	focus_slots(f, FOCUS_SIMPLE);
	focus_channels(f, 1);
	if (many) {
		f->holds = 8192;
		swarm_env(f->s, "NCCL_BUFFSIZE=8192");
	}
	f->holds *= lab_ranks(&f->s->lab, NULL); /* each rank's block fills its slots */
	f->partly = focus_below(f, 2);
	if (focus_below(f, 4))
		swarm_env(f->s, "NCCL_NTHREADS=%u", 32 * (unsigned)focus_from(f, 1, 4));
}

static void focus_ring(struct focus *f)
{
	static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "reduce",
					    "broadcast"};

	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=Ring");
	focus_slots(f, (enum focus_proto)focus_below(f, FOCUS_PROTOS));
	focus_channels(f, 1);
}

/* Results go into registered outputs of other processes after some calls, when these are mapped. A
 * program that renews its buffers needs sizes to renew them between. */
static void focus_registered(struct focus *f)
{
	static const char *const names[] = {"all_gather", "all_gather", "all_reduce",
					    "all_to_all", "all_to_all", "all_to_all"};
	struct lab_config *c = &f->s->lab;

	focus_one_host(f);
	c->gpus = (uint32_t)focus_from(f, 2, 4);
	c->ranks_per_proc = 1;
	c->drive = LAB_DRIVE_RANK;
	c->local_register = focus_below(f, 2) ? LAB_REGISTER_RENEW : LAB_REGISTER_ONCE;
	c->iterations = (uint32_t)focus_from(f, 3, 6);
	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=Ring");
	focus_slots(f, FOCUS_SIMPLE);
	focus_channels(f, focus_from(f, 1, 2));
	f->rows = 3;
	if (!c->collective->connects)
		return;
	/* messages go straight into outputs, too; each rank renews its buffers in an order of its
	 * own, while others still end what they have of them */
	swarm_env(f->s, "NCCL_BUFFSIZE=8192");
	swarm_env(f->s, "NCCL_CUMEM_ENABLE=1");
	focus_channels(f, focus_from(f, 1, 4)); /* parts of a message begin at any of them */
	f->holds = 8192ull * c->gpus;
	f->rows = 5;
	c->local_register = LAB_REGISTER_RENEW;
	c->iterations = 3;
}

/* The same on two hosts. The rings of several channels leave a host through different ranks: a rank
 * has other next ranks than previous ones. Four ranks of a host are enough for that, with HCAs. A
 * call has so many bytes that it takes all channels. */
static void focus_registered_hosts(struct focus *f)
{
	static const char *const names[] = {"all_gather", "all_reduce"};
	struct lab_config *c = &f->s->lab;
	bool four = focus_below(f, 4) != 0;
	uint32_t gpus = (uint32_t)focus_from(f, 3, 8);

	focus_one_host(f);
	c->hosts = 2;
	c->gpus = four ? 4 : gpus;
	c->ranks_per_proc = 1;
	c->drive = LAB_DRIVE_RANK;
	c->local_register = focus_below(f, 3) ? LAB_REGISTER_ONCE : LAB_REGISTER_RENEW;
	c->map = LAB_MAP_SLOT;
	c->iterations = (uint32_t)focus_from(f, 2, 3);
	c->out_of_place = !c->in_place;
	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=Ring");
	swarm_env(f->s, "DOPPEL_RESULT_BYTES=1");
	focus_slots(f, FOCUS_SIMPLE);
	swarm_env(f->s, "NCCL_CUMEM_ENABLE=1");
	swarm_env(f->s, "NCCL_NET=IB");
	swarm_env(f->s, "NCCL_IB_DISABLE=0");
	focus_channels(f, focus_from(f, 3, 6));
	f->holds *= 8;
}

/* Messages of several parts: some one after the other, or in as many launches as a small FIFO of
 * works makes of them. */
static void focus_messages(struct focus *f)
{
	static const char *const names[] = {"all_to_all", "all_to_all", "gather", "scatter"};
	bool cut = focus_below(f, 2);
	uint64_t channels = cut ? 4ull << focus_below(f, 2) : 2ull << focus_below(f, 3);
	uint64_t parts = cut || focus_below(f, 2) ? channels : 1ull << focus_below(f, 3);
	uint32_t gpus = (uint32_t)focus_from(f, 1, cut ? 3 : 2);

	focus_hosts(f);
	f->s->lab.gpus = MIN_OF(f->s->lab.gpus, gpus);
	f->s->lab.host_gpus_n = 0;
	focus_collective(f, names, ARRAY_LEN(names));
	f->s->lab.iterations = cut ? 1 : 3;
	swarm_env(f->s, "NCCL_ALGO=Ring");
	focus_slots(f, focus_below(f, 6) ? FOCUS_SIMPLE : FOCUS_LL);
	focus_channels(f, channels);
	swarm_env(f->s, "NCCL_NCHANNELS_PER_NET_PEER=%u", (unsigned)parts);
	f->holds *= MIN_OF(channels, parts) * f->s->lab.hosts * f->s->lab.gpus;
	if (cut) {
		swarm_env(f->s, "NCCL_WORK_ARGS_BYTES=0");
		swarm_env(f->s, "NCCL_WORK_FIFO_BYTES=4096");
	}
}

/* Messages between any two of many ranks. Half of these have so many channels that the device gets
 * the connections in several parts. */
static void focus_to_all(struct focus *f)
{
	static const char *const names[] = {"all_to_all", "all_to_all", "gather", "scatter"};
	bool parts = focus_below(f, 2);

	focus_one_host(f);
	f->s->lab.gpus = (uint32_t)focus_from(f, 5, 8);
	focus_collective(f, names, parts ? 2 : ARRAY_LEN(names));
	f->s->lab.iterations = 1;
	focus_channels(f, parts ? 16 : focus_from(f, 1, 4));
}

/* Relays from which several ranks of a host request room at the same time, for several channels. */
static void focus_requests(struct focus *f)
{
	static const char *const names[] = {"all_to_all"};
	struct lab_config *c = &f->s->lab;
	uint64_t parts = focus_from(f, 2, 4);

	snprintf(f->s->machine, sizeof f->s->machine, "h100-8nic");
	c->hosts = 2;
	c->gpus = (uint32_t)MIN_OF(focus_from(f, 4, 8), focus_from(f, 4, 8));
	c->host_gpus_n = 0;
	if (focus_below(f, 3)) {
		c->ranks_per_proc = 1;
		c->drive = LAB_DRIVE_RANK;
	}
	focus_collective(f, names, ARRAY_LEN(names));
	c->iterations = 1;
	if (swarm_is_set(f->s, "NCCL_ALGO=OneShot")) /* it is for ranks of one host */
		swarm_env(f->s, "NCCL_ALGO=Ring");
	if (swarm_is_set(f->s, "NCCL_NSOCKS_PERTHREAD=30")) /* too many descriptors for all pairs */
		swarm_env(f->s, "NCCL_NSOCKS_PERTHREAD=3");
	swarm_env(f->s, "DOPPEL_PXN_CONNECTIONS=%u", (unsigned)focus_from(f, 2, 16));
	swarm_env(f->s, "NCCL_P2P_PXN_LEVEL=2");
	focus_channels(f, parts);
	swarm_env(f->s, "NCCL_NCHANNELS_PER_NET_PEER=%u", (unsigned)parts);
}

/* Sockets that share slices: those are long. */
static void focus_sockets(struct focus *f)
{
	static const char *const names[] = {"all_reduce", "broadcast", "reduce", "all_to_all"};

	focus_hosts(f);
	f->s->lab.gpus = MIN_OF(f->s->lab.gpus, 2u);
	f->s->lab.host_gpus_n = 0;
	focus_collective(f, names, ARRAY_LEN(names));
	swarm_env(f->s, "NCCL_ALGO=Ring");
	swarm_env(f->s, "NCCL_NET=Socket");
	swarm_env(f->s, "NCCL_SOCKET_NTHREADS=%u", (unsigned)focus_from(f, 1, 3));
	/* at most 64 sockets, and as many for each task */
	swarm_env(f->s, "NCCL_NSOCKS_PERTHREAD=%u",
		  focus_below(f, 5) ? (unsigned)focus_from(f, 1, 3) : 30u);
	swarm_env(f->s, "NCCL_PROTO=Simple");
	swarm_env(f->s, "NCCL_BUFFSIZE=%u", 4u << 20);
	focus_channels(f, 1);
	f->holds = 256 << 10;
}

void swarm_focus(struct scenario *s, uint64_t seed)
{
	static void (*const foci[])(struct focus * f) = {
		focus_direct,  focus_tree,       focus_pat,        focus_ring,     focus_messages,
		focus_sockets, focus_registered, focus_registered, focus_doubling, focus_to_all,
		focus_to_all,  focus_requests,   focus_requests};
	struct focus f = {.s = s, .rows = 1};

	sim_rng_seed(&f.rng, seed, "swarm.focus_hosts");
	bool hosts = focus_below(&f, 28) == 0;

	sim_rng_seed(&f.rng, seed, "swarm.focus");
	if (focus_below(&f, 4) && !hosts)
		return;
	s->lab.warp_width = 1;
	if (hosts)
		focus_registered_hosts(&f);
	else
		foci[focus_below(&f, ARRAY_LEN(foci))](&f);
	focus_size(&f);
	s->lab.sim.races = focus_below(&f, 4) == 0;
}

void swarm_doubling_fits(struct scenario *s)
{
	struct lab_config *c = &s->lab;

	if (!swarm_is_set(s, "NCCL_ALGO=Ring;allreduce:Doubling"))
		return;
	c->transient = c->init_fails = c->idle = 0;
	c->recover = false;
}

/* Send and receive round the ranks, one in 16 seeds: by draws of their own, so that the others
 * stay. */
void swarm_messages(struct scenario *s, uint64_t seed)
{
	static const char name[] = "send_recv";
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.messages");
	bool messages = sim_rng_below(&rng, 16) == 0, before = sim_rng_below(&rng, 4) == 0;
	const struct lab_collective **to = before ? &s->lab.before : &s->lab.collective;

	if (!messages)
		return;
	*to = lab_collective_find(name, sizeof name - 1);
	ASSERT(*to && (*to)->connects); /* as swarm_has_messages finds it */
}
