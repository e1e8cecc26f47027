/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of mathematics in device code. Functions without an instruction of PTX are
 * __doppel_NAME. The translator replaces them by the C library's, so their last bits may differ
 * from a GPU's.
 */
#ifndef FAKECUDA_DEVICE_MATH_H
#define FAKECUDA_DEVICE_MATH_H

#define FAKECUDA_MATH_1(name)                                                                      \
	extern "C" __device__ float __doppel_##name##f(float x) __attribute__((const));            \
	extern "C" __device__ double __doppel_##name(double x) __attribute__((const));             \
	FAKECUDA_DEVICE float name##f(float x)                                                     \
	{                                                                                          \
		return __doppel_##name##f(x);                                                      \
	}                                                                                          \
	FAKECUDA_DEVICE double name(double x)                                                      \
	{                                                                                          \
		return __doppel_##name(x);                                                         \
	}                                                                                          \
	FAKECUDA_DEVICE float name(float x)                                                        \
	{                                                                                          \
		return __doppel_##name##f(x);                                                      \
	}
#define FAKECUDA_MATH_2(name)                                                                      \
	extern "C" __device__ float __doppel_##name##f(float x, float y) __attribute__((const));   \
	extern "C" __device__ double __doppel_##name(double x, double y) __attribute__((const));   \
	FAKECUDA_DEVICE float name##f(float x, float y)                                            \
	{                                                                                          \
		return __doppel_##name##f(x, y);                                                   \
	}                                                                                          \
	FAKECUDA_DEVICE double name(double x, double y)                                            \
	{                                                                                          \
		return __doppel_##name(x, y);                                                      \
	}                                                                                          \
	FAKECUDA_DEVICE float name(float x, float y)                                               \
	{                                                                                          \
		return __doppel_##name##f(x, y);                                                   \
	}
/* Functions with an instruction. */
#define FAKECUDA_BUILTIN_1(name)                                                                   \
	FAKECUDA_DEVICE float name##f(float x)                                                     \
	{                                                                                          \
		return __builtin_##name##f(x);                                                     \
	}                                                                                          \
	FAKECUDA_DEVICE double name(double x)                                                      \
	{                                                                                          \
		return __builtin_##name(x);                                                        \
	}                                                                                          \
	FAKECUDA_DEVICE float name(float x)                                                        \
	{                                                                                          \
		return __builtin_##name##f(x);                                                     \
	}
#define FAKECUDA_BUILTIN_2(name)                                                                   \
	FAKECUDA_DEVICE float name##f(float x, float y)                                            \
	{                                                                                          \
		return __builtin_##name##f(x, y);                                                  \
	}                                                                                          \
	FAKECUDA_DEVICE double name(double x, double y)                                            \
	{                                                                                          \
		return __builtin_##name(x, y);                                                     \
	}

