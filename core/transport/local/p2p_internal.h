/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by p2p.c (pools and connecting), p2p_import.c (memory of neighbours), p2p_suspend.c
 * (memory that is given back for a while) and p2p_end.c (teardown): a rank's pools of connection
 * memory, and its neighbours' pools.
 */
#ifndef CORE_TRANSPORT_LOCAL_P2P_INTERNAL_H
#define CORE_TRANSPORT_LOCAL_P2P_INTERNAL_H

#include "core/transport/transport_internal.h"

#define P2P_INFO_MAGIC  0xd0de2006u
#define P2P_CUMEM_MAGIC 0xd0de2007u /* a pool of cuMem; a letter brings its descriptor */

/* Wire format: description of a connection's end. */
struct p2p_info {
	uint32_t magic;
	int32_t rank, channel;
	uint16_t is_send, index;
	uint32_t pool; /* number of the pool */
	uint32_t pad0;
	uint64_t pool_bytes;
	uint64_t control; /* offsets in the pool */
	uint64_t buffer[DEV_PROTO_COUNT];
	uint32_t step_bytes[DEV_PROTO_COUNT];
	cudaIpcMemHandle_t handle; /* for other processes of the host */
};
DOPPEL_STATIC_CHECK(sizeof(struct p2p_info) <= CONNECT_INFO_BYTES, "p2p_info fits");
DOPPEL_CHECK_OFFSET(struct p2p_info, buffer, 40);
DOPPEL_CHECK_OFFSET(struct p2p_info, handle, 40 + 12 * DEV_PROTO_COUNT);

struct p2p_pool {
	struct p2p_pool *next; /* the rank's previous pool */
	shared_u32 refs;
	uint32_t number; /* counts the rank's pools: 0, 1... */
	uint8_t *mem;    /* device memory */
	uint64_t bytes;
	bool cumem;                 /* memory of cuMem (core/mem/cumem.h), else of cudaMalloc */
	bool given[TOPO_MAX_LOCAL]; /* cuMem only: local ranks that have its descriptor */
	/* Offsets of the next free byte: for control blocks, and for each protocol's buffers. */
	uint64_t control_used, used[DEV_PROTO_COUNT];
	uint64_t state_bytes; /* control blocks and lines, at the start; buffers of SIMPLE follow */
	/* Suspended: the addresses have no memory. `image`: what control blocks and lines were. */
	bool suspended;
	uint8_t *image;
};

/* A neighbour's pool that this rank uses. */
struct p2p_import {
	struct p2p_import *next;
	int32_t peer;
	uint32_t number; /* number among the peer's pools */
	uint8_t *mem;
	struct p2p_pool *pool; /* of a rank of this process; NULL: the pool was opened */
	uint64_t cumem_bytes;  /* opened by descriptor; 0: through IPC */
	bool suspended;        /* opened by descriptor, and unmapped for a while */
};

struct p2p_state {
	struct p2p_pool *pools; /* newest first; changed under the registry's lock */
	struct p2p_import *imports;
	bool importer[TOPO_MAX_LOCAL]; /* local ranks that may have opened a pool through IPC */
	/* CUDA devices of this process whose memory this rank's device may access; changed under
	 * the registry's lock */
	bool peer[TOPO_MAX_LOCAL];
};

/* p2p.c: makes comm->p2p, unless it exists. */
ncclResult_t p2p_state_make(struct ncclComm *comm);

/* p2p_import.c: returns the address of the neighbour's pool, which the first of its connections
 * opens. ncclInProgress: its letter has not arrived; *w is the wait. */
ncclResult_t p2p_import_get(struct conn *c, const struct p2p_info *info, uint8_t **mem,
			    struct wait *w);

/* p2p_end.c: drops a reference; the last one frees the pool. */
void p2p_pool_unref(struct p2p_pool *pool);
/* Closes all memory of other ranks that this rank opened. */
void p2p_imports_close(struct ncclComm *comm);
/* p2p_end.c: closes the imports, leaves the bootstrap, and waits until every importer has left.
 * Returns false if one has not at `until_ns`; 0: no deadline. */
bool p2p_importers_left(struct ncclComm *comm, uint64_t until_ns);
/* Releases all objects that p2p connections of a rank share. */
void p2p_state_close(struct ncclComm *comm);

#endif
