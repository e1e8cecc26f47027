// SPDX-License-Identifier: BSD-3-Clause
// Floats and doubles: exact operations bit by bit, conversions with their limits, comparisons with
// NaN, functions of the C library, predicates and selects.
#include <math.h>

#include "source.h"

enum { N = 64, OPS = 10 };

template <class T> static T special(int i)
{
	const T values[] = {0,     -0.0,  1,           -1,           1.5,    2.5, -2.5, 1e30,
			    -1e30, 1e-30, (T)INFINITY, (T)-INFINITY, (T)NAN, 3e9, -3e9, 0.49999};

	return i < 16 ? values[i] : (T)(sample<int>(i) % 100000) / (T)7;
}

__global__ void floats(const float *a, const float *b, float *c)
{
	int i = threadIdx.x;
	float x = a[i], y = b[i];

	c[i] = __fadd_rn(x, y);
	c[N + i] = x - y;
	c[2 * N + i] = __fmul_rn(x, y);
	c[3 * N + i] = x / y;
	c[4 * N + i] = sqrtf(x);
	c[5 * N + i] = fmaf(x, y, x);
	c[6 * N + i] = fminf(x, y);
	c[7 * N + i] = floorf(x) + ceilf(y);
	c[8 * N + i] = truncf(x) + rintf(y);
	c[9 * N + i] = copysignf(fabsf(x), y);
}

static float floats_expected(int row, float x, float y)
{
	const float all[] = {x + y,
			     x - y,
			     x * y,
			     x / y,
			     sqrtf(x),
			     fmaf(x, y, x),
			     fminf(x, y),
			     floorf(x) + ceilf(y),
			     truncf(x) + rintf(y),
			     copysignf(fabsf(x), y)};

	return all[row];
}

// A NaN may have another sign or payload.
template <class T> static void same_nan(both<T> &c)
{
	for (int i = 0; i < c.n; i++)
		c.host[i] = c.host[i] != c.host[i] ? 77 : c.host[i];
}
template <class T> static T or_77(T x)
{
	return x != x ? 77 : x;
}

__global__ void convert(const double *a, long long *c)
{
	int i = threadIdx.x;
	double x = a[i];

	c[i] = (int)x;
	c[N + i] = (unsigned)x;
	c[2 * N + i] = (long long)x;
	c[3 * N + i] = (long long)(unsigned long long)(x < 0 ? -x : x);
	c[4 * N + i] = (int)(float)x;
	c[5 * N + i] = __float_as_int((float)x);
	c[6 * N + i] = (long long)(double)(float)(long long)i * 3;
	c[7 * N + i] = (x < 1) + 2 * (x >= 1) + 4 * (x != x) + 8 * (x == 1.5) + 16 * !(x > 0);
}

static long long convert_expected(int row, double x, int i)
{
	float f = (float)x;
	int bits;

	memcpy(&bits, &f, 4);
	switch (row) {
	case 0:
		return x != x               ? 0
		       : x >= 2147483647.0  ? 2147483647
		       : x <= -2147483648.0 ? -2147483647 - 1
					    : (int)x;
	case 1:
		return x != x || x <= 0 ? 0 : x >= 4294967295.0 ? 4294967295u : (unsigned)x;
	case 2:
		return x != x         ? 0
		       : x >= 0x1p63  ? 0x7fffffffffffffffll
		       : x <= -0x1p63 ? -0x7fffffffffffffffll - 1
				      : (long long)x;
	case 3:
		x = x < 0 ? -x : x;
		return x != x ? 0 : x >= 0x1p64 ? -1 : (long long)(unsigned long long)x;
	case 4:
		return f != f          ? 0
		       : f >= 0x1p31f  ? 2147483647
		       : f <= -0x1p31f ? -2147483647 - 1
				       : (int)f;
	case 5:
		return bits;
	case 6:
		return i * 3;
	default:
		return (x < 1) + 2 * (x >= 1) + 4 * (x != x) + 8 * (x == 1.5) + 16 * !(x > 0);
	}
}

__global__ void library(const double *a, double *c)
{
	int i = threadIdx.x;
	double x = a[i];

	c[i] = sin(x) + cos(x) * 2;
	c[N + i] = exp(x / 1e5) + log(fabs(x) + 1);
	c[2 * N + i] = pow(fabs(x) + 1, 0.25);
	c[3 * N + i] = sinf((float)x);
	c[4 * N + i] = atan2(x, 3.0) + tanh(x);
}

static double library_expected(int row, double x)
{
	const double all[] = {sin(x) + cos(x) * 2, exp(x / 1e5) + log(fabs(x) + 1),
			      pow(fabs(x) + 1, 0.25), sinf((float)x), atan2(x, 3.0) + tanh(x)};

	return all[row];
}

int main()
{
	both<float> a(N), b(N), c(N * OPS);
	for (int i = 0; i < N; i++) {
		a.host[i] = special<float>(i);
		b.host[i] = special<float>((i * 5 + 2) % N);
	}
	a.up();
	b.up();
	floats<<<1, N>>>(a.gpu, b.gpu, c.gpu);
	c.down();
	same_nan(c);
	check("floats", c,
	      [&](int i) { return or_77(floats_expected(i / N, a.host[i % N], b.host[i % N])); });

	both<double> x(N);
	both<long long> y(N * 8);
	for (int i = 0; i < N; i++)
		x.host[i] = special<double>(i);
	x.host[12] = 5; // the bits of a NaN are not defined
	x.up();
	convert<<<1, N>>>(x.gpu, y.gpu);
	y.down();
	check("convert", y, [&](int i) { return convert_expected(i / N, x.host[i % N], i % N); });

	both<double> z(N * 5);
	for (int i = 0; i < N; i++)
		x.host[i] = i * 3.25 - 77;
	x.up();
	library<<<1, N>>>(x.gpu, z.gpu);
	z.down();
	check("library", z, [&](int i) { // the last bits of a GPU differ
		const double is = z.host[i], to = library_expected(i / N, x.host[i % N]);
		return fabs(is - to) <= 1e-6 * fabs(to) ? is : to;
	});
	return failures != 0;
}
