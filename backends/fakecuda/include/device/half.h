/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that cuda_fp16.h and cuda_bf16.h have in common. In kernels, an operation is one
 * instruction of PTX on clang's type. On the host it is computed in float and rounded: the result
 * is the same, because a float has more than twice the digits.
 *
 * A type has `fakecuda_native v`, a constructor from float and a conversion to float.
 */
#ifndef FAKECUDA_DEVICE_HALF_H
#define FAKECUDA_DEVICE_HALF_H

#include <limits.h>
#include <math.h>
#include <string.h>

#define FAKECUDA_MEMBER __host__ __device__ __forceinline__

/* Rounds to a float that keeps, in its last bit, that digits are lost. A second rounding, to fewer
 * digits, then gives the same as a rounding in one step. */
FAKECUDA_BOTH float fakecuda_round_odd(double x)
{
	float f = (float)x;
	unsigned int bits = __builtin_bit_cast(unsigned int, f);

	if (x != x || (double)f == x || (bits & 1))
		return f;
	bool up = ((double)f < x) == (f >= 0);
	return __builtin_bit_cast(float, up ? bits + 1 : bits - 1);
}

/* A double that keeps, in its last bit, that digits are lost. */
FAKECUDA_BOTH double fakecuda_wide(double x)
{
	return x;
}
FAKECUDA_BOTH double fakecuda_wide(unsigned long long x)
{
	return x >> 53 ? (double)(x >> 11 | ((x & 2047) != 0)) * 2048 : (double)x;
}
FAKECUDA_BOTH double fakecuda_wide(long long x)
{
	return x < 0 ? -fakecuda_wide(-(unsigned long long)x)
		     : fakecuda_wide((unsigned long long)x);
}

