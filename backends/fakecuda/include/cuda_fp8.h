/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 8-bit floating-point types, for CUDA source (`doppel cc`): storage and conversions, as in the
 * OCP specification of 8-bit floating point. A number that is too large becomes the largest one.
 * Conversions are computed on integers, in kernels, too.
 */
#ifndef FAKECUDA_CUDA_FP8_H
#define FAKECUDA_CUDA_FP8_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#define __CUDA_FP8_TYPES_EXIST__ 1

typedef unsigned char __nv_fp8_storage_t;

/* m: bits of the mantissa. The exponent has 7 - m bits, and half of its range is below 1. */
FAKECUDA_BOTH double fakecuda_fp8_unit(int m, int exponent)
{
	int power = (exponent ? exponent : 1) - ((1 << (6 - m)) - 1) - m;

	return __builtin_bit_cast(double, (unsigned long long)(1023 + power) << 52);
}
FAKECUDA_BOTH float fakecuda_fp8_decode(unsigned char bits, int m)
{
	int exponent = (bits & 127) >> m, mantissa = bits & ((1 << m) - 1);
	double sign = bits & 128 ? -1 : 1;

	if ((bits & 127) == 127 || (m == 2 && (bits & 127) > 124))
		return __builtin_nanf("");
	if (m == 2 && exponent == 31)
		return (float)(sign * __builtin_inf());
	return (float)(sign * ((exponent ? 1 << m : 0) + mantissa) *
		       fakecuda_fp8_unit(m, exponent));
}
FAKECUDA_BOTH unsigned char fakecuda_fp8_encode(double x, int m)
{
	unsigned long long bits = __builtin_bit_cast(unsigned long long, x);
	unsigned char sign = (unsigned char)(bits >> 56 & 128), most = m == 2 ? 0x7b : 0x7e;
	double size = sign ? -x : x;
	int exponent = (int)(bits >> 52 & 2047) - 1023 + (1 << (6 - m)) - 1;

	if (x != x)
		return 0x7f;
	if (exponent >= 1 << (7 - m))
		return sign | most;
	if (exponent < 1)
		exponent = 0;
	/* the leading 1 of a normal number adds to the exponent, so does a carry */
	double count = size / fakecuda_fp8_unit(m, exponent);
	int whole = (int)count;
	double rest = count - whole;
	if (rest > 0.5 || (rest == 0.5 && (whole & 1)))
		whole++;
	int code = (exponent ? (exponent - 1) << m : 0) + whole;
	return sign | (unsigned char)(code > most ? most : code);
}

