/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Algorithms: how the ranks of a collective are connected, and what that costs. A row for each, in
 * a file of its own; core/comm, core/plan and core/tune go through the table and know no algorithm.
 * The steps of its programs are a pattern of core/device/layout/steps.h, the programs are rows of
 * core/device/layout/programs.h.
 *
 * A channel has the same number of edges for each algorithm. An edge is two ends of connections:
 * end 2e of a channel receives, end 2e + 1 sends. An end that this rank does not have keeps its
 * number. Algorithms with the same conn_index share their edges.
 *
 * Pure functions of what all ranks know, except that ends are this rank's. No errors but memory.
 */
#ifndef CORE_ALGO_ALGO_H
#define CORE_ALGO_ALGO_H

#include "core/algo/cost.h"
#include "core/device/layout/steps.h"
#include "core/include/nccl.h"

struct channel;
struct ncclComm;

/* The other end of one end. */
struct algo_peer {
	int32_t rank; /* -1: this rank has no such end */
	int32_t nic;  /* topology's NIC index where the graph enters or leaves the host; else -1 */
};

/* The ranks of a call. */
struct algo_place {
	int32_t nranks, nhosts;
};

struct algo {
	int32_t index;           /* enum conn_index of its connections, if it has any */
	enum topo_pattern graph; /* whose links it goes over */
	int32_t channels;        /* at most */
	bool always;             /* connected even without a program: kernels load its ends */
	uint32_t (*edges)(int32_t nranks); /* NULL: no connections */
	struct algo_peer (*peer)(const struct ncclComm *comm, const struct channel *ch,
				 uint32_t edge, bool is_send);
	/* Can these ranks run it? NULL: any ranks. */
	bool (*can)(const struct topo_summary *s);
	const char *needs; /* what such ranks are, for an error; NULL: no need */
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
	uint64_t (*chunk)(const struct dev_work *w, const struct algo_place *at, int32_t nchannels,
			  uint64_t bytes, uint64_t chunk_bytes);
};

extern const struct algo algo_ring, algo_one_shot, algo_two_shot, algo_tree, algo_pat,
	algo_doubling, algo_collnet, algo_symmetric;
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
/* Can the lines of the protocol cross the links of the graph? */
bool algo_proto_fits(const struct topo_summary *s, enum topo_pattern graph, enum dev_proto proto);

/* Numbers the ends of all algorithms that have programs among comm->allowed: fills in comm->edges,
 * comm->protos and comm->want. ncclSystemError, logged: no memory. */
ncclResult_t algo_edges_make(struct ncclComm *comm);

#endif
