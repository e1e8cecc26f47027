// SPDX-License-Identifier: BSD-3-Clause
// An all-reduce over a ring of GPUs of one process. Each kernel writes chunks into the memory of
// the next GPU and shows them by a flag there. Without the fence the flag may be seen before the
// data.
#include <stdio.h>
#include <vector>

enum { GPUS = 4, CHUNK = 64, COUNT = GPUS * CHUNK, STEPS = 2 * (GPUS - 1) };

struct inbox {
	int data[STEPS][CHUNK];
	unsigned filled[STEPS];
};

static __device__ int chunk_of(int rank, int step)
{
	return (rank - step + 2 * GPUS) % GPUS;
}

// The first half of the steps reduces, the second half passes results on.
__global__ void all_reduce(int rank, int *buffer, inbox *mine, inbox *next)
{
	int i = threadIdx.x;

	for (int step = 0; step < STEPS; step++) {
		next->data[step][i] = buffer[chunk_of(rank, step) * CHUNK + i];
		__threadfence_system();
		__syncthreads();
		if (i == 0) {
			atomicExch_system(&next->filled[step], 1u);
			while (!*(volatile unsigned *)&mine->filled[step])
				;
			__threadfence_system();
		}
		__syncthreads();
		int *to = &buffer[chunk_of(rank, step + 1) * CHUNK + i];
		int got = mine->data[step][i];
		*to = step < GPUS - 1 ? *to + got : got;
	}
}

int main()
{
	int *buffer[GPUS], bad = 0;
	inbox *in[GPUS];
	std::vector<int> host(COUNT);
	int gpus = 0;

	cudaGetDeviceCount(&gpus);
	if (gpus < GPUS) {
		printf("%d GPUs; expected %d\n", gpus, GPUS);
		return 1;
	}
	for (int g = 0; g < GPUS; g++) {
		cudaSetDevice(g);
		for (int p = 0; p < GPUS; p++)
			if (p != g)
				cudaDeviceEnablePeerAccess(p, 0);
		for (int i = 0; i < COUNT; i++)
			host[i] = i + 1000 * g;
		cudaMalloc(&buffer[g], COUNT * sizeof(int));
		cudaMalloc(&in[g], sizeof(inbox));
		cudaMemset(in[g], 0, sizeof(inbox));
		cudaMemcpy(buffer[g], host.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice);
		cudaDeviceSynchronize();
	}
	for (int g = 0; g < GPUS; g++) {
		cudaSetDevice(g);
		all_reduce<<<1, CHUNK>>>(g, buffer[g], in[g], in[(g + 1) % GPUS]);
	}
	for (int g = 0; g < GPUS; g++) {
		cudaSetDevice(g);
		cudaError_t rc = cudaMemcpy(host.data(), buffer[g], COUNT * sizeof(int),
					    cudaMemcpyDeviceToHost);
		if (rc)
			printf("gpu %d: %s\n", g, cudaGetErrorString(rc));
		for (int i = 0; i < COUNT; i++)
			bad += host[i] != GPUS * i + 1000 * (GPUS * (GPUS - 1) / 2);
	}
	for (int g = 0; g < GPUS; g++) {
		cudaFree(buffer[g]);
		cudaFree(in[g]);
	}
	printf("all-reduce over %d GPUs: %d wrong\n", GPUS, bad);
	return bad != 0;
}
