// SPDX-License-Identifier: BSD-3-Clause
// Vector add, as in any first lesson.
#include "source.h"

__global__ void vadd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	const int n = 1000;
	both<float> a(n), b(n), c(n);

	for (int i = 0; i < n; i++) {
		a.host[i] = i;
		b.host[i] = 2 * i;
	}
	a.up();
	b.up();
	vadd<<<(n + 255) / 256, 256>>>(a.gpu, b.gpu, c.gpu, n);
	NEED(cudaGetLastError());
	c.down();
	check("vadd", c, [](int i) { return 3.0f * i; });
	return failures != 0;
}
