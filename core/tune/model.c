/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/tune/model.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/device/names.h"
#include "core/device/steps.h"
#include "core/tune/allowed.h"

/* ---- constants ------------------------------------------------------------------------------ */

/* What one step of an algorithm goes over. */
enum model_hop { HOP_NVLINK, HOP_PCI, HOP_NET, HOPS };

/* Latencies, NCCL 2.28's: of a kernel, and of a step over each kind of hop. Those of TREE over the
 * network are also those of a ring whose hosts have one rank each. The kernel's of a ring in LL128
 * is fitted as MODEL_LL_RING_MBPS is: NCCL's is 14000. */
struct model_latency {
	const char *algo, *proto;
	uint32_t kernel_ns, hop_ns[HOPS];
};
/* clang-format off */
static const struct model_latency model_latencies[] = {
	/*                  kernel   NVLINK   PCI    NET */
	{"RING", "LL",       6600, {   600,  1000,  2700}},
	{"RING", "LL128",    8300, {  1900,  2500,  4000}},
	{"RING", "SIMPLE",   8400, {  3400,  5700, 14000}},
	{"TREE", "LL",       6800, {   600,  1000,  5000}},
	{"TREE", "LL128",   14000, {  1250,  1900,  8500}},
	{"TREE", "SIMPLE",   8400, {  4000,  4000, 14000}},
	{"PAT", "SIMPLE",    8000, {  4000,  4000, 14000}},
};
/* clang-format on */

/* Threads of a channel at most, and the bytes that make one of them worth while; LL's are for each
 * rank of a ring. */
struct model_threads {
	const char *proto;
	uint32_t threads, thread_bytes;
	bool each_rank; /* over a ring */
};
static const struct model_threads model_threads[] = {
	{"LL", 512, 8, true},
	{"LL128", 640, 8, false},
	{"SIMPLE", 512, 64, false},
};

/* By compute capability: below 80, from 80, 90 and 100 on. */
enum { GENERATIONS = 4 };
/* All rings with LL together, at most: by hosts 1, 2, more. Over several hosts it depends on the
 * CPUs: the first row, or the second if there are AMD's among them. */
static const uint32_t model_ll_mbps[GENERATIONS][3] = {
	{39000, 39000, 20400},
	{87700, 22500, 19000},
	{141000, 45000, 35000},
	{282000, 90000, 70000},
};
/* One channel with LL at most: of a ring's graph, whose channels are doubled, of two ranks and of
 * more; and of a program that connects every two ranks. What the second step of TWO_SHOT costs more
 * than a ring's: it waits for all ranks. Fitted to times between two H100 and between four H200
 * (docs/figures.md), so that the choice changes where the measured times cross: NCCL's constants
 * are those of its own kernels. */
enum {
	MODEL_LL_RING_OF_TWO_MBPS = 7500,
	MODEL_LL_RING_MBPS = 9500,
	MODEL_LL_ONE_SHOT_MBPS = 4000,
	MODEL_LL_ONE_SHOT_PART_MBPS = 5000, /* where a rank has a part for each other one */
	MODEL_LL_TWO_SHOT_MBPS = 6000,
	MODEL_TWO_SHOT_NS = 1600,
};
/* What is left of a ring's bandwidth in a reduce-scatter with SIMPLE: fitted to times between two
 * and between four H200 (docs/figures.md), where LL128 is faster at all sizes. */
enum { MODEL_SIMPLE_SCATTER_PERCENT = 90 };
/* A ring with LL128 at most. */
static const uint32_t model_ll128_mbps[GENERATIONS] = {20000, 20000, 36700, 73400};