FAKECUDA_MATH_1(sin)
FAKECUDA_MATH_1(cos)
FAKECUDA_MATH_1(tan)
FAKECUDA_MATH_1(asin)
FAKECUDA_MATH_1(acos)
FAKECUDA_MATH_1(atan)
FAKECUDA_MATH_1(sinh)
FAKECUDA_MATH_1(cosh)
FAKECUDA_MATH_1(tanh)
FAKECUDA_MATH_1(asinh)
FAKECUDA_MATH_1(acosh)
FAKECUDA_MATH_1(atanh)
FAKECUDA_MATH_1(exp)
FAKECUDA_MATH_1(exp2)
FAKECUDA_MATH_1(expm1)
FAKECUDA_MATH_1(log)
FAKECUDA_MATH_1(log2)
FAKECUDA_MATH_1(log10)
FAKECUDA_MATH_1(log1p)
FAKECUDA_MATH_1(cbrt)
FAKECUDA_MATH_1(erf)
FAKECUDA_MATH_1(erfc)
FAKECUDA_MATH_1(tgamma)
FAKECUDA_MATH_1(lgamma)
FAKECUDA_MATH_2(pow)
FAKECUDA_MATH_2(atan2)
FAKECUDA_MATH_2(fmod)
FAKECUDA_MATH_2(remainder)
FAKECUDA_MATH_2(hypot)
FAKECUDA_BUILTIN_1(sqrt)
FAKECUDA_BUILTIN_1(fabs)
FAKECUDA_BUILTIN_1(floor)
FAKECUDA_BUILTIN_1(ceil)
FAKECUDA_BUILTIN_1(trunc)
FAKECUDA_BUILTIN_1(rint)
FAKECUDA_BUILTIN_1(nearbyint)
FAKECUDA_BUILTIN_1(round)
FAKECUDA_BUILTIN_2(fmin)
FAKECUDA_BUILTIN_2(fmax)
FAKECUDA_BUILTIN_2(copysign)
#undef FAKECUDA_MATH_1
#undef FAKECUDA_MATH_2
#undef FAKECUDA_BUILTIN_1
#undef FAKECUDA_BUILTIN_2

FAKECUDA_DEVICE float fmaf(float x, float y, float z)
{
	return __builtin_fmaf(x, y, z);
}
FAKECUDA_DEVICE double fma(double x, double y, double z)
{
	return __builtin_fma(x, y, z);
}
FAKECUDA_DEVICE float rsqrtf(float x)
{
	return __nvvm_rsqrt_approx_f(x);
}
FAKECUDA_DEVICE double rsqrt(double x)
{
	return __nvvm_rsqrt_approx_d(x);
}
FAKECUDA_DEVICE float exp10f(float x)
{
	return __doppel_powf(10, x);
}
FAKECUDA_DEVICE double exp10(double x)
{
	return __doppel_pow(10, x);
}
FAKECUDA_DEVICE float max(float a, float b)
{
	return __builtin_fmaxf(a, b);
}
FAKECUDA_DEVICE float min(float a, float b)
{
	return __builtin_fminf(a, b);
}
FAKECUDA_DEVICE double max(double a, double b)
{
	return __builtin_fmax(a, b);
}
FAKECUDA_DEVICE double min(double a, double b)
{
	return __builtin_fmin(a, b);
}
FAKECUDA_DEVICE int abs(int x)
{
	return x < 0 ? -x : x;
}
FAKECUDA_DEVICE long long llabs(long long x)
{
	return x < 0 ? -x : x;
}

/* Fast forms. */
FAKECUDA_DEVICE float __fdividef(float x, float y)
{
	return __nvvm_div_approx_f(x, y);
}
FAKECUDA_DEVICE float __expf(float x)
{
	return __nvvm_ex2_approx_f(x * 1.4426950408889634f);
}
FAKECUDA_DEVICE float __logf(float x)
{
	return __nvvm_lg2_approx_f(x) * 0.6931471805599453f;
}
FAKECUDA_DEVICE float __sinf(float x)
{
	return __nvvm_sin_approx_f(x);
}
FAKECUDA_DEVICE float __cosf(float x)
{
	return __nvvm_cos_approx_f(x);
}
FAKECUDA_DEVICE float __fadd_rn(float x, float y)
{
	return __nvvm_add_rn_f(x, y);
}
FAKECUDA_DEVICE float __fmul_rn(float x, float y)
{
	return __nvvm_mul_rn_f(x, y);
}
FAKECUDA_DEVICE int __float2int_rn(float x)
{
	return __nvvm_f2i_rn(x);
}
FAKECUDA_DEVICE int __float2int_rz(float x)
{
	return __nvvm_f2i_rz(x);
}
FAKECUDA_DEVICE float __int2float_rn(int x)
{
	return __nvvm_i2f_rn(x);
}
FAKECUDA_DEVICE float __saturatef(float x)
{
	return __nvvm_saturate_f(x);
}

#endif
