/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a search, for people: every try with its speed, its types and what came of it.
 * Filled only when it is asked for (topo_search_explain); the search looks at every_try only.
 */
#ifndef CORE_TOPO_RECORD_H
#define CORE_TOPO_RECORD_H

#include "core/topo/topo.h"

enum topo_attempt_end {
	TOPO_ATTEMPT_ALL_SEEN, /* every way was tried */
	TOPO_ATTEMPT_ALIKE,    /* links carry as many channels as at a higher speed: as there */
	TOPO_ATTEMPT_BUDGET,   /* its steps were used up */
	TOPO_ATTEMPT_FULL,     /* as many channels as there may be */
	TOPO_ATTEMPT_NO_BETTER, /* nothing better can follow: the links of a switch, CPU or GPU are full */
	TOPO_ATTEMPT_NOT_MADE /* nothing better can come of it, for the same reason */
};
const char *topo_attempt_end_text(enum topo_attempt_end end);

struct topo_attempt {
	bool higher; /* of the second pass: a higher speed with at least as many channels */
	bool better; /* replaced the best */
	int32_t shape, same_channels, cross_nic;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter;
	int32_t bound;    /* no more channels can fit */
	int32_t channels; /* the most that were placed */
	int32_t visited;  /* steps */
	enum topo_attempt_end end;
};

#define TOPO_RECORD_ATTEMPTS 4096

struct topo_search_record {
	bool every_try; /* by the caller: make also tries of which nothing better can come */
	int32_t min_channels, max_channels;
	uint32_t max_bw_mbps;   /* of any path */
	uint64_t total_bw_mbps; /* of a GPU */
	int32_t before_double;  /* channels before they were doubled; 0: they were not */
	bool fallback;
	bool used_up; /* the steps of the whole search were used up */
	bool of_ring; /* the channels are the ring graph's, which was better than what the steps found */
	int64_t visited;
	int32_t attempts, dropped; /* in attempt[], and what did not fit there */
	struct topo_attempt attempt[TOPO_RECORD_ATTEMPTS];
};

/* As topo_search, always from the beginning, with a record: all of it is set but every_try. */
ncclResult_t topo_search_explain(const struct topo_system *sys, enum topo_pattern pattern,
				 bool inter, struct topo_graph *graph,
				 struct topo_search_record *record);

#endif
