/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topology: from one host's NCCL topology XML to a model, its paths, and the graphs that fit. All
 * functions are pure: no clock, no random numbers, no floating point. Two ranks with the same XML
 * and selection get the same answer, shared through os_memo. Called by core/comm and by `doppel
 * topo`. Bandwidths are integers in MB/s (1e6 bytes/s): NCCL's "20.6" is 20600. The numbers are
 * those of NCCL 2.30's topology model, paths and search.
 *
 * search.c has the search; record.h explains its tries and its choice.
 */
#ifndef CORE_TOPO_TOPO_H
#define CORE_TOPO_TOPO_H

#include <stdio.h>

#include "core/device/layout/work.h"
#include "core/include/nccl.h"
#include "core/os/os.h"

#define TOPO_MAX_LOCAL 72 /* GPUs of one host */
#define TOPO_TREE_DOWN 3 /* children in a tree: two on other hosts, and the next GPU of this host */

/* Path types, best first; the numbers and names are NCCL's. */
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

struct topo_system; /* one host's model with the GPUs in use; immutable */

#define TOPO_MAX_MERGED  4   /* most devices of a merged NIC */
#define TOPO_NIC_NAME    128 /* bytes of its name: the names of its devices, joined by '+' */
#define TOPO_MAX_DEVICES 32  /* most devices of the network in a selection */

/* The GPUs of a host that take part, in order of local rank: each by its bus id, or by `dev` if the
 * bus id is "".
 *
 * With network_known it also lists the network's devices. NICs of the file that are not among them
 * do not count. Devices that the file lacks are put below its NIC with their bus id, else below its
 * first CPU, as in NCCL. With `merge`, NICs are merged as the environment requires, for a network
 * that can use several devices together. */
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
		char bus_id[24]; /* of its PCI function; "": unknown */
		uint64_t guid;
		int32_t port;
		uint32_t mbit;
		int32_t link; /* kind of link; devices of two kinds are not merged */
		bool gdr;
		bool coll; /* it can reduce */
	} device[TOPO_MAX_DEVICES];
};

/* Builds or finds the model. `source` names the input in errors, which state file, line, element,
 * attribute and what was expected. If the XML lacks one of the bus ids, all GPUs are looked up by
 * dev: the XML may describe another machine of the same kind. The result lives as long as the
 * process. */
ncclResult_t topo_system_get(const char *xml, size_t bytes, const char *source,
			     const struct topo_select *select, const struct topo_system **sys);

int32_t topo_gpu_count(const struct topo_system *sys);
int32_t topo_nic_count(const struct topo_system *sys);
/* Returns the name of NIC n ("mlx5_0", "mlx5_0+mlx5_1"), by which its devices are found. */
const char *topo_nic_name(const struct topo_system *sys, int32_t nic);
/* Writes the name of device i of the NIC. False: the NIC has fewer devices, or there is no such
 * NIC. */
bool topo_nic_device(const struct topo_system *sys, int32_t nic, int32_t i,
		     char name[TOPO_NIC_NAME]);
int32_t topo_gpu_sm(const struct topo_system *sys, int32_t gpu);

/* Return the path type between GPUs a and b, or a GPU and a NIC (indices: local rank, NIC order).
 * For a NIC it is the GPU's own path, not one through another GPU (PXN); the search uses the
 * latter. */
enum topo_path_type topo_gpu_path(const struct topo_system *sys, int32_t a, int32_t b);
enum topo_path_type topo_nic_path(const struct topo_system *sys, int32_t gpu, int32_t nic);
/* Returns the NIC that is nearest to the GPU by its own path; the first of several. -1: the host
 * has no NIC. */
int32_t topo_nic_nearest(const struct topo_system *sys, int32_t gpu);
/* PXN: returns the GPU whose memory the path from `gpu` to the NIC uses. -1: the path uses no
 * GPU. */
int32_t topo_nic_relay(const struct topo_system *sys, int32_t gpu, int32_t nic);
/* PXN of messages: returns the GPU that the NIC belongs to, whatever the path from `gpu` to the
 * NIC. It is `gpu`, or a GPU of its host that `gpu` reaches over NVLink. It is next to the NIC and
 * has GPU direct. -1: no such GPU. */
int32_t topo_nic_owner(const struct topo_system *sys, int32_t gpu, int32_t nic);
uint32_t topo_gpu_bw_mbps(const struct topo_system *sys, int32_t a, int32_t b);
uint32_t topo_nic_bw_mbps(const struct topo_system *sys, int32_t gpu, int32_t nic);

