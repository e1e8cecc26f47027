/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scenario from a seed. Swarm testing (Groce et al.): leaving features out at random finds more
 * than having all of them on in every run, so each part first draws whether it exists at all. The
 * worlds are small on purpose: those of 1 to 16 ranks show what large ones do, a hundred
 * times a second.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/search/swarm_internal.h"

#define SWARM_BUDGET_EVENTS 8000000ull /* without progress: a partition of a second is 2 million */

#define SWARM_BUFFER        (4ull << 20) /* the stack's, where nothing is set */
#define SWARM_TRAFFIC       (2ull << 20) /* ranks x bytes x sizes x runs, at most */
#define SWARM_TRAFFIC_LARGE (8ull << 20)
#define SWARM_SMALL         (4ull << 10)
#define SWARM_WRAPS         8 /* buffers full, at most */
#define SWARM_WRAPS_LARGE   16

uint64_t swarm_one_of(struct sim_rng *rng, const uint64_t *values, size_t n)
{
	return values[sim_rng_below(rng, n)];
}

void swarm_env(struct scenario *s, const char *fmt, ...)
{
	char text[SCENARIO_ENV_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	int rc = scenario_set_env(s, text);
	ASSERT(rc == 0);
}

bool swarm_is_set(const struct scenario *s, const char *name)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strncmp(s->env[i], name, strlen(name)) == 0)
			return true;
	return false;
}

/* A power of two, then anything below it: as many sizes of 10 B as of 10 KiB. One in 8 is that
 * power itself: slices of whole KiB. Large sizes have no less than 256 KiB. */
static uint64_t swarm_bytes(struct sim_rng *rng, uint64_t most, bool large)
{
	uint64_t shift = sim_rng_below(rng, 21);
	uint64_t ceiling = 1ull << (large ? 18 + shift % 4 : shift);
	bool exact = sim_rng_below(rng, 8) < (large ? 4 : 1);

	while (exact && ceiling > most)
		ceiling /= 2;
	uint64_t bytes = sim_rng_below(rng, MIN_OF(ceiling, most) + 1);
	return exact ? ceiling : large ? MIN_OF(ceiling, most) - bytes / 2 : bytes;
}

/* Limits the bytes that a run moves: 2 MiB (two ranks, once), or less. Without this bound one seed
 * in 40 takes half of a campaign's time, for more rounds of what 64 KiB show. One in 32 may move
 * more, of those that send messages one in 8. */
static uint64_t swarm_bytes_most(const struct lab_config *c, uint64_t rows, uint64_t buffer,
				 bool large)
{
	uint64_t ranks = lab_ranks(c, NULL), runs = c->iterations + (c->iterations > 1);
	uint64_t places = c->in_place + c->out_of_place;
	uint64_t most =
		(large ? SWARM_TRAFFIC_LARGE : SWARM_TRAFFIC) / (ranks * rows * runs * places);

	ASSERT(ranks * rows * runs * places > 0);
	if (c->warp_width == 32) /* 32 fibers a warp */
		most = MIN_OF(most, 4ull << 10);
	/* small buffers: that they wrap some times is what they are for */
	return MIN_OF(most, buffer * (large ? SWARM_WRAPS_LARGE : SWARM_WRAPS));
}

/* Two types with two operations, of few bytes. */
static void swarm_more_types(struct lab_config *c, ncclDataType_t type, ncclRedOp_t op)
{
	ASSERT(c->type_count == 1 && c->op_count == 1);
	if (type != c->types[0])
		c->types[c->type_count++] = type;
	if (op != c->ops[0])
		c->ops[c->op_count++] = op;
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
	bool several = sim_rng_below(&rng, 6) == 0;
	uint64_t type = sim_rng_below(&rng, LAB_MAX_TYPES), op = sim_rng_below(&rng, LAB_MAX_OPS);
	c->iterations = (uint32_t)swarm_one_of(&rng, (uint64_t[]){1, 1, 1, 1, 2, 3}, 6);
	place = sim_rng_below(&rng, 6);
	c->out_of_place = place != 1 && place != 2;
	c->in_place = place <= 2; /* 0: both */
	bool large = sim_rng_below(&rng, c->collective->connects ? 8 : 32) == 0;
	/* a line of 8 bytes costs as much as a slot; long messages do not go in lines */
	if (swarm_is_set(s, "NCCL_PROTO=LL") && !c->collective->connects)
		large = false;
	c->bytes_min = swarm_bytes(&rng, swarm_bytes_most(c, rows, buffer, large), large);
	/* what one channel carries, not the sum of many */
	if (large && c->collective->connects && !swarm_is_set(s, "NCCL_MAX_NCHANNELS="))
		swarm_env(s, "NCCL_MAX_NCHANNELS=1");
	c->bytes_max = c->bytes_min;
	c->factor = 0;
	c->bytes_step = 1;
	if (rows == 3) {
		c->bytes_step = 1 + sim_rng_below(&rng, 4096);
		c->bytes_max += 2 * c->bytes_step;
	}
	if (several && rows == 1 && c->bytes_max <= SWARM_SMALL)
		swarm_more_types(c, (ncclDataType_t)type, (ncclRedOp_t)op);
}

