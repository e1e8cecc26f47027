/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of each pattern, and of each shape of a channel. */
#include "core/topo/search/search.h"

static const struct topo_pattern_rules pattern_rules[TOPO_SEARCHED_PATTERNS] = {
	[TOPO_RING] = {.shape = TOPO_SHAPE_RING, .crosses = true, .same = true, .fallback = true},
	[TOPO_TREE] = {.shape = TOPO_SHAPE_BALANCED_TREE,
		       .simpler = TOPO_SHAPE_TREE,
		       .crosses = true,
		       .same = true,
		       .as_ring = true,
		       .fallback = true},
	[TOPO_COLLNET_CHAIN] = {.shape = TOPO_SHAPE_TREE,
				.same = true,
				.collnet = true,
				.as_ring = true},
	[TOPO_NVLS] = {.shape = TOPO_SHAPE_NVLS, .heads = true},
	[TOPO_COLLNET_DIRECT] = {.shape = TOPO_SHAPE_COLLNET_DIRECT,
				 .same = true,
				 .collnet = true,
				 .heads = true},
};

static const struct topo_shape_rules shape_rules[] = {
	[TOPO_SHAPE_BALANCED_TREE] = {.halves = true, .both_ways = true, .along = {1, -1}},
	[TOPO_SHAPE_SPLIT_TREE] = {.back = 1, .both_ways = true, .along = {1, -1}},
	[TOPO_SHAPE_TREE] = {.own_net = true, .both_ways = true, .along = {1, 0}},
	[TOPO_SHAPE_RING] = {.closes = true, .back = -1, .along = {-1, 1}},
	[TOPO_SHAPE_NVLS] = {.star = true},
	[TOPO_SHAPE_COLLNET_DIRECT] = {.star = true},
};

const struct topo_pattern_rules *topo_pattern_rules(int32_t pattern)
{
	ASSERT(pattern >= 0 && pattern < TOPO_SEARCHED_PATTERNS);
	return &pattern_rules[pattern];
}

const struct topo_shape_rules *topo_shape_rules(int32_t shape)
{
	ASSERT(shape >= TOPO_SHAPE_BALANCED_TREE && shape <= TOPO_SHAPE_COLLNET_DIRECT);
	return &shape_rules[shape];
}

const char *topo_pattern_name(enum topo_pattern p)
{
	static const char names[TOPO_SEARCHED_PATTERNS][16] = {
		[TOPO_RING] = "ring",
		[TOPO_TREE] = "tree",
		[TOPO_COLLNET_CHAIN] = "collnet_chain",
		[TOPO_NVLS] = "nvls",
		[TOPO_COLLNET_DIRECT] = "collnet_direct"};

	return (unsigned)p < TOPO_SEARCHED_PATTERNS ? names[p] : "?";
}

const char *topo_shape_name(enum topo_shape s)
{
	static const char names[][16] = {[0] = "?",
					 [TOPO_SHAPE_BALANCED_TREE] = "balanced tree",
					 [TOPO_SHAPE_SPLIT_TREE] = "split tree",
					 [TOPO_SHAPE_TREE] = "tree",
					 [TOPO_SHAPE_RING] = "ring",
					 [TOPO_SHAPE_NVLS] = "nvls",
					 [TOPO_SHAPE_COLLNET_DIRECT] = "collnet direct"};

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : names[0];
}
