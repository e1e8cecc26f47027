/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tuner plugin (tuner_abi.h), which NCCL_TUNER_PLUGIN names: it changes the times of a call's
 * programs and how many channels the call has. Without the variable there is none: no library is
 * searched for.
 *
 *	NCCL_TUNER_PLUGIN=none        no plugin
 *	NCCL_TUNER_PLUGIN=a/b.so      that file (a slash, or .so at the end)
 *	NCCL_TUNER_PLUGIN=NAME        libnccl-tuner-NAME.so, where the loader searches
 *
 * One for each communicator and rank, from plan_init to plan_fini. All ranks must load one of the
 * same name (plan_choice_hash). That it answers alike on all of them is the plugin's duty; a world
 * names two ranks on which it does not (agree.c). A plugin that does not load is an error of init:
 * NCCL goes on without it, and ranks where it is missing would choose differently.
 *
 * Not built: changed constants of the model. A plugin that changes them is refused.
 */
#ifndef CORE_PLAN_TUNER_H
#define CORE_PLAN_TUNER_H

#include "core/rank/rank.h"
#include "core/tune/model.h"

struct plan_tuner;

/* *tuner NULL: there is none. Logs what is wrong; ncclInvalidUsage, ncclSystemError, or init's
 * result. */
ncclResult_t plan_tuner_open(struct plan_tuner **tuner, const struct ncclComm *comm);
/* NULL is fine. */
void plan_tuner_close(struct plan_tuner *tuner);
/* 0: there is none. */
uint64_t plan_tuner_hash(const struct plan_tuner *tuner);
/* As tune_choose, with the plugin's times. *nchannels: its channels, 0: as the rule has it. */
enum dev_program plan_tuner_choose(const struct plan_tuner *tuner, const struct tune_model *m,
				   enum dev_func func, uint64_t programs, uint64_t bytes,
				   int32_t *nchannels);

#endif
