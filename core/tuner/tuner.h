/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin of version 2 to 6 (core/tune/tuner_abi.h), named by NCCL_TUNER_PLUGIN as in
 * core/plugin/plugin.h. It changes the estimated times of a call's programs, the number of
 * channels, and from version 6 on the size of chunks. Called by core/plan.
 *
 * Without the variable, on a real machine, the plugin is libnccl-tuner.so if there is one, else the
 * library of the net plugin if it has a tuner's table, as in NCCL. A world has none then.
 *
 * A communicator has one plugin on each rank, from plan_init to plan_fini. All ranks must load one
 * of the same name (plan_choice_hash). The plugin must answer alike on all ranks; a world reports
 * two ranks on which it does not (agree.c). A plugin that is named and does not load is an error of
 * init. NCCL instead continues without it, but then ranks where it is missing would choose
 * differently.
 *
 * A communicator that the stack keeps for want of a task (core/comm/close.c) does not come to
 * plan_fini. Its plugin is not finalized.
 *
 * Not built: changed constants of the model. A plugin that changes them is refused.
 */
#ifndef CORE_TUNER_TUNER_H
#define CORE_TUNER_TUNER_H

#include "core/rank/rank.h"
#include "core/tune/model.h"

struct tuner;

/* Sets *tuner; NULL: no plugin. Logs the errors: ncclInvalidUsage, ncclSystemError, or the result
 * of the plugin's init. */
ncclResult_t tuner_open(struct tuner **tuner, const struct ncclComm *comm);
/* Accepts NULL. */
void tuner_close(struct tuner *tuner);
/* Returns 0 without a plugin. */
uint64_t tuner_hash(const struct tuner *tuner);
/* Chooses as tune_choose does, with the plugin's times. *nchannels: the plugin's number of
 * channels; 0: the rule's. */
enum dev_program tuner_choose(const struct tuner *tuner, const struct tune_model *m,
			      enum dev_func func, uint64_t programs, uint64_t bytes,
			      int32_t *nchannels);
/* Returns the size of chunks that the plugin wants for the program, or chunk_bytes. The result is a
 * multiple of the protocol's grain and at most the larger of chunk_bytes and most_bytes. */
uint64_t tuner_chunk(const struct tuner *tuner, enum dev_program program, uint64_t bytes,
		     int32_t nchannels, uint64_t chunk_bytes, uint64_t most_bytes);

#endif
