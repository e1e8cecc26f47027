/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topology: from one host's NCCL topology XML to a model, the paths in it, and the graphs that fit.
 * Pure functions of their input: no clock, no random numbers, no floating point; two ranks with
 * the same XML and selection get the same answer, shared through os_memo. Called by core/comm and
 * by `doppel topo`. Bandwidths are in MB/s (1e6 bytes/s), integers: NCCL's "20.6" is 20600.
 * Numbers: those of NCCL 2.30's topology model, paths and search.
 *
 * The search is in search.c; what it tried, and why it took what it took, in record.h.
 */
#ifndef CORE_TOPO_TOPO_H
#define CORE_TOPO_TOPO_H

#include <stdio.h>

#include "core/device/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"

#define TOPO_MAX_LOCAL 72 /* GPUs of one host */
#define TOPO_TREE_DOWN 3  /* children in a tree: two hosts, and the next GPU of this one */

/* Path types, best first; numbers and names are NCCL's. */
enum topo_path_type {
	TOPO_PATH_LOC,
	TOPO_PATH_NVL,
	TOPO_PATH_NVB,
	TOPO_PATH_C2C,
	TOPO_PATH_PIX,
	TOPO_PATH_PXB,
	TOPO_PATH_P2C,
	TOPO_PATH_PXN,
	TOPO_PATH_PHB,
	TOPO_PATH_SYS,
	TOPO_PATH_NET,
	TOPO_PATH_DIS
};
const char *topo_path_name(enum topo_path_type t);

struct topo_system; /* one host's model with the GPUs in use, immutable */

#define TOPO_MAX_MERGED  4   /* devices of a merged NIC */
#define TOPO_NIC_NAME    128 /* bytes of its name: those of its devices, joined by '+' */
#define TOPO_MAX_DEVICES 32  /* of the network, that a selection names */

/* Which of the host's GPUs take part: in order of local rank, the bus id, or "" to go by `dev`. And
 * with network_known, which devices the network has: NICs of the file that are not among them do
 * not count, and those that the file lacks are put below its first CPU, as NCCL does. With `merge`,
 * NICs are merged as the environment has it: where the network can go over several devices at the
 * same time. */
struct topo_select {
	int32_t count;
	struct {
		char bus_id[24];
		int32_t dev;
	} gpu[TOPO_MAX_LOCAL];
	bool network_known, merge;
	int32_t devices;
	struct {
		char name[32];
		uint64_t guid;
		int32_t port;
		uint32_t mbit;
		int32_t link; /* its kind: devices of two kinds are not merged */
		bool gdr;
	} device[TOPO_MAX_DEVICES];
};

/* Builds (or finds) the model. `source` names the input in errors, which give file, line, element,
 * attribute and what was expected. When the XML lacks one of the bus ids (it may describe another
 * machine of the same kind), all GPUs are looked up by dev. The result lives as long as the
 * process. */
ncclResult_t topo_system_get(const char *xml, size_t bytes, const char *source,
			     const struct topo_select *select, const struct topo_system **sys);

int32_t topo_gpu_count(const struct topo_system *sys);
int32_t topo_nic_count(const struct topo_system *sys);
/* Name of NIC n ("mlx5_0", "mlx5_0+mlx5_1"); its devices are found by it. */
const char *topo_nic_name(const struct topo_system *sys, int32_t nic);
/* The name of its device i. False: it has no more. */
bool topo_nic_device(const struct topo_system *sys, int32_t nic, int32_t i,
		     char name[TOPO_NIC_NAME]);
int32_t topo_gpu_sm(const struct topo_system *sys, int32_t gpu);

/* Between GPUs a and b, or GPU and NIC (indices: local rank, NIC order); the GPU's own path, not
 * one by way of another GPU (PXN), which the search reckons with. */
enum topo_path_type topo_gpu_path(const struct topo_system *sys, int32_t a, int32_t b);
enum topo_path_type topo_nic_path(const struct topo_system *sys, int32_t gpu, int32_t nic);
/* The NIC that is nearest to the GPU by its own path; of several the first. -1: the host has
 * none. */
