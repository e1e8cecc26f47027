/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of detection share.
 *
 *	detect.c       parts, fusing, trimming
 *	detect_tree.c  the XML while it grows, and its text
 *	detect_pci.c   PCI functions and CPUs, from /sys
 *	detect_kfd.c   AMD's GPUs, from /sys
 *	detect_net.c   NICs, from /sys
 */
#ifndef CORE_TOPO_DETECT_INTERNAL_H
#define CORE_TOPO_DETECT_INTERNAL_H

#include "core/topo/detect.h"

struct xml_node;

#define DETECT_TEXT_BYTES 160 /* of an attribute; longer ones are cut */

struct detect_attr {
	struct detect_attr *next;
	const char *name, *value;
};
struct detect_node {
	const char *name;
	struct detect_attr *attr;
	struct detect_node *parent, *child, *next; /* next sibling */
};

/* A lack of memory is kept until the end: then what could not be made is `sink`. */
struct detect_tree {
	struct detect_block *blocks;
	struct detect_node *root; /* <system version="1"> */
	struct detect_node sink;
	int32_t nodes;
	bool failed, full; /* no memory; more nodes than the reader takes */
};

/* ---- detect_tree.c -------------------------------------------------------------------------- */
void detect_tree_start(struct detect_tree *t);
void detect_tree_free(struct detect_tree *t);
/* Not in the tree yet. Names are constants or live as long as the tree. */
struct detect_node *detect_node_new(struct detect_tree *t, const char *name);
/* The last child, but PCI functions are in order of their bus ids, before all else. */
void detect_node_place(struct detect_node *parent, struct detect_node *n);
struct detect_node *detect_node_add(struct detect_tree *t, struct detect_node *parent,
				    const char *name);
void detect_node_remove(struct detect_node *n);
/* NULL: absent. */
const char *detect_get(const struct detect_node *n, const char *name);
/* Sets it, unless the node has it. An empty text is none. */
void detect_set(struct detect_tree *t, struct detect_node *n, const char *name, const char *text);
void detect_setf(struct detect_tree *t, struct detect_node *n, const char *name, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));
/* Sets it in any case. */
void detect_replace(struct detect_tree *t, struct detect_node *n, const char *name,
		    const char *text);
void detect_unset(struct detect_node *n, const char *name);
/* The first such node in or below `from`, in order; `attr` may be NULL: any. */
struct detect_node *detect_find(struct detect_node *from, const char *name, const char *attr,
				const char *value);
struct detect_node *detect_child(struct detect_node *n, const char *name);
/* Adds what the XML has and the tree does not. */
void detect_merge(struct detect_tree *t, const struct xml_node *root);
/* Frees the tree. */
ncclResult_t detect_tree_text(struct detect_tree *t, char **xml, size_t *bytes);

/* ---- detect_pci.c ---------------------------------------------------------------------------- */
/* The first line of DIR/NAME, what is not printable replaced. False: it cannot be read, or is
 * empty. */
bool detect_read(struct detect_tree *t, const char *dir, const char *name,
		 char out[DETECT_TEXT_BYTES]);
/* Is the text a PCI address as a kernel writes it, "0000:13:00.0"? */
bool detect_is_bus_id(const char *text);
/* Where the function is in /sys/devices. */
bool detect_pci_path(struct detect_tree *t, const char *bus_id, char path[OS_PATH_BYTES]);
/* Its node, with all above it. */
struct detect_node *detect_pci(struct detect_tree *t, uint64_t host_hash, const char *bus_id);
struct detect_node *detect_cpu(struct detect_tree *t, uint64_t host_hash, int32_t numa);
/* Those of all NUMA nodes; without any, one. All are kept. */
void detect_cpus(struct detect_tree *t, uint64_t host_hash);

/* ---- detect_kfd.c ---------------------------------------------------------------------------- */
/* Adds the graphics core and the links of AMD's GPU with that bus id; a GPU of another vendor has
 * none there. */
void detect_kfd_gpu(struct detect_tree *t, struct detect_node *gpu, const char *bus_id);

/* ---- detect_net.c ---------------------------------------------------------------------------- */
void detect_nic(struct detect_tree *t, uint64_t host_hash, const struct topo_detect_nic *nic);

#endif
