/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory pools and stream-ordered memory. fakecuda.h includes this file last. Callers: the entry
 * points of this folder, the checks of uses (stream/use.c), the allocator, the calls that wait.
 *
 *    CUmemPoolHandle_st  a pool of one GPU: what it has in use, and what it keeps of freed memory
 *    fc_block            an allocation of a pool, from the call that made it to its free
 *
 * A block has its address immediately, and is usable from an operation of a stream on. An
 * operation of a stream ends it as well. Every other use must be ordered between the two, by
 * streams, events or waits of the host. A use without that order is misuse, even if it happens to
 * be in time.
 *
 *    absent --(cuMemAllocAsync)--> live --(cuMemFreeAsync)--> dying --(its operation)--> absent
 *                                  live --(cuMemFree)----------------------------------> absent
 *
 * Memory that was freed stays reserved: it counts as used on the GPU. A call that waits returns
 * what is above the release threshold; an allocation that finds no room does the same. The results
 * are those of the documentation; none was compared with a GPU. Called under fc_lock, except the
 * entry points; no function here waits.
 */
#ifndef BACKENDS_FAKECUDA_POOL_H
#define BACKENDS_FAKECUDA_POOL_H

#define FC_POOL_REUSES 3 /* attributes of how memory is reused; the double keeps them only */

struct CUmemPoolHandle_st {
	struct CUmemPoolHandle_st *next;
	struct fc_proc *proc;
	struct fc_device *dev;
	int32_t ordinal;  /* visible ordinal of the GPU */
	bool automatic;   /* the GPU's default pool */
	bool destroyed;   /* by the program; freed with its last block */
	uint32_t blocks;  /* number of them */
	uint64_t at_most; /* bytes in use; 0: no limit */
	uint64_t threshold;
	uint64_t used, used_high, reserved, reserved_high;
	int reuse[FC_POOL_REUSES];
	bool access[FC_MAX_VISIBLE]; /* indexed by visible ordinal */
	char who[FC_WHO_BYTES];
};

/* A place in a stream. */
struct fc_block_at {
	uint64_t stream, op; /* serial, number of the operation from 1 */
	uint32_t stream_number, gpu;
	const char *call;
	const void *caller;
};

struct fc_block {
	struct CUmemPoolHandle_st *pool;
	uint64_t base, bytes;
	uint32_t number; /* of its allocation */
	struct fc_block_at born, dying;
	bool is_dying, reported;
	struct fc_clock used;   /* operations that used it */
	struct fc_clock before; /* operations that precede its free */
};

/* The pools and blocks of a process. NULL: it never used one. */
struct fc_pools {
	struct CUmemPoolHandle_st *pools;
	struct CUmemPoolHandle_st *automatic[FC_MAX_VISIBLE], *current[FC_MAX_VISIBLE];
	struct fc_block **block; /* sorted by base */
	uint32_t count, room;
};

/* ---- pool.c --------------------------------------------------------------------------------- */

struct fc_pools *fc_pools_get(struct fc_proc *p); /* makes it if missing */
/* Return the pool of the GPU; a handle's pool, or NULL (reported). */
struct CUmemPoolHandle_st *fc_pool_automatic(struct fc_proc *p, int32_t ordinal);
struct CUmemPoolHandle_st *fc_pool_current(struct fc_proc *p, int32_t ordinal);
struct CUmemPoolHandle_st *fc_pool_find(struct fc_proc *p, CUmemoryPool handle, const char *call);
struct CUmemPoolHandle_st *fc_pool_new(struct fc_proc *p, int32_t ordinal);
void fc_pool_destroy(struct CUmemPoolHandle_st *pool);
/* Allocates from the pool. Reports an error. */
cudaError_t fc_pool_take(struct CUmemPoolHandle_st *pool, uint64_t bytes, const char *call,
			 struct fc_block **b);
/* Makes a block of memory of cuMemAlloc, for its free by a stream. NULL: no such memory begins
 * there, or a process or an HCA uses it. */
struct fc_block *fc_pool_adopt(struct fc_proc *p, uint64_t address);
/* Frees the block's memory, and the block. */
void fc_pool_give(struct fc_block *b);
/* Returns reserved memory to the GPU, down to `keep` bytes. */
void fc_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);
/* The host has waited: pools return what is above their thresholds. */
void fc_pools_waited(struct fc_proc *p);
/* The GPU has no room: the pools of the process return all that they can. */
void fc_pools_shrink(const struct fc_proc *p, const struct fc_device *dev);
/* In order: the process resets the GPU; it ends. */
void fc_pools_device_gone(struct fc_proc *p, const struct fc_device *dev);
void fc_pools_end(struct fc_proc *p);

/* ---- block.c: uses of blocks, and their order ------------------------------------------------ */

/* Returns the block that contains the address; NULL: none does. */
struct fc_block *fc_block_find(const struct fc_proc *p, uint64_t address);
/* Check a use by operation `op` of a stream; by a kernel that runs. */
void fc_block_used(struct CUstream_st *s, uint64_t address, uint64_t op, const char *call,
		   const void *caller);
void fc_block_used_by_kernel(struct fc_kernel *k, uint64_t address);
/* Checks that all uses precede the free, which is the stream's last operation. */
void fc_block_dies(struct fc_block *b, struct CUstream_st *s, const char *call, const void *caller);
/* Checks that the host has waited for all uses. */
void fc_block_ends(struct fc_block *b, const char *call, const void *caller);
struct fc_block_at fc_block_at(const struct CUstream_st *s, uint64_t op, const char *call,
			       const void *caller);
/* True if kernels of the context may access blocks of the pool. */
bool fc_block_may(const struct fc_ctx *ctx, uint64_t address);

/* ---- async_calls.c -------------------------------------------------------------------------- */

void fc_block_op(struct fc_op *op); /* executes an operation of kind FC_OP_BLOCK */
/* cuMemFree of stream-ordered memory. */
cudaError_t fc_block_free_now(struct fc_ctx *ctx, uint64_t address, const struct fc_at *at);

#endif
