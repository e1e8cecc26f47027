/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/tuner share: the plugin of a communicator, and the functions
 * of its table whose types depend on the version (tuner_call.c). Results are the plugin's. */
#ifndef CORE_TUNER_TUNER_INTERNAL_H
#define CORE_TUNER_TUNER_INTERNAL_H

#include "core/plugin/plugin.h"
#include "core/tune/tuner_abi.h"
#include "core/tuner/tuner.h"

struct tuner {
	struct plugin_library library;
	int version;
	const void *table; /* struct tuner_v2 to tuner_v6, by `version` */
	void *context;
};

const char *tuner_name(const struct tuner *t);
/* Returns true if the table has all functions that are called without a check. */
bool tuner_table_is_complete(const struct tuner *t);
/* Sets t->context. Up to version 4 the constants stay. */
ncclResult_t tuner_call_init(struct tuner *t, const struct ncclComm *comm,
			     struct tuner_constants *constants);
ncclResult_t tuner_call_finalize(const struct tuner *t);
ncclResult_t tuner_call_choose(const struct tuner *t, int func, uint64_t bytes,
			       float cost_us[TUNER_ALGOS][TUNER_PROTOS], int *nchannels);
/* Leaves *chunk as it is if the plugin has no such function. */
ncclResult_t tuner_call_chunk(const struct tuner *t, int func, uint64_t bytes,
			      enum dev_program program, int32_t nchannels, size_t *chunk);

#endif
