/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device shim on a GPU: the functions of shim.h as PTX, for compute capability 7.0 and up.
 * Included only by shim.h, in translation units that nvcc compiles.
 *
 * Orders and scopes follow the PTX memory model: relaxed, acquire and release loads and stores at
 * cta, gpu or sys scope. A sequentially consistent access is one after fence.sc. The switches below
 * are on constants and leave one instruction each. Range operations use plain (weak) loads and
 * stores. They are ordered by the acquire, the barriers and the release fence around them, which
 * the model makes cumulative.
 */
#ifndef CORE_DEVICE_SHIM_CUDA_H
#define CORE_DEVICE_SHIM_CUDA_H

#include <assert.h>
#include <cuda_runtime.h>

#include "core/base/wait.h"
#include "core/device/layout/work.h"

#define DEV_WARP_WIDTH 32
#define DEV_FN         static __device__ __forceinline__
#define DEV_FN_ONCE    static __device__ __noinline__
/* Lines that a lane moves together: a warp moves 32. */
#define DEV_LANE_LINES 1
/* Pairs of lines of 128 bytes that a warp moves together, and words of their data that a lane
 * has. */
#define DEV_WARP_PAIRS                8u
#define DEV_LANE_WORDS                8
#define DEV_LANE_ROOM(d, whole, name) uint64_t name[DEV_LANE_WORDS]
/* Polls without result between two looks at the abort word. */
#define DEV_ABORT_SPINS 10000

struct dev {
	const shared_u32 *abort;
};

/* ---- identity -------------------------------------------------------------------------------- */

DEV_FN uint32_t dev_block(const struct dev *d)
{
	return blockIdx.x;
}

DEV_FN uint32_t dev_blocks(const struct dev *d)
{
	return gridDim.x;
}

DEV_FN uint32_t dev_thread(const struct dev *d)
{
	return threadIdx.x;
}

DEV_FN uint32_t dev_threads(const struct dev *d)
{
	return blockDim.x;
}

DEV_FN uint32_t dev_warp(const struct dev *d)
{
	return threadIdx.x / DEV_WARP_WIDTH;
}

DEV_FN uint32_t dev_warps(const struct dev *d)
{
	return (blockDim.x + DEV_WARP_WIDTH - 1) / DEV_WARP_WIDTH;
}

DEV_FN uint32_t dev_lane(const struct dev *d)
{
	return threadIdx.x % DEV_WARP_WIDTH;
}

extern __shared__ uint4 dev_shared_base[];

DEV_FN void *dev_shared(const struct dev *d)
{
	return dev_shared_base;
}

/* ---- threads together ------------------------------------------------------------------------ */

DEV_FN void dev_barrier(struct dev *d)
{
	__syncthreads();
}

/* Named barriers are the aligned ones: the threads of a warp come to the same instruction. The
 * other ones have a second, slower instruction for warps that have diverged, which
 * compute-sanitizer takes for another barrier. */
DEV_FN void dev_barrier_named(struct dev *d, int id, int threads)
{
	__syncwarp();
	asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

DEV_FN bool dev_barrier_any(struct dev *d, bool p)
{
	return __syncthreads_or(p);
}

DEV_FN bool dev_barrier_named_any(struct dev *d, int id, int threads, bool p)
{
	uint32_t any;

	__syncwarp();
	asm volatile("{\n\t.reg .pred in, out;\n\t"
		     "setp.ne.u32 in, %3, 0;\n\t"
		     "barrier.red.or.aligned.pred out, %1, %2, in;\n\t"
		     "selp.u32 %0, 1, 0, out;\n\t}"
		     : "=r"(any)
		     : "r"(id), "r"(threads), "r"((uint32_t)p)
		     : "memory");
	return any;
}

DEV_FN void dev_warp_sync(struct dev *d)
{
	__syncwarp();
}

DEV_FN uint32_t dev_ballot(struct dev *d, bool p)
{
	return __ballot_sync(~0u, p);
}

/* A vote alone orders no memory. */
DEV_FN bool dev_any(struct dev *d, bool p)
{
	__syncwarp();
	return __any_sync(~0u, p);
}

DEV_FN bool dev_all(struct dev *d, bool p)
{
	return __all_sync(~0u, p);
}

DEV_FN uint64_t dev_shuffle_u64(struct dev *d, uint64_t v, int lane)
{
	return __shfl_sync(~0u, (unsigned long long)v, lane);
}

#include "core/device/shim/words_cuda.h"

/* ---- waiting -------------------------------------------------------------------------------- */

DEV_FN bool dev_wait_holds(struct dev *d, const struct wait *w, struct v16 *line)
{
	uint64_t v;

	if (w->kind == WAIT_LINE16) {
		*line = dev_load_line16(d, w->on);
		return (uint32_t)(line->lo >> 32) == (uint32_t)w->want &&
		       (uint32_t)(line->hi >> 32) == (uint32_t)w->want;
	}
	if (w->bytes == 4)
		v = dev_load_u32(d, (const shared_u32 *)w->on, SHARED_ACQUIRE, SHARED_SYSTEM);
	else
		v = dev_load_u64(d, (const shared_u64 *)w->on, SHARED_ACQUIRE, SHARED_SYSTEM);
	v &= w->mask;
	if (w->kind == WAIT_GE)
		return v >= w->want;
	return w->kind == WAIT_EQ ? v == w->want : v != w->want;
}

DEV_FN uint64_t dev_now_ns(struct dev *d)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
	return ns;
}