/* True if GPU a may access GPU b's memory directly (NCCL_P2P_LEVEL, NCCL_P2P_DISABLE). */
bool topo_p2p_ok(const struct topo_system *sys, int32_t a, int32_t b);
/* topo_gdr_ok: true if the NIC may access the GPU's memory (NCCL_NET_GDR_LEVEL). topo_needs_flush:
 * true if a NIC's write must be flushed before a running kernel sees it (before sm 90). */
bool topo_gdr_ok(const struct topo_system *sys, int32_t gpu, int32_t nic);
bool topo_needs_flush(const struct topo_system *sys, int32_t gpu);

/* Patterns of a search; the numbers are NCCL's graph ids. */
enum topo_pattern {
	TOPO_RING,
	TOPO_TREE,
	TOPO_COLLNET_CHAIN,
	TOPO_NVLS,
	TOPO_COLLNET_DIRECT,
	TOPO_SEARCHED_PATTERNS
};
/* Number of patterns, from the first on, whose graphs ranks exchange and connect. Each is a part of
 * topo_rank_info, and has a file that joins the hosts' graphs (connect_ring.c, connect_tree.c). */
#define TOPO_PATTERNS 2
/* Number of the other patterns, which have heads (heads.h), and their index in arrays of them. */
#define TOPO_HEAD_PATTERNS (TOPO_SEARCHED_PATTERNS - TOPO_PATTERNS)
static inline int32_t topo_head_index(enum topo_pattern pattern)
{
	return (int32_t)pattern - TOPO_PATTERNS;
}
const char *topo_pattern_name(enum topo_pattern p);

/* Shape of a graph's channel; the numbers are NCCL's. */
enum topo_shape {
	/* A chain; half of it returns to the network at its first GPU, half at the second. */
	TOPO_SHAPE_BALANCED_TREE = 1,
	TOPO_SHAPE_SPLIT_TREE, /* a chain that returns at the second GPU */
	TOPO_SHAPE_TREE,       /* a chain that returns at the first GPU */
	TOPO_SHAPE_RING,       /* a chain that returns at the last GPU; within a host it closes */
	TOPO_SHAPE_NVLS,       /* a star: a head and, over the NVSwitch, all GPUs */
	TOPO_SHAPE_COLLNET_DIRECT, /* a star: a head and all other GPUs */
};
const char *topo_shape_name(enum topo_shape s);

/* Result of a search for one host. */
struct topo_graph {
	int32_t pattern; /* enum topo_pattern */
	int32_t shape;   /* enum topo_shape */
	int32_t nchannels;
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int32_t type_intra, type_inter; /* enum topo_path_type */
	int32_t same_channels, cross_nic;
	/* Local ranks of a channel. Ring: from the GPU where it enters the host to the GPU where it
	 * leaves. Tree: a chain from the GPU next to the network, each GPU the parent of the next
	 * one. Star: the head, then the others. */
	int16_t order[DEV_MAX_CHANNELS][TOPO_MAX_LOCAL];
	/* NICs by which channel c enters [0] and leaves [1]; of a tree, the NICs of its first and
	 * its second GPU. -1: single host. */
	int16_t nic[DEV_MAX_CHANNELS][2];
};

/* Searches a graph. `inter`: the channels leave the host. A host with a GPU always has rings and
 * trees (0.1 GB/s if nothing fits). Some graphs are impossible: NVLS without NVSwitches or before
 * sm 90, and CollNet without NICs that reduce or without NCCL_COLLNET_ENABLE. They have nchannels
 * 0. */
ncclResult_t topo_search(const struct topo_system *sys, enum topo_pattern pattern, bool inter,
			 struct topo_graph *graph);
void topo_graph_print_xml(const struct topo_system *sys, struct topo_graph *const *graph,
			  int32_t count, FILE *out);
/* Writes graphs as one XML text. Returns its bytes without the NUL. The text is complete if that is
 * less than `room`. */
size_t topo_graphs_xml(const struct topo_system *sys, struct topo_graph *const *graph,
		       int32_t count, char *text, size_t room);
/* Print the model for people: the tree of CPUs, switches, GPUs and NICs with their links, and the
 * matrix of paths from GPUs to GPUs and NICs. topo_matrix_print prints the matrix alone. */
void topo_system_print(const struct topo_system *sys, FILE *out);
void topo_matrix_print(const struct topo_system *sys, FILE *out);

/* A rank's contribution to the agreement on channels, all-gathered by core/comm. First its host's
 * graph of every pattern. */
