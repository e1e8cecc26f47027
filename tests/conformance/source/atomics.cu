// SPDX-License-Identifier: BSD-3-Clause
// Atomics of all operations and widths, in global and in shared memory; flags between blocks.
#include "source.h"

enum { BLOCKS = 4, N = 64, ALL = BLOCKS * N };

__global__ void global(int *i32, unsigned *u32, unsigned long long *u64, float *f32, double *f64)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	atomicAdd(&i32[0], i);
	atomicMin(&i32[1], -i);
	atomicMax(&i32[2], i);
	atomicOr(&i32[3], 1 << i % 31);
	atomicXor(&i32[4], i);
	atomicAnd(&i32[5], ~(i & 0xff0));
	atomicSub(&i32[6], 2);
	atomicInc(&u32[0], 99);
	atomicDec(&u32[1], 99);
	atomicMax(&u32[2], 0x80000000u + i);
	atomicMin(&u32[3], 5u + i);
	atomicAdd_system(&u64[0], 1ull << 33);
	atomicMax(&u64[1], (unsigned long long)i << 40);
	atomicAdd(&f32[0], 0.5f);
	atomicAdd(&f64[0], 0.25);
	for (unsigned long long old = u64[2], seen;; old = seen) { // a product by compare and swap
		seen = atomicCAS(&u64[2], old, old + 3);
		if (seen == old)
			break;
	}
}

__global__ void shared(int *c)
{
	__shared__ int bin[8];
	int i = threadIdx.x;

	if (i < 8)
		bin[i] = 0;
	__syncthreads();
	atomicAdd(&bin[i * i % 8], 1);
	__syncthreads();
	if (i < 8)
		atomicAdd(&c[i], bin[i]);
}

// Block b waits for the flag of block b - 1, and adds to its value.
__global__ void chain(volatile int *value, unsigned *flag)
{
	int b = blockIdx.x;

	if (threadIdx.x)
		return;
	if (b)
		while (atomicAdd(&flag[b - 1], 0) == 0)
			;
	__threadfence();
	value[b] = (b ? value[b - 1] : 0) + b + 1;
	__threadfence();
	atomicExch(&flag[b], 1u);
}

int main()
{
	both<int> i32(7), bins(8), value(BLOCKS);
	both<unsigned> u32(4), flag(BLOCKS);
	both<unsigned long long> u64(3);
	both<float> f32(1);
	both<double> f64(1);

	i32.host[5] = -1;
	u32.host[3] = ~0u;
	i32.up();
	u32.up();
	global<<<BLOCKS, N>>>(i32.gpu, u32.gpu, u64.gpu, f32.gpu, f64.gpu);
	i32.down();
	u32.down();
	u64.down();
	f32.down();
	f64.down();
	const int want[] = {
		ALL * (ALL - 1) / 2, -(ALL - 1), ALL - 1, 0x7fffffff, 0, ~0xf0, -2 * ALL};
	const unsigned uwant[] = {ALL % 100, (100 * 10 - ALL) % 100, 0x80000000u + ALL - 1, 5};
	const unsigned long long lwant[] = {(1ull << 33) * ALL, (ALL - 1ull) << 40, 3ull * ALL};
	check("atomics of int", i32, [&](int i) { return want[i]; });
	check("atomics of unsigned", u32, [&](int i) { return uwant[i]; });
	check("atomics of 64 bits", u64, [&](int i) { return lwant[i]; });
	check("atomics of float", f32, [](int) { return 0.5f * ALL; });
	check("atomics of double", f64, [](int) { return 0.25 * ALL; });
	shared<<<BLOCKS, N>>>(bins.gpu);
	bins.down();
	check("atomics in shared memory", bins, [](int i) {
		int n = 0;
		for (int k = 0; k < N; k++)
			n += k * k % 8 == i;
		return n * BLOCKS;
	});
	chain<<<BLOCKS, 32>>>(value.gpu, flag.gpu);
	value.down();
	check("flags", value, [](int i) { return (i + 1) * (i + 2) / 2; });
	return failures != 0;
}
