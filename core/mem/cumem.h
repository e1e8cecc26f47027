/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of cuMem, which goes to other processes of the host as a descriptor (core/os/mailbox.h). Called by
 * transport for connections of p2p, where cumem_has; otherwise they are of mem.h and CUDA IPC.
 *
 * Every process has its own mapping, and each GPU that uses it access of its own. The memory lasts until the last
 * process has undone its mapping, so none waits for another before it frees. No call waits for a kernel, and the
 * mapping must outlast the kernels that use it.
 *
 * Owns nothing. Sizes are bytes, in pages of CUMEM_PAGE_BYTES. A failure is logged here, with the call and with
 * `what` the memory is for; outputs are NULL or -1 then.
 */
#ifndef CORE_MEM_CUMEM_H
#define CORE_MEM_CUMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/include/nccl.h"

#define CUMEM_PAGE_BYTES ((size_t)2 << 20)

/* Does NCCL_CUMEM_ENABLE ask for it, and do driver and device have it? An error: CUDA does not answer. */
ncclResult_t cumem_has(int device, bool *has);
/* On the current device, which has access; not cleared. */
ncclResult_t cumem_alloc(void **mem, size_t bytes, const char *what);
/* Undoes this process' mapping, of its own memory or of another process'. */
ncclResult_t cumem_free(void *mem, size_t bytes, const char *what);
/* Another device of this process gets access, too. */
ncclResult_t cumem_allow(void *mem, size_t bytes, int device, const char *what);
/* *fd: closed by the caller with os_descriptor_close, when it has gone to all that need it. */
ncclResult_t cumem_export(int *fd, void *mem, const char *what);
/* The memory of the descriptor, mapped for the current device. */
ncclResult_t cumem_import(void **mem, size_t bytes, int fd, const char *what);

#endif