#define FAKECUDA_FP8(type, m)                                                                      \
	struct type {                                                                              \
		__nv_fp8_storage_t __x;                                                            \
		type() = default;                                                                  \
		FAKECUDA_MEMBER explicit type(double x) : __x(fakecuda_fp8_encode(x, m))           \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(float x) : type((double)x)                           \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(int x) : type((double)x)                             \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(__half x) : type((double)(float)x)                   \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(__nv_bfloat16 x) : type((double)(float)x)            \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator float() const                                    \
		{                                                                                  \
			return fakecuda_fp8_decode(__x, m);                                        \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator double() const                                   \
		{                                                                                  \
			return fakecuda_fp8_decode(__x, m);                                        \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator __half() const                                   \
		{                                                                                  \
			return __half(fakecuda_fp8_decode(__x, m));                                \
		}                                                                                  \
	};
FAKECUDA_FP8(__nv_fp8_e4m3, 3)
FAKECUDA_FP8(__nv_fp8_e5m2, 2)
#undef FAKECUDA_FP8

/* ---- pairs and fours; the first element is in the low bits ----------------------------------- */

typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

#define FAKECUDA_FP8_PAIR(type, one)                                                               \
	struct type {                                                                              \
		__nv_fp8x2_storage_t __x;                                                          \
		type() = default;                                                                  \
		FAKECUDA_MEMBER explicit type(float2 f)                                            \
		    : __x((unsigned short)(one(f.x).__x | one(f.y).__x << 8))                      \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(__half2 h) : type(__half22float2(h))                 \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit type(__nv_bfloat162 b) : type(__bfloat1622float2(b))      \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER float fakecuda_at(int i) const                                     \
		{                                                                                  \
			one v;                                                                     \
			v.__x = (unsigned char)(__x >> 8 * i);                                     \
			return (float)v;                                                           \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator float2() const                                   \
		{                                                                                  \
			return float2{fakecuda_at(0), fakecuda_at(1)};                             \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator __half2() const                                  \
		{                                                                                  \
			return __floats2half2_rn(fakecuda_at(0), fakecuda_at(1));                  \
		}                                                                                  \
	};
#define FAKECUDA_FP8_FOUR(type, two)                                                               \
	struct type {                                                                              \
		__nv_fp8x4_storage_t __x;                                                          \
		type() = default;                                                                  \
		FAKECUDA_MEMBER explicit type(float4 f)                                            \
		    : __x(two(float2{f.x, f.y}).__x | (unsigned)two(float2{f.z, f.w}).__x << 16)   \
		{                                                                                  \
		}                                                                                  \
		FAKECUDA_MEMBER explicit operator float4() const                                   \
		{                                                                                  \
			two low, high;                                                             \
			low.__x = (unsigned short)__x;                                             \
			high.__x = (unsigned short)(__x >> 16);                                    \
			return float4{low.fakecuda_at(0), low.fakecuda_at(1), high.fakecuda_at(0), \
				      high.fakecuda_at(1)};                                        \
		}                                                                                  \
	};
FAKECUDA_FP8_PAIR(__nv_fp8x2_e4m3, __nv_fp8_e4m3)
FAKECUDA_FP8_PAIR(__nv_fp8x2_e5m2, __nv_fp8_e5m2)
FAKECUDA_FP8_FOUR(__nv_fp8x4_e4m3, __nv_fp8x2_e4m3)
FAKECUDA_FP8_FOUR(__nv_fp8x4_e5m2, __nv_fp8x2_e5m2)
#undef FAKECUDA_FP8_PAIR
#undef FAKECUDA_FP8_FOUR

/* ---- functions on storage ------------------------------------------------------------------- */

typedef enum __nv_saturation_t {
	__NV_NOSAT,
	__NV_SATFINITE,
} __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t {
	__NV_E4M3,
	__NV_E5M2,
} __nv_fp8_interpretation_t;

/* Without saturation, a number that is too large becomes infinite, or NaN in E4M3, which has no
 * infinite number. */
FAKECUDA_BOTH __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
							__nv_fp8_interpretation_t kind)
{
	int m = kind == __NV_E4M3 ? 3 : 2;
	unsigned char most = m == 2 ? 0x7b : 0x7e, over = m == 2 ? 0x7c : 0x7f;
	unsigned char code = fakecuda_fp8_encode(x, m);
	double largest = fakecuda_fp8_decode(most, m), size = x < 0 ? -x : x;
	double step = largest - fakecuda_fp8_decode(most - 1, m);

	if (saturate == __NV_SATFINITE || !(size >= largest + step / 2))
		return code;
	return (unsigned char)((code & 128) | over);
}
FAKECUDA_BOTH __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
						       __nv_fp8_interpretation_t kind)
{
	return __nv_cvt_double_to_fp8(x, saturate, kind);
}
FAKECUDA_BOTH __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
							 __nv_fp8_interpretation_t kind)
{
	return __nv_cvt_double_to_fp8((float)__half(x), saturate, kind);
}
FAKECUDA_BOTH __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x,
							     __nv_saturation_t saturate,
							     __nv_fp8_interpretation_t kind)
{
	return __nv_cvt_double_to_fp8((float)__nv_bfloat16(x), saturate, kind);
}
FAKECUDA_BOTH __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x,
						 __nv_fp8_interpretation_t kind)
{
	return (__half_raw)__half(fakecuda_fp8_decode(x, kind == __NV_E4M3 ? 3 : 2));
}

#endif