/* A tree at most: with LL128, and with the others. By hosts 1, 2, more. */
static const uint32_t model_tree_ll128_mbps[GENERATIONS][3] = {
	{20000, 20000, 20000},
	{20000, 20000, 20000},
	{36700, 36700, 29000},
	{55600, 31670, 20000},
};
static const uint32_t model_tree_mbps[GENERATIONS][3] = {
	{26500, 18500, 10000},
	{24000, 23600, 17800},
	{38700, 41400, 36000},
	{70000, 42800, 24000},
};
/* What is left of a tree's bandwidth, in percent, at 64 bytes, 128, 256 and so on. */
enum { CORRECTIONS = 23, CORRECTION_LEAST = 64 };
static const struct model_correction {
	const char *proto;
	uint8_t percent[CORRECTIONS];
} model_corrections[] = {
	{"LL", {100, 100, 100, 100, 90, 80, 70, 70,  70,  70,  60, 50,
		40,  40,  50,  60,  70, 80, 90, 100, 100, 100, 100}},
	{"LL128", {100, 100, 100, 100, 100, 90, 80, 80, 80, 70,  60, 60,
		   60,  60,  60,  60,  80,  90, 90, 90, 90, 100, 100}},
	{"SIMPLE", {90, 90, 90, 90, 90, 90, 90, 80, 70, 60, 60, 50,
		    50, 50, 50, 60, 70, 80, 70, 70, 80, 90, 90}},
};

/* What a step over the network costs the sender, at least. */
enum { NET_OVERHEAD_NS = 1000, NET_OVERHEAD_AMD_NS = 2000, NET_OVERHEAD_SIMPLE = 3 };

/* A large all-reduce with SIMPLE over several hosts: bytes of a channel for each rank from which on
 * it has more latency, and how much, in tenths. */
enum { PLATEAU_BYTES = 64, PLATEAU_TENTHS = 4, PLATEAU_TENTHS_BEFORE_SM80 = 9 };

/* ---- what the tables have ------------------------------------------------------------------- */

static int32_t model_generation(const struct topo_summary *s)
{
	return s->sm_least >= 100 ? 3 : s->sm_least >= 90 ? 2 : s->sm_least >= 80 ? 1 : 0;
}

static const struct model_latency *model_latency(const char *algo, const char *proto)
{
	for (size_t i = 0; i < ARRAY_LEN(model_latencies); i++)
		if (!strcmp(model_latencies[i].algo, algo) &&
		    !strcmp(model_latencies[i].proto, proto))
			return &model_latencies[i];
	return NULL;
}

/* Of the tables that have a column for 1, 2 and more hosts. */
static int32_t model_scale(const struct topo_summary *s)
{
	return MIN_OF(s->nhosts, 3) - 1;
}

static void model_threads_fill(struct tune_cost *cost, const struct topo_summary *s,
			       const char *proto, bool ring)
{
	for (size_t i = 0; i < ARRAY_LEN(model_threads); i++) {
		const struct model_threads *t = &model_threads[i];

		if (strcmp(t->proto, proto))
			continue;
		cost->threads = t->threads;
		cost->thread_bytes =
			t->thread_bytes * (ring && t->each_rank ? (uint32_t)s->nranks : 1);
	}
}

/* ---- rings ---------------------------------------------------------------------------------- */

/* Steps that follow each other. */
static uint64_t ring_steps(const struct topo_summary *s, enum dev_func func)
{
	uint64_t n = (uint64_t)s->nranks;

	switch (func) {
	case DEV_ALL_REDUCE:
		return 2 * (n - 1);
	case DEV_ALL_GATHER:
	case DEV_REDUCE_SCATTER:
		return n - 1;
	default:
		return n;
	}
}

/* Those of them that go from host to host. */
static uint64_t ring_steps_between(const struct topo_summary *s, enum dev_func func)
{
	uint64_t between = (uint64_t)s->nhosts - 1;

	return func == DEV_ALL_REDUCE ? 2 * between : between;
}

/* LL128's lines arrive whole only over some paths, and all ranks must have the same kind of GPU. */
static bool model_can(const struct topo_summary *s, enum topo_pattern pattern, const char *proto)
{
	const struct topo_graph_summary *g = &s->graph[pattern];
	int32_t most = s->sm_least >= 90 ? TOPO_PATH_PXN : TOPO_PATH_PXB;

	if (strcmp(proto, "LL128"))
		return true;
	return s->sm_least == s->sm_most && s->sm_least >= 70 && g->type_intra <= TOPO_PATH_NVB &&
	       (s->nhosts == 1 || g->type_inter <= most);
}

