/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by shm.c (connecting) and shm_segment.c (making and freeing segments): a rank's segments
 * of connection memory, and its neighbours' segments.
 */
#ifndef CORE_TRANSPORT_LOCAL_SHM_INTERNAL_H
#define CORE_TRANSPORT_LOCAL_SHM_INTERNAL_H

#include "core/transport/transport_internal.h"

/* Largest number of segments of one rank for one peer, direction and index: one for each job
 * (connect.c) that has such connections. */
#define SHM_SEGMENTS_MOST 3
#define SHM_NAME_BYTES    24

/* The kind of memory of a segment. Both ranks compute the same. */
enum shm_kind {
	SHM_NONE,   /* the ranks share no memory */
	SHM_PINNED, /* pinned memory, for two ranks of one process */
	SHM_FILE,   /* a file in /dev/shm, with a name */
	SHM_CUMEM,  /* host memory of cuMem; its descriptor is sent by letter (letters.h) */
};

/* Identifies a segment by its ranks and by the owner's end of the connections. Both ranks know it
 * before any message. The segment's name is made from it. */
struct shm_key {
	int32_t owner, user; /* the owner made it; the user has the other end */
	uint16_t is_send;    /* the owner sends */
	uint16_t index;      /* enum conn_index */
	uint32_t number;     /* counts segments with the same other fields: 0, 1... */
};

/* Memory of a rank's ends. */
struct shm_segment {
	struct shm_segment *next; /* the rank's previous segment */
	struct shm_key key;
	enum shm_kind kind;
	bool given; /* cuMem only: the user has its descriptor */
	shared_u32 refs;
	uint8_t *mem, *device; /* address on the host, and on the GPUs of the process */
	uint64_t bytes;
	uint64_t control_used,
		buffer_used; /* offsets of the next free byte for control blocks and buffers */
};

/* A neighbour's segment that this rank uses. */
struct shm_use {
	struct shm_use *next;
	struct shm_key key;
	enum shm_kind kind;
	struct shm_segment *segment; /* of a rank of this process; NULL: this rank mapped it */
	uint8_t *mem, *device;
	uint64_t bytes;
};

struct shm_state {
	struct shm_segment *segments; /* newest first; changed under the registry's lock */
	struct shm_use *uses;
};

/* shm_segment.c: releases all objects that shm connections of a rank share. Removes names that a
 * dead rank may have left. */
void shm_state_close(struct ncclComm *comm);

/* shm.c */
enum shm_kind shm_kind_between(const struct ncclComm *comm, int32_t a, int32_t b);

/* Adds a segment for ends like `c`, with `control` bytes of control blocks, then `buffers` bytes of
 * buffers. After a failure shm_state_close releases it. */
ncclResult_t shm_segment_make(const struct conn *c, uint64_t control, uint64_t buffers);
/* Returns the newest segment for ends like `c`. */
struct shm_segment *shm_segment_of(const struct conn *c);
/* Posts the segment's descriptor to the peer of `c`, once. The peer must have shown that it expects
 * it. */
ncclResult_t shm_segment_give(const struct conn *c, struct shm_segment *s);
/* Returns the segment with that key and size, which the first of its connections maps.
 * ncclInProgress: its letter has not arrived; *w is the wait. */
ncclResult_t shm_use_get(struct conn *c, const struct shm_key *key, uint64_t bytes,
			 struct shm_use **use, struct wait *w);

#endif
