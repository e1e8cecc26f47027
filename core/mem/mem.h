/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that core takes from CUDA: device memory, pinned host memory, and mappings of device
 * memory of other processes of the host; and device memory as a dma-buf, for the driver of an HCA.
 * No other room allocates, frees, pins, opens or closes any (tests/unit/rules_memory_test.sh).
 * Called by transport, proxy, plan, comm and api.
 *
 * Owns nothing: the room that allocates frees, on the same device. Sizes are bytes. A failure is
 * logged here, with the call and with `what` the memory is for; *mem is NULL then.
 *
 * Which calls wait for kernels. A kernel spins until the other ranks launch theirs, so a rank that
 * waits for one before it has done what the others need waits for ever.
 *
 *	mem_device_alloc, mem_host_alloc,                    may wait for the kernels of the GPU
 *	mem_host_register, mem_import
 *	mem_device_free, mem_host_free,                      always wait for them
 *	mem_host_unregister, mem_import_close
 *	mem_export, mem_dmabuf                               wait for none
 *
 * So they are called in these places alone:
 *
 *	init       before the communicator's first launch: abort word, device communicator, FIFO of
 *	           works, what the first connections need, and the store for messages of other ranks (PXN)
 *	connection at any later time, before the first launch of the group that needs the connections
 *	           (transport_connect_all): pools and imports of p2p, segments of shm, pages of connections,
 *	           the memory of network connections, which is freed where the NIC does not reach it, and
 *	           registered memory of other ranks, mapped and closed (core/transport/registered.h), and
 *	           memory to send in place from (core/plan/staged.c). A
 *	           wait is then for kernels of earlier groups, which need nothing of this group
 *	end        all that frees and closes: after the communicator's last kernel
 *	program    ncclMemAlloc and ncclMemFree, as cudaMalloc and cudaFree of the program (user_memory.h)
 *
 * The main task of a rank calls them, never a task of the proxy, which other ranks may wait for.
 *
 * With DOPPEL_CUDA_WAITS=1 the GPU double waits wherever CUDA may: a call in another place hangs,
 * and the hang is reported (tests/collectives/cuda_waits_test.sh).
 *
 * All memory is cudaMalloc's; that of cuMem, whose calls wait for no kernel, is cumem.h's.
 */
#ifndef CORE_MEM_MEM_H
#define CORE_MEM_MEM_H

#include <cuda_runtime_api.h>

#include "core/include/nccl.h"

/* On the current device; not cleared. */
ncclResult_t mem_device_alloc(void **mem, size_t bytes, const char *what);
ncclResult_t mem_device_free(void *mem, const char *what); /* NULL: nothing */

/* Mapped and portable: host and all devices of the process have it at one address. Not cleared. */
ncclResult_t mem_host_alloc(void **mem, size_t bytes, const char *what);
ncclResult_t mem_host_free(void *mem, const char *what); /* NULL: nothing */

/* Host memory that CUDA did not allocate, whole pages of it: pinned and mapped until it is
 * unregistered, which comes before it is unmapped. *device: its address on the devices of the
 * process. */
ncclResult_t mem_host_register(void *mem, size_t bytes, void **device, const char *what);
ncclResult_t mem_host_unregister(void *mem, const char *what);

/* For other processes of the host; not for this one, which CUDA refuses. It lasts as long as the
 * memory, which is freed after all have closed it. */
ncclResult_t mem_export(cudaIpcMemHandle_t *handle, void *mem, const char *what);
ncclResult_t mem_import(void **mem, cudaIpcMemHandle_t handle, const char *what);
ncclResult_t mem_import_close(void *mem, const char *what);

/* Pages of hosts at their largest. A dma-buf is of whole pages of one allocation. */
#define MEM_PAGE_BYTES ((size_t)65536)

/* The pages that have these bytes of device memory, as a dma-buf: *fd, which the caller closes with
 * os_descriptor_close; `mem` is *offset bytes behind its beginning. ncclInvalidUsage, not logged,
 * where there is none: CUDA's driver or the kernel has no dma-bufs, or the pages are not all of one
 * allocation. */
ncclResult_t mem_dmabuf(void *mem, size_t bytes, int *fd, size_t *offset);

#endif
