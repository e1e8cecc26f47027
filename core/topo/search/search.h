/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of the search share: search.c (order of tries), search_channel.c
 * (one try), candidates.c (candidates of a step), pattern.c (differences between patterns),
 * speeds.c and bounds.c (limits) and search_ring.c. Units: MB/s; a budget counts placed steps.
 * GPUs are positions here.
 */
#ifndef CORE_TOPO_SEARCH_H
#define CORE_TOPO_SEARCH_H

#include "core/topo/search/record.h"
#include "core/topo/topo_internal.h"

/* NCCL's budgets in placed steps: of one try, of a try with equal channels, of the file's order
 * between hosts, of the whole search. */
#define TOPO_SEARCH_BUDGET_TRY  (1 << 14)
#define TOPO_SEARCH_BUDGET_SAME (1 << 8)
#define TOPO_SEARCH_BUDGET_FILE (1 << 10)
#define TOPO_SEARCH_BUDGET_ALL  (1 << 19)

/* ---- pattern.c ------------------------------------------------------------------------------ */

/* Differences between the shapes of a channel. */
struct topo_shape_rules {
	bool closes;    /* within a host it returns to its first GPU */
	bool star;      /* connects the first GPU with all others, without an order */
	int8_t back;    /* between hosts: the step whose GPU returns to the network; -1: the last */
	bool halves;    /* half of the bandwidth returns there, half at the next step */
	bool own_net;   /* returns by the net of its entry */
	bool both_ways; /* both directions of a path must be within the type */
	/* On an NVSwitch: distances in the file's order of the GPUs that may be next; 0: no
	 * more. */
	int8_t along[2];
};
/* Differences between patterns. */
struct topo_pattern_rules {
	uint8_t shape;   /* enum topo_shape; with one GPU always TREE or RING */
	uint8_t simpler; /* shape that is tried next from sm 90 on; 0: none */
	bool crosses;    /* NCCL_CROSS_NIC applies */
	bool same;       /* equal channels are tried first */
	bool collnet;    /* uses only NICs that reduce */
	bool as_ring;    /* has as many channels as the ring */
	bool heads;      /* at most one channel per GPU */
	bool fallback;   /* a fallback graph always exists */
};
const struct topo_shape_rules *topo_shape_rules(int32_t shape);
const struct topo_pattern_rules *topo_pattern_rules(int32_t pattern);

/* ---- a channel, step by step ---------------------------------------------------------------- */

/* Choice of the next GPU: any free one, the next in the file's order, or the same as in the last
 * channel. */
enum topo_search_mode { TOPO_SEARCH_FREE, TOPO_SEARCH_FILE_ORDER, TOPO_SEARCH_REPLAY };

enum topo_stage_kind {
	TOPO_STAGE_START, /* places the first GPU and the net of entry */
	TOPO_STAGE_GPU,   /* places the next GPU */
	TOPO_STAGE_NET,   /* returns to the network from this step's GPU */
	TOPO_STAGE_CLOSE, /* connects the last GPU to the first */
	TOPO_STAGE_STAR,  /* connects the head with all GPUs */
	TOPO_STAGE_END    /* places nothing */
};
/* Order in which free GPUs are tried. */
enum topo_stage_sort {
	TOPO_SORT_GPU, /* nearest to the previous GPU first */
	TOPO_SORT_NET, /* nearest to the channel's net first, because it returns from there */
	/* The channel returns later: if all GPUs are equally near, far from the net first. */
	TOPO_SORT_NET_LATER
};
struct topo_stage {
	uint8_t kind; /* enum topo_stage_kind */
	uint8_t sort; /* of a GPU stage: enum topo_stage_sort */
	int16_t step; /* step whose GPU the stage places or leaves */
};