struct topo_graph_info {
	uint32_t bw_intra_mbps, bw_inter_mbps;
	int8_t nchannels;
	int8_t type_intra, type_inter;
	int8_t same_channels, cross_nic;
	int8_t shape; /* enum topo_shape */
	uint16_t pad0;
};
DOPPEL_CHECK_SIZE(struct topo_graph_info, 16);
DOPPEL_STATIC_CHECK(DEV_MAX_CHANNELS <= INT8_MAX && TOPO_MAX_LOCAL <= INT8_MAX,
		    "channels and local ranks fit the gathered data");
/* The rank's own place in the graphs. */
struct topo_ring_info {
	int8_t prev[DEV_MAX_CHANNELS]; /* local rank; -1: the ring enters here */
	int8_t next[DEV_MAX_CHANNELS]; /* -1: the ring leaves here */
};
struct topo_tree_info {
	/* Place in the order of its host. -1: no such channel. */
	int8_t place[DEV_MAX_CHANNELS];
};
/* Small, because each rank holds those of all ranks. */
struct topo_rank_info {
	uint64_t host_hash;
	int32_t local_rank; /* index on its host */
	int32_t sm;         /* compute capability of the rank's GPU; 0: unknown */
	int32_t amd_cpu;    /* 1: its host has AMD CPUs */
	/* The farthest path to another GPU of the host. -1: p2p does not reach all of them. */
	int32_t direct;
	int32_t network; /* network of its NICs, set by the caller; -1: no network */
	/* NIC that receives its messages: the nearest to its GPU. -1: its host has no NIC. */
	int32_t nic;
	struct topo_graph_info graph[TOPO_PATTERNS];
	struct topo_ring_info ring;
	struct topo_tree_info tree;
};
DOPPEL_CHECK_SIZE(struct topo_rank_info, 256);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, graph, 32);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, ring, 64);
DOPPEL_CHECK_OFFSET(struct topo_rank_info, tree, 192);
/* Fills all fields but `network` for rank `local_rank` of this host. */
void topo_rank_info_fill(struct topo_rank_info *info, const struct topo_system *sys,
			 struct topo_graph *const graph[TOPO_PATTERNS], uint64_t host_hash,
			 int32_t local_rank);

/* Returns the settings that a search depends on, as a number. Ranks of a host with different
 * settings may find different graphs. */
uint32_t topo_settings_read(void);
/* Returns the first variable that differs, with both values; NULL: the settings are the same. */
enum { TOPO_SETTING_TEXT = 16 };
const char *topo_settings_differ(uint32_t a, uint32_t b, char of_a[TOPO_SETTING_TEXT],
				 char of_b[TOPO_SETTING_TEXT]);

/* Facts about the machines for the choice of programs (core/tune): a summary over all ranks, the
 * same on each of them. */
struct topo_graph_summary {
	int32_t nchannels;                     /* the fewest that a host found, of rings or trees */
	uint32_t bw_intra_mbps, bw_inter_mbps; /* of a channel; the slowest host's */
	int32_t type_intra, type_inter;        /* the farthest */
	int32_t same_channels;                 /* 1: every host has them */
	/* enum topo_shape; for trees the plainest: TOPO_SHAPE_TREE if any host has it. */
	int32_t shape;
};
struct topo_summary {
	int32_t nranks, nhosts;
	int32_t host_least, host_most; /* fewest and most ranks of a host */
	int32_t sm_least, sm_most;
	int32_t amd_cpus; /* ranks whose host has AMD CPUs */
	/* The farthest path between two GPUs. -1: p2p does not connect all ranks. */
	int32_t direct;
	/* Index: enum topo_pattern. topo_summary_make leaves the chains' entry empty. core/comm
	 * fills it if the communicator has CollNet. */
	struct topo_graph_summary graph[TOPO_COLLNET_CHAIN + 1];
};
ncclResult_t topo_summary_make(struct topo_summary *s, const struct topo_rank_info *all,
			       int nranks);

/* The ring of every channel over all hosts; all ranks compute the same rings. prev, next and index
 * are this rank's, by channel. nchannels is the minimum over ranks, of rings and trees, and then
 * doubled as NCCL does at connect. The caller applies the user's limits. */
struct topo_rings {
	int32_t nchannels;
	int32_t distinct; /* number of different rings; later channels repeat them */
	int32_t prev[DEV_MAX_CHANNELS], next[DEV_MAX_CHANNELS], index[DEV_MAX_CHANNELS];
	/* Channel of this host's graph that the ring uses here. */
	int32_t from[DEV_MAX_CHANNELS];
};
/* Returns the fewest channels that a rank has, at least 0: no more rings than these are distinct,
 * and no more trees than twice as many. */
