// SPDX-License-Identifier: BSD-3-Clause
// The device API between processes, each with GPUS GPUs: `doppel exec --procs` and `--hosts`. Ranks
// of a host sum over their team, by barriers and peer pointers, and by lines.
#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>

enum { GPUS = 2, COUNT = 64, BYTES = 4096 };

#define NEED(call)                                                                                 \
	do {                                                                                       \
		int rc_ = (int)(call);                                                             \
		if (rc_) {                                                                         \
			printf("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, rc_,               \
			       ncclGetLastError(NULL));                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

__global__ void sums(ncclWindow_t win, ncclDevComm comm, ncclLLA2AHandle lines, int *wrong)
{
	const ncclCoopWarp warp;
	const ncclTeam lsa = ncclTeamLsa(comm);
	const int i = threadIdx.x, expected = lsa.nRanks * (lsa.nRanks - 1) / 2;
	const ncclSymPtr<int> data(win);
	ncclLsaBarrierSession<ncclCoopWarp> bar(warp, comm, ncclTeamTagLsa(), 0);
	ncclLLA2ASession<ncclCoopWarp> s(warp, comm, lsa, lines, 0, COUNT);
	int sum = 0;

	data.localPtr()[i] = lsa.rank;
	bar.sync(warp, cuda::memory_order_acq_rel);
	for (int r = 0; r < lsa.nRanks; r++)
		sum += data.lsaPtr(r)[i];
	bar.sync(warp, cuda::memory_order_acq_rel);
	if (i < 4) {
		s.bcast(lsa.rank * 4 + i, lsa.rank);
		const int lined = s.recvReduce<2, int>(
			i, lsa.nRanks, 4, [](int v) { return v; },
			[](int a, int b) { return a + b; });
		if (lined != expected)
			atomicAdd(wrong, 1);
	}
	s.endEpoch(warp);
	if (sum != expected || ncclTeamRail(comm).nRanks * lsa.nRanks != comm.nRanks)
		atomicAdd(wrong, 1);
}

struct gpu {
	ncclComm_t comm;
	cudaStream_t stream;
	char *data;
	int *wrong;
	ncclWindow_t win;
	ncclDevComm dev;
	ncclLLA2AHandle lines;
	ncclDevResourceRequirements list;
};

static gpu ranks[GPUS];

static int number(const char *name)
{
	return getenv(name) ? atoi(getenv(name)) : -1;
}

static void make_all()
{
	const int first = number("RANK") * GPUS, all = number("WORLD_SIZE") * GPUS;
	ncclDevCommRequirements reqs[GPUS];
	ncclUniqueId id;

	NEED(ncclGetUniqueId(&id)); // from NCCL_COMM_ID: the same in every process
	NEED(ncclGroupStart());
	for (int g = 0; g < GPUS; g++) {
		NEED(cudaSetDevice(number("LOCAL_RANK") * GPUS + g));
		NEED(ncclCommInitRank(&ranks[g].comm, all, id, first + g));
	}
	NEED(ncclGroupEnd());
	NEED(ncclGroupStart());
	for (int g = 0; g < GPUS; g++) {
		gpu *me = &ranks[g];

		NEED(cudaSetDevice(number("LOCAL_RANK") * GPUS + g));
		NEED(cudaStreamCreate(&me->stream));
		NEED(cudaMalloc(&me->wrong, sizeof(int)));
		NEED(cudaMemset(me->wrong, 0, sizeof(int)));
		NEED(ncclMemAlloc((void **)&me->data, BYTES));
		NEED(ncclCommWindowRegister(me->comm, me->data, BYTES, &me->win, 0));
		NEED(ncclLLA2ACreateRequirement(1, COUNT, &me->lines, &me->list));
		reqs[g] = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
		reqs[g].lsaBarrierCount = 1;
		reqs[g].resourceRequirementsList = &me->list;
		NEED(ncclDevCommCreate(me->comm, &reqs[g], &me->dev));
	}
	NEED(ncclGroupEnd());
}

int main()
{
	int total = 0;

	make_all();
	for (int g = 0; g < GPUS; g++) {
		NEED(cudaSetDevice(number("LOCAL_RANK") * GPUS + g));
		for (int launch = 0; launch < 2; launch++)
			sums<<<1, 32, 0, ranks[g].stream>>>(ranks[g].win, ranks[g].dev,
							    ranks[g].lines, ranks[g].wrong);
	}
	for (int g = 0; g < GPUS; g++) {
		int wrong = -1;

		NEED(cudaSetDevice(number("LOCAL_RANK") * GPUS + g));
		NEED(cudaStreamSynchronize(ranks[g].stream));
		NEED(cudaMemcpy(&wrong, ranks[g].wrong, sizeof wrong, cudaMemcpyDeviceToHost));
		total += wrong;
		NEED(ncclDevCommDestroy(ranks[g].comm, &ranks[g].dev));
		NEED(ncclCommWindowDeregister(ranks[g].comm, ranks[g].win));
	}
	printf("process %d: a team of %d ranks, %d wrong\n", number("RANK"), ranks[0].dev.lsaSize,
	       total);
	for (gpu &g : ranks) {
		NEED(ncclCommDestroy(g.comm));
		NEED(ncclMemFree(g.data));
		NEED(cudaFree(g.wrong));
		NEED(cudaStreamDestroy(g.stream));
	}
	return total != 0;
}
