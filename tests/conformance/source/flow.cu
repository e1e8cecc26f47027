// SPDX-License-Identifier: BSD-3-Clause
// Divergence, loops, calls, recursion, pointers to functions, templates, lambdas, inline PTX,
// printf.
#include "source.h"

enum { N = 64 };

__global__ void collatz(int *c)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;

	for (int x = i + 1; x != 1; steps++)
		x = x % 2 ? 3 * x + 1 : x / 2;
	c[i] = steps;
}

static __device__ __noinline__ int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static __device__ __noinline__ int twice(int x)
{
	return 2 * x;
}
static __device__ __noinline__ int square(int x)
{
	return x * x;
}

__global__ void calls(int *c)
{
	int i = threadIdx.x;
	int (*f)(int) = i % 2 ? twice : square;

	c[i] = fibonacci(i % 10) + f(i);
}

static __host__ __device__ int fib(int n)
{
	int a = 0, b = 1;

	for (int i = 0; i < n; i++) {
		int t = a + b;
		a = b;
		b = t;
	}
	return a;
}

template <class T, int K> __global__ void scale(T *c, T by)
{
	T v = c[threadIdx.x];
#pragma unroll
	for (int k = 0; k < K; k++)
		v = v * by + (T)k;
	c[threadIdx.x] = v;
}

template <class F> __global__ void apply(F f, int *c)
{
	c[threadIdx.x] = f((int)threadIdx.x);
}

__global__ void inline_ptx(unsigned *c)
{
	unsigned lane, r;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm("{ .reg .pred p; .reg .b32 t;\n\t"
	    "setp.gt.u32 p, %1, 15;\n\t"
	    "mov.u32 t, 7;\n\t"
	    "@p add.u32 t, t, %1;\n\t"
	    "lop3.b32 %0, t, %1, 255, 0x96; }"
	    : "=r"(r)
	    : "r"(lane));
	c[threadIdx.x] = r;
}

// A thread that returns early does not hold the barrier of the others.
__global__ void early(int *c)
{
	__shared__ int sum;
	int i = threadIdx.x;

	if (i == 0)
		sum = 0;
	__syncthreads();
	if (i >= 40)
		return;
	atomicAdd(&sum, i);
	__syncthreads();
	c[i] = sum;
}

__global__ void print(int n)
{
	if (threadIdx.x == 1)
		printf("printf %d %5.2f %s %c %llu%%\n", n, n * 0.5, "text", 'x', 1ull << 40);
}

int main()
{
	both<int> c(N);
	both<unsigned> u(N);
	both<long long> w(N);
	int by = 3;

	collatz<<<2, N / 2>>>(c.gpu);
	c.down();
	check("collatz", c, [](int i) {
		int steps = 0;
		for (int x = i + 1; x != 1; steps++)
			x = x % 2 ? 3 * x + 1 : x / 2;
		return steps;
	});
	calls<<<1, N>>>(c.gpu);
	c.down();
	check("calls", c, [](int i) { return fib(i % 10) + (i % 2 ? 2 * i : i * i); });
	for (int i = 0; i < N; i++)
		w.host[i] = i;
	w.up();
	scale<long long, 3><<<1, N>>>(w.gpu, 10ll);
	w.down();
	check("template", w, [](int i) { return i * 1000ll + 12; });
	apply<<<1, N>>>([by] __device__(int i) { return i * by + 1; }, c.gpu);
	c.down();
	check("lambda", c, [](int i) { return 3 * i + 1; });
	inline_ptx<<<1, N>>>(u.gpu);
	u.down();
	check("inline ptx", u, [](int i) {
		unsigned lane = i & 31, t = lane > 15 ? 7 + lane : 7;
		return t ^ lane ^ 255u;
	});
	early<<<1, N>>>(c.gpu);
	c.down();
	check("early return", c, [](int i) { return i < 40 ? 780 : 3 * i + 1; });
	print<<<1, 32>>>(42);
	NEED(cudaDeviceSynchronize());
	return failures != 0;
}
