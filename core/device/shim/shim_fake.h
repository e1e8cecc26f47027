/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device shim over fakecuda: the functions of shim.h as thin wrappers of the fakedev_*
 * functions, which device_run.c, device_access.c and device_lines.c of backends/fakecuda implement.
 * Included only by shim.h, for device code (core/device, device tests) and for fakecuda itself.
 *
 * Contract between the two sides:
 *
 * - A kernel thread is a fiber with its own `struct dev`, which fakecuda fills in before it calls
 *   the entry. With width 1 a thread is a warp: nthreads counts warps.
 * - Addresses are those the program sees. Every fakedev_* function that takes one checks that the
 *   GPU may access it and translates it. A bad one ends the kernel with the device's sticky
 *   illegal-address error, and the function does not return.
 * - Every fakedev_* function is a scheduling point first. After that point it does not switch,
 *   except in barriers, warp operations and fakedev_wait, which wait last.
 * - Aliases that fakedev_read and fakedev_write return are valid as long as the allocation: take
 *   all of them, then touch memory, then call fakedev_wrote for each range written. fakedev_wrote
 *   wakes all tasks that wait on a word in the range. Device code has no other stores to global
 *   memory.
 * - fakedev_store and fakedev_add wake such tasks themselves.
 *
 * The build of each device translation unit sets DEV_WARP_WIDTH (1 or 32).
 */
#ifndef CORE_DEVICE_SHIM_FAKE_H
#define CORE_DEVICE_SHIM_FAKE_H

#include <stdbool.h>
#include <string.h>

#include "core/base/wait.h"
#include "core/device/layout/work.h"

struct fakecuda_block;

/* One thread of a kernel. fakecuda fills it in before the entry. Device code reads it, and sets
 * `abort` through dev_set_abort. */
struct dev {
	void *shared; /* the block's dynamic shared memory: plain, 16-byte aligned */
	uint32_t block, nblocks;
	uint32_t thread, nthreads;  /* in the block */
	int32_t width;              /* lanes per warp: 1 or 32 */
	const shared_u32 *abort;    /* program address; NULL until dev_set_abort */
	struct fakecuda_block *blk; /* fakecuda's */
	void *priv;                 /* fakecuda's, per thread */
};

DOPPEL_EXTERN_C_BEGIN
/* Orders and scopes: enum shared_order, enum shared_scope. */
/* id 0: the whole block. Returns the number of threads whose predicate is true. */
uint32_t fakedev_barrier(struct dev *d, int id, int nthreads, bool predicate);
uint64_t fakedev_shuffle_u64(struct dev *d, uint64_t v, int lane);
uint32_t fakedev_ballot(struct dev *d, int pred);
uint64_t fakedev_load(struct dev *d, const void *p, int bytes, int order, int scope);
void fakedev_store(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope);
uint64_t fakedev_add(struct dev *d, void *p, int bytes, uint64_t v, int order, int scope);
void fakedev_fence(struct dev *d, int order, int scope);
uint64_t fakedev_peek(struct dev *d, const void *p, int bytes);
__attribute__((noreturn)) void fakedev_fifo_broken(struct dev *d, int rank, int channel, int peer,
						   const char *what, uint64_t step, uint64_t value);
void fakedev_work_begins(struct dev *d, const struct dev_work *w);
void fakedev_work_ends(struct dev *d, const struct dev_work *w);
/* Traces that the slot at `step` of a connection is filled (sent), or was found filled. */
void fakedev_slot_shown(struct dev *d, const struct dev_comm *comm, const struct dev_conn *c,
			uint64_t step, bool sent);
bool fakedev_wait(struct dev *d, const struct wait *w, struct v16 *line);
bool fakedev_wait_unless(struct dev *d, const struct wait *w, const struct dev_conn *c,
			 uint64_t bits);
