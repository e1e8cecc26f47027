/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of rings: one range of the arena, divided into contiguous blocks of whole grains. A freed
 * block merges with its free neighbours. The range is followed by one header for each grain. A
 * block has the header of its first grain. Most rings are never used, and their pages then take no
 * memory, because headers lie together.
 *
 *   | ring | free .......... | ring | free ................ | h  h                h     h      |
 *   first                                                   first + bytes
 *
 * Processes share the range and may be killed anywhere in this file. The sizes in the headers alone
 * define the blocks, and every change of them is one store that leaves the range consistent. The
 * rest follows from the sizes: the lists of free blocks, and the size of the block in front. The
 * next process to lock the range finds that the holder is dead, and rebuilds the rest. A block that
 * the dead process allocated but did not put into a queue is lost until the fabric ends.
 *
 * Searches and lists have a fixed order: the same calls return the same offsets.
 */
#include "backends/fakeverbs/arena/arena.h"
#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/arena/report.h"

#define RINGS_TAKEN 1ull
/* Number of blocks that may be too small to inspect before a block that is large enough. */
#define RINGS_LOOKS 16u

struct rings_block {
	uint64_t size;           /* bytes, and RINGS_TAKEN */
	uint64_t before;         /* size of the block in front; 0: this is the first */
	uint64_t next, previous; /* free block: offsets in its list; 0: end of the list */
};
DOPPEL_STATIC_CHECK(sizeof(struct rings_block) == HCA_RING_HEAD, "a header for each grain");

/* Returns the header of the block at an offset. */
static struct rings_block *rings_at(const struct hca_rings *r, uint64_t at)
{
	return (struct rings_block *)world_arena_at(r->first + r->bytes) +
	       (at - r->first) / HCA_RING_GRAIN;
}

static uint64_t rings_size(const struct rings_block *b)
{
	return b->size & ~RINGS_TAKEN;
}

static bool rings_is_free(const struct rings_block *b)
{
	return !(b->size & RINGS_TAKEN);
}

/* Makes a change with one store (see above). Everything that the change relies on is stored
 * before. */
static void rings_set(struct rings_block *b, uint64_t size)
{
	__atomic_store_n(&b->size, size, __ATOMIC_RELEASE);
}

/* Index of the size's highest bit: the list that holds blocks of this size. */
static uint32_t rings_class(uint64_t size)
{
	return 63 - (uint32_t)__builtin_clzll(size);
}

/* ---- lists of free blocks ------------------------------------------------------------------- */

static void rings_list(struct hca_rings *r, uint64_t at)
{
	struct rings_block *b = rings_at(r, at);
	uint64_t *first = &r->free[rings_class(b->size)];

	ASSERT(rings_is_free(b));
	b->previous = 0;
	b->next = *first;
	if (b->next)
		rings_at(r, b->next)->previous = at;
	__atomic_store_n(first, at, __ATOMIC_RELEASE);
}

static void rings_unlist(struct hca_rings *r, uint64_t at)
{
	const struct rings_block *b = rings_at(r, at);

	if (b->next)
		rings_at(r, b->next)->previous = b->previous;
	if (b->previous)
		rings_at(r, b->previous)->next = b->next;
	else
		__atomic_store_n(&r->free[rings_class(b->size)], b->next, __ATOMIC_RELEASE);
}

/* Returns the first large enough block of the class, among `looks` blocks; 0: not found. */
static uint64_t rings_look(const struct hca_rings *r, uint32_t class, uint64_t size, uint32_t looks)
{
	uint64_t at = r->free[class];

	ASSERT(class < ARRAY_LEN(r->free));

	for (uint32_t i = 0; at && i < looks; i++, at = rings_at(r, at)->next)
		if (rings_at(r, at)->size >= size)
			return at;
	return 0;
}