/* One level of the walk: a stage, its candidates and the placed one. */
struct topo_search_candidate {
	int16_t gpu, net; /* positions; -1: no GPU, no net */
	uint8_t mode;     /* of START: mode of the following steps */
	bool own_budget;  /* of START: has a budget of its own */
};
struct topo_search_level {
	/* Range in cand[]; `at` is the placed candidate if `placed`, else the next one to try. */
	int32_t first, count, at;
	int16_t stage;
	uint8_t mode;
	bool placed;
	int32_t kept_budget; /* budget before a candidate with its own was placed */
};

/* Kinds of links.
 *
 * - READ leads to a GPU before sm 80. Data over it that does not start at a GPU also takes an
 *   eighth of the opposite link.
 * - BOTH is an NVLink to a POWER CPU. A channel takes its bandwidth in both directions. */
enum topo_link_kind { TOPO_LINK_IS_PCI = 1, TOPO_LINK_IS_READ = 2, TOPO_LINK_IS_BOTH = 4 };

/* A try that was made at this speed, for tries that would be the same. `intra` and `inter` are the
 * farthest types that occur within its limits. */
struct topo_search_seen {
	int32_t shape, same, cross, intra, inter;
	int32_t spent; /* steps that it cost; -1: not made yet */
	int32_t bound, most;
	uint32_t bw_mbps; /* latest speed for which this result was used */
};
#define TOPO_SEARCH_SEEN 256

struct topo_search {
	const struct topo_system *sys;
	const struct topo_pattern_rules *rules;
	bool inter;
	int32_t n; /* number of GPUs */
	int32_t min_channels, max_channels;
	bool forced;                       /* at least two channels, if two fit */
	struct topo_search_record *record; /* NULL: no record */

	struct topo_graph now;  /* the current try, by position; order[c] is filled step by step */
	struct topo_graph best; /* the best so far */
	int32_t now_hops, best_hops;

	int32_t budget; /* remaining steps of this try; -1: max_channels were placed */
	int64_t left;   /* remaining steps of the whole search */
	bool made;      /* this try could beat the best, and was made */
	bool stop;      /* this try can no longer beat the best */
	bool improved;  /* this try replaced the best */
	int32_t most;   /* most channels that this try placed */
	/* Most channels that can fit, and fewest hops of each. -1: not computed. */
	int32_t bound, bound_hops;
	int32_t from_hops;             /* now_hops at the start; in pass 2 the best's hops */
	int64_t visited;               /* steps placed in the whole search */
	bool cut_short;                /* a try used up its steps */
	struct topo_search_seen *seen; /* tries of this speed, or of an equivalent one */
	uint32_t seen_bw_mbps;         /* latest speed of `seen`; 0: no speed yet */
	int32_t seen_count;

	struct topo_stage stage[TOPO_MAX_LOCAL + 5]; /* stages of this try's shape */
	const struct topo_shape_rules *shape;

	/* remaining bandwidth by link and by net */
	uint32_t *link_left;
	uint8_t *link_kind; /* set of enum topo_link_kind */
	uint32_t *net_left;
	int16_t port[TOPO_MAX_NETS]; /* by net: the first net of the same port */
	/* Inside the host a channel takes exactly its speed of each link. */
	bool whole;
	bool *intel;    /* by pair of ends: the path's PCI links need 6/5 */
	uint64_t *used; /* by channel: sets of positions, 2 words each */

	/* Nets to try from each GPU (row n: from any GPU), for type_inter `nets_type`. Size [n +
	 * 1][nnets]. */
	int16_t *nets;
	int16_t *nets_count;
	int32_t nets_type;
	/* Sort keys of GPUs, smallest first: [n][n] from a GPU, [nnets][n] from a net. */
	uint64_t *gpu_key, *net_key;
	int16_t *gpu_near;                /* [n][n - 1]: GPUs sorted by gpu_key */
	int32_t pci_link[TOPO_MAX_LOCAL]; /* of each GPU; TOPO_NO_LINK: no PCI link */

	struct topo_search_level *level;
	int32_t depth;
	struct topo_search_candidate *cand;
	int32_t cand_count, cand_room;

