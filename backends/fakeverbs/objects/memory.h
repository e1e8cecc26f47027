/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and bytes: memory regions (memory.c) and windows (window.c); the calls that make them are in
 * entry/region.c and entry/window.c. Called by both ends of the transport, under the queue pair's
 * lock; a region is held while its bytes move, and deregistering it waits for that.
 */
#ifndef BACKENDS_FAKEVERBS_MEMORY_H
#define BACKENDS_FAKEVERBS_MEMORY_H

#include <infiniband/verbs.h>
#include <string.h>

#include "backends/fakeverbs/objects/objects.h"

#pragma GCC visibility push(hidden)

/* ---- memory.c ---- */

/* The region that a key of that number would be of; NULL: there never was one. */
static inline struct hca_mr *hca_mr_at(uint32_t key)
{
	struct hca_world *w = hca_world();
	uint32_t index = key >> 8;

	return index < __atomic_load_n(&w->mr.count, __ATOMIC_ACQUIRE) ? hca_slab_at(&w->mr, index)
								       : NULL;
}

/* Is that range inside it, live, of that domain, and allowed? Under its lock. */
static inline bool hca_mr_allows(const struct hca_mr *mr, uint32_t pd, uint32_t key, uint64_t iova,
				 uint64_t bytes, uint32_t access)
{
	return mr->key && mr->key == key && mr->pd == pd && (mr->access & access) == access &&
	       iova >= mr->iova && bytes <= mr->bytes && iova - mr->iova <= mr->bytes - bytes;
}
/* Is [iova, iova + bytes) inside a live region of this protection domain with these rights? Holds
 * the region until hca_mr_release. NULL: no. */
struct hca_mr *hca_mr_hold(uint32_t pd, uint32_t key, uint64_t iova, uint64_t bytes,
			   uint32_t access);
void hca_mr_release(struct hca_mr *mr);
/* Is this a key of that domain, whatever of? */
bool hca_key_live(uint32_t pd, uint32_t key);
/* HCAs write into memory that a send may be reading: not the program's doing. */
void hca_check_wrote_watched(struct hca_mr *mr, uint64_t address, uint64_t bytes);
static inline void hca_check_wrote(struct hca_mr *mr, uint64_t address, uint64_t bytes)
{
	if (__atomic_load_n(&mr->watched, __ATOMIC_RELAXED))
		hca_check_wrote_watched(mr, address, bytes);
}
/* Writes up to this into host memory land as a whole, the last word last. */
#define HCA_WORDWISE_BYTES 512
/* Into memory that others poll, and out of memory that others write. */
void hca_host_write_any(uint8_t *to, const uint8_t *from, uint64_t bytes);
static inline void hca_host_write(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t word;

	if (bytes != sizeof word || (uintptr_t)to % sizeof word) {
		hca_host_write_any(to, from, bytes);
		return;
	}
	memcpy(&word, from, sizeof word);
	__atomic_store_n((uint64_t *)(uintptr_t)to, word, __ATOMIC_RELEASE);
}
void hca_host_read(uint8_t *to, const uint8_t *from, uint64_t bytes);
int hca_mr_write(struct hca_mr *mr, uint64_t iova, const void *data, uint64_t bytes);
int hca_mr_read(struct hca_mr *mr, uint64_t iova, void *data, uint64_t bytes);
/* An aligned word, whole. */
int hca_mr_load(struct hca_mr *mr, uint64_t iova, uint64_t *value);
/* The scatter list as a stream: every entry valid? then bytes from `offset` on. EACCES: no. */
int hca_sges_check(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint32_t access);
int hca_sges_read(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset, void *data,
		  uint64_t bytes);
int hca_sges_write(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
		   const void *data, uint64_t bytes);
/* ---- window.c ---- */

#define HCA_WINDOW_KEY 0x80000000u /* in keys of windows alone */

void hca_mw_destroy(struct hca_mw *mw);
/* Windows of type 2 that this queue pair bound are free. */
void hca_windows_forget_qp(const struct hca_qp *qp);
enum ibv_wc_status hca_wqe_do_locally(const struct hca_qp *qp, const struct hca_wqe *e);
/* The window of type 2 with this key is free; false: there is none that this queue pair may
 * free. */
bool hca_window_invalidate(const struct hca_qp *qp, uint32_t key);
/* What a peer names: a region, or a window; then *iova becomes the region's. Released by
 * hca_mr_release. NULL: it may not. */
struct hca_mr *hca_remote_hold(const struct hca_qp *qp, uint32_t key, uint64_t *iova,
			       uint64_t bytes, uint32_t access);

#pragma GCC visibility pop

#endif
