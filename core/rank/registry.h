/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: everything of core that belongs to a process as a whole, in one intrusive list
 * anchored in the process' own slot (os_proc()->slot[OS_SLOT_CORE]). It needs no memory and no
 * set-up: the slot holds the first node's address, and its lowest bit is the lock. Called by
 * core/comm, core/proxy and core/api. Owns nothing.
 *
 * Between lock and unlock the caller calls nothing that waits.
 */
#ifndef CORE_RANK_REGISTRY_H
#define CORE_RANK_REGISTRY_H

#include "core/os/os.h"

enum { REGISTRY_NODE_BYTES = 128 };
enum registry_kind {
	REGISTRY_COMM = 1, /* struct ncclComm */
	REGISTRY_ROOT,     /* struct api_root */
	REGISTRY_PROXY,    /* struct proxy_gpu */
	REGISTRY_MEMORY,   /* struct user_memory */
};

/* First in what is registered. Calls walk the list while tasks write what is behind their own
 * nodes: nodes have cache lines of their own. */
struct registry_node {
	struct registry_node *next;
	uint32_t kind;
	uint8_t apart[REGISTRY_NODE_BYTES - 12];
};
DOPPEL_STATIC_CHECK(sizeof(struct registry_node) == REGISTRY_NODE_BYTES, "no padding");

/* WAITS. Returns the first node, NULL: the list is empty. */
struct registry_node *registry_lock(void);
/* `first` becomes the list. */
void registry_unlock(struct registry_node *first);

void registry_add(struct registry_node *node);
void registry_remove(struct registry_node *node);

#endif
