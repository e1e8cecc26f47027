/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What shm.c (connecting) and shm_segment.c (the life of segments) share: a rank's segments of
 * connection memory, and those of its neighbours.
 */
#ifndef CORE_TRANSPORT_SHM_INTERNAL_H
#define CORE_TRANSPORT_SHM_INTERNAL_H

#include "core/transport/transport_internal.h"

/* Segments of one rank for one peer, direction and index, at most: one per job (connect.c)
 * that has such connections. */
#define SHM_SEGMENTS_MOST 3
#define SHM_NAME_BYTES    24

/* Which segment: the two ranks, and the end of the connections that the owner has. Both ranks know it
 * before any message, and it gives the segment its name. */
struct shm_key {
	int32_t owner, user; /* the user has the other end */
	uint16_t is_send;    /* the owner sends */
	uint16_t index;      /* enum conn_index */
	uint32_t number;     /* of the segments that are equal in all this: 0, 1... */
};

/* Memory of a rank's ends. */
struct shm_segment {
	struct shm_segment *next; /* the rank's one before this */
	struct shm_key key;
	bool in_process; /* pinned memory, for a rank of the same process; else it has a name */
	shared_u32 refs;
	uint8_t *mem, *device; /* one address for the host, one for the GPUs of the process */
	uint64_t bytes;
	uint64_t control_used, buffer_used; /* offsets of the next free byte of each kind */
};

/* A neighbour's segment as this rank sees it. */
struct shm_use {
	struct shm_use *next;
	struct shm_key key;
	struct shm_segment *segment; /* same process; NULL: mapped by this rank */
	uint8_t *mem, *device;
	uint64_t bytes;
};

struct shm_state {
	struct shm_segment *segments; /* the newest first; changes under the registry's lock */
	struct shm_use *uses;
};

/* Adds a segment of so many bytes for ends like `c`. What is half made, shm_state_close releases. */
ncclResult_t shm_segment_make(const struct conn *c, uint64_t bytes);
/* The newest one for ends like `c`. */
struct shm_segment *shm_segment_of(const struct conn *c);
/* The segment of that key, of `bytes` bytes, which is mapped at the first of its connections. */
ncclResult_t shm_use_get(const struct conn *c, const struct shm_key *key, uint64_t bytes,
			 struct shm_use **use);

#endif
