/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of tuner plugins, versions 2 to 6, as in NCCL 2.19 to 2.30: a shared library with a
 * table under the name TUNER_SYMBOL with the number. Layouts are those of 64-bit Linux. C17. A
 * plugin may include this header, or NCCL's own. core/tuner/tuner.h calls plugins.
 *
 *	version  init receives                                  choice of a call
 *	2        ranks, hosts                                   algorithm and protocol by number
 *	3        ranks, hosts                                   table of costs
 *	4        ranks, hosts                                   as in 3; is a buffer registered
 *	5        id, ranks, hosts, NVLink domains, constants    as in 4
 *	6        as in 5                                        as in 4, and the size of chunks
 */
#ifndef CORE_TUNE_TUNER_ABI_H
#define CORE_TUNE_TUNER_ABI_H

#include "core/base/macros.h"
#include "core/include/nccl.h"

#define TUNER_SYMBOL "ncclTunerPlugin_v"
enum { TUNER_OLDEST = 2, TUNER_NEWEST = 6 };

/* Order of the cost table: algorithms Tree, Ring, CollnetDirect, CollnetChain, NVLS, NVLSTree, PAT;
 * protocols LL, LL128, Simple. */
enum { TUNER_ALGOS = 7, TUNER_PROTOS = 3, TUNER_HOPS = 3, TUNER_GENERATIONS = 4, TUNER_SCALES = 3 };

enum tuner_func {
	TUNER_BROADCAST,
	TUNER_REDUCE,
	TUNER_ALL_GATHER,
	TUNER_REDUCE_SCATTER,
	TUNER_ALL_REDUCE,
};

/* `level` is as in NCCL_DEBUG: 1 VERSION, 2 WARN, 3 INFO, 4 ABORT, 5 TRACE. */
typedef void (*tuner_log)(int level, unsigned long flags, const char *file, int line,
			  const char *format, ...);

struct tuner_domains {
	int count, least_ranks, most_ranks; /* NVLink domains, here hosts */
};
DOPPEL_CHECK_SIZE(struct tuner_domains, 12);

/* Units: us and GB/s. Indexes: hop is NVLink, PCI, network; generation is sm 70, 80, 90, 100; scale
 * is 1, 2, or more hosts. */
struct tuner_constants {
	double kernel_us[TUNER_ALGOS][TUNER_PROTOS];
	double hop_us[TUNER_HOPS][TUNER_ALGOS][TUNER_PROTOS];
	double ll_gbps[TUNER_GENERATIONS][TUNER_SCALES];
	double ring_ll128_gbps[TUNER_GENERATIONS]
			      [TUNER_SCALES]; /* per channel, as in the rows below */
	double tree_ll128_gbps[TUNER_GENERATIONS][TUNER_SCALES];
	double tree_gbps[TUNER_GENERATIONS][TUNER_SCALES];
	double nvls_tree_gbps[TUNER_GENERATIONS][TUNER_SCALES];
};
DOPPEL_CHECK_SIZE(struct tuner_constants, 8 * (4 * 21 + 5 * 12));
DOPPEL_CHECK_OFFSET(struct tuner_constants, ll_gbps, 8 * 4 * 21);

/* Choices of version 3. cost_us: float[algos][protos]; -1: cannot be chosen. *nchannels is 0 on
 * entry; if it stays 0, or the function returns an error, the choice is as without a plugin. */
typedef ncclResult_t (*tuner_choose_v3)(void *context, int func, size_t bytes, int pipelined,
					float **cost_us, int algos, int protos, int *nchannels);
/* Versions 4 to 6. */
typedef ncclResult_t (*tuner_choose_v4)(void *context, int func, size_t bytes, int pipelined,
					float **cost_us, int algos, int protos, int registered,
					int *nchannels);

/* *algo and *proto are -1 on entry; both stay, or both are set. */
struct tuner_v2 {
	const char *name;
	ncclResult_t (*init)(size_t nranks, size_t nhosts, tuner_log log, void **context);
	ncclResult_t (*get_coll_info)(void *context, int func, size_t bytes, int collnet, int nvls,
				      int pipelined, int *algo, int *proto, int *nchannels);
	ncclResult_t (*destroy)(void *context);
};
DOPPEL_CHECK_SIZE(struct tuner_v2, 32);

struct tuner_v3 {
	const char *name;
	ncclResult_t (*init)(size_t nranks, size_t nhosts, tuner_log log, void **context);
	tuner_choose_v3 get_coll_info;
	ncclResult_t (*destroy)(void *context);
};
DOPPEL_CHECK_SIZE(struct tuner_v3, 32);

struct tuner_v4 {
	const char *name;
	ncclResult_t (*init)(size_t nranks, size_t nhosts, tuner_log log, void **context);
	tuner_choose_v4 get_coll_info;
	ncclResult_t (*destroy)(void *context);
};
DOPPEL_CHECK_SIZE(struct tuner_v4, 32);

struct tuner_v5 {
	const char *name;
	ncclResult_t (*init)(void **context, uint64_t comm_id, size_t nranks, size_t nhosts,
			     tuner_log log, struct tuner_domains *domains,
			     struct tuner_constants *constants);
	tuner_choose_v4 get_coll_info;
	ncclResult_t (*finalize)(void *context);
};
DOPPEL_CHECK_SIZE(struct tuner_v5, 32);

/* get_chunk_size may be NULL. *chunk_bytes is the size that the call would have, and at most the
 * size of a slot. */
struct tuner_v6 {
	struct tuner_v5 v5;
	ncclResult_t (*get_chunk_size)(void *context, int func, size_t bytes, int algo, int proto,
				       int nchannels, size_t *chunk_bytes);
};
DOPPEL_CHECK_SIZE(struct tuner_v6, 40);

#endif
