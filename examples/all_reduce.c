/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums a buffer over GPUs:   all_reduce BYTES GPU...      docs/using.md */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

static void cuda(cudaError_t e, const char *call)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(e));
	exit(1);
}

static void nccl(ncclResult_t e, const char *call)
{
	if (e == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(e));
	exit(1);
}

int main(int argc, char **argv)
{
	size_t count = argc > 2 ? strtoull(argv[1], NULL, 0) / sizeof(float) : 0, wrong = 0;
	int n = argc - 2, gpu[16];
	ncclComm_t comm[16];
	cudaStream_t stream[16];
	float *data[16], *host = malloc(count * sizeof *host);

	if (!count || n > 16 || !host) {
		fprintf(stderr, "usage: all_reduce BYTES GPU... (1 to 16 GPUs)\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		cuda(cudaSetDevice(gpu[i] = atoi(argv[2 + i])), "cudaSetDevice");
		cuda(cudaStreamCreate(&stream[i]), "cudaStreamCreate");
		cuda(cudaMalloc((void **)&data[i], count * sizeof *host), "cudaMalloc");
		for (size_t k = 0; k < count; k++)
			host[k] = (float)(i + 1);
		cuda(cudaMemcpy(data[i], host, count * sizeof *host, cudaMemcpyHostToDevice),
		     "cudaMemcpy");
	}
	nccl(ncclCommInitAll(comm, n, gpu), "ncclCommInitAll");
	nccl(ncclGroupStart(), "ncclGroupStart");
	for (int i = 0; i < n; i++)
		nccl(ncclAllReduce(data[i], data[i], count, ncclFloat, ncclSum, comm[i], stream[i]),
		     "ncclAllReduce");
	nccl(ncclGroupEnd(), "ncclGroupEnd");
	for (int i = 0; i < n; i++) {
		cuda(cudaSetDevice(gpu[i]), "cudaSetDevice");
		cuda(cudaStreamSynchronize(stream[i]), "cudaStreamSynchronize");
		cuda(cudaMemcpy(host, data[i], count * sizeof *host, cudaMemcpyDeviceToHost),
		     "cudaMemcpy");
		for (size_t k = 0; k < count; k++)
			wrong += host[k] != (float)(n * (n + 1) / 2);
		nccl(ncclCommDestroy(comm[i]), "ncclCommDestroy");
		cuda(cudaFree(data[i]), "cudaFree");
		cuda(cudaStreamDestroy(stream[i]), "cudaStreamDestroy");
	}
	printf("%d GPUs, %zu floats each, %zu wrong\n", n, count, wrong);
	free(host);
	return wrong != 0;
}
