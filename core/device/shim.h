/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device seam: the contract between device code and what it runs on. Device code is plain
 * functions in what C17 and C++17 share; everything that a GPU does differently from a CPU goes
 * through the functions below, which shim_cuda.h implements with CUDA intrinsics and shim_fake.h
 * with calls into fakecuda. Nothing else may be used to touch memory that is not the thread's own.
 *
 * Every device function takes `struct dev *d` first: this thread's identity and surroundings. On
 * CUDA it is a handful of registers; on fakecuda one per fiber. With warp width 1 a fiber is a
 * whole warp: it is its warp's only lane, and range operations cover what 32 lanes would.
 *
 * Addresses of global memory are what the program sees, passed as pointers or uint64_t. Under the
 * strict device view they cannot be dereferenced: use the accessors and range operations. Shared
 * memory (dev_shared) is plain memory of the block: dereference it, order with barriers.
 *
 * Contract, function by function (MUST for both implementations):
 *
 *   dev_block, dev_thread, dev_threads, dev_warp, dev_warps, dev_lane
 *       Index and count in the launch, one dimension. DEV_WARP_WIDTH is the lanes per warp.
 *       DEV_FN marks a device function: forced inline on CUDA, a function to break on on the fake.
 *       DEV_FN_ONCE: on CUDA, too, a function that is called.
 *   dev_shared(d)
 *       Base of the block's dynamic shared memory, 16-byte aligned, contents undefined at start.
 *   dev_barrier(d)
 *       All threads of the block. dev_barrier_named(d, id, threads): id 1..15, exactly `threads`
 *       threads (a multiple of the warp width) arrive. dev_warp_sync(d): the warp. Each orders all
 *       memory accesses of those that meet, at block scope.
 *   dev_barrier_any(d, p), dev_barrier_named_any(d, id, threads, p)
 *       The same; true on all of them when p is true on one.
 *   dev_shuffle_u64(d, v, lane), dev_any(d, p), dev_all(d, p), dev_ballot(d, p)
 *       All lanes of the warp take part.
 *   dev_load_u32/u64, dev_store_u32/u64, dev_add_u32/u64 (d, p, [v,] order, scope)
 *       Shared words in global, peer or mapped host memory. A scheduling point on the fake.
 *   dev_fence(d, order, scope)
 *       Orders all earlier against all later accesses of this thread; cumulative over barriers:
 *       a release fence after a barrier covers what the other threads wrote before it.
 *   dev_wait(d, w, line)
 *       Returns true when the wait holds; false when the launch was aborted. Never true for a wait
 *       that does not hold. A wait on a word acquires at system scope. WAIT_LINE16 stores the line
 *       in *line, each 8-byte half with one load, and orders nothing else: its data is in it. For
 *       a word one thread of a group waits, and a barrier informs the rest; for a line the thread that
 *       needs it waits. Only the host waits on objects. w->deadline_ns, by dev_now_ns: false when it
 *       has passed; 0: none.
 *   dev_wait_unless(d, w, c, bits)
 *       dev_wait for a word. False also when one of the bits is set in the word `put` of the connection
 *       (work.h), which another GPU may do at any time. NULL, or a connection without `put`: dev_wait.
 *   dev_now_ns(d)
 *       A clock that only rises.
 *   dev_set_abort(d, word)
 *       The word that dev_wait polls to give up; set first thing in the kernel. NULL: none.
 *   dev_copy_in(d, dst, src, bytes)
 *       Copies global or mapped host memory to the thread's own or shared memory, by this thread alone.
 *       dev_copy_out(d, dst, src, bytes): the other way. 8-byte multiples and alignment.
 *   dev_copy_in_warp(d, dst, src, bytes)
 *       dev_copy_in to shared memory by all lanes of the warp together; a barrier follows.
 *   dev_copy_both_in_warp(d, dst, src, bytes, dst2, src2, bytes2)
 *       the same of two ranges, with one load per lane if they have no more words than lanes.
 *       dev_copy_args(d, dst, src, bytes): the same from the kernel's arguments.
 *   dev_first_bit(mask)
 *       Number of the lowest bit that is set; -1: none is.
 *   dev_get_i32(d, p)
 *       Reads one word of global memory that nothing writes while kernels use it.
 *   dev_get_bits(d, p, bytes)
 *       Reads 1, 2, 4 or 8 aligned bytes of global or mapped host memory that nothing writes while
 *       the kernel runs, as a number.
 *   dev_store_line16(d, p, line)
 *       Stores 16 aligned bytes, relaxed. Each 8-byte half is seen whole, the two in any order: the
 *       flags inside show when both are there (LL). One instruction on CUDA, two stores on the fake.
 *   dev_store_lines(d, p, lines, n), dev_wait_lines(d, w, lines, n)
 *       The same, and the wait for WAIT_LINE16, for n lines next to each other, 1 to DEV_LANE_LINES:
 *       what a lane has of the 32 lines of a warp. w is about the first one.
 *   dev_get_data(d, to, from, bytes, size), dev_put_data(d, to, from, bytes, size)
 *       Data of a lane's lines, at most DEV_LANE_LINES * 8 bytes, from or to memory that holds elements
 *       of `size` bytes and is aligned to them.
 *   dev_reduce_data(d, a, b, bytes, type, op, scale, post, known)
 *       a = a op b, in the lane's own memory, as dev_reduce_copy of these two sources; b NULL: of a
 *       alone. known: type and operation are constants of the kernel, the operation is DEV_SUM and the type one of
 *       DEV_ONE_PROGRAMS.
 *   dev_store_pairs(d, p, data, bytes, flag), dev_wait_pairs(d, w, data, bytes)
 *       All lanes of the warp together: pairs of lines of 128 bytes next to each other at p or w->on
 *       (work.h), with up to DEV_WARP_DATA bytes of data, of which a lane has the DEV_LANE_WORDS words
 *       of its own. A line is stored by one instruction of eight lanes, and so is whole where the way
 *       to it keeps it whole. The wait is for the flag w->want in each line; false on all lanes alike
 *       when the launch was aborted. It orders nothing: the data is in the lines.
 *   dev_get_pairs(d, data, from, bytes, size), dev_put_pairs(d, to, data, bytes, size)
 *       A lane's words of the warp's data, from or to memory that holds elements of `size` bytes and is
 *       aligned to them. What is not in the `bytes` is 0, or not written.
 *   dev_reduce_pairs(d, a, b, bytes, type, op, scale, post, known)
 *       dev_reduce_data for a lane's words of the warp's data.
 *   dev_peek_u64/u32, dev_fifo_broken
 *       Exist where DEV_CHECK_FIFO is not 0 (prim.h).
 *   dev_trap(d, what)
 *       Ends the program loudly: host and device disagree on something fundamental.
 *   dev_reduce_copy(d, thread, threads, srcs, nsrc, dsts, ndst, count, type, op, scale, post)
 *       Threads thread = 0..threads-1 together: for each element reduce nsrc (1..2) sources and
 *       store to ndst (1..2) destinations; see reduce_copy.h, which both implementations follow
 *       bit by bit. Sources and destinations are aligned to the type; one may equal another, they
 *       never overlap partly.
 */
#ifndef CORE_DEVICE_SHIM_H
#define CORE_DEVICE_SHIM_H

#include "core/base/wait.h"
#include "core/device/work.h"

#ifdef __CUDACC__
#include "core/device/pairs_cuda.h"
#include "core/device/shim_cuda.h"
#else
#include "core/device/pairs_fake.h"
#include "core/device/shim_fake.h"
#endif

#endif
