/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of core/topo share; no other room includes this file.
 *
 *	model/    input.c: XML -> struct topo_model (nodes and edges, grown as the file is
 *	          read); input_links.c: the links of GPUs; nics.c: replaces the file's NICs by the
 *	          network's devices; merge.c: merges several devices into one; topo_model.c:
 *	          containers, flattening of switches, trimming to the GPUs in use; paths.c: paths
 * between GPUs, nets and CPUs, direct access; nearest.c: which nets belong to which GPU
 *	topo.c    model -> struct topo_system, one immutable block; memo; accessors
 *	search/   search.c: the order of tries; search_channel.c: one try, channels that fit at one
 *	          speed with these types; candidates.c: the candidates of a try, in order; bounds.c:
 *	          how many channels can fit at one speed (cuts); pattern.c: differences between
 *	          patterns; speeds.c: NCCL's tables; record.c: results of the tries, for people;
 *	          graph_file.c: reads graphs from NCCL's graph XML; graph_text.c: writes them
 *	connect/  topo_connect.c: the data that ranks exchange; connect_ring.c: joins the rings of
 *	          all hosts; connect_tree.c: trees; connect_compare.c: compares the ranks' results
 *	detect/   the machine as /sys, NVML and the network's devices show it (detect.h)
 *	view.c    the model for other programs (view.h); print.c: for people
 *
 * Positions. A GPU has a *position*, its place in the file among the GPUs in use, and a *local
 * rank*, its place in the selection. Paths and search use positions (ties go to the file's order,
 * as in NCCL). topo.h uses local ranks. All bandwidths are MB/s.
 */
#ifndef CORE_TOPO_TOPO_INTERNAL_H
#define CORE_TOPO_TOPO_INTERNAL_H

#include "core/topo/view.h"

struct xml_node;

/* Limits. The reader refuses a file beyond them, with a message. */
#define TOPO_MAX_NODES 4096
#define TOPO_MAX_EDGES 32768
#define TOPO_MAX_NETS  576
#define TOPO_MAX_GPUS  576 /* of a file; a selection has at most TOPO_MAX_LOCAL */
#define TOPO_MAX_CPUS  64
#define TOPO_MAX_HOSTS 64 /* of one NVLink domain */

#define TOPO_FORCE_MERGE_BYTES 512

#define TOPO_LOC_BW_MBPS    5000000u
#define TOPO_HALF_BW_MBPS   2618000u /* between the halves of a GPU */
#define TOPO_MAX_HALVES     2
#define TOPO_NO_NODE        (-1)
#define TOPO_NO_LINK        (-1)
#define TOPO_VIRTUAL_SWITCH "fffffff:ff:ff.0" /* NVSwitch of a virtual machine */

enum topo_cpu_arch {
	TOPO_CPU_ARCH_X86,
	TOPO_CPU_ARCH_POWER,
	TOPO_CPU_ARCH_ARM,
	TOPO_CPU_ARCH_OTHER
};
enum topo_cpu_vendor {
	TOPO_CPU_VENDOR_INTEL,
	TOPO_CPU_VENDOR_AMD,
	TOPO_CPU_VENDOR_ZHAOXIN,
	TOPO_CPU_VENDOR_OTHER
};

