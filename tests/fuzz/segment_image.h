/* SPDX-License-Identifier: BSD-3-Clause */
/* A small image of a fabric's memory as a program would have made it, which tests then damage. For
 * segment_fuzz.c and segment_test.c, which include the checker itself. */
#ifndef TESTS_FUZZ_SEGMENT_IMAGE_H
#define TESTS_FUZZ_SEGMENT_IMAGE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/fakeverbs/fabric/fabric_check.c"

#define SEGMENT_LAYOUT 0x1a404aull
#define SEGMENT_PORTS  2u
#define SEGMENT_WORLD  ALIGN_UP(sizeof(struct fabric_segment), (uint64_t)4096)
#define SEGMENT_HEAD                                                                               \
	(SEGMENT_WORLD + sizeof(struct hca_world) + SEGMENT_PORTS * sizeof(struct hca_port))

static inline struct hca_world *segment_world(struct fabric_segment *s)
{
	return (struct hca_world *)((uint8_t *)s + SEGMENT_WORLD);
}

/* All slabs, in the order of their fields. */
#define SEGMENT_SLABS(X)                                                                           \
	X(qp, struct hca_qp)                                                                       \
	X(cq, struct hca_cq)                                                                       \
	X(srq, struct hca_srq)                                                                     \
	X(ah, struct hca_ah)                                                                       \
	X(member, struct hca_member)                                                               \
	X(mr, struct hca_mr)                                                                       \
	X(mw, struct hca_mw)                                                                       \
	X(pd, struct hca_pd)                                                                       \
	X(context, struct hca_context)                                                             \
	X(channel, struct hca_channel)                                                             \
	X(event, struct hca_event)                                                                 \
	X(packet, struct hca_packet)                                                               \
	X(small, struct hca_buffer_small)                                                          \
	X(large, struct hca_buffer_large)                                                          \
	X(xrcd, struct hca_xrcd)                                                                   \
	X(xrcd_open, struct hca_xrcd_open)                                                         \
	X(qp_open, struct hca_qp_open)

/* Fills a slab: two chunks of four items, of which five are in use. */
static inline void segment_slab(struct fabric_segment *s, struct hca_slab *slab, size_t item_bytes)
{
	slab->item_bytes = (uint32_t)ALIGN_UP(item_bytes, 64);
	slab->chunk_shift = 2;
	slab->count = 5;
	slab->free_first = slab->free_last = 2;
	slab->free_count = 1;
	for (int i = 0; i < 2; i++) {
		slab->chunk[i] = s->arena.used;
		s->arena.used += (uint64_t)slab->item_bytes << 2;
	}
}

/* Fills zeroed memory. */
static inline void segment_fill(struct fabric_segment *s)
{
	struct hca_world *w = segment_world(s);

	s->magic = FABRIC_MAGIC;
	s->version = FABRIC_VERSION;
	s->members = FABRIC_MEMBERS;
	s->layout = SEGMENT_LAYOUT;
	s->world = SEGMENT_WORLD;
	s->member[7].id = 7 + FABRIC_MEMBERS;
	s->arena.used = ALIGN_UP(SEGMENT_HEAD, (uint64_t)64);
	w->ports = SEGMENT_PORTS;
	w->port[1].bucket[3] = 5;
#define FILL(name, type) segment_slab(s, &w->name, sizeof(type));
	SEGMENT_SLABS(FILL)
#undef FILL
	w->rings.first = w->rings.free[31] = s->arena.used;
	w->rings.bytes = HCA_RINGS_BYTES;
	s->arena.used += HCA_RINGS_BYTES + HCA_RINGS_HEADS(HCA_RINGS_BYTES);
}

/* Maps all of the arena, as programs do; never unmapped. */
static inline struct fabric_segment *segment_map(void)
{
	void *p = mmap(NULL, WORLD_ARENA_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

#endif
