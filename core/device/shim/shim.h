/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device seam: the contract between device code and its machine. Device code is plain functions
 * in the language that C17 and C++17 share. All that differs between a GPU and a CPU goes through
 * the functions below. shim_cuda.h implements them with CUDA intrinsics, shim_fake.h with calls
 * into fakecuda. Memory that is not the thread's own is touched only by these functions.
 *
 * Every device function takes `struct dev *d` first: this thread's identity and surroundings. With
 * CUDA it is a few registers; with fakecuda there is one for each fiber. With warp width 1 a fiber
 * is a whole warp: it is the warp's only lane, and range operations cover what 32 lanes would.
 *
 * Addresses of global memory are those that the program sees, as pointers or uint64_t. Under the
 * strict device view they cannot be dereferenced: use the accessors and range operations. Shared
 * memory (dev_shared) is plain memory of the block: dereference it, order with barriers.
 *
 * Contract, function by function (MUST for both implementations):
 *
 *	dev_block, dev_thread, dev_threads, dev_warp, dev_warps, dev_lane
 *		Index and count in the launch, one dimension. DEV_WARP_WIDTH is the lanes per warp.
 *	DEV_FN, DEV_FN_ONCE
 *		DEV_FN marks a device function: forced inline with CUDA, a function to break on in
 *		the double. DEV_FN_ONCE is a function that is called, with CUDA too.
 *	dev_shared(d)
 *		Base of the block's dynamic shared memory, 16-byte aligned, contents undefined at
 *		start.
 *	dev_barrier(d)
 *		All threads of the block. dev_barrier_named(d, id, threads): id 1..15, exactly
 *		`threads` threads (a multiple of the warp width) arrive. dev_warp_sync(d): the warp.
 *		Each orders all memory accesses of the threads that meet, at block scope.
 *	dev_barrier_any(d, p), dev_barrier_named_any(d, id, threads, p)
 *		The same barriers. They return true on all threads if p is true on one.
 *	dev_shuffle_u64(d, v, lane), dev_any(d, p), dev_all(d, p), dev_ballot(d, p)
 *		All lanes of the warp take part.
 *	dev_load_u32/u64, dev_store_u32/u64, dev_add_u32/u64 (d, p, [v,] order, scope)
 *		Shared words in global, peer or mapped host memory. A scheduling point in the
 *		double.
 *	dev_fence(d, order, scope)
 *		Orders all earlier against all later accesses of this thread. It is cumulative over
 *		barriers: a release fence after a barrier covers what the other threads wrote before
 *		it.
 *	dev_wait(d, w, line)
 *		Returns true when the wait holds, false when the launch was aborted. Never true for
 *		a wait that does not hold. A wait on a word acquires at system scope. WAIT_LINE16
 *		stores the line in *line, each 8-byte half with one load. It orders nothing else: a
 *		line has its data in it. For a word one thread of a group waits, and a barrier
 *		informs the rest. For a line the thread that needs it waits. Only the host waits on
 *		objects. Returns false too when dev_now_ns has passed w->deadline_ns; 0: no
 *		deadline.
 *	dev_wait_unless(d, w, c, bits)
 *		dev_wait for a word. Returns false too when one of the bits is set in the word `put`
 *		of the connection (work.h), which another GPU may do at any time. With c NULL, or
 *		without `put`: dev_wait.
 *	dev_now_ns(d)
 *		A clock that only rises.
 *	dev_set_abort(d, word)
 *		The word that ends dev_wait when it is set. The kernel calls this first. NULL: no
 *		word.
 *	dev_copy_in(d, dst, src, bytes), dev_copy_out(d, dst, src, bytes)
 *		Copy global or mapped host memory to the thread's own or shared memory, and back, by
 *		this thread alone. Bytes and addresses are multiples of 8.
 *	dev_copy_in_warp(d, dst, src, bytes)
 *		dev_copy_in to shared memory by all lanes of the warp together. A barrier must
 *		follow.
 *	dev_copy_both_in_warp(d, dst, src, bytes, dst2, src2, bytes2)
 *		The same for two ranges, with one load per lane if they have no more words than
 *		lanes.
 *	dev_copy_args(d, dst, src, bytes)
 *		The same from the kernel's arguments.
 *	dev_first_bit(mask)
 *		Number of the lowest bit that is set; -1: no bit.
 *	dev_get_i32(d, p)
 *		Reads one word of global memory that nothing writes while kernels use it.
 *	dev_get_bits(d, p, bytes)
 *		Reads 1, 2, 4 or 8 aligned bytes, as a number, of global or mapped host memory that
 *		nothing writes while the kernel runs.
 *	dev_store_line16(d, p, line)
 *		Stores 16 aligned bytes, relaxed. Each 8-byte half is seen whole, the two in any
 *		order: the flags inside show when both are there (LL). One instruction with CUDA,
 *		two stores in the double.
 *	dev_store_lines(d, p, lines, n), dev_wait_lines(d, w, lines, n)
 *		The same store, and the wait for WAIT_LINE16, for n adjacent lines, 1 to
 *		DEV_LANE_LINES: a lane's part of the 32 lines of a warp. w is about the first one.
 *	dev_get_data(d, to, from, bytes, size), dev_put_data(d, to, from, bytes, size)
 *		Data of a lane's lines, at most DEV_LANE_LINES * 8 bytes, from or to memory that has
 *		elements of `size` bytes and is aligned to them.
 *	dev_reduce_data(d, a, b, bytes, type, op, scale, post, known)
 *		a = a op b, in the lane's own memory, as dev_reduce_copy of these two sources; b
 *		NULL: only a. known: type and operation are constants of the kernel, the operation
 *		is DEV_SUM and the type one of DEV_ONE_PROGRAMS.
 *	dev_store_pairs(d, p, data, bytes, flag), dev_wait_pairs(d, w, data, bytes)
 *		All lanes of the warp together: adjacent pairs of lines of 128 bytes at p or w->on
 *		(work.h), with up to DEV_WARP_DATA bytes of data. Each lane has its own
 *		DEV_LANE_WORDS words of them. A line is stored by one instruction of eight lanes,
 *		and so it is whole if the path to it keeps it whole. The wait is for the flag
 *		w->want in each line. It returns false on all lanes if the launch was aborted. It
 *		orders nothing: the data is in the lines.
 *	DEV_LANE_ROOM(d, whole, name)
 *		Defines memory for the DEV_LANE_WORDS words that one dev_wait_pairs fills, until the
 *		next call that may wait. whole: the lines arrive whole.
 *	dev_get_pairs(d, data, from, bytes, size), dev_put_pairs(d, to, data, bytes, size)
 *		A lane's words of the warp's data, from or to memory that has elements of `size`
 *		bytes and is aligned to them. Words beyond `bytes` are read as 0, or not written.
 *	dev_reduce_pairs(d, a, b, bytes, type, op, scale, post, known)
 *		dev_reduce_data for a lane's words of the warp's data.
 *	dev_peek_u64/u32, dev_fifo_broken
 *		Exist if DEV_CHECK_FIFO is not 0 (prim.h).
 *	dev_trap(d, what)
 *		Ends the program with a message: host and device disagree on something fundamental.
 *	dev_reduce_copy(d, thread, threads, srcs, nsrc, dsts, ndst, count, type, op, scale, post)
 *		Threads 0..threads-1 together reduce nsrc (1..2) sources, element by element, and
 *		store the result to ndst (1..2) destinations. Both implementations follow
 *		reduce_copy.h bit by bit. Sources and destinations are aligned to the type. One may
 *		equal another; they never overlap partly.
 */
#ifndef CORE_DEVICE_SHIM_H
#define CORE_DEVICE_SHIM_H

#include "core/base/wait.h"
#include "core/device/layout/work.h"

#ifdef __CUDACC__
#include "core/device/shim/pairs_cuda.h"
#include "core/device/shim/shim_cuda.h"
#else
#include "core/device/shim/pairs_fake.h"
#include "core/device/shim/shim_fake.h"
#endif

#endif
