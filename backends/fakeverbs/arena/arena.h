/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What HCAs keep in the world arena: tables of equal items (slabs), memory of rings, and the locks
 * on both. Used by every file of fakeverbs; nothing here knows what an item is. The lowest floor:
 * it includes no other (entry/entry.h lists them).
 *
 * Pointers are those of the calling process and are not kept in the arena; a reference to an item
 * there is its index and generation. Sizes in bytes. Nothing here waits: a lock is spun on (under
 * `sim` it is always free), and a lock whose holder died is passed on (hca_lock_broken).
 */
#ifndef BACKENDS_FAKEVERBS_ARENA_H
#define BACKENDS_FAKEVERBS_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/fakeverbs/arena/far.h"
#include "core/base/macros.h"
#include "sim/world/world.h"

#pragma GCC visibility push(hidden)

struct os_proc;

#define HCA_CHUNKS 1024

/* First in every item. `generation` changes whenever the item is freed; a reference from elsewhere
 * is (index, generation). */
struct hca_item {
	uint32_t index, generation;
	uint32_t live, next_free; /* next_free: index + 1 */
	uint32_t proc;            /* owner */
	uint32_t lock;
	uint64_t handle; /* the owner's verbs object */
	uint64_t made;   /* the call site that made it (report.h); 0: unknown */
	uint32_t posts,
		posts_seen; /* entry/process.c: wakes by other processes, and those passed on */
};

struct hca_slab {
	uint32_t lock;
	uint32_t item_bytes, chunk_shift;
	uint32_t reuse_after; /* this many free ones rest before one is used again */
	uint32_t count, free_count, free_first, free_last;
	uint64_t chunk[HCA_CHUNKS];
};

static inline void *hca_slab_at(struct hca_slab *s, uint32_t index)
{
	uint32_t within = index & ((1u << s->chunk_shift) - 1);
	uint64_t chunk = __atomic_load_n(&s->chunk[index >> s->chunk_shift], __ATOMIC_ACQUIRE);

	return world_arena_at(chunk + (uint64_t)within * s->item_bytes);
}
/* A table without items; `reuse_after`: so many free ones rest. */
void hca_slab_init(struct hca_slab *s, size_t item_bytes, uint32_t chunk_shift,
		   uint32_t reuse_after);
/* NULL: full. What follows its struct hca_item is as the last user left it. */
void *hca_slab_take(struct hca_slab *s);
/* The same for the calling process, with the verbs object that stands for it. */
void *hca_slab_take_owned(struct hca_slab *s, void *handle);
void hca_slab_give(struct hca_slab *s, void *item);
/* The next live item of process `proc` (UINT32_MAX: any) from *cursor on; NULL: no more. */
void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor);

/* How many there can be. */
static inline uint32_t hca_slab_room(const struct hca_slab *s)
{
	return HCA_CHUNKS << s->chunk_shift;
}

/* Memory of rings (rings.c), a range of its own: tables and packets do not go without because of
 * rings, nor the other way round. The rest of the arena holds all tables at their largest. */
#define HCA_RINGS_BYTES (2880ull << 20)
struct hca_rings {
	uint32_t lock, pad;
	uint64_t first, bytes; /* the range */
	uint64_t fresh;        /* from here on no block was taken: still zeroed, but for a header */
	uint64_t free[48];     /* blocks by power of two; 0: none */
};
/* `memory` of the arena, that many bytes, zeroed. */
void hca_rings_init(struct hca_rings *r, void *memory, uint64_t bytes);
/* An offset in the arena, aligned to 64, of zeroed memory; 0: no room. */
uint64_t hca_ring_take(struct hca_rings *r, uint64_t bytes);
/* 0 is fine. */
void hca_ring_give(struct hca_rings *r, uint64_t ring);

/* A variable of the world's configuration, else of the program. NULL: unset. */
const char *hca_env(const char *name);

/* Names a process in the tables: of the caller's world, or of the machine. */
uint32_t hca_proc_id(const struct os_proc *proc);
/* Wakes the tasks that wait on the object's handle, in its owner's process. */
void hca_item_post(struct hca_item *it);

/* ---- locks: the holder's number, 0: free ---- */

/* Under `sim` one task runs at a time, and none stops while it holds a lock: a plain word will
 * do. */
extern bool hca_alone;
/* Another task has it. */
bool hca_lock_wait(uint32_t *word);

static inline uint32_t hca_lock_me(void)
{
	return hca_far ? hca_far->self + 1 : 1;
}
static inline bool hca_lock_without_wait(uint32_t *word)
{
	uint32_t holder = 0;

	return __atomic_compare_exchange_n(word, &holder, hca_lock_me(), false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}
/* True: the process that held it is dead, and had not finished. */
static inline bool hca_lock_broken(uint32_t *word)
{
	if (hca_alone && !*word) {
		*word = 1;
		return false;
	}
	return UNLIKELY(hca_alone || !hca_lock_without_wait(word)) && hca_lock_wait(word);
}
/* For locks under which much is done, memory copied among it: does not wait for a process of the
 * fabric that is stopped (SIGSTOP, a debugger), which may take for ever. */
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