DEV_FN bool dev_wait_or(struct dev *d, const struct wait *w, struct v16 *line,
			const struct dev_conn *c, uint64_t bits)
{
	uint32_t spins = 0;

	while (!dev_wait_holds(d, w, line)) {
		if (++spins < DEV_ABORT_SPINS)
			continue;
		spins = 0;
		if (d->abort && dev_load_u32(d, d->abort, SHARED_RELAXED, SHARED_SYSTEM))
			return false;
		if (c && c->put &&
		    (dev_load_u64(d, &((struct dev_send_mem *)(void *)c->head)->put, SHARED_RELAXED,
				  SHARED_SYSTEM) &
		     bits))
			return false;
		if (w->deadline_ns && dev_now_ns(d) >= w->deadline_ns)
			return false;
	}
	return true;
}

DEV_FN bool dev_wait(struct dev *d, const struct wait *w, struct v16 *line)
{
	return dev_wait_or(d, w, line, NULL, 0);
}

DEV_FN bool dev_wait_unless(struct dev *d, const struct wait *w, const struct dev_conn *c,
			    uint64_t bits)
{
	return dev_wait_or(d, w, NULL, c, bits);
}

DEV_FN bool dev_wait_lines(struct dev *d, const struct wait *w, struct v16 *lines, uint32_t n)
{
	(void)n; /* DEV_LANE_LINES */
	return dev_wait(d, w, lines);
}

DEV_FN void dev_set_abort(struct dev *d, const shared_u32 *word)
{
	d->abort = word;
}

DEV_FN void dev_trap(struct dev *d, const char *what)
{
	__assert_fail(what, "core/device", 0, "device code");
}

#ifndef DEV_CHECK_FIFO
#define DEV_CHECK_FIFO 0
#endif
#if DEV_CHECK_FIFO
#include <stdio.h>
DEV_FN uint64_t dev_peek_u64(struct dev *d, const void *p)
{
	return dev_load_u64(d, (const shared_u64 *)p, SHARED_RELAXED, SHARED_SYSTEM);
}
DEV_FN uint32_t dev_peek_u32(struct dev *d, const void *p)
{
	return dev_load_u32(d, (const shared_u32 *)p, SHARED_RELAXED, SHARED_SYSTEM);
}
DEV_FN void dev_fifo_broken(struct dev *d, int rank, int channel, int peer, const char *what,
			    uint64_t step, uint64_t value)
{
	printf("fifo broken: rank %d channel %d peer %d step %llu: %s: it is %llu\n", rank, channel,
	       peer, (unsigned long long)step, what, (unsigned long long)value);
	dev_trap(d, what);
}
#endif

/* Only the doubles show which work a warp executes. */
DEV_FN void dev_work_begins(struct dev *d, const struct dev_work *w)
{
	(void)d, (void)w;
}
DEV_FN void dev_work_ends(struct dev *d, const struct dev_work *w)
{
	(void)d, (void)w;
}

/* ---- ranges --------------------------------------------------------------------------------- */

DEV_FN void dev_copy_in(struct dev *d, void *dst, const void *src, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)dst)[i] = ((const uint64_t *)src)[i];
}

DEV_FN void dev_copy_in_warp(struct dev *d, void *dst, const void *src, size_t bytes)
{
	for (uint32_t i = dev_lane(d); i < bytes / 8; i += DEV_WARP_WIDTH)
		((uint64_t *)dst)[i] = ((const uint64_t *)src)[i];
}

