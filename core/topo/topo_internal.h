/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of core/topo share; no file of another room includes this.
 *
 *	input.c   XML -> struct topo_model (nodes and edges, grown as the file is read);
 *	          input_links.c: the links of GPUs
 *	nics.c    the network's devices instead of the file's
 *	merge.c   several of them as one
 *	model.c   the model's containers, flattening of switches, trimming to the GPUs in use
 *	topo.c    model -> struct topo_system, one immutable block; memo; accessors
 *	paths.c   paths between GPUs, nets and CPUs; which may reach which
 *	near.c    which nets belong to which GPU
 *	pattern.c what differs between patterns; speeds.c: NCCL's tables of speeds, and how many
 *	          channels can fit at one (cuts)
 *	channel.c one try: channels that fit at one speed, with these types; candidates.c: what it
 *	          tries, in which order
 *	search.c  the order in which tries are made; record.c: what came of each, for people
 *	connect.c what ranks exchange; connect_ring.c: rings of all hosts into one; connect_tree.c:
 *	          trees; connect_compare.c: do all ranks come to the same
 *	graph_file.c  graphs from NCCL's graph XML; graph_text.c: into it
 *	view.c    the model, for those that look at it (view.h); print.c: for people
 *
 * Positions. A GPU has a *position*, its place in the file among the GPUs in use, and a *local
 * rank*, its place in the selection. Paths and search work with positions (ties go to the file's
 * order, as in NCCL); topo.h speaks of local ranks. All bandwidths are MB/s.
 */
#ifndef CORE_TOPO_TOPO_INTERNAL_H
#define CORE_TOPO_TOPO_INTERNAL_H

#include "core/topo/view.h"

struct xml_node;

/* Limits. A file beyond them is refused, named. */
#define TOPO_MAX_NODES 4096
#define TOPO_MAX_EDGES 32768
#define TOPO_MAX_NETS  576
#define TOPO_MAX_GPUS  576 /* of a file; of a selection TOPO_MAX_LOCAL */
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
	bool dead;      /* removed by flattening or trimming; gone once the system is made */
	int32_t parent; /* in the PCI tree; TOPO_NO_NODE for CPU, NVS */
	int32_t line;   /* of the file */
	int32_t host;   /* of its NVLink domain, in the file's order; the NVSwitch: 0 */
	uint64_t bus;   /* PCI address as a number (topo_bus_on); NUMA id of a CPU */
	char name[TOPO_NIC_NAME]; /* bus id as the file has it; name of a net */
	int32_t dev;              /* GPU, net */
	/* of the PCI function, as the file has them; 0: unknown */
	int32_t lanes, milli_gts;
	uint64_t pci_id; /* vendor, device, subsystem vendor, subsystem device */
	union {
		struct {
			int32_t sm, local; /* local rank, -1: not in use */
			int32_t gcn;       /* AMD's graphics core, gfx90a: 0x90a; 0: not AMD's */
			int32_t lost;      /* NVLinks to functions that are not in the file */
			int32_t half;      /* 1 + its number (mlopart); 0: the whole GPU */
			int32_t again_line; /* of a further <gpu> that is this one; 0: there is none */
			bool gdr;
		} gpu;
		struct {
			uint8_t arch, vendor;
			int32_t family, model;
		} cpu;
		struct {
			uint64_t guid;
			bool has_guid; /* else the net is its own port */
			int32_t port;
			int32_t rail, plane; /* -1: not said */
			int32_t link;        /* its kind, as the network has it */
			bool coll;           /* it reduces */
			uint32_t bw_mbps;
			bool gdr;
		} net;
	};
	/* in a system: its links, best bandwidth first */
	int32_t first_link, link_count;
};

/* A directed link. Types have the numbers of the path that they alone make. */
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
	int32_t back; /* in a system: the link the other way, or TOPO_NO_LINK */
	uint32_t bw_mbps;
	uint8_t type; /* enum topo_link_type */
};

