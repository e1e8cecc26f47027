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

/* What a segment is, which both ranks compute alike. */
enum shm_kind {
	SHM_NONE,   /* the ranks have no memory in common */
	SHM_PINNED, /* pinned memory of a process that has both */
	SHM_FILE,   /* of /dev/shm, with a name */
	SHM_CUMEM,  /* host memory of cuMem, for which letters go around (letters.h) */
};

/* Which segment: the two ranks, and the end of the connections that the owner has. Both ranks know
 * it before any message, and it gives the segment its name. */
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
	enum shm_kind kind;
	bool given; /* of cuMem: the user has its descriptor */
	shared_u32 refs;
	uint8_t *mem, *device; /* one address for the host, one for the GPUs of the process */
	uint64_t bytes;
	uint64_t control_used, buffer_used; /* offsets of the next free byte of each kind */
};

/* A neighbour's segment as this rank sees it. */
struct shm_use {
	struct shm_use *next;
	struct shm_key key;
	enum shm_kind kind;
	struct shm_segment *segment; /* same process; NULL: mapped by this rank */
	uint8_t *mem, *device;
	uint64_t bytes;
};

struct shm_state {
	struct shm_segment *segments; /* the newest first; changes under the registry's lock */
	struct shm_use *uses;
};

/* shm_segment.c: releases all that shm connections of a rank share, and the names that a rank which
 * died may have left. */
void shm_state_close(struct ncclComm *comm);

/* shm.c */
enum shm_kind shm_kind_between(const struct ncclComm *comm, int32_t a, int32_t b);

/* Adds a segment for ends like `c`: so many bytes of control blocks, then so many of buffers. What
 * is half made, shm_state_close releases. */
ncclResult_t shm_segment_make(const struct conn *c, uint64_t control, uint64_t buffers);
/* The newest one for ends like `c`. */
struct shm_segment *shm_segment_of(const struct conn *c);
/* The peer of `c` gets what it maps that segment by, once; after it has shown that it expects
 * it. */
ncclResult_t shm_segment_give(const struct conn *c, struct shm_segment *s);
/* The segment of that key, of `bytes` bytes, which is mapped at the first of its connections.
 * ncclInProgress: its letter has not come; *w is what to wait for. */
ncclResult_t shm_use_get(struct conn *c, const struct shm_key *key, uint64_t bytes,
			 struct shm_use **use, struct wait *w);

#endif
