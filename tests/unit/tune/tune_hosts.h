/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts whose programs the tests of tune cost and choose. */
#ifndef TESTS_UNIT_TUNE_HOSTS_H
#define TESTS_UNIT_TUNE_HOSTS_H

#include <string.h>

#include "core/algo/algo.h"
#include "core/device/layout/names.h"

/* A host of 8 GPUs of sm 90 on NVLink, as NCCL's search finds it; and more of them. */
static const struct topo_summary one_host = {
	.nranks = 8,
	.nhosts = 1,
	.sm_least = 90,
	.sm_most = 90,
	.direct = TOPO_PATH_NVL,
	.graph = {[TOPO_RING] = {.nchannels = 16,
				 .bw_intra_mbps = 20000,
				 .bw_inter_mbps = 20000,
				 .type_intra = TOPO_PATH_NVL,
				 .type_inter = TOPO_PATH_PIX,
				 .same_channels = 1},
		  [TOPO_TREE] = {.nchannels = 16,
				 .bw_intra_mbps = 20000,
				 .bw_inter_mbps = 20000,
				 .type_intra = TOPO_PATH_NVL,
				 .type_inter = TOPO_PATH_PIX,
				 .same_channels = 1,
				 .shape = TOPO_SHAPE_BALANCED_TREE}},
};

/* With a network that reduces, over a chain of all ranks. */
static inline struct topo_summary with_collnet(struct topo_summary s)
{
	s.graph[TOPO_COLLNET_CHAIN] = s.graph[TOPO_RING];
	return s;
}

static inline struct topo_summary hosts_of(int32_t nhosts, int32_t each)
{
	struct topo_summary s = one_host;

	s.nhosts = nhosts;
	s.nranks = nhosts * each;
	s.direct = nhosts > 1 ? -1 : s.direct;
	return s;
}

static inline enum dev_proto proto_of(const char *name)
{
	int proto = 0;

	while (strcmp(dev_proto_text((unsigned)proto), name))
		proto++;
	return (enum dev_proto)proto;
}

static inline struct algo_cost cost_of(const struct topo_summary *s, enum dev_func func,
				       const char *proto)
{
	struct algo_cost cost;

	algo_cost_fill(&cost, s, 16, func, DEV_RING, proto_of(proto));
	return cost;
}

#endif
