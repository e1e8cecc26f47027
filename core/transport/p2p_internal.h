/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What p2p.c (connecting), p2p_cumem.c (descriptors of pools) and p2p_end.c (the end) share: a rank's pools of
 * connection memory, and those of its neighbours.
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
	/* CUDA devices of this process whose memory this rank's device may use by now; changes under the
	 * registry's lock */
	bool peer[TOPO_MAX_LOCAL];
	/* Of cuMem: the mailbox, and what came of it and is not used yet. */
	bool has_box;
	int box;
	struct p2p_letter *letters;
};

/* p2p.c: memory of a neighbour was not opened: a neighbour that died may be why, which may show later. */
ncclResult_t p2p_import_result(struct ncclComm *comm, int32_t peer, ncclResult_t rc);

/* p2p_end.c: the last one frees it. */
void p2p_pool_unref(struct p2p_pool *pool);

/* p2p_cumem.c: this rank can get descriptors from now on. */
ncclResult_t p2p_cumem_expect(struct ncclComm *comm);
/* The neighbour gets that of the newest pool, once; after it has shown that it expects it. */
ncclResult_t p2p_cumem_give(struct ncclComm *comm, int32_t peer);
/* Maps the pool that the import names. ncclInProgress: its descriptor has not come; *w is what to wait for. */
ncclResult_t p2p_cumem_import(struct conn *c, struct p2p_import *im, struct wait *w);
void p2p_cumem_close(struct p2p_state *st);

#endif
