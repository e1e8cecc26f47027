/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves every byte that an HCA moves. entry/region.c creates the regions. */
#include <errno.h>

#include "backends/fakeverbs/arena/point.h"
#include "backends/fakeverbs/objects/hca_memory.h"

/* ---- access --------------------------------------------------------------------------------- */

struct hca_mr *hca_mr_hold(uint32_t pd, uint32_t key, uint64_t iova, uint64_t bytes,
			   uint32_t access)
{
	struct hca_mr *mr = hca_mr_at(key);

	if (!mr)
		return NULL;
	hca_lock(&mr->item.lock);
	bool ok = hca_mr_allows(mr, pd, key, iova, bytes, access);

	mr->users += ok;
	hca_unlock(&mr->item.lock);
	return ok ? mr : NULL;
}

bool hca_key_live(uint32_t pd, uint32_t key)
{
	struct hca_mr *mr = hca_mr_at(key);

	if (!mr)
		return false;
	hca_lock(&mr->item.lock);
	bool live = mr->key && mr->key == key && mr->pd == pd;

	hca_unlock(&mr->item.lock);
	return live;
}

void hca_mr_release(struct hca_mr *mr)
{
	hca_lock(&mr->item.lock);
	/* users is 0 if the caller's process was stopped in its copy and region.c no longer waited
	 * for it */
	ASSERT(mr->users > 0 || hca_members);
	mr->users -= mr->users > 0;
	hca_unlock(&mr->item.lock);
}

/* memcpy moves each aligned word whole, and a poller of lines needs no more. ThreadSanitizer does
 * not know that: for it all writes are word by word. */
#ifdef __SANITIZE_THREAD__
#define MEMORY_COPIED(bytes) false
#else
#define MEMORY_COPIED(bytes) ((bytes) > HCA_WORDWISE_BYTES)
#endif

/* Host memory may be polled while it is written. Small transfers are written word by word, in
 * rising order, each word atomically: a poller may wait for the flag at the end of a small
 * WRITE. */
void hca_host_write_any(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (MEMORY_COPIED(bytes)) {
		memcpy(to, from, bytes);
		return;
	}
	while (bytes) {
		if (bytes >= 8 && (uintptr_t)to % 8 == 0) {
			uint64_t v;

			memcpy(&v, from, 8);
			__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELEASE);
			to += 8, from += 8, bytes -= 8;
		} else if (bytes >= 4 && (uintptr_t)to % 4 == 0) {
			uint32_t v;

			memcpy(&v, from, 4);
			__atomic_store_n((uint32_t *)to, v, __ATOMIC_RELEASE);
			to += 4, from += 4, bytes -= 4;
		} else {
			__atomic_store_n(to, *from, __ATOMIC_RELEASE);
			to++, from++, bytes--;
		}
	}
}

void hca_host_read(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (bytes > HCA_WORDWISE_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	while (bytes) {
		if (bytes >= 8 && (uintptr_t)from % 8 == 0) {
			uint64_t v = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);

			memcpy(to, &v, 8);
			to += 8, from += 8, bytes -= 8;
		} else {
			*to = __atomic_load_n(from, __ATOMIC_ACQUIRE);
			to++, from++, bytes--;
		}
	}
}

int hca_mr_write(struct hca_mr *mr, uint64_t iova, const void *data, uint64_t bytes)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(iova - mr->iova + bytes <= mr->bytes);
	if (mr->kind == HCA_MR_NULL)
		return 0;
	if (!hca_is_here(mr->item.proc))
		return hca_members->write(mr, at, data, bytes);
	if (mr->gpu)
		return peermem()->write(&mr->region, mr->port, at, data, bytes);
	hca_check_wrote(mr, at, bytes);
	/* a small write lands as a whole, its last word last, unless the region's ordering is
	 * relaxed */
	bool whole = bytes <= HCA_WORDWISE_BYTES &&
		     (bytes <= 8 || !(mr->access & IBV_ACCESS_RELAXED_ORDERING));
	struct mem_access a = {.addr = (const void *)(uintptr_t)at,
			       .bytes = bytes,
			       .op = SHARED_RANGE_WRITE,
			       .order = whole ? SHARED_RELEASE : SHARED_RELAXED,
			       .scope = SHARED_SYSTEM};

	mem_access(&a);
	hca_host_write((uint8_t *)(uintptr_t)at, data, bytes);
	mem_wrote(&a);
	sim_wrote((const void *)(uintptr_t)at, bytes);
	return 0;
}