static uint64_t rings_find(const struct hca_rings *r, uint64_t size)
{
	uint32_t class = rings_class(size);
	uint64_t at = rings_look(r, class, size, RINGS_LOOKS);

	for (uint32_t c = class + 1; !at && c < ARRAY_LEN(r->free); c++)
		at = r->free[c];
	return at ? at : rings_look(r, class, size, UINT32_MAX);
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Stores this block's size in the next block's header. */
static void rings_set_before(const struct hca_rings *r, uint64_t at)
{
	uint64_t size = rings_size(rings_at(r, at));

	if (at + size < r->first + r->bytes)
		rings_at(r, at + size)->before = size;
}

/* Merges a free block with its free neighbours. Returns the offset of the merged block, which is on
 * no list. */
static uint64_t rings_join(struct hca_rings *r, uint64_t at)
{
	struct rings_block *b = rings_at(r, at);
	uint64_t next = at + b->size;

	ASSERT(rings_is_free(b));
	ASSERT(!b->before || rings_size(rings_at(r, at - b->before)) == b->before);
	if (next < r->first + r->bytes && rings_is_free(rings_at(r, next))) {
		rings_unlist(r, next);
		rings_set(b, b->size + rings_at(r, next)->size);
	}
	if (b->before && rings_is_free(rings_at(r, at - b->before))) {
		at -= b->before;
		rings_unlist(r, at);
		rings_set(rings_at(r, at), rings_at(r, at)->size + b->size);
	}
	rings_set_before(r, at);
	return at;
}

/* Rebuilds lists and `before` from the sizes, which are right at every moment. */
static void rings_repair(struct hca_rings *r)
{
	uint64_t end = r->first + r->bytes, before = 0;

	memset(r->free, 0, sizeof r->free);
	for (uint64_t at = r->first; at < end; at += before) {
		struct rings_block *b = rings_at(r, at);

		while (rings_is_free(b) && at + b->size < end &&
		       rings_is_free(rings_at(r, at + b->size)))
			rings_set(b, b->size + rings_at(r, at + b->size)->size);
		b->before = before;
		before = rings_size(b);
		if (rings_is_free(b))
			rings_list(r, at);
	}
}

static void rings_lock(struct hca_rings *r)
{
	if (hca_lock_broken(&r->lock))
		rings_repair(r);
}

/* ---- outside -------------------------------------------------------------------------------- */

void hca_rings_init(struct hca_rings *r, void *memory, uint64_t bytes)
{
	ASSERT(bytes % HCA_RING_GRAIN == 0);
	*r = (struct hca_rings){.first = world_arena_offset(memory), .bytes = bytes};
	r->fresh = r->first;
	rings_set(rings_at(r, r->first), bytes);
	rings_list(r, r->first);
}

/* Zeroes a ring before it is allocated. Bytes from `fresh` on are still zero and are not touched:
 * most of a ring is never used. */
static void rings_zero(struct hca_rings *r, uint64_t at, uint64_t size)
{
	uint64_t end = at + size;

	ASSERT(at >= r->first && end <= r->first + r->bytes);
	if (at < r->fresh)
		memset(world_arena_at(at), 0, MIN_OF(end, r->fresh) - at);
	r->fresh = MAX_OF(r->fresh, end);
}

uint64_t hca_ring_alloc(struct hca_rings *r, uint64_t bytes)
{
	uint64_t size = ALIGN_UP(bytes, HCA_RING_GRAIN);

	if (size < bytes || !size)
		return 0;
	rings_lock(r);
	uint64_t at = rings_find(r, size);

	if (at) {
		struct rings_block *b = rings_at(r, at);
		uint64_t rest = b->size - size;

		ASSERT(rings_is_free(b) && b->size >= size);

		rings_zero(r, at, size);
		rings_unlist(r, at);
		if (rest) {
			struct rings_block *next = rings_at(r, at + size);

			*next = (struct rings_block){.size = rest, .before = size};
			rings_set_before(r, at + size);
			rings_list(r, at + size);
		}
		rings_set(b, size | RINGS_TAKEN);
	}
	hca_unlock(&r->lock);
	return at;
}

void hca_ring_free(struct hca_rings *r, uint64_t ring)
{
	if (!ring)
		return;
	rings_lock(r);

	ASSERT(ring >= r->first && ring < r->first + r->bytes);
	ASSERT(!rings_is_free(rings_at(r, ring)));
	rings_set(rings_at(r, ring), rings_size(rings_at(r, ring)));
	rings_list(r, rings_join(r, ring));
	hca_unlock(&r->lock);
}