int32_t topo_nic_nearest(const struct topo_system *sys, int32_t gpu);
/* PXN: the GPU by whose memory the path from `gpu` to the NIC leads. -1: the path leads by none. */
int32_t topo_nic_relay(const struct topo_system *sys, int32_t gpu, int32_t nic);
/* PXN of messages: the GPU that the NIC belongs to, `gpu` or one of its host that `gpu` reaches
 * over NVLink, and which is next to the NIC with GPU direct, whatever the path from `gpu` to the
 * NIC is. -1: there is none. */
int32_t topo_nic_owner(const struct topo_system *sys, int32_t gpu, int32_t nic);
uint32_t topo_gpu_bw_mbps(const struct topo_system *sys, int32_t a, int32_t b);
uint32_t topo_nic_bw_mbps(const struct topo_system *sys, int32_t gpu, int32_t nic);

/* May GPU a reach GPU b's memory directly (NCCL_P2P_LEVEL, NCCL_P2P_DISABLE)? */
bool topo_p2p_ok(const struct topo_system *sys, int32_t a, int32_t b);
/* May the NIC reach the GPU's memory (NCCL_NET_GDR_LEVEL)? And must a write by it be flushed before
 * a running kernel sees it (before sm 90)? */
bool topo_gdr_ok(const struct topo_system *sys, int32_t gpu, int32_t nic);
bool topo_needs_flush(const struct topo_system *sys, int32_t gpu);

/* What is searched for; the numbers are NCCL's graph ids. */
enum topo_pattern {
	TOPO_RING,
	TOPO_TREE,
	TOPO_COLLNET_CHAIN,
	TOPO_NVLS,
	TOPO_COLLNET_DIRECT,
	TOPO_SEARCHED_PATTERNS
};
/* Those whose graphs ranks exchange and connect, from the first on: each is a part of
 * topo_rank_info and has a file that joins the hosts' graphs (connect_ring.c, connect_tree.c). */
#define TOPO_PATTERNS 2
/* The others, which have heads (heads.h), and their indices in arrays of these alone. */
#define TOPO_HEAD_PATTERNS (TOPO_SEARCHED_PATTERNS - TOPO_PATTERNS)
static inline int32_t topo_head_index(enum topo_pattern pattern)
{
	return (int32_t)pattern - TOPO_PATTERNS;
}
const char *topo_pattern_name(enum topo_pattern p);

/* What a channel of a graph looks like; the numbers are NCCL's. */
enum topo_shape {
	TOPO_SHAPE_BALANCED_TREE = 1, /* a chain; returns to the network half at its first GPU, half
				       * at the second */
	TOPO_SHAPE_SPLIT_TREE,        /* ... at the second */
	TOPO_SHAPE_TREE,              /* ... at the first */
	TOPO_SHAPE_RING,              /* ... at the last; within a host it closes */
	TOPO_SHAPE_NVLS,              /* a star: a head and, over the NVSwitch, all GPUs */
	TOPO_SHAPE_COLLNET_DIRECT,    /* a star: a head and all other GPUs */
};
const char *topo_shape_name(enum topo_shape s);

/* What a search found, for one host. */
struct topo_graph {
	int32_t pattern; /* enum topo_pattern */
	int32_t shape;   /* enum topo_shape */
	int32_t nchannels;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter; /* enum topo_path_type */
	int32_t same_channels, cross_nic;
	/* Local ranks of a channel. Ring: from where it enters the host to where it leaves. Tree: a
	 * chain from the GPU next to the network, each GPU the parent of the next. Stars: the head,
	 * then the others. */
	int16_t order[DEV_MAX_CHANNELS][TOPO_MAX_LOCAL];
	/* NIC by which channel c enters (0) and leaves (1); of a tree, that of its first and its
	 * second GPU. -1: single host. */
	int16_t nic[DEV_MAX_CHANNELS][2];
};

/* inter: the channels leave the host. Rings and trees always exist if there is a GPU (0.1 GB/s
 * where nothing fits). A graph that the host cannot have (NVLS without NVSwitches or before sm 90,
 * CollNet without NICs that reduce and NCCL_COLLNET_ENABLE) has nchannels 0. */
ncclResult_t topo_search(const struct topo_system *sys, enum topo_pattern pattern, bool inter,
			 struct topo_graph *graph);
void topo_graph_print_xml(const struct topo_system *sys, struct topo_graph *const *graph,
			  int32_t count, FILE *out);
/* Graphs in one text. Returns its bytes, without the NUL; it is complete if these are less than
 * `room`. */
