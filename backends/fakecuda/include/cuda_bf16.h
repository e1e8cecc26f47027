/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bfloat16 for CUDA source (`doppel cc`): __nv_bfloat16 is clang's __bf16 in kernels. On the host
 * it is converted here, because the C library of the compiler may not have these conversions.
 */
#ifndef FAKECUDA_CUDA_BF16_H
#define FAKECUDA_CUDA_BF16_H

#include "cuda_runtime.h"
#include "device/half.h"

#define __CUDA_BF16_TYPES_EXIST__ 1

struct __nv_bfloat16_raw {
	unsigned short x;
};

struct __nv_bfloat16 {
#if defined(__CUDA_ARCH__)
	typedef __bf16 fakecuda_native;
#else
	typedef unsigned short fakecuda_native;
#endif
	fakecuda_native v;

	FAKECUDA_HALF_MEMBERS(__nv_bfloat16)
	FAKECUDA_MEMBER __nv_bfloat16(float x)
	{
#if defined(__CUDA_ARCH__)
		v = (__bf16)x;
#else
		unsigned int bits = __builtin_bit_cast(unsigned int, x);
		bits += 0x7fff + (bits >> 16 & 1);
		v = (unsigned short)(x != x ? 0x7fff : bits >> 16);
#endif
	}
	FAKECUDA_MEMBER __nv_bfloat16(__nv_bfloat16_raw raw)
	    : v(__builtin_bit_cast(fakecuda_native, raw.x))
	{
	}
	FAKECUDA_MEMBER operator float() const
	{
		unsigned int bits = __builtin_bit_cast(unsigned short, v);

		return __builtin_bit_cast(float, bits << 16);
	}
	FAKECUDA_MEMBER operator __nv_bfloat16_raw() const
	{
		return __nv_bfloat16_raw{__builtin_bit_cast(unsigned short, v)};
	}
};
typedef __nv_bfloat16 nv_bfloat16;

#if defined(__CUDA_ARCH__)
FAKECUDA_DEVICE __bf16 fakecuda_fmin_bf16(__bf16 a, __bf16 b)
{
	unsigned short r, x = __builtin_bit_cast(unsigned short, a);
	asm("min.bf16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(__builtin_bit_cast(unsigned short, b)));
	return __builtin_bit_cast(__bf16, r);
}
FAKECUDA_DEVICE __bf16 fakecuda_fmax_bf16(__bf16 a, __bf16 b)
{
	unsigned short r, x = __builtin_bit_cast(unsigned short, a);
	asm("max.bf16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(__builtin_bit_cast(unsigned short, b)));
	return __builtin_bit_cast(__bf16, r);
}
#endif

FAKECUDA_BOTH unsigned short fakecuda_bits(__nv_bfloat16 a)
{
	return __builtin_bit_cast(unsigned short, a.v);
}
FAKECUDA_BOTH __nv_bfloat16 fakecuda_of_bits(__nv_bfloat16, int bits)
{
	return __nv_bfloat16(__nv_bfloat16_raw{(unsigned short)bits});
}
FAKECUDA_HALF_FUNCTIONS(__nv_bfloat16)

FAKECUDA_DEVICE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
	unsigned short r;
	asm("fma.rn.bf16 %0, %1, %2, %3;"
	    : "=h"(r)
	    : "h"(fakecuda_bits(a)), "h"(fakecuda_bits(b)), "h"(fakecuda_bits(c)));
	return fakecuda_of_bits(a, r);
}

/* ---- conversions ---------------------------------------------------------------------------- */

FAKECUDA_BOTH __nv_bfloat16 __float2bfloat16(float x)
{
	return __nv_bfloat16(x);
}
FAKECUDA_BOTH __nv_bfloat16 __float2bfloat16_rn(float x)
{
	return __nv_bfloat16(x);
}
FAKECUDA_BOTH __nv_bfloat16 __double2bfloat16(double x)
{
	return __nv_bfloat16(x);
}
FAKECUDA_BOTH float __bfloat162float(__nv_bfloat16 x)
{
	return (float)x;
}
FAKECUDA_BOTH unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
	return fakecuda_bits(x);
}
FAKECUDA_BOTH __nv_bfloat16 __ushort_as_bfloat16(unsigned short x)
{
	return fakecuda_of_bits(__nv_bfloat16(), x);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

struct __attribute__((aligned(4))) __nv_bfloat162 {
	__nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;

FAKECUDA_BOTH __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
	return __nv_bfloat162{__nv_bfloat16(x), __nv_bfloat16(y)};
}
FAKECUDA_BOTH __nv_bfloat162 __float22bfloat162_rn(float2 a)
{
	return __floats2bfloat162_rn(a.x, a.y);
}
FAKECUDA_BOTH __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y)
{
	return __nv_bfloat162{x, y};
}
FAKECUDA_BOTH float2 __bfloat1622float2(__nv_bfloat162 a)
{
	return float2{(float)a.x, (float)a.y};
}
#define FAKECUDA_BFLOAT2(name)                                                                     \
	FAKECUDA_BOTH __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b)                   \
	{                                                                                          \
		return __nv_bfloat162{name(a.x, b.x), name(a.y, b.y)};                             \
	}
FAKECUDA_BFLOAT2(__hadd)
FAKECUDA_BFLOAT2(__hsub)
FAKECUDA_BFLOAT2(__hmul)
FAKECUDA_BFLOAT2(__hmin)
FAKECUDA_BFLOAT2(__hmax)
#undef FAKECUDA_BFLOAT2

#endif
