/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes the plugin of a communicator, and chooses by its answers. */
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/layout/steps.h"
#include "core/tune/allowed.h"
#include "core/tuner/tuner_internal.h"

/* ---- loading -------------------------------------------------------------------------------- */

/* Opens a library and finds its table. On failure `why` has the reason. */
static ncclResult_t tuner_try(struct tuner *t, enum plugin_kind kind, const char *setting,
			      char *why, size_t bytes)
{
	ncclResult_t rc = plugin_open(kind, setting, &t->library, why, bytes);

	if (rc)
		return rc;
	t->table = plugin_table(&t->library, TUNER_SYMBOL, TUNER_NEWEST, TUNER_OLDEST, &t->version);
	if (t->table && tuner_table_is_complete(t))
		return ncclSuccess;
	snprintf(why, bytes,
		 "it has no complete " TUNER_SYMBOL "%d to _v%d, expected a tuner plugin of one "
		 "of these versions",
		 TUNER_OLDEST, TUNER_NEWEST);
	plugin_close(&t->library);
	return ncclInvalidUsage;
}

static ncclResult_t tuner_load(struct tuner *t, const char *value)
{
	char why[256];
	ncclResult_t rc = tuner_try(t, PLUGIN_TUNER, value, why, sizeof why);

	if (rc)
		WARN("NCCL_TUNER_PLUGIN=%s: %s cannot be used: %s", value, t->library.file, why);
	return rc;
}

/* Looks for the plugin that no setting names: in libnccl-tuner.so, then in the net plugins. */
static bool tuner_find(struct tuner *t)
{
	const char *list = param_str(PARAM_NET_PLUGIN);
	char setting[PLUGIN_SETTING], why[256];

	if (!tuner_try(t, PLUGIN_TUNER, NULL, why, sizeof why))
		return true;
	INFO(LOG_TUNING, "TUNER/Plugin: no plugin in %s: %s", t->library.file, why);
	if (plugin_is_none(list))
		return false;
	if (!list)
		return !tuner_try(t, PLUGIN_NET, NULL, why, sizeof why);
	while ((list = plugin_element(list, setting)))
		if (!tuner_try(t, PLUGIN_NET, setting, why, sizeof why))
			return true;
	return false;
}

/* Calls the plugin's init. If that fails, the library is closed. */
static ncclResult_t tuner_start(struct tuner *t, const struct ncclComm *comm)
{
	struct tuner_constants constants, before;
	const char *name = tuner_name(t);
	ncclResult_t rc;

	tune_constants(&before);
	constants = before;
	rc = tuner_call_init(t, comm, &constants);
	if (rc) {
		WARN("rank %d: the tuner plugin %s fails in init with %s", comm->rank, name,
		     plugin_result(rc));
	} else if (memcmp(&constants, &before, sizeof constants)) {
		WARN("rank %d: the tuner plugin %s changes the constants of the model, which is "
		     "not "
		     "built; expected one that changes times and channels of calls",
		     comm->rank, name);
		(void)tuner_call_finalize(t);
		rc = ncclInvalidUsage;
	}
	if (rc)
		plugin_close(&t->library);
	else
		INFO(LOG_TUNING, "rank %d: tuner plugin %s (version %d) of %s", comm->rank, name,
		     t->version, t->library.file);
	return rc;
}

ncclResult_t tuner_open(struct tuner **tuner, const struct ncclComm *comm)
{
	const char *value = param_str(PARAM_TUNER_PLUGIN);
	ncclResult_t rc = ncclSuccess;
	struct tuner *t;

	*tuner = NULL;
	if (plugin_is_none(value) || comm->nranks == 1)
		return ncclSuccess;
	t = os_alloc(sizeof *t, "tuner plugin");
	if (!t) {
		WARN("rank %d: no memory for the tuner plugin", comm->rank);
		return ncclSystemError;
	}
	if (value)
		rc = tuner_load(t, value);
	else
		(void)tuner_find(t);
	if (t->library.library)
		rc = tuner_start(t, comm);
	if (t->library.library)
		*tuner = t;
	else
		os_free(t);
	return rc;
}

void tuner_close(struct tuner *t)
{
	ncclResult_t rc;

	if (!t)
		return;
	rc = tuner_call_finalize(t);
	if (rc)
		WARN("the tuner plugin %s fails in finalize with %s", tuner_name(t),
		     plugin_result(rc));
	plugin_close(&t->library);
	os_free(t);
}