size_t topo_graphs_xml(const struct topo_system *sys, struct topo_graph *const *graph,
		       int32_t count, char *text, size_t room);
/* For people: the tree of CPUs, switches, GPUs and NICs with their links, and the matrix of paths
 * from GPUs to GPUs and NICs; the matrix alone. */
void topo_system_print(const struct topo_system *sys, FILE *out);
void topo_matrix_print(const struct topo_system *sys, FILE *out);

/* What each rank contributes to the agreement on channels, all-gathered by core/comm: its host's
 * graph of every pattern, */
struct topo_graph_info {
	int32_t nchannels;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter;
	int32_t same_channels, cross_nic;
	int32_t shape; /* enum topo_shape */
};
DOPPEL_CHECK_SIZE(struct topo_graph_info, 32);
/* and its own place in the graphs: */
struct topo_ring_info {
	int32_t prev[DEV_MAX_CHANNELS]; /* global ranks within the host, -1: enters here */
	int32_t next[DEV_MAX_CHANNELS]; /* -1: leaves here */
};
struct topo_tree_info {
	int16_t place
		[DEV_MAX_CHANNELS]; /* in the order of its host; -1: there is no such channel */
};
struct topo_rank_info {
	uint64_t host_hash;
	int32_t local_rank; /* order on its host */
	int32_t sm;         /* compute capability of the rank's GPU; 0: unknown */
	int32_t amd_cpu;    /* 1: of its host */
	int32_t direct;  /* the farthest path to another GPU of the host; -1: p2p reaches not all */
	int32_t network; /* the caller's: which one its NICs are of; -1: none */
	int32_t nic; /* by which messages come in: the nearest to its GPU; -1: its host has none */
	struct topo_graph_info graph[TOPO_PATTERNS];
	struct topo_ring_info ring;
	struct topo_tree_info tree;
};
DOPPEL_CHECK_SIZE(struct topo_rank_info, 736);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, graph, 32);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, ring, 96);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, tree, 608);
/* Fills all of it but the network for rank `local_rank` of this host; local_to_rank[local] is its
 * global rank. */
void topo_rank_info_fill(struct topo_rank_info *info, const struct topo_system *sys,
			 struct topo_graph *const graph[TOPO_PATTERNS], uint64_t host_hash,
			 int32_t local_rank, const int32_t *local_to_rank);

/* Settings that a search depends on, as a number. Ranks of a host whose settings differ may find
 * different graphs. */
uint32_t topo_settings_read(void);
/* The variable that is the first in which they differ, with both values; NULL: none. */
enum { TOPO_SETTING_TEXT = 16 };
const char *topo_settings_differ(uint32_t a, uint32_t b, char of_a[TOPO_SETTING_TEXT],
				 char of_b[TOPO_SETTING_TEXT]);

/* What the choice of programs (core/tune) knows of the machines: of all ranks together, the same on
 * each of them. */
struct topo_graph_summary {
	int32_t nchannels; /* the fewest that a host found, of rings or of trees */
	uint32_t bw_intra_mbps, bw_inter_mbps; /* of a channel, the slowest */
	int32_t type_intra, type_inter;        /* the farthest */
	int32_t same_channels;                 /* on every host */
	int32_t shape; /* enum topo_shape; of trees the plainest, TOPO_SHAPE_TREE if any host has it */
};
struct topo_summary {
	int32_t nranks, nhosts;
	int32_t host_least, host_most; /* ranks of a host */
	int32_t sm_least, sm_most;
	int32_t amd_cpus; /* ranks whose host has them */
	int32_t direct; /* the farthest path between two GPUs; -1: p2p does not connect all ranks */
	struct topo_graph_summary graph[TOPO_PATTERNS];
};
ncclResult_t topo_summary_make(struct topo_summary *s, const struct topo_rank_info *all,
			       int nranks);

/* The ring of every channel over all hosts, one answer for all ranks. prev/next/index: per channel
 * for this rank. nchannels: the minimum over ranks, of rings and of trees, then doubled as NCCL
 * does at connect; the user's limits are the caller's business. */
