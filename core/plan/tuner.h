/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin (tuner_abi.h), named by NCCL_TUNER_PLUGIN. It changes the estimated times of a
 * call's programs and the number of channels. Without the variable no library is loaded.
 *
 *	NCCL_TUNER_PLUGIN=none        no plugin
 *	NCCL_TUNER_PLUGIN=a/b.so      that file (a slash, or .so at the end)
 *	NCCL_TUNER_PLUGIN=NAME        libnccl-tuner-NAME.so, in the search path of the loader
 *
 * A communicator has one plugin on each rank, from plan_init to plan_fini. All ranks must load one
 * of the same name (plan_choice_hash). The plugin must answer alike on all ranks; a world reports
 * two ranks on which it does not (agree.c). A plugin that does not load is an error of init. NCCL
 * instead continues without it, but then ranks where it is missing would choose differently.
 *
 * Not built: changed constants of the model. A plugin that changes them is refused.
 */
#ifndef CORE_PLAN_TUNER_H
#define CORE_PLAN_TUNER_H

#include "core/rank/rank.h"
#include "core/tune/model.h"

struct plan_tuner;

/* Sets *tuner; NULL: no plugin. Logs the errors: ncclInvalidUsage, ncclSystemError, or the result
 * of the plugin's init. */
ncclResult_t plan_tuner_open(struct plan_tuner **tuner, const struct ncclComm *comm);
/* Accepts NULL. */
void plan_tuner_close(struct plan_tuner *tuner);
/* Returns 0 without a plugin. */
uint64_t plan_tuner_hash(const struct plan_tuner *tuner);
/* Chooses as tune_choose does, with the plugin's times. *nchannels: the plugin's number of
 * channels; 0: the rule's. */
enum dev_program plan_tuner_choose(const struct plan_tuner *tuner, const struct tune_model *m,
				   enum dev_func func, uint64_t programs, uint64_t bytes,
				   int32_t *nchannels);

#endif
