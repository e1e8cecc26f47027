/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: one intrusive list of all core objects that belong to a process as a whole. Its
 * anchor is the process' own slot (os_proc()->slot[OS_SLOT_CORE]). It needs no memory and no
 * set-up: the slot holds the first node's address, and its lowest bit is the lock. Called by
 * core/comm, core/plugin, core/proxy, core/ras and
 * core/api. Owns nothing.
 *
 * Between lock and unlock the caller calls no function that waits.
 */
#ifndef CORE_RANK_REGISTRY_H
#define CORE_RANK_REGISTRY_H

#include "core/os/os.h"

enum { REGISTRY_NODE_BYTES = 128 };
enum registry_kind {
	REGISTRY_COMM = 1,   /* struct ncclComm */
	REGISTRY_ROOT,       /* struct api_root */
	REGISTRY_PROXY,      /* struct proxy_gpu */
	REGISTRY_MEMORY,     /* struct user_memory */
	REGISTRY_RAS,        /* struct ras */
	REGISTRY_NET_PLUGIN, /* struct net_plugin */
	REGISTRY_PROFILER,   /* struct profiler */
	REGISTRY_COLLNET,    /* struct collnet_plugin */
	REGISTRY_WINDOW,     /* struct window */
};

/* Header of a registered object; its first member. A task may write its own object while another
 * task walks the list. Each node therefore fills cache lines of its own. */
struct registry_node {
	struct registry_node *next;
	uint32_t kind;
	uint8_t apart[REGISTRY_NODE_BYTES - 12];
};
DOPPEL_STATIC_CHECK(sizeof(struct registry_node) == REGISTRY_NODE_BYTES, "no padding");

/* WAITS. Locks the registry and returns the first node; NULL: the list is empty. */
struct registry_node *registry_lock(void);
/* Stores `first` as the first node and unlocks. */
void registry_unlock(struct registry_node *first);

void registry_add(struct registry_node *node);
void registry_remove(struct registry_node *node);

#endif