/* The model while it grows. Memory is os_alloc's. */
struct topo_model {
	const char *source;
	const struct topo_select *select; /* what is looked for in the file */
	struct topo_node *node;
	int32_t node_count, node_room;
	struct topo_link *edge;
	int32_t edge_count, edge_room;
	int32_t hosts;
	uint64_t host_hash[TOPO_MAX_HOSTS];
};

/* ---- model.c -------------------------------------------------------------------------------- */
void topo_model_fini(struct topo_model *m);
/* A zeroed node of this type, or TOPO_NO_NODE with a WARN. Pointers into m->node change. */
int32_t topo_model_node(struct topo_model *m, enum topo_node_type type, int32_t line);
/* Adds bandwidth to the link of this type from a to b, making it at need. */
ncclResult_t topo_model_link(struct topo_model *m, int32_t a, int32_t b, enum topo_link_type type,
			     uint32_t bw_mbps);
ncclResult_t topo_model_link_both(struct topo_model *m, int32_t a, int32_t b,
				  enum topo_link_type type, uint32_t bw_mbps);
int32_t topo_model_find(const struct topo_model *m, enum topo_node_type type, uint64_t bus);
void topo_model_kill(struct topo_model *m, int32_t node);
void topo_model_flatten_switches(struct topo_model *m);
ncclResult_t topo_model_connect_cpus(struct topo_model *m);
/* Gives GPUs their local ranks; removes those without. Between the two the links are read. */
ncclResult_t topo_model_select(struct topo_model *m, const struct topo_select *select);
void topo_model_trim(struct topo_model *m);
int32_t topo_model_hosts(const struct topo_model *m); /* that have a GPU in use */
/* The first GPU from `from` on of this bus id that is in use: the GPU, or one of its halves. */
int32_t topo_model_next_half(const struct topo_model *m, int32_t from, uint64_t bus);
int32_t topo_model_halves(const struct topo_model *m, uint64_t bus);
uint32_t topo_nvlink_mbps(int32_t sm);
uint32_t topo_xgmi_mbps(int32_t gcn);
/* "0000:13:00.0" -> number, the one that NCCL gives it; false: not a PCI address. */
bool topo_bus_parse(const char *text, uint64_t *bus);
/* The same function of another host has another number, as for NCCL: the host is above 56 bits. */
static inline uint64_t topo_bus_on(int32_t host, uint64_t bus)
{
	return (bus & (UINT64_MAX >> 8)) | (uint64_t)host << 56;
}

/* A number above those of all nets. */
int32_t topo_model_next_net(const struct topo_model *m);

/* ---- nics.c: makes the file's NICs those that the selection knows
 * ----------------------------- */
ncclResult_t topo_model_nics(struct topo_model *m, const struct topo_select *select);