int hca_mr_read(struct hca_mr *mr, uint64_t iova, void *data, uint64_t bytes)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(iova - mr->iova + bytes <= mr->bytes);
	if (mr->kind == HCA_MR_NULL) {
		memset(data, 0, bytes);
		return 0;
	}
	if (!hca_is_here(mr->item.proc))
		return hca_members->read(mr, at, data, bytes);
	if (mr->gpu)
		return peermem()->read(&mr->region, mr->port, at, data, bytes);
	mem_access(&(struct mem_access){.addr = (const void *)(uintptr_t)at,
					.bytes = bytes,
					.op = SHARED_RANGE_READ,
					.scope = SHARED_SYSTEM});
	hca_host_read(data, (const uint8_t *)(uintptr_t)at, bytes);
	return 0;
}

int hca_mr_load(struct hca_mr *mr, uint64_t iova, uint64_t *value)
{
	uint64_t at = mr->address + (iova - mr->iova);

	ASSERT(mr->kind != HCA_MR_NULL && iova - mr->iova + sizeof *value <= mr->bytes);
	if (!hca_is_here(mr->item.proc))
		return hca_members->read(mr, at, value, sizeof *value);
	if (mr->gpu)
		return peermem()->load(&mr->region, mr->port, at, value);
	mem_access(&(struct mem_access){.addr = (const void *)(uintptr_t)at,
					.bytes = sizeof *value,
					.op = SHARED_LOAD,
					.order = SHARED_ACQUIRE,
					.scope = SHARED_SYSTEM});
	*value = __atomic_load_n((const uint64_t *)(uintptr_t)at, __ATOMIC_ACQUIRE);
	return 0;
}

int hca_sges_check(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint32_t access)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!sge[i].length)
			continue;
		struct hca_mr *mr =
			hca_mr_hold(pd, sge[i].lkey, sge[i].addr, sge[i].length, access);

		if (!mr)
			return EACCES;
		hca_mr_release(mr);
	}
	return 0;
}

/* Copies in both directions: `write` is the direction; `data` is read or written accordingly. */
static int hca_sges_copy(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
			 uint8_t *data, uint64_t bytes, bool write)
{
	for (uint32_t i = 0; i < n && bytes; i++) {
		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		uint64_t take = MIN_OF(bytes, sge[i].length - offset), at = sge[i].addr + offset;
		struct hca_mr *mr =
			hca_mr_hold(pd, sge[i].lkey, at, take, write ? IBV_ACCESS_LOCAL_WRITE : 0);

		if (!mr)
			return EACCES;
		int rc = write ? hca_mr_write(mr, at, data, take) : hca_mr_read(mr, at, data, take);

		hca_mr_release(mr);
		if (rc)
			return rc;
		data += take;
		bytes -= take;
		offset = 0;
	}
	return bytes ? EACCES : 0;
}

int hca_sges_read(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset, void *data,
		  uint64_t bytes)
{
	return hca_sges_copy(pd, sge, n, offset, data, bytes, false);
}

int hca_sges_write(uint32_t pd, const struct ibv_sge *sge, uint32_t n, uint64_t offset,
		   const void *data, uint64_t bytes)
{
	return hca_sges_copy(pd, sge, n, offset, (uint8_t *)(uintptr_t)data, bytes, true);
}

void hca_sges_sent(uint32_t pd, const struct ibv_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct hca_mr *mr = hca_mr_hold(pd, sge[i].lkey, sge[i].addr, sge[i].length, 0);

		if (!mr)
			continue;
		if (mr->gpu && hca_is_here(mr->item.proc) && peermem()->sent)
			peermem()->sent(&mr->region, mr->address + (sge[i].addr - mr->iova),
					sge[i].length);
		hca_mr_release(mr);
	}
}

/* ---- the bytes that a send reads ------------------------------------------------------------ */

void hca_check_wrote_watched(struct hca_mr *mr, uint64_t address, uint64_t bytes)
{
	uint32_t n = __atomic_fetch_add(&mr->writes, 1, __ATOMIC_ACQ_REL);
	struct hca_written *w = &mr->wrote[n % ARRAY_LEN(mr->wrote)];

	__atomic_store_n(&w->lo, address, __ATOMIC_RELEASE);
	__atomic_store_n(&w->hi, address + bytes, __ATOMIC_RELEASE);
}
