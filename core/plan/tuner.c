/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/plan/tuner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/device/layout/steps.h"
#include "core/tune/tuner_abi.h"
#include "core/tune/allowed.h"

struct plan_tuner {
	void *library;
	const struct tuner_v5 *plugin;
	void *context;
};

/* ---- loading -------------------------------------------------------------------------------- */

static void tuner_file(const char *value, char *file, size_t bytes)
{
	size_t n = strlen(value);
	bool whole = strchr(value, '/') || (n > 3 && !strcmp(value + n - 3, ".so"));

	snprintf(file, bytes, whole ? "%s" : "libnccl-tuner-%s.so", value);
}

static ncclResult_t tuner_load(struct plan_tuner *t, const char *value)
{
	char file[1024], why[256];

	tuner_file(value, file, sizeof file);
	if (os_library_open(file, &t->library, why, sizeof why)) {
		WARN("NCCL_TUNER_PLUGIN=%s: %s cannot be loaded: %s", value, file, why);
		return ncclSystemError;
	}
	t->plugin = os_library_symbol(t->library, TUNER_V5_SYMBOL);
	if (t->plugin && t->plugin->name && t->plugin->init && t->plugin->get_coll_info &&
	    t->plugin->finalize)
		return ncclSuccess;
	WARN("NCCL_TUNER_PLUGIN=%s: %s has no complete %s, expected a tuner plugin of version 5",
	     value, file, TUNER_V5_SYMBOL);
	os_library_close(t->library);
	return ncclInvalidUsage;
}

/* The plugin's log function. */
static void tuner_log_line(int level, unsigned long flags, const char *file, int line,
			   const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (log_wanted((enum log_level)level, (uint32_t)flags))
		log_write((enum log_level)level, (uint32_t)flags, file, line, "%s", text);
}

/* Calls the plugin's init. If that fails, the library is closed. */
static ncclResult_t tuner_start(struct plan_tuner *t, const struct ncclComm *comm)
{
	const struct topo_summary *s = &comm->summary;
	struct tuner_domains domains = {s->nhosts, s->host_least, s->host_most};
	struct tuner_constants constants, before;
	const char *name = t->plugin->name;
	ncclResult_t rc;

	tune_constants(&before);
	constants = before;
	rc = t->plugin->init(&t->context, comm->id_hash, (size_t)comm->nranks, (size_t)s->nhosts,
			     tuner_log_line, &domains, &constants);
	if (rc) {
		WARN("rank %d: the tuner plugin %s fails in init with %d", comm->rank, name,
		     (int)rc);
	} else if (memcmp(&constants, &before, sizeof constants)) {
		WARN("rank %d: the tuner plugin %s changes the constants of the model, which is "
		     "not "
		     "built; expected one that changes times and channels of calls",
		     comm->rank, name);
		(void)t->plugin->finalize(t->context);
		rc = ncclInvalidUsage;
	}
	if (rc)
		os_library_close(t->library);
	else
		INFO(LOG_TUNING, "rank %d: tuner plugin %s", comm->rank, name);
	return rc;
}

ncclResult_t plan_tuner_open(struct plan_tuner **tuner, const struct ncclComm *comm)
{
	const char *value = param_str(PARAM_TUNER_PLUGIN);
	struct plan_tuner *t;
	ncclResult_t rc;

	*tuner = NULL;
	if (!value || !strcmp(value, "none") || comm->nranks == 1)
		return ncclSuccess;
	t = os_alloc(sizeof *t, "tuner plugin");
	if (!t) {
		WARN("rank %d: no memory for the tuner plugin", comm->rank);
		return ncclSystemError;
	}
	rc = tuner_load(t, value);
	if (!rc)
		rc = tuner_start(t, comm);
	if (rc)
		os_free(t);
	else
		*tuner = t;
	return rc;
}

void plan_tuner_close(struct plan_tuner *t)
{
	ncclResult_t rc;

	if (!t)
		return;
	rc = t->plugin->finalize(t->context);
	if (rc)
		WARN("the tuner plugin %s fails in finalize with %d", t->plugin->name, (int)rc);
	os_library_close(t->library);
	os_free(t);
}

uint64_t plan_tuner_hash(const struct plan_tuner *t)
{
	return t ? hash64_str(t->plugin->name) : 0;
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

enum dev_program plan_tuner_choose(const struct plan_tuner *t, const struct tune_model *m,
				   enum dev_func func, uint64_t programs, uint64_t bytes,
				   int32_t *nchannels)
{
	float cost_us[TUNER_ALGOS][TUNER_PROTOS];
	enum dev_program best = DEV_PROGRAM_COUNT;
	int channels = 0;

	*nchannels = 0;
	tuner_costs_fill(cost_us, m, func, programs, bytes);
	if (!t->plugin->get_coll_info(t->context, tuner_func(func), bytes, 1, (float **)cost_us,
				      TUNER_ALGOS, TUNER_PROTOS, 0, &channels))
		best = tuner_costs_best(cost_us, m, func, programs);
	if (best == DEV_PROGRAM_COUNT)
		return tune_choose(m, func, programs, bytes);
	*nchannels = MIN_OF(MAX_OF(channels, 0), m->nchannels);
	return best;
}
