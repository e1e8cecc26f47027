/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin. A choice depends on the run's seed, the communicator, the function and the size
 * alone, so all ranks choose alike, in whichever order they call. Most calls take one of the
 * programs that can run, some change all times, some leave the choice to the model, and a few fail,
 * which leaves it to the model, too. Chunks have any size up to twice that of the model.
 */
#include <stdlib.h>

#include "core/tune/tuner_abi.h"
#include "sim/engine/order/order.h"
#include "sim/lab/plugin/lab_plugins.h"
#include "sim/lab/plugin/plugin_host.h"

#define TUNER_MAGIC 0x74756e65u

struct tuner_context {
	uint32_t magic;
	uint64_t comm_id;
};

static int tuner_open, tuner_choices;

static struct sim_rng tuner_rng(const struct tuner_context *t, int func, size_t bytes,
				const char *what)
{
	const uint64_t call = t->comm_id + bytes * 8 + (uint64_t)func;
	struct sim_rng rng;

	sim_rng_seed(&rng, lab_plugin_seed() ^ call, what);
	return rng;
}

static ncclResult_t tuner_init(void **context, uint64_t comm_id, size_t nranks, size_t nhosts,
			       tuner_log log, struct tuner_domains *domains,
			       struct tuner_constants *constants)
{
	struct tuner_context *t = calloc(1, sizeof *t);

	if (!t)
		return ncclSystemError;
	if (plug_fails("TUNER_FAULT", "init")) {
		free(t);
		return ncclInternalError;
	}
	if (!comm_id || nranks < 2 || nhosts < 1 || nhosts > nranks || domains->count < 1 ||
	    constants->kernel_us[0][0] < 0)
		plug_wrong("tuner: init of %zu ranks on %zu hosts in %d domains", nranks, nhosts,
			   domains->count);
	*t = (struct tuner_context){TUNER_MAGIC, comm_id};
	__atomic_add_fetch(&tuner_open, 1, __ATOMIC_RELAXED);
	log(3, ~0ul, "plugin_tuner.c", __LINE__, "lab tuner: %zu ranks, %zu hosts", nranks, nhosts);
	*context = t;
	return ncclSuccess;
}

static ncclResult_t tuner_finalize(void *context)
{
	struct tuner_context *t = context;

	if (!t || t->magic != TUNER_MAGIC) {
		plug_wrong("tuner: finalize without a context");
		return ncclInternalError;
	}
	t->magic = 0;
	free(t);
	__atomic_sub_fetch(&tuner_open, 1, __ATOMIC_RELAXED);
	return ncclSuccess;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Makes one of the programs that can run the cheapest. */
static void tuner_take_one(struct sim_rng *rng, float (*cost_us)[TUNER_PROTOS])
{
	float *taken = NULL;
	uint64_t n = 0;

	for (int a = 0; a < TUNER_ALGOS; a++)
		for (int p = 0; p < TUNER_PROTOS; p++)
			if (cost_us[a][p] >= 0 && sim_rng_below(rng, ++n) == 0)
				taken = &cost_us[a][p];
	if (taken)
		*taken = 0;
}

/* Other times, also for what cannot run, which the stack has to ignore. */
static void tuner_change_all(struct sim_rng *rng, float (*cost_us)[TUNER_PROTOS])
{
	for (int a = 0; a < TUNER_ALGOS; a++)
		for (int p = 0; p < TUNER_PROTOS; p++)
			cost_us[a][p] = (float)sim_rng_below(rng, 1000);
}

static void tuner_check_choice(int func, size_t bytes, int pipelined, int algos, int protos,
			       int registered, int nchannels)
{
	if (func < TUNER_BROADCAST || func > TUNER_ALL_REDUCE || pipelined < 1 || nchannels ||
	    algos != TUNER_ALGOS || protos != TUNER_PROTOS || registered < 0 || registered > 1)
		plug_wrong("tuner: a choice for function %d of %zu bytes: %d calls, %d "
			   "algorithms, %d protocols, registered %d, %d channels",
			   func, bytes, pipelined, algos, protos, registered, nchannels);
}

static ncclResult_t tuner_choose(void *context, int func, size_t bytes, int pipelined,
				 float **table, int algos, int protos, int registered,
				 int *nchannels)
{
	float(*cost_us)[TUNER_PROTOS] = (float(*)[TUNER_PROTOS])table;
	const struct tuner_context *t = context;
	struct sim_rng rng = tuner_rng(t, func, bytes, "plugin.tuner");
	uint64_t how = sim_rng_below(&rng, 16);

	__atomic_add_fetch(&tuner_choices, 1, __ATOMIC_RELAXED);
	tuner_check_choice(func, bytes, pipelined, algos, protos, registered, *nchannels);
	if (how < 8)
		tuner_take_one(&rng, cost_us);
	else if (how < 12)
		tuner_change_all(&rng, cost_us);
	if (sim_rng_below(&rng, 2))
		*nchannels = 1 + (int)sim_rng_below(&rng, 20);
	return how == 15 ? ncclInternalError : ncclSuccess;
}

static ncclResult_t tuner_chunk(void *context, int func, size_t bytes, int algo, int proto,
				int nchannels, size_t *chunk_bytes)
{
	const struct tuner_context *t = context;
	struct sim_rng rng = tuner_rng(t, func, bytes, "plugin.tuner_chunk");
	uint64_t how = sim_rng_below(&rng, 4);

	if (algo < 0 || algo >= TUNER_ALGOS || proto < 0 || proto >= TUNER_PROTOS ||
	    nchannels < 1 || !*chunk_bytes)
		plug_wrong("tuner: a chunk of %zu bytes for algorithm %d, protocol %d, %d "
			   "channels",
			   *chunk_bytes, algo, proto, nchannels);
	if (how == 0) /* any size, which the stack rounds */
		*chunk_bytes = *chunk_bytes / 4 + sim_rng_below(&rng, 2 * *chunk_bytes);
	else if (how == 1)
		*chunk_bytes /= 2;
	return ncclSuccess;
}

/* ---- the run --------------------------------------------------------------------------------- */

void tuner_plugin_begin(void)
{
	tuner_open = tuner_choices = 0;
}

bool tuner_plugin_end(bool passed)
{
	if (passed && tuner_open)
		plug_wrong("tuner: %d contexts are not finalized", tuner_open);
	return tuner_choices > 0;
}

extern const struct tuner_v6 ncclTunerPlugin_v6 __attribute__((visibility("default")));
const struct tuner_v6 ncclTunerPlugin_v6 = {
	{"lab", tuner_init, tuner_choose, tuner_finalize},
	tuner_chunk,
};