/* Half of the seeds run the first collective, the others any of the rest; one in six runs another
 * one before it. */
static void swarm_collective(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.collective");
	bool other = sim_rng_below(&rng, 2);
	uint64_t which = other ? 1 + sim_rng_below(&rng, LAB_COLLECTIVES_OF_NCCL - 1) : 0;
	bool two = sim_rng_below(&rng, 6) == 0;
	uint64_t before = sim_rng_below(&rng, LAB_COLLECTIVES_OF_NCCL);

	s->lab.collective = &lab_collectives[which];
	if (two)
		s->lab.before = &lab_collectives[before];
	swarm_messages(s, seed);
}

/* A collective from all roots leaves all connections of a ring at the same step. After it comes
 * one run, and the world is two ranks of one host half of the time: more runs make up for steps
 * that are left out. */
static void swarm_all_roots(struct scenario *s, bool two)
{
	struct lab_config *c = &s->lab;

	c->root = LAB_ALL_ROOTS;
	c->iterations = 1;
	c->in_place = false;
	c->out_of_place = true;
	c->bytes_max = c->bytes_min;
	c->group = c->comms = 0;
	if (!two)
		return;
	s->machine[strcspn(s->machine, ",")] = '\0';
	c->hosts = 1;
	c->gpus = 2;
	c->host_gpus_n = 0;
}

/* One of the ranks that there are at the end. All of them, half of the seeds in which few ranks run
 * a collective with a root before another one. */
static void swarm_root(struct scenario *s, uint64_t seed)
{
	const uint32_t ranks = lab_ranks(&s->lab, NULL);
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.root");
	if (!scenario_has_root(s))
		return;
	s->lab.root = (int32_t)sim_rng_below(&rng, ranks);
	bool all = sim_rng_below(&rng, 2), two = sim_rng_below(&rng, 2);
	if (all && ranks <= 4 && s->lab.before && lab_collective_has_root(s->lab.before) &&
	    !lab_collective_has_root(s->lab.collective))
		swarm_all_roots(s, two);
}

/* Settings that others depend on. Returns the size of the stack's buffers. */
static uint64_t swarm_buffers(struct scenario *s, uint64_t seed)
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
	bool p2p = sim_rng_below(&rng, 6) != 0, segments;
	(void)swarm_is_early(seed, &segments);
	if (!p2p || segments)
		swarm_env(s, "NCCL_P2P_DISABLE=1");
	if (sim_rng_below(&rng, 12) == 0) { /* works lie in a FIFO that is soon full */
		swarm_env(s, "NCCL_WORK_ARGS_BYTES=0");
		swarm_env(s, "NCCL_WORK_FIFO_BYTES=4096");
	}
	return bytes;
}

/* Every two ranks of one host are connected for most of its runs of LL, where p2p connects them.
 * Half of these run so whatever their size is: the model takes the ring for large ones. */
static void swarm_algorithm(struct scenario *s, struct sim_rng *rng)
{
	static const char *const lists[] = {
		"NCCL_ALGO=Ring", "NCCL_ALGO=OneShot,Ring;allreduce:TwoShot,Ring",
		"NCCL_ALGO=OneShot", "NCCL_ALGO=OneShot;allreduce:TwoShot"};
	/* the GPUs of pcie-4gpu are below two root complexes */
	bool p2p = strcmp(s->machine, "pcie-4gpu") && !swarm_is_set(s, "NCCL_P2P_DISABLE=1");

	ASSERT(s->lab.hosts == 1); /* OneShot and TwoShot are for ranks of one host */
	swarm_env(s, "%s", lists[sim_rng_below(rng, p2p ? ARRAY_LEN(lists) : 2)]);
}

