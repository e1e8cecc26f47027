/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Algorithms: how the ranks of a collective are connected, and what that costs. A row for each, in
 * a file of its own; core/comm, core/plan and core/tune go through the table and know no
 * algorithm. The steps of its programs are a pattern of core/device/steps.h, the programs are rows
 * of core/device/programs.h.
 *
 * Pure functions of what all ranks know. No errors.
 */
#ifndef CORE_ALGO_ALGO_H
#define CORE_ALGO_ALGO_H

#include "core/algo/cost.h"
#include "core/device/steps.h"

struct algo {
	enum topo_pattern graph; /* whose links it goes over */
	int32_t channels;        /* at most */
	/* Can these ranks run it? NULL: any ranks. */
	bool (*can)(const struct topo_summary *s);
	/* Should they, where the collective has another algorithm? NULL: yes. `anywhere`: also
	 * where NCCL would not. */
	bool (*should)(const struct topo_summary *s, bool anywhere);
	/* Fills in the latency, and what differs from the rules of cost.c. */
	void (*cost)(struct algo_cost *cost, const struct topo_summary *s, int32_t nchannels,
		     enum dev_func func, enum dev_proto proto);
	/* `channels`: of the program. */
	uint64_t (*mbps)(const struct topo_summary *s, int32_t channels, enum dev_func func,
			 enum dev_proto proto);
	/* Bytes of a chunk, at most chunk_bytes, of a call of so many bytes. NULL: chunk_bytes. */
	uint64_t (*chunk)(const struct dev_work *w, int32_t nranks, int32_t nchannels,
			  uint64_t bytes, uint64_t chunk_bytes);
};

extern const struct algo algo_ring, algo_one_shot, algo_two_shot, algo_tree, algo_pat;
extern const struct algo *const algos[DEV_ALGO_COUNT];

static inline const struct algo *algo_of_program(int program)
{
	return algos[steps_program(program).algo];
}

static inline bool algo_can(const struct algo *a, const struct topo_summary *s)
{
	return !a->can || a->can(s);
}

static inline bool algo_should(const struct algo *a, const struct topo_summary *s, bool anywhere)
{
	return !a->should || a->should(s, anywhere);
}

/* The programs of an algorithm, a bit for each. */
uint64_t algo_programs(enum dev_algo algo);
/* On how many channels the algorithm is connected; 0: `allowed` has no program of it. */
int32_t algo_channels(enum dev_algo algo, int32_t nchannels, uint64_t allowed);
/* Can the lines of the protocol cross the links of the graph? */
bool algo_proto_fits(const struct topo_summary *s, enum topo_pattern graph, enum dev_proto proto);

#endif
