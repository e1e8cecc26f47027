/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of single calls (ncclCollConfig_t). All ranks draw the same for a call, except for the
 * tag. A draw is right, or it selects algorithms of which none may be able to run the call: then
 * all ranks must get ncclInvalidArgument, and make the call again without options.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/lab/program/refused.h"

#define OPTIONS_CTAS       64 /* of a communicator whose numbers are not set */
#define OPTIONS_TIMEOUT_MS 600000

static uint64_t options_below(struct sim_rng *rng, uint64_t n)
{
	return sim_rng_below(rng, n);
}

static int options_or_unset(struct sim_rng *rng, int value)
{
	return options_below(rng, 2) ? value : NCCL_CONFIG_UNDEF_INT;
}

int lab_most_ctas(const struct lab_config *c)
{
	const char name[] = "NCCL_MAX_NCHANNELS=";
	int most = OPTIONS_CTAS;

	if (lab_has_env(c, "NCCL_MAX_CTAS") || (c->env_odd && strstr(c->env_odd, "_CTAS=")))
		return 0;
	for (const char *const *e = c->env; e && *e; e++)
		if (strncmp(*e, name, sizeof name - 1) == 0)
			most = (int)strtol(*e + sizeof name - 1, NULL, 10);
	return MIN_OF(MAX_OF(most, 0), OPTIONS_CTAS);
}

/* Numbers of channels are bound by the communicator's, which environments and configs set. */
static void options_draw_ctas(const struct lab_config *c, struct sim_rng *rng,
			      ncclCollConfig_t *config)
{
	const int bound = c->config_version ? 0 : lab_most_ctas(c);
	int most = 1 + (int)options_below(rng, (uint64_t)MAX_OF(bound, 1));
	int least = 1 + (int)options_below(rng, (uint64_t)most);
	bool edge = options_below(rng, 3) == 0;

	if (edge)
		most = least = options_below(rng, 2) ? bound : 1;
	least = options_or_unset(rng, least);
	most = options_or_unset(rng, most);
	if (!bound)
		return;
	config->minCTAs = least;
	config->maxCTAs = most;
	config->nvlsCTAs = options_or_unset(rng, bound);
}

/* A name that no algorithm has, some that exist, and combinations. */
static void options_draw_selection(struct sim_rng *rng, bool forces, ncclCollConfig_t *config)
{
	static const char *const names[] = {"Ring",    "Tree",      "PAT",         "OneShot",
					    "TwoShot", "Ring,Tree", "^Ring",       "Carrier",
					    "NVLS",    "",          "OneShot,Ring"};
	bool selects = options_below(rng, 2);

	config->algSelection = names[options_below(rng, ARRAY_LEN(names))];
	config->forceAlgSelection = (int)options_below(rng, 2);
	if (!selects)
		config->algSelection = NULL;
	if (config->algSelection && *config->algSelection && !forces)
		config->forceAlgSelection = 0;
}

static void options_draw_vendors(const struct lab_config *c, struct sim_rng *rng, bool messages,
				 struct lab_options *out)
{
	bool other = options_below(rng, 3) == 0, timeout = options_below(rng, 2) == 0;

	out->ext[0] = (ncclConfigExt_t){.key = {.vendorId = 77, .optionId = 1}, .val.s = "other"};
	out->ext[1] = (ncclConfigExt_t){
		.key = {.vendorId = NCCL_DOPPEL_VENDOR, .optionId = NCCL_DOPPEL_OPTION_TIMEOUT_MS},
		.val.i = OPTIONS_TIMEOUT_MS};
	if (other)
		out->config.ext = &out->ext[0];
	if (timeout && lab_has_env(c, "NCCL_RAS_ENABLE") && !messages) {
		out->ext[1].next = out->config.ext;
		out->config.ext = &out->ext[1];
	}
}