/* All channels together, for the bytes that cross a link. */
static uint64_t ring_bus_mbps(const struct topo_summary *s, const char *proto)
{
	const struct topo_graph_summary *g = &s->graph[TOPO_RING];
	uint64_t channels = (uint64_t)g->nchannels;
	uint64_t bus = channels * (s->nhosts <= 2 ? g->bw_intra_mbps : g->bw_inter_mbps);
	int32_t row = model_generation(s);

	if (!strcmp(proto, "LL128"))
		return MIN_OF(bus * 92 / 100, channels * model_ll128_mbps[row]);
	if (strcmp(proto, "LL"))
		return bus;
	if (s->nhosts > 1)
		row = s->amd_cpus > 0;
	bus = MIN_OF(bus / 2,
		     channels * (s->nranks > 2 ? MODEL_LL_RING_MBPS : MODEL_LL_RING_OF_TWO_MBPS));
	return MIN_OF(bus, (uint64_t)model_ll_mbps[row][model_scale(s)]);
}

static uint64_t ring_mbps(const struct topo_summary *s, enum dev_func func, const char *proto)
{
	uint64_t bus = ring_bus_mbps(s, proto);

	if (func == DEV_REDUCE_SCATTER && !strcmp(proto, "SIMPLE") && s->nhosts == 1 &&
	    s->sm_least >= 90 && s->graph[TOPO_RING].type_intra == TOPO_PATH_NVL)
		bus = bus * MODEL_SIMPLE_SCATTER_PERCENT / 100;
	return MAX_OF(bus * (uint64_t)s->nranks / ring_steps(s, func), 1ull);
}

static enum model_hop model_hop_intra(const struct topo_summary *s, enum topo_pattern pattern)
{
	return s->graph[pattern].type_intra == TOPO_PATH_NVL ? HOP_NVLINK : HOP_PCI;
}

static enum model_hop ring_hop_intra(const struct topo_summary *s)
{
	return model_hop_intra(s, TOPO_RING);
}

/* A block goes through all steps, one after the other. */
static uint64_t ring_steps_ns(const struct topo_summary *s, enum dev_func func, const char *proto)
{
	bool alone = s->nranks == s->nhosts;
	uint64_t between = ring_steps_between(s, func);
	uint64_t intra = model_latency("RING", proto)->hop_ns[ring_hop_intra(s)];
	uint64_t inter = model_latency(alone ? "TREE" : "RING", proto)->hop_ns[HOP_NET];
	uint64_t overhead = s->nhosts == 1             ? 0
			    : s->amd_cpus == s->nranks ? NET_OVERHEAD_AMD_NS
						       : NET_OVERHEAD_NS;

	if (!strcmp(proto, "SIMPLE"))
		overhead *= NET_OVERHEAD_SIMPLE;
	return (ring_steps(s, func) - between) * MAX_OF(intra, overhead) + between * inter;
}

/* A chunk follows the other: with equal channels one step is seen, otherwise all. */
static uint64_t ring_pipeline_ns(const struct topo_summary *s, enum dev_func func,
				 const char *proto)
{
	enum model_hop hop = s->nhosts > 1 ? HOP_NET : ring_hop_intra(s);
	bool same = s->graph[TOPO_RING].same_channels, simple = !strcmp(proto, "SIMPLE");

	if (same)
		return model_latency("RING", proto)->hop_ns[hop];
	return ring_steps(s, func) * model_latency(simple ? "TREE" : "RING", proto)->hop_ns[hop];
}

static void ring_plateau(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels)
{
	uint64_t tenths = s->sm_least < 80 ? PLATEAU_TENTHS_BEFORE_SM80 : PLATEAU_TENTHS;

	cost->plateau_bytes = (uint64_t)PLATEAU_BYTES * (uint64_t)nchannels * (uint64_t)s->nranks;
	cost->plateau_ns = cost->latency_ns * tenths / 10;
}

static void ring_cost(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels,
		      enum dev_func func, const char *proto)
{
	bool pipeline = func == DEV_BROADCAST || func == DEV_REDUCE;

	cost->latency_ns =
		model_latency("RING", proto)->kernel_ns +
		(pipeline ? ring_pipeline_ns(s, func, proto) : ring_steps_ns(s, func, proto));
	if (model_can(s, TOPO_RING, proto))
		cost->bw_mbps = ring_mbps(s, func, proto);
	if (s->nhosts > 1 && func == DEV_ALL_REDUCE && !strcmp(proto, "SIMPLE"))
		ring_plateau(cost, s, nchannels);
}