struct topo_node {
	uint8_t type;   /* enum topo_node_type */
	bool dead;      /* removed by flattening or trimming; not copied to the system */
	int32_t parent; /* in the PCI tree; TOPO_NO_NODE for CPU, NVS */
	int32_t line;   /* line of the file */
	int32_t host; /* index of its host in the NVLink domain, in the file's order; NVSwitch: 0 */
	uint64_t bus; /* PCI address as a number (topo_bus_on); NUMA id of a CPU */
	char name[TOPO_NIC_NAME]; /* bus id as in the file; name of a net */
	int32_t dev;              /* GPU, net */
	/* PCI link and identity as in the file; 0: unknown */
	int32_t lanes, milli_gts;
	uint64_t pci_id; /* vendor, device, subsystem vendor, subsystem device */
	union {
		struct {
			int32_t sm, local; /* local rank, -1: not in use */
			int32_t gcn;       /* AMD's graphics core, gfx90a: 0x90a; 0: not AMD */
			int32_t lost;      /* NVLinks to functions that are not in the file */
			int32_t half;      /* 1 + number of the half (mlopart); 0: the whole GPU */
			/* Line of a further <gpu> that is this GPU; 0: no such element. */
			int32_t again_line;
			bool gdr;
		} gpu;
		struct {
			uint8_t arch, vendor;
			int32_t family, model;
		} cpu;
		struct {
			uint64_t guid;
			bool has_guid; /* false: the net is a port of its own */
			int32_t port;
			int32_t rail, plane; /* -1: not in the file */
			int32_t link;        /* kind of link, as the network reports it */
			bool coll;           /* it can reduce */
			uint32_t bw_mbps;
			bool gdr;
		} net;
	};
	/* In a system: its links, best bandwidth first. */
	int32_t first_link, link_count;
};

/* A directed link. Each type has the number of the path that one such link makes. */
enum topo_link_type {
	TOPO_LINK_LOC = TOPO_PATH_LOC,
	TOPO_LINK_NVL = TOPO_PATH_NVL,
	TOPO_LINK_C2C = TOPO_PATH_C2C,
	TOPO_LINK_PCI = TOPO_PATH_PIX,
	TOPO_LINK_SYS = TOPO_PATH_SYS,
	TOPO_LINK_NET = TOPO_PATH_NET,
};
struct topo_link {
	int32_t from, to;
	int32_t back; /* in a system: the opposite link, or TOPO_NO_LINK */
	uint32_t bw_mbps;
	uint8_t type; /* enum topo_link_type */
};

/* The model while it grows. Its arrays are os_alloc's. */
struct topo_model {
	const char *source;
	const struct topo_select *select; /* GPUs and devices to look for in the file */
	struct topo_node *node;
	int32_t node_count, node_room;
	struct topo_link *edge;
	int32_t edge_count, edge_room;
	int32_t hosts;
	uint64_t host_hash[TOPO_MAX_HOSTS];
};

/* ---- topo_model.c ---------------------------------------------------------------------------- */
void topo_model_fini(struct topo_model *m);
/* Returns a zeroed node of this type, or TOPO_NO_NODE with a WARN. Pointers into m->node change. */
int32_t topo_model_node(struct topo_model *m, enum topo_node_type type, int32_t line);
/* Adds bandwidth to the link of this type from a to b; creates it if necessary. */
ncclResult_t topo_model_link(struct topo_model *m, int32_t a, int32_t b, enum topo_link_type type,
			     uint32_t bw_mbps);
ncclResult_t topo_model_link_both(struct topo_model *m, int32_t a, int32_t b,
				  enum topo_link_type type, uint32_t bw_mbps);
int32_t topo_model_find(const struct topo_model *m, enum topo_node_type type, uint64_t bus);
void topo_model_kill(struct topo_model *m, int32_t node);
void topo_model_flatten_switches(struct topo_model *m);
ncclResult_t topo_model_connect_cpus(struct topo_model *m);
/* topo_model_select gives GPUs their local ranks; topo_model_trim removes GPUs without one. The
 * links are read between the two calls. */
ncclResult_t topo_model_select(struct topo_model *m, const struct topo_select *select);
void topo_model_trim(struct topo_model *m);
int32_t topo_model_hosts(const struct topo_model *m); /* number of hosts with a GPU in use */
/* Returns the first GPU in use with this bus id, from node `from` on: the GPU, or one of its
 * halves. */
int32_t topo_model_next_half(const struct topo_model *m, int32_t from, uint64_t bus);
int32_t topo_model_halves(const struct topo_model *m, uint64_t bus);
uint32_t topo_nvlink_mbps(int32_t sm);
uint32_t topo_xgmi_mbps(int32_t gcn);
/* Converts "0000:13:00.0" to NCCL's number of it; false: not a PCI address. */
bool topo_bus_parse(const char *text, uint64_t *bus);
/* Returns the number of a function of a host. Functions of two hosts have different numbers, as in
 * NCCL: the host is above 56 bits. */