uint64_t tuner_hash(const struct tuner *t)
{
	return t ? hash64_str(tuner_name(t)) : 0;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static int tuner_func(enum dev_func func)
{
	switch (func) {
	case DEV_ALL_REDUCE:
		return TUNER_ALL_REDUCE;
	case DEV_ALL_GATHER:
		return TUNER_ALL_GATHER;
	case DEV_REDUCE:
		return TUNER_REDUCE;
	case DEV_BROADCAST:
		return TUNER_BROADCAST;
	case DEV_REDUCE_SCATTER:
		return TUNER_REDUCE_SCATTER;
	case DEV_ALL_TO_ALL:
	case DEV_FUNC_COUNT:
		break;
	}
	ASSERT(!"a collective that plugins know");
	return -1;
}

/* Returns true if the plugin may choose this program. A plugin knows NCCL's algorithms only. */
static bool tuner_runs(const struct tune_model *m, int p, enum dev_func func, uint64_t programs)
{
	return tune_is_allowed(programs, p) && tune_func(p) == func && m->program[p].bw_mbps &&
	       tune_algo_number(p) >= 0;
}

static void tuner_costs_fill(float cost_us[TUNER_ALGOS][TUNER_PROTOS], const struct tune_model *m,
			     enum dev_func func, uint64_t programs, uint64_t bytes)
{
	for (int a = 0; a < TUNER_ALGOS; a++)
		for (int p = 0; p < TUNER_PROTOS; p++)
			cost_us[a][p] = -1;
	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (tuner_runs(m, p, func, programs))
			cost_us[tune_algo_number(p)][tune_proto_number(p)] =
				(float)tune_time_ns(&m->program[p], bytes) / 1000;
}

/* Returns the cheapest program. Costs that the plugin sets for programs that cannot run are
 * ignored. */
static enum dev_program tuner_costs_best(float cost_us[TUNER_ALGOS][TUNER_PROTOS],
					 const struct tune_model *m, enum dev_func func,
					 uint64_t programs)
{
	enum dev_program best = DEV_PROGRAM_COUNT;
	float best_us = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++) {
		float us = -1;

		if (tuner_runs(m, p, func, programs))
			us = cost_us[tune_algo_number(p)][tune_proto_number(p)];
		if (!(us >= 0))
			continue;
		if (best == DEV_PROGRAM_COUNT || us < best_us) {
			best = (enum dev_program)p;
			best_us = us;
		}
	}
	return best;
}

enum dev_program tuner_choose(const struct tuner *t, const struct tune_model *m, enum dev_func func,
			      uint64_t programs, uint64_t bytes, int32_t *nchannels)
{
	float cost_us[TUNER_ALGOS][TUNER_PROTOS];
	enum dev_program best = DEV_PROGRAM_COUNT;
	int channels = 0;

	*nchannels = 0;
	tuner_costs_fill(cost_us, m, func, programs, bytes);
	if (!tuner_call_choose(t, tuner_func(func), bytes, cost_us, &channels))
		best = tuner_costs_best(cost_us, m, func, programs);
	if (best == DEV_PROGRAM_COUNT)
		return tune_choose(m, func, programs, bytes);
	*nchannels = MIN_OF(MAX_OF(channels, 0), m->nchannels);
	return best;
}

uint64_t tuner_chunk(const struct tuner *t, enum dev_program program, uint64_t bytes,
		     int32_t nchannels, uint64_t chunk_bytes, uint64_t most_bytes)
{
	const struct dev_program_row row = steps_program(program);
	const uint64_t grain = steps_grain_bytes(row.proto);
	const uint64_t most = MAX_OF(most_bytes, chunk_bytes);
	size_t chunk = chunk_bytes;

	if (tune_algo_number(program) < 0 ||
	    tuner_call_chunk(t, tuner_func(row.func), bytes, program, nchannels, &chunk))
		return chunk_bytes;
	if (chunk > most)
		INFO(LOG_TUNING,
		     "%s: chunks of %zu bytes, which the tuner plugin wants, are cut to %llu",
		     steps_func_name(row.func), chunk, (unsigned long long)most);
	chunk = MIN_OF((uint64_t)chunk, most) / grain * grain;
	return chunk ? chunk : chunk_bytes;
}