/* ---- trees ---------------------------------------------------------------------------------- */

/* All channels together, for the bytes that cross a link. */
static uint64_t tree_bus_mbps(const struct topo_summary *s, const char *proto)
{
	const struct topo_graph_summary *g = &s->graph[TOPO_TREE];
	uint64_t channels = (uint64_t)g->nchannels;
	uint64_t bus = channels * (s->nhosts <= 2 ? g->bw_intra_mbps : g->bw_inter_mbps);
	int32_t row = model_generation(s), scale = model_scale(s);

	bus = MIN_OF(bus * 92 / 100, channels * model_tree_mbps[row][scale]);
	if (!strcmp(proto, "LL128")) {
		bus = s->nhosts == 1 ? bus * 7 / 9 : bus * 120 / 128;
		bus = MIN_OF(bus, channels * model_tree_ll128_mbps[row][scale]);
	} else if (!strcmp(proto, "LL")) {
		row = s->nhosts > 1 ? s->amd_cpus > 0 : row;
		bus = MIN_OF(bus * 10 / 38, (uint64_t)model_ll_mbps[row][scale]);
	}
	return g->shape == TOPO_SHAPE_TREE ? bus * 85 / 100 : bus;
}

static uint64_t tree_mbps(const struct topo_summary *s, enum dev_func func, const char *proto)
{
	uint64_t bus = tree_bus_mbps(s, proto);

	return MAX_OF(func == DEV_ALL_REDUCE ? bus / 2 : bus, 1ull);
}

/* From the deepest rank to the root. */
static uint64_t tree_way_ns(const struct topo_summary *s, const char *proto)
{
	const struct model_latency *l = model_latency("TREE", proto);
	uint64_t chain = (uint64_t)(s->nranks / s->nhosts - 1), levels = 0;

	while (2 << levels <= s->nhosts)
		levels++;
	return chain * l->hop_ns[model_hop_intra(s, TOPO_TREE)] + levels * l->hop_ns[HOP_NET];
}

static uint32_t tree_correction(const char *proto)
{
	uint32_t i = 0;

	while (strcmp(model_corrections[i].proto, proto))
		i++;
	return i + 1;
}

/* An all-reduce is NCCL's, up and down. A reduce and a broadcast, which NCCL does not have over
 * trees, go one way. */
static void tree_cost(struct tune_cost *cost, const struct topo_summary *s, enum dev_func func,
		      const char *proto)
{
	uint64_t ways = func == DEV_ALL_REDUCE ? 2 : 1;

	cost->latency_ns = model_latency("TREE", proto)->kernel_ns + ways * tree_way_ns(s, proto);
	if (func == DEV_ALL_REDUCE)
		cost->corrected = tree_correction(proto);
	if (model_can(s, TOPO_TREE, proto))
		cost->bw_mbps = tree_mbps(s, func, proto);
}

/* ---- parallel aggregated trees -------------------------------------------------------------- */

/* NCCL's: of a step between hosts 2/7 are seen, and each rank has a part of its own. */
enum { PAT_HOPS_SEEN = 2, PAT_HOPS_OF = 7, PAT_RANK_NS = 2800, PAT_PERCENT = 75 };

static bool pat_can(const struct topo_summary *s)
{
	return s->nranks <= 1 << DEV_PAT_LEVELS;
}

static void pat_cost(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels,
		     const char *proto)
{
	const struct model_latency *l = model_latency("PAT", proto);
	const struct topo_graph_summary *g = &s->graph[TOPO_TREE];
	uint64_t bus =
		(uint64_t)g->nchannels * (s->nhosts <= 2 ? g->bw_intra_mbps : g->bw_inter_mbps);
	uint64_t levels = 0;

	while (2 << levels <= s->nhosts)
		levels++;
	cost->latency_ns = l->kernel_ns +
			   levels * l->hop_ns[HOP_NET] * PAT_HOPS_SEEN / PAT_HOPS_OF +
			   (uint64_t)s->nranks * PAT_RANK_NS;
	cost->channels = MIN_OF(nchannels, DEV_PAT_CHANNELS);
	if (pat_can(s))
		cost->bw_mbps = MAX_OF(bus * PAT_PERCENT / 100, 1ull);
}

/* ---- between every two ranks ----------------------------------------------------------------- */

