// SPDX-License-Identifier: BSD-3-Clause
// Vector add: doppel cc vadd.cu -o vadd && doppel exec ./vadd
#include <stdio.h>
#include <vector>

__global__ void vadd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	const int n = 10000;
	std::vector<float> a(n, 1.5f), b(n, 2.0f), c(n);
	float *gpu[3];

	for (float *&p : gpu)
		cudaMalloc(&p, n * sizeof(float));
	cudaMemcpy(gpu[0], a.data(), n * sizeof(float), cudaMemcpyHostToDevice);
	cudaMemcpy(gpu[1], b.data(), n * sizeof(float), cudaMemcpyHostToDevice);
	vadd<<<(n + 255) / 256, 256>>>(gpu[0], gpu[1], gpu[2], n);
	cudaError_t rc = cudaMemcpy(c.data(), gpu[2], n * sizeof(float), cudaMemcpyDeviceToHost);
	int bad = 0;
	for (float x : c)
		bad += x != 3.5f;
	for (float *p : gpu)
		cudaFree(p);
	printf("vadd of %d: %s, %d wrong\n", n, cudaGetErrorString(rc), bad);
	return rc || bad;
}
