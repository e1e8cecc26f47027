// SPDX-License-Identifier: BSD-3-Clause
// Half precision: each pattern of bits, sums and products of pairs, roundings in one step, packed
// instructions, and the 8-bit types. The host rounds from the exact numbers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "source.h"

enum { PATTERNS = 65536, THREADS = 256, CASES = 4096 };

/* Rounds to `digits` significant bits, to the nearest, to even; least: the smallest step. */
static double rounded(double x, int digits, int least)
{
	int exponent;

	frexp(x, &exponent);
	double step = ldexp(1, exponent - digits > least ? exponent - digits : least);
	return nearbyint(x / step) * step;
}
static double expected_of(__half, double x)
{
	double r = rounded(x, 11, -24);

	return fabs(r) > 65504 ? copysign(INFINITY, r) : r;
}
static double expected_of(__nv_bfloat16, double x)
{
	double r = rounded(x, 8, -133);

	return fabs(r) > 0x1.fep127 ? copysign(INFINITY, r) : r;
}

/* ---- each pattern --------------------------------------------------------------------------- */

template <class T> __global__ void widen(float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = (float)fakecuda_of_bits(T(), i);
}
template <class T> __global__ void narrow(const float *in, unsigned short *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = fakecuda_bits(T(in[i]));
}