static bool direct_can(const struct topo_summary *s)
{
	return s->direct >= 0 && s->nranks > 1 && s->nranks <= DEV_DIRECT_RANKS;
}

int32_t tune_direct_channels(const struct topo_summary *s, int32_t nchannels, uint64_t allowed)
{
	bool used = false;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		used |= tune_is_allowed(allowed, p) && (steps_program(p).algo == DEV_ONE_SHOT ||
							steps_program(p).algo == DEV_TWO_SHOT);
	return used && direct_can(s) ? MIN_OF(nchannels, DEV_DIRECT_CHANNELS) : 0;
}

/* What the busiest rank sends or receives of n bytes of the call. */
static uint64_t direct_nths(const struct topo_summary *s, enum dev_func func, bool two)
{
	uint64_t n = (uint64_t)s->nranks;

	if (two)
		return 2 * (n - 1);
	return func == DEV_ALL_GATHER || func == DEV_REDUCE_SCATTER ? n - 1 : n * (n - 1);
}

static bool direct_has_parts(enum dev_func func, bool two)
{
	return two || func == DEV_ALL_GATHER || func == DEV_REDUCE_SCATTER;
}

/* A line for each thread: of what a rank sends to one other rank. */
static uint32_t direct_thread_bytes(const struct topo_summary *s, enum dev_func func, bool two)
{
	return DEV_LINE_DATA * (direct_has_parts(func, two) ? (uint32_t)s->nranks : 1);
}

static uint64_t direct_channel_mbps(enum dev_func func, bool two)
{
	return two                           ? MODEL_LL_TWO_SHOT_MBPS
	       : direct_has_parts(func, two) ? MODEL_LL_ONE_SHOT_PART_MBPS
					     : MODEL_LL_ONE_SHOT_MBPS;
}

/* Not NCCL's: a kernel, a step and the channels cost what they do with a ring. */
static void direct_cost(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels,
			enum dev_func func, const char *algo, const char *proto)
{
	const struct model_latency *l = model_latency("RING", proto);
	bool two = !strcmp(algo, "TWO_SHOT");
	uint64_t hop_ns = l->hop_ns[s->direct == TOPO_PATH_NVL ? HOP_NVLINK : HOP_PCI];
	uint64_t bus = ring_bus_mbps(s, proto);

	cost->latency_ns = l->kernel_ns + (two ? 2 * hop_ns + MODEL_TWO_SHOT_NS : hop_ns);
	cost->channels = MIN_OF(nchannels, DEV_DIRECT_CHANNELS);
	cost->thread_bytes = direct_thread_bytes(s, func, two);
	if (direct_can(s))
		cost->bw_mbps = MAX_OF(
			MIN_OF(bus, (uint64_t)cost->channels * direct_channel_mbps(func, two)) *
				(uint64_t)s->nranks / direct_nths(s, func, two),
			1ull);
}

/* ---- the model ------------------------------------------------------------------------------ */

bool tune_cost_of(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels,
		  enum dev_func func, const char *algo, const char *proto)
{
	ASSERT(s->nranks > 1 && s->nhosts > 0 && s->nhosts <= s->nranks && nchannels > 0);
	*cost = (struct tune_cost){.bw_mbps = 0};
	bool ring = !strcmp(algo, "RING"), tree = !strcmp(algo, "TREE"), pat = !strcmp(algo, "PAT");

	if (!model_latency(pat ? "PAT" : "RING", proto) ||
	    !(ring || tree || pat || !strcmp(algo, "ONE_SHOT") || !strcmp(algo, "TWO_SHOT")))
		return false;
	model_threads_fill(cost, s, proto, ring);
	if (ring)
		ring_cost(cost, s, nchannels, func, proto);
	else if (tree)
		tree_cost(cost, s, func, proto);
	else if (pat)
		pat_cost(cost, s, nchannels, proto);
	else
		direct_cost(cost, s, nchannels, func, algo, proto);
	return true;
}

/* One rank shares its elements between blocks as the channels of SIMPLE do. */
static void model_of_one_rank(struct tune_model *m, const struct topo_summary *s)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		model_threads_fill(&m->program[p], s, "SIMPLE", false);
}

