/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums a buffer over GPUs:   all_reduce BYTES GPU...      docs/using.md */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if a call of `cuda` or `nccl` fails. */
#define OK(kind, call)                                                                             \
	for (int e = (int)(call); e; exit(1))                                                      \
	fprintf(stderr, "%s: %s\n", #call, kind##GetErrorString(e))

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoull(argv[1], NULL, 0) / sizeof(float) : 0, wrong = 0;
	int gpus = argc - 2, gpu[16];
	ncclComm_t comm[16];
	cudaStream_t queue[16];
	float *sum[16], *host = malloc(n * sizeof *host);

	if (!n || gpus > 16 || !host)
		return fprintf(stderr, "usage: all_reduce BYTES GPU... (1 to 16 GPUs)\n"), 2;
	for (int i = 0; i < gpus; i++) {
		OK(cuda, cudaSetDevice(gpu[i] = atoi(argv[2 + i])));
		OK(cuda, cudaStreamCreate(&queue[i]));
		OK(cuda, cudaMalloc((void **)&sum[i], n * sizeof *host));
		for (size_t k = 0; k < n; k++)
			host[k] = (float)(i + 1);
		OK(cuda, cudaMemcpy(sum[i], host, n * sizeof *host, cudaMemcpyHostToDevice));
	}
	OK(nccl, ncclCommInitAll(comm, gpus, gpu));
	OK(nccl, ncclGroupStart());
	for (int i = 0; i < gpus; i++)
		OK(nccl, ncclAllReduce(sum[i], sum[i], n, ncclFloat, ncclSum, comm[i], queue[i]));
	OK(nccl, ncclGroupEnd());
	for (int i = 0; i < gpus; i++) {
		OK(cuda, cudaStreamSynchronize(queue[i]));
		OK(cuda, cudaMemcpy(host, sum[i], n * sizeof *host, cudaMemcpyDeviceToHost));
		for (size_t k = 0; k < n; k++)
			wrong += host[k] != (float)(gpus * (gpus + 1) / 2);
		OK(nccl, ncclCommDestroy(comm[i]));
		OK(cuda, cudaFree(sum[i]));
		OK(cuda, cudaStreamDestroy(queue[i]));
	}
	return printf("%d GPUs, %zu floats each, %zu wrong\n", gpus, n, wrong) < 0 || wrong != 0;
}