/* ---- input.c -------------------------------------------------------------------------------- */
ncclResult_t topo_input_read(struct topo_model *m, const struct xml_node *root);
/* Logs "FILE:LINE:COLUMN: <element> ..." as the error. Returns ncclInvalidUsage. */
ncclResult_t topo_input_refuse(const struct xml_node *x, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* An attribute's number; `initial` when it is absent. Refuses what is not from lo to hi. */
ncclResult_t topo_input_int(const struct xml_node *x, const char *name, int64_t initial, int64_t lo,
			    int64_t hi, int32_t *out);
/* The host of a CPU by its host_hash; one without is of the host of the CPU before it. */
ncclResult_t topo_input_host(struct topo_model *m, const struct xml_node *cpu, int32_t *host);
/* input_links.c: the links of the GPUs below the CPUs. */
ncclResult_t topo_input_links(struct topo_model *m, const struct xml_node *root);

/* ---- topo.c --------------------------------------------------------------------------------- */

/* Whose rules, where NCCL's releases differ (NCCL_TOPO_COMPAT). */
enum topo_compat { TOPO_COMPAT_NEW /* 2.30 */, TOPO_COMPAT_2_28 };

/* How far devices of the network may be from each other to be merged. */
enum topo_merge_level {
	TOPO_MERGE_LOC,  /* no two are */
	TOPO_MERGE_PORT, /* of one card */
	TOPO_MERGE_PIX,  /* one PCI switch between them */
	TOPO_MERGE_PXB,  /* several */
	TOPO_MERGE_PHB,  /* their CPU */
	TOPO_MERGE_NEVER /* two CPUs */
};

/* What the environment sets; part of the key of everything cached. No padding inside. */
struct topo_params {
	int32_t p2p_level; /* enum topo_path_type; -1: default */
	int32_t gdr_level;
	int32_t cross_nic;                  /* 0, 1, 2 */
	int32_t min_channels, max_channels; /* of a search */
	int32_t gdr_flush_disable;
	int32_t pxn_disable, nvb_disable, collnet;
	int32_t compat; /* enum topo_compat */
	/* NICs, where the selection merges them: */
	int32_t merge_level; /* enum topo_merge_level */
	int32_t merge_rail;  /* of one rail only */
	char force_merge[TOPO_FORCE_MERGE_BYTES];
};
void topo_params_read(struct topo_params *params);

/* ---- merge.c: after the switches are flattened ---------------------------------------------- */
ncclResult_t topo_model_merge(struct topo_model *m, const struct topo_params *params);
/* Is the device one of those of a NIC's name, "mlx5_0+mlx5_1" or "mlx5_0"? */
bool topo_merged_has(const char *merged, const char *name);

struct topo_path {
	uint32_t bw_mbps;
	int32_t first;  /* in hops[] */
	int16_t count;  /* of links */
	int16_t length; /* as searches count: a GPU at an end is one more, since NCCL 2.29 */
	uint8_t type;   /* enum topo_path_type */
	uint8_t direct; /* of a relayed one (PXN): the type of the GPU's own path */
	bool gdr;       /* GPU to net: the net reaches the GPU's memory (before any relay) */
};

/* An end of a path: GPU by position, then nets, then CPUs, then the NVSwitch if there is one. */
struct topo_system {
	struct topo_params params;
	int32_t ngpus, nnets, ncpus, nnvs, nends;
	int32_t nnodes, nlinks, nhops;
	int32_t nhosts;        /* of one NVLink domain */
	int32_t one_way_links; /* that nothing leads back */
	int32_t sm_min;
	uint32_t best_bw_gpu, best_bw_net; /* of any GPU's path, before paths were replaced */
	int32_t end_node[TOPO_MAX_LOCAL + TOPO_MAX_NETS + TOPO_MAX_CPUS + 1];
	int16_t local_to_pos[TOPO_MAX_LOCAL], pos_to_local[TOPO_MAX_LOCAL];
	int16_t gpu_cpu[TOPO_MAX_LOCAL];          /* CPU index nearest to a GPU */
	int16_t net_gpu[TOPO_MAX_NETS];           /* the GPU that a net belongs to; -1: none */
	bool p2p[TOPO_MAX_LOCAL][TOPO_MAX_LOCAL]; /* by position */
	struct topo_node *node;                   /* all four point into memory after this struct */
	struct topo_link *link;
	struct topo_path *path; /* [nends][nends], from row to column */
	uint16_t *hop;          /* link numbers */
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
/* Fills path[], nhops, gpu_cpu[], net_gpu[] and p2p[]; the hops come in memory of os_alloc's. */
ncclResult_t topo_paths_compute(struct topo_system *sys, uint16_t **hop);
/* Is the GPU that the net belongs to next to it with GPU direct, and `pos` or one that `pos`
 * reaches over NVLink? */
bool topo_paths_owner_ok(const struct topo_system *sys, int32_t pos, int32_t net);
bool topo_host_is_amd(const struct topo_system *sys);

/* ---- near.c: which nets belong to which GPU ------------------------------------------------- */
/* Of `count` ends from `first` on, those with the most bandwidth from `from`, and among them those
 * of the nearest type: their indices, from 0; how many. */
int32_t topo_near(const struct topo_system *sys, int32_t from, int32_t first, int32_t count,
		  int16_t *out);
/* The nets that a GPU uses, in the order of its channels. out is [TOPO_MAX_NETS]. */
int32_t topo_near_nets(const struct topo_system *sys, int32_t pos, int16_t *out);
/* The GPU that uses the net in its earliest channel, or -1. */
int16_t topo_near_gpu(const struct topo_system *sys, int32_t net);

#endif
