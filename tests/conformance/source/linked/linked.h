/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations of main.cu and part.cu. */
#ifndef TESTS_CONFORMANCE_SOURCE_LINKED_H
#define TESTS_CONFORMANCE_SOURCE_LINKED_H

typedef int (*operation)(int);
struct words {
	int at[8];
};

extern __device__ int factor_of_all;
extern __shared__ int block_word;
extern __shared__ struct words block_words;
extern __device__ const operation table[];

__device__ int twice(int x);
__device__ int add_seven(int x);
__device__ int times_factor(int x);
__device__ int part_hidden(int x);
__device__ int read_block_word();
__device__ int part_inline(int x);

/* Both files have this function and its counter; one of each counts. */
template <class T> __device__ T inline_counter;
__device__ inline int shared_inline(int x)
{
	return x + inline_counter<int>++;
}

/* host.cc, which another compiler than clang compiles, has the kernel's address. */
__global__ void part_kernel(int *out);
extern const void *const host_kernels[1];

void part_run(int *out);
int part_factor();

#endif