DEV_FN void dev_copy_both_in_warp(struct dev *d, void *dst, const void *src, size_t bytes,
				  void *dst2, const void *src2, size_t bytes2)
{
	const uint32_t first = (uint32_t)(bytes / 8), all = first + (uint32_t)(bytes2 / 8);

	for (uint32_t i = dev_lane(d); i < all; i += DEV_WARP_WIDTH)
		*(i < first ? (uint64_t *)dst + i : (uint64_t *)dst2 + (i - first)) =
			*(i < first ? (const uint64_t *)src + i
				    : (const uint64_t *)src2 + (i - first));
}

DEV_FN void dev_copy_args(struct dev *d, void *dst, const void *src, size_t bytes)
{
	dev_copy_in_warp(d, dst, src, bytes);
}

DEV_FN int dev_first_bit(uint64_t mask)
{
	return __ffsll((long long)mask) - 1;
}

DEV_FN int32_t dev_get_i32(struct dev *d, const int32_t *p)
{
	return *p;
}

DEV_FN uint64_t dev_get_bits(struct dev *d, const void *p, uint32_t bytes)
{
	switch (bytes) {
	case 1:
		return *(const uint8_t *)p;
	case 2:
		return *(const uint16_t *)p;
	case 4:
		return *(const uint32_t *)p;
	default:
		return *(const uint64_t *)p;
	}
}

DEV_FN void dev_copy_out(struct dev *d, void *dst, const void *src, size_t bytes)
{
	dev_copy_in(d, dst, src, bytes);
}

/* Moves the elements of a word of 8 bytes one by one: at the end of the data, or if it is not
 * aligned. */
#define DEV_DATA_EACH(type, to, from, bytes)                                                       \
	for (uint32_t i_ = 0; i_ < (bytes) / sizeof(type); i_++)                                   \
	((type *)(to))[i_] = ((const type *)(from))[i_]

DEV_FN void dev_move_elements(void *to, const void *from, uint32_t bytes, uint32_t size)
{
	switch (size) {
	case 1:
		DEV_DATA_EACH(uint8_t, to, from, bytes);
		break;
	case 2:
		DEV_DATA_EACH(uint16_t, to, from, bytes);
		break;
	case 4:
		DEV_DATA_EACH(uint32_t, to, from, bytes);
		break;
	default:
		DEV_DATA_EACH(uint64_t, to, from, bytes);
		break;
	}
}

/* A word that is not full or not aligned. Not inlined: an array whose address is taken would be in
 * memory, even for a full word. */
static __device__ __noinline__ uint64_t dev_get_word(const void *from, uint32_t bytes,
						     uint32_t size)
{
	uint64_t word = 0;

	dev_move_elements(&word, from, bytes, size);
	return word;
}

static __device__ __noinline__ void dev_put_word(void *to, uint64_t word, uint32_t bytes,
						 uint32_t size)
{
	dev_move_elements(to, &word, bytes, size);
}

DEV_FN void dev_get_data(struct dev *d, uint64_t *to, const void *from, uint32_t bytes,
			 uint32_t size)
{
	if (bytes == 8 && (uintptr_t)from % 8 == 0)
		*to = *(const uint64_t *)from;
	else
		*to = dev_get_word(from, bytes, size);
}

DEV_FN void dev_put_data(struct dev *d, void *to, const uint64_t *from, uint32_t bytes,
			 uint32_t size)
{
	if (bytes == 8 && (uintptr_t)to % 8 == 0)
		*(uint64_t *)to = *from;
	else
		dev_put_word(to, *from, bytes, size);
}

#include "core/device/reduce/reduce_copy_cuda.h"

/* ---- kernels -------------------------------------------------------------------------------- */

/* Makes kernel NAME out of `static void NAME(struct dev *d, const struct TYPE *args)`, and defines
 * `const struct dev_kernel dev_kernel_NAME_w32`. */
#define DEV_KERNEL(name, args_type, shared)                                                        \
	static __global__ void __launch_bounds__(DEV_MAX_WARPS * 32, 1)                            \
		name##_entry(const __grid_constant__ struct args_type args)                        \
	{                                                                                          \
		struct dev d = {NULL};                                                             \
		name(&d, &args);                                                                   \
	}                                                                                          \
	extern "C" {                                                                               \
	extern const struct dev_kernel dev_kernel_##name##_w32;                                    \
	const struct dev_kernel dev_kernel_##name##_w32 = {(const void *)name##_entry, #name,      \
							   sizeof(struct args_type), shared};      \
	}

#endif
