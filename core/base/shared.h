/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared words, host side. A shared word is one that another agent (host thread, warp, HCA, copy
 * engine) can see. It is declared shared_u32 or shared_u64 and accessed only through the functions
 * below; the device's are in core/device/shim/shim.h. A lint finds any other atomic, `volatile` or
 * `__atomic_*` in core.
 *
 * With doubles (DOPPEL_FAKE), each accessor is a scheduling point *before* the access. A store or
 * successful read-modify-write afterwards wakes the tasks that wait on the word, so no separate
 * publish can be forgotten. A weak compare-and-swap may fail spuriously, as on aarch64: the engine
 * draws the failure. On hardware an accessor is the plain instruction.
 *
 * The memory orders are C11's. The scope is the set of agents that must see the word in that order.
 * The host always acts at system scope, so host accessors take no scope.
 */
#ifndef CORE_BASE_SHARED_H
#define CORE_BASE_SHARED_H

#include <stdbool.h>
#include <string.h>

#include "core/base/shared_types.h"

#ifdef DOPPEL_FAKE
/* The engine draws spurious failures, so that runs on aarch64 equal those on x86-64. */
#define SHARED_WEAK false
/* core/os/os.c forwards these hooks to the active scheduler. shared_hook_store precedes a store of
 * a word; it returns true if it kept the store, which it executes later, with the wake.
 * shared_hook_point precedes every other access. shared_hook_wrote follows an access.
 * shared_hook_cas_spurious returns true if this weak compare-and-swap must fail spuriously. */
void shared_hook_point(const void *addr, size_t bytes, enum shared_access access,
		       enum shared_order order);
bool shared_hook_store(void *addr, size_t bytes, uint64_t value, enum shared_order order);
void shared_hook_wrote(const void *addr, size_t bytes, enum shared_access access);
bool shared_hook_cas_spurious(const void *addr);
void shared_hook_note(const void *addr, size_t bytes, enum shared_access access);
#else
#define SHARED_WEAK true
static inline void shared_hook_point(const void *addr, size_t bytes, enum shared_access access,
				     enum shared_order order)
{
	(void)addr, (void)bytes, (void)access, (void)order;
}
static inline bool shared_hook_store(void *addr, size_t bytes, uint64_t value,
				     enum shared_order order)
{
	(void)addr, (void)bytes, (void)value, (void)order;
	return false;
}
static inline void shared_hook_wrote(const void *addr, size_t bytes, enum shared_access access)
{
	(void)addr, (void)bytes, (void)access;
}
static inline bool shared_hook_cas_spurious(const void *addr)
{
	(void)addr;
	return false;
}
static inline void shared_hook_note(const void *addr, size_t bytes, enum shared_access access)
{
	(void)addr, (void)bytes, (void)access;
}
#endif

/* clang-format off */
/* One definition for both widths. The bodies are so short that a debugger can step over them. */
#define SHARED_DEFINE(bits)                                                                        \
static inline uint##bits##_t shared_load_u##bits(const shared_u##bits *p, enum shared_order o)     \
{                                                                                                  \
	shared_hook_point(p, sizeof *p, SHARED_LOAD, o);                                           \
	return __atomic_load_n(&p->v_, o);                                                         \
}                                                                                                  \
static inline void shared_store_u##bits(shared_u##bits *p, uint##bits##_t v, enum shared_order o)  \
{                                                                                                  \
	if (shared_hook_store(p, sizeof *p, v, o))                                                 \
		return;                                                                            \
	__atomic_store_n(&p->v_, v, o);                                                            \
	shared_hook_wrote(p, sizeof *p, SHARED_STORE);                                             \
}                                                                                                  \
static inline uint##bits##_t shared_add_u##bits(shared_u##bits *p, uint##bits##_t v,               \
						enum shared_order o)                               \
{                                                                                                  \
	shared_hook_point(p, sizeof *p, SHARED_RMW, o);                                            \
	uint##bits##_t old = __atomic_fetch_add(&p->v_, v, o);                                     \
	shared_hook_wrote(p, sizeof *p, SHARED_RMW);                                               \
	return old;                                                                                \
}                                                                                                  \
static inline uint##bits##_t shared_or_u##bits(shared_u##bits *p, uint##bits##_t v,                \
					       enum shared_order o)                                \
{                                                                                                  \
	shared_hook_point(p, sizeof *p, SHARED_RMW, o);                                            \
	uint##bits##_t old = __atomic_fetch_or(&p->v_, v, o);                                      \
	shared_hook_wrote(p, sizeof *p, SHARED_RMW);                                               \
	return old;                                                                                \
}                                                                                                  \
static inline uint##bits##_t shared_exchange_u##bits(shared_u##bits *p, uint##bits##_t v,          \
						     enum shared_order o)                          \
{                                                                                                  \
	shared_hook_point(p, sizeof *p, SHARED_RMW, o);                                            \
	uint##bits##_t old = __atomic_exchange_n(&p->v_, v, o);                                    \
	shared_hook_wrote(p, sizeof *p, SHARED_RMW);                                               \
	return old;                                                                                \
}                                                                                                  \
/* True when the swap was done. False with *expect unchanged is a spurious failure: retry by the   \
 * result, never by comparing the value. */                                                        \
