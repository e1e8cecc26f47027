/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of detection share.
 *
 *	detect.c       parts, fusing, trimming
 *	detect_tree.c  the XML while it grows, and its text
 *	detect_pci.c   PCI functions and CPUs, from /sys
 *	detect_kfd.c   AMD's GPUs, from /sys
 *	detect_net.c   NICs, from /sys
 */
#ifndef CORE_TOPO_DETECT_INTERNAL_H
#define CORE_TOPO_DETECT_INTERNAL_H

#include "core/topo/detect/detect.h"

struct xml_node;

#define DETECT_TEXT_BYTES 160 /* of an attribute; longer texts are cut */

struct detect_attr {
	struct detect_attr *next;
	const char *name, *value;
};
struct detect_node {
	const char *name;
	struct detect_attr *attr;
	struct detect_node *parent, *child, *next; /* next: the next sibling */
};

/* The XML while it grows. An allocation failure is reported only at the end; until then `sink`
 * replaces nodes that could not be allocated. */
struct detect_tree {
	struct detect_block *blocks;
	struct detect_node *root; /* <system version="1"> */
	struct detect_node sink;
	int32_t nodes;
	bool failed, full; /* out of memory; more nodes than the reader accepts */
};

/* ---- detect_tree.c -------------------------------------------------------------------------- */
void detect_tree_start(struct detect_tree *t);
void detect_tree_free(struct detect_tree *t);
/* Makes a node that is not yet in the tree. `name` is a constant or lives as long as the tree. */
struct detect_node *detect_node_new(struct detect_tree *t, const char *name);
/* Inserts a node as the last child. PCI functions are before all others, in order of their bus
 * ids. */
void detect_node_place(struct detect_node *parent, struct detect_node *n);
struct detect_node *detect_node_add(struct detect_tree *t, struct detect_node *parent,
				    const char *name);
void detect_node_remove(struct detect_node *n);
/* Returns the attribute's value; NULL: absent. */
const char *detect_get(const struct detect_node *n, const char *name);
/* Sets an attribute unless the node has it. An empty text sets nothing. */
void detect_set(struct detect_tree *t, struct detect_node *n, const char *name, const char *text);
void detect_setf(struct detect_tree *t, struct detect_node *n, const char *name, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));
/* Sets an attribute, also if the node has it. */
void detect_replace(struct detect_tree *t, struct detect_node *n, const char *name,
		    const char *text);
void detect_unset(struct detect_node *n, const char *name);
/* Finds the first such node in or below `from`, in order. `attr` may be NULL: any attributes. */
struct detect_node *detect_find(struct detect_node *from, const char *name, const char *attr,
				const char *value);
struct detect_node *detect_child(struct detect_node *n, const char *name);
/* Adds the elements and attributes that the XML has and the tree lacks. */
void detect_merge(struct detect_tree *t, const struct xml_node *root);
/* Writes the tree as text and frees the tree. */
ncclResult_t detect_tree_text(struct detect_tree *t, char **xml, size_t *bytes);

/* ---- detect_pci.c ---------------------------------------------------------------------------- */
/* Reads the first line of DIR/NAME and replaces unprintable characters. False: unreadable or
 * empty. */
bool detect_read(struct detect_tree *t, const char *dir, const char *name,
		 char out[DETECT_TEXT_BYTES]);
/* True if the text is a PCI address in the kernel's form, "0000:13:00.0". */
bool detect_is_bus_id(const char *text);
/* Finds the path of a function in /sys/devices. */
bool detect_pci_path(struct detect_tree *t, const char *bus_id, char path[OS_PATH_BYTES]);
/* Returns the function's node; adds it and all nodes above it if necessary. */
struct detect_node *detect_pci(struct detect_tree *t, uint64_t host_hash, const char *bus_id);
struct detect_node *detect_cpu(struct detect_tree *t, uint64_t host_hash, int32_t numa);
/* Adds the CPUs of all NUMA nodes, or one CPU without NUMA nodes. All get keep="1". */
void detect_cpus(struct detect_tree *t, uint64_t host_hash);

/* ---- detect_kfd.c ---------------------------------------------------------------------------- */
/* Adds the graphics core and the links of AMD's GPU with that bus id; does nothing for other
 * GPUs. */
void detect_kfd_gpu(struct detect_tree *t, struct detect_node *gpu, const char *bus_id);

/* ---- detect_net.c ---------------------------------------------------------------------------- */
void detect_nic(struct detect_tree *t, uint64_t host_hash, const struct topo_detect_nic *nic);

#endif