static inline uint64_t topo_bus_on(int32_t host, uint64_t bus)
{
	return (bus & (UINT64_MAX >> 8)) | (uint64_t)host << 56;
}

/* Returns a number above those of all nets. */
int32_t topo_model_next_net(const struct topo_model *m);

/* ---- nics.c: matches the file's NICs with the selection's ----------------------------------- */
ncclResult_t topo_model_nics(struct topo_model *m, const struct topo_select *select);

/* ---- input.c -------------------------------------------------------------------------------- */
ncclResult_t topo_input_read(struct topo_model *m, const struct xml_node *root);
/* Logs "FILE:LINE:COLUMN: <element> ..." as an error. Returns ncclInvalidUsage. */
ncclResult_t topo_input_refuse(const struct xml_node *x, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Reads a number; `initial` if the attribute is absent. Refuses values outside lo to hi. */
ncclResult_t topo_input_int(const struct xml_node *x, const char *name, int64_t initial, int64_t lo,
			    int64_t hi, int32_t *out);
/* Sets *host by the host_hash of a CPU. A CPU without one is of the host of the CPU before it. */
ncclResult_t topo_input_host(struct topo_model *m, const struct xml_node *cpu, int32_t *host);
/* input_links.c: reads the links of the GPUs below the CPUs. */
ncclResult_t topo_input_links(struct topo_model *m, const struct xml_node *root);

/* ---- topo.c --------------------------------------------------------------------------------- */

/* Release whose rules apply where NCCL's releases differ (NCCL_TOPO_COMPAT). */
enum topo_compat { TOPO_COMPAT_NEW /* 2.30 */, TOPO_COMPAT_2_28 };

/* Farthest distance at which devices of the network are merged. */
enum topo_merge_level {
	TOPO_MERGE_LOC,  /* none are merged */
	TOPO_MERGE_PORT, /* ports of one card */
	TOPO_MERGE_PIX,  /* one PCI switch between them */
	TOPO_MERGE_PXB,  /* several PCI switches */
	TOPO_MERGE_PHB,  /* the same CPU */
	TOPO_MERGE_NEVER /* different CPUs */
};

/* Settings of the environment; part of the key of every cached result. No padding inside. */
struct topo_params {
	int32_t p2p_level; /* enum topo_path_type; -1: default */
	int32_t gdr_level;
	int32_t cross_nic;                  /* 0, 1, 2 */
	int32_t min_channels, max_channels; /* limits of a search */
	int32_t gdr_flush_disable;
	int32_t pxn_disable, nvb_disable, collnet;
	int32_t compat; /* enum topo_compat */
	/* Merging of NICs, if the selection has `merge`: */
	int32_t merge_level; /* enum topo_merge_level */
	int32_t merge_rail;  /* only devices of one rail */
	char force_merge[TOPO_FORCE_MERGE_BYTES];
};
void topo_params_read(struct topo_params *params);

/* ---- merge.c: after the switches are flattened ---------------------------------------------- */
ncclResult_t topo_model_merge(struct topo_model *m, const struct topo_params *params);
/* True if the name of a NIC, "mlx5_0+mlx5_1" or "mlx5_0", contains the device. */
bool topo_merged_has(const char *merged, const char *name);

struct topo_path {
	uint32_t bw_mbps;
	int32_t first;  /* first of its links, in hops[] */
	int16_t count;  /* number of links */
	int16_t length; /* length in searches: a GPU at an end counts one more, since NCCL 2.29 */
	uint8_t type;   /* enum topo_path_type */
	uint8_t direct; /* of a relayed path (PXN): the type of the GPU's own path */
	bool gdr;       /* GPU to net: the net can access the GPU's memory (without a relay) */
};

/* A host's model and paths. Ends of paths: GPUs by position, then nets, CPUs, and the NVSwitch if
 * there is one. */
struct topo_system {
	struct topo_params params;
	int32_t ngpus, nnets, ncpus, nnvs, nends;
	int32_t nnodes, nlinks, nhops;
	int32_t nhosts;        /* hosts of the NVLink domain */
	int32_t one_way_links; /* links without an opposite link */
	int32_t sm_min;
	uint32_t best_bw_gpu, best_bw_net; /* best of any GPU's path, before paths were replaced */
	int32_t end_node[TOPO_MAX_LOCAL + TOPO_MAX_NETS + TOPO_MAX_CPUS + 1];
	int16_t local_to_pos[TOPO_MAX_LOCAL], pos_to_local[TOPO_MAX_LOCAL];
	int16_t gpu_cpu[TOPO_MAX_LOCAL]; /* index of the nearest CPU */
	int16_t net_gpu[TOPO_MAX_NETS];  /* position of the GPU that the net belongs to; -1: none */
	bool p2p[TOPO_MAX_LOCAL][TOPO_MAX_LOCAL]; /* direct access, by position */
	struct topo_node *node; /* the four pointers point into memory after this struct */
	struct topo_link *link;
	struct topo_path *path; /* [nends][nends]: from row to column */
	uint16_t *hop;          /* link indices */
};

static inline int32_t topo_end_gpu(const struct topo_system *sys, int32_t pos)
{
	return pos;
}
static inline int32_t topo_end_net(const struct topo_system *sys, int32_t net)
{
	return sys->ngpus + net;
}
static inline int32_t topo_end_cpu(const struct topo_system *sys, int32_t cpu)
{
	return sys->ngpus + sys->nnets + cpu;
}
static inline int32_t topo_end_nvs(const struct topo_system *sys)
{
	return sys->ngpus + sys->nnets + sys->ncpus;
}
static inline const struct topo_path *topo_path_at(const struct topo_system *sys, int32_t from,
						   int32_t to)
{
	return &sys->path[(size_t)from * (size_t)sys->nends + (size_t)to];
}
static inline const struct topo_node *topo_gpu_node(const struct topo_system *sys, int32_t pos)
{
	return &sys->node[sys->end_node[pos]];
}
static inline const struct topo_node *topo_net_node(const struct topo_system *sys, int32_t net)
{
	return &sys->node[sys->end_node[sys->ngpus + net]];
}
static inline const struct topo_node *topo_cpu_node(const struct topo_system *sys, int32_t cpu)
{
	return &sys->node[sys->end_node[sys->ngpus + sys->nnets + cpu]];
}

/* ---- paths.c -------------------------------------------------------------------------------- */
/* Fills path[], nhops, gpu_cpu[], net_gpu[] and p2p[]. *hop is allocated with os_alloc. */
ncclResult_t topo_paths_compute(struct topo_system *sys, uint16_t **hop);
/* True if the net's own GPU is next to it with GPU direct, and is `pos` or a GPU that `pos` reaches
 * over NVLink. */
bool topo_paths_owner_ok(const struct topo_system *sys, int32_t pos, int32_t net);
bool topo_host_is_amd(const struct topo_system *sys);

/* ---- nearest.c: which nets belong to which GPU ----------------------------------------------- */
/* Finds the ends with the most bandwidth from `from`, of `count` ends from `first` on; among equals
 * the nearest type counts. Writes their indices, from 0, and returns their number. */
int32_t topo_nearest(const struct topo_system *sys, int32_t from, int32_t first, int32_t count,
		     int16_t *out);
/* Writes the nets that a GPU uses, in the order of its channels, and returns their number. out is
 * [TOPO_MAX_NETS]. */
int32_t topo_nearest_nets(const struct topo_system *sys, int32_t pos, int16_t *out);
/* Returns the GPU that uses the net in its earliest channel, or -1. */
int16_t topo_nearest_gpu(const struct topo_system *sys, int32_t net);

#endif
