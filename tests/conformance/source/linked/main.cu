// SPDX-License-Identifier: BSD-3-Clause
// Relocatable device code: this file declares what part.cu defines, and the reverse.
#include "../source.h"
#include "linked.h"

__device__ int twice(int x)
{
	return 2 * x;
}

// The same name as in part.cu; both are the file's own.
static __device__ int own = 5;
static __device__ __noinline__ int hidden(int x)
{
	return x + own;
}

__device__ const operation table[] = {add_seven, times_factor, twice};

__global__ void calls(int *out)
{
	block_word = 40 + threadIdx.x;
	for (int i = 0; i < 3; i++)
		out[i] = table[i](10 + i);
	out[3] = hidden(1);
	out[4] = part_hidden(1);
	out[5] = read_block_word();
	out[6] = shared_inline(4);
	out[7] = part_inline(4);
	out[8] = block_words.at[3];
}

int main()
{
	const int expected[] = {17, 33, 24, 6, 101, 42, 4, 5, 43};
	both<int> out(9);
	int factor = 3, seen = 0;

	NEED(cudaMemcpyToSymbol(factor_of_all, &factor, sizeof factor));
	calls<<<1, 1>>>(out.gpu);
	NEED(cudaGetLastError());
	out.down();
	check("linked", out, [&](int i) { return expected[i]; });
	// a kernel of the other file, and its variable as that file's host code sees it
	part_run(out.gpu);
	out.down();
	check("kernel of the other file", out, [&](int i) { return i == 0 ? 1234 : expected[i]; });
	NEED(cudaMemcpyFromSymbol(&seen, factor_of_all, sizeof seen));
	failures += seen != part_factor() || seen != 3;
	return failures != 0;
}
