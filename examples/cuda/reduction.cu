// SPDX-License-Identifier: BSD-3-Clause
// The sum of a vector: shuffles in a warp, shared memory in a block, an atomic for the grid.
#include <stdio.h>
#include <vector>

static __device__ int warp_sum(int v)
{
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_down_sync(0xffffffffu, v, d);
	return v;
}

__global__ void sum(const int *a, int n, int *result)
{
	__shared__ int part[32];
	int v = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		v += a[i];
	v = warp_sum(v);
	if (lane == 0)
		part[warp] = v;
	__syncthreads();
	if (warp == 0) {
		v = warp_sum(lane < blockDim.x / 32 ? part[lane] : 0);
		if (lane == 0)
			atomicAdd(result, v);
	}
}

int main()
{
	const int n = 20000;
	std::vector<int> a(n);
	int *gpu, *result, got = 0, want = 0;

	for (int i = 0; i < n; i++)
		want += a[i] = i % 23;
	cudaMalloc(&gpu, n * sizeof(int));
	cudaMalloc(&result, sizeof(int));
	cudaMemset(result, 0, sizeof(int));
	cudaMemcpy(gpu, a.data(), n * sizeof(int), cudaMemcpyHostToDevice);
	sum<<<8, 256>>>(gpu, n, result);
	cudaError_t rc = cudaMemcpy(&got, result, sizeof(int), cudaMemcpyDeviceToHost);
	cudaFree(gpu);
	cudaFree(result);
	printf("sum: %s, %d, expected %d\n", cudaGetErrorString(rc), got, want);
	return rc || got != want;
}
