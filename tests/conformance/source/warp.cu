// SPDX-License-Identifier: BSD-3-Clause
// Shuffles, votes, matches, reductions of a warp; parts of a warp; barriers that count.
#include "source.h"

enum { N = 64 };

__global__ void shuffles(const int *a, int *c, double *d)
{
	int i = threadIdx.x;
	unsigned all = 0xffffffffu;

	c[i] = __shfl_sync(all, a[i], (i * 5) & 31);
	c[N + i] = __shfl_up_sync(all, a[i], 3);
	c[2 * N + i] = __shfl_down_sync(all, a[i], 5);
	c[3 * N + i] = __shfl_xor_sync(all, a[i], 6);
	c[4 * N + i] = __shfl_sync(all, a[i], 2, 8);
	c[5 * N + i] = __shfl_up_sync(all, a[i], 1, 4);
	d[i] = __shfl_xor_sync(all, a[i] * 0.5, 1);
}

static int shuffles_expected(const int *a, int row, int i)
{
	int lane = i & 31, base = i & ~31;

	switch (row) {
	case 0:
		return a[base + ((i * 5) & 31)];
	case 1:
		return lane < 3 ? a[i] : a[i - 3];
	case 2:
		return lane + 5 > 31 ? a[i] : a[i + 5];
	case 3:
		return a[i ^ 6];
	case 4:
		return a[(i & ~7) + 2];
	default:
		return i & 3 ? a[i - 1] : a[i];
	}
}

__global__ void votes(const int *a, unsigned *c)
{
	int i = threadIdx.x;
	unsigned all = 0xffffffffu;

	c[i] = __ballot_sync(all, a[i] & 1);
	c[N + i] = __any_sync(all, a[i] == 1000 + 40) + 2 * __all_sync(all, a[i] >= 1000);
	c[2 * N + i] = __match_any_sync(all, a[i] % 5);
	c[3 * N + i] = __reduce_add_sync(all, (unsigned)a[i]);
	c[4 * N + i] = __reduce_max_sync(all, (unsigned)a[i]);
	if (i & 1) // the odd lanes meet by themselves
		c[5 * N + i] = __ballot_sync(0xaaaaaaaau, a[i] % 3 == 0);
	else
		c[5 * N + i] = (unsigned)__shfl_xor_sync(0x55555555u, a[i], 2);
	c[6 * N + i] = (unsigned)__syncthreads_count(a[i] & 1);
	c[7 * N + i] =
		(unsigned)(__syncthreads_and(a[i] < 1063) + 2 * __syncthreads_or(a[i] > 1062));
}

static unsigned votes_expected(const int *a, int row, int i)
{
	unsigned r = 0;
	int base = i & ~31;

	for (int k = 0; k < 32; k++) {
		int v = a[base + k];
		switch (row) {
		case 0:
			r |= (unsigned)(v & 1) << k;
			break;
		case 1:
			r |= (unsigned)(v == 1040) | 2;
			break;
		case 2:
			r |= (unsigned)(v % 5 == a[i] % 5) << k;
			break;
		case 3:
			r += (unsigned)v;
			break;
		case 4:
			r = (unsigned)v > r ? (unsigned)v : r;
			break;
		case 5:
			r |= (unsigned)(k & 1 && v % 3 == 0) << k;
			break;
		case 6:
			r = N / 2;
			break;
		default:
			r = 2;
		}
	}
	return row == 5 && !(i & 1) ? (unsigned)a[i ^ 2] : r;
}

// Sum of a block: shuffles, then shared memory.
__global__ void reduce(const float *a, float *sum, int n)
{
	__shared__ float part[32];
	float v = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		v += a[i];
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_down_sync(0xffffffffu, v, d);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	if (threadIdx.x < 32) {
		v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
		for (int d = 16; d > 0; d /= 2)
			v += __shfl_down_sync(0xffffffffu, v, d);
		if (threadIdx.x == 0)
			atomicAdd(sum, v);
	}
}

int main()
{
	both<int> a(N), c(N * 6);
	both<double> d(N);
	both<unsigned> u(N * 8);

	for (int i = 0; i < N; i++)
		a.host[i] = 1000 + i;
	a.up();
	shuffles<<<1, N>>>(a.gpu, c.gpu, d.gpu);
	c.down();
	d.down();
	check("shuffles", c, [&](int i) { return shuffles_expected(a.host, i / N, i % N); });
	check("shuffle of double", d, [&](int i) { return a.host[i ^ 1] * 0.5; });
	votes<<<1, N>>>(a.gpu, u.gpu);
	u.down();
	check("votes", u, [&](int i) { return votes_expected(a.host, i / N, i % N); });

	both<float> f(5000), sum(1);
	for (int i = 0; i < f.n; i++)
		f.host[i] = i % 17;
	f.up();
	reduce<<<4, 128>>>(f.gpu, sum.gpu, f.n);
	sum.down();
	float want = 0;
	for (int i = 0; i < f.n; i++)
		want += f.host[i];
	check("reduce", sum, [&](int) { return want; });
	return failures != 0;
}
