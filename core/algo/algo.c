/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of algorithms, and the numbers of all their ends. */
#include "core/algo/algo.h"

#include "core/base/log.h"
#include "core/rank/rank.h"
#include "core/transport/transport.h"

const struct algo *const algos[DEV_ALGO_COUNT] = {
	[DEV_RING] = &algo_ring,
	[DEV_ONE_SHOT] = &algo_one_shot,
	[DEV_TWO_SHOT] = &algo_two_shot,
	[DEV_DOUBLING] = &algo_doubling,
	[DEV_TREE] = &algo_tree,
	[DEV_PAT] = &algo_pat,
	[DEV_COLLNET_CHAIN] = &algo_collnet,
	[DEV_SYMMETRIC] = &algo_symmetric,
};

uint64_t algo_programs(enum dev_algo algo)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		programs |= (uint64_t)(steps_program(p).algo == algo) << p;
	return programs;
}

/* LL128's lines arrive whole only over some paths, and all ranks must have the same kind of GPU. */
bool algo_proto_fits(const struct topo_summary *s, enum topo_pattern graph, enum dev_proto proto)
{
	const struct topo_graph_summary *g = &s->graph[graph];
	int32_t most = s->sm_least >= 90 ? TOPO_PATH_PXN : TOPO_PATH_PXB;

	if (proto != DEV_LL128)
		return true;
	return s->sm_least == s->sm_most && s->sm_least >= 70 && g->type_intra <= TOPO_PATH_NVB &&
	       (s->nhosts == 1 || g->type_inter <= most);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* A bit for each protocol of the allowed programs over connections of an index. */
static uint8_t algo_protos(uint64_t allowed, int32_t index)
{
	unsigned protos = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		if (allowed >> p & 1 && algo_of_program(p)->index == index)
			protos |= 1u << steps_program(p).proto;
	return (uint8_t)protos;
}

/* False if the algorithm has no connections. Algorithms with the same index have the set of ends of
 * the first of them. */
static bool algo_has_ends(int algo)
{
	if (!algos[algo]->edges)
		return false;
	for (int other = 0; other < algo; other++)
		if (algos[other]->index == algos[algo]->index)
			return false;
	return true;
}

static struct dev_edges algo_edges_of(const struct ncclComm *comm, const struct algo *a)
{
	return (struct dev_edges){.first = (uint32_t)comm->nends,
				  .count = (uint16_t)(2 * a->edges(comm->nranks)),
				  .channels =
					  (uint16_t)(comm->protos[a->index] || a->always
							     ? MIN_OF(comm->nchannels, a->channels)
							     : 0)};
}

static void algo_wants_fill(struct ncclComm *comm, const struct algo *a, struct dev_edges e)
{
	for (uint32_t i = 0; i < (uint32_t)e.count * e.channels; i++) {
		int32_t channel = (int32_t)(i / e.count);
		uint32_t end = i % e.count;
		struct algo_peer peer = a->peer(comm, &comm->channels[channel], end / 2, end % 2);

		comm->want[e.first + i] = (struct conn_want){.channel = channel,
							     .peer = peer.rank,
							     .nic = peer.nic,
							     .end = (int32_t)(e.first + i),
							     .is_send = end % 2,
							     .index = (uint8_t)a->index};
	}
}

ncclResult_t algo_edges_make(struct ncclComm *comm)
{
	comm->nends = 0;
	for (int i = 0; i < CONN_INDEX_COUNT; i++)
		comm->protos[i] = algo_protos(comm->allowed, i);
	for (int a = 0; a < DEV_ALGO_COUNT; a++) {
		struct dev_edges e;

		if (!algo_has_ends(a))
			continue;
		e = comm->edges[steps_edges((enum dev_algo)a)] = algo_edges_of(comm, algos[a]);
		comm->nends += e.count * e.channels;
	}
	ASSERT(!comm->edges[DEV_RING].first && comm->edges[DEV_RING].count == 2); /* kernels.c */
	comm->want = os_alloc((size_t)comm->nends * sizeof *comm->want, "ends of connections");
	if (!comm->want) {
		WARN("rank %d: no memory for the ends of %d channels", comm->rank, comm->nchannels);
		comm->nends = 0;
		return ncclSystemError;
	}
	for (int a = 0; a < DEV_ALGO_COUNT; a++)
		if (algo_has_ends(a))
			algo_wants_fill(comm, algos[a], comm->edges[steps_edges((enum dev_algo)a)]);
	return ncclSuccess;
}