uint64_t fakedev_now_ns(struct dev *d);
/* Adjacent lines. The store writes the first halves of all lines, then the second halves; other
 * tasks may run in between. The load returns how many lines, from the first one on, have the flag
 * in both halves, and reads those. */
void fakedev_lines_store(struct dev *d, void *p, const struct v16 *lines, uint32_t n);
uint32_t fakedev_lines_load(struct dev *d, const void *p, uint32_t flag, struct v16 *lines,
			    uint32_t n);
/* Adjacent pairs of lines of 128 bytes, with their data (work.h). Each line is stored whole if the
 * path to it keeps it whole (NVLink, the GPU's own memory). Otherwise it is stored in parts, and
 * other threads may run in between. The load begins at line `first` and returns the first line
 * without the flag, or `lines` if each has it. The data of the lines before that is in `data`, in
 * fakedev_room only if each has it. */
void fakedev_pairs_store(struct dev *d, void *p, const uint64_t *data, uint32_t pairs,
			 uint64_t flag);
uint32_t fakedev_pairs_load(struct dev *d, const void *p, uint64_t flag, uint64_t *data,
			    uint32_t first, uint32_t lines);
/* Returns memory for the data of DEV_WARP_PAIRS_MOST pairs, for one wait. Threads share it if lines
 * are whole: the data of a wait is complete when its last line is there, and used before another
 * thread runs. It would be two pages of each thread's stack. */
uint64_t *fakedev_room(struct dev *d, bool whole);
/* Check the access and return the alias to touch. */
const void *fakedev_read(struct dev *d, const void *p, size_t bytes);
void *fakedev_write(struct dev *d, void *p, size_t bytes);
void fakedev_wrote(struct dev *d, const void *p, size_t bytes);

/* Registers how to run the kernel whose cudaLaunchKernel function is k->func. `entry` gets the
 * launch's copy of the one argument block. Called from constructors, before main. */
void fakecuda_register_kernel(const struct dev_kernel *k,
			      void (*entry)(struct dev *d, const void *args), int width);
DOPPEL_EXTERN_C_END

#ifdef DEV_WARP_WIDTH

#include "core/device/reduce/reduce_copy_host.h"

/* A warp of one lane moves more lines together than the 32 of a GPU's warp, so that it moves a
 * chunk with fewer accesses. */
#define DEV_LANE_LINES (DEV_WARP_WIDTH == 1 ? 128 : 1)

/* It also moves more pairs of lines. A lane has all of their data with width 1, and its part of
 * them with width 32. */
#define DEV_WARP_PAIRS (DEV_WARP_WIDTH == 1 ? DEV_WARP_PAIRS_MOST : 8u)
#define DEV_LANE_WORDS (DEV_WARP_WIDTH == 1 ? DEV_WARP_DATA / 8 : 8)
#if DEV_WARP_WIDTH == 1
#define DEV_LANE_ROOM(d, whole, name) uint64_t *const name = fakedev_room(d, whole)
#else
#define DEV_LANE_ROOM(d, whole, name) uint64_t name[DEV_LANE_WORDS]
#endif

/* Device functions are real functions in the double: one place each to break on. */
#define DEV_FN      static __attribute__((noinline, unused))
#define DEV_FN_ONCE DEV_FN

static inline uint32_t dev_block(const struct dev *d)
{
	return d->block;
}
static inline uint32_t dev_blocks(const struct dev *d)
{
	return d->nblocks;
}
static inline uint32_t dev_thread(const struct dev *d)
{
	return d->thread;
}
static inline uint32_t dev_threads(const struct dev *d)
{
	return d->nthreads;
}
static inline uint32_t dev_warp(const struct dev *d)
{
	return d->thread / DEV_WARP_WIDTH;
}
static inline uint32_t dev_warps(const struct dev *d)
{
	return DIV_UP(d->nthreads, DEV_WARP_WIDTH);
}
static inline uint32_t dev_lane(const struct dev *d)
{
	return d->thread % DEV_WARP_WIDTH;
}
static inline void *dev_shared(const struct dev *d)
{
	return d->shared;
}

