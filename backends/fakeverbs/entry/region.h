/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What region.c and region_memory.c share: a region as the program wants it, and the memory under
 * it. Called by the entry points of regions, on a task. Sizes in bytes; errors 0 or a positive
 * errno.
 */
#ifndef BACKENDS_FAKEVERBS_REGION_H
#define BACKENDS_FAKEVERBS_REGION_H

#include "backends/fakeverbs/entry/entry.h"

#pragma GCC visibility push(hidden)

#define HCA_ACCESS_KNOWN                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
/* Of the wishes in that range, the one that is understood. */
#define HCA_ACCESS_KEPT                                                                            \
	((HCA_ACCESS_KNOWN & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE) |                           \
	 IBV_ACCESS_RELAXED_ORDERING)

/* What a region is to be. */
struct hca_region_want {
	uint64_t address, bytes, iova;
	unsigned int access;
	enum hca_mr_kind kind;
	int fd;          /* of a dma-buf, in which `address` is an offset */
	uint64_t caller; /* the call site */
};

/* May it be a region of that port's HCA? EINVAL, EOPNOTSUPP. */
int hca_region_check(uint32_t port, const struct hca_region_want *want);
/* The region's memory is there for HCAs: pinned, where it is a GPU's. EFAULT: it is not the
 * program's, or may not be written. Under the region's lock. */
int hca_region_pin(struct hca_mr *mr);
/* The same for a dma-buf; from here on the address is the program's. */
int hca_region_pin_dmabuf(struct hca_mr *mr, int fd);
void hca_region_unpin(struct hca_mr *mr);

#pragma GCC visibility pop

#endif