/* A NaN keeps no bits. */
template <class T> static void patterns(const char *name)
{
	both<float> wide(PATTERNS);
	both<unsigned short> back(PATTERNS);

	widen<T><<<PATTERNS / THREADS, THREADS>>>(wide.gpu);
	narrow<T><<<PATTERNS / THREADS, THREADS>>>(wide.gpu, back.gpu);
	wide.down();
	back.down();
	check(name, back, [&](int i) {
		bool same = (float)fakecuda_of_bits(T(), i) == wide.host[i];
		unsigned short bits = fakecuda_bits(T(wide.host[i]));
		if (wide.host[i] != wide.host[i])
			return (unsigned short)0x7fff;
		return (unsigned short)(same && bits == i ? i : ~i);
	});
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

template <class T> __global__ void compute(const T *a, const T *b, T *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, at = 8 * i;

	out[at] = a[i] + b[i];
	out[at + 1] = __hsub(a[i], b[i]);
	out[at + 2] = a[i] * b[i];
	out[at + 3] = a[i] / b[i];
	out[at + 4] = __hmin(a[i], b[i]);
	out[at + 5] = __hmax(a[i], b[i]);
	out[at + 6] = a[i] < b[i] ? -a[i] : __habs(b[i]);
	out[at + 7] = __hfma(a[i], b[i], T(1025));
}

template <class T> static double computed(double a, double b, int which)
{
	switch (which) {
	case 0:
		return expected_of(T(), a + b);
	case 1:
		return expected_of(T(), a - b);
	case 2:
		return expected_of(T(), a * b);
	case 3:
		return expected_of(T(), a / b);
	case 4:
		return a < b ? a : b;
	case 5:
		return a > b ? a : b;
	case 6:
		return a < b ? -a : fabs(b);
	default:
		return expected_of(T(), a * b + (double)T(1025));
	}
}

/* The numbers lie between 2^-6 and 2^6, so that f64 has their sums and products exactly. */
template <class T> static void arithmetic(const char *name)
{
	both<T> a(CASES), b(CASES), out(8 * CASES);

	for (int i = 0; i < CASES; i++) {
		unsigned int x = sample<unsigned int>(3 * i + 1),
			     y = sample<unsigned int>(3 * i + 2);
		a.host[i] =
			T((x & 1 ? 1 : -1) * ldexp(1 + (x >> 8) * 0x1p-24, (int)(x >> 1 & 7) - 4));
		b.host[i] =
			T((y & 1 ? 1 : -1) * ldexp(1 + (y >> 8) * 0x1p-24, (int)(y >> 1 & 7) - 4));
	}
	a.up();
	b.up();
	compute<T><<<CASES / THREADS, THREADS>>>(a.gpu, b.gpu, out.gpu);
	out.down();
	check(name, out, [&](int i) {
		return T(computed<T>((double)a.host[i / 8], (double)b.host[i / 8], i % 8));
	});
}

/* ---- roundings in one step ------------------------------------------------------------------ */

template <class T>
__global__ void once(const double *in, const T *h, unsigned long long n, float *out)
{
	out[0] = (float)T(in[0]);
	out[1] = (float)T(in[1]);
	out[2] = (float)T((unsigned long long)in[2]);
	out[3] = (float)__hfma(h[0], h[1], h[2]);
	out[4] = (float)T(n);
	out[5] = (float)T(-(long long)(n >> 1 | (n & 1)));
	if (sizeof(T) == 2 && T(65536) != T(INFINITY))
		asm("{ .reg .b16 r; cvt.rn.bf16.u64 r, %1; cvt.f32.bf16 %0, r; }"
		    : "=f"(out[6])
		    : "l"(n));
	else
		out[6] = INFINITY;
}

/* Each number is beside the middle of two, by less than a float can show. */
template <class T> static void single_rounding(const char *name, int digits)
{
	double half = ldexp(1, -digits), tiny = 0x1p-40;
	const double up = 1 + 2 * half;
	const double expected[] = {
		up, 1, ldexp(up, 50), up, ldexp(up, 63), -ldexp(up, 62), ldexp(up, 63)};
	const unsigned long long n = (1ull << 63) + (1ull << (63 - digits)) + 1;
	both<double> in(3);
	both<T> h(3);
	both<float> out(7);

	in.host[0] = 1 + half + tiny;
	in.host[1] = 1 + half - tiny;
	in.host[2] = ldexp(1 + half + tiny, 50);
	h.host[0] = T(1 + 2 * half); /* (1 + d)(1 - d) is below 1 by less than a float can show */
	h.host[1] = T(half * (1 - 2 * half));
	h.host[2] = T(1 + 2 * half);
	in.up();
	h.up();
	once<T><<<1, 1>>>(in.gpu, h.gpu, n, out.gpu);
	out.down();
	check(name, out, [&](int i) {
		/* a half has no 2^50 */
		bool large = digits == 11 && fabs(expected[i]) > 65504;
		return large ? copysignf(INFINITY, (float)expected[i]) : (float)expected[i];
	});
	bool ok = (float)T(n) == out.host[4] && (float)T(-(long long)(n >> 1 | 1)) == out.host[5];
	for (int i = 0; i < 3; i++)
		ok = ok && (float)T(in.host[i]) == out.host[i];
	printf("%s of the host %s\n", name, ok ? "ok" : "FAILED");
	failures += !ok;
}

/* ---- packed --------------------------------------------------------------------------------- */

template <class T> __global__ void pairs(const T *a, unsigned short *out)
{
	unsigned int x = fakecuda_bits(a[0]) | fakecuda_bits(a[1]) << 16;
	unsigned int y = fakecuda_bits(a[2]) | fakecuda_bits(a[3]) << 16, r[7];

	if (sizeof(T) == 2 && T(65536) == T(INFINITY)) {
		asm("add.f16x2 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
		asm("fma.rn.f16x2 %0, %1, %2, %1;" : "=r"(r[1]) : "r"(x), "r"(y));
		asm("max.f16x2 %0, %1, %2;" : "=r"(r[2]) : "r"(x), "r"(y));
		asm("neg.f16x2 %0, %1;" : "=r"(r[3]) : "r"(x));
	} else {
		asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
		asm("fma.rn.bf16x2 %0, %1, %2, %1;" : "=r"(r[1]) : "r"(x), "r"(y));
		asm("max.bf16x2 %0, %1, %2;" : "=r"(r[2]) : "r"(x), "r"(y));
		asm("neg.bf16x2 %0, %1;" : "=r"(r[3]) : "r"(x));
	}
	asm("add.s16x2 %0, %1, %2;" : "=r"(r[4]) : "r"(0xffff8000u), "r"(0x0001ffffu));
	asm("min.s16x2 %0, %1, %2;" : "=r"(r[5]) : "r"(0xffff8000u), "r"(0x00017fffu));
	asm("max.u16x2 %0, %1, %2;" : "=r"(r[6]) : "r"(0xffff8000u), "r"(0x00017fffu));
	for (int i = 0; i < 14; i++)
		out[i] = (unsigned short)(r[i / 2] >> 16 * (i & 1));
}

template <class T> static void packed(const char *name)
{
	static const unsigned short integers[] = {0x7fff, 0, 0x8000, 0xffff, 0x8000, 0xffff};
	both<T> a(4);
	both<unsigned short> out(14);

	for (int i = 0; i < 4; i++)
		a.host[i] = T(1.5f * i - 2);
	a.up();
	pairs<T><<<1, 1>>>(a.gpu, out.gpu);
	out.down();
	check(name, out, [&](int i) {
		float x = (float)a.host[i & 1], y = (float)a.host[2 + (i & 1)];
		float r = i < 2 ? x + y : i < 4 ? x * y + x : i < 6 ? fmaxf(x, y) : -x;
		return i < 8 ? fakecuda_bits(T(r)) : integers[i - 8];
	});
}

/* ---- 8 bits --------------------------------------------------------------------------------- */

template <class T> __global__ void small(unsigned char *back, float *wide)
{
	T x;

	x.__x = (unsigned char)threadIdx.x;
	wide[threadIdx.x] = (float)x;
	back[threadIdx.x] = T((float)x).__x;
}

template <class T> static void eight_bits(const char *name, int mantissa, float most)
{
	both<unsigned char> back(256);
	both<float> wide(256);

	small<T><<<1, 256>>>(back.gpu, wide.gpu);
	back.down();
	wide.down();
	check(name, back, [&](int i) {
		unsigned char largest = T(most).__x;
		return (unsigned char)(wide.host[i] != wide.host[i] ? 0x7f
				       : fabsf(wide.host[i]) > most ? (i & 128) | largest
								    : i);
	});
	check(name, wide, [&](int i) {
		int bias = (1 << (6 - mantissa)) - 1, e = (i & 127) >> mantissa;
		float m = ldexpf(i & ((1 << mantissa) - 1), -mantissa) + (e != 0);
		float value = ldexpf(m, (e ? e : 1) - bias);
		if (value > most && mantissa == 2 && (i & 3) == 0)
			value = INFINITY;
		else if (value > most)
			return wide.host[i] != wide.host[i] ? wide.host[i] : value;
		return i & 128 ? -value : value;
	});
	/* ties to even, saturation, and the smallest */
	float step = ldexpf(1, -mantissa);
	bool ok = (float)T(1 + step / 2) == 1 && (float)T(1 + 1.5f * step) == 1 + 2 * step &&
		  (float)T(1e9f) == most && (float)T(-1e9) == -most &&
		  (float)T(2 - step / 8) == 2 && T(1e-30f).__x == 0;
	printf("%s %s\n", name, ok ? "ok" : "FAILED");
	failures += !ok;
}

int main()
{
	patterns<__half>("half: all patterns");
	patterns<__nv_bfloat16>("bfloat16: all patterns");
	arithmetic<__half>("half: arithmetic");
	arithmetic<__nv_bfloat16>("bfloat16: arithmetic");
	single_rounding<__half>("half: one rounding", 11);
	single_rounding<__nv_bfloat16>("bfloat16: one rounding", 8);
	packed<__half>("half: pairs");
	packed<__nv_bfloat16>("bfloat16: pairs");
	eight_bits<__nv_fp8_e4m3>("fp8 e4m3", 3, 448);
	eight_bits<__nv_fp8_e5m2>("fp8 e5m2", 2, 57344);
	return failures != 0;
}
