/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/algo/algo.h"

const struct algo *const algos[DEV_ALGO_COUNT] = {
	[DEV_RING] = &algo_ring, [DEV_ONE_SHOT] = &algo_one_shot, [DEV_TWO_SHOT] = &algo_two_shot,
	[DEV_TREE] = &algo_tree, [DEV_PAT] = &algo_pat,
};

uint64_t algo_programs(enum dev_algo algo)
{
	uint64_t programs = 0;

	for (int p = 0; p < DEV_PROGRAM_COUNT; p++)
		programs |= (uint64_t)(steps_program(p).algo == algo) << p;
	return programs;
}

int32_t algo_channels(enum dev_algo algo, int32_t nchannels, uint64_t allowed)
{
	return allowed & algo_programs(algo) ? MIN_OF(nchannels, algos[algo]->channels) : 0;
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