/* One seed in four runs protocol LL and one in eight LL128, half of these with small buffers of it;
 * half of all run SIMPLE; the others what is chosen without NCCL_PROTO. Half of the worlds of one
 * host run LL. Returns the size of the buffers that the collective goes through. */
static uint64_t swarm_protocol(struct scenario *s, uint64_t seed, uint64_t buffer)
{
	static const uint64_t lines[] = {4 << 10, 16 << 10, 64 << 10};
	static const char *const messages[] = {"0", "4096", "65536"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.protocol");
	uint64_t which = sim_rng_below(&rng, 8);
	bool small = sim_rng_below(&rng, 2), wide = which == 0;
	uint64_t bytes = swarm_one_of(&rng, lines, ARRAY_LEN(lines));

	if (s->lab.hosts == 1 && which > 0 && which < 5) {
		which = 1;
		swarm_algorithm(s, &rng);
	}
	if (which > 2) {
		if (which > 3)
			swarm_env(s, "NCCL_PROTO=Simple");
		return buffer;
	}
	swarm_env(s, wide ? "NCCL_PROTO=LL128" : "NCCL_PROTO=LL");
	if (small)
		swarm_env(s, wide ? "NCCL_LL128_BUFFSIZE=%u" : "NCCL_LL_BUFFSIZE=%u",
			  (unsigned)bytes);
	/* what goes around in the slots of one channel, not the sum of many */
	if (small && swarm_is_set(s, "NCCL_ALGO=OneShot") &&
	    !swarm_is_set(s, "NCCL_MAX_NCHANNELS="))
		swarm_env(s, "NCCL_MAX_NCHANNELS=1");
	if (sim_rng_below(&rng, 2))
		swarm_env(s, wide ? "DOPPEL_P2P_LL128_THRESHOLD=%s" : "NCCL_P2P_LL_THRESHOLD=%s",
			  messages[sim_rng_below(&rng, ARRAY_LEN(messages))]);
	if (wide)
		return MIN_OF(buffer, small ? bytes : 4800 << 10);
	return MIN_OF(buffer, (small ? bytes : 512 << 10) / 2);
}

/* Trees, between hosts one seed in four: half of these wherever a collective has one, half where
 * the model takes it. Half have blocks of one warp, which serves both ways of a tree, up to so many
 * that both groups have a last warp that posts. */
static void swarm_trees(struct scenario *s, uint64_t seed)
{
	static const char *const lists[] = {
		"NCCL_ALGO=Ring;allreduce:Tree;reduce:Tree;broadcast:Tree", "NCCL_ALGO=Ring,Tree"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.trees");
	bool drawn = sim_rng_below(&rng, 4) == 0;
	const char *list = lists[sim_rng_below(&rng, ARRAY_LEN(lists))];
	uint64_t warps = 1 + sim_rng_below(&rng, s->lab.warp_width == 32 ? 4 : 8);
	bool sized = sim_rng_below(&rng, 2);
	if (!drawn || s->lab.hosts == 1)
		return;
	swarm_env(s, "%s", list);
	if (sized)
		swarm_env(s, "NCCL_NTHREADS=%u", (unsigned)(32 * warps));
}

/* PAT, half of the seeds that have neither other algorithms nor lines: two thirds of these wherever
 * a collective has it, one third where the model takes it; on half of them wherever ranks are. */
static void swarm_pat(struct scenario *s, uint64_t seed)
{
	static const char *const lists[] = {"NCCL_ALGO=Ring;allgather:PAT;reducescatter:PAT",
					    "NCCL_ALGO=Ring;allgather:PAT;reducescatter:PAT",
					    "NCCL_ALGO=Ring,PAT"};
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.pat");
	bool drawn = sim_rng_below(&rng, 2) == 0, anywhere = sim_rng_below(&rng, 2) == 0;
	const char *list = lists[sim_rng_below(&rng, ARRAY_LEN(lists))];

	if (!drawn || swarm_is_set(s, "NCCL_ALGO") || swarm_is_set(s, "NCCL_PROTO=LL"))
		return;
	swarm_env(s, "%s", list);
	if (anywhere)
		swarm_env(s, "NCCL_PAT_ENABLE=1");
}

/* A least number of channels without a most. */
static void swarm_channels(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.channels");
	bool least_alone = sim_rng_below(&rng, 10) == 0;
	uint64_t least = 1 + sim_rng_below(&rng, 16);

	if (least_alone && !swarm_is_set(s, "NCCL_MAX_NCHANNELS="))
		swarm_env(s, "NCCL_MIN_NCHANNELS=%u", (unsigned)least);
}

bool swarm_has_messages(const struct scenario *s)
{
	return s->lab.collective->connects || (s->lab.before && s->lab.before->connects);
}

bool swarm_has_sockets(const struct scenario *s)
{
	for (uint32_t i = 0; i < s->env_count; i++)
		if (strcmp(s->env[i], "NCCL_NET=Socket") == 0)
			return true;
	return strcmp(s->machine, "workstation-2gpu") == 0;
}

bool swarm_blocks_may_wait(const struct lab_config *c)
{
	return !c->collective->connects && !(c->before && c->before->connects);
}

/* Habits that are rare in programs, and allowed. */
static void swarm_habits(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.habits");
	bool few = sim_rng_below(&rng, 8) == 0;
	uint32_t sms = 1 + (uint32_t)sim_rng_below(&rng, 3);
	if (few && swarm_blocks_may_wait(&s->lab))
		s->lab.gpu_sms = sms;
	/* connections that begin near the wrap of a counter of 8, 16 or 32 bits, or where lines are
	 * cleaned */
	bool late = sim_rng_below(&rng, 6) == 0;
	uint64_t bits = swarm_one_of(&rng, (uint64_t[]){8, 16, 31, 32, 32, 62}, 6);
	uint64_t before = sim_rng_below(&rng, 32);
	/* pairs write every line of every slot: of LL128 at first, of LL when lines are cleaned */
	bool many = swarm_has_messages(s), wide = many && swarm_is_set(s, "NCCL_PROTO=LL128");
	if (!late || (wide && !swarm_is_set(s, "NCCL_LL128_BUFFSIZE")))
		return;
	swarm_env(s, "DOPPEL_FIRST_STEP=%llu", (1ull << bits) - before);
	if (many && !swarm_is_set(s, "NCCL_LL_BUFFSIZE"))
		swarm_env(s, "NCCL_LL_BUFFSIZE=16384");
}

/* Several streams, several collectives in a group, several communicators: what one communicator
 * must keep in order, and what the program must. Kernels of several communicators that run at the
 * same time need room for all of them: not on a GPU with few multiprocessors. */
static void swarm_groups(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.groups");
	bool many = sim_rng_below(&rng, 6) == 0, grouped = sim_rng_below(&rng, 6) == 0;
	uint32_t streams = 2 + (uint32_t)sim_rng_below(&rng, 2);
	uint32_t group = 2 + (uint32_t)sim_rng_below(&rng, 4);

	bool several = sim_rng_below(&rng, 6) == 0;
	uint32_t comms = 2 + (uint32_t)sim_rng_below(&rng, 2);
	if (several)
		s->lab.comms = comms;
	if (many && !(several && s->lab.gpu_sms))
		s->lab.streams = streams;
	if (grouped)
		s->lab.group = group;
}

/* More operations than the pool of a proxy has slots, 2,048: by iterations, or in one group of a
 * task that drives several ranks. They take ten times as long as other seeds, and so are few. */
static void swarm_long(struct scenario *s, uint64_t seed)
{
	struct lab_config *c = &s->lab;
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.operations");
	bool is_long = sim_rng_below(&rng, 400) == 0, grouped = sim_rng_below(&rng, 5) == 0;
	/* a rank alone on its host has two operations for each call, one of two has one */
	uint32_t calls = (grouped ? 2048 : 1024) + (uint32_t)sim_rng_below(&rng, 64);

	if (!is_long)
		return;
	c->hosts = 2;
	c->gpus = grouped ? 2 : 1;
	c->before = NULL;
	c->host_gpus_n = c->streams = c->group = c->comms = 0;
	c->warp_width = 1;
	c->in_place = true;
	c->out_of_place = false;
	c->iterations = grouped ? 1 : calls;
	c->bytes_min = c->bytes_max = 16;
	swarm_env(s, "NCCL_MIN_NCHANNELS=1");
	swarm_env(s, "NCCL_MAX_NCHANNELS=1");
	if (swarm_is_set(s, "NCCL_ALGO=OneShot")) /* it is for ranks of one host */
		swarm_env(s, "NCCL_ALGO=Ring");
	if (!grouped)
		return;
	c->drive = LAB_DRIVE_PROCESS;
	c->ranks_per_proc = LAB_ALL_RANKS;
	c->group = calls;
	c->bytes_min = c->bytes_max = 16 * (uint64_t)calls;
}

/* Communicators of some of the ranks, one seed in 5. Their kernels need room beside those of the
 * others. The swarm has them without faults; --transient with --faults is a sweep of its own. */
static void swarm_transient(struct scenario *s, uint64_t seed)
{
	struct sim_rng rng;

	sim_rng_seed(&rng, seed, "swarm.transient");
	bool some = sim_rng_below(&rng, 5) == 0;
	uint32_t n = 1 + (uint32_t)sim_rng_below(&rng, 3);
	bool fits = !s->lab.gpu_sms && !s->plan[0] && s->lab.iterations <= 3 && s->lab.group <= 8;
	bool family = sim_rng_below(&rng, 2) == 0 && s->lab.hosts * s->lab.gpus <= 8;

	if (!some || !fits)
		return;
	s->lab.transient = n;
	s->lab.children = family;
}

void scenario_swarm(struct scenario *s, uint64_t seed, enum scenario_faults faults)
{
	scenario_default(s);
	snprintf(s->origin, sizeof s->origin, "swarm-default:%d", SCENARIO_SWARM_VERSION);
	s->lab.sim.budget_events = SWARM_BUDGET_EVENTS;
	s->lab.sim.budget_ns = SWARM_BUDGET_NS;
	s->lab.sim.seed = seed;
	if (swarm_has_rails(seed, faults)) {
		swarm_rails(s, seed, faults);
		swarm_check(s);
		return;
	}
	bool side = swarm_is_small(seed, faults);

	swarm_worlds(s, seed);
	if (side)
		swarm_side_world(s, seed);
	swarm_collective(s, seed);
	swarm_collectives(s, seed, swarm_protocol(s, seed, swarm_buffers(s, seed)));
	swarm_trees(s, seed);
	swarm_pat(s, seed);
	if (!side)
		swarm_focus(s, seed);
	swarm_channels(s, seed);
	swarm_settings(s, seed);
	swarm_local_register(s, seed);
	swarm_detection(s, seed, side);
	swarm_habits(s, seed);
	swarm_groups(s, seed);
	if (!side)
		swarm_long(s, seed);
	swarm_root(s, seed);
	swarm_world_fits(s);
	swarm_programs(s, seed);
	if (side)
		swarm_side_program(s, seed);
	if (faults == SCENARIO_FAULTS_CALL && swarm_side_kind(seed) == SIDE_GROUPS)
		swarm_side_groups(s, seed);
	swarm_faults(s, seed, faults);
	swarm_hcas(s, seed);
	swarm_transient(s, seed);
	if (faults == SCENARIO_FAULTS_CALL && swarm_side_kind(seed) == SIDE_FAMILY)
		swarm_side_family(s, seed);
	if (faults == SCENARIO_FAULTS_CALL && swarm_side_kind(seed) == SIDE_LIFE)
		swarm_side_life(s, seed);
	swarm_programs_after(s, seed);
	swarm_doubling_fits(s);
	if (side)
		swarm_side_ends(s, seed);
	if (faults == SCENARIO_FAULTS_CALL && swarm_side_kind(seed) == SIDE_SCENES)
		swarm_side_scenes(s, seed);
	swarm_contradiction(s, seed,
			    faults == SCENARIO_FAULTS_CALL &&
				    swarm_side_kind(seed) == SIDE_CONTRADICTION);
	swarm_plugins(s, seed);
	swarm_config_sockets(s, seed);
	swarm_graphs(s, seed);
	swarm_windows(s, seed);
	swarm_descriptors_fit(s);
	swarm_check(s);
}