static inline void dev_barrier(struct dev *d)
{
	(void)fakedev_barrier(d, 0, (int)d->nthreads, false);
}
static inline void dev_barrier_named(struct dev *d, int id, int threads)
{
	(void)fakedev_barrier(d, id, threads, false);
}
static inline bool dev_barrier_any(struct dev *d, bool p)
{
	return fakedev_barrier(d, 0, (int)d->nthreads, p) != 0;
}
static inline bool dev_barrier_named_any(struct dev *d, int id, int threads, bool p)
{
	ASSERT(id >= 1 && id <= 15 && threads % DEV_WARP_WIDTH == 0); /* as a GPU has them */
	return fakedev_barrier(d, id, threads, p) != 0;
}
static inline uint32_t dev_ballot(struct dev *d, bool p)
{
	return fakedev_ballot(d, p);
}
static inline void dev_warp_sync(struct dev *d)
{
	(void)fakedev_ballot(d, 1);
}
static inline bool dev_any(struct dev *d, bool p)
{
	return fakedev_ballot(d, p) != 0;
}
static inline bool dev_all(struct dev *d, bool p)
{
	return fakedev_ballot(d, !p) == 0;
}
static inline uint64_t dev_shuffle_u64(struct dev *d, uint64_t v, int lane)
{
	return fakedev_shuffle_u64(d, v, lane);
}

static inline uint32_t dev_load_u32(struct dev *d, const shared_u32 *p, enum shared_order o,
				    enum shared_scope s)
{
	return (uint32_t)fakedev_load(d, p, 4, o, s);
}
static inline uint64_t dev_load_u64(struct dev *d, const shared_u64 *p, enum shared_order o,
				    enum shared_scope s)
{
	return fakedev_load(d, p, 8, o, s);
}
static inline void dev_store_u32(struct dev *d, shared_u32 *p, uint32_t v, enum shared_order o,
				 enum shared_scope s)
{
	fakedev_store(d, p, 4, v, o, s);
}
static inline void dev_store_u64(struct dev *d, shared_u64 *p, uint64_t v, enum shared_order o,
				 enum shared_scope s)
{
	fakedev_store(d, p, 8, v, o, s);
}
static inline uint32_t dev_add_u32(struct dev *d, shared_u32 *p, uint32_t v, enum shared_order o,
				   enum shared_scope s)
{
	return (uint32_t)fakedev_add(d, p, 4, v, o, s);
}
static inline uint64_t dev_add_u64(struct dev *d, shared_u64 *p, uint64_t v, enum shared_order o,
				   enum shared_scope s)
{
	return fakedev_add(d, p, 8, v, o, s);
}
static inline void dev_fence(struct dev *d, enum shared_order o, enum shared_scope s)
{
	fakedev_fence(d, o, s);
}

static inline uint64_t dev_now_ns(struct dev *d)
{
	return fakedev_now_ns(d);
}
static inline bool dev_wait(struct dev *d, const struct wait *w, struct v16 *line)
{
	return fakedev_wait(d, w, line);
}
static inline bool dev_wait_unless(struct dev *d, const struct wait *w, const struct dev_conn *c,
				   uint64_t bits)
{
	return fakedev_wait_unless(d, w, c, bits);
}
static inline void dev_set_abort(struct dev *d, const shared_u32 *word)
{
	d->abort = word;
}
static inline void dev_trap(struct dev *d, const char *what)
{
	(void)d;
	doppel_assert_fail(what, "device code", 0);
}

