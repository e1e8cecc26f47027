/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The definition of a reduction, element by element. dev_reduce_copy follows it bit by bit on the
 * double (reduce_copy_host.h) and on GPUs (reduce_copy_cuda.h). Pure functions in C17 and C++17,
 * for host and device.
 *
 *	result = op(first source, second source), destinations = post(result)
 *
 * Arithmetic is done per operation, in the type. Every result is rounded before it is used again,
 * so the outcome does not depend on the number of sources of one call.
 *
 *	integers          Modulo 2^bits; min and max by the type's signedness.
 *	f32, f64          IEEE, round to nearest even, no contraction (no fused multiply-add).
 *	f16, bf16, fp8    Computed in f32, rounded to nearest even. f32 has more than twice their
 *	                  digits plus two, so this equals one rounding of the exact result. f16 and
 *	                  bf16 overflow to infinity. Both fp8 types saturate at the largest finite
 *	                  number (448 and 57344). An infinity of e5m2 that takes part in an
 *	                  operation saturates as well, as in the CUDA conversion with satfinite.
 *	NaN               An operation on a NaN, or an invalid one, gives one NaN for each type: the
 *	                  one that CUDA calls canonical. It is 0x7fffffff, 0x7fff, 0x7f; for f64
 *	                  0x7ff8000000000000. Compilers may swap operands, so any other rule would
 *	                  not be reproducible.
 *	min, max          The number if the other operand is NaN; -0 is below +0. As in CUDA.
 *
 * DEV_PREMUL_SUM multiplies the first source by `scale` (a number in the type's bits), rounds, and
 * sums. Callers put this rank's own input first, and use DEV_SUM if it does not take part.
 * DEV_SUM_POSTDIV sums; with `post` the result is divided by `scale` (a positive count), rounded
 * toward zero. It is only for integers. With one source there is nothing to reduce: the element is
 * scaled or divided if the operation requires it, otherwise it is copied as it is, even a NaN.
 */
#ifndef CORE_DEVICE_REDUCE_COPY_H
#define CORE_DEVICE_REDUCE_COPY_H

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "core/device/layout/work.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define RC_FN static __host__ __device__ __forceinline__
#else
#define RC_FN static inline __attribute__((always_inline, unused))
#endif

DOPPEL_STATIC_CHECK(FLT_EVAL_METHOD == 0, "the CPU computes in the type, without extra digits");

/* ---- bits ----------------------------------------------------------------------------------- */

RC_FN uint32_t rc_bits_of_f32(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

RC_FN float rc_f32_of_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

RC_FN uint64_t rc_bits_of_f64(double x)
{
	uint64_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

RC_FN double rc_f64_of_bits(uint64_t u)
{
	double x;
	memcpy(&x, &u, sizeof x);
	return x;
}

/* ---- narrow floats to f32: exact ----------------------------------------------------------------
 *
 * Written with selects instead of branches, so that compilers vectorize a loop over them.
 */

RC_FN float rc_f32_of_f16(uint16_t h)
{
#ifdef __CUDA_ARCH__
	return __half2float(__ushort_as_half(h));
#else
	uint32_t magnitude = h & 0x7fffu;
	uint32_t rebias = 112u << 23;
	uint32_t normal = (magnitude << 13) + rebias;
	uint32_t special = normal + rebias;
	float small = (float)(int32_t)magnitude * 0x1p-24f;
	uint32_t u = magnitude >= 0x7c00u ? special : normal;
	u = magnitude < 0x0400u ? rc_bits_of_f32(small) : u;
	return rc_f32_of_bits(u | (uint32_t)(h & 0x8000u) << 16);
#endif
}

RC_FN float rc_f32_of_bf16(uint16_t h)
{
	return rc_f32_of_bits((uint32_t)h << 16);
}

RC_FN float rc_f32_of_f8e4m3(uint8_t b)
{
#ifdef __CUDA_ARCH__
	return __half2float(__half(__nv_cvt_fp8_to_halfraw(b, __NV_E4M3)));
#else
	uint32_t magnitude = b & 0x7fu;
	uint32_t normal = (magnitude << 20) + (120u << 23);
	float small = (float)(int32_t)magnitude * 0x1p-9f;
	uint32_t u = magnitude < 0x08u ? rc_bits_of_f32(small) : normal;
	u = magnitude == 0x7fu ? 0x7fffffffu : u;
	return rc_f32_of_bits(u | (uint32_t)(b & 0x80u) << 24);
#endif
}

RC_FN float rc_f32_of_f8e5m2(uint8_t b)
{
	return rc_f32_of_f16((uint16_t)((uint32_t)b << 8));
}

/* ---- f32 to narrow floats: round to nearest even ------------------------------------------------
 *
 * `mantissa` bits are kept. In the normal range the discarded bits are rounded by an addition that
 * carries into the exponent. Below it, a power of two is added whose last place is the type's
 * smallest number, so that the FPU rounds.
 */

RC_FN uint32_t rc_narrow(uint32_t magnitude, uint32_t mantissa, uint32_t bias, float round_small,
			 uint32_t min_normal)
{
	uint32_t shift = 23 - mantissa;
	uint32_t odd = (magnitude >> shift) & 1;
	uint32_t normal = magnitude - ((127u - bias) << 23) + ((1u << (shift - 1)) - 1) + odd;
	uint32_t small = rc_bits_of_f32(rc_f32_of_bits(magnitude) + round_small) -
			 rc_bits_of_f32(round_small);
	return magnitude < min_normal ? small : normal >> shift;
}

RC_FN uint16_t rc_f16_of_f32(float x)
{
#ifdef __CUDA_ARCH__
	return __half_as_ushort(__float2half_rn(x));
#else
	uint32_t u = rc_bits_of_f32(x), magnitude = u & 0x7fffffffu;
	uint32_t h = rc_narrow(magnitude, 10, 15, 0.5f, 113u << 23);
	h = magnitude >= 0x477ff000u ? 0x7c00u : h; /* 65520 and up */
	h |= (u >> 16) & 0x8000u;
	return (uint16_t)(magnitude > 0x7f800000u ? 0x7fffu : h);
#endif
}

RC_FN uint16_t rc_bf16_of_f32(float x)
{
#ifdef __CUDA_ARCH__
	return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
	uint32_t u = rc_bits_of_f32(x);
	uint32_t h = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
	return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : h);
#endif
}

RC_FN uint8_t rc_f8e4m3_of_f32(float x)
{
#ifdef __CUDA_ARCH__
	return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
#else
	uint32_t u = rc_bits_of_f32(x), magnitude = u & 0x7fffffffu;
	uint32_t b = rc_narrow(magnitude, 3, 7, 0x1p14f, 121u << 23);
	b = magnitude >= 0x43e00000u ? 0x7eu : b; /* 448 and up */
	b |= (u >> 24) & 0x80u;
	return (uint8_t)(magnitude > 0x7f800000u ? 0x7fu : b);
#endif
}

RC_FN uint8_t rc_f8e5m2_of_f32(float x)
{
#ifdef __CUDA_ARCH__
	return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
#else
	uint32_t u = rc_bits_of_f32(x), magnitude = u & 0x7fffffffu;
	uint32_t b = rc_narrow(magnitude, 2, 15, 0x1p7f, 113u << 23);
	b = magnitude >= 0x47600000u ? 0x7bu : b; /* 57344 and up */
	b |= (u >> 24) & 0x80u;
	return (uint8_t)(magnitude > 0x7f800000u ? 0x7fu : b);
#endif
}

/* ---- operations on the widths that we compute in --------------------------------------------- */

RC_FN float rc_canon_f32(float x)
{
	return x != x ? rc_f32_of_bits(0x7fffffffu) : x;
}

RC_FN double rc_canon_f64(double x)
{
	return x != x ? rc_f64_of_bits(0x7ff8000000000000ull) : x;
}

RC_FN float rc_min_f32(float a, float b)
{
	float r = a < b ? a : b;
	r = a == b ? rc_f32_of_bits(rc_bits_of_f32(a) | rc_bits_of_f32(b)) : r;
	return b != b ? a : r;
}

RC_FN float rc_max_f32(float a, float b)
{
	float r = a > b ? a : b;
	r = a == b ? rc_f32_of_bits(rc_bits_of_f32(a) & rc_bits_of_f32(b)) : r;
	return b != b ? a : r;
}

RC_FN double rc_min_f64(double a, double b)
{
	double r = a < b ? a : b;
	r = a == b ? rc_f64_of_bits(rc_bits_of_f64(a) | rc_bits_of_f64(b)) : r;
	return b != b ? a : r;
}

RC_FN double rc_max_f64(double a, double b)
{
	double r = a > b ? a : b;
	r = a == b ? rc_f64_of_bits(rc_bits_of_f64(a) & rc_bits_of_f64(b)) : r;
	return b != b ? a : r;
}

RC_FN float rc_op_f32(enum dev_op op, float a, float b)
{
	switch (op) {
	case DEV_PROD:
		return rc_canon_f32(a * b);
	case DEV_MAX:
		return rc_canon_f32(rc_max_f32(a, b));
	case DEV_MIN:
		return rc_canon_f32(rc_min_f32(a, b));
	default:
		return rc_canon_f32(a + b);
	}
}

RC_FN double rc_op_f64(enum dev_op op, double a, double b)
{
	switch (op) {
	case DEV_PROD:
		return rc_canon_f64(a * b);
	case DEV_MAX:
		return rc_canon_f64(rc_max_f64(a, b));
	case DEV_MIN:
		return rc_canon_f64(rc_min_f64(a, b));
	default:
		return rc_canon_f64(a + b);
	}
}

/* Integers: sum and product use the unsigned type, in which overflow is defined. */
RC_FN int32_t rc_op_i32(enum dev_op op, int32_t a, int32_t b)
{
	switch (op) {
	case DEV_PROD:
		return (int32_t)((uint32_t)a * (uint32_t)b);
	case DEV_MAX:
		return a > b ? a : b;
	case DEV_MIN:
		return a < b ? a : b;
	default:
		return (int32_t)((uint32_t)a + (uint32_t)b);
	}
}

RC_FN uint32_t rc_op_u32(enum dev_op op, uint32_t a, uint32_t b)
{
	switch (op) {
	case DEV_PROD:
		return a * b;
	case DEV_MAX:
		return a > b ? a : b;
	case DEV_MIN:
		return a < b ? a : b;
	default:
		return a + b;
	}
}

RC_FN int64_t rc_op_i64(enum dev_op op, int64_t a, int64_t b)
{
	switch (op) {
	case DEV_PROD:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case DEV_MAX:
		return a > b ? a : b;
	case DEV_MIN:
		return a < b ? a : b;
	default:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	}
}

RC_FN uint64_t rc_op_u64(enum dev_op op, uint64_t a, uint64_t b)
{
	switch (op) {
	case DEV_PROD:
		return a * b;
	case DEV_MAX:
		return a > b ? a : b;
	case DEV_MIN:
		return a < b ? a : b;
	default:
		return a + b;
	}
}

/* ---- elements of the twelve types ---------------------------------------------------------------
 *
 * rc_apply_T(op, a, b), rc_scale_T(a, scale) and, for integers, rc_divide_T(a, n).
 */
#define RC_PASTE_(a, b) a##b
#define RC_PASTE(a, b)  RC_PASTE_(a, b)
#define RC_F(stem)      RC_PASTE(rc_##stem##_, RC_NAME)

#define RC_BODY "core/device/reduce/reduce_element.h"
#include "core/device/reduce/reduce_types.h"
#undef RC_BODY

#endif