static bool model_has(const struct tune_model *m, enum dev_func func, uint64_t allowed)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tune_is_allowed(allowed, p) && steps_program(p).func == func &&
		    m->program[p].bw_mbps)
			return true;
	return false;
}

static uint64_t model_forced_mbps(const struct topo_summary *s, int program)
{
	const char *proto = dev_proto_name((unsigned)program);
	enum dev_func func = steps_program(program).func;

	return steps_program(program).algo == DEV_RING ? ring_mbps(s, func, proto)
						       : tree_mbps(s, func, proto);
}

/* A collective for which NCCL_ALGO and NCCL_PROTO leave only programs that the model takes out: it
 * runs with those of a ring all the same, as with NCCL, or else with those of a tree. */
static void model_force(struct tune_model *m, const struct topo_summary *s, uint64_t allowed,
			enum dev_algo algo)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tune_is_allowed(allowed, p) && steps_program(p).algo == algo &&
		    !model_has(m, steps_program(p).func, allowed))
			m->program[p].bw_mbps = model_forced_mbps(s, p);
}

void tune_model_make(struct tune_model *m, const struct topo_summary *s, int32_t nchannels,
		     uint64_t allowed)
{
	*m = (struct tune_model){.nranks = s->nranks, .nchannels = nchannels};
	if (s->nranks == 1) {
		model_of_one_rank(m, s);
		return;
	}
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		bool known = tune_cost_of(&m->program[p], s, nchannels, steps_program(p).func,
					  dev_algo_name((unsigned)p), dev_proto_name((unsigned)p));

		ASSERT(known);
	}
	model_force(m, s, allowed, DEV_RING);
	model_force(m, s, allowed, DEV_TREE);
}

/* The programs of an algorithm. */
static uint64_t model_programs(enum dev_algo algo)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (steps_program(p).algo == algo)
			programs |= 1ull << p;
	return programs;
}

/* Of a collective, those of other algorithms that these machines can run. */
static bool model_has_others(const struct topo_summary *s, enum dev_func func, uint64_t allowed,
			     enum dev_algo algo)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		struct dev_program_row row = steps_program(p);
		bool direct = row.algo == DEV_ONE_SHOT || row.algo == DEV_TWO_SHOT;

		if (tune_is_allowed(allowed, p) && row.func == func && row.algo != algo &&
		    (!direct || direct_can(s)))
			return true;
	}
	return false;
}

/* `allowed` without an algorithm, of the collectives that have another one. */
static uint64_t model_without(const struct topo_summary *s, uint64_t allowed, enum dev_algo algo)
{
	uint64_t left = allowed;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (steps_program(p).algo == algo &&
		    model_has_others(s, steps_program(p).func, allowed, algo))
			left &= ~(1ull << p);
	return left;
}

uint64_t tune_without_trees(const struct topo_summary *s, uint64_t allowed)
{
	return s->nhosts == 1 ? model_without(s, allowed, DEV_TREE) : allowed;
}

bool tune_uses_trees(uint64_t allowed)
{
	return (allowed & model_programs(DEV_TREE)) != 0;
}

uint64_t tune_without_pat(const struct topo_summary *s, uint64_t allowed, bool anywhere)
{
	if (!pat_can(s))
		return allowed & ~model_programs(DEV_PAT);
	return anywhere || s->nranks == s->nhosts ? allowed : model_without(s, allowed, DEV_PAT);
}

int32_t tune_pat_channels(int32_t nchannels, uint64_t allowed)
{
	return allowed & model_programs(DEV_PAT) ? MIN_OF(nchannels, DEV_PAT_CHANNELS) : 0;
}

/* Of a cost at a size, in MB/s. */
static uint64_t cost_mbps(const struct tune_cost *cost, uint64_t bytes)
{
	uint32_t column = 0;

	if (!cost->corrected || bytes < CORRECTION_LEAST)
		return cost->bw_mbps;
	while (column < CORRECTIONS && bytes / CORRECTION_LEAST >> column > 1)
		column++;
	if (column == CORRECTIONS)
		return cost->bw_mbps;
	return MAX_OF(cost->bw_mbps * model_corrections[cost->corrected - 1].percent[column] / 100,
		      1ull);
}

