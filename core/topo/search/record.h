/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a search, for people: every try with its speed, its types and its result. Only
 * topo_search_explain fills it. The search itself reads only every_try.
 */
#ifndef CORE_TOPO_RECORD_H
#define CORE_TOPO_RECORD_H

#include "core/topo/topo.h"

enum topo_attempt_end {
	TOPO_ATTEMPT_ALL_SEEN, /* all ways were tried */
	TOPO_ATTEMPT_ALIKE,    /* same as at a higher speed: links carry as many channels */
	TOPO_ATTEMPT_BUDGET,   /* used up its steps */
	TOPO_ATTEMPT_FULL,     /* placed max_channels */
	/* Nothing better can follow, because the links of a switch, CPU or GPU are full. */
	TOPO_ATTEMPT_NO_BETTER,
	TOPO_ATTEMPT_NOT_MADE /* not made, for the same reason as NO_BETTER */
};
const char *topo_attempt_end_text(enum topo_attempt_end end);

struct topo_attempt {
	/* A try of the second pass: a higher speed with at least as many channels. */
	bool higher;
	bool better; /* replaced the best */
	int32_t shape, same_channels, cross_nic;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter;
	int32_t bound;    /* most channels that can fit */
	int32_t channels; /* most channels that were placed */
	int32_t visited;  /* placed steps */
	enum topo_attempt_end end;
};

#define TOPO_RECORD_ATTEMPTS 4096

struct topo_search_record {
	bool every_try; /* set by the caller: makes tries that cannot win, too */
	int32_t min_channels, max_channels;
	uint32_t max_bw_mbps;   /* fastest path */
	uint64_t total_bw_mbps; /* bandwidth of one GPU */
	int32_t before_double;  /* channels before doubling; 0: not doubled */
	bool fallback;
	bool used_up; /* the whole search used up its steps */
	/* The channels are the ring graph's, which were better than the search's. */
	bool of_ring;
	int64_t visited;
	int32_t attempts, dropped; /* number in attempt[], and number that did not fit */
	struct topo_attempt attempt[TOPO_RECORD_ATTEMPTS];
};

/* topo_search without the memo, with a record. Overwrites all of the record but every_try. */
ncclResult_t topo_search_explain(const struct topo_system *sys, enum topo_pattern pattern,
				 bool inter, struct topo_graph *graph,
				 struct topo_search_record *record);

#endif
