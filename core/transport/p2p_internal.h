/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What p2p.c (connecting) and p2p_end.c (the end) share: a rank's pools of connection memory, and
 * those of its neighbours.
 */
#ifndef CORE_TRANSPORT_P2P_INTERNAL_H
#define CORE_TRANSPORT_P2P_INTERNAL_H

#include "core/transport/transport_internal.h"

struct p2p_pool {
	struct p2p_pool *next; /* the rank's one before this */
	shared_u32 refs;
	uint32_t number; /* of the rank's pools: 0, 1... */
	uint8_t *mem;    /* device memory */
	uint64_t bytes;
	bool cumem;                 /* of cuMem (core/mem/cumem.h), else of cudaMalloc */
	bool given[TOPO_MAX_LOCAL]; /* of cuMem: local ranks that have its descriptor */
	/* Offsets of the next free byte: of control blocks, of each protocol's buffers. */
	uint64_t control_used, used[DEV_PROTO_COUNT];
};

/* A neighbour's pool as this rank sees it. */
struct p2p_import {
	struct p2p_import *next;
	int32_t peer;
	uint32_t number; /* of the peer's pools */
	uint8_t *mem;
	struct p2p_pool *pool; /* same process; NULL: opened */
	uint64_t cumem_bytes;  /* opened by descriptor; 0: through IPC */
};

struct p2p_state {
	struct p2p_pool *pools; /* the newest first; changes under the registry's lock */
	struct p2p_import *imports;
	bool importer[TOPO_MAX_LOCAL]; /* local ranks that may have opened a pool through IPC */
	/* CUDA devices of this process whose memory this rank's device may use by now; changes
	 * under the registry's lock */
	bool peer[TOPO_MAX_LOCAL];
};

/* p2p_end.c: the last one frees it. */
void p2p_pool_unref(struct p2p_pool *pool);
/* Closes the pools of others that this rank opened, and other memory; */
void p2p_imports_close(struct ncclComm *comm);
/* releases all that p2p connections of a rank share. */
void p2p_state_close(struct ncclComm *comm);

#endif
