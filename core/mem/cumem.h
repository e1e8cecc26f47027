/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMem, which goes to other processes of the machine as a descriptor
 * (core/os/mailbox.h). Called by transport: for connections of p2p, of GPU memory; for those of
 * shm, of host memory. Where cumem_has does not find it, they are of mem.h, with CUDA IPC and
 * segments of /dev/shm.
 *
 * Every process has its own mapping, and each GPU that uses it access of its own. Host memory has
 * one address for GPU and host. The memory lasts until the last process has undone its mapping, so
 * none waits for another before it frees. No call waits for a kernel, and the mapping must outlast
 * the kernels that use it.
 *
 * Owns nothing. Sizes are bytes, in pages of CUMEM_PAGE_BYTES. A failure is logged here, with the
 * call and with `what` the memory is for; outputs are NULL or -1 then.
 */
#ifndef CORE_MEM_CUMEM_H
#define CORE_MEM_CUMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/include/nccl.h"

#define CUMEM_PAGE_BYTES ((size_t)2 << 20)

/* Where the memory is. */
enum cumem_place {
	CUMEM_DEVICE, /* on the current GPU */
	CUMEM_HOST,   /* of the host, on the NUMA node that is nearest to the current GPU */
};

/* Does NCCL_CUMEM_ENABLE or NCCL_CUMEM_HOST_ENABLE request it, and do driver and device have it? An
 * error: CUDA does not answer. */
ncclResult_t cumem_has(enum cumem_place place, int device, bool *has);
/* Memory that the current device may use, and the host if it is the host's; not cleared. */
ncclResult_t cumem_alloc(enum cumem_place place, void **mem, size_t bytes, const char *what);
/* Undoes this process' mapping, of its own memory or of another process'. */
ncclResult_t cumem_free(void *mem, size_t bytes, const char *what);
/* Another device of this process gets access, too. */
ncclResult_t cumem_allow(void *mem, size_t bytes, int device, const char *what);
/* *fd: closed by the caller with os_descriptor_close, when it has gone to all that need it. */
ncclResult_t cumem_export(int *fd, void *mem, const char *what);
/* The memory of the descriptor, mapped as cumem_alloc maps it. */
ncclResult_t cumem_import(enum cumem_place place, void **mem, size_t bytes, int fd,
			  const char *what);

#endif
