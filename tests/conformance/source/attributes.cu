// SPDX-License-Identifier: BSD-3-Clause
// Launches by the driver's handle of a kernel: a short buffer of parameters, static and dynamic
// shared memory, an instruction that the kernel does not reach.
#include <cuda.h>

#include "source.h"

struct parameters {
	int *out;
	int value, rest[100];
};

__global__ void tall(parameters p)
{
	__shared__ int fixed[4096];
	extern __shared__ int more[];
	unsigned int n;

	asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(n));
	fixed[threadIdx.x] = p.value;
	more[n / 4 - 1] = 7;
	if (!p.out) // not implemented, and not reached
		asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(p.out));
	p.out[0] = fixed[threadIdx.x] + more[n / 4 - 1];
}

// Launches with the first 12 bytes of the parameters.
static CUresult launch(CUfunction f, parameters *p, unsigned int shared)
{
	size_t bytes = 12;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};

	return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, shared, 0, NULL, extra);
}

int main()
{
	both<int> out(1);
	both<int> codes(6);
	cudaFuncAttributes a;
	cudaFunction_t f;
	parameters p = {out.gpu, 35, {}};

	NEED(cudaFuncGetAttributes(&a, tall));
	NEED(cudaGetFuncBySymbol(&f, (const void *)tall));
	failures += a.sharedSizeBytes != 16384 || a.maxDynamicSharedSizeBytes != 32768;
	codes.host[0] = launch(f, &p, 32768);
	codes.host[1] = launch(f, &p, 32769);
	// 227 KiB are for both kinds together
	codes.host[2] = cudaFuncSetAttribute(tall, cudaFuncAttributeMaxDynamicSharedMemorySize,
					     (227 << 10) - 16384 + 1);
	codes.host[3] = cudaFuncSetAttribute(tall, cudaFuncAttributeMaxDynamicSharedMemorySize,
					     (227 << 10) - 16384);
	codes.host[4] = launch(f, &p, (227 << 10) - 16384);
	codes.host[5] = cudaGetFuncBySymbol(&f, &p);
	out.down();
	check("short buffer", out, [](int) { return 42; });
	const int expected[] = {0, 1, 1, 0, 0, cudaErrorInvalidDeviceFunction};
	check("shared memory, handles", codes, [&](int i) { return expected[i]; });
	return failures != 0;
}
