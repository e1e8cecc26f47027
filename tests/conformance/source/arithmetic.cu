// SPDX-License-Identifier: BSD-3-Clause
// Integers of all widths: sums, products, quotients, shifts, extremes, bits.
#include "source.h"

enum { N = 256, OPS = 12 };

template <class T> static __host__ __device__ T one(int op, T a, T b)
{
	switch (op) {
	case 0:
		return a + b;
	case 1:
		return a - b;
	case 2:
		return a * b;
	case 3:
		return b == 0 || b == (T)-1 ? a : a / b;
	case 4:
		return b == 0 || b == (T)-1 ? b : a % b;
	case 5:
		return a & b;
	case 6:
		return a | (T)~b;
	case 7:
		return a ^ b;
	case 8:
		return (T)(a << ((unsigned)b % (sizeof(T) * 8)));
	case 9:
		return (T)(a >> ((unsigned)b % (sizeof(T) * 8)));
	case 10:
		return a < b ? a : b;
	default:
		return a > b ? (T)(a - b) : (T)(b - a);
	}
}

template <class T> __global__ void integers(const T *a, const T *b, T *c)
{
	int i = threadIdx.x;

	for (int op = 0; op < OPS; op++)
		c[op * N + i] = one<T>(op, a[i], b[i]);
}

template <class T> static void run(const char *name)
{
	both<T> a(N), b(N), c(N * OPS);

	for (int i = 0; i < N; i++) {
		a.host[i] = sample<T>(i);
		b.host[i] = sample<T>(i * 7 + 3);
	}
	a.up();
	b.up();
	integers<T><<<1, N>>>(a.gpu, b.gpu, c.gpu);
	c.down();
	check(name, c, [&](int i) { return one<T>(i / N, a.host[i % N], b.host[i % N]); });
}

__global__ void bits(const unsigned long long *a, unsigned *c)
{
	int i = threadIdx.x;
	unsigned x = (unsigned)a[i], y = (unsigned)(a[i] >> 32);

	c[i] = __popc(x) + __popcll(a[i]) * 100 + __clz(x) * 7 + __clzll(a[i]) * 11;
	c[N + i] = __ffs(x) + __ffsll(a[i]) * 64;
	c[2 * N + i] = __brev(x);
	c[3 * N + i] = __byte_perm(x, y, 0x4512);
	c[4 * N + i] = __funnelshift_l(x, y, i);
	c[5 * N + i] = __umulhi(x, y);
	c[6 * N + i] = (unsigned)__mulhi((int)x, (int)y);
	c[7 * N + i] = (unsigned)(__umul64hi(a[i], ~a[i]) >> 7);
	c[8 * N + i] = (y & 0xff00ff) | (x & ~0xff00ffu);
	c[9 * N + i] = (x >> 5 & 0x3ff) + ((int)y << 8 >> 20);
}

// 128 bits: carries and borrows of the halves.
__global__ void wide(const unsigned long long *a, unsigned long long *c)
{
	int i = threadIdx.x;
	unsigned __int128 x = (unsigned __int128)a[i] * a[i], y = (unsigned __int128)a[i ^ 1] << 40;

	c[i] = (unsigned long long)((x + y) >> 64);
	c[N + i] = (unsigned long long)((x - y) >> 64);
}

static unsigned bits_expected(int row, unsigned long long a, int i)
{
	unsigned x = (unsigned)a, y = (unsigned)(a >> 32), r = 0;

	switch (row) {
	case 0:
		return __builtin_popcount(x) + __builtin_popcountll(a) * 100 +
		       (x ? __builtin_clz(x) : 32) * 7 + (a ? __builtin_clzll(a) : 64) * 11;
	case 1:
		return __builtin_ffs(x) + __builtin_ffsll(a) * 64;
	case 2:
		for (int k = 0; k < 32; k++)
			r |= (x >> k & 1) << (31 - k);
		return r;
	case 3:
		return (x >> 16 & 255) | (x >> 8 & 255) << 8 | (y >> 8 & 255) << 16 |
		       (y & 255) << 24;
	case 4:
		return (unsigned)((a << (i & 31)) >> 32);
	case 5:
		return (unsigned)((unsigned long long)x * y >> 32);
	case 6:
		return (unsigned)((long long)(int)x * (int)y >> 32);
	case 7:
		return (unsigned)((unsigned long long)((unsigned __int128)a * ~a >> 64) >> 7);
	case 8:
		return (y & 0xff00ff) | (x & ~0xff00ffu);
	default:
		return (x >> 5 & 0x3ff) + ((int)y << 8 >> 20);
	}
}

int main()
{
	run<signed char>("signed char");
	run<unsigned char>("unsigned char");
	run<short>("short");
	run<unsigned short>("unsigned short");
	run<int>("int");
	run<unsigned>("unsigned");
	run<long long>("long long");
	run<unsigned long long>("unsigned long long");

	both<unsigned long long> a(N);
	both<unsigned> c(N * 10);
	for (int i = 0; i < N; i++)
		a.host[i] = i ? sample<unsigned long long>(i * 3 + 1) : 0;
	a.up();
	bits<<<1, N>>>(a.gpu, c.gpu);
	c.down();
	check("bits", c, [&](int i) { return bits_expected(i / N, a.host[i % N], i % N); });

	both<unsigned long long> w(N * 2);
	wide<<<1, N>>>(a.gpu, w.gpu);
	w.down();
	check("wide", w, [&](int i) {
		unsigned long long v = a.host[i % N];
		unsigned __int128 x = (unsigned __int128)v * v;
		unsigned __int128 y = (unsigned __int128)a.host[i % N ^ 1] << 40;
		return (unsigned long long)((i < N ? x + y : x - y) >> 64);
	});
	return failures != 0;
}