#if defined(__CUDA_ARCH__)
#define FAKECUDA_HALF_NATIVE(type, a, op, b) type::fakecuda_from((a).v op(b).v)
#define FAKECUDA_HALF_EXTREME(type, name, a, b)                                                    \
	type::fakecuda_from(FAKECUDA_HALF_##type(name)((a).v, (b).v))
#else
#define FAKECUDA_HALF_NATIVE(type, a, op, b)    type((float)(a)op(float)(b))
#define FAKECUDA_HALF_EXTREME(type, name, a, b) type(__builtin_##name##f((float)(a), (float)(b)))
#endif
#define FAKECUDA_HALF___half(name)        __builtin_##name##f16
#define FAKECUDA_HALF___nv_bfloat16(name) fakecuda_##name##_bf16

#define FAKECUDA_HALF_ARITHMETIC(type, name, op)                                                   \
	FAKECUDA_BOTH type operator op(type a, type b)                                             \
	{                                                                                          \
		return FAKECUDA_HALF_NATIVE(type, a, op, b);                                       \
	}                                                                                          \
	FAKECUDA_BOTH type &operator op##=(type &a, type b)                                        \
	{                                                                                          \
		return a = a op b;                                                                 \
	}                                                                                          \
	FAKECUDA_BOTH type name(type a, type b)                                                    \
	{                                                                                          \
		return a op b;                                                                     \
	}
#define FAKECUDA_HALF_COMPARISON(type, name, op)                                                   \
	FAKECUDA_BOTH bool operator op(type a, type b)                                             \
	{                                                                                          \
		return (float)a op(float) b;                                                       \
	}                                                                                          \
	FAKECUDA_BOTH bool name(type a, type b)                                                    \
	{                                                                                          \
		return a op b;                                                                     \
	}
#define FAKECUDA_HALF_BY_FLOAT(type, name, of)                                                     \
	FAKECUDA_DEVICE type name(type a)                                                          \
	{                                                                                          \
		return type(of((float)a));                                                         \
	}

/* Members of a type: constructors and conversions. wide: a type that fakecuda_wide has. */
#define FAKECUDA_HALF_MEMBER(type, number, wide)                                                   \
	FAKECUDA_MEMBER type(number x) : type(fakecuda_round_odd(fakecuda_wide((wide)x)))          \
	{                                                                                          \
	}                                                                                          \
	FAKECUDA_MEMBER operator number() const                                                    \
	{                                                                                          \
		return (number)(float)*this;                                                       \
	}
#define FAKECUDA_HALF_MEMBERS(type)                                                                \
	type() = default;                                                                          \
	FAKECUDA_HALF_MEMBER(type, short, double)                                                  \
	FAKECUDA_HALF_MEMBER(type, unsigned short, double)                                         \
	FAKECUDA_HALF_MEMBER(type, int, double)                                                    \
	FAKECUDA_HALF_MEMBER(type, unsigned int, double)                                           \
	FAKECUDA_HALF_MEMBER(type, long, long long)                                                \
	FAKECUDA_HALF_MEMBER(type, unsigned long, unsigned long long)                              \
	FAKECUDA_HALF_MEMBER(type, long long, long long)                                           \
	FAKECUDA_HALF_MEMBER(type, unsigned long long, unsigned long long)                         \
	FAKECUDA_MEMBER type(double x) : type(fakecuda_round_odd(x))                               \
	{                                                                                          \
	}                                                                                          \
	FAKECUDA_MEMBER operator bool() const                                                      \
	{                                                                                          \
		return (float)*this != 0;                                                          \
	}                                                                                          \
	FAKECUDA_MEMBER static type fakecuda_from(fakecuda_native v)                               \
	{                                                                                          \
		type r;                                                                            \
		r.v = v;                                                                           \
		return r;                                                                          \
	}

#define FAKECUDA_HALF_FUNCTIONS(type)                                                              \
	FAKECUDA_HALF_ARITHMETIC(type, __hadd, +)                                                  \
	FAKECUDA_HALF_ARITHMETIC(type, __hsub, -)                                                  \
	FAKECUDA_HALF_ARITHMETIC(type, __hmul, *)                                                  \
	FAKECUDA_HALF_ARITHMETIC(type, __hdiv, /)                                                  \
	FAKECUDA_HALF_COMPARISON(type, __heq, ==)                                                  \
	FAKECUDA_HALF_COMPARISON(type, __hne, !=)                                                  \
	FAKECUDA_HALF_COMPARISON(type, __hlt, <)                                                   \
	FAKECUDA_HALF_COMPARISON(type, __hle, <=)                                                  \
	FAKECUDA_HALF_COMPARISON(type, __hgt, >)                                                   \
	FAKECUDA_HALF_COMPARISON(type, __hge, >=)                                                  \
	FAKECUDA_BOTH type operator-(type a)                                                       \
	{                                                                                          \
		return fakecuda_of_bits(a, fakecuda_bits(a) ^ 0x8000);                             \
	}                                                                                          \
	FAKECUDA_BOTH type __hneg(type a)                                                          \
	{                                                                                          \
		return -a;                                                                         \
	}                                                                                          \
	FAKECUDA_BOTH type __habs(type a)                                                          \
	{                                                                                          \
		return fakecuda_of_bits(a, fakecuda_bits(a) & 0x7fff);                             \
	}                                                                                          \
	FAKECUDA_BOTH type __hmin(type a, type b)                                                  \
	{                                                                                          \
		return FAKECUDA_HALF_EXTREME(type, fmin, a, b);                                    \
	}                                                                                          \
	FAKECUDA_BOTH type __hmax(type a, type b)                                                  \
	{                                                                                          \
		return FAKECUDA_HALF_EXTREME(type, fmax, a, b);                                    \
	}                                                                                          \
	FAKECUDA_BOTH bool __hisnan(type a)                                                        \
	{                                                                                          \
		return (float)a != (float)a;                                                       \
	}                                                                                          \
	FAKECUDA_BOTH int __hisinf(type a)                                                         \
	{                                                                                          \
		float f = (float)a;                                                                \
		return f == __builtin_inff() ? 1 : f == -__builtin_inff() ? -1 : 0;                \
	}                                                                                          \
	FAKECUDA_HALF_BY_FLOAT(type, hsqrt, __builtin_sqrtf)                                       \
	FAKECUDA_HALF_BY_FLOAT(type, hfloor, __builtin_floorf)                                     \
	FAKECUDA_HALF_BY_FLOAT(type, hceil, __builtin_ceilf)                                       \
	FAKECUDA_HALF_BY_FLOAT(type, htrunc, __builtin_truncf)                                     \
	FAKECUDA_HALF_BY_FLOAT(type, hrint, __builtin_rintf)                                       \
	FAKECUDA_HALF_BY_FLOAT(type, hexp, expf)                                                   \
	FAKECUDA_HALF_BY_FLOAT(type, hlog, logf)

#endif
