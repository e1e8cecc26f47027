/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's model for programs that show, check, compare or draw machines (`doppel topo`): its
 * elements and the links between them, by index. Read only; a search does not use it.
 *
 * An element has one type. CPUs and the NVSwitch are at the top. GPUs, NICs and switches are below
 * a CPU or a switch, a network device is below its NIC. Bandwidths are MB/s in one direction.
 */
#ifndef CORE_TOPO_VIEW_H
#define CORE_TOPO_VIEW_H

#include "core/topo/topo.h"

enum topo_node_type {
	TOPO_NODE_GPU,
	TOPO_NODE_PCI,
	TOPO_NODE_NVS,
	TOPO_NODE_CPU,
	TOPO_NODE_NIC,
	TOPO_NODE_NET,
	TOPO_NODE_C2C /* bridge of a GPU's halves to the CPU */
};

struct topo_element {
	enum topo_node_type type;
	const char *name; /* bus id; network device: its name; CPU: its NUMA node */
	int32_t parent;   /* index; -1: no parent */
	int32_t line;     /* line of the file; 0: not from the file */
	int32_t host;     /* index in the NVLink domain; 0 if there is one host */
	int32_t number;   /* GPU: local rank; network device: as in topo_nic_name; CPU: NUMA node */
	/* PCI link to the parent: */
	int32_t lanes;     /* 0: unknown */
	int32_t milli_gts; /* speed of a lane in thousandths of GT/s; 0: unknown */
	uint32_t up_mbps;  /* bandwidth; 0: no PCI link */
	/* vendor << 48 | device << 32 | subsystem vendor << 16 | device; 0: unknown. */
	uint64_t pci_id;
	/* GPU or network device: */
	int32_t dev;
	bool gdr;
	int32_t sm;   /* GPU: compute capability */
	int32_t gcn;  /* AMD's GPU: graphics core, gfx942: 0x942; 0: another vendor */
	int32_t half; /* GPU: 1 + number of the half (MLOPart); 0: the whole GPU */
	int32_t lost; /* GPU: NVLinks to functions that the file lacks */
	/* Network device: */
	uint32_t mbps; /* speed of its port */
	uint64_t guid; /* identifies the card, with `port`; 0: unknown */
	int32_t port;
	/* CPU: */
	const char *arch, *vendor;
	int32_t family, model;
};
int32_t topo_element_count(const struct topo_system *sys);
void topo_element_get(const struct topo_system *sys, int32_t index, struct topo_element *e);
/* Writes the element's name for people: "GPU 3", "NIC 0000:17:00.0", "mlx5_0", "CPU 1",
 * "NVSwitch". */
#define TOPO_ELEMENT_TEXT (TOPO_NIC_NAME + 16)
const char *topo_element_text(const struct topo_element *e, char text[TOPO_ELEMENT_TEXT]);
/* Return the element of a local rank, or of a NIC number. */
int32_t topo_element_of_gpu(const struct topo_system *sys, int32_t gpu);
int32_t topo_element_of_nic(const struct topo_system *sys, int32_t nic);
/* True if two NICs are one port of one card, whose bandwidth they share. */
bool topo_same_port(const struct topo_system *sys, int32_t a, int32_t b);

struct topo_edge {
	int32_t from, to; /* indices of elements */
	uint32_t mbps;
	/* Type of a path over this link alone: LOC, NVL, C2C, PIX, SYS or NET. */
	enum topo_path_type type;
};
int32_t topo_edge_count(const struct topo_system *sys);
void topo_edge_get(const struct topo_system *sys, int32_t index, struct topo_edge *edge);

/* Writes MB/s as GB/s: "30", "20.6". */
#define TOPO_GBPS_TEXT 16
const char *topo_gbps(uint32_t mbps, char text[TOPO_GBPS_TEXT]);
/* Writes "x16 32 GT/s"; "" if the file has neither. */
#define TOPO_PCI_TEXT 40
const char *topo_pci_text(const struct topo_element *e, char text[TOPO_PCI_TEXT]);

/* Returns the slowest speed that NCCL tries for such a graph; the search here also tries slower
 * ones. */
uint32_t topo_speed_least(const struct topo_system *sys, bool inter);

#endif
