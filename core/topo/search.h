/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search: what search.c (which tries, in which order), channel.c (one try), candidates.c (what
 * a try tries), pattern.c (what differs between patterns), speeds.c (what can fit at all) and
 * search_ring.c share. No other file includes this. Units: MB/s; a budget counts placed steps. GPUs
 * are positions here.
 */
#ifndef CORE_TOPO_SEARCH_H
#define CORE_TOPO_SEARCH_H

#include "core/topo/record.h"
#include "core/topo/topo_internal.h"

/* Budgets in placed steps, NCCL's: of one try, of one with equal channels, of the file's order
 * between hosts, of the whole search. */
#define TOPO_SEARCH_BUDGET_TRY  (1 << 14)
#define TOPO_SEARCH_BUDGET_SAME (1 << 8)
#define TOPO_SEARCH_BUDGET_FILE (1 << 10)
#define TOPO_SEARCH_BUDGET_ALL  (1 << 19)

/* ---- pattern.c ------------------------------------------------------------------------------ */

/* What differs between the shapes of a channel. */
struct topo_shape_rules {
	bool closes;    /* within a host it returns to its first GPU */
	bool star;      /* the first GPU and all others together: no order */
	int8_t back;    /* between hosts: the step from whose GPU it returns; -1: the last */
	bool halves;    /* half of it from there, half from the next */
	bool own_net;   /* it returns by the net by which it came */
	bool both_ways; /* data goes both ways: paths must be near enough in both */
	int8_t along
		[2]; /* on an NVSwitch: the next GPU, this far in the file's order; 0: no more */
};
/* What differs between patterns. */
struct topo_pattern_rules {
	uint8_t shape;   /* enum topo_shape; of one GPU always TREE or RING */
	uint8_t simpler; /* tried after it from sm 90 on; 0: none */
	bool crosses;    /* NCCL_CROSS_NIC is about it */
	bool same;       /* equal channels are tried first */
	bool collnet;    /* only NICs that reduce */
	bool as_ring;    /* as many channels as the ring */
	bool heads;      /* a channel for each GPU at most */
	bool fallback;   /* there is always one */
};
const struct topo_shape_rules *topo_shape_rules(int32_t shape);
const struct topo_pattern_rules *topo_pattern_rules(int32_t pattern);

/* ---- a channel, step by step ---------------------------------------------------------------- */

/* How the GPU after this one is picked: freely, in the file's order, as in the last channel. */
enum topo_search_mode { TOPO_SEARCH_FREE, TOPO_SEARCH_FILE_ORDER, TOPO_SEARCH_REPLAY };

enum topo_stage_kind {
	TOPO_STAGE_START, /* the first GPU, and the net by which the channel enters */
	TOPO_STAGE_GPU,   /* the next GPU */
	TOPO_STAGE_NET,   /* back to the network, from this step's GPU */
	TOPO_STAGE_CLOSE, /* from the last GPU to the first */
	TOPO_STAGE_STAR,  /* all GPUs */
	TOPO_STAGE_END    /* nothing more to place */
};
/* By which order free GPUs are tried. */
enum topo_stage_sort {
	TOPO_SORT_GPU,      /* nearest to the GPU before first */
	TOPO_SORT_NET,      /* nearest to the channel's net first: it returns from there */
	TOPO_SORT_NET_LATER /* it returns later: where all are alike, far from the net first */
};
struct topo_stage {
	uint8_t kind; /* enum topo_stage_kind */
	uint8_t sort; /* of GPU: enum topo_stage_sort */
	int16_t step; /* whose GPU it places or leaves from */
};

/* One level of the walk: a stage, its candidates and the one in force. */
struct topo_search_candidate {
	int16_t gpu, net; /* positions; -1: none */
	uint8_t mode;     /* of START: for the steps that follow */
	bool own_budget;  /* of START */
};
struct topo_search_level {
	int32_t first, count, at; /* in cand[]; `at` is in force when `placed`, else comes next */
	int16_t stage;
	uint8_t mode;
	bool placed;
	int32_t kept_budget; /* while a candidate with its own is in force */
};

/* What a link is to the search. READ: a GPU before sm 80 reads over it what a NIC is to send, which
 * takes an eighth of the other way; BOTH: an NVLink to a POWER CPU, of which a channel needs both
 * ways. */
enum topo_link_kind { TOPO_LINK_IS_PCI = 1, TOPO_LINK_IS_READ = 2, TOPO_LINK_IS_BOTH = 4 };

/* A try as far as it matters: of the types, the farthest that occur within them. */
struct topo_search_seen {
	int32_t shape, same, cross, intra, inter;
	int32_t spent; /* -1: not made yet */
	int32_t bound, most;
	uint32_t bw_mbps; /* the last speed for which it stood */
};
#define TOPO_SEARCH_SEEN 256

