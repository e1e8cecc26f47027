/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that programs have from ncclMemAlloc: a list of the process, in its registry. Other ranks
 * map what a communicator registers (core/transport/registered.h), and CUDA leaves it undefined to
 * free memory that another process has open. So a user of the memory holds it: ncclMemFree frees it
 * when the last hold is dropped.
 *
 * Called by core/api, and by core/transport for holds. A program's own allocations (cudaMalloc) are
 * not in the list, because core cannot keep them until others have closed them.
 *
 * Errors: as in mem.h. What waits for kernels: user_memory_alloc may, user_memory_free and
 * user_memory_drop do when they free (mem.h: program, connection, end).
 */
#ifndef CORE_MEM_USER_MEMORY_H
#define CORE_MEM_USER_MEMORY_H

#include "core/mem/mem.h"

struct user_memory;

ncclResult_t user_memory_alloc(void **mem, size_t bytes);
/* Any device memory; NULL: nothing. */
ncclResult_t user_memory_free(void *mem);
/* The memory that has all these bytes, with a hold; NULL: none has, or it is freed. */
struct user_memory *user_memory_hold(const void *at, size_t bytes);
/* One hold more of memory that the caller holds. */
void user_memory_hold_again(struct user_memory *m);
/* On the memory's device. */
void user_memory_drop(struct user_memory *m);
/* Where it begins. */
uint8_t *user_memory_base(const struct user_memory *m);

#endif
