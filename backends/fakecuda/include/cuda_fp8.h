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

#endif
