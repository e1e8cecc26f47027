/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long each program (core/device/programs.h) takes, and with how many channels and threads: the
 * model by which core/plan chooses, and which `doppel tune` prints. Pure functions of what all
 * ranks know (struct topo_summary), in integers, so that ranks cannot come to different choices.
 * Constants and rules are NCCL 2.28's; the costs of an algorithm are in its file of core/algo.
 *
 *	time = latency + bytes / bandwidth
 *
 * Units: ns; MB/s (1e6 bytes/s); bytes of the call's larger buffer. Errors: a program without
 * constants is a failed assertion, which tests/unit/tune/tune_model_test.c finds first.
 */
#ifndef CORE_TUNE_MODEL_H
#define CORE_TUNE_MODEL_H

#include "core/algo/cost.h"
#include "core/tune/tuner_abi.h"

struct tune_shape {
	int32_t nchannels;
	uint32_t nthreads; /* of a channel; nominal, whatever the warp width is */
};

struct tune_model {
	int32_t nranks, nchannels;
	struct algo_cost program[DEV_PROGRAM_COUNT];
};

/* `nchannels` is how many the communicator has; `allowed`: the programs that NCCL_ALGO and
 * NCCL_PROTO leave, a bit for each. Those that the machines should not run have a bandwidth all the
 * same where a collective has no others; those that they cannot run, because they connect every two
 * ranks, have none. One rank has no programs: they cost nothing. */
void tune_model_make(struct tune_model *m, const struct topo_summary *s, int32_t nchannels,
		     uint64_t allowed);

/* `allowed` without the programs of algorithms that cannot connect the ranks, and without those of
 * algorithms that the machines should not run, where a collective has another one. They would be
 * connected for nothing. `anywhere`: NCCL_PAT_ENABLE=1. */
uint64_t tune_programs(const struct topo_summary *s, uint64_t allowed, bool anywhere);

uint64_t tune_time_ns(const struct algo_cost *cost, uint64_t bytes);
/* The fastest of `programs` (a bit for each) that run the collective; DEV_PROGRAM_COUNT: none can.
 * Of programs that take the same time, the first row. */
enum dev_program tune_choose(const struct tune_model *m, enum dev_func func, uint64_t programs,
			     uint64_t bytes);

/* While the threads of a channel have less than thread_bytes each, first fewer channels, then fewer
 * threads, by halves. */
struct tune_shape tune_shape_of(const struct algo_cost *cost, int32_t nchannels, uint64_t bytes);
/* Returns the least number of channels of a communicator: more than a search finds for two GPUs that
 * NVLink joins. */
int32_t tune_channels_least(const struct topo_system *topo, int32_t nranks, int32_t local_ranks);

/* What of the tables a tuner plugin is shown; the rest is 0. */
void tune_constants(struct tuner_constants *c);

/* The same for two models only if they choose alike. */
uint64_t tune_model_hash(const struct tune_model *m);

#endif
