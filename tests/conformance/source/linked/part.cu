// SPDX-License-Identifier: BSD-3-Clause
// The other file of main.cu.
#include "../source.h"
#include "linked.h"

__device__ int factor_of_all = 1;
__shared__ int block_word;
__shared__ struct words block_words;

static __device__ int own = 100;
static __device__ __noinline__ int hidden(int x)
{
	return x + own;
}

__device__ int part_hidden(int x)
{
	return hidden(x);
}
__device__ int add_seven(int x)
{
	return x + 7;
}
__device__ int times_factor(int x)
{
	return x * factor_of_all;
}
__device__ int read_block_word()
{
	block_words.at[3] = 43;
	return twice(block_word + 2) / 2;
}
__device__ int part_inline(int x)
{
	return shared_inline(x);
}

__global__ void part_kernel(int *out)
{
	*out = twice(617);
}

void part_run(int *out)
{
	void *args[] = {&out};

	NEED(cudaLaunchKernel(host_kernels[0], 1, 1, args, 0, 0));
}

int part_factor()
{
	int f;

	NEED(cudaMemcpyFromSymbol(&f, factor_of_all, sizeof f));
	return f;
}
