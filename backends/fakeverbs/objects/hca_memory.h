/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and bytes: memory regions (hca_memory.c) and windows (window.c). entry/region.c and
 * entry/ibv_window.c have the calls that create them. Both ends of the transport call these
 * functions under the queue pair's lock. A region is held while its bytes move; deregistering it
 * waits for the release.
 */
#ifndef BACKENDS_FAKEVERBS_HCA_MEMORY_H
#define BACKENDS_FAKEVERBS_HCA_MEMORY_H

#include <infiniband/verbs.h>
#include <string.h>

#include "backends/fakeverbs/objects/objects.h"

#pragma GCC visibility push(hidden)

/* ---- hca_memory.c ---- */

/* Returns the region record to which a key of that number belongs; NULL: no record. */
static inline struct hca_mr *hca_mr_at(uint32_t key)
{
	struct hca_world *w = hca_world();
	uint32_t index = key >> 8;

	return index < __atomic_load_n(&w->mr.count, __ATOMIC_ACQUIRE) ? hca_slab_at(&w->mr, index)
								       : NULL;
}

/* True if the range is inside the region, and the region is live, of that domain, and has these
 * rights. Under its lock. */
static inline bool hca_mr_allows(const struct hca_mr *mr, uint32_t pd, uint32_t key, uint64_t iova,
				 uint64_t bytes, uint32_t access)
{
	return mr->key && mr->key == key && mr->pd == pd && (mr->access & access) == access &&
	       iova >= mr->iova && bytes <= mr->bytes && iova - mr->iova <= mr->bytes - bytes;
}
/* Finds the region of a key, checks it (hca_mr_allows), and holds it until hca_mr_release. NULL:
 * not allowed. */
struct hca_mr *hca_mr_hold(uint32_t pd, uint32_t key, uint64_t iova, uint64_t bytes,
			   uint32_t access);
void hca_mr_release(struct hca_mr *mr);
/* True if this is the key of a live region of that domain, whatever its range and rights are. */
bool hca_key_live(uint32_t pd, uint32_t key);
/* Records that an HCA writes into memory that a send may be reading. The sanitizer does not blame
 * the program for such a change. */
void hca_check_wrote_watched(struct hca_mr *mr, uint64_t address, uint64_t bytes);
static inline void hca_check_wrote(struct hca_mr *mr, uint64_t address, uint64_t bytes)
{
	if (__atomic_load_n(&mr->watched, __ATOMIC_RELAXED))
		hca_check_wrote_watched(mr, address, bytes);
}
/* Maximum size of a write to host memory that lands as a whole, the last word last. */
#define HCA_WORDWISE_BYTES 512
/* Write to memory that others poll, and read memory that others write. */
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
/* Reads an aligned word atomically. */
int hca_mr_load(struct hca_mr *mr, uint64_t iova, uint64_t *value);
/* Treat the scatter list as a stream: check every entry; read or write bytes from `offset` on.
 * EACCES: not allowed. */
int hca_sges_check(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint32_t access);
int hca_sges_read(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset, void *data,
		  uint64_t bytes);
int hca_sges_write(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
		   const void *data, uint64_t bytes);
/* Reports to the provider of GPUs that a send of these entries is complete. */
void hca_sges_sent(uint32_t pd, const struct ibv_sge *sge, uint32_t n);
/* ---- window.c ---- */

#define HCA_WINDOW_KEY 0x80000000u /* set in keys of windows only */

void hca_mw_destroy(struct hca_mw *mw);
/* Unbinds the windows of type 2 that this queue pair bound. */
void hca_windows_forget_qp(const struct hca_qp *qp);
enum ibv_wc_status hca_wqe_do_locally(const struct hca_qp *qp, const struct hca_wqe *e);
/* Unbinds the window of type 2 with this key. False: this queue pair may not unbind one with this
 * key. */
bool hca_window_invalidate(const struct hca_qp *qp, uint32_t key);
/* Holds the memory that a peer names by the key of a region or a window. For a window, changes
 * *iova to the region's address. The caller releases it by hca_mr_release. NULL: not allowed. */
struct hca_mr *hca_remote_hold(const struct hca_qp *qp, uint32_t key, uint64_t *iova,
			       uint64_t bytes, uint32_t access);

#pragma GCC visibility pop

#endif
