/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long each program (core/device/programs.h) takes, and with how many channels and threads: the
 * model by which core/plan chooses, and which `doppel tune` prints. Pure functions of what all
 * ranks know (struct topo_summary), in integers, so that ranks cannot come to different choices.
 * Constants and rules are NCCL 2.28's; each algorithm and protocol has its rows in the tables of
 * model.c, by name: a new row in programs.h needs nothing here if its algorithm and its protocol
 * are there.
 *
 *	time = latency + bytes / bandwidth
 *
 * Units: ns; MB/s (1e6 bytes/s); bytes of the call's larger buffer. Errors: a program without
 * constants is a failed assertion, which tests/unit/topo/tune_model_test.c finds first.
 */
#ifndef CORE_TUNE_MODEL_H
#define CORE_TUNE_MODEL_H

#include "core/topo/topo.h"
#include "core/tune/tuner_abi.h"

/* Of a program. `threads` and `thread_bytes` are for the rule of tune_shape_of. */
struct tune_cost {
	uint64_t bw_mbps;       /* 0: not on these machines */
	uint64_t latency_ns;    /* of a call without bytes */
	uint64_t plateau_bytes; /* from so many bytes on there is more latency; 0: never */
	uint64_t plateau_ns;    /* how much more */
	uint32_t threads;       /* of a channel at most: a multiple of 32 */
	uint32_t thread_bytes;  /* that make a thread worth while */
	int32_t channels;       /* at most; 0: as many as the communicator has */
	uint32_t corrected;     /* by which row of the table of trees, 1...; 0: by none */
};

struct tune_shape {
	int32_t nchannels;
	uint32_t nthreads; /* of a channel; nominal, whatever the warp width is */
};

struct tune_model {
	int32_t nranks, nchannels;
	struct tune_cost program[DEV_PROGRAM_COUNT];
};

/* `nchannels` is how many the communicator has; `allowed`: the programs that NCCL_ALGO and
 * NCCL_PROTO leave, a bit for each. Those that the machines should not run have a bandwidth all the
 * same where a collective has no others; those that they cannot run, because they connect every two
 * ranks, have none. One rank has no programs: they cost nothing. */
void tune_model_make(struct tune_model *m, const struct topo_summary *s, int32_t nchannels,
		     uint64_t allowed);
/* Of an algorithm and a protocol by their names in programs.h, whether a program has them or not.
 * False: there are no constants for them. Two ranks at least. */
bool tune_cost_of(struct tune_cost *cost, const struct topo_summary *s, int32_t nchannels,
		  enum dev_func func, const char *algo, const char *proto);

/* On how many channels every two ranks are connected, because `allowed` has programs that use it;
 * 0: there is no such program, or p2p does not connect all ranks, or they are too many. */
int32_t tune_direct_channels(const struct topo_summary *s, int32_t nchannels, uint64_t allowed);

/* `allowed` without the programs that go over trees, on one host, where a collective has another
 * one. There a tree is a chain, which is slower than a ring; it would be connected for nothing. */
uint64_t tune_without_trees(const struct topo_summary *s, uint64_t allowed);
/* Are there programs among them that go over trees? */
bool tune_uses_trees(uint64_t allowed);

/* `allowed` without the programs of PAT where a host has several ranks (unless `anywhere`) or the
 * ranks are more than PAT connects, and a collective has another one. NCCL uses it under the same
 * condition. */
uint64_t tune_without_pat(const struct topo_summary *s, uint64_t allowed, bool anywhere);
/* On how many channels PAT is connected; 0: there are no programs of it among them. */
int32_t tune_pat_channels(int32_t nchannels, uint64_t allowed);

uint64_t tune_time_ns(const struct tune_cost *cost, uint64_t bytes);
/* The fastest of `programs` (a bit for each) that run the collective; DEV_PROGRAM_COUNT: none can.
 * Of programs that take the same time, the first row. */
enum dev_program tune_choose(const struct tune_model *m, enum dev_func func, uint64_t programs,
			     uint64_t bytes);

/* While the threads of a channel have less than thread_bytes each, first fewer channels, then fewer
 * threads, by halves. */
struct tune_shape tune_shape_of(const struct tune_cost *cost, int32_t nchannels, uint64_t bytes);
/* Returns the least number of channels of a communicator: more than a search finds for two GPUs that
 * NVLink joins. */
int32_t tune_channels_least(const struct topo_system *topo, int32_t nranks, int32_t local_ranks);

/* What of the tables a tuner plugin is shown; the rest is 0. */
void tune_constants(struct tuner_constants *c);

/* The same for two models only if they choose alike. */
uint64_t tune_model_hash(const struct tune_model *m);

#endif
