// SPDX-License-Identifier: BSD-3-Clause
// Vector loads and stores, shared memory (static and of the launch), local arrays, constants,
// variables of the device, structures as parameters, three dimensions, functions of string.h.
#include <cstring>

#include "source.h"

enum { N = 64 };

__constant__ float weights[4] = {0.5f, 1, 2, 4};
__constant__ int offset;
__device__ int counters[N];
__device__ int *pointer = &counters[3];

__global__ void vectors(const float4 *a, const uchar4 *b, float4 *c, short2 *d, double2 *e)
{
	int i = threadIdx.x;
	float4 v = a[i];
	uchar4 u = b[i];

	c[i] = make_float4(v.w, v.z, v.y, v.x);
	d[i] = make_short2((short)(u.x + u.y), (short)(u.z - u.w));
	e[i] = make_double2(v.x, u.w);
}

// The values of the block in reverse, twice: over static memory and that of the launch.
__global__ void reverse(const int *a, int *c)
{
	__shared__ int fixed[N];
	extern __shared__ int given[];
	int i = threadIdx.x;

	fixed[i] = a[i];
	__syncthreads();
	given[i] = fixed[N - 1 - i] * 2;
	__syncthreads();
	c[i] = given[N - 1 - i] + fixed[i];
}

struct matrix {
	int row[5];
	double scale;
	char name;
};

__global__ void locals(matrix m, int *c, int n)
{
	int i = threadIdx.x, part[16];

	for (int k = 0; k < 16; k++)
		part[k] = k * i + m.row[k % 5];
	int sum = 0;
	for (int k = 0; k < n; k++)
		sum += part[(k * 7 + i) % 16];
	c[i] = sum + (int)(m.scale * 2) + m.name;
}

static int locals_expected(const matrix &m, int i, int n)
{
	int sum = 0;

	for (int k = 0; k < n; k++) {
		int at = (k * 7 + i) % 16;
		sum += at * i + m.row[at % 5];
	}
	return sum + (int)(m.scale * 2) + m.name;
}

__global__ void constants(float *c)
{
	int i = threadIdx.x;

	c[i] = weights[i % 4] * i + offset;
	atomicAdd(&counters[i], i);
	if (i == 0)
		*pointer = *pointer + 100;
}

__global__ void dimensions(unsigned *c)
{
	unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;

	c[block * (blockDim.x * blockDim.y * blockDim.z) + thread] =
		blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x +
		10000 * threadIdx.y + 100000 * threadIdx.z;
}

// memcpy and memset of any size and alignment, on global, shared and local memory, sizes that the
// compiler knows, and a name of the namespace std.
__global__ void bytes(const unsigned char *a, unsigned char *c, int n)
{
	__shared__ unsigned char whole[3 * N];
	unsigned char mine[N];
	const int i = threadIdx.x;
	float one = 1;
	unsigned bits;

	memset(mine, 9, sizeof mine);
	memcpy(mine, a + i, n);
	memset(whole + 3 * i, i, 3);
	__syncthreads();
	if (i == 0)
		memcpy(c + 1, whole, 3 * N - 1);
	std::memcpy(&bits, &one, sizeof bits);
	c[3 * N + i] = mine[i];
	c[4 * N + i] = bits == 0x3f800000;
}

static int bytes_expected(int i)
{
	if (i >= 4 * N)
		return 1;
	if (i >= 3 * N)
		return i - 3 * N < 37 ? 2 * (i - 3 * N) * 5 % 251 : 9;
	return i ? (i - 1) / 3 : 0;
}

static void run_bytes()
{
	both<unsigned char> a(2 * N), c(5 * N);

	for (int i = 0; i < 2 * N; i++)
		a.host[i] = i * 5 % 251;
	a.up();
	bytes<<<1, N>>>(a.gpu, c.gpu, 37);
	c.down();
	check("bytes", c, bytes_expected);
}

static void run_vectors()
{
	both<float4> a(N), c(N);
	both<uchar4> b(N);
	both<short2> d(N);
	both<double2> e(N);
	both<int> bad(1);

	for (int i = 0; i < N; i++) {
		a.host[i] = make_float4(i, i + 0.5f, -i, 3);
		b.host[i] = make_uchar4(i, 2 * i, 255 - i, 7);
	}
	a.up();
	b.up();
	vectors<<<1, N>>>(a.gpu, b.gpu, c.gpu, d.gpu, e.gpu);
	c.down();
	d.down();
	e.down();
	for (int i = 0; i < N; i++)
		bad.host[0] += c.host[i].x != 3 || c.host[i].y != -i || c.host[i].z != i + 0.5f ||
			       c.host[i].w != i || d.host[i].x != 3 * i || d.host[i].y != 248 - i ||
			       e.host[i].x != i || e.host[i].y != 7;
	check("vectors", bad, [](int) { return 0; });
}

static void run_variables()
{
	both<float> c(N);
	both<int> count(N);
	int five = 5;
	size_t bytes;

	NEED(cudaMemcpyToSymbol(offset, &five, sizeof five));
	constants<<<1, N>>>(c.gpu);
	c.down();
	check("constants", c, [](int i) { return (float[]){0.5f, 1, 2, 4}[i % 4] * i + 5; });
	NEED(cudaMemcpyFromSymbol(count.host, counters, sizeof counters));
	NEED(cudaGetSymbolSize(&bytes, counters));
	check("variables", count, [](int i) { return i == 3 ? 103 : i; });
	failures += bytes != sizeof counters;
}

int main()
{
	both<int> a(N), c(N);
	const matrix m = {{1, 2, 3, 4, 5}, 2.5, 'x'};
	both<unsigned> u(2 * 3 * 2 * 4 * 2 * 3);

	run_vectors();
	for (int i = 0; i < N; i++)
		a.host[i] = i * i;
	a.up();
	reverse<<<1, N, N * sizeof(int)>>>(a.gpu, c.gpu);
	c.down();
	check("shared", c, [&](int i) { return 3 * a.host[i]; });
	locals<<<1, N>>>(m, c.gpu, 20);
	c.down();
	check("locals", c, [&](int i) { return locals_expected(m, i, 20); });
	run_variables();
	run_bytes();
	dimensions<<<dim3(2, 3, 2), dim3(4, 2, 3)>>>(u.gpu);
	u.down();
	check("dimensions", u, [](int i) {
		unsigned t = i % 24, b = i / 24;
		return b % 2 + 10 * (b / 2 % 3) + 100 * (b / 6) + 1000 * (t % 4) +
		       10000 * (t / 4 % 2) + 100000 * (t / 8);
	});
	return failures != 0;
}
