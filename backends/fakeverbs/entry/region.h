/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared part of region.c and region_memory.c: a region as the program requests it, and its memory.
 * The entry points of regions call these functions, on a task. Sizes are in bytes; errors are 0 or
 * a positive errno.
 */
#ifndef BACKENDS_FAKEVERBS_REGION_H
#define BACKENDS_FAKEVERBS_REGION_H

#include "backends/fakeverbs/entry/entry.h"

#pragma GCC visibility push(hidden)

#define HCA_ACCESS_KNOWN                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
/* Flags that a region keeps. The only supported flag in IBV_ACCESS_OPTIONAL_RANGE is
 * RELAXED_ORDERING. */
#define HCA_ACCESS_KEPT                                                                            \
	((HCA_ACCESS_KNOWN & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE) |                           \
	 IBV_ACCESS_RELAXED_ORDERING)

/* A region as requested. */
struct hca_region_want {
	uint64_t address, bytes, iova;
	unsigned int access;
	enum hca_mr_kind kind;
	int fd;          /* descriptor of a dma-buf, in which `address` is an offset */
	uint64_t caller; /* the call site */
};

/* Checks whether it can be a region of that port's HCA. EINVAL, EOPNOTSUPP. */
int hca_region_check(uint32_t port, const struct hca_region_want *want);
/* Makes the region's memory accessible for HCAs; pins GPU memory. EFAULT: the memory does not
 * belong to the program, or is read-only. Under the region's lock. */
int hca_region_pin(struct hca_mr *mr);
/* The same for a dma-buf. Afterwards the region's address is the program's. */
int hca_region_pin_dmabuf(struct hca_mr *mr, int fd);
void hca_region_unpin(struct hca_mr *mr);

#pragma GCC visibility pop

#endif