struct topo_rings {
	int32_t nchannels;
	int32_t distinct; /* channels from here on repeat those from 0 on */
	int32_t prev[DEV_MAX_CHANNELS], next[DEV_MAX_CHANNELS], index[DEV_MAX_CHANNELS];
	/* The channel of this host's graph that the ring goes through here. */
	int32_t from[DEV_MAX_CHANNELS];
};
/* order: NULL, or [DEV_MAX_CHANNELS * nranks], of which the distinct rings are filled with their
 * ranks by position: position 0 holds rank 0, order[c * nranks + index[c]] is this rank. */
ncclResult_t topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_rings *rings, int32_t *order);

/* The tree of every channel over all hosts, one answer for all ranks: within a host the chain of
 * its graph's order, between the hosts a binary tree, of which there are two: channels of the first
 * half have the first one, those of the second half the other, in which hosts that have children in
 * the first are leaves. `distinct` is twice the fewest channels that a host found, of rings or of
 * trees; channels from there on repeat those from 0 on. Per channel, for this rank: its parent and
 * its children, -1: none, and for each of them that is on another host which of the two NICs of its
 * graph's channel `from` it uses; -1: it is on this host. */
struct topo_trees {
	int32_t distinct;
	int32_t from[DEV_MAX_CHANNELS];
	int32_t up[DEV_MAX_CHANNELS], down[DEV_MAX_CHANNELS][TOPO_TREE_DOWN];
	int8_t nic_up[DEV_MAX_CHANNELS], nic_down[DEV_MAX_CHANNELS][TOPO_TREE_DOWN];
};
/* parent: [DEV_MAX_CHANNELS * nranks], of which the distinct trees are filled with every rank's
 * parent. What is no tree over all ranks is ncclInternalError, which names rank and channel. */
ncclResult_t topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_trees *trees, int32_t *parent);
/* "1/-1/-1->0->-1": the children of a rank in a channel, the rank, its parent. */
#define TOPO_TREE_TEXT 64
const char *topo_tree_text(const struct topo_trees *trees, int32_t channel, int rank,
			   char text[TOPO_TREE_TEXT]);
/* "Trees [0] 1/-1/-1->0->-1 [1] ...", as NCCL's ranks log them; as many channels as a line of the log has room
 * for. */
void topo_trees_log(const struct topo_trees *trees, int32_t nchannels, int rank);
/* Rings and trees of all ranks together, where one program looks at several of them: O(ranks x
 * channels) in all, and O(channels) for a rank. `all` stays the caller's, and must live as long. */
struct topo_connected;
ncclResult_t topo_connect_all(const struct topo_rank_info *all, int nranks,
			      struct topo_connected **connected);
void topo_connect_get(const struct topo_connected *c, int rank, struct topo_rings *rings,
		      struct topo_trees *trees);
void topo_connect_free(struct topo_connected *c);
/* For each rank, over which of this rank's links it is reached: 0 over the parent, 1 + i over child
 * i, TOPO_TREE_SELF: it is this one. `parent` is of one channel. */
#define TOPO_TREE_SELF 0xffu
void topo_tree_toward(const int32_t *parent, int nranks, int rank,
		      const int32_t down[TOPO_TREE_DOWN], uint8_t *toward);

/* What a rank has worked out for all ranks, in numbers: a hash of the ring and of the tree of each
 * channel, and of the heads (heads.h) of each pattern that has some. All ranks must have the
 * same. */
struct topo_digest {
	int32_t nchannels, rings, trees; /* of the communicator; that are distinct */
	uint32_t pad0;
	uint64_t ring[DEV_MAX_CHANNELS], tree[DEV_MAX_CHANNELS];
	uint64_t heads[TOPO_HEAD_PATTERNS]; /* 0: none */
};
DOPPEL_CHECK_SIZE(struct topo_digest, 16 + 16 * DEV_MAX_CHANNELS + 8 * TOPO_HEAD_PATTERNS);
/* `order` and `parent` are those of topo_connect_rings and topo_connect_trees. There are no
 * heads. */
void topo_digest_make(struct topo_digest *d, int nranks, int32_t nchannels,
		      const struct topo_rings *rings, const int32_t *order,
		      const struct topo_trees *trees, const int32_t *parent);
uint64_t topo_digest_hash(const struct topo_digest *d);
/* Of all ranks. ncclInternalError names the first rank that differs from rank 0, and in what: a
 * channel's ring or tree, or a pattern's heads. */
ncclResult_t topo_digest_compare(const struct topo_digest *all, int nranks);

#endif
