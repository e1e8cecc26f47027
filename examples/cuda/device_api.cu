// SPDX-License-Identifier: BSD-3-Clause
// An all-reduce by a kernel of one's own, with NCCL's device API: each block adds its part of the
// inputs of all ranks, and stores the sums to all of them. Barriers of the ranks are around it.
// doppel cc device_api.cu -lnccl -o device_api && doppel exec ./device_api
#include <nccl_device.h>
#include <stdio.h>

enum { GPUS = 4, COUNT = 1 << 12, THREADS = 64, BLOCKS = 3 };

// Window `win` has COUNT elements of input, then COUNT elements of output.
__global__ void all_reduce(ncclWindow_t win, ncclDevComm comm)
{
	const ncclCoopCta block;
	const ncclTeam lsa = ncclTeamLsa(comm);
	const ncclSymPtr<float> input(win), output = input + COUNT;
	ncclLsaBarrierSession<ncclCoopCta> barrier(block, comm, ncclTeamTagLsa(), blockIdx.x);

	// all inputs are written
	barrier.sync(block, cuda::memory_order_acquire);
	const int each = gridDim.x * blockDim.x * lsa.nRanks;
	for (int i = threadIdx.x + blockDim.x * (blockIdx.x + gridDim.x * lsa.rank); i < COUNT;
	     i += each) {
		float sum = 0;
		for (int rank = 0; rank < lsa.nRanks; rank++)
			sum += input.lsaPtr(rank)[i];
		for (int rank = 0; rank < lsa.nRanks; rank++)
			output.lsaPtr(rank)[i] = sum;
	}
	// all outputs are written
	barrier.sync(block, cuda::memory_order_acq_rel);
}

__global__ void fill(float *input, int rank)
{
	for (int i = threadIdx.x; i < COUNT; i += blockDim.x)
		input[i] = (rank + 1) * (i % 100);
}

struct gpu {
	ncclComm_t comm;
	cudaStream_t stream;
	float *data;
	ncclWindow_t win;
	ncclDevComm device;
};

static int make(gpu *all)
{
	ncclDevCommRequirements reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	const size_t bytes = 2 * COUNT * sizeof(float);
	const int devices[GPUS] = {0, 1, 2, 3};
	ncclComm_t comm[GPUS];

	if (ncclCommInitAll(comm, GPUS, devices))
		return 1;
	reqs.lsaBarrierCount = BLOCKS;
	ncclGroupStart();
	for (int g = 0; g < GPUS; g++) {
		all[g].comm = comm[g];
		cudaSetDevice(g);
		cudaStreamCreate(&all[g].stream);
		ncclMemAlloc((void **)&all[g].data, bytes);
		ncclCommWindowRegister(comm[g], all[g].data, bytes, &all[g].win, 0);
		ncclDevCommCreate(comm[g], &reqs, &all[g].device);
	}
	return ncclGroupEnd();
}

static int wrong(const gpu *g)
{
	static float got[COUNT];
	int n = 0;

	cudaMemcpy(got, g->data + COUNT, sizeof got, cudaMemcpyDeviceToHost);
	for (int i = 0; i < COUNT; i++)
		n += got[i] != GPUS * (GPUS + 1) / 2 * (i % 100);
	return n;
}

int main()
{
	gpu all[GPUS];
	int total = 0;

	if (make(all)) {
		printf("%s\n", ncclGetLastError(NULL));
		return 1;
	}
	for (int launch = 0; launch < 2; launch++)
		for (int g = 0; g < GPUS; g++) {
			cudaSetDevice(g);
			fill<<<1, THREADS, 0, all[g].stream>>>(all[g].data, g);
			all_reduce<<<BLOCKS, THREADS, 0, all[g].stream>>>(all[g].win,
									  all[g].device);
		}
	for (int g = 0; g < GPUS; g++) {
		cudaSetDevice(g);
		if (cudaStreamSynchronize(all[g].stream))
			return 2;
	}
	for (gpu &g : all) {
		total += wrong(&g);
		ncclDevCommDestroy(g.comm, &g.device);
		ncclCommWindowDeregister(g.comm, g.win);
	}
	for (gpu &g : all) {
		ncclCommDestroy(g.comm);
		ncclMemFree(g.data);
		cudaStreamDestroy(g.stream);
	}
	printf("all-reduce by the device API: %d wrong\n", total);
	return total != 0;
}
