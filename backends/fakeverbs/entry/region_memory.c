/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of regions: which memory can be registered, and how HCAs gain access to it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "backends/fakeverbs/entry/region.h"

#define HCA_PAGE_BYTES 4096u

static bool hca_region_may_be_empty(uint32_t port, const struct hca_region_want *want)
{
	enum hca_zero_length may = hca_personality(port)->zero_length_mr;

	return may == HCA_ZERO_TAKEN ||
	       (may == HCA_ZERO_INSIDE_PAGE && want->address % HCA_PAGE_BYTES);
}

int hca_region_check(uint32_t port, const struct hca_region_want *want)
{
	unsigned int access = want->access;

	if (access & ~(unsigned int)(HCA_ACCESS_KNOWN | IBV_ACCESS_ON_DEMAND))
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND) {
		hca_log("ibv_reg_mr: this HCA has no on-demand paging");
		return EOPNOTSUPP;
	}
	/* the specification: memory that a peer may write must be writable for this HCA */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!want->bytes && want->kind != HCA_MR_DMABUF && !hca_region_may_be_empty(port, want))
		return EINVAL;
	if (want->address + want->bytes < want->address || want->iova + want->bytes < want->iova)
		return EINVAL;
	/* the HCA's tables map whole pages, so both addresses need the same offset in their page */
	if ((want->address ^ want->iova) % HCA_PAGE_BYTES)
		return EINVAL;
	return 0;
}

/* Returns whether the pages are writable, as pinning them would find out. -1: the kernel does not
 * support the query. */
static int hca_pages_can_be_written(uint64_t first, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	uintptr_t own = (uintptr_t)&first / HCA_PAGE_BYTES * HCA_PAGE_BYTES;

	if (madvise((void *)(uintptr_t)first, bytes, MADV_POPULATE_WRITE) == 0)
		return 1;
	/* EINVAL: not writable, or an old kernel; an old kernel refuses the stack's page, too */
	if (errno != EINVAL || madvise((void *)own, HCA_PAGE_BYTES, MADV_POPULATE_WRITE) == 0)
		return 0;
#endif
	return -1;
}

static bool hca_pages_are_there(uint64_t first, uint64_t end)
{
	unsigned char there[1024];

	for (uint64_t at = first; at < end; at += sizeof there * HCA_PAGE_BYTES) {
		uint64_t n = MIN_OF(end - at, sizeof there * HCA_PAGE_BYTES);

		if (mincore((void *)(uintptr_t)at, n, there) && errno == ENOMEM)
			return false;
	}
	return true;
}

/* Checks that the pages belong to the process and, with `write`, are writable. Writability is
 * checked only at both ends, where mistakes are. With at most two pages one call checks both
 * conditions. */
static int hca_region_check_pages(uint64_t address, uint64_t bytes, bool write)
{
	uint64_t first = address / HCA_PAGE_BYTES * HCA_PAGE_BYTES;
	uint64_t end = ALIGN_UP(address + bytes, (uint64_t)HCA_PAGE_BYTES);
	bool few = end - first <= 2ull * HCA_PAGE_BYTES;
	int can = 1;

	if (!bytes)
		return 0;
	if (write)
		can = hca_pages_can_be_written(first, few ? end - first : HCA_PAGE_BYTES);
	if (write && !few && can > 0)
		can = hca_pages_can_be_written(end - HCA_PAGE_BYTES, HCA_PAGE_BYTES);
	if (!can || ((!write || !few || can < 0) && !hca_pages_are_there(first, end)))
		return EFAULT;
	return 0;
}

/* True if no HCA may write into whole pages of this region through another region of the process.
 * Such writes do not wait for this registration. Programs for which this matters register one
 * region at a time. */
static bool hca_region_is_still(const struct hca_mr *mr)
{
	uint64_t first = ALIGN_UP(mr->address, (uint64_t)HCA_PAGE_BYTES);
	uint64_t end = (mr->address + mr->bytes) / HCA_PAGE_BYTES * HCA_PAGE_BYTES;
	const struct hca_mr *other;
	uint32_t at = 0;

	if (end <= first) /* no whole pages */
		return true;
	while ((other = hca_slab_next(&hca_world()->mr, mr->item.proc, &at)))
		if (other != mr && other->key && other->kind == HCA_MR_MEMORY && !other->gpu &&
		    (other->access & IBV_ACCESS_LOCAL_WRITE) && other->address < end &&
		    first < other->address + other->bytes)
			return false;
	return true;
}

int hca_region_pin(struct hca_mr *mr)
{
	const struct peermem_ops *gpu = peermem();
	bool write = mr->access & IBV_ACCESS_LOCAL_WRITE;

	ASSERT(mr->kind == HCA_MR_MEMORY);
	mr->gpu = 0;
	mr->window.fd = -1;
	if (!gpu || !gpu->owns(os_proc(), mr->address, mr->bytes)) {
		bool known =
			gpu && gpu->allocated && gpu->allocated(os_proc(), mr->address, mr->bytes);
		int bad = known ? 0 : hca_region_check_pages(mr->address, mr->bytes, write);

		if (!bad && hca_members && write)
			hca_members->open(mr->address, mr->bytes, hca_region_is_still(mr),
					  &mr->window);
		return bad;
	}
	int rc = gpu->pin(os_proc(), mr->address, mr->bytes, &mr->region);

	if (rc)
		hca_log("ibv_reg_mr: cannot pin %llu bytes of GPU memory: %s",
			(unsigned long long)mr->bytes,
			rc == ENODEV
				? "this GPU gives HCAs no access"
				: "not inside one live allocation of this process, or there is "
				  "no peer-memory module");
	mr->gpu = !rc;
	return rc;
}

int hca_region_pin_dmabuf(struct hca_mr *mr, int fd)
{
	const struct peermem_ops *gpu = peermem();
	int rc = EOPNOTSUPP;

	ASSERT(mr->kind == HCA_MR_DMABUF && !mr->key);
	if (!gpu) /* no dma-bufs without GPUs */
		rc = fcntl(fd, F_GETFD) < 0 ? EBADF : EINVAL;
	else if (gpu->pin_dmabuf)
		rc = gpu->pin_dmabuf(os_proc(), fd, mr->address, mr->bytes, &mr->region);
	mr->gpu = !rc;
	if (!rc)
		mr->address = mr->region.address;
	return rc;
}

void hca_region_unpin(struct hca_mr *mr)
{
	if (hca_members && hca_is_here(mr->item.proc))
		hca_members->close(&mr->window);
	if (mr->gpu && hca_is_here(mr->item.proc))
		peermem()->unpin(&mr->region);
	mr->gpu = 0;
}
