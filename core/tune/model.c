/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/tune/model.h"

#include <string.h>

#include "core/algo/algo.h"
#include "core/base/hash.h"
#include "core/device/layout/steps.h"
#include "core/tune/allowed.h"

/* ---- the model ------------------------------------------------------------------------------ */

/* With one rank, blocks share the elements as channels of SIMPLE do. */
static void model_of_one_rank(struct tune_model *m)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		cost_threads_fill(&m->program[p], DEV_SIMPLE);
}

static bool model_has(const struct tune_model *m, enum dev_func func, uint64_t allowed)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tune_is_allowed(allowed, p) && steps_program(p).func == func &&
		    m->program[p].bw_mbps)
			return true;
	return false;
}

/* NCCL_ALGO and NCCL_PROTO may leave a collective only programs whose lines the links do not carry
 * whole. The collective then uses those of the first algorithm anyway, as with NCCL. */
static void model_force(struct tune_model *m, const struct topo_summary *s, uint64_t allowed,
			enum dev_algo algo)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		struct dev_program_row row = steps_program(p);

		if (tune_is_allowed(allowed, p) && row.algo == algo &&
		    !model_has(m, row.func, allowed))
			m->program[p].bw_mbps =
				algos[algo]->mbps(s, m->nchannels, row.func, row.proto);
	}
}

void tune_model_make(struct tune_model *m, const struct topo_summary *s, int32_t nchannels,
		     uint64_t allowed)
{
	*m = (struct tune_model){.nranks = s->nranks, .nchannels = nchannels};
	if (s->nranks == 1) {
		model_of_one_rank(m);
		return;
	}
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		struct dev_program_row row = steps_program(p);

		algo_cost_fill(&m->program[p], s, nchannels, row.func, row.algo, row.proto);
	}
	for (int a = 0; a < DEV_ALGO_COUNT; a++)
		if (algo_can(algos[a], s))
			model_force(m, s, allowed, (enum dev_algo)a);
}

/* True if the collective has a program of another algorithm. */
static bool model_has_others(enum dev_func func, uint64_t programs, int algo)
{
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tune_is_allowed(programs, p) && steps_program(p).func == func &&
		    (int)steps_program(p).algo != algo)
			return true;
	return false;
}

uint64_t tune_programs(const struct topo_summary *s, uint64_t allowed, bool anywhere)
{
	for (int a = 0; a < DEV_ALGO_COUNT; a++)
		if (!algo_can(algos[a], s))
			allowed &= ~algo_programs((enum dev_algo)a);
	for (int a = 0; a < DEV_ALGO_COUNT; a++)
		for (int p = 0; p < DEV_PROGRAM_COUNT && !algo_should(algos[a], s, anywhere); p++)
			if ((int)steps_program(p).algo == a &&
			    model_has_others(steps_program(p).func, allowed, a))
				allowed &= ~(1ull << p);
	return allowed;
}

uint64_t tune_time_ns(const struct algo_cost *cost, uint64_t bytes)
{
	uint64_t ns = cost->latency_ns, mbps;

	ASSERT(cost->bw_mbps);
	mbps = algo_cost_mbps(cost, bytes);
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
		const struct algo_cost *cost = &m->program[p];
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

/* Large calls between two GPUs that NVLink joins are faster with this number than with the 24 that
 * a search finds between H100s (results/figures.md). */
#define CHANNELS_OF_TWO 32

int32_t tune_channels_least(const struct topo_system *topo, int32_t nranks, int32_t local_ranks)
{
	bool joined = nranks == 2 && local_ranks == 2 && topo_gpu_path(topo, 0, 1) == TOPO_PATH_NVL;

	return joined ? CHANNELS_OF_TWO : 1;
}

struct tune_shape tune_shape_of(const struct algo_cost *cost, int32_t nchannels, uint64_t bytes)
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

static void constants_latency(struct tuner_constants *c, int program)
{
	struct dev_program_row row = steps_program(program);
	const struct cost_latency *l = &cost_latencies[row.algo][row.proto];
	int algo = tune_algo_number(program), proto = tune_proto_number(program);

	if (algo < 0)
		return; /* NCCL does not have the algorithm */
	c->kernel_us[algo][proto] = l->kernel_ns / 1000.0;
	for (int hop = 0; hop < HOPS; hop++)
		c->hop_us[hop][algo][proto] = l->hop_ns[hop] / 1000.0;
}

void tune_constants(struct tuner_constants *c)
{
	memset(c, 0, sizeof *c);
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		constants_latency(c, p);
	for (int g = 0; g < COST_GENERATIONS; g++)
		for (int s = 0; s < TUNER_SCALES; s++) {
			c->ll_gbps[g][s] = cost_limits.ll[g][s] / 1000.0;
			c->ring_ll128_gbps[g][s] = cost_limits.ring_ll128[g] / 1000.0;
			c->tree_ll128_gbps[g][s] = cost_limits.tree_ll128[g][s] / 1000.0;
			c->tree_gbps[g][s] = cost_limits.tree[g][s] / 1000.0;
		}
}

static uint64_t model_hash_cost(uint64_t hash, const struct algo_cost *c)
{
	const uint64_t words[] = {c->bw_mbps, c->latency_ns,   c->plateau_bytes,      c->plateau_ns,
				  c->threads, c->thread_bytes, (uint64_t)c->channels, c->corrected};

	return hash64_seeded(words, sizeof words, hash);
}

uint64_t tune_model_hash(const struct tune_model *m)
{
	uint64_t hash = hash64_combine((uint64_t)m->nranks, (uint64_t)m->nchannels);

	/* A network that reduces is part of the model only if it is used. */
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (steps_program(p).algo != DEV_COLLNET_CHAIN || m->program[p].bw_mbps)
			hash = model_hash_cost(hash, &m->program[p]);
	return hash;
}