uint64_t tune_time_ns(const struct tune_cost *cost, uint64_t bytes)
{
	uint64_t ns = cost->latency_ns, mbps;

	ASSERT(cost->bw_mbps);
	mbps = cost_mbps(cost, bytes);
	if (cost->plateau_bytes && bytes >= cost->plateau_bytes)
		ns += cost->plateau_ns;
	return ns + bytes / mbps * 1000 + bytes % mbps * 1000 / mbps;
}

enum dev_program tune_choose(const struct tune_model *m, enum dev_func func, uint64_t programs,
			     uint64_t bytes)
{
	enum dev_program best = DEV_PROGRAM_COUNT;
	uint64_t best_ns = UINT64_MAX;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		const struct tune_cost *cost = &m->program[p];
		uint64_t ns;

		if (!tune_is_allowed(programs, p) || steps_program(p).func != func ||
		    !cost->bw_mbps)
			continue;
		ns = tune_time_ns(cost, bytes);
		if (ns < best_ns) {
			best = (enum dev_program)p;
			best_ns = ns;
		}
	}
	return best;
}

/* Large calls of two GPUs that NVLink joins are faster with this number than with the 24 that a
 * search finds between H100s (docs/figures.md). */
#define CHANNELS_OF_TWO 32

int32_t tune_channels_least(const struct topo_system *topo, int32_t nranks, int32_t local_ranks)
{
	bool joined = nranks == 2 && local_ranks == 2 && topo_gpu_path(topo, 0, 1) == TOPO_PATH_NVL;

	return joined ? CHANNELS_OF_TWO : 1;
}

struct tune_shape tune_shape_of(const struct tune_cost *cost, int32_t nchannels, uint64_t bytes)
{
	struct tune_shape s = {.nchannels = cost->channels ? MIN_OF(nchannels, cost->channels)
							   : nchannels,
			       .nthreads = cost->threads};
	uint64_t each = cost->thread_bytes;

	ASSERT(nchannels >= 1 && nchannels <= DEV_MAX_CHANNELS && cost->threads);
	while (s.nchannels > 1 && bytes < (uint64_t)s.nchannels * s.nthreads * each)
		s.nchannels--;
	while (s.nthreads % 128 == 0 && bytes < (uint64_t)s.nchannels * s.nthreads * each)
		s.nthreads /= 2;
	return s;
}

/* Trees, rings and PAT have the numbers of the cost table. */
static void constants_latency(struct tuner_constants *c, const struct model_latency *l)
{
	int algo = !strcmp(l->algo, "TREE") ? 0 : !strcmp(l->algo, "RING") ? 1 : TUNER_ALGOS - 1;
	int proto = !strcmp(l->proto, "LL") ? 0 : !strcmp(l->proto, "LL128") ? 1 : 2;

	c->kernel_us[algo][proto] = l->kernel_ns / 1000.0;
	for (int hop = 0; hop < HOPS; hop++)
		c->hop_us[hop][algo][proto] = l->hop_ns[hop] / 1000.0;
}

void tune_constants(struct tuner_constants *c)
{
	memset(c, 0, sizeof *c);
	for (size_t i = 0; i < ARRAY_LEN(model_latencies); i++)
		constants_latency(c, &model_latencies[i]);
	for (int g = 0; g < GENERATIONS; g++)
		for (int s = 0; s < TUNER_SCALES; s++) {
			c->ll_gbps[g][s] = model_ll_mbps[g][s] / 1000.0;
			c->ring_ll128_gbps[g][s] = model_ll128_mbps[g] / 1000.0;
			c->tree_ll128_gbps[g][s] = model_tree_ll128_mbps[g][s] / 1000.0;
			c->tree_gbps[g][s] = model_tree_mbps[g][s] / 1000.0;
		}
}

static uint64_t model_hash_cost(uint64_t hash, const struct tune_cost *c)
{
	const uint64_t words[] = {c->bw_mbps, c->latency_ns,   c->plateau_bytes,      c->plateau_ns,
				  c->threads, c->thread_bytes, (uint64_t)c->channels, c->corrected};

	return hash64_seeded(words, sizeof words, hash);
}

uint64_t tune_model_hash(const struct tune_model *m)
{
	uint64_t hash = hash64_combine((uint64_t)m->nranks, (uint64_t)m->nchannels);

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		hash = model_hash_cost(hash, &m->program[p]);
	return hash;
}
