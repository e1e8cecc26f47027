/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of each program (core/device/layout/programs.h), and its number of channels and threads.
 * core/plan chooses programs by this model, and `doppel tune` prints it. Pure functions of data
 * that all ranks have (struct topo_summary), in integers, so that all ranks make the same choices.
 * Constants and rules are NCCL 2.28's. Costs of an algorithm are in its file in core/algo.
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
	uint32_t nthreads; /* per channel; nominal, for any warp width */
};

struct tune_model {
	int32_t nranks, nchannels;
	struct algo_cost program[DEV_PROGRAM_COUNT];
};

/* `nchannels`: channels of the communicator. `allowed`: the programs that NCCL_ALGO and NCCL_PROTO
 * allow, a bit for each. Programs that the machines should not run have a bandwidth only if the
 * collective has no others. Programs that connect every two ranks have none if the machines cannot
 * run them. With one rank programs cost nothing. */
void tune_model_make(struct tune_model *m, const struct topo_summary *s, int32_t nchannels,
		     uint64_t allowed);

/* Returns `allowed` without the programs of algorithms that cannot connect the ranks. Programs of
 * algorithms that the machines should not run are also left out if the collective has another one,
 * because they would be connected without use. `anywhere`: NCCL_PAT_ENABLE=1. */
uint64_t tune_programs(const struct topo_summary *s, uint64_t allowed, bool anywhere);

uint64_t tune_time_ns(const struct algo_cost *cost, uint64_t bytes);
/* Returns the fastest of `programs` (a bit for each) that run the collective; DEV_PROGRAM_COUNT:
 * none can. Among programs with the same time, the first row. */
enum dev_program tune_choose(const struct tune_model *m, enum dev_func func, uint64_t programs,
			     uint64_t bytes);

/* Reduces channels, then threads by halves, while a thread has less than thread_bytes. */
struct tune_shape tune_shape_of(const struct algo_cost *cost, int32_t nchannels, uint64_t bytes);
/* Returns the least number of channels of a communicator. For two GPUs that NVLink joins it is more
 * than a search finds. */
int32_t tune_channels_least(const struct topo_system *topo, int32_t nranks, int32_t local_ranks);

/* The part of the tables that a tuner plugin receives; the rest is 0. */
void tune_constants(struct tuner_constants *c);

/* Two models with the same hash make the same choices. */
uint64_t tune_model_hash(const struct tune_model *m);

#endif