int32_t topo_connect_fewest(const struct topo_rank_info *all, int nranks);
/* order: NULL, or [topo_connect_fewest * nranks]. The distinct rings are filled with their ranks by
 * position. Position 0 holds rank 0; order[c * nranks + index[c]] is this rank. */
ncclResult_t topo_connect_rings(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_rings *rings, int32_t *order);

/* The tree of every channel over all hosts; all ranks compute the same trees. Within a host it is
 * the chain of its graph's order. Between hosts it is one of two binary trees: the first half of
 * the channels uses the first tree, the second half the second. Hosts with children in the first
 * tree are leaves in the second.
 *
 * `distinct` is twice the fewest channels that a host found, of rings or trees. Later channels
 * repeat those from 0 on. `up` and `down` are this rank's parent and children by channel; -1: no
 * such rank. nic_up and nic_down are 0 or 1 for a rank on another host: which NIC of its graph's
 * channel `from` this rank uses. -1: the rank is on this host. */
struct topo_trees {
	int32_t distinct;
	int32_t from[DEV_MAX_CHANNELS];
	int32_t up[DEV_MAX_CHANNELS], down[DEV_MAX_CHANNELS][TOPO_TREE_DOWN];
	int8_t nic_up[DEV_MAX_CHANNELS], nic_down[DEV_MAX_CHANNELS][TOPO_TREE_DOWN];
};
/* parent: [2 * topo_connect_fewest * nranks]. The distinct trees are filled with every rank's
 * parent. ncclInvalidUsage: a rank's place in a tree is outside its host's order, or another
 * rank's; the log names rank and channel. ncclInternalError: a rank has no channel. */
ncclResult_t topo_connect_trees(const struct topo_rank_info *all, int nranks, int rank,
				struct topo_trees *trees, int32_t *parent);
/* Writes "1/-1/-1->0->-1": the children of a rank in a channel, the rank, its parent. */
#define TOPO_TREE_TEXT 64
const char *topo_tree_text(const struct topo_trees *trees, int32_t channel, int rank,
			   char text[TOPO_TREE_TEXT]);
/* Logs "Trees [0] 1/-1/-1->0->-1 [1] ...", as NCCL's ranks do, with as many channels as fit in a
 * line of the log. */
void topo_trees_log(const struct topo_trees *trees, int32_t nchannels, int rank);
/* Rings and trees of all ranks, for a program that looks at several ranks: O(ranks x channels) in
 * all, and O(channels) for a rank. The caller keeps `all`, which must live as long as the
 * result. */
struct topo_connected;
ncclResult_t topo_connect_all(const struct topo_rank_info *all, int nranks,
			      struct topo_connected **connected);
void topo_connect_get(const struct topo_connected *c, int rank, struct topo_rings *rings,
		      struct topo_trees *trees);
void topo_connect_free(struct topo_connected *c);
/* Sets toward[] for each rank: over which of this rank's links it is reached. 0: the parent, 1 + i:
 * child i, TOPO_TREE_SELF: this rank. `parent` is of one channel. */
#define TOPO_TREE_SELF 0xffu
void topo_tree_toward(const int32_t *parent, int nranks, int rank,
		      const int32_t down[TOPO_TREE_DOWN], uint8_t *toward);

/* Hashes of one rank's computation for all ranks: of the ring and the tree of each channel, and of
 * the heads (heads.h) of each pattern that has heads. All ranks must have the same. */
struct topo_digest {
	/* Channels of the communicator, distinct rings and distinct trees. */
	int32_t nchannels, rings, trees;
	uint32_t pad0;
	uint64_t ring[DEV_MAX_CHANNELS], tree[DEV_MAX_CHANNELS];
	uint64_t heads[TOPO_HEAD_PATTERNS]; /* 0: the pattern has no heads */
};
DOPPEL_CHECK_SIZE(struct topo_digest, 16 + 16 * DEV_MAX_CHANNELS + 8 * TOPO_HEAD_PATTERNS);
/* `order` and `parent` are those of topo_connect_rings and topo_connect_trees. Sets no heads. */
void topo_digest_make(struct topo_digest *d, int nranks, int32_t nchannels,
		      const struct topo_rings *rings, const int32_t *order,
		      const struct topo_trees *trees, const int32_t *parent);
uint64_t topo_digest_hash(const struct topo_digest *d);
/* Compares the digests of all ranks. ncclInternalError: the log names the first rank that differs
 * from rank 0, and the channel's ring or tree, or the pattern's heads. */
ncclResult_t topo_digest_compare(const struct topo_digest *all, int nranks);

#endif