static inline bool shared_cas_weak_u##bits(shared_u##bits *p, uint##bits##_t *expect,              \
					   uint##bits##_t want, enum shared_order o)               \
{                                                                                                  \
	shared_hook_point(p, sizeof *p, SHARED_RMW, o);                                            \
	if (shared_hook_cas_spurious(p)) {                                                         \
		*expect = __atomic_load_n(&p->v_, __ATOMIC_RELAXED);                               \
		return false;                                                                      \
	}                                                                                          \
	bool done = __atomic_compare_exchange_n(&p->v_, expect, want, SHARED_WEAK, o,              \
						__ATOMIC_RELAXED);                         \
	if (done)                                                                                  \
		shared_hook_wrote(p, sizeof *p, SHARED_RMW);                                       \
	return done;                                                                               \
}
SHARED_DEFINE(32)
SHARED_DEFINE(64)
#undef SHARED_DEFINE
/* clang-format on */

static inline void shared_fence(enum shared_order o)
{
	shared_hook_point(NULL, 0, SHARED_FENCE, o);
#ifdef __SANITIZE_THREAD__
	/* gcc rejects __atomic_thread_fence under TSan; the accessors' own orders suffice there */
	(void)o;
#else
	__atomic_thread_fence(o);
#endif
}

/* Accessors for bookkeeping of core/base and core/os (an error counter, a "logged once" flag). No
 * protocol between agents depends on these words. The accessors are atomic, but neither a
 * scheduling point nor a wake. Do not use them for words that a task waits for. */
static inline uint32_t shared_quiet_load_u32(const shared_u32 *p)
{
	return __atomic_load_n(&p->v_, __ATOMIC_ACQUIRE);
}
static inline void shared_quiet_store_u32(shared_u32 *p, uint32_t v)
{
	__atomic_store_n(&p->v_, v, __ATOMIC_RELEASE);
}
static inline uint32_t shared_quiet_add_u32(shared_u32 *p, uint32_t v)
{
	return __atomic_fetch_add(&p->v_, v, __ATOMIC_ACQ_REL);
}
static inline uint32_t shared_quiet_exchange_u32(shared_u32 *p, uint32_t v)
{
	return __atomic_exchange_n(&p->v_, v, __ATOMIC_ACQ_REL);
}

/* Range operations on memory that another agent reads or writes in bulk. They are not atomic; the
 * shared words around them order them. */
static inline void shared_write(void *dst, const void *src, size_t n)
{
	shared_hook_point(dst, n, SHARED_RANGE_WRITE, SHARED_RELAXED);
	memcpy(dst, src, n);
	shared_hook_wrote(dst, n, SHARED_RANGE_WRITE);
}
static inline void shared_read(void *dst, const void *src, size_t n)
{
	shared_hook_point(src, n, SHARED_RANGE_READ, SHARED_RELAXED);
	memcpy(dst, src, n);
}

/* Report plain memory that tasks of one process pass to each other through a shared word. The
 * writing task calls shared_note_write before it releases the word. The using task calls
 * shared_note_read after it has acquired the word. Neither copies or switches tasks. The doubles'
 * happens-before check compares the two. */
static inline void shared_note_write(const void *p, size_t n)
{
	shared_hook_note(p, n, SHARED_RANGE_WRITE);
}
static inline void shared_note_read(const void *p, size_t n)
{
	shared_hook_note(p, n, SHARED_RANGE_READ);
}

/* ---- lines ----------------------------------------------------------------------------------
 *
 * Lines of 16 bytes, {data, flag, data, flag}, that a kernel or an HCA fills
 * (core/device/layout/work.h). Each half is written atomically, and orders no other access. */

/* Declares n bytes at p, whole pages of 4 KiB, as lines that several agents poll. The doubles'
 * happens-before check then requires no order between accesses to this memory, accesses of an HCA
 * included. Only the flags show whether the data is valid. */
static inline void shared_note_lines(const void *p, size_t n)
{
	shared_hook_note(p, n, SHARED_LINES);
}

/* Wakes tasks that wait for lines which a system call, or another unreported write, has filled. */
static inline void shared_lines_wrote(const void *lines, size_t n)
{
	shared_hook_wrote(lines, n, SHARED_STORE);
}

/* Returns the number of consecutive lines, from the first on, with the flag in both halves. */
static inline uint32_t shared_lines_ready(const void *lines, uint32_t n, uint32_t flag)
{
	const uint64_t *half = (const uint64_t *)lines;
	uint32_t i = 0;

	shared_hook_point(lines, (size_t)n * 16, SHARED_LOAD, SHARED_ACQUIRE);
	while (i < n && __atomic_load_n(half, SHARED_ACQUIRE) >> 32 == flag &&
	       __atomic_load_n(half + 1, SHARED_ACQUIRE) >> 32 == flag) {
		half += 2;
		i++;
	}
	return i;
}

#endif