#define DEV_CHECK_FIFO 1
/* Returns the current value. Neither a scheduling point nor an access. */
static inline uint64_t dev_peek_u64(struct dev *d, const void *p)
{
	return fakedev_peek(d, p, 8);
}
static inline uint32_t dev_peek_u32(struct dev *d, const void *p)
{
	return (uint32_t)fakedev_peek(d, p, 4);
}
static inline void dev_work_begins(struct dev *d, const struct dev_work *w)
{
	fakedev_work_begins(d, w);
}
static inline void dev_work_ends(struct dev *d, const struct dev_work *w)
{
	fakedev_work_ends(d, w);
}
#define DEV_TRACE 1
static inline void dev_slot_shown(struct dev *d, const struct dev_comm *comm,
				  const struct dev_conn *c, uint64_t step, bool sent)
{
	fakedev_slot_shown(d, comm, c, step, sent);
}
static inline void dev_fifo_broken(struct dev *d, int rank, int channel, int peer, const char *what,
				   uint64_t step, uint64_t value)
{
	fakedev_fifo_broken(d, rank, channel, peer, what, step, value);
}

static inline void dev_copy_in(struct dev *d, void *dst, const void *src, size_t bytes)
{
	memcpy(dst, fakedev_read(d, src, bytes), bytes);
}
static inline void dev_copy_in_warp(struct dev *d, void *dst, const void *src, size_t bytes)
{
	if (dev_lane(d) == 0)
		dev_copy_in(d, dst, src, bytes);
}
static inline void dev_copy_both_in_warp(struct dev *d, void *dst, const void *src, size_t bytes,
					 void *dst2, const void *src2, size_t bytes2)
{
	dev_copy_in_warp(d, dst, src, bytes);
	if (bytes2)
		dev_copy_in_warp(d, dst2, src2, bytes2);
}
static inline void dev_copy_args(struct dev *d, void *dst, const void *src, size_t bytes)
{
	if (dev_lane(d) == 0)
		memcpy(dst, src, bytes);
}
static inline int dev_first_bit(uint64_t mask)
{
	return __builtin_ffsll((long long)mask) - 1;
}
static inline int32_t dev_get_i32(struct dev *d, const int32_t *p)
{
	return *(const int32_t *)fakedev_read(d, p, sizeof *p);
}
static inline uint64_t dev_get_bits(struct dev *d, const void *p, uint32_t bytes)
{
	uint64_t bits = 0;

	ASSERT(bytes >= 1 && bytes <= 8 && !(bytes & (bytes - 1)));
	memcpy(&bits, fakedev_read(d, p, bytes), bytes);
	return bits;
}
static inline void dev_copy_out(struct dev *d, void *dst, const void *src, size_t bytes)
{
	memcpy(fakedev_write(d, dst, bytes), src, bytes);
	fakedev_wrote(d, dst, bytes);
}
/* Two stores: as weak as the contract allows. Other tasks may run between them. */
static inline void dev_store_line16(struct dev *d, void *p, struct v16 line)
{
	fakedev_store(d, p, 8, line.lo, SHARED_RELAXED, SHARED_SYSTEM);
	fakedev_store(d, (uint8_t *)p + 8, 8, line.hi, SHARED_RELAXED, SHARED_SYSTEM);
}
static inline void dev_store_lines(struct dev *d, void *p, const struct v16 *lines, uint32_t n)
{
	fakedev_lines_store(d, p, lines, n);
}
/* Waits for the first line that is not filled yet. */
DEV_FN bool dev_wait_lines(struct dev *d, const struct wait *first, struct v16 *lines, uint32_t n)
{
	struct wait w = *first;
	ASSERT(first->kind == WAIT_LINE16 && n <= DEV_LANE_LINES);
	uint32_t done = fakedev_lines_load(d, w.on, (uint32_t)w.want, lines, n);

	while (done < n) {
		w.on = (const uint8_t *)first->on + done * DEV_LINE_BYTES;
		w.mask = first->mask + done;
		if (!fakedev_wait(d, &w, &lines[done]))
			return false;
		done += fakedev_lines_load(d, w.on, (uint32_t)w.want, lines + done, n - done);
	}
	return true;
}
static inline void dev_get_data(struct dev *d, uint64_t *to, const void *from, uint32_t bytes,
				uint32_t size)
{
	(void)size;
	dev_copy_in(d, to, from, bytes);
}
static inline void dev_put_data(struct dev *d, void *to, const uint64_t *from, uint32_t bytes,
				uint32_t size)
{
	(void)size;
	dev_copy_out(d, to, from, bytes);
}
DEV_FN void dev_reduce_data(struct dev *d, uint64_t *a, const uint64_t *b, uint32_t bytes,
			    enum dev_type type, enum dev_op op, uint64_t scale, bool post,
			    bool known)
{
	const struct rc_job job = {{(const uint8_t *)a, (const uint8_t *)b},
				   {(uint8_t *)a, NULL},
				   b ? 2 : 1,
				   1,
				   bytes / steps_type_bytes(type),
				   type,
				   op,
				   scale,
				   post};

	(void)d;
	ASSERT(bytes % steps_type_bytes(type) == 0 && (!known || op == DEV_SUM));
	rc_reduce_copy(&job);
}

