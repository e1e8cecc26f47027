/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of cuda_devapi_test.sh: kernels with NCCL's device API on GPUS GPUs of one process. A
 * rank has a window of BYTES bytes, a device communicator, and a word that counts wrong results.
 */
#ifndef TESTS_CONFORMANCE_DEVAPI_H
#define TESTS_CONFORMANCE_DEVAPI_H

#include <nccl_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 3, BYTES = 1 << 16, BARRIERS = 4, SLOTS = 64 };

#define NEED(call)                                                                                 \
	do {                                                                                       \
		int rc_ = (int)(call);                                                             \
		if (rc_) {                                                                         \
			printf("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, rc_,               \
			       ncclGetLastError(NULL));                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct gpu {
	ncclComm_t comm;
	cudaStream_t stream;
	char *data;
	int *wrong;
	ncclWindow_t win;
	ncclDevComm dev;
	ncclLLA2AHandle lines;
	ncclLsaBarrierHandle more; /* barriers of the list of requirements */
};

static gpu ranks[GPUS];

static void make_all()
{
	const int devices[GPUS] = {0, 1, 2};
	ncclDevResourceRequirements list[GPUS][2];
	ncclComm_t comm[GPUS];

	NEED(ncclCommInitAll(comm, GPUS, devices));
	NEED(ncclGroupStart());
	for (int g = 0; g < GPUS; g++) {
		gpu *me = &ranks[g];
		ncclDevCommRequirements reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;

		me->comm = comm[g];
		NEED(cudaSetDevice(g));
		NEED(cudaStreamCreate(&me->stream));
		NEED(cudaMalloc(&me->wrong, sizeof(int)));
		NEED(cudaMemset(me->wrong, 0, sizeof(int)));
		NEED(ncclMemAlloc((void **)&me->data, BYTES));
		NEED(cudaMemset(me->data, 0, BYTES));
		NEED(ncclCommWindowRegister(comm[g], me->data, BYTES, &me->win, 0));
		NEED(ncclLLA2ACreateRequirement(2, SLOTS, &me->lines, &list[g][0]));
		NEED(ncclLsaBarrierCreateRequirement(ncclTeamLsa(comm[g]), 2, &me->more,
						     &list[g][1]));
		list[g][0].next = &list[g][1];
		reqs.resourceRequirementsList = &list[g][0];
		reqs.lsaBarrierCount = BARRIERS;
		reqs.barrierCount = BARRIERS;
		NEED(ncclDevCommCreate(comm[g], &reqs, &me->dev));
	}
	NEED(ncclGroupEnd());
}

static void end_all()
{
	for (gpu &g : ranks) {
		NEED(ncclDevCommDestroy(g.comm, &g.dev));
		NEED(ncclCommWindowDeregister(g.comm, g.win));
	}
	for (gpu &g : ranks) {
		NEED(ncclCommDestroy(g.comm));
		NEED(ncclMemFree(g.data));
		NEED(cudaFree(g.wrong));
		NEED(cudaStreamDestroy(g.stream));
	}
}

/* Launches a kernel with arguments of each rank on all GPUs, and waits. Returns the number of wrong
 * results. */
template <class K, class... Args>
static int run_all(K kernel, dim3 blocks, dim3 threads, Args... args)
{
	int total = 0;

	for (int g = 0; g < GPUS; g++) {
		NEED(cudaSetDevice(g));
		kernel<<<blocks, threads, 0, ranks[g].stream>>>(ranks[g], args...);
		NEED(cudaGetLastError());
	}
	for (int g = 0; g < GPUS; g++) {
		int wrong = -1;

		NEED(cudaSetDevice(g));
		NEED(cudaStreamSynchronize(ranks[g].stream));
		NEED(cudaMemcpy(&wrong, ranks[g].wrong, sizeof wrong, cudaMemcpyDeviceToHost));
		NEED(cudaMemset(ranks[g].wrong, 0, sizeof(int)));
		total += wrong;
	}
	return total;
}

static int report(const char *name, int wrong)
{
	printf("%s %s\n", name, wrong ? "FAILED" : "ok");
	return wrong != 0;
}

#endif
