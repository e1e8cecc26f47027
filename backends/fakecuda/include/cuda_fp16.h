/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half precision for CUDA source (`doppel cc`): __half is clang's _Float16, with the names of the
 * CUDA documentation. __half2 is a pair.
 */
#ifndef FAKECUDA_CUDA_FP16_H
#define FAKECUDA_CUDA_FP16_H

#include "cuda_runtime.h"
#include "device/half.h"

#define __CUDA_FP16_TYPES_EXIST__ 1

struct __half_raw {
	unsigned short x;
};

struct __half {
	typedef _Float16 fakecuda_native;
	fakecuda_native v;

	FAKECUDA_HALF_MEMBERS(__half)
	FAKECUDA_MEMBER __half(float x)
	{
#if defined(__CUDA_ARCH__)
		v = (_Float16)x;
#else
		v = x != x ? __builtin_bit_cast(_Float16, (unsigned short)0x7fff) : (_Float16)x;
#endif
	}
	FAKECUDA_MEMBER __half(__half_raw raw) : v(__builtin_bit_cast(_Float16, raw.x))
	{
	}
	FAKECUDA_MEMBER operator float() const
	{
		return (float)v;
	}
	FAKECUDA_MEMBER operator __half_raw() const
	{
		return __half_raw{__builtin_bit_cast(unsigned short, v)};
	}
};
typedef __half half;

FAKECUDA_BOTH unsigned short fakecuda_bits(__half a)
{
	return __builtin_bit_cast(unsigned short, a.v);
}
FAKECUDA_BOTH __half fakecuda_of_bits(__half, int bits)
{
	return __half(__half_raw{(unsigned short)bits});
}
FAKECUDA_HALF_FUNCTIONS(__half)

FAKECUDA_DEVICE __half __hfma(__half a, __half b, __half c)
{
	return __half::fakecuda_from(__builtin_fmaf16(a.v, b.v, c.v));
}

/* ---- conversions ---------------------------------------------------------------------------- */

FAKECUDA_BOTH __half __float2half(float x)
{
	return __half(x);
}
FAKECUDA_BOTH __half __float2half_rn(float x)
{
	return __half(x);
}
FAKECUDA_BOTH __half __double2half(double x)
{
	return __half(x);
}
FAKECUDA_BOTH float __half2float(__half x)
{
	return (float)x;
}
FAKECUDA_BOTH unsigned short __half_as_ushort(__half x)
{
	return fakecuda_bits(x);
}
FAKECUDA_BOTH short __half_as_short(__half x)
{
	return (short)fakecuda_bits(x);
}
FAKECUDA_BOTH __half __ushort_as_half(unsigned short x)
{
	return fakecuda_of_bits(__half(), x);
}
FAKECUDA_BOTH __half __short_as_half(short x)
{
	return fakecuda_of_bits(__half(), x);
}
#define FAKECUDA_HALF_INTEGER(name, type)                                                          \
	FAKECUDA_BOTH __half __##name##2half_rn(type x)                                            \
	{                                                                                          \
		return __half(x);                                                                  \
	}                                                                                          \
	FAKECUDA_BOTH type __half2##name##_rz(__half x)                                            \
	{                                                                                          \
		return (type)(float)x;                                                             \
	}
FAKECUDA_HALF_INTEGER(short, short)
FAKECUDA_HALF_INTEGER(ushort, unsigned short)
FAKECUDA_HALF_INTEGER(int, int)
FAKECUDA_HALF_INTEGER(uint, unsigned int)
FAKECUDA_HALF_INTEGER(ll, long long)
FAKECUDA_HALF_INTEGER(ull, unsigned long long)
#undef FAKECUDA_HALF_INTEGER

/* ---- pairs ---------------------------------------------------------------------------------- */

struct __attribute__((aligned(4))) __half2 {
	__half x, y;
};
typedef __half2 half2;

FAKECUDA_BOTH __half2 __halves2half2(__half x, __half y)
{
	return __half2{x, y};
}
FAKECUDA_BOTH __half2 __half2half2(__half x)
{
	return __half2{x, x};
}
FAKECUDA_BOTH __half2 __float2half2_rn(float x)
{
	return __half2{__half(x), __half(x)};
}
FAKECUDA_BOTH __half2 __floats2half2_rn(float x, float y)
{
	return __half2{__half(x), __half(y)};
}
FAKECUDA_BOTH __half2 __float22half2_rn(float2 a)
{
	return __floats2half2_rn(a.x, a.y);
}
FAKECUDA_BOTH float2 __half22float2(__half2 a)
{
	return float2{(float)a.x, (float)a.y};
}
FAKECUDA_BOTH __half __low2half(__half2 a)
{
	return a.x;
}
FAKECUDA_BOTH __half __high2half(__half2 a)
{
	return a.y;
}
FAKECUDA_DEVICE __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
	return __half2{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
#define FAKECUDA_HALF2(name)                                                                       \
	FAKECUDA_BOTH __half2 name##2(__half2 a, __half2 b)                                        \
	{                                                                                          \
		return __half2{name(a.x, b.x), name(a.y, b.y)};                                    \
	}
FAKECUDA_HALF2(__hadd)
FAKECUDA_HALF2(__hsub)
FAKECUDA_HALF2(__hmul)
FAKECUDA_HALF2(__hmin)
FAKECUDA_HALF2(__hmax)
#undef FAKECUDA_HALF2

#endif