bool lab_options_draw(const struct lab_rank *me, uint64_t salt, const struct lab_row *row,
		      bool forces, struct lab_options *out)
{
	const ncclCollConfig_t unset = NCCL_COLLCONFIG_INITIALIZER;
	const struct lab_config *c = me->run->config;
	struct sim_rng rng, own;

	memset(out, 0, sizeof *out);
	out->config = unset;
	sim_rng_seed(&rng, c->sim.seed + salt, "lab.options");
	bool drawn = options_below(&rng, 2) == 0;

	if (!c->options || !drawn)
		return false;
	options_draw_ctas(c, &rng, &out->config);
	options_draw_selection(&rng, forces, &out->config);
	options_draw_vendors(c, &rng, row->collective->connects, out);
	out->config.cgaClusterSize = options_or_unset(&rng, (int)options_below(&rng, 9));
	out->config.CTAPolicy = options_or_unset(&rng, (int)options_below(&rng, 4));
	if (options_below(&rng, 4) == 0) { /* the first layout ended after the tag */
		out->config.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
		out->config.launchCompletionEvent = (cudaEvent_t)(void *)out; /* not read */
	}
	sim_rng_seed(&own, c->sim.seed + salt * LAB_MAX_DEVICES + (uint64_t)me->rank,
		     "lab.options_own");
	out->config.userProfilerTag = options_below(&own, 2) ? options_below(&own, UINT64_MAX) : 0;
	return true;
}

bool lab_options_refused(const struct lab_options *o, ncclResult_t r)
{
	return r == ncclInvalidArgument && o->config.algSelection && *o->config.algSelection &&
	       o->config.forceAlgSelection;
}

/* ---- the limit of a communicator ------------------------------------------------------------- */

ncclResult_t lab_call_of_ctas(const struct lab_rank *me, ncclComm_t comm, int ctas)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

	config.maxCTAs = ctas;
	return ncclAllReduceConfig(me->transient_memory, me->transient_memory, 1, ncclInt32,
				   ncclSum, comm, me->transient_stream, &config);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* A list that leads back to its start. */
static void options_spoil_list(ncclConfigExt_t *ext, ncclCollConfig_t *config)
{
	*ext = (ncclConfigExt_t){.next = ext, .key = {.vendorId = 77, .optionId = 1}};
	config->ext = ext;
}

static void options_spoil(struct sim_rng *rng, ncclConfigExt_t *ext, ncclCollConfig_t *config)
{
	int *const field[] = {&config->minCTAs,        &config->minCTAs,
			      &config->maxCTAs,        &config->maxCTAs,
			      &config->nvlsCTAs,       &config->cgaClusterSize,
			      &config->cgaClusterSize, &config->forceAlgSelection,
			      &config->CTAPolicy,      &config->CTAPolicy};
	static const int value[ARRAY_LEN(field)] = {0, 65, 0, 65, 0, -1, 9, 2, -1, 4};
	uint64_t k = sim_rng_below(rng, ARRAY_LEN(field) + 5);

	if (k < ARRAY_LEN(field)) {
		*field[k] = value[k];
		return;
	}
	switch (k - ARRAY_LEN(field)) {
	case 0:
		config->magic ^= 1;
		break;
	case 1:
		config->size = offsetof(ncclCollConfig_t, userProfilerTag);
		break;
	case 2:
		config->algSelection = "Carrier";
		break;
	case 3:
		options_spoil_list(ext, config);
		break;
	default:
		*ext = (ncclConfigExt_t){.key = {.vendorId = NCCL_DOPPEL_VENDOR,
						 .optionId = NCCL_DOPPEL_OPTION_TIMEOUT_MS}};
		config->ext = ext;
	}
}

ncclResult_t lab_options_wrong(struct refused *r)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	cudaStream_t stream = (cudaStream_t)r->me->stream;
	ncclConfigExt_t ext;

	options_spoil(&r->rng, &ext, &config);
	switch (sim_rng_below(&r->rng, 3)) {
	case 0:
		return ncclAllReduceConfig(r->gpu, r->gpu, 4, ncclInt8, ncclSum, r->comm, stream,
					   &config);
	case 1:
		return ncclBroadcastConfig(r->gpu, r->gpu, 4, ncclInt8, 0, r->comm, stream,
					   &config);
	default:
		return ncclGatherConfig(r->gpu, r->gpu + 64, 4, ncclInt8, 0, r->comm, stream,
					&config);
	}
}

/* Messages have no deadline of a call. */
ncclResult_t lab_options_misused(struct refused *r)
{
	ncclConfigExt_t ext = {
		.key = {.vendorId = NCCL_DOPPEL_VENDOR, .optionId = NCCL_DOPPEL_OPTION_TIMEOUT_MS},
		.val.i = OPTIONS_TIMEOUT_MS};
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

	config.ext = &ext;
	return ncclAlltoAllConfig(r->gpu, r->gpu + 1024, 4, ncclInt8, r->comm,
				  (cudaStream_t)r->me->stream, &config);
}