struct topo_search {
	const struct topo_system *sys;
	const struct topo_pattern_rules *rules;
	bool inter;
	int32_t n; /* GPUs */
	int32_t min_channels, max_channels;
	bool forced;                       /* two channels at least, where two fit */
	struct topo_search_record *record; /* or NULL */

	struct topo_graph now;  /* the try, by position; order[c] filled step by step */
	struct topo_graph best; /* the best so far */
	int32_t now_hops, best_hops;

	int32_t budget;            /* left of this try; -1: all channels that may be were placed */
	int64_t left;              /* of the whole search */
	bool made;                 /* this try: something better could come of it */
	bool stop;                 /* ... no longer */
	bool improved;             /* ... it replaced the best */
	int32_t most;              /* ... channels that it placed */
	int32_t bound, bound_hops; /* ... no more channels; hops of each, -1: not looked for */
	int32_t from_hops;         /* ... counts from here: in the second pass from the best's */
	int64_t visited;           /* in the whole search */
	bool cut_short;            /* the steps of a try were used up */
	struct topo_search_seen *seen; /* the tries of this speed, or one like it, so far */
	uint32_t seen_bw_mbps;         /* ... of the last speed; 0: none */
	int32_t seen_count;

	struct topo_stage stage[TOPO_MAX_LOCAL + 5]; /* of this try's shape */
	const struct topo_shape_rules *shape;

	/* what is left, by link and by net */
	uint32_t *link_left;
	uint8_t *link_kind; /* set of enum topo_link_kind */
	uint32_t *net_left;
	int16_t port[TOPO_MAX_NETS]; /* the first net of the same port */
	bool whole;     /* inside the host a channel takes of each link the speed, no more */
	bool *intel;    /* by pair of ends: the path's PCI links carry a sixth more */
	uint64_t *used; /* by channel: bit sets of positions, 2 words each */

	/* nets to try from a GPU (row n: from any), for type_inter `nets_type`; [n + 1][nnets] */
	int16_t *nets;
	int16_t *nets_count;
	int32_t nets_type;
	/* sort keys of GPUs, least first: [n][n] from a GPU, [nnets][n] from a net */
	uint64_t *gpu_key, *net_key;
	int16_t *gpu_near;                /* [n][n - 1]: from a GPU, by gpu_key */
	int32_t pci_link[TOPO_MAX_LOCAL]; /* of a GPU; TOPO_NO_LINK: none */

	struct topo_search_level *level;
	int32_t depth;
	struct topo_search_candidate *cand;
	int32_t cand_count, cand_room;

	struct topo_cut *cut;
	int32_t cuts;
	/* the fewest hops of a ring and of a chain over all GPUs, for type_intra `chain_type` */
	int32_t chain_type, ring_hops, chain_hops;
};

/* ---- channel.c ------------------------------------------------------------------------------ */
/* Places as many channels as fit with now.{shape, bw_*, type_*, same_channels, cross_nic}, within
 * s->budget; what beats `best` replaces it. Leaves the resources as they were. */
void topo_channel_try(struct topo_search *s);

/* ---- candidates.c --------------------------------------------------------------------------- */
bool topo_candidates_alloc(struct topo_search *s);
void topo_candidates_fini(struct topo_search *s);
void topo_candidates_fill(struct topo_search *s);
/* Lists what the level's stage may place. */
void topo_candidates_open(struct topo_search *s, struct topo_search_level *l);
/* Nets of a GPU in the order to try (-1: of all): its own, then those near enough. */
int32_t topo_candidates_nets(struct topo_search *s, int32_t gpu, const int16_t **nets);
/* What a channel takes of a net's account, where NCCL counts whole GB/s. */
uint32_t topo_candidates_net_need(const struct topo_search *s);
static inline bool topo_candidates_is_used(const struct topo_search *s, int32_t gpu)
{
	return s->used[2 * s->now.nchannels + gpu / 64] >> (gpu % 64) & 1;
}

/* ---- speeds.c ------------------------------------------------------------------------------- */
/* Speeds to try, falling. Of the *slow ones at the end only where nothing else fits. */
int32_t topo_speeds(const struct topo_system *sys, bool inter, uint32_t *speed, int32_t *slow);
#define TOPO_MAX_SPEEDS 40
/* The fastest path that a channel could use, and what a GPU has in all. */
void topo_speeds_limits(const struct topo_search *s, uint32_t *max_bw, uint64_t *total_bw);

/* ---- bounds.c ------------------------------------------------------------------------------- */
ncclResult_t topo_bounds_make(struct topo_search *s);
/* No more channels than this can fit with now's speeds and types. */
int32_t topo_bounds_channels(const struct topo_search *s);
/* Nor can a channel have fewer hops. */
int32_t topo_bounds_hops(struct topo_search *s);

/* ---- search_ring.c -------------------------------------------------------------------------- */

/* A tree inside the host has the channels of the ring graph where steps were used up and what was
 * found is less. */
void topo_search_take_ring(struct topo_search *s, const struct topo_graph *ring);

#endif
