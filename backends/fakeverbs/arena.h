/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What HCAs keep in the world arena: tables of equal items (slabs), memory in powers of two, and the
 * locks on both. Used by every file of fakeverbs; nothing here knows what an item is.
 *
 * Pointers are the calling process' and are not kept in the arena; what refers to an item there is
 * its index and generation. Sizes in bytes. Nothing here waits: a lock is spun on (under `sim` it is
 * always free), and one whose holder died is passed on (hca_lock_broken).
 */
#ifndef BACKENDS_FAKEVERBS_ARENA_H
#define BACKENDS_FAKEVERBS_ARENA_H

#include <stdbool.h>
#include <stdint.h>

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
	uint64_t handle;       /* the owner's verbs object */
	uint64_t made;         /* the call site that made it (check.h); 0: unknown */
	uint32_t posts, heard; /* far.c: wakes by other processes, and those passed on */
};

struct hca_slab {
	uint32_t lock;
	uint32_t item_bytes, chunk_shift;
	uint32_t reuse_after; /* this many free ones rest before one is used again */
	uint32_t count, free_count, free_first, free_last;
	uint64_t chunk[HCA_CHUNKS];
};

void *hca_slab_at(struct hca_slab *s, uint32_t index);
/* NULL: full. What is behind its struct hca_item is as the last user left it. */
void *hca_slab_take(struct hca_slab *s);
/* The same for the calling process, with the verbs object that stands for it. */
void *hca_slab_take_owned(struct hca_slab *s, void *handle);
void hca_slab_give(struct hca_slab *s, void *item);
/* The next live item of process `proc` (UINT32_MAX: any) from *cursor on; NULL: no more. */
void *hca_slab_next(struct hca_slab *s, uint32_t proc, uint32_t *cursor);

/* Arena memory in powers of two, reused: rings. 0: none left; it is not zeroed. */
uint64_t hca_mem_take(uint64_t bytes);
void hca_mem_give(uint64_t offset, uint64_t bytes);

/* Names a process in the tables: of the caller's world, or of the machine. */
uint32_t hca_proc_id(const struct os_proc *proc);
/* Wakes who waits on the object's handle, in its owner's process. */
void hca_item_post(struct hca_item *it);

void hca_lock(uint32_t *word);
bool hca_try_lock(uint32_t *word);
/* The same; true: who held it is dead, and was not through. */
bool hca_lock_broken(uint32_t *word);
void hca_unlock(uint32_t *word);

#pragma GCC visibility pop

#endif
