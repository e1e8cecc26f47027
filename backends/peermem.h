/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peermem: how an HCA double reaches GPU memory, in the place where nvidia-peermem stands on a real
 * machine. fakeverbs calls it; the provider of GPUs implements it and registers the table once, at
 * load: fakecuda here, a staging implementation over real CUDA in `gpu` builds.
 *
 * A write through peermem lands in GPU memory, but a kernel that is already running need not see
 * it: before compute capability 9.0 writes may sit in the PCIe path until a *read* of that GPU's
 * memory by the same HCA pushes them out (the "GPU flush"). The table's owner models that: pending
 * writes become visible at the HCA's next peermem read of the GPU, in order, or when a kernel or
 * copy is launched there; not before.
 *
 * Errors: 0 or a positive errno. Addresses are those the program knows.
 */
#ifndef BACKENDS_PEERMEM_H
#define BACKENDS_PEERMEM_H

#include "core/os/os.h"

struct peermem_region {
	uint32_t device; /* global GPU number of the world */
	uint32_t cookie; /* provider's: the allocation, with a generation */
	uint64_t address, bytes;
	uint64_t
		home; /* provider's: where it has the memory, which may outlive the mapping at `address` */
};

struct peermem_ops {
	/* Is any byte of this range GPU memory of this process' view? Touches nothing. */
	bool (*owns)(const struct os_proc *proc, uint64_t address, uint64_t bytes);
	/* Pins for an MR. EFAULT: not wholly inside one live allocation that the process may use;
	 * ENODEV: this GPU gives no peer access to HCAs. */
	int (*pin)(struct os_proc *proc, uint64_t address, uint64_t bytes,
		   struct peermem_region *r);
	/* The same by a dma-buf that the provider handed out: `bytes` from `offset` on. EBADF: no
	 * descriptor; EINVAL: not of GPU memory, or not so much of it. NULL: there are none. */
	int (*pin_dmabuf)(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
			  struct peermem_region *r);
	void (*unpin)(const struct peermem_region *r);
	/* DMA by HCA `hca` (the port's index). Callable in event context; never wait. */
	int (*write)(const struct peermem_region *r, uint32_t hca, uint64_t address,
		     const void *data, uint64_t bytes);
	int (*read)(const struct peermem_region *r, uint32_t hca, uint64_t address, void *data,
		    uint64_t bytes);
	/* A read of one aligned word, whole, for an atomic operation: its other half is a write. A
	 * flush as any read is. */
	int (*load)(const struct peermem_region *r, uint32_t hca, uint64_t address,
		    uint64_t *value);
};

void peermem_register(const struct peermem_ops *ops);
const struct peermem_ops *peermem(void); /* NULL: no GPUs here */

#endif
