/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMem, which other processes of the machine receive as a descriptor
 * (core/os/mailbox.h). core/transport calls it: p2p for connections in GPU memory, shm for
 * connections in host memory. If cumem_has returns false on a rank of the host, connections use
 * memory of mem.h, with CUDA IPC and segments of /dev/shm.
 *
 * Every process has its own mapping, and each GPU that uses it has access of its own. Host memory
 * has one address for GPU and host. The memory lasts until the last process has unmapped it, so no
 * process waits for another before it frees. No call waits for a kernel. The mapping must outlast
 * the kernels that use it.
 *
 * Owns nothing. Sizes are bytes, in pages of CUMEM_PAGE_BYTES. This file logs a failure with the
 * call and `what`, the purpose of the memory. Outputs are then NULL or -1.
 */
#ifndef CORE_MEM_CUMEM_H
#define CORE_MEM_CUMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/include/nccl.h"

#define CUMEM_PAGE_BYTES ((size_t)2 << 20)

/* Location of the memory. */
enum cumem_place {
	CUMEM_DEVICE, /* the current GPU */
	CUMEM_HOST,   /* the host's NUMA node that is nearest to the current GPU */
};

/* Sets *has if NCCL_CUMEM_ENABLE allows cuMem, for CUMEM_HOST NCCL_CUMEM_HOST_ENABLE requests it,
 * and driver and device support it. An error: CUDA failed to answer. */
ncclResult_t cumem_has(enum cumem_place place, int device, bool *has);
/* Allocates memory that the current device can access, and for CUMEM_HOST the host, too. Not
 * cleared. */
ncclResult_t cumem_alloc(enum cumem_place place, void **mem, size_t bytes, const char *what);
/* Unmaps memory of this process or of another one from this process. */
ncclResult_t cumem_free(void *mem, size_t bytes, const char *what);
/* Unmaps it, and keeps its addresses for cumem_alloc_at and cumem_import_at. */
ncclResult_t cumem_unmap(void *mem, size_t bytes, const char *what);
/* Maps new memory at addresses that cumem_unmap kept; after an error they are still kept. */
ncclResult_t cumem_alloc_at(enum cumem_place place, void *mem, size_t bytes, const char *what);
/* Gives up such addresses. */
ncclResult_t cumem_forget(void *mem, size_t bytes, const char *what);
/* Gives another device of this process access. */
ncclResult_t cumem_allow(void *mem, size_t bytes, int device, const char *what);
/* Exports the memory as *fd. The caller closes it with os_descriptor_close after it was sent to all
 * processes that need it. */
ncclResult_t cumem_export(int *fd, void *mem, const char *what);
/* Maps the memory of the descriptor, with the access of cumem_alloc. */
ncclResult_t cumem_import(enum cumem_place place, void **mem, size_t bytes, int fd,
			  const char *what);
/* Maps it at addresses that cumem_unmap kept; after an error they are still kept. */
ncclResult_t cumem_import_at(enum cumem_place place, void *mem, size_t bytes, int fd,
			     const char *what);

#endif
