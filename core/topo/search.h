/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring search: what search.c (which tries, in which order), ring.c (one try) and speeds.c (what
 * can fit at all) share. No other file includes this. Units: MB/s; a budget counts placed steps.
 */
#ifndef CORE_TOPO_SEARCH_H
#define CORE_TOPO_SEARCH_H

#include "core/topo/topo_internal.h"

/* Budgets in placed steps, NCCL's: of one try, of one with equal channels, of the whole search. */
#define TOPO_SEARCH_BUDGET_TRY  (1 << 14)
#define TOPO_SEARCH_BUDGET_SAME (1 << 8)
#define TOPO_SEARCH_BUDGET_ALL  (1 << 19)

/* How the GPU after this one is picked: freely, in the file's order, as in the last channel. */
enum topo_search_mode { TOPO_SEARCH_FREE, TOPO_SEARCH_FILE_ORDER, TOPO_SEARCH_REPLAY };

/* One level of the walk: a decision, its candidates and the one in force. */
enum topo_search_kind { TOPO_SEARCH_START, TOPO_SEARCH_STEP, TOPO_SEARCH_END };
struct topo_search_candidate {
	int16_t gpu, net; /* positions; -1: none */
	uint8_t mode;     /* of START: for the steps that follow */
};
struct topo_search_level {
	int32_t first, count, at; /* in cand[]; `at` is in force when `placed`, else comes next */
	uint8_t kind, mode;
	int16_t step; /* 0: START ... n: END */
	bool placed;
};

struct topo_search {
	const struct topo_system *sys;
	bool inter;
	int32_t n; /* GPUs */
	int32_t min_channels, max_channels;

	struct topo_graph now;  /* the try, by position; order[c] filled step by step */
	struct topo_graph best; /* the best so far */
	int32_t now_hops, best_hops;

	int64_t budget;  /* of this try */
	int64_t visited; /* in the whole search */
	bool optimal;    /* max_channels were placed */

	/* what is left, by link and by net */
	uint32_t *link_left;
	uint32_t *net_left;
	int16_t *net_group;   /* by net: the first net of the same port */
	int16_t *net_nearest; /* by net: type of its nearest GPU's path */
	uint64_t *used;       /* by channel: bit sets of positions, 2 words each */

	/* nets near each GPU, best first, and how many; [n][nnets] */
	int16_t *near;
	int16_t *near_count;
	/* GPUs near each net: [nnets][n] */
	int16_t *home;
	int16_t *home_count;

	struct topo_search_level *level;
	int32_t depth;
	struct topo_search_candidate *cand;
	int32_t cand_count, cand_room;

	/* capacity of each cut by path type, sums over types up to it: [cuts][TOPO_PATH_NET] */
	uint64_t (*cut)[TOPO_PATH_NET];
	int32_t cuts;
};

/* ---- ring.c --------------------------------------------------------------------------------- */
/* Places as many rings as fit with now.{bw_*, type_*, same_channels, cross_nic}; what beats `best`
 * replaces it. Leaves the resources as they were. */
void topo_search_ring_try(struct topo_search *s, int32_t budget);
/* Fills what is known of nets: left, groups, neighbours. */
void topo_search_ring_nets(struct topo_search *s);

/* ---- speeds.c ------------------------------------------------------------------------------- */
const uint32_t *topo_search_speeds(const struct topo_system *sys, bool inter, int32_t *count);
/* The fastest path that a ring could use, and what a GPU has in all. */
void topo_search_limits(const struct topo_search *s, uint32_t *max_bw, uint64_t *total_bw);
ncclResult_t topo_search_cuts_make(struct topo_search *s);
/* No more channels than this can fit with now's speeds and types. */
int32_t topo_search_channels_bound(const struct topo_search *s);

#endif
