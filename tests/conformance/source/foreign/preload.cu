// SPDX-License-Identifier: BSD-3-Clause
// Has a variable that a preloaded library needs.
#include <stdio.h>
extern "C" {
int of_the_program = 5;
}
__global__ void five(int *p)
{
	*p = 5;
}
int main()
{
	int *p, got = 0;
	cudaMalloc(&p, 4);
	five<<<1, 1>>>(p);
	cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost);
	cudaFree(p);
	printf("%d\n", got);
}
