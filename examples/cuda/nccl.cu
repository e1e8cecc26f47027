// SPDX-License-Identifier: BSD-3-Clause
// Kernels of one's own around an all-reduce of the stack:
// doppel cc nccl.cu -lnccl -o nccl && doppel exec ./nccl
#include <nccl.h>
#include <stdio.h>

enum { GPUS = 2, COUNT = 1000, THREADS = 256, BLOCKS = 4 };

__global__ void fill(float *p, float value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < COUNT)
		p[i] = value;
}

__global__ void count_wrong(const float *p, float expected, int *wrong)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < COUNT && p[i] != expected)
		atomicAdd(wrong, 1);
}

struct gpu {
	ncclComm_t comm;
	cudaStream_t stream;
	float *data;
	int *wrong;
};

int main()
{
	const int devices[GPUS] = {0, 1};
	ncclComm_t comm[GPUS];
	gpu all[GPUS];
	int total = 0;

	if (ncclCommInitAll(comm, GPUS, devices))
		return 1;
	for (int g = 0; g < GPUS; g++) {
		cudaSetDevice(g);
		all[g].comm = comm[g];
		cudaStreamCreate(&all[g].stream);
		cudaMalloc(&all[g].data, COUNT * sizeof(float));
		cudaMalloc(&all[g].wrong, sizeof(int));
		cudaMemset(all[g].wrong, 0, sizeof(int));
		cudaDeviceSynchronize();
		fill<<<BLOCKS, THREADS, 0, all[g].stream>>>(all[g].data, g + 1);
	}
	ncclGroupStart();
	for (gpu &g : all)
		ncclAllReduce(g.data, g.data, COUNT, ncclFloat, ncclSum, g.comm, g.stream);
	ncclGroupEnd();
	for (int g = 0; g < GPUS; g++) {
		int wrong = -1;
		cudaSetDevice(g);
		count_wrong<<<BLOCKS, THREADS, 0, all[g].stream>>>(all[g].data, 3, all[g].wrong);
		cudaStreamSynchronize(all[g].stream);
		cudaMemcpy(&wrong, all[g].wrong, sizeof wrong, cudaMemcpyDeviceToHost);
		total += wrong;
	}
	for (gpu &g : all) {
		ncclCommDestroy(g.comm);
		cudaStreamDestroy(g.stream);
		cudaFree(g.data);
		cudaFree(g.wrong);
	}
	printf("all-reduce of the stack: %d wrong\n", total);
	return total != 0;
}
