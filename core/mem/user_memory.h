/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that programs allocate with ncclMemAlloc: a list of the process, in its registry. Other
 * ranks map the memory that a communicator registers (core/transport/registered.h). In CUDA it is
 * undefined to free memory that another process has open. A user of the memory therefore holds it:
 * ncclMemFree frees it when the last hold is dropped.
 *
 * Called by core/api, and by core/transport for holds. The list does not contain a program's own
 * allocations (cudaMalloc), because core cannot delay their free until other ranks have closed
 * them.
 *
 * Errors are those of mem.h. user_memory_alloc may wait for kernels. user_memory_free and
 * user_memory_drop wait for kernels when they free (phases of mem.h: program, connection, end).
 */
#ifndef CORE_MEM_USER_MEMORY_H
#define CORE_MEM_USER_MEMORY_H

#include "core/mem/mem.h"

struct user_memory;

ncclResult_t user_memory_alloc(void **mem, size_t bytes);
/* Frees any device memory; NULL: does nothing. */
ncclResult_t user_memory_free(void *mem);
/* Adds a hold to the memory that contains all these bytes. NULL: no memory does, or it is freed. */
struct user_memory *user_memory_hold(const void *at, size_t bytes);
/* Adds a hold to memory that the caller already holds. */
void user_memory_hold_again(struct user_memory *m);
/* Drops a hold. The current device must be the memory's. */
void user_memory_drop(struct user_memory *m);
/* Returns the memory's first address. */
uint8_t *user_memory_base(const struct user_memory *m);

#endif
