/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peermem: the interface through which an HCA double accesses GPU memory. It corresponds to
 * nvidia-peermem on a real machine. fakeverbs calls it. The provider of GPUs implements it and
 * registers the table once, when it is loaded: fakecuda, or in `gpu` builds a staging
 * implementation over real CUDA.
 *
 * A write through peermem is stored in GPU memory, but a running kernel need not see it. Before
 * compute capability 9.0 writes may stay in the PCIe path until the same HCA *reads* memory of that
 * GPU (the "GPU flush"). The provider models this. Pending writes become visible, in order, at the
 * HCA's next peermem read of the GPU, or at the launch of a kernel or copy there; not before,
 * unless a read of the HCA has failed, or the HCA has (landed).
 *
 * Functions return 0 or a positive errno. Addresses are those of the program.
 */
#ifndef BACKENDS_PEERMEM_H
#define BACKENDS_PEERMEM_H

#include "core/os/os.h"

struct peermem_region {
	uint32_t device; /* global GPU number of the world */
	uint32_t cookie; /* set by the provider: the allocation, with a generation */
	uint64_t address, bytes;
	uint64_t home; /* set by the provider: its address; may outlive the mapping at `address` */
};

struct peermem_ops {
	/* True if any byte of the range is GPU memory in this process' view. Accesses no memory. */
	bool (*owns)(const struct os_proc *proc, uint64_t address, uint64_t bytes);
	/* True if the range is host memory that the provider allocated for the process: its pages
	 * are there and writable. NULL: the provider keeps no record. */
	bool (*allocated)(const struct os_proc *proc, uint64_t address, uint64_t bytes);
	/* Pins the range for an MR. EFAULT: not wholly inside one live allocation that the process
	 * may use. ENODEV: this GPU permits no peer access to HCAs. */
	int (*pin)(struct os_proc *proc, uint64_t address, uint64_t bytes,
		   struct peermem_region *r);
	/* Pins `bytes` from `offset` of a dma-buf that the provider exported. EBADF: not a
	 * descriptor. EINVAL: not GPU memory, or too short. NULL if the provider exports no
	 * dma-bufs. */
	int (*pin_dmabuf)(struct os_proc *proc, int fd, uint64_t offset, uint64_t bytes,
			  struct peermem_region *r);
	void (*unpin)(const struct peermem_region *r);
	/* DMA by HCA `hca` (the port's index). Callable in event context, so it must not wait. */
	int (*write)(const struct peermem_region *r, uint32_t hca, uint64_t address,
		     const void *data, uint64_t bytes);
	int (*read)(const struct peermem_region *r, uint32_t hca, uint64_t address, void *data,
		    uint64_t bytes);
	/* A send that read the range is complete: the HCA will not read the range again for it.
	 * NULL: the provider does not care. */
	void (*sent)(const struct peermem_region *r, uint64_t address, uint64_t bytes);
	/* A read of the HCA failed, after retries that take milliseconds, or the HCA itself failed.
	 * Writes take microseconds in a real machine, so all of the HCA's are visible. Later ones
	 * do not wait, until its next read of the GPU. NULL: the provider has no pending writes. */
	void (*landed)(uint32_t hca);
	/* Reads one aligned word as a whole, for an atomic operation whose other half is a write.
	 * Flushes as any read does. */
	int (*load)(const struct peermem_region *r, uint32_t hca, uint64_t address,
		    uint64_t *value);
};

void peermem_register(const struct peermem_ops *ops);
const struct peermem_ops *peermem(void); /* NULL: the process has no GPUs */

#endif