	struct topo_cut *cut;
	int32_t cuts;
	/* Fewest hops of a ring and of a chain over all GPUs, for type_intra `chain_type`. */
	int32_t chain_type, ring_hops, chain_hops;
};

/* ---- search_channel.c ------------------------------------------------------------------------ */
/* Places as many channels as fit with now.{shape, bw_*, type_*, same_channels, cross_nic}, within
 * s->budget. A better result replaces `best`. Restores all bandwidth at its end. */
void topo_channel_try(struct topo_search *s);

/* ---- candidates.c --------------------------------------------------------------------------- */
bool topo_candidates_alloc(struct topo_search *s);
void topo_candidates_fini(struct topo_search *s);
void topo_candidates_fill(struct topo_search *s);
/* Lists the candidates of the level's stage. */
void topo_candidates_open(struct topo_search *s, struct topo_search_level *l);
/* Returns the nets of a GPU (-1: of all GPUs) in the order of tries: its own, then those near
 * enough. */
int32_t topo_candidates_nets(struct topo_search *s, int32_t gpu, const int16_t **nets);
/* Returns the bandwidth that a channel takes of a net. NCCL counts whole GB/s here. */
uint32_t topo_candidates_net_need(const struct topo_search *s);
static inline bool topo_candidates_is_used(const struct topo_search *s, int32_t gpu)
{
	return s->used[2 * s->now.nchannels + gpu / 64] >> (gpu % 64) & 1;
}

/* ---- speeds.c ------------------------------------------------------------------------------- */
/* Fills speeds to try, falling, and returns their number. The last *slow speeds are used only if
 * nothing else fits. */
int32_t topo_speeds(const struct topo_system *sys, bool inter, uint32_t *speed, int32_t *slow);
#define TOPO_MAX_SPEEDS 40
/* Sets *max_bw to the fastest path that a channel could use, and *total_bw to the bandwidth of one
 * GPU. */
void topo_speeds_limits(const struct topo_search *s, uint32_t *max_bw, uint64_t *total_bw);

/* ---- bounds.c ------------------------------------------------------------------------------- */
ncclResult_t topo_bounds_make(struct topo_search *s);
/* Returns the most channels that can fit with now's speeds and types. */
int32_t topo_bounds_channels(const struct topo_search *s);
/* Returns the fewest hops that a channel can have. */
int32_t topo_bounds_hops(struct topo_search *s);

/* ---- search_ring.c -------------------------------------------------------------------------- */

/* Gives a tree inside the host the channels of the ring graph, if a try used up its steps and the
 * ring's channels are better. */
void topo_search_take_ring(struct topo_search *s, const struct topo_graph *ring);

/* ---- search_pass.c -------------------------------------------------------------------------- */

/* The path types and speeds that a search tries, in the order of NCCL. */
struct topo_search_range {
	uint32_t max_bw;
	uint64_t total_bw;                                  /* of one GPU */
	int32_t min_intra, max_intra, min_inter, max_inter; /* path types that occur */
	uint32_t intra_types, inter_types;                  /* the same as sets of bits */
	int32_t cross_nic;
	uint32_t speed[TOPO_MAX_SPEEDS];
	/* Number of speeds. The last `slow` of them are used only if nothing else fits. */
	int32_t speeds, slow;
	bool second; /* second pass */
};
/* Fills in the range of this machine, and starts with its best types. */
void topo_search_range_fill(const struct topo_search *s, struct topo_search_range *r);
void topo_search_begin(struct topo_search *s, const struct topo_search_range *r);
/* Pass 1: the best that fits. */
void topo_search_pass_down(struct topo_search *s, const struct topo_search_range *r);
/* Doubles the channels at half the speed, where that is faster. */
void topo_search_double(struct topo_search *s);
/* Pass 2: raises speeds while as many channels fit. */
void topo_search_pass_up(struct topo_search *s, struct topo_search_range *r);

#endif
