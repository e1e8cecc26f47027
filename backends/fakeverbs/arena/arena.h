/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that HCAs keep in the world arena: tables of equal items (slabs), memory of rings, and the
 * locks on both. Every file of fakeverbs uses it; nothing in this folder knows what an item
 * contains. arena/ is the lowest floor: it includes no other floor (entry/entry.h lists them).
 *
 * Pointers are valid in the calling process only and are not kept in the arena. A reference to an
 * item in the arena is its index and generation. Sizes are in bytes. No function waits, except by
 * spinning on a lock, which is always free under `sim`. A lock whose holder died passes to the next
 * process (hca_lock_broken).
 */
#ifndef BACKENDS_FAKEVERBS_ARENA_H
#define BACKENDS_FAKEVERBS_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/fakeverbs/arena/members.h"
#include "core/base/macros.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

struct os_proc;

#define HCA_CHUNKS 1024

/* First member of every item. `generation` changes whenever the item is freed. Other records refer
 * to an item by (index, generation). */
struct hca_item {
	uint32_t index, generation;
	uint32_t live, next_free; /* next_free: index + 1 of the next free item; 0: last */
	uint32_t proc;            /* owner */
	uint32_t lock;
	uint64_t handle; /* address of the owner's verbs object */
	uint64_t made;   /* call site that created the item (report.h); 0: unknown */
	/* wakes that other processes requested, and those passed on (context/process.c) */
	uint32_t posts, posts_seen;
	/* neighbours in the slab's list of owned items: index + 1; 0: none */
	uint32_t owned_next, owned_prev;
};

/* Lists of owned items in a slab. A process' items are in the list of its number modulo this. */
#define HCA_OWNED_LISTS 1024

struct hca_slab {
	uint32_t lock;
	uint32_t item_bytes, chunk_shift;
	uint32_t reuse_after; /* number of free items that rest before one is reused */
	uint32_t count, free_count, free_first, free_last;
	uint32_t owned_first[HCA_OWNED_LISTS]; /* index + 1 of the newest item; 0: empty list */
	uint64_t chunk[HCA_CHUNKS];
};

static inline void *hca_slab_at(struct hca_slab *s, uint32_t index)
{
	uint32_t within = index & ((1u << s->chunk_shift) - 1);
	uint64_t chunk = __atomic_load_n(&s->chunk[index >> s->chunk_shift], __ATOMIC_ACQUIRE);

	return world_arena_at(chunk + (uint64_t)within * s->item_bytes);
}
/* Prepares an empty table. `reuse_after`: number of free items that rest before one is reused. */
void hca_slab_init(struct hca_slab *s, size_t item_bytes, uint32_t chunk_shift,
		   uint32_t reuse_after);
/* Allocates an item; NULL: the table is full. Bytes after its struct hca_item keep the last user's
 * values. */
void *hca_slab_alloc(struct hca_slab *s);
/* Allocates an item that the calling process owns. `handle` is its verbs object. */
void *hca_slab_alloc_owned(struct hca_slab *s, void *handle);
void hca_slab_free(struct hca_slab *s, void *item);
/* Takes an item from its owner. It lives on without one. */
void hca_slab_orphan(struct hca_slab *s, void *item);
/* Returns the next live item that process `proc` owns, or of all with UINT32_MAX; NULL: no further
 * one. *cursor is 0 before the first call. Items of one process come newest first; the walk begins
 * again at the newest when the item returned last was freed. */
void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor);

/* Maximum number of items. */
static inline uint32_t hca_slab_room(const struct hca_slab *s)
{
	return HCA_CHUNKS << s->chunk_shift;
}

/* Memory of rings (rings.c). Rings have a range of their own, so that rings cannot starve tables
 * and packets, nor the reverse. The rest of the arena holds all tables at their maximum size. */
#define HCA_RINGS_BYTES (2832ull << 20)
#define HCA_RING_GRAIN  2048ull
#define HCA_RING_HEAD   32ull
/* Returns the bytes of the headers of a range. */
#define HCA_RINGS_HEADS(bytes) ((bytes) / HCA_RING_GRAIN * HCA_RING_HEAD)
struct hca_rings {
	uint32_t lock, pad;
	uint64_t first, bytes; /* the range; its headers follow it */
	uint64_t fresh;        /* offset from which no ring was ever allocated: still zeroed */
	uint64_t free[48];     /* free blocks by power of two; 0: empty list */
};
/* Prepares the range at `memory`: `bytes` + HCA_RINGS_HEADS(bytes) zeroed bytes of the arena. */
void hca_rings_init(struct hca_rings *r, void *memory, uint64_t bytes);
/* Allocates zeroed memory, at least a byte. Returns its offset in the arena, aligned to 64; 0: no
 * room. */
uint64_t hca_ring_alloc(struct hca_rings *r, uint64_t bytes);
/* Frees a ring; 0 is ignored. */
void hca_ring_free(struct hca_rings *r, uint64_t ring);

/* Returns a variable of the world's configuration, else of the program's environment. NULL:
 * unset. */
const char *hca_env(const char *name);

/* Returns the number of a process in the tables. It is unique in the caller's world, or on the
 * machine if processes share the HCAs. */
uint32_t hca_proc_id(const struct os_proc *proc);
/* Wakes the tasks that wait on the object's handle, in its owner's process. */
void hca_item_post(struct hca_item *it);

/* ---- locks: the word is the holder's number, 0: free ---- */

/* True under `sim`: one task runs at a time, and no task stops while it holds a lock. A plain word
 * is enough there. */
extern bool hca_alone;
/* Slow path of hca_lock_broken(): another task holds the lock. */
bool hca_lock_wait(uint32_t *word);

static inline uint32_t hca_lock_me(void)
{
	return hca_members ? hca_members->self + 1 : 1;
}
static inline bool hca_lock_without_wait(uint32_t *word)
{
	uint32_t holder = 0;

	return __atomic_compare_exchange_n(word, &holder, hca_lock_me(), false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}
/* Locks `word`. True if its last holder died inside the lock: the caller repairs the data. */
static inline bool hca_lock_broken(uint32_t *word)
{
	if (hca_alone && !*word) {
		*word = 1;
		return false;
	}
	return UNLIKELY(hca_alone || !hca_lock_without_wait(word)) && hca_lock_wait(word);
}
/* For locks that are held during long work, such as copying memory. HCA_LOCKED_NOT: the holder is a
 * stopped process of the fabric (SIGSTOP, a debugger), which may never continue. */
enum hca_locked { HCA_LOCKED, HCA_LOCKED_BROKEN, HCA_LOCKED_NOT };
enum hca_locked hca_lock_unless_stopped_wait(uint32_t *word);
static inline enum hca_locked hca_lock_unless_stopped(uint32_t *word)
{
	if (hca_alone && !*word) {
		*word = 1;
		return HCA_LOCKED;
	}
	return UNLIKELY(hca_alone || !hca_lock_without_wait(word))
		       ? hca_lock_unless_stopped_wait(word)
		       : HCA_LOCKED;
}
static inline void hca_lock(uint32_t *word)
{
	(void)hca_lock_broken(word);
}
static inline bool hca_try_lock(uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) == 0 && hca_lock_without_wait(word);
}
static inline void hca_unlock(uint32_t *word)
{
	DASSERT(__atomic_load_n(word, __ATOMIC_RELAXED) != 0);
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

#pragma GCC visibility pop

#endif
