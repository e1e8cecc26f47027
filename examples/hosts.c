/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums a buffer over processes, each with GPUS GPUs of its host:   hosts BYTES GPUS */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks, local; /* rank of this process, number of processes, rank on its host */

static void cuda(cudaError_t e, const char *call)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "process %d: %s: %s\n", rank, call, cudaGetErrorString(e));
	exit(1);
}

static void nccl(ncclResult_t e, const char *call)
{
	if (e == ncclSuccess)
		return;
	fprintf(stderr, "process %d: %s: %s\n", rank, call, ncclGetErrorString(e));
	exit(1);
}

/* Returns a number that mpirun or torchrun sets; -1 if neither is set. */
static int from_launcher(const char *mpi, const char *torch)
{
	const char *text = getenv(mpi) ? getenv(mpi) : getenv(torch);

	return text ? atoi(text) : -1;
}

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? strtoull(argv[1], NULL, 0) / sizeof(float) : 0, wrong = 0;
	int n = argc == 3 ? atoi(argv[2]) : 0, all;
	float *data[16], *host = malloc(count * sizeof *host);
	ncclUniqueId id;
	ncclComm_t comm[16];
	cudaStream_t stream[16];

	rank = from_launcher("OMPI_COMM_WORLD_RANK", "RANK");
	ranks = from_launcher("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE");
	local = from_launcher("OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK");
	all = ranks * n;
	if (!count || n < 1 || n > 16 || rank < 0 || !host) {
		fprintf(stderr, "usage: doppel exec --hosts N hosts BYTES GPUS (1 to 16 GPUs)\n");
		return 2;
	}
	/* from NCCL_COMM_ID: the same in every process */
	nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
	nccl(ncclGroupStart(), "ncclGroupStart");
	for (int i = 0; i < n; i++) {
		cuda(cudaSetDevice(local * n + i), "cudaSetDevice");
		nccl(ncclCommInitRank(&comm[i], all, id, rank * n + i), "ncclCommInitRank");
	}
	nccl(ncclGroupEnd(), "ncclGroupEnd");
	for (int i = 0; i < n; i++) {
		cuda(cudaSetDevice(local * n + i), "cudaSetDevice");
		cuda(cudaStreamCreate(&stream[i]), "cudaStreamCreate");
		cuda(cudaMalloc((void **)&data[i], count * sizeof *host), "cudaMalloc");
		for (size_t k = 0; k < count; k++)
			host[k] = (float)(rank * n + i + 1);
		cuda(cudaMemcpy(data[i], host, count * sizeof *host, cudaMemcpyHostToDevice),
		     "cudaMemcpy");
	}
	nccl(ncclGroupStart(), "ncclGroupStart");
	for (int i = 0; i < n; i++)
		nccl(ncclAllReduce(data[i], data[i], count, ncclFloat, ncclSum, comm[i], stream[i]),
		     "ncclAllReduce");
	nccl(ncclGroupEnd(), "ncclGroupEnd");
	for (int i = 0; i < n; i++) {
		cuda(cudaSetDevice(local * n + i), "cudaSetDevice");
		cuda(cudaStreamSynchronize(stream[i]), "cudaStreamSynchronize");
		cuda(cudaMemcpy(host, data[i], count * sizeof *host, cudaMemcpyDeviceToHost),
		     "cudaMemcpy");
		for (size_t k = 0; k < count; k++)
			wrong += host[k] != (float)(all * (all + 1) / 2);
		nccl(ncclCommDestroy(comm[i]), "ncclCommDestroy");
		cuda(cudaFree(data[i]), "cudaFree");
		cuda(cudaStreamDestroy(stream[i]), "cudaStreamDestroy");
	}
	printf("process %d of %d: %d GPUs, %zu floats each, %zu wrong\n", rank, ranks, n, count,
	       wrong);
	free(host);
	return wrong != 0;
}
