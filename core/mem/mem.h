/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that core allocates from CUDA: device memory, pinned host memory, mappings of device
 * memory of other processes of the host, and device memory as a dma-buf for an HCA's driver. No
 * other room allocates, frees, pins, opens or closes any (tests/unit/rules_memory_test.sh). Called
 * by transport, proxy, plan, comm and api.
 *
 * Owns nothing: the room that allocates frees, on the same device. Sizes are bytes. This file logs
 * a failure with the call and `what`, the purpose of the memory; *mem is then NULL.
 *
 * Some calls wait for kernels. A kernel spins until the other ranks launch theirs. A rank therefore
 * hangs if it waits for a kernel before it has launched the kernels that other ranks wait for.
 *
 *	mem_device_alloc, mem_host_alloc,                    may wait for the kernels of the GPU
 *	mem_host_register, mem_import
 *	mem_device_free, mem_host_free,                      always wait for them
 *	mem_host_unregister, mem_import_close
 *	mem_export, mem_dmabuf                               never wait
 *
 * They are called only in these phases:
 *
 *	init       before the communicator's first launch: abort word, device communicator, FIFO of
 *	           works, times of kernels, memory of the first connections, and the store for
 *	           messages of other ranks (PXN)
 *	connection at any later time, before the first launch of the group that needs the
 *	           connections (transport_connect_all): pools and imports of p2p, segments of shm,
 *	           pages of connections, memory of network connections (freed if the NIC cannot
 *	           reach it), mappings of other ranks' registered memory
 *	           (core/transport/registered.h), records of windows, memory of device
 *	           communicators, and memory to send in place from
 *	           (core/plan/staged.c). A wait is then for kernels of earlier groups, which need
 *	           nothing of this group
 *	end        every free and close: after the communicator's last kernel
 *	program    ncclMemAlloc and ncclMemFree, like the program's own cudaMalloc and cudaFree
 *	           (user_memory.h); ncclDevCommDestroy
 *
 * The main task of a rank calls them, never a task of the proxy, because other ranks may wait for
 * the proxy.
 *
 * With DOPPEL_CUDA_WAITS=1 the GPU double waits wherever CUDA may. A call in another phase then
 * hangs, and the run reports the hang (tests/collectives/cuda_waits_test.sh).
 *
 * All device memory here is cudaMalloc's. cumem.h has the memory of cuMem, whose calls wait for no
 * kernel.
 */
#ifndef CORE_MEM_MEM_H
#define CORE_MEM_MEM_H

#include <cuda_runtime_api.h>

#include "core/include/nccl.h"

/* Allocates on the current device; not cleared. */
ncclResult_t mem_device_alloc(void **mem, size_t bytes, const char *what);
ncclResult_t mem_device_free(void *mem, const char *what); /* NULL: does nothing */

/* Allocates mapped, portable memory: it has one address for the host and all devices of the
 * process. Not cleared. */
ncclResult_t mem_host_alloc(void **mem, size_t bytes, const char *what);
ncclResult_t mem_host_free(void *mem, const char *what); /* NULL: does nothing */

/* Pins and maps whole pages of host memory that CUDA did not allocate. They must be unregistered
 * before they are unmapped. *device: their address on the devices of the process. */
ncclResult_t mem_host_register(void *mem, size_t bytes, void **device, const char *what);
ncclResult_t mem_host_unregister(void *mem, const char *what);

/* Share device memory with other processes of the host; CUDA refuses an import by the same process.
 * The handle is valid as long as the memory. The owner frees the memory after all importers have
 * closed it. */
ncclResult_t mem_export(cudaIpcMemHandle_t *handle, void *mem, const char *what);
ncclResult_t mem_import(void **mem, cudaIpcMemHandle_t handle, const char *what);
ncclResult_t mem_import_close(void *mem, const char *what);

/* The largest page size of hosts. A dma-buf consists of whole pages of one allocation. */
#define MEM_PAGE_BYTES ((size_t)65536)

/* Exports the pages that contain these bytes of device memory as a dma-buf. The caller closes *fd
 * with os_descriptor_close. `mem` is *offset bytes after the start of the dma-buf.
 * ncclInvalidUsage, not logged: CUDA's driver or the kernel has no dma-bufs, or the pages are not
 * all of one allocation. */
ncclResult_t mem_dmabuf(void *mem, size_t bytes, int *fd, size_t *offset);

#endif