/* Each thread takes a contiguous range of whole tiles, so that a small amount of data needs few
 * threads. */
DEV_FN void dev_reduce_copy(struct dev *d, uint32_t thread, uint32_t threads,
			    const void *const *srcs, int nsrc, void *const *dsts, int ndst,
			    uint64_t count, enum dev_type type, enum dev_op op, uint64_t scale,
			    bool post)
{
	uint32_t size = steps_type_bytes(type);
	uint64_t tile = RC_TILE_BYTES / size;
	uint64_t each = ALIGN_UP(DIV_UP(count, threads), tile);
	uint64_t from = each * thread;
	struct rc_job job = {{NULL, NULL}, {NULL, NULL}, nsrc, ndst, 0, type, op, scale, post};

	ASSERT(thread < threads);
	if (from >= count)
		return;
	job.count = MIN_OF(each, count - from);
	for (int i = 0; i < nsrc; i++)
		job.src[i] = (const uint8_t *)fakedev_read(
			d, (const uint8_t *)srcs[i] + from * size, job.count * size);
	for (int i = 0; i < ndst; i++)
		job.dst[i] = (uint8_t *)fakedev_write(d, (uint8_t *)dsts[i] + from * size,
						      job.count * size);
	rc_reduce_copy(&job);
	for (int i = 0; i < ndst; i++)
		fakedev_wrote(d, (uint8_t *)dsts[i] + from * size, job.count * size);
}

/* Registers kernel NAME, whose body is `static void NAME(struct dev *d, const struct TYPE *args)`,
 * and defines `const struct dev_kernel dev_kernel_NAME_wN`, where N is the warp width. */
#define DEV_PASTE3_(a, b, c)    a##b##c
#define DEV_PASTE3(a, b, c)     DEV_PASTE3_(a, b, c)
#define DEV_KERNEL_SYMBOL(name) DEV_PASTE3(dev_kernel_##name, _w, DEV_WARP_WIDTH)
#define DEV_KERNEL(name, args_type, shared)                                                        \
	static void name##_entry(struct dev *d, const void *args)                                  \
	{                                                                                          \
		name(d, (const struct args_type *)args);                                           \
	}                                                                                          \
	DOPPEL_EXTERN_C_BEGIN                                                                      \
	extern const struct dev_kernel DEV_KERNEL_SYMBOL(name);                                    \
	const struct dev_kernel DEV_KERNEL_SYMBOL(name) = {(const void *)name##_entry, #name,      \
							   sizeof(struct args_type), shared};      \
	DOPPEL_EXTERN_C_END                                                                        \
	static __attribute__((constructor)) void name##_register(void)                             \
	{                                                                                          \
		fakecuda_register_kernel(&DEV_KERNEL_SYMBOL(name), name##_entry, DEV_WARP_WIDTH);  \
	}

#endif /* DEV_WARP_WIDTH */
#endif
