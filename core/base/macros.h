/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small language helpers for every layer, in C17 and in C++17 (device headers are compiled as
 * both). DOPPEL_STATIC_CHECK guards every struct that crosses an interface: size and offsets, at
 * compile time.
 */
#ifndef CORE_BASE_MACROS_H
#define CORE_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DOPPEL_STATIC_CHECK(cond, what) static_assert(cond, what)
#define DOPPEL_EXTERN_C_BEGIN           extern "C" {
#define DOPPEL_EXTERN_C_END             }
#else
#define DOPPEL_STATIC_CHECK(cond, what) _Static_assert(cond, what)
#define DOPPEL_EXTERN_C_BEGIN
#define DOPPEL_EXTERN_C_END
#endif

#define DOPPEL_CHECK_SIZE(type, size) DOPPEL_STATIC_CHECK(sizeof(type) == (size), "size of " #type)
#define DOPPEL_CHECK_OFFSET(type, field, at)                                                       \
	DOPPEL_STATIC_CHECK(offsetof(type, field) == (at), "offset of " #type "." #field)

#define ARRAY_LEN(a)                   (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, field) ((type *)((char *)(ptr)-offsetof(type, field)))

/* Integer helpers; arguments are evaluated more than once, so pass plain values. */
#define MIN_OF(a, b)   ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)   ((a) > (b) ? (a) : (b))
#define DIV_UP(x, d)   (((x) + (d)-1) / (d))
#define ALIGN_UP(x, a) (DIV_UP(x, a) * (a))

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Conditions for unreachable defensive code. Coverage does not count their untaken branches as gaps
 * in the tests. Both abort with the condition if it is wrong after all. */
#define ALWAYS(x) (LIKELY(x) ? 1 : (doppel_assert_fail(#x, __FILE__, __LINE__), 0))
#define NEVER(x)  (UNLIKELY(x) ? (doppel_assert_fail("never: " #x, __FILE__, __LINE__), 1) : 0)

/* Checks a condition in every build; for control plane and doubles. On failure prints it, dumps the
 * tasks and aborts. Code that nvcc compiles has no checks: a kernel gets no instructions for them.
 * The doubles run the same lines with checks. */
#ifdef __CUDACC__
#define ASSERT(x) ((void)sizeof((x) ? 1 : 0))
#else
#define ASSERT(x) ((void)(LIKELY(x) || (doppel_assert_fail(#x, __FILE__, __LINE__), 0)))
#endif
/* Checks a condition in data paths; enabled only in the fakes and in debug builds. */
#if defined(DOPPEL_FAKE) || !defined(NDEBUG)
#define DASSERT(x) ASSERT(x)
#else
#define DASSERT(x) ((void)0)
#endif

DOPPEL_EXTERN_C_BEGIN
#if !defined(__CUDA_ARCH__)
void doppel_assert_fail(const char *what, const char *file, int line) __attribute__((noreturn));
#endif
DOPPEL_EXTERN_C_END

#endif
