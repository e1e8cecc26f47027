/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's model as it is, for programs that show, check, compare or draw machines (`doppel topo`):
 * its elements and the links between them, by index. Read only; nothing here takes part in a
 * search.
 *
 * An element is of one type and, but for CPUs and the NVSwitch, stands below another one: GPUs,
 * NICs and switches below a CPU or a switch, a network device below its NIC. Bandwidths are MB/s,
 * one direction.
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
	TOPO_NODE_C2C /* what the halves of a GPU share on the way to the CPU */
};

struct topo_element {
	enum topo_node_type type;
	const char *name; /* bus id; of a network device its name; of a CPU its NUMA node */
	int32_t parent;   /* index; -1: none */
	int32_t line;     /* of the file; 0: not from it */
	int32_t host;     /* of its NVLink domain; 0 where there is one host */
	int32_t number;   /* GPU: local rank; network device: of topo_nic_name; CPU: NUMA node */
	/* the PCI link to the parent */
	int32_t lanes;     /* 0: unknown */
	int32_t milli_gts; /* of a lane, in thousandths of GT/s; 0: unknown */
	uint32_t up_mbps;  /* 0: no such link */
	uint64_t
		pci_id; /* vendor << 48 | device << 32 | subsystem vendor << 16 | device; 0: none */
	/* GPU, network device */
	int32_t dev;
	bool gdr;
	int32_t sm;   /* GPU */
	int32_t gcn;  /* GPU of AMD: its graphics core, gfx942: 0x942; 0: of another vendor */
	int32_t half; /* GPU: 1 + the number of the half that it is (MLOPart); 0: the whole */
	int32_t lost; /* GPU: NVLinks to functions that the file lacks */
	/* network device */
	uint32_t mbps; /* of its port */
	uint64_t guid; /* with the number of the port; 0: it has none */
	int32_t port;
	/* CPU */
	const char *arch, *vendor;
	int32_t family, model;
};
int32_t topo_element_count(const struct topo_system *sys);
void topo_element_get(const struct topo_system *sys, int32_t index, struct topo_element *e);
/* As people name it: "GPU 3", "NIC 0000:17:00.0", "mlx5_0", "CPU 1", "NVSwitch". */
#define TOPO_ELEMENT_TEXT (TOPO_NIC_NAME + 16)
const char *topo_element_text(const struct topo_element *e, char text[TOPO_ELEMENT_TEXT]);
/* The element of a local rank, or of a NIC number. */
int32_t topo_element_of_gpu(const struct topo_system *sys, int32_t gpu);
int32_t topo_element_of_nic(const struct topo_system *sys, int32_t nic);
/* Are two NICs one port of one card, whose bandwidth they share? */
bool topo_same_port(const struct topo_system *sys, int32_t a, int32_t b);

struct topo_edge {
	int32_t from, to; /* elements */
	uint32_t mbps;
	enum topo_path_type
		type; /* what a path over this link alone has: LOC, NVL, C2C, PIX, SYS, NET */
};
int32_t topo_edge_count(const struct topo_system *sys);
void topo_edge_get(const struct topo_system *sys, int32_t index, struct topo_edge *edge);

/* "30", "20.6": MB/s as GB/s. */
#define TOPO_GBPS_TEXT 16
const char *topo_gbps(uint32_t mbps, char text[TOPO_GBPS_TEXT]);
/* "x16 32 GT/s"; "": the file has neither. */
#define TOPO_PCI_TEXT 40
const char *topo_pci_text(const struct topo_element *e, char text[TOPO_PCI_TEXT]);

/* The slowest speed that NCCL tries for a graph of this kind; the search here tries slower ones,
 * too. */
uint32_t topo_speed_least(const struct topo_system *sys, bool inter);

#endif
