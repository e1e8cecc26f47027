/* SPDX-License-Identifier: BSD-3-Clause */
/* Integer functions, and reinterpretation of bits. */
#ifndef FAKECUDA_DEVICE_BITS_H
#define FAKECUDA_DEVICE_BITS_H

FAKECUDA_DEVICE int __popc(unsigned int x)
{
	return __builtin_popcount(x);
}
FAKECUDA_DEVICE int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}
FAKECUDA_DEVICE int __clz(int x)
{
	return x ? __builtin_clz((unsigned int)x) : 32;
}
FAKECUDA_DEVICE int __clzll(long long x)
{
	return x ? __builtin_clzll((unsigned long long)x) : 64;
}
FAKECUDA_DEVICE int __ffs(int x)
{
	return x ? __builtin_ctz((unsigned int)x) + 1 : 0;
}
FAKECUDA_DEVICE int __ffsll(long long x)
{
	return x ? __builtin_ctzll((unsigned long long)x) + 1 : 0;
}
FAKECUDA_DEVICE unsigned int __brev(unsigned int x)
{
	return __builtin_bitreverse32(x);
}
FAKECUDA_DEVICE unsigned long long __brevll(unsigned long long x)
{
	return __builtin_bitreverse64(x);
}
/* The place of the n-th set bit from `base` on; n below 0: downwards. ~0: no such bit. */
FAKECUDA_DEVICE unsigned int __fns(unsigned int mask, unsigned int base, int n)
{
	int step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;

	if (!n)
		return mask >> (base & 31) & 1 ? base : ~0u;
	for (int at = (int)base; at >= 0 && at < 32; at += step) {
		left -= mask >> at & 1;
		if (!left)
			return (unsigned int)at;
	}
	return ~0u;
}
FAKECUDA_DEVICE unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector)
{
	unsigned int r;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(selector));
	return r;
}
FAKECUDA_DEVICE unsigned int __funnelshift_l(unsigned int lo, unsigned int hi, unsigned int n)
{
	unsigned int r;
	asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(n));
	return r;
}
FAKECUDA_DEVICE unsigned int __funnelshift_r(unsigned int lo, unsigned int hi, unsigned int n)
{
	unsigned int r;
	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(n));
	return r;
}
FAKECUDA_DEVICE int __mulhi(int x, int y)
{
	return (int)((long long)x * y >> 32);
}
FAKECUDA_DEVICE unsigned int __umulhi(unsigned int x, unsigned int y)
{
	return (unsigned int)((unsigned long long)x * y >> 32);
}
FAKECUDA_DEVICE long long __mul64hi(long long x, long long y)
{
	long long r;
	asm("mul.hi.s64 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y));
	return r;
}
FAKECUDA_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
	unsigned long long r;
	asm("mul.hi.u64 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y));
	return r;
}
FAKECUDA_DEVICE int __float_as_int(float x)
{
	return __builtin_bit_cast(int, x);
}
FAKECUDA_DEVICE unsigned int __float_as_uint(float x)
{
	return __builtin_bit_cast(unsigned int, x);
}
FAKECUDA_DEVICE float __int_as_float(int x)
{
	return __builtin_bit_cast(float, x);
}
FAKECUDA_DEVICE float __uint_as_float(unsigned int x)
{
	return __builtin_bit_cast(float, x);
}
FAKECUDA_DEVICE long long __double_as_longlong(double x)
{
	return __builtin_bit_cast(long long, x);
}
FAKECUDA_DEVICE double __longlong_as_double(long long x)
{
	return __builtin_bit_cast(double, x);
}
/* Loads and stores with hints about caches. __ldcv and __stwt go to memory each time. */
#define FAKECUDA_LOADS(name)                                                                       \
	template <class T> FAKECUDA_DEVICE T name(const T *p)                                      \
	{                                                                                          \
		return *p;                                                                         \
	}
#define FAKECUDA_STORES(name)                                                                      \
	template <class T> FAKECUDA_DEVICE void name(T *p, T v)                                    \
	{                                                                                          \
		*p = v;                                                                            \
	}
FAKECUDA_LOADS(__ldg)
FAKECUDA_LOADS(__ldca)
FAKECUDA_LOADS(__ldcg)
FAKECUDA_LOADS(__ldcs)
FAKECUDA_LOADS(__ldlu)
FAKECUDA_STORES(__stwb)
FAKECUDA_STORES(__stcg)
FAKECUDA_STORES(__stcs)
#undef FAKECUDA_LOADS
#undef FAKECUDA_STORES
template <class T> FAKECUDA_DEVICE T __ldcv(const T *p)
{
	T v;

	asm volatile("" ::: "memory");
	v = *p;
	asm volatile("" ::: "memory");
	return v;
}
template <class T> FAKECUDA_DEVICE void __stwt(T *p, T v)
{
	asm volatile("" ::: "memory");
	*p = v;
	asm volatile("" ::: "memory");
}

#define FAKECUDA_EXTREMES(type, type_b, result)                                                    \
	FAKECUDA_BOTH result min(type a, type_b b)                                                 \
	{                                                                                          \
		return (result)a < (result)b ? (result)a : (result)b;                              \
	}                                                                                          \
	FAKECUDA_BOTH result max(type a, type_b b)                                                 \
	{                                                                                          \
		return (result)a > (result)b ? (result)a : (result)b;                              \
	}
/* If one is unsigned, both are compared as such. */
#define FAKECUDA_EXTREMES_OF(type)                                                                 \
	FAKECUDA_EXTREMES(type, type, type)                                                        \
	FAKECUDA_EXTREMES(unsigned type, unsigned type, unsigned type)                             \
	FAKECUDA_EXTREMES(type, unsigned type, unsigned type)                                      \
	FAKECUDA_EXTREMES(unsigned type, type, unsigned type)
FAKECUDA_EXTREMES_OF(int)
FAKECUDA_EXTREMES_OF(long)
FAKECUDA_EXTREMES_OF(long long)
#undef FAKECUDA_EXTREMES_OF
#undef FAKECUDA_EXTREMES

#endif
